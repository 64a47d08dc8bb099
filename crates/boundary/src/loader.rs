//! Loads rows into a database through a session.

use terms::{Abort, Mode};

use crate::any_verbs::AnyVerbs;
use crate::ending::Bounds;
use crate::session::AnySession;
use crate::transaction::Transaction;
use crate::verbs::Verbs;
use schema::{Loader, Row, Table};

/// Rows that a loader inserts between two reports.
const ROWS_PER_REPORT: u64 = 1024;

/// Inserts rows, one transaction each: loading runs in parallel, and a conflict costs one row.
pub struct RowLoader<'s, 'd> {
    session: &'s mut dyn AnySession<'d>,
    rows: u64,
    /// Called with the number of rows since the last call.
    progress: &'s mut dyn FnMut(u64),
}

impl<'s, 'd> RowLoader<'s, 'd> {
    /// A loader through this session; `progress` is called after every 1024 rows.
    pub fn new(session: &'s mut dyn AnySession<'d>, progress: &'s mut dyn FnMut(u64)) -> Self {
        RowLoader { session, rows: 0, progress }
    }

    /// Reports the rows since the last report, and has memory at hand for those that transactions
    /// will insert.
    pub fn finish(mut self) {
        self.report();
        self.session.get_ready();
    }

    fn report(&mut self) {
        (self.progress)(self.rows);
        self.rows = 0;
        self.session.tend(self.session.now());
    }
}

impl Loader for RowLoader<'_, '_> {
    fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<(), Abort> {
        let mut insert = |verbs: &mut dyn AnyVerbs| Transaction::new(verbs).insert(table, row);
        self.session.transact(Mode::Single, &Bounds::default(), &mut insert)?;
        self.rows += 1;
        if self.rows == ROWS_PER_REPORT {
            self.report();
        }
        Ok(())
    }
}
