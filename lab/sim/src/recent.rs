//! Lists of operations that are under way, or were a moment ago.

use crate::line::LineNumber;

/// Ended entries are kept this long, because lines of one touch are requested ahead of the core's
/// clock.
const REMEMBERED_PS: u64 = 1_000_000;

/// True if an entry that ends at `end_ps` must be kept.
#[inline(always)]
pub(crate) fn is_remembered(end_ps: u64, now_ps: u64) -> bool {
    end_ps + REMEMBERED_PS > now_ps
}

/// Number of entries at which a list drops the ended ones; doubled if all of them must be kept.
///
/// The moment at which entries are dropped decides the result of an access that was requested long
/// before its turn. It is a rule of the machine, and must not depend on how the host's vectors
/// grow.
#[derive(Clone, Copy, Default)]
pub(crate) struct EntryLimit(usize);

impl EntryLimit {
    const LEAST: usize = 4;

    #[inline(always)]
    pub(crate) fn is_full(self, entries: usize) -> bool {
        entries == self.0
    }

    /// Adjusts the limit after ended entries were dropped and `entries` are left.
    pub(crate) fn adjust(&mut self, entries: usize) {
        if self.is_full(entries) {
            self.0 = (self.0 * 2).max(EntryLimit::LEAST);
        }
    }
}

/// An event of a line that ends.
pub(crate) trait LineEvent: Copy {
    fn line(&self) -> LineNumber;
    fn end_ps(&self) -> u64;
}

/// An entry, and the previous entry of its chain: its index plus 1, or 0.
#[derive(Clone, Copy)]
struct Link<T> {
    entry: T,
    older: u32,
}

/// The list of one core, oldest first. Entries of lines with the same lowest bits form a chain, so
/// that a lookup compares few entries.
#[derive(Clone)]
pub(crate) struct Recent<T> {
    links: Vec<Link<T>>,
    /// Newest entry of each chain: its index plus 1, or 0. There are as many chains as the
    /// list has room for entries, a power of two.
    chains: Vec<u32>,
    limit: EntryLimit,
    /// Latest end of an entry.
    latest_ps: u64,
}

impl<T: LineEvent> Recent<T> {
    pub(crate) fn new() -> Recent<T> {
        Recent { links: Vec::new(), chains: Vec::new(), limit: EntryLimit::default(), latest_ps: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T, now_ps: u64) {
        if self.limit.is_full(self.links.len()) {
            self.forget(now_ps);
        }
        let older = self.enchain(entry.line(), self.links.len());
        self.links.push(Link { entry, older });
        self.latest_ps = self.latest_ps.max(entry.end_ps());
    }

    /// Makes the entry at this index, of this line, the first of its chain. Returns the former
    /// first one.
    #[inline(always)]
    fn enchain(&mut self, line: LineNumber, place: usize) -> u32 {
        let chain = line as usize & (self.chains.len() - 1);
        std::mem::replace(&mut self.chains[chain], place as u32 + 1)
    }

    #[cold]
    fn forget(&mut self, now_ps: u64) {
        self.links.retain(|link| is_remembered(link.entry.end_ps(), now_ps));
        self.limit.adjust(self.links.len());
        self.chains.clear();
        self.chains.resize(self.limit.0.next_power_of_two(), 0);
        for place in 0..self.links.len() {
            self.links[place].older = self.enchain(self.links[place].entry.line(), place);
        }
    }

    /// The newest entry of a line that satisfies the condition; `None` if no entry lasts beyond
    /// `now_ps`.
    #[inline]
    pub(crate) fn newest(&self, line: LineNumber, now_ps: u64, condition: impl Fn(&T) -> bool) -> Option<&T> {
        if now_ps >= self.latest_ps {
            return None;
        }
        let mut next = self.chains[line as usize & (self.chains.len() - 1)];
        while next != 0 {
            let link = &self.links[next as usize - 1];
            if link.entry.line() == line && condition(&link.entry) {
                return Some(&link.entry);
            }
            next = link.older;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Trip(LineNumber, u64);

    impl LineEvent for Trip {
        fn line(&self) -> LineNumber {
            self.0
        }

        fn end_ps(&self) -> u64 {
            self.1
        }
    }

    #[test]
    fn the_newest_entry_counts_and_what_has_ended_is_forgotten() {
        let mut list = Recent::new();
        for trip in [Trip(5, 100), Trip(9, 700), Trip(5, 300)] {
            list.push(trip, 0);
        }
        assert_eq!(list.newest(5, 50, |_| true), Some(&Trip(5, 300)));
        assert_eq!(list.newest(5, 50, |trip| trip.1 < 200), Some(&Trip(5, 100)));
        assert_eq!(list.newest(6, 50, |_| true), None);
        assert_eq!(list.newest(5, 700, |_| true), None, "all have ended");
        for line in 100..10_000 {
            let now_ps = u64::from(line) * 1000;
            list.push(Trip(line, now_ps + 500), now_ps);
            assert!(list.newest(line, now_ps, |_| true).is_some());
        }
        assert!(list.links.len() < 4 * REMEMBERED_PS as usize / 1000);
    }

    #[test]
    fn chains_find_what_a_search_from_the_end_finds() {
        let random = Random::new(1);
        let mut recent = Recent::new();
        let mut list: Vec<Trip> = Vec::new();
        let (mut limit, mut found) = (EntryLimit::default(), 0);
        for step in 0..20_000 {
            let now_ps = step * 5_000 + random.below(2) * random.below(2_000_000);
            let trip = Trip(random.below(500) as LineNumber, now_ps + random.below(1_000_000));
            recent.push(trip, now_ps);
            if limit.is_full(list.len()) {
                list.retain(|trip| is_remembered(trip.1, now_ps));
                limit.adjust(list.len());
            }
            list.push(trip);
            let (line, from_ps) =
                (random.below(500) as LineNumber, now_ps - random.below(now_ps.min(900_000) + 1));
            let newest = list.iter().rev().find(|trip| trip.0 == line && trip.1 > from_ps);
            assert_eq!(recent.newest(line, from_ps, |trip| trip.1 > from_ps), newest);
            found += u32::from(newest.is_some());
        }
        assert!((1..20_000).contains(&found) && list.len() > 100);
    }
}
