//! Reads the rows of a database while no transaction runs.

use cc::Scheme;
use platform::Platform;

use crate::database::Database;
use crate::ending::{Bounds, Ending};
use crate::key::{Key, KeyBuffer, key_words};
use crate::row::Row;
use crate::schema::Inspector;
use crate::table::Index;
use crate::verbs::Verbs;

impl<P: Platform, S: Scheme<P>> Database<P, S> {
    /// Reads the database while no transaction runs.
    pub fn inspector(&self, c: P::Core) -> RowInspector<'_, P, S> {
        RowInspector { database: self, c }
    }
}

/// Reads the rows of a database in which no transaction is running.
pub struct RowInspector<'d, P: Platform, S: Scheme<P>> {
    database: &'d Database<P, S>,
    c: P::Core,
}

impl<P: Platform, S: Scheme<P>> RowInspector<'_, P, S> {
    fn visit<R: Row>(
        &mut self,
        table: usize,
        index: usize,
        range: (&[u64], &[u64]),
        visit: &mut dyn FnMut(&R),
    ) {
        self.database.instance.inspect(self.c, table, index, range, &mut |words, tail| {
            let fixed: &[u8] = bytemuck::cast_slice(words);
            visit(&R::fetch(&fixed[..R::BYTES], tail));
        });
    }
}

impl<P: Platform, S: Scheme<P>> Inspector for RowInspector<'_, P, S> {
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, visit: &mut dyn FnMut(&R)) {
        let (low, high) = (KeyBuffer::of(low), KeyBuffer::of(high));
        let words = const { key_words(K::BITS) };
        let range = (low.words(words), high.words(words));
        self.visit(index.table().number(), index.number(), range, &mut |row: &R| {
            // Hash indexes give all rows, of which the range selects some.
            let mut key = KeyBuffer::new();
            row.index_key(index.number(), &mut key);
            if low <= key && key <= high {
                visit(row);
            }
        });
    }

    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R> {
        let mut session = self.database.session(self.c, None, false).ok()?;
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
}
