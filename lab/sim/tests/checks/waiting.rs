//! Costs of waiting for the waiters, their siblings, and the workers that they wait for.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use crate::common::{Words, places, transfer};
use machine::{Access, LineState};
use platform::{Platform, Work};
use sim::{Config, Costs, Shape, Statistics, VirtualCore, VirtualMachine as Vm};

/// Two sockets of eight cores with two hardware threads: `SIBLING` shares the core of thread 0.
/// Reading the clock is free.
fn machine(change: impl FnOnce(&mut Costs)) -> Config {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(2, 8, 2)) };
    let mut costs = Costs { clock_ps: 0, ..config.model.costs().clone() };
    change(&mut costs);
    config.with_costs(costs)
}

const SIBLING: u32 = 16;
const NEAR: u32 = 1;
const FAR: u32 = 8;

/// Runs workers, each of which may report a number. Returns the numbers and the counters.
fn run(
    config: &Config,
    threads: &[u32],
    worker: impl Fn(VirtualCore, usize, &Words) -> u64 + Sync,
) -> (Vec<u64>, Statistics) {
    let outcome = Vm::run(config, |c| {
        let words = Words::new(c, 0, 1 << 10, "words");
        let numbers = Words::new(c, 0, 1 << 10, "numbers");
        let report = |c, index: usize| {
            let number = worker(c, index, &words);
            Vm::poke(&numbers.all()[index], number);
        };
        Vm::parallel(c, &places(threads.iter().copied()), &report, &mut |_| ());
        numbers.all()[..threads.len()].iter().map(Vm::peek).collect()
    });
    let outcome = outcome.expect("a run");
    (outcome.value, outcome.statistics)
}

/// Wait of the other threads while thread 0 adds ten times, 10 us apart, to a word beside theirs.
#[derive(Clone, Copy, PartialEq)]
enum WaitKind {
    Spin,
    Park,
}

/// Picoseconds of the ten additions together, and the counters.
fn additions_beside(config: &Config, waiters: &[u32], kind: WaitKind) -> (u64, Statistics) {
    let threads: Vec<u32> = std::iter::once(0).chain(waiters.iter().copied()).collect();
    let (numbers, statistics) = run(config, &threads, |c, index, words| {
        let (flag, beside) = (words.line(0), &words.all()[1]);
        if index > 0 {
            while Vm::load(c, flag, Relaxed) == 0 {
                match kind {
                    WaitKind::Spin => _ = Vm::spin_while(c, flag, 0, None),
                    WaitKind::Park => Vm::park(c, flag, 0, None),
                }
            }
            return 0;
        }
        let mut taken = 0;
        Vm::pause(c, 100_000);
        Vm::fetch_add(c, beside, 1, AcqRel);
        for _ in 0..10 {
            Vm::pause(c, 10_000);
            let begin = Vm::timestamp(c);
            Vm::fetch_add(c, beside, 1, AcqRel);
            taken += Vm::timestamp(c) - begin;
        }
        Vm::store(c, flag, 1, Release);
        Vm::unpark(c, flag, u32::MAX);
        taken
    });
    (numbers[0], statistics)
}

/// Cores that spin on a line reload it when any of its words is written, and the writer must take
/// it again.
#[test]
fn who_spins_on_a_line_reloads_it_at_every_write() {
    let config = machine(|_| ());
    let own = 10 * config.model.costs().atomic_ps;
    let waiters = [NEAR, 2, FAR];
    let taken_back = transfer(&config, Access::Atomic, LineState::Shared, 0, FAR);
    let (taken, spun) = additions_beside(&config, &waiters, WaitKind::Spin);
    assert_eq!(taken, 10 * taken_back);
    let (taken, parked) = additions_beside(&config, &waiters, WaitKind::Park);
    assert_eq!(taken, own, "a parked thread does not read");
    // Eleven reloads by each of the three. The far one fetches the line over the link each time.
    let lines = |statistics: &Statistics| {
        statistics.counts.near_misses + statistics.counts.l3_hits + statistics.counts.far_misses
    };
    let reloads = lines(&spun) - lines(&parked);
    assert!((33..=33 + 11 + 3).contains(&reloads), "{reloads}: {:?} {:?}", spun.counts, parked.counts);
    // Two siblings that spin on one line fetch it once.
    let (_, one) = additions_beside(&config, &[NEAR], WaitKind::Spin);
    let (_, two) = additions_beside(&config, &[NEAR, NEAR + 16], WaitKind::Spin);
    assert!(lines(&two) <= lines(&one) + 2, "{:?} {:?}", one.counts, two.counts);
    // Writes of another line do not concern them.
    let (numbers, _) = run(&config, &[0, FAR], |c, index, words| {
        if index > 0 {
            return Vm::spin_while(c, words.line(0), 0, None);
        }
        Vm::pause(c, 1_000);
        Vm::fetch_add(c, words.line(1), 1, AcqRel);
        let begin = Vm::timestamp(c);
        (0..10).for_each(|_| _ = Vm::fetch_add(c, words.line(1), 1, AcqRel));
        let taken = Vm::timestamp(c) - begin;
        Vm::store(c, words.line(0), 1, Release);
        taken
    });
    assert_eq!(numbers[0], own);
}

/// A write that comes while the reload of a spinner is under way causes no second request.
#[test]
fn a_reload_under_way_is_not_asked_for_again() {
    let config = machine(|_| ());
    let reloads = |writes: usize| {
        let (_, statistics) = run(&config, &[0, FAR], |c, index, words| {
            if index > 0 {
                return Vm::spin_while(c, words.line(0), 0, None);
            }
            Vm::pause(c, 10_000);
            (0..writes).for_each(|_| _ = Vm::fetch_add(c, &words.all()[1], 1, AcqRel));
            Vm::pause(c, 10_000);
            Vm::store(c, words.line(0), 1, Release);
            0
        });
        statistics.counts.far_misses
    };
    // Between two reads of the spinner the writer adds several times.
    let (one, four) = (reloads(1), reloads(4));
    assert_eq!(one, four);
    assert!(reloads(1_000) > four, "and for ever it does not wait");
}

/// A spinner reads once a turn of its loop, and continues when the line has come after that.
#[test]
fn a_woken_spinner_goes_on_after_its_pause_and_its_line() {
    let waited = |pause_ps: u64, written: u64| {
        let config = machine(|costs| (costs.pause_ps, costs.spins) = (pause_ps, 1 << 30));
        let (numbers, _) = run(&config, &[FAR, 0], |c, index, words| {
            if index == 0 {
                Vm::load(c, words.line(0), Relaxed);
                Vm::pause(c, 10_000 - Vm::now(c).0);
                Vm::spin_while(c, words.line(0), 0, None);
                return Vm::timestamp(c);
            }
            Vm::pause(c, written);
            Vm::fetch_add(c, words.line(0), 1, AcqRel);
            Vm::timestamp(c)
        });
        let costs = config.model.costs();
        let looked = 10_000_000 + costs.l1_ps;
        let turn = costs.l1_ps + costs.store_ps + pause_ps;
        let reload = transfer(&config, Access::Load, LineState::Modified, FAR, 0);
        let turns = (numbers[1] - looked).div_ceil(turn);
        assert_eq!(
            numbers[0],
            looked + turns * turn + reload,
            "a pause of {pause_ps} ps, written at {written} ns"
        );
        numbers[0] - numbers[1] - reload
    };
    let left: Vec<u64> = [20_000, 20_013, 20_026, 20_039].map(|written| waited(46_667, written)).to_vec();
    assert!(left.iter().any(|left| *left > 20_000) && left.iter().all(|left| *left < 48_500), "{left:?}");
    assert!(waited(3_000, 20_000) < 5_000, "a short pause costs little");
}

/// A loop that spins long yields the processor, and does not read meanwhile.
#[test]
fn who_spins_long_offers_the_processor() {
    let woken = |spins: u64| {
        let config = machine(|costs| (costs.spins, costs.yield_ps) = (spins, 500_000));
        let turn = config.model.costs().l1_ps + config.model.costs().store_ps + config.model.costs().pause_ps;
        let (numbers, _) = run(&config, &[FAR, 0], |c, index, words| {
            if index == 0 {
                Vm::spin_while(c, words.line(0), 0, None);
                return Vm::timestamp(c);
            }
            // Ten turns after the spinner's line has come, and a little.
            Vm::pause(c, (85_000 + 140_000 + 10 * turn + 10_000) / 1000);
            Vm::fetch_add(c, words.line(0), 1, AcqRel);
            Vm::timestamp(c)
        });
        numbers[0] - numbers[1]
    };
    let (at_once, offered) = (woken(1_000), woken(10));
    assert!(at_once < 200_000, "{at_once}");
    assert!((at_once + 200_000..at_once + 500_000).contains(&offered), "{offered}");
}

/// Spinning and pausing take a few issue slots from the sibling; parking takes none.
#[test]
fn a_sibling_that_pauses_takes_a_few_slots() {
    let computed = |parts: u32, sibling: u32, kind: usize| {
        let config = machine(|costs| costs.pauser_parts = parts);
        let (numbers, _) = run(&config, &[0, sibling], |c, index, words| {
            if index > 0 {
                match kind {
                    0 => _ = Vm::spin_while(c, words.line(0), 0, None),
                    1 => Vm::pause(c, 10_000_000),
                    _ => Vm::park(c, words.line(0), 0, None),
                }
                return 0;
            }
            Vm::pause(c, 10_000);
            let begin = Vm::timestamp(c);
            (0..1_000).for_each(|_| Vm::work(c, Work::Transaction, 1));
            let taken = Vm::timestamp(c) - begin;
            Vm::store(c, words.line(0), 1, Release);
            Vm::unpark(c, words.line(0), 1);
            taken
        });
        numbers[0] as f64
    };
    let alone = computed(100, NEAR, 0);
    for kind in [0, 1] {
        let slower = computed(100, SIBLING, kind) / alone;
        assert!((slower - 1024.0 / 924.0).abs() < 0.002, "{slower}");
        assert!((computed(0, SIBLING, kind) / alone - 1.0).abs() < 0.001);
    }
    assert!((computed(100, SIBLING, 2) / alone - 1.0).abs() < 0.001);
}

/// The shortest pause is one turn of a loop that reads the clock; a longer pause takes its
/// requested time.
#[test]
fn no_pause_is_shorter_than_one_turn_of_its_loop() {
    let config = machine(|costs| costs.clock_ps = 10_000);
    let paused = |nanos: u64| {
        run(&config, &[0], |c, _, _| {
            let begin = Vm::timestamp(c);
            Vm::pause(c, nanos);
            Vm::timestamp(c) - begin - 10_000
        })
        .0[0]
    };
    let least = config.model.costs().pause_ps + 20_000;
    assert_eq!([1, 10, 1_000, 100_000].map(paused), [least, least, 1_000_000, 100_000_000]);
}

/// Each sleeper costs the core that wakes it, and the last sleeper runs last.
#[test]
fn each_sleeper_costs_the_one_who_wakes_it() {
    let config = machine(|_| ());
    let costs = config.model.costs().clone();
    for sleepers in [1, 4] {
        let threads: Vec<u32> = (0..=sleepers).collect();
        let (numbers, _) = run(&config, &threads, |c, index, words| {
            if index > 0 {
                Vm::pause(c, 100 * index as u64);
                Vm::park(c, words.line(0), 0, None);
                return Vm::timestamp(c);
            }
            Vm::pause(c, 100_000);
            let begin = Vm::timestamp(c);
            Vm::unpark(c, words.line(0), u32::MAX);
            Vm::timestamp(c) - begin
        });
        assert_eq!(numbers[0], costs.system_call_ps + u64::from(sleepers) * costs.wake_each_ps);
        for (rank, woken) in (1..).zip(&numbers[1..]) {
            let called = 100_000_000 + costs.system_call_ps;
            assert_eq!(*woken, called + rank * costs.wake_each_ps + costs.wake_ps);
        }
    }
}
