//! How threads of the program hand procedures to workers, and wait for what becomes of them.
// Callers are threads of the program, which the engine does not know.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use platform::link::Bell;
use platform::{Hardware, Nanos};

use crate::error::{Error, Result};
use crate::options::CancelToken;

/// A procedure to run.
pub(super) struct Job<Q> {
    pub procedure: Q,
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

    pub(super) fn wait(&self) -> Result<Q> {
        let mut result = locked(&self.result);
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self.there.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
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
}

impl<Q> Queue<Q> {
    /// Of the worker that waits at this bell.
    pub(super) fn new(bell: Arc<Bell<Hardware>>) -> Self {
        Queue { inside: Mutex::new(Inside { jobs: VecDeque::new(), closed: None }), bell }
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
