//! Procedures of a program, and their adapter to procedures of the engine.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use boundary::{Plan, Verbs};
use platform::Intent;
use schema::{KeyRange, Route, Routes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::wire_value::{Unreadable, WireValue};
use crate::attempt::{Transaction, TransactionState};
use crate::error::{Error, Result};
use crate::shared::{DatabaseShared, StepLimit};

/// A transaction over any number of parts of the data, as a value that [`crate::Deployment::run`]
/// executes.
///
/// The value alone determines the steps. Each step accesses one part, in the instance that has the
/// part, and does not see the changes of other steps of the same transaction. [`Self::conclude`]
/// receives the outputs of all steps and decides if the transaction commits. All changes happen, or
/// none.
///
/// Steps and outputs are sent between instances in serde's format `postcard`. This format has no
/// field names, so it cannot deserialize self-describing representations (`untagged`, `flatten`).
/// All steps for one instance form one message, and all their outputs another, of at most
/// [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX) bytes. Steps are tried again after a conflict:
/// they should have no effects except through the transaction. If any method panics, only its
/// transaction fails, with [`Error::Misuse`]. [`crate::Deployment`] has an example.
pub trait Procedure: Sized + Send + 'static {
    /// The tables that the steps use: a tuple or struct of [`crate::Table`]s.
    type Tables: Copy + Send + Sync + 'static;
    /// A step with its parameters.
    type Step: Serialize + DeserializeOwned + std::fmt::Debug;
    /// The output of a step.
    type Output: Serialize + DeserializeOwned;

    /// Adds all steps to `steps`, which is empty. The worker that has the part of the first step
    /// coordinates the transaction. Rows of the coordinator are locked for the shortest time, so
    /// begin with the most contended part.
    fn steps(&self, steps: &mut Vec<Self::Step>);

    /// Returns the part of the data that a step accesses: the leading column of all its keys.
    fn part(step: &Self::Step) -> u16;

    /// Returns true if a step only reads. Such a step costs fewer messages, and must not change a
    /// row.
    fn only_reads(step: &Self::Step) -> bool {
        let _ = step;
        false
    }

    /// Runs a step.
    ///
    /// Errors: those of the verbs, passed on with `?`, or [`Error::RollBack`]. The caller receives
    /// any other error as [`Error::RollBack`] too; return details in the output instead.
    fn run(tables: &Self::Tables, step: &Self::Step, t: &mut Transaction<'_>) -> Result<Self::Output>;

    /// Receives the outputs of all steps, in order, and decides if the transaction commits. The
    /// method may be called again after a conflict; the state left by its last call counts.
    ///
    /// Errors: the procedure's reason to roll back, which the caller receives.
    fn conclude(&mut self, outputs: Vec<Self::Output>) -> Result<()>;
}

/// The procedure of a deployment without procedures; the type has no values.
/// `Deployment::in_memory` and `Deployment::at` belong to `Deployment<NoProcedure>`, so that
/// programs need not name their procedure before [`crate::DeploymentBuilder::open`].
/// [`crate::Deployment`] has an example.
#[derive(Debug)]
pub enum NoProcedure {}

impl Procedure for NoProcedure {
    type Tables = ();
    type Step = ();
    type Output = ();

    fn steps(&self, _: &mut Vec<()>) {}

    fn part((): &()) -> u16 {
        0
    }

    fn run((): &(), (): &(), _: &mut Transaction<'_>) -> Result<()> {
        Ok(())
    }

    fn conclude(&mut self, _: Vec<()>) -> Result<()> {
        Ok(())
    }
}

/// The tables of an instance, for steps.
pub(super) struct StepTables<'d, T> {
    pub(super) own: T,
    pub(super) shared: &'d DatabaseShared,
}

impl<T: Copy> Clone for StepTables<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for StepTables<'_, T> {}

/// Parts and kind of a procedure's steps, listed once before it runs.
#[derive(Debug, PartialEq)]
pub(super) struct Outline {
    /// The part of each step.
    parts: Vec<u16>,
    only_reads: bool,
}

/// A step as an action of the engine.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound(serialize = "S: Serialize", deserialize = ""))]
pub(super) struct Action<S> {
    part: u16,
    only_reads: bool,
    step: WireValue<S>,
}

impl Outline {
    /// Lists the steps of a procedure.
    pub(super) fn of<Q: Procedure>(procedure: &Q) -> Result<Outline> {
        list(procedure).map(|steps| Outline::of_steps(&steps))
    }

    fn of_steps<S>(steps: &[Action<S>]) -> Outline {
        let only_reads = steps.iter().all(|step| step.only_reads);
        Outline { parts: steps.iter().map(|step| step.part).collect(), only_reads }
    }

    /// Returns the part whose worker coordinates.
    pub(super) fn home(&self) -> u16 {
        self.parts.first().copied().unwrap_or(0)
    }
}

/// Returns the steps of a procedure.
fn list<Q: Procedure>(procedure: &Q) -> Result<Vec<Action<Q::Step>>> {
    let caught = |what| move |_| Error::Misuse(what);
    let mut steps = Vec::new();
    let listed = catch_unwind(AssertUnwindSafe(|| procedure.steps(&mut steps)));
    listed.map_err(caught("`steps` of a procedure panicked"))?;
    let action = |step| {
        let part = catch_unwind(AssertUnwindSafe(|| Q::part(&step)));
        let part = part.map_err(caught("`part` of a procedure panicked"))?;
        let only_reads = catch_unwind(AssertUnwindSafe(|| Q::only_reads(&step)));
        let only_reads = only_reads.map_err(caught("`only_reads` of a procedure panicked"))?;
        Ok(Action { part, only_reads, step: WireValue::Value(step) })
    };
    steps.into_iter().map(action).collect()
}

/// A procedure of a program as one of the engine.
pub(super) struct RunningProcedure<'d, Q: Procedure> {
    pub(super) procedure: Q,
    outline: Outline,
    outputs: Vec<Option<WireValue<Q::Output>>>,
    /// Reason of its rollback.
    pub(super) reason: Option<Error>,
    /// Number of parts of the data.
    parts: u16,
    instance: PhantomData<&'d ()>,
}

impl<Q: Procedure> RunningProcedure<'_, Q> {
    pub(super) fn new(procedure: Q, outline: Outline, parts: u16) -> Self {
        RunningProcedure {
            procedure,
            outline,
            outputs: Vec::new(),
            reason: None,
            parts,
            instance: PhantomData,
        }
    }

    fn roll_back(&mut self, reason: Error) -> Plan {
        self.reason = Some(reason);
        Plan::RollBack
    }

    /// Commits or rolls back, as the procedure decides.
    fn conclude(&mut self) -> Plan {
        let outputs = self.outputs.drain(..).map(|output| {
            let output = output.ok_or(Error::Misuse("a step without an output"))?;
            output.open().map_err(|Unreadable| Error::Misuse(UNREADABLE_OUTPUT))
        });
        let concluded = outputs.collect::<Result<Vec<_>>>().and_then(|outputs| {
            let conclude = AssertUnwindSafe(|| self.procedure.conclude(outputs));
            catch_unwind(conclude).unwrap_or(Err(Error::Misuse("`conclude` of a procedure panicked")))
        });
        match concluded {
            Ok(()) => Plan::Commit,
            Err(reason) => self.roll_back(reason),
        }
    }
}

/// Errors for values that the program serialized but cannot deserialize.
const UNREADABLE_STEP: &str = "a step that cannot be read as it was written: `postcard` has to read its type";
const UNREADABLE_OUTPUT: &str =
    "an output that cannot be read as it was written: `postcard` has to read its type";

impl<'d, Q: Procedure> boundary::Procedure for RunningProcedure<'d, Q> {
    type Tables = StepTables<'d, Q::Tables>;
    type Action = Action<Q::Step>;
    type Output = WireValue<Q::Output>;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action<Q::Step>>) -> Plan {
        if phase > 0 {
            return self.conclude();
        }
        self.reason = None;
        let steps = match list(&self.procedure) {
            Ok(steps) => steps,
            Err(reason) => return self.roll_back(reason),
        };
        // The placement and the messages follow from the outline made before.
        if Outline::of_steps(&steps) != self.outline {
            return self
                .roll_back(Error::Misuse("`steps` of a procedure gives other steps in another attempt"));
        }
        self.outputs = steps.iter().map(|_| None).collect();
        if steps.is_empty() {
            return self.conclude();
        }
        if steps.iter().any(|step| step.part >= self.parts) {
            return self.roll_back(Error::Misuse("a step works on a part that the deployment does not have"));
        }
        actions.extend(steps);
        Plan::Run
    }

    fn route(tables: &Self::Tables, step: &Action<Q::Step>, route: &mut Routes) {
        let part = KeyRange::of(&step.part);
        let intent = if step.only_reads { Intent::Read } else { Intent::Write };
        // The first entry of a route is the home of the action.
        let all = || tables.shared.share.iter().flat_map(|share| share.copied.iter().enumerate());
        for (table, _) in all().filter(|(_, copied)| !**copied) {
            route.push(Route { table, keys: part, intent });
        }
        for (table, _) in all().filter(|(_, copied)| **copied) {
            route.push(Route { table, keys: KeyRange::ALL, intent: Intent::Read });
        }
    }

    fn execute<T: Verbs>(
        tables: &Self::Tables,
        action: &Action<Q::Step>,
        t: &mut T,
    ) -> Result<WireValue<Q::Output>, Abort> {
        let Some(verbs) = t.untyped() else {
            return Err(Abort::Misuse("steps are run by objects"));
        };
        let limit = StepLimit { part: action.part, only_reads: action.only_reads };
        let mut state = TransactionState::of_step(limit);
        let (shared, plans) = (tables.shared, tables.shared.plans.current());
        let mut transaction = Transaction { verbs, state: &mut state, shared, cancel: None, plans };
        let ran = action
            .step
            .with(|step| catch_unwind(AssertUnwindSafe(|| Q::run(&tables.own, step, &mut transaction))));
        let ran = ran.map_err(|Unreadable| Abort::Misuse(UNREADABLE_STEP))?;
        match (ran, state.failed) {
            (_, Some(failure)) => Err(failure.abort),
            (Ok(Ok(output)), None) => Ok(WireValue::Value(output)),
            (Ok(Err(_)), None) => Err(Abort::RollBack),
            (Err(_), None) => Err(Abort::Misuse("a step panicked")),
        }
    }

    fn absorb(&mut self, _: usize, step: usize, output: WireValue<Q::Output>) {
        if let Some(place) = self.outputs.get_mut(step) {
            *place = Some(output);
        }
    }

    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        self.outline.parts.iter().for_each(|part| home(*part));
        true
    }

    fn read_only(&self) -> bool {
        self.outline.only_reads
    }
}
