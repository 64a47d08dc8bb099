//! One flush for many commits, for engines that can commit without a flush and flush on request.
//!
//! Protocol: who has committed takes a ticket. If nobody flushes, the holder of a ticket does, for all tickets given out
//! until the flush begins; the others sleep meanwhile. Before it begins it lets other threads run as long as that brings
//! more commits.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::engine::Failure;

#[derive(Default)]
struct State {
    /// Tickets given out.
    tickets: u64,
    /// Those that a flush has covered.
    covered: u64,
    flushing: bool,
    /// A flush has failed: nothing is durable any more.
    failed: bool,
}

/// What clients of one database share.
#[derive(Default)]
pub struct GroupFlush {
    state: Mutex<State>,
    flushed: Condvar,
}

impl GroupFlush {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when a `flush` is over that began after this call: the caller's, or another's.
    ///
    /// # Errors
    /// The caller's flush has failed, or another's has.
    pub fn wait(&self, flush: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let mut state = self.state();
        state.tickets += 1;
        let ticket = state.tickets;
        while state.flushing && !state.failed && state.covered < ticket {
            state = self.flushed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed {
            return Err("the flush of another client has failed".into());
        }
        if state.covered >= ticket {
            return Ok(());
        }
        state.flushing = true;
        let tickets = loop {
            let before = state.tickets;
            drop(state);
            std::thread::yield_now();
            state = self.state();
            if state.tickets == before {
                break before;
            }
        };
        drop(state);
        let result = flush();
        let mut state = self.state();
        state.flushing = false;
        match result {
            Ok(()) => state.covered = tickets,
            Err(_) => state.failed = true,
        }
        self.flushed.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Commits, as numbers, of which a flush covers those before it.
    #[test]
    fn nobody_returns_before_a_flush_that_covers_it() {
        let (group, commits, durable) = (GroupFlush::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mine = commits.fetch_add(1, Ordering::SeqCst) + 1;
                        let flush = || {
                            let seen = commits.load(Ordering::SeqCst);
                            std::thread::yield_now();
                            durable.store(seen, Ordering::SeqCst);
                            Ok(())
                        };
                        group.wait(flush).unwrap();
                        assert!(durable.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
    }

    #[test]
    fn a_failed_flush_fails_all_that_follow() {
        let group = GroupFlush::default();
        assert!(group.wait(|| Err("full".into())).is_err());
        assert!(group.wait(|| Ok(())).is_err());
    }
}
