//! Shipped descriptions are complete and follow the rules; bad descriptions are refused in one
//! line.

use machine::{
    Access, Confidence, CoreCost, Description, FactMatrix, HardwareThread, LineState, Measurements, Node,
    Reach,
};

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
fn a_cluster_has_its_machines_side_by_side() {
    let cluster = shipped("cluster");
    let whole = cluster.whole();
    let counts = whole.counts();
    assert_eq!((counts.packages, counts.numa_nodes, counts.l3_domains, counts.cores), (16, 16, 16, 96));
    assert_eq!((whole.machine_count(), cluster.topology.machine_count()), (8, 1));
    assert_eq!(cluster.topology_of(1), cluster.topology);
    for (position, info) in whole.threads().iter().enumerate() {
        let alike = cluster.topology.threads()[position % 12];
        assert_eq!((info.thread.0 as usize, info.machine as usize), (position, position / 12));
        assert_eq!(
            (info.node.0, info.package),
            (alike.node.0 + 2 * info.machine, alike.package + 2 * info.machine)
        );
    }
    assert_eq!(whole.memory_bytes(), 8 * cluster.topology.memory_bytes());
    let distances = whole.distances().expect("known");
    assert_eq!((distances[2][3], distances[1][2]), (cluster.topology.distances().expect("known")[0][1], 255));
    let hops = cluster.hops_of(8);
    assert_eq!((hops[15][14], hops[15][0]), (Some(1), None));
    let text = machine::render_text(&whole);
    assert!(text.starts_with("8 machines (") && text.contains("machine     8 of 12"), "{text}");
    assert_eq!(shipped("octo-socket").whole(), shipped("octo-socket").topology);
    let text = cluster.to_toml();
    assert_eq!(Description::from_toml(&text), Ok(cluster));
    let facts = "sockets = 2\ncores_per_socket = 16\nclock_ghz = 2.8\nl1d = 32\nl2 = 1024\nl3_shared = 22528\nmemory_gib = 384\n\
                 load_to_use_cycles = { l1 = 4, l2 = 14, l3 = 50 }\nmemory_ns = { local = 85, one_hop = 145 }\n";
    let refused =
        Description::from_toml(&format!("{facts}machines = 4096\n")).expect_err("too many").to_string();
    assert!(refused.starts_with("`machines` is 4096 with 32 hardware threads each"), "{refused}");
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
    close(octo.atomic.modified.own_core_ns.value, 19.0 / 2.13);
    assert_eq!(octo.atomic.shared.own_core_ns.confidence, Confidence::Family);
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
    // The same pair of sockets in another chassis is as far apart; pairs of different chassis have
    // the mean of their kind.
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
    close(power9.smt_share(8), 0.315);
    close(power9.smt_share(4), 0.499);
    close(power9.smt_share(3), (0.723 + 0.499) / 2.0);
    let power8 = shipped("power8");
    close(power8.smt_share(4), 0.471);
    assert_eq!(power8.smt_shares.iter().map(|known| known.siblings).collect::<Vec<_>>(), [1, 2, 4, 8]);
    assert_eq!(power8.smt_shares[2].share.confidence, Confidence::Family);

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

#[test]
fn cores_cost_what_their_family_does() {
    let cost = |machine: &str, cost: CoreCost| shipped(machine).core.get(cost).clone();
    let pause = |machine: &str, ghz: f64| cost(machine, CoreCost::PauseNs).value * ghz;
    close(pause("octo-socket", 2.13), 9.0);
    close(pause("quad-socket", 1.86), 9.0);
    close(pause("dual-socket", 2.0), 11.0);
    close(pause("superdome-flex", 2.5), 140.0);
    close(pause("rack-2026", 2.7), 65.0);
    assert_eq!(cost("superdome-flex", CoreCost::PauseNs).confidence, Confidence::Family);
    // The rule: two cycles' slots of a turn, which is a pause, a load and a cycle.
    close(cost("superdome-flex", CoreCost::PauserShare).value, 2.0 / 145.0);
    close(cost("octo-socket", CoreCost::PauserShare).value, 2.0 / 15.0);
    close(cost("power8", CoreCost::PauserShare).value, 0.125);
    close(cost("octo-socket", CoreCost::ReaderNs).value, 7.5);
    close(cost("superdome-flex", CoreCost::ReaderNs).value, 5.0);
    assert_eq!(cost("octo-socket", CoreCost::L1iWays).value, 4.0);
    let l1i = |name: &str| (cost(name, CoreCost::L1iKib), cost(name, CoreCost::L1iWays));
    for (size, ways) in ["superdome-flex", "power8", "power9", "rack-2026"].map(l1i) {
        assert_eq!((size.value, ways.value, size.confidence), (32.0, 8.0, Confidence::Family));
    }
    for name in Description::names() {
        let description = shipped(name);
        assert!(
            description.core.all().all(|(cost, fact)| {
                (fact.value > 0.0 || cost == CoreCost::CodeMissNs) && !fact.source.is_empty()
            }),
            "{name}"
        );
        // In a file that is older than the table the values follow from the rule; a complete file
        // keeps its values.
        let text = description.to_toml();
        assert_eq!(Description::from_toml(&text).as_ref(), Ok(&description), "{name}");
        let begin = text.find("[core]").expect("the table");
        let end = begin + text[begin..].find("\n\n").expect("another table");
        let old =
            Description::from_toml(&format!("{}{}", &text[..begin], &text[end..])).expect("an older file");
        close(old.core.get(CoreCost::FillBuffers).value, 12.0);
        close(old.core.get(CoreCost::PauseNs).value, 140.0 / description.clock_ghz.value);
        assert_eq!(old.core.get(CoreCost::PauseNs).confidence, Confidence::Estimate);
    }
}

#[test]
fn files_have_the_costs_of_cores() {
    let text = format!(
        "{GOOD}core_family = \"skylake\"\n[core]\nfill_buffers = 16\nclock_ns = {{ cycles = 50, source = \"here\" }}\n\
         own_atomic_ns = {{ value = 3.5, confidence = \"measured\" }}\n"
    );
    let description = Description::from_toml(&text).expect("a description");
    let value = |cost| description.core.get(cost).value;
    close(value(CoreCost::FillBuffers), 16.0);
    close(value(CoreCost::ClockNs), 20.0);
    close(value(CoreCost::PauseNs), 56.0);
    assert_eq!(description.core.get(CoreCost::ClockNs).source, "here");
    close(description.atomic.modified.own_core_ns.value, 3.5);
    close(description.store.modified.own_core_ns.value, 19.0 / 2.5);
    let plain = Description::from_toml(GOOD).expect("a description");
    close(plain.atomic.modified.own_core_ns.value, 19.0 / 2.5);
    for (line, expected) in [
        ("core_family = \"abacus\"\n", "`core_family` is abacus: expected one of"),
        ("[core]\npause = 3\n", "`core.pause` is no key"),
        ("[core]\npause_ns = 0\n", "`core.pause_ns` is 0"),
        ("[core]\npause_ns = { cycle = 5 }\n", "`core.pause_ns.cycle` is no key"),
        ("[core]\nsmt_shares = [{ siblings = 1, share = 0.5 }]\n", "`core.smt_shares[0].siblings` is 1"),
    ] {
        let error = Description::from_toml(&format!("{GOOD}{line}")).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_was_measured_of_a_core_stands_in_its_description() {
    let measured = Measurements {
        atomic_ns: Some(2.2),
        clock_ns: Some(11.0),
        pause_ns: Some(f64::NAN),
        ..Measurements::default()
    };
    let description = Description::of_measurements(&shipped("dual-socket").topology, &measured);
    close(description.atomic.exclusive.own_core_ns.value, 2.2);
    close(description.core.get(CoreCost::ClockNs).value, 11.0);
    let confidence = |cost| description.core.get(cost).confidence;
    assert_eq!(confidence(CoreCost::ClockNs), Confidence::Measured);
    assert_eq!(confidence(CoreCost::PauseNs), Confidence::Estimate, "not a number");
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

#[test]
fn files_have_the_tlbs_of_cores() {
    const SIZES: &str = "small_page_kib = 4\nhuge_page_kib = 2048\nentry_bytes = 8\n";
    const FIRST: &str = "{ small = { entries = 64, ways = 4 }, huge = { entries = 32, ways = 4 } }";
    let file = |sizes: &str, levels: &str| format!("{GOOD}[core.tlb]\n{sizes}levels = [{levels}]\n");
    let second = "{ shared = { entries = 1536, ways = 12 }, hit_ns = { cycles = 10 } }";
    let description =
        Description::from_toml(&file(SIZES, &format!("{FIRST}, {second}"))).expect("a description");
    let translation = description.translation.expect("TLBs");
    assert_eq!((translation.pages.value.small, translation.pages.value.huge), (4 << 10, 2 << 20));
    close(translation.levels[1].hit_ns.as_ref().expect("a time").value, 4.0);
    assert!(Description::from_toml(GOOD).expect("a description").translation.is_none());
    let swapped = "small_page_kib = 2048\nhuge_page_kib = 4\nentry_bytes = 8\n";
    let odd = "small_page_kib = 5\nhuge_page_kib = 2048\nentry_bytes = 8\n";
    for (sizes, levels, expected) in [
        (SIZES, "", "`core.tlb.levels` is a list of 0 tables"),
        (odd, FIRST, "`core.tlb.small_page_kib` is 5"),
        (swapped, FIRST, "`core.tlb.huge_page_kib` is 4"),
        (
            SIZES,
            "{ small = { entries = 64, ways = 4 } }",
            "`core.tlb.levels[0].shared` or `small` and `huge` is missing",
        ),
        (SIZES, "{ shared = { entries = 64, ways = 5 } }", "`core.tlb.levels[0].shared.ways` is 5"),
        (SIZES, "{ shared = { entries = 96, ways = 4 } }", "`core.tlb.levels[0].shared.ways` is 4"),
        (
            SIZES,
            "{ shared = { entries = 64, ways = 4 }, hit_ns = 3 }",
            "`core.tlb.levels[0].hit_ns` is given",
        ),
        (SIZES, "{ shared = { entries = 64, ways = 4 }, pages = 3 }", "`core.tlb.levels[0].pages` is no key"),
    ] {
        let error = Description::from_toml(&file(sizes, levels)).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}\nlacks\n{expected}");
    }
}
