//! One attempt of a transaction as an object, which lives as long as its owner likes: between its
//! verbs the caller does what it wants. A closure is called again after a conflict; the owner of an
//! object sees to that by itself.

use boundary::{AnyAttempt, AnyVerbs, Commit, Stats};
use concurrency::Scheme;
use platform::Platform;
use terms::{Abort, Epoch};

use super::Transaction;
use crate::tables::table_list::TableList;
use crate::transaction::following::Following;

/// An attempt with the counters of its session. When it ends its session leaves the epoch, as no
/// transaction may follow soon.
pub(crate) struct Attempt<'s, 'i, P: Platform, S: Scheme<P>> {
    transaction: Followed<'s, 'i, P, S>,
    tables: &'i TableList<P>,
    stats: &'s mut Stats,
}

/// A transaction, which keeps both forms of a table if it began while that changes.
enum Followed<'s, 'i, P: Platform, S: Scheme<P>> {
    Plain(Transaction<'s, 'i, P, S>),
    Both(Following<'i, Transaction<'s, 'i, P, S>>),
}

impl<'s, 'i, P: Platform, S: Scheme<P>> Followed<'s, 'i, P, S> {
    fn inner(&mut self) -> &mut Transaction<'s, 'i, P, S> {
        match self {
            Followed::Plain(transaction) => transaction,
            Followed::Both(following) => &mut following.inner,
        }
    }
}

impl<'s, 'i, P: Platform, S: Scheme<P>> Attempt<'s, 'i, P, S> {
    /// An attempt that begins with this transaction.
    pub(crate) fn new(
        mut transaction: Transaction<'s, 'i, P, S>,
        tables: &'i TableList<P>,
        stats: &'s mut Stats,
    ) -> Self {
        let c = transaction.session.core();
        let changing = tables.changes().filter(|changes| changes.has_form());
        let transaction = match changing.and_then(|changes| changes.conversion(c)) {
            Some((conversion, reads)) if transaction.knows_table(conversion.after()) => {
                Followed::Both(Following::new(transaction, conversion, reads))
            }
            _ => Followed::Plain(transaction),
        };
        Attempt { transaction, tables, stats }
    }

    /// Has the other form of a table say what the transaction has changed of it.
    fn bring_along(&mut self) -> Result<(), Abort> {
        let Followed::Both(following) = &mut self.transaction else { return Ok(()) };
        let (c, forms) = (following.inner.session.core(), following.conversion());
        let keeps_both = self.tables.changes().is_some_and(|changes| changes.keeps_both(c, forms));
        following.bring_along(keeps_both)
    }
}

impl<P: Platform, S: Scheme<P>> AnyAttempt for Attempt<'_, '_, P, S> {
    fn verbs(&mut self) -> &mut dyn AnyVerbs {
        match &mut self.transaction {
            Followed::Plain(transaction) => transaction,
            Followed::Both(following) => following,
        }
    }

    fn commit(mut self: Box<Self>) -> Result<Commit, (Abort, Epoch)> {
        let commit = match self.bring_along() {
            Ok(()) => self.transaction.inner().commit_in_place(),
            Err(abort) => Err(self.transaction.inner().explain_in_place(abort)),
        };
        match &commit {
            Ok(_) => self.stats.commits += 1,
            Err((abort, _)) => self.count(abort),
        }
        commit
    }

    fn roll_back(mut self: Box<Self>) -> (Abort, Epoch) {
        let (abort, depends_on) = self.transaction.inner().explain_in_place(Abort::RollBack);
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
        let transaction = self.transaction.inner();
        if P::is_gone(transaction.session.core()) {
            return;
        }
        transaction.give_up();
        transaction.abort();
        let session = &mut *transaction.session;
        S::turn_to_another(session.worker(), false);
        session.leave();
    }
}
