//! Executors of procedures: inline, by owners of partitions, shuffled.

pub(crate) mod executor;
pub(crate) mod executors;
pub(crate) mod owning;
