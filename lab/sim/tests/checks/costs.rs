//! Rules of the cost model: distances, overlap, queueing, capacity.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use crate::common::{Words, places, small, workers};
use machine::{Access, Description, HardwareThread, LineState};
use platform::{Intent, Node, Platform, Work};
use sim::{Config, Shape, VirtualCore, VirtualMachine as Vm};

/// Picoseconds that an action takes.
fn time(c: VirtualCore, config: &Config, action: impl FnOnce()) -> u64 {
    let start = Vm::timestamp(c);
    action();
    Vm::timestamp(c) - start - config.model.costs().clock_ps
}

fn octo_socket() -> Config {
    let description = Description::shipped("octo-socket").expect("shipped");
    let config = Config::of(&description).expect("a machine");
    // Only caches and memory are judged here.
    Config { model: config.model.clone().with_free_translation(), memory_bytes: 1 << 30, ..config }
}

/// Picoseconds of this many cycles of octo-socket.
fn cycles(count: u64) -> u64 {
    (count as f64 * 1000.0 / 2.13).round() as u64
}

/// Runs one program on hardware thread `0` of a machine.
fn alone(config: &Config, program: impl Fn(VirtualCore, &Words) + Sync) {
    let outcome = Vm::run(config, |c| {
        let words = Words::new(c, 0, 1 << 20, "words");
        workers(c, 1, |c, _| program(c, &words));
    });
    outcome.expect("a run");
}

/// Action of one hardware thread.
type Action = fn(VirtualCore, &Words);

/// Runs the actions one after the other, each on its hardware thread. Returns the picoseconds of
/// each.
fn in_turn(config: &Config, actions: &[(u32, Action)]) -> Vec<u64> {
    let outcome = Vm::run(config, |c| {
        let words = Words::new(c, 0, 1 << 20, "words");
        let times = Words::new(c, 0, actions.len(), "times");
        for (index, (thread, action)) in actions.iter().enumerate() {
            let worker = |c, _| Vm::poke(&times.all()[index], time(c, config, || action(c, &words)));
            Vm::parallel(c, &places([*thread]), &worker, &mut |_| ());
        }
        (0..actions.len()).map(|index| Vm::peek(&times.all()[index])).collect()
    });
    outcome.expect("a run").value
}

fn load(c: VirtualCore, words: &Words) {
    Vm::load(c, words.line(0), Relaxed);
}

fn add(c: VirtualCore, words: &Words) {
    Vm::fetch_add(c, words.line(0), 1, AcqRel);
}

/// Sockets of octo-socket at each distance from the first: one hop to socket 1, two to socket 3.
const NEAR: u32 = 1;
const ONE_HOP: u32 = 10;
const TWO_HOPS: u32 = 30;

#[test]
fn a_line_costs_what_the_description_says() {
    let config = octo_socket();
    for (holder, loaded, atomic) in [(NEAR, 109, 120), (ONE_HOP, 289, 324), (TWO_HOPS, 400, 430)] {
        let times = in_turn(&config, &[(holder, add), (0, load), (0, load)]);
        assert_eq!(times[1..], [cycles(loaded), cycles(5)], "modified by {holder}");
        let times = in_turn(&config, &[(holder, add), (0, add), (0, add)]);
        assert_eq!(times[1..], [cycles(atomic), cycles(19)], "modified by {holder}");
    }
    for (holder, loaded) in [(NEAR, 92), (ONE_HOP, 273)] {
        let times = in_turn(&config, &[(holder, load), (0, load)]);
        assert_eq!(times[1], cycles(loaded), "exclusive in {holder}");
    }
    for (reader, writer, cost) in [(NEAR, 2, 113), (ONE_HOP, 0, 312), (TWO_HOPS, 0, 423)] {
        let times = in_turn(&config, &[(0, add), (reader, load), (writer, load), (writer, add)]);
        assert_eq!(times[3], cycles(cost), "shared by {reader}");
    }
}

#[test]
fn memory_costs_by_its_distance() {
    let config = octo_socket();
    for (thread, cost) in [(0, 355), (ONE_HOP, 492), (TWO_HOPS, 601)] {
        assert_eq!(in_turn(&config, &[(thread, load)]), [cycles(cost)]);
    }
}

#[test]
fn l3_hits_cost_less_than_transfers() {
    let config = octo_socket();
    // The second reader leaves the line clean in the L3.
    let times = in_turn(&config, &[(1, load), (2, load), (0, load)]);
    assert_eq!(times[2], cycles(44));
}

#[test]
fn capacity_misses_cost_the_next_level() {
    let config = octo_socket();
    let pass = |c, words: &Words, lines: usize| {
        time(c, &config, || (0..lines).for_each(|line| _ = Vm::load(c, words.line(line), Relaxed)))
    };
    alone(&config, |c, words| {
        let (l1, l2) = (512, 4096);
        let mean = |lines: usize| {
            pass(c, words, lines);
            pass(c, words, lines) / lines as u64
        };
        assert_eq!(mean(l1), cycles(5));
        assert_eq!(mean(4 * l1), cycles(11));
        assert_eq!(mean(4 * l2), cycles(44));
    });
    // A working set four times as large as a small L3 comes from memory.
    let caches = sim::CacheSizes { l3_bytes: 1 << 20, ..config.model.caches() };
    let config = Config { model: config.model.clone().with_caches(caches), ..octo_socket() };
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 1 << 20, "words");
        workers(c, 1, |c, _| {
            for round in 0..2 {
                let start = Vm::timestamp(c);
                (0..1 << 16).for_each(|line| _ = Vm::load(c, words.line(line), Relaxed));
                let mean = (Vm::timestamp(c) - start) >> 16;
                assert!(mean > cycles(350) && mean < cycles(356), "round {round}: {mean}");
            }
        });
    });
    assert_eq!(outcome.expect("a run").statistics.counts.local_memory_misses, 2 << 16);
}

#[test]
fn changed_lines_go_back_to_memory() {
    let config = octo_socket();
    let caches = sim::CacheSizes { l3_bytes: 1 << 20, ..config.model.caches() };
    let config = Config { model: config.model.clone().with_caches(caches), ..octo_socket() };
    let written_back = |write: bool| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 1, 1 << 20, "words");
            workers(c, 1, |c, _| {
                for line in 0..1 << 16 {
                    match write {
                        true => Vm::store(c, words.line(line), 1, Relaxed),
                        false => _ = Vm::load(c, words.line(line), Relaxed),
                    }
                }
            });
        });
        let statistics = outcome.expect("a run").statistics;
        assert_eq!(statistics.memory_bytes, 64 * ((1 << 16) + statistics.counts.write_backs));
        assert_eq!(statistics.interconnect_bytes, statistics.memory_bytes, "all of it is remote");
        statistics.counts.write_backs
    };
    assert_eq!(written_back(false), 0);
    let count = written_back(true);
    assert!((45_000..1 << 16).contains(&count), "{count}");
}

#[test]
fn readers_share_and_a_writer_invalidates_all() {
    let config = octo_socket();
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        let worker = |c, index: usize| {
            let load = || time(c, &config, || _ = Vm::load(c, words.line(0), Acquire));
            Vm::pause(c, 1_000 * index as u64);
            load();
            assert_eq!(load(), cycles(5));
            Vm::pause(c, 100_000);
            if index == 0 {
                let taken = time(c, &config, || _ = Vm::fetch_add(c, words.line(0), 1, Release));
                assert_eq!(taken, cycles(312));
            }
            Vm::pause(c, 100_000);
            match index {
                0 => assert_eq!(load(), cycles(5)),
                1 => assert_eq!(load(), cycles(109)),
                _ => assert!(load() >= cycles(44)),
            }
        };
        Vm::parallel(c, &places([0, 1, 2, ONE_HOP, ONE_HOP + 1]), &worker, &mut |_| ());
    });
    outcome.expect("a run");
}

#[test]
fn stores_do_not_wait_and_atomics_wait_for_them() {
    let config = octo_socket();
    alone(&config, |c, words| {
        let costs = config.model.costs();
        Vm::store(c, words.line(1), 1, Relaxed);
        Vm::pause(c, 1000);
        let store = time(c, &config, || Vm::store(c, words.line(0), 1, Relaxed));
        assert_eq!(store, costs.store_ps);
        // The line is under way; an atomic elsewhere waits for it.
        let atomic = time(c, &config, || _ = Vm::fetch_add(c, words.line(1), 1, AcqRel));
        let since = costs.store_ps + 2 * costs.clock_ps;
        assert_eq!(atomic, cycles(355) + costs.atomic_ps - since);
        for fence in [true, false] {
            Vm::store(c, words.line(2 + usize::from(fence)), 1, Relaxed);
            let waited = time(c, &config, || match fence {
                true => Vm::fence(c, SeqCst),
                false => Vm::store(c, words.line(1), 2, SeqCst),
            });
            assert!(waited > cycles(200), "{waited}");
        }
        Vm::store(c, words.line(5), 1, Relaxed);
        assert_eq!(time(c, &config, || Vm::fence(c, Release)), 0);
        // A load of the same line waits for its arrival.
        let load = time(c, &config, || _ = Vm::load(c, words.line(5), Relaxed));
        assert!(load > cycles(200), "{load}");
    });
}

#[test]
fn a_full_store_buffer_waits() {
    let config = octo_socket();
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 1 << 20, "words");
        workers(c, 1, |c, _| {
            let costs = config.model.costs();
            let buffer = costs.store_buffer;
            let store = |line| time(c, &config, || Vm::store(c, words.line(line), 1, Relaxed));
            // One after the other with the clock read between them: none may have arrived.
            let taken =
                time(c, &config, || (0..buffer).for_each(|line| Vm::store(c, words.line(line), 1, Relaxed)));
            assert_eq!(taken, buffer as u64 * costs.store_ps);
            assert!(store(buffer) > cycles(200));
        });
    });
    assert_eq!(outcome.expect("a run").statistics.counts.full_store_buffers, 1);
}

#[test]
fn lines_of_one_touch_overlap() {
    let config = small();
    let memory_ps = config.model.memory_ps(HardwareThread(0), Node(0)).expect("a node");
    alone(&config, |c, words| {
        let costs = config.model.costs();
        let touch = time(c, &config, || Vm::touch(c, words.line(0), 8 * 64, Intent::Read));
        assert_eq!(touch, memory_ps + 7 * costs.issue_ps);
        let mut copy = [0; 64];
        let read = time(c, &config, || Vm::read_words(c, &words.all()[1024..1088], &mut copy));
        assert_eq!(read, touch);
        let beyond = time(c, &config, || Vm::touch(c, words.line(512), 24 * 64, Intent::Read));
        assert_eq!(beyond, 2 * memory_ps + 11 * costs.issue_ps, "twelve at a time");
        let serial =
            time(c, &config, || (64..80).for_each(|line| _ = Vm::load(c, words.line(line), Relaxed)));
        assert_eq!(serial, 16 * memory_ps);
    });
}

#[test]
fn prefetch_overlaps_with_work() {
    let config = octo_socket();
    alone(&config, |c, words| {
        let costs = config.model.costs();
        let start = Vm::timestamp(c);
        Vm::prefetch(c, words.line(0), 128, Intent::Read);
        let issue = Vm::timestamp(c) - start - costs.clock_ps;
        assert_eq!(issue, 2 * costs.issue_ps);
        Vm::work(c, Work::Hash, 10);
        // The load waits for the remainder only.
        Vm::load(c, words.line(0), Relaxed);
        assert_eq!(Vm::timestamp(c) - start, cycles(355) + costs.clock_ps);
        Vm::pause(c, 1000);
        assert_eq!(time(c, &config, || _ = Vm::load(c, words.line(1), Relaxed)), cycles(5));
        // Any address may be prefetched.
        Vm::prefetch(c, std::ptr::without_provenance::<u8>(usize::MAX - 5), 100, Intent::Write);
        Vm::prefetch(c, words.line(0), usize::MAX >> 40, Intent::Read);
    });
}

#[test]
fn a_core_has_few_misses_under_way() {
    let config = octo_socket();
    alone(&config, |c, words| {
        let costs = config.model.costs();
        let buffers = costs.fill_buffers;
        let within = time(c, &config, || Vm::prefetch(c, words.line(0), buffers * 64, Intent::Read));
        assert_eq!(within, buffers as u64 * costs.issue_ps);
        let beyond = time(c, &config, || Vm::prefetch(c, words.line(100), 64, Intent::Read));
        assert!(beyond > cycles(250), "{beyond}");
    });
}

#[test]
fn a_contended_line_is_a_queue() {
    let config = octo_socket();
    let elapsed = |lines: usize| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 64, "words");
            workers(c, 8, |c, index| {
                for _ in 0..100 {
                    Vm::fetch_add(c, words.line(index % lines), 1, AcqRel);
                    Vm::work(c, Work::Transaction, 1);
                }
            });
        });
        outcome.expect("a run").statistics.elapsed.0
    };
    let (shared, own) = (elapsed(1), elapsed(8));
    assert!(shared * 1000 >= 700 * cycles(120), "{shared} ns for 800 increments of one line");
    assert!(shared > 3 * own, "{shared} ns on one line, {own} ns on eight");
}

/// Three cores request a line of a fourth core: they are served in the order of their requests,
/// each by a transfer after the one before.
#[test]
fn requests_are_served_in_the_order_in_which_they_are_made() {
    let config = octo_socket();
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        let ends = Words::new(c, 0, 64, "ends");
        let threads = [0, ONE_HOP, TWO_HOPS, NEAR];
        let worker = |c, index: usize| {
            Vm::pause(c, [0, 1_000, 1_001, 1_002][index]);
            let turn = Vm::fetch_add(c, words.line(0), 1, AcqRel);
            assert_eq!(turn, index as u64);
            Vm::poke(&ends.all()[index], Vm::timestamp(c) - config.model.costs().clock_ps);
        };
        Vm::parallel(c, &places(threads), &worker, &mut |_| ());
        ends.all()[1..4].iter().map(Vm::peek).collect::<Vec<u64>>()
    });
    let ends = outcome.expect("a run").value;
    let between = |from: u32, to: u32| {
        let thread = HardwareThread;
        let model = &config.model;
        model.transfer_ps(Access::Atomic, LineState::Modified, thread(from), thread(to)).expect("threads")
    };
    assert_eq!(ends[0], 1_000_000 + between(ONE_HOP, 0));
    assert_eq!(ends[1], ends[0] + between(TWO_HOPS, ONE_HOP));
    assert_eq!(ends[2], ends[1] + between(NEAR, TWO_HOPS));
}

/// The holder of a line still uses it for half of the transfer to the next holder.
#[test]
fn a_holder_may_win_again_until_the_request_reaches_it() {
    let config = octo_socket();
    let wins = |other: u32| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 64, "words");
            let worker = |c, index: usize| {
                if index == 1 {
                    Vm::pause(c, 1_000);
                    return Vm::fetch_add(c, words.line(0), 0, AcqRel);
                }
                // The other core sends its request at the thousandth nanosecond.
                Vm::fetch_add(c, words.line(0), 1, AcqRel);
                while Vm::timestamp(c) < 1_000_000 {}
                (0..1_000).fold(0, |_, _| Vm::fetch_add(c, words.line(0), 1, AcqRel))
            };
            let found = Words::new(c, 0, 8, "found");
            let report = |c, index| {
                let value = worker(c, index);
                if index == 1 {
                    Vm::poke(found.line(0), value);
                }
            };
            Vm::parallel(c, &places([0, other]), &report, &mut |_| ());
            Vm::peek(found.line(0))
        });
        outcome.expect("a run").value
    };
    let (near, far) = (wins(NEAR), wins(TWO_HOPS));
    let expected = |transfer: u64| cycles(transfer) / 2 / cycles(19);
    assert!(near.abs_diff(expected(120)) <= 2, "{near}");
    assert!(far.abs_diff(expected(430)) <= 2, "{far}");
    assert!(far > near, "nearer requesters give shorter windows");
}

/// While a writer waits for its line, readers keep their copies.
#[test]
fn readers_keep_their_copies_until_the_writer_has_the_line() {
    let config = octo_socket();
    let outcome = Vm::run(&config, |c| {
        let words = Words::new(c, 0, 64, "words");
        let worker = |c, index: usize| {
            Vm::load(c, words.line(0), Relaxed);
            while Vm::timestamp(c) < 10_000_000 {}
            if index == 1 {
                Vm::fetch_add(c, words.line(0), 1, AcqRel);
                return;
            }
            Vm::pause(c, 30);
            let load = || time(c, &config, || assert!(Vm::load(c, words.line(0), Relaxed) < 2));
            assert_eq!(load(), cycles(5), "the writer has asked and does not have it");
            Vm::pause(c, 1_000);
            assert!(load() > cycles(100));
        };
        Vm::parallel(c, &places([0, TWO_HOPS]), &worker, &mut |_| ());
    });
    assert_eq!(outcome.expect("a run").statistics.counts.late_hits, 1);
}

#[test]
fn memory_and_links_have_a_bandwidth() {
    let config = octo_socket();
    let gigabytes_per_second = |cores: std::ops::Range<u32>, node: u32| {
        const BYTES: usize = 1 << 20;
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, node, cores.len() * BYTES / 8, "words");
            let worker = |c, index: usize| {
                for chunk in 0..BYTES / 512 {
                    let at = &raw const words.all()[(index * BYTES + chunk * 512) / 8];
                    Vm::touch(c, at, 512, Intent::Read);
                }
            };
            Vm::parallel(c, &places(cores.clone()), &worker, &mut |_| ());
        });
        let statistics = outcome.expect("a run").statistics;
        assert_eq!(statistics.memory_bytes, (cores.len() * BYTES) as u64);
        let busiest = &statistics.ports[0];
        assert!(busiest.busy.0 * 100 > statistics.elapsed.0 * 80, "{busiest:?}");
        statistics.memory_bytes as f64 / statistics.elapsed.0 as f64
    };
    let description = Description::shipped("octo-socket").expect("shipped");
    let matrix = &description.memory_gbps.values;
    let local = gigabytes_per_second(0..10, 0);
    assert!((local / matrix[0][0] - 1.0).abs() < 0.05, "{local} GB/s of local memory");
    let remote = gigabytes_per_second(10..20, 0);
    assert!((remote / matrix[1][0] - 1.0).abs() < 0.05, "{remote} GB/s of a neighbour's memory");
}

#[test]
fn siblings_share_the_issue_slots() {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 2)) };
    // Threads 0 and 2 are siblings.
    let elapsed = |threads: &[u32], spins: bool| {
        let outcome = Vm::run(&config, |c| {
            let words = Words::new(c, 0, 64, "words");
            let worker = |c, index: usize| {
                if index > 0 && spins {
                    Vm::spin_while(c, words.line(0), 0, None);
                    return;
                }
                Vm::pause(c, 1_000);
                (0..1_000).for_each(|_| Vm::work(c, Work::Transaction, 1));
                Vm::store(c, words.line(0), 1, Release);
            };
            Vm::parallel(c, &places(threads.iter().copied()), &worker, &mut |_| ());
        });
        outcome.expect("a run").statistics.elapsed.0 as f64 - 1_000.0
    };
    let one = elapsed(&[0], false);
    assert!((elapsed(&[0, 1], false) / one - 1.0).abs() < 0.02, "cores of their own");
    assert!((elapsed(&[0, 2], false) / one - 1.0 / 0.6).abs() < 0.02, "two siblings have 0.6 of a core each");
    assert!((elapsed(&[0, 2], true) / one - 1.0).abs() < 0.02, "who spins leaves the core to the other");
}

#[test]
fn false_sharing_costs_like_sharing() {
    let elapsed = |stride: usize| {
        let outcome = Vm::run(&small(), |c| {
            let words = Words::new(c, 0, 64, "words");
            workers(c, 8, |c, index| {
                for _ in 0..100 {
                    Vm::fetch_add(c, &words.all()[index * stride], 1, Relaxed);
                    Vm::work(c, Work::Hash, 20);
                }
            });
        });
        outcome.expect("a run").statistics.elapsed.0
    };
    assert!(elapsed(1) > 3 * elapsed(8));
}

#[test]
fn hot_lines_are_named() {
    let outcome = Vm::run(&small(), |c| {
        let quiet = Words::new(c, 0, 64, "quiet");
        let hot = Words::new(c, 1, 64, "hot");
        workers(c, 8, |c, index| {
            for _ in 0..100 {
                Vm::fetch_add(c, hot.line(3), 1, AcqRel);
                Vm::fetch_add(c, quiet.line(index % 8), 1, AcqRel);
            }
        });
        let statistics = Vm::statistics(c);
        Vm::count_from_here(c);
        (statistics, Vm::statistics(c), hot, quiet)
    });
    let (statistics, reset, ..) = outcome.expect("a run").value;
    let lines: Vec<_> =
        statistics.hot_lines.iter().map(|line| (line.region, line.offset, line.node.0)).collect();
    assert_eq!(lines, [(Some("hot"), 192, 1)]);
    assert!(statistics.hot_lines[0].misses > 50);
    assert!(reset.hot_lines.is_empty() && reset.counts == sim::Counts::default());
    assert_eq!((reset.memory_bytes, reset.counted.0), (0, 0));
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
    assert_eq!((outcome.value, outcome.statistics.counts.events), (0, 0));
    assert!(outcome.statistics.counts.supervisor_events >= 1 << 13);
    let config = small();
    alone(&config, |c, _| {
        let private = vec![0u64; 1000];
        let taken = time(c, &config, || Vm::touch(c, private.as_ptr(), 8000, Intent::Write));
        assert_eq!(taken, config.model.costs().l1_ps);
    });
}

#[test]
fn bad_machines_are_refused() {
    let refused = |config: Config| match Vm::run(&config, |_| ()) {
        Err(sim::SimError::Config(reason)) => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Config::new(Shape::new(0, 1, 1))), "0 sockets; a machine has 1 to 64");
    assert_eq!(refused(Config::new(Shape::new(1, 0, 1))), "0 cores of 1 threads a socket; each at least 1");
    refused(Config::new(Shape::new(64, usize::MAX / 64, 2)));
    refused(Config { stack_bytes: 100, ..small() });
    refused(Config { memory_bytes: 1 << 50, ..small() });
    let costs = sim::Costs { fill_buffers: 17, ..small().model.costs().clone() };
    refused(small().with_costs(costs));
}
