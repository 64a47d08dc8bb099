//! Dates, times and lengths of time, with the ranges and the texts of PostgreSQL.
//!
//! - `calendar`: days of the calendar, and digits;
//! - `dates`: [`Date`], [`Time`], [`Timestamp`], [`TimestampTz`];
//! - `interval`: [`Interval`];
//! - `elsewhere`: `SystemTime` and `Duration` of the standard library as columns, and conversions
//!   to and from the crate `time` (feature `time`).

mod calendar;
mod dates;
mod elsewhere;
mod interval;

pub use dates::{Date, Time, Timestamp, TimestampTz};
pub use interval::Interval;
