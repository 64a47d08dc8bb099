//! A transaction that is durable when its caller hears of it.
//!
//! The scheme is chosen when the database is opened, so types of this library do not name it: databases, sessions and verbs are
//! objects ([`engine::dynamic`]). Reading one field by its key took some 75 ns that way, where the engine's own typed verbs,
//! inlined, took some 50 (1,000 rows in cache, ten reads a transaction). In return the engine is compiled once a scheme, in
//! another crate, and not again in every program for each type of row, and a transaction names neither scheme nor session.

use cc::{Abort, Mode};
use engine::dynamic::{AnySession, Body};
use engine::{Bounds, Ending};
use platform::{Hardware, Platform};

use crate::options::{CancelToken, is_cancelled};

/// How often a session that waits for the disk looks at its token.
const CANCEL_NANOS: u64 = 1_000_000;

/// Runs a transaction, and waits until it is durable, or what its decision to roll back follows from.
pub(crate) fn transact(
    session: &mut dyn AnySession<'_>,
    bounds: &Bounds,
    cancel: Option<&CancelToken>,
    attempt: &mut Body<'_>,
) -> Result<Ending<()>, Abort> {
    let ending = session.transact(Mode::Single, bounds, attempt)?;
    let (outcome, committed) = match ending {
        Ending::Committed((), commit) => (commit.durable_with, true),
        Ending::RolledBack(depends_on) => (depends_on, false),
    };
    if session.is_durable(outcome) {
        return Ok(ending);
    }
    loop {
        let now = Hardware::now(Hardware::core());
        let ends = bounds.deadline.is_some_and(|deadline| now >= deadline) || is_cancelled(cancel);
        // A session that has no time left still looks once.
        let look = cancel.map(|_| now.plus(CANCEL_NANOS));
        let until = [bounds.deadline, look].into_iter().flatten().min();
        if session.wait_durable_until(outcome, until)? {
            return Ok(ending);
        }
        if ends {
            return Err(Abort::DurabilityUnknown { committed });
        }
    }
}
