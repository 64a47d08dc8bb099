//! What a program runs on a deployment, and how the engine runs it.

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cc::Abort;
use engine::{KeyRange, Plan, Route, Routes, Verbs};
use platform::Intent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::attempt::{State, Transaction};
use crate::error::{Error, Result};
use crate::shared::{Limit, Shared};

/// A transaction over any number of parts of the data, as a value: what [`crate::Deployment::run`] runs.
///
/// Its steps follow from the value alone. Each step works on one part, in the instance that has the part, and steps of one
/// transaction see nothing of each other. Their outputs come together in [`Self::conclude`], which says whether the transaction
/// commits. All of it happens, or nothing.
///
/// Steps and outputs travel as bytes between instances. Steps are tried again after a collision: they should have no effects but
/// through the transaction. [`crate::Deployment`] has an example.
pub trait Procedure: Sized + Send + 'static {
    /// The tables that its steps use: a tuple or struct of [`crate::Table`]s.
    type Tables: Copy + Send + Sync + 'static;
    /// A step with its parameters.
    type Step: Serialize + DeserializeOwned + std::fmt::Debug;
    /// What a step gives back.
    type Output: Serialize + DeserializeOwned;

    /// Adds all steps to `steps`, which is empty. The transaction is coordinated by the worker that has the part of the first one:
    /// if that is the part that most transactions want, its rows are locked for the shortest time.
    fn steps(&self, steps: &mut Vec<Self::Step>);

    /// The part of the data that a step works on: the leading column of all keys that it uses.
    fn part(step: &Self::Step) -> u16;

    /// Whether a step changes nothing: then it costs fewer messages, and it must change nothing.
    fn only_reads(step: &Self::Step) -> bool {
        let _ = step;
        false
    }

    /// Runs a step.
    ///
    /// Errors: those of the verbs, passed on with `?`, or [`Error::RollBack`]; any other error of its own comes to the caller as
    /// [`Error::RollBack`] too. What the caller is to learn, a step says in its output.
    fn run(tables: &Self::Tables, step: &Self::Step, t: &mut Transaction<'_>) -> Result<Self::Output>;

    /// Takes the outputs of all steps, in their order, and says whether the transaction commits. It may be called again after a
    /// collision: what the procedure keeps is what the last call has left.
    ///
    /// Errors: its own reason to roll back, which the caller gets.
    fn conclude(&mut self, outputs: Vec<Self::Output>) -> Result<()>;
}

/// The procedure of a deployment that runs none: it has no values. `Deployment::in_memory` is of it, so that programs need not
/// name their procedure before [`crate::DeploymentBuilder::open`]. [`crate::Deployment`] has an example.
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

/// A procedure of a program as one of the engine.
pub(super) struct Running<'d, Q: Procedure> {
    pub(super) procedure: Q,
    outputs: Vec<Option<Q::Output>>,
    /// Why it rolls back.
    pub(super) reason: Option<Error>,
    /// Parts of the data.
    parts: u16,
    instance: PhantomData<&'d ()>,
}

impl<Q: Procedure> Running<'_, Q> {
    pub(super) fn new(procedure: Q, parts: u16) -> Self {
        Running { procedure, outputs: Vec::new(), reason: None, parts, instance: PhantomData }
    }

    /// Commits or rolls back, as the procedure says.
    fn conclude(&mut self) -> Plan {
        let outputs: Option<Vec<Q::Output>> = self.outputs.drain(..).collect();
        let concluded = outputs.map(|outputs| {
            let conclude = AssertUnwindSafe(|| self.procedure.conclude(outputs));
            catch_unwind(conclude).unwrap_or(Err(Error::Misuse("`conclude` of a procedure panicked")))
        });
        match concluded {
            Some(Ok(())) => Plan::Commit,
            Some(Err(reason)) => {
                self.reason = Some(reason);
                Plan::RollBack
            }
            None => {
                self.reason = Some(Error::Misuse("a step without an output"));
                Plan::RollBack
            }
        }
    }
}

impl<'d, Q: Procedure> engine::Procedure for Running<'d, Q> {
    type Tables = StepTables<'d, Q::Tables>;
    type Action = Q::Step;
    type Output = Q::Output;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Q::Step>) -> Plan {
        if phase > 0 {
            return self.conclude();
        }
        self.reason = None;
        self.procedure.steps(actions);
        self.outputs = actions.iter().map(|_| None).collect();
        if actions.is_empty() {
            return self.conclude();
        }
        if actions.iter().any(|step| Q::part(step) >= self.parts) {
            self.reason = Some(Error::Misuse("a step works on a part that the deployment does not have"));
            return Plan::RollBack;
        }
        Plan::Run
    }

    fn route(tables: &Self::Tables, step: &Q::Step, route: &mut Routes) {
        let part = KeyRange::of(&Q::part(step));
        let intent = if Q::only_reads(step) { Intent::Read } else { Intent::Write };
        // Where it belongs comes first.
        let all = || tables.shared.share.iter().flat_map(|share| share.copied.iter().enumerate());
        for (table, _) in all().filter(|(_, copied)| !**copied) {
            route.push(Route { table, keys: part, intent });
        }
        for (table, _) in all().filter(|(_, copied)| **copied) {
            route.push(Route { table, keys: KeyRange::ALL, intent: Intent::Read });
        }
    }

    fn execute<T: Verbs>(tables: &Self::Tables, step: &Q::Step, t: &mut T) -> Result<Q::Output, Abort> {
        let Some(verbs) = t.untyped() else {
            return Err(Abort::Misuse("steps are run by objects"));
        };
        let limit = Limit { part: Q::part(step), only_reads: Q::only_reads(step) };
        let mut state = State::of_step(limit);
        let mut transaction = Transaction { verbs, state: &mut state, shared: tables.shared, cancel: None };
        let ran = catch_unwind(AssertUnwindSafe(|| Q::run(&tables.own, step, &mut transaction)));
        match (ran, state.failed) {
            (_, Some(failure)) => Err(failure.abort),
            (Ok(Ok(output)), None) => Ok(output),
            (Ok(Err(_)), None) => Err(Abort::RollBack),
            (Err(_), None) => Err(Abort::Misuse("a step panicked")),
        }
    }

    fn absorb(&mut self, _: usize, step: usize, output: Q::Output) {
        if let Some(place) = self.outputs.get_mut(step) {
            *place = Some(output);
        }
    }

    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        let mut steps = Vec::new();
        self.procedure.steps(&mut steps);
        steps.iter().for_each(|step| home(Q::part(step)));
        true
    }

    fn read_only(&self) -> bool {
        let mut steps = Vec::new();
        self.procedure.steps(&mut steps);
        steps.iter().all(Q::only_reads)
    }
}
