//! Ranges of keys for scans.
//!
//! A range is converted to two normalized keys, both included. All keys of an index have the same
//! length, so an excluded end is converted to the key just before it.

use std::ops::{
    Bound, Deref, DerefMut, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo,
    RangeToInclusive,
};

use schema::key::{KEY_BYTES_MAX, SHORT_KEY_WORDS};
use schema::{AnyKey, Key, key_words};

/// The words of a key: all that an index compares, or more of a short key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    Short([u64; SHORT_KEY_WORDS]),
    Long(Box<[u64]>),
}

impl Words {
    /// Zeros, for a key of an index whose longest key has this many bits.
    fn zeros(bits: u32) -> Self {
        match key_words(bits) {
            ..=SHORT_KEY_WORDS => Words::Short([0; SHORT_KEY_WORDS]),
            words => Words::Long(vec![0; words].into()),
        }
    }

    /// Sets the bits `from..to`, counted from the most significant bit of the first word.
    fn set(&mut self, from: u32, to: u32) {
        let upto = |bits: u32| match bits {
            0 => 0,
            64.. => u64::MAX,
            _ => u64::MAX << (64 - bits),
        };
        for (word, first) in self.iter_mut().zip((0..).step_by(64)) {
            *word |= upto(to.saturating_sub(first)) & !upto(from.saturating_sub(first));
        }
    }
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Words::Short(words) => words,
            Words::Long(words) => words,
        }
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u64] {
        match self {
            Words::Short(words) => words,
            Words::Long(words) => words,
        }
    }
}

/// A normalized range, both ends included, returned by [`KeyRange::normalized`]. Programs need not
/// use this type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalizedRange {
    pub(crate) low: Words,
    pub(crate) high: Words,
}

/// A range of keys of type `K`: the ranges of the standard library over complete keys, or
/// [`prefix`] and [`prefixes`] over their leading columns. [`prefix`] has an example.
pub trait KeyRange<K: Key> {
    /// Returns the normalized range, or `None` if the range is empty.
    fn normalized(&self) -> Option<NormalizedRange>;
}

/// Leading columns of a key of type `K`: its first column, or a tuple of its first columns.
/// [`prefix`] has an example.
pub trait Prefix<K: Key>: Key {}

impl NormalizedRange {
    /// Returns the lowest key, in the words that an index over keys of type `K` compares.
    pub(crate) fn low_words<K: Key>(&self) -> &[u64] {
        &self.low[..const { key_words(K::BITS) }]
    }

    /// Returns the highest key, likewise.
    pub(crate) fn high_words<K: Key>(&self) -> &[u64] {
        &self.high[..const { key_words(K::BITS) }]
    }

    /// Returns the key just after a key of this many bits, if there is one.
    pub(crate) fn just_after(key: &[u64], bits: u32) -> Option<Words> {
        after(padded(key, bits), bits)
    }

    /// Returns the range of keys of `bits` bits that begin with keys within the bounds.
    pub(crate) fn of_prefixes(
        low: Bound<&AnyKey>,
        high: Bound<&AnyKey>,
        bits: u32,
    ) -> Option<NormalizedRange> {
        let key = |key: &AnyKey| (padded(key.words(key_words(bits)), bits), key.bits().min(bits));
        let (low, high) = (low.map(key), high.map(key));
        bounded(low, high, bits)
    }

    /// Returns the key just before a key of this many bits, if there is one.
    pub(crate) fn just_before(key: &[u64], bits: u32) -> Option<Words> {
        before(padded(key, bits), bits)
    }
}

/// Returns a key of this many bits.
fn padded(key: &[u64], bits: u32) -> Words {
    let mut words = Words::zeros(bits);
    words[..key.len()].copy_from_slice(key);
    words
}

/// A range of leading columns of keys, returned by [`prefix`] and [`prefixes`]. [`prefix`] has an
/// example.
#[derive(Clone, Debug)]
pub struct Prefixes<B> {
    range: B,
}

/// Returns the range of all keys that begin with these columns.
///
/// ```
/// use isles::{Database, Row, prefix, prefixes};
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(key(order, line))]
/// struct Line { order: u32, line: u16, amount: i64 }
///
/// let mut builder = Database::in_memory();
/// let lines = builder.table::<Line>("lines");
/// let database = builder.open()?;
/// let total = database.transaction(|t| {
///     for line in 1..=3 {
///         t.insert(lines, &Line { order: 7, line, amount: 10 })?;
///     }
///     t.insert(lines, &Line { order: 8, line: 1, amount: 99 })?;
///     let found = t.scan(lines, prefix(7)).collect()?;
///     assert_eq!(t.scan(lines, prefixes(7..=8)).count()?, 4);
///     Ok(found.iter().map(|line| line.amount).sum::<i64>())
/// })?;
/// assert_eq!(total, 30);
/// # Ok::<(), isles::Error>(())
/// ```
pub fn prefix<P: Key>(columns: P) -> Prefixes<RangeInclusive<P>> {
    Prefixes { range: columns.clone()..=columns }
}

/// Returns the range of all keys whose leading columns are in `range`: `prefixes(..=10)`,
/// `prefixes((site, from)..(site, to))`. [`prefix`] has an example.
pub fn prefixes<B>(range: B) -> Prefixes<B> {
    Prefixes { range }
}

macro_rules! standard_ranges {
    ($($range:ident),*) => { $(
        impl<K: Key> KeyRange<K> for $range<K> {
            fn normalized(&self) -> Option<NormalizedRange> {
                normalize::<K, K>(self.start_bound(), self.end_bound())
            }
        }
        impl<K: Key, P: Prefix<K>> KeyRange<K> for Prefixes<$range<P>> {
            fn normalized(&self) -> Option<NormalizedRange> {
                normalize::<K, P>(self.range.start_bound(), self.range.end_bound())
            }
        }
    )* };
}
standard_ranges!(Range, RangeInclusive, RangeFrom, RangeTo, RangeToInclusive);

impl<K: Key> KeyRange<K> for RangeFull {
    fn normalized(&self) -> Option<NormalizedRange> {
        normalize::<K, K>(Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: Key> KeyRange<K> for (Bound<K>, Bound<K>) {
    fn normalized(&self) -> Option<NormalizedRange> {
        normalize::<K, K>(self.0.as_ref(), self.1.as_ref())
    }
}

macro_rules! prefixes_of {
    ($first:ident) => {};
    ($first:ident $($rest:ident)+) => {
        impl<$first: Key, $($rest: Key),+> Prefix<($first, $($rest),+)> for $first {}
        prefixes_of!(@longer [$first] [$($rest)+] $first $($rest)+);
    };
    (@longer [$($taken:ident)+] [] $($all:ident)+) => {};
    (@longer [$($taken:ident)+] [$next:ident $($rest:ident)*] $($all:ident)+) => {
        impl<$($all: Key),+> Prefix<($($all,)+)> for ($($taken,)+) {}
        prefixes_of!(@longer [$($taken)+ $next] [$($rest)*] $($all)+);
    };
}
prefixes_of!(A B);
prefixes_of!(A B C);
prefixes_of!(A B C D);
prefixes_of!(A B C D E);
prefixes_of!(A B C D E F);
prefixes_of!(A B C D E F G);
prefixes_of!(A B C D E F G H);
prefixes_of!(A B C D E F G H I);
prefixes_of!(A B C D E F G H I J);
prefixes_of!(A B C D E F G H I J L);
prefixes_of!(A B C D E F G H I J L M);

/// Returns the range of complete keys of type `K` whose first columns, of type `P`, are within the
/// bounds.
fn normalize<K: Key, P: Key>(low: Bound<&P>, high: Bound<&P>) -> Option<NormalizedRange> {
    bounded(low.map(words::<K, P>), high.map(words::<K, P>), K::BITS)
}

/// Returns the range of keys of `bits` bits whose leading columns are within the bounds: the words
/// of a key and the length of these columns.
fn bounded(low: Bound<(Words, u32)>, high: Bound<(Words, u32)>, bits: u32) -> Option<NormalizedRange> {
    let low = match low {
        Bound::Unbounded => Words::zeros(bits),
        Bound::Included((words, _)) => words,
        Bound::Excluded((words, bits)) => after(words, bits)?,
    };
    let (mut high, from) = match high {
        Bound::Unbounded => (Words::zeros(bits), 0),
        Bound::Included((words, bits)) => (words, bits),
        Bound::Excluded((words, bits)) => (before(words, bits)?, bits),
    };
    high.set(from, bits);
    (*low <= *high).then_some(NormalizedRange { low, high })
}

/// Returns leading columns of a key of type `K`, and the length of these columns, as far as it is
/// within the longest key.
fn words<K: Key, P: Key>(columns: &P) -> (Words, u32) {
    let mut key = AnyKey::new(const { K::BITS });
    columns.append(&mut key);
    (padded(key.words(const { key_words(K::BITS) }), K::BITS), key.bits().min(8 * KEY_BYTES_MAX as u32))
}

/// Returns the next key of `bits` bits, or `None` after the last one.
fn after(mut key: Words, bits: u32) -> Option<Words> {
    let last = (bits as usize - 1) / 64;
    let mut step = 1 << (63 - (bits - 1) % 64);
    for word in key[..=last].iter_mut().rev() {
        let (sum, carry) = word.overflowing_add(step);
        *word = sum;
        if !carry {
            return Some(key);
        }
        step = 1;
    }
    None
}

/// Returns the previous key of `bits` bits, or `None` before the first one.
fn before(mut key: Words, bits: u32) -> Option<Words> {
    let last = (bits as usize - 1) / 64;
    let mut step = 1 << (63 - (bits - 1) % 64);
    for word in key[..=last].iter_mut().rev() {
        let (difference, borrow) = word.overflowing_sub(step);
        *word = difference;
        if !borrow {
            return Some(key);
        }
        step = 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    type Composite = (u16, u8, u64, i32);

    fn contains<K: Key>(range: &impl KeyRange<K>, key: &K) -> bool {
        let key = words::<K, K>(key).0;
        range.normalized().is_some_and(|range| *range.low <= *key && *key <= *range.high)
    }

    #[test]
    fn complete_keys() {
        for key in [0u8, 1, 9, 10, 11, 254, 255] {
            assert_eq!(contains(&(1..10), &key), (1..10).contains(&key));
            assert_eq!(contains(&(1..=10), &key), (1..=10).contains(&key));
            assert_eq!(contains(&(10..), &key), (10..).contains(&key));
            assert_eq!(contains(&(..10), &key), (..10).contains(&key));
            assert_eq!(contains(&(..=254), &key), key < 255);
            assert!(contains(&.., &key));
            let open = (Bound::Excluded(1), Bound::Excluded(255));
            assert_eq!(contains(&open, &key), key > 1 && key < 255);
        }
        assert_eq!(KeyRange::<u8>::normalized(&(..0)), None);
        assert_eq!(KeyRange::<u8>::normalized(&(Bound::Excluded(255u8), Bound::Unbounded)), None);
        assert_eq!(KeyRange::<u8>::normalized(&(3..3)), None);
    }

    #[test]
    fn excluded_ends_carry_over_words() {
        let key: Composite = (1, 2, u64::MAX, i32::MIN);
        let below: Composite = (1, 2, u64::MAX - 1, i32::MAX);
        assert!(!contains(&(..key), &key) && contains(&(..key), &below));
        let words = |key| words::<Composite, Composite>(key).0;
        assert_eq!(before(words(&key), Composite::BITS), Some(words(&below)));
        assert_eq!(after(words(&below), Composite::BITS), Some(words(&key)));
    }

    #[test]
    fn ranges_of_long_keys() {
        let long = |end: &str| "x".repeat(300) + end;
        let keys: Vec<(String, u16)> =
            [(long(""), 1), (long("a"), 0), (long("a"), 7), (long("b"), 9), ("y".to_owned(), 3)].into();
        let count = |range: &dyn Fn(&(String, u16)) -> bool| keys.iter().filter(|key| range(key)).count();
        assert_eq!(count(&|key| contains(&.., key)), 5);
        assert_eq!(count(&|key| contains(&prefix(long("a")), key)), 2);
        assert_eq!(count(&|key| contains(&prefixes(long("a")..), key)), 4);
        assert_eq!(count(&|key| contains(&prefixes(..long("a")), key)), 1);
        assert_eq!(count(&|key| contains(&(..(long("a"), 7)), key)), 2);
        assert_eq!(count(&|key| contains(&(..=(long("a"), 7)), key)), 3);
        let open = (Bound::Excluded((long("a"), 0)), Bound::Unbounded);
        assert_eq!(count(&|key| contains(&open, key)), 3);
    }

    #[test]
    fn prefixes_of_keys() {
        let keys: Vec<Composite> =
            [(1, 0, 0, -1), (1, 2, 7, 5), (1, 2, u64::MAX, i32::MAX), (1, 3, 0, 0), (2, 0, 0, 0)].into();
        let count = |range: &dyn Fn(&Composite) -> bool| keys.iter().filter(|key| range(key)).count();
        assert_eq!(count(&|key| contains(&prefix(1), key)), 4);
        assert_eq!(count(&|key| contains(&prefix((1, 2)), key)), 2);
        assert_eq!(count(&|key| contains(&prefix((1, 2, 7)), key)), 1);
        assert_eq!(count(&|key| contains(&prefixes(..2), key)), 4);
        assert_eq!(count(&|key| contains(&prefixes((1, 2)..=(1, 3)), key)), 3);
        assert_eq!(count(&|key| contains(&prefixes((1, 2)..(1, 3)), key)), 2);
        assert_eq!(count(&|key| contains(&prefixes((1, 3)..), key)), 2);
    }
}
