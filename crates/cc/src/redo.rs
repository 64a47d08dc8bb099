//! What a commit changes, as a log wants to know it.

use platform::Platform;
use storage::record::tail;
use storage::{RecordHeader, Table};

use crate::access::{Accesses, DELETED, INSERTED, NEW_TAIL, WRITTEN};
use crate::writes::Changes;

/// Takes the changes of one transaction, in an order in which they can be repeated. Rows are as they were before the commit
/// (which changes no key), inserted ones as they were inserted.
pub trait RedoSink<P: Platform> {
    /// A row is new: its words, without the pointer to its tail, and its tail.
    fn insert(&mut self, table: usize, row: &[P::Word], tail: &[u8]);

    /// Bytes of a row change, and its tail if there is a new one.
    fn update(&mut self, table: usize, row: &[P::Word], changes: Changes<'_>, tail: Option<&[u8]>);

    /// A row is gone.
    fn delete(&mut self, table: usize, row: &[P::Word]);
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Hands everything that the transaction changes to the sink. It has its rows to itself.
    pub(crate) fn redo<K: RedoSink<P>>(&self, c: P::Core, tables: &[Table<P>], sink: &mut K) {
        let mut old_tail = Vec::new();
        let mut new_tail = Vec::new();
        for access in &self.list {
            let changed = access.flags & (WRITTEN | INSERTED | DELETED);
            if changed == 0 || changed & (INSERTED | DELETED) == INSERTED | DELETED {
                continue;
            }
            let number = access.table as usize;
            let (words, last) = match (tables[number].has_tail, access.row.words()) {
                (true, [words @ .., last]) => (words, P::peek(last)),
                (_, words) => (words, 0),
            };
            if changed & DELETED != 0 {
                sink.delete(number, words);
                continue;
            }
            if changed & INSERTED != 0 {
                old_tail.clear();
                // SAFETY: the tail of a row that this transaction has inserted, and nobody else sees.
                unsafe { tail::read::<P>(c, last, &mut old_tail) };
                sink.insert(number, words, &old_tail);
            }
            let has_new_tail = access.flags & NEW_TAIL != 0;
            if has_new_tail {
                new_tail.clear();
                // SAFETY: this transaction has made it, and gives it back when it ends.
                unsafe { tail::read::<P>(c, access.tail, &mut new_tail) };
            }
            let changes = self.writes.changes(access.writes, words.len() * 8);
            if has_new_tail || !changes.is_empty() {
                sink.update(number, words, changes, has_new_tail.then_some(&new_tail[..]));
            }
        }
    }
}
