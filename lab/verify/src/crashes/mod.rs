//! Crashes: a database on a simulated disk whose machine stops at any moment, loses its power or
//! only its processes, and is booted again, several times over the same disk.
//!
//! Each worker runs numbered transactions that change a row which all share, rows of its own
//! (inserted, changed, deleted) and a counter of its own; it acknowledges a number when its commit
//! is durable. After every crash the database has to hold, for each worker, the effects of exactly
//! its first so many transactions, at least as many as it acknowledged, and the shared row the sum
//! of all: so no acknowledged transaction is lost, none is there by half, and none without those
//! that it depends on. [`deployments`] are several instances, on one machine or on several, which
//! are judged by what they hold together; [`instances`] are the same, of which some crash while the
//! others run on, or connections break; and [`killed_instances`] the same as processes. [`files`]
//! is what happens to files of a directory while no program has it open, [`refusals`] calls that
//! the system refuses meanwhile. [`forms`] is a table whose rows get another form meanwhile.
//! [`lives`] are what both have in common. In the end the files are also judged as `isles check`
//! does.

pub mod deployments;
pub mod files;
pub mod forms;
pub mod instances;
pub mod killed;
pub mod killed_instances;
mod ledger;
pub mod lives;
mod machine;
pub mod owners;
pub mod parts;
mod places;
pub(crate) mod process;
pub mod refusals;
mod workload;

pub(crate) use machine::run;
pub use machine::{faults, violations};
