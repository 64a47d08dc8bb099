//! Means to test what runs on the engine: an executor that shuffles.
//!
//! [`shuffled`] runs stored procedures as an executor on several machines might: actions of a phase in any order, values
//! as bytes. Histories are recorded and judged by the `verify` crate.

pub mod shuffled;

pub use shuffled::{Shuffle, run_shuffled};
