//! Reads the rows of a database while no transaction runs.

use platform::{Intent, Platform};
use terms::Mode;
use terms::rows::KeyBounds;

use crate::any_verbs::Span;
use crate::database::AnyDatabase;
use crate::ending::{Bounds, Ending};
use crate::handles::Database;
use schema::key::SHORT_KEY_BITS;
use schema::{AnyKey, Index, Inspector, Key, Row, key_words};

impl<P: Platform> Database<P> {
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

impl<'d, P: Platform> RowInspector<'d, P> {
    /// Reads this database.
    pub fn new(database: &'d dyn AnyDatabase<P>, c: P::Core) -> Self {
        RowInspector { database, c }
    }
}

/// Where the rows of a database are read while no transaction runs: the database itself, or a
/// process that has it. Rows are words and a tail, as [`Row::fetch`] takes them.
pub trait RowSource {
    /// Visits the rows of a table with keys in a range of an index. An index without order gives
    /// all rows.
    fn rows(
        &mut self,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    );

    /// Visits the row of a table with this key in an index, if there is one.
    fn row(&mut self, table: usize, index: usize, key: &[u64], visit: &mut dyn FnMut(&[u64], &[u8]));
}

impl<P: Platform> RowSource for RowInspector<'_, P> {
    fn rows(
        &mut self,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    ) {
        self.database.inspect(self.c, table, index, range, visit);
    }

    fn row(&mut self, table: usize, index: usize, key: &[u64], visit: &mut dyn FnMut(&[u64], &[u8])) {
        let Some(description) = self.database.tables().get(table) else { return };
        let Ok(mut session) = self.database.session(self.c, None, false) else { return };
        let span = Span { offset: 0, bytes: description.row_bytes() };
        let (mut words, mut tail, mut found) = (vec![0; span.words()], Vec::new(), false);
        let ended = session.transact(Mode::Single, &Bounds::default(), &mut |verbs| {
            found = false;
            tail.clear();
            let Some(row) = verbs.find(table, index, key, Intent::Read)? else { return Ok(()) };
            if description.has_tail() {
                verbs.read_tail(row, &mut tail)?;
            }
            verbs.read(row, span, &mut words)?;
            found = true;
            Ok(())
        });
        if found && matches!(ended, Ok(Ending::Committed(..))) {
            visit(&words, &tail);
        }
    }
}

/// The row of these words and this tail.
fn fetch<R: Row>(words: &[u64], tail: &[u8]) -> R {
    let fixed: &[u8] = bytemuck::cast_slice(words);
    R::fetch(&fixed[..R::BYTES], tail)
}

/// Visits rows in the range whose keys in the index of this number are from `low` to `high`.
fn visit<R: Row, K: Key>(
    source: &mut (impl RowSource + ?Sized),
    index: Index<R, K>,
    range: KeyBounds<'_>,
    low: &AnyKey,
    high: &AnyKey,
    visit: &mut dyn FnMut(&R),
) {
    source.rows(index.table().number(), index.number(), range, &mut |words, tail| {
        let row: R = fetch(words, tail);
        // Hash indexes give all rows, of which the range selects some.
        let mut key = AnyKey::new(const { K::BITS });
        row.index_key(index.number(), &mut key);
        if *low <= key && key <= *high {
            visit(&row);
        }
    });
}

fn row<R: Row, K: Key>(
    source: &mut (impl RowSource + ?Sized),
    index: Index<R, K>,
    key: &AnyKey,
) -> Option<R> {
    let mut found = None;
    let words = key.words(const { key_words(K::BITS) });
    source.row(index.table().number(), index.number(), words, &mut |words, tail| {
        found = Some(fetch(words, tail));
    });
    found
}

impl<P: Platform> Inspector for RowInspector<'_, P> {
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, to: &mut dyn FnMut(&R)) {
        let (low, high) = (AnyKey::of(low), AnyKey::of(high));
        let words = const { key_words(K::BITS) };
        let range = KeyBounds { low: low.words(words), high: high.words(words) };
        visit(self, index, range, &low, &high, to);
    }

    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R> {
        row(self, index, &AnyKey::of(key))
    }
}

/// Reads the rows of several databases that share the data, as if they were one; no transaction is
/// running. Tables that all of them have are read in the first.
pub struct JointInspector<'d, 's> {
    /// The databases.
    pub sources: &'d mut [Box<dyn RowSource + 's>],
    /// By number of the table: whether the databases share its rows, or each has all of them.
    pub shared: &'d [bool],
    /// The leading columns of all keys that there may be, the least and the greatest.
    pub columns: (u16, u16),
    /// The number of the database that has the rows with this leading column.
    pub owner: &'d dyn Fn(u16) -> usize,
}

impl JointInspector<'_, '_> {
    fn is_shared(&self, table: usize) -> bool {
        self.shared.get(table).copied().unwrap_or(false)
    }
}

/// Bits of a word below the column that tables are partitioned by.
const BELOW_COLUMN: u32 = u64::BITS - 16;

impl Inspector for JointInspector<'_, '_> {
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, to: &mut dyn FnMut(&R)) {
        let (low, high) = (AnyKey::of(low), AnyKey::of(high));
        let words = const { key_words(K::BITS) };
        let range = KeyBounds { low: low.words(words), high: high.words(words) };
        if !self.is_shared(index.table().number()) {
            return visit(&mut *self.sources[0], index, range, &low, &high, to);
        }
        let column = |word: u64| (word >> BELOW_COLUMN) as u16;
        let least = column(range.low[0]).max(self.columns.0);
        let greatest = column(range.high[0]).min(self.columns.1);
        // Rows of one column lie in one database: so they come in the order of keys.
        for part in least..=greatest {
            let (mut begin, mut end) = (vec![0; words], vec![u64::MAX; words]);
            begin[0] = u64::from(part) << BELOW_COLUMN;
            // Long keys have no zeros at their ends.
            begin.truncate(if const { K::BITS > SHORT_KEY_BITS } { 1 } else { words });
            // Columns beyond the greatest belong to its partition.
            let is_last = part == self.columns.1;
            end[0] = if is_last { u64::MAX } else { begin[0] | (u64::MAX >> 16) };
            let range = KeyBounds { low: range.low.max(&begin[..]), high: range.high.min(&end[..]) };
            let source = &mut *self.sources[(self.owner)(part)];
            visit(source, index, range, &low, &high, &mut |row: &R| {
                // A hash index gives rows of other parts, too: each is seen in its own.
                let mut key = AnyKey::new(const { K::BITS });
                row.index_key(index.number(), &mut key);
                let its = column(key.words(1)[0]);
                if its == part || (is_last && its > part) {
                    to(row);
                }
            });
        }
    }

    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R> {
        let key = AnyKey::of(key);
        let column = (key.words(1)[0] >> BELOW_COLUMN) as u16;
        let number = if self.is_shared(index.table().number()) { (self.owner)(column) } else { 0 };
        row(&mut *self.sources[number], index, &key)
    }
}
