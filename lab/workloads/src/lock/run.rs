//! The threads of a run: each performs operations, counts them while the run measures, and times
//! some.

use platform::{Platform, Work};
use terms::random::Random;

use super::operation::Operation;
use super::types::{LockCounts, LockError, LockResult, LockSpec};
use crate::lines::compute;
use crate::threads::{Phase, Phases, on_threads};

/// Operations of a thread of which one is timed: reading the clock takes as long as some of them.
const OPERATIONS_PER_LOOK: u64 = 16;

/// What hears of a run, and what ends it early.
pub struct Watch<'a, P: Platform> {
    /// Gets the nanoseconds of each timed operation, on its thread, whose number comes first.
    pub observe: &'a (dyn Fn(usize, u64) + Sync),
    /// Called on the main thread when the warm-up is over.
    pub measuring: &'a mut dyn FnMut(P::Core),
    /// Asked on the main thread every millisecond.
    pub stop: &'a dyn Fn() -> bool,
}

/// What a thread leaves behind.
struct Ended {
    counts: LockCounts,
    /// Operations, the warm-up's among them.
    operations: u64,
    /// What the check wants to know of it.
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
        // A thread that gets no memory comes, too: the others wait.
        let seat = operation.seat(c, number);
        phases.meet(c);
        Ok(perform(c, (spec, number), operation, seat?, phases, observe))
    };
    let (ended, elapsed_nanos) =
        on_threads(c, &spec.places(), spec.times(), watch.measuring, watch.stop, &job)?;
    let left: Vec<u64> = ended.iter().map(|thread| thread.left).collect();
    let check = operation.check(ended.iter().map(|thread| thread.operations).sum(), &left);
    Ok(LockResult { threads: ended.iter().map(|thread| thread.counts).collect(), elapsed_nanos, check })
}

/// One thread.
fn perform<P: Platform, O: Operation<P>>(
    c: P::Core,
    (spec, number): (&LockSpec, usize),
    operation: &O,
    mut seat: O::Seat,
    phases: &Phases<P>,
    observe: &(dyn Fn(usize, u64) + Sync),
) -> Ended {
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
        if operations.is_multiple_of(OPERATIONS_PER_LOOK) {
            let before = P::now(c);
            let mut after = before;
            counts.refused += operation.perform(c, item, &mut seat, || after = P::now(c));
            let nanos = after.since(before);
            counts.timed += 1;
            counts.timed_nanos += nanos;
            if counted_from.is_some() {
                observe(number, nanos);
            }
        } else {
            counts.refused += operation.perform(c, item, &mut seat, || ());
        }
        operations += 1;
        compute::<P>(c, spec.delay);
    }
    // A thread that saw no phase but the first and the last has measured nothing.
    counts = if counted_from.is_some() { counts } else { LockCounts::default() };
    counts.operations = operations - counted_from.unwrap_or(operations);
    Ended { counts, operations, left: operation.leave(seat) }
}
