//! What a commit changes, as a log wants to know it, and what a log may rely on.
//!
//! A log repeats commits in the order of their stamps, all of those up to the end of some epoch and none of later ones. That this
//! gives a state which could have been, with all that was acknowledged in it, rests on three promises of every scheme:
//!
//! 1. *Order*: whoever reads or overwrites a row that another transaction wrote, or inserts a key (of any index) that another
//!    deleted, has the larger stamp. So the changes of a row are repeated one after the other, and what changes is there.
//! 2. *Closure*: whoever comes later in any other way has a stamp of the same epoch or a later one. So nothing stays that
//!    depends on what is cut off.
//! 3. *Completeness*: the stamp of a commit that changes anything is not of an earlier epoch than the one that its worker has
//!    announced for it ([`storage::Local::announce_commit`]), before it drew the stamp, and keeps announced until its record is
//!    in the log. The global epoch is at most one later than any announcement. So when it is two later than some epoch, all
//!    commits of that epoch have left their records, for ever. How long a transaction ran before does not matter.
//!
//! How they are kept:
//!
//! - `silo`, `occ`, `mvcc` announce the epoch between locking their writes and validating their reads, and take a stamp larger
//!   than the versions of all rows that they used and the removals that indexes remember: 1 for what was used; 2 because whoever
//!   overwrites what was only read, or appears where a key was absent, locks or inserts after that validation and reads the
//!   epoch later. That needs the reading of the epoch to be ordered after the locking *and* before the validation, by a fence
//!   each; announcing reads it on both sides of one fence, which is proved at [`storage::Participant::announce_commit`] and
//!   explored in `storage/tests/loom/reclamation.rs`. The timestamps of `occ` say when transactions began and order nothing. A snapshot of `mvcc` writes nothing.
//! - `tictoc` orders all that depends on each other by time, which is the stamp: 1 and 2 for all dependencies. Its times are at
//!   least those of the announced epoch, but in an epoch without numbers left those of the next follow, so that a stamp may
//!   be ahead of the epochs; whoever gets such a one moves the epoch on. (The stamps of the other schemes may be ahead too, after
//!   some four million commits that depend on each other within an epoch.) Commits that have nothing to do with each other may have the same stamp.
//! - `no-wait`, `wait-die`, `dl-detect` announce the epoch with all locks held, and take a stamp larger than those of all rows that
//!   they used: whoever comes later in any way gets one of the locks afterwards.
//! - `hstore` does the same with sites: each knows the stamp of its last holder, who has a smaller one in any case. Transactions
//!   of `hstore` and `tictoc` that change nothing announce nothing: they leave nothing behind.
//!
//! A participant of a transaction over several databases may commit long after it was prepared. Everything that it used is still
//! held then, so it takes a new stamp, at least as large, of the epoch in which it commits ([`Scheme::commit`](crate::Scheme)).

use platform::Platform;
use storage::record::tail;
use storage::{RecordHeader, Table};

use crate::access::{Access, Accesses, DELETED, INSERTED, NEW_TAIL, WRITTEN};
use crate::writes::RowChanges;

/// Takes the changes of one transaction, in an order in which they can be repeated. Of rows that change or go only the key is
/// to be looked at, which no commit changes; inserted ones are as they were inserted, or as they are in the end.
pub trait RedoSink<P: Platform> {
    /// A row is new: its words, without the pointer to its tail, and its tail.
    fn insert(&mut self, table: usize, row: &[P::Word], tail: &[u8]);

    /// Bytes of a row change, and its tail if there is a new one.
    fn update(&mut self, table: usize, row: &[P::Word], changes: RowChanges<'_>, tail: Option<&[u8]>);

    /// A row is gone.
    fn delete(&mut self, table: usize, row: &[P::Word]);
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Hands everything that the transaction changes to the sink, but for rows that were not there before, nor are now. It has
    /// its rows to itself.
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
            if changed == 0 || changed & (INSERTED | DELETED) == INSERTED | DELETED || !was_there(access) {
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

/// What mutants tell a log through: it hears of no update.
pub(crate) struct Deaf<'k, K>(pub &'k mut K);

impl<P: Platform, K: RedoSink<P>> RedoSink<P> for Deaf<'_, K> {
    fn insert(&mut self, table: usize, row: &[P::Word], tail: &[u8]) {
        self.0.insert(table, row, tail);
    }

    fn update(&mut self, _: usize, _: &[P::Word], _: RowChanges<'_>, _: Option<&[u8]>) {}

    fn delete(&mut self, table: usize, row: &[P::Word]) {
        self.0.delete(table, row);
    }
}
