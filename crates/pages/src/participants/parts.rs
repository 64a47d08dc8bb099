//! Parts of transactions over several databases: how a session prepares them, and how some session
//! finishes them.
//!
//! A prepared part takes the session's [owner](crate::owner): its locks, undo steps and age. So it
//! is like a long transaction that makes no further request: a transaction that waits for one of
//! its locks waits for the decision. With a log, a part that has changed something and names its
//! transaction leaves a record, which the vote waits for; a part that has only read leaves none,
//! and its locks do not survive a crash (decision 0022 gives the reason).

use boundary::{Commit, Decision, GlobalId, Outcome, PartOf, Vote};
use platform::Work;
use platform::files::Files;
use terms::{Abort, Category, Conflict, Epoch, Fault};

use crate::checkpoints::undecided::{KnownPart, Undecided};
use crate::context::Context;
use crate::error::PagedError;
use crate::log::record::{End, ParticipantNote};
use crate::lsn::Lsn;
use crate::owner::KeptPart;

impl<'d, P: Files> Context<'d, P> {
    fn undecided(&self) -> Option<&'d Undecided<P>> {
        self.shared.checkpoints.as_ref().map(|checkpoints| &checkpoints.undecided)
    }

    /// Counts parts, where that says whether a transaction has to lock.
    fn count(&self, is_prepared: bool) {
        if self.shared.locks.has_one_session() {
            self.shared.owners.count(self.worker.c, is_prepared);
        }
    }

    /// Prepares the transaction of the session, all of whose verbs have succeeded.
    ///
    /// # Errors
    /// There are as many parts as may be, and the transaction is undone; or the log has stopped.
    pub(crate) fn prepare(&mut self, part: Option<PartOf>) -> Result<(KeptPart, Vote), Abort> {
        let c = self.worker.c;
        let next = self.spare.take().or_else(|| self.shared.owners.take_for_part(c));
        let Some(next) = next else {
            self.roll_back()?;
            return Err(Abort::Conflict(Conflict::Locked));
        };
        let changes = !self.owner.undo.is_empty();
        self.declare_path(if changes { self.paths().prepare_changed } else { self.paths().prepare });
        // What the part has read may end here.
        let mut durable_with = self.worker.pool.log().map_or(Lsn(0), |log| log.buffer.end(c));
        let known = part.filter(|_| changes && !self.shared.faults.has(Fault::UnloggedPreparation));
        let known = known.and_then(|part| self.undecided().map(|undecided| (part, undecided)));
        if let Some((part, undecided)) = known {
            match self.record(part, undecided) {
                Ok(lsn) => durable_with = lsn,
                Err(error) => {
                    self.spare = Some(next);
                    self.shared.fail(c, error.clone());
                    return Err(error.into());
                }
            }
        }
        self.leave();
        let mut owner = std::mem::replace(&mut self.owner, next);
        owner.writing = self.worker.lay_aside();
        if self.shared.faults.has(Fault::EarlyPartUnlock) {
            owner.locks.release_all(&self.shared.locks, c);
        }
        self.count(true);
        let vote = Vote { changes, durable_with: Epoch(durable_with.0) };
        Ok((KeptPart { owner, is_known: known.is_some() }, vote))
    }

    /// Logs that the transaction is prepared as a part; where the record ends.
    fn record(&mut self, part: PartOf, undecided: &Undecided<P>) -> Result<Lsn, PagedError> {
        let c = self.worker.c;
        let lsn = self.worker.note(ParticipantNote::Prepared(part))?;
        let mut steps = Vec::new();
        self.owner.undo.encode(&mut steps);
        P::work(c, Work::CopyWord, steps.len() as u32);
        undecided.prepared(c, KnownPart { transaction: self.worker.transaction(), part, steps });
        self.worker.rests();
        Ok(lsn)
    }

    /// Finishes a part.
    pub(crate) fn finish(&mut self, kept: KeptPart, outcome: Outcome<'_>) -> Option<Commit> {
        let c = self.worker.c;
        let before = self.worker.meter.enter::<P>(c, Category::Commit);
        let commit = self.finish_in(kept, outcome);
        self.worker.meter.leave::<P>(c, before);
        commit
    }

    fn finish_in(&mut self, kept: KeptPart, outcome: Outcome<'_>) -> Option<Commit> {
        let (c, shared) = (self.worker.c, self.shared);
        let KeptPart { mut owner, is_known } = kept;
        let commits = outcome != Outcome::Abort;
        if commits && shared.faults.has(Fault::UnfinishedParts) {
            return Some(Commit { stamp: self.draw_stamp(), durable_with: Epoch(0) });
        }
        self.worker.resume(owner.writing);
        let decision = match outcome {
            Outcome::Decide { global, participants } => {
                Some(Decision { global, participants: participants.to_vec() })
            }
            _ => None,
        };
        let end = match &decision {
            Some(decision) => End::Decided(decision),
            None if commits => End::Committed,
            None => End::RolledBack,
        };
        // Drawn with all locks held: a thread that gets one of them later draws later.
        let stamp = self.draw_stamp();
        let undone = match commits {
            true => Ok(()),
            false => owner.undo.roll_back(&mut self.worker),
        };
        let lsn = match undone.and_then(|()| self.log_end(end)) {
            Ok(lsn) => lsn,
            Err(error) => {
                // Locks stay, so that no thread sees what may be lost, or is not undone. Such a
                // commit is never durable.
                shared.fail(c, if commits { error } else { PagedError::NotUndone(error.to_string()) });
                return commits.then_some(Commit { stamp, durable_with: Epoch(u64::MAX) });
            }
        };
        if let Some(undecided) = self.undecided() {
            if let Some(decision) = decision {
                undecided.decided(c, decision);
            }
            if is_known {
                let durable = self.worker.pool.log().map_or(Lsn(0), |log| log.buffer.durable(c));
                undecided.ended(c, owner.writing.transaction(), lsn, durable);
            }
        }
        self.worker.rests();
        owner.end(&mut self.worker, &shared.locks);
        owner.age = 0;
        self.count(false);
        match &self.spare {
            None => self.spare = Some(owner),
            Some(_) => shared.owners.give_back(c, &mut owner, true, &shared.locks),
        }
        commits.then_some(Commit { stamp, durable_with: Epoch(lsn.0) })
    }

    /// Logs a decision of a transaction of which this database has no part; where the record ends.
    ///
    /// # Errors
    /// The log has stopped.
    pub(crate) fn decide(&mut self, decision: Decision) -> Result<Lsn, PagedError> {
        let Some(undecided) = self.undecided() else { return Ok(Lsn(0)) };
        self.begin_note();
        let lsn = self.log_end(End::Decided(&decision))?;
        undecided.decided(self.worker.c, decision);
        self.worker.rests();
        Ok(lsn)
    }

    /// Forgets a decision; whether it was known.
    ///
    /// # Errors
    /// The log has stopped.
    pub(crate) fn forget(&mut self, global: GlobalId) -> Result<bool, PagedError> {
        let c = self.worker.c;
        let Some(undecided) = self.undecided().filter(|undecided| undecided.has_decided(c, global)) else {
            return Ok(false);
        };
        self.begin_note();
        self.worker.note(ParticipantNote::Forgotten(global))?;
        undecided.forgotten(c, global);
        self.worker.rests();
        Ok(true)
    }

    /// Returns true if no part of a transaction can be in doubt any more, now or after a crash.
    pub(crate) fn is_over(&self, global: GlobalId) -> bool {
        let c = self.worker.c;
        // In this order: a part that ends meanwhile counts as not durable.
        let durable = self.worker.pool.log().map_or(Lsn(0), |log| log.buffer.durable(c));
        self.undecided().is_none_or(|undecided| undecided.is_over(c, global, durable))
    }
}
