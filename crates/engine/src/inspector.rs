//! Reads the rows of a database while no transaction runs.

use boundary::RowInspector;
use concurrency::Scheme;
use platform::Platform;

use crate::database::MemoryDatabase;

impl<P: Platform, S: Scheme<P>> MemoryDatabase<P, S> {
    /// Reads the database while no transaction runs.
    pub fn inspector(&self, c: P::Core) -> RowInspector<'_, P> {
        RowInspector::new(self, c)
    }
}
