//! Runs of workloads of transactions, and the choice of the platform.

pub(crate) mod platforms;
mod progress;
pub(crate) mod transactions;
