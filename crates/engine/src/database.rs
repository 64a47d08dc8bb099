//! A database of one instance: its tables made from a schema, loaded, and worked on through sessions. Durable ones are opened
//! and closed in `durable/opening.rs`.

use cc::{Abort, Instance, InstanceOptions, Mode, Scheme, Stamp, TableShape, TooManySessions};
use platform::{Nanos, Node, OutOfMemory, Platform, Work};
use storage::index::Shape;
use storage::log::LogUse;
use storage::{Epoch, Optimisation};

use crate::columns::Columns;
use crate::contention::{ATTEMPTS_OF_AN_ELDER, Backoff, Elder};
use crate::declaration::SchemaBuilder;
use crate::durable::{Durable, RedoWriter, not_durable};
use crate::key::{Key, KeyBuffer, key_words};
use crate::procedure::{Plan, Procedure, Route};
use crate::row::Row;
use crate::schema::{Inspector, Loader};
use crate::table::{Index, Table};
use crate::transaction::{Bounds, Prepared, Scratch, Transaction, commit_logged, end_commit};
use crate::verbs::Verbs;

/// Rows that a loader inserts between two reports.
pub const ROWS_PER_REPORT: u64 = 1024;

/// A database of one instance under scheme `S`.
pub struct Database<P: Platform, S: Scheme<P>> {
    pub(crate) instance: Instance<P, S>,
    elder: Elder<P>,
    /// What describes rows at run time, where access to them is not compiled.
    columns: Option<Columns<P>>,
    pub(crate) durable: Option<Durable<P>>,
}

impl<P: Platform, S: Scheme<P>> Database<P, S> {
    /// Makes the declared tables, empty; `node_of` says where partition `i` of a table lives.
    pub fn create(
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
        node_of: &dyn Fn(usize) -> Option<Node>,
    ) -> Result<Self, OutOfMemory> {
        let columns: Vec<_> = schema.tables.iter().map(|declared| declared.columns).collect();
        let interpreted = options.without.has(Optimisation::CompiledRows);
        let columns = interpreted.then(|| Columns::new(c, &columns)).transpose()?;
        let mut shapes: Vec<TableShape> = schema.tables.into_iter().map(|declared| declared.shape).collect();
        for index in shapes.iter_mut().flat_map(|shape| &mut shape.indexes) {
            if options.without.has(Optimisation::HashIndex) {
                index.partitions.iter_mut().for_each(|(shape, _)| *shape = Shape::Tree(index.words));
            }
            let nodes = (0..).map(node_of);
            index.partitions.iter_mut().zip(nodes).for_each(|(partition, node)| partition.1 = node);
        }
        let instance = Instance::new(c, options, &shapes)?;
        Ok(Database { instance, elder: Elder::new(c)?, columns, durable: None })
    }

    /// What the log has done since the database was opened; `None` without one.
    pub fn log_used(&self, c: P::Core) -> Option<LogUse> {
        self.durable.as_ref().map(|durable| durable.journal.used(c, self.instance.epochs()))
    }

    /// Ends loading: from now on read-only tables are never written, need no concurrency control, and have a copy on each of
    /// the nodes that the options name. No session is open, and no transaction prepared.
    ///
    /// # Errors
    /// There is no memory for the copies.
    pub fn loaded(&mut self, c: P::Core) -> Result<(), OutOfMemory> {
        self.instance.loaded(c)?;
        self.instance.settle(c);
        Ok(())
    }

    /// The instance.
    pub fn instance(&self) -> &Instance<P, S> {
        &self.instance
    }

    /// Bytes of memory in use by rows and indexes.
    pub fn memory_bytes(&self, c: P::Core) -> u64 {
        self.instance.memory_bytes(c)
    }

    /// A session for the calling core: new rows lie on `node`; `measure` keeps a breakdown of its time.
    pub fn session(
        &self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Session<'_, P, S>, TooManySessions> {
        let inner = self.instance.session(c, node, measure)?;
        Ok(Session {
            inner,
            redo: self.durable.as_ref().map(|durable| RedoWriter::new(durable, node)),
            scratch: Scratch::new(self.instance.left_out(), self.columns.as_ref()),
            elder: &self.elder,
            backoff: Backoff::new(0),
            stats: Stats::default(),
            rests_until: Nanos(0),
        })
    }

    /// Reads the database while no transaction runs.
    pub fn inspector(&self, c: P::Core) -> Quiet<'_, P, S> {
        Quiet { database: self, c }
    }
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions that committed.
    pub commits: u64,
    /// Attempts that met another transaction.
    pub aborts: u64,
    /// Transactions that rolled back by their own decision.
    pub rollbacks: u64,
    /// Most attempts that one transaction needed.
    pub attempts_max: u32,
}

/// The commit of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its place in the order of commits.
    pub stamp: Stamp,
    /// The epoch that has to be durable before it may be acknowledged: its own, or an earlier one if it only read.
    pub durable_with: Epoch,
}

impl Commit {
    /// A commit that is acknowledged when its own epoch is durable.
    pub(crate) fn of(stamp: Stamp) -> Commit {
        Commit { stamp, durable_with: stamp.epoch() }
    }
}

impl From<Commit> for Epoch {
    fn from(commit: Commit) -> Epoch {
        commit.durable_with
    }
}

/// How a transaction that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending<T> {
    /// It committed, with this result.
    Committed(T, Commit),
    /// It rolled back by its own decision, which may be told when this epoch is durable: the decision follows from what the
    /// transaction has read.
    RolledBack(Epoch),
}

/// One worker's use of a database.
pub struct Session<'d, P: Platform, S: Scheme<P>> {
    pub(crate) inner: cc::Session<'d, P, S>,
    pub(crate) redo: Option<RedoWriter<'d, P>>,
    scratch: Scratch<'d, P>,
    elder: &'d Elder<P>,
    backoff: Backoff,
    stats: Stats,
    /// When it works on a checkpoint again.
    pub(crate) rests_until: Nanos,
}

impl<'d, P: Platform, S: Scheme<P>> Session<'d, P, S> {
    /// Seeds the generator of backoff times: two workers should not back off in step.
    pub fn seed(&mut self, seed: u64) {
        self.backoff = Backoff::new(seed);
    }

    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Forgets counters and breakdown.
    pub fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.inner.worker().meter.reset();
    }

    /// Nanoseconds by [`cc::Category`], of the transactions that were measured.
    pub fn breakdown(&mut self) -> [u64; cc::CATEGORIES] {
        self.inner.worker().meter.nanos()
    }

    /// The core it runs on.
    pub fn core(&self) -> P::Core {
        self.inner.core()
    }

    /// Lets the epoch advance if it is time; call it between transactions with the current time.
    #[inline]
    pub fn tend(&mut self, now: Nanos) {
        let c = self.inner.core();
        self.inner.worker().local.tend(c, now);
        if let Some(redo) = &self.redo {
            if redo.journal().tend(c, self.inner.instance().epochs(), now) {
                self.begin_checkpoint_if_due();
            }
            self.tend_checkpoint(now);
        }
    }

    /// Whether a commit, or what a decision to roll back depends on, survives whatever happens; always, in a database that is
    /// not durable.
    pub fn is_durable(&self, outcome: impl Into<Epoch>) -> bool {
        let durable = self.redo.as_ref().map(|redo| redo.journal().durable(self.inner.core()));
        durable.is_none_or(|durable| durable >= outcome.into().0)
    }

    /// Waits until a commit, or what a decision to roll back depends on, is durable. The session is idle meanwhile.
    ///
    /// # Errors
    /// The log has stopped: it is not to be acknowledged.
    pub fn wait_durable(&mut self, outcome: impl Into<Epoch>) -> Result<(), Abort> {
        self.wait_durable_until(outcome, None).map(drop)
    }

    /// As [`Self::wait_durable`], until the deadline, if there is one: whether it is durable. If it is not, nothing is known yet:
    /// a commit has happened, and others may see it, but it may be lost.
    ///
    /// # Errors
    /// As [`Self::wait_durable`].
    pub fn wait_durable_until(
        &mut self,
        outcome: impl Into<Epoch>,
        deadline: Option<Nanos>,
    ) -> Result<bool, Abort> {
        self.inner.leave();
        let Some(redo) = &self.redo else { return Ok(true) };
        let (c, epochs) = (self.inner.core(), self.inner.instance().epochs());
        let waited = redo.journal().wait(c, epochs, outcome.into().0, deadline);
        waited.map_err(|error| not_durable(&error))
    }

    /// What is said of a transaction that failed for good, when that may be told: like a commit that only read, it may depend
    /// on what is not durable yet.
    #[cold]
    fn tell(&mut self, abort: Abort, depends_on: Epoch, bounds: &Bounds) -> Abort {
        if self.is_durable(depends_on) {
            return abort;
        }
        match self.wait_durable_until(depends_on, bounds.deadline) {
            Ok(true) => abort,
            Ok(false) => Abort::DurabilityUnknown { committed: false },
            Err(stopped) => stopped,
        }
    }

    /// Refuses to go on when the log has stopped.
    #[inline]
    fn check_log(&self) -> Result<(), Abort> {
        match &self.redo {
            None => Ok(()),
            Some(redo) => match redo.journal().stopped(self.inner.core()) {
                None => Ok(()),
                Some(error) => Err(not_durable(&error)),
            },
        }
    }

    /// Takes `bytes` of memory from the machine ahead, for rows that this session will insert.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        let c = self.inner.core();
        self.inner.worker().local.reserve(c, bytes)
    }

    /// Says that no transaction follows soon.
    pub fn idle(&mut self) {
        self.inner.leave();
    }

    /// One attempt of a transaction; the caller runs its verbs and commits.
    pub fn begin(&mut self, bounds: &Bounds) -> Transaction<'_, 'd, P, S> {
        self.begin_as(Mode::Single, bounds)
    }

    pub(crate) fn begin_as(&mut self, mode: Mode, bounds: &Bounds) -> Transaction<'_, 'd, P, S> {
        let redo = self.redo.as_mut();
        Transaction::begin(&mut self.inner, &mut self.scratch, redo, mode, bounds.deadline)
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

    /// Runs a transaction that only reads. A scheme that keeps versions shows it a snapshot, which is a little old
    /// ([`Mode::Snapshot`]), and never aborts it.
    #[inline]
    pub fn snapshot<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnMut(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        self.transact_as(Mode::Snapshot, bounds, body)
    }

    #[inline]
    fn transact_as<T>(
        &mut self,
        mode: Mode,
        bounds: &Bounds,
        mut body: impl FnMut(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        let c = self.inner.core();
        self.check_log()?;
        self.inner.worker().meter.begin::<P>(c);
        let mut attempts = 0;
        let mut eldership = None;
        let result = loop {
            if eldership.is_none() && self.elder.is_there(c) {
                self.give_way();
            }
            attempts += 1;
            let mut transaction = self.begin_as(mode, bounds);
            let outcome = match body(&mut transaction) {
                Ok(value) => transaction.commit().map(|commit| (value, commit)),
                Err(abort) => Err(transaction.explain(abort)),
            };
            match outcome {
                Ok((value, commit)) => {
                    self.stats.commits += 1;
                    break Ok(Ending::Committed(value, commit));
                }
                Err((Abort::RollBack, depends_on)) => {
                    self.stats.rollbacks += 1;
                    break Ok(Ending::RolledBack(depends_on));
                }
                Err((abort, depends_on)) if !abort.is_conflict() => {
                    break Err(self.tell(abort, depends_on, bounds));
                }
                Err((abort, _)) => {
                    self.stats.aborts += 1;
                    if bounds.attempts_max.is_some_and(|most| attempts >= most) {
                        break Err(abort);
                    }
                    if bounds.deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                        break Err(Abort::Deadline);
                    }
                    if eldership.is_none() && attempts >= ATTEMPTS_OF_AN_ELDER {
                        self.give_way();
                        eldership = self.elder.succeed(c);
                    }
                    self.back_off(attempts, eldership.is_some());
                }
            }
        };
        self.stats.attempts_max = self.stats.attempts_max.max(attempts);
        self.inner.worker().meter.end::<P>(c);
        result
    }

    /// Waits for the elder.
    #[cold]
    fn give_way(&mut self) {
        let c = self.inner.core();
        // Who waits must not hold memory back: the elder could wait for some.
        self.inner.leave();
        let meter = &mut self.inner.worker().meter;
        let before = meter.enter::<P>(c, cc::Category::Backoff);
        self.elder.wait(c);
        self.tend(P::now(c));
        self.inner.worker().meter.leave::<P>(c, before);
    }

    /// Pauses after a failed attempt.
    #[cold]
    fn back_off(&mut self, attempts: u32, elder: bool) {
        let c = self.inner.core();
        let meter = &mut self.inner.worker().meter;
        meter.attempt_failed::<P>(c);
        let before = meter.enter::<P>(c, cc::Category::Backoff);
        self.backoff.pause::<P>(c, attempts, elder);
        // Another worker could wait for memory, which epochs that pass make usable.
        self.tend(P::now(c));
        let meter = &mut self.inner.worker().meter;
        meter.leave::<P>(c, before);
        meter.attempt_begins();
    }

    /// Runs a stored procedure inline: its phases in order, each action in the order planned, in one transaction.
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

    /// Prepares a transaction as a part of one over several databases: it can no longer fail, and waits for
    /// [`Self::finish`], in any session of the same database.
    pub fn prepare<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnOnce(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<(T, Prepared<'d, P, S>), Abort> {
        let mut transaction =
            Transaction::begin(&mut self.inner, &mut self.scratch, None, Mode::Participant, bounds.deadline);
        let prepared = match body(&mut transaction) {
            Ok(value) => transaction.prepare().map(|prepared| (value, prepared)),
            Err(abort) => Err(transaction.explain(abort)),
        };
        prepared.map_err(|(abort, depends_on)| match abort.is_conflict() {
            true => abort,
            false => self.tell(abort, depends_on, bounds),
        })
    }

    /// Commits or rolls back what [`Self::prepare`] prepared in some session of this database.
    ///
    /// # Panics
    /// If it was prepared in another database.
    pub fn finish(&mut self, prepared: Prepared<'_, P, S>, commit: bool) -> Option<Commit> {
        let prepared = prepared.into_inner(self.inner.instance());
        self.inner.enter();
        if !commit {
            S::rollback(prepared, &mut self.inner.context());
            return None;
        }
        let commit = match &mut self.redo {
            None => Commit::of(S::commit(prepared, &mut self.inner.context())),
            Some(redo) => commit_logged(&mut self.inner, redo, prepared),
        };
        end_commit(&mut self.inner);
        Some(commit)
    }
}

#[inline]
fn run_inline<P: Platform, S: Scheme<P>, Q: Procedure>(
    tables: &Q::Tables,
    procedure: &mut Q,
    actions: &mut Vec<Q::Action>,
    transaction: &mut Transaction<'_, '_, P, S>,
) -> Result<(), Abort> {
    // The procedure came from who drew it, actions come from the procedure, outputs go to it.
    let words = |bytes: usize| bytes.div_ceil(8) as u32;
    transaction.work(Work::CopyWord, words(size_of::<Q>()));
    for phase in 0.. {
        actions.clear();
        match procedure.plan(phase, actions) {
            Plan::Commit => break,
            Plan::RollBack => return Err(Abort::RollBack),
            Plan::Run => {
                let moved = words(size_of::<Q::Action>()) + words(size_of::<Q::Output>());
                transaction.work(Work::CopyWord, moved * actions.len() as u32);
                if S::ENLISTS && phase == 0 {
                    for action in actions.iter() {
                        let Route { table, key } = Q::route(tables, action);
                        transaction.enlist(table, &key);
                    }
                }
                for (number, action) in actions.iter().enumerate() {
                    let output = Q::execute(tables, action, transaction)?;
                    procedure.absorb(phase, number, output);
                }
            }
        }
    }
    Ok(())
}

/// Inserts rows, one transaction each: loading runs in parallel, and a conflict costs one row.
pub struct RowLoader<'s, 'd, P: Platform, S: Scheme<P>> {
    session: &'s mut Session<'d, P, S>,
    rows: u64,
    /// Called with the number of rows since the last call.
    progress: &'s mut dyn FnMut(u64),
}

impl<'s, 'd, P: Platform, S: Scheme<P>> RowLoader<'s, 'd, P, S> {
    /// A loader through this session; `progress` hears of every [`ROWS_PER_REPORT`] rows.
    pub fn new(session: &'s mut Session<'d, P, S>, progress: &'s mut dyn FnMut(u64)) -> Self {
        RowLoader { session, rows: 0, progress }
    }

    /// Reports the rest.
    pub fn finish(mut self) {
        self.report();
    }

    fn report(&mut self) {
        (self.progress)(self.rows);
        self.rows = 0;
        let now = P::now(self.session.core());
        self.session.tend(now);
    }
}

impl<P: Platform, S: Scheme<P>> Loader for RowLoader<'_, '_, P, S> {
    fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<(), Abort> {
        self.session.transact(&Bounds::default(), |transaction| transaction.insert(table, row))?;
        self.rows += 1;
        if self.rows == ROWS_PER_REPORT {
            self.report();
        }
        Ok(())
    }
}

/// Reads a database in which no transaction is running.
pub struct Quiet<'d, P: Platform, S: Scheme<P>> {
    database: &'d Database<P, S>,
    c: P::Core,
}

impl<P: Platform, S: Scheme<P>> Quiet<'_, P, S> {
    fn visit<R: Row>(
        &mut self,
        table: usize,
        index: usize,
        range: (&[u64], &[u64]),
        visit: &mut dyn FnMut(&R),
    ) {
        self.database.instance.inspect(self.c, table, index, range, &mut |words, tail| {
            let fixed: &[u8] = bytemuck::cast_slice(words);
            visit(&R::fetch(&fixed[..R::BYTES], tail));
        });
    }
}

impl<P: Platform, S: Scheme<P>> Inspector for Quiet<'_, P, S> {
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, visit: &mut dyn FnMut(&R)) {
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        let words = const { key_words(K::BITS) };
        let range = (low.words(words), high.words(words));
        self.visit(index.table().number(), index.number(), range, &mut |row: &R| {
            // Hash indexes give all rows: the range selects.
            let mut key = KeyBuffer::new();
            row.index_key(index.number(), &mut key);
            if low <= key && key <= high {
                visit(row);
            }
        });
    }

    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R> {
        let mut session = self.database.session(self.c, None, false).ok()?;
        let found = session.transact(&Bounds::default(), |transaction| {
            match transaction.find(index, key, platform::Intent::Read)? {
                Some(handle) => Ok(Some(transaction.row(handle)?)),
                None => Ok(None),
            }
        });
        match found {
            Ok(Ending::Committed(row, _)) => row,
            _ => None,
        }
    }
}
