//! Entries in indexes: those of rows that a transaction inserts or deletes, and the hand-over of an
//! entry from a deleted row to one that is inserted with the same key.

use platform::Platform;
use storage::index::Partition;
use storage::{Local, RecordHeader, Table};

use super::Accesses;
use super::row::{Access, DELETED, WRITTEN};

/// In place of the start of keys: the transaction found the row absent, and has not needed its keys
/// yet.
pub(crate) const UNKNOWN_KEYS: u32 = u32::MAX;

/// One bit for each index of the table.
pub(crate) fn all_linked<P: Platform>(table: &Table<P>) -> u16 {
    debug_assert!(table.indexes.len() <= u16::BITS as usize, "a bit for each index");
    (1u32 << table.indexes.len()).wrapping_sub(1) as u16
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    /// Remembers the row's keys, one slice an index.
    #[inline(always)]
    pub(crate) fn remember_keys(&mut self, table: &Table<P>, number: u32, keys: &[&[u64]]) {
        self.list[number as usize].keys = self.keys.len() as u32;
        table.keep_keys(keys, &mut self.keys);
    }

    /// Numbers of all rows in the order in which they are to be finished: rows that take entries
    /// over come before those that leave them. No row does both: before a row that takes entries
    /// over is deleted, it gives them back.
    #[inline(always)]
    pub(crate) fn finishing_order(&self) -> impl Iterator<Item = u32> + use<P, H> {
        let (given, count) = (self.passes_on, self.list.len() as u32);
        let order = if given { self.takers_first() } else { Vec::new() };
        (0..count).map(move |place| if given { order[place as usize] } else { place })
    }

    #[cold]
    fn takers_first(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.list.len() as u32).collect();
        order.sort_by_key(|number| self.list[*number as usize].inherits == 0);
        order
    }

    /// Takes the linked entries of the row out of the table's indexes, and retires the row and its
    /// tail. A row that an index does not name under the key that the caller gave stays
    /// where it is: another entry may go on naming it. Whether the row is retired.
    ///
    /// # Safety
    /// The row is in no other index, the caller has it to itself for good, and is inside an epoch.
    pub(crate) unsafe fn unlink(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        table: &Table<P>,
        number: u32,
        stamp: u64,
    ) -> bool {
        let access = &self.list[number as usize];
        let bits = access.row.to_bits();
        let kept = &self.keys[access.keys as usize..];
        let mut is_out = true;
        for ((position, index), key) in table.indexes.iter().enumerate().zip(table.kept_keys(kept)) {
            if access.linked >> position & 1 != 0 {
                is_out &= index.partition(key).remove(c, local, key, bits, stamp);
            }
        }
        if is_out {
            // SAFETY: no index names the row, and by the caller's promise no reader finds it from
            // now on.
            unsafe { self.retire(c, local, table, number) };
        }
        is_out
    }

    /// The partitions of the table's indexes that lose an entry when the row goes.
    pub(crate) fn linked_partitions<'t>(
        &self,
        table: &'t Table<P>,
        number: u32,
    ) -> impl Iterator<Item = &'t Partition<P>> {
        let linked = self.list[number as usize].linked;
        let losing =
            table.indexes.iter().enumerate().filter(move |(position, _)| linked >> position & 1 != 0);
        losing.map(move |(position, index)| index.partition(self.key_in(table, number, position)))
    }

    /// All keys of a row that the transaction inserts or deletes, as they are kept.
    pub(crate) fn keys_of(&self, table: &Table<P>, number: u32) -> &[u64] {
        let kept = &self.keys[self.list[number as usize].keys as usize..];
        &kept[..table.kept_words(|word| kept[word])]
    }

    /// The row's key in index number `position`, if the transaction inserts or deletes the row.
    fn key_in(&self, table: &Table<P>, number: u32, position: usize) -> &[u64] {
        table.kept_key(&self.keys[self.list[number as usize].keys as usize..], position)
    }

    /// The row that has `bit` of those bits that `bits` gives, and the same key as row `number` in
    /// that index.
    pub(super) fn with_same_key(
        &self,
        table: &Table<P>,
        number: u32,
        position: usize,
        bits: impl Fn(&Access<P, H>) -> u16,
    ) -> Option<u32> {
        let its_table = self.list[number as usize].table;
        let key = self.key_in(table, number, position);
        let found = self.list.iter().enumerate().position(|(other, access)| {
            access.table == its_table
                && bits(access) >> position & 1 != 0
                && table.is_same_key(self.key_in(table, other as u32, position), key)
        });
        found.map(|other| other as u32)
    }

    /// The row that the transaction finds through the entry of row `number` in index number
    /// `position`: row `number` itself; or, if the transaction has deleted it, the row inserted
    /// with the same key afterwards, which takes the entry over; or none.
    #[inline]
    pub(crate) fn named_row(&self, table: &Table<P>, number: u32, position: usize) -> Option<u32> {
        let access = &self.list[number as usize];
        if access.flags & DELETED == 0 {
            return Some(number);
        }
        if access.passed >> position & 1 == 0 {
            return None;
        }
        self.with_same_key(table, number, position, |successor| successor.inherits)
    }

    /// Returns true if row `number`, which is to be inserted, takes over the entry that index
    /// number `position` has for row `own` of the same transaction, when the transaction commits.
    /// If not, `own` stays.
    pub(crate) fn pass_entry(&mut self, own: u32, number: u32, position: usize) -> bool {
        let bit = 1 << position;
        let before = &mut self.list[own as usize];
        if before.flags & DELETED == 0 || before.linked & bit == 0 {
            return false;
        }
        before.linked &= !bit;
        before.passed |= bit;
        self.passes_on = true;
        self.list[number as usize].inherits |= bit;
        true
    }

    /// Remembers that row `own`, which was found absent, hands its entry in index number `position`
    /// to another.
    pub(crate) fn remember_key(&mut self, table: &Table<P>, own: u32, position: usize, key: &[u64]) {
        let access = &mut self.list[own as usize];
        access.flags |= WRITTEN;
        if access.keys == UNKNOWN_KEYS {
            access.keys = self.keys.len() as u32;
            table.keep_unknown_keys(&mut self.keys);
        }
        let kept = &mut self.keys[self.list[own as usize].keys as usize..];
        let (from, _) = table.kept_place(|word| kept[word], position);
        kept[from..from + key.len()].copy_from_slice(key);
    }

    /// Whose entries the inserted row `number` takes over when the transaction commits: (index,
    /// row).
    pub(crate) fn takes_over_from<'t>(
        &self,
        table: &'t Table<P>,
        number: u32,
    ) -> impl Iterator<Item = (usize, u32)> + use<'_, 't, P, H> {
        let inherits = self.list[number as usize].inherits;
        let positions = (0..table.indexes.len()).filter(move |position| inherits >> position & 1 != 0);
        positions.filter_map(move |position| {
            let before = self.with_same_key(table, number, position, |before| before.passed)?;
            Some((position, before))
        })
    }

    /// Gives the entries that the inserted row `number` was to take over back to the deleted rows
    /// that have them: the inserted row is being deleted itself.
    pub(crate) fn give_entries_back(&mut self, table: &Table<P>, number: u32) {
        for position in 0..table.indexes.len() {
            let bit = 1 << position;
            if self.list[number as usize].inherits & bit == 0 {
                continue;
            }
            self.list[number as usize].inherits &= !bit;
            if let Some(other) = self.with_same_key(table, number, position, |before| before.passed) {
                let before = &mut self.list[other as usize];
                before.passed &= !bit;
                before.linked |= bit;
            }
        }
    }

    /// The transaction aborts: no row takes an entry over.
    pub(crate) fn keep_entries(&mut self) {
        for access in &mut self.list {
            access.linked |= std::mem::take(&mut access.passed);
        }
    }

    /// Makes the entries that this inserted row takes over name it.
    #[inline(always)]
    pub(crate) fn take_over(&self, c: P::Core, tables: &[Table<P>], number: u32) {
        let access = &self.list[number as usize];
        if access.inherits != 0 {
            self.take_over_entries(c, &tables[access.table as usize], number);
        }
    }

    #[cold]
    fn take_over_entries(&self, c: P::Core, table: &Table<P>, number: u32) {
        let access = &self.list[number as usize];
        for (position, index) in table.indexes.iter().enumerate() {
            if access.inherits >> position & 1 != 0 {
                let key = self.key_in(table, number, position);
                // SAFETY: a row of this table, which the transaction has inserted.
                let replaced = unsafe { index.partition(key).replace(c, key, access.row.to_bits()) };
                assert!(replaced, "the entry stays until it is taken over");
            }
        }
    }
}
