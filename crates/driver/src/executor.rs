//! How the phases and actions of a procedure run.
//!
//! A new way is an entry of [`Execution`] and an arm of [`Executor::run`].

use cc::{Abort, Scheme};
use engine::testing::{Shuffle, run_shuffled};
use engine::{Bounds, Ending, Procedure, Session};
use platform::Platform;

/// How the phases and actions of procedures run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// The worker that began a transaction runs its actions in the order planned.
    #[default]
    Inline,
    /// The same worker runs the actions of a phase in random order and passes values between phases as bytes: for tests.
    Shuffled,
}

/// Runs the procedures of one worker.
pub(crate) enum Executor<Q: Procedure> {
    /// The buffer of a phase's actions.
    Inline(Vec<Q::Action>),
    Shuffled(Shuffle),
}

impl<Q: Procedure> Executor<Q> {
    /// The executor of a worker; `seed` decides orders.
    pub(crate) fn new(execution: Execution, seed: u64) -> Self {
        match execution {
            Execution::Inline => Executor::Inline(Vec::new()),
            Execution::Shuffled => Executor::Shuffled(Shuffle::new(seed)),
        }
    }

    /// Runs one transaction.
    #[inline]
    pub(crate) fn run<P: Platform, S: Scheme<P>>(
        &mut self,
        session: &mut Session<'_, P, S>,
        tables: &Q::Tables,
        procedure: &mut Q,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort> {
        match self {
            Executor::Inline(actions) => session.run(tables, procedure, actions, bounds),
            Executor::Shuffled(shuffle) => run_shuffled(session, tables, procedure, bounds, shuffle),
        }
    }
}
