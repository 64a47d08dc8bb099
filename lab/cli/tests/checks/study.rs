//! `isles study` and `isles bench --report` as a user meets them, with small studies.

// Tests write scratch files of their own.
#![allow(clippy::disallowed_methods)]

use std::process::Command;

use crate::support::{Outcome, PROGRAM, Scratch};

/// Runs the binary in a directory, with a cache of its own.
fn run(scratch: &Scratch, line: &str) -> Outcome {
    let mut command = Command::new(PROGRAM);
    command.args(line.split_whitespace()).current_dir(&scratch.0);
    Outcome::of(command.env("XDG_CACHE_HOME", scratch.0.join("cache")))
}

/// Two findings: one that holds, and one that does not. The counter with one core in each of two
/// sockets is a run of two findings, written differently.
const SMALL: &str = r#"
title = "A small <study>"

[[finding]]
id = "more-counters"
source = "[T] 1"
claim = "a counter of its own for each core is faster"
published = true
accept = true
value = "core.throughput > single.throughput and core.checks.counter_sum == \"ok\""
[finding.runs]
single = "counter --machine dual-socket --threads 4 --seconds 0.0005 --warmup 0"
core   = "counter --machine dual-socket --threads 4 --seconds 0.0005 --warmup 0 --counters core"

[[finding]]
id = "impossible"
source = "[T] 2"
claim = "counters are a million times faster"
published = 2e6
accept = [1e6, 3e6]
value = "core.throughput / single.throughput"
[finding.runs]
single = "counter --machine dual-socket --cores 4 --seconds 0.0005 --warmup 0 --counters single --seed 1"
core   = "counter --machine dual-socket --cores 4 --seconds 0.0005 --warmup 0 --counters core"
"#;

fn object(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.output).unwrap_or_else(|error| panic!("{error}: {}", outcome.output))
}

#[test]
fn a_study_is_run_judged_and_reported() {
    let scratch = Scratch::new("study-whole");
    scratch.write("small.toml", SMALL);
    let first = run(&scratch, "study small.toml --json --jobs 2");
    assert_eq!(first.status, 1, "{}", first.error);
    let json = object(&first);
    let counts = serde_json::json!({"pass": 1, "fail": 1, "failed": 0, "not_yet": 0, "stopped": 0});
    assert_eq!(json["counts"], counts, "{}", first.output);
    // Of four runs, two pairs are the same.
    assert_eq!(json["runs"], serde_json::json!({"needed": 2, "done": 2, "cached": 0}));
    let findings = json["findings"].as_array().expect("a list");
    assert_eq!(findings[0]["measured"], true);
    assert_eq!(findings[1]["verdict"], "fail");
    assert_eq!(findings[0]["runs"]["core"]["result"], findings[1]["runs"]["core"]["result"]);
    assert!(first.error.ends_with("isles: finding failed: impossible\n"), "{}", first.error);
    let page = scratch.read("small.html");
    for part in ["A small &lt;study&gt;", "id=\"more-counters\"", "chip good\">pass"] {
        assert!(page.contains(part), "{part} in {page}");
    }

    // The second time nothing is run, and all results are the same.
    let second = run(&scratch, "study small.toml --json --report again.html");
    assert_eq!(object(&second)["runs"], serde_json::json!({"needed": 2, "done": 2, "cached": 2}));
    assert_eq!(scratch.read("again.html"), page);
    let without = object(&run(&scratch, "study small.toml --json --no-cache"));
    assert_eq!(without["runs"]["cached"], 0);
    assert_eq!(without["findings"][1]["measured"], findings[1]["measured"]);
}

#[test]
fn a_study_without_failures_is_a_success() {
    let scratch = Scratch::new("study-part");
    scratch.write("small.toml", SMALL);
    let outcome = run(&scratch, "study small.toml --only more-* --cache elsewhere");
    assert_eq!(outcome.status, 0, "{}", outcome.error);
    let lines: Vec<&str> = outcome.output.lines().collect();
    assert!(lines[0].starts_with("finding "), "{}", outcome.output);
    assert!(lines[1].starts_with("more-counters       true       true  pass "), "{}", outcome.output);
    assert_eq!(lines[3], "1 finding: 1 pass");
    assert_eq!(std::fs::read_dir(scratch.0.join("elsewhere")).expect("the cache").count(), 2);
}

#[test]
fn a_run_that_fails_is_not_a_finding_that_fails() {
    let scratch = Scratch::new("study-broken");
    let broken = SMALL.replace("--counters single --seed 1", "--counters none");
    scratch.write("small.toml", &broken);
    let outcome = run(&scratch, "study small.toml --only impossible --json");
    assert_eq!(outcome.status, 1);
    let finding = &object(&outcome)["findings"][0];
    assert_eq!(finding["verdict"], "failed");
    let reason = "run single: --counters none: unknown value (accepted: single, socket, core)";
    assert_eq!(finding["reason"], reason);
}

/// Two figures that share their runs with each other and with a finding of [`SMALL`].
const FIGURES: &str = r#"
[sizes.smoke]
arguments = "--seconds 0.0002"

[[figure]]
id = "counters"
source = "[T] Fig. 1"
about = "increments"
x = { label = "threads", values = [2, 4] }
y = { label = "million a second", value = "run.throughput / 1e6" }
run = "counter --machine dual-socket --threads {x} --seconds 0.0005 --warmup 0"
smoke = { values = [1] }
[figure.series]
"one counter" = ""
"a counter a core" = "--counters core"
"an unknown kind" = "--counters none"

[[figure]]
id = "kinds"
source = "[T] Fig. 2"
about = "the same as bars"
x = { label = "counters", values = ["single", "core"] }
y = { label = "relative", value = "run.throughput / baseline.throughput" }
run = "counter --machine dual-socket --threads 4 --seconds 0.0005 --warmup 0 --counters {x}"
baseline = "--counters single"
[figure.series]
"4 threads" = ""
"#;

#[test]
fn figures_are_run_and_drawn() {
    let scratch = Scratch::new("study-figures");
    scratch.write("small.toml", format!("{FIGURES}{SMALL}").replacen("title = \"A small <study>\"", "", 1));
    let outcome = run(&scratch, "study small.toml --json --only counters,kinds,more-*");
    assert_eq!(outcome.status, 1, "{}", outcome.error);
    assert!(outcome.error.ends_with("isles: figure failed: counters\n"), "{}", outcome.error);
    let json = object(&outcome);
    // Two positions for two series; those of four threads are the runs of the others, too.
    assert_eq!(json["runs"], serde_json::json!({"needed": 4, "done": 4, "cached": 0}));
    let [counters, kinds] = [&json["figures"][0], &json["figures"][1]];
    assert_eq!(counters["x"], serde_json::json!({"label": "threads", "values": [2.0, 4.0]}));
    assert_eq!(counters["status"], "failed");
    let reason = "an unknown kind at 2: run run: --counters none: unknown value";
    assert!(counters["reason"].as_str().is_some_and(|text| text.starts_with(reason)), "{counters}");
    assert!(counters["series"][1]["points"][1]["y"].is_number(), "{counters}");
    assert!(counters["series"][2]["points"][1]["y"].is_null(), "{counters}");
    assert_eq!((&kinds["status"], &kinds["series"][0]["points"][0]["y"]), (&"done".into(), &1.0.into()));
    let page = scratch.read("small.html");
    for part in ["<a href=\"#kinds\">", ">a counter a core</text>", ">threads</text>", "chip bad\">failed"] {
        assert!(page.contains(part), "{part} in {page}");
    }

    let text = run(&scratch, "study small.toml --only kinds,counters").output;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["counters  [T] Fig. 1", "million a second over threads"], "{text}");
    assert_eq!(lines[2], "  x  one counter  a counter a core  an unknown kind");
    assert!(lines[3].starts_with("  2 ") && lines[3].ends_with("  -"), "{text}");
    assert!(
        text.contains("\n2 figures: 1 done, 1 failed\nfailed counters: an unknown kind at 2: "),
        "{text}"
    );

    let smoke = object(&run(&scratch, "study small.toml --size smoke --json --only counters"));
    assert_eq!(smoke["figures"][0]["series"][0]["points"].as_array().map(Vec::len), Some(1));
    let command = smoke["figures"][0]["series"][0]["points"][0]["commands"][0].as_str().expect("a command");
    assert!(command.ends_with("--threads 1 --warmup 0 --seconds 0.0002"), "{command}");
}

#[test]
fn a_folder_of_studies_has_one_page_and_one_table() {
    let scratch = Scratch::new("study-folder");
    std::fs::create_dir(scratch.0.join("all")).expect("a folder");
    scratch.write("all/findings.toml", SMALL);
    let published =
        FIGURES.replacen("[figure.series]", "published = { \"one counter\" = [1, nan] }\n[figure.series]", 1);
    scratch.write("all/curves.toml", published);
    scratch.write("all/later.toml", format!("in_folder = false\n{SMALL}"));
    scratch.write("all/notes.md", "no study");
    let outcome = run(&scratch, "study all --json --only counters,more-* --markdown all.md");
    assert_eq!(outcome.status, 1, "{}", outcome.error);
    assert!(
        outcome.error.contains("isles: left out: all/later.toml (in_folder = false)\n"),
        "{}",
        outcome.error
    );
    let json = object(&outcome);
    let files: Vec<&str> =
        json["studies"].as_array().expect("a list").iter().filter_map(|one| one["study"].as_str()).collect();
    assert_eq!(files, ["all/curves.toml", "all/findings.toml"]);
    assert_eq!((&json["counts"]["pass"], &json["report"]), (&1.into(), &"all/index.html".into()));
    // The runs of four threads are those of the finding.
    assert_eq!(json["runs"], serde_json::json!({"needed": 4, "done": 4, "cached": 0}));
    let series = &json["studies"][0]["figures"][0]["series"][0];
    assert_eq!(series["published"], serde_json::json!([1.0, null]));
    let page = scratch.read("all/index.html");
    for part in ["All studies", "<a href=\"#findings:more-counters\">", ">one counter, published</text>"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let table = scratch.read("all.md");
    for part in
        ["## A small \\<study>\n", "\n| `more-counters` | \\[T\\] 1 |", "| true | true | true | pass |\n"]
    {
        assert!(table.contains(part), "{part} in {table}");
    }
    let text = run(&scratch, "study all --only more-*").output;
    assert!(text.starts_with("all/findings.toml\nfinding "), "{text}");
}

/// Command lines and the one line that answers each.
const FAULTS: &[(&str, &str)] = &[
    ("study", "FILE: missing (accepted: a study file; see isles study --help)"),
    ("study nothing.toml", "FILE nothing.toml: No such file or directory"),
    ("study bad.toml", "bad.toml: finding number 1: id: missing (accepted: text in quotes)"),
    ("study small.toml --only x*", "--only x*: fits no finding (accepted: more-counters, impossible)"),
    ("study small.toml --size huge", "--size huge: unknown value (accepted: smoke, normal, full)"),
    ("study small.toml --jobs 0", "--jobs 0: out of range (accepted: 1 to 4096)"),
    (
        "study small.toml --cache a --no-cache",
        "--cache with --no-cache: contradict (accepted: one of the two)",
    ),
    ("study empty", "FILE empty: no study files (accepted: a folder with study files)"),
    ("study small.toml bad.toml", "bad.toml: finding number 1: id: missing (accepted: text in quotes)"),
    ("study small.toml --markdown no/where.md", "--markdown no/where.md: No such file or directory"),
    ("study small.toml --cache small.toml", "--cache small.toml: "),
    ("study small.toml --report no/where.html", "--report no/where.html: No such file or directory"),
    ("study small.toml --reports x", "--reports: unknown flag (similar: --report; see isles study --help)"),
    ("bench counter --report no/where.html", "--report no/where.html: No such file or directory"),
];

#[test]
fn bad_input_gets_one_line_and_status_2() {
    let scratch = Scratch::new("study-faults");
    scratch.write("small.toml", SMALL);
    scratch.write("bad.toml", "[[finding]]\n");
    std::fs::create_dir(scratch.0.join("empty")).expect("a folder");
    for (line, expected) in FAULTS {
        let Outcome { status, output, error } = run(&scratch, line);
        assert_eq!((status, output.as_str()), (2, ""), "{line}: {error}");
        assert!(error.starts_with(&format!("isles: {expected}")), "{line}: {error}");
        assert_eq!(error.lines().count(), 1, "{line}: {error}");
    }
    assert!(!scratch.0.join("small.html").exists());
}

#[test]
fn a_bench_writes_a_page_beside_its_result() {
    let scratch = Scratch::new("study-bench");
    let line = "bench counter --machine dual-socket --threads 2 --seconds 0.0005 --warmup 0 --json --report run.html";
    let outcome = run(&scratch, line);
    assert_eq!(outcome.status, 0, "{}", outcome.error);
    assert_eq!(object(&outcome)["machine"], "dual-socket");
    let page = scratch.read("run.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("isles bench counter on dual-socket"));
    assert!(page.contains(&format!("isles {line}</code>")), "{page}");
}

#[test]
fn the_published_findings_can_be_read() {
    let scratch = Scratch::new("study-published");
    let published = include_str!("../../../../studies/findings.toml");
    // As they are published they take minutes.
    let short = published.replace("--threads 80", "--threads 20 --seconds 0.0002 --warmup 0");
    scratch.write("findings.toml", &short);
    let outcome = run(&scratch, "study findings.toml --json --only islands-counter-*");
    assert!(outcome.status <= 1, "{}", outcome.error);
    let json = object(&outcome);
    let findings = json["findings"].as_array().expect("a list");
    assert!(findings.len() > 1 && findings.iter().all(|finding| finding["measured"].is_number()), "{json}");
}
