//! Lines of the machine's memory, and what an access does with one.

use platform::Intent;

/// Number of a line; line 0 stands for all private memory.
pub(crate) type LineNumber = u32;
/// All private memory.
pub(crate) const PRIVATE_LINE: LineNumber = 0;

/// What an access does with its line.
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
