//! Sessions as objects.

use std::any::Any;
use std::marker::PhantomData;

use cc::{Abort, Category, Instance, Mode, Scheme};
use platform::{Nanos, OutOfMemory, Platform};
use storage::Epoch;
use storage::log::LogError;

use super::verbs::AnyVerbs;
use crate::contention::Pauses;
use crate::ending::{Bounds, Commit, Ending, Stats};
use crate::session::Session;
use crate::transaction::Prepared;

/// The body of a transaction, which is called once an attempt.
pub type Body<'b> = dyn FnMut(&mut dyn AnyVerbs) -> Result<(), Abort> + 'b;

/// A [`Prepared`] part of a transaction over several databases, whatever its scheme.
#[must_use = "a prepared part keeps its rows locked until it is finished"]
pub struct AnyPrepared<'d> {
    /// What the scheme prepared, with the address of the instance, which no other has as long as `'d` lasts.
    inner: Box<dyn Any + Send>,
    instance: usize,
    database: PhantomData<&'d ()>,
}

/// Tells instances apart.
fn address<P: Platform, S: Scheme<P>>(instance: &Instance<P, S>) -> usize {
    std::ptr::from_ref(instance).addr()
}

/// What a session needs and tells between its transactions: see [`Session`] for what the methods do.
pub trait Upkeep {
    /// Whether a commit, or what a decision to roll back depends on, survives whatever happens.
    fn is_durable(&self, outcome: Epoch) -> bool;

    /// Waits until an outcome is durable, no longer than until the deadline, if there is one; tells whether the outcome is
    /// durable.
    ///
    /// # Errors
    /// The log has stopped: the commit is not to be acknowledged.
    fn wait_durable_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort>;

    /// The platform's time.
    fn now(&self) -> Nanos;

    /// Lets the epoch advance and the log flush if it is time, and works on a checkpoint.
    fn tend(&mut self, now: Nanos);

    /// Leaves the epoch: no transaction follows soon.
    fn idle(&mut self);

    /// Seeds the generator of backoff times.
    fn seed(&mut self, seed: u64);

    /// Chooses how the session pauses after failed attempts.
    fn set_pauses(&mut self, pauses: Pauses);

    /// The next transaction is not another attempt of the last one; `again`: it is one of an earlier one.
    fn turn_to_another(&mut self, again: bool);

    /// Rests off the processor until this moment.
    fn rest_until(&mut self, moment: Nanos);

    /// Counters since the session began, or since they were reset.
    fn stats(&self) -> Stats;

    /// Forgets counters and breakdown.
    fn reset_stats(&mut self);

    /// Nanoseconds by [`cc::Category`], of the transactions that were measured.
    fn breakdown(&mut self) -> [u64; cc::CATEGORIES];

    /// What follows until the next call is no transaction, and its time counts for this category; `None`: it is over.
    fn measure(&mut self, what: Option<Category>);

    /// Takes memory from the machine in advance.
    ///
    /// # Errors
    /// There is none.
    fn reserve(&mut self, bytes: usize) -> Result<(), OutOfMemory>;
}

/// A session, whatever its platform and scheme: see [`Session`] for what the methods do.
pub trait AnySession<'d>: Upkeep {
    /// Runs a transaction until it commits, rolls back, or fails for good. [`Mode::Participant`] is for [`Self::prepare`].
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort>;

    /// Runs one attempt of a part of a transaction over several databases, and prepares the part.
    fn prepare(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<AnyPrepared<'d>, Abort>;

    /// Commits or rolls back what [`Self::prepare`] prepared in some session of this database.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    fn finish(&mut self, prepared: AnyPrepared<'_>, commit: bool) -> Option<Commit>;

    /// Makes a checkpoint; false if the database is not durable.
    ///
    /// # Errors
    /// The log has stopped, or the files refuse.
    fn checkpoint(&mut self) -> Result<bool, LogError>;
}

impl<P: Platform, S: Scheme<P>> Upkeep for Session<'_, P, S> {
    fn is_durable(&self, outcome: Epoch) -> bool {
        self.is_durable(outcome)
    }

    fn wait_durable_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_durable_until(outcome, deadline)
    }

    fn now(&self) -> Nanos {
        P::now(self.core())
    }

    fn tend(&mut self, now: Nanos) {
        self.tend(now);
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

    fn breakdown(&mut self) -> [u64; cc::CATEGORIES] {
        self.breakdown()
    }

    fn measure(&mut self, what: Option<Category>) {
        self.measure(what);
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), OutOfMemory> {
        self.reserve(bytes)
    }
}

impl<'d, P: Platform, S: Scheme<P>> AnySession<'d> for Session<'d, P, S> {
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort> {
        self.transact_as(mode, bounds, |transaction| body(transaction))
    }

    fn prepare(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<AnyPrepared<'d>, Abort> {
        let instance = self.inner.instance();
        let ((), prepared) = self.prepare(bounds, |transaction| body(transaction))?;
        let inner = Box::new(prepared.into_inner(instance));
        Ok(AnyPrepared { inner, instance: address(instance), database: PhantomData })
    }

    fn finish(&mut self, prepared: AnyPrepared<'_>, commit: bool) -> Option<Commit> {
        let instance = self.inner.instance();
        assert!(prepared.instance == address(instance), "the part was prepared in another database");
        let inner: Box<S::Prepared> = prepared.inner.downcast().expect("a database has one scheme");
        self.finish(Prepared::of(*inner, instance), commit)
    }

    fn checkpoint(&mut self) -> Result<bool, LogError> {
        self.checkpoint()
    }
}
