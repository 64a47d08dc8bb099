//! What memory is touched for.

/// What a touch or prefetch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// The lines are read.
    Read,
    /// The lines are written: they become exclusive to the core.
    Write,
}
