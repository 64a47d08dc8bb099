//! Parts of transactions over several databases, through a session: prepared here, and finished
//! here or in another session.

use boundary::{Bounds, Commit, Decision, GlobalId, Outcome, PartOf, Vote};
use concurrency::Scheme;
use platform::Platform;
use redo_log::Spares;
use terms::{Abort, Category, Conflict, Epoch, Mode};

use super::MemorySession;
use crate::participants::parts::{PartKeeper, Prepared};
use crate::participants::undecided::PartRecord;
use crate::transaction::{Transaction, end_commit};

impl<'d, P: Platform, S: Scheme<P>> MemorySession<'d, P, S> {
    /// Keeps and finishes prepared parts.
    fn keeper(&mut self) -> PartKeeper<'_, 'd, P, S> {
        let durable = self.redo.as_mut().zip(self.undecided);
        PartKeeper { session: &mut self.inner, tables: self.tables, durable }
    }

    /// Prepares a transaction as a part of a transaction over several databases: the part can no
    /// longer fail, and waits for [`Self::finish`], in any session of the same database, without
    /// holding up transactions that do not need its rows. A crash before it is finished rolls it
    /// back.
    ///
    /// This is one attempt. If it fails with a conflict, the caller tries the same part again, or
    /// calls [`Self::turn_to_another`].
    pub fn prepare<T>(
        &mut self,
        bounds: &Bounds,
        body: impl FnOnce(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<(T, Prepared<'d, P, S>), Abort> {
        self.prepare_part(None, bounds, body).map(|(value, prepared, _)| (value, prepared))
    }

    /// As [`Self::prepare`], but in a durable database the part survives crashes: once the epoch
    /// that the vote names is durable, the part is there, unless it was finished, whenever the
    /// database is opened: [`Database::in_doubt`](crate::MemoryDatabase::in_doubt).
    pub fn prepare_as<T>(
        &mut self,
        part: PartOf,
        bounds: &Bounds,
        body: impl FnOnce(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<(T, Prepared<'d, P, S>, Vote), Abort> {
        self.prepare_part(Some(part), bounds, body)
    }

    pub(crate) fn prepare_part<T>(
        &mut self,
        part: Option<PartOf>,
        bounds: &Bounds,
        body: impl FnOnce(&mut Transaction<'_, 'd, P, S>) -> Result<T, Abort>,
    ) -> Result<(T, Prepared<'d, P, S>, Vote), Abort> {
        if part.is_some() {
            self.check_log()?;
        }
        // A part belongs to what its caller measures.
        let c = self.inner.core();
        let before = self.inner.worker().meter.enter::<P>(c, Category::Useful);
        self.inner.worker().meter.attempt_begins();
        let mut transaction =
            Transaction::begin(&mut self.inner, &mut self.scratch, None, Mode::Participant, bounds.deadline);
        // A part would not end with the other transactions that a change of a table waits for.
        let outcome = match self.tables.changes().is_some_and(|changes| changes.has_form()) {
            true => Err(Abort::Conflict(Conflict::Locked)),
            false => body(&mut transaction),
        };
        let prepared = match outcome {
            Ok(value) => transaction.prepare().map(|prepared| (value, prepared)),
            Err(abort) => Err(transaction.explain(abort)),
        };
        let prepared = prepared.and_then(|(value, prepared)| {
            self.keeper().keep(prepared, part).map(|(prepared, vote)| (value, prepared, vote))
        });
        if prepared.is_err() {
            self.inner.worker().meter.attempt_failed::<P>(c);
        }
        self.inner.worker().meter.leave::<P>(c, before);
        prepared.map_err(|(abort, depends_on)| match abort.is_conflict() {
            true => abort,
            false => self.failure(abort, depends_on, bounds),
        })
    }

    /// Prepares a part in doubt again, of which the log has this record; the part's number in the
    /// database.
    pub(crate) fn adopt(
        &mut self,
        record: PartRecord,
        body: impl FnOnce(&mut Transaction<'_, 'd, P, S>) -> Result<(), Abort>,
    ) -> Result<usize, Abort> {
        let mut transaction =
            Transaction::begin(&mut self.inner, &mut self.scratch, None, Mode::Participant, None);
        let prepared = match body(&mut transaction) {
            Ok(()) => transaction.prepare(),
            Err(abort) => Err(transaction.explain(abort)),
        };
        let prepared = prepared.map_err(|(abort, _)| abort)?;
        end_commit(&mut self.inner);
        let undecided = self.undecided.expect("only durable databases have parts in doubt");
        self.keeper().count(true);
        let record = PartRecord { stamp: S::prepared_at(&prepared), ..record };
        Ok(undecided.keep(self.inner.core(), prepared, Spares::default(), Some(record), None))
    }

    /// Commits or rolls back what [`Self::prepare`] prepared in some session of this database.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    pub fn finish(&mut self, prepared: Prepared<'_, P, S>, commit: bool) -> Option<Commit> {
        self.finish_as(prepared, if commit { Outcome::Commit } else { Outcome::Abort })
    }

    /// Finishes what some session of this database has prepared, or what was in doubt when the
    /// database was opened.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    pub fn finish_as(&mut self, prepared: Prepared<'_, P, S>, outcome: Outcome<'_>) -> Option<Commit> {
        let part = prepared.into_part(self.inner.instance());
        let c = self.inner.core();
        let before = self.inner.worker().meter.enter::<P>(c, Category::Commit);
        let commit = self.keeper().finish(part, outcome);
        self.inner.worker().meter.leave::<P>(c, before);
        commit
    }

    /// Decides that a transaction commits of which this database has no part that changes anything.
    /// The decision may be sent when the returned epoch is durable; a database that is not
    /// durable keeps none.
    pub fn decide(&mut self, global: GlobalId, participants: &[u16]) -> Epoch {
        self.keeper().decide(Decision { global, participants: participants.to_vec() })
    }

    /// Forgets a decision to commit: all participants have acknowledged it. False if the database
    /// knows of no such decision.
    pub fn forget(&mut self, global: GlobalId) -> bool {
        self.keeper().forget(global)
    }

    /// True if the database has no part of a transaction any more that could be in doubt, now or
    /// after a crash: none that is not finished, and none whose end is not durable.
    pub fn is_over(&mut self, global: GlobalId) -> bool {
        self.keeper().is_over(global)
    }
}
