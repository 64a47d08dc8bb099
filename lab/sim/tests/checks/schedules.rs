//! Schedules: repeated by the seed, different under another, torn where the platform says so.

// The test runs threads and files of the host.
#![allow(clippy::disallowed_methods)]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::common::{Words, places, small, workers};
use platform::{Intent, Place, Platform, Work};
use sim::{Config, Outcome, Shape, VirtualMachine as Vm};

/// A program with all kinds of operations, whose value depends on the interleaving: the order in
/// which cores drew numbers.
fn program(config: &Config) -> Outcome<Vec<u64>> {
    let outcome = Vm::run(config, |c| {
        let words = Words::new(c, 1, 1024, "words");
        let log = Words::new(c, 0, 1024, "log");
        let worker = |c, index: usize| {
            // Memory whose address differs from run to run on the host.
            let private = vec![index as u64; 100 + index];
            for round in 0..10 {
                let turn = Vm::fetch_add(c, words.line(0), 1, AcqRel) as usize;
                Vm::store(c, &log.all()[turn], index as u64 + 1, Relaxed);
                let row = &words.all()[(turn % 16) * 32 + 64..][..32];
                Vm::prefetch(c, row.as_ptr(), 256, Intent::Read);
                Vm::touch(c, private.as_ptr(), 800, Intent::Read);
                Vm::work(c, Work::Step, (turn % 7) as u32);
                let mut copy = [0; 32];
                Vm::read_words(c, row, &mut copy);
                Vm::write_words(c, &row[..16], &copy[16..]);
                let region = Vm::region(c, None, 5000 * (round + 1), "scratch").expect("memory");
                Vm::touch(c, platform::RegionBytes::base(&region), 300, Intent::Write);
                Vm::spin_while(c, words.line(1), 0, Some(Vm::now(c).plus(100)));
                if index == 3 {
                    Vm::unpark(c, words.line(2), 1);
                } else if round == index {
                    Vm::park(c, words.line(2), 0, Some(Vm::now(c).plus(50_000)));
                }
            }
        };
        Vm::parallel(c, &[Place { thread: None }; 16], &worker, &mut |c| Vm::pause(c, 1000));
        log.all()[..160].iter().map(Vm::peek).collect()
    });
    outcome.expect("a run")
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for config in [small(), small().with_seed(9), small().with_seed(9).perturbed()] {
        let first = program(&config);
        assert!(first.statistics.counts.prefetches > 0 && first.statistics.counts.wakes > 0);
        for _ in 0..3 {
            assert_eq!(program(&config), first);
        }
    }
}

#[test]
fn another_seed_gives_another_interleaving() {
    let orders = |perturb| {
        let mut orders: Vec<_> =
            (0..20).map(|seed| program(&Config { perturb, ..small().with_seed(seed) }).value).collect();
        orders.sort();
        orders.dedup();
        orders.len()
    };
    assert_eq!(orders(true), 20);
    assert!(orders(false) > 10);
}

#[test]
fn machines_on_several_host_threads_do_not_disturb_each_other() {
    let expected = program(&small());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(program(&small()), expected));
        }
    });
}

#[test]
fn a_machine_runs_inside_a_fiber_of_another() {
    let expected = program(&small());
    let config = Config { stack_bytes: 1 << 20, ..small() };
    let outcome = Vm::run(&config, |c| {
        workers(c, 2, |_, _| assert_eq!(program(&small()), expected));
    });
    outcome.expect("a run");
}

#[test]
fn copies_tear_between_lines_and_never_within_one() {
    const LINES: usize = 4;
    let mut torn = 0;
    for seed in 0..10 {
        let outcome = Vm::run(&small().with_seed(seed).perturbed(), |c| {
            let words = Words::new(c, 0, LINES * 8, "row");
            let torn = Words::new(c, 0, 8, "torn");
            let row = &words.all()[..LINES * 8];
            workers(c, 6, |c, index| {
                for round in 0..50u64 {
                    if index < 2 {
                        let value = (round << 32 | round) + index as u64 * 0x1_0000_0001_0000;
                        Vm::write_words(c, row, &[value; LINES * 8]);
                        continue;
                    }
                    let mut copy = [0; LINES * 8];
                    Vm::read_words(c, row, &mut copy);
                    for line in copy.chunks(8) {
                        assert!(line.iter().all(|word| *word == line[0]), "a line is torn: {line:?}");
                    }
                    if copy.iter().any(|word| *word != copy[0]) {
                        Vm::fetch_add(c, torn.line(0), 1, Relaxed);
                    }
                }
            });
            Vm::peek(torn.line(0))
        });
        torn += outcome.expect("a run").value;
    }
    assert!(torn > 0, "no copy was torn");
}

#[test]
fn every_hardware_thread_of_a_large_machine_can_run() {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(28, 28, 2)) };
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        let threads = config.model.threads().count() as u32;
        let worker = |c, _| {
            Vm::spin_while(c, words.line(0), 0, None);
            Vm::fetch_add(c, words.line(1), 1, AcqRel);
        };
        for _ in 0..2 {
            Vm::store(c, words.line(0), 0, Release);
            Vm::parallel(c, &places(0..threads), &worker, &mut |c| {
                Vm::pause(c, 10_000);
                Vm::store(c, words.line(0), 1, Release);
            });
        }
        Vm::load(c, words.line(1), Acquire)
    });
    let outcome = outcome.expect("a run");
    assert_eq!(outcome.value, 2 * 1568);
    // All of them request one line, one after the other.
    assert!(outcome.statistics.elapsed.0 * 1000 > 2 * 1568 * 40_000);
}

#[test]
fn workers_start_workers() {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 8, "counter");
        let inner = |c, index: usize| {
            Vm::pause(c, 100 * index as u64);
            Vm::fetch_add(c, words.line(0), 1, AcqRel);
        };
        let outer = |c, index: usize| {
            let before = Vm::now(c);
            Vm::parallel(c, &[Place { thread: None }; 5], &inner, &mut |c| inner(c, index));
            assert!(Vm::now(c).since(before) >= 400, "the workers' time has passed for their caller");
            assert!(VirtualTime::costs(c, &words), "the caller is a core again");
        };
        Vm::parallel(c, &places(0..4), &outer, &mut |_| ());
        Vm::load(c, words.line(0), Acquire)
    });
    assert_eq!(outcome.expect("a run").value, 4 * 6 + 4);
}

struct VirtualTime;

impl VirtualTime {
    fn costs(c: sim::VirtualCore, words: &Words) -> bool {
        let before = Vm::timestamp(c);
        Vm::fetch_add(c, words.line(0), 1, AcqRel);
        Vm::timestamp(c) > before
    }
}

/// No operation takes effect before one that was complete before it was issued.
#[test]
fn operations_take_effect_in_the_order_of_virtual_time() {
    const ROUNDS: usize = 100;
    for config in [small(), small().perturbed()] {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 64, "tickets");
            let issued = Words::new(c, 1, 16 * ROUNDS, "issued");
            let complete = Words::new(c, 1, 16 * ROUNDS, "complete");
            workers(c, 16, |c, index| {
                for round in 0..ROUNDS {
                    Vm::work(c, Work::Hash, ((index * 7 + round * 13) % 50) as u32);
                    let moment = Vm::timestamp(c);
                    let ticket = Vm::fetch_add(c, words.line(0), 1, AcqRel) as usize;
                    Vm::poke(&issued.all()[ticket], moment);
                    Vm::poke(&complete.all()[ticket], Vm::timestamp(c));
                }
            });
            let moments =
                |words: &Words| words.all()[..16 * ROUNDS].iter().map(Vm::peek).collect::<Vec<u64>>();
            (moments(&issued), moments(&complete))
        });
        let (issued, complete) = outcome.expect("a run").value;
        let mut latest = 0;
        for (issued, complete) in issued.iter().zip(&complete) {
            latest = latest.max(*issued);
            assert!(
                latest < *complete,
                "a later ticket was complete at {complete}, an earlier one issued at {latest}"
            );
        }
    }
}
