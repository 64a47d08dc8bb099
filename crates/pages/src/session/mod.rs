//! Sessions: a session attempts each transaction of one worker until it ends.

mod roaming;

use boundary::{
    AnyPrepared, AnySession, Attempts, Backoff, Body, BorderChange, Bounds, BranchReport, Branches, Commit,
    Decision, Ending, GlobalId, OtherBranches, Outcome, PartOf, Pauses, Stats, Upkeep, Vote,
};
use concurrency::{Meter, Use};
use platform::files::Files;
use platform::{Nanos, Node};
use redo_log::LogError;
use terms::{Abort, Category, Epoch, Fault, Mode, Stamp};

use crate::context::{Context, LockWaits};
use crate::lsn::Lsn;
use crate::owner::{KeptPart, Owner};
use crate::participants::branches::{OpenBranches, commit};
use crate::running::run;
use crate::shared::SharedState;

/// A worker's session in a database.
pub(crate) struct PagesSession<'d, P: Files> {
    context: Context<'d, P>,
    number: usize,
    backoff: Backoff,
    stats: Stats,
    branches: OpenBranches,
    /// Longest wait for a lock, as the caller has set it.
    wait_nanos_max: Option<u64>,
    /// Longest wait of transactions for a lock, if the caller has set it.
    lock_wait: Option<u64>,
    /// A bound in the log of all that the last undone transaction has read.
    rolled_back_at: Lsn,
}

impl<'d, P: Files> PagesSession<'d, P> {
    pub(crate) fn new(
        shared: &'d SharedState<P>,
        c: P::Core,
        number: usize,
        owner: Box<Owner>,
        node: Option<Node>,
        measure: bool,
    ) -> Self {
        let (backoff, stats) = (Backoff::new(number as u64), Stats::default());
        let context = Context::new(shared, c, number, owner, node, measure);
        let branches = OpenBranches::new(number);
        let (wait_nanos_max, rolled_back_at) = (None, Lsn(0));
        let lock_wait = None;
        PagesSession { context, number, backoff, stats, branches, wait_nanos_max, lock_wait, rolled_back_at }
    }

    /// Runs one attempt, up to its commit or its preparation as a part; a failed attempt is undone.
    fn attempt(&mut self, bounds: &Bounds, body: &mut Body<'_>, is_part: bool) -> Result<(), Abort> {
        self.context.give_up();
        let waits = LockWaits { bound: self.wait_nanos_max, timeout: self.lock_wait };
        self.context.begin(bounds.deadline, is_part, waits);
        let ready = if is_part { Ok(()) } else { self.context.wait_for_refused() };
        let outcome = ready.and_then(|()| run(&mut self.context, body));
        if outcome.is_err() {
            self.rolled_back_at = self.context.roll_back()?;
        }
        outcome
    }

    /// Runs one attempt of a part, and prepares the part.
    fn prepare_part(
        &mut self,
        part: Option<PartOf>,
        bounds: &Bounds,
        body: &mut Body<'_>,
    ) -> Result<(KeptPart, Vote), Abort> {
        let c = self.context.worker.c;
        if let Some(failure) = self.context.shared.failure(c) {
            return Err(failure.into());
        }
        // A part belongs to what its caller measures.
        let before = self.context.worker.meter.enter::<P>(c, Category::Useful);
        self.context.worker.meter.attempt_begins();
        if self.context.owner.age == 0 {
            self.context.owner.draw_age::<P>(c);
        }
        let attempted = self.attempt(bounds, body, true);
        let prepared = attempted.and_then(|()| self.context.prepare(part));
        if let Err(abort) = &prepared {
            self.context.worker.meter.attempt_failed::<P>(c);
            if !abort.is_conflict() {
                self.context.owner.age = 0;
            }
        }
        self.context.worker.meter.leave::<P>(c, before);
        prepared.map_err(|abort| match abort.is_conflict() {
            true => abort,
            false => self.wait_for_reads(abort, bounds),
        })
    }

    /// Waits until the rows that a part has read are durable, and returns the error that follows
    /// from them.
    fn wait_for_reads(&mut self, abort: Abort, bounds: &Bounds) -> Abort {
        match self.wait_durable_until(Epoch(self.rolled_back_at.0), bounds.deadline) {
            Ok(true) => abort,
            Ok(false) => Abort::DurabilityUnknown { committed: false },
            Err(stopped) => stopped,
        }
    }

    /// An address that distinguishes the parts of this database from those of others.
    fn database(&self) -> usize {
        self.context.shared.address()
    }
}

/// The attempts of one transaction of a session.
struct PagesAttempts<'s, 'b, 'd, P: Files> {
    session: &'s mut PagesSession<'d, P>,
    bounds: &'s Bounds,
    body: &'s mut Body<'b>,
}

impl<P: Files> Attempts<P> for PagesAttempts<'_, '_, '_, P> {
    fn core(&self) -> P::Core {
        self.session.context.worker.c
    }

    fn meter(&mut self) -> &mut Meter {
        &mut self.session.context.worker.meter
    }

    fn stats(&mut self) -> &mut Stats {
        &mut self.session.stats
    }

    fn attempt(&mut self) -> Result<Commit, (Abort, Epoch)> {
        let attempted = self.session.attempt(self.bounds, self.body, false);
        let committed = attempted.and_then(|()| Ok(self.session.context.commit()?));
        committed.map_err(|abort| (abort, Epoch(self.session.rolled_back_at.0)))
    }

    /// Locks of a database that has stopped are never released.
    fn check(&mut self) -> Result<(), Abort> {
        let failure = self.session.context.shared.failure(self.core());
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }

    fn pause(&mut self, attempts: u32) -> Result<(), Abort> {
        let context = &mut self.session.context;
        // A transaction that was refused a lock waits for that lock.
        if context.owner.locks.refused().is_none() {
            let c = context.worker.c;
            let before = context.worker.meter.enter::<P>(c, Category::Backoff);
            self.session.backoff.failed::<P>(c, attempts);
            self.session.backoff.pause::<P>(c, attempts, false);
            context.worker.meter.leave::<P>(c, before);
        }
        Ok(())
    }
}

impl<P: Files> Drop for PagesSession<'_, P> {
    fn drop(&mut self) {
        let c = self.context.worker.c;
        if P::is_gone(c) {
            return;
        }
        self.context.give_up();
        // A database that has stopped keeps the locks of what could not be undone. So does one
        // whose owners of partitions have left transactions open.
        if self.context.owner.undo.is_empty() && self.branches.is_empty() {
            self.context.end_session(self.number);
        }
    }
}

impl<P: Files> Upkeep for PagesSession<'_, P> {
    fn is_durable(&self, outcome: Epoch) -> bool {
        let log = self.context.shared.pool.log();
        let flushes = !self.context.shared.faults.has(Fault::MissingFlush);
        log.is_none_or(|log| log.buffer.durable(self.context.worker.c) >= Lsn(outcome.0) || !flushes)
    }

    fn wait_durable_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        let Some(log) =
            self.context.shared.pool.log().filter(|_| !self.context.shared.faults.has(Fault::MissingFlush))
        else {
            return Ok(true);
        };
        Ok(log.wait(self.context.worker.c, Lsn(outcome.0), deadline)?)
    }

    fn now(&self) -> Nanos {
        P::now(self.context.worker.c)
    }

    fn tend(&mut self, now: Nanos) {
        let (c, shared) = (self.context.worker.c, self.context.shared);
        let Some(log) = shared.pool.log() else { return };
        if log.tend(c, now)
            && let Some(checkpoints) = &shared.checkpoints
            && let Err(error) = checkpoints.tend(c, &shared.pool, log)
        {
            shared.fail(c, error);
        }
    }

    fn get_ready(&mut self) {}

    fn idle(&mut self) {}

    fn seed(&mut self, seed: u64) {
        let pauses = self.backoff.pauses();
        self.backoff = Backoff::new(seed);
        self.backoff.set_pauses(pauses);
    }

    fn set_pauses(&mut self, pauses: Pauses) {
        self.backoff.set_pauses(pauses);
    }

    fn turn_to_another(&mut self, _: bool) {
        self.context.owner.age = 0;
    }

    fn rest_until(&mut self, moment: Nanos) {
        let c = self.context.worker.c;
        self.context.worker.meter.begin::<P>(c);
        self.context.worker.meter.enter::<P>(c, Category::Backoff);
        P::rest(c, moment.since(P::now(c)));
        self.context.worker.meter.end::<P>(c);
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.context.worker.meter.reset();
    }

    fn breakdown(&mut self) -> [u64; terms::CATEGORIES] {
        self.context.worker.meter.nanos()
    }

    fn measure(&mut self, what: Option<Category>) {
        let c = self.context.worker.c;
        match what {
            Some(category) => self.context.worker.meter.begin_aside::<P>(c, category),
            None => self.context.worker.meter.end::<P>(c),
        }
    }
}

/// The error for a part that no session would finish.
const NO_PART: Abort = Abort::Misuse("a part of a transaction over several databases is prepared, not run");

impl<'d, P: Files> AnySession<'d> for PagesSession<'d, P> {
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort> {
        let c = self.context.worker.c;
        if mode == Mode::Participant {
            return Err(NO_PART);
        }
        if let Some(failure) = self.context.shared.failure(c) {
            return Err(failure.into());
        }
        self.context.worker.meter.begin::<P>(c);
        let again = bounds.attempts_max.is_some() && self.context.owner.age != 0;
        if !again {
            self.context.owner.draw_age::<P>(c);
        }
        // A caller that repeats attempts of its own may have given up the one before.
        self.context.owner.locks.forget_refused();
        let attempts = &mut PagesAttempts { session: self, bounds, body };
        let result = boundary::attempt_until_it_ends(attempts, bounds);
        if !matches!(&result, Err(abort) if abort.is_conflict()) {
            self.context.owner.age = 0;
        }
        self.context.worker.meter.end::<P>(c);
        result
    }

    fn bound_waits(&mut self, nanos: Option<u64>) -> bool {
        self.wait_nanos_max = nanos;
        true
    }

    fn wait_for_locks(&mut self, longest: Option<u64>) {
        self.lock_wait = longest;
    }

    fn give_up(&mut self) -> bool {
        self.context.give_up();
        true
    }

    fn step_ahead(&mut self) {}

    fn add_ahead(&mut self, _table: usize, _index: usize, _key: &[u64], _: Use) {}

    fn prepare(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<(AnyPrepared<'d>, Epoch), Abort> {
        let (kept, vote) = self.prepare_part(None, bounds, body)?;
        Ok((AnyPrepared::new(Box::new(kept), self.database()), vote.durable_with))
    }

    fn prepare_as(
        &mut self,
        part: PartOf,
        bounds: &Bounds,
        body: &mut Body<'_>,
    ) -> Result<(AnyPrepared<'d>, Vote), Abort> {
        let (kept, vote) = self.prepare_part(Some(part), bounds, body)?;
        Ok((AnyPrepared::new(Box::new(kept), self.database()), vote))
    }

    fn finish_as(&mut self, prepared: AnyPrepared<'_>, outcome: Outcome<'_>) -> Option<Commit> {
        let kept: Box<KeptPart> = prepared.into_inner(self.database()).downcast().expect("a part over pages");
        self.context.finish(*kept, outcome)
    }

    fn decide(&mut self, global: GlobalId, participants: &[u16]) -> Epoch {
        let decision = Decision { global, participants: participants.to_vec() };
        // After the log has stopped nothing becomes durable.
        self.context.decide(decision).map_or(Epoch(u64::MAX), |lsn| Epoch(lsn.0))
    }

    fn forget(&mut self, global: GlobalId) -> bool {
        // After the log has stopped, the next generation forgets.
        self.context.forget(global).unwrap_or(true)
    }

    fn is_over(&mut self, global: GlobalId) -> bool {
        self.context.is_over(global)
    }

    fn checkpoint(&mut self) -> Result<bool, LogError> {
        self.context.shared.checkpoint(self.context.worker.c)
    }

    fn branches(&mut self) -> Option<&mut dyn Branches> {
        Some(self)
    }
}

impl<P: Files> Branches for PagesSession<'_, P> {
    fn begin(&mut self) -> Result<usize, Abort> {
        self.branches.begin(&mut self.context)
    }

    fn act(&mut self, branch: usize, deadline: Option<Nanos>, body: &mut Body<'_>) -> Result<(), Abort> {
        self.branches.act(&mut self.context, branch, deadline, body)
    }

    /// The record of the commit has names alone.
    fn report(&mut self, branch: usize, _: &mut Vec<u8>) -> Result<BranchReport, Abort> {
        Ok(self.branches.name(branch).map_or(BranchReport::Nothing, BranchReport::Named))
    }

    fn commit(&mut self, own: Option<usize>, others: &OtherBranches) -> Result<Commit, Abort> {
        let before = self.context.worker.meter.enter::<P>(self.context.worker.c, Category::Commit);
        let own = own.and_then(|branch| self.branches.name(branch));
        let committed = commit(&mut self.context, own.into_iter().chain(others.names.iter().copied()));
        self.context.worker.meter.leave::<P>(self.context.worker.c, before);
        committed
    }

    fn end(&mut self, branch: usize, _: Option<Stamp>) {
        let before = self.context.worker.meter.enter::<P>(self.context.worker.c, Category::Commit);
        self.branches.end(&mut self.context, branch);
        self.context.worker.meter.leave::<P>(self.context.worker.c, before);
    }

    fn roll_back(&mut self, branch: usize) -> Result<Epoch, Abort> {
        self.branches.roll_back(&mut self.context, branch)
    }

    fn meter(&mut self) -> &mut Meter {
        &mut self.context.worker.meter
    }

    fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    fn pause_nanos(&mut self, attempts: u32) -> u64 {
        self.backoff.nanos(attempts.max(1), false)
    }

    fn charge_border(&mut self, table: usize, column: u16, change: BorderChange) -> Result<(), Abort> {
        let Some(table) = self.context.shared.tables.get(table) else { return Ok(()) };
        let worker = &mut self.context.worker;
        table.trees.iter().try_for_each(|tree| tree.charge_border(worker, column, change))?;
        Ok(())
    }
}
