//! Byte format of rows in memory, in the log and in checkpoints, and encoding and decoding of rows
//! by a description.
//!
//! ```text
//! row:   | fixed part                                         | tail, if the table has tails |
//!
//! fixed: | column | column |  gap  | column | ... | null bits | zeros up to a multiple of 8 bytes |
//!          columns of fixed length, in the order of declaration, each at the next multiple of its alignment, little-endian;
//!          one bit for each of them that is nullable, in the same order, 1 where the row has no value (whose bytes are zeros);
//!          without nullable columns there are no bits; between the columns there are zeros
//!
//! tail, of a table whose last column is the whole tail: the bytes of that column
//!
//! tail, with a directory:
//!        | count: u16 | end: u16 or u32 | end | ... | column | column | ...
//!          columns of no fixed length, and columns that were added, in the order of declaration
//!          count: how many columns the row was written with; the highest bit is set if ends have 4 bytes
//!          end: where the column ends, from the end of the directory on; the highest bit is set if the row has no value
//!          no bytes at all: no columns
//! ```
//!
//! If a row was written with fewer columns than the table has, each missing column has its default,
//! or null. A column can therefore be added by a change of the description, without rewriting rows.
//! Equal rows have equal bytes: ends have 4 bytes only if the columns together have [`WIDE_BYTES`]
//! bytes or more.
//!
//! Decision 0014 gives the reasons for this format.

use crate::datum::{Datum, Misfit, unsigned};
use crate::description::{ColumnDescription, IndexDescription, Place, TableDescription, TailForm};
use crate::key::{Key, KeySink, key_words};
use crate::key_order::{Presence, ordered_float};
use crate::long_key::AnyKey;
use crate::row::Value;
use crate::row_error::RowError;
use crate::temporal::Interval;
use crate::value_error::start_of;
use crate::value_type::{LONG, ValueType};

/// Total bytes of the columns in the tail from which on ends have 4 bytes.
pub const WIDE_BYTES: usize = 1 << 15;
/// Longest tail in bytes.
pub const TAIL_BYTES_MAX: usize = terms::rows::TAIL_BYTES_MAX;
/// Flag of the count: ends have 4 bytes.
const WIDE: u16 = 1 << 15;
/// Flag of an end of 4 bytes, and of 2 bytes: the column is null.
const NULL: u32 = 1 << 31;
const NARROW_NULL: u16 = 1 << 15;

const _: () = assert!(TAIL_BYTES_MAX < NULL as usize);
const _: () = assert!(crate::table_limits::COLUMNS_MAX < WIDE as usize);

/// A row in the form that verbs take.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowBytes {
    /// The fixed part.
    pub fixed: Vec<u8>,
    /// The tail.
    pub tail: Vec<u8>,
    /// The key in each index, the primary key first.
    pub keys: Vec<AnyKey>,
}

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored<'a> {
    Value(&'a [u8]),
    Null,
    /// The row was written without the column.
    Absent,
}

/// A tail with a directory.
#[derive(Clone, Copy)]
pub struct TailColumns<'a> {
    count: usize,
    wide: bool,
    ends: &'a [u8],
    data: &'a [u8],
}

impl<'a> TailColumns<'a> {
    /// Used by `#[derive(Row)]`: parses a tail returned by the engine. Invalid bytes yield no
    /// columns.
    pub fn of(tail: &'a [u8]) -> Self {
        TailColumns::read(tail).unwrap_or(TailColumns { count: 0, wide: false, ends: &[], data: &[] })
    }

    /// Used by `#[derive(Row)]`: returns the bytes of a column, unless it is null.
    pub fn bytes(&self, number: usize) -> Option<&'a [u8]> {
        match self.column(number) {
            Some(Stored::Value(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Used by `#[derive(Row)]`: returns the text of a column, unless it is null.
    pub fn text(&self, number: usize) -> Option<String> {
        self.bytes(number).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn read(tail: &'a [u8]) -> Option<Self> {
        let Some((head, rest)) = tail.split_first_chunk() else {
            let none = TailColumns { count: 0, wide: false, ends: &[], data: &[] };
            return tail.is_empty().then_some(none);
        };
        let head = u16::from_le_bytes(*head);
        let (count, wide) = (usize::from(head & !WIDE), head & WIDE != 0);
        let (ends, data) = rest.split_at_checked(count * if wide { 4 } else { 2 })?;
        Some(TailColumns { count, wide, ends, data })
    }

    /// Returns the end of a column, and true if the column is null.
    fn end(&self, number: usize) -> Option<(usize, bool)> {
        if self.wide {
            let end = unsigned(self.ends.get(4 * number..4 * number + 4)?) as u32;
            Some(((end & !NULL) as usize, end & NULL != 0))
        } else {
            let end = unsigned(self.ends.get(2 * number..2 * number + 2)?) as u16;
            Some((usize::from(end & !NARROW_NULL), end & NARROW_NULL != 0))
        }
    }

    fn column(&self, number: usize) -> Option<Stored<'a>> {
        if number >= self.count {
            return Some(Stored::Absent);
        }
        let start = if number == 0 { 0 } else { self.end(number - 1)?.0 };
        let (end, null) = self.end(number)?;
        let bytes = self.data.get(start..end)?;
        Some(if null { Stored::Null } else { Stored::Value(bytes) })
    }
}

/// Returns true if these columns are the same in two tails with directories.
pub fn tails_agree(columns: &[usize], left: &[u8], right: &[u8]) -> bool {
    let (left, right) = (TailColumns::of(left), TailColumns::of(right));
    columns.iter().all(|column| left.bytes(*column) == right.bytes(*column))
}

/// Builder of a tail with a directory.
#[derive(Default)]
pub struct TailWriter {
    ends: Vec<u32>,
    data: Vec<u8>,
}

impl TailWriter {
    /// Used by `#[derive(Row)]`: begins a tail.
    pub fn new() -> Self {
        TailWriter::default()
    }

    /// Used by `#[derive(Row)]`: appends a column.
    pub fn column(&mut self, bytes: Option<&[u8]>) {
        self.data.extend_from_slice(bytes.unwrap_or(&[]));
        self.end(bytes.is_none());
    }

    /// Used by `#[derive(Row)]`: returns the tail.
    pub fn into_tail(self) -> Vec<u8> {
        let mut tail = Vec::with_capacity(self.data.len() + 4 * self.ends.len() + 2);
        self.finish(&mut tail);
        tail
    }

    /// Ends a column, whose bytes were appended to the data.
    fn end(&mut self, null: bool) {
        self.ends.push(self.data.len() as u32 | if null { NULL } else { 0 });
    }

    /// Appends the tail.
    fn finish(&self, to: &mut Vec<u8>) {
        if self.ends.is_empty() {
            return;
        }
        let wide = self.data.len() >= WIDE_BYTES;
        let head = self.ends.len() as u16 | if wide { WIDE } else { 0 };
        to.extend_from_slice(&head.to_le_bytes());
        for end in &self.ends {
            if wide {
                to.extend_from_slice(&end.to_le_bytes());
            } else {
                let null = if end & NULL != 0 { NARROW_NULL } else { 0 };
                to.extend_from_slice(&((end & !NULL) as u16 | null).to_le_bytes());
            }
        }
        to.extend_from_slice(&self.data);
    }
}

impl TableDescription {
    /// Returns an empty row: nulls, or zeros and empty texts in columns that are not nullable.
    pub fn empty_row(&self) -> Result<(Vec<u8>, Vec<u8>), RowError> {
        let mut row = RowBytes::default();
        let values: Vec<_> = self.columns.iter().map(|column| column.empty_value()).collect();
        self.encode_row(&values, &mut row)?;
        Ok((row.fixed, row.tail))
    }

    /// Encodes a row of these values, one for each column, and its keys.
    ///
    /// # Errors
    /// The first value that does not fit.
    pub fn encode_row(&self, values: &[Datum], to: &mut RowBytes) -> Result<(), RowError> {
        if values.len() != self.columns.len() {
            let (table, values, columns) = (self.name.clone(), values.len(), self.columns.len());
            return Err(RowError::Count { table, values, columns });
        }
        let RowBytes { fixed, tail, keys } = to;
        fixed.clear();
        fixed.resize(self.row_bytes, 0);
        tail.clear();
        let mut writer = TailWriter::default();
        for (number, value) in values.iter().enumerate() {
            self.put(number, value, fixed, tail, &mut writer)?;
        }
        self.finish_tail(&writer, tail)?;
        self.put_keys(fixed, tail, keys)
    }

    /// Replaces `keys` by the keys of a row, one an index.
    ///
    /// # Errors
    /// A key is too long.
    pub fn put_keys(&self, fixed: &[u8], tail: &[u8], keys: &mut Vec<AnyKey>) -> Result<(), RowError> {
        keys.clear();
        for index in 0..self.indexes.len() {
            let key = self.key_of(index, fixed, tail);
            if key.is_too_long() {
                return Err(self.key_too_long(index, key.bits() as usize / 8));
            }
            keys.push(key);
        }
        Ok(())
    }

    /// Returns the words of the keys of a row, one key an index.
    pub fn words_of<'k>(&self, keys: &'k [AnyKey]) -> Vec<&'k [u64]> {
        keys.iter().zip(&self.indexes).map(|(key, index)| key.words(key_words(index.key_bits))).collect()
    }

    /// The error for a key of this many bytes.
    pub fn key_too_long(&self, index: usize, bytes: usize) -> RowError {
        let (table, index) = (self.name.clone(), self.indexes[index].name.clone());
        RowError::KeyTooLong { table, index, bytes }
    }

    /// Writes one value.
    fn put(
        &self,
        number: usize,
        value: &Datum,
        fixed: &mut [u8],
        tail: &mut Vec<u8>,
        writer: &mut TailWriter,
    ) -> Result<(), RowError> {
        let column = &self.columns[number];
        let null = *value == Datum::Null;
        if null && !column.nullable {
            return Err(RowError::Null { table: self.name.clone(), column: column.name.clone() });
        }
        let written = match self.places[number] {
            Place::Fixed { null: Some(bit), .. } if null => {
                self.set_null(bit, fixed);
                Ok(())
            }
            Place::Fixed { offset, .. } => {
                value.store(&column.kind, &mut fixed[offset..][..column.kind.bytes().unwrap_or(0)])
            }
            Place::WholeTail => value.append(&column.kind, tail),
            Place::Tail(_) => {
                let appended = if null { Ok(()) } else { value.append(&column.kind, &mut writer.data) };
                writer.end(null);
                appended
            }
        };
        written.map_err(|misfit| self.misfit(number, value, misfit))
    }

    /// The error of a value that does not fit into a column.
    fn misfit(&self, number: usize, value: &Datum, misfit: Misfit) -> RowError {
        let ColumnDescription { name, kind, .. } = &self.columns[number];
        let (values, limits) = kind.values_and_limits();
        let (table, column, kind, value) =
            (self.name.clone(), name.clone(), kind.to_string(), value.to_string());
        let value = match start_of(&value) {
            start if start.len() < value.len() => format!("{start}..."),
            _ => value,
        };
        match misfit {
            Misfit::Type => RowError::Type { table, column, kind, value, cure: values },
            Misfit::Range => RowError::Range { table, column, kind, value, cure: limits },
        }
    }

    fn set_null(&self, bit: usize, fixed: &mut [u8]) {
        fixed[self.nulls_at + bit / 8] |= 1 << (bit % 8);
    }

    fn finish_tail(&self, writer: &TailWriter, tail: &mut Vec<u8>) -> Result<(), RowError> {
        if self.tail == TailForm::Directory {
            writer.finish(tail);
        }
        match tail.len() {
            bytes if bytes > TAIL_BYTES_MAX => Err(RowError::TailTooLong { table: self.name.clone(), bytes }),
            _ => Ok(()),
        }
    }

    /// Decodes a row into one value for each column.
    ///
    /// # Errors
    /// [`RowError::Damaged`] if the bytes are not a row of the table.
    pub fn decode_row(&self, fixed: &[u8], tail: &[u8]) -> Result<Vec<Datum>, RowError> {
        (0..self.columns.len()).map(|column| self.decode_column(column, fixed, tail)).collect()
    }

    /// Decodes one column of a row.
    ///
    /// # Errors
    /// [`RowError::Damaged`] if the bytes are not a row of the table.
    pub fn decode_column(&self, number: usize, fixed: &[u8], tail: &[u8]) -> Result<Datum, RowError> {
        let column = &self.columns[number];
        match self.stored(number, fixed, tail)? {
            Stored::Value(bytes) => Datum::fetch(&column.kind, bytes).ok_or_else(|| self.damaged(number)),
            Stored::Null => Ok(Datum::Null),
            Stored::Absent => Ok(column.absent_value().clone()),
        }
    }

    fn damaged(&self, column: usize) -> RowError {
        RowError::Damaged { table: self.name.clone(), column: self.columns[column].name.clone() }
    }

    /// Content of a column.
    fn stored<'a>(&self, column: usize, fixed: &'a [u8], tail: &'a [u8]) -> Result<Stored<'a>, RowError> {
        let found = match self.places[column] {
            Place::Fixed { null: Some(bit), .. }
                if fixed.get(self.nulls_at + bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 != 0) =>
            {
                Some(Stored::Null)
            }
            Place::Fixed { offset, .. } => {
                let bytes = self.columns[column].kind.bytes().unwrap_or(0);
                fixed.get(offset..offset + bytes).map(Stored::Value)
            }
            Place::WholeTail => Some(Stored::Value(tail)),
            Place::Tail(number) => TailColumns::read(tail).and_then(|columns| columns.column(number)),
        };
        found.ok_or_else(|| self.damaged(column))
    }

    /// Returns the normalized key in index number `index` of a row.
    pub fn key_of(&self, index: usize, fixed: &[u8], tail: &[u8]) -> AnyKey {
        let mut key = AnyKey::new(self.indexes[index].key_bits);
        let has_null = self.append_columns(index, usize::MAX, (fixed, tail), &mut key);
        if has_null && self.has_distinct_nulls(&self.indexes[index]) {
            self.append_columns(0, usize::MAX, (fixed, tail), &mut key);
        }
        key
    }

    /// Appends the first `count` columns of index number `index`. Returns true if one of them is
    /// null.
    pub(crate) fn append_columns(
        &self,
        index: usize,
        count: usize,
        (fixed, tail): (&[u8], &[u8]),
        to: &mut impl KeySink,
    ) -> bool {
        let IndexDescription { columns, orders, .. } = &self.indexes[index];
        let mut has_null = false;
        for (number, order) in columns.iter().zip(orders).take(count) {
            let column = &self.columns[*number];
            // A row that cannot be read was refused before.
            let value = match self.stored(*number, fixed, tail) {
                Ok(Stored::Value(bytes)) => Some(bytes),
                _ => None,
            };
            let presence = match (column.nullable, value) {
                (false, _) => Presence::NotNullable,
                (true, None) => Presence::Null,
                (true, Some(_)) => Presence::Value,
            };
            has_null |= presence == Presence::Null;
            order.append(presence, 8 * column.kind.bytes().unwrap_or(0) as u32, to, |to| {
                append_key(&column.kind, value.unwrap_or(&[]), to);
            });
        }
        has_null
    }

    /// Returns true if a column of the fixed part is null.
    pub(crate) fn is_null(&self, column: usize, fixed: &[u8]) -> bool {
        matches!(self.stored(column, fixed, &[]), Ok(Stored::Null))
    }

    /// Returns the normalized key of these values, one for each column of index number `index`.
    ///
    /// # Errors
    /// The first value that does not fit, or a wrong number of values.
    pub fn encode_key(&self, index: usize, values: &[Datum]) -> Result<AnyKey, RowError> {
        let columns = &self.indexes[index].columns;
        if values.len() != columns.len() {
            let (table, values, columns) = (self.name.clone(), values.len(), columns.len());
            return Err(RowError::Count { table, values, columns });
        }
        let (fixed, tail) = self.row_of(columns, values)?;
        Ok(self.key_of(index, &fixed, &tail))
    }

    /// Returns a row with these columns and no others.
    pub(crate) fn row_of(&self, columns: &[usize], values: &[Datum]) -> Result<(Vec<u8>, Vec<u8>), RowError> {
        let (mut fixed, mut tail, mut writer) = (vec![0; self.row_bytes], Vec::new(), TailWriter::default());
        for number in 0..self.columns.len() {
            match columns.iter().position(|column| *column == number) {
                Some(place) => self.put(number, &values[place], &mut fixed, &mut tail, &mut writer)?,
                None if matches!(self.places[number], Place::Tail(_)) => writer.end(true),
                None => {}
            }
        }
        self.finish_tail(&writer, &mut tail)?;
        Ok((fixed, tail))
    }

    /// Converts a row of this table to a row of `to`. Columns are identified by their names. A
    /// column that this table lacks, or that is null here and not nullable in `to`, gets its value
    /// from `template`, a row of `to`, or its default.
    pub fn convert(
        &self,
        to: &TableDescription,
        fixed: &[u8],
        tail: &[u8],
        template: Option<(&[u8], &[u8])>,
    ) -> Result<(Vec<u8>, Vec<u8>), RowError> {
        let (mut new, mut new_tail) = (vec![0; to.row_bytes], Vec::new());
        let mut writer = TailWriter::default();
        for (number, column) in to.columns.iter().enumerate() {
            let own = match self.counterpart(to, number) {
                Some(own) => Some(self.value(own, fixed, tail)?),
                None => None,
            };
            let own = own.filter(|value| *value != Err(&Datum::Null) || column.nullable);
            if let (Some(own_value), Some(own)) = (own, self.counterpart(to, number)) {
                let kind = &self.columns[own].kind;
                if !kind.is_stored_like(&column.kind) {
                    let value = match own_value {
                        Ok(bytes) => Datum::fetch(kind, bytes).ok_or_else(|| self.damaged(own))?,
                        Err(value) => value.clone(),
                    };
                    let cast = value.clone().cast(kind, &column.kind);
                    let cast = cast.map_err(|misfit| to.misfit(number, &value, misfit))?;
                    to.put(number, &cast, &mut new, &mut new_tail, &mut writer)?;
                    continue;
                }
            }
            let value = match (own, template) {
                (Some(own), _) => own,
                (None, Some((fixed, tail))) => to.value(number, fixed, tail)?,
                (None, None) => Err(column.absent_value()),
            };
            let bytes = match value {
                Ok(bytes) => bytes,
                Err(value) => {
                    to.put(number, value, &mut new, &mut new_tail, &mut writer)?;
                    continue;
                }
            };
            match to.places[number] {
                Place::Fixed { offset, .. } => new[offset..offset + bytes.len()].copy_from_slice(bytes),
                Place::WholeTail => new_tail.extend_from_slice(bytes),
                Place::Tail(_) => {
                    writer.data.extend_from_slice(bytes);
                    writer.end(false);
                }
            }
        }
        to.finish_tail(&writer, &mut new_tail)?;
        to.regenerate(new, new_tail)
    }

    /// Returns the content of a column: its bytes, or the value of a column without bytes.
    fn value<'a>(
        &'a self,
        column: usize,
        fixed: &'a [u8],
        tail: &'a [u8],
    ) -> Result<Result<&'a [u8], &'a Datum>, RowError> {
        Ok(match self.stored(column, fixed, tail)? {
            Stored::Value(bytes) => Ok(bytes),
            Stored::Null => Err(&Datum::Null),
            Stored::Absent => Err(self.columns[column].absent_value()),
        })
    }
}

/// Appends the normalized form of a column's bytes.
fn append_key(kind: &ValueType, bytes: &[u8], to: &mut impl KeySink) {
    match kind {
        // The key has the same bytes as the row.
        ValueType::Unsigned(LONG) | ValueType::Signed(LONG) => {
            bytes.iter().for_each(|byte| to.push(u64::from(*byte), 8));
        }
        ValueType::Unsigned(length) => to.push(unsigned(bytes), 8 * *length as u32),
        ValueType::Signed(length) => {
            let bits = 8 * *length as u32;
            to.push(unsigned(bytes) ^ 1 << (bits - 1), bits);
        }
        ValueType::Float(length) => {
            let bits = 8 * *length as u32;
            to.push(ordered_float(unsigned(bytes), bits), bits);
        }
        ValueType::Bytes | ValueType::String | ValueType::VarChar(_) => to.push_terminated(bytes),
        ValueType::Interval => Interval::fetch(bytes).append(to),
        kind => match kind.integer_bytes() {
            Some(length) => append_key(&ValueType::Signed(length), bytes, to),
            None => bytes.iter().for_each(|byte| to.push(u64::from(*byte), 8)),
        },
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod typed_tests;
