//! The interface that programs and scripts rely on does not change: the flags of each command, the
//! refusal of a value that a flag does not take, and the keys of the JSON that runs print.
//! `tests/frozen` has them. `ISLES_FROZEN=write` writes them anew, for an intended change.

// Golden files.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::Path;

use cli::COMMANDS;
use cli::choices::WorkloadName;
use harness::Choice;
use serde_json::Value;

use crate::support::isles;

/// Runs whose results have different keys.
const RUNS: [&str; 10] = [
    "tpcc --scale 0.01 --seconds 0.05 --warmup 0",
    "tpcc --scale 0.01 --seconds 0.05 --warmup 0 --deploy core",
    "tpcc --scale 0.01 --seconds 0.05 --warmup 0 --engine paged",
    "micro --rows-per-site 500 --machine dual-socket --cores 2 --seconds 0.0002",
    "micro --rows-per-site 500 --machine dual-socket --cores 4 --seconds 0.0002 --deploy 2isl --clients global",
    "tatp --subscribers 500 --machine dual-socket --cores 4 --seconds 0.0002 --execution atrapos",
    "counter --seconds 0.05",
    "lock --seconds 0.3",
    "ipc --seconds 0.05",
    "memory --rows 1000 --seconds 0.05",
];

/// The frozen text of this name is this one.
fn assert_frozen(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(name);
    if std::env::var("ISLES_FROZEN").is_ok_and(|what| what == "write") {
        std::fs::write(&path, found).expect("written");
    }
    let frozen = std::fs::read_to_string(&path).expect("a frozen text");
    if let Some(difference) = difference(&frozen, found) {
        panic!("{name}: {difference}; if that is meant: ISLES_FROZEN=write");
    }
}

/// Lines that one text has and the other has not.
fn difference(frozen: &str, found: &str) -> Option<String> {
    let [frozen, found] = [frozen, found].map(|text| text.lines().collect::<BTreeSet<_>>());
    let lines = |sign, lines: Vec<&&str>| -> Vec<String> {
        lines.into_iter().map(|line| format!("{sign} {line}")).collect()
    };
    let gone = lines('-', frozen.difference(&found).collect());
    let new = lines('+', found.difference(&frozen).collect());
    let all = [gone, new].concat();
    (!all.is_empty()).then(|| all.join("\n"))
}

/// The flags of a command, each with the name of its value.
fn flags(command: &str) -> Vec<String> {
    let help = isles(&[command, "--help-all"]).output;
    let flags = help.lines().filter_map(|line| {
        // Lines of explanations are further to the right.
        let flag = line.strip_prefix("  -h, ").or(line.strip_prefix("      "))?;
        let flag = flag.starts_with("--").then(|| flag.split("  ").next().unwrap_or_default())?;
        Some(flag.trim().to_owned())
    });
    flags.collect()
}

#[test]
fn flags_are_as_they_were() {
    let all = COMMANDS
        .iter()
        .flat_map(|command| flags(command).into_iter().map(move |flag| format!("isles {command} {flag}\n")));
    let all: String = all.collect();
    assert!(all.lines().count() > 100, "{all}");
    assert_frozen("flags.txt", &all);
}

/// Each flag of a benchmark with a value that it does not take, and with each workload that does
/// not have it.
#[test]
fn refusals_of_flags_are_as_they_were() {
    let mut all = String::new();
    for flag in flags("bench") {
        let name = flag.split(' ').next().unwrap_or_default();
        if ["--help", "--help-all", "--json", "--report", "--path"].contains(&name) || !flag.contains('<') {
            continue;
        }
        for (workload, _) in WorkloadName::ALL {
            // The native machine has other numbers of cores everywhere.
            let machine: &[&str] = if name == "--machine" { &[] } else { &["--machine", "dual-socket"] };
            let line = [&["bench", *workload, name, "no-such-value"], machine].concat();
            let refused = isles(&line);
            assert_eq!(refused.status, 2, "{workload} {name}: {}", refused.error);
            let said = format!("{name}: {}\n", refused.error.trim_end());
            // Most workloads say the same.
            if !all.contains(&said) {
                all += &said;
            }
        }
    }
    assert_frozen("refusals.txt", &all);
}

/// The paths of a value with their types.
fn paths(value: &Value, path: &str, all: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            items.iter().for_each(|item| paths(item, &format!("{path}[]"), all));
            "array"
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| paths(field, &format!("{path}.{name}"), all));
            "object"
        }
    };
    all.insert(format!("{path}: {kind}"));
}

#[test]
fn keys_of_results_are_as_they_were() {
    let mut all = String::new();
    for run in RUNS {
        let words: Vec<&str> = ["bench"].into_iter().chain(run.split(' ')).chain(["--json"]).collect();
        let ran = isles(&words);
        assert_eq!(ran.status, 0, "{run}: {}", ran.error);
        let value: Value = serde_json::from_str(&ran.output).expect("JSON");
        let mut found = BTreeSet::new();
        paths(&value, "", &mut found);
        let name = run.split(" --seconds").next().unwrap_or_default();
        all.extend(found.iter().map(|path| format!("{name}: {path}\n")));
    }
    assert_frozen("keys.txt", &all);
}

#[test]
fn a_line_that_is_gone_or_new_is_found() {
    assert_eq!(difference("a\nb\n", "b\na\n"), None);
    assert_eq!(difference("a\nb\n", "a\nc\n").as_deref(), Some("- b\n+ c"));
    let mut found = BTreeSet::new();
    paths(&serde_json::json!({"a": [{"b": 1}, null]}), "", &mut found);
    let expected = [".a: array", ".a[].b: number", ".a[]: null", ".a[]: object", ": object"];
    assert_eq!(Vec::from_iter(found), expected);
}
