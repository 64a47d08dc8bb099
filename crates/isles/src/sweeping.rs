//! The deletion of expired rows. Sessions do it, some rows at a time, after transactions of their
//! own: the library has no thread for it, and a database that is not used does nothing.

// The moment of a row is one of the program's clock.
#![allow(clippy::disallowed_types)]

use std::ops::Bound;
use std::time::{Duration, SystemTime};

use schema::{Datum, TimestampTz};

use crate::attempt::Transaction;
use crate::described_scan::DescribedScan;
use crate::error::Result;
use crate::expiry::{ExpiringTable, SweepOutcome};
use crate::options::{Durability, TransactionOptions};
use crate::shared::DatabaseShared;

/// Most rows of a table that one transaction deletes.
const ROWS_MAX: usize = 128;
/// Most transactions of a look for each table, if rows cannot be deleted because others refer to
/// them.
const STEPS_MAX: usize = 8;
/// Attempts of a transaction: a conflict with those of the program is left to the next look.
const ATTEMPTS: u32 = 2;
const DEADLINE: Duration = Duration::from_millis(100);

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
