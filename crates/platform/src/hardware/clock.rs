//! Time from the time stamp counter, calibrated once against the operating system's monotonic
//! clock.
//!
//! `nanoseconds = ticks * MULTIPLIER >> 32`. Until [`calibrate`] has run, and where the counter is
//! not invariant, the multiplier is 0 and [`now`] calls the operating system.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Nanos;

static MULTIPLIER: AtomicU64 = AtomicU64::new(0);
static CALIBRATION: OnceLock<()> = OnceLock::new();

/// Length of the calibration: the operating system's clock is good to well under 1 us, so the rate
/// is good to 1e-4.
const CALIBRATION_MILLIS: u64 = 5;

/// Measures the counter's rate, once per process.
pub(super) fn calibrate() {
    CALIBRATION.get_or_init(|| {
        if !invariant() {
            return;
        }
        let started = Instant::now();
        let first = ticks();
        while started.elapsed() < Duration::from_millis(CALIBRATION_MILLIS) {
            std::hint::spin_loop();
        }
        let elapsed = started.elapsed().as_nanos();
        let passed = u128::from((ticks() - first).max(1));
        let multiplier = u64::try_from((elapsed << 32) / passed).unwrap_or(0);
        // Relaxed: a reader that misses it uses the operating system's clock only before any core
        // exists.
        MULTIPLIER.store(multiplier, Ordering::Relaxed);
    });
}

/// True if the counter runs at one rate whatever the power state (CPUID 8000_0007h, EDX bit 8).
pub(super) fn invariant() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::__cpuid;
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        false
    }
}

#[inline(always)]
pub(super) fn now() -> Nanos {
    // Relaxed: see `calibrate`.
    let multiplier = MULTIPLIER.load(Ordering::Relaxed);
    if multiplier == 0 {
        return system_now();
    }
    Nanos(((u128::from(ticks()) * u128::from(multiplier)) >> 32) as u64)
}

#[cold]
fn system_now() -> Nanos {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

#[inline(always)]
fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has RDTSC; Linux does not forbid it to user code by default.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    system_now().0
}

/// The counter, read after all earlier loads have completed and before any later instruction
/// starts.
#[inline(always)]
pub(super) fn ordered_ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as in `ticks`; LFENCE is part of SSE2, which every x86-64 processor has.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let value = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        value
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    system_now().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_follows_the_operating_system() {
        calibrate();
        let (ours, theirs) = (now(), Instant::now());
        while theirs.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let passed = now().since(ours);
        assert!(passed >= 19_000_000, "20 ms were measured as {passed} ns");
    }
}
