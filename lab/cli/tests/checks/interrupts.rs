//! Ctrl-C: a report says what was measured, also if that is nothing, and the status is that of a
//! full run.

use std::io::{BufRead, BufReader, Read};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PROGRAM, start};

/// Runs a line that would take a minute, and interrupts it when it says that it runs: status and
/// report.
fn interrupted(line: &str) -> (Option<i32>, String) {
    let mut running = start(Command::new(PROGRAM).args(line.split_whitespace()));
    let mut told = BufReader::new(running.stderr.take().expect("it is piped")).lines();
    let runs =
        told.any(|line| line.is_ok_and(|line| line.contains("running") || line.contains("loading 1,000")));
    assert!(runs, "{line}");
    let pid = Pid::from_child(&running);
    kill_process(pid, Signal::INT).expect("it is there");
    let mut report = String::new();
    running.stdout.take().expect("it is piped").read_to_string(&mut report).expect("text");
    // Read to its end, lest it waits for a reader.
    told.for_each(drop);
    (running.wait().expect("it ends").code(), report)
}

#[test]
fn nothing_measured_is_said_so() {
    for flags in ["--durability none", "--engine paged --pool 64MiB --durability none"] {
        let line = format!("bench ycsb --records 2000 --cores 2 --warmup 60 --seconds 60 {flags}");
        let (status, report) = interrupted(&line);
        assert_eq!(status, Some(0), "{report}");
        let words = "  interrupted    before the measured time began: nothing was measured\n";
        assert!(report.contains(words) && !report.contains("commits/s"), "{report}");
    }
}

#[test]
fn what_ran_is_reported() {
    for line in [
        "bench ycsb --records 2000 --cores 2 --warmup 0 --seconds 60 --durability none",
        "bench counter --threads 2 --seconds 60",
        "bench lock --threads 2 --warmup 0 --seconds 60",
        "bench ipc --warmup 0 --seconds 60",
        "bench memory --cores 1 --rows 1000 --warmup 0 --seconds 60",
    ] {
        let (status, report) = interrupted(line);
        assert_eq!(status, Some(0), "{report}");
        // The interrupt may come before the first operation.
        let measured = report.contains("  interrupted    ended early: all numbers are of what ran\n");
        let nothing =
            report.contains("  interrupted    before the measured time began: nothing was measured\n");
        let has_rate = report.contains("  throughput ");
        assert!(measured != nothing && measured == has_rate, "{report}");
    }
}
