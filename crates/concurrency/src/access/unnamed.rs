//! Rows of which words were read as they were found, and that no verb names afterwards: of each
//! only the version is remembered, for the end of the transaction. A row that is read twice is here
//! twice, and among the transaction's other rows if it is changed later.

use platform::{Address, Platform};
use storage::{RecordHeader, RecordRef};

use super::row::ROWS_MAX;
use terms::{Abort, Conflict};

/// Rows in the list before the first search for rows that are in it twice.
const ROWS_BEFORE_SEARCH: usize = 1 << 20;

/// One of these rows.
pub(crate) struct UnnamedRow<P: Platform, H> {
    pub row: RecordRef<P, H>,
    /// Its version, unlocked and present, as its words were read.
    pub seen: u64,
}

impl<P: Platform, H: RecordHeader<P>> UnnamedRow<P, H> {
    pub(crate) fn place(&self, c: P::Core) -> Address {
        P::address(c, self.row.start())
    }
}

/// These rows of one transaction.
pub(crate) struct UnnamedRows<P: Platform, H> {
    list: Vec<UnnamedRow<P, H>>,
    /// How long the list may become before a search for rows that are in it twice.
    room: usize,
}

impl<P: Platform, H: RecordHeader<P>> UnnamedRows<P, H> {
    pub(super) fn new() -> Self {
        UnnamedRows { list: Vec::new(), room: ROWS_BEFORE_SEARCH }
    }

    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.room = ROWS_BEFORE_SEARCH;
    }

    /// The rows.
    #[inline(always)]
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, UnnamedRow<P, H>> {
        self.list.iter()
    }

    /// How many entries there are.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Remembers a row.
    #[inline(always)]
    pub(crate) fn push(&mut self, c: P::Core, row: RecordRef<P, H>, seen: u64) -> Result<(), Abort> {
        if self.list.len() >= self.room {
            self.make_room(c)?;
        }
        self.list.push(UnnamedRow { row, seen });
        Ok(())
    }

    /// Forgets what is known twice. The list may become twice as long then before that is done
    /// again.
    #[cold]
    fn make_room(&mut self, c: P::Core) -> Result<(), Abort> {
        self.list.sort_unstable_by_key(|row| row.place(c));
        let mut changed = false;
        self.list.dedup_by(|later, row| {
            let is_same = later.place(c) == row.place(c);
            changed |= is_same && later.seen != row.seen;
            is_same
        });
        if changed {
            return Err(Abort::Conflict(Conflict::ReadChanged));
        }
        if self.list.len() >= ROWS_MAX {
            return Err(Abort::TooLarge { limit: ROWS_MAX });
        }
        self.room = ROWS_BEFORE_SEARCH.max(2 * self.list.len()).min(ROWS_MAX);
        Ok(())
    }
}
