//! Looking ahead: the keys of a transaction that a worker will run soon are known, so their index
//! entries and rows are prefetched_rows closer while the worker runs others.
//!
//! That takes two steps, because only its bucket has the place of a row. The lines of buckets are
//! asked for two transactions before their own; one before it they are there, are read, and the
//! lines of the rows are asked for. Both happen a few at a time, in the verbs of the transaction
//! under way, because a core waits when it has asked for more lines than it has buffers for. The
//! leaf where a key will be inserted is asked for one transaction before. Rows that only trees
//! index are not prefetched: descents cost more than they save.
//!
//! Sources: Chen, Ailamaki, Gibbons, Mowry, "Improving hash join performance through prefetching",
//! ICDE 2004 (group prefetching); Kocberber, Falsafi, Grot, "Asynchronous memory access chaining",
//! PVLDB 2015; He, Lu, Wang, "CoroBase: coroutine-oriented main-memory database engine",
//! PVLDB 2021. Those switch between the operations of one query, or between open transactions; here
//! no transaction is open before its turn, so nothing is read or locked earlier than without, under
//! any scheme.
//!
//! Everything that is seen is a hint. Trees are read as prefetches for lookups read them, inside an
//! epoch; buckets of hash indexes stay where they are as long as the index. Nothing is validated. A
//! row is only ever named to the processor's prefetch, which takes any address: the row may be
//! deleted, or its memory may be another row's by now. So look-ahead is no read of a scheme's, and
//! needs no scheme's consent.

use platform::{Intent, LINE_BYTES, Platform};
use storage::Partition;
use storage::hash::Approach;

use crate::scheme::{Context, Parts};

/// How many transactions before its own one a transaction is known.
pub const LOOK_AHEAD: usize = 2;
/// Words of the longest key.
const KEY_WORDS_MAX: usize = 8;

/// A future use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It looks the key up, and uses these words of the row, as [`terms::rows::word_set`] names
    /// them.
    Row(u64),
    /// It inserts the key.
    Insertion,
}

/// The lines of a row to prefetch: bytes from its header on.
#[derive(Clone, Copy)]
struct Lines {
    /// The first part ends here, which begins with the header.
    first: u16,
    /// The second part.
    start: u16,
    end: u16,
}

impl Lines {
    /// The header and these words: in two parts, if there is a gap of a line.
    #[inline(always)]
    fn of<H>(words: u64) -> Self {
        let byte = |word: u32| (size_of::<H>() + 8 * word as usize) as u16;
        let header = byte(0);
        if words == 0 {
            return Lines { first: header, start: header, end: header };
        }
        let is_far = |from: u16, to: u16| usize::from(to) >= usize::from(from) + LINE_BYTES;
        let (begin, end) = (words.trailing_zeros(), byte(u64::BITS - words.leading_zeros()));
        if is_far(header, byte(begin)) {
            return Lines { first: header, start: byte(begin), end };
        }
        let gap = begin + (words >> begin).trailing_ones();
        let rest = words & u64::MAX.checked_shl(gap).unwrap_or(0);
        match rest != 0 && is_far(byte(gap), byte(rest.trailing_zeros())) {
            true => Lines { first: byte(gap), start: byte(rest.trailing_zeros()), end },
            false => Lines { first: end, start: end, end },
        }
    }

    /// Prefetches them.
    #[inline(always)]
    fn prefetch<P: Platform>(self, c: P::Core, bits: u64) {
        let row = bits as usize;
        let ask = |from: usize, end: usize| {
            let from = from & !(LINE_BYTES - 1);
            P::prefetch(c, std::ptr::without_provenance::<u8>(from), end - from, Intent::Read);
        };
        ask(row, row + usize::from(self.first));
        if self.start < self.end {
            ask(row + usize::from(self.start), row + usize::from(self.end));
        }
    }
}

/// A key that will be inserted.
struct InsertionPlace<'i, P: Platform> {
    partition: &'i Partition<P>,
    key: [u64; KEY_WORDS_MAX],
    words: usize,
}

/// The rows and keys that one transaction will use.
struct Hints<'i, P: Platform> {
    rows: Vec<(Approach<'i, P>, Lines)>,
    places: Vec<InsertionPlace<'i, P>>,
}

/// The rows and keys that the next transactions of a session will use.
pub struct LookAhead<'i, P: Platform> {
    /// A ring.
    hints: [Hints<'i, P>; LOOK_AHEAD],
    /// The place of the transaction that was announced last.
    last: usize,
    /// Buckets of that transaction that were prefetched.
    prefetched_buckets: usize,
    /// Rows of the next transaction that were prefetched.
    prefetched_rows: usize,
    /// Buckets and rows that are left.
    left: usize,
    /// Announced transactions, up to the number that matters.
    announced: usize,
}

impl<P: Platform> Default for LookAhead<'_, P> {
    fn default() -> Self {
        let none = |_| Hints { rows: Vec::new(), places: Vec::new() };
        LookAhead {
            hints: std::array::from_fn(none),
            last: 0,
            prefetched_buckets: 0,
            prefetched_rows: 0,
            left: 0,
            announced: 0,
        }
    }
}

impl<'i, P: Platform> LookAhead<'i, P> {
    /// The place of the next transaction.
    #[inline(always)]
    fn next(&self) -> usize {
        (self.last + LOOK_AHEAD - 1) % LOOK_AHEAD
    }

    /// All transactions come one nearer, and another one is announced, which [`Self::add_rows`] and
    /// [`Self::add_insertion`] describe.
    ///
    /// Pre: the session is inside an epoch.
    #[inline]
    pub fn step(&mut self, c: P::Core) {
        while self.left > 0 {
            self.prefetch_one(c);
        }
        self.last = (self.last + 1) % LOOK_AHEAD;
        let next = &self.hints[self.next()];
        self.left = next.rows.len();
        for place in &next.places {
            place.partition.prefetch(c, &place.key[..place.words]);
        }
        let new = &mut self.hints[self.last];
        new.rows.clear();
        new.places.clear();
        (self.prefetched_buckets, self.prefetched_rows) = (0, 0);
        self.announced = (self.announced + 1).min(LOOK_AHEAD + 1);
    }

    /// Returns true if the transaction under way was announced before it began, as far as the
    /// session's caller announces any.
    #[inline(always)]
    pub fn has_announced_current(&self) -> bool {
        self.announced > LOOK_AHEAD
    }

    /// Prefetches a little of what is left. Verbs of the transaction under way call this:
    /// a core has few buffers for lines that are on their way, and waits when it prefetches more at
    /// once.
    ///
    /// Pre: as [`Self::step`].
    #[inline(always)]
    pub fn advance(&mut self, c: P::Core) {
        if self.left > 0 {
            self.prefetch_one(c);
        }
    }

    #[inline(never)]
    fn prefetch_one(&mut self, c: P::Core) {
        if let Some((approach, lines)) = self.hints[self.next()].rows.get(self.prefetched_rows) {
            if let Some(bits) = approach.glance(c) {
                lines.prefetch::<P>(c, bits);
            }
            self.prefetched_rows += 1;
            self.left -= 1;
        }
        if let Some((approach, _)) = self.hints[self.last].rows.get(self.prefetched_buckets) {
            approach.ask(c);
            self.prefetched_buckets += 1;
            self.left -= 1;
        }
    }

    /// The transaction that is known last will look these keys of an index up (table and index by
    /// number), and use these words of the rows, as [`terms::rows::word_set`] names them. Keys have
    /// as many words as the index compares.
    ///
    /// Pre: as [`Self::step`].
    #[inline(always)]
    pub fn add_rows<S: Parts<P>, K: AsRef<[u64]>>(
        &mut self,
        cx: &Context<'_, 'i, P, S>,
        table: usize,
        index: usize,
        keys: impl Iterator<Item = K>,
        words: u64,
    ) {
        let index = &cx.tables[table].indexes[index];
        let lines = Lines::of::<S::Header>(words);
        let rows = &mut self.hints[self.last].rows;
        let before = rows.len();
        for key in keys {
            let key = key.as_ref();
            if let Some(approach) = index.partition(key).approach(cx.c, key) {
                rows.push((approach, lines));
            }
        }
        self.left += rows.len() - before;
    }

    /// It will insert this key.
    ///
    /// Pre: as [`Self::step`].
    #[inline]
    pub fn add_insertion<S: Parts<P>>(
        &mut self,
        cx: &Context<'_, 'i, P, S>,
        table: usize,
        index: usize,
        key: &[u64],
    ) {
        let partition = cx.tables[table].indexes[index].partition(key);
        let mut place = InsertionPlace { partition, key: [0; KEY_WORDS_MAX], words: key.len() };
        // Long keys are not looked for ahead.
        let Some(room) = place.key.get_mut(..key.len()) else { return };
        room.copy_from_slice(key);
        self.hints[self.last].places.push(place);
    }
}

#[cfg(test)]
mod tests {
    use terms::rows::word_set;

    use super::*;

    fn lines(words: u64) -> (u16, u16, u16) {
        let Lines { first, start, end } = Lines::of::<u64>(words);
        (first, start, end)
    }

    #[test]
    fn lines_are_of_header_and_words() {
        assert_eq!(lines(0), (8, 8, 8));
        assert_eq!(lines(word_set(0, 3)), (32, 32, 32));
        assert_eq!(lines(word_set(2, 5)), (48, 48, 48));
        // Close together: one part.
        assert_eq!(lines(word_set(0, 3) | word_set(10, 12)), (104, 104, 104));
        assert_eq!(lines(word_set(0, 3) | word_set(20, 22)), (32, 168, 184));
        assert_eq!(lines(word_set(0, 3) | word_set(20, 22) | word_set(40, 41)), (32, 168, 336));
        assert_eq!(lines(word_set(20, 22) | word_set(40, 41)), (8, 168, 336));
        assert_eq!(lines(u64::MAX), (520, 520, 520));
    }
}
