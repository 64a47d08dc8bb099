//! Routes: what an action touches, before it runs.
//!
//! A route is a list of (table, range of primary keys, intent). It is *true* if everything that the
//! action looks up, scans, inserts, deletes or changes lies inside of it; it may say more than the
//! action does, which costs concurrency and nothing else. Executors that send actions to the owners
//! of partitions or to other instances, and schemes that lock before they touch, rely on routes;
//! `testing::run_shuffled` asserts that they are true.
//!
//! - **Home.** The first entry says where the action belongs: with the owner of the partition, and
//!   in the instance, that holds the entry's lowest key. It names no table that is only read,
//!   because all instances have those.
//! - **Reads and writes.** Insertions, deletions, changes and lookups with [`Intent::Write`] are
//!   writes. Absent keys that the action relies on, and the gaps that it scans, count as read.
//!   Prefetching is no touch.
//! - **Tables that are only read** are named like all others.
//! - **Other indexes.** Owners know ranges of primary keys only. An action that looks up another
//!   index names all primary keys that agree with the keys it looks up in the columns with which
//!   both indexes begin; none in common: the whole table. So it names every row that it may find,
//!   and conflicts with whatever could insert one more, although an insertion or a deletion names
//!   the row's primary key alone. Entries of the other index lie in the row's partition, and belong
//!   to its owner, if that index too begins with the column by which the table is partitioned; a
//!   table of which an index does not can be looked up by this index only where all of the table is
//!   at hand.

use std::fmt;

use terms::Intent;
use terms::rows::partition_column;

use crate::key::{KEY_WORDS_MAX, Key, KeyBuffer};
use crate::row::Row;
use crate::table::Table;

/// All keys whose leading columns are not below `low` and not above `high`, which may have
/// different numbers of columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyRange {
    low: KeyBuffer,
    high: KeyBuffer,
}

impl KeyRange {
    /// All keys.
    pub const ALL: KeyRange = KeyRange { low: KeyBuffer::new(), high: KeyBuffer::new() };

    /// The key, or all keys with these leading columns.
    #[inline]
    pub fn of<K: Key>(key: &K) -> Self {
        let key = KeyBuffer::of(key);
        KeyRange { low: key, high: key }
    }

    /// Keys from `low` to `high`: keys that begin with `high` included.
    #[inline]
    pub fn between<L: Key, H: Key>(low: &L, high: &H) -> Self {
        KeyRange::normalized(KeyBuffer::of(low), KeyBuffer::of(high))
    }

    /// As [`Self::between`], for normalized keys.
    #[inline]
    pub fn normalized(low: KeyBuffer, high: KeyBuffer) -> Self {
        KeyRange { low, high }
    }

    /// The primary keys that an action names to look up keys from `low` to `high` in the index of
    /// this number: see the module.
    pub fn looked_up<R: Row>(index: usize, low: &KeyBuffer, high: &KeyBuffer) -> Self {
        let bits = common_bits::<R>(index);
        KeyRange { low: leading(low, bits), high: leading(high, bits) }
    }

    /// Lowest key, or its leading columns.
    pub fn low(&self) -> &KeyBuffer {
        &self.low
    }

    /// Highest key, or its leading columns.
    pub fn high(&self) -> &KeyBuffer {
        &self.high
    }

    /// True if all keys of the other range are in this one.
    pub fn covers(&self, inner: &KeyRange) -> bool {
        lowest(&inner.low) >= lowest(&self.low) && highest(&inner.high) <= highest(&self.high)
    }

    /// True if some keys are in both ranges.
    pub fn meets(&self, other: &KeyRange) -> bool {
        lowest(&self.low) <= highest(&other.high) && lowest(&other.low) <= highest(&self.high)
    }

    /// The values of the leading 16-bit column, by which tables are partitioned, of the lowest and
    /// of the highest key.
    #[inline]
    pub fn partition_columns(&self) -> (u16, u16) {
        let leading = |key: &KeyBuffer| partition_column(key.words(1)[0]);
        // Columns that the highest key does not say can have any value.
        let unsaid = u16::MAX.checked_shr(self.high.bits()).unwrap_or(0);
        (leading(&self.low), leading(&self.high) | unsaid)
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |to: &mut fmt::Formatter<'_>, key: &KeyBuffer| {
            let words = (key.bits() as usize).div_ceil(64);
            let digits = (key.bits() as usize).div_ceil(4);
            let text: String = key.words(words).iter().map(|word| format!("{word:016x}")).collect();
            write!(to, "{}*", &text[..digits])
        };
        key(to, &self.low)?;
        if self.high != self.low {
            to.write_str(" to ")?;
            key(to, &self.high)?;
        }
        Ok(())
    }
}

/// Bits of the columns with which the primary key and the key of another index begin.
fn common_bits<R: Row>(index: usize) -> u32 {
    if index == 0 {
        return R::INDEXES[0].key_bits;
    }
    let columns = R::INDEXES[index].columns.iter().zip(R::INDEXES[0].columns);
    let common = columns.take_while(|(one, other)| one == other).map(|(name, _)| {
        let column = R::COLUMNS.iter().find(|column| column.name == *name);
        column.map_or(0, |column| 8 * column.bytes as u32)
    });
    common.sum()
}

/// The first bits of a key.
fn leading(key: &KeyBuffer, bits: u32) -> KeyBuffer {
    let mut leading = KeyBuffer::new();
    for word in key.words(bits.div_ceil(u64::BITS) as usize) {
        let rest = (bits - leading.bits()).min(u64::BITS);
        leading.push(word >> (u64::BITS - rest), rest);
    }
    leading
}

/// The smallest key with these leading columns.
fn lowest(key: &KeyBuffer) -> [u64; KEY_WORDS_MAX] {
    let mut words = [0; KEY_WORDS_MAX];
    words.copy_from_slice(key.words(KEY_WORDS_MAX));
    words
}

/// The largest key with these leading columns.
fn highest(key: &KeyBuffer) -> [u64; KEY_WORDS_MAX] {
    let mut words = lowest(key);
    let (whole, rest) = ((key.bits() / 64) as usize, key.bits() % 64);
    for (number, word) in words.iter_mut().enumerate().skip(whole) {
        *word |= if number == whole { u64::MAX >> rest } else { u64::MAX };
    }
    words
}

/// One entry of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Number of the table in the catalog.
    pub table: usize,
    /// Keys of the table's primary index.
    pub keys: KeyRange,
    /// The access of the action there.
    pub intent: Intent,
}

/// The keys that some actions touch: a buffer that is reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    entries: Vec<Route>,
    by_partition: bool,
}

impl Routes {
    /// None.
    pub fn new() -> Self {
        Routes::default()
    }

    /// None, for readers that care about partitions and not about keys or intents: an entry in the
    /// same partitions of the same table as the one before is left out.
    pub fn by_partition() -> Self {
        Routes { entries: Vec::new(), by_partition: true }
    }

    /// True if an entry is of no use that is in the same partitions of a table as another.
    #[inline(always)]
    pub fn is_by_partition(&self) -> bool {
        self.by_partition
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The entries, in the order in which they were added.
    pub fn entries(&self) -> &[Route] {
        &self.entries
    }

    /// Where the action belongs: see the module. `None` if it touches nothing.
    pub fn home(&self) -> Option<&Route> {
        self.entries.first()
    }

    /// Adds the row with this primary key, or all rows whose primary keys have these leading
    /// columns, to what is read.
    #[inline]
    pub fn read<R: Row, K: Key>(&mut self, table: Table<R>, key: &K) {
        self.add::<R, K, K>(table, KeyRange::of(key), Intent::Read);
    }

    /// As [`Self::read`], to what is written.
    #[inline]
    pub fn write<R: Row, K: Key>(&mut self, table: Table<R>, key: &K) {
        self.add::<R, K, K>(table, KeyRange::of(key), Intent::Write);
    }

    /// Adds the rows with primary keys, or leading columns of them, from `low` to `high`, both
    /// included.
    #[inline]
    pub fn between<R: Row, L: Key, H: Key>(&mut self, table: Table<R>, low: &L, high: &H, intent: Intent) {
        self.add::<R, L, H>(table, KeyRange::between(low, high), intent);
    }

    /// Adds all rows of a table.
    pub fn all<R: Row>(&mut self, table: Table<R>, intent: Intent) {
        self.push(Route { table: table.number(), keys: KeyRange::ALL, intent });
    }

    #[inline]
    fn add<R: Row, L: Key, H: Key>(&mut self, table: Table<R>, keys: KeyRange, intent: Intent) {
        const { assert!(L::BITS <= R::Key::BITS && H::BITS <= R::Key::BITS, "longer than a primary key") };
        self.push(Route { table: table.number(), keys, intent });
    }

    /// Adds an entry.
    #[inline]
    pub fn push(&mut self, route: Route) {
        let is_new = |last: &Route| {
            last.table != route.table || last.keys.partition_columns() != route.keys.partition_columns()
        };
        if !self.by_partition || self.entries.last().is_none_or(is_new) {
            self.entries.push(route);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_of_leading_columns() {
        let district = KeyRange::of(&(7u16, 3u8));
        assert!(district.covers(&KeyRange::of(&(7u16, 3u8, 0u32))));
        assert!(district.covers(&KeyRange::of(&(7u16, 3u8, u32::MAX))));
        assert!(district.covers(&KeyRange::between(&(7u16, 3u8, 9u32), &(7u16, 3u8))));
        assert!(!district.covers(&KeyRange::of(&(7u16, 4u8, 0u32))));
        assert!(!district.covers(&KeyRange::of(&7u16)));
        assert!(KeyRange::of(&7u16).covers(&district) && KeyRange::ALL.covers(&district));
        assert!(KeyRange::ALL.covers(&KeyRange::ALL) && !district.covers(&KeyRange::ALL));
        let orders = KeyRange::between(&(7u16, 3u8, 9u32), &(7u16, 4u8));
        assert!(orders.meets(&district) && district.meets(&orders));
        assert!(!KeyRange::of(&(7u16, 3u8, 8u32)).meets(&orders) && !KeyRange::of(&8u16).meets(&orders));
    }

    #[test]
    fn ranges_say_which_partitions() {
        assert_eq!(KeyRange::of(&(7u16, 3u8)).partition_columns(), (7, 7));
        assert_eq!(KeyRange::between(&(7u16, 3u8), &9u16).partition_columns(), (7, 9));
        assert_eq!(KeyRange::of(&7u8).partition_columns(), (7 << 8, 7 << 8 | 0xff));
        assert_eq!(KeyRange::ALL.partition_columns(), (0, u16::MAX));
        assert_eq!(format!("{:?}", KeyRange::between(&(7u16, 3u8), &9u16)), "000703* to 0009*");
        assert_eq!(format!("{:?}", KeyRange::ALL), "*");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn covering_is_that_of_columns(
            low: (u8, u16), high: (u8, u16), key: (u8, u16, u64), [low_short, high_short]: [bool; 2],
        ) {
            let normalized = |key: (u8, u16), short| match short {
                true => KeyBuffer::of(&key.0),
                false => KeyBuffer::of(&key),
            };
            let range = KeyRange::normalized(normalized(low, low_short), normalized(high, high_short));
            let is_above = if low_short { key.0 >= low.0 } else { (key.0, key.1) >= low };
            let is_below = if high_short { key.0 <= high.0 } else { (key.0, key.1) <= high };
            prop_assert_eq!(range.covers(&KeyRange::of(&key)), is_above && is_below);
            if low <= high {
                prop_assert_eq!(range.meets(&KeyRange::of(&key)), is_above && is_below);
            }
        }
    }
}
