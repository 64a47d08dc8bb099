//! Deployments, and what measurements derive.
#![allow(missing_docs)]

mod deployment;
mod measurement;
