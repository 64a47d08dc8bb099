//! The loop of attempts of one transaction: it runs the body until an attempt commits, or fails for
//! good.

use boundary::{AnySession, RoamingSession};
use platform::{Hardware, Nanos, Platform};
use terms::{Abort, Conflict, Epoch, Mode};

use crate::attempt::{Transaction, TransactionState};
use crate::durable_wait::{self, WaitOptions};
use crate::error::Error;
use crate::ledger::Counters;
use crate::memory_pauses::wait_for_memory;
use crate::options::is_cancelled;
use crate::shared::DatabaseShared;

/// Times that a transaction waits for memory under a scheme with versions.
const WAITS_WITH_VERSIONS: u32 = 3;

/// Makes a session leave its epoch when this value is dropped, also after a panic of the program's
/// closure.
struct RestingSession<'s, 'd>(&'s mut (dyn AnySession<'d> + 'd));

impl Drop for RestingSession<'_, '_> {
    fn drop(&mut self) {
        self.0.idle();
    }
}

/// End of a transaction.
pub(crate) enum Ended {
    /// With the value or error that the body returned in its last attempt, which is durable with
    /// this epoch.
    ByBody(Epoch),
    /// With this error, whatever the body returned.
    Failed(Error),
}

/// State and bounds that all attempts of one transaction use.
pub(crate) struct AttemptContext<'s> {
    pub(crate) shared: &'s DatabaseShared,
    pub(crate) state: &'s mut TransactionState,
    pub(crate) counters: &'s Counters,
    pub(crate) mode: Mode,
    pub(crate) attempts_max: u32,
    pub(crate) wait: &'s WaitOptions<'s>,
}

/// Runs attempts until one commits or fails for good.
pub(crate) fn try_attempts<'d>(
    session: &mut (dyn RoamingSession<'d> + 'd),
    context: AttemptContext<'_>,
    body: &mut dyn FnMut(&mut Transaction<'_>) -> bool,
) -> Ended {
    let AttemptContext { shared, state, counters, mode, attempts_max, wait } = context;
    // With versions, a deleted row leaves its indexes only in a transaction that begins after the
    // last snapshot that needs the row.
    let mut waits = if shared.inner.traits().snapshots { WAITS_WITH_VERSIONS } else { 1 };
    loop {
        let resting = RestingSession(session);
        let result = durable_wait::transact(resting.0, shared, mode, attempts_max, wait, &mut |verbs| {
            let (cancel, plans) = (wait.cancel, shared.plans.current());
            let transaction = Transaction { verbs, state: &mut *state, shared, cancel, plans };
            run_attempt(transaction, counters, wait.deadline, body)
        });
        drop(resting);
        match result {
            Ok(outcome) => return Ended::ByBody(outcome),
            Err(Abort::OutOfMemory(_)) if waits > 0 => {
                waits -= 1;
                state.lacked_memory = true;
                wait_for_memory(session);
            }
            Err(_) if state.self_wait_expired => {
                let abort = Abort::Conflict(Conflict::Locked);
                return Ended::Failed(Error::from_abort(&abort, shared.tables(), state.attempts));
            }
            // The body's error is returned, unless it follows from rows that were never current at
            // one moment (the engine then reports a conflict) or from rows that a crash may lose.
            Err(abort)
                if state.passed_on
                    && !abort.is_conflict()
                    && !matches!(abort, Abort::DurabilityUnknown { .. } | Abort::NotDurable(_)) =>
            {
                return Ended::ByBody(Epoch(0));
            }
            Err(abort) => {
                if abort.is_conflict() {
                    counters.conflict(state.failed.as_ref().map(|failure| &failure.abort));
                }
                // The error of the verb that failed says more than the abort.
                let reported = state.failed.as_ref().filter(|failure| failure.abort == abort);
                return Ended::Failed(match reported {
                    Some(failure) => failure.error.clone(),
                    None => Error::from_abort(&abort, shared.tables(), state.attempts),
                });
            }
        }
    }
}

/// Runs one attempt, up to its commit.
fn run_attempt(
    transaction: Transaction<'_>,
    counters: &Counters,
    deadline: Option<Nanos>,
    body: &mut dyn FnMut(&mut Transaction<'_>) -> bool,
) -> Result<(), Abort> {
    let state = &mut *transaction.state;
    if state.attempts > 0 && !state.lacked_memory {
        // The attempt before this one conflicted.
        counters.conflict(state.failed.as_ref().map(|failure| &failure.abort));
    }
    state.begin_attempt(state.attempts + 1);
    if is_cancelled(transaction.cancel) {
        return Err(Abort::Cancelled);
    }
    let again = state.attempts > 1;
    if again && deadline.is_some_and(|deadline| Hardware::now(Hardware::core()) >= deadline) {
        return Err(Abort::Deadline);
    }
    if again && state.self_wait_ends.is_some_and(|ends| Hardware::now(Hardware::core()) >= ends) {
        state.self_wait_expired = true;
        return Err(Abort::Deadline);
    }
    let mut running = RunningAttempt(transaction);
    let transaction = &mut running.0;
    let good = body(transaction);
    if good && !transaction.state.deferred.is_empty() {
        // An error is the failure of the attempt.
        let _ = transaction.check_deferred();
    }
    if transaction.shared.check_process().is_err() {
        // Any abort ends the attempt: `Session::run_attempts` reports the reason.
        return Err(Abort::Cancelled);
    }
    let state = &mut *transaction.state;
    let Some(failure) = &state.failed else {
        return match (good, is_cancelled(transaction.cancel)) {
            (true, false) if state.altered.is_some() => transaction.commit_tables(),
            (true, false) => Ok(()),
            (true, true) => Err(Abort::Cancelled),
            (false, _) => Err(Abort::RollBack),
        };
    };
    state.passed_on = !good;
    Err(failure.abort.clone())
}

/// Gives up what the attempt has done to tables when it ends, also by a panic of the program's
/// closure.
struct RunningAttempt<'t>(Transaction<'t>);

impl Drop for RunningAttempt<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.0.state.altered.is_some() {
            self.0.give_up_tables();
        }
    }
}
