//! Changes of pages as they happen, and as they are repeated from the log: the same steps.

use platform::{Intent, Platform};

use super::{Change, HEADER, HEAP, KeyPlace, LSN, NewEntry, Page};
use crate::lsn::Lsn;

impl<P: Platform> Page<'_, P> {
    /// End of the record of the last change in the log.
    pub(crate) fn lsn(self) -> Lsn {
        Lsn(P::peek(&self.words[LSN]))
    }

    /// Sets the end of the record of the last change.
    ///
    /// Pre: the page is latched.
    pub(crate) fn set_lsn(self, lsn: Lsn) {
        P::poke(&self.words[LSN], lsn.0);
    }

    /// Makes a change of the entry of a key that has this place. Returns false if the page is not
    /// one on which the change can have been made.
    ///
    /// Pre: the page is latched, and the entry fits.
    pub(crate) fn apply(self, c: P::Core, place: KeyPlace, change: Change<'_>) -> bool {
        let KeyPlace { entry: at, is_there } = place;
        match change {
            Change::Put { key, parts, ghost } if is_there => {
                if !self.fits_instead(self.slot(c, at), key, parts.words()) {
                    return false;
                }
                self.replace(c, at, key, parts);
                if ghost {
                    self.set_ghost(c, at, true);
                }
            }
            Change::Put { key, parts, ghost: false } => {
                if !self.fits(key, parts.words()) {
                    return false;
                }
                self.insert(c, at, key, NewEntry::Record(parts));
            }
            Change::Mark { ghost, .. } if is_there => self.set_ghost(c, at, ghost),
            Change::Write { first, words, .. } if is_there => {
                let Some(record) = self.record(self.slot(c, at), first, words.len()) else { return false };
                P::write_words(c, record, words);
            }
            Change::Remove { .. } if is_there => self.remove(c, at),
            _ => return false,
        }
        true
    }

    /// Repeats a change of a leaf's entry.
    ///
    /// Pre: the page is latched.
    #[must_use]
    pub(crate) fn apply_again(self, c: P::Core, change: Change<'_>) -> bool {
        let (Change::Put { key, .. }
        | Change::Mark { key, .. }
        | Change::Write { key, .. }
        | Change::Remove { key }) = change
        else {
            return false;
        };
        let place = self.find(c, key);
        self.level() == 0 && self.takes(key) && self.apply(c, place, change)
    }

    /// Forgets the entries from `from` on, which another page has by now.
    ///
    /// Pre: the page is latched.
    pub(crate) fn truncate(self, c: P::Core, from: usize) {
        let count = self.count();
        let mut shape = self.shape();
        if self.has_records() {
            let gone: usize = (from..count).map(|entry| self.slot(c, entry).words()).sum();
            self.add_garbage(gone);
        }
        shape.count = from.min(count);
        shape.last = shape.last.min(from);
        self.touch_header(c, Intent::Write);
        self.set_shape(shape);
    }

    /// Enters a child that covers the keys from `separator` on.
    ///
    /// Pre: the page is latched, an inner page, and has room.
    pub(crate) fn insert_child(self, c: P::Core, separator: &[u64], child: u64) {
        let at = self.count_up_to(c, separator);
        self.insert(c, at, separator, NewEntry::Child(child));
    }

    /// Makes a root of two children, the left one and the right one.
    ///
    /// Pre: the page is latched.
    pub(crate) fn become_root(
        self,
        c: P::Core,
        number: u64,
        tree: u32,
        level: usize,
        separator: &[u64],
        [left, right]: [u64; 2],
    ) {
        // A root covers all keys: no key is less than that of its first entry.
        let first = crate::key::ShortKey::from_fn(self.width, |_| 0);
        let lsn = self.lsn();
        self.format(c, number, tree, level);
        self.set_lsn(lsn);
        self.insert(c, 0, &first, NewEntry::Child(left));
        self.insert(c, 1, separator, NewEntry::Child(right));
    }

    /// Makes the page one that was never written.
    ///
    /// Pre: the page is latched.
    pub(crate) fn clear(self, c: P::Core) {
        self.touch_header(c, Intent::Write);
        self.words[..HEADER].iter().for_each(|word| P::poke(word, 0));
        debug_assert_eq!(P::peek(&self.words[HEAP]), 0);
    }
}
