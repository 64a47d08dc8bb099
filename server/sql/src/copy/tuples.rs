//! Rows in binary form: a head, then for each row a count and values with their lengths.
//!
//! Source: PostgreSQL 15 documentation, COPY, "Binary Format".

use isles::Datum;

use crate::binary::{from_binary, write_binary};
use crate::error::{Result, SqlError, state};
use crate::exec::Row;
use crate::types::SqlType;

/// The beginning of data.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Flags that a reader has to know.
const CRITICAL: u32 = 0xffff_0000;
/// The count that ends the data.
const END: i16 = -1;

/// Rows that come in pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// Before the head.
    #[default]
    Head,
    /// Before a row.
    Row,
    /// Behind the end.
    End,
}

fn bad(message: impl Into<String>) -> SqlError {
    SqlError::new(state::BAD_COPY, message)
}

/// Takes bytes from the beginning of `data`; `None` if they have not come.
fn take<const N: usize>(data: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = data.split_first_chunk::<N>()?;
    *data = rest;
    Some(*first)
}

fn head(data: &mut &[u8]) -> Result<bool> {
    let all = *data;
    let Some(signature) = take::<11>(data) else { return Ok(false) };
    if signature != *SIGNATURE {
        return Err(bad("COPY file signature not recognized"));
    }
    let (Some(flags), Some(more)) = (take(data), take(data)) else {
        *data = all;
        return Ok(false);
    };
    if u32::from_be_bytes(flags) & CRITICAL != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    let more = i32::from_be_bytes(more);
    let more = usize::try_from(more).map_err(|_| bad("invalid COPY file header (missing length)"))?;
    match data.split_at_checked(more) {
        Some((_, rest)) => {
            *data = rest;
            Ok(true)
        }
        None => {
            *data = all;
            Ok(false)
        }
    }
}

/// Reads the next row from the beginning of `data`; `None` if it has not come whole, or at the end.
pub fn next_row(data: &mut &[u8], place: &mut Place, columns: &[(&str, SqlType)]) -> Result<Option<Row>> {
    if *place == Place::Head {
        if !head(data)? {
            return Ok(None);
        }
        *place = Place::Row;
    }
    if *place == Place::End {
        if data.is_empty() {
            return Ok(None);
        }
        return Err(bad("received copy data after EOF marker"));
    }
    let mut rest = *data;
    let Some(count) = take(&mut rest).map(i16::from_be_bytes) else { return Ok(None) };
    if count == END {
        (*data, *place) = (rest, Place::End);
        return next_row(data, place, columns);
    }
    if usize::try_from(count) != Ok(columns.len()) {
        return Err(bad(format!("row field count is {count}, expected {}", columns.len())));
    }
    let mut row = Vec::with_capacity(columns.len());
    for (name, kind) in columns {
        let Some(length) = take(&mut rest).map(i32::from_be_bytes) else { return Ok(None) };
        if length == -1 {
            row.push(Datum::Null);
            continue;
        }
        let length = usize::try_from(length).map_err(|_| bad("invalid field size"))?;
        let Some((value, behind)) = rest.split_at_checked(length) else { return Ok(None) };
        rest = behind;
        let value = from_binary(value, kind).map_err(|error| error.detail(format!("column {name}")))?;
        row.push(value);
    }
    *data = rest;
    Ok(Some(row))
}

/// Returns the head of data.
pub fn data_head() -> Vec<u8> {
    let mut head = SIGNATURE.to_vec();
    head.extend([0; 8]);
    head
}

/// Returns the end of data.
pub fn data_end() -> Vec<u8> {
    END.to_be_bytes().to_vec()
}

/// Returns the form of a row.
pub fn row_bytes<'k>(row: &[Datum], kinds: impl Iterator<Item = &'k SqlType>) -> Vec<u8> {
    let mut bytes = (row.len() as i16).to_be_bytes().to_vec();
    for (value, kind) in row.iter().zip(kinds) {
        if *value == Datum::Null {
            bytes.extend((-1_i32).to_be_bytes());
            continue;
        }
        let start = bytes.len();
        bytes.extend([0; 4]);
        write_binary(value, kind, &mut bytes);
        let length = (bytes.len() - start - 4) as i32;
        bytes[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [(&str, SqlType); 2] = [("a", SqlType::Int4), ("b", SqlType::Text)];

    fn all(data: &[u8], piece: usize) -> Result<(Vec<Row>, Place)> {
        let (mut pending, mut place, mut rows) = (Vec::new(), Place::Head, Vec::new());
        for piece in data.chunks(piece) {
            pending.extend(piece);
            let mut rest = &pending[..];
            while let Some(row) = next_row(&mut rest, &mut place, &KINDS)? {
                rows.push(row);
            }
            pending = rest.to_vec();
        }
        assert!(pending.is_empty() || place != Place::End, "{pending:?}");
        Ok((rows, place))
    }

    #[test]
    fn rows_come_back_in_pieces_of_any_length() {
        let rows = vec![
            vec![Datum::Signed(-7), Datum::Text("seven".to_owned())],
            vec![Datum::Null, Datum::Text(String::new())],
            vec![Datum::Signed(1), Datum::Null],
        ];
        let mut data = data_head();
        rows.iter().for_each(|row| data.extend(row_bytes(row, KINDS.iter().map(|(_, kind)| kind))));
        let without_end = data.clone();
        data.extend(data_end());
        for piece in 1..=data.len() {
            assert_eq!(all(&data, piece), Ok((rows.clone(), Place::End)), "{piece}");
        }
        assert_eq!(all(&without_end, 5), Ok((rows, Place::Row)));
        data.push(0);
        assert!(all(&data, 1).is_err(), "data behind the end");
    }

    #[test]
    fn no_bytes_panic_or_take_more_memory_than_they_have() {
        let mut state = 11_u64;
        let mut refused = 0;
        for round in 0..20_000 {
            let mut data = data_head();
            data.truncate(if round % 3 == 0 { round % 19 } else { 19 });
            for _ in 0..round % 40 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                data.push(if state >> 62 == 0 { (state >> 40) as u8 } else { (state >> 61) as u8 % 5 });
            }
            refused += usize::from(all(&data, 1 + round % 7).is_err());
        }
        assert!(refused > 1_000, "{refused}");
    }
}
