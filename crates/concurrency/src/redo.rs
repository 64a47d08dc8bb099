//! The changes of a commit, as a log needs them, and the properties that a log may rely on.
//!
//! A log repeats commits in the order of their stamps: all commits up to the end of some epoch, and
//! none of later epochs. Three promises of every scheme make the repeated state one that could have
//! been, with everything in it that was acknowledged:
//!
//! 1. *Order*: a transaction that reads or overwrites a row which another transaction wrote, or
//!    inserts a key (of any index) which another deleted, has the larger stamp. So the changes of a
//!    row are repeated in their order, and a row that changes is there.
//! 2. *Closure*: a transaction that comes later in any other way has a stamp of the same epoch or
//!    of a later one. So no commit is kept that depends on a commit which is cut off.
//! 3. *Completeness*: the worker of a commit that changes anything announces an epoch
//!    ([`storage::Local::announce_commit`]) before it draws the stamp, and keeps the announcement
//!    until the commit's record is in the log. The stamp is not of an earlier epoch than the
//!    announced one, and the global epoch is at most one later than any announcement. So when the
//!    global epoch is two later than some epoch, all commits of that epoch have left their records,
//!    and no further commit will be of that epoch. How long a transaction ran before it commits
//!    does not matter.
//!
//! How the schemes keep the promises:
//!
//! - `silo`, `occ`, `mvcc` announce the epoch between locking their writes and validating their
//!   reads. The stamp is larger than the versions of all rows that the transaction used and than
//!   the removals that indexes remember: that is promise 1. A transaction that overwrites what
//!   another only read, or inserts a key that another saw to be absent, locks or inserts after the
//!   other's validation, and reads the epoch later: that is promise 2. So the read of the epoch has
//!   to be ordered after the locking *and* before the validation, by a fence each. Announcing reads
//!   the epoch on both sides of one fence, which is proved at
//!   [`storage::Participant::announce_commit`] and explored in `storage/tests/loom/reclamation.rs`.
//!   The timestamps of `occ` are times at which transactions began and order nothing here. A
//!   snapshot of `mvcc` writes nothing.
//! - `tictoc` orders all transactions that depend on each other by time, which is the stamp:
//!   promises 1 and 2 for all dependencies. Times are at least those of the announced epoch. When
//!   an epoch has no numbers left, those of the next epoch follow, so that a stamp may be ahead of
//!   the global epoch; a worker that gets such a stamp advances the epoch. (Stamps of the other
//!   schemes may be ahead too, after some four million commits within an epoch that depend on each
//!   other.) Commits that share no data may have the same stamp.
//! - `no-wait`, `wait-die`, `dl-detect` announce the epoch with all locks held, and take a stamp
//!   larger than those of all rows that the transaction used: a transaction that comes later in any
//!   way gets one of the locks afterwards.
//! - `hstore` does the same with sites: a site knows the stamp of its last holder, and the next
//!   holder takes a larger one. Transactions of `hstore` and `tictoc` that change nothing announce
//!   nothing, since they leave no record.
//!
//! A participant of a transaction over several databases may commit long after it was prepared.
//! Everything that the participant used is still held then, so its commit takes a new stamp, at
//! least as large, of the epoch in which it commits ([`Ending::commit`](crate::Ending::commit)).

use platform::Platform;
use storage::record::tail;
use storage::{RecordHeader, Table};

use crate::access::{Access, Accesses, DELETED, HELD, INSERTED, NEW_TAIL, WRITTEN};
use crate::writes::RowChanges;

/// A row as it was before a prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// There was no such row.
    Absent,
    /// Its words, without the pointer to its tail, and its tail.
    Row(Vec<u64>, Vec<u8>),
}

impl Before {
    /// These words of a row, the last of which points to its tail if the table's rows have
    /// tails.
    ///
    /// # Safety
    /// The last word of a row with a tail names a tail of the row that is not reused meanwhile.
    pub(crate) unsafe fn row<P: Platform>(c: P::Core, table: &Table<P>, mut words: Vec<u64>) -> Before {
        let mut bytes = Vec::new();
        if table.has_tail {
            let last = words.pop().unwrap_or(0);
            // SAFETY: the caller guarantees that.
            unsafe { tail::read::<P>(c, last, &mut bytes) };
        }
        Before::Row(words, bytes)
    }
}

/// Receives the changes of one transaction, in an order in which they can be repeated. Of rows that
/// change or are deleted a sink uses only the key, which no commit changes; inserted rows are shown
/// as they were inserted, or as they are in the end. `key_tail` is the row's tail if columns of
/// the primary key are there ([`Table::key_in_tail`]); otherwise it means nothing.
pub trait RedoSink<P: Platform> {
    /// A row is new: its words, without the pointer to its tail, and its tail.
    fn insert(&mut self, table: usize, row: &[P::Word], tail: &[u8]);

    /// Bytes of a row change, and its tail if there is a new one.
    fn update(
        &mut self,
        table: usize,
        row: &[P::Word],
        changes: RowChanges<'_>,
        tail: Option<&[u8]>,
        key_tail: &[u8],
    );

    /// A row is deleted.
    fn delete(&mut self, table: usize, row: &[P::Word], key_tail: &[u8]);
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Hands everything that the transaction changes to the sink, without rows that are absent
    /// before and after the transaction. The transaction has its rows to itself.
    pub(crate) fn redo<K: RedoSink<P>>(
        &self,
        c: P::Core,
        tables: &[Table<P>],
        was_there: impl Fn(&Access<P, H>) -> bool,
        sink: &mut K,
    ) {
        let mut old_tail = Vec::new();
        let mut new_tail = Vec::new();
        for access in &self.list {
            let changed = access.flags & (WRITTEN | INSERTED | DELETED);
            if changed == 0
                || access.is_unindexed()
                || changed & (INSERTED | DELETED) == INSERTED | DELETED
                || !was_there(access)
            {
                continue;
            }
            let number = access.table as usize;
            let (words, last) = match (tables[number].has_tail, access.row.words()) {
                (true, [words @ .., last]) => (words, P::peek(last)),
                (_, words) => (words, 0),
            };
            if tables[number].key_in_tail {
                old_tail.clear();
                // SAFETY: the row's tail, which this transaction has read, and has to itself or
                // shares with readers until it ends.
                unsafe { tail::read::<P>(c, last, &mut old_tail) };
            }
            if changed & DELETED != 0 {
                sink.delete(number, words, &old_tail);
                continue;
            }
            if changed & INSERTED != 0 {
                old_tail.clear();
                // SAFETY: the tail of a row that this transaction has inserted, and no other
                // transaction sees.
                unsafe { tail::read::<P>(c, last, &mut old_tail) };
                sink.insert(number, words, &old_tail);
            }
            let has_new_tail = access.flags & NEW_TAIL != 0;
            if has_new_tail {
                new_tail.clear();
                // SAFETY: this transaction has made the tail, and retires it when it ends.
                unsafe { tail::read::<P>(c, access.tail, &mut new_tail) };
            }
            let changes = self.writes.changes(access.writes, words.len() * 8);
            if has_new_tail || !changes.is_empty() {
                sink.update(number, words, changes, has_new_tail.then_some(&new_tail[..]), &old_tail);
            }
        }
    }
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// As [`Redo::before`](crate::Redo::before), where transactions keep their writes aside;
    /// `was_there` as in [`Self::redo`].
    pub(crate) fn before(
        &self,
        c: P::Core,
        tables: &[Table<P>],
        was_there: impl Fn(&Access<P, H>) -> bool,
        table: usize,
        key: &[u64],
    ) -> Option<Before> {
        let bits = tables[table].indexes[0].partition(key).get(c, key).value?;
        let is_it = |access: &&Access<P, H>| {
            access.table as usize == table
                && access.row.to_bits() == bits
                && access.flags & (HELD | INSERTED) != 0
        };
        let access = self.list.iter().find(is_it)?;
        if access.flags & INSERTED != 0 || !was_there(access) {
            return Some(Before::Absent);
        }
        let mut words = vec![0; access.row.words().len()];
        P::read_words(c, access.row.words(), &mut words);
        // SAFETY: the transaction, which does not end meanwhile, has the row to itself or shares it
        // with readers, so that its last word is what the last commit left there.
        Some(unsafe { Before::row(c, &tables[table], words) })
    }
}

/// A sink of an engine with a fault, which passes insertions and deletions on and drops updates.
pub(crate) struct DropsUpdates<'k, K>(pub &'k mut K);

impl<P: Platform, K: RedoSink<P>> RedoSink<P> for DropsUpdates<'_, K> {
    fn insert(&mut self, table: usize, row: &[P::Word], tail: &[u8]) {
        self.0.insert(table, row, tail);
    }

    fn update(&mut self, _: usize, _: &[P::Word], _: RowChanges<'_>, _: Option<&[u8]>, _: &[u8]) {}

    fn delete(&mut self, table: usize, row: &[P::Word], key_tail: &[u8]) {
        self.0.delete(table, row, key_tail);
    }
}
