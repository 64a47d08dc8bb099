//! Inline execution of stored procedures: by the worker that began the transaction, in one
//! transaction.

use concurrency::Use;
use platform::Work;
use schema::key::SHORT_KEY_BITS;
use schema::{ColumnSet, Index, Key, KeyBuffer, Routes, Row, key_words};
use terms::{Abort, Mode};

use crate::ending::{Bounds, Ending};
use crate::handles::Session;
use crate::look_ahead::LookAhead;
use crate::procedure::{Plan, Procedure};
use crate::session::AnySession;
use crate::transaction::Transaction;
use crate::verbs::Verbs;

/// An attempt of a transaction as executors see it.
pub trait Attempt: Verbs {
    /// True if the attempt enlists keys before its first verb.
    fn enlists(&self) -> bool;
    /// Announces what `fill` adds.
    fn enlist(&mut self, fill: impl FnMut(&mut Routes));
}

/// Runs one attempt of a procedure: its phases in order, each action in the order planned.
/// `actions` is a buffer.
#[inline]
pub fn run_inline<Q: Procedure>(
    tables: &Q::Tables,
    procedure: &mut Q,
    actions: &mut Vec<Q::Action>,
    transaction: &mut impl Attempt,
) -> Result<(), Abort> {
    // What is copied: the procedure from its generator, actions from the procedure, outputs to the
    // procedure.
    let words = |bytes: usize| bytes.div_ceil(8) as u32;
    transaction.work(Work::CopyWord, words(size_of::<Q>()));
    for phase in 0.. {
        actions.clear();
        match procedure.plan(phase, actions) {
            Plan::Commit => break,
            Plan::RollBack => return Err(Abort::RollBack),
            Plan::Run => {
                let moved = words(size_of::<Q::Action>()) + words(size_of::<Q::Output>());
                transaction.work(Work::CopyWord, moved * actions.len() as u32);
                if phase == 0 && transaction.enlists() {
                    transaction.enlist(|to| actions.iter().for_each(|action| Q::route(tables, action, to)));
                }
                for (number, action) in actions.iter().enumerate() {
                    let output = Q::execute(tables, action, transaction)?;
                    procedure.absorb(phase, number, output);
                }
            }
        }
    }
    Ok(())
}

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
        run_as(self.object(), mode, tables, procedure, actions, bounds)
    }
}

/// Announces the keys of a procedure that the session will run, but only keys that are near:
/// `is_near` receives the table's number and the leading column of each.
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
        if const { K::BITS > SHORT_KEY_BITS } {
            // Long keys are not looked for ahead.
            return;
        }
        let key = KeyBuffer::of(key);
        let (table, index) = (index.table().number(), index.number());
        let words = key.words(const { key_words(K::BITS) });
        if (self.1)(table, (words[0] >> LEADING_SHIFT) as u16) {
            self.0.add_ahead(table, index, words, what);
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

/// Runs a stored procedure inline in this mode, whatever its own mode is; `actions` is a buffer.
///
/// # Errors
/// See [`Abort`].
pub fn run_as<Q: Procedure>(
    session: &mut dyn AnySession<'_>,
    mode: Mode,
    tables: &Q::Tables,
    procedure: &mut Q,
    actions: &mut Vec<Q::Action>,
    bounds: &Bounds,
) -> Result<Ending<()>, Abort> {
    session.transact(mode, bounds, &mut |verbs| {
        run_inline(tables, procedure, actions, &mut Transaction::new(verbs))
    })
}
