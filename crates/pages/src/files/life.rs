//! Lives of a database, and what was lost between two of them.

use crate::lsn::Lsn;

/// A life of a database, from one opening to the next. A copy has the lives of its original; each
/// of the two has its own from its next opening on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// No other one has it, in whichever directory.
    pub name: u64,
    /// The end of the log that it found.
    pub continues: Lsn,
    /// The first byte of its own log: what lay between, if anything, was lost.
    pub begins: Lsn,
}

/// Returns true if a change that ended here in the log lay behind the end that a later generation
/// has found.
pub(crate) fn is_lost(lives: &[Life], lsn: Lsn) -> bool {
    let later = lives.partition_point(|life| life.continues < lsn);
    later > 0 && lsn <= lives[later - 1].begins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(name: u64, end: u64) -> Life {
        Life { name, continues: Lsn(end), begins: Lsn(end + 5) }
    }

    #[test]
    fn what_lies_between_two_lives_was_lost() {
        let lives = [Life { begins: Lsn(0), ..life(1, 0) }, life(2, 50), life(3, 90)];
        let lost = (0..200).filter(|lsn| is_lost(&lives, Lsn(*lsn))).collect::<Vec<_>>();
        assert_eq!(lost, [51, 52, 53, 54, 55, 91, 92, 93, 94, 95]);
        assert!(!is_lost(&[], Lsn(7)));
    }
}
