//! Studies: published findings, the runs that test them, and how the outcome is shown.
//!
//! - `file`: study files;
//! - `expression`: the language in which a finding computes its value;
//! - `plan`, `execute`, `cache`: the runs, as child processes, identical ones once;
//! - `verdict`: what they say;
//! - `report`: the page of a study;
//! - `pages`: what pages are made of, for the reports of other crates too;
//! - `numbers`: numbers as people read them.
//!
//! This crate knows neither the engine nor the command line: a run is a list of arguments, its
//! result a JSON object.

#![forbid(unsafe_code)]
// Above the engine: it starts processes, reads files and writes pages.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod cache;
pub mod execute;
pub mod expression;
pub mod file;
pub mod numbers;
pub mod pages;
pub mod plan;
pub mod report;
#[cfg(test)]
mod testing;
pub mod verdict;

pub use expression::Expression;
pub use file::{Finding, Study, StudyError};
pub use plan::{Plan, Resolution};
pub use verdict::{Judgement, Verdict};
