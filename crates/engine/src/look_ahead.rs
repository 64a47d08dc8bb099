//! What a procedure says of itself before it begins, so that its worker can look ahead (`cc::look_ahead` says how, and why that
//! is safe).

use cc::{Distance, Scheme};
use platform::Platform;

use crate::column_set::ColumnSet;
use crate::key::{Key, KeyBuffer, key_words};
use crate::row::Row;
use crate::table::Index;

/// Hears what a transaction will use, as far as that is known before it begins.
pub trait LookAhead {
    /// These columns of the row with this key, to be looked up in this index.
    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, columns: ColumnSet<R>);

    /// The place of a key in an index, to insert it or to begin a scan.
    fn place<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K);
}

/// Looks ahead in a session: the session is inside an epoch.
pub(crate) struct Ahead<'s, 'd, P: Platform, S: Scheme<P>> {
    pub(crate) session: &'s mut cc::Session<'d, P, S>,
    pub(crate) distance: Distance,
}

impl<P: Platform, S: Scheme<P>> Ahead<'_, '_, P, S> {
    #[inline(always)]
    fn look<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, words: Option<u64>) {
        let key = KeyBuffer::of(key);
        let (place, words_of_key) = ((index.table().number(), index.number()), const { key_words(K::BITS) });
        cc::look_ahead(&self.session.context(), self.distance, place, key.words(words_of_key), words);
    }

    /// As [`cc::look_ahead`], if there is such an index and its keys have this length.
    pub(crate) fn look_erased(&mut self, (table, index): (usize, usize), key: &[u64], words: Option<u64>) {
        let cx = self.session.context();
        let storage = cx.tables.get(table).and_then(|table| table.indexes.get(index));
        if storage.is_some_and(|storage| storage.words == key.len()) {
            cc::look_ahead(&cx, self.distance, (table, index), key, words);
        }
    }
}

impl<P: Platform, S: Scheme<P>> LookAhead for Ahead<'_, '_, P, S> {
    #[inline(always)]
    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, columns: ColumnSet<R>) {
        self.look(index, key, Some(columns.words()));
    }

    #[inline(always)]
    fn place<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.look(index, key, None);
    }
}
