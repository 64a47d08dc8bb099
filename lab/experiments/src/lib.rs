//! Studies: published findings and figures, the runs behind them, and reports of the results.
//!
//! - `file`: study files;
//! - `expression`: the language in which a finding computes its value;
//! - `plan`, `execute`, `cache`: the runs, as child processes, identical ones once;
//! - `verdict`: judgement of the findings by their runs;
//! - `measured_figure`: points of the figures by their runs;
//! - `report`: the page of a study;
//! - `pages`: elements of pages, also for the reports of other crates;
//! - `numbers`: formats of numbers for people.
//!
//! This crate depends neither on the engine nor on the command line: a run is a list of arguments,
//! its result a JSON object.

#![forbid(unsafe_code)]
// Above the engine: it starts processes, reads files and writes pages.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod cache;
pub mod execute;
pub mod expression;
pub mod file;
pub mod measured_figure;
pub mod numbers;
pub mod pages;
pub mod plan;
pub mod report;
#[cfg(test)]
mod testing;
pub mod verdict;

pub use expression::Expression;
pub use file::{Figure, Finding, Position, Size, Study, StudyError};
pub use measured_figure::{FigureStatus, MeasuredFigure};
pub use plan::{Plan, Resolution, Selection};
pub use report::StudyResults;
pub use verdict::{Judgement, Verdict};
