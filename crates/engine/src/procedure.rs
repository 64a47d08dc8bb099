//! Stored procedures: phases of actions.
//!
//! A procedure declares its flow, so that one text runs inline in one transaction, routed to the owners of partitions, or
//! spread over instances: a *phase* is a set of *actions*, each naming the table and key it works on; the actions of one
//! phase do not depend on each other and may run in any order, anywhere; the next phase is planned from their outputs.

use cc::Abort;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::key::KeyBuffer;
use crate::verbs::Verbs;

/// What follows after a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Run the planned actions.
    Run,
    /// Nothing more to do: commit.
    Commit,
    /// Undo everything, on the procedure's own decision.
    RollBack,
}

/// Where an action belongs: the partition that holds this key of this table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Number of the table in the catalog.
    pub table: usize,
    /// A key of its primary index, or the leading columns of one.
    pub key: KeyBuffer,
}

/// A transaction as the engine can run it anywhere.
pub trait Procedure {
    /// The tables it works on: typed names, the same on every instance.
    type Tables: Copy + Send + Sync;
    /// One action with its parameters. Travels as bytes.
    type Action: Serialize + DeserializeOwned;
    /// What an action gives back. Travels as bytes.
    type Output: Serialize + DeserializeOwned;

    /// Appends the actions of phase number `phase` to `actions` (empty when called). Phase 0 begins an attempt: the
    /// procedure forgets the outputs of a former attempt.
    fn plan(&mut self, phase: usize, actions: &mut Vec<Self::Action>) -> Plan;

    /// Where an action belongs.
    fn route(tables: &Self::Tables, action: &Self::Action) -> Route;

    /// Runs one action. It depends on nothing but its parameters and the database.
    fn execute<T: Verbs>(
        tables: &Self::Tables,
        action: &Self::Action,
        transaction: &mut T,
    ) -> Result<Self::Output, Abort>;

    /// Takes the output of action number `action` of phase `phase`, in any order.
    fn absorb(&mut self, phase: usize, action: usize, output: Self::Output);

    /// Whether every action only reads: schemes may take a snapshot.
    fn read_only(&self) -> bool {
        false
    }
}
