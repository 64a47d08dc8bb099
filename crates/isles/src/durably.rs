//! A transaction that is durable when its caller hears of it, as far as its options ask for that.
//!
//! The scheme is chosen when the database is opened, so types of this library do not name it:
//! databases, sessions and verbs are objects ([`engine::dynamic`]). Reading one field by its key
//! took some 75 ns that way, where the engine's own typed verbs, inlined, took some 50 (1,000 rows
//! in cache, ten reads a transaction). In return the engine is compiled once a scheme, in another
//! crate, and not again in every program for each type of row, and a transaction names neither
//! scheme nor session.

use boundary::{AnySession, Body};
use boundary::{Bounds, Ending};
use platform::{Hardware, Nanos, Platform};
use terms::Epoch;
use terms::{Abort, Mode};

use crate::options::{CancelToken, Durability, is_cancelled};
use crate::shared::Shared;

/// How often a session that waits for the disk looks at its token, or whether others have made it
/// durable.
const LOOK_NANOS: u64 = 1_000_000;

/// How long a caller waits for the disk.
pub(crate) struct Patience<'p> {
    pub(crate) durability: Durability,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) cancel: Option<&'p CancelToken>,
}

/// Runs a transaction, and waits until it is durable, or what its decision to roll back follows
/// from. The epoch comes out with which it is: [`Durability::Async`] waits for no commit.
pub(crate) fn transact(
    session: &mut dyn AnySession<'_>,
    shared: &Shared,
    mode: Mode,
    attempts_max: u32,
    patience: &Patience<'_>,
    attempt: &mut Body<'_>,
) -> Result<Epoch, Abort> {
    let bounds = Bounds { deadline: patience.deadline, attempts_max: Some(attempts_max) };
    let (outcome, committed) = match session.transact(mode, &bounds, attempt)? {
        Ending::Committed((), commit) => (commit.durable_with, true),
        Ending::RolledBack(depends_on) => (depends_on, false),
    };
    if !session.is_durable(outcome) {
        session.idle();
        wait(shared, outcome, committed, patience)?;
    }
    Ok(outcome)
}

/// Waits until an outcome is durable. No session of the caller is inside an epoch.
pub(crate) fn wait(
    shared: &Shared,
    outcome: Epoch,
    committed: bool,
    patience: &Patience<'_>,
) -> Result<(), Abort> {
    if shared.check_process().is_err() {
        // The caller says why.
        return Err(Abort::Cancelled);
    }
    let c = Hardware::core();
    let begun = shared.inner.whole_groups(c);
    let mut gathers_until = None;
    match patience.durability {
        Durability::Async if committed => return Ok(()),
        Durability::Async | Durability::Immediate => {}
        Durability::Group(delay) => gathers_until = Some(Hardware::now(c).plus(nanos(delay))),
    }
    loop {
        let now = Hardware::now(c);
        let ends = patience.deadline.is_some_and(|deadline| now >= deadline) || is_cancelled(patience.cancel);
        if shared.inner.is_written(c, outcome, begun) {
            return Ok(());
        }
        if let Some(until) = gathers_until.filter(|until| now < *until && !ends) {
            // Others may ask the disk earlier, and write this commit too.
            Hardware::rest(c, until.since(now).min(LOOK_NANOS / 8));
            continue;
        }
        // Whoever has no time left still looks once.
        let look = patience.cancel.map(|_| now.plus(LOOK_NANOS));
        let until = [patience.deadline, look].into_iter().flatten().min();
        if shared.inner.wait_written_until(c, outcome, until)? {
            return Ok(());
        }
        if ends {
            return Err(Abort::DurabilityUnknown { committed });
        }
    }
}

/// A length of time as the engine counts it.
pub(crate) fn nanos(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
