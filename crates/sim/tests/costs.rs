//! What the cost model promises: distances, overlap, queueing, capacity.

mod common;

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use common::{Words, places, small, workers};
use platform::{Intent, Platform, Work};
use sim::{Config, Costs, Shape, VirtualCore, VirtualMachine as Vm};

/// Picoseconds that an action takes.
fn time(c: VirtualCore, action: impl FnOnce()) -> u64 {
    let start = Vm::timestamp(c);
    action();
    Vm::timestamp(c) - start - Costs::default().clock_ps
}

/// Runs one program on hardware thread `0` of a machine.
fn alone(config: &Config, program: impl Fn(VirtualCore, &Words) + Sync) {
    let outcome = Vm::run(config, |c| {
        let words = Words::new(c, 0, 1 << 20, "words");
        workers(c, 1, |c, _| program(c, &words));
    });
    outcome.expect("a run");
}

#[test]
fn a_line_costs_by_its_distance() {
    let config = Config::new(Shape::new(3, 4, 1).with_hops(vec![0, 1, 2, 1, 0, 1, 2, 1, 0]));
    let costs = config.costs.clone();
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        // Each thread writes in turn; the line comes from the thread before it.
        let expected = [
            (0, costs.memory_local_ps),
            (0, costs.hit_ps),
            (1, costs.near_ps),
            (4, costs.far_ps),
            (8, costs.far_ps),
            (0, costs.far_ps + costs.hop_ps),
        ];
        let threads = expected.map(|(thread, _)| thread);
        Vm::parallel(
            c,
            &places(threads),
            &|c, index| {
                Vm::pause(c, 10_000 * index as u64);
                let taken = time(c, || Vm::store(c, words.line(0), 1, Relaxed));
                assert_eq!(taken, expected[index].1, "access {index}");
            },
            &mut |_| (),
        );
        // Memory of node 0, seen from sockets one and two links away.
        Vm::parallel(
            c,
            &places([5, 9]),
            &|c, index| {
                let taken = time(c, || _ = Vm::load(c, words.line(2 + index), Relaxed));
                assert_eq!(taken, costs.memory_remote_ps + index as u64 * costs.hop_ps);
            },
            &mut |_| (),
        );
    });
    let statistics = outcome.expect("a run").statistics;
    assert_eq!((statistics.near_misses, statistics.far_misses, statistics.hits), (1, 3, 1));
    assert_eq!((statistics.local_memory_misses, statistics.remote_memory_misses), (1, 2));
}

#[test]
fn readers_share_and_a_writer_invalidates_all() {
    let config = small();
    let costs = config.costs.clone();
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        let worker = |c, index: usize| {
            let load = || time(c, || _ = Vm::load(c, words.line(0), Acquire));
            Vm::pause(c, 1_000 * index as u64);
            load();
            assert_eq!(load(), costs.hit_ps);
            Vm::pause(c, 100_000);
            if index == 0 {
                assert_eq!(time(c, || Vm::store(c, words.line(0), 1, Release)), costs.far_ps);
            }
            Vm::pause(c, 100_000);
            match index {
                0 => assert_eq!(load(), costs.hit_ps),
                1 => assert_eq!(load(), costs.near_ps),
                _ => assert!(load() >= costs.near_ps),
            }
        };
        Vm::parallel(c, &places([0, 1, 2, 8, 9]), &worker, &mut |_| ());
    });
    outcome.expect("a run");
}

#[test]
fn atomics_cost_more_than_stores() {
    alone(&small(), |c, words| {
        Vm::store(c, words.line(0), 1, Relaxed);
        let store = time(c, || Vm::store(c, words.line(0), 1, Relaxed));
        let atomic = time(c, || _ = Vm::fetch_add(c, words.line(0), 1, AcqRel));
        assert_eq!(atomic - store, Costs::default().atomic_ps);
    });
}

#[test]
fn lines_of_one_touch_overlap() {
    alone(&small(), |c, words| {
        let costs = Costs::default();
        let touch = time(c, || Vm::touch(c, words.line(0), 16 * 64, Intent::Read));
        assert_eq!(touch, costs.memory_local_ps + 15 * costs.issue_ps);
        let mut copy = [0; 128];
        let read = time(c, || Vm::read_words(c, &words.all()[1024..1152], &mut copy));
        assert_eq!(read, touch);
        let serial = time(c, || (64..80).for_each(|line| _ = Vm::load(c, words.line(line), Relaxed)));
        assert_eq!(serial, 16 * costs.memory_local_ps);
    });
}

#[test]
fn prefetch_overlaps_with_work() {
    alone(&small(), |c, words| {
        let costs = Costs::default();
        let start = Vm::timestamp(c);
        Vm::prefetch(c, words.line(0), 128, Intent::Read);
        let issue = Vm::timestamp(c) - start - costs.clock_ps;
        assert_eq!(issue, 2 * costs.issue_ps);
        Vm::work(c, Work::Hash, 10);
        // It waits for the remainder only.
        let first = Vm::timestamp(c);
        Vm::load(c, words.line(0), Relaxed);
        assert_eq!(Vm::timestamp(c) - start, 2 * costs.clock_ps + costs.memory_local_ps - costs.clock_ps);
        assert!(Vm::timestamp(c) > first);
        Vm::pause(c, 1000);
        assert_eq!(time(c, || _ = Vm::load(c, words.line(1), Relaxed)), costs.hit_ps);
        // Any address may be prefetched.
        Vm::prefetch(c, std::ptr::without_provenance::<u8>(usize::MAX - 5), 100, Intent::Write);
        Vm::prefetch(c, words.line(0), usize::MAX >> 40, Intent::Read);
    });
}

#[test]
fn a_core_has_few_misses_under_way() {
    alone(&small(), |c, words| {
        let costs = Costs::default();
        let buffers = costs.fill_buffers;
        let within = time(c, || Vm::prefetch(c, words.line(0), buffers * 64, Intent::Read));
        assert_eq!(within, buffers as u64 * costs.issue_ps);
        let beyond = time(c, || Vm::prefetch(c, words.line(100), 64, Intent::Read));
        assert!(beyond > costs.memory_local_ps / 2);
    });
}

#[test]
fn a_contended_line_is_a_queue() {
    let config = small();
    let elapsed = |lines: usize| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 64, "words");
            workers(c, 8, |c, index| {
                for _ in 0..100 {
                    Vm::fetch_add(c, words.line(index % lines), 1, AcqRel);
                }
            });
        });
        outcome.expect("a run").statistics.elapsed.0
    };
    let (shared, own) = (elapsed(1), elapsed(8));
    assert!(shared * 1000 >= 700 * config.costs.near_ps, "{shared} ns for 800 increments of one line");
    assert!(shared > 20 * own, "{shared} ns on one line, {own} ns on eight");
}

#[test]
fn false_sharing_costs_like_sharing() {
    let elapsed = |stride: usize| {
        let outcome = Vm::run(&small(), |c| {
            let words = Words::new(c, 0, 64, "words");
            workers(c, 8, |c, index| {
                (0..100).for_each(|_| Vm::store(c, &words.all()[index * stride], 1, Relaxed));
            });
        });
        outcome.expect("a run").statistics.elapsed.0
    };
    assert!(elapsed(1) > 10 * elapsed(8));
}

#[test]
fn private_caches_have_a_capacity() {
    let config = Config { costs: Costs { cache_bytes: 64 << 10, ..Costs::default() }, ..small() };
    alone(&config, |c, words| {
        let costs = Costs::default();
        let pass =
            |lines: usize| time(c, || (0..lines).for_each(|line| _ = Vm::load(c, words.line(line), Relaxed)));
        pass(1024);
        assert_eq!(pass(1024), 1024 * costs.hit_ps);
        pass(2048);
        assert_eq!(pass(2048), 2048 * costs.near_ps);
    });
}

#[test]
fn supervisors_and_private_memory_stay_out_of_the_model() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 1 << 16, "words");
        for line in 0..1 << 13 {
            Vm::store(c, words.line(line), 1, Relaxed);
        }
        Vm::work(c, Work::Transaction, 1000);
        Vm::timestamp(c)
    });
    let outcome = outcome.expect("a run");
    assert_eq!((outcome.value, outcome.statistics.events), (0, 0));
    assert!(outcome.statistics.supervisor_events >= 1 << 13);
    alone(&small(), |c, _| {
        let costs = Costs::default();
        let private = vec![0u64; 1000];
        assert_eq!(time(c, || Vm::touch(c, private.as_ptr(), 8000, Intent::Write)), costs.hit_ps);
    });
}

#[test]
fn bad_machines_are_refused() {
    let refused = |config: Config| match Vm::run(&config, |_| ()) {
        Err(sim::SimError::Config(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Config::new(Shape::new(0, 1, 1))), "0 sockets; a machine has 1 to 64");
    let hops = vec![0, 1, 1, 0];
    assert_eq!(refused(Config::new(Shape::new(3, 1, 1).with_hops(hops))), "4 hops for 3 sockets; 9 needed");
    let hops = vec![0, 0, 1, 0];
    assert_eq!(refused(Config::new(Shape::new(2, 1, 1).with_hops(hops))), "no link between sockets 0 and 1");
    refused(Config { stack_bytes: 100, ..small() });
    refused(Config { memory_bytes: 1 << 50, ..small() });
    refused(Config { costs: Costs { cache_bytes: 5000, ..Costs::default() }, ..small() });
}
