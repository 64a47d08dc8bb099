//! Faults that a run injects: sockets that fail, instances and connections that are lost.

pub(crate) mod failing;
pub(crate) mod troubles;
