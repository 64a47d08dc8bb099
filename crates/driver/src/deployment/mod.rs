//! Where a workload runs: a value, made from a request and a machine (threads are chosen by [`machine::place_workers`]), read
//! from a file, or put together by a program. Guide: `docs/deployments.md`.
//!
//! - `value`: the deployment; `error`: why there is none;
//! - `memory`: the memory nodes of rows; `request`: deployments that follow from a machine;
//! - `file`: the form in files; `deployed`: files that say what runs, too.

mod deployed;
mod error;
mod file;
mod memory;
mod request;
mod value;

pub use deployed::{Deployed, Machines};
pub use error::DeploymentError;
pub use memory::MemoryPlacement;
pub use request::DeploymentRequest;
pub use value::{Deployment, Instance, Partitioning, Transport, WorkerPlace};
