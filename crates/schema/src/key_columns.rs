//! The columns of a row's primary key as bytes: how logs and streams of changes name rows.
//!
//! ```text
//! key: each column in the order of the key: bytes as they lie in the row's fixed part; of a column in the tail
//!      u16 (bytes), bytes
//! ```
//!
//! A key whose columns are all in the fixed part has always the same length.

use crate::description::{Place, TableDescription};
use crate::row_format::{TailColumns, TailWriter};

/// The place of a column of the primary key in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPlace {
    /// Start and end in the fixed part.
    Fixed(usize, usize),
    /// Number in the directory of the tail.
    Tail(usize),
}

/// The places of the columns of a table's primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumns {
    places: Vec<KeyPlace>,
    row_bytes: usize,
}

impl KeyColumns {
    /// Those of this table.
    pub fn of(table: &TableDescription) -> Self {
        let place = |column: &usize| match (table.place(*column), table.span(*column)) {
            (Place::Tail(number), _) => Some(KeyPlace::Tail(number)),
            (_, span) => span.map(|(start, end)| KeyPlace::Fixed(start, end)),
        };
        let places = table.indexes()[0].columns.iter().filter_map(place).collect();
        KeyColumns { places, row_bytes: table.row_bytes() }
    }

    /// Returns the places, in the order of the key.
    pub fn places(&self) -> &[KeyPlace] {
        &self.places
    }

    /// Returns true if a column is in the tail.
    pub fn are_in_tail(&self) -> bool {
        self.places.iter().any(|place| matches!(place, KeyPlace::Tail(_)))
    }

    /// Appends the key of a row.
    pub fn put(&self, fixed: &[u8], tail: &[u8], to: &mut Vec<u8>) {
        let columns = TailColumns::of(tail);
        for place in &self.places {
            match place {
                KeyPlace::Fixed(start, end) => to.extend_from_slice(&fixed[*start..*end]),
                KeyPlace::Tail(number) => {
                    let bytes = columns.bytes(*number).unwrap_or(&[]);
                    // A longer one belongs to no row: keys have 2 KiB at most.
                    to.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
                    to.extend_from_slice(bytes);
                }
            }
        }
    }

    /// Takes a key off the beginning of some bytes; `None` if they end too soon.
    pub fn take<'a>(&self, rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let mut bytes = 0;
        for place in &self.places {
            bytes += match place {
                KeyPlace::Fixed(start, end) => end - start,
                KeyPlace::Tail(_) => {
                    let length = rest.get(bytes..bytes + 2)?;
                    2 + usize::from(u16::from_le_bytes([length[0], length[1]]))
                }
            };
        }
        let (key, behind) = rest.split_at_checked(bytes)?;
        *rest = behind;
        Some(key)
    }

    /// Makes a row of which only the columns of its key are there: fixed part and tail. Columns
    /// that the bytes do not have stay empty.
    pub fn row(&self, mut key: &[u8], fixed: &mut Vec<u8>, tail: &mut Vec<u8>) {
        fixed.clear();
        fixed.resize(self.row_bytes, 0);
        let mut columns: Vec<Option<&[u8]>> = Vec::new();
        for place in &self.places {
            match place {
                KeyPlace::Fixed(start, end) => {
                    let (column, others) = key.split_at((end - start).min(key.len()));
                    fixed[*start..start + column.len()].copy_from_slice(column);
                    key = others;
                }
                KeyPlace::Tail(number) => {
                    let (length, others) = key.split_at(2.min(key.len()));
                    let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
                    let (column, others) = others.split_at(length.min(others.len()));
                    columns.resize(columns.len().max(number + 1), None);
                    columns[*number] = Some(column);
                    key = others;
                }
            }
        }
        tail.clear();
        if !columns.is_empty() {
            let mut writer = TailWriter::new();
            columns.into_iter().for_each(|column| writer.column(column));
            tail.extend_from_slice(&writer.into_tail());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnDescription, Datum, RowBytes, TableBuilder, ValueType};

    fn column(name: &str, kind: ValueType) -> ColumnDescription {
        ColumnDescription::new(name, kind)
    }

    #[test]
    fn keys_are_read_back_as_rows() {
        let table = TableBuilder::new("t")
            .column(column("note", ValueType::String).nullable())
            .column(column("id", ValueType::Unsigned(4)))
            .column(column("name", ValueType::String))
            .column(column("bytes", ValueType::Bytes))
            .key(["name", "id", "bytes"])
            .build()
            .expect("a table");
        let columns = KeyColumns::of(&table);
        assert!(columns.are_in_tail());
        for (name, bytes) in [("", vec![]), ("a name", vec![0, 1, 255]), (&*"x".repeat(900), vec![7; 900])] {
            let values =
                [Datum::Text("n".into()), Datum::Unsigned(9), Datum::Text(name.into()), Datum::Bytes(bytes)];
            let mut row = RowBytes::default();
            table.encode_row(&values, &mut row).expect("a row");
            let mut key = Vec::new();
            columns.put(&row.fixed, &row.tail, &mut key);
            let with_more = [&key[..], &[1, 2, 3]].concat();
            let mut rest = &with_more[..];
            assert_eq!((columns.take(&mut rest), rest), (Some(&key[..]), &[1, 2, 3][..]));
            for cut in 0..key.len() {
                assert_eq!(columns.take(&mut &key[..cut]), None);
                columns.row(&key[..cut], &mut Vec::new(), &mut Vec::new());
            }
            let (mut fixed, mut tail) = (Vec::new(), Vec::new());
            columns.row(&key, &mut fixed, &mut tail);
            assert_eq!(table.key_of(0, &fixed, &tail), row.keys[0]);
            let read = |column| table.decode_column(column, &fixed, &tail).expect("a column");
            assert_eq!([1, 2, 3].map(read), [1, 2, 3].map(|column| values[column].clone()));
        }
    }
}
