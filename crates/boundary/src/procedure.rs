//! Stored procedures: phases of actions.
//!
//! A procedure declares its flow, so that the same program can run inline in one transaction, be
//! routed to the owners of partitions, or be spread over instances. A *phase* is a set of
//! *actions*, and each action names the rows that it works on ([`schema::routes`]). The actions of
//! one phase do not depend on each other, and may run in any order, anywhere. The next phase is
//! planned from their outputs.

use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;
use terms::Abort;

use crate::look_ahead::LookAhead;
use crate::verbs::Verbs;
use schema::Routes;

/// The step after a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Run the planned actions.
    Run,
    /// Commit: there is nothing more to do.
    Commit,
    /// Undo everything, on the procedure's own decision.
    RollBack,
}

/// A transaction as the engine can run it anywhere.
pub trait Procedure {
    /// The tables that the procedure works on: typed names, the same on every instance.
    type Tables: Copy + Send + Sync;
    /// An action with its parameters. Actions travel as bytes.
    type Action: Serialize + DeserializeOwned + Debug;
    /// The result of an action. Outputs travel as bytes.
    type Output: Serialize + DeserializeOwned;

    /// Appends the actions of phase number `phase` to `actions` (empty when called). Phase 0 begins
    /// an attempt: the procedure forgets the outputs of a former attempt.
    fn plan(&mut self, phase: usize, actions: &mut Vec<Self::Action>) -> Plan;

    /// Adds what an action touches to `route`, first where the action belongs ([`Routes::home`]).
    /// The route is true: the action touches nothing else. It follows from the action alone.
    fn route(tables: &Self::Tables, action: &Self::Action, route: &mut Routes);

    /// Runs an action, which depends on nothing but its parameters and the database.
    fn execute<T: Verbs>(
        tables: &Self::Tables,
        action: &Self::Action,
        transaction: &mut T,
    ) -> Result<Self::Output, Abort>;

    /// Takes the output of action number `action` of phase `phase`, in any order.
    fn absorb(&mut self, phase: usize, action: usize, output: Self::Output);

    /// Calls `home` with the leading key column of the home ([`Routes::home`]) of each action of
    /// phase 0, in any order and as often as it likes; false if the procedure does not have them.
    /// So it is cheap to see that a transaction touches one instance only: nothing is planned for
    /// that.
    #[inline]
    fn homes(&self, home: &mut dyn FnMut(u16)) -> bool {
        let _ = home;
        false
    }

    /// Tells what the actions of phase 0 will use, as far as that is worth bringing closer while
    /// the worker runs other transactions: rows and places that are in no cache as a rule. Rows
    /// that all transactions want are left out: they are in some cache, and would be taken from
    /// there before they are needed. Nothing depends on what is announced here.
    #[inline]
    fn look_ahead<L: LookAhead>(&self, tables: &Self::Tables, ahead: &mut L) {
        let _ = (tables, ahead);
    }

    /// True if phase 0 is the only phase: nothing is planned from its outputs, except that the
    /// procedure may roll back.
    fn has_one_phase(&self) -> bool {
        false
    }

    /// True if every action only reads: schemes may take a snapshot.
    fn read_only(&self) -> bool {
        false
    }
}
