//! Changes of pages, as values that the log records and a restart repeats.

use super::RecordParts;

/// A change of pages: the same when it is made, and when it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change<'r> {
    /// A leaf has this record under the key now, as a new entry or instead of another record.
    Put { key: &'r [u64], parts: RecordParts<'r>, ghost: bool },
    /// A record becomes a ghost, or is there again.
    Mark { key: &'r [u64], ghost: bool },
    /// Words of a record, from number `first` on.
    Write { key: &'r [u64], first: usize, words: &'r [u64] },
    /// An entry leaves.
    Remove { key: &'r [u64] },
    /// The first page keeps `stays` entries; the second one, which is new, is this; the third one
    /// gets an entry for the second.
    Split { separator: &'r [u64], stays: usize, right: &'r [u64] },
    /// The first page, a root, has two entries from now on: the other two pages, which are new.
    SplitRoot { separator: &'r [u64], left: &'r [u64], right: &'r [u64] },
    /// The first page gets all that the second one has, which is this; the third one loses the
    /// entry for the second. The second page is free.
    Merge { entry: usize, right: &'r [u64] },
    /// The first page, a root, gets all that the second one has, its only child, which is this. The
    /// second page is free.
    MergeRoot { child: &'r [u64] },
}

impl Change<'_> {
    /// Pages that it is made to.
    pub(crate) fn pages(self) -> usize {
        match self {
            Change::Put { .. } | Change::Mark { .. } | Change::Write { .. } | Change::Remove { .. } => 1,
            Change::MergeRoot { .. } => 2,
            Change::Split { .. } | Change::SplitRoot { .. } | Change::Merge { .. } => 3,
        }
    }

    /// Returns true if the change makes the page at this place of the list.
    pub(crate) fn makes(self, place: usize) -> bool {
        match self {
            Change::Split { .. } => place == 1,
            Change::SplitRoot { .. } => place > 0,
            _ => false,
        }
    }

    /// Returns true if the change frees the page at this place of the list.
    pub(crate) fn frees(self, place: usize) -> bool {
        matches!(self, Change::Merge { .. } | Change::MergeRoot { .. }) && place == 1
    }
}
