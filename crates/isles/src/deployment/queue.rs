//! Queues through which threads of the program pass procedures to workers, and the waits for
//! results and for the end of workers.
// Callers are threads of the program, not of the engine.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use platform::link::Bell;
use platform::{Hardware, Nanos, Platform};

use super::procedure::Outline;
use crate::error::{Error, Result};
use crate::options::{CancelToken, is_cancelled};

/// Wait after the deadline for a worker that has begun the procedure: a worker that is not stuck in
/// a step replies at once.
const ANSWER_NANOS: u64 = 1_000_000_000;
/// Interval at which a waiting caller checks its token.
const TOKEN_NANOS: u64 = 10_000_000;

/// A procedure to run.
pub(super) struct ProcedureJob<Q> {
    pub procedure: Q,
    pub outline: Outline,
    pub deadline: Option<Nanos>,
    pub attempts_max: u32,
    pub cancel: Option<CancelToken>,
    pub reply: Arc<Reply<Q>>,
}

/// Result slot at which a thread waits for its procedure.
pub(super) struct Reply<Q> {
    result: Mutex<Option<Result<Q>>>,
    arrived: Condvar,
}

impl<Q> Reply<Q> {
    pub(super) fn new() -> Self {
        Reply { result: Mutex::new(None), arrived: Condvar::new() }
    }

    pub(super) fn send(&self, result: Result<Q>) {
        *locked(&self.result) = Some(result);
        self.arrived.notify_one();
    }

    /// Waits for the result, the deadline or the token. `withdraw` removes the procedure from its
    /// queue, unless a worker has begun it: then the wait continues for `ANSWER_NANOS`.
    pub(super) fn wait(
        &self,
        deadline: Option<Nanos>,
        cancel: Option<&CancelToken>,
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
                Some(until) => {
                    drop(self.arrived.wait_timeout(result, Duration::from_nanos(until.since(now))))
                }
                None => drop(self.arrived.wait(result)),
            }
        }
    }
}

/// Counts the workers that have not ended.
pub(super) struct WorkerCount {
    count: Mutex<usize>,
    fewer: Condvar,
}

/// Held by a worker until it has ended, even by a panic.
pub(super) struct WorkerCountGuard(Arc<WorkerCount>);

impl WorkerCount {
    pub(super) fn new() -> Arc<WorkerCount> {
        Arc::new(WorkerCount { count: Mutex::new(0), fewer: Condvar::new() })
    }

    pub(super) fn add_worker(self: &Arc<Self>) -> WorkerCountGuard {
        *locked(&self.count) += 1;
        WorkerCountGuard(Arc::clone(self))
    }

    /// Waits until all workers have ended. Returns the number of workers that have not.
    pub(super) fn wait(&self, patience: Duration) -> usize {
        let waited = self.fewer.wait_timeout_while(locked(&self.count), patience, |count| *count > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for WorkerCountGuard {
    fn drop(&mut self) {
        *locked(&self.0.count) -= 1;
        self.0.fewer.notify_all();
    }
}

/// The procedures that wait for one worker.
pub(super) struct Queue<Q> {
    state: Mutex<QueueState<Q>>,
    bell: Arc<Bell<Hardware>>,
}

struct QueueState<Q> {
    jobs: VecDeque<ProcedureJob<Q>>,
    /// Reason why the queue accepts no more procedures.
    closed: Option<Error>,
    /// Reason why the deployment has stopped: no worker waits for another one any more.
    broken: Option<Error>,
}

impl<Q> Queue<Q> {
    /// Returns the queue of the worker that waits at this bell.
    pub(super) fn new(bell: Arc<Bell<Hardware>>) -> Self {
        Queue { state: Mutex::new(QueueState { jobs: VecDeque::new(), closed: None, broken: None }), bell }
    }

    pub(super) fn push(&self, job: ProcedureJob<Q>) -> Result<()> {
        let mut state = locked(&self.state);
        if let Some(closed) = &state.closed {
            return Err(closed.clone());
        }
        state.jobs.push_back(job);
        drop(state);
        self.bell.ring(Hardware::core());
        Ok(())
    }

    pub(super) fn take(&self) -> Option<ProcedureJob<Q>> {
        locked(&self.state).jobs.pop_front()
    }

    /// Removes the job with this reply. Returns false if a worker has taken it.
    pub(super) fn withdraw(&self, reply: &Arc<Reply<Q>>) -> bool {
        let mut state = locked(&self.state);
        let at = state.jobs.iter().position(|job| Arc::ptr_eq(&job.reply, reply));
        let job = at.and_then(|at| state.jobs.remove(at));
        drop(state);
        job.is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.state).jobs.is_empty()
    }

    pub(super) fn is_closed(&self) -> bool {
        locked(&self.state).closed.is_some()
    }

    /// Accepts no more jobs; the worker still runs the queued ones.
    pub(super) fn close(&self, why: &Error) {
        locked(&self.state).closed.get_or_insert(why.clone());
        self.bell.ring(Hardware::core());
    }

    /// Stops the deployment for this reason, unless it has stopped already.
    pub(super) fn stop(&self, why: &Error) {
        locked(&self.state).broken.get_or_insert(why.clone());
        self.close(why);
    }

    /// Returns the reason why the deployment has stopped, if it has.
    pub(super) fn broken(&self) -> Option<Error> {
        locked(&self.state).broken.clone()
    }

    /// Accepts no more jobs, and fails the queued ones.
    pub(super) fn give_up(&self, why: &Error) {
        self.close(why);
        while let Some(job) = self.take() {
            job.reply.send(Err(why.clone()));
        }
    }
}

/// Locks a mutex. A panic cannot leave its value half changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
