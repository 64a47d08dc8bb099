//! Isles beside other engines: durable, serializable, the same clients, one machine, one file
//! system.
//!
//! - [`engine`]: the operations of an engine; [`engines`]: the engines, with their settings and the
//!   sources of these.
//! - [`run`]: the clients of an engine for a while; [`rounds`]: all engines in turn, with checks of
//!   their rows.
//! - [`report`]: result rows, medians, ratios, the table.
//! - [`sizes`]: the memory and disk space of engines, and the time to open after a crash.
//!
//! The workload is that of the microbenchmark in `lab/workloads/src/micro`: a transaction chooses
//! 10 distinct rows of 248 bytes uniformly from one table, and increments the counter of each, or
//! reads each row completely. Other operations choose among few rows, insert new rows, or read 100
//! consecutive rows.

pub mod engine;
pub mod engines;
pub mod group_flush;
pub mod random;
pub mod report;
pub mod rounds;
pub mod run;
pub mod sizes;
