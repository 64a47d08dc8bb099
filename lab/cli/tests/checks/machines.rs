//! Machines as the binary shows them: this one, those that ship with it, and those of files.

// Tests write scratch files of their own.
#![allow(clippy::disallowed_methods)]

use crate::support::{Scratch, assert_fault, isles};

#[test]
fn topology_draws_this_machine() {
    let text = isles(&["topology"]);
    assert_eq!((text.status, text.error.as_str()), (0, ""));
    assert!(text.output.contains("Machine") && text.output.contains("Islands"), "{}", text.output);
    let json = isles(&["topology", "--format", "json", "--machine", "native"]);
    let json: serde_json::Value = serde_json::from_str(&json.output).expect("one JSON object");
    assert!(json["counts"]["hardware_threads"].as_u64().expect("a count") > 0);
}

#[test]
fn topology_draws_machines_that_ship_with_isles() {
    let text = isles(&["topology", "--machine", "octo-socket"]);
    assert!(text.output.starts_with("octo-socket: 8 x Intel Xeon E7-8867L"), "{}", text.output);
    for (name, packages) in [("dual-socket", 2), ("superdome-flex", 28), ("cluster", 16)] {
        let json = isles(&["topology", "--format", "json", "--machine", name]);
        let json: serde_json::Value = serde_json::from_str(&json.output).expect("one JSON object");
        assert_eq!(json["counts"]["packages"], packages, "{name}");
        assert_eq!(json["description"]["name"], name);
        assert!(json["tree"].is_object() && json["islands"].is_object(), "{name}");
    }
}

#[test]
fn topology_shows_what_a_described_machine_costs() {
    let text = isles(&["topology", "--machine", "octo-socket"]).output;
    for part in ["Costs ", "confidence", "David, Guerraoui", "Memory latency between nodes", "Sources"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json = isles(&["topology", "--format", "json", "--machine", "octo-socket"]);
    let json: serde_json::Value = serde_json::from_str(&json.output).expect("one JSON object");
    let description = &json["description"];
    for key in ["name", "processor", "links", "machines", "confidence"] {
        assert!(!description[key].is_null(), "{key}");
    }
    assert_eq!(description["memory_ns"]["confidence"][0][1], "measured");
    assert_eq!(description["link_gbps"]["confidence"], "estimate");
}

#[test]
fn topology_draws_pictures() {
    for arguments in [
        ["topology", "--format", "svg"].as_slice(),
        &["topology", "--format", "svg", "--view", "cores"],
        &["topology", "--format", "svg", "--machine", "superdome-flex", "--view", "machine"],
        &["topology", "--format", "svg", "--machine", "octo-socket", "--view", "memory"],
    ] {
        let picture = isles(arguments);
        assert_eq!((picture.status, picture.error.as_str()), (0, ""), "{arguments:?}");
        assert!(picture.output.starts_with("<svg ") && picture.output.ends_with("</svg>\n"), "{arguments:?}");
    }
}

/// Test data of the crate that reads machines.
fn machine_file(path: &str) -> String {
    format!("{}/../../crates/machine/tests/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn machines_come_from_files_of_every_kind() {
    let xml = machine_file("xml/32amd64-4s2n4c-cgroup2.xml");
    let matrix = machine_file("matrices/dual-intel-xeon-cpu-x5650-2.67ghz.csv");
    let counts = |file: &str| {
        let json = isles(&["topology", "--format", "json", "--machine", file]);
        assert_eq!((json.status, json.error.as_str()), (0, ""), "{file}");
        let json: serde_json::Value = serde_json::from_str(&json.output).expect("one JSON object");
        (json["counts"].clone(), json["description"].clone())
    };
    assert_eq!(counts(&xml).0["numa_nodes"], 2);
    assert_eq!(counts(&matrix).0["packages"], 2);
    // What --format toml prints is a description file of the same machine, whatever its name.
    let scratch = Scratch::new("machine-files");
    for (name, file) in [("described.toml", &xml), ("described", &matrix)] {
        let toml = isles(&["topology", "--format", "toml", "--machine", file]).output;
        assert_eq!(counts(&scratch.write(name, toml)), counts(file), "{name}");
    }
}

#[test]
fn benchmarks_run_on_machines_from_files() {
    for file in ["xml/16amd64-8n2c.xml", "matrices/dual-intel-xeon-cpu-x5650-2.67ghz.csv"] {
        let file = machine_file(file);
        let arguments = ["--cores", "4", "--seconds", "0.001", "--warmup", "0", "--json"];
        let run = isles(&[&["bench", "counter", "--machine", &file], arguments.as_slice()].concat());
        assert_eq!(run.status, 0, "{file}: {}", run.error);
        let json: serde_json::Value = serde_json::from_str(&run.output).expect("one JSON object");
        assert_eq!(json["machine"], file.as_str());
        assert!(json["commits"].as_u64().is_some_and(|commits| commits >= 200), "{json}");
    }
}

#[test]
fn bad_machine_files_get_one_line() {
    let scratch = Scratch::new("bad-machine-files");
    for (name, content, expected) in [
        ("a.xml", "<html/>", "no XML of hwloc"),
        ("a.csv", ",\n0,\n", "row 2, column 1: `0`: expected a positive number"),
        ("a.toml", "sockets = 0\n", "`sockets` is 0: expected a whole number from 1 to 4096"),
        ("noending", "<html/>", "no XML of hwloc"),
        ("numbers", ",,\n1,,\n", "row 1: 3 entries: expected 2"),
    ] {
        let path = &*scratch.write(name, content);
        for command in [["bench", "counter"].as_slice(), &["topology"]] {
            let arguments = [command, &["--machine", path]].concat();
            assert_fault(&arguments, &format!("--machine {path}: {expected}"));
        }
    }
}

#[test]
fn topology_reads_a_machine_under_a_directory() {
    let root = Scratch::new("topology");
    for processor in 0..3 {
        let directory = root.0.join(format!("sys/devices/system/cpu/cpu{processor}/topology"));
        std::fs::create_dir_all(&directory).expect("a scratch directory");
        std::fs::write(directory.join("core_id"), format!("{processor}\n")).expect("a scratch file");
        std::fs::write(directory.join("physical_package_id"), "0\n").expect("a scratch file");
    }
    std::fs::write(root.0.join("sys/devices/system/cpu/online"), "0-2\n").expect("a scratch file");
    let path = root.0.to_str().expect("UTF-8");
    let json = isles(&["topology", "--format", "json", "--sysroot", path]);
    assert_eq!((json.status, json.error.as_str()), (0, ""));
    let json: serde_json::Value = serde_json::from_str(&json.output).expect("one JSON object");
    assert_eq!(json["counts"]["cores"], 3);
}
