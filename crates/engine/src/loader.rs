//! Loads rows into a database through a session.

use cc::{Abort, Scheme};
use platform::Platform;

use crate::ending::Bounds;
use crate::row::Row;
use crate::schema::Loader;
use crate::session::Session;
use crate::table::Table;
use crate::verbs::Verbs;

/// Rows that a loader inserts between two reports.
pub const ROWS_PER_REPORT: u64 = 1024;

/// Inserts rows, one transaction each: loading runs in parallel, and a conflict costs one row.
pub struct RowLoader<'s, 'd, P: Platform, S: Scheme<P>> {
    session: &'s mut Session<'d, P, S>,
    rows: u64,
    /// Called with the number of rows since the last call.
    progress: &'s mut dyn FnMut(u64),
}

impl<'s, 'd, P: Platform, S: Scheme<P>> RowLoader<'s, 'd, P, S> {
    /// A loader through this session; `progress` is called after every [`ROWS_PER_REPORT`] rows.
    pub fn new(session: &'s mut Session<'d, P, S>, progress: &'s mut dyn FnMut(u64)) -> Self {
        RowLoader { session, rows: 0, progress }
    }

    /// Reports the rows since the last report.
    pub fn finish(mut self) {
        self.report();
    }

    fn report(&mut self) {
        (self.progress)(self.rows);
        self.rows = 0;
        let now = P::now(self.session.core());
        self.session.tend(now);
    }
}

impl<P: Platform, S: Scheme<P>> Loader for RowLoader<'_, '_, P, S> {
    fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<(), Abort> {
        self.session.transact(&Bounds::default(), |transaction| transaction.insert(table, row))?;
        self.rows += 1;
        if self.rows == ROWS_PER_REPORT {
            self.report();
        }
        Ok(())
    }
}
