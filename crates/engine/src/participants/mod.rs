//! Parts of transactions over several databases, and branches of transactions over several workers.

pub(crate) mod open_branches;
pub(crate) mod parts;
pub(crate) mod undecided;
