//! SMT siblings that touch lines of each other that are under way, and operations of holders of
//! contended lines meanwhile.

use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};

use crate::common::{Words, places, transfer};
use machine::{Access, HardwareThread, LineState};
use platform::{Intent, Node, Platform};
use sim::{Config, Costs, Shape, VirtualCore, VirtualMachine as Vm};

/// Two sockets of eight cores with two hardware threads: `SIBLING` shares the core of thread 0.
/// Reading the clock and pausing take no time of their own.
fn two_threads_a_core() -> Config {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(2, 8, 2)) };
    let costs = Costs { clock_ps: 0, pause_ps: 0, ..config.model.costs().clone() };
    config.with_costs(costs)
}

const SIBLING: u32 = 16;
const NEAR: u32 = 1;
const NEXT: u32 = 2;
const FAR: u32 = 8;

/// Action of a worker on the words. Its result is reported.
type Action = fn(VirtualCore, &Words) -> u64;

/// Runs each action on its hardware thread from this nanosecond on. Returns the picoseconds of
/// each, and its result.
fn timed(config: &Config, actions: &[(u32, u64, Action)]) -> Vec<(u64, u64)> {
    let outcome = Vm::run(config, |c| {
        let words = Words::new(c, 0, 1 << 16, "words");
        let results = Words::new(c, 0, 2 * actions.len(), "results");
        let worker = |c, index: usize| {
            let (_, start, action) = actions[index];
            Vm::pause(c, start);
            let begin = Vm::timestamp(c);
            let value = action(c, &words);
            let taken = Vm::timestamp(c) - begin;
            Vm::poke(&results.all()[2 * index], taken);
            Vm::poke(&results.all()[2 * index + 1], value);
        };
        Vm::parallel(c, &places(actions.iter().map(|action| action.0)), &worker, &mut |_| ());
        results.all()[..2 * actions.len()]
            .chunks(2)
            .map(|pair| (Vm::peek(&pair[0]), Vm::peek(&pair[1])))
            .collect()
    });
    outcome.expect("a run").value
}

fn add(c: VirtualCore, words: &Words) -> u64 {
    Vm::fetch_add(c, words.line(0), 1, AcqRel)
}

fn load(c: VirtualCore, words: &Words) -> u64 {
    Vm::load(c, words.line(0), Relaxed)
}

/// Thread 0 queues for a line behind another core, and a third core queues behind thread 0. The
/// sibling of thread 0 has the line no sooner than thread 0, and has it then, until the third
/// core's request arrives.
#[test]
fn a_queued_line_is_its_requesters_no_sooner_than_it_arrives() {
    let config = two_threads_a_core();
    let costs = config.model.costs().clone();
    let near = transfer(&config, Access::Atomic, LineState::Modified, NEAR, 0);
    for (name, action, own_ps) in
        [("atomic", add as Action, costs.atomic_ps), ("load", load as Action, costs.l1_ps)]
    {
        let own_ps = own_ps * 1706 / 1024;
        let sibling = |start: u64| {
            let queue =
                [(NEAR, 0, add as Action), (0, 10_000, add), (NEXT, 10_001, add), (SIBLING, start, action)];
            let times = timed(&config, &queue);
            assert_eq!((times[1].0, times[2].0), (near, 2 * near - 1_000), "{name}");
            times[3]
        };
        let (waited, value) = sibling(10_005);
        let expected = near - 5_000;
        assert!((expected..=expected + own_ps).contains(&waited), "{name}: {waited} of {expected}");
        assert!((1..=2).contains(&value), "{name} sees {value} additions: the third core waits");
        let (late, _) = sibling(10_050);
        assert!(late <= own_ps, "{name}: {late}: the third core's request has not arrived");
        let (gone, _) = sibling(10_070);
        assert!(gone > near, "{name}: {gone}: it has now");
    }
}

/// A core that holds many contended lines has each of them until its request arrives.
#[test]
fn each_contended_line_has_a_lease_of_its_own() {
    let config = two_threads_a_core();
    let costs = config.model.costs().clone();
    let far = transfer(&config, Access::Atomic, LineState::Modified, FAR, 0);
    // Lines 0, 4, 8, ... are in one slot of four.
    const LINES: usize = 4;
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 1 << 16, "words");
        let worker = |c, index: usize| match index {
            0 => {
                (0..LINES).for_each(|line| _ = Vm::fetch_add(c, words.line(4 * line), 1, AcqRel));
                Vm::pause(c, 20_000 - Vm::now(c).0);
                let begin = Vm::timestamp(c);
                (0..LINES).for_each(|line| _ = Vm::fetch_add(c, words.line(4 * line), 1, AcqRel));
                let taken = Vm::timestamp(c) - begin;
                assert_eq!(taken, LINES as u64 * costs.atomic_ps, "all of them are still here");
                Vm::pause(c, far / 1000);
                let begin = Vm::timestamp(c);
                Vm::load(c, words.line(0), Relaxed);
                assert!(Vm::timestamp(c) - begin > far / 2, "and have left now");
            }
            _ => {
                Vm::pause(c, 19_999);
                Vm::fetch_add(c, words.line(4 * (index - 1)), 1, AcqRel);
            }
        };
        Vm::parallel(c, &places(std::iter::once(0).chain(FAR..FAR + LINES as u32)), &worker, &mut |_| ());
    });
    outcome.expect("a run");
}

/// Readers keep their copies until the first of several writers has the line.
#[test]
fn readers_keep_their_copies_whatever_queues_behind_the_first_writer() {
    let config = two_threads_a_core();
    let read_after_writers_asked = |start: u64| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 64, "words");
            let taken = Words::new(c, 0, 64, "taken");
            let worker = |c, index: usize| {
                if index > 0 {
                    Vm::pause(c, 9_999 + index as u64 - Vm::now(c).0);
                    Vm::fetch_add(c, words.line(0), 1, AcqRel);
                    return;
                }
                Vm::load(c, words.line(0), Relaxed);
                Vm::pause(c, start - Vm::now(c).0);
                let begin = Vm::timestamp(c);
                Vm::load(c, words.line(0), Relaxed);
                Vm::poke(taken.line(0), Vm::timestamp(c) - begin);
            };
            // A second reader makes the line a shared one.
            Vm::parallel(c, &places([NEAR]), &|c, _| _ = Vm::load(c, words.line(0), Relaxed), &mut |_| ());
            Vm::parallel(c, &places([0, FAR, FAR + 1]), &worker, &mut |_| ());
            Vm::peek(taken.line(0))
        });
        outcome.expect("a run").value
    };
    let l1_ps = config.model.costs().l1_ps;
    assert_eq!(read_after_writers_asked(10_050), l1_ps, "the first writer has not got the line");
    let after = read_after_writers_asked(10_300);
    assert!(after > 20 * l1_ps, "{after}: it has now");
}

/// A line that is under way to one sibling is no hit for the other, and causes no second transfer.
#[test]
fn a_miss_of_a_sibling_is_waited_for_and_not_repeated() {
    let config = two_threads_a_core();
    let memory_ps = config.model.memory_ps(HardwareThread(0), Node(0)).expect("a node");
    let l1_ps = config.model.costs().l1_ps * 1706 / 1024;
    let first = |begin: Action, second: Action| {
        let times = timed(&config, &[(0, 1_000, begin), (SIBLING, 1_020, second), (NEAR, 5_000, |_, _| 0)]);
        (times[0].0, times[1].0)
    };
    let prefetch: Action = |c, words| {
        Vm::prefetch(c, words.line(0), 8, Intent::Read);
        0
    };
    let store: Action = |c, words| {
        Vm::store(c, words.line(0), 1, Relaxed);
        0
    };
    let touch: Action = |c, words| {
        Vm::touch(c, words.line(0), 64, Intent::Read);
        0
    };
    for (name, begin) in
        [("load", load as Action), ("prefetch", prefetch), ("store", store), ("touch", touch)]
    {
        let (_, waited) = first(begin, load);
        assert!(waited.abs_diff(memory_ps - 20_000) <= 2 * l1_ps, "{name}: {waited}");
        let (_, waited) = first(begin, touch);
        assert!(waited.abs_diff(memory_ps - 20_000) <= 2 * l1_ps, "{name}: {waited}");
        let arrived = timed(&config, &[(0, 1_000, begin), (SIBLING, 1_200, load)])[1].0;
        assert!(arrived <= l1_ps, "{name}: {arrived}");
    }
    // A copy that other cores have too.
    let shared =
        timed(&config, &[(FAR, 0, load), (FAR + 1, 500, load), (0, 1_000, load), (SIBLING, 1_005, load)]);
    let waited = shared[3].0;
    assert!((shared[2].0 - 5_000..=shared[2].0 - 5_000 + l1_ps).contains(&waited), "{shared:?}");
    // The right to write is requested when the copy is there.
    let shared =
        timed(&config, &[(NEAR, 0, load), (NEXT, 500, load), (0, 1_000, load), (SIBLING, 1_005, add)]);
    let taken = transfer(&config, Access::Atomic, LineState::Shared, 0, NEAR);
    let copy = shared[2].0 - 5_000;
    assert!((copy + taken..copy + taken + 10_000).contains(&shared[3].0), "{shared:?}");
    let statistics = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        let worker = |c, index: usize| {
            Vm::pause(c, 5 * index as u64);
            load(c, &words);
        };
        Vm::parallel(c, &places([0, SIBLING]), &worker, &mut |_| ());
    });
    let statistics = statistics.expect("a run").statistics;
    let counts = statistics.counts;
    assert_eq!((counts.local_memory_misses, counts.merged_misses, counts.l1_hits), (1, 1, 0));
    assert_eq!((counts.events, statistics.memory_bytes), (2, 64));
}

/// A core has twelve misses under way at one time, whatever thread and operation started them.
#[test]
fn siblings_share_the_fill_buffers() {
    let config = two_threads_a_core();
    let memory_ps = config.model.memory_ps(HardwareThread(0), Node(0)).expect("a node");
    let prefetch: fn(VirtualCore, &Words, usize) = |c, words, first| {
        (first..first + 12).for_each(|line| Vm::prefetch(c, words.line(line), 8, Intent::Read));
    };
    let touch: fn(VirtualCore, &Words, usize) =
        |c, words, first| Vm::touch(c, words.line(first), 12 * 64, Intent::Read);
    let stores: fn(VirtualCore, &Words, usize) = |c, words, first| {
        (first..first + 12).for_each(|line| Vm::store(c, words.line(line), 1, Relaxed));
    };
    for (name, occupy) in [("prefetches", prefetch), ("a touch", touch), ("stores", stores)] {
        // Microseconds of a load of the other thread that begins 30 ns later.
        let other = |thread: u32| {
            let outcome = Vm::run(&config, |c| {
                let words = Words::new(c, 0, 1 << 12, "words");
                let taken = Words::new(c, 0, 8, "taken");
                let worker = |c, index: usize| match index {
                    0 => occupy(c, &words, 100),
                    _ => {
                        Vm::pause(c, 30);
                        let begin = Vm::timestamp(c);
                        load(c, &words);
                        Vm::poke(taken.line(0), Vm::timestamp(c) - begin);
                    }
                };
                Vm::parallel(c, &places([0, thread]), &worker, &mut |_| ());
                Vm::peek(taken.line(0))
            });
            outcome.expect("a run").value
        };
        let (alone, sibling) = (other(NEAR), other(SIBLING));
        assert!(alone.abs_diff(memory_ps) < 10_000, "{name}: {alone} on another core");
        // The first of the twelve has been under way for 30 ns.
        assert!(sibling.abs_diff(2 * memory_ps - 30_000) < 10_000, "{name}: {sibling}");
    }
    // 24 lines of one thread and 24 of its sibling take as long as four misses one after the other,
    // on two cores half of that.
    let batch = |threads: [u32; 2]| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 1 << 12, "words");
            let worker = |c, index: usize| touch_lines(c, &words, 100 * index, 24);
            Vm::parallel(c, &places(threads), &worker, &mut |_| ());
        });
        outcome.expect("a run").statistics.elapsed.0 * 1000
    };
    let (two, one) = (batch([0, NEAR]), batch([0, SIBLING]));
    assert!((2 * memory_ps..2 * memory_ps + 40_000).contains(&two), "{two}");
    assert!((4 * memory_ps..4 * memory_ps + 40_000).contains(&one), "{one}");
}

fn touch_lines(c: VirtualCore, words: &Words, first: usize, lines: usize) {
    Vm::touch(c, words.line(first), lines * 64, Intent::Read);
}

/// Buffered stores that miss overlap up to the number of fill buffers, not of store buffers.
#[test]
fn buffered_stores_miss_through_fill_buffers() {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(2, 8, 1)) };
    let config = config.clone().with_costs(Costs { clock_ps: 0, ..config.model.costs().clone() });
    let memory_ps = config.model.memory_ps(HardwareThread(0), Node(0)).expect("a node");
    let drained = |stores: usize| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 1 << 12, "words");
            let worker = |c, _: usize| {
                (0..stores).for_each(|line| Vm::store(c, words.line(line), 1, Relaxed));
                Vm::fence(c, SeqCst);
            };
            Vm::parallel(c, &places([0]), &worker, &mut |_| ());
        });
        outcome.expect("a run").statistics.elapsed.0 * 1000
    };
    for (stores, rounds) in [(12, 1), (24, 2), (36, 3)] {
        let taken = drained(stores);
        let expected = rounds * memory_ps + config.model.costs().atomic_ps;
        assert!((expected..expected + 25_000).contains(&taken), "{stores}: {taken}");
    }
}

/// Each of two hardware threads has half of the store buffer, whether its sibling stores or not.
#[test]
fn siblings_divide_the_store_buffer() {
    let full = |smt: usize, stores: usize| {
        let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(2, 8, smt)) };
        // Few entries, so that fill buffers are not the limit.
        let config = config.clone().with_costs(Costs { store_buffer: 8, ..config.model.costs().clone() });
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 1 << 12, "words");
            let worker = |c, _: usize| {
                (0..stores).for_each(|line| Vm::store(c, words.line(line), 1, Relaxed));
            };
            Vm::parallel(c, &places([0]), &worker, &mut |_| ());
        });
        outcome.expect("a run").statistics.counts.full_store_buffers
    };
    assert_eq!([full(1, 8), full(1, 9)], [0, 1]);
    assert_eq!([full(2, 4), full(2, 5)], [0, 1]);
}

/// A line that one hardware thread has loaded is in the L1 of its sibling.
#[test]
fn siblings_share_the_l1() {
    let config = two_threads_a_core();
    let loads = |other: u32| timed(&config, &[(0, 0, load as Action), (other, 10_000, load)])[1].0;
    assert_eq!(loads(SIBLING), config.model.costs().l1_ps);
    assert!(loads(NEAR) > config.model.costs().l1_ps);
}
