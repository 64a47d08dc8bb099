//! Tests of machines: discovery, descriptions, files and placement.

mod descriptions;
mod files;
mod placement;
mod snapshots;
mod support;
mod synthetic;
