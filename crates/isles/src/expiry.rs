//! Tables whose rows expire, and the time at which a session looks for expired rows next.
// Sessions in several threads agree on the time of the next look; the word does not belong to the
// engine.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicU64, Ordering};

use schema::{Datum, TableDescription};

/// Time between two looks for expired rows, in nanoseconds, if the first one left none.
const PAUSE_NANOS: u64 = 500_000_000;
/// Time between two looks, if the first one left some.
const SHORT_PAUSE_NANOS: u64 = 1_000_000;

/// A table whose rows expire.
pub(crate) struct ExpiringTable {
    pub(crate) name: String,
    /// The index that begins with the moment of expiry.
    pub(crate) index: usize,
    columns: Vec<usize>,
    /// Columns of the primary key.
    pub(crate) key: Vec<usize>,
    /// True if rows without a moment are the first of the index.
    pub(crate) nulls_first: bool,
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

    /// Returns the key of a row in that index.
    pub(crate) fn index_key(&self, row: &[Datum]) -> Vec<Datum> {
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
