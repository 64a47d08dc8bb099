//! The acknowledgement of the commits of a worker.

use std::collections::VecDeque;

use boundary::{Commit, Upkeep};
use platform::Nanos;

use crate::error::RunError;
use crate::plan::Durability;
use crate::requests::Origin;

/// Most commits of a worker that wait for their acknowledgement.
const PENDING_MAX: usize = 1 << 14;

/// A commit that is not acknowledged yet.
pub(crate) struct Waiting {
    pub kind: usize,
    pub began: Nanos,
    pub origin: Origin,
    commit: Commit,
    /// True if the worker has waited for the commit: its group may be on disk before its epoch is
    /// durable.
    is_written: bool,
}

/// Commits of one worker that wait for their acknowledgement.
pub(crate) struct Acknowledgements {
    durability: Durability,
    waiting: VecDeque<Waiting>,
}

impl Acknowledgements {
    pub(crate) fn new(durability: Durability) -> Self {
        Acknowledgements { durability, waiting: VecDeque::new() }
    }

    /// Records the commit of a transaction of this kind.
    pub(crate) fn committed(
        &mut self,
        session: &mut dyn Upkeep,
        kind: usize,
        began: Nanos,
        origin: Origin,
        commit: Commit,
    ) -> Result<(), RunError> {
        let oldest = match self.durability {
            Durability::None | Durability::Async | Durability::Sync => None,
            Durability::Group if self.waiting.len() < PENDING_MAX => None,
            Durability::Group => self.waiting.front().map(|waiting| waiting.commit),
        };
        let is_written = self.durability == Durability::Sync;
        if is_written {
            session.wait_written_until(commit.into(), None).map_err(RunError::of)?;
        }
        self.waiting.push_back(Waiting { kind, began, origin, commit, is_written });
        match oldest {
            Some(commit) => wait(session, commit),
            None => Ok(()),
        }
    }

    /// True if no commit waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next commit that can be acknowledged now.
    pub(crate) fn next(&mut self, session: &dyn Upkeep) -> Option<Waiting> {
        let waiting = self.waiting.front()?;
        let at_once = waiting.is_written || matches!(self.durability, Durability::None | Durability::Async);
        if at_once || session.is_durable(waiting.commit.into()) { self.waiting.pop_front() } else { None }
    }

    /// Waits until all commits can be acknowledged. The last commit is not always the last to be
    /// durable: a read-only transaction is acknowledged with the epoch that it has read.
    pub(crate) fn finish(&self, session: &mut dyn Upkeep) -> Result<(), RunError> {
        let last = self.waiting.iter().map(|waiting| waiting.commit).max_by_key(|commit| commit.durable_with);
        match (self.durability, last) {
            (Durability::Group | Durability::Sync, Some(last)) => wait(session, last),
            _ => Ok(()),
        }
    }
}

fn wait(session: &mut dyn Upkeep, commit: Commit) -> Result<(), RunError> {
    session.wait_durable_until(commit.into(), None).map(drop).map_err(RunError::of)
}

#[cfg(test)]
mod tests {
    use boundary::{Pauses, Stats};
    use terms::Epoch;
    use terms::{Abort, CATEGORIES, Category, Stamp};

    use super::*;

    /// A session whose log makes an epoch durable only when a caller waits for it.
    struct Obliging {
        durable: Epoch,
    }

    impl Upkeep for Obliging {
        fn is_durable(&self, outcome: Epoch) -> bool {
            outcome <= self.durable
        }

        fn wait_durable_until(&mut self, outcome: Epoch, _: Option<Nanos>) -> Result<bool, Abort> {
            self.durable = self.durable.max(outcome);
            Ok(true)
        }

        fn now(&self) -> Nanos {
            Nanos(0)
        }

        fn tend(&mut self, _: Nanos) {}

        fn get_ready(&mut self) {}

        fn idle(&mut self) {}

        fn seed(&mut self, _: u64) {}

        fn set_pauses(&mut self, _: Pauses) {}

        fn turn_to_another(&mut self, _: bool) {}

        fn rest_until(&mut self, _: Nanos) {}

        fn stats(&self) -> Stats {
            Stats::default()
        }

        fn reset_stats(&mut self) {}

        fn breakdown(&mut self) -> [u64; CATEGORIES] {
            [0; CATEGORIES]
        }

        fn measure(&mut self, _: Option<Category>) {}
    }

    /// The last transaction has only read an early epoch, which is durable already.
    #[test]
    fn all_commits_are_acknowledged_in_the_end() {
        for durability in [Durability::Group, Durability::Sync, Durability::Async, Durability::None] {
            let mut session = Obliging { durable: Epoch(0) };
            let mut acknowledgements = Acknowledgements::new(durability);
            for epoch in [3, 7, 5, 2] {
                let commit = Commit { stamp: Stamp(0), durable_with: Epoch(epoch) };
                let committed =
                    acknowledgements.committed(&mut session, 0, Nanos(epoch), Origin::WORKER, commit);
                committed.expect("the log goes on");
            }
            acknowledgements.finish(&mut session).expect("the log goes on");
            let mut all = Vec::new();
            while let Some(waiting) = acknowledgements.next(&session) {
                all.push(waiting.began.0);
            }
            assert_eq!(all, [3, 7, 5, 2], "{durability:?}");
            assert!(acknowledgements.is_empty());
        }
    }
}
