//! Counters of runs whose counts are known.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use crate::common::{Words, small, workers};
use platform::{Platform, Work};
use sim::{Statistics, VirtualCore, VirtualMachine as Vm};

/// Counters of a program that this many workers run.
fn counted(count: u32, program: impl Fn(VirtualCore, &Words, usize) + Sync) -> Statistics {
    let outcome = Vm::run(&small(), |c| {
        let words = Words::new(c, 0, 1 << 20, "words");
        workers(c, count, |c, index| program(c, &words, index));
        Vm::statistics(c)
    });
    outcome.expect("a run").value
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

#[test]
fn a_chase_through_memory_misses_everywhere() {
    const LINES: usize = 1 << 14;
    let statistics = counted(1, |c, words, _| {
        (0..LINES).for_each(|line| _ = Vm::load(c, words.line(line), Relaxed));
    });
    assert_eq!(statistics.counts.llc_misses(), LINES as u64);
    assert_eq!(statistics.counts.llc_references(), LINES as u64);
    assert_eq!(statistics.instructions, LINES as u64);
    assert!(share(statistics.stalled_cycles, statistics.cycles) > 0.97, "{statistics:?}");
    assert_eq!((statistics.shared_cycles, statistics.counts.shared_lines), (0, 0));
}

#[test]
fn a_private_loop_shares_nothing_and_waits_once() {
    let statistics = counted(2, |c, words, index| {
        for _ in 0..10_000 {
            Vm::fetch_add(c, words.line(index), 1, AcqRel);
            Vm::work(c, Work::Step, 10);
        }
    });
    assert_eq!((statistics.shared_cycles, statistics.counts.shared_lines), (0, 0));
    assert_eq!(statistics.counts.llc_misses(), 2, "one for each worker");
    assert!(share(statistics.stalled_cycles, statistics.cycles) < 0.01, "{statistics:?}");
    assert_eq!(statistics.instructions, 2 * 10_000 * (1 + 10 * 6));
}

#[test]
fn a_line_that_goes_from_core_to_core_takes_nearly_all_cycles() {
    const ROUNDS: u64 = 1_000;
    let statistics = counted(8, |c, words, _| {
        (0..ROUNDS).for_each(|_| _ = Vm::fetch_add(c, words.line(0), 1, AcqRel));
    });
    let cycles = share(statistics.shared_cycles, statistics.cycles);
    assert!((0.9..=1.0).contains(&cycles), "{cycles}: {statistics:?}");
    assert!(statistics.stalled_cycles <= statistics.cycles);
}

#[test]
fn spinning_executes_instructions_and_sleeping_has_no_cycles() {
    const WAIT_NS: u64 = 100_000;
    let waits = |sleeps: bool| {
        counted(2, |c, words, index| match index {
            0 => {
                Vm::work(c, Work::Step, 1);
                Vm::rest(c, WAIT_NS);
                Vm::store(c, words.line(0), 1, Release);
                Vm::unpark(c, words.line(0), 1);
            }
            _ if sleeps => Vm::park(c, words.line(0), 0, None),
            _ => _ = Vm::spin_while(c, words.line(0), 0, None),
        })
    };
    let (spins, sleeps) = (waits(false), waits(true));
    let cycles = WAIT_NS * 3;
    assert!(share(spins.cycles, cycles) > 0.97, "{spins:?}");
    assert!(share(sleeps.cycles, cycles) < 0.01, "{sleeps:?}");
    let turns = spins.counts.spin_turns;
    assert!(turns > 500 && spins.instructions > 13 * turns, "{spins:?}");
    assert_eq!(sleeps.counts.spin_turns, 0);
    assert!(share(spins.stalled_cycles, spins.cycles) < 0.01, "{spins:?}");
}
