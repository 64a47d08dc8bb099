//! The binary as a user meets it, and what its sources promise of each other.

mod circles;
mod command_line;
mod durable_instances;
mod indexes;
mod instances;
mod machines;
mod rows;
mod study;
