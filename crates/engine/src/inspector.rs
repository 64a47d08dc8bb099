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

impl<P: Platform> RowInspector<'_, P> {
    fn visit<R: Row>(
        &mut self,
        table: usize,
        index: usize,
        range: (&[u64], &[u64]),
        visit: &mut dyn FnMut(&R),
    ) {
        self.database.inspect(self.c, table, index, range, &mut |words, tail| {
            let fixed: &[u8] = bytemuck::cast_slice(words);
            visit(&R::fetch(&fixed[..R::BYTES], tail));
        });
    }
}

impl<P: Platform> Inspector for RowInspector<'_, P> {
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
        let mut session = Session::new(self.database.session(self.c, None, false).ok()?);
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
