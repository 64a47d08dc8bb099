//! The binary as a user meets it: help, faults, machines.

// Tests write scratch files of their own.
#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a run of the binary left behind.
struct Outcome {
    status: i32,
    output: String,
    error: String,
}

fn isles(arguments: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_isles"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary of this package runs");
    Outcome {
        status: output.status.code().expect("no signal ends it"),
        output: String::from_utf8(output.stdout).expect("UTF-8"),
        error: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Status 2, nothing on standard output, one line on standard error, which begins with `expected`.
fn assert_fault(arguments: &[&str], expected: &str) {
    let Outcome { status, output, error } = isles(arguments);
    assert_eq!((status, output.as_str()), (2, ""), "{arguments:?}: {error}");
    assert!(error.ends_with('\n') && error.lines().count() == 1, "{arguments:?}: {error:?}");
    assert!(error.starts_with(&format!("isles: {expected}")), "{arguments:?}: {error}");
}

#[test]
fn help_has_examples_and_lists_what_works() {
    let help = isles(&["--help"]);
    assert_eq!((help.status, help.error.as_str()), (0, ""));
    for word in ["topology", "bench", "Examples:\n", "isles bench tpcc"] {
        assert!(help.output.contains(word), "{word} in {}", help.output);
    }
    for later in ["probe", "study", "advise", "serve", "verify", "check", "inspect", "backup", "deploy"] {
        assert!(!help.output.contains(later), "{later} in {}", help.output);
    }
}

#[test]
fn help_of_bench_has_every_flag_with_its_default() {
    let help = isles(&["bench", "--help"]).output;
    // Wrapping is the terminal's business.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let flags = [
        ("--machine", "native"),
        ("--cores", "all"),
        ("--smt", "all the machine has"),
        ("--deploy", "1isl"),
        ("--placement", "island"),
        ("--memory", "local"),
        ("--engine", "memory"),
        ("--cc", "silo"),
        ("--execution", "inline"),
        ("--durability", "none"),
        ("--timestamp", "clock"),
        ("--seconds", "10 native, 0.02 simulated"),
        ("--warmup", "1 native, 0.005 simulated"),
        ("--instrument", "on"),
        ("--seed", "1"),
        ("--warehouses", "one per worker"),
        ("--mix", "full"),
        ("--remote-payment", "15"),
        ("--remote-items", "1"),
        ("--schema", "full"),
        ("--scale", "1"),
        ("--inserts", "on"),
        ("--load", "home"),
        ("--rows", "10"),
        ("--zipf", "ycsb 0.99; micro: rows of the worker's own site"),
        ("--op", "read"),
        ("--row-bytes", "250"),
        ("--rows-per-site", "10000"),
        ("--multisite", "0"),
        ("--hot", "none"),
        ("--workload", "a"),
        ("--records", "1000000"),
        ("--threads", "all"),
        ("--counters", "single"),
    ];
    for (flag, default) in flags {
        let start = help.find(&format!("{flag} <")).unwrap_or_else(|| panic!("{flag} in {help}"));
        let text = &help[start..];
        let end = text.find(']').unwrap_or_else(|| panic!("default of {flag}"));
        assert!(text[..end].ends_with(&format!("[default: {default}")), "{flag}: {}", &text[..=end]);
    }
    for word in ["--transactions", "--json", "Examples:", "isles bench tpcc", "Ctrl-C", "Exit status"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    for later in ["--transport", "--adaptive", "--report", "--branches"] {
        assert!(!help.contains(later), "{later} in {help}");
    }
}

#[test]
fn help_of_topology_has_examples() {
    let help = isles(&["topology", "--help"]);
    assert_eq!((help.status, help.error.as_str()), (0, ""));
    assert!(help.output.contains("Examples:\n") && help.output.contains("--sysroot"));
}

#[test]
fn version_is_one_line() {
    assert_eq!(isles(&["--version"]).output, format!("isles {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn commands_of_later_versions_say_so() {
    for later in ["probe", "study", "advise", "serve", "verify", "check", "inspect", "backup", "deploy"] {
        let line = format!("{later}: not available in this version (accepted: topology, bench)");
        assert_fault(&[later], &line);
        assert_fault(&[later, "somewhere", "--flag", "1"], &line);
    }
}

/// Command lines and how the one line that answers each begins.
const FAULTS: &[(&str, &str)] = &[
    ("", "command: missing (accepted: topology, bench; see isles --help)"),
    ("frobnicate", "frobnicate: unknown command (accepted: topology, bench)"),
    ("--json", "--json: unknown flag (see isles --help)"),
    ("bench", "WORKLOAD: missing (accepted: micro, ycsb, tpcc, counter; see isles bench --help)"),
    ("bench nothing", "WORKLOAD nothing: unknown value (accepted: micro, ycsb, tpcc, counter)"),
    ("bench tatp", "WORKLOAD tatp: not available in this version"),
    ("bench tpcc tpcc", "tpcc: not expected here (see isles bench --help)"),
    ("bench tpcc -c 2", "-c: unknown flag (see isles bench --help)"),
    ("bench tpcc --core 1", "--core: unknown flag (similar: --cores; see isles bench --help)"),
    ("bench tpcc --pol 1", "--pol: unknown flag (see isles bench --help)"),
    ("bench tpcc --cores 1 --cores 2", "--cores: given more than once (see isles bench --help)"),
    ("bench tpcc --json=yes", "--json: takes no value (see isles bench --help)"),
    ("bench tpcc --cc", "--cc \"\": unknown value (accepted: silo, tictoc, no-wait, occ, mvcc, hstore)"),
    ("bench tpcc --transport", "--transport \"\": not available in this version (accepted: no --transport)"),
    ("bench tpcc --engine paged", "--engine paged: not available in this version (accepted: memory)"),
    ("bench tpcc --cores 0", "--cores 0: out of range (accepted: 1"),
    ("bench tpcc --cores 1000000", "--cores 1000000: out of range (accepted: 1"),
    ("bench tpcc --seconds -1", "--seconds -1: out of range"),
    ("bench tpcc --seconds nan", "--seconds nan: not a number"),
    ("bench tpcc --seconds 1 --transactions 5", "--seconds with --transactions: "),
    ("bench micro --warehouses 2", "--warehouses: a flag of workload tpcc, not of micro (accepted: --rows"),
    ("bench tpcc --machine toaster", "--machine toaster: unknown machine (accepted: native, dual-socket"),
    ("bench tpcc --machine mine.xml", "--machine mine.xml: description files: not available in this version"),
    ("bench tpcc --machine octo-socket --cores 81", "--cores 81: out of range (accepted: 1 to 80)"),
    ("bench tpcc --machine octo-socket --smt 2", "--smt 2: out of range (accepted: 1)"),
    ("bench tpcc --machine power9 --smt 9", "--smt 9: out of range (accepted: 1 to 8)"),
    ("topology --format svg", "--format svg: not available in this version (accepted: text, json)"),
    ("topology --format yaml", "--format yaml: unknown value (accepted: text, json)"),
    ("topology --format", "--format \"\": unknown value (accepted: text, json)"),
    ("topology --machine toaster", "--machine toaster: unknown machine (accepted: native, dual-socket"),
    ("topology --machine power8 --sysroot .", "--machine with --sysroot: each names the machine"),
    ("topology --sysroot /nonexistent/root", "--sysroot /nonexistent/root: "),
    ("topology --sysroot Cargo.toml", "--sysroot Cargo.toml: "),
    ("topology everything", "everything: not expected here (see isles topology --help)"),
];

#[test]
fn bad_input_gets_one_line_and_status_2() {
    for (line, expected) in FAULTS {
        assert_fault(&line.split_whitespace().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn odd_words_cannot_break_the_line() {
    assert_fault(&["bench", "a\nb"], "WORKLOAD a\\nb: unknown value");
    assert_fault(&["bench", ""], "WORKLOAD \"\": unknown value");
    assert_fault(&["topology", "--format", "\u{1b}[31m"], "--format \\u{1b}[31m: unknown value");
    assert_fault(&["a\r\nb"], "a\\r\\nb: unknown command");
    assert_fault(&["bench", "tpcc", "--c\nc", "silo"], "--c\\nc: unknown flag");
}

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
    for (name, packages) in [("dual-socket", 2), ("superdome-flex", 28), ("cluster", 2)] {
        let json = isles(&["topology", "--format", "json", "--machine", name]);
        let json: serde_json::Value = serde_json::from_str(&json.output).expect("one JSON object");
        assert_eq!(json["counts"]["packages"], packages, "{name}");
        assert_eq!(json["description"]["name"], name);
        assert!(json["tree"].is_object() && json["islands"].is_object(), "{name}");
    }
}

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn topology_reads_a_machine_under_a_directory() {
    let root = Scratch(std::env::temp_dir().join(format!("isles-topology-{}", std::process::id())));
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

#[test]
fn a_reader_that_leaves_early_is_no_crash() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_isles"))
        .args(["topology", "--format", "json", "--machine", "superdome-flex"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary of this package runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(1));
}
