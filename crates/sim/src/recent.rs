//! Lists of what is under way, or was a moment ago.

use crate::line::LineNumber;

/// What has ended is remembered so long: lines of one touch are asked for ahead of the core's clock.
const REMEMBERED_PS: u64 = 1_000_000;

/// Whether what ends at `end_ps` must still be known.
#[inline(always)]
pub(crate) fn is_remembered(end_ps: u64, now_ps: u64) -> bool {
    end_ps + REMEMBERED_PS > now_ps
}

/// How many entries a list holds before it forgets what has ended; twice as many as before if all of them must be known.
///
/// When entries are forgotten decides what an access finds that was asked for long before its turn, so it is a rule
/// of the machine, and no matter of how the host's vectors grow.
#[derive(Clone, Copy, Default)]
pub(crate) struct Room(usize);

impl Room {
    const LEAST: usize = 4;

    #[inline(always)]
    pub(crate) fn is_full(self, entries: usize) -> bool {
        entries == self.0
    }

    /// What has ended is forgotten, and so many entries are left.
    pub(crate) fn make(&mut self, entries: usize) {
        if self.is_full(entries) {
            self.0 = (self.0 * 2).max(Room::LEAST);
        }
    }
}

/// Something that happens to a line and ends.
pub(crate) trait Passing: Copy {
    fn line(&self) -> LineNumber;
    fn end_ps(&self) -> u64;
}

/// Which lines a list may name: one bit for each remainder of line numbers, in one line of the host. Most questions about lists
/// end here.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Names([u64; 8]);

impl Names {
    /// The word and the bit of a line.
    #[inline(always)]
    fn place(line: LineNumber) -> (usize, u64) {
        (line as usize / 64 % 8, 1 << (line % 64))
    }

    #[inline(always)]
    fn may_have(&self, line: LineNumber) -> bool {
        let (word, bit) = Names::place(line);
        self.0[word] & bit != 0
    }

    #[inline(always)]
    fn add(&mut self, line: LineNumber) {
        let (word, bit) = Names::place(line);
        self.0[word] |= bit;
    }
}

/// The list of one core: oldest first.
#[derive(Clone)]
pub(crate) struct Recent<T> {
    entries: Vec<T>,
    names: Names,
    room: Room,
    /// The latest end.
    latest_ps: u64,
}

impl<T: Passing> Recent<T> {
    pub(crate) fn new() -> Recent<T> {
        Recent { entries: Vec::new(), names: Names::default(), room: Room::default(), latest_ps: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: T, now_ps: u64) {
        if self.room.is_full(self.entries.len()) {
            self.forget(now_ps);
        }
        self.names.add(entry.line());
        self.entries.push(entry);
        self.latest_ps = self.latest_ps.max(entry.end_ps());
    }

    #[cold]
    fn forget(&mut self, now_ps: u64) {
        self.entries.retain(|entry| is_remembered(entry.end_ps(), now_ps));
        self.room.make(self.entries.len());
        self.names = Names::default();
        self.entries.iter().for_each(|entry| self.names.add(entry.line()));
    }

    /// The newest entry of a line that satisfies the condition, if any lasts beyond this moment.
    #[inline]
    pub(crate) fn newest(&self, line: LineNumber, now_ps: u64, condition: impl Fn(&T) -> bool) -> Option<&T> {
        if now_ps >= self.latest_ps || !self.names.may_have(line) {
            return None;
        }
        self.entries.iter().rev().find(|entry| entry.line() == line && condition(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Trip(LineNumber, u64);

    impl Passing for Trip {
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
        assert!(list.entries.len() < 4 * REMEMBERED_PS as usize / 1000);
    }
}
