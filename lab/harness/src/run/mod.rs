//! Runs of workloads of transactions, and the choice of the platform.

mod clients;
pub(crate) mod platforms;
mod progress;
pub(crate) mod transactions;
