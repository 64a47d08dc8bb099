//! Owners of partitions of a durable database in memory, in the virtual machine.
#![allow(missing_docs)]
// Tests agree behind the platform's back on what is next.
#![allow(clippy::disallowed_types)]

mod long_messages;
mod stamps;
mod support;
