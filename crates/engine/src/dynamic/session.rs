//! Sessions as objects.

use boundary::{
    AnyAttempt, AnyPrepared, AnySession, AnyVerbs, Body, Bounds, Branches, ChangeError, Commit, Ending,
    GlobalId, Outcome, PartOf, Pauses, RoamingSession, SchemaBuilder, Stats, Swept, TableChange, Upkeep,
    Vote,
};
use concurrency::{Instance, Scheme, Use};
use platform::{Nanos, Platform};
use redo_log::LogError;
use storage::last_complete;
use terms::{Abort, Category, Epoch, Mode};

use crate::participants::parts::{KeptPart, Prepared};
use crate::session::MemorySession;
use crate::tables::table_list::Changes;
use crate::transaction::Transaction;
use crate::transaction::following::Following;

/// A part of this instance as an object.
pub(super) fn any_prepared<'d, P: Platform, S: Scheme<P>>(
    prepared: Prepared<'d, P, S>,
    instance: &Instance<P, S>,
) -> AnyPrepared<'d> {
    AnyPrepared::new(Box::new(prepared.into_part(instance)), address(instance))
}

/// Tells instances apart.
fn address<P: Platform, S: Scheme<P>>(instance: &Instance<P, S>) -> usize {
    std::ptr::from_ref(instance).addr()
}

impl<'d, P: Platform<Core: Send>, S: Scheme<P>> RoamingSession<'d> for MemorySession<'d, P, S> {
    fn begin(&mut self, mode: Mode, bounds: &Bounds) -> Result<Box<dyn AnyAttempt + Send + '_>, Abort> {
        self.bound_sleep(bounds);
        Ok(Box::new(self.begin_attempt(mode, bounds)?))
    }
}

impl<P: Platform, S: Scheme<P>> Upkeep for MemorySession<'_, P, S> {
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
    changes: &Changes<P>,
    c: P::Core,
    body: &mut Body<'_>,
) -> Result<(), Abort> {
    let forms = changes.conversion(c).filter(|(forms, _)| transaction.knows_table(forms.after()));
    // A transaction that began before the table was made has begun before rows get its form.
    let Some((conversion, reads)) = forms else { return body(transaction) };
    let mut following = Following::new(transaction as &mut dyn AnyVerbs, conversion, reads);
    body(&mut following)?;
    following.bring_along(changes.keeps_both(c, conversion))
}

impl<'d, P: Platform, S: Scheme<P>> AnySession<'d> for MemorySession<'d, P, S> {
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort> {
        let (c, changes) = (self.core(), self.tables.changes());
        self.bound_sleep(bounds);
        self.transact_as(mode, bounds, |transaction| match changes {
            Some(changes) if changes.has_form() => follow(transaction, changes, c, body),
            _ => body(transaction),
        })
    }

    fn wait_for_locks(&mut self, longest: Option<u64>) {
        self.wait_for_locks(longest);
    }

    fn step_ahead(&mut self) {
        self.step_ahead();
    }

    fn add_ahead(&mut self, table: usize, index: usize, key: &[u64], what: Use) {
        self.add_ahead(table, index, key, what);
    }

    fn prepare(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<(AnyPrepared<'d>, Epoch), Abort> {
        let ((), prepared, vote) = self.prepare_part(None, bounds, |transaction| body(transaction))?;
        Ok((any_prepared(prepared, self.inner.instance()), vote.durable_with))
    }

    fn prepare_as(
        &mut self,
        part: PartOf,
        bounds: &Bounds,
        body: &mut Body<'_>,
    ) -> Result<(AnyPrepared<'d>, Vote), Abort> {
        let ((), prepared, vote) = self.prepare_as(part, bounds, |transaction| body(transaction))?;
        Ok((any_prepared(prepared, self.inner.instance()), vote))
    }

    fn finish_as(&mut self, prepared: AnyPrepared<'_>, outcome: Outcome<'_>) -> Option<Commit> {
        let instance = self.inner.instance();
        let inner = prepared.into_inner(address(instance));
        let inner: Box<KeptPart<S::Prepared>> = inner.downcast().expect("a database has one scheme");
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

    fn await_earlier(&mut self, until: Option<Nanos>) -> bool {
        self.await_earlier(until)
    }

    fn sweep(&mut self) -> Swept {
        self.sweep()
    }

    fn branches(&mut self) -> Option<&mut dyn Branches> {
        if S::BRANCHES { Some(self) } else { None }
    }
}
