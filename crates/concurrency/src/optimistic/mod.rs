//! The part that the optimistic schemes share: transactions that read without leaving a trace, keep
//! their writes aside, and check in the end that what they read still holds.
//!
//! A row's header has a version word: bit 0 means locked, bit 1 absent (the row's transaction has
//! not committed yet, or the row was deleted); the other bits change with every write, and each
//! scheme, a [`Method`], defines their meaning. Reads copy words and check that the version stayed
//! the same. `prepare` locks rows and validates: rows that were read, and the leaves and buckets
//! where keys were absent or ranges were scanned. `commit` applies the writes and unlocks.
//!
//! A participant of a transaction over several databases ([`Mode::Participant`]) also marks the
//! rows that it only read ([`marks`]), which no transaction writes until the participant has ended,
//! and freezes the partitions of indexes in which it saw that keys were absent: nothing is inserted
//! there until then.
//!
//! Rows of tables that are never written need no validation.
//!
//! Files, each of which uses only those before it: `header` (version words), `absences` (frozen
//! partitions), `marks`, `reading`, `method` (the port, and what transactions keep), `keeping`
//! (what a participant has read), `found` (rows that indexes name), `linking` (new rows into
//! indexes), `partial` (savepoints), `ending`, and here the verbs.

mod absences;
mod ending;
mod found;
mod header;
mod keeping;
mod linking;
mod marks;
mod method;
mod partial;
mod reading;

use std::sync::atomic::Ordering;

use platform::{Intent, OutOfMemory, Platform, Work};
use storage::record::tail;
use storage::tree::{Direction, Lookup, ScanOrder};
use storage::{Index, Table};
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Category, Fault, Mode, Stamp};

use crate::access::{
    Access, Accesses, DELETED, DELETED_BEFORE, INSERTED, NO_SUCH_ROW, WHOLE, WRITTEN, all_linked, check_keys,
    check_read, check_tail, check_tail_read, check_write, enter_rows,
};
use crate::new_rows::{NewRow, NewRows};
use crate::options::InstanceOptions;
use crate::redo::{Before, DropsUpdates, RedoSink};
use crate::row_words::RowWords;
use crate::scan::walk_rows;
use crate::scheme::{Accessing, Context, Ending, Filling, Holder, Parts, Redo, RowNumber, Scheme};
use crate::timestamps::UnusedTimestamps;
use crate::ways::RowCopies;
use absences::Absences;
use ending::{depends_on, recycle, undo};
use found::{Portions, add_named_row, read_named_row, read_named_rows, scan_leaves};
use keeping::{heed_marks, mark_rows_read, remove_marks};
use linking::{is_named, link, link_run};
use marks::ReadMarks;
use method::{OptimisticWorker, Running, Validated, readers_wait, was_there};

pub(crate) use ending::{PAUSES_NANOS, lock_at_once, lock_in_order, lock_seen_row};
pub(crate) use ending::{pauses_nanos, restore, unchanged, validate_versions};
pub(crate) use header::{ABSENT, FLAGS, LOCKED, UNSEEN};
pub use header::{Version, VersionHeader};
pub use method::{Method, MethodContext, Optimistic, OptimisticShared, OptimisticState};
pub(crate) use reading::{read_in_place, stable_version};

/// Longest wait for a row that another transaction has locked: several times what applying a large
/// write set takes. In an instance without bounded spinning a transaction that finds a row locked
/// aborts at once ([`readers_wait`]).
const LOCK_WAIT_NANOS: u64 = 5_000;
const READS_ONLY: Abort = Abort::Misuse("a transaction on a snapshot writes");

impl<P: Platform, M: Method<P>> Parts<P> for Optimistic<M> {
    type Header = M::Header;
    type SharedState = OptimisticShared<P, M::SharedState>;
    type WorkerState = OptimisticWorker<P, M>;
    type Transaction = Running<P, M>;
    type Prepared = Validated<P, M>;

    fn shared(
        c: P::Core,
        workers: usize,
        options: &InstanceOptions,
    ) -> Result<Self::SharedState, OutOfMemory> {
        Ok(OptimisticShared {
            faults: options.faults,
            own: M::shared(c, workers, options.timestamps)?,
            ways: options.ways,
            lockers: options.lockers(),
            marks: ReadMarks::new(c)?,
            unused_timestamps: match M::DRAWS_UNUSED {
                true => UnusedTimestamps::new(c, options.timestamps, options.ways.timestamp_draws)?,
                false => UnusedTimestamps::none(),
            },
        })
    }

    fn worker(_: &Self::SharedState, number: usize) -> OptimisticWorker<P, M> {
        OptimisticWorker { last: 0, free: Vec::new(), own: M::worker(number) }
    }
}

impl<P: Platform, M: Method<P>> Accessing<P> for Optimistic<M> {
    #[inline]
    fn begin(cx: &mut Context<'_, '_, P, Self>, mode: Mode) -> Running<P, M> {
        let fresh = || {
            let (rows, absences) = (Accesses::new(), Absences::default());
            let prefetches_to_write = cx.shared.ways.row_copies == RowCopies::Rows;
            Box::new(OptimisticState {
                rows,
                absences,
                own: M::Own::default(),
                faults: cx.shared.faults,
                has_marks: false,
                prefetches_to_write,
            })
        };
        let mut state = cx.worker.state.free.pop().unwrap_or_else(fresh);
        let longest = LOCK_WAIT_NANOS.min(cx.worker.wait_nanos_max);
        state.rows.lock_wait_nanos = if readers_wait(cx) { longest } else { 0 };
        cx.shared.unused_timestamps.draw(cx.c, &mut cx.worker.meter);
        M::begin(cx, &mut state.own, mode);
        // A participant marks what it has read: such rows have numbers.
        let remembers_versions = M::REMEMBERS_VERSIONS
            && mode != Mode::Participant
            && cx.shared.ways.row_copies != RowCopies::Rows;
        Running { state, mode, remembers_versions }
    }

    #[inline(always)]
    fn prefetch_locks(cx: &mut Context<'_, '_, P, Self>, table: usize, found: &[Lookup]) {
        M::prefetch_locks(cx, table, found);
    }

    #[inline(always)]
    fn access(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
        lookup: Lookup,
        _: Intent,
    ) -> Result<Option<RowNumber>, Abort> {
        match lookup.value {
            Some(bits) => {
                let found = add_named_row(&mut transaction.state, cx, TableIndex { table, index }, bits);
                if M::VERSIONS && matches!(found, Ok(None)) && !M::is_snapshot(&transaction.state.own) {
                    transaction.state.rows.witnesses.push(lookup.witness);
                }
                found
            }
            None if M::is_snapshot(&transaction.state.own) => Ok(None),
            None => {
                let (tables, state) = (cx.tables, &mut transaction.state);
                state.note_absence(transaction.mode, tables[table].indexes[index].partition(key));
                state.rows.witnesses.push(lookup.witness);
                // What was removed is not known here.
                state.rows.removed = u64::MAX;
                Ok(None)
            }
        }
    }

    #[inline(always)]
    fn accesses_blindly(cx: &Context<'_, '_, P, Self>, table: &Table<P>) -> bool {
        table.read_only || !M::VERSIONS && cx.shared.ways.row_copies != RowCopies::Rows
    }

    fn find_unvalidated(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
    ) -> Result<Option<RowNumber>, Abort> {
        let schema = &cx.tables[table];
        transaction.state.rows.push_unvalidated(cx.c, &mut cx.worker.meter, table, schema, index, key)
    }

    #[inline(always)]
    fn read(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let (c, state) = (cx.c, &mut *transaction.state);
        let Ok(access) = state.rows.get(number) else { return state.rows.read_free(c, number, first, out) };
        let (row, flags, writes) = (access.row, access.flags, access.writes);
        check_read(row.words().len(), first, out.len())?;
        if flags & (INSERTED | DELETED | WHOLE) == 0 {
            M::read(state, c, number, first, out)?;
        } else if flags & DELETED != 0 {
            return Err(DELETED_BEFORE);
        } else if flags & WHOLE != 0 {
            M::read_copy(state, number, first, out);
        } else {
            // No other transaction writes the row.
            P::read_words(c, &row.words()[first..first + out.len()], out);
        }
        state.rows.writes.overlay(writes, first, out);
        Ok(())
    }

    fn read_tail(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let rows = &transaction.state.rows;
        let (row, table) = rows.row_of(number).ok_or(NO_SUCH_ROW)?;
        check_tail_read(&cx.tables[table], rows.free(number).is_some())?;
        let last = row.words().len() - 1;
        let mut bits = [0];
        Self::read(transaction, cx, number, last, &mut bits)?;
        // SAFETY: the rows of the table have tails; read as the last word under validation, or this
        // transaction's own; within its epoch.
        unsafe { tail::read::<P>(cx.c, bits[0], out) };
        Ok(())
    }

    #[inline(always)]
    fn write(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let table = writable(transaction, number)?;
        check_write(&cx.tables[table], offset, bytes.len())?;
        P::work(cx.c, Work::CopyWord, bytes.len().div_ceil(8) as u32);
        transaction.state.rows.write(number, offset, bytes);
        Ok(())
    }

    fn write_tail(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let table = writable(transaction, number)?;
        check_tail(&cx.tables[table])?;
        transaction.state.rows.write_tail(cx.c, &mut cx.worker.local, number, bytes)
    }

    fn insert(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let (c, worker) = (cx.c, &mut *cx.worker);
        let schema = &cx.tables[table];
        if M::is_snapshot(&transaction.state.own) {
            return Err(READS_ONLY);
        }
        let rows = &mut transaction.state.rows;
        let number = rows.create(c, &mut worker.local, table, schema, NewRow { keys, fixed, tail })?;
        let before = worker.meter.enter::<P>(c, Category::Index);
        for (position, key) in keys.iter().enumerate() {
            link(&mut transaction.state, cx, table, number, position, key)?;
        }
        cx.worker.meter.leave::<P>(c, before);
        Ok(())
    }

    fn insert_all(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        new: NewRows<'_>,
    ) -> Result<(), Abort> {
        let (c, schema) = (cx.c, &cx.tables[table]);
        let state = &mut *transaction.state;
        if M::is_snapshot(&state.own) {
            return Err(READS_ONLY);
        }
        let numbers = state.rows.create_all(c, &mut cx.worker.local, table, schema, new)?;
        let before = cx.worker.meter.enter::<P>(c, Category::Index);
        let row = |number: usize| numbers.start + number as u32;
        enter_rows(
            &mut (state, &mut *cx),
            schema,
            new,
            |(state, cx), number, position, key| link(state, cx, table, row(number), position, key),
            |(state, _), number, keys| link_run(state, c, schema, &schema.indexes[0], row(number), keys),
        )?;
        cx.worker.meter.leave::<P>(c, before);
        Ok(())
    }

    fn insert_unindexed(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        if M::is_snapshot(&transaction.state.own) {
            return Err(READS_ONLY);
        }
        let (rows, schema) = (&mut transaction.state.rows, &cx.tables[table]);
        let new = NewRow { keys, fixed, tail };
        rows.create(cx.c, &mut cx.worker.local, table, schema, new).map(drop)
    }

    fn delete(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        keys: &[&[u64]],
    ) -> Result<(), Abort> {
        let table = writable(transaction, number)?;
        check_keys(&cx.tables[table], keys)?;
        let access = transaction.state.rows.get(number)?;
        if M::VERSIONS && access.flags & INSERTED == 0 {
            is_named(cx.c, access, &cx.tables[table], keys)?;
        }
        access.flags |= DELETED | WRITTEN;
        if access.flags & INSERTED == 0 {
            access.linked = all_linked(&cx.tables[access.table as usize]);
            transaction.state.rows.remember_keys(number, keys);
        } else {
            transaction.state.rows.delete_own(&cx.tables[table], number);
        }
        Ok(())
    }

    fn scan<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        direction: Direction,
        _: Intent,
        visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let at = TableIndex { table, index };
        let mut row = |holder: &mut T, bits| {
            let (transaction, mut cx) = holder.parts();
            let found = add_named_row(&mut transaction.state, &mut cx, at, bits)?;
            found.map_or(Ok(true), |number| visit(holder, number))
        };
        scan_leaves(holder, at, range, direction, |holder, values| walk_rows(holder, values, &mut row))
    }

    #[inline(always)]
    fn find_words(
        transaction: &mut Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        TableIndex { table, index }: TableIndex,
        storage: &Index<P>,
        key: &[u64],
        first: usize,
        words: &mut [u64],
    ) -> Result<bool, Abort> {
        if !M::REMEMBERS_VERSIONS {
            let found = Self::find(transaction, cx, table, index, key, Intent::Read)?;
            let Some(number) = found else { return Ok(false) };
            Self::read(transaction, cx, number, first, words)?;
            transaction.state.forget_read(number);
            return Ok(true);
        }
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Index);
        let lookup = storage.partition(key).get(cx.c, key);
        cx.worker.meter.leave::<P>(cx.c, before);
        match lookup.value {
            Some(bits) => read_named_row(transaction, cx, TableIndex { table, index }, bits, first, words),
            None => Self::access(transaction, cx, table, index, key, lookup, Intent::Read).map(|_| false),
        }
    }

    fn scan_words<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        at: TableIndex,
        range: KeyBounds<'_>,
        ScanOrder { direction, .. }: ScanOrder,
        wanted: RowWords,
        room: &mut [u64],
        visit: &mut dyn FnMut(&mut T, &[u64]) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let mut portions = Portions::of(wanted);
        scan_leaves(holder, at, range, direction, |holder, mut values| {
            while !values.is_empty() {
                let count = portions.next(values.len());
                let (transaction, mut cx) = holder.parts();
                let read = read_named_rows(transaction, &mut cx, at, values, count, wanted, room)?;
                portions.read(read);
                let goes_on = read == 0 || visit(holder, &room[..read * wanted.count])?;
                if !goes_on || count == 0 {
                    return Ok(false);
                }
                values = &values[count..];
            }
            Ok(true)
        })
    }

    fn forget_rows(transaction: &mut Running<P, M>) {
        if M::is_snapshot(&transaction.state.own) {
            transaction.state.rows.forget_unplaced();
        }
    }

    fn table_of(transaction: &Running<P, M>, row: RowNumber) -> usize {
        transaction.state.rows.row_of(row).expect("a row of the transaction").1
    }

    fn stamp(transaction: &Running<P, M>, row: RowNumber) -> Stamp {
        let rows = &transaction.state.rows;
        // A row of a table that is never written is read without its version, which stays
        // as it is.
        let free = rows.free(row).map(|free| P::peek(free.row.header().word()));
        let version = free.unwrap_or_else(|| rows.list[row as usize].seen);
        M::stamp(M::written_at(version))
    }

    #[inline]
    fn prefetch(
        transaction: &mut Running<P, M>,
        c: P::Core,
        row: RowNumber,
        first: usize,
        words: usize,
        intent: Intent,
    ) {
        let state = &transaction.state;
        state.rows.prefetch(
            c,
            row,
            first,
            words,
            if state.prefetches_to_write { intent } else { Intent::Read },
        );
    }
}

impl<P: Platform, M: Method<P>> Ending<P> for Optimistic<M> {
    fn check(transaction: &mut Running<P, M>, cx: &mut Context<'_, '_, P, Self>) -> Result<Stamp, Abort> {
        let state = &mut transaction.state;
        let largest = M::check(state, cx).map_err(Abort::Conflict)?;
        if M::is_snapshot(&state.own) {
            return Ok(M::stamp(largest));
        }
        // A transaction that made a key absent has committed in the current epoch at the latest.
        let current = cx.worker.local.epochs_shared().current(cx.c).first_stamp();
        Ok(depends_on(state).unwrap_or_else(|| M::stamp(largest).max(Stamp(current))))
    }

    fn prepare(
        transaction: Running<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<Validated<P, M>, Abort> {
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Cc);
        let Running { mut state, mode, .. } = transaction;
        let mut locked = M::lock(&mut state, cx, mode).and_then(|()| heed_marks(&state, cx));
        if mode == Mode::Participant {
            locked = locked.and_then(|()| mark_rows_read(&mut state, cx));
            if !state.faults.has(Fault::UnfrozenAbsences) {
                state.absences.freeze::<P>(cx.c);
            }
        }
        let validated = locked.and_then(|()| M::validate(&mut state, cx)).map_err(Abort::Conflict);
        let prepared = match validated.and_then(|stamp| M::ready(&mut state, cx, stamp).map(|()| stamp)) {
            Ok(stamp) => {
                if state.faults.has(Fault::EarlyParticipantUnlock) {
                    remove_marks(&mut state, cx);
                }
                Ok(Validated { state, mode, stamp })
            }
            Err(abort) => {
                undo(state, cx);
                Err(abort)
            }
        };
        cx.worker.meter.leave::<P>(cx.c, before);
        prepared
    }

    fn abort(transaction: Running<P, M>, cx: &mut Context<'_, '_, P, Self>) {
        undo(transaction.state, cx);
    }

    fn commit(prepared: Validated<P, M>, cx: &mut Context<'_, '_, P, Self>) -> Stamp {
        let Validated { mut state, mode, mut stamp } = prepared;
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Commit);
        if mode == Mode::Participant && !state.faults.has(Fault::StampOfPreparation) {
            stamp = M::renew(&mut state, cx, stamp);
        }
        M::publish(&mut state, cx);
        // Release: readers that see one of the words written below see the lock, or a later
        // version, in their check.
        P::fence(cx.c, Ordering::Release);
        for number in state.rows.finishing_order() {
            M::finish(&mut state, cx, number, stamp);
        }
        let keeps_stamps = !state.faults.has(Fault::UnorderedStamps);
        recycle(state, cx);
        cx.worker.meter.leave::<P>(cx.c, before);
        let stamp = M::stamp(stamp);
        if keeps_stamps { stamp } else { stamp.first_of_epoch() }
    }

    fn rollback(prepared: Validated<P, M>, cx: &mut Context<'_, '_, P, Self>) {
        undo(prepared.state, cx);
    }
}

impl<P: Platform, M: Method<P>> Redo<P> for Optimistic<M> {
    fn redo<K: RedoSink<P>>(prepared: &Validated<P, M>, cx: &mut Context<'_, '_, P, Self>, sink: &mut K) {
        let was_there = was_there::<P, M>;
        if !prepared.state.faults.has(Fault::UnloggedUpdates) {
            prepared.state.rows.redo(cx.c, cx.tables, was_there, sink);
        } else {
            prepared.state.rows.redo(cx.c, cx.tables, was_there, &mut DropsUpdates(sink));
        }
    }

    fn reads_until(prepared: &Validated<P, M>) -> Option<Stamp> {
        depends_on(&prepared.state)
    }

    fn prepared_at(prepared: &Validated<P, M>) -> Stamp {
        M::stamp(prepared.stamp)
    }

    fn before(
        prepared: &Validated<P, M>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        key: &[u64],
    ) -> Option<Before> {
        prepared.state.rows.before(cx.c, cx.tables, was_there::<P, M>, table, key)
    }
}

impl<P: Platform, M: Method<P>> Filling<P> for Optimistic<M> {
    fn fill(cx: &mut Context<'_, '_, P, Self>, header: &M::Header, _: usize, _: &[u64]) {
        P::poke(header.word(), M::first_version(cx.worker.local.epoch()));
    }

    fn is_present(c: P::Core, header: &M::Header) -> bool {
        // Relaxed: no transaction runs.
        !M::VERSIONS || P::load(c, header.word(), Ordering::Relaxed) & ABSENT == 0
    }
}

impl<P: Platform, M: Method<P>> Scheme<P> for Optimistic<M> {
    const NAME: &'static str = M::NAME;
    const STRICT: bool = M::STRICT;
    const SNAPSHOTS: bool = M::VERSIONS;
    const LOCKS_ROWS: bool = M::LOCKS_ROWS;
}

/// Checks that the transaction may write the row; returns the number of its table.
#[inline(always)]
fn writable<P: Platform, M: Method<P>>(
    transaction: &mut Running<P, M>,
    number: RowNumber,
) -> Result<usize, Abort> {
    if M::is_snapshot(&transaction.state.own) {
        return Err(READS_ONLY);
    }
    let Access { flags, table, .. } = *transaction.state.rows.get_to_change(number)?;
    if flags & DELETED != 0 {
        return Err(DELETED_BEFORE);
    }
    Ok(table as usize)
}
