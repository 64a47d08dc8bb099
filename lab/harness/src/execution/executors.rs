//! The executors of workers: inline, at the owners of partitions, shuffled.

use boundary::{AnySession, Bounds, Ending, Procedure, Session};
use engine::testing::{Shuffle, run_shuffled};
use fused::{Compiled, Inline, Place};
use platform::{Hardware, Platform};
use terms::Abort;

use crate::execution::executor::{Execution, Executor, ExecutorArguments, ExecutorResult, MakeInline};
use crate::execution::owning::Owning;

/// Creates executors.
pub(crate) struct Executors<P: Platform, Q: Procedure> {
    /// Creates an inline executor, or one for owners of partitions, in the form that is best for
    /// the platform.
    pub inline: MakeInline<P, Q>,
}

impl<P: Platform, Q: Procedure + 'static> Executors<P, Q> {
    /// The executor of a worker; `seed` determines random orders.
    pub(crate) fn executor<'d>(
        &self,
        execution: Execution,
        seed: u64,
        arguments: ExecutorArguments<'d, P, Q>,
    ) -> ExecutorResult<'d, Q> {
        match execution {
            Execution::Inline | Execution::Plp | Execution::Atrapos => (self.inline)(arguments),
            Execution::Shuffled => {
                let shuffle = Shuffle::new(seed);
                Ok(Box::new(Shuffled::<Q> {
                    session: arguments.session()?,
                    tables: arguments.tables,
                    shuffle,
                }))
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
pub fn dynamic<'d, P: Platform, Q: Procedure + 'static>(
    arguments: ExecutorArguments<'d, P, Q>,
) -> ExecutorResult<'d, Q> {
    if arguments.owners.is_some() {
        return Ok(Box::new(Owning::new(&arguments, arguments.session()?)));
    }
    Ok(Box::new(Dynamic::<Q> {
        session: arguments.session()?,
        tables: arguments.tables,
        actions: Vec::new(),
    }))
}

/// Runs procedures inline that are compiled together with the engine.
struct FusedExecutor<'d, Q: Procedure> {
    session: Box<dyn Inline<'d, Q> + 'd>,
    tables: &'d Q::Tables,
    actions: Vec<Q::Action>,
}

impl<'d, Q: Procedure> Executor<'d, Q> for FusedExecutor<'d, Q> {
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
pub(crate) fn fused<'d, Q: Compiled>(arguments: ExecutorArguments<'d, Hardware, Q>) -> ExecutorResult<'d, Q> {
    let place = Place {
        c: arguments.c,
        database: arguments.database,
        node: arguments.node,
        measure: arguments.measure,
    };
    if arguments.owners.is_some() {
        return match Q::owning(&place)? {
            Some(session) => Ok(Box::new(Owning::new(&arguments, session))),
            None => dynamic(arguments),
        };
    }
    match Q::inline(place)? {
        Some(session) => {
            Ok(Box::new(FusedExecutor { session, tables: arguments.tables, actions: Vec::new() }))
        }
        None => dynamic(arguments),
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
