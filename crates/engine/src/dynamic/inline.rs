//! Stored procedures through the dynamic boundary.

use concurrency::Use;
use terms::{Abort, Mode};

use super::session::AnySession;
use super::transaction::Transaction;
use super::typed::Session;
use crate::ending::{Bounds, Ending};
use crate::inline::{Attempt, run_inline};
use crate::look_ahead::LookAhead;
use crate::procedure::Procedure;
use schema::{ColumnSet, Index, Key, KeyBuffer, Routes, Row, key_words};

/// Where the leading column of a key begins in its first word.
const LEADING_SHIFT: u32 = 48;

impl Attempt for Transaction<'_> {
    fn enlists(&self) -> bool {
        self.enlists()
    }

    fn enlist(&mut self, mut fill: impl FnMut(&mut Routes)) {
        self.verbs().enlist(&mut fill);
    }
}

impl<'d> Session<'d> {
    /// Tells of a procedure that the session will run: see [`crate::Session::look_ahead`].
    pub fn look_ahead<Q: Procedure>(&mut self, tables: &Q::Tables, procedure: Option<&Q>) {
        look_ahead_of(self.object(), tables, procedure, &|_, _| true);
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

/// Tells of a procedure that the session will run, but only of keys that are near: `is_near` hears
/// the table's number and the leading column of each.
pub fn look_ahead_of<'d, Q: Procedure>(
    session: &mut (dyn AnySession<'d> + 'd),
    tables: &Q::Tables,
    procedure: Option<&Q>,
    is_near: &dyn Fn(usize, u16) -> bool,
) {
    session.step_ahead();
    if let Some(procedure) = procedure {
        procedure.look_ahead(tables, &mut Ahead(session, is_near));
    }
}

/// The look-ahead of an object, of keys that are near.
struct Ahead<'s, 'd>(&'s mut (dyn AnySession<'d> + 'd), &'s dyn Fn(usize, u16) -> bool);

impl Ahead<'_, '_> {
    fn add<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K, what: Use) {
        let key = KeyBuffer::of(key);
        let place = (index.table().number(), index.number());
        let words = key.words(const { key_words(K::BITS) });
        if (self.1)(place.0, (words[0] >> LEADING_SHIFT) as u16) {
            self.0.add_ahead(place, words, what);
        }
    }
}

impl LookAhead for Ahead<'_, '_> {
    fn rows<R: Row, K: Key>(
        &mut self,
        index: Index<R, K>,
        keys: impl Iterator<Item = K>,
        columns: ColumnSet<R>,
    ) {
        keys.for_each(|key| self.add(index, &key, Use::Row(columns.words())));
    }

    fn insertion<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) {
        self.add(index, key, Use::Insertion);
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
