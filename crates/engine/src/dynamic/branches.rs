//! Branches over rows in memory: what the session of a worker that owns partitions does for
//! transactions of several workers.
//!
//! A branch is a transaction of the scheme that locks nothing ([`terms::Mode::Branch`]) and stays
//! open from act to act: its changes lie in the rows, with what takes them back beside them. The
//! session is in its epoch during an act only, so a branch that waits holds no memory back. What it
//! has read it forgets with the act; rows that it has changed no other session can delete before it
//! ends.
//!
//! In a durable database the session that commits a transaction leaves one record of the log, with
//! the changes of all branches. Other sessions report their changes after each act. A crash leaves
//! the record or not, so it leaves all branches or none. Recovery and checkpoints do not
//! distinguish such a record from that of any other transaction.
//!
//! Stamps follow the rules of [`concurrency::RedoSink`]. Each session has the largest stamp that it
//! has given to a commit or received with the end of a branch. A commit gets a larger stamp than
//! all sessions had that have executed its branches. The locks of the owners are released after
//! the stamp has arrived, so each later transaction over the same keys has a larger stamp. When
//! keys move to another owner, the owners exchange their largest stamps.

use boundary::{Body, BranchReport, Branches, Commit, OtherBranches, Stats};
use concurrency::{Meter, Scheme};
use platform::{Nanos, Platform};
use terms::{Abort, Category, Conflict, Epoch, Fault, Stamp};

use crate::durable::RedoWriter;
use crate::session::MemorySession;
use crate::tables::table_list::Changes;
use crate::transaction::Transaction;

/// How long a session that ends to own rows waits until it checks again if an epoch has passed.
const EPOCH_PAUSE_NANOS: u64 = 1_000;

impl<'d, P: Platform, S: Scheme<P>> MemorySession<'d, P, S> {
    /// As [`Branches::act`], compiled with what it runs.
    ///
    /// # Errors
    /// Those of the verbs, and [`Abort::Deadline`].
    #[inline]
    pub fn act_as(
        &mut self,
        branch: usize,
        deadline: Option<Nanos>,
        body: impl FnOnce(&mut Transaction<'_, 'd, P, S>) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        if self.tables.changes().is_some_and(Changes::has_form) {
            return Err(Abort::Conflict(Conflict::Locked));
        }
        let inner = self.branches.take(branch);
        let mut transaction = Transaction::resume(&mut self.inner, &mut self.scratch, inner, deadline);
        let outcome = body(&mut transaction);
        let (inner, outcome) = transaction.lay_aside(outcome);
        self.branches.put_back(branch, inner);
        outcome
    }
}

/// Collects the changes of a branch since they were last collected.
fn collect<'d, P: Platform, S: Scheme<P>>(
    session: &mut concurrency::WorkerContext<'d, P, S>,
    redo: &mut RedoWriter<'d, P>,
    branch: &mut S::Transaction,
) {
    session.enter();
    S::redo_branch(branch, &mut session.context(), redo);
}

impl<'d, P: Platform, S: Scheme<P>> MemorySession<'d, P, S> {
    /// True if a mutant does not break the rule.
    fn has_fault(&self, fault: Fault) -> bool {
        self.undecided.is_some_and(|undecided| undecided.has_fault(fault))
    }

    /// Commits a transaction whose changes have been collected: leaves its record.
    fn commit_collected(&mut self, after: Stamp) -> Result<Commit, Abort> {
        let (ignores, redo) = (self.has_fault(Fault::UnorderedStamps), self.redo.as_mut());
        let redo = redo.expect("a database that is durable");
        if redo.bytes() == 0 {
            return Ok(Commit::of(after));
        }
        let c = self.inner.core();
        redo.reserve(c).map_err(Abort::OutOfMemory)?;
        let local = &mut self.inner.worker().local;
        let epoch = local.announce_commit(c);
        let stamp = Stamp::after(if ignores { 0 } else { after.0 }, epoch);
        redo.append(c, local, stamp);
        local.retract_commit(c);
        self.last = self.last.max(stamp);
        Ok(Commit::of(stamp))
    }
}

impl<P: Platform, S: Scheme<P>> Branches for MemorySession<'_, P, S> {
    fn begin(&mut self) -> Result<usize, Abort> {
        self.check_log()?;
        let branch = Transaction::begin_branch(&mut self.inner);
        Ok(self.branches.add(branch))
    }

    fn act(&mut self, branch: usize, deadline: Option<Nanos>, body: &mut Body<'_>) -> Result<(), Abort> {
        self.act_as(branch, deadline, |transaction| body(transaction))
    }

    fn report(&mut self, branch: usize, changes: &mut Vec<u8>) -> Result<BranchReport, Abort> {
        let Some(redo) = &mut self.redo else { return Ok(BranchReport::Nothing) };
        redo.clear();
        let mut inner = self.branches.take(branch);
        collect(&mut self.inner, redo, &mut inner);
        self.branches.put_back(branch, inner);
        changes.extend_from_slice(redo.changes());
        redo.refusal().map_or(Ok(BranchReport::After(self.last)), Err)
    }

    fn commit(&mut self, own: Option<usize>, others: &OtherBranches) -> Result<Commit, Abort> {
        let drops_others = self.has_fault(Fault::SingleBranchCommit);
        let Some(redo) = &mut self.redo else {
            let epoch = self.inner.instance().epochs().current(self.inner.core());
            return Ok(Commit::of(Stamp(epoch.first_stamp())));
        };
        let c = self.inner.core();
        if own.is_none() && others.after.is_none() {
            // Nothing was executed, or what was is rolled back elsewhere.
            let epoch = self.inner.instance().epochs().current(c).max(self.last.epoch());
            return Ok(Commit::of(Stamp(epoch.first_stamp())));
        }
        let before = self.inner.worker().meter.enter::<P>(c, Category::Log);
        redo.clear();
        if let Some(branch) = own {
            let mut inner = self.branches.take(branch);
            collect(&mut self.inner, redo, &mut inner);
            self.branches.put_back(branch, inner);
        }
        if !drops_others {
            redo.add(&others.changes);
        }
        let committed = match redo.refusal() {
            Some(refusal) => Err(refusal),
            None => self.commit_collected(others.after.map_or(self.last, |after| after.max(self.last))),
        };
        self.inner.worker().meter.leave::<P>(c, before);
        committed
    }

    fn end(&mut self, branch: usize, commit: Option<Stamp>) {
        self.last = commit.map_or(self.last, |stamp| stamp.max(self.last));
        let inner = self.branches.remove(branch);
        self.inner.enter();
        let mut cx = self.inner.context();
        match S::prepare(inner, &mut cx) {
            Ok(prepared) => {
                S::commit(prepared, &mut cx);
            }
            Err(_) => unreachable!("nothing is left of a branch that could fail"),
        }
    }

    fn roll_back(&mut self, branch: usize) -> Result<Epoch, Abort> {
        let inner = self.branches.remove(branch);
        self.inner.enter();
        let mut cx = self.inner.context();
        S::abort(inner, &mut cx);
        Ok(cx.worker.local.epochs_shared().current(cx.c).max(self.last.epoch()))
    }

    fn begin_owning(&mut self) {
        self.owns = true;
        let (c, epochs) = (self.inner.core(), self.inner.instance().epochs());
        // Rows may have been changed in this epoch with any stamp of it.
        self.last = Stamp(epochs.current(c).last_stamp());
        epochs.draw(c);
    }

    fn end_owning(&mut self) {
        let (c, epochs) = (self.inner.core(), self.inner.instance().epochs());
        self.inner.leave();
        while self.redo.is_some() && self.owns && epochs.current(c) <= self.last.epoch() {
            if !epochs.draw(c) {
                P::pause(c, EPOCH_PAUSE_NANOS);
            }
        }
        self.owns = false;
    }

    fn last_stamp(&self) -> Stamp {
        self.last
    }

    fn copy_rows(&mut self, now: Nanos, is_free: &dyn Fn(usize, &[u64]) -> bool) {
        self.copy_owned_rows(now, is_free);
    }

    fn meter(&mut self) -> &mut Meter {
        &mut self.inner.worker().meter
    }

    fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    fn pause_nanos(&mut self, attempts: u32) -> u64 {
        self.backoff.nanos(attempts.max(1), false)
    }
}
