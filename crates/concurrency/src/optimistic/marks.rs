//! Marks of rows that prepared participants have read: until such a participant ends, no
//! transaction changes the row, and all transactions read it.
//!
//! A participant of a transaction over several databases has to keep what it has read as it was
//! until the decision comes, long after its vote. A lock would do that, but would keep out others
//! that only read too. So the participant leaves a mark, which is a count in a table beside the
//! rows: places of rows share counts by their hash, and a transaction that writes a row whose place
//! shares a count with a marked one is refused for nothing. Rows and their version words stay as
//! they are, and a database that never has a participant pays with one load a commit
//! (`docs/decisions/0085-marks-of-readers.md`).
//!
//! Concurrency: a writer locks the row's version word and then reads the count; a reader raises the
//! count and then reads the version word. All four accesses are sequentially consistent, so one of
//! the two sees the other, and gives up. It is the same with the flag that there is, or was, a
//! participant at all: a participant sets it before it raises its first count.

use std::sync::atomic::Ordering;

use platform::{Address, LINE_BYTES, OutOfMemory, Platform};

/// Counts, as a power of two: with a thousand marks a transaction that writes ten rows is refused
/// for nothing once in thirteen times.
const COUNTS_BITS: u32 = 17;
/// Bits of a count.
const COUNT_BITS: u32 = 16;
/// Counts of a word.
const COUNTS_OF_WORD: u64 = (u64::BITS / COUNT_BITS) as u64;
/// Marks that one count takes: workers that find more than these take theirs back, so that no count
/// runs over.
const MARKS_MAX: u64 = 1 << (COUNT_BITS - 1);

const BYTES: usize = (1usize << COUNTS_BITS) * COUNT_BITS as usize / 8;

/// The marks of one instance.
pub(crate) struct ReadMarks<P: Platform> {
    /// A line with the flag that something was marked; then the counts.
    region: P::Region,
}

impl<P: Platform> ReadMarks<P> {
    pub(super) fn new(c: P::Core) -> Result<Self, OutOfMemory> {
        P::region(c, None, LINE_BYTES + BYTES, "marks of readers").map(|region| ReadMarks { region })
    }

    fn seen(&self) -> &P::Word {
        P::word_of(&self.region, 0)
    }

    /// The word of a place's count, and how far up the count lies in it.
    fn count(&self, Address(place): Address) -> (&P::Word, u64) {
        // Fibonacci hashing: rows lie at regular distances.
        let number = (place >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - COUNTS_BITS);
        let word = P::word_of(&self.region, LINE_BYTES + (number / COUNTS_OF_WORD) as usize * 8);
        (word, number % COUNTS_OF_WORD * u64::from(COUNT_BITS))
    }

    /// Says that marks follow.
    pub(super) fn announce(&self, c: P::Core) {
        // SeqCst: see above.
        if P::load(c, self.seen(), Ordering::SeqCst) == 0 {
            P::store(c, self.seen(), 1, Ordering::SeqCst);
        }
    }

    /// Returns true if anything was ever marked.
    #[inline(always)]
    pub(super) fn are_used(&self, c: P::Core) -> bool {
        // SeqCst: see above.
        P::load(c, self.seen(), Ordering::SeqCst) != 0
    }

    /// Marks a place. False: there is no room for another mark.
    pub(super) fn add(&self, c: P::Core, place: Address) -> bool {
        let (word, shift) = self.count(place);
        // SeqCst: see above.
        let before = P::fetch_add(c, word, 1 << shift, Ordering::SeqCst) >> shift & (2 * MARKS_MAX - 1);
        if before >= MARKS_MAX {
            self.remove(c, place);
        }
        before < MARKS_MAX
    }

    /// Takes a mark of a place back.
    pub(super) fn remove(&self, c: P::Core, place: Address) {
        let (word, shift) = self.count(place);
        // SeqCst: what the participant did is ordered before it.
        P::fetch_add(c, word, (1u64 << shift).wrapping_neg(), Ordering::SeqCst);
    }

    /// Returns true if the place may be marked.
    pub(crate) fn has(&self, c: P::Core, place: Address) -> bool {
        let (word, shift) = self.count(place);
        // SeqCst: see above.
        P::load(c, word, Ordering::SeqCst) >> shift & (2 * MARKS_MAX - 1) != 0
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;

    #[test]
    fn marks_are_counted_place_by_place() {
        let c = Hardware::core();
        let marks = ReadMarks::<Hardware>::new(c).expect("memory");
        assert!(!marks.are_used(c));
        marks.announce(c);
        assert!(marks.are_used(c));
        let places: Vec<_> = (0..64).map(|row| Address(0x1000 + row * 128)).collect();
        assert!(places.iter().all(|place| marks.add(c, *place)));
        assert!(marks.add(c, places[7]));
        let others = (0..4_096).map(|row| Address(0x100_0000 + row * 128));
        assert!(others.filter(|place| marks.has(c, *place)).count() < 32, "few share a count");
        places.iter().for_each(|place| marks.remove(c, *place));
        assert_eq!(places.iter().filter(|place| marks.has(c, **place)).count(), 1);
        marks.remove(c, places[7]);
        assert!(!marks.has(c, places[7]));
    }

    #[test]
    fn a_count_does_not_run_over() {
        let c = Hardware::core();
        let marks = ReadMarks::<Hardware>::new(c).expect("memory");
        let place = Address(0x1000);
        assert!((0..MARKS_MAX).all(|_| marks.add(c, place)));
        assert!(!marks.add(c, place));
        (0..MARKS_MAX).for_each(|_| marks.remove(c, place));
        assert!(!marks.has(c, place) && marks.add(c, place));
    }
}
