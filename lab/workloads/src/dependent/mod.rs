//! Two tables, of which the second depends on the first: a transaction reads a row of the first by
//! its key, then a row of the second whose key is that key and a number that the first row
//! contains.
//!
//! Source: Porobic et al., "ATraPos" (ICDE 2014), where the workload shows the benefit of placing
//! tables that are used together near each other: the second action waits for the first, so the
//! distance between the workers that own the two partitions matters. Rows have 80 bytes, as there
//! (10 integers). A transaction reads rows of its worker's own site, or of any site if it is
//! *multisite*; both rows are of the same site.

mod placement;
pub mod procedure;
pub mod rows;
mod spec;

use schema::{Inspector, Loader, Schema};
use terms::Abort;

pub use placement::TablePlacement;
pub use procedure::{Action, Transaction};
use rows::{First, Second, Tables};
pub use spec::Dependent;

use crate::workload::{Check, LoadedWith, Outcome, Workload};
use terms::random::Random;

/// Transactions of the worker's own site.
const LOCAL: usize = 0;
/// All others.
const MULTISITE: usize = 1;

impl Workload for Dependent {
    type Procedure = Transaction;

    fn create(&self, schema: &mut impl Schema) -> Tables {
        Tables::create(self, schema)
    }

    fn loaded_with(&self) -> LoadedWith {
        LoadedWith::new(
            "dependent",
            [("--rows-per-site", self.rows_per_site.to_string()), ("--cores", self.sites.to_string())],
        )
    }

    fn parts(&self) -> usize {
        usize::from(self.sites)
    }

    fn rows(&self, _: usize) -> u64 {
        2 * u64::from(self.rows_per_site)
    }

    fn load(
        &self,
        tables: &Tables,
        part: usize,
        _: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let site = part as u16;
        (0..self.rows_per_site).try_for_each(|number| {
            loader.insert(tables.first, &First::new(site, number))?;
            loader.insert(tables.second, &Second::new(site, number))
        })
    }

    fn placed_tables(&self) -> usize {
        if self.placement.is_some() { 2 } else { 0 }
    }

    fn owner(&self, table: usize, part: usize, sockets: &[u32]) -> Option<usize> {
        self.placement?.owner(table, part, self.parts(), sockets)
    }

    fn load_table(
        &self,
        tables: &Tables,
        table: usize,
        part: usize,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let site = part as u16;
        (0..self.rows_per_site).try_for_each(|number| match table {
            0 => loader.insert(tables.first, &First::new(site, number)),
            _ => loader.insert(tables.second, &Second::new(site, number)),
        })
    }

    #[inline]
    fn next(&self, worker: usize, random: &mut Random, _: u64) -> Transaction {
        let is_any = self.multisite > 0.0 && random.unit() < self.multisite;
        let site = match is_any {
            true => random.below(u64::from(self.sites)) as u16,
            false => (worker % usize::from(self.sites)) as u16,
        };
        let number = random.below(u64::from(self.rows_per_site)) as u32;
        Transaction::new(site, number, is_any, self.divided)
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["local", "multisite"]
    }

    #[inline]
    fn kind(procedure: &Transaction) -> usize {
        if procedure.is_multisite() { MULTISITE } else { LOCAL }
    }

    fn check(&self, tables: &Tables, inspector: &mut impl Inspector, _: Option<&[u64]>) -> Vec<Check> {
        let (mut firsts, mut seconds, mut damaged) = (0u64, 0u64, 0u64);
        let knows = |site: u16, number: u32| site < self.sites && number < self.rows_per_site;
        inspector.scan(tables.first.primary(), &(0, 0), &(u16::MAX, u32::MAX), &mut |row: &First| {
            firsts += 1;
            damaged += u64::from(!knows(row.site, row.number) || *row != First::new(row.site, row.number));
        });
        let high = (u16::MAX, u32::MAX, u16::MAX);
        inspector.scan(tables.second.primary(), &(0, 0, 0), &high, &mut |row: &Second| {
            seconds += 1;
            damaged += u64::from(!knows(row.site, row.number) || *row != Second::new(row.site, row.number));
        });
        let expected = u64::from(self.rows_per_site) * u64::from(self.sites);
        let result = if (firsts, seconds) != (expected, expected) {
            Outcome::Violated(format!("{firsts} and {seconds} rows where {expected} each were loaded"))
        } else if damaged > 0 {
            Outcome::Violated(format!("{damaged} rows are not what was loaded"))
        } else {
            Outcome::Ok
        };
        vec![Check { name: "dependent_rows", result }]
    }
}
