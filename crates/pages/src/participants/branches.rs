//! Branches: what the session of a worker that owns partitions does for transactions of several
//! workers.
//!
//! A branch has undo steps of its own and a place in the log of its own, under a number of its own:
//! each branch is undone by its owner, and several are open in a session at a time. It locks
//! nothing ([`boundary::Branches`] says which caller excludes conflicts). A transaction
//! commits with one record, which names all of its branches that have changed something. All of
//! their records lie before it, because they were written before the actions were answered; so a
//! restart that finds the record finds them, and one that does not undoes all branches.

use boundary::{Body, BranchName, Commit};
use platform::files::Files;
use platform::{Code, Nanos, Work};
use terms::{Abort, Epoch, Fault};

use crate::context::Context;
use crate::error::PagedError;
use crate::log::Log;
use crate::log::record::End;
use crate::pool::Writing;
use crate::running::run;
use crate::undo::Undo;

/// The state of one branch.
#[derive(Default)]
struct Branch {
    undo: Undo,
    writing: Writing,
    has_changed: bool,
}

/// The branches of a session, by their numbers.
pub(crate) struct OpenBranches {
    /// The session's number.
    session: usize,
    all: Vec<Branch>,
    /// Numbers of those that have ended.
    free: Vec<usize>,
}

impl OpenBranches {
    /// None, of the session with this number.
    pub(crate) fn new(session: usize) -> Self {
        OpenBranches { session, all: Vec::new(), free: Vec::new() }
    }

    /// Returns true if all branches have ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.len() == self.free.len()
    }

    /// Resumes a branch: its changes are those of the session's transaction, until
    /// [`Self::lay_aside`].
    fn resume<P: Files>(&mut self, context: &mut Context<'_, P>, number: usize) {
        let branch = &mut self.all[number];
        std::mem::swap(&mut context.owner.undo, &mut branch.undo);
        context.worker.resume(branch.writing);
    }

    fn lay_aside<P: Files>(&mut self, context: &mut Context<'_, P>, number: usize) {
        let branch = &mut self.all[number];
        std::mem::swap(&mut context.owner.undo, &mut branch.undo);
        branch.writing = context.worker.lay_aside();
        branch.has_changed = !branch.undo.is_empty();
    }

    /// See [`boundary::Branches::begin`].
    pub(crate) fn begin<P: Files>(&mut self, context: &mut Context<'_, P>) -> Result<usize, Abort> {
        let (c, shared) = (context.worker.c, context.shared);
        if let Some(failure) = shared.failure(c) {
            return Err(failure.into());
        }
        P::code(c, Code::PagesBegin);
        P::work(c, Work::Transaction, 1);
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.all.len() < shared.branches_max => {
                self.all.push(Branch::default());
                self.all.len() - 1
            }
            None => return Err(Abort::Misuse("more branches than the database was made for")),
        };
        let generation = context.worker.pool.log().map_or(0, Log::generation);
        let transaction = context.owner.next_transaction(generation);
        let owner = shared.first_branch + self.session * shared.branches_max + number;
        let branch = &mut self.all[number];
        branch.writing = Writing::of_owner(transaction, owner);
        branch.has_changed = false;
        Ok(number)
    }

    /// See [`boundary::Branches::act`].
    pub(crate) fn act<P: Files>(
        &mut self,
        context: &mut Context<'_, P>,
        branch: usize,
        deadline: Option<Nanos>,
        body: &mut Body<'_>,
    ) -> Result<(), Abort> {
        context.begin_rows(deadline);
        context.owner.locks.begin(true);
        self.resume(context, branch);
        let outcome = run(context, body);
        self.lay_aside(context, branch);
        outcome
    }

    /// The name of a branch that has changed something.
    pub(crate) fn name(&self, branch: usize) -> Option<BranchName> {
        let Branch { writing, has_changed, .. } = &self.all[branch];
        has_changed.then(|| BranchName(writing.transaction()))
    }

    /// Ends a branch whose changes stay, or are undone: its ghosts are removed.
    pub(crate) fn end<P: Files>(&mut self, context: &mut Context<'_, P>, branch: usize) {
        self.resume(context, branch);
        context.worker.rests();
        // No thread relies on gaps by locks.
        context.owner.undo.bury(&mut context.worker, |_, _| true);
        self.lay_aside(context, branch);
        self.free.push(branch);
    }

    /// See [`boundary::Branches::roll_back`].
    pub(crate) fn roll_back<P: Files>(
        &mut self,
        context: &mut Context<'_, P>,
        branch: usize,
    ) -> Result<Epoch, Abort> {
        self.resume(context, branch);
        let undone = context.owner.undo.roll_back(&mut context.worker);
        let logged = undone.and_then(|()| context.log_end(End::RolledBack));
        self.lay_aside(context, branch);
        match logged {
            Ok(lsn) => {
                self.end(context, branch);
                Ok(Epoch(lsn.0))
            }
            Err(error) => Err(fail(context, PagedError::NotUndone(error.to_string()))),
        }
    }
}

/// See [`boundary::Branches::commit`].
pub(crate) fn commit<P: Files>(
    context: &mut Context<'_, P>,
    branches: impl Iterator<Item = BranchName>,
) -> Result<Commit, Abort> {
    let mut numbers: Vec<u64> = branches.map(|branch| branch.0).collect();
    if context.shared.faults.has(Fault::SingleBranchCommit) {
        numbers.truncate(1);
    }
    // Drawn before another transaction sees what was changed.
    let stamp = context.draw_stamp();
    let logged = context.worker.end_branches(&numbers).and_then(|lsn| {
        if let Some(log) = context.worker.pool.log().filter(|_| !context.shared.aether) {
            log.wait(context.worker.c, lsn, None)?;
        }
        Ok(lsn)
    });
    match logged {
        Ok(lsn) => Ok(Commit { stamp, durable_with: Epoch(lsn.0) }),
        Err(error) => Err(fail(context, error)),
    }
}

/// Stops the database.
fn fail<P: Files>(context: &Context<'_, P>, error: PagedError) -> Abort {
    context.shared.fail(context.worker.c, error.clone());
    error.into()
}
