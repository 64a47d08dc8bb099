//! Modes of locks (Gray, Lorie, Putzolu, Traiger, "Granularity of locks and degrees of consistency
//! in a shared data base", 1976): how they exclude each other, and what two of them are together,
//! each in one table.
//!
//! The database and its tables are locked in all modes. A key is locked in shared or exclusive
//! mode. A gap is a place with keys below it: a transaction that relies on its being empty shares
//! it, and one that inserts into it intends to change something below.

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LockMode {
    /// Intends to share something below.
    IntentShare = 1,
    /// Intends to share or change something below.
    IntentExclude = 2,
    /// Reads the place and all below: other transactions may read, too.
    Share = 3,
    /// Reads the place and all below, and intends to change something below.
    ShareIntentExclude = 4,
    /// Excludes all other transactions from the place and all below.
    Exclude = 5,
}

use LockMode::{Exclude, IntentExclude, IntentShare, Share, ShareIntentExclude};

/// Number of modes.
pub(super) const MODES: usize = 5;

/// True where two transactions may have a place in both modes, in the order of their numbers.
const COMPATIBLE: [[bool; MODES]; MODES] = [
    //  IS     IX     S      SIX    X
    [true, true, true, true, false],
    [true, true, false, false, false],
    [true, false, true, false, false],
    [true, false, false, false, false],
    [false, false, false, false, false],
];

/// The weakest mode that is as strong as both.
const JOIN: [[LockMode; MODES]; MODES] = [
    [IntentShare, IntentExclude, Share, ShareIntentExclude, Exclude],
    [IntentExclude, IntentExclude, ShareIntentExclude, ShareIntentExclude, Exclude],
    [Share, ShareIntentExclude, Share, ShareIntentExclude, Exclude],
    [ShareIntentExclude, ShareIntentExclude, ShareIntentExclude, ShareIntentExclude, Exclude],
    [Exclude, Exclude, Exclude, Exclude, Exclude],
];

/// By mode, the modes below that need no more than that (`covered`: that need nothing any more), as
/// bits.
const fn bits_below(covered: bool) -> [u8; MODES] {
    let mut bits = [0; MODES];
    let mut number = 0;
    while number < MODES * MODES {
        let (above, below) = (LockMode::ALL[number / MODES], LockMode::ALL[number % MODES]);
        let is_enough = JOIN[above.index()][below.intent().index()] as u8 == above as u8;
        if if covered { above.covers(below) } else { is_enough } {
            bits[above.index()] |= below.bit();
        }
        number += 1;
    }
    bits
}

impl LockMode {
    /// All of them, in the order of their numbers.
    pub(super) const ALL: [LockMode; MODES] =
        [IntentShare, IntentExclude, Share, ShareIntentExclude, Exclude];

    /// The mode with this number; 0: none.
    pub(super) fn of(word: u64) -> Self {
        LockMode::ALL[word as usize - 1]
    }

    /// Its place in tables.
    pub(super) const fn index(self) -> usize {
        self as usize - 1
    }

    /// Returns true if two transactions may have the place in these modes.
    pub(crate) fn is_compatible(self, other: LockMode) -> bool {
        COMPATIBLE[self.index()][other.index()]
    }

    /// The weakest mode that is as strong as both.
    pub(crate) fn join(self, other: LockMode) -> LockMode {
        JOIN[self.index()][other.index()]
    }

    /// Returns true if the mode is as strong as another one.
    #[inline]
    pub(super) fn is_at_least(self, other: LockMode) -> bool {
        self.join(other) == self
    }

    /// The mode as one bit of many.
    #[inline]
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The modes below that are allowed to a transaction with this mode above, as bits.
    #[inline]
    pub(super) fn allowed_below(self) -> u8 {
        const ALLOWED: [u8; MODES] = bits_below(false);
        ALLOWED[self.index()]
    }

    /// The modes below that a transaction with this mode need not request, as bits.
    #[inline]
    pub(super) fn covered_below(self) -> u8 {
        const COVERED: [u8; MODES] = bits_below(true);
        COVERED[self.index()]
    }

    /// The mode needed on everything that contains a place, to lock the place in this mode.
    pub(crate) const fn intent(self) -> LockMode {
        match self {
            IntentShare | Share => IntentShare,
            IntentExclude | ShareIntentExclude | Exclude => IntentExclude,
        }
    }

    /// Returns true if a transaction with this mode needs no lock of mode `below` below.
    pub(crate) const fn covers(self, below: LockMode) -> bool {
        match self {
            IntentShare | IntentExclude => false,
            Share | ShareIntentExclude => matches!(below.intent(), IntentShare),
            Exclude => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rights that a mode gives its owner, and denies others: (reads all, reads some, changes
    /// all, changes some).
    fn rights(mode: LockMode) -> [bool; 4] {
        let reads_all = matches!(mode, Share | ShareIntentExclude | Exclude);
        let changes_some = matches!(mode, IntentExclude | ShareIntentExclude | Exclude);
        [reads_all, true, mode == Exclude, changes_some]
    }

    #[test]
    fn modes_exclude_each_other_as_rights_do() {
        for one in LockMode::ALL {
            for other in LockMode::ALL {
                let clash = |a: [bool; 4], b: [bool; 4]| (a[2] && b[1]) || (a[3] && b[0]);
                let (rights_of_one, rights_of_other) = (rights(one), rights(other));
                let clashes = clash(rights_of_one, rights_of_other) || clash(rights_of_other, rights_of_one);
                assert_eq!(one.is_compatible(other), !clashes, "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn a_join_has_the_rights_of_both_and_no_more() {
        for one in LockMode::ALL {
            for other in LockMode::ALL {
                let (a, b) = (rights(one), rights(other));
                let both: [bool; 4] = std::array::from_fn(|number| a[number] || b[number]);
                assert_eq!(rights(one.join(other)), both, "{one:?}, {other:?}");
            }
        }
    }

    #[test]
    fn a_cover_leaves_nothing_to_request() {
        for above in LockMode::ALL {
            for below in LockMode::ALL {
                // A transaction with an intention above must not be able to lock the place in a
                // mode that excludes this one.
                let [reads_all, _, changes_all, _] = rights(above);
                let needs = below.intent() == IntentExclude;
                assert_eq!(above.covers(below), if needs { changes_all } else { reads_all });
            }
        }
    }
}
