//! Rows that expire. Sessions delete them, some at a time, after transactions of their own: no
//! thread of the library is needed, and a database that nobody uses does nothing.
// Sessions in several threads agree on the time of the next look; the word does not belong to the
// engine.
#![allow(clippy::disallowed_types)]

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use schema::{Datum, TableDescription, TimestampTz};

use crate::attempt::Transaction;
use crate::described_scan::DescribedScan;
use crate::error::Result;
use crate::options::{Durability, TransactionOptions};
use crate::shared::DatabaseShared;

/// Time between two looks for expired rows, in nanoseconds, if the first one left none.
const PAUSE_NANOS: u64 = 500_000_000;
/// Time between two looks, if the first one left some.
const SHORT_PAUSE_NANOS: u64 = 1_000_000;
/// Most rows of a table that one transaction deletes.
const ROWS_MAX: usize = 128;
/// Most transactions of a look for each table, if rows cannot be deleted because others refer to
/// them.
const STEPS_MAX: usize = 8;
/// Attempts of a transaction: a conflict with those of the program is left to the next look.
const ATTEMPTS: u32 = 2;
const DEADLINE: Duration = Duration::from_millis(100);

/// A table whose rows expire.
pub(crate) struct ExpiringTable {
    name: String,
    /// The index that begins with the moment of expiry.
    index: usize,
    columns: Vec<usize>,
    /// Columns of the primary key.
    key: Vec<usize>,
    /// True if rows without a moment are the first of the index.
    nulls_first: bool,
}

impl ExpiringTable {
    /// `None` if the rows of the table do not expire.
    pub(crate) fn of(table: &TableDescription) -> Option<Self> {
        let index = table.expiry_index()?;
        let described = &table.indexes()[index];
        Some(ExpiringTable {
            name: table.name().to_owned(),
            index,
            columns: described.columns.clone(),
            key: table.indexes()[0].columns.clone(),
            nulls_first: described.orders[0].nulls_first,
        })
    }

    fn index_key(&self, row: &[Datum]) -> Vec<Datum> {
        self.columns.iter().map(|column| row[*column].clone()).collect()
    }
}

/// The time at which a session looks for expired rows next.
#[derive(Default)]
pub(crate) struct NextSweep(AtomicU64);

impl NextSweep {
    /// Returns true if it is time, and this session is the one that looks.
    pub(crate) fn begin(&self, now: u64) -> bool {
        // Relaxed: no other data depends on the word.
        let next = self.0.load(Ordering::Relaxed);
        let later = now.saturating_add(PAUSE_NANOS);
        now >= next && self.0.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Sets the time of the next look after one that began at `now`.
    pub(crate) fn end(&self, now: u64, outcome: SweepOutcome) {
        if outcome == SweepOutcome::RowsLeft {
            // Relaxed: as above.
            self.0.store(now.saturating_add(SHORT_PAUSE_NANOS), Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SweepOutcome {
    /// No expired row is left, or none that can be deleted now.
    Done,
    /// More rows have expired.
    RowsLeft,
}

/// Options of the transactions that delete.
pub(crate) fn options() -> TransactionOptions {
    TransactionOptions::new().attempts(ATTEMPTS).deadline(DEADLINE).durability(Durability::Async)
}

/// Runs a transaction; returns true if it committed.
type Run<'r> = dyn FnMut(&mut dyn FnMut(&mut Transaction<'_>) -> Result<()>) -> bool + 'r;

/// Deletes some expired rows of each table.
pub(crate) fn sweep(shared: &DatabaseShared, run: &mut Run<'_>) -> SweepOutcome {
    let now = Datum::TimestampTz(TimestampTz::from(SystemTime::now()));
    let tables = shared.plans.current().map_or(&[][..], |plans| &plans.expiring);
    tables.iter().fold(SweepOutcome::Done, |outcome, table| match sweep_table(table, &now, run) {
        SweepOutcome::Done => outcome,
        SweepOutcome::RowsLeft => SweepOutcome::RowsLeft,
    })
}

fn sweep_table(table: &ExpiringTable, now: &Datum, run: &mut Run<'_>) -> SweepOutcome {
    let mut low = match table.nulls_first {
        true => Bound::Excluded(vec![Datum::Null]),
        false => Bound::Unbounded,
    };
    for _ in 0..STEPS_MAX {
        let mut found = Vec::new();
        let is_committed = run(&mut |t| {
            found = read(t, table, low.clone(), Bound::Included(vec![now.clone()]))?;
            delete(t, table, &found)
        });
        if !is_committed {
            // Others may refer to one of them, and the rest can go, if they have not got a later
            // moment since.
            for row in &found {
                let place = Bound::Included(table.index_key(row));
                run(&mut |t| {
                    let found = read(t, table, place.clone(), place.clone())?;
                    delete(t, table, &found)
                });
            }
        }
        let Some(last) = found.get(ROWS_MAX - 1) else { break };
        if is_committed {
            return SweepOutcome::RowsLeft;
        }
        low = Bound::Excluded(table.index_key(last));
    }
    SweepOutcome::Done
}

/// Returns the first rows of a range of the index.
fn read(
    t: &mut Transaction<'_>,
    table: &ExpiringTable,
    low: Bound<Vec<Datum>>,
    high: Bound<Vec<Datum>>,
) -> Result<Vec<Vec<Datum>>> {
    let mut scan = DescribedScan::new(&table.name, table.index).low(low).high(high).for_update();
    t.next_described(&mut scan, ROWS_MAX)
}

fn delete(t: &mut Transaction<'_>, table: &ExpiringTable, rows: &[Vec<Datum>]) -> Result<()> {
    rows.iter().try_for_each(|row| {
        let key: Vec<Datum> = table.key.iter().map(|column| row[*column].clone()).collect();
        t.delete_dynamic(&table.name, &key).map(drop)
    })
}
