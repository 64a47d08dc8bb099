//! Whether the engine is right under concurrency: checkers of histories, and campaigns over seeds.
//!
//! A [`Trial`] runs one workload under one scheme with one seed, in the virtual machine (whose
//! schedule the seed perturbs) or on hardware, and judges what happened. A [`Campaign`] is a trial
//! for each of many seeds, on all processors of the host.
//!
//! - [`history`]: the exact check of recorded transactions, from the known order of versions;
//! - [`second_opinion`]: the same histories before a checker by others;
//! - `histories`, `bank`, `benchmark`: what runs;
//! - [`crashes`]: crashes of a machine with a durable database; `injected` counts what goes wrong
//!   there;
//! - [`subject`]: the schemes, as values;
//! - `task`: what one seed runs; `running` runs it; [`trial`], [`campaign`]: one seed, many seeds.

#![forbid(unsafe_code)]
// Recorders, campaigns and their threads stand outside the machine whose engine they observe.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod bank;
mod benchmark;
pub mod campaign;
mod caught;
pub mod crashes;
mod histories;
pub mod history;
mod injected;
mod journal;
mod order;
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
