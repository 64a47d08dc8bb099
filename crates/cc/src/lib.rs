//! Concurrency control: one [`Scheme`] trait, and every scheme a module.

#![deny(unsafe_op_in_unsafe_fn)]

mod abort;

pub use abort::{Abort, Conflict};
