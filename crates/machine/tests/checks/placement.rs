//! Islands and placements on described machines and on random ones.

use std::collections::BTreeSet;

use machine::{
    Description, Granularity, HardwareThread, Peers, PlaceError, Placement, Topology, WorkerRequest, islands,
    place, place_peers, place_workers,
};
use proptest::prelude::*;

fn described(sockets: usize, cores: usize, smt: usize) -> Topology {
    let text = format!(
        "sockets = {sockets}\ncores_per_socket = {cores}\nsmt = {smt}\nclock_ghz = 2.0\nmemory_gib = 64\n\
         l1d = 32\nl2 = 256\nl3_shared = 8192\nload_to_use_cycles = {{ l1 = 4, l2 = 12, l3 = 40 }}\n\
         memory_ns = {{ local = 80, one_hop = 130 }}\n"
    );
    Description::from_toml(&text).expect("a description").topology
}

fn shipped(name: &str) -> Topology {
    Description::shipped(name).expect("shipped").topology
}

fn sockets(topology: &Topology, instance: &[HardwareThread]) -> BTreeSet<u32> {
    instance.iter().map(|&thread| topology.socket_of(thread).expect("known")).collect()
}

fn spans(topology: &Topology, instances: usize, placement: Placement) -> Vec<usize> {
    let placed = place(topology, &topology.hardware_threads(), instances, placement).expect("placement");
    placed.iter().map(|instance| sockets(topology, instance).len()).collect()
}

#[test]
fn islands_span_no_more_sockets_than_they_must() {
    let quad = shipped("quad-socket");
    assert_eq!(spans(&quad, 8, Placement::Island), [1; 8]);
    assert_eq!(spans(&quad, 4, Placement::Island), [1; 4]);
    assert_eq!(spans(&quad, 3, Placement::Island), [2; 3]);
    assert_eq!(spans(&quad, 2, Placement::Island), [2; 2]);
    assert_eq!(spans(&quad, 1, Placement::Island), [4]);
    // 24 = 4 + 4 + 4 + 3 + 3 + 3 + 3: two sockets take two of three, two sockets share three of
    // four.
    assert_eq!(spans(&quad, 7, Placement::Island).iter().sum::<usize>(), 8);
}

#[test]
fn spreading_uses_as_many_sockets_as_possible() {
    let quad = shipped("quad-socket");
    assert_eq!(spans(&quad, 8, Placement::Spread), [3; 8]);
    assert_eq!(spans(&quad, 4, Placement::Spread), [4; 4]);
    assert_eq!(spans(&quad, 24, Placement::Spread), [1; 24]);
    let superdome = shipped("superdome-flex");
    let placed = place(&superdome, &superdome.hardware_threads(), 28, Placement::Spread).expect("placement");
    for instance in placed {
        assert_eq!(sockets(&superdome, &instance).len(), 28);
        let cores: BTreeSet<u32> =
            instance.iter().map(|&thread| superdome.thread(thread).expect("known").core).collect();
        assert_eq!(cores.len(), 28, "both siblings of a core belong to one instance");
    }
}

#[test]
fn instances_of_several_sockets_take_close_ones() {
    let octo = Description::shipped("octo-socket").expect("shipped");
    for instances in [4, 2] {
        let all = octo.topology.hardware_threads();
        let placed = place(&octo.topology, &all, instances, Placement::Island).expect("placement");
        for instance in placed {
            let used = sockets(&octo.topology, &instance);
            assert_eq!(used.len(), 8 / instances);
            let linked = |&one: &u32| used.iter().any(|&other| octo.hops[one as usize][other as usize] == 1);
            assert!(used.iter().all(linked), "{used:?}");
        }
    }
    let superdome = shipped("superdome-flex");
    for instance in place(&superdome, &superdome.hardware_threads(), 7, Placement::Island).expect("placement")
    {
        let chassis: BTreeSet<u32> = sockets(&superdome, &instance).iter().map(|socket| socket / 4).collect();
        assert_eq!(chassis.len(), 1);
    }
}

#[test]
fn small_instances_stay_behind_one_l3() {
    let rack = shipped("rack-2026");
    for instances in [32, 64] {
        let placed = place(&rack, &rack.hardware_threads(), instances, Placement::Island).expect("placement");
        for instance in placed {
            let domains: BTreeSet<u32> =
                instance.iter().map(|&thread| rack.thread(thread).expect("known").l3_domain).collect();
            assert_eq!(domains.len(), 1);
        }
    }
}

#[test]
fn islands_have_every_granularity() {
    let rack = shipped("rack-2026");
    let count = |granularity: &str| islands(&rack, granularity.parse().expect("granularity")).len();
    assert_eq!(
        ["core", "l2", "l3", "node", "socket", "machine", "6isl"].map(count),
        [256, 256, 32, 2, 2, 1, 6]
    );
    for text in ["", "isl", "0isl", "-1isl", "+3isl", "cores", "4"] {
        let error = text.parse::<Granularity>().expect_err("no granularity");
        assert!(error.to_string().contains("core, l2, l3, node, socket, machine"), "{error}");
    }
    for granularity in Granularity::HARDWARE {
        assert_eq!(granularity.to_string().parse(), Ok(granularity));
    }
}

#[test]
fn instances_lie_within_one_machine() {
    let cluster = Description::shipped("cluster").expect("shipped").whole();
    let request = |workers, instances, placement| {
        place_workers(&cluster, &WorkerRequest { workers, smt: 1, instances, placement, machines: None })
    };
    let machines = |instance: &Vec<HardwareThread>| -> BTreeSet<u32> {
        instance.iter().map(|&thread| cluster.machine_of(thread).expect("known")).collect()
    };
    for (workers, instances) in [(48, 4), (48, 48), (48, 8), (30, 5), (20, 5), (96, 16), (13, 13), (12, 1)] {
        for placement in [Placement::Island, Placement::Spread] {
            let placed = request(workers, instances, placement).expect("placed");
            assert_eq!(placed.len(), instances);
            assert!(placed.iter().all(|instance| machines(instance).len() == 1), "{placed:?}");
            let used: BTreeSet<u32> = placed.iter().flat_map(machines).collect();
            assert_eq!(used, (0..workers.div_ceil(12) as u32).collect(), "machines are filled one by one");
        }
    }
    let halves = request(24, 4, Placement::Spread).expect("placed");
    assert!(halves.iter().all(|instance| sockets(&cluster, instance).len() == 2), "{halves:?}");
    for (workers, instances) in [(48, 1), (48, 3), (48, 5), (13, 1)] {
        let refused = request(workers, instances, Placement::Island).expect_err("spans machines");
        assert!(matches!(refused, PlaceError::SpansMachines { .. }), "{refused}");
    }
    let unbound = request(24, 4, Placement::Os).expect("placed");
    let instances: Vec<_> = unbound.iter().map(machines).collect();
    assert_eq!(instances, [0, 0, 1, 1].map(|machine| BTreeSet::from([machine])));
    assert!(request(12, 2, Placement::Os).is_ok());
    assert!(request(97, 97, Placement::Island).is_err());
    let count = |granularity: &str| islands(&cluster, granularity.parse().expect("granularity")).len();
    assert_eq!(["core", "socket", "node", "machine", "6isl", "9isl"].map(count), [96, 16, 16, 8, 8, 16]);
    let [first, second] = place_peers(&cluster, Peers::OtherMachine).expect("two machines");
    assert_ne!(cluster.machine_of(first), cluster.machine_of(second));
    assert!(place_peers(&shipped("cluster"), Peers::OtherMachine).is_err(), "that is one of them");
}

#[test]
fn impossible_placements_are_refused() {
    let quad = shipped("quad-socket");
    let all = quad.hardware_threads();
    let refuse = |threads: &[HardwareThread], instances| {
        place(&quad, threads, instances, Placement::Island).expect_err("refused")
    };
    assert_eq!(refuse(&all, 0), PlaceError::NoInstances);
    assert_eq!(refuse(&all, 25), PlaceError::TooManyInstances { instances: 25, threads: 24 });
    assert_eq!(refuse(&[HardwareThread(99)], 1), PlaceError::UnknownThread(HardwareThread(99)));
    assert_eq!(refuse(&[all[0], all[0]], 1), PlaceError::Repeated(all[0]));
    assert!("near".parse::<Placement>().is_err());
}

/// Smallest possible total of sockets spanned: tries every division of the sockets into groups.
fn least_total_span(capacities: &[usize], instances: usize) -> usize {
    let total: usize = capacities.iter().sum();
    let small = total / instances;
    let all = (1_usize << capacities.len()) - 1;
    let weight = |mask: usize| -> usize {
        (0..capacities.len()).filter(|socket| mask >> socket & 1 == 1).map(|socket| capacities[socket]).sum()
    };
    fn search(
        left: usize,
        least: usize,
        most: usize,
        parts: usize,
        fit: &dyn Fn(usize) -> (usize, usize),
        wanted: usize,
    ) -> usize {
        if left == 0 {
            return if least <= wanted && wanted <= most { parts } else { 0 };
        }
        let lowest = left & left.wrapping_neg();
        let mut best = 0;
        let mut part = left;
        while part > 0 {
            let range = fit(part);
            if part & lowest != 0 && range.0 <= range.1 {
                let (least, most) = (least + range.0, most + range.1);
                best = best.max(search(left & !part, least, most, parts + 1, fit, wanted));
            }
            part = (part - 1) & left;
        }
        best
    }
    let fit = |mask: usize| (weight(mask).div_ceil(small + 1), weight(mask) / small);
    instances + capacities.len() - search(all, 0, 0, 0, &fit, instances)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_thread_is_placed_once_and_sizes_are_balanced(
        sockets_count in 1_usize..7, cores in 1_usize..9, smt in 1_usize..4,
        limit in 1_usize..200, instances in 1_usize..60,
    ) {
        let topology = described(sockets_count, cores, smt);
        let threads = topology.cores_limited(limit, smt);
        for placement in [Placement::Island, Placement::Spread, Placement::Mix, Placement::Os] {
            if instances > threads.len() {
                prop_assert!(place(&topology, &threads, instances, placement).is_err());
                continue;
            }
            let placed = place(&topology, &threads, instances, placement).expect("placement");
            prop_assert_eq!(placed.len(), instances);
            let mut all: Vec<HardwareThread> = placed.iter().flatten().copied().collect();
            all.sort_unstable();
            let mut given = threads.clone();
            given.sort_unstable();
            prop_assert_eq!(all, given);
            let sizes = placed.iter().map(Vec::len);
            prop_assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }

    #[test]
    fn islands_span_the_fewest_sockets(
        sockets_count in 1_usize..6, cores in 1_usize..9, limit in 1_usize..40, instances in 1_usize..30,
    ) {
        let topology = described(sockets_count, cores, 1);
        let threads = topology.cores_limited(limit, 1);
        prop_assume!(instances <= threads.len());
        let mut capacities = vec![0; sockets_count];
        for &thread in &threads {
            capacities[topology.socket_of(thread).expect("known") as usize] += 1;
        }
        capacities.retain(|&capacity| capacity > 0);
        let placed = place(&topology, &threads, instances, Placement::Island).expect("placement");
        let spans: Vec<usize> = placed.iter().map(|instance| sockets(&topology, instance).len()).collect();
        prop_assert_eq!(spans.iter().sum::<usize>(), least_total_span(&capacities, instances));
        // An instance spans at most one socket more than its size alone requires, if sockets are
        // equal.
        for (instance, span) in placed.iter().zip(&spans) {
            if threads.len() == sockets_count * cores {
                prop_assert!(*span <= instance.len().div_ceil(cores) + 1);
            }
        }
    }

    #[test]
    fn islands_of_every_granularity_hold_every_thread_once(
        sockets_count in 1_usize..5, cores in 1_usize..5, smt in 1_usize..3, count in 1_usize..50,
    ) {
        let topology = described(sockets_count, cores, smt);
        let mut all = Granularity::HARDWARE.to_vec();
        all.push(Granularity::Instances(count));
        for granularity in all {
            let mut threads: Vec<HardwareThread> =
                islands(&topology, granularity).into_iter().flatten().collect();
            threads.sort_unstable();
            prop_assert_eq!(threads, topology.hardware_threads());
        }
    }
}

fn workers(
    topology: &Topology,
    workers: usize,
    smt: usize,
    instances: usize,
    placement: Placement,
) -> Vec<Vec<HardwareThread>> {
    place_workers(topology, &WorkerRequest { workers, smt, instances, placement, machines: None })
        .expect("placed")
}

#[test]
fn one_instance_gets_the_threads_in_the_order_of_choice() {
    for topology in [shipped("quad-socket"), shipped("superdome-flex"), described(3, 2, 2)] {
        for (count, smt) in [(1, 1), (5, 1), (6, 2)] {
            let first = topology.cores_limited(count, smt);
            for placement in [Placement::Island, Placement::Os] {
                assert_eq!(workers(&topology, count, smt, 1, placement), std::slice::from_ref(&first));
            }
        }
        let everything = topology.threads().len();
        assert_eq!(
            workers(&topology, everything, usize::MAX, 1, Placement::Island),
            [topology.hardware_threads()]
        );
    }
}

#[test]
fn spread_workers_go_round_the_sockets() {
    let small = described(2, 2, 2);
    let [spread] = &workers(&small, 8, 2, 1, Placement::Spread)[..] else { panic!("one instance") };
    let seats: Vec<(u32, u32, u32)> = spread
        .iter()
        .map(|thread| small.thread(*thread).expect("known"))
        .map(|info| (info.sibling, info.package, info.core))
        .collect();
    let first = [(0, 0, 0), (0, 1, 2), (0, 0, 1), (0, 1, 3)];
    let second = first.map(|(_, package, core)| (1, package, core));
    assert_eq!(seats, [first, second].concat());
    assert_eq!(workers(&small, 4, 1, 1, Placement::Spread)[0], spread[..4]);
    let quad = shipped("quad-socket");
    let halves = workers(&quad, 8, 1, 2, Placement::Spread);
    for half in &halves {
        let packages: Vec<u32> = half.iter().map(|thread| quad.socket_of(*thread).expect("known")).collect();
        assert_eq!(packages, [0, 1, 2, 3]);
    }
}

#[test]
fn mixed_workers_are_two_on_a_socket() {
    let quad = shipped("quad-socket");
    let packages = |count| -> Vec<u32> {
        let set = &workers(&quad, count, 1, 1, Placement::Mix)[0];
        set.iter().map(|thread| quad.socket_of(*thread).expect("known")).collect()
    };
    assert_eq!(packages(4), [0, 0, 1, 1]);
    assert_eq!(packages(3), [0, 0, 1]);
    assert_eq!(packages(10), [0, 0, 1, 1, 2, 2, 3, 3, 0, 0]);
    assert_eq!(packages(24).len(), 24);
}

#[test]
fn workers_can_be_divided_evenly_among_machines() {
    let cluster = Description::shipped("cluster").expect("shipped").whole();
    let request = |workers, machines| WorkerRequest {
        workers,
        smt: 1,
        instances: 2,
        placement: Placement::Island,
        machines: Some(machines),
    };
    let sets = place_workers(&cluster, &request(12, 2)).expect("placed");
    let machine = |set: &Vec<HardwareThread>| -> BTreeSet<Option<u32>> {
        set.iter().map(|thread| cluster.machine_of(*thread)).collect()
    };
    assert_eq!(sets.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6]);
    assert_eq!(sets.iter().map(machine).collect::<Vec<_>>(), [[Some(0)].into(), [Some(1)].into()]);
    let refused =
        |workers, machines| place_workers(&cluster, &request(workers, machines)).expect_err("refused");
    assert_eq!(refused(13, 2), PlaceError::Uneven { workers: 13, machines: 2 });
    assert_eq!(refused(26, 2), PlaceError::TooFewThreads { wanted: 26, available: 24 });
}

#[test]
fn workers_without_a_place_are_refused() {
    let quad = shipped("quad-socket");
    let refused = |workers, smt, instances| {
        let placement = Placement::Island;
        place_workers(&quad, &WorkerRequest { workers, smt, instances, placement, machines: None })
            .expect_err("refused")
    };
    assert_eq!(refused(25, 1, 1), PlaceError::TooFewThreads { wanted: 25, available: 24 });
    assert_eq!(refused(1, 0, 1), PlaceError::TooFewThreads { wanted: 1, available: 0 });
    assert_eq!(refused(4, 1, 0), PlaceError::NoInstances);
    assert_eq!(refused(4, 1, 5), PlaceError::TooManyInstances { instances: 5, threads: 4 });
}

#[test]
fn peers_have_two_cores_or_two_sockets() {
    let small = described(2, 2, 2);
    let seats = |topology: &Topology, peers| {
        let threads = place_peers(topology, peers).expect("placed");
        threads.map(|thread| topology.thread(thread).map(|info| (info.package, info.core)).expect("known"))
    };
    assert_eq!(seats(&small, Peers::SameSocket), [(0, 0), (0, 1)]);
    assert_eq!(seats(&small, Peers::OtherSocket), [(0, 0), (1, 2)]);
    assert_eq!(seats(&described(1, 1, 2), Peers::SameSocket), [(0, 0), (0, 0)]);
    let fault = |topology: &Topology, peers| place_peers(topology, peers).expect_err("refused");
    assert_eq!(
        fault(&described(1, 1, 1), Peers::SameSocket),
        PlaceError::NoPeers("every socket has one hardware thread")
    );
    assert_eq!(
        fault(&described(1, 2, 1), Peers::OtherSocket),
        PlaceError::NoPeers("the machine has one socket")
    );
}
