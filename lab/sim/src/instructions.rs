//! Instructions of computation.
//!
//! Instructions are those of the same primitives, counted natively on x86-64 on 2026-11-27 by
//! `cargo run --release -p isles-workloads --example calibrate -- instructions`, which runs each
//! primitive under `valgrind --tool=callgrind`. The accesses that a primitive declares are one
//! instruction each and not in its units ([`instructions`]). A hash has none: the lookup from which
//! its instructions follow has no more than its accesses and comparisons.

use platform::Work;

use crate::statistics::Counts;

/// Instructions of one unit, in hundredths.
const fn centi_instructions(work: Work) -> u64 {
    match work {
        Work::Hash => 0,
        Work::KeyCompare => 1_881,
        Work::CopyWord => 425,
        Work::Access => 12_473,
        Work::Transaction => 68_601,
        Work::Random => 2_600,
        Work::Step => 600,
    }
}

/// Instructions of one read of the clock, counted like a primitive.
const CLOCK_INSTRUCTIONS: u64 = 13;
/// Instructions of one turn of the platform's compiled spin loop, with its load and its pause.
const SPIN_INSTRUCTIONS: u64 = 13;
/// Instructions of one turn of the compiled loop that pauses until a moment.
const PAUSE_INSTRUCTIONS: u64 = 11;

/// Instructions that simulated cores executed: one for each access but those of page walks, and
/// those of computation, of declared paths, of clocks and of loops that wait.
pub(crate) fn instructions(counts: &Counts) -> u64 {
    let computed = Work::ALL.map(|work| counts.work[work as usize] * centi_instructions(work));
    counts.events - counts.page_walks
        + counts.path_instructions
        + computed.iter().sum::<u64>() / 100
        + counts.clock_reads * CLOCK_INSTRUCTIONS
        + counts.spin_turns * SPIN_INSTRUCTIONS
        + counts.pause_turns * PAUSE_INSTRUCTIONS
}
