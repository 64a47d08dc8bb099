//! Sessions: a session tries each transaction of one worker until it ends.

use cc::{Abort, Category, Mode, Use};
use engine::dynamic::{AnyPrepared, AnySession, Body, Upkeep};
use engine::{Backoff, Bounds, Commit, Ending, Epoch, GlobalId, Outcome, PartOf, Pauses, Stats, Vote};
use platform::Nanos;
use platform::files::Files;
use storage::log::LogError;

use crate::context::Context;
use crate::lsn::Lsn;
use crate::options::SESSIONS_MAX;
use crate::shared::Shared;
use crate::transaction::Transaction;

/// Bits of an age that name the session.
const SESSION_BITS: u32 = 12;
const _: () = assert!(SESSIONS_MAX < 1 << SESSION_BITS);

/// One worker's use of a database.
pub(crate) struct Session<'d, P: Files> {
    context: Context<'d, P>,
    number: usize,
    backoff: Backoff,
    stats: Stats,
    /// What the last transaction that was undone has read may end here in the log.
    rolled_back_at: Lsn,
}

impl<'d, P: Files> Session<'d, P> {
    pub(crate) fn new(shared: &'d Shared<P>, (c, number): (P::Core, usize), measure: bool) -> Self {
        let (backoff, stats) = (Backoff::new(number as u64), Stats::default());
        let context = Context::new(shared, (c, number), measure);
        Session { context, number, backoff, stats, rolled_back_at: Lsn(0) }
    }

    /// Runs one attempt.
    fn attempt(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<Commit, Abort> {
        self.context.begin(bounds.deadline);
        let c = self.context.worker.c;
        let mut transaction = Transaction { session: &mut self.context, failed: None };
        let mut outcome = body(&mut transaction);
        // A verb that has failed ends the transaction, whatever the body makes of it.
        if let Some(failed) = transaction.failed.take()
            && (outcome.is_ok() || failed.is_conflict())
        {
            outcome = Err(failed);
        }
        if outcome.is_ok() && bounds.deadline.is_some_and(|deadline| P::now(c) >= deadline) {
            outcome = Err(Abort::Deadline);
        }
        match outcome {
            Ok(()) => Ok(self.context.commit()?),
            Err(abort) => {
                self.rolled_back_at = self.context.roll_back()?;
                Err(abort)
            }
        }
    }

    fn back_off(&mut self, attempts: u32) {
        let c = self.context.worker.c;
        self.context.meter.attempt_failed::<P>(c);
        let before = self.context.meter.enter::<P>(c, Category::Backoff);
        self.backoff.pause::<P>(c, attempts, false);
        self.context.meter.leave::<P>(c, before);
        self.context.meter.attempt_begins();
    }

    fn try_all(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort> {
        let c = self.context.worker.c;
        let mut attempts = 0;
        let result = loop {
            attempts += 1;
            match self.attempt(bounds, body) {
                Ok(commit) => {
                    self.stats.commits += 1;
                    break Ok(Ending::Committed((), commit));
                }
                Err(Abort::RollBack) => {
                    self.stats.rollbacks += 1;
                    break Ok(Ending::RolledBack(Epoch(self.rolled_back_at.0)));
                }
                Err(abort) if !abort.is_conflict() => break Err(abort),
                Err(abort) => {
                    self.stats.aborts += 1;
                    // Locks of a database that has stopped are never given back.
                    if let Some(failure) = self.context.shared.failure(c) {
                        break Err(failure.into());
                    }
                    if bounds.attempts_max.is_some_and(|most| attempts >= most) {
                        self.context.meter.attempt_failed::<P>(c);
                        break Err(abort);
                    }
                    if bounds.deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                        break Err(Abort::Deadline);
                    }
                    self.back_off(attempts);
                }
            }
        };
        self.stats.attempts_max = self.stats.attempts_max.max(attempts);
        result
    }
}

impl<P: Files> Drop for Session<'_, P> {
    fn drop(&mut self) {
        let c = self.context.worker.c;
        if P::is_gone(c) {
            return;
        }
        // A database that has stopped keeps the locks of what could not be undone.
        if self.context.undo.is_empty() {
            self.context.end_session();
            self.context.shared.end_session(c, self.number);
        }
    }
}

impl<P: Files> Upkeep for Session<'_, P> {
    fn is_durable(&self, outcome: Epoch) -> bool {
        let log = self.context.shared.pool.log();
        let flushes = !self.context.shared.broken.flushes;
        log.is_none_or(|log| log.buffer.durable(self.context.worker.c) >= Lsn(outcome.0) || !flushes)
    }

    fn wait_durable_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        let Some(log) = self.context.shared.pool.log().filter(|_| !self.context.shared.broken.flushes) else {
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
        self.context.age = 0;
    }

    fn rest_until(&mut self, moment: Nanos) {
        let c = self.context.worker.c;
        self.context.meter.begin::<P>(c);
        self.context.meter.enter::<P>(c, Category::Backoff);
        P::rest(c, moment.since(P::now(c)));
        self.context.meter.end::<P>(c);
    }

    fn stats(&self) -> Stats {
        self.stats
    }

    fn reset_stats(&mut self) {
        self.stats = Stats::default();
        self.context.meter.reset();
    }

    fn breakdown(&mut self) -> [u64; cc::CATEGORIES] {
        self.context.meter.nanos()
    }

    fn measure(&mut self, what: Option<Category>) {
        let c = self.context.worker.c;
        match what {
            Some(category) => self.context.meter.begin_aside::<P>(c, category),
            None => self.context.meter.end::<P>(c),
        }
    }
}

/// Why a part of a transaction over several databases is refused.
const NO_PARTS: Abort =
    Abort::Misuse("a database of pages takes no part in transactions over several databases yet");

impl<'d, P: Files> AnySession<'d> for Session<'d, P> {
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort> {
        let c = self.context.worker.c;
        if mode == Mode::Participant {
            return Err(NO_PARTS);
        }
        if let Some(failure) = self.context.shared.failure(c) {
            return Err(failure.into());
        }
        self.context.meter.begin::<P>(c);
        let again = bounds.attempts_max.is_some() && self.context.age != 0;
        if !again {
            self.context.age = P::timestamp(c) << SESSION_BITS | self.number as u64;
        }
        let result = self.try_all(bounds, body);
        if !matches!(&result, Err(abort) if abort.is_conflict()) {
            self.context.age = 0;
        }
        self.context.meter.end::<P>(c);
        result
    }

    fn step_ahead(&mut self) {}

    fn add_ahead(&mut self, _: (usize, usize), _: &[u64], _: Use) {}

    fn prepare(&mut self, _: &Bounds, _: &mut Body<'_>) -> Result<(AnyPrepared<'d>, Epoch), Abort> {
        Err(NO_PARTS)
    }

    fn prepare_as(
        &mut self,
        _: PartOf,
        _: &Bounds,
        _: &mut Body<'_>,
    ) -> Result<(AnyPrepared<'d>, Vote), Abort> {
        Err(NO_PARTS)
    }

    fn finish_as(&mut self, _: AnyPrepared<'_>, _: Outcome<'_>) -> Option<Commit> {
        panic!("the part was prepared in another database")
    }

    fn decide(&mut self, _: GlobalId, _: &[u16]) -> Epoch {
        Epoch(0)
    }

    fn forget(&mut self, _: GlobalId) -> bool {
        false
    }

    fn is_over(&mut self, _: GlobalId) -> bool {
        true
    }

    fn checkpoint(&mut self) -> Result<bool, LogError> {
        self.context.shared.checkpoint(self.context.worker.c)
    }
}
