//! The port of recovery to a database of any scheme: recovery is compiled once for a platform.

use boundary::OpenError;
use concurrency::{Filler, Scheme};
use platform::Platform;
use terms::Abort;

use crate::database::MemoryDatabase;

/// Makes rows for one worker: see [`Filler`].
pub(super) trait RowFiller {
    /// Makes a row be there that has these keys, one an index of the table.
    fn fill(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort>;
}

/// An empty database.
pub(super) trait Fillable<P: Platform>: Sync {
    /// The maker of rows for the worker on this core.
    fn filler(&self, c: P::Core) -> Result<Box<dyn RowFiller + '_>, OpenError>;
}

impl<P: Platform, S: Scheme<P>> RowFiller for Filler<'_, P, S> {
    fn fill(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        self.fill(table, keys, fixed, tail)
    }
}

impl<P: Platform, S: Scheme<P>> Fillable<P> for MemoryDatabase<P, S> {
    fn filler(&self, c: P::Core) -> Result<Box<dyn RowFiller + '_>, OpenError> {
        match self.instance.session(c, None, false) {
            Ok(session) => Ok(Box::new(Filler::new(session))),
            Err(error) => Err(OpenError::Contradiction(error.to_string())),
        }
    }
}
