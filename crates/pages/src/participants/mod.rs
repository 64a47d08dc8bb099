//! Parts of transactions over several databases, and branches of transactions of several workers.

pub(crate) mod branches;
pub(crate) mod parts;
