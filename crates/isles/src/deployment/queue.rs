//! How threads of the program hand procedures to workers, and wait for what becomes of them, and
//! for the workers themselves.
// Callers are threads of the program, which the engine does not know.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::link::Bell;
use platform::{Hardware, Nanos, Platform};

use super::procedure::Outline;
use crate::error::{Error, Result};
use crate::options::{CancelToken, is_cancelled};

/// How long a caller whose deadline has passed waits for a worker that has begun its procedure: one
/// that works answers at once.
const ANSWER_NANOS: u64 = 1_000_000_000;
/// How often a caller that waits looks at its token.
const TOKEN_NANOS: u64 = 10_000_000;

/// A procedure to run.
pub(super) struct Job<Q> {
    pub procedure: Q,
    pub outline: Outline,
    pub deadline: Option<Nanos>,
    pub attempts_max: u32,
    pub cancel: Option<CancelToken>,
    pub reply: Arc<Reply<Q>>,
}

/// Where a thread waits for its procedure.
pub(super) struct Reply<Q> {
    result: Mutex<Option<Result<Q>>>,
    there: Condvar,
}

impl<Q> Reply<Q> {
    pub(super) fn new() -> Self {
        Reply { result: Mutex::new(None), there: Condvar::new() }
    }

    pub(super) fn give(&self, result: Result<Q>) {
        *locked(&self.result) = Some(result);
        self.there.notify_one();
    }

    /// Waits until the deadline or the token ends that. `withdraw` takes the procedure back, unless
    /// a worker has begun it: then this worker is waited for a while longer.
    pub(super) fn wait(
        &self,
        (deadline, cancel): (Option<Nanos>, Option<&CancelToken>),
        withdraw: impl Fn() -> bool,
    ) -> Result<Q> {
        let mut end = None;
        loop {
            let now = Hardware::now(Hardware::core());
            let over = match deadline {
                _ if is_cancelled(cancel) => Some(Error::Cancelled),
                Some(deadline) if now >= deadline => Some(Error::Deadline),
                _ => None,
            };
            if let (Some(why), None) = (over, end) {
                if withdraw() {
                    return Err(why);
                }
                end = Some(now.plus(ANSWER_NANOS));
            }
            let mut result = locked(&self.result);
            if let Some(result) = result.take() {
                return result;
            }
            if end.is_some_and(|end| now >= end) {
                return Err(Error::OutcomeUnknown);
            }
            let token = cancel.filter(|_| end.is_none()).map(|_| now.plus(TOKEN_NANOS));
            match end.or(deadline).into_iter().chain(token).min() {
                Some(until) => drop(self.there.wait_timeout(result, Duration::from_nanos(until.since(now)))),
                None => drop(self.there.wait(result)),
            }
        }
    }
}

/// The workers that have not ended.
pub(super) struct Living {
    count: Mutex<usize>,
    fewer: Condvar,
}

/// Held by a worker until it has ended, however.
pub(super) struct Alive(Arc<Living>);

impl Living {
    pub(super) fn new() -> Arc<Living> {
        Arc::new(Living { count: Mutex::new(0), fewer: Condvar::new() })
    }

    pub(super) fn one_more(self: &Arc<Self>) -> Alive {
        *locked(&self.count) += 1;
        Alive(Arc::clone(self))
    }

    /// Waits until all have ended; how many have not.
    pub(super) fn wait(&self, patience: Duration) -> usize {
        let waited = self.fewer.wait_timeout_while(locked(&self.count), patience, |count| *count > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        *locked(&self.0.count) -= 1;
        self.0.fewer.notify_all();
    }
}

/// The procedures that wait for a worker.
pub(super) struct Queue<Q> {
    inside: Mutex<Inside<Q>>,
    bell: Arc<Bell<Hardware>>,
}

struct Inside<Q> {
    jobs: VecDeque<Job<Q>>,
    /// Why no more are taken.
    closed: Option<Error>,
    /// Why the deployment goes on no more: nobody waits for anybody.
    broken: Option<Error>,
}

impl<Q> Queue<Q> {
    /// The queue of the worker that waits at this bell.
    pub(super) fn new(bell: Arc<Bell<Hardware>>) -> Self {
        Queue { inside: Mutex::new(Inside { jobs: VecDeque::new(), closed: None, broken: None }), bell }
    }

    pub(super) fn push(&self, job: Job<Q>) -> Result<()> {
        let mut inside = locked(&self.inside);
        if let Some(closed) = &inside.closed {
            return Err(closed.clone());
        }
        inside.jobs.push_back(job);
        drop(inside);
        self.bell.ring(Hardware::core());
        Ok(())
    }

    pub(super) fn take(&self) -> Option<Job<Q>> {
        locked(&self.inside).jobs.pop_front()
    }

    /// Takes back the job with this reply, if no worker has taken it.
    pub(super) fn withdraw(&self, reply: &Arc<Reply<Q>>) -> bool {
        let mut inside = locked(&self.inside);
        let at = inside.jobs.iter().position(|job| Arc::ptr_eq(&job.reply, reply));
        let job = at.and_then(|at| inside.jobs.remove(at));
        drop(inside);
        job.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.inside).jobs.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        locked(&self.inside).closed.is_some()
    }

    /// Takes no more jobs; the worker still runs those that are there.
    pub(super) fn close(&self, why: &Error) {
        locked(&self.inside).closed.get_or_insert(why.clone());
        self.bell.ring(Hardware::core());
    }

    /// The deployment goes on no more, for this reason unless there is one already.
    pub(super) fn stop(&self, why: &Error) {
        locked(&self.inside).broken.get_or_insert(why.clone());
        self.close(why);
    }

    /// Why the deployment goes on no more, if it does not.
    pub(super) fn broken(&self) -> Option<Error> {
        locked(&self.inside).broken.clone()
    }

    /// Takes no more jobs, and answers those that are there.
    pub(super) fn give_up(&self, why: &Error) {
        self.close(why);
        while let Some(job) = self.take() {
            job.reply.give(Err(why.clone()));
        }
    }
}

/// Nothing is left half done inside these locks.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
