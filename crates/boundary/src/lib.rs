//! The boundary that storage managers implement. A storage manager is an engine of its own: its
//! rows, its locks, its log. The memory engine and the engine over pages are two.
//!
//! The object-safe traits are for callers that know neither scheme nor row types when they are
//! compiled, or that want one compiled copy of an engine whatever their own callers choose: the
//! embedded library, workloads in the virtual machine, campaigns, loading and checks. Typed rows
//! come on top of the objects. Procedures are written against [`Verbs`] and run on the objects as
//! well as compiled in one piece with the memory engine.
//!
//! - `any_verbs`: [`AnyVerbs`], the operations of a transaction over numbers, words and bytes;
//! - `verbs`: [`Verbs`], the same over typed rows; `transaction`: [`Transaction`], typed rows on an
//!   object; `row_batch`: rows that are inserted together; `savepoints`: those of a transaction;
//! - `attempt`: [`AnyAttempt`], a transaction that outlives the call that began it;
//! - `session`, `database`: [`AnySession`] and [`AnyDatabase`], the objects; `handles`:
//!   [`Session`] and [`Database`], owners of objects with typed transactions;
//! - `branches`: [`Branches`], the work of several workers for one transaction;
//! - `procedure`, `inline`, `look_ahead`: stored procedures and how one worker runs them;
//! - `attempts`: the loop that attempts a transaction until it ends;
//! - `contention`: pauses after conflicts, and the elder, which goes before all others;
//! - `ending`: bounds, outcomes and counts; `participants`: names, votes and outcomes of
//!   transactions over several databases;
//! - `declaration`, `changes`, `altering`, `opening`: tables as a program declares them, changes of
//!   tables, and those within a transaction, options and errors of an opening; `directory`: the
//!   description of tables in a directory;
//! - `change_stream`: committed changes for readers;
//! - `loader`, `inspector`: fill tables and read them while no transaction runs.

#![forbid(unsafe_code)]

mod altering;
mod any_verbs;
mod attempt;
mod attempts;
mod branches;
mod change_stream;
mod changes;
mod contention;
mod database;
mod declaration;
pub mod directory;
mod ending;
mod handles;
mod inline;
mod inspector;
mod loader;
mod look_ahead;
mod opening;
mod participants;
pub mod procedure;
mod row_batch;
mod savepoints;
mod session;
mod transaction;
mod verbs;

pub use altering::{TableChanges, TableHold};
pub use any_verbs::{AnyVerbs, Body, Reader, RowVisitor, Span};
pub use attempt::AnyAttempt;
pub use attempts::{Attempts, attempt_until_it_ends};
pub use branches::{BorderChange, BranchName, BranchReport, Branches, OtherBranches};
pub use change_stream::{
    AnyChangeStream, ChangeSource, ChangedRow, ChangedTable, ChangesError, ChangesFrom, CommittedChanges,
    LogPosition, ReaderPlace, RowChange,
};
pub use changes::{ChangeError, ChangeStep, Swept, TableChange};
pub use contention::{Backoff, Elder, Eldership, FIXED_PAUSE_NANOS, Pauses};
pub use database::{AnyDatabase, Occupant, Traits};
pub use declaration::{Declared, KeysOf, RowKeys, SchemaBuilder, TableDivision};
pub use ending::{Bounds, Commit, Ending, Stats};
pub use handles::{Database, Session};
pub use inline::{Attempt, look_ahead_of, run_as, run_inline};
pub use inspector::{JointInspector, RowInspector, RowSource};
pub use loader::RowLoader;
pub use look_ahead::LookAhead;
pub use opening::{DurableOptions, OpenError, Progress, Recovered, SchemaError, Stage};
pub use participants::{Decision, GlobalId, Outcome, PartOf, Vote};
pub use procedure::{Plan, Procedure};
pub use row_batch::RowBatch;
pub use savepoints::{SAVEPOINTS_MAX, Savepoint, SavepointList};
pub use session::{AnyPrepared, AnySession, RoamingSession, Upkeep};
pub use transaction::Transaction;
pub use verbs::{Direction, Fields, ScanOrder, Verbs, Visitor};
