//! Snapshots of real machines have the counts that hwloc reports for them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use machine::Topology;
use serde::Deserialize;

use crate::support::temporary_directory;

#[derive(Deserialize)]
struct Expected {
    packages: usize,
    numa_nodes: usize,
    l3_domains: usize,
    cores: usize,
    hardware_threads: usize,
    distances: bool,
}

fn snapshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots")
}

fn expected() -> BTreeMap<String, Expected> {
    let files = ["expected.toml", "more.toml"].map(|name| snapshots().join(name));
    let read = |file: &PathBuf| -> BTreeMap<String, Expected> {
        let text = std::fs::read_to_string(file).expect("expected counts");
        toml::from_str(&text).expect("expected counts are TOML")
    };
    files.iter().flat_map(read).collect()
}

/// Parts of a snapshot that discovery never reads; unpacking them would take most of the tests'
/// time.
const SKIPPED: [&str; 12] = [
    "allocation_policy",
    "device-tree",
    "dmi",
    "hugepages",
    "microcode",
    "number_of_sets",
    "physical_line_partition",
    "power",
    "thermal_throttle",
    "uevent",
    "ways_of_associativity",
    "write_policy",
];

/// Unpacks a snapshot and discovers the machine in it.
fn read(name: &str) -> Topology {
    let archive = std::fs::File::open(snapshots().join(format!("{name}.tar.bz2"))).expect("snapshot");
    let place = temporary_directory();
    let mut files = tar::Archive::new(bzip2_rs::DecoderReader::new(archive));
    files.set_preserve_mtime(false);
    for file in files.entries().expect("a tar archive") {
        let mut file = file.expect("an entry");
        let path = file.path().expect("a path").into_owned();
        if !path.iter().any(|part| SKIPPED.iter().any(|&skipped| part == skipped)) {
            file.unpack_in(place.path()).expect("an entry unpacks");
        }
    }
    let top = std::fs::read_dir(place.path()).expect("listing").flatten().next().expect("one directory");
    machine::discover(Some(&top.path())).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All machines by name, read once for all tests.
fn machines() -> &'static BTreeMap<String, Topology> {
    static MACHINES: OnceLock<BTreeMap<String, Topology>> = OnceLock::new();
    MACHINES.get_or_init(|| {
        expected()
            .into_keys()
            .map(|name| {
                let topology = read(&name);
                (name, topology)
            })
            .collect()
    })
}

#[test]
fn all_snapshots_give_the_counts_of_hwloc() {
    for (name, expected) in expected() {
        let topology = &machines()[&name];
        let counts = topology.counts();
        assert_eq!(counts.packages, expected.packages, "{name} packages");
        assert_eq!(counts.numa_nodes, expected.numa_nodes, "{name} nodes");
        assert_eq!(counts.l3_domains, expected.l3_domains, "{name} L3 domains");
        assert_eq!(counts.cores, expected.cores, "{name} cores");
        assert_eq!(counts.hardware_threads, expected.hardware_threads, "{name} hardware threads");
        assert_eq!(topology.distances().is_some(), expected.distances, "{name} distances");
    }
}

#[test]
fn all_snapshots_render_and_have_islands() {
    for (name, topology) in machines() {
        let mut all = topology.hardware_threads();
        all.sort_unstable();
        for granularity in machine::Granularity::HARDWARE {
            let islands = machine::islands(topology, granularity);
            let mut threads: Vec<_> = islands.into_iter().flatten().collect();
            threads.sort_unstable();
            assert_eq!(threads, all, "{name} {granularity}");
        }
        let json = machine::render_json(topology);
        assert_eq!(json["counts"]["hardware_threads"], all.len());
        assert_eq!(json["islands"]["core"].as_array().map(Vec::len), Some(topology.counts().cores));
        if let Some(matrix) = json["distances"].as_array() {
            assert_eq!(matrix.len(), topology.counts().numa_nodes, "{name}");
        }
        let text = machine::render_text(topology);
        assert!(text.starts_with("Machine") && text.contains("PU L#0 (P#"), "{name}\n{text}");
    }
}

#[test]
fn the_sparse_machine_is_drawn_as_lstopo_draws_it() {
    let text = machine::render_text(&machines()["48amd64-4pa2n6c-sparse"]);
    let expected = "\
Machine (96GB total)
  Package L#0
    L3 L#0 (5118KB)
      NUMANode L#0 (P#0 8190MB)
      L2 L#0 (512KB) + L1d L#0 (64KB) + L1i L#0 (64KB) + Core L#0 + PU L#0 (P#0)
";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("NUMANode L#7 (P#73 16GB)"));
}

#[test]
fn hybrid_cores_are_distinguished() {
    let topology = &machines()["20em64t-hybrid-1p6c2t+2ca4co1t"];
    let classes = topology.threads().iter().map(|info| (info.efficiency, info.sibling)).collect::<Vec<_>>();
    // Six fast cores with two threads each, then eight slow cores with one.
    assert!(classes[..12].iter().all(|&(class, _)| class == 1));
    assert!(classes[12..].iter().all(|&pair| pair == (0, 0)));
}
