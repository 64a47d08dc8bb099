//! The resolved configuration of a benchmark: every flag has its value, and nothing contradicts
//! anything else.
//!
//! [`resolve`] is pure: its inputs are the command line as typed and a few facts of the machine,
//! its result either a [`Config`] or one [`BadInput`](crate::BadInput).

mod asked;
mod changes;
mod effects;
mod like;
mod pages;
mod resolve;
mod resolved;
mod sharing;
#[cfg(test)]
pub(crate) mod tests;
mod workloads;

pub use crate::hot::Hot;
pub use asked::{Asked, Change};
pub use changes::At;
pub use resolve::resolve;
pub use resolved::Config;
pub use workloads::{
    BenchWorkload, Counter, Dependent, Ipc, Lock, Memory, Micro, RowCount, Split, Tatp, Tpcb, Tpcc, Workload,
    Ycsb,
};
