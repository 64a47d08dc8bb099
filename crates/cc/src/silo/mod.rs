//! `silo`: optimistic concurrency control with per-row version words and epochs.
//!
//! Source: Tu, Zheng, Kohler, Liskov, Madden, "Speedy transactions in multicore in-memory databases", SOSP 2013.
//!
//! Each row has one word: bit 0 locked, bit 1 absent, the rest is the stamp (TID) of its last writer: the epoch in the
//! high half, a number within it below. Reads copy words and check that the version stayed the same; writes are kept
//! aside. `prepare` locks the rows to write in the order of their places, reads the epoch (the serialization point),
//! and validates: rows read still have the version seen, and leaves (or buckets) where keys were absent or ranges were
//! scanned are unchanged. `commit` applies the writes and unlocks with a stamp larger than all seen.
//!
//! Deviations:
//! - Rows are written field by field, in place; only changed bytes are kept and applied.
//! - A deleted row leaves its indexes at once, instead of when no snapshot needs it. The paper keeps it so that a later
//!   insertion of the same key gets a larger TID; here the leaf remembers the largest stamp removed from it
//!   ([`storage::tree`]), with the same effect and no dead rows in the way of scans.
//! - `prepare` waits for a locked row only a bounded time: the holder may be a prepared part of a transaction over
//!   several databases. Such a part ([`Mode::Part`]) also locks the rows that it only read, and freezes the partitions of
//!   indexes in which it saw that keys were absent: nothing is inserted there until it is finished.
//! - Rows of tables that are never written need no validation.

mod ending;

use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use platform::{Intent, OutOfMemory, Platform, SharedWord, Work};
use storage::index::{Gap, GapGuard, Partition};
use storage::record::tail;
use storage::tree::{Direction, Insert, Lookup};
use storage::{RecordHeader, RecordRef};

use ending::{finish, lock_all, recycle, unchanged, undo, validate};

use crate::abort::{Abort, Conflict};
use crate::access::{
    Access, Accesses, COPIED, DELETED, DELETED_BEFORE, FREE, INSERTED, READ_ONLY, WRITTEN, all_linked,
    prefetch_ahead,
};
use crate::meter::Category;
use crate::redo::RedoSink;
use crate::scheme::{Context, Found, Holder, Mode, Scheme, Stamp};

const LOCKED: u64 = 1;
const ABSENT: u64 = 2;
const FLAGS: u64 = LOCKED | ABSENT;

/// In place of the version of a row that was found and not read yet: the first read waits for the row's line, and not the
/// lookup, so that the misses of many lookups overlap. No version is like this: it would be locked.
const UNSEEN: u64 = u64::MAX;

/// Longest wait for a row that somebody has locked: several times what applying a large write set takes.
const LOCK_WAIT_NANOS: u64 = 5_000;
/// Attempts to insert a key whose row disappears each time.
const INSERT_ATTEMPTS: u32 = 8;

/// What `prepare` checks. The scheme is serializable with [`Validating`] only.
pub trait ValidationRules: Send + Sync + 'static {
    /// Whether rows that were read are checked.
    const READS: bool;
    /// Whether leaves and buckets are checked.
    const WITNESSES: bool;
    /// Whether a prepared part of a transaction over several databases keeps keys absent that it saw to be absent.
    const FREEZING: bool;
}

/// All checks.
pub struct Validating;

impl ValidationRules for Validating {
    const READS: bool = true;
    const WITNESSES: bool = true;
    const FREEZING: bool = true;
}

/// A mutant: rows that were read may have changed.
pub struct WithoutReadValidation;

impl ValidationRules for WithoutReadValidation {
    const READS: bool = false;
    const WITNESSES: bool = true;
    const FREEZING: bool = true;
}

/// A mutant: phantoms may appear.
pub struct WithoutWitnesses;

impl ValidationRules for WithoutWitnesses {
    const READS: bool = true;
    const WITNESSES: bool = false;
    const FREEZING: bool = true;
}

/// A mutant: keys may appear between the parts of a transaction over several databases.
pub struct WithoutFreezing;

impl ValidationRules for WithoutFreezing {
    const READS: bool = true;
    const WITNESSES: bool = true;
    const FREEZING: bool = false;
}

/// The scheme.
pub struct Silo<R = Validating>(PhantomData<R>);

/// The version word of a row.
#[repr(transparent)]
pub struct Version<P: Platform>(P::Word);

impl<P: Platform> RecordHeader<P> for Version<P> {
    fn inserting() -> Self {
        Version(P::Word::new(LOCKED | ABSENT))
    }
}

/// What a worker keeps: its last stamp, and the memory of finished transactions.
pub struct SiloWorker<P: Platform> {
    last: u64,
    // Boxed, so that beginning, preparing and committing move a pointer.
    #[allow(clippy::vec_box)]
    free: Vec<Box<Accesses<P, Version<P>>>>,
}

/// A running transaction.
pub struct SiloTransaction<P: Platform> {
    rows: Box<Accesses<P, Version<P>>>,
    mode: Mode,
    /// Of a part: where it saw that keys were absent.
    absences: Absences,
}

/// A transaction whose written rows are locked and whose reads were valid in `epoch`.
pub struct SiloPrepared<P: Platform> {
    rows: Box<Accesses<P, Version<P>>>,
    stamp: u64,
    frozen: Absences,
}

/// Partitions of indexes, by the addresses of the words that count who has frozen them.
#[derive(Default)]
struct Absences {
    words: Vec<u64>,
}

impl Absences {
    #[inline]
    fn note<P: Platform>(&mut self, mode: Mode, partition: &Partition<P>) {
        if mode == Mode::Part {
            let word = std::ptr::from_ref(partition.end_word()).expose_provenance() as u64;
            if !self.words.contains(&word) {
                self.words.push(word);
            }
        }
    }

    /// Adds to the counts of all noted partitions.
    ///
    /// Concurrency: whoever inserts looks at the count with the leaf or bucket latched; whoever freezes validates leaves
    /// and buckets afterwards: one of them sees the other.
    fn add<P: Platform>(&self, c: P::Core, change: u64) {
        for word in &self.words {
            // SAFETY: a word of a partition of this instance, whose tables live as long as its transactions.
            let word = unsafe { &*std::ptr::with_exposed_provenance::<P::Word>(*word as usize) };
            // SeqCst: ordered before the validation, and after it.
            P::fetch_add(c, word, change, Ordering::SeqCst);
        }
    }

    fn freeze<P: Platform>(&self, c: P::Core) {
        self.add::<P>(c, 1);
    }

    fn thaw<P: Platform>(&self, c: P::Core) {
        self.add::<P>(c, 1u64.wrapping_neg());
    }
}

/// Lets insertions pass unless the partition is frozen.
struct Frozen<'a, P: Platform> {
    c: P::Core,
    count: &'a P::Word,
}

impl<P: Platform> GapGuard<P> for Frozen<'_, P> {
    const WANTS_GAP: bool = false;
    #[inline]
    fn allow(&mut self, _: Option<Gap<'_, P>>) -> bool {
        // SeqCst: ordered after the latching of the leaf or bucket, see `Absences::add`.
        P::load(self.c, self.count, Ordering::SeqCst) == 0
    }
}

/// The row's version once it is unlocked; conflict if that takes too long.
#[inline(always)]
fn stable_version<P: Platform>(c: P::Core, row: RecordRef<P, Version<P>>) -> Result<u64, Abort> {
    // Acquire: pairs with the release store that unlocks: the words are at least as new as the version.
    let version = P::load(c, &row.header().0, Ordering::Acquire);
    if version & LOCKED == 0 { Ok(version) } else { wait_unlocked(c, row, version) }
}

#[cold]
fn wait_unlocked<P: Platform>(
    c: P::Core,
    row: RecordRef<P, Version<P>>,
    mut version: u64,
) -> Result<u64, Abort> {
    let deadline = P::now(c).plus(LOCK_WAIT_NANOS);
    while version & LOCKED != 0 {
        let seen = P::spin_while(c, &row.header().0, version, Some(deadline));
        if seen == version {
            return Err(Abort::Conflict(Conflict::Locked));
        }
        version = seen;
    }
    Ok(version)
}

/// Takes the row that index number `index` names into the transaction. `None`: the transaction has deleted it.
#[inline]
fn take<P: Platform, R: ValidationRules>(
    transaction: &mut SiloTransaction<P>,
    cx: &mut Context<'_, '_, P, Silo<R>>,
    (table, index): (usize, usize),
    bits: u64,
) -> Result<Option<Found>, Abort> {
    let c = cx.c;
    // SAFETY: the value was read from an index of this table in this epoch.
    let row = unsafe { RecordRef::<P, Version<P>>::from_bits(bits, cx.tables[table].row_words) };
    let place = P::address(c, row.start());
    P::work(c, Work::Access, 1);
    if let Some(number) = transaction.rows.find(place) {
        return Ok(transaction.rows.meant(&cx.tables[table], number, index));
    }
    let flags = if cx.tables[table].read_only { FREE } else { 0 };
    Ok(Some(transaction.rows.push(row, place, table, UNSEEN, flags)?))
}

impl<P: Platform, R: ValidationRules> Scheme<P> for Silo<R> {
    const NAME: &'static str = "silo";
    type Header = Version<P>;
    type Shared = ();
    type Worker = SiloWorker<P>;
    type Transaction = SiloTransaction<P>;
    type Prepared = SiloPrepared<P>;

    fn shared(_: P::Core, _: usize) -> Result<(), OutOfMemory> {
        Ok(())
    }

    fn worker((): &(), _: usize) -> SiloWorker<P> {
        SiloWorker { last: 0, free: Vec::new() }
    }

    #[inline]
    fn begin(cx: &mut Context<'_, '_, P, Self>, mode: Mode) -> SiloTransaction<P> {
        let rows = cx.worker.state.free.pop().unwrap_or_else(|| Box::new(Accesses::new()));
        SiloTransaction { rows, mode, absences: Absences::default() }
    }

    #[inline]
    fn access(
        transaction: &mut SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
        lookup: Lookup,
        _: Intent,
    ) -> Result<Option<Found>, Abort> {
        match lookup.value {
            Some(bits) => take(transaction, cx, (table, index), bits),
            None => {
                let tables = cx.tables;
                transaction.absences.note(transaction.mode, tables[table].indexes[index].partition(key));
                transaction.rows.witnesses.push(lookup.witness);
                Ok(None)
            }
        }
    }

    #[inline(always)]
    fn read(
        transaction: &mut SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: Found,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let c = cx.c;
        let access = transaction.rows.get(number)?;
        let row = access.row;
        if access.flags & (INSERTED | DELETED | FREE) == 0 {
            if access.seen == UNSEEN {
                look(access, c)?;
            }
            P::read_words(c, &row.words()[first..first + out.len()], out);
            // Acquire: the version is read after the words; pairs with the release fence in `commit`.
            P::fence(c, Ordering::Acquire);
            if P::load(c, &row.header().0, Ordering::Relaxed) != access.seen {
                read_again(access, c, first, out)?;
            }
        } else if access.flags & DELETED != 0 {
            return Err(DELETED_BEFORE);
        } else {
            // Nobody else writes it.
            P::read_words(c, &row.words()[first..first + out.len()], out);
        }
        access.flags |= COPIED;
        transaction.rows.overlay(number, first, out);
        Ok(())
    }

    fn read_tail(
        transaction: &mut SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: Found,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let last = transaction.rows.get(number)?.row.words().len() - 1;
        let mut bits = [0];
        Self::read(transaction, cx, number, last, &mut bits)?;
        // SAFETY: read as the row's last word under validation, or this transaction's own; within its epoch.
        unsafe { tail::read::<P>(cx.c, bits[0], out) };
        Ok(())
    }

    #[inline]
    fn write(
        transaction: &mut SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: Found,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        writable(transaction, number)?;
        P::work(cx.c, Work::CopyWord, bytes.len().div_ceil(8) as u32);
        transaction.rows.write(number, offset, bytes);
        Ok(())
    }

    fn write_tail(
        transaction: &mut SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: Found,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        writable(transaction, number)?;
        transaction.rows.write_tail(cx.c, &mut cx.worker.local, number, bytes)
    }

    fn insert(
        transaction: &mut SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let (c, worker) = (cx.c, &mut *cx.worker);
        let schema = &cx.tables[table];
        let rows = &mut transaction.rows;
        let number = rows.create(c, &mut worker.local, (table, schema), keys, fixed, tail)?;
        let before = worker.meter.enter::<P>(c, Category::Index);
        for (position, key) in keys.iter().enumerate() {
            link(transaction, cx, table, number, position, key)?;
        }
        cx.worker.meter.leave::<P>(c, before);
        Ok(())
    }

    fn delete(
        transaction: &mut SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: Found,
        keys: &[&[u64]],
    ) -> Result<(), Abort> {
        writable(transaction, number)?;
        let access = transaction.rows.get(number)?;
        access.flags |= DELETED | WRITTEN;
        if access.flags & INSERTED == 0 {
            access.linked = all_linked(&cx.tables[access.table as usize]);
            transaction.rows.remember_keys(number, keys);
        } else {
            let table = access.table as usize;
            transaction.rows.disinherit(&cx.tables[table], number);
        }
        Ok(())
    }

    fn scan<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        table: usize,
        index: usize,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        _: Intent,
        visit: &mut dyn FnMut(&mut T, Found) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let mut result = Ok(true);
        let Context { c, tables, .. } = holder.parts().1;
        for partition in tables[table].indexes[index].partitions(low, high, direction) {
            let (transaction, cx) = holder.parts();
            transaction.absences.note(transaction.mode, partition);
            let before = cx.worker.meter.enter::<P>(c, Category::Index);
            partition.scan(c, (low, high), direction, false, &mut |seen| {
                let (transaction, cx) = holder.parts();
                cx.worker.meter.leave::<P>(c, before);
                transaction.rows.witnesses.push(seen.witness);
                for (place, bits) in seen.values.iter().enumerate() {
                    prefetch_ahead::<P>(c, seen.values, place);
                    let (transaction, mut cx) = holder.parts();
                    result = match take(transaction, &mut cx, (table, index), *bits) {
                        Ok(Some(number)) => visit(holder, number),
                        Ok(None) => Ok(true),
                        Err(abort) => Err(abort),
                    };
                    if !matches!(result, Ok(true)) {
                        return ControlFlow::Break(());
                    }
                }
                holder.parts().1.worker.meter.enter::<P>(c, Category::Index);
                ControlFlow::Continue(())
            });
            holder.parts().1.worker.meter.leave::<P>(c, before);
            if !matches!(result, Ok(true)) {
                break;
            }
        }
        result.map(drop)
    }

    fn table_of(transaction: &SiloTransaction<P>, row: Found) -> usize {
        transaction.rows.list[row as usize].table as usize
    }

    #[inline]
    fn prefetch(
        transaction: &mut SiloTransaction<P>,
        c: P::Core,
        row: Found,
        first: usize,
        words: usize,
        intent: Intent,
    ) {
        transaction.rows.prefetch(c, row, first, words, intent);
    }

    fn check(transaction: &mut SiloTransaction<P>, cx: &mut Context<'_, '_, P, Self>) -> Result<(), Abort> {
        unchanged::<P, R>(&mut transaction.rows, cx.c).map(drop).map_err(Abort::Conflict)
    }

    fn prepare(
        mut transaction: SiloTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<SiloPrepared<P>, Abort> {
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Cc);
        let locked = lock_all(&mut transaction, cx);
        if !R::FREEZING {
            transaction.absences = Absences::default();
        }
        transaction.absences.freeze::<P>(cx.c);
        let prepared = match locked.and_then(|()| validate(&mut transaction, cx)) {
            Ok(stamp) => Ok(SiloPrepared { rows: transaction.rows, stamp, frozen: transaction.absences }),
            Err(conflict) => {
                transaction.absences.thaw::<P>(cx.c);
                undo(transaction.rows, cx);
                Err(Abort::Conflict(conflict))
            }
        };
        cx.worker.meter.leave::<P>(cx.c, before);
        prepared
    }

    fn abort(transaction: SiloTransaction<P>, cx: &mut Context<'_, '_, P, Self>) {
        undo(transaction.rows, cx);
    }

    const LOGS: bool = true;

    fn redo<K: RedoSink<P>>(prepared: &SiloPrepared<P>, cx: &mut Context<'_, '_, P, Self>, sink: &mut K) {
        prepared.rows.redo(cx.c, cx.tables, sink);
    }

    fn commit(prepared: SiloPrepared<P>, cx: &mut Context<'_, '_, P, Self>) -> Stamp {
        let SiloPrepared { mut rows, stamp, frozen } = prepared;
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Commit);
        // Release: readers that see one of the words written below see the lock, or a later version, in their check.
        P::fence(cx.c, Ordering::Release);
        for number in rows.finishing_order() {
            finish(&mut rows, cx, number, stamp);
        }
        frozen.thaw::<P>(cx.c);
        recycle(rows, cx);
        cx.worker.meter.leave::<P>(cx.c, before);
        Stamp(stamp)
    }

    fn rollback(prepared: SiloPrepared<P>, cx: &mut Context<'_, '_, P, Self>) {
        prepared.frozen.thaw::<P>(cx.c);
        undo(prepared.rows, cx);
    }
}

/// Sees the row's version.
#[inline(always)]
fn look<P: Platform>(access: &mut Access<P, Version<P>>, c: P::Core) -> Result<(), Abort> {
    let version = stable_version(c, access.row)?;
    if version & ABSENT != 0 {
        return Err(Abort::Conflict(Conflict::KeyInUse));
    }
    access.seen = version;
    Ok(())
}

/// Reads words of a row that was changed while they were read.
#[cold]
fn read_again<P: Platform>(
    access: &mut Access<P, Version<P>>,
    c: P::Core,
    first: usize,
    out: &mut [u64],
) -> Result<(), Abort> {
    if access.flags & COPIED != 0 {
        return Err(Abort::Conflict(Conflict::ReadChanged));
    }
    let row = access.row;
    loop {
        // Nothing was copied yet: the newer version is as good.
        look(access, c)?;
        P::read_words(c, &row.words()[first..first + out.len()], out);
        // Acquire: as in `read`.
        P::fence(c, Ordering::Acquire);
        if P::load(c, &row.header().0, Ordering::Relaxed) == access.seen {
            return Ok(());
        }
    }
}

fn writable<P: Platform>(transaction: &mut SiloTransaction<P>, number: Found) -> Result<(), Abort> {
    let flags = transaction.rows.get(number)?.flags;
    if flags & FREE != 0 {
        return Err(READ_ONLY);
    }
    if flags & DELETED != 0 {
        return Err(DELETED_BEFORE);
    }
    Ok(())
}

/// Puts the new row into one index.
fn link<P: Platform, R: ValidationRules>(
    transaction: &mut SiloTransaction<P>,
    cx: &mut Context<'_, '_, P, Silo<R>>,
    table: usize,
    number: Found,
    position: usize,
    key: &[u64],
) -> Result<(), Abort> {
    let (c, tables) = (cx.c, cx.tables);
    let index = &tables[table].indexes[position];
    let rows = &mut transaction.rows;
    let bits = rows.list[number as usize].row.to_bits();
    for _ in 0..INSERT_ATTEMPTS {
        let local = &mut cx.worker.local;
        let partition = index.partition(key);
        let mut guard = Frozen { c, count: partition.end_word() };
        match partition.insert(c, local, key, bits, &mut guard, &mut rows.witnesses)? {
            Insert::Inserted { stamp } => {
                rows.stamp_seen = rows.stamp_seen.max(stamp);
                rows.list[number as usize].linked |= 1 << position;
                return Ok(());
            }
            Insert::Refused => return Err(Abort::Conflict(Conflict::Phantom)),
            Insert::Exists { value, .. } => {
                // SAFETY: read from an index of this table in this epoch.
                let row = unsafe { RecordRef::<P, Version<P>>::from_bits(value, tables[table].row_words) };
                let place = P::address(c, row.start());
                if let Some(own) = rows.find(place) {
                    let inherited = rows.inherit(own, number, position);
                    return if inherited { Ok(()) } else { Err(Abort::Duplicate { index: index.name }) };
                }
                let version = stable_version(c, row)?;
                if version & ABSENT == 0 {
                    // Read like any other row: whether the key exists is for `check` to confirm.
                    rows.push(row, place, table, version, 0)?;
                    return Err(Abort::Duplicate { index: index.name });
                }
            }
        }
    }
    Err(Abort::Conflict(Conflict::KeyInUse))
}
