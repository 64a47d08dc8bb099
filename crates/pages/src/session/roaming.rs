//! Attempts of transactions as objects, which may move to other threads with their locks.

use boundary::{AnyAttempt, AnyVerbs, Bounds, Commit, RoamingSession};
use platform::Nanos;
use platform::files::Files;
use terms::{Abort, Epoch, Mode};

use super::{NO_PART, PagesSession};
use crate::context::LockWaits;
use crate::transaction::Transaction;

/// Longest wait for a lock of an attempt that its caller ends: the holder of the lock may be
/// another object of the same thread, or a task that waits for this one. As in memory.
const WAIT_NANOS_MAX: u64 = 1_000_000;

/// An attempt that its caller ends.
struct RoamingAttempt<'s, 'd, P: Files> {
    transaction: Transaction<'s, 'd, P>,
    deadline: Option<Nanos>,
    has_ended: bool,
}

impl<P: Files> RoamingAttempt<'_, '_, P> {
    /// Undoes all changes; the rows that the error follows from are durable with the epoch. Returns
    /// `why` the attempt has failed, unless undoing fails, too.
    fn undo(&mut self, why: Abort) -> (Abort, Epoch) {
        self.has_ended = true;
        let session = &mut *self.transaction.session;
        let undone = session.roll_back();
        // An attempt that conflicted is tried again with its age.
        if !why.is_conflict() {
            session.owner.age = 0;
        }
        match undone {
            Ok(lsn) => (why, Epoch(lsn.0)),
            Err(error) => (error.into(), Epoch(0)),
        }
    }
}

impl<P: Files> AnyAttempt for RoamingAttempt<'_, '_, P> {
    fn verbs(&mut self) -> &mut dyn AnyVerbs {
        &mut self.transaction
    }

    fn commit(mut self: Box<Self>) -> Result<Commit, (Abort, Epoch)> {
        let c = self.transaction.session.worker.c;
        if let Some(failed) = self.transaction.failed.take() {
            return Err(self.undo(failed));
        }
        if self.deadline.is_some_and(|deadline| P::now(c) >= deadline) {
            return Err(self.undo(Abort::Deadline));
        }
        self.has_ended = true;
        let session = &mut *self.transaction.session;
        session.owner.age = 0;
        session.commit().map_err(|error| (error.into(), Epoch(0)))
    }

    fn roll_back(mut self: Box<Self>) -> (Abort, Epoch) {
        // All rows that were read are locked: they were there at one moment.
        match self.transaction.failed.take() {
            Some(failed) if failed.is_conflict() => self.undo(failed),
            _ => self.undo(Abort::RollBack),
        }
    }
}

impl<P: Files> Drop for RoamingAttempt<'_, '_, P> {
    fn drop(&mut self) {
        if !self.has_ended && !P::is_gone(self.transaction.session.worker.c) {
            // A database that cannot undo has stopped, and says so.
            let _ = self.undo(Abort::RollBack);
        }
    }
}

impl<'d, P: Files<Core: Send>> RoamingSession<'d> for PagesSession<'d, P> {
    fn begin(&mut self, mode: Mode, bounds: &Bounds) -> Result<Box<dyn AnyAttempt + Send + '_>, Abort> {
        if mode == Mode::Participant {
            return Err(NO_PART);
        }
        // Who says how long to wait for locks is told when the time is over.
        let bound = self.lock_wait.is_none().then_some(WAIT_NANOS_MAX);
        let waits = LockWaits { bound, timeout: self.lock_wait };
        let session = &mut self.context;
        let c = session.worker.c;
        if let Some(failure) = session.shared.failure(c) {
            return Err(failure.into());
        }
        if session.owner.age == 0 {
            session.owner.draw_age::<P>(c);
        }
        session.give_up();
        session.begin(bounds.deadline, false, waits);
        let transaction = Transaction { session, failed: None };
        Ok(Box::new(RoamingAttempt { transaction, deadline: bounds.deadline, has_ended: false }))
    }
}
