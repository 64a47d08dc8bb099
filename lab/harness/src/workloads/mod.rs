//! The list of workloads, and experiments without a database.

pub(crate) mod any;
pub(crate) mod counter;
pub(crate) mod experiments;
pub(crate) mod lock;
pub(crate) mod processes;
pub(crate) mod workload;
