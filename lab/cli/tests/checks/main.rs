//! The binary as a user meets it, and what its sources promise of each other.

mod bench_flags;
mod circles;
mod command_line;
mod conversions;
mod documents;
mod durable_instances;
mod footprints;
mod frozen;
mod indexes;
mod instances;
mod interrupts;
mod machines;
mod opened_again;
mod pairs;
mod rows;
mod rows_of_types;
mod study;
mod support;
mod tidy;
