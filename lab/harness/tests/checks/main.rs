//! Tests of deployments, runs and measurements.
#![allow(missing_docs, clippy::disallowed_methods)]

mod adapting;
mod chains;
mod changing;
mod clients;
mod deployment;
mod durable;
mod look_ahead;
mod machines;
mod measurement;
mod memory;
mod owners;
mod pages;
mod pairs;
mod retry;
mod several;
mod support;
