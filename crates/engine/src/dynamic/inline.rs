//! Stored procedures through the dynamic boundary.

use cc::{Abort, Distance, Mode};

use super::session::AnySession;
use super::transaction::Transaction;
use super::typed::Session;
use crate::column_set::ColumnSet;
use crate::ending::{Bounds, Ending};
use crate::inline::{Attempt, run_inline};
use crate::key::{Key, KeyBuffer, key_words};
use crate::look_ahead::LookAhead;
use crate::procedure::Procedure;
use crate::routes::Routes;
use crate::row::Row;
use crate::table::Index;

impl Attempt for Transaction<'_> {
    fn enlists(&self) -> bool {
        self.enlists()
    }

    fn enlist(&mut self, mut fill: impl FnMut(&mut Routes)) {
        self.verbs().enlist(&mut fill);
    }
}

impl<'d> Session<'d> {
    /// Looks ahead for a procedure that the session will run soon: see [`crate::Session::look_ahead`].
    pub fn look_ahead<Q: Procedure>(&mut self, tables: &Q::Tables, procedure: &Q, distance: Distance) {
        procedure.look_ahead(tables, &mut Ahead { session: self.object(), distance });
    }

    /// Runs a stored procedure inline: see [`crate::Session::run`].
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn run<Q: Procedure>(
        &mut self,
        tables: &Q::Tables,
        procedure: &mut Q,
        actions: &mut Vec<Q::Action>,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort> {
        let mode = if procedure.read_only() { Mode::Snapshot } else { Mode::Single };
        run_as(self.object(), mode, (tables, procedure, actions), bounds)
    }
}

/// Looks ahead through an object.
struct Ahead<'s, 'd> {
    session: &'s mut (dyn AnySession<'d> + 'd),
    distance: Distance,
}

impl Ahead<'_, '_> {
    fn look<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, words: Option<u64>) {
        let key = KeyBuffer::of(key);
        let place = (index.table().number(), index.number());
        self.session.look_ahead(self.distance, place, key.words(const { key_words(K::BITS) }), words);
    }
}

impl LookAhead for Ahead<'_, '_> {
    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, columns: ColumnSet<R>) {
        self.look(index, key, Some(columns.words()));
    }

    fn place<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.look(index, key, None);
    }
}

/// Runs a stored procedure inline in this mode, whatever it says of itself; `actions` is a buffer.
///
/// # Errors
/// See [`Abort`].
pub fn run_as<Q: Procedure>(
    session: &mut dyn AnySession<'_>,
    mode: Mode,
    (tables, procedure, actions): (&Q::Tables, &mut Q, &mut Vec<Q::Action>),
    bounds: &Bounds,
) -> Result<Ending<()>, Abort> {
    session.transact(mode, bounds, &mut |verbs| {
        run_inline(tables, procedure, actions, &mut Transaction::new(verbs))
    })
}
