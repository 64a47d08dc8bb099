//! Procedures of a program on a deployment, and how the engine runs them.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use boundary::{Plan, Verbs};
use platform::Intent;
use schema::{KeyRange, Route, Routes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use terms::Abort;

use super::carried::{Carried, Unreadable};
use crate::attempt::{State, Transaction};
use crate::error::{Error, Result};
use crate::shared::{Limit, Shared};

/// A transaction over any number of parts of the data, as a value: what [`crate::Deployment::run`]
/// runs.
///
/// Its steps follow from the value alone. Each step works on one part, in the instance that has the
/// part, and steps of one transaction see nothing of each other. Their outputs come together in
/// [`Self::conclude`], which says whether the transaction commits. All of it happens, or nothing.
///
/// Steps and outputs travel as bytes between instances, in serde's format `postcard`, which has no
/// names of fields: steps that serde reads by looking at them (`untagged`, `flatten`) do not come
/// back. All steps for one instance are one message, and all of their outputs another, of
/// [`MESSAGE_BYTES_MAX`](crate::MESSAGE_BYTES_MAX) at most. Steps are tried again after a
/// collision: they should have no effects but through the transaction. Whatever of this panics,
/// fails its transaction alone, with [`Error::Misuse`]. [`crate::Deployment`] has an example.
pub trait Procedure: Sized + Send + 'static {
    /// The tables that its steps use: a tuple or struct of [`crate::Table`]s.
    type Tables: Copy + Send + Sync + 'static;
    /// A step with its parameters.
    type Step: Serialize + DeserializeOwned + std::fmt::Debug;
    /// The result of a step.
    type Output: Serialize + DeserializeOwned;

    /// Adds all steps to `steps`, which is empty. The transaction is coordinated by the worker that
    /// has the part of the first one: if that is the part that most transactions want, its rows are
    /// locked for the shortest time.
    fn steps(&self, steps: &mut Vec<Self::Step>);

    /// The part of the data that a step works on: the leading column of all keys that it uses.
    fn part(step: &Self::Step) -> u16;

    /// True if a step changes nothing: then it costs fewer messages, and it must change nothing.
    fn only_reads(step: &Self::Step) -> bool {
        let _ = step;
        false
    }

    /// Runs a step.
    ///
    /// Errors: those of the verbs, passed on with `?`, or [`Error::RollBack`]; any other error of
    /// its own comes to the caller as [`Error::RollBack`] too. What the caller is to learn, a step
    /// says in its output.
    fn run(tables: &Self::Tables, step: &Self::Step, t: &mut Transaction<'_>) -> Result<Self::Output>;

    /// Takes the outputs of all steps, in their order, and says whether the transaction commits. It
    /// may be called again after a collision: what the procedure keeps is what the last call has
    /// left.
    ///
    /// Errors: its own reason to roll back, which the caller gets.
    fn conclude(&mut self, outputs: Vec<Self::Output>) -> Result<()>;
}

/// The procedure of a deployment that runs none: it has no values. `Deployment::in_memory` is of
/// it, so that programs need not name their procedure before [`crate::DeploymentBuilder::open`].
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
    pub(super) shared: &'d Shared,
}

impl<T: Copy> Clone for StepTables<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Copy> Copy for StepTables<'_, T> {}

/// The properties of a procedure, asked once.
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
    step: Carried<S>,
}

impl Outline {
    /// The outline of a procedure as it is now.
    pub(super) fn of<Q: Procedure>(procedure: &Q) -> Result<Outline> {
        list(procedure).map(|steps| Outline::of_steps(&steps))
    }

    fn of_steps<S>(steps: &[Action<S>]) -> Outline {
        let only_reads = steps.iter().all(|step| step.only_reads);
        Outline { parts: steps.iter().map(|step| step.part).collect(), only_reads }
    }

    /// The part whose worker coordinates.
    pub(super) fn home(&self) -> u16 {
        self.parts.first().copied().unwrap_or(0)
    }
}

/// The steps of a procedure.
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
        Ok(Action { part, only_reads, step: Carried::Value(step) })
    };
    steps.into_iter().map(action).collect()
}

/// A procedure of a program as one of the engine.
pub(super) struct Running<'d, Q: Procedure> {
    pub(super) procedure: Q,
    outline: Outline,
    outputs: Vec<Option<Carried<Q::Output>>>,
    /// Why it rolls back.
    pub(super) reason: Option<Error>,
    /// Parts of the data.
    parts: u16,
    instance: PhantomData<&'d ()>,
}

impl<Q: Procedure> Running<'_, Q> {
    pub(super) fn new(procedure: Q, outline: Outline, parts: u16) -> Self {
        Running { procedure, outline, outputs: Vec::new(), reason: None, parts, instance: PhantomData }
    }

    fn roll_back(&mut self, reason: Error) -> Plan {
        self.reason = Some(reason);
        Plan::RollBack
    }

    /// Commits or rolls back, as the procedure says.
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

/// The refusal of a value that the program wrote and cannot read.
const UNREADABLE_STEP: &str = "a step that cannot be read as it was written: `postcard` has to read its type";
const UNREADABLE_OUTPUT: &str =
    "an output that cannot be read as it was written: `postcard` has to read its type";

impl<'d, Q: Procedure> boundary::Procedure for Running<'d, Q> {
    type Tables = StepTables<'d, Q::Tables>;
    type Action = Action<Q::Step>;
    type Output = Carried<Q::Output>;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action<Q::Step>>) -> Plan {
        if phase > 0 {
            return self.conclude();
        }
        self.reason = None;
        let steps = match list(&self.procedure) {
            Ok(steps) => steps,
            Err(reason) => return self.roll_back(reason),
        };
        // Where it runs, and in how many messages, follows from what it said before.
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
        // Where it belongs comes first.
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
    ) -> Result<Carried<Q::Output>, Abort> {
        let Some(verbs) = t.untyped() else {
            return Err(Abort::Misuse("steps are run by objects"));
        };
        let limit = Limit { part: action.part, only_reads: action.only_reads };
        let mut state = State::of_step(limit);
        let mut transaction = Transaction { verbs, state: &mut state, shared: tables.shared, cancel: None };
        let ran = action
            .step
            .with(|step| catch_unwind(AssertUnwindSafe(|| Q::run(&tables.own, step, &mut transaction))));
        let ran = ran.map_err(|Unreadable| Abort::Misuse(UNREADABLE_STEP))?;
        match (ran, state.failed) {
            (_, Some(failure)) => Err(failure.abort),
            (Ok(Ok(output)), None) => Ok(Carried::Value(output)),
            (Ok(Err(_)), None) => Err(Abort::RollBack),
            (Err(_), None) => Err(Abort::Misuse("a step panicked")),
        }
    }

    fn absorb(&mut self, _: usize, step: usize, output: Carried<Q::Output>) {
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
