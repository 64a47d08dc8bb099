//! Executors of procedures: inline, at the owners of partitions, shuffled.

pub(crate) mod executor;
pub(crate) mod executors;
pub(crate) mod owning;
