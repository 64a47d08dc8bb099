//! Rolling back to a savepoint.
//!
//! Most of what a roll-back takes back follows from where things lie: what was written since the
//! savepoint lies behind its mark, and so do the keys of rows that were deleted since. The rest is
//! noted while there are savepoints, in branches that a transaction without them does not enter.

use platform::{Platform, Work};
use storage::record::tail;
use storage::{Local, RecordHeader, Table};

use super::Accesses;
use super::entries::UNKNOWN_KEYS;
use super::partial_step::PartialStep;
use super::row::{Access, DELETED, INSERTED, NEW_TAIL, WRITTEN};
use crate::savepoints::SavepointMark;

/// Rules of a scheme about rows when it rolls back to a savepoint.
pub(crate) struct PartialRules<D, T> {
    /// A row is not deleted any more.
    pub undeleted: D,
    /// Returns true if a row was there before the transaction; as in [`Accesses::redo`].
    pub was_there: T,
    /// A mutant: what was written stays.
    pub keeps_writes: bool,
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Sets a savepoint.
    #[cold]
    pub(crate) fn set_savepoint(&mut self) -> SavepointMark {
        self.has_extras = true;
        self.has_savepoints = true;
        SavepointMark {
            rows: self.list.len(),
            words: self.keys.len(),
            writes: self.writes.seal(),
            steps: self.partial.len(),
        }
    }

    /// Forgets all savepoints.
    #[cold]
    pub(crate) fn release_savepoints(&mut self, c: P::Core, local: &mut Local<P>) {
        self.has_savepoints = false;
        self.writes.unseal();
        for step in self.partial.drain(..) {
            if let PartialStep::TailReplaced { tail, .. } = step {
                // SAFETY: this transaction made the tail, no other ever saw it, and its row has
                // another one.
                unsafe { tail::retire(c, local, tail) };
            }
        }
    }

    /// Deletes a row that the transaction has inserted: it takes over no entries.
    pub(crate) fn delete_own(&mut self, table: &Table<P>, number: u32) {
        if self.has_savepoints {
            let inherits = self.list[number as usize].inherits;
            self.partial.push(PartialStep::OwnDeleted { number, inherits });
        }
        self.give_entries_back(table, number);
    }

    /// Takes back what was changed since a savepoint.
    #[cold]
    pub(crate) fn roll_back_to(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        tables: &[Table<P>],
        mark: SavepointMark,
        mut rules: PartialRules<impl FnMut(&Access<P, H>), impl Fn(&Access<P, H>) -> bool>,
    ) {
        let mut words_of_new = 0;
        for number in (mark.rows..self.list.len()).rev() {
            let access = &mut self.list[number];
            if access.flags & INSERTED == 0 {
                continue;
            }
            let table = &tables[access.table as usize];
            let kept = &self.keys[access.keys as usize..];
            words_of_new += table.kept_words(|word| kept[word]);
            if access.flags & DELETED == 0 {
                access.flags |= DELETED | WRITTEN;
                self.give_entries_back(table, number as u32);
            }
        }
        self.take_steps_back(c, local, tables, mark, rules.keeps_writes);
        let has_changed = self.writes.has_grown_since(mark.writes)
            // The keys of a row that is deleted are remembered.
            || self.keys.len() - mark.words > words_of_new;
        if has_changed {
            P::work(c, Work::Access, self.list.len() as u32);
            for number in 0..self.list.len() {
                self.take_row_back(c, local, number, mark, &mut rules);
            }
        }
        if !rules.keeps_writes {
            self.writes.roll_back(mark.writes);
        }
    }

    /// Takes back what was noted since a savepoint, from the last to the first.
    fn take_steps_back(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        tables: &[Table<P>],
        mark: SavepointMark,
        keeps_writes: bool,
    ) {
        while self.partial.len() > mark.steps
            && let Some(step) = self.partial.pop()
        {
            match step {
                // A row that was inserted since the savepoint stays deleted.
                PartialStep::OwnDeleted { number, .. } if number as usize >= mark.rows => {}
                PartialStep::OwnDeleted { number, inherits } => {
                    let access = &mut self.list[number as usize];
                    access.flags &= !DELETED;
                    let table = &tables[access.table as usize];
                    self.inherit_again(table, number, inherits);
                }
                // SAFETY: this transaction made the tail, and the row keeps another one.
                PartialStep::TailReplaced { tail, .. } if keeps_writes => unsafe {
                    tail::retire(c, local, tail);
                },
                PartialStep::TailReplaced { number, tail } => {
                    let access = &mut self.list[number as usize];
                    // SAFETY: this transaction made the tail, and no other ever saw it.
                    unsafe { tail::retire(c, local, access.tail) };
                    access.tail = tail;
                }
            }
        }
    }

    /// Has the inserted row take over entries of these bits again, as it did before it was deleted.
    fn inherit_again(&mut self, table: &Table<P>, number: u32, inherits: u16) {
        for position in (0..table.indexes.len()).filter(|position| inherits >> position & 1 != 0) {
            let deleted = |access: &Access<P, H>| match access.flags & DELETED {
                0 => 0,
                _ if access.keys == UNKNOWN_KEYS => 0,
                _ => access.linked,
            };
            if let Some(before) = self.with_same_key(table, number, position, deleted) {
                self.pass_entry(before, number, position);
            }
        }
    }

    /// Takes back what was written into a row since a savepoint, and its deletion.
    fn take_row_back(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        number: usize,
        mark: SavepointMark,
        rules: &mut PartialRules<impl FnMut(&Access<P, H>), impl Fn(&Access<P, H>) -> bool>,
    ) {
        let access = &mut self.list[number];
        let was_deleted_since =
            access.flags & (DELETED | INSERTED) == DELETED && access.keys as usize >= mark.words;
        if was_deleted_since && (rules.was_there)(access) {
            access.flags &= !DELETED;
            access.linked = 0;
            (rules.undeleted)(access);
        }
        if rules.keeps_writes {
            return;
        }
        self.writes.cut(&mut access.writes, mark.writes);
        if access.flags & NEW_TAIL != 0 {
            let offset = (access.row.words().len() - 1) * 8;
            if !self.writes.writes_at(access.writes, offset) {
                // SAFETY: this transaction made the tail, and no row points to it.
                unsafe { tail::retire(c, local, access.tail) };
                access.flags &= !NEW_TAIL;
            }
        }
        if access.writes.is_empty() && access.flags & (INSERTED | DELETED) == 0 {
            access.flags &= !WRITTEN;
        }
    }
}
