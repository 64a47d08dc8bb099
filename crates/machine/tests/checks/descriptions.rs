//! Shipped descriptions are complete and follow the rules; bad descriptions are refused in one line.

use machine::{Access, Confidence, Description, FactMatrix, HardwareThread, LineState, Node, Reach};

fn shipped(name: &str) -> Description {
    Description::shipped(name).unwrap_or_else(|| panic!("{name} ships"))
}

fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-9 * expected.abs(), "{value} is not {expected}");
}

fn complete(matrix: &FactMatrix, nodes: usize) {
    assert_eq!(matrix.values.len(), nodes);
    assert!(matrix.values.iter().all(|row| row.len() == nodes && row.iter().all(|value| *value > 0.0)));
    assert_eq!(matrix.confidence.len(), nodes);
    assert!(matrix.confidence.iter().all(|row| row.len() == nodes));
}

fn reaches(description: &Description) -> Vec<&Reach> {
    let costs = [&description.load, &description.store, &description.atomic];
    costs.iter().flat_map(|costs| [&costs.modified, &costs.exclusive, &costs.shared]).collect()
}

#[test]
fn every_shipped_machine_is_complete() {
    // name, sockets, hardware threads
    let shapes = [
        ("dual-socket", 2, 16),
        ("quad-socket", 4, 24),
        ("octo-socket", 8, 80),
        ("superdome-flex", 28, 1568),
        ("power8", 8, 752),
        ("power9", 16, 1504),
        ("cluster", 2, 12),
        ("rack-2026", 2, 512),
    ];
    assert_eq!(Description::names().len(), shapes.len());
    for (name, sockets, threads) in shapes {
        assert!(Description::names().contains(&name));
        let description = shipped(name);
        let counts = description.topology.counts();
        assert_eq!(
            (counts.packages, counts.numa_nodes, counts.hardware_threads),
            (sockets, sockets, threads)
        );
        complete(&description.memory_ns, sockets);
        complete(&description.memory_gbps, sockets);
        for reach in reaches(&description) {
            complete(&reach.between_nodes_ns, sockets);
            assert!(reach.own_core_ns.value > 0.0 && reach.own_core_ns.value < reach.same_node_ns.value);
            assert!(reach.same_domain_ns.value <= reach.same_node_ns.value);
        }
        for (from, row) in description.hops.iter().enumerate() {
            for (to, &hops) in row.iter().enumerate() {
                assert_eq!(hops == 0, from == to);
                assert_eq!(hops, description.hops[to][from]);
                let local = description.memory_ns.values[from][from];
                assert!(from == to || description.memory_ns.values[from][to] > local);
            }
        }
        assert_eq!(description.machines, if name == "cluster" { 8 } else { 1 });
    }
    assert!(Description::shipped("toaster").is_none());
}

#[test]
fn octo_socket_has_its_measured_cycles() {
    let octo = shipped("octo-socket");
    assert_eq!(octo.hops[0], [0, 1, 1, 2, 1, 2, 2, 2]);
    assert_eq!(octo.hops.iter().flatten().max(), Some(&2));
    close(octo.memory_ns.values[0][3], 601.0 / 2.13);
    close(octo.load.modified.between_nodes_ns.values[0][1], 289.0 / 2.13);
    close(octo.atomic.shared.between_nodes_ns.values[0][7], 423.0 / 2.13);
    close(octo.store.exclusive.between_nodes_ns.values[0][1], 1.05 * 289.0 / 2.13);
    close(octo.store.modified.own_core_ns.value, 20.0 / 2.13);
    assert_eq!(octo.load.modified.same_node_ns.confidence, Confidence::Measured);
    assert_eq!(octo.store.exclusive.same_node_ns.confidence, Confidence::Estimate);
    let line = |state, to| octo.line_ns(Access::Load, state, HardwareThread(0), HardwareThread(to));
    close(line(LineState::Modified, 0).unwrap(), 5.0 / 2.13);
    close(line(LineState::Shared, 1).unwrap(), 44.0 / 2.13);
    close(line(LineState::Exclusive, 30).unwrap(), 383.0 / 2.13);
    assert_eq!(line(LineState::Shared, 80), None);
}

#[test]
fn quad_and_dual_borrow_cycles() {
    let quad = shipped("quad-socket");
    close(quad.memory_ns.values[0][0], 355.0 / 1.86);
    close(quad.memory_ns.values[0][3], 492.0 / 1.86);
    close(quad.l3.as_ref().unwrap().load_ns.value, 44.0 / 1.86);
    assert_eq!(quad.load.modified.same_node_ns.confidence, Confidence::Family);
    let dual = shipped("dual-socket");
    close(dual.memory_ns.values[0][1], 130.0);
    close(dual.load.modified.between_nodes_ns.values[1][0], 105.0);
    close(dual.load.modified.same_node_ns.value, 35.0);
    close(dual.load.shared.between_nodes_ns.values[0][1], 223.0 / 2.0);
    close(dual.one_way_ns(Node(0), Node(1)).unwrap(), 25.0);
}

#[test]
fn rules_fill_in_what_is_missing() {
    let superdome = shipped("superdome-flex");
    let l3 = superdome.l3.as_ref().unwrap().load_ns.value;
    close(superdome.load.modified.same_node_ns.value, 2.5 * l3);
    close(superdome.load.modified.between_nodes_ns.values[0][27], 384.0 * 1.1);
    close(superdome.load.shared.between_nodes_ns.values[0][27], 384.0 * 1.1 * 0.8);
    close(superdome.atomic.shared.between_nodes_ns.values[0][27], 384.0 * 1.1 * 1.05);
    assert_eq!(superdome.memory_ns.confidence[0][5], Confidence::Measured);
    assert_eq!(superdome.memory_ns.confidence[5][0], Confidence::Estimate);
    // The same pair of sockets in another chassis is as far apart; other chassis have the mean of their kind.
    close(superdome.memory_ns.values[4][5], 226.0);
    close(superdome.memory_ns.values[9][11], 259.0);
    close(superdome.memory_ns.values[27][0], 384.0);
    assert!((370.0..390.0).contains(&superdome.memory_ns.values[9][20]));
    close(superdome.memory_gbps.values[13][13], 101.3);
    close(superdome.smt_share(2), 0.6);

    let power9 = shipped("power9");
    assert_eq!(power9.line_bytes.value, 128);
    assert_eq!(power9.hops[0][3], 1);
    assert_eq!(power9.hops[0][4], 2);
    close(power9.smt_share(8), 0.28);
    close(power9.smt_share(4), 0.42);
    close(power9.smt_share(3), 0.51);

    let rack = shipped("rack-2026");
    assert_eq!(rack.topology.counts().l3_domains, 32);
    let dirty =
        |to| rack.line_ns(Access::Load, LineState::Modified, HardwareThread(0), HardwareThread(to)).unwrap();
    close(dirty(2), 25.0);
    close(dirty(16), 110.0);
    close(dirty(256), 200.0);
    close(rack.memory_ns.values[0][1], 220.0);

    let quad = shipped("quad-socket");
    close(quad.memory_gbps.values[0][0], 20.0);
    close(quad.memory_gbps.values[0][1], 12.0);
    assert_eq!(quad.neighbours().len(), 6);
}

const GOOD: &str = "sockets = 2\ncores_per_socket = 4\nclock_ghz = 2.5\nmemory_gib = 16\nl1d = 32\nl2 = 256\n\
    l3_shared = 8192\nload_to_use_cycles = { l1 = 4, l2 = 12, l3 = 40 }\nmemory_ns = [[80, 120], [125, 85]]\n";

#[test]
fn files_give_matrices() {
    let text = format!(
        "{GOOD}dirty_line_transfer_ns = [[30, 130], [140, 31]]\nmemory_gbps = [[50, 20], [20, 50]]\n"
    );
    let description = Description::from_toml(&text).expect("a description");
    close(description.memory_ns.values[1][0], 125.0);
    close(description.load.modified.between_nodes_ns.values[1][0], 140.0);
    close(description.store.modified.between_nodes_ns.values[0][1], 130.0 * 1.05);
    close(description.link_gbps.value, 20.0);
}

#[test]
fn bad_files_are_refused_in_one_clear_line() {
    let change = |from: &str, to: &str| {
        assert!(GOOD.contains(from));
        GOOD.replace(from, to)
    };
    let cases = [
        (change("sockets = 2\n", ""), "`sockets` is missing"),
        (change("cores_per_socket = 4", "cores_per_socket = 0"), "`cores_per_socket` is 0"),
        (change("cores_per_socket = 4", "cores_per_socket = -4"), "`cores_per_socket` is -4"),
        (change("sockets = 2", "sockets = 100000"), "`sockets` is 100000"),
        (change("clock_ghz = 2.5\n", ""), "`clock_ghz` is missing"),
        (change("l1d = 32\n", ""), "`l1d` is missing"),
        (change("l3 = 40", "l4 = 40"), "`load_to_use_cycles.l4` is no key"),
        (change("l1 = 4", "l1 = inf"), "`load_to_use_cycles.l1` is inf"),
        (change("[[80, 120], [125, 85]]", "[[80, 120]]"), "`memory_ns` is a list of 1 rows"),
        (change("[125, 85]", "[125]"), "`memory_ns[1]` is a list of 1 entries"),
        (change("[125, 85]", "[125, 0]"), "`memory_ns[1][1]` is 0"),
        (change("[125, 85]", "[125, -85]"), "`memory_ns[1][1]` is -85"),
        (change("[125, 85]", "[125, \"fast\"]"), "`memory_ns[1][1]` is \"fast\""),
        (change("memory_ns", "memory_nanos"), "`memory_nanos` is no key"),
        (change("memory_ns = [[80, 120], [125, 85]]\n", ""), "`memory_ns` is missing"),
        (format!("{GOOD}adjacency = [[0, 2]]\n"), "`adjacency` is [0, 2]"),
        (format!("{GOOD}adjacency = []\n"), "`adjacency` is not connected"),
        (format!("{GOOD}confidence = \"sure\"\n"), "`confidence` is sure"),
        ("sockets =".to_owned(), "line 1: not TOML"),
    ];
    for (text, expected) in cases {
        let error = Description::from_toml(&text).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nlacks\n{expected}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn discovered_machines_have_estimates() {
    for name in Description::names() {
        let topology = shipped(name).topology;
        let description = Description::of_topology(&topology);
        let nodes = topology.nodes().len();
        complete(&description.memory_ns, nodes);
        complete(&description.memory_gbps, nodes);
        for reach in reaches(&description) {
            complete(&reach.between_nodes_ns, nodes);
        }
        assert_eq!(description.topology, topology);
        assert_eq!(
            description.l1.bytes.value,
            topology.caches().iter().find(|cache| cache.level == machine::Level::L1Data).unwrap().bytes
        );
    }
}
