//! Deployments: values that are derived from a request and a machine (with threads chosen by
//! [`machine::place_workers`]), read from a file, or built by a program. Guide:
//! `docs/deployments.md`.
//!
//! - `value`: the deployment; `error`: the reasons for refusing one;
//! - `memory`: the memory nodes of rows; `request`: deployments that follow from a machine;
//! - `file`: the form in files; `run_file`: files that also name the workload.

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
