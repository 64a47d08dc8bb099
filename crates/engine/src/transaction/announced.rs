//! Keys that a transaction will look up soon, and the buckets where they are: so that each is
//! worked out once, when the bucket is asked for.

use platform::Platform;
use storage::hash::Approach;
use terms::rows::TableIndex;

/// Lists of keys that wait at the same time: TPC-C announces stocks, looks items up, and then the
/// stocks.
const LISTS: usize = 2;
/// No index.
const NOWHERE: TableIndex = TableIndex { table: usize::MAX, index: usize::MAX };

/// An index, and keys of it.
type List<'i, P> = (TableIndex, Vec<Approach<'i, P>>);

/// Keys of some hash indexes (table and index by number), in the order in which they were
/// announced.
pub(super) struct AnnouncedKeys<'i, P: Platform> {
    lists: [List<'i, P>; LISTS],
    /// The list that was added to last.
    last: usize,
    /// Memory for a list.
    spare: Vec<Approach<'i, P>>,
}

impl<P: Platform> Default for AnnouncedKeys<'_, P> {
    fn default() -> Self {
        AnnouncedKeys { lists: [const { (NOWHERE, Vec::new()) }; LISTS], last: 0, spare: Vec::new() }
    }
}

impl<'i, P: Platform> AnnouncedKeys<'i, P> {
    /// The keys of this index, to add others.
    #[inline(always)]
    pub(super) fn list(&mut self, place: TableIndex) -> &mut Vec<Approach<'i, P>> {
        if self.lists[self.last].0 != place {
            self.turn_to(place);
        }
        &mut self.lists[self.last].1
    }

    /// Forgets all keys, between two transactions.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.lists.iter_mut().for_each(|list| list.1.clear());
    }

    /// The list of another index: the oldest one is forgotten, if there is none yet.
    #[inline(never)]
    fn turn_to(&mut self, place: TableIndex) {
        self.last = self.lists.iter().position(|list| list.0 == place).unwrap_or((self.last + 1) % LISTS);
        let list = &mut self.lists[self.last];
        if list.0 != place {
            list.0 = place;
            list.1.clear();
        }
    }

    /// The keys of this index, which are forgotten. The caller gives the list back.
    #[inline]
    pub(super) fn take(&mut self, place: TableIndex) -> Vec<Approach<'i, P>> {
        let mut taken = std::mem::take(&mut self.spare);
        if let Some(list) = self.lists.iter_mut().find(|list| list.0 == place) {
            list.0 = NOWHERE;
            std::mem::swap(&mut taken, &mut list.1);
        }
        taken
    }

    /// Gives a list back that was taken.
    #[inline]
    pub(super) fn give_back(&mut self, mut list: Vec<Approach<'i, P>>) {
        list.clear();
        self.spare = list;
    }
}
