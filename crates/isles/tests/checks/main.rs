//! Tests of the embedded library from a program's view, under all schemes.
#![allow(missing_docs)]

mod altering;
mod altering_killed;
mod at_once;
mod backups;
mod bad_input;
mod changes;
mod changes_killed;
mod changing;
mod common;
mod constraint_changes;
mod constraint_races;
mod constraints;
mod converting;
mod deployments;
mod described;
mod durabilities;
mod errors;
mod examples;
mod expiry;
#[cfg(all(feature = "time", feature = "uuid"))]
mod foreign;
mod forks;
mod full;
mod iterators;
mod limits;
mod long_keys;
mod long_primary;
mod observing;
mod openings;
mod owned;
mod pages;
mod pages_waits;
mod procedures;
// The unit tests of the file: as tests of the library they would need a further compilation of all
// schemes.
#[allow(dead_code)]
#[path = "../../src/range.rs"]
mod range;
mod read_copies;
mod retyping;
mod savepoints;
mod sequences;
mod sleeping;
mod snapshots;
mod tables;
mod tasks;
mod threads;
mod types;
mod upkeep;
mod verbs;
mod waiting;
