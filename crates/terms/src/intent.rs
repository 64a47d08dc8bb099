//! The intents of accesses to memory.

/// The intent of a touch or prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The lines are read.
    Read,
    /// The lines are written: they become exclusive to the core.
    Write,
}
