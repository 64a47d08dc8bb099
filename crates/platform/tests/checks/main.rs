//! The guarantees of the platform, on hardware.

// Tests hand ends to workers; no simulated time passes under a lock.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod links;
mod support;
