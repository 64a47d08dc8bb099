//! Sessions as objects.

use std::any::Any;
use std::marker::PhantomData;

use concurrency::{Instance, Scheme, Use};
use platform::{Nanos, Platform};
use redo_log::LogError;
use storage::last_complete;
use terms::Epoch;
use terms::{Abort, Category, Mode};

use super::attempt::AnyAttempt;
use super::branches::Branches;
use super::verbs::{AnyVerbs, Body};
use crate::changing::{ChangeError, Swept};
use crate::contention::Pauses;
use crate::converting::TableChange;
use crate::declaration::SchemaBuilder;
use crate::durable::{GlobalId, PartOf};
use crate::ending::{Bounds, Commit, Ending, Stats};
use crate::following::Following;
use crate::parts::{KeptPart, Outcome, Prepared, Vote};
use crate::session::Session;
use crate::table_list::Changes;
use crate::transaction::Transaction;

/// A [`Prepared`] part of a transaction over several databases, whatever its scheme.
#[must_use = "a prepared part keeps its rows locked until it is finished"]
pub struct AnyPrepared<'d> {
    /// Where the part is kept, with the address of the instance, which no other has as long as `'d`
    /// lasts.
    inner: Box<dyn Any + Send>,
    instance: usize,
    database: PhantomData<&'d ()>,
}

impl<'d> AnyPrepared<'d> {
    /// A part of this instance.
    pub(super) fn of<P: Platform, S: Scheme<P>>(
        prepared: Prepared<'d, P, S>,
        instance: &Instance<P, S>,
    ) -> Self {
        let inner = Box::new(prepared.into_part(instance));
        AnyPrepared { inner, instance: address(instance), database: PhantomData }
    }
}

impl AnyPrepared<'_> {
    /// A part that another storage manager keeps; `instance` tells its databases apart as long as
    /// they live.
    pub fn new(inner: Box<dyn Any + Send>, instance: usize) -> Self {
        AnyPrepared { inner, instance, database: PhantomData }
    }

    /// What [`Self::new`] was given.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    pub fn into_inner(self, instance: usize) -> Box<dyn Any + Send> {
        assert!(self.instance == instance, "the part was prepared in another database");
        self.inner
    }
}

/// Tells instances apart.
fn address<P: Platform, S: Scheme<P>>(instance: &Instance<P, S>) -> usize {
    std::ptr::from_ref(instance).addr()
}

/// What a session needs and tells between its transactions: see [`Session`] for what the methods
/// do.
pub trait Upkeep {
    /// Whether a commit, or what a decision to roll back depends on, survives whatever happens.
    fn is_durable(&self, outcome: Epoch) -> bool;

    /// Waits until an outcome is durable, no longer than until the deadline, if there is one; tells
    /// whether the outcome is durable.
    ///
    /// # Errors
    /// The log has stopped: the commit is not to be acknowledged.
    fn wait_durable_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort>;
    /// As that, for a caller that does not ask again: see [`crate::Session::wait_written_until`].
    ///
    /// # Errors
    /// As that.
    fn wait_written_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_durable_until(outcome, deadline)
    }

    /// Moves epochs on towards an outcome that is not durable yet, as far as others let them, and
    /// has the log write, without waiting: for a caller whose prepared parts keep others out until
    /// then, and who has nothing else to do between two transactions.
    fn hurry(&mut self, outcome: Epoch) {
        let _ = outcome;
    }

    /// The platform's time.
    fn now(&self) -> Nanos;

    /// Lets the epoch advance and the log flush if it is time, works on a checkpoint, and has
    /// memory provided ahead.
    fn tend(&mut self, now: Nanos);

    /// Has memory at hand for rows that follow, after many were inserted.
    fn get_ready(&mut self);

    /// Has about so many bytes more provided for rows that follow, or a part of them; how many. 0:
    /// there is no more, or the storage manager provides its memory otherwise.
    fn provide(&mut self, bytes: usize) -> usize {
        let _ = bytes;
        0
    }

    /// Bytes that this worker has taken for rows and indexes and that were not used before.
    fn bytes_taken(&mut self) -> u64 {
        0
    }

    /// Leaves the epoch: no transaction follows soon.
    fn idle(&mut self);

    /// Seeds the generator of backoff times.
    fn seed(&mut self, seed: u64);

    /// Chooses how the session pauses after failed attempts.
    fn set_pauses(&mut self, pauses: Pauses);

    /// The next transaction is not another attempt of the last one; `again`: it is one of an
    /// earlier one.
    fn turn_to_another(&mut self, again: bool);

    /// Rests off the processor until this moment.
    fn rest_until(&mut self, moment: Nanos);

    /// Counters since the session began, or since they were reset.
    fn stats(&self) -> Stats;

    /// Forgets counters and breakdown.
    fn reset_stats(&mut self);

    /// Nanoseconds by [`terms::Category`], of the transactions that were measured.
    fn breakdown(&mut self) -> [u64; terms::CATEGORIES];

    /// What follows until the next call is no transaction, and its time counts for this category;
    /// `None`: it is over.
    fn measure(&mut self, what: Option<Category>);
}

/// A session, whatever its platform and scheme: see [`Session`] for what the methods do.
pub trait AnySession<'d>: Upkeep {
    /// Runs a transaction until it commits, rolls back, or fails for good. [`Mode::Participant`] is
    /// for [`Self::prepare`].
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort>;

    /// From now on each wait for a lock has this bound, if the session has no shorter one; `None`:
    /// no other one. What is not granted by then is a conflict; true if the next attempt begins
    /// with a wait for it then. Most schemes have bounds of their own, and need no other.
    fn bound_waits(&mut self, _nanos: Option<u64>) -> bool {
        false
    }

    /// Undoes an attempt that nobody goes on with ([`RoamingSession::begin`]), if there is one;
    /// false if the session cannot.
    ///
    /// Pre: nothing is left of the attempt but the memory of its object.
    fn give_up(&mut self) -> bool {
        false
    }

    /// All transactions that are known come one nearer, and another one is known: see
    /// [`Session::look_ahead`].
    fn step_ahead(&mut self);

    /// The transaction that is known last will use this key of an index (table and index by
    /// number). Nothing happens if there is no such index, or if its keys have another length.
    fn add_ahead(&mut self, place: (usize, usize), key: &[u64], what: Use);

    /// Runs one attempt of a part of a transaction over several databases, and prepares the part.
    /// After a conflict the caller tries the same part again, or calls [`Upkeep::turn_to_another`].
    /// Also gives the epoch that has to be durable before what the part has read may be told, if it
    /// does not commit.
    fn prepare(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<(AnyPrepared<'d>, Epoch), Abort>;

    /// As [`Self::prepare`], but in a durable database the part survives crashes.
    fn prepare_as(
        &mut self,
        part: PartOf,
        bounds: &Bounds,
        body: &mut Body<'_>,
    ) -> Result<(AnyPrepared<'d>, Vote), Abort>;

    /// Finishes what some session of this database has prepared, or what was in doubt when the
    /// database was opened.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    fn finish_as(&mut self, prepared: AnyPrepared<'_>, outcome: Outcome<'_>) -> Option<Commit>;

    /// Commits or rolls back what [`Self::prepare`] prepared in some session of this database.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    fn finish(&mut self, prepared: AnyPrepared<'_>, commit: bool) -> Option<Commit> {
        self.finish_as(prepared, if commit { Outcome::Commit } else { Outcome::Abort })
    }

    /// Decides that a transaction commits of which this database has no part that changes anything;
    /// the epoch with which the decision is durable.
    fn decide(&mut self, global: GlobalId, participants: &[u16]) -> Epoch;

    /// Forgets a decision to commit; false if the database knows of no such decision.
    fn forget(&mut self, global: GlobalId) -> bool;

    /// Whether the database has no part of a transaction any more that could be in doubt, now or
    /// after a crash: none that is not finished, and none whose end is not durable.
    fn is_over(&mut self, global: GlobalId) -> bool;

    /// Makes a checkpoint; false if the database is not durable.
    ///
    /// # Errors
    /// The log has stopped, or the files refuse.
    fn checkpoint(&mut self) -> Result<bool, LogError>;

    /// Makes the one table that the schema declares: see [`Session::create_table`].
    ///
    /// # Errors
    /// [`ChangeError`].
    fn create_table(&mut self, schema: SchemaBuilder) -> Result<usize, ChangeError> {
        let _ = schema;
        Err(ChangeError::Unsupported)
    }

    /// Drops a table: see [`Session::drop_table`].
    ///
    /// # Errors
    /// [`ChangeError`].
    fn drop_table(&mut self, table: usize) -> Result<(), ChangeError> {
        let _ = table;
        Err(ChangeError::Unsupported)
    }

    /// Gives rows of a table another form: see [`Session::change_table`].
    ///
    /// # Errors
    /// [`ChangeError`].
    fn change_table(&mut self, table: usize, change: TableChange<'_>) -> Result<usize, ChangeError> {
        let _ = (table, change);
        Err(ChangeError::Unsupported)
    }

    /// Lets some rows of dropped tables go: see [`Session::sweep`].
    fn sweep(&mut self) -> Swept {
        Swept::All
    }

    /// What it does for transactions of several workers; `None`: its storage manager or scheme has
    /// nothing of the kind, or not in a durable database.
    fn branches(&mut self) -> Option<&mut dyn Branches> {
        None
    }
}

/// A session that may go to another thread, also within a transaction.
pub trait RoamingSession<'d>: AnySession<'d> + Send {
    /// Begins one attempt of a transaction. After a conflict the caller may begin again.
    ///
    /// # Errors
    /// The log has stopped.
    fn begin(&mut self, mode: Mode, bounds: &Bounds) -> Result<Box<dyn AnyAttempt + Send + '_>, Abort>;
}

impl<'d, P: Platform<Core: Send>, S: Scheme<P>> RoamingSession<'d> for Session<'d, P, S> {
    fn begin(&mut self, mode: Mode, bounds: &Bounds) -> Result<Box<dyn AnyAttempt + Send + '_>, Abort> {
        Ok(Box::new(self.begin_attempt(mode, bounds)?))
    }
}

impl<P: Platform, S: Scheme<P>> Upkeep for Session<'_, P, S> {
    fn is_durable(&self, outcome: Epoch) -> bool {
        self.is_durable(outcome)
    }

    fn wait_written_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_written_until(outcome, deadline)
    }

    fn wait_durable_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_durable_until(outcome, deadline)
    }

    fn hurry(&mut self, outcome: Epoch) {
        self.inner.leave();
        let Some(redo) = &self.redo else { return };
        let (c, epochs) = (self.inner.core(), self.inner.instance().epochs());
        while last_complete(epochs.current(c)).0 < outcome.0 && epochs.draw(c) {}
        redo.journal().tend(c, epochs, P::now(c));
    }

    fn now(&self) -> Nanos {
        P::now(self.core())
    }

    fn tend(&mut self, now: Nanos) {
        self.tend(now);
    }

    fn get_ready(&mut self) {
        self.get_ready();
    }

    fn provide(&mut self, bytes: usize) -> usize {
        self.provide(bytes)
    }

    fn bytes_taken(&mut self) -> u64 {
        self.bytes_taken()
    }

    fn idle(&mut self) {
        self.idle();
    }

    fn seed(&mut self, seed: u64) {
        self.seed(seed);
    }

    fn set_pauses(&mut self, pauses: Pauses) {
        self.set_pauses(pauses);
    }

    fn turn_to_another(&mut self, again: bool) {
        self.turn_to_another(again);
    }

    fn rest_until(&mut self, moment: Nanos) {
        self.rest_until(moment);
    }

    fn stats(&self) -> Stats {
        self.stats()
    }

    fn reset_stats(&mut self) {
        self.reset_stats();
    }

    fn breakdown(&mut self) -> [u64; terms::CATEGORIES] {
        self.breakdown()
    }

    fn measure(&mut self, what: Option<Category>) {
        self.measure(what);
    }
}

/// Runs the body of a transaction that began while a table changes its form.
#[cold]
fn follow<P: Platform, S: Scheme<P>>(
    transaction: &mut Transaction<'_, '_, P, S>,
    (changes, c): (&Changes<P>, P::Core),
    body: &mut Body<'_>,
) -> Result<(), Abort> {
    let forms = changes.conversion(c).filter(|forms| transaction.knows_table(forms.0.after()));
    // A transaction that began before the table was made has begun before rows get its form.
    let Some(forms) = forms else { return body(transaction) };
    let mut following = Following::new(transaction as &mut dyn AnyVerbs, forms);
    body(&mut following)?;
    following.bring_along(changes.keeps_both(c, forms.0))
}

impl<'d, P: Platform, S: Scheme<P>> AnySession<'d> for Session<'d, P, S> {
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort> {
        let (c, changes) = (self.core(), self.tables.changes());
        self.transact_as(mode, bounds, |transaction| match changes {
            Some(changes) if changes.has_form() => follow(transaction, (changes, c), body),
            _ => body(transaction),
        })
    }

    fn step_ahead(&mut self) {
        self.step_ahead();
    }

    fn add_ahead(&mut self, place: (usize, usize), key: &[u64], what: Use) {
        self.add_ahead(place, key, what);
    }

    fn prepare(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<(AnyPrepared<'d>, Epoch), Abort> {
        let ((), prepared, vote) = self.prepare_part(None, bounds, |transaction| body(transaction))?;
        Ok((AnyPrepared::of(prepared, self.inner.instance()), vote.durable_with))
    }

    fn prepare_as(
        &mut self,
        part: PartOf,
        bounds: &Bounds,
        body: &mut Body<'_>,
    ) -> Result<(AnyPrepared<'d>, Vote), Abort> {
        let ((), prepared, vote) = self.prepare_as(part, bounds, |transaction| body(transaction))?;
        Ok((AnyPrepared::of(prepared, self.inner.instance()), vote))
    }

    fn finish_as(&mut self, prepared: AnyPrepared<'_>, outcome: Outcome<'_>) -> Option<Commit> {
        let instance = self.inner.instance();
        assert!(prepared.instance == address(instance), "the part was prepared in another database");
        let inner: Box<KeptPart<S::Prepared>> = prepared.inner.downcast().expect("a database has one scheme");
        self.finish_as(Prepared::of(*inner, instance), outcome)
    }

    fn decide(&mut self, global: GlobalId, participants: &[u16]) -> Epoch {
        self.decide(global, participants)
    }

    fn forget(&mut self, global: GlobalId) -> bool {
        self.forget(global)
    }

    fn is_over(&mut self, global: GlobalId) -> bool {
        self.is_over(global)
    }

    fn checkpoint(&mut self) -> Result<bool, LogError> {
        self.checkpoint()
    }

    fn create_table(&mut self, schema: SchemaBuilder) -> Result<usize, ChangeError> {
        self.create_table(schema)
    }

    fn drop_table(&mut self, table: usize) -> Result<(), ChangeError> {
        self.drop_table(table)
    }

    fn change_table(&mut self, table: usize, change: TableChange<'_>) -> Result<usize, ChangeError> {
        self.change_table(table, change)
    }

    fn sweep(&mut self) -> Swept {
        self.sweep()
    }

    fn branches(&mut self) -> Option<&mut dyn Branches> {
        // A log would have to hear of what all of a transaction's branches have changed.
        if S::BRANCHES && self.redo.is_none() { Some(self) } else { None }
    }
}
