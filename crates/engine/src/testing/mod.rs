//! Means to test what runs on the engine: an executor that shuffles.
//!
//! [`shuffled`] runs stored procedures as an executor on several machines might: actions of a phase
//! in any order, values as bytes, and no action outside of its route ([`inside`], [`watch`]).
//! Histories are recorded and judged by the `verify` crate.

pub mod inside;
pub mod shuffled;
pub mod watch;

pub use inside::Inside;
pub use shuffled::{Shuffle, run_shuffled};
pub use watch::Watch;
