//! Isles beside other engines: durable, serializable, the same clients, one machine, one file
//! system.
//!
//! - [`engine`]: what an engine does here; [`engines`]: each of them, with its settings and their
//!   sources.
//! - [`run`]: clients against an engine for a while; [`rounds`]: all engines in turn, and whether
//!   they kept their word.
//! - [`report`]: result rows, medians, ratios, the table.
//! - [`sizes`]: what engines take: memory, disk, and the time to open after a crash.
//!
//! The workload is that of the microbenchmark in `lab/workloads/src/micro`: a transaction takes
//! 10 distinct rows of 248 bytes, uniformly chosen from one table, and increments the counter of
//! each, or reads each as a whole. Others choose among few rows, insert new ones, or read 100 that
//! follow each other.

pub mod engine;
pub mod engines;
pub mod group_flush;
pub mod random;
pub mod report;
pub mod rounds;
pub mod run;
pub mod sizes;
