//! `isles bench --path` over a directory that holds data: the same command goes on, and any other
//! size is refused before it runs.

// Tests write scratch files of their own.
#![allow(clippy::disallowed_methods)]

use std::process::Command;

use crate::support::{Outcome, PROGRAM, Scratch};

/// Runs a workload for some transactions in this directory. The error is its last line.
fn bench(path: &str, line: &str) -> Outcome {
    let mut command = Command::new(PROGRAM);
    command.arg("bench").args(line.split_whitespace());
    let outcome = Outcome::of(command.args(["--warmup", "0", "--transactions", "20", "--path", path]));
    // Behind the lines that say how it goes.
    let error = outcome.error.lines().last().unwrap_or_default().trim_start_matches("isles: ").to_owned();
    Outcome { error, ..outcome }
}

/// A first command, which loads, and others with what they are refused for: the flag that they ask
/// for, and what the directory has.
type Case = (&'static str, &'static [(&'static str, &'static str, &'static str)]);

const CASES: &[Case] = &[
    (
        "tpcc --cores 2 --warehouses 2 --scale 0.01",
        &[
            ("tpcc --cores 2 --warehouses 2 --scale 0.02", "--scale 0.02", "--scale 0.01"),
            ("tpcc --cores 2 --warehouses 3 --scale 0.01", "--warehouses 3", "--warehouses 2"),
            // One warehouse a worker.
            ("tpcc --cores 1 --scale 0.01", "--warehouses 1", "--warehouses 2"),
            ("tpcc --cores 2 --warehouses 2 --scale 0.01 --schema small", "--schema small", "--schema full"),
        ],
    ),
    (
        "tatp --cores 2 --subscribers 500",
        &[
            ("tatp --cores 2 --subscribers 600", "--subscribers 600", "--subscribers 500"),
            ("tatp --cores 1 --subscribers 500", "--cores 1", "--cores 2"),
        ],
    ),
    (
        "tpcb --cores 2 --scale 0.01",
        &[
            ("tpcb --cores 2 --scale 0.02", "--scale 0.02", "--scale 0.01"),
            ("tpcb --cores 2 --branches 3 --scale 0.01", "--branches 3", "--branches 2"),
        ],
    ),
    (
        "ycsb --cores 2 --records 500",
        &[
            ("ycsb --cores 2 --records 501", "--records 501", "--records 500"),
            ("ycsb --cores 1 --records 500", "--cores 1", "--cores 2"),
        ],
    ),
    (
        "micro --cores 2 --rows-per-site 100 --row-bytes 100",
        &[
            (
                "micro --cores 2 --rows-per-site 101 --row-bytes 100",
                "--rows-per-site 101",
                "--rows-per-site 100",
            ),
            ("micro --cores 1 --rows-per-site 100 --row-bytes 100", "--cores 1", "--cores 2"),
        ],
    ),
    (
        "dependent --cores 2 --rows-per-site 100",
        &[("dependent --cores 2 --rows-per-site 99", "--rows-per-site 99", "--rows-per-site 100")],
    ),
];

/// All cases of one way to run them, each in a directory of its own.
fn try_all(name: &str, flags: &str) {
    let scratch = Scratch::new(&format!("again-{name}"));
    for (number, (first, others)) in CASES.iter().enumerate() {
        let path = scratch.name(&number.to_string());
        let goes_on = || {
            let outcome = bench(&path, &format!("{first} {flags}"));
            assert_eq!(outcome.status, 0, "{first} {flags}: {}", outcome.error);
        };
        goes_on();
        for (line, asked, found) in *others {
            if flags.contains("--deploy core") && line.contains("--cores 1") {
                continue;
            }
            let outcome = bench(&path, &format!("{line} {flags}"));
            let is_divided = outcome.error.contains("divides") && flags.contains("--deploy");
            let expected = format!("{asked}: ");
            assert!(
                outcome.status == 2
                    && (is_divided || outcome.error.starts_with(&expected) && outcome.error.contains(found)),
                "{line} {flags}: {:?} {}",
                outcome.status,
                outcome.error
            );
        }
        // Nothing was changed meanwhile.
        goes_on();
    }
}

#[test]
fn another_size_is_refused_in_memory() {
    try_all("memory", "--engine memory");
}

#[test]
fn another_size_is_refused_over_pages() {
    try_all("paged", "--engine paged --pool 64MiB");
}

#[test]
fn another_size_is_refused_by_deployments() {
    try_all("deployed", "--deploy core");
}

#[test]
fn another_workload_is_refused() {
    let scratch = Scratch::new("again-workload");
    let path = scratch.name("data");
    assert_eq!(bench(&path, "tpcb --cores 1 --scale 0.01").status, 0);
    let other = bench(&path, "ycsb --cores 1 --records 100");
    let expected = format!("ycsb: {path} holds table \"branch\" of another workload (accepted: ");
    assert!(other.status == 2 && other.error.starts_with(&expected), "{}", other.error);
}

#[test]
fn another_engine_is_refused() {
    for (first, other) in [("memory", "paged"), ("paged", "memory")] {
        let scratch = Scratch::new(&format!("again-{first}-engine"));
        let path = scratch.name("data");
        let line = |engine: &str| format!("tpcb --cores 1 --scale 0.01 --engine {engine}");
        assert_eq!(bench(&path, &line(first)).status, 0);
        let refused = bench(&path, &line(other));
        let expected = format!("--engine {other}: {path} was loaded with --engine {first} (accepted: ");
        assert!(refused.status == 2 && refused.error.starts_with(&expected), "{}", refused.error);
    }
}

#[test]
fn a_deployment_is_not_opened_as_one_instance() {
    let scratch = Scratch::new("again-divided");
    let path = scratch.name("data");
    assert_eq!(bench(&path, "tpcb --cores 2 --scale 0.01 --deploy core").status, 0);
    for engine in ["memory", "paged"] {
        let other = bench(&path, &format!("tpcb --cores 2 --scale 0.01 --engine {engine}"));
        let expected =
            format!("--path {path}: holds a deployment of 2 instances (accepted: with --deploy 2isl");
        assert!(other.status == 2 && other.error.starts_with(&expected), "{}", other.error);
    }
}
