//! The engine under all schemes, on hardware and in the virtual machine, against models and a checker of histories.
#![allow(missing_docs)]
// Tests collect what workers recorded behind the platform's back.
#![allow(clippy::disallowed_types)]

mod databases;
mod endings;
mod histories;
mod model;
mod reclamation;
mod serializability;
mod shuffled;
mod support;
mod time_travel;
