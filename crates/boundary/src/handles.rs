//! Owners of the objects: databases and sessions with typed transactions.

use concurrency::{Content, TooManySessions};
use platform::{Address, Nanos, Node, OutOfMemory, Platform};
use redo_log::{LogError, LogUse};
use schema::TableDescription;
use storage::MemoryUse;
use terms::{Abort, Epoch, Mode};

use crate::database::{AnyDatabase, Occupant, Traits};
use crate::ending::{Bounds, Commit, Ending, Stats};
use crate::participants::{Decision, GlobalId, Outcome, PartOf, Vote};
use crate::session::{AnyPrepared, AnySession};
use crate::transaction::Transaction;

/// Owner of an [`AnyDatabase`], whose sessions run typed transactions.
pub struct Database<P: Platform> {
    inner: Box<dyn AnyDatabase<P>>,
}

impl<P: Platform> Database<P> {
    /// The owner of this object.
    pub fn of(inner: Box<dyn AnyDatabase<P>>) -> Self {
        Database { inner }
    }

    /// The object alone.
    pub fn into_object(self) -> Box<dyn AnyDatabase<P>> {
        self.inner
    }

    /// The object.
    pub fn object(&self) -> &dyn AnyDatabase<P> {
        &*self.inner
    }

    /// Properties of the scheme.
    pub fn traits(&self) -> Traits {
        self.inner.traits()
    }

    /// The descriptions of its tables, by their numbers.
    pub fn tables(&self) -> &[TableDescription] {
        self.inner.tables()
    }

    /// See [`AnyDatabase::session`].
    ///
    /// # Errors
    /// There are as many sessions as the database was made for.
    pub fn session(
        &self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Session<'_>, TooManySessions> {
        Ok(Session::new(self.inner.session(c, node, measure)?))
    }

    /// See [`AnyDatabase::loaded`].
    ///
    /// # Errors
    /// There is no memory for the copies of read-only tables.
    pub fn loaded(&mut self, c: P::Core) -> Result<(), OutOfMemory> {
        self.inner.loaded(c)
    }

    /// Lets snapshots show everything that is committed. No transaction runs.
    pub fn settle(&self, c: P::Core) {
        self.inner.settle(c);
    }

    /// See [`AnyDatabase::memory_bytes`].
    pub fn memory_bytes(&self, c: P::Core) -> u64 {
        self.inner.memory_bytes(c)
    }

    /// See [`AnyDatabase::memory_use`].
    pub fn memory_use(&self, c: P::Core) -> MemoryUse {
        self.inner.memory_use(c)
    }

    /// Bytes of rows and of entries of indexes by themselves; see
    /// [`concurrency::Instance::content`].
    pub fn content(&self, c: P::Core) -> Content {
        self.inner.content(c)
    }

    /// See [`AnyDatabase::log_used`].
    pub fn log_used(&self, c: P::Core) -> Option<LogUse> {
        self.inner.log_used(c)
    }

    /// See [`AnyDatabase::occupants`].
    pub fn occupants(&self, c: P::Core, lines: &[Address]) -> Vec<Option<Occupant>> {
        self.inner.occupants(c, lines)
    }

    /// See [`AnyDatabase::in_doubt`].
    pub fn in_doubt(&self, c: P::Core) -> Vec<(PartOf, AnyPrepared<'_>)> {
        self.inner.in_doubt(c)
    }

    /// See [`AnyDatabase::decisions`].
    pub fn decisions(&self, c: P::Core) -> Vec<Decision> {
        self.inner.decisions(c)
    }

    /// See [`AnyDatabase::close`].
    ///
    /// # Errors
    /// The log has stopped: what is durable is what was acknowledged.
    pub fn close(self, c: P::Core) -> Result<(), LogError> {
        self.inner.close(c)
    }
}

/// Owner of an [`AnySession`], which runs typed transactions.
pub struct Session<'d> {
    inner: Box<dyn AnySession<'d> + 'd>,
}

impl<'d> Session<'d> {
    /// The session behind an object.
    pub fn new(inner: Box<dyn AnySession<'d> + 'd>) -> Self {
        Session { inner }
    }

    /// The object.
    pub fn object(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        &mut *self.inner
    }

    /// Runs a transaction until it commits, rolls back, or fails for good.
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn transact<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        self.transact_as(Mode::Single, bounds, body)
    }

    /// Runs a transaction that only reads: see [`Mode::Snapshot`].
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn snapshot<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        self.transact_as(Mode::Snapshot, bounds, body)
    }

    fn transact_as<T>(
        &mut self,
        mode: Mode,
        bounds: &Bounds,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, Abort>,
    ) -> Result<Ending<T>, Abort> {
        let mut value = None;
        let ending = self.inner.transact(mode, bounds, &mut |verbs| {
            value = Some(body(&mut Transaction::new(verbs))?);
            Ok(())
        })?;
        match (ending, value) {
            (Ending::Committed((), commit), Some(value)) => Ok(Ending::Committed(value, commit)),
            (Ending::Committed((), _), None) => unreachable!("a transaction commits after its body"),
            (Ending::RolledBack(depends_on), _) => Ok(Ending::RolledBack(depends_on)),
        }
    }

    /// Prepares a part of a transaction over several databases: see [`AnySession::prepare`].
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn prepare<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, Abort>,
    ) -> Result<(T, AnyPrepared<'d>), Abort> {
        let (mut body, mut value) = (Some(body), None);
        let (prepared, _) = self.inner.prepare(bounds, &mut |verbs| {
            let body = body.take().expect("a part is attempted once");
            value = Some(body(&mut Transaction::new(verbs))?);
            Ok(())
        })?;
        Ok((value.expect("a part is prepared after its body"), prepared))
    }

    /// As [`Self::prepare`], but in a durable database the part survives crashes: see
    /// [`AnySession::prepare_as`].
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn prepare_as<T>(
        &mut self,
        part: PartOf,
        bounds: &Bounds,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, Abort>,
    ) -> Result<(T, AnyPrepared<'d>, Vote), Abort> {
        let (mut body, mut value) = (Some(body), None);
        let (prepared, vote) = self.inner.prepare_as(part, bounds, &mut |verbs| {
            let body = body.take().expect("a part is attempted once");
            value = Some(body(&mut Transaction::new(verbs))?);
            Ok(())
        })?;
        Ok((value.expect("a part is prepared after its body"), prepared, vote))
    }

    /// Finishes a prepared part: see [`AnySession::finish_as`].
    ///
    /// # Panics
    /// If the part was prepared in another database.
    pub fn finish_as(&mut self, prepared: AnyPrepared<'_>, outcome: Outcome<'_>) -> Option<Commit> {
        self.inner.finish_as(prepared, outcome)
    }

    /// Decides that a transaction commits: see [`AnySession::decide`].
    pub fn decide(&mut self, global: GlobalId, participants: &[u16]) -> Epoch {
        self.inner.decide(global, participants)
    }

    /// Forgets a decision to commit: see [`AnySession::forget`].
    pub fn forget(&mut self, global: GlobalId) -> bool {
        self.inner.forget(global)
    }

    /// Commits or rolls back a prepared part: see [`AnySession::finish`].
    ///
    /// # Panics
    /// If the part was prepared in another database.
    pub fn finish(&mut self, prepared: AnyPrepared<'_>, commit: bool) -> Option<Commit> {
        self.inner.finish(prepared, commit)
    }

    /// True if an outcome survives whatever happens. Always true in a database that is not durable.
    pub fn is_durable(&self, outcome: impl Into<Epoch>) -> bool {
        self.inner.is_durable(outcome.into())
    }

    /// Waits until an outcome is durable. The session is idle meanwhile.
    ///
    /// # Errors
    /// The log has stopped: the commit is not to be acknowledged.
    pub fn wait_durable(&mut self, outcome: impl Into<Epoch>) -> Result<(), Abort> {
        self.inner.wait_durable_until(outcome.into(), None).map(drop)
    }

    /// See [`crate::Upkeep::wait_written_until`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_written(&mut self, outcome: impl Into<Epoch>) -> Result<(), Abort> {
        self.inner.wait_written_until(outcome.into(), None).map(drop)
    }

    /// See [`crate::Upkeep::tend`].
    pub fn tend(&mut self, now: Nanos) {
        self.inner.tend(now);
    }

    /// Leaves the epoch: no transaction follows soon.
    pub fn idle(&mut self) {
        self.inner.idle();
    }

    /// Seeds the generator of backoff times.
    pub fn seed(&mut self, seed: u64) {
        self.inner.seed(seed);
    }

    /// Counters since the session began, or since they were reset.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    /// Makes a checkpoint: see [`AnySession::checkpoint`].
    ///
    /// # Errors
    /// The log has stopped, or the files refuse.
    pub fn checkpoint(&mut self) -> Result<bool, LogError> {
        self.inner.checkpoint()
    }
}
