//! Links between processes, in plain text and over TLS.

// Tests hand ends to workers; no simulated time passes under a lock.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod authority;
mod processes;
mod secured;
mod strangers;
mod support;
