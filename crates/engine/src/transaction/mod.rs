//! Transactions on top of a concurrency-control scheme: how a transaction begins and ends. The
//! verbs in between are in the modules.

/// Calls a verb of the scheme: typed and erased verbs reach the scheme through here. A verb that
/// fails is the end of the transaction. This is a macro because a closure is not always inlined:
/// the verbs would lose what is constant where they are called.
macro_rules! call {
    ($transaction:expr, |$inner:ident, $cx:ident| $verb:expr) => {{
        let ($inner, mut cx) = $transaction.parts();
        let $cx = &mut cx;
        let result = $verb;
        $transaction.note(result)
    }};
}

pub(crate) mod adding;
mod altered;
pub(crate) mod altering;
mod announced;
pub(crate) mod columns;
mod erased;
pub(crate) mod following;
mod interpreted;
pub(crate) mod object;
mod savepoints;
mod typed;

use boundary::{Commit, RowBatch, SavepointList};
use concurrency::{
    Ahead, Context, Holder, KeyBatch, Keys, LookAhead, RowCopies, SavepointMark, Scheme, WorkerContext,
};
use platform::{Code, Intent, Nanos, Platform, Work};
use schema::key::SHORT_KEY_WORDS;
use schema::{KeyBuffer, KeyRange, Routes, RowId, TAIL_BYTES_MAX, extent};
use storage::{Optimisation, Optimisations};
use terms::rows::TableIndex;
use terms::{Abort, Category, Epoch, Mode};

use crate::durable::RedoWriter;
use crate::tables::table_list::TableList;
use crate::transaction::columns::Columns;
use altered::AlteredTables;
use announced::AnnouncedKeys;

/// A verb of a scheme that makes a row: of table, keys, fixed part and tail. A type of its own for
/// each verb, so that it is inlined.
trait MakeRow<P: Platform, S: Scheme<P>>:
    FnOnce(&mut S::Transaction, &mut Context<'_, '_, P, S>, usize, &[&[u64]], &[u8], &[u8]) -> Result<(), Abort>
{
}

impl<P: Platform, S: Scheme<P>, F> MakeRow<P, S> for F where
    F: FnOnce(
        &mut S::Transaction,
        &mut Context<'_, '_, P, S>,
        usize,
        &[&[u64]],
        &[u8],
        &[u8],
    ) -> Result<(), Abort>
{
}

/// Verbs between two looks at the deadline.
const VERBS_PER_LOOK: u32 = 64;

/// Buffers and choices of optimisations that a session keeps from transaction to transaction.
pub(crate) struct Scratch<'i, P: Platform> {
    words: Vec<u64>,
    tail: Vec<u8>,
    /// Rows that are inserted together.
    batch: RowBatch,
    /// Routes of the enlisted actions.
    routes: Routes,
    /// True if lines are prefetched before they are needed.
    prefetches: bool,
    /// Keys that the transaction has been said to look up soon.
    announced: AnnouncedKeys<'i, P>,
    /// Keys of later transactions; empty if the instance does not look ahead.
    look_ahead: LookAhead<'i, P>,
    looks_ahead: bool,
    /// The columns of rows, where access to them is not compiled.
    columns: Option<&'i Columns<P>>,
    /// True if fields that are asked for together are read one by one all the same.
    reads_apart: bool,
    savepoints: SavepointList<SavepointMark>,
    /// The tables of the database, if they change while it is open.
    tables: Option<&'i TableList<P>>,
    /// The tables that the transaction under way changes, if it changes any.
    altered: Option<Box<AlteredTables>>,
}

impl<'i, P: Platform> Scratch<'i, P> {
    /// Prefetches a little for later transactions.
    #[inline(always)]
    fn continue_look_ahead(&mut self, c: P::Core) {
        self.look_ahead.advance(c);
    }

    /// True if the keys of the transaction were announced before it began.
    #[inline(always)]
    fn knows_current(&self) -> bool {
        self.look_ahead.has_announced_current()
    }

    /// Keys of later transactions, if the instance looks ahead.
    #[inline(always)]
    pub(crate) fn look_ahead(&mut self) -> Option<&mut LookAhead<'i, P>> {
        self.looks_ahead.then_some(&mut self.look_ahead)
    }

    pub(crate) fn new(
        optimisations: Optimisations,
        row_copies: RowCopies,
        columns: Option<&'i Columns<P>>,
    ) -> Self {
        // What is in a copy that the transaction has anyway is read as it is asked for.
        let reads_apart = columns.is_some() || row_copies == RowCopies::Rows;
        let prefetches = optimisations.has(Optimisation::Prefetch);
        let (look_ahead, looks_ahead) = (LookAhead::default(), optimisations.look_ahead());
        let (words, tail, routes) = (Vec::new(), Vec::new(), Routes::by_partition());
        let (batch, announced) = (RowBatch::default(), AnnouncedKeys::default());
        Scratch {
            words,
            tail,
            batch,
            routes,
            prefetches,
            announced,
            look_ahead,
            looks_ahead,
            columns,
            reads_apart,
            savepoints: SavepointList::default(),
            tables: None,
            altered: None,
        }
    }

    /// Transactions may change these tables.
    pub(crate) fn with_tables(mut self, tables: &'i TableList<P>) -> Self {
        self.tables = Some(tables);
        self
    }
}

/// One attempt of a transaction in one session. Dropping it without committing aborts it.
pub struct Transaction<'s, 'i, P: Platform, S: Scheme<P>> {
    session: &'s mut WorkerContext<'i, P, S>,
    scratch: &'s mut Scratch<'i, P>,
    /// The way into the log, if the database has one.
    redo: Option<&'s mut RedoWriter<'i, P>>,
    /// There until the transaction ends.
    inner: Option<S::Transaction>,
    /// Marks the rows that this attempt has found, so that rows of another attempt are recognised.
    attempt: u32,
    deadline: Option<Nanos>,
    until_look: u32,
    /// Why a verb failed. The transaction can only end then, or roll back to a savepoint, whatever
    /// the caller makes of the error: the verb may have left a row in some of its indexes only.
    failed: Option<Abort>,
}

impl<'i, P: Platform, S: Scheme<P>> Holder<'i, P, S> for Transaction<'_, 'i, P, S> {
    #[inline(always)]
    fn parts(&mut self) -> (&mut S::Transaction, Context<'_, 'i, P, S>) {
        let inner = self.inner.as_mut().expect("a transaction is there until it ends");
        (inner, self.session.context())
    }
}

impl<'s, 'i, P: Platform, S: Scheme<P>> Transaction<'s, 'i, P, S> {
    /// Begins an attempt; the session enters the current epoch.
    #[inline]
    pub(crate) fn begin(
        session: &'s mut WorkerContext<'i, P, S>,
        scratch: &'s mut Scratch<'i, P>,
        redo: Option<&'s mut RedoWriter<'i, P>>,
        mode: Mode,
        deadline: Option<Nanos>,
    ) -> Self {
        session.enter();
        P::code(session.core(), Code::Begin);
        P::work(session.core(), Work::Transaction, 1);
        let inner = S::begin(&mut session.context(), mode);
        Self::of(session, scratch, inner, redo, deadline)
    }

    /// An attempt with its own marks of rows.
    #[inline]
    fn of(
        session: &'s mut WorkerContext<'i, P, S>,
        scratch: &'s mut Scratch<'i, P>,
        inner: S::Transaction,
        redo: Option<&'s mut RedoWriter<'i, P>>,
        deadline: Option<Nanos>,
    ) -> Self {
        let inner = Some(inner);
        scratch.announced.clear();
        // 0 marks handles that the engine has not made.
        let attempt = session.next_attempt().max(1);
        let (until_look, failed) = (VERBS_PER_LOOK, None);
        Transaction { session, scratch, redo, inner, attempt, deadline, until_look, failed }
    }

    /// Begins what a worker does for a transaction of several, in the current epoch.
    pub(crate) fn begin_branch(session: &mut WorkerContext<'i, P, S>) -> S::Transaction {
        session.enter();
        P::code(session.core(), Code::Begin);
        P::work(session.core(), Work::Transaction, 1);
        S::begin(&mut session.context(), Mode::Branch)
    }

    /// Goes on with a branch, in the current epoch: rows of earlier acts are those of other
    /// attempts.
    pub(crate) fn resume(
        session: &'s mut WorkerContext<'i, P, S>,
        scratch: &'s mut Scratch<'i, P>,
        inner: S::Transaction,
        deadline: Option<Nanos>,
    ) -> Self {
        session.enter();
        Self::of(session, scratch, inner, None, deadline)
    }

    /// Lets go of the session, with the branch as it is now, and what came of the act: a verb's
    /// failure is that of the act.
    pub(crate) fn lay_aside(mut self, outcome: Result<(), Abort>) -> (S::Transaction, Result<(), Abort>) {
        let outcome = match (self.look(), outcome) {
            (Ok(()), outcome) => outcome,
            (Err(_), Err(abort)) => Err(self.explain_in_place(abort).0),
            (Err(abort), Ok(())) => Err(abort),
        };
        let mut inner = self.inner.take().expect("a transaction is there until it ends");
        S::lay_aside(&mut inner);
        (inner, outcome)
    }

    /// True if a table was there when the transaction began.
    pub(crate) fn knows_table(&mut self, table: usize) -> bool {
        table < self.session.context().tables.len()
    }

    /// Checks that the transaction can commit, and lets go of the session. The caller calls
    /// [`end_commit`] when the log has what it is to have of the transaction for now. Errors are as
    /// [`Self::explain`] gives them.
    #[inline]
    pub(crate) fn prepare(mut self) -> Result<S::Prepared, (Abort, Epoch)> {
        P::code(self.session.core(), Code::Commit);
        if let Err(abort) = self.look() {
            return Err(self.explain(abort));
        }
        let inner = self.inner.take().expect("a transaction is there until it ends");
        let prepared = S::prepare(inner, &mut self.session.context());
        if prepared.is_err() {
            end_commit(self.session);
        }
        prepared.map_err(depends_on_nothing)
    }

    /// Commits. Errors are as [`Self::explain`] gives them.
    #[inline]
    pub(crate) fn commit(mut self) -> Result<Commit, (Abort, Epoch)> {
        self.commit_in_place()
    }

    /// As [`Self::commit`]; the transaction is over, and only to be dropped.
    #[inline(always)]
    fn commit_in_place(&mut self) -> Result<Commit, (Abort, Epoch)> {
        P::code(self.session.core(), Code::Commit);
        if let Err(abort) = self.look() {
            return Err(self.explain_in_place(abort));
        }
        let inner = self.inner.take().expect("a transaction is there until it ends");
        let prepared = S::prepare(inner, &mut self.session.context());
        let commit = prepared.map_err(depends_on_nothing).and_then(|prepared| match self.redo.take() {
            None => Ok(Commit::of(S::commit(prepared, &mut self.session.context()))),
            Some(redo) => commit_logged(self.session, redo, prepared),
        });
        end_commit(self.session);
        commit
    }

    /// Ends a transaction that fails with `abort`, and gives the reason: a conflict if what the
    /// transaction read, and drew its conclusion from, was never true at one moment. Also gives the
    /// epoch that has to be durable before the reason may be told.
    #[cold]
    pub(crate) fn explain(mut self, abort: Abort) -> (Abort, Epoch) {
        self.explain_in_place(abort)
    }

    /// As [`Self::explain`]; the transaction is to be dropped.
    #[cold]
    fn explain_in_place(&mut self, abort: Abort) -> (Abort, Epoch) {
        let abort = match (self.failed.take(), abort) {
            (Some(conflict @ Abort::Conflict(_)), _) | (_, conflict @ Abort::Conflict(_)) => {
                return (conflict, Epoch(0));
            }
            (_, abort) => abort,
        };
        let (inner, mut cx) = self.parts();
        match (S::check(inner, &mut cx), abort) {
            (Ok(stamp), abort) => (abort, stamp.epoch()),
            (Err(conflict), abort) if abort == Abort::RollBack || abort.ends_at_savepoint() => {
                (conflict, Epoch(0))
            }
            // The failure does not follow from what the transaction read, but the caller may tell
            // of what was read.
            (Err(_), abort) => (abort, cx.worker.local.epochs_shared().current(cx.c)),
        }
    }

    /// Remembers that a verb failed.
    #[inline(always)]
    fn note<T>(&mut self, result: Result<T, Abort>) -> Result<T, Abort> {
        if let Err(abort) = &result {
            self.fail(abort);
        }
        result
    }

    #[cold]
    fn fail(&mut self, abort: &Abort) {
        self.failed.get_or_insert_with(|| abort.clone());
        // The next verb looks for a failure at once.
        self.until_look = 1;
    }

    /// Ends a transaction whose verbs are used wrongly.
    #[cold]
    fn misuse<T>(&mut self, what: &'static str) -> Result<T, Abort> {
        self.note(Err(Abort::Misuse(what)))
    }

    /// Refuses a tail that is longer than those of rows may be.
    #[inline(always)]
    fn check_tail_bytes(&mut self, bytes: usize) -> Result<(), Abort> {
        if bytes <= TAIL_BYTES_MAX {
            return Ok(());
        }
        self.misuse(
            "the columns of variable length of a row have more than 1 MiB together: divide them over several rows",
        )
    }

    /// The number that the scheme knows a row by.
    #[inline(always)]
    fn number(&mut self, row: RowId) -> Result<u32, Abort> {
        self.scratch.continue_look_ahead(self.session.core());
        match row.number_in(self.attempt) {
            Some(number) => Ok(number),
            None => self.misuse("a row of another transaction, or of an earlier attempt"),
        }
    }

    /// The row that the scheme knows by this number, as verbs name rows.
    #[inline(always)]
    fn row_id(&self, number: u32) -> RowId {
        RowId::new(number, self.attempt)
    }

    /// Gives up if a verb has failed or the deadline has passed.
    fn look(&mut self) -> Result<(), Abort> {
        if let Some(abort) = &self.failed {
            self.until_look = 1;
            return Err(abort.clone());
        }
        self.until_look = VERBS_PER_LOOK;
        match self.deadline {
            Some(deadline) if P::now(self.session.core()) >= deadline => Err(Abort::Deadline),
            _ => Ok(()),
        }
    }

    #[inline(always)]
    fn count_verb(&mut self) -> Result<(), Abort> {
        self.scratch.continue_look_ahead(self.session.core());
        self.until_look -= 1;
        if self.until_look == 0 { self.look() } else { Ok(()) }
    }

    /// Tells the scheme the partitions that the transaction will use, before the first verb: `fill`
    /// adds routes.
    #[inline]
    pub(crate) fn enlist(&mut self, fill: impl FnOnce(&mut Routes)) {
        let mut routes = std::mem::take(&mut self.scratch.routes);
        routes.clear();
        fill(&mut routes);
        for route in routes.entries() {
            self.enlist_range(route.table, &route.keys);
        }
        self.scratch.routes = routes;
    }

    /// Tells the scheme one key of each partition that has some of these keys.
    #[inline]
    fn enlist_range(&mut self, table: usize, keys: &KeyRange) {
        let (inner, mut cx) = self.parts();
        let Some(index) = cx.tables.get(table).map(|table| &table.indexes[0]) else { return };
        let low = keys.low().words(index.words.min(SHORT_KEY_WORDS));
        S::enlist(inner, &mut cx, table, low);
        let (first, last) = keys.partition_columns();
        if first == last {
            return;
        }
        let mut before = index.number(low);
        for column in first..=last {
            let key = KeyBuffer::of(&column);
            let number = index.number(key.words(index.words.min(SHORT_KEY_WORDS)));
            if number != before {
                S::enlist(inner, &mut cx, table, key.words(index.words.min(SHORT_KEY_WORDS)));
                before = number;
            }
        }
    }

    /// Starts to bring closer what lookups of these keys read of an index, and remembers where that
    /// is.
    #[inline(always)]
    fn announce<K: AsRef<[u64]>>(&mut self, place: TableIndex, keys: impl Iterator<Item = K>) {
        let cx = self.session.context();
        let index = &cx.tables[place.table].indexes[place.index];
        let announced = self.scratch.announced.list(place);
        for key in keys {
            let key = key.as_ref();
            let partition = index.partition(key);
            match partition.approach(cx.c, key) {
                Some(approach) => {
                    approach.ask(cx.c);
                    announced.push(approach);
                }
                None => partition.prefetch(cx.c, key),
            }
        }
    }

    /// Looks several keys up; `found` gets the results in order.
    #[inline(always)]
    fn find_keys(
        &mut self,
        place: TableIndex,
        keys: &impl Keys,
        intent: Intent,
        ahead: Ahead,
        found: impl FnMut(Option<u32>),
    ) -> Result<(), Abort> {
        let announced = self.scratch.announced.take(place);
        let batch = KeyBatch { keys, approaches: &announced };
        let result = call!(self, |inner, cx| S::find_many(inner, cx, place, batch, intent, ahead, found));
        self.scratch.announced.give_back(announced);
        result
    }

    /// Finds a row to read some of its words, and prefetches these.
    #[inline(always)]
    fn find_words(
        &mut self,
        TableIndex { table, index }: TableIndex,
        key: &[u64],
        words: u64,
    ) -> Result<Option<RowId>, Abort> {
        self.count_verb()?;
        P::code(self.session.core(), Code::Table(table));
        P::code(self.session.core(), Code::Find);
        let found = call!(self, |inner, cx| {
            let constant = cx.tables[table].constant;
            if words != 0 && constant & words == words {
                S::find_unvalidated(inner, cx, table, index, key)
            } else {
                S::find(inner, cx, table, index, key, Intent::Read)
            }
        })?;
        let Some(number) = found else { return Ok(None) };
        let row = self.row_id(number);
        if words != 0 {
            let (first, count) = extent(words);
            self.prefetch_words(row, first, count, Intent::Read);
        }
        Ok(Some(row))
    }

    /// Finds the rows with these primary keys, as far as there are any. The keys are of one
    /// partition, and ascend.
    pub(crate) fn find_ascending(
        &mut self,
        table: usize,
        keys: &[u64],
        found: &mut Vec<RowId>,
    ) -> Result<(), Abort> {
        let attempt = self.attempt;
        let push = |row: Option<u32>| found.extend(row.map(|number| RowId::new(number, attempt)));
        call!(self, |inner, cx| S::find_ascending(
            inner,
            cx,
            TableIndex { table, index: 0 },
            keys,
            Intent::Read,
            push
        ))
    }

    /// Starts to prefetch the first `words` of a row.
    pub(crate) fn prefetch_row(&mut self, row: RowId, words: usize) {
        self.prefetch_words(row, 0, words, Intent::Read);
    }

    /// Starts to prefetch words of a row; does nothing if the row is not one of this transaction's.
    #[inline(always)]
    fn prefetch_words(&mut self, row: RowId, first: usize, words: usize, intent: Intent) {
        let c = self.session.core();
        let number = row.number_in(self.attempt);
        if let (Some(inner), Some(number), true) = (&mut self.inner, number, self.scratch.prefetches) {
            S::prefetch(inner, c, number, first, words, intent);
        }
    }
}

/// Retracts the commit that the session has announced, if any: by now the log has what the commit
/// changed, if the log is ever to have it.
#[inline]
pub(crate) fn end_commit<P: Platform, S: Scheme<P>>(session: &mut WorkerContext<'_, P, S>) {
    let c = session.core();
    session.worker().local.retract_commit(c);
}

/// A commit that failed because it met another transaction tells nothing about what was read, so it
/// depends on no epoch.
#[cold]
fn depends_on_nothing(conflict: Abort) -> (Abort, Epoch) {
    (conflict, Epoch(0))
}

/// Commits, and appends what changed to the log. The caller calls [`end_commit`] after that, so
/// that the epoch is not complete before the log has the commit. A transaction that has changed a
/// table which has ended meanwhile is undone, and one for whose record there is no memory; the
/// error is as [`Transaction::explain`] gives it.
fn commit_logged<P: Platform, S: Scheme<P>>(
    session: &mut WorkerContext<'_, P, S>,
    redo: &mut RedoWriter<'_, P>,
    prepared: S::Prepared,
) -> Result<Commit, (Abort, Epoch)> {
    let mut cx = session.context();
    P::code(cx.c, Code::Log);
    let reads_until = S::reads_until(&prepared);
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Log);
    redo.clear();
    S::redo(&prepared, &mut cx, redo);
    let reserved = redo.reserve(cx.c).map_err(Abort::OutOfMemory);
    cx.worker.meter.leave::<P>(cx.c, before);
    if let Some(refusal) = redo.refusal().or(reserved.err()) {
        S::rollback(prepared, &mut cx);
        return Err((refusal, cx.worker.local.epochs_shared().current(cx.c)));
    }
    let stamp = S::commit(prepared, &mut cx);
    let before = cx.worker.meter.enter::<P>(cx.c, Category::Log);
    let local = &cx.worker.local;
    redo.append(cx.c, local, stamp);
    cx.worker.meter.leave::<P>(cx.c, before);
    Ok(Commit { stamp, durable_with: reads_until.unwrap_or(stamp).epoch() })
}

impl<P: Platform, S: Scheme<P>> Transaction<'_, '_, P, S> {
    /// Undoes what the transaction has done, unless it has ended.
    #[inline]
    fn abort(&mut self) {
        if let Some(inner) = self.inner.take()
            && !P::is_gone(self.session.core())
        {
            S::abort(inner, &mut self.session.context());
        }
    }
}

impl<P: Platform, S: Scheme<P>> Drop for Transaction<'_, '_, P, S> {
    #[inline]
    fn drop(&mut self) {
        self.abort();
    }
}
