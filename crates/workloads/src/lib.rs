//! Benchmark workloads: tables, loaders, transactions, consistency checks.

#![forbid(unsafe_code)]

pub mod random;
pub mod tpcc;
pub mod workload;

pub use random::Random;
pub use workload::{Check, Outcome, Workload};
