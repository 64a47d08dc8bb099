//! Where a workload runs: a value, made from a request and a machine (threads are chosen by
//! [`machine::place_workers`]), read from a file, or put together by a program. Guide:
//! `docs/deployments.md`.
//!
//! - `value`: the deployment; `error`: why there is none;
//! - `memory`: the memory nodes of rows; `request`: deployments that follow from a machine;
//! - `file`: the form in files; `run_file`: files that say what runs, too.

mod error;
mod file;
mod memory;
mod request;
mod run_file;
mod value;

pub use error::DeploymentError;
pub use memory::MemoryPlacement;
pub use request::DeploymentRequest;
pub use run_file::{Machines, RunFile};
pub use value::{Deployment, Instance, Partitioning, Transport, WorkerPlace};
