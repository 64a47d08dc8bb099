//! Routes: the tables and keys that an action may access, declared before it runs.
//!
//! A route is a list of (table, range of primary keys, intent). It is *true* if it covers
//! everything that the action looks up, scans, inserts, deletes or changes. It may cover more than
//! the action accesses, which only costs concurrency. Executors that send actions to the owners of
//! partitions or to other instances, and schemes that lock before they access, rely on routes;
//! `testing::run_shuffled` asserts that they are true.
//!
//! - **Home.** The first entry determines the home of the action: the owner of the partition, and
//!   the instance, that hold the entry's lowest key. The entry does not name a read-only table,
//!   because all instances have a copy.
//! - **Reads and writes.** Insertions, deletions, changes and lookups with [`Intent::Write`] are
//!   writes. Absent keys that the action relies on, and the gaps that it scans, count as reads.
//!   Prefetching is no access.
//! - **Read-only tables** are named like all others.
//! - **Other indexes.** Routes contain ranges of primary keys only. For a lookup in another index,
//!   an action names all primary keys that agree with the looked-up keys in the leading columns
//!   that both indexes share, or the whole table if they share none. The route thus covers every
//!   row that the lookup may find, and conflicts with every action that could insert another such
//!   row, although an insertion or a deletion names only the row's primary key. If the other index
//!   also begins with the partitioning column, its entries lie in the row's partition and belong to
//!   the partition's owner. Otherwise a lookup by this index is possible only where the whole table
//!   is available.

use std::fmt;

use terms::Intent;
use terms::rows::partition_column;

use crate::key::{Key, KeyBuffer, SHORT_KEY_BITS, SHORT_KEY_WORDS};
use crate::row::Row;
use crate::table::Table;

/// All keys whose leading columns lie between `low` and `high`, both included. The two may have
/// different numbers of columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyRange {
    low: KeyBuffer,
    high: KeyBuffer,
}

impl KeyRange {
    /// All keys.
    pub const ALL: KeyRange = KeyRange { low: KeyBuffer::new(), high: KeyBuffer::new() };

    /// Returns the range of one key, or of all keys with these leading columns.
    #[inline]
    pub fn of<K: Key>(key: &K) -> Self {
        let key = KeyBuffer::of(key);
        KeyRange { low: key, high: key }
    }

    /// Returns the range of keys from `low` to `high`, including keys that begin with `high`.
    #[inline]
    pub fn between<L: Key, H: Key>(low: &L, high: &H) -> Self {
        KeyRange::normalized(KeyBuffer::of(low), KeyBuffer::of(high))
    }

    /// As [`Self::between`], for normalized keys.
    #[inline]
    pub fn normalized(low: KeyBuffer, high: KeyBuffer) -> Self {
        KeyRange { low, high }
    }

    /// Returns the primary keys that an action names to look up keys from `low` to `high` in the
    /// index of this number: see the module.
    pub fn looked_up<R: Row>(index: usize, low: &KeyBuffer, high: &KeyBuffer) -> Self {
        let bits = common_bits::<R>(index);
        KeyRange { low: leading(low, bits), high: leading(high, bits) }
    }

    /// Returns the lowest key, or its leading columns.
    pub fn low(&self) -> &KeyBuffer {
        &self.low
    }

    /// Returns the highest key, or its leading columns.
    pub fn high(&self) -> &KeyBuffer {
        &self.high
    }

    /// Returns true if all keys of the other range are in this one.
    pub fn covers(&self, inner: &KeyRange) -> bool {
        lowest(&inner.low) >= lowest(&self.low) && highest(&inner.high) <= highest(&self.high)
    }

    /// Returns true if the ranges have a key in common.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        lowest(&self.low) <= highest(&other.high) && lowest(&other.low) <= highest(&self.high)
    }

    /// Returns the values of the leading 16-bit column, by which tables are partitioned, of the
    /// lowest and of the highest key.
    #[inline]
    pub fn partition_columns(&self) -> (u16, u16) {
        let leading = |key: &KeyBuffer| partition_column(key.words(1)[0]);
        // Columns that the highest key does not contain can have any value.
        let unsaid = u16::MAX.checked_shr(self.high.bits()).unwrap_or(0);
        (leading(&self.low), leading(&self.high) | unsaid)
    }
}

impl fmt::Debug for KeyRange {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |to: &mut fmt::Formatter<'_>, key: &KeyBuffer| {
            // Of a long key only the first words are there.
            let bits = key.bits().min(SHORT_KEY_BITS) as usize;
            let (words, digits) = (bits.div_ceil(64), bits.div_ceil(4));
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

/// Returns the number of bits of the leading columns that the primary key and the key of another
/// index share.
fn common_bits<R: Row>(index: usize) -> u32 {
    if index == 0 {
        return R::INDEXES[0].key_bits.min(SHORT_KEY_BITS);
    }
    let (own, primary) = (&R::INDEXES[index], &R::INDEXES[0]);
    let columns = own.columns.iter().zip(primary.columns).enumerate();
    let is_common = |(number, (one, other)): &(usize, (&&str, &&str))| {
        one == other && own.order(*number) == primary.order(*number)
    };
    // Columns of the tail have no fixed number of bits.
    let common = columns.take_while(is_common).map_while(|(_, (name, _))| {
        let column = R::COLUMNS.iter().find(|column| column.name == *name);
        column.map(|column| 8 * column.bytes as u32)
    });
    common.sum::<u32>().min(SHORT_KEY_BITS)
}

/// Returns the first bits of a key.
fn leading(key: &KeyBuffer, bits: u32) -> KeyBuffer {
    let mut leading = KeyBuffer::new();
    for word in key.words(bits.div_ceil(u64::BITS) as usize) {
        let rest = (bits - leading.bits()).min(u64::BITS);
        leading.push(word >> (u64::BITS - rest), rest);
    }
    leading
}

/// Returns the smallest key with these leading columns.
fn lowest(key: &KeyBuffer) -> [u64; SHORT_KEY_WORDS] {
    let mut words = [0; SHORT_KEY_WORDS];
    words.copy_from_slice(key.words(SHORT_KEY_WORDS));
    words
}

/// Returns the largest key with these leading columns.
fn highest(key: &KeyBuffer) -> [u64; SHORT_KEY_WORDS] {
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
    /// Read or write.
    pub intent: Intent,
}

/// The route of one or more actions: a reusable buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    entries: Vec<Route>,
    by_partition: bool,
}

impl Routes {
    /// Returns an empty route.
    pub fn new() -> Self {
        Routes::default()
    }

    /// Returns an empty route for readers that need partitions only, not keys or intents: an entry
    /// for the same partitions of the same table as the previous one is omitted.
    pub fn by_partition() -> Self {
        Routes { entries: Vec::new(), by_partition: true }
    }

    /// Returns true if entries for the same partitions are omitted.
    #[inline(always)]
    pub fn is_by_partition(&self) -> bool {
        self.by_partition
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns the entries, in the order in which they were added.
    pub fn entries(&self) -> &[Route] {
        &self.entries
    }

    /// Returns the home of the action: see the module. `None` if the route is empty.
    pub fn home(&self) -> Option<&Route> {
        self.entries.first()
    }

    /// Adds a read of the row with this primary key, or of all rows whose primary keys have these
    /// leading columns.
    #[inline]
    pub fn read<R: Row, K: Key>(&mut self, table: Table<R>, key: &K) {
        self.add::<R, K, K>(table, KeyRange::of(key), Intent::Read);
    }

    /// Adds a write, otherwise as [`Self::read`].
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
    fn ranges_compare_leading_columns() {
        let district = KeyRange::of(&(7u16, 3u8));
        assert!(district.covers(&KeyRange::of(&(7u16, 3u8, 0u32))));
        assert!(district.covers(&KeyRange::of(&(7u16, 3u8, u32::MAX))));
        assert!(district.covers(&KeyRange::between(&(7u16, 3u8, 9u32), &(7u16, 3u8))));
        assert!(!district.covers(&KeyRange::of(&(7u16, 4u8, 0u32))));
        assert!(!district.covers(&KeyRange::of(&7u16)));
        assert!(KeyRange::of(&7u16).covers(&district) && KeyRange::ALL.covers(&district));
        assert!(KeyRange::ALL.covers(&KeyRange::ALL) && !district.covers(&KeyRange::ALL));
        let orders = KeyRange::between(&(7u16, 3u8, 9u32), &(7u16, 4u8));
        assert!(orders.overlaps(&district) && district.overlaps(&orders));
        assert!(
            !KeyRange::of(&(7u16, 3u8, 8u32)).overlaps(&orders) && !KeyRange::of(&8u16).overlaps(&orders)
        );
    }

    #[test]
    fn ranges_report_their_partitions() {
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
        fn covering_and_overlap_agree_with_the_columns(
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
                prop_assert_eq!(range.overlaps(&KeyRange::of(&key)), is_above && is_below);
            }
        }
    }
}
