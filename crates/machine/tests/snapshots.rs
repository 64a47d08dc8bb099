//! Snapshots of real machines give the counts that hwloc reports for them.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use serde::Deserialize;

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

fn expected() -> std::collections::BTreeMap<String, Expected> {
    let text = std::fs::read_to_string(snapshots().join("expected.toml")).expect("expected.toml");
    toml::from_str(&text).expect("expected.toml is TOML")
}

/// Unpacks a snapshot; returns the directory that lives as long as the machine's root is needed, and that root.
fn unpack(name: &str) -> (tempfile::TempDir, PathBuf) {
    let archive = std::fs::File::open(snapshots().join(format!("{name}.tar.bz2"))).expect("snapshot");
    let place = tempfile::tempdir().expect("temporary directory");
    let mut files = tar::Archive::new(bzip2_rs::DecoderReader::new(archive));
    files.unpack(place.path()).expect("snapshot unpacks");
    let top = std::fs::read_dir(place.path()).expect("listing").flatten().next().expect("one directory");
    let root = top.path();
    (place, root)
}

#[test]
fn all_snapshots_give_the_counts_of_hwloc() {
    for (name, expected) in expected() {
        let (_place, root) = unpack(&name);
        let topology = machine::discover(Some(&root)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let counts = topology.counts();
        assert_eq!(counts.packages, expected.packages, "{name} packages");
        assert_eq!(counts.numa_nodes, expected.numa_nodes, "{name} nodes");
        assert_eq!(counts.l3_domains, expected.l3_domains, "{name} L3 domains");
        assert_eq!(counts.cores, expected.cores, "{name} cores");
        assert_eq!(counts.hardware_threads, expected.hardware_threads, "{name} hardware threads");
        assert_eq!(topology.distances().is_some(), expected.distances, "{name} distances");
    }
}
