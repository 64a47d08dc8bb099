//! Columns that get the numbers of a sequence.
//!
//! The database keeps the counters of such sequences, and opens a session when a block of numbers
//! has to be reserved. So a number costs an atomic addition, and a number is given once, whatever
//! becomes of the transaction.
// Databases are shared by threads of the program.
#![allow(clippy::disallowed_types)]

use std::sync::Arc;

use platform::{Hardware, Nanos, Platform};

use crate::database::Database;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::shared::DatabaseShared;

/// Longest wait for a place of a session, for a reservation.
const PLACE_WAIT_NANOS: u64 = 5_000_000_000;

impl Database {
    /// Gives transactions of the database the numbers of sequences. Called once, when the database
    /// is opened.
    pub(crate) fn give_numbers(&self) {
        let shared = Arc::downgrade(&self.shared);
        let next = move |sequence: &str| {
            // A transaction keeps its database open.
            let shared = shared.upgrade().ok_or(Error::Misuse("the database is closed"))?;
            next_number(&shared, sequence)
        };
        let _ = self.shared.numbers.set(Box::new(next));
    }
}

fn next_number(shared: &Arc<DatabaseShared>, sequence: &str) -> Result<i64> {
    let counters = Database { shared: Arc::clone(shared) }.identity_counters(sequence)?;
    counters.next_number(&mut || {
        let now = Hardware::now(Hardware::core());
        let until = Nanos(now.0.saturating_add(PLACE_WAIT_NANOS));
        shared.ledger.wait_for_place(until, || Session::new(shared))
    })
}
