//! Branches over rows in memory: what the session of a worker that owns partitions does for
//! transactions of several workers.
//!
//! A branch is a transaction of the scheme that locks nothing ([`terms::Mode::Branch`]) and stays
//! open from act to act: its changes lie in the rows, with what takes them back beside them. The
//! session is in its epoch during an act only, so a branch that waits holds no memory back. What it
//! has read it forgets with the act; rows that it has changed no other session can delete before it
//! ends.

use boundary::{Body, BranchName, Branches, Commit, Stats};
use concurrency::{Meter, Scheme};
use platform::{Nanos, Platform};
use terms::{Abort, Conflict, Epoch, Stamp};

use crate::session::MemorySession;
use crate::tables::table_list::Changes;
use crate::transaction::Transaction;

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

impl<P: Platform, S: Scheme<P>> Branches for MemorySession<'_, P, S> {
    fn begin(&mut self) -> Result<usize, Abort> {
        let branch = Transaction::begin_branch(&mut self.inner);
        Ok(self.branches.add(branch))
    }

    fn act(&mut self, branch: usize, deadline: Option<Nanos>, body: &mut Body<'_>) -> Result<(), Abort> {
        self.act_as(branch, deadline, |transaction| body(transaction))
    }

    /// Nothing is logged, so nothing has to be named.
    fn name(&self, _: usize) -> Option<BranchName> {
        None
    }

    fn commit(&mut self, _: &[BranchName]) -> Result<Commit, Abort> {
        let epoch = self.inner.instance().epochs().current(self.inner.core());
        Ok(Commit::of(Stamp(epoch.first_stamp())))
    }

    fn end(&mut self, branch: usize) {
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
        Ok(cx.worker.local.epochs_shared().current(cx.c))
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
