//! Machines that are discovered, described, read from files and placed on.

mod descriptions;
mod files;
mod placement;
mod snapshots;
mod support;
mod synthetic;
