//! One flush for many commits, for engines that can commit without a flush and flush on request.
//!
//! Protocol: a client that has committed takes a ticket. If no client flushes, the holder of a
//! ticket does, for all tickets taken until the flush begins; the other holders sleep meanwhile.
//! Before the flush the client waits until all clients have a ticket, or until no client has taken
//! one for a while: clients that the last flush has released return with their next commit, and
//! would otherwise each cause a flush of their own.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::Failure;

/// Wait for another commit: about the time of a flush on a fast disk. 50 us gave fewer commits, 400
/// us no more.
const PAUSE: Duration = Duration::from_micros(150);

#[derive(Default)]
struct TicketState {
    clients: u64,
    /// Number of tickets taken.
    tickets: u64,
    /// Number of tickets that a flush has covered.
    covered: u64,
    flushing: bool,
    /// A flush has failed: nothing is durable any more.
    failed: bool,
}

impl TicketState {
    fn everybody_waits(&self) -> bool {
        self.tickets - self.covered >= self.clients
    }
}

/// TicketState that the clients of one database share.
#[derive(Default)]
pub struct GroupFlush {
    state: Mutex<TicketState>,
    flushed: Condvar,
    /// Signalled when all clients have tickets.
    complete: Condvar,
}

/// One of the clients.
pub struct Member<'g>(&'g GroupFlush);

impl GroupFlush {
    fn state(&self) -> MutexGuard<'_, TicketState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a client.
    pub fn join(&self) -> Member<'_> {
        self.state().clients += 1;
        Member(self)
    }

    /// Waits for more commits; returns the number of tickets taken then.
    fn gather<'g>(&'g self, mut state: MutexGuard<'g, TicketState>) -> u64 {
        while !state.everybody_waits() {
            let before = state.tickets;
            let waited = self.complete.wait_timeout(state, PAUSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.tickets == before {
                break;
            }
        }
        state.tickets
    }
}

impl Member<'_> {
    /// Returns when a `flush` has ended that began after this call: the caller's, or another
    /// client's.
    ///
    /// # Errors
    /// The flush of the caller or of another client has failed.
    pub fn wait(&self, flush: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        let group = self.0;
        let mut state = group.state();
        state.tickets += 1;
        let ticket = state.tickets;
        if state.flushing && state.everybody_waits() {
            group.complete.notify_one();
        }
        while state.flushing && !state.failed && state.covered < ticket {
            state = group.flushed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed {
            return Err("the flush of another client has failed".into());
        }
        if state.covered >= ticket {
            return Ok(());
        }
        state.flushing = true;
        let tickets = group.gather(state);
        let result = flush();
        let mut state = group.state();
        state.flushing = false;
        match result {
            Ok(()) => state.covered = tickets,
            Err(_) => state.failed = true,
        }
        group.flushed.notify_all();
        result
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        self.0.state().clients -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Commits are numbers, and a flush covers those before it.
    #[test]
    fn nobody_returns_before_a_flush_that_covers_it() {
        let (group, commits, durable) = (GroupFlush::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let member = group.join();
                    for _ in 0..500 {
                        let mine = commits.fetch_add(1, Ordering::SeqCst) + 1;
                        let flush = || {
                            let seen = commits.load(Ordering::SeqCst);
                            std::thread::yield_now();
                            durable.store(seen, Ordering::SeqCst);
                            Ok(())
                        };
                        member.wait(flush).unwrap();
                        assert!(durable.load(Ordering::SeqCst) >= mine);
                    }
                });
            }
        });
        assert_eq!(group.state().clients, 0);
    }

    #[test]
    fn a_failed_flush_fails_all_that_follow() {
        let group = GroupFlush::default();
        let member = group.join();
        assert!(member.wait(|| Err("full".into())).is_err());
        assert!(member.wait(|| Ok(())).is_err());
    }
}
