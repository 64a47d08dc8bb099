//! Sessions: a session runs the transactions of one worker, and tries each of them again until it
//! ends.

mod copying;
mod durability;
mod parts;

use boundary::{
    Attempts, Backoff, Bounds, Commit, Elder, Eldership, Ending, Pauses, Procedure, Stats, run_inline,
};
use concurrency::{Meter, Scheme, Use};
use platform::{Nanos, Platform};
use redo_log::LogError;
use terms::{Abort, Category, Epoch, Mode, Stamp};

use self::copying::RowCopier;
use crate::durable::checkpoint::IsFree;
use crate::durable::{RedoWriter, not_durable};
use crate::look_ahead::Ahead;
use crate::participants::open_branches::OpenBranches;
use crate::participants::undecided::Undecided;
use crate::tables::table_list::{Changes, TableList};
use crate::transaction::object::Attempt;
use crate::transaction::{Scratch, Transaction};

/// The body of a transaction, called once for each attempt.
type Body<'b, 'd, P, S> = dyn FnMut(&mut Transaction<'_, 'd, P, S>) -> Result<(), Abort> + 'b;

/// One worker's use of a database.
pub struct MemorySession<'d, P: Platform, S: Scheme<P>> {
    pub(crate) inner: concurrency::WorkerContext<'d, P, S>,
    pub(crate) redo: Option<RedoWriter<'d, P>>,
    /// There if the database is durable.
    pub(crate) undecided: Option<&'d Undecided<P, S>>,
    pub(crate) scratch: Scratch<'d, P>,
    elder: &'d Elder<P>,
    pub(crate) tables: &'d TableList<P>,
    pub(crate) backoff: Backoff,
    pub(crate) stats: Stats,
    /// Open branches of transactions of several workers.
    pub(crate) branches: OpenBranches<S::Transaction>,
    /// The largest stamp that the session has given to a commit of branches, or received.
    pub(crate) last: Stamp,
    /// True if all transactions are branches.
    pub(crate) owns: bool,
    /// The moment after which the session works on a checkpoint again.
    rests_until: Nanos,
    /// True if the caller has said how long transactions wait for locks.
    waits_for_locks: bool,
}

impl<'d, P: Platform, S: Scheme<P>> MemorySession<'d, P, S> {
    pub(crate) fn new(
        inner: concurrency::WorkerContext<'d, P, S>,
        redo: Option<RedoWriter<'d, P>>,
        undecided: Option<&'d Undecided<P, S>>,
        scratch: Scratch<'d, P>,
        elder: &'d Elder<P>,
        tables: &'d TableList<P>,
    ) -> Self {
        let (backoff, stats, rests_until) = (Backoff::new(0), Stats::default(), Nanos(0));
        let branches = OpenBranches::new();
        MemorySession {
            inner,
            redo,
            undecided,
            scratch,
            elder,
            tables,
            backoff,
            stats,
            branches,
            last: Stamp(0),
            owns: false,
            rests_until,
            waits_for_locks: false,
        }
    }

    /// Seeds the generator of backoff times: two workers should not back off in step.
    pub fn seed(&mut self, seed: u64) {
        let pauses = self.backoff.pauses();
        self.backoff = Backoff::new(seed);
        self.backoff.set_pauses(pauses);
    }

    /// Chooses how the session pauses after failed attempts.
    pub fn set_pauses(&mut self, pauses: Pauses) {
        self.backoff.set_pauses(pauses);
    }

    /// Tells that the next transaction is another one than the last, though that one may have
    /// failed ([`Bounds::attempts_max`]): nothing is kept for another attempt of it. `again`: the
    /// next is another attempt of an earlier one.
    pub fn turn_to_another(&mut self, again: bool) {
        S::turn_to_another(self.inner.worker(), again);
    }

    /// As [`boundary::AnySession::wait_for_locks`].
    pub fn wait_for_locks(&mut self, longest: Option<u64>) {
        self.waits_for_locks = longest.is_some();
        self.inner.worker().transaction_ends = None;
        S::wait_for_locks(self.inner.worker(), longest);
    }

    /// A transaction of this deadline begins, if it waits for locks as long as the session says.
    pub(crate) fn bound_sleep(&mut self, bounds: &Bounds) {
        if self.waits_for_locks {
            self.inner.worker().transaction_ends = bounds.deadline;
        }
    }

    /// Rests off the processor until this moment: no transaction of the caller can be tried before.
    #[cold]
    pub fn rest_until(&mut self, moment: Nanos) {
        let c = self.inner.core();
        self.inner.leave();
        let meter = &mut self.inner.worker().meter;
        meter.begin::<P>(c);
        meter.enter::<P>(c, terms::Category::Backoff);
        P::rest(c, moment.since(P::now(c)));
        self.inner.worker().meter.end::<P>(c);
        self.tend(P::now(c));
    }

    /// Counters since the session began, or since they were reset.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Forgets counters and breakdown.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.inner.worker().meter.reset();
    }

    /// Nanoseconds by [`terms::Category`], of the transactions that were measured.
    pub fn breakdown(&mut self) -> [u64; terms::CATEGORIES] {
        self.inner.worker().meter.nanos()
    }

    /// Counts the time until the next call for this category, outside of any transaction; `None`
    /// ends the count.
    pub fn measure(&mut self, what: Option<Category>) {
        let c = self.inner.core();
        let meter = &mut self.inner.worker().meter;
        match what {
            Some(category) => meter.begin_aside::<P>(c, category),
            None => meter.end::<P>(c),
        }
    }

    /// The core that the session runs on.
    pub fn core(&self) -> P::Core {
        self.inner.core()
    }

    /// Lets the epoch advance and the log flush if it is time, works on a checkpoint and on the end
    /// of dropped tables, and has memory provided ahead. To be called between transactions, with
    /// the current time.
    #[inline]
    pub fn tend(&mut self, now: Nanos) {
        let c = self.inner.core();
        self.inner.worker().local.tend(c, now);
        if let Some(redo) = &self.redo {
            if redo.journal().tend(c, self.inner.instance().epochs(), now) {
                self.begin_checkpoint_if_due();
            }
            if !self.owns {
                self.tend_checkpoint(now, None);
            }
        }
        if self.tables.changes().is_some_and(Changes::is_leaving) {
            self.sweep();
        }
    }

    /// Copies rows for checkpoints through this session; `None` if the database is not durable.
    fn copier(&mut self) -> Option<RowCopier<'_, 'd, P, S>> {
        let (redo, undecided) = (self.redo.as_mut()?, self.undecided?);
        Some(RowCopier::new(&mut self.inner, self.tables, &mut self.scratch, redo, undecided))
    }

    /// Makes a checkpoint with everything that is committed now, and returns when the checkpoint
    /// counts: from then on recovery begins with this checkpoint, and the log before it is gone.
    /// Other sessions go on meanwhile. False if the database is not durable. Prepared parts are no
    /// obstacle: the checkpoint has their rows as they were before, and carries what the log knows
    /// of the parts.
    ///
    /// # Errors
    /// The log has stopped, or the files refuse: the previous checkpoint counts, if there is one.
    pub fn checkpoint(&mut self) -> Result<bool, LogError> {
        if self.owns {
            let why = "rows of owned partitions are copied by their owners, between transactions";
            return Err(LogError::Copy(why.to_owned()));
        }
        match self.copier() {
            None => Ok(false),
            Some(mut copier) => copier.checkpoint().map(|()| true),
        }
    }

    /// Makes the checkpoint that is due, or cheap, or ends the checkpoint under way. No other
    /// session is open.
    pub(crate) fn end_checkpoints(&mut self) {
        let rows_bytes = self.inner.instance().memory_use(self.inner.core()).used;
        if let Some(mut copier) = self.copier() {
            copier.end_checkpoints(rows_bytes);
        }
    }

    #[cold]
    fn begin_checkpoint_if_due(&mut self) {
        if let Some(mut copier) = self.copier() {
            copier.begin_if_due();
        }
    }

    /// Works on the checkpoint under way, if there is one and the session has rested since it
    /// worked last.
    #[inline]
    fn tend_checkpoint(&mut self, now: Nanos, is_free: Option<&IsFree<'_>>) {
        let rests_until = self.rests_until;
        let Some(mut copier) = self.copier() else { return };
        if now >= rests_until && copier.is_wanted() {
            self.rests_until = copier.work(now, is_free);
        }
    }

    /// As [`boundary::Branches::copy_rows`].
    #[inline]
    pub(crate) fn copy_owned_rows(&mut self, now: Nanos, is_free: &IsFree<'_>) {
        self.tend_checkpoint(now, Some(is_free));
    }

    /// The error that the caller gets for a transaction that failed for good, when the caller may
    /// learn of it: like a commit that only read, a failure may follow from what is not durable
    /// yet.
    #[cold]
    fn failure(&mut self, abort: Abort, depends_on: Epoch, bounds: &Bounds) -> Abort {
        if self.is_durable(depends_on) {
            return abort;
        }
        match self.wait_written_until(depends_on, bounds.deadline) {
            Ok(true) => abort,
            Ok(false) => Abort::DurabilityUnknown { committed: false },
            Err(stopped) => stopped,
        }
    }

    /// Refuses to begin a transaction when the log has stopped.
    #[inline]
    pub(crate) fn check_log(&self) -> Result<(), Abort> {
        let stopped = self.redo.as_ref().and_then(|redo| redo.journal().stopped(self.inner.core()));
        stopped.map_or(Ok(()), |error| Err(not_durable(&error)))
    }

    /// Has memory at hand for rows that follow, after many were inserted: see
    /// [`storage::Arena::get_ready`].
    pub(crate) fn get_ready(&mut self) {
        let c = self.inner.core();
        self.inner.worker().local.get_ready(c);
    }

    /// Has memory provided for what is to come: see [`storage::Arena::provide`].
    pub(crate) fn provide(&mut self, bytes: usize) -> usize {
        let c = self.inner.core();
        self.inner.worker().local.provide(c, bytes)
    }

    /// Bytes that the worker has taken and that were not used before.
    pub(crate) fn bytes_taken(&mut self) -> u64 {
        self.inner.worker().local.bytes_cut()
    }

    /// Leaves the epoch, so that the session holds no memory back: the caller says that no
    /// transaction follows soon.
    pub fn idle(&mut self) {
        self.inner.leave();
    }

    /// Begins one attempt of a transaction; the caller runs the verbs and commits.
    pub fn begin(&mut self, bounds: &Bounds) -> Transaction<'_, 'd, P, S> {
        self.begin_as(Mode::Single, bounds)
    }

    pub(crate) fn begin_as(&mut self, mode: Mode, bounds: &Bounds) -> Transaction<'_, 'd, P, S> {
        let redo = self.redo.as_mut();
        Transaction::begin(&mut self.inner, &mut self.scratch, redo, mode, bounds.deadline)
    }

    /// Begins one attempt of a transaction that is an object, and counted.
    pub(crate) fn begin_attempt(
        &mut self,
        mode: Mode,
        bounds: &Bounds,
    ) -> Result<Attempt<'_, 'd, P, S>, Abort> {
        self.check_log()?;
        if self.elder.is_there(self.inner.core()) {
            self.give_way(bounds.deadline);
        }
        let (redo, stats) = (self.redo.as_mut(), &mut self.stats);
        let transaction = Transaction::begin(&mut self.inner, &mut self.scratch, redo, mode, bounds.deadline);
        Ok(Attempt::new(transaction, self.tables, stats))
    }

    /// Runs a transaction until it commits, rolls back, or fails for good.
    #[inline]
    pub fn transact<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnMut(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        self.transact_as(Mode::Single, bounds, body)
    }

    /// Runs a transaction that only reads. A scheme that keeps versions shows a snapshot, which is
    /// a little old ([`Mode::Snapshot`]), and never aborts the transaction.
    #[inline]
    pub fn snapshot<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnMut(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        self.transact_as(Mode::Snapshot, bounds, body)
    }

    #[inline]
    pub(crate) fn transact_as<T>(
        &mut self,
        mode: Mode,
        bounds: &Bounds,
        mut body: impl FnMut(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        let mut value = None;
        let ending = self.attempt_until_it_ends(mode, bounds, &mut |transaction| {
            value = Some(body(transaction)?);
            Ok(())
        })?;
        Ok(match ending {
            Ending::Committed((), commit) => {
                Ending::Committed(value.expect("the last attempt gave it"), commit)
            }
            Ending::RolledBack(depends_on) => Ending::RolledBack(depends_on),
        })
    }

    /// One function for all transactions: the beginning, the end and the repetition of attempts are
    /// compiled once for each scheme and platform, and not again for each procedure and closure.
    #[inline(never)]
    fn attempt_until_it_ends(
        &mut self,
        mode: Mode,
        bounds: &Bounds,
        body: &mut Body<'_, 'd, P, S>,
    ) -> Result<Ending<()>, Abort> {
        let c = self.inner.core();
        self.check_log()?;
        self.inner.worker().meter.begin::<P>(c);
        let mut attempts = MemoryAttempts { session: self, mode, bounds, body, eldership: None };
        let result = boundary::attempt_until_it_ends(&mut attempts, bounds);
        drop(attempts);
        self.inner.worker().meter.end::<P>(c);
        result
    }

    /// Waits for the elder to end.
    #[cold]
    fn give_way(&mut self, deadline: Option<Nanos>) {
        let c = self.inner.core();
        // A session that waits must not hold memory back: the elder could be waiting for memory.
        self.inner.leave();
        let meter = &mut self.inner.worker().meter;
        let before = meter.enter::<P>(c, terms::Category::Backoff);
        self.elder.wait(c, deadline);
        let now = P::now(c);
        self.backoff.resume(now);
        self.tend(now);
        self.inner.worker().meter.leave::<P>(c, before);
    }

    /// Pauses after a failed attempt.
    #[cold]
    fn back_off(&mut self, attempts: u32, is_elder: bool) {
        let c = self.inner.core();
        let before = self.inner.worker().meter.enter::<P>(c, terms::Category::Backoff);
        let now = self.backoff.pause::<P>(c, attempts, is_elder);
        // Another worker could be waiting for memory, which becomes usable as epochs pass.
        self.tend(now);
        self.inner.worker().meter.leave::<P>(c, before);
    }

    /// Runs a stored procedure inline: its phases in order, each action in the order planned, in
    /// one transaction.
    #[inline]
    pub fn run<Q: Procedure>(
        &mut self,
        tables: &Q::Tables,
        procedure: &mut Q,
        actions: &mut Vec<Q::Action>,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort> {
        let mode = if procedure.read_only() { Mode::Snapshot } else { Mode::Single };
        self.transact_as(mode, bounds, |transaction| run_inline(tables, procedure, actions, transaction))
    }

    /// Tells of the procedure that the session will run as number [`concurrency::LOOK_AHEAD`] from
    /// here: number 1 is the next. `None`: it is not known. The caller calls this between
    /// transactions, and either before each transaction or never. The session is inside an epoch
    /// afterwards: a caller that waits before it runs a transaction calls [`Self::idle`] first.
    #[inline]
    pub fn look_ahead<Q: Procedure>(&mut self, tables: &Q::Tables, procedure: Option<&Q>) {
        if let (Some(mut ahead), Some(procedure)) = (self.step_ahead(), procedure) {
            procedure.look_ahead(tables, &mut ahead);
        }
    }

    /// All transactions that are known come one nearer. `None` in an instance that does not look
    /// ahead.
    #[inline(always)]
    pub(crate) fn step_ahead(&mut self) -> Option<Ahead<'_, 'd, P, S>> {
        let look_ahead = self.scratch.look_ahead()?;
        if !self.inner.worker().local.inside() {
            self.inner.enter();
        }
        look_ahead.step(self.inner.core());
        Some(Ahead { session: &mut self.inner, look_ahead })
    }

    /// The transaction that is known last will use this key, if there is such an index and its keys
    /// have this length ([`boundary::LookAhead`]). After [`Self::step_ahead`].
    pub(crate) fn add_ahead(&mut self, table: usize, index: usize, key: &[u64], what: Use) {
        let Some(look_ahead) = self.scratch.look_ahead() else { return };
        let cx = self.inner.context();
        let storage = cx.tables.get(table).and_then(|table| table.indexes.get(index));
        if cx.worker.local.inside() && storage.is_some_and(|storage| storage.takes(key.len())) {
            match what {
                Use::Row(words) => look_ahead.add_rows(&cx, table, index, std::iter::once(key), words),
                Use::Insertion => look_ahead.add_insertion(&cx, table, index, key),
            }
        }
    }
}

/// The attempts of one transaction of a session.
struct MemoryAttempts<'s, 'b, 'd, P: Platform, S: Scheme<P>> {
    session: &'s mut MemorySession<'d, P, S>,
    mode: Mode,
    bounds: &'s Bounds,
    body: &'s mut Body<'b, 'd, P, S>,
    /// There while the transaction is the elder.
    eldership: Option<Eldership<'d, P>>,
}

impl<'d, P: Platform, S: Scheme<P>> Attempts<P> for MemoryAttempts<'_, '_, 'd, P, S> {
    #[inline(always)]
    fn core(&self) -> P::Core {
        self.session.inner.core()
    }

    #[inline(always)]
    fn meter(&mut self) -> &mut Meter {
        &mut self.session.inner.worker().meter
    }

    #[inline(always)]
    fn stats(&mut self) -> &mut Stats {
        &mut self.session.stats
    }

    #[inline(always)]
    fn give_way(&mut self) {
        if self.eldership.is_none() && self.session.elder.is_there(self.core()) {
            self.session.give_way(self.bounds.deadline);
        }
    }

    #[inline(always)]
    fn attempt(&mut self) -> Result<Commit, (Abort, Epoch)> {
        let mut transaction = self.session.begin_as(self.mode, self.bounds);
        match (self.body)(&mut transaction) {
            Ok(()) => transaction.commit(),
            Err(abort) => Err(transaction.explain(abort)),
        }
    }

    fn failure(&mut self, abort: Abort, depends_on: Epoch) -> Abort {
        self.session.failure(abort, depends_on, self.bounds)
    }

    fn give_up(&mut self) {
        self.session.turn_to_another(false);
    }

    fn pause(&mut self, attempts: u32) -> Result<(), Abort> {
        let (c, session) = (self.core(), &mut *self.session);
        session.backoff.failed::<P>(c, attempts);
        let attempt_nanos = session.backoff.attempt_nanos();
        if let Some(eldership) = &mut self.eldership {
            eldership.failed(attempt_nanos);
        } else if session.backoff.is_hopeless(attempts) {
            if session.elder.is_there(c) {
                session.give_way(self.bounds.deadline);
            }
            self.eldership = session.elder.succeed(c, attempt_nanos);
        }
        session.back_off(attempts, self.eldership.is_some());
        Ok(())
    }
}
