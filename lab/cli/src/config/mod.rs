//! The resolved configuration of a benchmark: every flag has its value, and nothing contradicts
//! anything else.
//!
//! [`resolve`] is pure: its inputs are the command line as typed and a few facts of the machine,
//! its result either a [`Config`] or one [`BadInput`](crate::BadInput).

mod asked;
mod changes;
mod effects;
mod hot;
mod like;
mod pages;
mod resolve;
#[cfg(test)]
pub(crate) mod tests;
mod types;
mod workloads;

pub use asked::{Asked, Change};
pub use changes::At;
pub use hot::Hot;
pub use resolve::resolve;
pub use types::Config;
pub use workloads::{
    BenchWorkload, Counter, Dependent, Ipc, Lock, Memory, Micro, RowCount, Split, Tatp, Tpcb, Tpcc, Workload,
    Ycsb,
};
