//! The threads of a run: each performs operations, counts them while the run measures, and times
//! some of them.

use platform::{Platform, Work};
use terms::random::Random;

use super::operation::Operation;
use super::types::{LockCounts, LockError, LockResult, LockSpec};
use crate::lines::compute;
use crate::threads::{Phase, Phases, on_threads};

/// A thread times one operation in this many, because reading the clock takes as long as a short
/// operation.
const OPERATIONS_PER_SAMPLE: u64 = 16;

/// Callbacks of a run: its observers, and the condition that ends it early.
pub struct Watch<'a, P: Platform> {
    /// Receives a thread's number and the nanoseconds of each of its timed operations, on that
    /// thread.
    pub observe: &'a (dyn Fn(usize, u64) + Sync),
    /// Called on the main thread when the warm-up is over.
    pub measuring: &'a mut dyn FnMut(P::Core),
    /// Called on the main thread every millisecond; ends the run if it returns true.
    pub stop: &'a dyn Fn() -> bool,
}

/// Results of one thread.
struct ThreadResult {
    counts: LockCounts,
    /// Operations, including those of the warm-up.
    operations: u64,
    /// The thread's final value, for the check.
    left: u64,
}

/// Runs `operation` on all threads.
pub(super) fn run<P: Platform, O: Operation<P>>(
    c: P::Core,
    spec: &LockSpec,
    operation: &O,
    watch: Watch<'_, P>,
) -> Result<LockResult, LockError> {
    let observe = watch.observe;
    let job = |c, number: usize, phases: &Phases<P>| {
        // A thread without memory arrives, too, because the others wait for all threads.
        let state = operation.thread_state(c, number);
        phases.start(c);
        Ok(perform(c, spec, number, operation, state?, phases, observe))
    };
    let (ended, elapsed_nanos) =
        on_threads(c, &spec.places(), spec.times(), watch.measuring, watch.stop, &job)?;
    let left: Vec<u64> = ended.iter().map(|thread| thread.left).collect();
    let check = operation.check(ended.iter().map(|thread| thread.operations).sum(), &left);
    Ok(LockResult { threads: ended.iter().map(|thread| thread.counts).collect(), elapsed_nanos, check })
}

/// Performs the operations of one thread.
fn perform<P: Platform, O: Operation<P>>(
    c: P::Core,
    spec: &LockSpec,
    number: usize,
    operation: &O,
    mut state: O::ThreadState,
    phases: &Phases<P>,
    observe: &(dyn Fn(usize, u64) + Sync),
) -> ThreadResult {
    let mut random = Random::new(spec.seed, number as u64 + 1);
    let (mut operations, mut counted_from) = (0u64, None);
    let mut counts = LockCounts::default();
    loop {
        match phases.now(c) {
            Phase::WarmUp => {}
            Phase::Measuring if counted_from.is_some() => {}
            Phase::Measuring => {
                counted_from = Some(operations);
                counts = LockCounts::default();
            }
            Phase::Over => break,
        }
        let item = if spec.locks > 1 {
            P::work(c, Work::Random, 1);
            random.below(spec.locks as u64) as usize
        } else {
            0
        };
        if operations.is_multiple_of(OPERATIONS_PER_SAMPLE) {
            let before = P::now(c);
            let mut after = before;
            counts.refused += operation.perform(c, item, &mut state, || after = P::now(c));
            let nanos = after.since(before);
            counts.timed += 1;
            counts.timed_nanos += nanos;
            if counted_from.is_some() {
                observe(number, nanos);
            }
        } else {
            counts.refused += operation.perform(c, item, &mut state, || ());
        }
        operations += 1;
        compute::<P>(c, spec.delay);
    }
    // A thread that did not observe the measuring phase has measured nothing.
    counts = if counted_from.is_some() { counts } else { LockCounts::default() };
    counts.operations = operations - counted_from.unwrap_or(operations);
    ThreadResult { counts, operations, left: operation.leave(state) }
}
