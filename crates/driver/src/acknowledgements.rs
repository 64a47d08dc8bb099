//! When the commits of a worker are acknowledged.

use std::collections::VecDeque;

use cc::Scheme;
use engine::{Commit, Session};
use platform::{Nanos, Platform};

use crate::error::RunError;
use crate::plan::Durability;

/// Commits of a worker that wait for their acknowledgement.
const PENDING_MAX: usize = 1 << 14;

/// A commit that is not acknowledged yet.
pub(crate) struct Waiting {
    pub kind: usize,
    pub began: Nanos,
    commit: Commit,
}

/// Commits of one worker on their way to their acknowledgement.
pub(crate) struct Acknowledgements {
    durability: Durability,
    waiting: VecDeque<Waiting>,
}

impl Acknowledgements {
    pub(crate) fn new(durability: Durability) -> Self {
        Acknowledgements { durability, waiting: VecDeque::new() }
    }

    /// A transaction of this kind has committed.
    pub(crate) fn committed<P: Platform, S: Scheme<P>>(
        &mut self,
        session: &mut Session<'_, P, S>,
        (kind, began, commit): (usize, Nanos, Commit),
    ) -> Result<(), RunError> {
        let oldest = match self.durability {
            Durability::None | Durability::Async => None,
            Durability::Sync => Some(commit),
            Durability::Group if self.waiting.len() < PENDING_MAX => None,
            Durability::Group => self.waiting.front().map(|waiting| waiting.commit),
        };
        self.waiting.push_back(Waiting { kind, began, commit });
        match oldest {
            Some(commit) => session.wait_durable(commit).map_err(RunError::of),
            None => Ok(()),
        }
    }

    /// The next commit that can be acknowledged now.
    pub(crate) fn next<P: Platform, S: Scheme<P>>(&mut self, session: &Session<'_, P, S>) -> Option<Waiting> {
        let waiting = self.waiting.front()?;
        let at_once = matches!(self.durability, Durability::None | Durability::Async);
        if at_once || session.is_durable(waiting.commit) { self.waiting.pop_front() } else { None }
    }

    /// Waits until everything can be acknowledged.
    pub(crate) fn finish<P: Platform, S: Scheme<P>>(
        &self,
        session: &mut Session<'_, P, S>,
    ) -> Result<(), RunError> {
        match (self.durability, self.waiting.back()) {
            (Durability::Group | Durability::Sync, Some(last)) => {
                session.wait_durable(last.commit).map_err(RunError::of)
            }
            _ => Ok(()),
        }
    }
}
