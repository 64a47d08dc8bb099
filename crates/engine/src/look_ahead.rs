//! Keys that a procedure announces before it begins, so that its worker can prefetch them
//! (`concurrency::look_ahead` says how, and why that is safe).

use boundary::LookAhead;
use concurrency::Scheme;
use platform::Platform;

use schema::key::KeyOf;
use schema::{ColumnSet, Index, Key, Row};

/// The look-ahead of a session, which is inside an epoch.
pub(crate) struct Ahead<'s, 'd, P: Platform, S: Scheme<P>> {
    pub(crate) session: &'s mut concurrency::WorkerContext<'d, P, S>,
    pub(crate) look_ahead: &'s mut concurrency::LookAhead<'d, P>,
}

impl<P: Platform, S: Scheme<P>> LookAhead for Ahead<'_, '_, P, S> {
    #[inline(always)]
    fn rows<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: impl Iterator<Item = K>,
        columns: ColumnSet<R>,
    ) {
        let (table, index) = (index.table().number(), index.number());
        let keys = keys.map(|key| KeyOf::new(&key));
        self.look_ahead.add_rows(&self.session.context(), table, index, keys, columns.words());
    }

    #[inline(always)]
    fn insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        let (table, index) = (index.table().number(), index.number());
        self.look_ahead.add_insertion(&self.session.context(), table, index, KeyOf::new(key).as_ref());
    }
}
