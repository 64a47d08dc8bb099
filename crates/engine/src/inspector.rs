//! Reads the rows of a database while no transaction runs.

use cc::Scheme;
use platform::Platform;

use crate::database::Database;
use crate::dynamic::{self, AnyDatabase, Session};
use crate::ending::{Bounds, Ending};
use crate::key::{Key, KeyBuffer, key_words};
use crate::row::Row;
use crate::schema::Inspector;
use crate::table::Index;
use crate::verbs::Verbs;

impl<P: Platform, S: Scheme<P>> Database<P, S> {
    /// Reads the database while no transaction runs.
    pub fn inspector(&self, c: P::Core) -> RowInspector<'_, P> {
        RowInspector { database: self, c }
    }
}

impl<P: Platform> dynamic::Database<P> {
    /// Reads the database while no transaction runs.
    pub fn inspector(&self, c: P::Core) -> RowInspector<'_, P> {
        RowInspector { database: self.object(), c }
    }
}

/// Reads the rows of a database in which no transaction is running.
pub struct RowInspector<'d, P: Platform> {
    database: &'d dyn AnyDatabase<P>,
    c: P::Core,
}

/// Visits rows in the range whose keys in the index of this number are from `low` to `high`.
fn visit<P: Platform, R: Row, K: Key>(
    (database, c): (&dyn AnyDatabase<P>, P::Core),
    index: Index<R, K>,
    range: (&[u64], &[u64]),
    (low, high): (&KeyBuffer, &KeyBuffer),
    visit: &mut dyn FnMut(&R),
) {
    database.inspect(c, index.table().number(), index.number(), range, &mut |words, tail| {
        let fixed: &[u8] = bytemuck::cast_slice(words);
        let row = R::fetch(&fixed[..R::BYTES], tail);
        // Hash indexes give all rows, of which the range selects some.
        let mut key = KeyBuffer::new();
        row.index_key(index.number(), &mut key);
        if *low <= key && key <= *high {
            visit(&row);
        }
    });
}

fn row<P: Platform, R: Row, K: Key>(
    (database, c): (&dyn AnyDatabase<P>, P::Core),
    index: Index<R, K>,
    key: &K,
) -> Option<R> {
    let mut session = Session::new(database.session(c, None, false).ok()?);
    let found = session.transact(&Bounds::default(), |transaction| {
        match transaction.find(index, key, platform::Intent::Read)? {
            Some(handle) => Ok(Some(transaction.row(handle)?)),
            None => Ok(None),
        }
    });
    match found {
        Ok(Ending::Committed(row, _)) => row,
        _ => None,
    }
}

impl<P: Platform> Inspector for RowInspector<'_, P> {
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, to: &mut dyn FnMut(&R)) {
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        let words = const { key_words(K::BITS) };
        let range = (low.words(words), high.words(words));
        visit((self.database, self.c), index, range, (&low, &high), to);
    }

    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R> {
        row((self.database, self.c), index, key)
    }
}

/// Reads the rows of several databases that share the data, as if they were one; no transaction is running. Tables that all of
/// them have are read in the first.
pub struct JointInspector<'d, P: Platform> {
    /// The databases.
    pub databases: &'d [&'d dynamic::Database<P>],
    /// The running core.
    pub c: P::Core,
    /// By number of the table: whether the databases share its rows, or each has all of them.
    pub shared: &'d [bool],
    /// The leading columns of all keys that there may be, the least and the greatest.
    pub columns: (u16, u16),
    /// The number of the database that has the rows with this leading column.
    pub owner: &'d dyn Fn(u16) -> usize,
}

impl<P: Platform> JointInspector<'_, P> {
    fn is_shared(&self, table: usize) -> bool {
        self.shared.get(table).copied().unwrap_or(false)
    }
}

/// Bits of a word below the column that tables are partitioned by.
const BELOW_COLUMN: u32 = u64::BITS - 16;

impl<P: Platform> Inspector for JointInspector<'_, P> {
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, to: &mut dyn FnMut(&R)) {
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        let words = const { key_words(K::BITS) };
        let (first, last) = (low.words(words), high.words(words));
        if !self.is_shared(index.table().number()) {
            return visit((self.databases[0].object(), self.c), index, (first, last), (&low, &high), to);
        }
        let column = |word: u64| (word >> BELOW_COLUMN) as u16;
        let (least, greatest) = (column(first[0]).max(self.columns.0), column(last[0]).min(self.columns.1));
        // Rows of one column lie in one database: so they come in the order of keys.
        for part in least..=greatest {
            let (mut begin, mut end) = (vec![0; words], vec![u64::MAX; words]);
            begin[0] = u64::from(part) << BELOW_COLUMN;
            // Columns beyond the greatest belong to its partition.
            let is_last = part == self.columns.1;
            end[0] = if is_last { u64::MAX } else { begin[0] | (u64::MAX >> 16) };
            let range = (first.max(&begin[..]), last.min(&end[..]));
            let database = self.databases[(self.owner)(part)].object();
            visit((database, self.c), index, range, (&low, &high), &mut |row: &R| {
                // A hash index gives rows of other parts, too: each is seen in its own.
                let mut key = KeyBuffer::new();
                row.index_key(index.number(), &mut key);
                let its = column(key.words(1)[0]);
                if its == part || (is_last && its > part) {
                    to(row);
                }
            });
        }
    }

    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R> {
        let column = (KeyBuffer::of(key).words(1)[0] >> BELOW_COLUMN) as u16;
        let number = if self.is_shared(index.table().number()) { (self.owner)(column) } else { 0 };
        row((self.databases[number].object(), self.c), index, key)
    }
}
