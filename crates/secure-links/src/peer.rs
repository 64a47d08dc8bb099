//! Identities of the ends of a link.

use std::fmt;

/// A worker of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// Number of the instance.
    pub instance: u16,
    /// Number of the worker within it.
    pub worker: u16,
}

impl fmt::Display for Peer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "worker {} of instance {}", self.worker, self.instance)
    }
}
