//! The executors of workers: inline, at the owners of partitions, shuffled.

use boundary::{AnySession, Bounds, Ending, Procedure, Session};
use engine::testing::{Shuffle, run_shuffled};
use fused::{Compiled, Inline, Place};
use platform::{Hardware, Platform};
use terms::Abort;

use crate::execution::executor::{Execution, Executor, Made, MakeInline, Seat};
use crate::execution::owning::Owning;

/// Creates executors.
pub(crate) struct Executors<P: Platform, Q: Procedure> {
    /// Creates an inline executor, or one for owners of partitions, in the form that is best for
    /// the platform.
    pub inline: MakeInline<P, Q>,
}

impl<P: Platform, Q: Procedure + 'static> Executors<P, Q> {
    /// The executor of a worker; `seed` determines random orders.
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

/// An executor that runs procedures inline, or at the owners of partitions if workers own
/// partitions, through the engine's dynamic boundary.
///
/// # Errors
/// The database has its maximal number of sessions.
pub fn dynamic<'d, P: Platform, Q: Procedure + 'static>(seat: Seat<'d, P, Q>) -> Made<'d, Q> {
    if seat.owners.is_some() {
        return Ok(Box::new(Owning::new(&seat, seat.session()?)));
    }
    Ok(Box::new(Dynamic::<Q> { session: seat.session()?, tables: seat.tables, actions: Vec::new() }))
}

/// Runs procedures inline that are compiled together with the engine.
struct Together<'d, Q: Procedure> {
    session: Box<dyn Inline<'d, Q> + 'd>,
    tables: &'d Q::Tables,
    actions: Vec<Q::Action>,
}

impl<'d, Q: Procedure> Executor<'d, Q> for Together<'d, Q> {
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

/// An executor that is compiled together with the engine and the procedure, if there is one.
pub(crate) fn together<'d, Q: Compiled>(seat: Seat<'d, Hardware, Q>) -> Made<'d, Q> {
    let place = Place { c: seat.c, database: seat.database, node: seat.node, measure: seat.measure };
    if seat.owners.is_some() {
        return match Q::owning(&place)? {
            Some(session) => Ok(Box::new(Owning::new(&seat, session))),
            None => dynamic(seat),
        };
    }
    match Q::inline(place)? {
        Some(session) => Ok(Box::new(Together { session, tables: seat.tables, actions: Vec::new() })),
        None => dynamic(seat),
    }
}

/// Runs procedures in the most adverse way that is allowed.
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
