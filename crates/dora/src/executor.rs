//! A worker's session and procedures as one object: the worker itself is compiled once for all
//! procedures.
//!
//! The object knows the type of the actions. It keeps those of the phase that the worker
//! coordinates, and those of each other worker's request, from the moment on at which they have
//! come until they have run; it runs them in a branch of the session, through the engine's dynamic
//! boundary or compiled with the engine ([`Acting`]).

use boundary::{AnyVerbs, Branches, Plan, Procedure, Transaction, Verbs};
use platform::Nanos;
use schema::Routes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use terms::Abort;

use crate::messages::{CANNOT_BE_RECEIVED, CANNOT_BE_SENT};

/// Words that are copied of procedures, and of actions with their outputs.
#[derive(Clone, Copy)]
pub struct Copied {
    pub(crate) procedure: u32,
    pub(crate) action: u32,
}

impl Copied {
    const fn of<Q: Procedure>() -> Self {
        let procedure = size_of::<Q>().div_ceil(8) as u32;
        let action = size_of::<Q::Action>().div_ceil(8) + size_of::<Q::Output>().div_ceil(8);
        Copied { procedure, action: action as u32 }
    }
}

/// A worker's session, and its procedures of one type.
pub trait ActionExecutor {
    /// The branches of the session.
    fn branches(&mut self) -> &mut dyn Branches;

    /// Bytes that are copied.
    fn copied(&self) -> Copied;

    /// Plans a phase of the worker's own transaction.
    fn plan(&mut self, phase: usize) -> Plan;

    /// How many actions it has.
    fn actions(&self) -> usize;

    /// Adds what an action of it touches.
    fn route(&self, action: usize, routes: &mut Routes);

    /// Runs actions of it in this branch, and gives the procedure their outputs.
    ///
    /// # Errors
    /// See [`Abort`].
    fn act(
        &mut self,
        branch: usize,
        deadline: Option<Nanos>,
        phase: usize,
        which: &dyn Fn(usize) -> bool,
    ) -> Result<(), Abort>;

    /// Appends actions of it as bytes.
    ///
    /// # Errors
    /// They cannot be written so.
    fn write(&self, which: &dyn Fn(usize) -> bool, to: &mut Vec<u8>) -> Result<(), Abort>;

    /// Gives the procedure the outputs of actions that others have run.
    ///
    /// # Errors
    /// These bytes are no outputs.
    fn absorb(&mut self, phase: usize, which: &dyn Fn(usize) -> bool, outputs: &[u8]) -> Result<(), Abort>;

    /// Keeps this many actions of another worker's request until they run.
    ///
    /// # Errors
    /// These bytes are no such actions.
    fn keep(&mut self, whose: u16, count: usize, actions: &[u8]) -> Result<(), Abort>;

    /// Adds what an action of another worker's touches.
    fn route_kept(&self, whose: u16, action: usize, routes: &mut Routes);

    /// Runs the actions of another worker in this branch, and appends their outputs as bytes.
    ///
    /// # Errors
    /// See [`Abort`].
    fn act_for(
        &mut self,
        whose: u16,
        branch: usize,
        deadline: Option<Nanos>,
        outputs: &mut Vec<u8>,
    ) -> Result<(), Abort>;
}

/// Some of the actions of a list.
pub struct SelectedActions<'a, Q: Procedure> {
    /// The tables on which the actions run.
    pub tables: &'a Q::Tables,
    /// The list.
    pub actions: &'a [Q::Action],
    /// True of the numbers of the selected actions.
    pub is_selected: &'a dyn Fn(usize) -> bool,
}

/// Takes the outputs of actions, by their numbers.
pub type Done<'f, Q> = dyn FnMut(usize, <Q as Procedure>::Output) -> Result<(), Abort> + 'f;

/// Runs the selected actions, one after the other.
///
/// # Errors
/// See [`Abort`].
#[inline]
pub fn execute_selected<Q: Procedure>(
    selected: &SelectedActions<'_, Q>,
    transaction: &mut impl Verbs,
    done: &mut Done<'_, Q>,
) -> Result<(), Abort> {
    let SelectedActions { tables, actions, is_selected } = *selected;
    for (number, action) in actions.iter().enumerate().filter(|(number, _)| is_selected(*number)) {
        done(number, Q::execute(tables, action, transaction)?)?;
    }
    Ok(())
}

/// How actions run in a session.
pub trait Acting<Q: Procedure> {
    /// The branches of the session.
    fn branches(&mut self) -> &mut dyn Branches;

    /// Runs the selected actions in one act of the branch.
    ///
    /// # Errors
    /// See [`Abort`].
    fn act(
        &mut self,
        branch: usize,
        deadline: Option<Nanos>,
        actions: &SelectedActions<'_, Q>,
        done: &mut Done<'_, Q>,
    ) -> Result<(), Abort>;
}

/// Actions run through the engine's dynamic boundary.
pub struct Dynamic<'b>(pub &'b mut dyn Branches);

impl<Q: Procedure> Acting<Q> for Dynamic<'_> {
    fn branches(&mut self) -> &mut dyn Branches {
        self.0
    }

    fn act(
        &mut self,
        branch: usize,
        deadline: Option<Nanos>,
        actions: &SelectedActions<'_, Q>,
        done: &mut Done<'_, Q>,
    ) -> Result<(), Abort> {
        self.0.act(branch, deadline, &mut |verbs: &mut dyn AnyVerbs| {
            execute_selected::<Q>(actions, &mut Transaction::new(verbs), done)
        })
    }
}

/// The actions that a worker has of procedures of one type.
pub struct Actions<Q: Procedure> {
    /// Actions of the phase that the worker coordinates.
    own: Vec<Q::Action>,
    /// By worker: the actions that it has requested.
    kept: Vec<Vec<Q::Action>>,
}

impl<Q: Procedure> Actions<Q> {
    /// None, of one of this many workers.
    pub fn new(workers: usize) -> Self {
        Actions { own: Vec::new(), kept: (0..workers).map(|_| Vec::new()).collect() }
    }
}

/// The executor of a worker: how actions run, the actions, and the transaction that the worker
/// coordinates, if there is one.
pub struct Typed<'h, Q: Procedure, A: Acting<Q>> {
    acting: A,
    tables: &'h Q::Tables,
    actions: &'h mut Actions<Q>,
    procedure: Option<&'h mut Q>,
}

impl<'h, Q: Procedure, A: Acting<Q>> Typed<'h, Q, A> {
    /// An executor that runs procedures on these tables.
    pub fn new(
        acting: A,
        tables: &'h Q::Tables,
        actions: &'h mut Actions<Q>,
        procedure: Option<&'h mut Q>,
    ) -> Self {
        Typed { acting, tables, actions, procedure }
    }
}

fn write<T: Serialize>(value: &T, to: &mut Vec<u8>) -> Result<(), Abort> {
    let bytes = std::mem::take(to);
    *to = postcard::to_extend(value, bytes).map_err(|_| CANNOT_BE_SENT)?;
    Ok(())
}

fn read<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, Abort> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|_| CANNOT_BE_RECEIVED)?;
    *bytes = rest;
    Ok(value)
}

impl<Q: Procedure, A: Acting<Q>> ActionExecutor for Typed<'_, Q, A> {
    fn branches(&mut self) -> &mut dyn Branches {
        self.acting.branches()
    }

    fn copied(&self) -> Copied {
        const { Copied::of::<Q>() }
    }

    fn plan(&mut self, phase: usize) -> Plan {
        self.actions.own.clear();
        self.procedure.as_mut().map_or(Plan::Commit, |procedure| procedure.plan(phase, &mut self.actions.own))
    }

    fn actions(&self) -> usize {
        self.actions.own.len()
    }

    fn route(&self, action: usize, routes: &mut Routes) {
        Q::route(self.tables, &self.actions.own[action], routes);
    }

    fn act(
        &mut self,
        branch: usize,
        deadline: Option<Nanos>,
        phase: usize,
        which: &dyn Fn(usize) -> bool,
    ) -> Result<(), Abort> {
        let Typed { acting, tables, actions, procedure } = self;
        let selected = SelectedActions { tables: *tables, actions: &actions.own, is_selected: which };
        acting.act(branch, deadline, &selected, &mut |number, output| {
            if let Some(procedure) = procedure {
                procedure.absorb(phase, number, output);
            }
            Ok(())
        })
    }

    fn write(&self, which: &dyn Fn(usize) -> bool, to: &mut Vec<u8>) -> Result<(), Abort> {
        let own = &self.actions.own;
        (0..own.len()).filter(|number| which(*number)).try_for_each(|number| write(&own[number], to))
    }

    fn absorb(
        &mut self,
        phase: usize,
        which: &dyn Fn(usize) -> bool,
        mut outputs: &[u8],
    ) -> Result<(), Abort> {
        let Some(procedure) = &mut self.procedure else { return Ok(()) };
        for number in (0..self.actions.own.len()).filter(|number| which(*number)) {
            procedure.absorb(phase, number, read(&mut outputs)?);
        }
        Ok(())
    }

    fn keep(&mut self, whose: u16, count: usize, mut actions: &[u8]) -> Result<(), Abort> {
        let kept = &mut self.actions.kept[usize::from(whose)];
        kept.clear();
        for _ in 0..count {
            kept.push(read(&mut actions)?);
        }
        Ok(())
    }

    fn route_kept(&self, whose: u16, action: usize, routes: &mut Routes) {
        Q::route(self.tables, &self.actions.kept[usize::from(whose)][action], routes);
    }

    fn act_for(
        &mut self,
        whose: u16,
        branch: usize,
        deadline: Option<Nanos>,
        outputs: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let Typed { acting, tables, actions, .. } = self;
        let actions = &actions.kept[usize::from(whose)];
        let all = SelectedActions { tables: *tables, actions, is_selected: &|_| true };
        acting.act(branch, deadline, &all, &mut |_, output| write(&output, outputs))
    }
}
