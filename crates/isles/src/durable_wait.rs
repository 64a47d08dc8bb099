//! Runs a transaction and waits until it is as durable as its options require.
//!
//! The scheme is chosen when the database is opened, so types of this library do not name it:
//! databases, sessions and verbs are trait objects (crate `boundary`). Reading one field by its key
//! takes about 75 ns this way; the engine's own typed verbs, inlined, take about 50 ns (1,000 rows
//! in cache, ten reads in each transaction). In return the engine is compiled once for each scheme
//! in another crate, and not in every program for each row type.

use boundary::{AnySession, Body, Bounds, Ending};
use platform::{Hardware, Nanos, Platform};
use terms::{Abort, Epoch, Mode};

use crate::options::{CancelToken, Durability, is_cancelled};
use crate::shared::DatabaseShared;

/// Interval at which a session that waits for the disk checks its token, and checks if another
/// session has flushed its commit.
const POLL_NANOS: u64 = 1_000_000;

/// Bounds of a wait for the disk.
pub(crate) struct WaitOptions<'p> {
    pub(crate) durability: Durability,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) cancel: Option<&'p CancelToken>,
}

/// Runs a transaction, and waits until the commit is durable, or until the rows that led to a
/// rollback are. [`Durability::Async`] does not wait for a commit. Returns the epoch with which the
/// outcome is durable.
pub(crate) fn transact(
    session: &mut dyn AnySession<'_>,
    shared: &DatabaseShared,
    mode: Mode,
    attempts_max: u32,
    options: &WaitOptions<'_>,
    attempt: &mut Body<'_>,
) -> Result<Epoch, Abort> {
    let bounds = Bounds { deadline: options.deadline, attempts_max: Some(attempts_max) };
    let (outcome, committed) = match session.transact(mode, &bounds, attempt)? {
        Ending::Committed((), commit) => (commit.durable_with, true),
        Ending::RolledBack(depends_on) => (depends_on, false),
    };
    if !session.is_durable(outcome) {
        session.idle();
        wait(shared, outcome, committed, options)?;
    }
    Ok(outcome)
}

/// Waits until an outcome is durable. Pre: no session of the caller is inside an epoch.
pub(crate) fn wait(
    shared: &DatabaseShared,
    outcome: Epoch,
    committed: bool,
    options: &WaitOptions<'_>,
) -> Result<(), Abort> {
    if shared.check_process().is_err() {
        // The caller reports the reason.
        return Err(Abort::Cancelled);
    }
    let c = Hardware::core();
    let begun = shared.inner.whole_groups(c);
    let mut gathers_until = None;
    match options.durability {
        Durability::Async if committed => return Ok(()),
        Durability::Async | Durability::Immediate => {}
        Durability::Group(delay) => gathers_until = Some(Hardware::now(c).plus(nanos(delay))),
    }
    loop {
        let now = Hardware::now(c);
        let ends = options.deadline.is_some_and(|deadline| now >= deadline) || is_cancelled(options.cancel);
        if shared.inner.is_written(c, outcome, begun) {
            return Ok(());
        }
        if let Some(until) = gathers_until.filter(|until| now < *until && !ends) {
            // Another session may request a flush earlier, which includes this commit.
            Hardware::rest(c, until.since(now).min(POLL_NANOS / 8));
            continue;
        }
        // The log is polled once even if no time is left.
        let poll = options.cancel.map(|_| now.plus(POLL_NANOS));
        let until = [options.deadline, poll].into_iter().flatten().min();
        if shared.inner.wait_written_until(c, outcome, until)? {
            return Ok(());
        }
        if ends {
            return Err(Abort::DurabilityUnknown { committed });
        }
    }
}

/// Converts a duration to nanoseconds, saturating.
pub(crate) fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
