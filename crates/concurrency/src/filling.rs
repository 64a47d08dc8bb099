//! Rows that are there before any transaction begins: what a database that is opened again is
//! filled with.
//!
//! A filler puts rows into the indexes without a transaction, as committed at the beginning of the
//! worker's epoch: a transaction that changes them in a later epoch has a larger stamp. Nothing
//! runs meanwhile but other fillers, each with rows of its own.

use platform::Platform;
use storage::index::{Open, Witnesses};
use storage::tree::Insert;

use crate::access::{check_row, new_row};
use crate::instance::WorkerContext;
use crate::scheme::Filling;
use terms::Abort;

/// Fills tables through a session that runs no transaction meanwhile.
pub struct Filler<'i, P: Platform, S: Filling<P>> {
    session: WorkerContext<'i, P, S>,
    witnesses: Witnesses,
}

impl<'i, P: Platform, S: Filling<P>> Filler<'i, P, S> {
    /// A filler through this session.
    pub fn new(session: WorkerContext<'i, P, S>) -> Self {
        Filler { session, witnesses: Witnesses::default() }
    }

    /// Makes a row be there that has these keys, one an index of the table.
    ///
    /// # Errors
    /// [`Abort::Duplicate`] if another row has one of its unique keys, [`Abort::OutOfMemory`],
    /// [`Abort::Misuse`] if the table has rows of another length or other keys. Then the table is
    /// filled by half.
    pub fn fill(&mut self, table: usize, keys: &[&[u64]], fixed: &[u8], tail: &[u8]) -> Result<(), Abort> {
        let session = &mut self.session;
        session.enter();
        let mut cx = session.context();
        let schema = &cx.tables[table];
        check_row(schema, keys, fixed, tail)?;
        let row = new_row::<P, S::Header>(cx.c, &mut cx.worker.local, schema, fixed, tail)?;
        S::fill(&mut cx, row.header(), table, keys[0]);
        for (position, (index, key)) in schema.indexes.iter().zip(keys).enumerate() {
            let (partition, local) = (index.partition(key), &mut cx.worker.local);
            // SAFETY: a row of this table, made above.
            let inserted =
                unsafe { partition.insert(cx.c, local, key, row.to_bits(), &mut Open, &mut self.witnesses)? };
            self.witnesses.clear();
            if !matches!(inserted, Insert::Inserted { .. }) {
                return Err(Abort::duplicate(table, position));
            }
        }
        Ok(())
    }
}

impl<P: Platform, S: Filling<P>> Drop for Filler<'_, P, S> {
    fn drop(&mut self) {
        self.session.leave();
    }
}
