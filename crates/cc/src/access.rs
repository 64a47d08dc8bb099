//! The rows a transaction has touched: what all schemes keep about them.

use platform::{Address, Intent, LINE_BYTES, OutOfMemory, Platform};
use storage::index::{Partition, Witnesses};
use storage::record::tail;
use storage::{Loan, Local, Optimisation, RecordHeader, RecordRef, Table};

use crate::abort::Abort;
use crate::writes::{Chain, WriteBuffer};

/// Most rows that one transaction may touch.
pub const ROWS_MAX: usize = 1 << 20;

pub(crate) const READ_ONLY: Abort = Abort::Misuse("the table is read-only");
pub(crate) const DELETED_BEFORE: Abort = Abort::Misuse("the row was deleted by this transaction");

/// In place of the start of keys: the row was met absent, and nobody has needed them.
pub(crate) const UNKNOWN_KEYS: u32 = u32::MAX;

/// Rows up to which a transaction is searched one by one.
const SMALL_ROWS: usize = 64;

/// The transaction writes the row.
pub(crate) const WRITTEN: u8 = 1;
/// The transaction inserts the row.
pub(crate) const INSERTED: u8 = 2;
/// The transaction deletes the row.
pub(crate) const DELETED: u8 = 4;
/// The scheme holds the row for the transaction (what that means is the scheme's matter).
pub(crate) const HELD: u8 = 8;
/// The transaction gives the row a new tail.
pub(crate) const NEW_TAIL: u8 = 16;
/// The transaction has copied words of the row.
pub(crate) const COPIED: u8 = 32;
/// The row is in a table that is never written: nothing about it can conflict.
pub(crate) const FREE: u8 = 64;

/// Rows that a scan asks for ahead of the one it visits.
const SCAN_AHEAD: usize = 4;

/// Whether rows are brought closer before they are needed.
#[inline(always)]
pub(crate) fn prefetches<P: Platform>(local: &Local<P>) -> bool {
    !local.left_out().has(Optimisation::Prefetch)
}

/// Starts to bring the rows (named as in indexes) that a scan will visit soon after number `place`.
#[inline]
pub(crate) fn prefetch_ahead<P: Platform>(c: P::Core, values: &[u64], place: usize) {
    let ahead = if place == 0 { 1..SCAN_AHEAD + 1 } else { place + SCAN_AHEAD..place + SCAN_AHEAD + 1 };
    for bits in values.get(ahead.start..ahead.end.min(values.len())).unwrap_or(&[]) {
        P::prefetch(c, std::ptr::without_provenance::<u8>(*bits as usize), LINE_BYTES, Intent::Read);
    }
}

/// One row of a transaction.
pub(crate) struct Access<P: Platform, H> {
    pub row: RecordRef<P, H>,
    /// The row's place, for a global order.
    pub place: Address,
    /// What the scheme saw in the header.
    pub seen: u64,
    pub table: u32,
    pub flags: u8,
    /// Indexes that hold an entry for the row which goes with it, one bit each.
    pub linked: u16,
    /// Indexes that hold an entry for the row, which the transaction has deleted, that another row takes over when the
    /// transaction commits: it inserted the same key again.
    passed: u16,
    /// Indexes in which the row, which the transaction inserts, takes over an entry when the transaction commits.
    inherits: u16,
    /// Start of the row's keys in `Accesses::keys`, if it is inserted or deleted.
    pub keys: u32,
    pub writes: Chain,
    /// The new tail.
    pub tail: u64,
}

/// One bit for each index of the table.
pub(crate) fn all_linked<P: Platform>(table: &Table<P>) -> u16 {
    (1u32 << table.indexes.len()).wrapping_sub(1) as u16
}

/// A row of the table with this content, known to nobody.
pub(crate) fn new_row<P: Platform, H: RecordHeader<P>>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
    fixed: &[u8],
    tail_bytes: &[u8],
) -> Result<RecordRef<P, H>, OutOfMemory> {
    let tail_bits = tail::allocate::<P>(c, local, tail_bytes)?;
    let last = table.has_tail.then_some(tail_bits);
    let row = RecordRef::<P, H>::allocate(c, local, fixed, last);
    if row.is_err() {
        // SAFETY: made above, known to nobody.
        unsafe { tail::retire(c, local, tail_bits) };
    }
    row
}

/// Retires a row of the table and its tail.
///
/// # Safety
/// No index holds the row any more, nor anything else its tail; once; inside an epoch.
pub(crate) unsafe fn retire_row<P: Platform, H: RecordHeader<P>>(
    c: P::Core,
    local: &mut Local<P>,
    table: &Table<P>,
    row: RecordRef<P, H>,
) {
    // SAFETY: the caller's promise, for the row and what it points to.
    unsafe {
        if table.has_tail {
            tail::retire(c, local, row.words().last().map_or(0, P::peek));
        }
        row.retire(c, local);
    }
}

/// Rows, writes and witnesses of one transaction. Reused from transaction to transaction.
pub(crate) struct Accesses<P: Platform, H> {
    pub list: Vec<Access<P, H>>,
    /// Which places may be in `list`: a filter of one bit a row, good for small transactions.
    filter: [u64; 8],
    /// Places of a large transaction: open addressing, number + 1 of each row, 0 where free. Empty while it is small.
    large: Vec<u32>,
    pub writes: WriteBuffer,
    pub keys: Vec<u64>,
    pub witnesses: Witnesses,
    /// Whether some entry passes from a deleted row to an inserted one at commit.
    pub passes_on: bool,
    /// Numbers of the rows to lock, in order.
    pub order: Vec<u32>,
    /// Largest stamp seen: the commit's stamp is larger.
    pub stamp_seen: u64,
    /// Longest wait for a row that somebody has locked; 0: none at all.
    pub lock_wait_nanos: u64,
    /// Blocks for copies of rows, where memory comes from one heap for all workers.
    loans: Vec<Loan>,
}

impl<P: Platform, H: RecordHeader<P>> Accesses<P, H> {
    pub(crate) fn new() -> Self {
        Accesses {
            list: Vec::new(),
            filter: [0; 8],
            large: Vec::new(),
            writes: WriteBuffer::default(),
            keys: Vec::new(),
            witnesses: Witnesses::default(),
            passes_on: false,
            order: Vec::new(),
            stamp_seen: 0,
            lock_wait_nanos: 0,
            loans: Vec::new(),
        }
    }

    /// Forgets everything. The rows are those of an instance that `local` belongs to.
    #[inline(always)]
    pub(crate) fn clear(&mut self, c: P::Core, local: &mut Local<P>) {
        if !self.loans.is_empty() {
            self.give_back(c, local);
        }
        self.list.clear();
        self.filter = [0; 8];
        self.large.clear();
        self.writes.clear();
        self.keys.clear();
        self.witnesses.clear();
        self.passes_on = false;
        self.order.clear();
        self.stamp_seen = 0;
    }

    /// Takes the memory that a copy of the row needs, until the transaction ends, where memory comes from one heap for all
    /// workers. Nobody writes to it, since the copies of a transaction are in its own memory: it stands for what DBx1000
    /// asks of the heap for each row that a transaction copies, under those schemes that do not keep that memory from
    /// transaction to transaction.
    #[inline(always)]
    pub(crate) fn lend_copy(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        row: RecordRef<P, H>,
    ) -> Result<(), Abort> {
        if local.left_out().has(Optimisation::ThreadAlloc) { self.lend(c, local, row) } else { Ok(()) }
    }

    #[cold]
    fn lend(&mut self, c: P::Core, local: &mut Local<P>, row: RecordRef<P, H>) -> Result<(), Abort> {
        let bytes = RecordRef::<P, H>::bytes(row.words().len() as u32);
        self.loans.push(local.lend(c, bytes)?);
        Ok(())
    }

    #[cold]
    fn give_back(&mut self, c: P::Core, local: &mut Local<P>) {
        // SAFETY: lent by workers of the same instance, which has one memory.
        unsafe { local.take_back(c, self.loans.drain(..)) };
    }

    fn hash(place: Address) -> u64 {
        (place.0 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn filter_bits(place: Address) -> (usize, u64) {
        let mixed = Self::hash(place);
        ((mixed >> 61) as usize, 1 << (mixed >> 55 & 63))
    }

    /// The number of the row at this place, if the transaction has it already.
    #[inline]
    pub(crate) fn find(&self, place: Address) -> Option<u32> {
        let (word, bits) = Self::filter_bits(place);
        if self.filter[word] & bits == 0 {
            return None;
        }
        if self.large.is_empty() {
            return self.list.iter().position(|access| access.place == place).map(|index| index as u32);
        }
        self.find_large(place)
    }

    fn find_large(&self, place: Address) -> Option<u32> {
        let mask = self.large.len() - 1;
        let mut slot = (Self::hash(place) >> 20) as usize & mask;
        loop {
            let number = self.large[slot].checked_sub(1)?;
            if self.list[number as usize].place == place {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// Enters row `number` into the table of places, which is made, or made larger, when it is time.
    #[cold]
    fn enter_large(&mut self, number: usize) {
        let first = if (number + 1) * 2 > self.large.len() {
            let slots = (number * 4).next_power_of_two();
            self.large.clear();
            self.large.resize(slots, 0);
            0
        } else {
            number
        };
        let mask = self.large.len() - 1;
        for number in first..=number {
            let mut slot = (Self::hash(self.list[number].place) >> 20) as usize & mask;
            while self.large[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            self.large[slot] = number as u32 + 1;
        }
    }

    /// Whether one more row fits: to be asked before anything is taken that a row's entry has to give back.
    #[inline]
    pub(crate) fn check_room(&self) -> Result<(), Abort> {
        if self.list.len() >= ROWS_MAX { Err(Abort::TooLarge { limit: ROWS_MAX }) } else { Ok(()) }
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
        let (word, bits) = Self::filter_bits(place);
        self.filter[word] |= bits;
        let access = Access {
            row,
            place,
            seen,
            table: table as u32,
            flags,
            linked: 0,
            passed: 0,
            inherits: 0,
            keys: 0,
            writes: Chain::EMPTY,
            tail: 0,
        };
        self.list.push(access);
        let number = self.list.len() - 1;
        if number >= SMALL_ROWS {
            self.enter_large(number);
        }
        Ok(number as u32)
    }

    pub(crate) fn get(&mut self, number: u32) -> Result<&mut Access<P, H>, Abort> {
        self.list.get_mut(number as usize).ok_or(Abort::Misuse("a handle of another transaction"))
    }

    /// Numbers of all rows in the order in which they are to be finished: rows that inherit entries come before those
    /// that leave them. None does both: who deletes a row that inherits gives the entries back first.
    pub(crate) fn finishing_order(&self) -> impl Iterator<Item = u32> + use<P, H> {
        let count = self.list.len() as u32;
        let mut order: Vec<u32> = Vec::new();
        if self.passes_on {
            order.extend(0..count);
            order.sort_by_key(|number| self.list[*number as usize].inherits == 0);
        }
        (0..count).map(move |place| order.get(place as usize).copied().unwrap_or(place))
    }

    /// Starts to bring words of a row closer.
    #[inline]
    pub(crate) fn prefetch(&self, c: P::Core, number: u32, first: usize, words: usize, intent: Intent) {
        if let Some(access) = self.list.get(number as usize) {
            let span = &access.row.words()[first..first + words];
            P::prefetch(c, span.as_ptr(), size_of_val(span), intent);
        }
    }

    /// Remembers the row's keys, one slice an index.
    pub(crate) fn remember_keys(&mut self, number: u32, keys: &[&[u64]]) {
        self.list[number as usize].keys = self.keys.len() as u32;
        for word in keys.iter().copied().flatten() {
            self.keys.push(*word);
        }
    }

    /// Copies words of the row as this transaction sees them on top of `out`, which holds what is in the row.
    #[inline]
    pub(crate) fn overlay(&self, number: u32, first: usize, out: &mut [u64]) {
        let access = &self.list[number as usize];
        if !access.writes.is_empty() {
            self.writes.overlay(access.writes, first, out);
        }
    }

    /// Remembers a write of bytes.
    #[inline]
    pub(crate) fn write(&mut self, number: u32, offset: usize, bytes: &[u8]) {
        let access = &mut self.list[number as usize];
        access.flags |= WRITTEN;
        self.writes.push(&mut access.writes, offset, bytes);
    }

    /// Gives the row a new tail in place of one that this transaction may have given it before.
    pub(crate) fn write_tail(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        number: u32,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let bits = tail::allocate(c, local, bytes)?;
        let access = &mut self.list[number as usize];
        if access.flags & NEW_TAIL != 0 {
            // SAFETY: this transaction made it, and nobody else ever saw it.
            unsafe { tail::retire(c, local, access.tail) };
        }
        access.tail = bits;
        access.flags |= NEW_TAIL | WRITTEN;
        let offset = (access.row.words().len() - 1) * 8;
        self.writes.push(&mut access.writes, offset, &bits.to_le_bytes());
        Ok(())
    }

    /// A new row with this content, known to nobody; its number. The caller links it.
    #[inline(always)]
    pub(crate) fn create(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        (number, table): (usize, &Table<P>),
        keys: &[&[u64]],
        fixed: &[u8],
        tail_bytes: &[u8],
    ) -> Result<u32, Abort> {
        if table.read_only {
            return Err(READ_ONLY);
        }
        self.check_room()?;
        let row = new_row(c, local, table, fixed, tail_bytes)?;
        let place = P::address(c, row.start());
        let access = self.push(row, place, number, 0, INSERTED | WRITTEN)?;
        self.remember_keys(access, keys);
        Ok(access)
    }

    /// Stores the writes of row `number`, which the caller has to itself, and retires a replaced tail.
    #[inline(always)]
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

    /// Takes the linked entries of the row out of the table's indexes, and retires the row and its tail.
    ///
    /// # Safety
    /// The row is in these indexes, the caller has it to itself for good, and is inside an epoch.
    pub(crate) unsafe fn unlink(
        &mut self,
        c: P::Core,
        local: &mut Local<P>,
        table: &Table<P>,
        number: u32,
        stamp: u64,
    ) {
        let access = &self.list[number as usize];
        let mut at = access.keys as usize;
        for (position, index) in table.indexes.iter().enumerate() {
            let key = &self.keys[at..at + index.words];
            at += index.words;
            if access.linked >> position & 1 != 0 {
                index.partition(key).remove(c, local, key, stamp);
            }
        }
        // SAFETY: by the caller's promise nobody finds the row from now on.
        unsafe { self.retire(c, local, table, number) };
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

    /// Retires row, tail and pending tail.
    ///
    /// # Safety
    /// No index holds the row any more; once; inside an epoch.
    pub(crate) unsafe fn retire(&mut self, c: P::Core, local: &mut Local<P>, table: &Table<P>, number: u32) {
        let access = &self.list[number as usize];
        // SAFETY: the caller's promise, for the row and what it points to.
        unsafe {
            if access.flags & NEW_TAIL != 0 {
                tail::retire(c, local, access.tail);
            }
            retire_row(c, local, table, access.row);
        }
    }

    /// All keys of a row that the transaction inserts or deletes, one an index.
    pub(crate) fn keys_of(&self, table: &Table<P>, number: u32) -> &[u64] {
        let words: usize = table.indexes.iter().map(|index| index.words).sum();
        let at = self.list[number as usize].keys as usize;
        &self.keys[at..at + words]
    }

    /// The row's key in index number `position`, if the transaction inserts or deletes the row.
    fn key_in(&self, table: &Table<P>, number: u32, position: usize) -> &[u64] {
        let before: usize = table.indexes[..position].iter().map(|index| index.words).sum();
        let at = self.list[number as usize].keys as usize + before;
        &self.keys[at..at + table.indexes[position].words]
    }

    /// The row that has `bit` of those bits that `bits` gives, and the same key as row `number` in that index.
    fn with_same_key(
        &self,
        table: &Table<P>,
        (number, position): (u32, usize),
        bits: impl Fn(&Access<P, H>) -> u16,
    ) -> Option<u32> {
        let its_table = self.list[number as usize].table;
        let key = self.key_in(table, number, position);
        let found = self.list.iter().enumerate().position(|(other, access)| {
            access.table == its_table
                && bits(access) >> position & 1 != 0
                && self.key_in(table, other as u32, position) == key
        });
        found.map(|other| other as u32)
    }

    /// What index number `position` means by its entry for row `number` of the transaction: the row itself, or the row
    /// inserted with the same key after it was deleted, or nothing.
    #[inline]
    pub(crate) fn meant(&self, table: &Table<P>, number: u32, position: usize) -> Option<u32> {
        let access = &self.list[number as usize];
        if access.flags & DELETED == 0 {
            return Some(number);
        }
        if access.passed >> position & 1 == 0 {
            return None;
        }
        self.with_same_key(table, (number, position), |heir| heir.inherits)
    }

    /// Whether row `number`, which is to be inserted, takes over the entry that index number `position` has for row `own`
    /// of the same transaction, when the transaction commits. If not, `own` stays.
    pub(crate) fn inherit(&mut self, own: u32, number: u32, position: usize) -> bool {
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

    /// Remembers that row `own`, which was met absent, hands its entry in index number `position` to another.
    pub(crate) fn claim(&mut self, table: &Table<P>, own: u32, position: usize, key: &[u64]) {
        let access = &mut self.list[own as usize];
        access.flags |= WRITTEN;
        if access.keys == UNKNOWN_KEYS {
            access.keys = self.keys.len() as u32;
            let words: usize = table.indexes.iter().map(|index| index.words).sum();
            self.keys.resize(self.keys.len() + words, 0);
        }
        let before: usize = table.indexes[..position].iter().map(|index| index.words).sum();
        let at = self.list[own as usize].keys as usize + before;
        self.keys[at..at + key.len()].copy_from_slice(key);
    }

    /// Whose entries the inserted row `number` takes over when the transaction commits: (index, row).
    pub(crate) fn heritage<'t>(
        &self,
        table: &'t Table<P>,
        number: u32,
    ) -> impl Iterator<Item = (usize, u32)> + use<'_, 't, P, H> {
        let inherits = self.list[number as usize].inherits;
        let positions = (0..table.indexes.len()).filter(move |position| inherits >> position & 1 != 0);
        positions.filter_map(move |position| {
            let before = self.with_same_key(table, (number, position), |before| before.passed)?;
            Some((position, before))
        })
    }

    /// Gives the entries that the inserted row `number` was to take over back to the deleted rows that have them: it is
    /// being deleted itself.
    pub(crate) fn disinherit(&mut self, table: &Table<P>, number: u32) {
        for position in 0..table.indexes.len() {
            let bit = 1 << position;
            if self.list[number as usize].inherits & bit == 0 {
                continue;
            }
            self.list[number as usize].inherits &= !bit;
            if let Some(other) = self.with_same_key(table, (number, position), |before| before.passed) {
                let before = &mut self.list[other as usize];
                before.passed &= !bit;
                before.linked |= bit;
            }
        }
    }

    /// The transaction aborts: nothing is passed on.
    pub(crate) fn disinherit_all(&mut self) {
        for access in &mut self.list {
            access.linked |= std::mem::take(&mut access.passed);
        }
    }

    /// Makes the keys that were passed on to this inserted row name it.
    #[inline(always)]
    pub(crate) fn take_over(&self, c: P::Core, table: &Table<P>, number: u32) {
        if self.list[number as usize].inherits != 0 {
            self.take_over_entries(c, table, number);
        }
    }

    #[cold]
    fn take_over_entries(&self, c: P::Core, table: &Table<P>, number: u32) {
        let access = &self.list[number as usize];
        for (position, index) in table.indexes.iter().enumerate() {
            if access.inherits >> position & 1 != 0 {
                let key = self.key_in(table, number, position);
                let replaced = index.partition(key).replace(c, key, access.row.to_bits());
                assert!(replaced, "the entry stays until it is taken over");
            }
        }
    }

    /// Retires new tails that will not be used.
    pub(crate) fn drop_tails(&mut self, c: P::Core, local: &mut Local<P>) {
        for access in &mut self.list {
            if access.flags & NEW_TAIL != 0 {
                // SAFETY: this transaction made the tail, and no row points to it.
                unsafe { tail::retire(c, local, access.tail) };
            }
            access.flags &= !NEW_TAIL;
        }
    }
}
