//! The gaps that a transaction has locked, by the names of their locks.

use platform::Platform;

use crate::lock_word::LockWord;

/// The name of a lock: its address.
pub(super) fn name_of<P: Platform>(lock: &LockWord<P>) -> u64 {
    std::ptr::from_ref(lock).expose_provenance() as u64
}

/// Locks of gaps up to which they are searched one by one.
const SMALL_GAPS: usize = 64;

/// The locks of gaps that a transaction has.
#[derive(Default)]
pub(super) struct Gaps {
    /// Addresses of the lock words, once for each time.
    names: Vec<u64>,
    /// The same of a transaction with many: open addressing, each name and how often it has the
    /// lock; 0 where free.
    counts: Vec<(u64, u64)>,
}

impl Gaps {
    /// How often the transaction has the lock of this name.
    #[inline]
    pub(super) fn count(&self, name: u64) -> u64 {
        if self.counts.is_empty() {
            return self.names.iter().filter(|other| **other == name).count() as u64;
        }
        self.counts[self.slot(name)].1
    }

    pub(super) fn push(&mut self, name: u64) {
        self.names.push(name);
        if self.names.len() > SMALL_GAPS {
            self.enter();
        }
    }

    /// All names.
    pub(super) fn names(&self) -> impl Iterator<Item = u64> {
        self.names.iter().copied()
    }

    /// Removes all names.
    #[inline]
    pub(super) fn drain(&mut self) -> impl Iterator<Item = u64> {
        self.counts.clear();
        self.names.drain(..)
    }

    /// The position of the name, or where it would be inserted.
    fn slot(&self, name: u64) -> usize {
        let mask = self.counts.len() - 1;
        let mut slot = ((name >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.counts[slot].0 != 0 && self.counts[slot].0 != name {
            slot = (slot + 1) & mask;
        }
        slot
    }

    /// Counts the last one; the table is made, or made larger, when it is time.
    #[cold]
    fn enter(&mut self) {
        let mut first = self.names.len() - 1;
        if self.names.len() * 2 > self.counts.len() {
            let slots = (self.names.len() * 4).next_power_of_two();
            self.counts.clear();
            self.counts.resize(slots, (0, 0));
            first = 0;
        }
        for place in first..self.names.len() {
            let name = self.names[place];
            let slot = self.slot(name);
            self.counts[slot] = (name, self.counts[slot].1 + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_few_or_many() {
        let mut gaps = Gaps::default();
        for _ in 0..2 {
            for step in 0..10 * SMALL_GAPS as u64 {
                // Words of rows that follow each other, some of them again and again.
                let name = 64 + step % 100 * 8;
                let before = gaps.count(name);
                gaps.push(name);
                assert_eq!((before, gaps.count(name)), (step / 100, step / 100 + 1));
                assert_eq!(gaps.count(8), 0);
            }
            assert_eq!(gaps.names().count(), 10 * SMALL_GAPS);
            assert_eq!(gaps.drain().map(|name| name & 7).sum::<u64>(), 0);
            assert_eq!((gaps.names().count(), gaps.count(64)), (0, 0));
        }
    }
}
