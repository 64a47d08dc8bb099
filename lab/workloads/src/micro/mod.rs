//! The microbenchmark of the hardware-islands studies: transactions that read or update N rows of
//! one table.
//!
//! Sources: Porobic et al., "OLTP on Hardware Islands" (PVLDB 2012, section 6.1) and the studies
//! after it. The table is divided into sites, one a worker, and a site into parts, which are one or
//! several; a *local* transaction touches rows of
//! one site, a *multisite* one takes one row from its site and the others from all sites, or from
//! those of other instances alone. Rows are chosen uniformly, or with a skew over all rows.
//!
//! - [`rows`]: the layouts of a row; [`choice`]: the choice of rows; [`procedure`]: the
//!   transaction; `check`: the checks.
//!
//! Deviations:
//! - The rows of a transaction are distinct, so that each update counts once.
//! - An update increments a counter of the row and reads nothing else of it; a read copies the
//!   whole row.
//! - `mixed` updates the first half of a local transaction's rows, and the local row of a multisite
//!   one; it reads the rest.
//! - With a skew over all rows, the first row determines the site of a transaction, because the
//!   paper sends each request to the instance of its row; without a skew it is the worker's own
//!   site.
//! - Rows have a multiple of 8 bytes: 250 bytes are 248, which with a header of one word are four
//!   lines. See [`rows`].

mod check;
pub mod choice;
pub mod procedure;
pub mod rows;
mod spec;

use schema::{HashPlan, IndexKind, Inspector, Loader, Partitioning, Schema, Table, TableOptions};
use terms::Abort;

use crate::batch::{key, number};
use crate::workload::{Check, LoadedWith, Workload};
use terms::random::Random;

use choice::Choice;
pub use procedure::MicroTransaction;
use rows::{CountedRow, MicroTables, with_table};
pub use spec::{MicroError, MicroSpec, Operation, RowIndex, Skew};

/// The microbenchmark.
#[derive(Clone, Debug)]
pub struct Micro {
    spec: MicroSpec,
    choice: Choice,
}

/// Local transactions.
const LOCAL: usize = 0;
/// Multisite transactions.
const MULTISITE: usize = 1;

impl Micro {
    /// The workload with these parameters, if they are valid.
    pub fn new(spec: MicroSpec) -> Result<Self, MicroError> {
        let MicroSpec { rows, sites, rows_per_site, parts_per_site: parts, .. } = spec;
        if rows == 0 || sites == 0 || rows_per_site == 0 {
            return Err(MicroError::Empty);
        }
        if rows_per_site > 1 << 47 {
            return Err(MicroError::TooManyRows(rows_per_site));
        }
        if u64::from(rows) > rows_per_site {
            return Err(MicroError::TooFewRows { rows, available: rows_per_site });
        }
        if !rows_per_site.is_multiple_of(parts.into()) || sites.checked_mul(parts).is_none() {
            return Err(MicroError::UnequalParts { parts, rows_per_site });
        }
        if !(0.0..=1.0).contains(&spec.multisite) {
            return Err(MicroError::OutOfRange("the share of multisite transactions"));
        }
        if !spec.skew.is_valid() {
            return Err(MicroError::OutOfRange("the skew"));
        }
        Ok(Micro { choice: Choice::new(&spec), spec })
    }

    /// The parameters.
    pub fn spec(&self) -> &MicroSpec {
        &self.spec
    }

    /// Number of a transaction's rows that are updated: the first ones.
    fn updates(&self, multisite: bool) -> u32 {
        match self.spec.operation {
            Operation::Read => 0,
            Operation::Update => self.spec.rows,
            Operation::Mixed if multisite => 1,
            Operation::Mixed => self.spec.rows.div_ceil(2),
        }
    }

    /// Draws a transaction that starts at this site; without `starts_here` that holds only if rows
    /// are not skewed.
    #[inline]
    fn draw(&self, site: usize, starts_here: bool, random: &mut Random) -> MicroTransaction {
        let multisite = self.spec.multisite > 0.0 && random.unit() < self.spec.multisite;
        let (rows, updates) = (self.spec.rows, self.updates(multisite));
        let chosen = self.choice.rows(site as u16, starts_here, multisite, rows, updates, random);
        MicroTransaction::new(chosen.batches, chosen.draws, multisite)
    }
}

impl Workload for Micro {
    type Procedure = MicroTransaction;

    fn create(&self, schema: &mut impl Schema) -> MicroTables {
        let kind = match self.spec.index {
            RowIndex::Hash => IndexKind::Hash(HashPlan::Dense(number)),
            RowIndex::Ordered => IndexKind::Ordered,
        };
        let options = TableOptions {
            rows: self.spec.rows_per_site * u64::from(self.spec.sites),
            partitioning: Some(Partitioning { first: 0, count: self.spec.parts() }),
            kinds: vec![kind],
            ..TableOptions::default()
        };
        MicroTables::create(schema, self.spec.row_bytes, options)
    }

    fn loaded_with(&self) -> LoadedWith {
        let MicroSpec { rows_per_site, row_bytes, sites, parts_per_site, .. } = self.spec;
        let mut loaded = LoadedWith::new(
            "micro",
            [
                ("--rows-per-site", rows_per_site.to_string()),
                ("--row-bytes", row_bytes.to_string()),
                ("--cores", sites.to_string()),
            ],
        );
        // Keys begin with the number of a part.
        if parts_per_site > 1 {
            loaded.flags.push(("--execution", "plp, atrapos".to_owned()));
        }
        loaded
    }

    fn parts(&self) -> usize {
        usize::from(self.spec.parts())
    }

    fn homes(&self) -> usize {
        usize::from(self.spec.sites)
    }

    fn rows(&self, _: usize) -> u64 {
        self.spec.rows_per_part()
    }

    fn load(
        &self,
        tables: &MicroTables,
        part: usize,
        _: &mut Random,
        loader: &mut impl Loader,
    ) -> Result<(), Abort> {
        let part = u16::try_from(part).expect("parts are numbered by 16 bits");
        for row in 0..self.spec.rows_per_part() {
            with_table!(tables, table => insert(table, key(part, row), self.spec.row_bytes, loader)?);
        }
        Ok(())
    }

    #[inline]
    fn next(&self, worker: usize, random: &mut Random, _: u64) -> MicroTransaction {
        self.draw(worker % usize::from(self.spec.sites), false, random)
    }

    fn request(
        &self,
        _: u64,
        homes: Option<&[usize]>,
        random: &mut Random,
        _: u64,
    ) -> (MicroTransaction, usize) {
        let home = match homes {
            Some(homes) => self.choice.home(homes, random),
            None => random.below(self.homes() as u64) as usize,
        };
        let transaction = self.draw(home, homes.is_some(), random);
        let first = transaction.requests().next();
        let home = first.map_or(home, |first| usize::from(self.choice.site(first.key)));
        (transaction, home)
    }

    fn kinds(&self) -> &'static [&'static str] {
        &["local", "multisite"]
    }

    fn kind(procedure: &MicroTransaction) -> usize {
        if procedure.is_multisite() { MULTISITE } else { LOCAL }
    }

    fn check(
        &self,
        tables: &MicroTables,
        inspector: &mut impl Inspector,
        committed: Option<&[u64]>,
    ) -> Vec<Check> {
        let seen = check::inspect(&self.spec, tables, inspector);
        let mut checks = vec![seen.rows(&self.spec)];
        if let Some(committed) = committed {
            let updates = [LOCAL, MULTISITE].map(|kind| {
                committed.get(kind).copied().unwrap_or(0) * u64::from(self.updates(kind == MULTISITE))
            });
            checks.push(seen.updates(updates.iter().sum()));
        }
        checks
    }
}

fn insert<R: CountedRow>(
    table: Table<R>,
    key: u64,
    row_bytes: usize,
    loader: &mut impl Loader,
) -> Result<(), Abort> {
    loader.insert(table, &R::make(key, row_bytes))
}
