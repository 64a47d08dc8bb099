//! Benchmark workloads: tables, loaders, transactions, consistency checks.

#![forbid(unsafe_code)]

pub mod batch;
pub mod changing;
pub mod counter;
pub mod dependent;
mod findings;
pub mod flow;
pub mod ipc;
mod lines;
pub mod lock;
pub mod measure;
pub mod memory;
pub mod micro;
pub mod tatp;
mod threads;
pub mod tpcb;
pub mod tpcc;
pub mod workload;
pub mod ycsb;
pub mod zipf;

pub use changing::{ChangeError, Changing};
pub use workload::{Check, LoadedWith, Outcome, Workload};
