//! Checkpoints: the master file, their making, and the prepared parts and decisions that they
//! carry.

pub(crate) mod checkpoint;
pub(crate) mod master;
pub(crate) mod undecided;
