//! `hstore`: one lock a partition; the transaction that holds it has the partition to itself.
//!
//! Source: Kallman et al., "H-Store: a high-performance, distributed main memory transaction
//! processing system", PVLDB 2008; Stonebraker et al., "The end of an architectural era (it's time
//! for a complete rewrite)", VLDB 2007. In the form in which it is compared with others: Yu et al.,
//! "Staring into the abyss", PVLDB 2014, section 2.2.
//!
//! The partitions with one number of all tables are a *site*. A transaction locks the sites it
//! needs in ascending order, runs in them without further concurrency control, writes rows in
//! place, keeps what was there before in case it aborts, and lets all sites go in the end. Index
//! entries are protected by the site of their partition, rows by that of their entry in the primary
//! index. Tables that are never written need no lock; all others that are not partitioned are a
//! site each.
//!
//! Procedures announce the partitions of their first phase before they begin
//! ([`Accessing::enlist`]). Sites that were not announced are locked at the first touch. For a site
//! above all held ones the transaction waits. A lower site is locked only if it is free; otherwise
//! the transaction starts again and begins with all sites that it has named, in order.
//!
//! A branch ([`Mode::Branch`]) does the same without sites: a thread that runs it keeps what it
//! touches from others. Where a transaction below has its partition to itself, a branch has to
//! itself what it touches.
//!
//! Deviations:
//! - The worker that runs a transaction locks its sites; no thread owns a site and takes requests.
//! - No transaction waits for ever ([`sites`]): a transaction over several databases may hold sites
//!   for long.
//! - There is no order of transactions by timestamp; each lock is a queue. With
//!   [`RowLock::Latch`](crate::RowLock::Latch) there is one, and each lock is a manager
//!   ([`managers`]).
//!
//! Files, each of which uses only those before it: `sites`, `managers`, `row`, `steps` (the undo
//! list), `scratch`, `state`, `entering` (locking of sites), `indexed`, `undo`, `redo`, `before`,
//! and here the verbs.

mod before;
mod entering;
mod indexed;
mod managers;
mod redo;
mod row;
mod scratch;
mod sites;
mod state;
mod steps;
mod undo;

use platform::{Intent, OutOfMemory, Platform, Work};
use storage::index::{Open, Visit};
use storage::tree::{Direction, Lookup};
use storage::{Table, record::tail};
use terms::rows::KeyBounds;
use terms::{Abort, Category, Fault, Mode, Stamp};

use entering::{enter, enter_all, lock, site_of};
use indexed::{add_named_row, link};
use row::{FoundRow, Home, Row, last_word};
use scratch::Scratch;
use sites::Site;
use state::{HstoreShared, HstoreState, HstoreWorker};
use steps::{Keys, UndoStep};
use undo::{finish, undo, undo_to};

pub use state::Hstore;

use crate::access::{
    all_linked, check_keys, check_read, check_row, check_rows, check_tail, check_tail_read, check_write,
    enter_rows, enter_run, new_row, new_rows,
};
use crate::new_rows::NewRows;
use crate::options::InstanceOptions;
use crate::redo::{Before, DropsUpdates, RedoSink};
use crate::savepoints::SavepointMark;
use crate::scan::{walk_leaves, walk_rows};
use crate::scheme::{
    Accessing, Context, Ending, Filling, Holder, Parts, Redo, RowNumber, Savepoints, Scheme, WorkerState,
};
use crate::timestamps::TimestampWorker;

/// A running transaction.
pub struct HstoreTransaction<P: Platform> {
    state: Box<HstoreState<P>>,
}

/// A transaction that has done everything and still holds its sites.
pub struct HstorePrepared<P: Platform> {
    state: Box<HstoreState<P>>,
    stamp: u64,
}

impl<P: Platform> Parts<P> for Hstore {
    type Header = Home<P>;
    type SharedState = HstoreShared<P>;
    type WorkerState = HstoreWorker<P>;
    type Transaction = HstoreTransaction<P>;
    type Prepared = HstorePrepared<P>;

    fn shared(c: P::Core, workers: usize, options: &InstanceOptions) -> Result<HstoreShared<P>, OutOfMemory> {
        HstoreShared::new(c, workers, options)
    }

    fn worker(_: &Self::SharedState, number: usize) -> HstoreWorker<P> {
        HstoreWorker {
            number,
            timestamps: TimestampWorker::new(number),
            last: 0,
            free: Vec::new(),
            wanted: Vec::new(),
            redo: Scratch::default(),
        }
    }
}

impl<P: Platform> Accessing<P> for Hstore {
    #[inline]
    fn begin(cx: &mut Context<'_, '_, P, Self>, mode: Mode) -> HstoreTransaction<P> {
        cx.shared.unused_timestamps.draw(cx.c, &mut cx.worker.meter);
        let worker = &mut cx.worker.state;
        if let Some(managers) = &cx.shared.managers {
            let before = cx.worker.meter.enter::<P>(cx.c, Category::Timestamp);
            managers.begin(cx.c, worker.number, &mut worker.timestamps);
            cx.worker.meter.leave::<P>(cx.c, before);
        }
        let mut state = worker.free.pop().unwrap_or_else(HstoreState::new);
        (state.mode, state.epoch) = (mode, cx.worker.local.epoch());
        if !worker.wanted.is_empty() {
            state.wanted.append(&mut worker.wanted);
        }
        HstoreTransaction { state }
    }

    fn turn_to_another(worker: &mut WorkerState<P, Self>, _: bool) {
        worker.state.wanted.clear();
    }

    #[inline]
    fn enlist(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        key: &[u64],
    ) {
        let schema = &cx.tables[table];
        let site = site_of(cx.tables, table, 0, key);
        if !schema.read_only && !transaction.state.wanted.contains(&site) {
            transaction.state.wanted.push(site);
        }
    }

    #[inline(always)]
    fn approach(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
    ) -> Result<(), Abort> {
        let schema = &cx.tables[table];
        if schema.read_only {
            return Ok(());
        }
        enter(&mut transaction.state, cx, site_of(cx.tables, table, index, key))
    }

    #[inline]
    fn access(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        _: &[u64],
        lookup: Lookup,
        _: Intent,
    ) -> Result<Option<RowNumber>, Abort> {
        match lookup.value {
            Some(bits) => add_named_row(&mut transaction.state, cx, table, index, bits),
            None => Ok(None),
        }
    }

    #[inline(always)]
    fn accesses_blindly(_: &Context<'_, '_, P, Self>, _: &Table<P>) -> bool {
        true
    }

    fn find_unvalidated(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        index: usize,
        key: &[u64],
    ) -> Result<Option<RowNumber>, Abort> {
        let (c, schema) = (cx.c, &cx.tables[table]);
        let before = cx.worker.meter.enter::<P>(c, Category::Index);
        let lookup = schema.indexes[index].partition(key).get(c, key);
        cx.worker.meter.leave::<P>(c, before);
        let Some(bits) = lookup.value else { return Ok(None) };
        P::work(c, Work::Access, 1);
        // SAFETY: the value was read from an index of this table in this epoch.
        let row = unsafe { Row::<P>::from_bits(bits, schema.row_words) };
        transaction.state.push(row, table, true).map(Some)
    }

    #[inline(always)]
    fn read(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        first: usize,
        out: &mut [u64],
    ) -> Result<(), Abort> {
        let row = transaction.state.get(cx.c, number)?.row;
        check_read(row.words().len(), first, out.len())?;
        P::read_words(cx.c, &row.words()[first..first + out.len()], out);
        Ok(())
    }

    fn read_tail(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let FoundRow { row, table, read_only } = transaction.state.get(cx.c, number)?;
        check_tail_read(&cx.tables[table as usize], read_only)?;
        let bits = last_word(cx.c, row);
        // SAFETY: the rows of the table have tails; the last word, read in a partition that the
        // transaction has to itself.
        unsafe { tail::read::<P>(cx.c, bits, out) };
        Ok(())
    }

    #[inline(always)]
    fn write(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let state = &mut *transaction.state;
        let FoundRow { table, .. } = state.writable(cx.c, number)?;
        check_write(&cx.tables[table as usize], offset, bytes.len())?;
        P::work(cx.c, Work::CopyWord, bytes.len().div_ceil(8) as u32);
        state.write(cx.c, number, offset, bytes);
        Ok(())
    }

    fn write_tail(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let (c, state) = (cx.c, &mut *transaction.state);
        let FoundRow { row, table, .. } = state.writable(c, number)?;
        check_tail(&cx.tables[table as usize])?;
        let new = tail::allocate(c, &mut cx.worker.local, bytes)?;
        let old = last_word(c, row);
        state.write(c, number, (row.words().len() - 1) * 8, &new.to_le_bytes());
        state.steps.push(UndoStep::Tail { old, new });
        state.leaves_waste = true;
        Ok(())
    }

    fn insert(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let (c, state, schema) = (cx.c, &mut *transaction.state, &cx.tables[table]);
        check_row(schema, keys, fixed, tail)?;
        let home = enter_all(state, cx, table, keys.iter().copied())?;
        let row: Row<P> = new_row(c, &mut cx.worker.local, schema, fixed, tail)?;
        row.header().set_site(home);
        let number = state.remember(row, (table, &cx.tables[table]), keys, |row, keys| UndoStep::Insert {
            row,
            keys,
            linked: 0,
        });
        state.push(row, table, false)?;
        let before = cx.worker.meter.enter::<P>(c, Category::Index);
        for (position, key) in keys.iter().enumerate() {
            link(state, cx, table, position, row, number, key)?;
        }
        cx.worker.meter.leave::<P>(c, before);
        Ok(())
    }

    fn insert_all(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        new: NewRows<'_>,
    ) -> Result<(), Abort> {
        let (c, state, schema) = (cx.c, &mut *transaction.state, &cx.tables[table]);
        check_rows(schema, new)?;
        let first = state.steps.len();
        let mut keys = Keys { table: table as u32, at: state.words.len() as u32 };
        state.words.extend_from_slice(new.keys);
        let (mut home, mut is_one) = (None, true);
        for of_row in new.keys.chunks_exact(schema.key_words()) {
            // Of a table with one index most rows belong to the site of the row before, which is
            // held.
            let site = match (home, schema.indexes.len()) {
                (Some(held), 1) if site_of(cx.tables, table, 0, of_row) == held => held,
                _ => enter_all(state, cx, table, schema.split_keys(of_row))?,
            };
            is_one &= home.replace(site).is_none_or(|before| before == site);
        }
        let home = home.filter(|_| is_one);
        state.check_room_for(new.count)?;
        let (mut number, width) = (0, schema.key_words());
        new_rows(c, &mut cx.worker.local, schema, new.fixed, |row: Row<P>| {
            let key = || &new.keys[number * width..][..width];
            row.header().set_site(home.unwrap_or_else(|| site_of(cx.tables, table, 0, key())));
            state.steps.push(UndoStep::Insert { row: row.to_bits(), keys, linked: 0 });
            keys.at += width as u32;
            number += 1;
            state.add(row, table, false);
        })?;
        let before = cx.worker.meter.enter::<P>(c, Category::Index);
        enter_rows(
            &mut (state, &mut *cx),
            schema,
            new,
            |(state, cx), number, position, key| {
                let step = first + number;
                // SAFETY: a row of this table, made above.
                let row = unsafe { Row::<P>::from_bits(state.steps[step].inserted(), schema.row_words) };
                link(state, cx, table, position, row, step, key)
            },
            |(state, _), number, keys| {
                let HstoreState { steps, witnesses, .. } = &mut **state;
                let steps = &mut steps[first + number..];
                let names = steps.iter().map(UndoStep::inserted);
                // SAFETY: rows of this table, which the transaction inserts.
                let run =
                    unsafe { enter_run(c, &schema.indexes[0], keys, names, &mut Open, witnesses) }.inserted;
                steps[..run].iter_mut().for_each(|step| step.mark_linked(0));
                run
            },
        )?;
        cx.worker.meter.leave::<P>(c, before);
        Ok(())
    }

    fn insert_unindexed(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        keys: &[&[u64]],
        fixed: &[u8],
        tail: &[u8],
    ) -> Result<(), Abort> {
        let (c, state, schema) = (cx.c, &mut *transaction.state, &cx.tables[table]);
        check_row(schema, keys, fixed, tail)?;
        let row: Row<P> = new_row(c, &mut cx.worker.local, schema, fixed, tail)?;
        row.header().set_site(site_of(cx.tables, table, 0, keys[0]));
        state.remember(row, (table, &cx.tables[table]), keys, |row, keys| UndoStep::InsertUnindexed {
            row,
            keys,
        });
        Ok(())
    }

    fn delete(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        number: RowNumber,
        keys: &[&[u64]],
    ) -> Result<(), Abort> {
        let state = &mut *transaction.state;
        let FoundRow { row, table, .. } = state.writable(cx.c, number)?;
        let table = table as usize;
        check_keys(&cx.tables[table], keys)?;
        enter_all(state, cx, table, keys.iter().copied())?;
        let linked = all_linked(&cx.tables[table]);
        state.remember(row, (table, &cx.tables[table]), keys, |row, keys| UndoStep::Delete {
            row,
            keys,
            linked,
        });
        row.header().set_deleted(cx.c, true);
        state.deletions += 1;
        state.leaves_waste = true;
        Ok(())
    }

    fn scan<'i, T: Holder<'i, P, Self>>(
        holder: &mut T,
        table: usize,
        index: usize,
        KeyBounds { low, high }: KeyBounds<'_>,
        direction: Direction,
        _: Intent,
        visit: &mut dyn FnMut(&mut T, RowNumber) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let (transaction, mut cx) = holder.parts();
        let (schema, storage) = (&cx.tables[table], &cx.tables[table].indexes[index]);
        if !schema.read_only && !transaction.state.is_branch() {
            let state = &mut transaction.state;
            if storage.is_partitioned() {
                let numbers = storage.number(low)..storage.number(high);
                state.wanted.extend(numbers.map(Site::of).filter(|site| !state.held.contains(site)));
            }
            let last = site_of(cx.tables, table, index, high);
            if state.wanted.is_empty() { enter(state, &mut cx, last)? } else { lock(state, &mut cx, last)? }
        }
        for partition in storage.partitions(low, high, direction) {
            let mut row = |holder: &mut T, bits| {
                let (transaction, mut cx) = holder.parts();
                let state = &mut transaction.state;
                let found = match add_named_row(state, &mut cx, table, index, bits)? {
                    // The leaf may have been copied before the row was deleted, and its key
                    // inserted again.
                    None => state.successor_of(&cx, index, bits).map_or(Ok(None), |successor| {
                        add_named_row(state, &mut cx, table, index, successor)
                    })?,
                    found => found,
                };
                found.map_or(Ok(true), |number| visit(holder, number))
            };
            let mut leaf = |holder: &mut T, seen: &Visit<'_, P>| walk_rows(holder, seen.values, &mut row);
            if !walk_leaves(holder, partition, KeyBounds { low, high }, direction, &mut leaf)? {
                break;
            }
        }
        Ok(())
    }

    fn table_of(transaction: &HstoreTransaction<P>, row: RowNumber) -> usize {
        transaction.state.rows[row as usize].table as usize
    }

    fn stamp(transaction: &HstoreTransaction<P>, row: RowNumber) -> Stamp {
        transaction.state.stamp(row)
    }

    fn lay_aside(transaction: &mut HstoreTransaction<P>) {
        transaction.state.forget_read();
    }

    #[inline]
    fn prefetch(
        transaction: &mut HstoreTransaction<P>,
        c: P::Core,
        row: RowNumber,
        first: usize,
        words: usize,
        intent: Intent,
    ) {
        if let Some(taken) = transaction.state.rows.get(row as usize)
            && let Some(span) = taken.row.words().get(first..first.wrapping_add(words))
        {
            P::prefetch(c, span.as_ptr(), size_of_val(span), intent);
        }
    }
}

impl<P: Platform> Ending<P> for Hstore {
    fn check(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<Stamp, Abort> {
        // No other transaction was in the sites since their holders before.
        let current = cx.worker.local.epochs_shared().current(cx.c).first_stamp();
        Ok(Stamp(transaction.state.stamps.iter().copied().fold(current, u64::max)))
    }

    #[inline]
    fn prepare(
        transaction: HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
    ) -> Result<HstorePrepared<P>, Abort> {
        let (c, mut state) = (cx.c, transaction.state);
        if state.is_branch() {
            // Its stamp is that of its transaction, which is committed elsewhere.
            let stamp = cx.worker.state.last;
            return Ok(HstorePrepared { state, stamp });
        }
        // The last holder of each site saw this epoch or an earlier one. A transaction that changes
        // nothing leaves no record.
        let local = &mut cx.worker.local;
        let changes = !state.steps.is_empty();
        let epoch = if changes { local.announce_commit(c) } else { local.epochs_shared().current(c) };
        let faults = cx.shared.faults;
        let stamps = if faults.has(Fault::UnorderedStamps) { &[] } else { &state.stamps[..] };
        let largest = stamps.iter().copied().fold(cx.worker.state.last, u64::max);
        let Stamp(stamp) = Stamp::after(largest, epoch);
        cx.worker.state.last = stamp;
        let only_reads = state.mode == Mode::Participant && state.steps.is_empty();
        if only_reads && faults.has(Fault::EarlyParticipantUnlock) {
            let worker = cx.worker.state.number;
            state.held.drain(..).for_each(|site| cx.shared.release(c, site, worker));
        }
        Ok(HstorePrepared { state, stamp })
    }

    fn abort(transaction: HstoreTransaction<P>, cx: &mut Context<'_, '_, P, Self>) {
        undo(transaction.state, cx);
    }

    #[inline]
    fn commit(prepared: HstorePrepared<P>, cx: &mut Context<'_, '_, P, Self>) -> Stamp {
        let HstorePrepared { state, mut stamp } = prepared;
        let before = cx.worker.meter.enter::<P>(cx.c, Category::Commit);
        if state.mode == Mode::Participant && !cx.shared.faults.has(Fault::StampOfPreparation) {
            // The participant may have been prepared some epochs ago.
            Stamp(stamp) = Stamp::after(stamp, cx.worker.local.announce_commit(cx.c));
        }
        finish(state, cx, stamp);
        cx.worker.meter.leave::<P>(cx.c, before);
        Stamp(stamp)
    }

    fn rollback(prepared: HstorePrepared<P>, cx: &mut Context<'_, '_, P, Self>) {
        undo(prepared.state, cx);
    }
}

impl<P: Platform> Savepoints<P> for Hstore {
    fn set_savepoint(transaction: &mut HstoreTransaction<P>) -> SavepointMark {
        let HstoreState { steps, words, .. } = &*transaction.state;
        SavepointMark { steps: steps.len(), words: words.len(), ..SavepointMark::default() }
    }

    fn roll_back_to(
        transaction: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        mark: SavepointMark,
    ) {
        undo_to(&mut transaction.state, cx, mark);
    }

    fn release_savepoints(_: &mut HstoreTransaction<P>, _: &mut Context<'_, '_, P, Self>) {}
}

impl<P: Platform> Redo<P> for Hstore {
    fn redo<K: RedoSink<P>>(prepared: &HstorePrepared<P>, cx: &mut Context<'_, '_, P, Self>, sink: &mut K) {
        let mut scratch = std::mem::take(&mut cx.worker.state.redo);
        match cx.shared.faults.has(Fault::UnloggedUpdates) {
            false => prepared.state.redo(cx.c, cx.tables, &mut scratch, sink),
            true => prepared.state.redo(cx.c, cx.tables, &mut scratch, &mut DropsUpdates(sink)),
        }
        cx.worker.state.redo = scratch;
    }

    fn redo_branch<K: RedoSink<P>>(
        branch: &mut HstoreTransaction<P>,
        cx: &mut Context<'_, '_, P, Self>,
        sink: &mut K,
    ) {
        let mut scratch = std::mem::take(&mut cx.worker.state.redo);
        match cx.shared.faults.has(Fault::UnloggedUpdates) {
            false => branch.state.redo(cx.c, cx.tables, &mut scratch, sink),
            true => branch.state.redo(cx.c, cx.tables, &mut scratch, &mut DropsUpdates(sink)),
        }
        cx.worker.state.redo = scratch;
        branch.state.reported = branch.state.steps.len();
    }

    fn prepared_at(prepared: &HstorePrepared<P>) -> Stamp {
        Stamp(prepared.stamp)
    }

    fn before(
        prepared: &HstorePrepared<P>,
        cx: &mut Context<'_, '_, P, Self>,
        table: usize,
        key: &[u64],
    ) -> Option<Before> {
        let holds = prepared.state.holds(site_of(cx.tables, table, 0, key));
        holds.then(|| prepared.state.before(cx.c, cx.tables, table, key))
    }
}

impl<P: Platform> Filling<P> for Hstore {
    fn fill(cx: &mut Context<'_, '_, P, Self>, header: &Home<P>, table: usize, key: &[u64]) {
        header.set_site(site_of(cx.tables, table, 0, key));
    }
}

impl<P: Platform> Scheme<P> for Hstore {
    const NAME: &'static str = "hstore";
    const LOCKS_PARTITIONS: bool = true;
    const ENLISTS: bool = true;
    const BRANCHES: bool = true;
    const LOCKS_ROWS: bool = true;
}
