//! Makes the executors of workers: inline, by owners of partitions, shuffled.

use cc::{Abort, Branching, Scheme, SchemeVisitor};
use engine::dynamic::{AnySession, Session};
use engine::testing::{Shuffle, run_shuffled};
use engine::{Bounds, Ending, Procedure};
use platform::{Hardware, Platform};

use crate::executor::{Execution, Executor, Made, MakeInline, Seat};
use crate::owning::{Owning, Together};

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
