//! Workers on hardware threads: they take turns on one, and move.

use std::sync::atomic::Ordering::Release;

use crate::common::{Words, places, small};
use machine::HardwareThread;
use platform::{Intent, Platform, Work};
use sim::VirtualMachine as Vm;

#[test]
fn workers_of_one_thread_take_turns() {
    let elapsed = |threads: &[u32], parks: bool| {
        let outcome = Vm::run(&small(), |c| {
            let words = Words::new(c, 0, 64, "words");
            let worker = |c, index: usize| {
                if index > 0 && parks {
                    Vm::park(c, words.line(0), 0, None);
                    return;
                }
                Vm::pause(c, 10_000);
                (0..1_000).for_each(|_| Vm::work(c, Work::Transaction, 1));
                Vm::store(c, words.line(0), 1, Release);
                Vm::unpark(c, words.line(0), 1);
            };
            Vm::parallel(c, &places(threads.iter().copied()), &worker, &mut |_| ());
        });
        outcome.expect("a run").statistics.elapsed.0 as f64 - 10_000.0
    };
    let one = elapsed(&[0], false);
    assert!((elapsed(&[0, 1], false) / one - 1.0).abs() < 0.02);
    assert!((elapsed(&[0, 0, 0], false) / one - 3.0).abs() < 0.1);
    assert!((elapsed(&[0, 0], true) / one - 1.0).abs() < 0.2, "who is parked takes no turn");
}

#[test]
fn a_worker_that_is_bound_elsewhere_takes_turns_there() {
    let elapsed = |threads: &[u32]| {
        let outcome = Vm::run(&small(), |c| {
            let worker = |c, index: usize| {
                if index == 1 {
                    let threads: Vec<HardwareThread> = threads.iter().copied().map(HardwareThread).collect();
                    assert!(Vm::bind(c, &threads));
                }
                Vm::pause(c, 100_000);
                (0..1_000).for_each(|_| Vm::work(c, Work::Transaction, 1));
            };
            Vm::parallel(c, &places(0..2), &worker, &mut |_| ());
        });
        let statistics = outcome.expect("a run").statistics;
        (statistics.elapsed.0 as f64 - 100_000.0, statistics.counts.migrations)
    };
    let (apart, stays) = elapsed(&[1, 0]);
    let (together, moves) = elapsed(&[0]);
    let (beside, finds) = elapsed(&[0, 2]);
    assert_eq!((stays, moves, finds), (0, 1, 1), "it stays where it may");
    assert!(together > 1.8 * apart, "{together} and {apart}");
    assert!(beside < 1.2 * apart, "the free one of two threads: {beside} and {apart}");
    let none = Vm::run(&small(), |c| {
        let worker = |c, _: usize| assert!(!Vm::bind(c, &[HardwareThread(999)]));
        Vm::parallel(c, &places(0..1), &worker, &mut |_| ());
    });
    none.expect("a run");
}

#[test]
fn the_operating_system_moves_workers_without_a_place() {
    let run = |seed: u64, place: Option<HardwareThread>| {
        let outcome = Vm::run(&small().with_seed(seed), |c| {
            let words = Words::new(c, 0, 1 << 10, "words");
            let worker = |c, index: usize| {
                while Vm::now(c).0 < 2_000_000_000 {
                    Vm::pause(c, 1_000_000);
                    Vm::touch(c, words.line(index * 32), 2048, Intent::Read);
                }
            };
            let thread = |index: u32| platform::Place { thread: place.map(|_| HardwareThread(index)) };
            Vm::parallel(c, &(0..4).map(thread).collect::<Vec<_>>(), &worker, &mut |_| ());
        });
        outcome.expect("a run").statistics.counts
    };
    let pinned = run(1, Some(HardwareThread(0)));
    let moved = run(1, None);
    assert_eq!(pinned.migrations, 0);
    // Four workers, 100 balancings of each, one in four moves.
    assert!((50..150).contains(&moved.migrations), "{}", moved.migrations);
    assert!(
        moved.far_misses + moved.l3_hits > pinned.far_misses + pinned.l3_hits,
        "caches are cold after a move"
    );
    assert_eq!(run(1, None), moved);
    assert_ne!(run(2, None), moved);
}
