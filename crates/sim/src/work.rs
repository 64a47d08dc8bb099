//! What computation between touches costs: cycles of one core that has its issue slots for itself.
//!
//! One table for all machines, scaled by the machine's clock. The figures are placeholders for what a few dependent
//! instructions take; they are to be calibrated on hardware.

use platform::Work;

/// Cycles of one unit, in tenths.
const fn decicycles(work: Work) -> u64 {
    match work {
        Work::Hash => 90,
        Work::KeyCompare => 60,
        Work::CopyWord => 9,
        Work::Access => 150,
        Work::Transaction => 1500,
        Work::Random => 150,
        Work::Step => 60,
    }
}

/// Picoseconds of one unit of each kind, in the order of [`Work::ALL`], at this many picoseconds a cycle.
pub(crate) fn work_ps(cycle_ps: f64) -> [u64; Work::ALL.len()] {
    Work::ALL.map(|work| (decicycles(work) as f64 / 10.0 * cycle_ps).round() as u64)
}
