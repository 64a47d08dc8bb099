//! Statements that take too long are cancelled by one thread, which sleeps until the first of them
//! is due.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sql::Engine;

/// Pause before a statement is cancelled once more: its transaction may have begun just then.
const AGAIN: Duration = Duration::from_millis(10);

/// A session whose statement has a bound.
#[derive(Clone)]
pub struct Bounded {
    /// The number of the session.
    pub process: i32,
    /// Its secret.
    pub secret: i32,
    /// Set when the time of the statement is over.
    pub is_late: Arc<AtomicBool>,
}

/// Statements that have a bound.
#[derive(Default)]
pub struct Timers {
    due: Mutex<BTreeMap<(Instant, i32), Bounded>>,
    changed: Condvar,
}

/// The bound of a statement, which ends with it.
pub struct Bound<'t> {
    timers: &'t Timers,
    at: (Instant, i32),
}

impl Timers {
    fn due(&self) -> MutexGuard<'_, BTreeMap<(Instant, i32), Bounded>> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels the session's statement after a time.
    pub fn bound(&self, time: Duration, session: Bounded) -> Bound<'_> {
        session.is_late.store(false, Ordering::Relaxed);
        let at = (Instant::now() + time, session.process);
        let mut due = self.due();
        due.insert(at, session);
        if due.first_key_value().is_some_and(|(first, _)| *first == at) {
            self.changed.notify_one();
        }
        Bound { timers: self, at }
    }

    /// Cancels what is due until the server ends.
    pub fn run(&self, engine: &Engine, ends: &AtomicBool) {
        let mut due = self.due();
        while !ends.load(Ordering::Acquire) {
            let now = Instant::now();
            let mut next = AGAIN * 5;
            for ((at, _), session) in due.iter() {
                if *at > now {
                    next = next.min(*at - now);
                    break;
                }
                session.is_late.store(true, Ordering::Relaxed);
                engine.cancel(session.process, session.secret);
                next = AGAIN;
            }
            due = self.changed.wait_timeout(due, next).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        self.timers.due().remove(&self.at);
    }
}
