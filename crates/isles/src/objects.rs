//! Databases and sessions as objects: the scheme is chosen when the database is opened, so types of this library do not
//! name it.
//!
//! A session is called once a transaction, to begin it; from then on the transaction's verbs are called through
//! [`engine::ErasedVerbs`]. Reading one field by its key took some 75 ns that way, where the engine's own typed verbs,
//! inlined, took some 50 (1,000 rows in cache, ten reads a transaction). In return the engine is compiled once a scheme, in
//! this crate, and not again in every program for each type of row, and a transaction names neither scheme nor session.

use cc::{Abort, Scheme};
use engine::{Bounds, Ending, ErasedVerbs, Stats};
use platform::{Hardware, Platform};

use crate::error::{Error, Result};
use crate::options::{CancelToken, is_cancelled};

/// How often a session that waits for the disk looks at its token.
const CANCEL_NANOS: u64 = 1_000_000;

/// A database under one of the schemes.
pub(crate) trait AnyDatabase: Send + Sync {
    /// A session; the seed is that of its backoff times.
    fn session(&self, seed: u64) -> Result<Box<dyn AnySession + '_>>;
    fn memory_bytes(&self) -> u64;
    /// Makes a checkpoint; nothing without a log.
    fn checkpoint(&self) -> Result<()>;
    /// Ends the log, if there is one.
    fn close(self: Box<Self>) -> Result<()>;
}

impl<S: Scheme<Hardware>> AnyDatabase for engine::Database<Hardware, S> {
    fn session(&self, seed: u64) -> Result<Box<dyn AnySession + '_>> {
        let limit = |full: cc::TooManySessions| Error::TooManySessions { limit: full.0 };
        let mut session = self.session(Hardware::core(), None, false).map_err(limit)?;
        session.seed(seed);
        Ok(Box::new(session))
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes(Hardware::core())
    }

    fn checkpoint(&self) -> Result<()> {
        let limit = |full: cc::TooManySessions| Error::TooManySessions { limit: full.0 };
        let mut session = self.session(Hardware::core(), None, false).map_err(limit)?;
        session.checkpoint().map(|_| ()).map_err(|error| Error::NotDurable(error.to_string()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        engine::Database::close(*self, Hardware::core()).map_err(|error| Error::NotDurable(error.to_string()))
    }
}

/// The body of a transaction as the engine runs it.
type Attempt<'a> = dyn FnMut(&mut dyn ErasedVerbs) -> Result<(), Abort> + 'a;

/// A session under one of the schemes.
pub(crate) trait AnySession: Send {
    fn transact(
        &mut self,
        bounds: &Bounds,
        cancel: Option<&CancelToken>,
        attempt: &mut Attempt<'_>,
    ) -> Result<Ending<()>, Abort>;
    /// Makes the session idle: it holds nothing up from now on.
    fn rest(&mut self);
    /// Lets memory of deleted rows become usable, if it is time.
    fn tend(&mut self);
    fn stats(&self) -> Stats;
}

impl<S: Scheme<Hardware>> AnySession for engine::Session<'_, Hardware, S> {
    fn transact(
        &mut self,
        bounds: &Bounds,
        cancel: Option<&CancelToken>,
        attempt: &mut Attempt<'_>,
    ) -> Result<Ending<()>, Abort> {
        durably(self, bounds, cancel, attempt)
    }

    fn rest(&mut self) {
        self.idle();
    }

    fn tend(&mut self) {
        self.tend(Hardware::now(Hardware::core()));
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

/// Runs a transaction, and waits until it is durable, or what its decision to roll back follows from.
fn durably<S: cc::Scheme<Hardware>>(
    session: &mut engine::Session<'_, Hardware, S>,
    bounds: &Bounds,
    cancel: Option<&CancelToken>,
    attempt: &mut Attempt<'_>,
) -> Result<Ending<()>, Abort> {
    let ending = session.transact(bounds, |verbs| attempt(verbs))?;
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
