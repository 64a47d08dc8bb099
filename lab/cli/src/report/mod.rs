//! The result of a benchmark.
//!
//! The driver hands in what it counted, a [`Measurement`](harness::Measurement); [`Report::new`]
//! derives every rate and ratio from it, so that the numbers of one report agree. A report
//! serialises as the JSON object of the command-line contract and renders as text for people.

mod json;
mod page;
mod result;
#[cfg(test)]
mod tests;
mod text;
mod timeline;

pub use page::page;
pub use result::{Caches, Repetitions, Report, SimulationCost};
pub use text::{Style, render};
pub use timeline::{BINS, Bin};
