//! Two-phase locking: the family of `no-wait`, `wait-die` and `dl-detect`, which differ in what a
//! transaction does when a lock is not free ([`WaitPolicy`]).
//!
//! Source: Bernstein, Goodman, "Concurrency control in distributed database systems", ACM Computing
//! Surveys 1981, as in Yu, Bezerra, Pavlo, Devadas, Stonebraker, "Staring into the abyss", PVLDB
//! 2014: the lock is a word in front of each row, taken by compare and swap. All locks are held
//! until the end (strict).
//!
//! Phantoms: next-key locking. A scan shares each row it visits and locks the gap below it, and at
//! the end of its range the gap below the next row (or above the last); an insertion needs the gap
//! that it splits, and a deletion the gap below the row, since it merges two gaps: neither gets it
//! while others have locked it. A lookup that finds nothing locks the gap where the key would be;
//! in a hash index, a word that stands for the key's absence. Gaps are waited for like rows.
//!
//! A gap that was locked must still be the gap that was read. An inserting transaction reads the
//! gap's lock with the leaf latched; a transaction that locks the gap then checks that the leaves
//! in which the gap lies have not changed: the leaf of the row above the gap, and those from the
//! row below the gap on ([`scan`]).
//!
//! A waiting transaction spins on the lock's word. The word of a deleted row is marked, and
//! transactions that wait for the row abort.
//!
//! Deviations: writes are kept aside and applied by `commit`, so aborts restore nothing. A scan
//! aborts if another transaction has changed the leaf between its being read and being locked, also
//! if the change was elsewhere in the leaf. Rows of tables that are never written are not locked. A
//! stamp per row orders commits as in `silo`, for logs and checkers.
//!
//! With [`RowLock::Latch`](crate::RowLock) the word of a row names a manager, and gives the row to
//! no transaction itself: so code that takes a free lock in the word finds it refused, and uses the
//! manager instead.
//!
//! Files, each of which uses only those before it: `gap_set` and `state` (what a transaction
//! keeps), `policy` (the port), `parts` (what workers keep), `manager` and `latched` (rows with
//! managers), `acquire` (taking a lock), `gaps`, `rows`, `insert`, `scan`, `skipping`, `partial`
//! (savepoints), `ending`, and here the verbs.

mod acquire;
mod ending;
mod gap_set;
mod gaps;
mod insert;
mod latched;
mod manager;
mod partial;
mod parts;
mod policy;
mod rows;
mod scan;
mod skipping;
mod state;

use platform::{Intent, LINE_BYTES, OutOfMemory, Platform, Work};
use storage::Optimisation;
use storage::record::tail;
use storage::tree::{Direction, Lookup};

use acquire::acquire;
use ending::end;
use gap_set::name_of;
use gaps::lock_absence;
use insert::{link, link_run, own};
use latched::bring_managers;
use parts::{LockingShared, LockingTransaction, LockingWorker};
use rows::{lock_named_row, writable};
use scan::{LockingScan, scan_partition};
use skipping::scan_free_rows;
use state::{LockHeader, LockingState};
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Category, Conflict, Fault, Mode, Stamp};

pub use parts::TwoPhase;
pub(crate) use policy::{GivenBack, Queued, Refusal, Seeker, WaitPolicy, earlier};

use crate::access::{
    DELETED, DELETED_BEFORE, INSERTED, NO_SUCH_ROW, WRITTEN, all_linked, check_keys, check_read, check_tail,
    check_tail_read, check_write, enter_rows,
};
use crate::lock_word::Want;
use crate::new_rows::{NewRow, NewRows};
use crate::options::InstanceOptions;
use crate::redo::{Before, RedoSink};
use crate::scheme::{
    Accessing, Context, Ending, Filling, Holder, Parts, Redo, RowNumber, Scheme, WorkerState,
};
use crate::ways::RowLock;

/// A transaction that holds all its locks.
pub struct LockingPrepared<P: Platform> {
    state: Box<LockingState<P>>,
    stamp: u64,
}

impl<P: Platform, Q: WaitPolicy> Parts<P> for TwoPhase<Q> {
    type Header = LockHeader<P>;
    type SharedState = LockingShared<P, Q::SharedState<P>>;
    type WorkerState = LockingWorker<P, Q>;
    type Transaction = LockingTransaction<P>;
    type Prepared = LockingPrepared<P>;

    fn shared(
        c: P::Core,
        workers: usize,
        options: &InstanceOptions,
    ) -> Result<Self::SharedState, OutOfMemory> {
        let nodes = || P::region(c, None, workers * LINE_BYTES, "nodes of row latches");
        Ok(LockingShared {
            faults: options.faults,
            own: Q::shared::<P>(c, workers, options)?,
            ways: options.ways,
            lockers: options.lockers(),
            has_mutexes: !options.optimisations.has(Optimisation::QueueLatch),
            spare_nodes: (options.ways.row_lock == RowLock::Latch).then(nodes).transpose()?,
        })
    }

    fn worker(_: &Self::SharedState, number: usize) -> LockingWorker<P, Q> {
        LockingWorker { last: 0, policy: Q::worker::<P>(number), free: Vec::new(), node: 0 }
    }
}

impl<P: Platform, Q: WaitPolicy> Accessing<P> for TwoPhase<Q> {
    #[inline]
    fn begin(cx: &mut Context<'_, '_, P, Self>, mode: Mode) -> LockingTransaction<P> {
        let worker = &mut cx.worker.state;
        let mut state = worker.free.pop().unwrap_or_else(|| Box::new(LockingState::new()));
        state.tag = Q::begin(cx.c, &cx.shared.own, &mut worker.policy, &mut cx.worker.meter);
        (state.mode, state.conflicted) = (mode, false);
        // In the published program the optimisation is one of optimistic schemes.
        let bounded =
            cx.worker.local.optimisations().has(Optimisation::BoundedSpin) || cx.shared.is_latched();
        state.waits = bounded.then_some(cx.worker.wait_nanos_max);
        LockingTransaction { state }
    }

    fn turn_to_another(worker: &mut WorkerState<P, Self>, again: bool) {
        Q::ended(&mut worker.state.policy, again);
    }

    fn wait_for_locks(worker: &mut WorkerState<P, Self>, longest: Option<u64>) {
        Q::wait_for_locks(&mut worker.state.policy, longest);
    }

    #[inline(always)]
    fn prefetch_locks(cx: &mut Context<'_, '_, P, Self>, table: usize, found: &[Lookup]) {
        if cx.shared.is_latched() && !cx.tables[table].read_only {
            bring_managers::<P>(cx.c, cx.tables[table].row_words, found);
        }
    }

    #[inline]
    fn access(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
        lookup: Lookup,
        intent: Intent,
    ) -> Result<Option<RowNumber>, Abort> {
        let locked = match lookup.value {
            Some(bits) => lock_named_row(transaction, cx, table, index, bits, intent, false),
            None => {
                let tables = cx.tables;
                let partition = tables[table].indexes[index].partition(key);
                lock_absence(&mut transaction.state, cx, table, partition, key, lookup.witness).map(|()| None)
            }
        };
        locked.map_err(|abort| abort.in_table(table))
    }

    fn find_unvalidated(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
    ) -> Result<Option<RowNumber>, Abort> {
        let schema = &cx.tables[table];
        transaction.state.rows.push_unvalidated(cx.c, &mut cx.worker.meter, table, schema, index, key)
    }

    #[inline]
    fn read(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let rows = &mut transaction.state.rows;
        let Ok(access) = rows.get(number) else { return rows.read_free(cx.c, number, first, out) };
        if access.flags & DELETED != 0 {
            return Err(DELETED_BEFORE);
        }
        let (row, writes) = (access.row, access.writes);
        check_read(row.words().len(), first, out.len())?;
        P::read_words(cx.c, &row.words()[first..first + out.len()], out);
        rows.writes.overlay(writes, first, out);
        Ok(())
    }

    fn read_tail(
        transaction: &mut LockingTransaction<P>,
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
        // SAFETY: the rows of the table have tails; the last word, read under its lock, or this
        // transaction's own.
        unsafe { tail::read::<P>(cx.c, bits[0], out) };
        Ok(())
    }

    #[inline(always)]
    fn write(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let table = writable(&mut transaction.state, cx, number)?;
        check_write(&cx.tables[table], offset, bytes.len())?;
        P::work(cx.c, Work::CopyWord, bytes.len().div_ceil(8) as u32);
        transaction.state.rows.write(number, offset, bytes);
        Ok(())
    }

    fn write_tail(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let table = writable(&mut transaction.state, cx, number)?;
        check_tail(&cx.tables[table])?;
        transaction.state.rows.write_tail(cx.c, &mut cx.worker.local, number, bytes)
    }

    fn insert(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let (c, worker) = (cx.c, &mut *cx.worker);
        let schema = &cx.tables[table];
        let rows = &mut transaction.state.rows;
        let number = rows.create(c, &mut worker.local, table, schema, NewRow { keys, fixed, tail })?;
        own(&mut transaction.state, cx, number)?;
        let worker = &mut *cx.worker;
        let before = worker.meter.enter::<P>(c, Category::Index);
        for (position, key) in keys.iter().enumerate() {
            link(transaction, cx, table, number, position, key)?;
        }
        cx.worker.meter.leave::<P>(c, before);
        Ok(())
    }

    fn insert_all(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        new: NewRows<'_>,
    ) -> Result<(), Abort> {
        let (c, schema) = (cx.c, &cx.tables[table]);
        let rows = &mut transaction.state.rows;
        let numbers = rows.create_all(c, &mut cx.worker.local, table, schema, new)?;
        numbers.clone().try_for_each(|number| own(&mut transaction.state, cx, number))?;
        let before = cx.worker.meter.enter::<P>(c, Category::Index);
        let row = |number: usize| numbers.start + number as u32;
        enter_rows(
            &mut (transaction, &mut *cx),
            schema,
            new,
            |(transaction, cx), number, position, key| {
                link(transaction, cx, table, row(number), position, key)
            },
            |(transaction, cx), number, _| link_run(&mut transaction.state, cx, schema, row(number)),
        )?;
        cx.worker.meter.leave::<P>(c, before);
        Ok(())
    }

    fn insert_unindexed(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let (rows, schema) = (&mut transaction.state.rows, &cx.tables[table]);
        let new = NewRow { keys, fixed, tail };
        rows.create(cx.c, &mut cx.worker.local, table, schema, new).map(drop)
    }

    fn delete(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        keys: &[&[u64]],
    ) -> Result<(), Abort> {
        let state = &mut transaction.state;
        let table = writable(state, cx, number)?;
        check_keys(&cx.tables[table], keys)?;
        let row = state.rows.list[number as usize].row;
        if state.rows.list[number as usize].flags & INSERTED == 0 {
            if !cx.shared.faults.has(Fault::UnlockedGaps) {
                let lock = &row.header().lock;
                let own = state.gaps.count(name_of(lock));
                let pending = acquire(state, cx, lock, Want::Pend { own }, Conflict::Phantom);
                pending.map_err(|abort| abort.in_table(table))?;
            }
            state.rows.get(number)?.linked = all_linked(&cx.tables[table]);
            state.rows.remember_keys(&cx.tables[table], number, keys);
        } else {
            state.rows.delete_own(&cx.tables[table], number);
        }
        state.rows.list[number as usize].flags |= DELETED | WRITTEN;
        Ok(())
    }

    fn scan<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        direction: Direction,
        intent: Intent,
        visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let order = LockingScan { table, index, range, direction, intent };
        let tables = holder.parts().1.tables;
        for partition in tables[table].indexes[index].partitions(range.low, range.high, direction) {
            let state = &mut holder.parts().0.state;
            let mark = state.rows.witnesses.mark();
            state.scans += 1;
            let seen = scan_partition(holder, partition, &order, mark, visit);
            let state = &mut holder.parts().0.state;
            state.scans -= 1;
            state.forget_witnesses(mark);
            if !seen.map_err(|abort| abort.in_table(table))? {
                break;
            }
        }
        Ok(())
    }

    fn scan_or_skip<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        TableIndex { table, index }: TableIndex,
        range: KeyBounds<'_>,
        direction: Direction,
        visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let cx = holder.parts().1;
        let (tables, is_latched) = (cx.tables, cx.shared.is_latched());
        if is_latched {
            // Who asks a manager waits.
            return Self::scan(holder, table, index, range, direction, Intent::Write, visit);
        }
        let order = LockingScan { table, index, range, direction, intent: Intent::Write };
        for partition in tables[table].indexes[index].partitions(range.low, range.high, direction) {
            if !scan_free_rows(holder, partition, &order, visit)? {
                break;
            }
        }
        Ok(())
    }

    fn table_of(transaction: &LockingTransaction<P>, row: RowNumber) -> usize {
        transaction.state.rows.row_of(row).expect("a row of the transaction").1
    }

    fn stamp(transaction: &LockingTransaction<P>, row: RowNumber) -> Stamp {
        let rows = &transaction.state.rows;
        // A row of a table that is never written is not locked, and its stamp stays as it is.
        let free = rows.free(row).map(|free| P::peek(&free.row.header().stamp));
        Stamp(free.unwrap_or_else(|| rows.list[row as usize].seen))
    }

    #[inline]
    fn prefetch(
        transaction: &mut LockingTransaction<P>,
        c: P::Core,
        row: RowNumber,
        first: usize,
        words: usize,
        intent: Intent,
    ) {
        transaction.state.rows.prefetch(c, row, first, words, intent);
    }
}

impl<P: Platform, Q: WaitPolicy> Ending<P> for TwoPhase<Q> {
    fn check(
        transaction: &mut LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<Stamp, Abort> {
        // What was read is locked. A transaction that made a key absent has committed in the
        // current epoch at the latest.
        let current = cx.worker.local.epochs_shared().current(cx.c).first_stamp();
        Ok(Stamp(transaction.state.rows.stamp_seen.max(current)))
    }

    fn prepare(
        transaction: LockingTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<LockingPrepared<P>, Abort> {
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Cc);
        let epoch = cx.worker.local.announce_commit(cx.c);
        let state = transaction.state;
        let largest = state.rows.stamp_seen.max(cx.worker.state.last);
        let Stamp(stamp) = Stamp::after(largest, epoch);
        cx.worker.state.last = stamp;
        Q::ended(&mut cx.worker.state.policy, false);
        cx.worker.meter.leave::<P>(cx.c, before);
        Ok(LockingPrepared { state, stamp })
    }

    fn abort(transaction: LockingTransaction<P>, cx: &mut Context<'_, '_, P, Self>) {
        Q::ended(&mut cx.worker.state.policy, transaction.state.conflicted);
        end(transaction.state, cx, None);
    }

    fn commit(prepared: LockingPrepared<P>, cx: &mut Context<'_, '_, P, Self>) -> Stamp {
        let LockingPrepared { state, mut stamp } = prepared;
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Commit);
        if state.mode == Mode::Participant {
            // The participant may have been prepared some epochs ago.
            Stamp(stamp) = Stamp::after(stamp, cx.worker.local.announce_commit(cx.c));
        }
        end(state, cx, Some(stamp));
        cx.worker.meter.leave::<P>(cx.c, before);
        Stamp(stamp)
    }

    fn rollback(prepared: LockingPrepared<P>, cx: &mut Context<'_, '_, P, Self>) {
        end(prepared.state, cx, None);
    }
}

impl<P: Platform, Q: WaitPolicy> Redo<P> for TwoPhase<Q> {
    fn redo<K: RedoSink<P>>(prepared: &LockingPrepared<P>, cx: &mut Context<'_, '_, P, Self>, sink: &mut K) {
        prepared.state.rows.redo(cx.c, cx.tables, |_| true, sink);
    }

    fn prepared_at(prepared: &LockingPrepared<P>) -> Stamp {
        Stamp(prepared.stamp)
    }

    fn before(
        prepared: &LockingPrepared<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        key: &[u64],
    ) -> Option<Before> {
        prepared.state.rows.before(cx.c, cx.tables, |_| true, table, key)
    }
}

impl<P: Platform, Q: WaitPolicy> Filling<P> for TwoPhase<Q> {
    fn fill(cx: &mut Context<'_, '_, P, Self>, header: &LockHeader<P>, _: usize, _: &[u64]) {
        match cx.shared.is_latched() {
            true => header.lock.open_managed(),
            false => header.lock.open(),
        }
        P::poke(&header.stamp, Stamp::after(0, cx.worker.local.epoch()).0);
    }
}

impl<P: Platform, Q: WaitPolicy> Scheme<P> for TwoPhase<Q> {
    const NAME: &'static str = Q::NAME;
    const LOCKS_ROWS: bool = true;
}
