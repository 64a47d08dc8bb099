//! How the phases and actions of a procedure run.
//!
//! A new way is an entry of [`Execution`], an implementation of [`Executor`], and an arm of
//! `Executors::executor`.

use boundary::{AnySession, Bounds, Database, Ending, Procedure, Session};

pub use concurrency::LOOK_AHEAD;
use concurrency::TooManySessions;
use dora::{Sharing, Site};
use platform::{Node, Platform};
use serde::Serialize;
use terms::Abort;

use crate::names::Choice;
use crate::owners::adapting::Adapting;

/// How the phases and actions of procedures run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// The worker that began a transaction runs its actions in the order planned.
    #[default]
    Inline,
    /// Workers own partitions, and actions go to the owners of what they touch; all share the state
    /// of transactions.
    Plp,
    /// The same, with the state of transactions divided by sockets.
    Atrapos,
    /// The same worker runs the actions of a phase in random order and passes values between phases
    /// as bytes: for tests.
    Shuffled,
}

/// All but that of tests.
impl Choice for Execution {
    const ALL: &'static [(&'static str, Self)] =
        &[("inline", Execution::Inline), ("plp", Execution::Plp), ("atrapos", Execution::Atrapos)];
}

impl Execution {
    /// The sharing of the state of transactions, where workers own partitions.
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

    /// Tells of the transaction that the worker will run as number [`LOOK_AHEAD`] from here, so
    /// that lines are asked for that it will use; there is no other effect. `None`: it is not
    /// known. The worker calls this before each transaction.
    fn look_ahead(&mut self, procedure: Option<&Q>);

    /// The worker's session.
    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd);

    /// Between two transactions, of a worker whose processor is gone: does for others what belongs
    /// to it, for a while. Whether it is gone. `absent` becomes the workers of which that is known.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn stand_by(&mut self, _absent: &mut Vec<usize>) -> Result<bool, Abort> {
        Ok(false)
    }

    /// Between two transactions, of a worker that waits for all others: does for them what belongs
    /// to it, for a while; false if nobody ever asks it for anything.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn attend(&mut self) -> Result<bool, Abort> {
        Ok(false)
    }

    /// Shifts so many borders between partitions: how many have shifted, by how many changes of the
    /// map.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn shift(&mut self, _count: usize) -> Result<(usize, usize), Abort> {
        Ok((0, 0))
    }

    /// The worker runs no transaction any more; returns when no other worker needs it.
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

/// The parts that a worker's executor is made from.
pub struct Seat<'d, P: Platform, Q: Procedure> {
    /// The worker's core.
    pub c: P::Core,
    /// The database.
    pub database: &'d Database<P>,
    /// The tables that procedures work on.
    pub tables: &'d Q::Tables,
    /// Where new rows lie.
    pub node: Option<Node>,
    /// True if the breakdown of time is kept.
    pub measure: bool,
    /// The shared state of owners of partitions, if there are any, with the number and site of this
    /// one.
    pub owners: Option<(&'d dora::Shared<P>, usize, Site)>,
    /// The adaptation of their partitions, if they follow the workload.
    pub(crate) adapting: Option<&'d Adapting<P>>,
    /// The seed of random changes of their map, if there are any.
    pub restless: Option<u64>,
}

impl<'d, P: Platform, Q: Procedure> Seat<'d, P, Q> {
    pub(crate) fn session(&self) -> Result<Session<'d>, TooManySessions> {
        self.database.session(self.c, self.node, self.measure)
    }
}

/// An executor, or too many sessions.
pub type Made<'d, Q> = Result<Box<dyn Executor<'d, Q> + 'd>, TooManySessions>;

/// Makes executors that run procedures inline, or where workers own partitions, if they do.
pub type MakeInline<P, Q> = for<'d> fn(Seat<'d, P, Q>) -> Made<'d, Q>;
