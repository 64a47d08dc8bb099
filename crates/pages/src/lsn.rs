//! Places in the log.

/// A byte of the log, counted from its beginning; 0: none. A record ends at its LSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lsn(pub u64);
