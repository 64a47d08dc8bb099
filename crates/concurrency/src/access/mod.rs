//! The rows a transaction has touched: what most schemes keep about them.
//!
//! - here: the list of rows, and what the transaction writes into them;
//! - `row`: one row of the list, and its flags;
//! - `free`: rows about which nothing can conflict;
//! - `places`: which number the row at a place has;
//! - `unnamed`: rows of which words were read at once, and that have no number;
//! - `entries`: the entries of new and deleted rows in indexes, and how one row takes over
//!   another's;
//! - `runs`: several new rows at once;
//! - `partial`, `partial_step`: rolling back to a savepoint;
//! - `allocation`: making and retiring rows with their tails;
//! - `tails`: tails that the transaction has made and no row has yet;
//! - `whole`, `copies`: copies of whole rows, where they are made;
//! - `shape`: checks of the lengths of rows, keys and tails.

mod allocation;
mod copies;
mod entries;
mod free;
mod partial;
mod partial_step;
mod places;
mod row;
mod runs;
mod shape;
mod tails;
mod unnamed;
mod whole;

use platform::{Address, Intent, Platform, Work};
use storage::index::Witnesses;
use storage::record::tail;
use storage::{Loan, Local, Optimisation, RecordHeader, RecordRef, Table};
use terms::{Abort, Category};

use crate::meter::Meter;
use crate::new_rows::NewRow;
use crate::writes::WriteBuffer;
use free::{FreeRow, FreeRows};
use partial_step::PartialStep;
use places::Places;
use unnamed::UnnamedRows;
use whole::WholeRows;

pub(crate) use allocation::{new_row, new_rows, retire_row};
pub(crate) use entries::{UNKNOWN_KEYS, all_linked};
pub(crate) use partial::PartialRules;
pub use row::ROWS_MAX;
pub(crate) use row::{
    Access, COPIED, DELETED, DELETED_BEFORE, HELD, INSERTED, MARKED, NEW_TAIL, NO_SUCH_ROW, READ_ONLY, WHOLE,
    WRITTEN,
};
pub(crate) use runs::{enter_rows, enter_run};
pub(crate) use shape::{
    check_keys, check_read, check_row, check_rows, check_tail, check_tail_read, check_write,
};
pub(crate) use unnamed::UnnamedRow;

/// Rows that a scan asks for ahead of the one it visits.
const SCAN_AHEAD: usize = 4;

/// Returns true if rows are brought closer before they are needed.
#[inline(always)]
pub(crate) fn prefetches<P: Platform>(local: &Local<P>) -> bool {
    local.optimisations().has(Optimisation::Prefetch)
}

/// Prefetches the first `bytes` of the rows (named as in indexes) that a scan will visit soon
/// after number `place`.
#[inline]
pub(crate) fn prefetch_ahead<P: Platform>(c: P::Core, values: &[u64], place: usize, bytes: usize) {
    let ahead = if place == 0 { 1..SCAN_AHEAD + 1 } else { place + SCAN_AHEAD..place + SCAN_AHEAD + 1 };
    for bits in values.get(ahead.start..ahead.end.min(values.len())).unwrap_or(&[]) {
        P::prefetch(c, std::ptr::without_provenance::<u8>(*bits as usize), bytes, Intent::Read);
    }
}

/// Rows of a transaction up to which its memory is kept for the next one: 3 MiB of it.
pub(crate) const ROWS_KEPT_MAX: usize = 1 << 16;

/// Rows, writes and witnesses of one transaction. Reused from transaction to transaction.
pub(crate) struct Accesses<P: Platform, H> {
    pub list: Vec<Access<P, H>>,
    free: FreeRows<P, H>,
    places: Places,
    pub unnamed: UnnamedRows<P, H>,
    pub writes: WriteBuffer,
    pub keys: Vec<u64>,
    pub witnesses: Witnesses,
    /// At least the largest stamp with which a key was removed from what the transaction has
    /// scanned; `u64::MAX` if the transaction has seen otherwise that keys are absent.
    pub removed: u64,
    /// True if some entry passes from a deleted row to an inserted one at commit.
    pub passes_on: bool,
    /// Numbers of the rows to lock, in order.
    pub order: Vec<u32>,
    /// True if the scheme holds all rows that were there before, and their stamps are seen: there
    /// is none that was only read.
    pub holds_all: bool,
    /// Largest stamp seen: the commit's stamp is larger.
    pub stamp_seen: u64,
    /// Longest wait for a row that another transaction has locked; 0: no wait at all.
    pub lock_wait_nanos: u64,
    /// Blocks for copies of rows, where memory comes from one heap for all workers.
    loans: Vec<Loan>,
    whole: WholeRows,
    /// True if there are loans, or there were savepoints.
    has_extras: bool,
    /// True if the transaction may roll back to a savepoint.
    has_savepoints: bool,
    /// Further changes that a roll-back to a savepoint takes back.
    partial: Vec<PartialStep>,
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    pub(crate) fn new() -> Self {
        Accesses {
            list: Vec::new(),
            free: FreeRows::new(),
            places: Places::default(),
            unnamed: UnnamedRows::new(),
            writes: WriteBuffer::default(),
            keys: Vec::new(),
            witnesses: Witnesses::default(),
            removed: 0,
            passes_on: false,
            order: Vec::new(),
            holds_all: false,
            stamp_seen: 0,
            lock_wait_nanos: 0,
            loans: Vec::new(),
            whole: WholeRows::default(),
            has_extras: false,
            has_savepoints: false,
            partial: Vec::new(),
        }
    }

    /// Forgets everything, and returns the memory of a transaction with many rows.
    #[cold]
    fn release(&mut self) {
        *self = Accesses { lock_wait_nanos: self.lock_wait_nanos, ..Self::new() };
    }

    /// From now on [`Self::in_order`] gives the rows in the order of their places.
    pub(crate) fn sort_by_place(&mut self) {
        self.order.clear();
        self.order.extend(0..self.list.len() as u32);
        let list = &self.list;
        self.order.sort_unstable_by_key(|number| list[*number as usize].place);
    }

    /// The row at a position in the order of places, if rows were sorted, otherwise in the order in
    /// which they were found.
    pub(crate) fn in_order(&mut self, position: usize) -> &mut Access<P, H> {
        let number = self.order.get(position).map_or(position, |number| *number as usize);
        &mut self.list[number]
    }

    /// Forgets everything. The rows are those of an instance that `local` belongs to.
    #[inline(always)]
    pub(crate) fn clear(&mut self, c: P::Core, local: &mut Local<P>) {
        if self.has_extras {
            self.end_extras(c, local);
        }
        if self.list.len() + self.unnamed.count() > ROWS_KEPT_MAX {
            return self.release();
        }
        self.whole.clear();
        self.list.clear();
        self.free.clear();
        self.places.clear();
        self.unnamed.clear();
        self.writes.clear();
        self.keys.clear();
        self.witnesses.clear();
        self.removed = 0;
        self.passes_on = false;
        self.order.clear();
        self.holds_all = false;
        self.stamp_seen = 0;
    }

    /// Takes the memory that a copy of the row needs, until the transaction ends, where memory
    /// comes from one heap for all workers. The memory stays unwritten, since a transaction keeps
    /// its copies in memory of its own: the loan stands for what DBx1000 asks of the heap for each
    /// row that a transaction copies, under schemes that do not keep that memory from transaction
    /// to transaction.
    #[inline(always)]
    pub(crate) fn lend_copy(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        row: RecordRef<P, H>,
    ) -> Result<(), Abort> {
        if local.optimisations().has(Optimisation::ThreadAlloc) { Ok(()) } else { self.lend(c, local, row) }
    }

    #[cold]
    fn lend(&mut self, c: P::Core, local: &mut Local<P>, row: RecordRef<P, H>) -> Result<(), Abort> {
        let bytes = RecordRef::<P, H>::bytes(row.words().len() as u32);
        self.loans.push(local.lend(c, bytes)?);
        self.has_extras = true;
        Ok(())
    }

    /// Gives back loans, and what was kept for savepoints.
    #[cold]
    fn end_extras(&mut self, c: P::Core, local: &mut Local<P>) {
        self.has_extras = false;
        self.release_savepoints(c, local);
        // SAFETY: lent by workers of the same instance, which has one memory.
        unsafe { local.take_back(c, self.loans.drain(..)) };
    }

    /// The number of the row at this place, if the transaction has it already.
    #[inline]
    pub(crate) fn find(&self, place: Address) -> Option<u32> {
        self.places.find(place, &self.list)
    }

    /// Returns true if the transaction holds the row at this place.
    pub(crate) fn holds(&self, place: Address) -> bool {
        self.find(place).is_some_and(|number| self.list[number as usize].flags & HELD != 0)
    }

    /// Checks that one more row fits: to be called before anything is taken that a row's entry has
    /// to give back.
    #[inline]
    pub(crate) fn check_room(&self) -> Result<(), Abort> {
        self.check_room_for(1)
    }

    /// The same for several rows.
    #[inline]
    pub(super) fn check_room_for(&self, rows: usize) -> Result<(), Abort> {
        if self.list.len() + rows > ROWS_MAX { Err(Abort::TooLarge { limit: ROWS_MAX }) } else { Ok(()) }
    }

    /// Adds a row; its number.
    #[inline]
    pub(crate) fn push(
        &mut self,
        row: RecordRef<P, H>,
        place: Address,
        table: usize,
        seen: u64,
        flags: u8,
    ) -> Result<u32, Abort> {
        self.check_room()?;
        Ok(self.add(row, place, table, seen, flags))
    }

    /// The same; the caller has checked that there is room.
    #[inline]
    fn add(&mut self, row: RecordRef<P, H>, place: Address, table: usize, seen: u64, flags: u8) -> u32 {
        self.list.push(Access::found(row, place, table, seen, flags));
        self.places.enter(&self.list);
        self.list.len() as u32 - 1
    }

    /// Adds a row that is not found by its place again: a row of a snapshot, which may be there
    /// several times.
    #[inline]
    pub(crate) fn push_unplaced(
        &mut self,
        row: RecordRef<P, H>,
        place: Address,
        table: usize,
    ) -> Result<u32, Abort> {
        self.check_room()?;
        self.list.push(Access::found(row, place, table, 0, 0));
        Ok(self.list.len() as u32 - 1)
    }

    /// Forgets the rows of a snapshot, which has nothing to check at its end.
    pub(crate) fn forget_unplaced(&mut self) {
        self.list.clear();
        self.free.clear();
    }

    /// Adds a row about which nothing can conflict; its number.
    #[inline]
    pub(crate) fn push_free(&mut self, row: RecordRef<P, H>, table: usize) -> Result<u32, Abort> {
        self.free.push(row, table)
    }

    /// Adds the row that index number `index` of the table names under this key, if any, without
    /// concurrency control.
    pub(crate) fn push_unvalidated(
        &mut self,
        c: P::Core,
        meter: &mut Meter,
        number: usize,
        table: &Table<P>,
        index: usize,
        key: &[u64],
    ) -> Result<Option<u32>, Abort> {
        let before = meter.enter::<P>(c, Category::Index);
        let found = table.indexes[index].partition(key).get(c, key).value.map(|bits| {
            P::work(c, Work::Access, 1);
            // SAFETY: the value was read from an index of this table in this epoch.
            let row = unsafe { RecordRef::<P, H>::from_bits(bits, table.row_words) };
            self.push_free(row, number)
        });
        meter.leave::<P>(c, before);
        found.transpose()
    }

    /// The row with this number, if nothing about it can conflict.
    #[inline(always)]
    pub(crate) fn free(&self, number: u32) -> Option<&FreeRow<P, H>> {
        self.free.get(number)
    }

    /// Copies words of such a row.
    #[inline(always)]
    pub(crate) fn read_free(
        &self,
        c: P::Core,
        number: u32,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let row = self.free(number).ok_or(NO_SUCH_ROW)?.row;
        check_read(row.words().len(), first, out.len())?;
        P::read_words(c, &row.words()[first..first + out.len()], out);
        Ok(())
    }

    /// The row, which the transaction is about to change.
    #[inline(always)]
    pub(crate) fn get_to_change(&mut self, number: u32) -> Result<&mut Access<P, H>, Abort> {
        if number as usize >= self.list.len() {
            return Err(self.refuse_change(number));
        }
        self.get(number)
    }

    #[cold]
    fn refuse_change(&self, number: u32) -> Abort {
        if self.free(number).is_some() { READ_ONLY } else { NO_SUCH_ROW }
    }

    /// The row and its table, whether anything about it can conflict or not.
    pub(crate) fn row_of(&self, number: u32) -> Option<(RecordRef<P, H>, usize)> {
        let free = || self.free(number).map(|free| (free.row, free.table as usize));
        let listed = self.list.get(number as usize);
        listed.map(|access| (access.row, access.table as usize)).or_else(free)
    }

    pub(crate) fn get(&mut self, number: u32) -> Result<&mut Access<P, H>, Abort> {
        self.list.get_mut(number as usize).ok_or(NO_SUCH_ROW)
    }

    /// Prefetches words of a row.
    #[inline]
    pub(crate) fn prefetch(&self, c: P::Core, number: u32, first: usize, words: usize, intent: Intent) {
        if let Some(span) =
            self.row_of(number).and_then(|(row, _)| row.words().get(first..first.wrapping_add(words)))
        {
            P::prefetch(c, span.as_ptr(), size_of_val(span), intent);
        }
    }

    /// Remembers a write of bytes.
    #[inline]
    pub(crate) fn write(&mut self, number: u32, offset: usize, bytes: &[u8]) {
        let access = &mut self.list[number as usize];
        access.flags |= WRITTEN;
        self.writes.push(&mut access.writes, offset, bytes);
    }

    /// A new row with this content, which no index names; its number. The caller links the row.
    #[inline(always)]
    pub(crate) fn create(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        number: usize,
        table: &Table<P>,
        NewRow { keys, fixed, tail }: NewRow<'_>,
    ) -> Result<u32, Abort> {
        check_row(table, keys, fixed, tail)?;
        self.check_room()?;
        let row = new_row(c, local, table, fixed, tail)?;
        let place = P::address(c, row.start());
        let access = self.push(row, place, number, 0, INSERTED | WRITTEN)?;
        self.remember_keys(table, access, keys);
        Ok(access)
    }

    /// Stores the writes of row `number`, which the caller has to itself, and retires a replaced
    /// tail.
    pub(crate) fn apply(&mut self, c: P::Core, local: &mut Local<P>, number: u32) {
        let access = &self.list[number as usize];
        if access.writes.is_empty() {
            // A new row that was not written again; a new tail is a write.
            return;
        }
        let words = access.row.words();
        if access.flags & NEW_TAIL != 0 {
            let old = words.last().map_or(0, P::peek);
            // SAFETY: the writes replace it just below; this transaction alone writes the row.
            unsafe { tail::retire(c, local, old) };
        }
        self.writes.apply::<P>(c, access.writes, words);
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::{Accesses, ROWS_MAX};
    use crate::optimistic::Version;
    use terms::Abort;

    #[test]
    fn a_transaction_has_a_limit_of_rows() {
        let rows = Accesses::<Hardware, Version<Hardware>>::new();
        assert_eq!(rows.check_room_for(ROWS_MAX), Ok(()));
        assert_eq!(rows.check_room_for(ROWS_MAX + 1), Err(Abort::TooLarge { limit: ROWS_MAX }));
    }
}
