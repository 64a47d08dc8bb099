//! Several workers on one hardware thread, which the operating system divides into slices.
// The tests count on the host.
#![allow(clippy::disallowed_types)]

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::common::{Words, places, small};
use platform::{Platform, Work};
use sim::{Counts, VirtualCore, VirtualMachine as Vm};

/// A slice of each of two workers on the machine of these tests: half of 24 ms.
const SLICE_NANOS: u64 = 12_000_000;
const LOCK: usize = 0;
const READY: usize = 2;
/// A line for which no worker waits.
const OTHER: usize = 4;

/// Keeps a worker busy with computation for about this long, if it has its hardware thread alone.
fn compute(c: VirtualCore, words: &Words, nanos: u64) {
    const CHUNK: u32 = 1_000;
    /// 122.83 cycles of a third of a nanosecond.
    const UNIT_PS: u64 = 40_943;
    for _ in 0..nanos * 1_000 / (UNIT_PS * u64::from(CHUNK)) {
        Vm::work(c, Work::Transaction, CHUNK);
        Vm::load(c, words.line(OTHER), Relaxed);
    }
}

/// Moments at which workers on these hardware threads end, in nanoseconds.
fn ends(threads: &[u32], body: impl Fn(VirtualCore, &Words, usize) + Sync) -> (Vec<u64>, Counts) {
    let ends: Vec<AtomicU64> = threads.iter().map(|_| AtomicU64::new(0)).collect();
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 64, "words");
        let worker = |c, index: usize| {
            body(c, &words, index);
            ends[index].store(Vm::now(c).0, Relaxed);
        };
        Vm::parallel(c, &places(threads.iter().copied()), &worker, &mut |_| ());
    });
    let counts = outcome.expect("a run").statistics.counts;
    (ends.into_iter().map(AtomicU64::into_inner).collect(), counts)
}

fn is_about(nanos: u64, expected: u64) -> bool {
    (nanos as f64 / expected as f64 - 1.0).abs() < 0.03
}

/// Workers that compute have equal shares of their hardware thread, slice by slice.
#[test]
fn two_workers_that_compute_take_twice_as_long_each() {
    const NANOS: u64 = 120_000_000;
    for (threads, slice_nanos) in
        [(&[0][..], 0), (&[0, 1], 0), (&[0, 0], SLICE_NANOS), (&[0, 0, 0], 8_000_000)]
    {
        let (ends, counts) = ends(threads, |c, words, _| compute(c, words, NANOS));
        let shares = threads.iter().filter(|thread| **thread == 0).count() as u64;
        assert!(is_about(*ends.iter().max().expect("one"), shares * NANOS), "{threads:?}: {ends:?}");
        // The first of them ends before the last one's last slices.
        let least = shares * NANOS - (shares - 1) * slice_nanos;
        assert!(ends.iter().all(|end| is_about(*end, least) || *end > least), "{threads:?}: {ends:?}");
        let slices = if shares > 1 { shares * NANOS / slice_nanos } else { 0 };
        assert!(counts.context_switches.abs_diff(slices) <= 2 * shares, "{threads:?}: {counts:?}");
    }
}

/// A lock whose holder waits for its slice delays those that spin elsewhere.
#[test]
fn a_holder_that_does_not_run_delays_who_spins() {
    const HELD_NANOS: u64 = 20_000_000;
    let waited = |threads: &[u32]| {
        let locked = AtomicU64::new(0);
        let (ends, _) = ends(threads, |c, words, index| match index {
            0 => {
                Vm::store(c, words.line(LOCK), 1, Release);
                locked.store(Vm::now(c).0, Relaxed);
                compute(c, words, HELD_NANOS);
                Vm::store(c, words.line(LOCK), 0, Release);
            }
            1 => {
                while Vm::load(c, words.line(LOCK), Acquire) == 0 {
                    Vm::pause(c, 1_000);
                }
                Vm::spin_while(c, words.line(LOCK), 1, None);
            }
            _ => compute(c, words, 5 * HELD_NANOS),
        });
        ends[1] - locked.into_inner()
    };
    let alone = waited(&[0, 1]);
    assert!(is_about(alone, HELD_NANOS), "{alone}");
    // The holder has one slice, another worker has one or two (a worker whose run time is still the
    // least begins another slice), and the holder has the rest.
    let shared = waited(&[0, 1, 0]);
    let slices = [1, 2].map(|slices| is_about(shared, HELD_NANOS + slices * SLICE_NANOS));
    assert!(slices.contains(&true), "{shared}");
}

/// A worker that spins takes time from those of its hardware thread, one that is parked does not.
#[test]
fn who_is_parked_leaves_its_hardware_thread_to_others() {
    const NANOS: u64 = 60_000_000;
    let computed = |parks: bool| {
        let (ends, counts) = ends(&[0, 0, 1], |c, words, index| match index {
            0 => {
                while Vm::load(c, words.line(READY), Acquire) == 0 {
                    match parks {
                        true => Vm::park(c, words.line(READY), 0, None),
                        false => _ = Vm::spin_while(c, words.line(READY), 0, None),
                    }
                }
            }
            1 => compute(c, words, NANOS),
            _ => {
                Vm::pause(c, 4 * NANOS);
                Vm::store(c, words.line(READY), 1, Release);
                Vm::unpark(c, words.line(READY), 1);
            }
        });
        (ends[1], counts)
    };
    let (beside_parked, counts) = computed(true);
    assert!(is_about(beside_parked, NANOS), "{beside_parked}");
    assert!(counts.context_switches <= 4, "{counts:?}");
    // One that spins offers the processor again and again, and is given it back as long as it has
    // had less of it by more than 4 ms.
    let (beside_spinning, _) = computed(false);
    assert!((1.4..2.0).contains(&(beside_spinning as f64 / NANOS as f64)), "{beside_spinning}");
}

/// A worker that wakes up after a long sleep does not wait for the end of another one's slice.
#[test]
fn who_wakes_up_preempts_who_computes() {
    const ROUNDS: u64 = 10;
    const INTERVAL_NANOS: u64 = 9_000_000;
    let latest = AtomicU64::new(0);
    ends(&[0, 0], |c, words, index| {
        if index == 0 {
            return compute(c, words, 2 * ROUNDS * INTERVAL_NANOS);
        }
        for _ in 0..ROUNDS {
            let end = Vm::now(c).plus(INTERVAL_NANOS);
            Vm::park(c, words.line(READY), 0, Some(end));
            latest.fetch_max(Vm::now(c).since(end), Relaxed);
            compute(c, words, 100_000);
        }
    });
    let latest = latest.into_inner();
    assert!((1_000..100_000).contains(&latest), "{latest}");
}

/// The same workers have the same slices in each run.
#[test]
fn slices_are_the_same_in_each_run() {
    let run = || {
        ends(&[0, 0, 0, 1, 1], |c, words, index| {
            for round in 0..200 {
                compute(c, words, 100_000 * (1 + (index as u64 + round) % 3));
                let seen = Vm::load(c, words.line(LOCK), Acquire);
                if index == 0 || index == 3 {
                    Vm::fetch_add(c, words.line(LOCK), 1, Release);
                    Vm::unpark(c, words.line(LOCK), 9);
                } else {
                    Vm::park(c, words.line(LOCK), seen, Some(Vm::now(c).plus(200_000)));
                }
            }
        })
    };
    let (first, counts) = run();
    assert!(counts.context_switches > 100, "{counts:?}");
    assert_eq!(run(), (first, counts));
}
