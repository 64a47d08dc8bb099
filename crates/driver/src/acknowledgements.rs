//! When the commits of a worker are acknowledged.

use std::collections::VecDeque;

use engine::Commit;
use engine::dynamic::Upkeep;
use platform::Nanos;

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
    pub(crate) fn committed(
        &mut self,
        session: &mut dyn Upkeep,
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
            Some(commit) => wait(session, commit),
            None => Ok(()),
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next commit that can be acknowledged now.
    pub(crate) fn next(&mut self, session: &dyn Upkeep) -> Option<Waiting> {
        let waiting = self.waiting.front()?;
        let at_once = matches!(self.durability, Durability::None | Durability::Async);
        if at_once || session.is_durable(waiting.commit.into()) { self.waiting.pop_front() } else { None }
    }

    /// Waits until everything can be acknowledged.
    pub(crate) fn finish(&self, session: &mut dyn Upkeep) -> Result<(), RunError> {
        match (self.durability, self.waiting.back()) {
            (Durability::Group | Durability::Sync, Some(last)) => wait(session, last.commit),
            _ => Ok(()),
        }
    }
}

fn wait(session: &mut dyn Upkeep, commit: Commit) -> Result<(), RunError> {
    session.wait_durable_until(commit.into(), None).map(drop).map_err(RunError::of)
}
