//! The engine's one dynamic boundary: databases, sessions and transactions as objects, for callers
//! that know neither scheme nor row types when they are compiled, or that want one compiled copy of
//! the engine whatever their own callers choose. The embedded library, workloads in the virtual
//! machine, campaigns, loading and checks use it; procedures on hardware are compiled with the
//! engine instead ([`crate::Session::run`]).
//!
//! - `verbs`: [`AnyVerbs`], what a transaction can do with numbers, words and bytes;
//! - `transaction`: [`Transaction`], the same as typed [`crate::Verbs`];
//! - `attempt`: [`AnyAttempt`], a transaction that outlives the call that began it;
//! - `session`, `database`: [`AnySession`] and [`AnyDatabase`], the objects;
//! - `branches`: [`Branches`], what several workers do for one transaction;
//! - `typed`: [`Session`] and [`Database`], the objects with the methods of their static namesakes;
//! - `inline`: stored procedures;
//! - `instances`: makes and opens databases under a scheme that is named at run time.
//!
//! Both ways into the engine declare the same work and touch the same memory in the same order: the
//! same seed gives the same run in the virtual machine.

pub(crate) mod attempt;
mod branches;
mod database;
mod inline;
pub mod instances;
mod session;
mod transaction;
mod typed;
pub(crate) mod verbs;

pub use attempt::AnyAttempt;
pub use branches::{BranchName, Branches};
pub use database::{AnyDatabase, Traits};
pub use inline::{look_ahead_of, run_as};
pub use session::{AnyPrepared, AnySession, RoamingSession, Upkeep};
pub use transaction::Transaction;
pub use typed::{Database, Session};
pub use verbs::{AnyVerbs, Body, Reader, Span, Visitor};

pub use concurrency::RowWords;

pub use crate::row_batch::RowBatch;
pub use schema::row_keys::{is_key_column, with_keys};
