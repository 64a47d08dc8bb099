//! Checkers of correctness under concurrency: checks of recorded histories, and campaigns over
//! seeds.
//!
//! A [`Trial`] runs one workload under one scheme with one seed, in the virtual machine (whose
//! schedule the seed perturbs) or on hardware, and checks the result. A [`Campaign`] runs one trial
//! a seed, on all processors of the host.
//!
//! - [`history`]: the exact check of recorded transactions, from the known order of versions;
//!   `order` is the graph that it builds;
//! - [`second_opinion`]: the same check by the crate `adya`;
//! - `histories`, `bank`, `benchmark`: the workloads of trials;
//! - [`crashes`]: crashes of a machine with a durable database, damaged files and refused calls;
//!   `injected` counts the injected faults;
//! - `journal`: the record of a trial; `panics`, `mutex`: panics of trials;
//! - [`subject`]: the schemes under test and their mutants, as values;
//! - `task`: the work of one trial; `running` runs it; [`trial`], [`campaign`]: one seed, many
//!   seeds;

#![forbid(unsafe_code)]
// Recorders, campaigns and their threads stand outside the machine whose engine they observe.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod bank;
mod benchmark;
pub mod campaign;
pub mod crashes;
mod histories;
pub mod history;
mod injected;
mod journal;
mod mutex;
mod order;
mod panics;
mod running;
pub mod second_opinion;
pub mod subject;
mod task;
pub mod trial;

pub use campaign::{Campaign, Progress, Tally};
pub use history::{Change, Entry, History, Seen, Violation};
pub use injected::Injected;
pub use subject::{Driven, Subject, scheme, schemes};
pub use task::{Machine, Work};
pub use trial::{Failure, Trial, Verdict};
