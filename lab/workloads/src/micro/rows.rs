//! The layouts of a row: key, counter, payload.
//!
//! Row lengths of the published experiments are types of their own, so that a row is copied by code
//! that knows its length: 80 bytes (10 integers), 248 (about 250) and 1504 (1.5 GB for a million
//! rows). Rows of any other length keep their payload in the variable-length part, which costs one
//! more miss for each row that is read. Lengths are rounded to the nearest multiple of 8 before the
//! type is chosen.

use boundary::Verbs;
use platform::Intent;
use schema::{
    Column, Field, Handle, IndexId, IndexInfo, Key, KeySink, Row, Schema, Table, TableOptions, Value,
};

use crate::batch::mix;

/// A row of the microbenchmark.
pub trait CountedRow: Row<Key = u64> {
    /// The counter that updates increment.
    const COUNTER: Field<Self, u64>;
    /// Creates the row of this key with `bytes` bytes, rounded as the layout requires.
    fn make(key: u64, bytes: usize) -> Self;
    /// The counter.
    fn counter(&self) -> u64;
    /// A number that depends on all words of the row.
    fn digest(&self) -> u64;
    /// True if the payload is the one that [`Self::make`] computed.
    fn is_intact(&self) -> bool;
    /// Prefetches the part of the row beyond its first line.
    fn prefetch<T: Verbs>(handle: Handle<Self>, transaction: &mut T);
}

/// A row with `PAYLOAD` words besides key and counter.
#[derive(Clone, Debug, PartialEq)]
pub struct FixedRow<const PAYLOAD: usize> {
    /// Site and number.
    pub id: u64,
    /// Updates so far.
    pub counter: u64,
    /// A function of the key.
    pub payload: [u64; PAYLOAD],
}

const fn column<V: Value>(name: &'static str, offset: usize) -> Column {
    Column { name, offset, bytes: V::BYTES, kind: V::value_type, nullable: false }
}

impl<const PAYLOAD: usize> FixedRow<PAYLOAD> {
    /// The primary key.
    pub const KEY: IndexId<Self, u64> = IndexId::new(0);
    const PAYLOAD_FIELD: Field<Self, [u64; PAYLOAD]> = Field::new(16);
}

// Written by hand, because the derive macro does not support generic rows.
impl<const PAYLOAD: usize> Row for FixedRow<PAYLOAD> {
    const NAME: &'static str = "FixedRow";
    const BYTES: usize = 16 + 8 * PAYLOAD;
    const COLUMNS: &'static [Column] =
        &[column::<u64>("id", 0), column::<u64>("counter", 8), column::<[u64; PAYLOAD]>("payload", 16)];
    const INDEXES: &'static [IndexInfo] = &[IndexInfo {
        name: "primary",
        unique: true,
        nulls_not_distinct: false,
        columns: &["id"],
        orders: &[],
        key_bits: u64::BITS,
        variable: false,
    }];
    const HAS_TAIL: bool = false;
    type Key = u64;

    fn key(&self) -> u64 {
        self.id
    }

    fn index_key(&self, index: usize, to: &mut impl KeySink) {
        assert!(index == 0, "there is one index");
        self.id.append(to);
    }

    #[inline(always)]
    fn store(&self, to: &mut [u8]) {
        self.id.store(to);
        self.counter.store(&mut to[8..]);
        self.payload.store(&mut to[16..]);
    }

    #[inline(always)]
    fn fetch(from: &[u8], _: &[u8]) -> Self {
        FixedRow { id: u64::fetch(from), counter: u64::fetch(&from[8..]), payload: Value::fetch(&from[16..]) }
    }
}

impl<const PAYLOAD: usize> CountedRow for FixedRow<PAYLOAD> {
    const COUNTER: Field<Self, u64> = Field::new(8);

    fn make(key: u64, _: usize) -> Self {
        FixedRow { id: key, counter: 0, payload: std::array::from_fn(|word| mix(key, word as u64)) }
    }

    fn counter(&self) -> u64 {
        self.counter
    }

    #[inline]
    fn digest(&self) -> u64 {
        self.payload.iter().fold(self.id ^ self.counter, |sum, word| sum ^ word)
    }

    fn is_intact(&self) -> bool {
        self.payload.iter().enumerate().all(|(word, value)| *value == mix(self.id, word as u64))
    }

    #[inline]
    fn prefetch<T: Verbs>(handle: Handle<Self>, transaction: &mut T) {
        transaction.prefetch(handle, Self::PAYLOAD_FIELD, Intent::Read);
    }
}

/// A row of any length: the payload is in the variable-length part.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(key(id))]
pub struct TailedRow {
    /// Site and number.
    pub id: u64,
    /// Updates so far.
    pub counter: u64,
    /// A function of the key and its length.
    #[row(tail)]
    pub payload: Vec<u8>,
}

fn payload_byte(key: u64, index: usize) -> u8 {
    (mix(key, index as u64 / 8) >> (index % 8 * 8)) as u8
}

impl CountedRow for TailedRow {
    const COUNTER: Field<Self, u64> = Self::COUNTER;

    fn make(key: u64, bytes: usize) -> Self {
        let payload = (0..rounded(bytes) - 16).map(|index| payload_byte(key, index)).collect();
        TailedRow { id: key, counter: 0, payload }
    }

    fn counter(&self) -> u64 {
        self.counter
    }

    fn digest(&self) -> u64 {
        let words = self.payload.chunks_exact(8);
        words.fold(self.id ^ self.counter, |sum, word| {
            sum ^ u64::from_le_bytes(word.try_into().unwrap_or_default())
        })
    }

    fn is_intact(&self) -> bool {
        self.payload.iter().enumerate().all(|(index, byte)| *byte == payload_byte(self.id, index))
    }

    fn prefetch<T: Verbs>(_: Handle<Self>, _: &mut T) {}
}

/// The length of rows for which `bytes` bytes are requested: the nearest multiple of 8, and at
/// least that of key and counter.
pub fn rounded(bytes: usize) -> usize {
    ((bytes + 4) / 8 * 8).max(16)
}

/// The table, by the layout of its rows.
#[derive(Clone, Copy)]
pub enum MicroTables {
    /// 80 bytes.
    Integers(Table<FixedRow<8>>),
    /// 248 bytes.
    Usual(Table<FixedRow<29>>),
    /// 1504 bytes.
    Large(Table<FixedRow<186>>),
    /// Any length.
    Other(Table<TailedRow>),
}

impl MicroTables {
    /// Declares the table for rows of `row_bytes` bytes.
    pub fn create(schema: &mut impl Schema, row_bytes: usize, options: TableOptions) -> Self {
        const NAME: &str = "micro";
        match rounded(row_bytes) {
            80 => MicroTables::Integers(schema.table(NAME, options)),
            248 => MicroTables::Usual(schema.table(NAME, options)),
            1504 => MicroTables::Large(schema.table(NAME, options)),
            _ => MicroTables::Other(schema.table(NAME, options)),
        }
    }
}

/// Evaluates an expression with `$table` bound to the table, whatever its type.
macro_rules! with_table {
    ($tables:expr, $table:ident => $body:expr) => {
        match *$tables {
            $crate::micro::rows::MicroTables::Integers($table) => $body,
            $crate::micro::rows::MicroTables::Usual($table) => $body,
            $crate::micro::rows::MicroTables::Large($table) => $body,
            $crate::micro::rows::MicroTables::Other($table) => $body,
        }
    };
}
pub(super) use with_table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_their_lengths() {
        assert_eq!(
            [80, 250, 1500].map(rounded),
            [FixedRow::<8>::BYTES, FixedRow::<29>::BYTES, FixedRow::<186>::BYTES]
        );
        assert_eq!([1, 16, 19, 20, 252].map(rounded), [16, 16, 16, 24, 256]);
    }

    #[test]
    fn rows_survive_their_bytes() {
        let row = FixedRow::<29> { counter: 7, ..FixedRow::make(3 << 48 | 5, 250) };
        let mut bytes = [0; FixedRow::<29>::BYTES];
        row.store(&mut bytes);
        let again = FixedRow::fetch(&bytes, &[]);
        assert_eq!(again, row);
        assert!(again.is_intact());
        assert!(!FixedRow { id: 4, ..row }.is_intact());
        assert!(TailedRow::make(9, 100).is_intact());
        assert_eq!(TailedRow::make(9, 100).payload.len(), 104 - 16);
    }
}
