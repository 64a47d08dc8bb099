//! Benchmark workloads: tables, loaders, transactions, consistency checks.
//!
//! - [`workload`]: the trait of workloads; [`changing`]: a workload that changes while it runs;
//! - [`tpcc`], [`tpcb`], [`tatp`], [`ycsb`], [`micro`], [`dependent`]: the workloads;
//! - [`batch`]: requests for rows grouped into actions; [`zipf`]: skewed choice; `dense`: perfect
//!   hashes; `findings`: violations that a check has found;
//! - [`flow`]: the actions of a workload's transactions and their tables, derived by a trace;
//! - [`counter`], [`memory`], [`ipc`], [`lock`], [`measure`]: experiments without a database, on
//!   `threads` and `lines`.

#![forbid(unsafe_code)]

pub mod batch;
pub mod changing;
pub mod counter;
mod dense;
pub mod dependent;
pub mod equal_instances;
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
