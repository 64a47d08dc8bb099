//! The engine under all schemes, on hardware and in the virtual machine, against models.
#![allow(missing_docs)]
// Tests collect what workers recorded behind the platform's back.
#![allow(clippy::disallowed_types)]

mod altering;
mod announced_keys;
mod both_ways;
mod branches;
mod changing;
mod changing_forms;
mod changing_open;
mod columns;
mod constant;
mod content;
mod durable;
mod durable_files;
mod endings;
mod epochs;
mod fairness;
mod long_readers;
mod misuse;
mod model;
mod nodes;
mod outside;
mod owning;
mod parts;
mod reclamation;
mod routes;
mod runs;
mod scans;
mod shared_reads;
mod shuffled;
mod sleeping;
mod support;
mod time_travel;
mod whole_groups;
mod without;
