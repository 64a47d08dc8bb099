//! One attempt of a transaction as an object, which lives as long as its owner likes: between its verbs the caller does what it
//! wants. A closure is called again after a conflict; the owner of an object sees to that by itself.

use cc::{Abort, Scheme};
use platform::Platform;
use storage::Epoch;

use super::Transaction;
use crate::dynamic::attempt::AnyAttempt;
use crate::dynamic::verbs::AnyVerbs;
use crate::ending::{Commit, Stats};

/// An attempt with the counters of its session. When it ends its session leaves the epoch, as no transaction may follow soon.
pub(crate) struct Attempt<'s, 'i, P: Platform, S: Scheme<P>> {
    transaction: Transaction<'s, 'i, P, S>,
    stats: &'s mut Stats,
}

impl<'s, 'i, P: Platform, S: Scheme<P>> Attempt<'s, 'i, P, S> {
    /// An attempt that begins with this transaction.
    pub(crate) fn new(transaction: Transaction<'s, 'i, P, S>, stats: &'s mut Stats) -> Self {
        Attempt { transaction, stats }
    }
}

impl<P: Platform, S: Scheme<P>> AnyAttempt for Attempt<'_, '_, P, S> {
    fn verbs(&mut self) -> &mut dyn AnyVerbs {
        &mut self.transaction
    }

    fn commit(mut self: Box<Self>) -> Result<Commit, (Abort, Epoch)> {
        let commit = self.transaction.commit_in_place();
        match &commit {
            Ok(_) => self.stats.commits += 1,
            Err((abort, _)) => self.count(abort),
        }
        commit
    }

    fn roll_back(mut self: Box<Self>) -> (Abort, Epoch) {
        let (abort, depends_on) = self.transaction.explain_in_place(Abort::RollBack);
        self.count(&abort);
        (abort, depends_on)
    }
}

impl<P: Platform, S: Scheme<P>> Attempt<'_, '_, P, S> {
    fn count(&mut self, abort: &Abort) {
        match abort {
            Abort::RollBack => self.stats.rollbacks += 1,
            Abort::Conflict(_) => self.stats.aborts += 1,
            _ => {}
        }
    }
}

impl<P: Platform, S: Scheme<P>> Drop for Attempt<'_, '_, P, S> {
    fn drop(&mut self) {
        let Transaction { session, .. } = &self.transaction;
        if P::is_gone(session.core()) {
            return;
        }
        self.transaction.abort();
        let session = &mut *self.transaction.session;
        S::turn_to_another(session.worker(), false);
        session.leave();
    }
}
