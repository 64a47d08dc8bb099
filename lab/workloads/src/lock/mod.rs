//! Locks and atomics alone: the cost of a lock under contention, without a database.
//!
//! Threads acquire a lock, or perform an atomic operation, repeatedly, and the experiment counts
//! these operations. It follows the benchmarks in David, Guerraoui, Trigonakis, "Everything you
//! always wanted to know about synchronization but were afraid to ask", SOSP 2013, and of the
//! public library beside it (libslock): number of locks, computation while the lock is held and
//! between two acquisitions, words that a holder writes.
//!
//! - `types`: parameters and results;
//! - `operation`: the trait of the operation that threads repeat, with its implementations `locks`
//!   and `cohort`, and `atomics`;
//! - `run`: the threads; `poll`: a thread that writes a word, and threads that wait for it.

mod atomics;
mod cohort;
mod locks;
mod operation;
mod poll;
mod run;
mod types;

use platform::Platform;

use atomics::{CompareAndSwap, FetchAndAdd, RefusedCompareAndSwap, Swap, Words};
use cohort::Cohort;
use locks::{Clh, Held, Lock, Mcs, TestAndSet, TestAndTestAndSet, Ticket};

pub use locks::HELD_WORDS_MAX;
pub use run::Watch;
pub use types::{HeldLine, LockCounts, LockError, LockKind, LockResult, LockSpec, LockThread};

/// Runs the experiment.
///
/// # Errors
/// There is no thread, or a single one to poll; the number of locks or words is out of range;
/// memory is refused.
pub fn run_lock<P: Platform>(
    c: P::Core,
    spec: &LockSpec,
    watch: Watch<'_, P>,
) -> Result<LockResult, LockError> {
    let wanted = if spec.kind == LockKind::Poll { 2 } else { 1 };
    if spec.threads.len() < wanted {
        return Err(LockError::TooFewThreads { wanted, threads: spec.threads.len() });
    }
    if spec.locks == 0 || !(1..=HELD_WORDS_MAX).contains(&spec.held_words) {
        let (locks, words) = (spec.locks, spec.held_words);
        return Err(LockError::Shape { locks, words, words_max: HELD_WORDS_MAX });
    }
    match spec.kind {
        LockKind::TestAndSet => held(c, spec, TestAndSet::new(c, spec)?, watch),
        LockKind::TestAndTestAndSet => held(c, spec, TestAndTestAndSet::new(c, spec)?, watch),
        LockKind::Ticket => held(c, spec, Ticket::new(c, spec)?, watch),
        LockKind::Mcs => held(c, spec, Mcs::new(c, spec)?, watch),
        LockKind::Clh => held(c, spec, Clh::new(c, spec)?, watch),
        LockKind::Hierarchical => held(c, spec, Cohort::new(c, spec)?, watch),
        LockKind::CompareAndSwap => run::run(c, spec, &CompareAndSwap(Words::new(c, spec)?), watch),
        LockKind::RefusedCompareAndSwap => {
            run::run(c, spec, &RefusedCompareAndSwap(Words::new(c, spec)?), watch)
        }
        LockKind::FetchAndAdd => run::run(c, spec, &FetchAndAdd(Words::new(c, spec)?), watch),
        LockKind::Swap => run::run(c, spec, &Swap::new(c, Words::new(c, spec)?), watch),
        LockKind::Poll => poll::run(c, spec, watch),
    }
}

fn held<P: Platform, L: Lock<P>>(
    c: P::Core,
    spec: &LockSpec,
    lock: L,
    watch: Watch<'_, P>,
) -> Result<LockResult, LockError> {
    run::run(c, spec, &Held::new(c, spec, lock)?, watch)
}

#[cfg(test)]
mod tests;
