//! Durability of outcomes, as a session checks it and waits for it.

use concurrency::Scheme;
use platform::{Nanos, Platform};
use redo_log::Target;
use terms::{Abort, Epoch};

use super::MemorySession;
use crate::durable::not_durable;

impl<P: Platform, S: Scheme<P>> MemorySession<'_, P, S> {
    /// True if a commit, or what a decision to roll back depends on, survives whatever happens.
    /// Always true in a database that is not durable.
    pub fn is_durable(&self, outcome: impl Into<Epoch>) -> bool {
        let durable = self.redo.as_ref().map(|redo| redo.journal().durable(self.inner.core()));
        durable.is_none_or(|durable| durable >= outcome.into().0)
    }

    /// Waits until a commit, or what a decision to roll back depends on, is durable. The session is
    /// idle meanwhile.
    ///
    /// # Errors
    /// The log has stopped: the commit is not to be acknowledged.
    pub fn wait_durable(&mut self, outcome: impl Into<Epoch>) -> Result<(), Abort> {
        self.wait_durable_until(outcome, None).map(drop)
    }

    /// As [`Self::wait_durable`], but no longer than until the deadline, if there is one; returns
    /// true if the outcome is durable. If not, nothing is known yet: a commit has happened, and
    /// other transactions may see it, but a crash may lose it.
    ///
    /// # Errors
    /// As [`Self::wait_durable`].
    pub fn wait_durable_until(
        &mut self,
        outcome: impl Into<Epoch>,
        deadline: Option<Nanos>,
    ) -> Result<bool, Abort> {
        self.wait_for(Target { epoch: outcome.into().0, deadline, by_epoch: true })
    }

    /// As [`Self::wait_durable_until`], for a caller that does not ask again: the outcome is on
    /// disk when this is true, and [`Self::is_durable`] may find that out later only. Sessions that
    /// all wait like this draw no epochs.
    ///
    /// # Errors
    /// As [`Self::wait_durable`].
    pub fn wait_written_until(
        &mut self,
        outcome: impl Into<Epoch>,
        deadline: Option<Nanos>,
    ) -> Result<bool, Abort> {
        self.wait_for(Target { epoch: outcome.into().0, deadline, by_epoch: false })
    }

    fn wait_for(&mut self, target: Target) -> Result<bool, Abort> {
        self.inner.leave();
        let Some(redo) = &self.redo else { return Ok(true) };
        let waited = redo.journal().wait(self.inner.core(), self.inner.instance().epochs(), target);
        waited.map_err(|error| not_durable(&error))
    }
}
