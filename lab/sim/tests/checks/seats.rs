//! Workers on hardware threads: where they start, and how they move.

use crate::common::{Words, places, small};
use machine::HardwareThread;
use platform::{Intent, Platform, Work};
use sim::VirtualMachine as Vm;

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
                // Many slices.
                for _ in 0..4_000 {
                    Vm::work(c, Work::Transaction, 1_000);
                    Vm::pause(c, 0);
                }
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
