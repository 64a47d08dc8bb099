//! Modes of locks.

/// How a place is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum LockMode {
    /// To read it: others may, too.
    Share = 1,
    /// To insert into a gap: others may, too, but may not rely on what is in the gap.
    Insert = 2,
    /// To have it alone.
    Exclude = 3,
}

impl LockMode {
    pub(super) fn of(word: u64) -> Self {
        match word {
            1 => LockMode::Share,
            2 => LockMode::Insert,
            _ => LockMode::Exclude,
        }
    }

    /// Whether two transactions may have the place so.
    pub(crate) fn is_compatible(self, other: LockMode) -> bool {
        self == other && self != LockMode::Exclude
    }

    /// The weakest mode that is as strong as both.
    pub(crate) fn join(self, other: LockMode) -> LockMode {
        if self == other { self } else { LockMode::Exclude }
    }
}
