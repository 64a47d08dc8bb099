//! Means to test what runs on the engine: a checker of histories and an executor that shuffles.
//!
//! [`history`] decides whether transactions that were recorded while they ran are serializable. [`shuffled`] runs stored
//! procedures as an executor on several machines might: actions of a phase in any order, values as bytes.

pub mod history;
mod order;
pub mod shuffled;

pub use history::{Change, Entry, History, Report, Seen, Violation};
pub use shuffled::{Shuffle, run_shuffled};
