//! Machines that are not among the snapshots: hybrid cores, offline processors, restrictions,
//! broken firmware.

#![allow(clippy::disallowed_methods)]

use crate::support::Tree;
use machine::{DiscoverError, HardwareThread, Node, Topology, discover};

fn read(tree: &Tree) -> Topology {
    discover(Some(tree.root())).expect("a machine")
}

/// [packages, nodes, L3 domains, cores, hardware threads]
fn counts(topology: &Topology) -> [usize; 5] {
    let counts = topology.counts();
    [counts.packages, counts.numa_nodes, counts.l3_domains, counts.cores, counts.hardware_threads]
}

fn order(topology: &Topology) -> Vec<u32> {
    topology.hardware_threads().iter().map(|thread| thread.0).collect()
}

#[test]
fn threads_fill_core_by_core_and_socket_by_socket() {
    let topology = read(&Tree::two_sockets());
    assert_eq!(counts(&topology), [2, 2, 2, 4, 8]);
    assert_eq!(order(&topology), [0, 4, 1, 5, 2, 6, 3, 7]);
    assert_eq!(topology.smt(), 2);
    let limited: Vec<u32> = topology.cores_limited(3, 1).iter().map(|thread| thread.0).collect();
    assert_eq!(limited, [0, 1, 2]);
    assert_eq!(topology.node_of(HardwareThread(7)), Some(Node(1)));
    assert_eq!(topology.socket_of(HardwareThread(5)), Some(0));
    assert_eq!(topology.distance(Node(0), Node(1)), 21);
    assert_eq!(topology.memory_bytes(), 2 << 30);
    assert_eq!(topology.node_of(HardwareThread(8)), None);
}

#[test]
fn offline_processors_are_left_out() {
    let tree = Tree::two_sockets();
    tree.file("sys/devices/system/cpu/online", "0-2,4-7");
    tree.file("sys/devices/system/cpu/cpu7/online", "0");
    tree.remove("sys/devices/system/cpu/cpu6/topology");
    let topology = read(&tree);
    assert_eq!(counts(&topology), [2, 2, 2, 3, 5]);
    assert_eq!(order(&topology), [0, 4, 1, 5, 2]);
}

#[test]
fn hybrid_cores_have_efficiency_classes() {
    let tree = Tree::two_sockets();
    tree.file("sys/devices/cpu_core/cpus", "0-1,4-5").file("sys/devices/cpu_atom/cpus", "2-3,6-7");
    let topology = read(&tree);
    let class = |number| topology.thread(HardwareThread(number)).expect("thread").efficiency;
    assert_eq!([class(0), class(5), class(2), class(7)], [1, 1, 0, 0]);
    assert!(machine::render_text(&topology).contains("efficiency class 1"));

    let arm = Tree::two_sockets();
    for number in 0..8 {
        let capacity = ["446", "1024", "446", "871"][number % 4];
        arm.file(&format!("sys/devices/system/cpu/cpu{number}/cpu_capacity"), capacity);
    }
    let topology = read(&arm);
    let classes: Vec<u8> = topology.threads().iter().map(|info| info.efficiency).collect();
    assert_eq!(classes, [0, 0, 2, 2, 0, 0, 1, 1]);
}

#[test]
fn missing_or_nonsensical_distances_are_null() {
    for distance in ["", "10", "0 0", "20 10", "ten twenty", "10 21 21"] {
        let tree = Tree::two_sockets();
        tree.remove("sys/devices/system/node/node0");
        tree.node(0, "0-1,4-5", distance);
        let topology = read(&tree);
        assert_eq!(topology.distances(), None, "{distance:?}");
        assert_eq!(topology.counts().numa_nodes, 2);
        assert_eq!(topology.distance(Node(0), Node(1)), 20);
        assert!(machine::render_json(&topology)["distances"].is_null());
    }
}

#[test]
fn memory_without_processors_is_kept_apart() {
    let tree = Tree::two_sockets();
    tree.remove("sys/devices/system/node");
    tree.node(0, "0-1,4-5", "10 21 17").node(1, "2-3,6-7", "21 10 28").node(9, "", "17 28 10");
    let topology = read(&tree);
    assert_eq!(topology.counts().numa_nodes, 2);
    assert_eq!(topology.memory_only_nodes().len(), 1);
    assert_eq!(topology.memory_only_nodes()[0].node, Node(9));
    assert_eq!(topology.distances(), Some(&[vec![10, 21], vec![21, 10]][..]));
    assert!(machine::render_text(&topology).contains("P#9 1024MB) without hardware threads"));
}

#[test]
fn nodes_with_identical_processors_are_one() {
    let tree = Tree::two_sockets();
    tree.remove("sys/devices/system/node");
    for number in 0..4 {
        tree.node(number, "0-7", "10 10 10 10");
    }
    let topology = read(&tree);
    assert_eq!(topology.counts().numa_nodes, 1);
    assert_eq!(topology.distances(), Some(&[vec![10]][..]));
    assert_eq!(topology.memory_bytes(), 4 << 30);
}

#[test]
fn cpusets_of_version_one_restrict() {
    for mount in ["dev/cpuset", "sys/fs/cgroup/cpuset"] {
        let tree = Tree::two_sockets();
        tree.file("proc/self/cpuset", "/jobs/one");
        tree.file(&format!("{mount}/jobs/one/cpuset.cpus"), "0-3");
        tree.file(&format!("{mount}/jobs/one/cpuset.mems"), "1");
        let topology = read(&tree);
        assert_eq!(order(&topology), [0, 1, 2, 3], "{mount}");
        assert_eq!(counts(&topology), [2, 1, 2, 4, 4]);
        // Node 0 is not allowed: its processors allocate on the nearest allowed one.
        assert_eq!(topology.node_of(HardwareThread(0)), Some(Node(1)));
    }
}

#[test]
fn cpusets_of_version_two_restrict_and_are_inherited() {
    let tree = Tree::two_sockets();
    tree.file("proc/self/cgroup", "0::/user.slice/session");
    tree.file("sys/fs/cgroup/user.slice/cpuset.cpus.effective", "4-7");
    tree.file("sys/fs/cgroup/user.slice/cpuset.mems.effective", "0-1");
    std::fs::create_dir_all(tree.root().join("sys/fs/cgroup/user.slice/session")).expect("directory");
    let topology = read(&tree);
    assert_eq!(order(&topology), [4, 5, 6, 7]);
    assert_eq!(counts(&topology), [2, 2, 2, 4, 4]);
}

#[test]
fn the_process_status_restricts() {
    let tree = Tree::two_sockets();
    tree.file("proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-3\nMems_allowed_list:\t0-1");
    assert_eq!(order(&read(&tree)), [2, 3]);
}

#[test]
fn without_sysfs_topology_cpuinfo_counts() {
    let tree = Tree::new();
    let text: Vec<String> = (0..4)
        .map(|number| {
            format!("processor\t: {number}\nphysical id\t: {}\ncore id\t\t: {}\n", number / 2, number % 2)
        })
        .collect();
    tree.file("proc/cpuinfo", &text.join("\n"));
    let topology = read(&tree);
    assert_eq!(counts(&topology), [2, 1, 0, 4, 4]);
    assert_eq!(topology.distances(), None);
}

#[test]
fn a_machine_that_shows_nothing_is_flat() {
    let tree = Tree::new();
    tree.file("proc/cpuinfo", "processor : 0\nBogoMIPS : 5\n\nprocessor : 3\nBogoMIPS : 5");
    tree.file("proc/meminfo", "MemTotal:  2097152 kB");
    let topology = read(&tree);
    assert_eq!(counts(&topology), [0, 1, 0, 0, 2]);
    assert_eq!(order(&topology), [0, 3]);
    assert_eq!(topology.memory_bytes(), 2 << 30);
    assert_eq!(topology.threads()[1].core, 1);
    let json = machine::render_json(&topology);
    assert_eq!(json["islands"]["machine"], serde_json::json!([[0, 3]]));
    assert!(json["islands"].get("socket").is_none());
}

#[test]
fn missing_caches_and_package_numbers_do_no_harm() {
    let tree = Tree::two_sockets();
    for number in 0..8 {
        tree.remove(&format!("sys/devices/system/cpu/cpu{number}/cache"));
        tree.file(&format!("sys/devices/system/cpu/cpu{number}/topology/physical_package_id"), "-1");
    }
    let topology = read(&tree);
    assert_eq!(counts(&topology), [2, 2, 0, 4, 8]);
    let last = topology.thread(HardwareThread(7)).expect("thread");
    assert_eq!((last.core, last.l2_group, last.l3_domain), (3, 3, 3));
}

#[test]
fn contradicting_groups_are_dropped() {
    let tree = Tree::two_sockets();
    for number in [1, 2] {
        tree.remove(&format!("sys/devices/system/cpu/cpu{number}/cache/index3"));
    }
    // An L3 across half of each socket is impossible.
    for number in 0..8 {
        tree.cache(number, 3, 3, "16M", "1-2,5-6");
    }
    let topology = read(&tree);
    assert_eq!(counts(&topology), [2, 2, 0, 4, 8]);
}

#[test]
fn errors_have_the_path_and_the_fault() {
    let empty = Tree::new();
    let path = empty.root().display().to_string();
    let error = discover(Some(empty.root())).expect_err("nothing there");
    assert!(matches!(error, DiscoverError::NoProcessor { .. }));
    assert!(error.to_string().contains(&path), "{error}");

    let error = discover(Some(&empty.root().join("absent"))).expect_err("no directory");
    assert!(error.to_string().contains("absent"), "{error}");

    let tree = Tree::two_sockets();
    tree.file("proc/self/cpuset", "/").file("dev/cpuset/cpus", "40-50");
    let error = discover(Some(tree.root())).expect_err("nothing allowed");
    assert!(error.to_string().contains("none of the online processors"), "{error}");

    tree.file("dev/cpuset/cpus", "some");
    let error = discover(Some(tree.root())).expect_err("no list");
    assert!(error.to_string().contains("dev/cpuset/cpus"), "{error}");
    assert!(!error.to_string().contains('\n'));

    tree.file("dev/cpuset/cpus", "0-3").file("dev/cpuset/mems", "7");
    let error = discover(Some(tree.root())).expect_err("no memory");
    assert!(error.to_string().contains("memories"), "{error}");
}

#[test]
fn this_machine_is_discovered() {
    let topology = discover(None).expect("a machine");
    assert!(topology.counts().hardware_threads > 0);
    assert_eq!(topology.hardware_threads().len(), topology.counts().hardware_threads);
}

#[test]
fn socket_numbers_win_over_contradicting_siblings() {
    let tree = Tree::two_sockets();
    tree.file("sys/devices/system/cpu/cpu2/topology/package_cpus_list", "0-3");
    assert_eq!(counts(&read(&tree)), [2, 2, 2, 4, 8]);
}

#[test]
fn an_empty_cache_mask_is_that_of_a_core() {
    let tree = Tree::two_sockets();
    for number in 0..8 {
        let cache = format!("sys/devices/system/cpu/cpu{number}/cache/index3");
        tree.remove(&format!("{cache}/shared_cpu_list")).file(&format!("{cache}/shared_cpu_map"), "00000000");
    }
    assert_eq!(counts(&read(&tree)), [2, 2, 4, 4, 8]);
}

#[test]
fn the_only_node_has_the_memory_of_the_machine() {
    let tree = Tree::new();
    tree.processor(0, 0, 0, "0", "0").file("sys/devices/system/cpu/online", "0").node(0, "0", "10");
    assert_eq!(read(&tree).memory_bytes(), 1 << 30);
    tree.file("proc/meminfo", "MemTotal:        3145728 kB");
    assert_eq!(read(&tree).memory_bytes(), 3 << 30);
    // With several nodes only their own figures show the location of memory.
    let several = Tree::two_sockets();
    several.file("proc/meminfo", "MemTotal:        9145728 kB");
    assert_eq!(read(&several).memory_bytes(), 2 << 30);
}
