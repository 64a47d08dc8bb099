//! Crashes of a database on a simulated disk: its machine stops at any moment, loses its power or
//! only its processes, and restarts, several times over the same disk.
//!
//! Each worker runs numbered transactions that change one shared row, rows of its own (inserted,
//! changed, deleted) and a counter of its own; it acknowledges a number when its commit is durable.
//! After each crash the database has to hold, for each worker, exactly the effects of its first N
//! transactions, where N is at least the last number acknowledged; and the shared row has to be the
//! sum of all. So no acknowledged transaction is lost, none is half applied, and none is there
//! without those that it depends on. In the end the files are also checked as `isles check` does.
//!
//! - `machine`: one database; `workload`: its transactions and its check;
//! - [`branches`]: prepared branches of distributed transactions; [`owners`]: workers that own
//!   partitions; [`forms`]: a table whose rows change their form;
//! - [`deployments`]: several instances that crash together; [`instances`]: some that crash while
//!   the others run; [`deployment_trial`]: the boots of both; `cluster`: their machines; `ledger`:
//!   their transactions and their check;
//! - [`files`]: damaged files; [`refusals`]: calls that the operating system refuses;
//! - [`killed`] and [`killed_instances`]: processes that are killed; `process`: one of them.

pub mod branches;
mod cluster;
pub mod deployment_trial;
pub mod deployments;
pub mod files;
pub mod forms;
pub mod instances;
pub mod killed;
pub mod killed_instances;
mod ledger;
mod machine;
pub mod owners;
pub(crate) mod process;
pub mod refusals;
mod workload;

pub(crate) use machine::run;
pub use machine::{faults, violations};
