//! The execution of the phases and actions of procedures.
//!
//! A new kind of execution needs an entry of [`Execution`], an implementation of [`Executor`], and
//! an arm of `Executors::executor`.

use boundary::{AnySession, Bounds, Database, Ending, Procedure, Session};

pub use concurrency::LOOK_AHEAD;
use concurrency::TooManySessions;
use dora::{Sharing, Site};
use platform::{Node, Platform};
use repartitioning::BorderAction;
use schema::Routes;
use serde::Serialize;
use terms::Abort;

use crate::names::Choice;
use crate::owners::adapting::Adapting;

/// The kind of execution of procedures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// The worker that began a transaction runs its actions in the order planned.
    #[default]
    Inline,
    /// Workers own partitions, and actions are sent to the owners of the rows that they touch; all
    /// workers share the state of transactions.
    Plp,
    /// As `Plp`, with the state of transactions divided by sockets.
    Atrapos,
    /// The same worker runs the actions of a phase in random order and passes values between phases
    /// as bytes: for tests.
    Shuffled,
}

/// All kinds except the one for tests.
impl Choice for Execution {
    const ALL: &'static [(&'static str, Self)] =
        &[("inline", Execution::Inline), ("plp", Execution::Plp), ("atrapos", Execution::Atrapos)];
}

impl Execution {
    /// The sharing of the state of transactions, if workers own partitions.
    pub fn sharing(self) -> Option<Sharing> {
        match self {
            Execution::Plp => Some(Sharing::Central),
            Execution::Atrapos => Some(Sharing::PerSocket),
            Execution::Inline | Execution::Shuffled => None,
        }
    }
}

/// Runs the procedures of one worker.
pub trait Executor<'d, Q: Procedure> {
    /// Runs one transaction.
    fn run(&mut self, procedure: &mut Q, bounds: &Bounds) -> Result<Ending<()>, Abort>;

    /// Prefetches the lines of the transaction that the worker will run as number [`LOOK_AHEAD`]
    /// from here; there is no other effect. `None`: that transaction is not known. The worker calls
    /// this before each transaction.
    fn look_ahead(&mut self, procedure: Option<&Q>);

    /// The worker's session.
    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd);

    /// Called between two transactions; returns true if the worker's processor is gone. Such a
    /// worker serves the other workers for a while, as the owner of its partitions. `absent`
    /// becomes the list of workers whose processors are known to be gone.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn stand_by(&mut self, _absent: &mut Vec<usize>) -> Result<bool, Abort> {
        Ok(false)
    }

    /// Called between two transactions of a worker that waits for all others: serves the other
    /// workers for a while, as the owner of its partitions. Returns false if the worker owns none.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn attend(&mut self) -> Result<bool, Abort> {
        Ok(false)
    }

    /// Called between two transactions of a worker that has no request to run: serves the other
    /// workers for up to `nanos` nanoseconds, as the owner of its partitions.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn idle(&mut self, nanos: u64) -> Result<(), Abort> {
        let _ = nanos;
        Ok(())
    }

    /// The worker that owns the rows of an action with these routes, if workers own partitions.
    fn owner(&self, routes: &Routes) -> Option<u16> {
        let _ = routes;
        None
    }

    /// Changes up to `count` borders between partitions, and charges what that costs where each
    /// partition has a root of its own; returns the number of actions that were made, and of
    /// changes of the map.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn shift(&mut self, _action: BorderAction, _count: usize) -> Result<(usize, usize), Abort> {
        Ok((0, 0))
    }

    /// Called when the worker runs no more transactions; returns when no other worker needs it.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn leave(&mut self) -> Result<(), Abort> {
        Ok(())
    }

    /// Counters of its messages to other workers.
    fn counts(&self) -> dora::Counts {
        dora::Counts::default()
    }
}

/// The arguments for the executor of a worker.
pub struct ExecutorArguments<'d, P: Platform, Q: Procedure> {
    /// The worker's core.
    pub c: P::Core,
    /// The database.
    pub database: &'d Database<P>,
    /// The tables of the procedures.
    pub tables: &'d Q::Tables,
    /// The memory node of new rows.
    pub node: Option<Node>,
    /// True if the breakdown of time is recorded.
    pub measure: bool,
    /// The shared state of owners of partitions, if workers own partitions, with the number and
    /// site of this worker.
    pub owners: Option<(&'d dora::Shared<P>, usize, Site)>,
    /// The adaptation of the partitions, if they follow the workload.
    pub(crate) adapting: Option<&'d Adapting<P>>,
    /// The seed of random changes of the map of partitions, if there are any.
    pub restless: Option<u64>,
}

impl<'d, P: Platform, Q: Procedure> ExecutorArguments<'d, P, Q> {
    pub(crate) fn session(&self) -> Result<Session<'d>, TooManySessions> {
        self.database.session(self.c, self.node, self.measure)
    }
}

/// An executor, or too many sessions.
pub type ExecutorResult<'d, Q> = Result<Box<dyn Executor<'d, Q> + 'd>, TooManySessions>;

/// Creates an executor that runs procedures inline, or at the owners of partitions if workers own
/// partitions.
pub type MakeInline<P, Q> = for<'d> fn(ExecutorArguments<'d, P, Q>) -> ExecutorResult<'d, Q>;
