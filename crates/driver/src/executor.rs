//! How the phases and actions of a procedure run.
//!
//! A new way is an entry of [`Execution`], an implementation of [`Executor`], and an arm of [`Executors::executor`].

pub use cc::LOOK_AHEAD;
use cc::{Abort, Branching, Scheme, SchemeVisitor, TooManySessions};
use engine::dynamic::{AnySession, Database, Session};
use engine::testing::{Shuffle, run_shuffled};
use engine::{Bounds, Ending, Procedure};
use oriented::{Sharing, Site};
use platform::{Hardware, Node, Platform};

use crate::adapting::Adapting;
use crate::owning::{Owning, Together};

/// How the phases and actions of procedures run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// The worker that began a transaction runs its actions in the order planned.
    #[default]
    Inline,
    /// Workers own partitions, and actions go to the owners of what they touch; all share the state of transactions.
    Plp,
    /// The same, with the state of transactions divided by sockets.
    Atrapos,
    /// The same worker runs the actions of a phase in random order and passes values between phases as bytes: for tests.
    Shuffled,
}

impl Execution {
    /// Who shares the state of transactions, where workers own partitions.
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

    /// Tells of the transaction that the worker will run as number [`LOOK_AHEAD`] from here, so that lines are asked for that it
    /// will use; there is no other effect. `None`: it is not known. The worker calls this before each transaction.
    fn look_ahead(&mut self, procedure: Option<&Q>);

    /// The worker's session.
    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd);

    /// Between two transactions, of a worker whose processor is gone: does for others what belongs to it, for a while. Whether it is gone. `absent`
    /// becomes the workers of which that is known.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn stand_by(&mut self, _absent: &mut Vec<usize>) -> Result<bool, Abort> {
        Ok(false)
    }

    /// Between two transactions, of a worker that waits for all others: does for them what belongs to it, for a while; false if nobody ever asks it for
    /// anything.
    ///
    /// # Errors
    /// The database has stopped, or another worker is gone.
    fn attend(&mut self) -> Result<bool, Abort> {
        Ok(false)
    }

    /// Shifts so many borders between partitions: how many have shifted, by how many changes of the map.
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

    /// What it has told other workers.
    fn counts(&self) -> oriented::Counts {
        oriented::Counts::default()
    }
}

/// What a worker's executor is made from.
pub struct Seat<'d, P: Platform, Q: Procedure> {
    /// The worker's core.
    pub c: P::Core,
    /// The database.
    pub database: &'d Database<P>,
    /// The tables that procedures work on.
    pub tables: &'d Q::Tables,
    /// Where new rows lie.
    pub node: Option<Node>,
    /// Whether the breakdown of time is kept.
    pub measure: bool,
    /// What workers share that own partitions, if they do, and which one of them this is.
    pub owners: Option<(&'d oriented::Shared<P>, usize, Site)>,
    /// What follows the workload, if their partitions do.
    pub(crate) adapting: Option<&'d Adapting<P>>,
    /// What decides how their map changes at random, if it does.
    pub restless: Option<u64>,
}

impl<'d, P: Platform, Q: Procedure> Seat<'d, P, Q> {
    fn session(&self) -> Result<Session<'d>, TooManySessions> {
        self.database.session(self.c, self.node, self.measure)
    }
}

/// An executor, or too many sessions.
pub type Made<'d, Q> = Result<Box<dyn Executor<'d, Q> + 'd>, TooManySessions>;

/// Makes executors that run procedures inline, or where workers own partitions, if they do.
pub type MakeInline<P, Q> = for<'d> fn(Seat<'d, P, Q>) -> Made<'d, Q>;

/// Makes executors.
pub(crate) struct Executors<P: Platform, Q: Procedure> {
    /// Inline, or by owners of partitions, the way that the platform is best at.
    pub inline: MakeInline<P, Q>,
}

impl<P: Platform, Q: Procedure + 'static> Executors<P, Q> {
    /// The executor of a worker; `seed` decides orders.
    pub(crate) fn executor<'d>(&self, execution: Execution, seed: u64, seat: Seat<'d, P, Q>) -> Made<'d, Q> {
        match execution {
            Execution::Inline | Execution::Plp | Execution::Atrapos => (self.inline)(seat),
            Execution::Shuffled => {
                let shuffle = Shuffle::new(seed);
                Ok(Box::new(Shuffled::<Q> { session: seat.session()?, tables: seat.tables, shuffle }))
            }
        }
    }
}

/// Runs procedures inline through the engine's dynamic boundary.
struct Dynamic<'d, Q: Procedure> {
    session: Session<'d>,
    tables: &'d Q::Tables,
    /// The buffer of a phase's actions.
    actions: Vec<Q::Action>,
}

impl<'d, Q: Procedure> Executor<'d, Q> for Dynamic<'d, Q> {
    fn run(&mut self, procedure: &mut Q, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        self.session.run(self.tables, procedure, &mut self.actions, bounds)
    }

    fn look_ahead(&mut self, procedure: Option<&Q>) {
        self.session.look_ahead(self.tables, procedure);
    }

    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        self.session.object()
    }
}

/// An executor that runs procedures inline, or where workers own partitions, if they do, on top of the engine's dynamic boundary.
///
/// # Errors
/// There are as many sessions as the database was made for.
pub fn dynamic<'d, P: Platform, Q: Procedure + 'static>(seat: Seat<'d, P, Q>) -> Made<'d, Q> {
    if seat.owners.is_some() {
        return Ok(Box::new(Owning::new(&seat, seat.session()?)));
    }
    Ok(Box::new(Dynamic::<Q> { session: seat.session()?, tables: seat.tables, actions: Vec::new() }))
}

/// Runs procedures inline that are compiled together with the engine.
struct Compiled<'d, S: Scheme<Hardware>, Q: Procedure> {
    session: engine::Session<'d, Hardware, S>,
    tables: &'d Q::Tables,
    actions: Vec<Q::Action>,
}

impl<'d, S: Scheme<Hardware>, Q: Procedure> Executor<'d, Q> for Compiled<'d, S, Q> {
    fn run(&mut self, procedure: &mut Q, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        self.session.run(self.tables, procedure, &mut self.actions, bounds)
    }

    fn look_ahead(&mut self, procedure: Option<&Q>) {
        self.session.look_ahead(self.tables, procedure);
    }

    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        &mut self.session
    }
}

/// An executor for which the engine and the procedure are compiled together.
pub(crate) fn compiled<'d, Q: Procedure + 'static>(seat: Seat<'d, Hardware, Q>) -> Made<'d, Q> {
    if seat.owners.is_some() {
        let database = seat.database.object().as_any();
        return match database.downcast_ref::<engine::Database<Hardware, Branching>>() {
            Some(database) => {
                let session = database.session(seat.c, seat.node, seat.measure)?;
                Ok(Box::new(Owning::new(&seat, Together { session })))
            }
            None => dynamic(seat),
        };
    }
    match seat.database.traits().name.parse::<cc::SchemeName>() {
        Ok(scheme) => scheme.visit::<Hardware, _>(Compilation(seat)),
        // Another storage manager than the engine's own: it is not compiled with procedures.
        Err(_) => dynamic(seat),
    }
}

struct Compilation<'d, Q: Procedure>(Seat<'d, Hardware, Q>);

impl<'d, Q: Procedure + 'static> SchemeVisitor<Hardware> for Compilation<'d, Q> {
    type Output = Made<'d, Q>;

    fn visit<S: Scheme<Hardware>>(self) -> Self::Output {
        let Seat { c, database, tables, node, measure, .. } = self.0;
        let database = database.object().as_any().downcast_ref::<engine::Database<Hardware, S>>();
        let session = database.expect("a database has the scheme that it names").session(c, node, measure)?;
        Ok(Box::new(Compiled::<S, Q> { session, tables, actions: Vec::new() }))
    }
}

/// Runs procedures as badly as they may be treated.
struct Shuffled<'d, Q: Procedure> {
    session: Session<'d>,
    tables: &'d Q::Tables,
    shuffle: Shuffle,
}

impl<'d, Q: Procedure> Executor<'d, Q> for Shuffled<'d, Q> {
    fn run(&mut self, procedure: &mut Q, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        run_shuffled(self.session.object(), self.tables, procedure, bounds, &mut self.shuffle)
    }

    fn look_ahead(&mut self, procedure: Option<&Q>) {
        self.session.look_ahead(self.tables, procedure);
    }

    fn session(&mut self) -> &mut (dyn AnySession<'d> + 'd) {
        self.session.object()
    }
}
