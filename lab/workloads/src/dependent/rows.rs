//! The rows of both tables: keys and nine integers, in 80 bytes. Row numbers have no gaps, so a
//! perfect hash places each entry.

use schema::{HashPlan, IndexKind, Partitioning, Row, Schema, Table, TableOptions};

use super::spec::Dependent;
use crate::batch::mix;

/// Integers of a row besides its keys.
const VALUES: usize = 9;

/// A row of the first table.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(site, number))]
pub struct First {
    /// The site.
    pub site: u16,
    /// The last key column of the row of the second table that depends on this one.
    pub own: u16,
    /// Number within the site, from 0.
    pub number: u32,
    /// Values that follow from the keys.
    pub values: [u64; VALUES],
}

/// A row of the second table. Its key is the key of the row that it depends on, followed by a
/// column of its own.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(site, number, own))]
pub struct Second {
    /// The site.
    pub site: u16,
    /// The last key column.
    pub own: u16,
    /// Number of the row that it depends on.
    pub number: u32,
    /// Values that follow from the keys.
    pub values: [u64; VALUES],
}

const _: () = assert!(<First as Row>::BYTES == 80 && <Second as Row>::BYTES == 80);

/// Site and number in one word.
fn word(site: u16, number: u32) -> u64 {
    u64::from(site) << 32 | u64::from(number)
}

/// The last key column of the row that depends on this one.
pub(super) fn own(site: u16, number: u32) -> u16 {
    mix(word(site, number), 0) as u16
}

fn values(site: u16, number: u32, table: u64) -> [u64; VALUES] {
    std::array::from_fn(|value| mix(word(site, number), table + value as u64))
}

impl First {
    pub(super) fn new(site: u16, number: u32) -> Self {
        First { site, own: own(site, number), number, values: values(site, number, 100) }
    }
}

impl Second {
    pub(super) fn new(site: u16, number: u32) -> Self {
        Second { site, own: own(site, number), number, values: values(site, number, 200) }
    }
}

/// A number that depends on all integers of a row.
#[inline]
pub(super) fn digest(values: &[u64; VALUES]) -> u64 {
    values.iter().fold(0, |sum, value| sum ^ value)
}

/// The tables.
#[derive(Clone, Copy)]
pub struct Tables {
    /// The first table.
    pub first: Table<First>,
    /// The table that depends on the first.
    pub second: Table<Second>,
}

impl Tables {
    pub(super) fn create(workload: &Dependent, schema: &mut impl Schema) -> Self {
        let options = || TableOptions {
            rows: u64::from(workload.rows_per_site) * u64::from(workload.sites),
            partitioning: Some(Partitioning { first: 0, count: workload.sites }),
            kinds: vec![IndexKind::Hash(HashPlan::Dense(number))],
            ..TableOptions::default()
        };
        Tables { first: schema.table("first", options()), second: schema.table("second", options()) }
    }
}

/// Extracts the row's number from a key: 16 bits of the site, 32 of the number, and in the second
/// table 16 of its own column.
fn number(key: u64) -> u64 {
    key >> 16 & 0xffff_ffff
}
