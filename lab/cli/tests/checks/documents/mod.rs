//! Every command that README, the documents and `--help` show runs as written, with the status that
//! it shows: success. Where its output is shown, that is what it prints ([`printed`]).
//!
//! A command is shortened by one rule ([`shorten`]) and run by a shell, since lines redirect. Names
//! in capitals stand for values, of which [`VALUES`] has one each. Lines of one text run one after
//! the other in a directory of their own, in which lies what they need.

// Scratch files, and the clock.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod fixtures;
mod lines;
mod printed;
mod shorten;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use fixtures::Scratch;
use lines::{Line, Text};

/// Values of names in capitals in blocks of commands. Commands within a sentence that have such
/// names are not run.
const VALUES: [(&str, &str); 7] =
    [("L", "async"), ("OP", "update"), ("M", "0.2"), ("D", "2isl"), ("S", "silo"), ("N", "4"), ("R", "15")];

/// Lines that are not run here, and why.
const NOT_RUN: [(&str, &str); 3] = [
    ("isles serve --path data", "serves until it is ended, by a program that is built on its own"),
    ("isles deploy far.toml", "needs its instances at the same time: checks/instances.rs runs both"),
    ("isles deploy far.toml --instance 1", "the same"),
];

/// Runs a line in this directory; its output.
///
/// # Errors
/// It has another status than success, or a study's (some findings of a short run may fail), or has
/// panicked.
fn run(line: &str, directory: &Path) -> Result<String, String> {
    let program = Path::new(crate::support::PROGRAM);
    let binaries = program.parent().expect("a program is in a directory").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(directory)
        .env("PATH", format!("{binaries}:{path}"))
        .env("XDG_CACHE_HOME", directory.join("cache"))
        .stdin(Stdio::null())
        .output()
        .expect("a shell runs");
    let error = String::from_utf8_lossy(&output.stderr);
    let is_study = line.starts_with("isles study");
    let is_fine = match output.status.code() {
        Some(0) => true,
        Some(1) => is_study && !error.contains("isles: run"),
        _ => false,
    };
    if is_fine && !error.contains("panicked") {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = error.lines().last().unwrap_or_default();
    Err(format!("{line}: {:?}: {said}", output.status.code()))
}

/// The faults of the commands of a text, without those that are run elsewhere.
fn faults(text: &Text, elsewhere: &[String]) -> Vec<String> {
    let scratch = Scratch::for_text(&text.name);
    let mut seen = elsewhere.to_vec();
    let mut faults = Vec::new();
    for Line { command, output } in &text.lines {
        if NOT_RUN.iter().any(|(other, _)| other == command) {
            continue;
        }
        let short = shorten::shorten(&lines::with_values(command, &VALUES));
        if seen.contains(&short) && output.is_empty() {
            continue;
        }
        let began = Instant::now();
        let fault = match run(&short, scratch.path()) {
            Ok(printed) if !output.is_empty() => printed::difference(output, &printed),
            ran => ran.err(),
        };
        faults.extend(fault.map(|fault| format!("{}: {command}\n    {fault}", text.name)));
        // Seen with --nocapture: what a line takes of this test.
        println!("{:>6} ms  {short}", began.elapsed().as_millis());
        seen.push(short);
    }
    faults
}

fn assert_all_run(texts: &[Text], elsewhere: &[String]) {
    let faults: Vec<String> = texts.iter().flat_map(|text| faults(text, elsewhere)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_of_help_run() {
    let texts = lines::of_help();
    let count: usize = texts.iter().map(|text| text.lines.len()).sum();
    assert!(count > 50, "{count} lines: the help has lost its examples, or they are not found");
    assert_all_run(&texts, &[]);
    for (line, why) in NOT_RUN {
        assert!(
            texts.iter().any(|text| text.lines.iter().any(|other| other.command == line)),
            "{line}: {why}"
        );
    }
}

#[test]
fn commands_of_documents_run() {
    let texts = lines::of_documents();
    let count: usize = texts.iter().map(|text| text.lines.len()).sum();
    assert!(count > 50, "{count} lines: they are not found");
    // Measuring takes seconds: what the help shows of it is run as such.
    let of_help = lines::of_help();
    let commands = of_help.iter().flat_map(|text| &text.lines).map(|line| &line.command);
    let probes = commands.filter(|command| command.starts_with("isles probe"));
    let elsewhere: Vec<String> = probes.map(|command| shorten::shorten(command)).collect();
    assert_all_run(&texts, &elsewhere);
}

/// Flags of documents that no command has, or values that it refuses, are found.
#[test]
fn a_line_that_does_not_run_is_found() {
    let document = "Text.\n\n    isles bench tpcc --warehouses 1\n    isles bench tpcc --warehoses 1\n\n\
                    ```sh\ncargo run --release -- bench ycsb --workload z   # no such one\n```\n\
                    and `isles topology --machine toaster` in a sentence.\n\n\
                    ```console\n$ isles topology --machine power8\nsomething else\n...\n```\n";
    let text = Text { name: "planted".to_owned(), lines: lines::of_document(document) };
    assert_eq!(text.lines.len(), 5, "{:?}", text.lines);
    let found = faults(&text, &[]);
    let expected = [
        "--warehoses: unknown flag",
        "--workload z: unknown value",
        "--machine toaster: unknown machine",
        "shown, but not printed: \"something else\"",
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (fault, words) in found.iter().zip(expected) {
        assert!(fault.contains(words), "{fault}");
        assert!(fault.contains("Some(2)") != words.starts_with("shown"), "{fault}");
    }
}
