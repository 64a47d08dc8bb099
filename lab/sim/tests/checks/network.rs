//! Machines of a cluster: no memory in common, and a network whose times are bounded from both
//! sides.

// Tests hand ends to workers; no simulated time passes under a lock.
#![allow(clippy::disallowed_types)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use machine::{Description, Fact};
use platform::link::{
    Bell, End, KernelMechanism, Limits, LinkError, Mechanism, Patience, ReceiveError, SendError, Side,
    connect,
};
use platform::{Nanos, Node, Platform, RegionBytes};
use sim::{Config, Cut, FaultCounts, NetworkFaults, PortKind, Statistics, VirtualCore, VirtualMachine};

use crate::common::places;

const TCP: Mechanism = Mechanism::Kernel(KernelMechanism::Tcp);
const LIMITS: Limits = Limits { message_bytes_max: 4088, messages_max: 8 };
/// Hardware threads and nodes of a machine of the cluster.
const THREADS: u32 = 12;
const NODES: u32 = 2;
const ONE_WAY_NANOS: u64 = 25_000;

type Ends = [End<VirtualMachine>; 2];

fn cluster(machines: usize) -> Config {
    let description = Description::shipped("cluster").expect("shipped");
    let config = Config::of_machines(&description, machines).expect("machines");
    Config { memory_bytes: 16 << 20, ..config }
}

fn side(c: VirtualCore, machine: u32) -> Side<VirtualMachine> {
    let node = Some(Node(machine * NODES));
    Side { bell: Arc::new(Bell::new(c, node).expect("memory")), node }
}

fn link(c: VirtualCore, from: u32, to: u32) -> Ends {
    connect(c, TCP, [side(c, from), side(c, to)], LIMITS, None).expect("connected")
}

fn send(c: VirtualCore, end: &mut End<VirtualMachine>, bytes: &[u8]) {
    while let Err(error) = end.sender.send(c, bytes) {
        assert!(matches!(error, SendError::Full), "{error}");
        VirtualMachine::pause(c, 1_000);
    }
}

fn receive(c: VirtualCore, end: &mut End<VirtualMachine>) -> usize {
    let got = end.receiver.receive(c, &mut [0; 4088], Patience::Forever).expect("open");
    got.expect("waited for ever")
}

/// Runs `first` and `second` at the two ends of each link between these machines. Returns the
/// machine's counters.
fn pairs(
    config: &Config,
    links: &[(u32, u32)],
    first: &(dyn Fn(VirtualCore, &mut End<VirtualMachine>) + Sync),
    second: &(dyn Fn(VirtualCore, &mut End<VirtualMachine>, usize) + Sync),
) -> Statistics {
    let outcome = VirtualMachine::run(config, |c| {
        let ends: Vec<Mutex<Option<End<_>>>> = links
            .iter()
            .flat_map(|(from, to)| link(c, *from, *to))
            .map(|end| Mutex::new(Some(end)))
            .collect();
        let mut taken = [0; 8];
        let mut thread = |machine: u32| {
            taken[machine as usize] += 1;
            machine * THREADS + taken[machine as usize] - 1
        };
        let threads: Vec<u32> = links.iter().flat_map(|(from, to)| [*from, *to]).map(&mut thread).collect();
        let worker = |c, index: usize| {
            let mut end = ends[index].lock().expect("no panic").take().expect("taken once");
            if index.is_multiple_of(2) { first(c, &mut end) } else { second(c, &mut end, index / 2) }
        };
        VirtualMachine::parallel(c, &places(threads), &worker, &mut |_| ());
    });
    outcome.expect("it ends").statistics
}

/// Nanoseconds of each of some round trips of small messages between two idle machines.
fn round_trips(config: &Config) -> Vec<u64> {
    let times = Mutex::new(Vec::new());
    let ask = |c, end: &mut End<_>| {
        for _ in 0..5 {
            let start = VirtualMachine::now(c);
            send(c, end, &[7; 64]);
            receive(c, end);
            times.lock().expect("no panic").push(VirtualMachine::now(c).since(start));
            // The other side sleeps again.
            VirtualMachine::pause(c, 20_000);
        }
    };
    let answer = |c, end: &mut End<_>, _| {
        for _ in 0..5 {
            let bytes = receive(c, end);
            send(c, end, &[7; 64][..bytes]);
        }
    };
    pairs(config, &[(0, 1)], &ask, &answer);
    times.into_inner().expect("no panic")
}

#[test]
fn a_small_message_between_idle_machines_takes_the_described_time() {
    for nanos in round_trips(&cluster(2)) {
        // Other work of the two programs is less than 1 %.
        assert!((2 * ONE_WAY_NANOS..2 * ONE_WAY_NANOS + 500).contains(&nanos), "{nanos}");
    }
}

/// Bytes a second that these links carry from their first to their second machines.
fn throughput(links: &[(u32, u32)]) -> f64 {
    const MESSAGES: usize = 200;
    let ended = Mutex::new(Nanos(0));
    let sender = |c, end: &mut End<_>| (0..MESSAGES).for_each(|_| send(c, end, &[1; 4088]));
    let receiver = |c, end: &mut End<_>, _| {
        (0..MESSAGES).for_each(|_| assert_eq!(receive(c, end), 4088));
        let now = VirtualMachine::now(c);
        let mut ended = ended.lock().expect("no panic");
        *ended = now.max(*ended);
    };
    pairs(&cluster(4), links, &sender, &receiver);
    let nanos = ended.into_inner().expect("no panic").0;
    (links.len() * MESSAGES * 4088) as f64 * 1e9 / nanos as f64
}

#[test]
fn a_port_bounds_what_its_machine_sends_and_what_it_gets() {
    // Three packets of a message carry 90 bytes each besides.
    let port = 1.25e9 * 4088.0 / (4088.0 + 3.0 * 90.0);
    let alone = throughput(&[(0, 1)]);
    assert!((0.3 * port..0.95 * port).contains(&alone), "a core that sends is slower than the port: {alone}");
    for shared in [[(0, 1); 4], [(0, 1), (0, 2), (0, 3), (0, 1)], [(1, 0), (2, 0), (3, 0), (1, 0)]] {
        let together = throughput(&shared);
        assert!((0.93 * port..=port).contains(&together), "{shared:?}: {together}");
    }
    let apart = throughput(&[(0, 1), (0, 1), (2, 3), (2, 3)]);
    assert!(apart > 1.3 * port, "two ports: {apart}");
    let both_ways = throughput(&[(0, 1), (0, 1), (1, 0), (1, 0)]);
    assert!(both_ways > 1.3 * port, "a port sends while it receives: {both_ways}");
}

#[test]
fn bursts_queue_at_the_receivers_port() {
    let waited = |links: &[(u32, u32)]| {
        let once = |c, end: &mut End<_>| send(c, end, &[1; 4088]);
        let statistics = pairs(&cluster(4), links, &once, &|c, end, _| _ = receive(c, end));
        let port = |machine, kind| {
            let node = Node(machine * NODES);
            let found = statistics.ports.iter().find(|port| port.kind == kind && port.node == node);
            found.map(|port| (port.bytes, port.waited.0)).expect("a port")
        };
        [port(0, PortKind::NetworkIn), port(1, PortKind::NetworkOut), port(2, PortKind::NetworkIn)]
    };
    let bytes = 4088 + 3 * 90;
    assert_eq!(waited(&[(1, 0)]), [(bytes, 0), (bytes, 0), (0, 0)]);
    // Three messages arrive at one moment: one waits for another, and one for two.
    let [(all, nanos), sent, _] = waited(&[(1, 0), (2, 0), (3, 0)]);
    let passing = bytes * 1000 / 1250;
    assert_eq!((all, sent), (3 * bytes, (bytes, 0)));
    assert!(nanos.abs_diff(3 * passing) <= 3, "{nanos} {passing}");
}

#[test]
fn one_interrupt_brings_all_that_has_arrived() {
    let cost = |pause: u64| {
        let times = Mutex::new(0);
        let sender = |c, end: &mut End<_>| (0..6).for_each(|_| send(c, end, &[1; 64]));
        let receiver = |c, end: &mut End<VirtualMachine>, _| {
            VirtualMachine::pause(c, pause);
            let start = VirtualMachine::now(c);
            (0..6).for_each(|_| assert_eq!(receive(c, end), 64));
            *times.lock().expect("no panic") = VirtualMachine::now(c).since(start);
        };
        pairs(&cluster(2), &[(0, 1)], &sender, &receiver);
        times.into_inner().expect("no panic")
    };
    // An interrupt of 1 us, and 3.34 us for each message that is there.
    let all = cost(200_000);
    assert!((6 * 3_340 + 1_000..6 * 3_340 + 1_600).contains(&all), "{all}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed: u64, faults: NetworkFaults| {
        let config = Config { network: faults, ..cluster(3).with_seed(seed).perturbed() };
        let sender = |c, end: &mut End<_>| (0..20).for_each(|_| send(c, end, &[1; 500]));
        let receiver = |c, end: &mut End<_>, _| (0..20).for_each(|_| _ = receive(c, end));
        pairs(&config, &[(0, 1), (1, 2), (2, 0), (0, 2)], &sender, &receiver)
    };
    let slow = || NetworkFaults { delay_max: Nanos(100_000), ..NetworkFaults::default() };
    for faults in [NetworkFaults::default(), slow()] {
        assert_eq!(run(3, faults.clone()), run(3, faults.clone()));
        assert_ne!(run(3, faults.clone()).elapsed, run(4, faults).elapsed);
    }
    let times = round_trips(&Config { network: slow(), ..cluster(2) });
    assert!(times.iter().all(|nanos| *nanos == times[1] || *nanos > 2 * ONE_WAY_NANOS), "{times:?}");
    assert!(times[1] > 2 * ONE_WAY_NANOS + 1_000, "{times:?}");
}

#[test]
fn slower_links_let_messages_of_other_pairs_overtake_theirs() {
    let first = |seed| {
        let config = cluster(3).with_seed(seed);
        let faults = NetworkFaults { delay_max: Nanos(50_000), ..NetworkFaults::default() };
        let order = Mutex::new(Vec::new());
        let sender = |c, end: &mut End<_>| send(c, end, &[1; 64]);
        let receiver = |c, end: &mut End<_>, link| {
            receive(c, end);
            order.lock().expect("no panic").push(link);
        };
        pairs(&Config { network: faults, ..config }, &[(0, 1), (0, 2)], &sender, &receiver);
        order.into_inner().expect("no panic")
    };
    let orders: Vec<_> = (0..12).map(first).collect();
    assert!(orders.contains(&vec![0, 1]) && orders.contains(&vec![1, 0]), "{orders:?}");
}

#[test]
fn a_cut_link_is_closed_for_both_ends() {
    let at = Nanos(100_000);
    let cut = Cut { machines: [1, 0], at, until: Nanos(u64::MAX) };
    let faults = NetworkFaults { cuts: vec![cut], ..NetworkFaults::default() };
    let config = Config { network: faults, ..cluster(3) };
    let got = Mutex::new(Vec::new());
    let sender = |c, end: &mut End<_>| {
        send(c, end, &[1; 64]);
        VirtualMachine::pause(c, 85_000);
        // It leaves before the cut and would arrive after it.
        send(c, end, &[2; 64]);
        VirtualMachine::pause(c, 20_000);
        let refused = end.sender.send(c, &[3; 64]);
        assert!(VirtualMachine::now(c) > at);
        assert!(refused.is_ok() || matches!(refused, Err(SendError::Closed)));
    };
    let receiver = |c, end: &mut End<VirtualMachine>, link| {
        let mut buffer = [0; 4088];
        loop {
            let patience = Patience::Until(Nanos(300_000));
            match end.receiver.receive(c, &mut buffer, patience) {
                Ok(Some(_)) => got.lock().expect("no panic").push((link, buffer[0], VirtualMachine::now(c))),
                Ok(None) => return assert_eq!(link, 1, "only the other link lives on"),
                Err(ReceiveError::Closed) => {
                    let late = VirtualMachine::now(c).since(at);
                    return assert!(link == 0 && late < 10_000 && VirtualMachine::now(c) >= at, "{late}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    pairs(&config, &[(0, 1), (0, 2)], &sender, &receiver);
    let got = got.into_inner().expect("no panic");
    let of = |link| got.iter().filter(|got| got.0 == link).map(|got| got.1).collect::<Vec<_>>();
    assert_eq!((of(0), of(1)), (vec![1], vec![1, 2, 3]));
}

/// Links that are made while machines are cut off from each other are closed; links that are made
/// later work.
#[test]
fn a_cut_has_an_end() {
    let cut = Cut { machines: [0, 1], at: Nanos(10_000), until: Nanos(50_000) };
    let config =
        Config { network: NetworkFaults { cuts: vec![cut], ..NetworkFaults::default() }, ..cluster(2) };
    let run = |ends: bool| {
        let outcome = VirtualMachine::run(&config, |c| {
            assert_eq!(VirtualMachine::cut(c, 0), None);
            if ends {
                VirtualMachine::cancel_faults(c);
            }
            let links = [0, 20_000, 30_000].map(|pause| {
                VirtualMachine::pause(c, pause);
                link(c, 0, 1)
            });
            assert_eq!(VirtualMachine::cut(c, 0), (!ends).then_some(cut));
            let (links, sent) = (Mutex::new(links), Mutex::new(Vec::new()));
            let sender = |c, _| {
                let mut links = links.lock().expect("no panic");
                let taken = links.iter_mut().map(|[end, _]| end.sender.send(c, &[1; 8]).is_ok());
                *sent.lock().expect("no panic") = taken.collect::<Vec<_>>();
            };
            VirtualMachine::parallel(c, &places([0]), &sender, &mut |_| ());
            sent.into_inner().expect("no panic")
        });
        let outcome = outcome.expect("it ends");
        (outcome.value, outcome.statistics.faults.cuts)
    };
    assert_eq!(run(false), (vec![false, false, true], 1));
    // Cuts that have not happened before the end of all troubles never happen.
    assert_eq!(run(true), (vec![true; 3], 0));
}

/// TCP repairs lost and duplicated messages: each message arrives once and in order, and late if it
/// was lost.
#[test]
fn lost_messages_are_late_and_repeated_ones_come_once() {
    let run = |faults: NetworkFaults| {
        let config = Config { network: faults, ..cluster(2) };
        let got = Mutex::new(Vec::new());
        let sender = |c, end: &mut End<_>| (0..40).for_each(|number| send(c, end, &[number; 64]));
        let receiver = |c, end: &mut End<VirtualMachine>, _| {
            let mut buffer = [0; 4088];
            for _ in 0..40 {
                end.receiver.receive(c, &mut buffer, Patience::Forever).expect("open").expect("a message");
                got.lock().expect("no panic").push(buffer[0]);
            }
        };
        let statistics = pairs(&config, &[(0, 1)], &sender, &receiver);
        assert_eq!(got.into_inner().expect("no panic"), (0..40).collect::<Vec<u8>>());
        (statistics.faults, statistics.elapsed.0)
    };
    let (none, plain) = run(NetworkFaults::default());
    assert_eq!(none, FaultCounts::default());
    let lossy = NetworkFaults { loss_one_in: 8, again_after: Nanos(200_000), ..NetworkFaults::default() };
    let (lossy, late) = run(lossy);
    assert!(lossy.losses > 1 && late > plain + 200_000, "{lossy:?}, {plain} and {late}");
    let (twice, _) = run(NetworkFaults { duplicate_one_in: 4, ..NetworkFaults::default() });
    assert!(twice.duplicates > 2 && twice.losses == 0, "{twice:?}");
}

/// Message of the panic of a run.
fn panic_of(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_core_that_touches_memory_of_another_machine_is_stopped() {
    let touch = |machine: u32| {
        let outcome = VirtualMachine::run(&cluster(2), |c| {
            let region = VirtualMachine::region(c, Some(Node(1)), 256, "a table").expect("memory");
            let worker = |c, _| {
                VirtualMachine::fetch_add(c, VirtualMachine::word_of(&region, 64), 1, Ordering::Relaxed);
            };
            VirtualMachine::parallel(c, &places([machine * THREADS]), &worker, &mut |_| ());
        });
        outcome.expect("it ends");
    };
    touch(0);
    let said = panic_of(|| touch(1));
    assert_eq!(said, "a core of machine 1 touches memory of machine 0: a table, byte 64");
    let said = panic_of(|| {
        let sender = |c, _: &mut End<_>| VirtualMachine::pause(c, 1);
        let swapped = Mutex::new(None);
        let config = cluster(2);
        let outcome = VirtualMachine::run(&config, |c| {
            *swapped.lock().expect("no panic") = Some(link(c, 1, 0));
            let worker = |c, _| {
                let [mut end, _] = swapped.lock().expect("no panic").take().expect("once");
                sender(c, &mut end);
                let _ = end.sender.send(c, &[1; 8]);
            };
            VirtualMachine::parallel(c, &places([0]), &worker, &mut |_| ());
        });
        outcome.expect("it ends");
    });
    assert!(said.contains("machine 0 uses an end of a link that belongs to machine 1"), "{said}");
}

#[test]
fn what_belongs_to_no_machine_costs_nothing_extra_on_any() {
    let times = Mutex::new(Vec::new());
    let outcome = VirtualMachine::run(&cluster(3), |c| {
        let region = VirtualMachine::control_region(c, 256, "control").expect("memory");
        assert!(region.bytes() >= 256);
        VirtualMachine::work_for(c, Some(Node(2 * NODES)));
        let own = VirtualMachine::region(c, None, 8, "of machine 2").expect("memory");
        assert_eq!(own.node(), Node(2 * NODES));
        let worker = |c, index| {
            let word = VirtualMachine::word_of(&region, 0);
            let start = VirtualMachine::now(c);
            (0..100).for_each(|_| _ = VirtualMachine::fetch_add(c, word, 1, Ordering::Relaxed));
            times.lock().expect("no panic").push(VirtualMachine::now(c).since(start));
            // Waiting for each other works.
            while VirtualMachine::spin_while(
                c,
                word,
                200 + index as u64,
                Some(VirtualMachine::now(c).plus(10)),
            ) < 300
            {}
        };
        VirtualMachine::parallel(c, &places([0, THREADS, 2 * THREADS]), &worker, &mut |_| ());
        VirtualMachine::load(c, VirtualMachine::word_of(&region, 0), Ordering::Relaxed)
    });
    assert_eq!(outcome.expect("it ends").value, 300);
    let times = times.into_inner().expect("no panic");
    // An atomic on an own line takes 6.8 ns.
    assert!(times.iter().all(|nanos| (600..800).contains(nanos)), "{times:?}");
}

#[test]
fn what_no_cluster_can_be_is_refused() {
    let refused = |change: &dyn Fn(&mut Description), machines| {
        let mut description = Description::shipped("cluster").expect("shipped");
        change(&mut description);
        Config::of_machines(&description, machines).expect_err("refused").to_string()
    };
    let text = refused(&|_| (), 9);
    assert_eq!(text, "not a machine: cluster: 9 machines of 8");
    let text = refused(&|description| description.network = None, 2);
    assert!(text.contains("`network_one_way_us` is missing"), "{text}");
    let quick = |description: &mut Description| {
        let network = description.network.as_mut().expect("a cluster");
        network.one_way_us = Fact { value: 5.0, ..network.one_way_us.clone() };
    };
    let text = refused(&quick, 2);
    assert!(text.contains("`network_one_way_us` is 5: cores and ports alone take 11."), "{text}");
    let many = |description: &mut Description| description.machines = 40;
    assert!(refused(&many, 40).contains("40 machines of 2 L3s: at most 32"));
    let outcome = VirtualMachine::run(&cluster(2), |c| {
        let unix = Mechanism::Kernel(KernelMechanism::Unix);
        connect(c, unix, [side(c, 0), side(c, 1)], LIMITS, None).err().map(|error| error.to_string())
    });
    let refusal = outcome.expect("it ends").value.expect("refused");
    assert_eq!(refusal, "uds does not connect two machines: tcp does");
    let error = LinkError::Machines(Mechanism::SharedMemory).to_string();
    assert!(error.starts_with("shm "), "{error}");
}
