//! What a procedure tells before it begins, so that its worker can look ahead (`cc::look_ahead` says how, and why that is safe).

use cc::{Scheme, Use};
use platform::Platform;

use crate::column_set::ColumnSet;
use crate::key::{Key, KeyBuffer, key_words};
use crate::row::Row;
use crate::table::Index;

/// Hears what a transaction will use, as far as that is known before it begins.
pub trait LookAhead {
    /// The transaction will use this key of an index.
    fn add<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, what: Use);

    /// The transaction will use these columns of the row with this key.
    #[inline(always)]
    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, columns: ColumnSet<R>) {
        self.add(index, key, Use::Row(columns.words()));
    }

    /// It will insert this key.
    #[inline(always)]
    fn insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.add(index, key, Use::Insertion);
    }

    /// It will scan from this key on.
    #[inline(always)]
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.add(index, key, Use::Scan);
    }
}

/// The look-ahead of a session, which is inside an epoch.
pub(crate) struct Ahead<'s, 'd, P: Platform, S: Scheme<P>> {
    pub(crate) session: &'s mut cc::Session<'d, P, S>,
    pub(crate) look_ahead: &'s mut cc::LookAhead<'d, P>,
}

impl<P: Platform, S: Scheme<P>> LookAhead for Ahead<'_, '_, P, S> {
    #[inline(always)]
    fn add<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, what: Use) {
        let key = KeyBuffer::of(key);
        let (place, words) = ((index.table().number(), index.number()), const { key_words(K::BITS) });
        self.look_ahead.add(&self.session.context(), place, key.words(words), what);
    }
}
