//! The checkers, and campaigns of all schemes and mutants.
#![allow(missing_docs)]

mod agreement;
mod anomalies;
mod campaigns;
mod crashes;
mod files;
mod gaps;
mod owners;
mod pages;
mod refusals;
mod stamps;
mod support;
mod touches;
mod ways;
