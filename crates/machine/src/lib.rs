//! What machine is this: topology, distances, islands and placements.

#![forbid(unsafe_code)]

mod ids;

pub use ids::{HardwareThread, Node};
