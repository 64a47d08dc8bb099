//! Lines of the machine's memory, and accesses to them.

use platform::Intent;

/// Number of a line; line 0 stands for all private memory.
pub(crate) type LineNumber = u32;
/// The line that stands for all private memory.
pub(crate) const PRIVATE_LINE: LineNumber = 0;

/// Kind of an access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Read-modify-write.
    Atomic,
}

impl From<Intent> for Access {
    fn from(intent: Intent) -> Access {
        match intent {
            Intent::Read => Access::Read,
            Intent::Write => Access::Write,
        }
    }
}

/// Arrival of a line at a core that requested it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at_ps: u64,
    /// True if the line comes from a cache and other cores have or had it.
    pub(crate) shared: bool,
}
