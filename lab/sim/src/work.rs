//! Cost of computation between touches: cycles of one core without busy siblings.
//!
//! One table for all machines, scaled by the machine's clock. Calibrated by the example `calibrate`
//! of `workloads` from primitives on one core (`docs/calibration.md`): a virtual machine of AMD
//! EPYC of the fourth generation at 3.69 GHz as `isles probe` describes it, 2026-11-21. No
//! benchmark was used for the fit.

use platform::Work;

/// Cycles of one unit, in hundredths.
const fn centicycles(work: Work) -> u64 {
    match work {
        Work::Hash => 702,
        Work::KeyCompare => 252,
        Work::CopyWord => 74,
        Work::Access => 4_778,
        Work::Transaction => 12_283,
        Work::Random => 527,
        Work::Step => 300,
    }
}

/// Picoseconds of one unit of each kind, in the order of [`Work::ALL`], at this many picoseconds a
/// cycle.
pub(crate) fn work_ps(cycle_ps: f64) -> [u64; Work::ALL.len()] {
    Work::ALL.map(|work| (centicycles(work) as f64 / 100.0 * cycle_ps).round() as u64)
}
