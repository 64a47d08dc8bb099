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

/// Cycles of an instruction of a long code path that misses nothing: two instructions a cycle, half
/// of what cores of four instructions a cycle can do at most.
const CYCLES_WITHOUT_MISSES: f64 = 0.5;
/// Instruction lines that an instruction misses in a first-level cache of 32 KiB, and branches that
/// it mispredicts: counted for Shore-MT (`docs/like-shore-mt.md`).
const CODE_MISSES: f64 = 0.0209;
const MISPREDICTIONS: f64 = 0.0045;
/// Cycles of a mispredicted branch: Fog, "The microarchitecture of Intel, AMD and VIA CPUs",
/// Nehalem and Westmere.
const MISPREDICTION_CYCLES: f64 = 17.0;

/// Cycles of an instruction of a long code path, if a line of code comes from the second-level
/// cache in this many cycles. Misses of instructions are not overlapped.
fn instruction_cycles(l2_cycles: f64) -> f64 {
    CYCLES_WITHOUT_MISSES + CODE_MISSES * l2_cycles + MISPREDICTIONS * MISPREDICTION_CYCLES
}

/// Picoseconds of an instruction of a long code path, at this many picoseconds a cycle, on a core
/// whose second-level cache answers in `l2_ps`.
pub(crate) fn instruction_ps(cycle_ps: f64, l2_ps: u64) -> u64 {
    (instruction_cycles(l2_ps as f64 / cycle_ps) * cycle_ps).round() as u64
}
