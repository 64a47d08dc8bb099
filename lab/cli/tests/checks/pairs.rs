//! Combinations of the flags of `isles bench`, small, on this machine and simulated: each runs with
//! all checks ok, or is refused with status 2 in one line that names a flag which was given. A line
//! that is refused goes on without that flag, until it runs.
//!
//! Lines are drawn by a seed so that each holds as many pairs of values as possible that no line
//! before has had. `ISLES_PAIRS` is the number of lines, `ISLES_PAIRS_SEED` the seed.

// Scratch files, and the clock.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use terms::random::Random;

use crate::support::{PROGRAM, Scratch};

/// Lines in CI.
const LINES: usize = 32;
/// Candidates of which one becomes a line.
const CANDIDATES: usize = 20;
/// Longer than any line takes: one that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// The words that a line may have in each place; none is one of the possibilities.
const CHOICES: &[&[&str]] = &[
    &[
        "micro --rows-per-site 200 --rows 4",
        "micro --op update --rows-per-site 200 --rows 4 --multisite 0.5",
        "ycsb --records 500",
        "ycsb --records 500 --workload d",
        "ycsb --records 500 --workload e",
        "tpcb --scale 0.01",
        "tpcc --scale 0.01",
        "tpcc --scale 0.01 --mix narrow",
        "tpcc --scale 0.01 --schema small --inserts off",
        "tatp --subscribers 500",
        "dependent --rows-per-site 200",
        "counter",
        "lock",
        "ipc",
        "memory --rows 1000",
    ],
    &["", "--machine native", "--machine dual-socket", "--machine dual-socket", "--machine cluster"],
    &["", "--deploy core", "--deploy core", "--deploy 1isl", "--deploy machine"],
    &["", "--engine memory", "--engine paged", "--engine paged"],
    &[
        "",
        "--cc silo",
        "--cc tictoc",
        "--cc occ",
        "--cc mvcc",
        "--cc no-wait",
        "--cc wait-die",
        "--cc dl-detect",
        "--cc hstore",
        "--cc 2pl",
    ],
    &["", "--execution inline", "--execution plp", "--execution atrapos"],
    &["", "--transport shm", "--transport uds", "--transport tcp"],
    &["", "--durability none", "--durability async", "--durability group", "--durability sync"],
    &["", "--in-flight 1", "--in-flight 3"],
    &["", "--retry exponential", "--retry fixed", "--retry buffer"],
    &["", "--clients instance", "--clients global"],
    &["", "", "--commit published"],
    &["", "--timestamp counter"],
    &[
        "",
        "--without thread-alloc",
        "--without hash-index",
        "--without queue-latch",
        "--without prefetch",
        "--without compiled-rows",
        "--without bounded-spin",
        "--without read-only-skip",
        "--without plain-locks,lookahead",
        "--without sli,aether",
    ],
    &["", "", "--like dbx1000"],
    &["", "", "--row-lock latch", "--row-lock word"],
    &["", "", "--row-copies rows"],
    &["", "", "--commit-locks no-wait"],
    &["", "", "--deadlocks lists"],
    &["", "--placement spread", "--placement os"],
    &["", "--memory central", "--memory remote"],
    &["", "--pool 16MiB"],
    &["", "--disk nvme"],
    &["", "", "--path data"],
    &["", "--adaptive on", "--adaptive off"],
    &["", "", "--scale-caches on"],
    &["", "--instrument off"],
    &["", "--json", "--report r.html"],
    &["", "", "--at 0=multisite=0.1"],
];

/// A choice of each place, by numbers.
type Combination = Vec<usize>;

/// The pairs of values of a combination.
fn pairs(one: &Combination) -> impl Iterator<Item = (usize, usize, usize, usize)> + '_ {
    let places = 0..one.len();
    places.flat_map(move |first| {
        (first + 1..one.len()).map(move |second| (first, one[first], second, one[second]))
    })
}

/// Lines that cover pairs: each is the best of some that are drawn.
fn combinations(count: usize, seed: u64) -> Vec<Combination> {
    let mut random = Random::new(seed, 35);
    let mut seen = BTreeSet::new();
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let mut draw = || -> Combination {
            CHOICES.iter().map(|choices| random.below(choices.len() as u64) as usize).collect()
        };
        let candidates: Vec<Combination> = (0..CANDIDATES).map(|_| draw()).collect();
        let new = |one: &&Combination| pairs(one).filter(|pair| !seen.contains(pair)).count();
        let best = candidates.iter().max_by_key(new).expect("there are some").clone();
        seen.extend(pairs(&best));
        all.push(best);
    }
    all
}

/// The outcome of a line.
struct Ended {
    status: Option<i32>,
    error: String,
}

/// Runs a line in a directory, after the data of the line before are removed.
fn run(scratch: &Scratch, words: &[String]) -> Ended {
    let _ = std::fs::remove_dir_all(scratch.0.join("data"));
    let mut running = Command::new(PROGRAM)
        .arg("bench")
        .args(words)
        .current_dir(&scratch.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary of this package runs");
    let began = Instant::now();
    let status = loop {
        match running.try_wait().expect("a child") {
            Some(status) => break status.code(),
            None if began.elapsed() > PATIENCE => {
                running.kill().expect("it is there");
                running.wait().expect("it ends");
                return Ended { status: None, error: "it hangs".to_owned() };
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let mut error = String::new();
    running.stderr.take().expect("it is piped").read_to_string(&mut error).expect("text");
    Ended { status, error }
}

/// Runs a line for a moment, without those of its flags that are refused. How many were; an
/// error: what is wrong.
fn until_it_runs(scratch: &Scratch, line: &str) -> Result<usize, String> {
    let mut parts = flags(&format!("{line} --cores 2 --seconds 0.002 --warmup 0"));
    let mut refused = 0;
    loop {
        let words = parts.concat();
        let Ended { status, error } = run(scratch, &words);
        let fault = |what: &str| Err(format!("isles bench {}: {what}: {}", words.join(" "), error.trim()));
        match status {
            Some(0) if error.contains("panicked") => return fault("it panics"),
            Some(0) => return Ok(refused),
            Some(2) => {}
            _ => return fault(&format!("status {status:?}")),
        }
        if error.lines().count() != 1 || !error.starts_with("isles: ") {
            return fault("not one line");
        }
        let named = |part: &Vec<String>| {
            error.split(|one: char| one.is_whitespace() || one == ':').any(|word| word == part[0])
        };
        // In front stands the workload.
        let Some(place) = parts.iter().skip(1).position(named) else {
            return fault("names no flag that was given");
        };
        parts.remove(place + 1);
        refused += 1;
    }
}

/// A text of flags, each with its value; a word in front, which names a workload, stands alone.
fn flags(text: &str) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    for word in text.split_whitespace() {
        match all.last_mut() {
            Some(last) if !word.starts_with("--") => last.push(word.to_owned()),
            _ => all.push(vec![word.to_owned()]),
        }
    }
    all
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn combinations_of_flags_run_or_are_refused_by_name() {
    let lines = number("ISLES_PAIRS").map_or(LINES, |lines| lines as usize);
    let scratch = Scratch::new("pairs");
    let all = combinations(lines, number("ISLES_PAIRS_SEED").unwrap_or(1));
    let line = |one: &Combination| -> String {
        let chosen = one.iter().zip(CHOICES).map(|(number, choices)| choices[*number]);
        chosen.filter(|choice| !choice.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let faults: Vec<String> =
        all.iter().filter_map(|one| until_it_runs(&scratch, &line(one)).err()).collect();
    assert!(faults.is_empty(), "{} of {lines}:\n{}", faults.len(), faults.join("\n"));
}

/// Each workload with nothing but its defaults, for a short time.
#[test]
fn every_workload_runs_with_its_defaults() {
    let scratch = Scratch::new("defaults");
    let workloads: BTreeSet<&str> =
        CHOICES[0].iter().filter_map(|choice| choice.split_whitespace().next()).collect();
    for workload in workloads {
        let mut words = vec![workload.to_owned(), "--seconds".to_owned(), "0.2".to_owned()];
        if workload == "tpcc" {
            // All rows of a warehouse take a while where nothing is optimised.
            words.extend(["--scale", "0.1"].map(str::to_owned));
        }
        let Ended { status, error } = run(&scratch, &words);
        assert_eq!(status, Some(0), "isles bench {}: {error}", words.join(" "));
    }
}

/// A status that says nothing of flags is found.
#[test]
fn a_line_that_fails_is_found() {
    let scratch = Scratch::new("pairs-planted");
    let tpcb = "tpcb --scale 0.01";
    assert_eq!(until_it_runs(&scratch, &format!("{tpcb} --scale-caches on --warehouses 3")), Ok(2));
    let fault = until_it_runs(&scratch, &format!("{tpcb} --path /dev/null/data")).expect_err("no directory");
    assert!(fault.contains("status Some(1): isles: /dev/null"), "{fault}");
}
