use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::plan::PlannedRun;
use crate::testing::Scratch;

/// Counts the runs that ended. Stops after a given number.
#[derive(Default)]
struct CountingWatcher {
    ended: AtomicUsize,
    stopped: AtomicBool,
    stop_after: Option<usize>,
}

impl Watcher for CountingWatcher {
    fn ended(&self, _: usize, _: &Outcome) {
        let ended = self.ended.fetch_add(1, Ordering::SeqCst) + 1;
        if self.stop_after == Some(ended) {
            self.stopped.store(true, Ordering::SeqCst);
        }
    }

    fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    fn warn(&self, warning: &str) {
        panic!("{warning}");
    }
}

/// A program whose result is its second argument, which counts its starts, and which fails in
/// several ways on request.
const PROGRAM: &str = r#"#!/bin/sh
echo x >> "$(dirname "$0")/started"
case "$2" in
  broken) echo "isles: progress" >&2; echo "isles: it broke" >&2; exit 1;;
  later) echo "isles: --flag: not available in this version (accepted: none)" >&2; exit 2;;
  wrong) echo "isles: --flag: unknown" >&2; exit 2;;
  silent) exit 1;;
  chatter) echo "no json"; exit 0;;
  interrupted) echo '{"interrupted": true}';;
  alone)
    mkdir "$(dirname "$0")/alone" || { echo "isles: not alone" >&2; exit 1; }
    sleep 0.05; rmdir "$(dirname "$0")/alone"
    echo '{"throughput": 1}';;
  together)
    touch "$(dirname "$0")/together-$$"
    for attempt in $(seq 1000); do
      [ "$(ls "$(dirname "$0")" | grep -c together-)" = 2 ] && { echo '{"throughput": 1}'; exit; }
      sleep 0.01
    done
    exit 1;;
  forever) echo '{"throughput": 1}'; exec sleep 1000;;
  large) head -c 300000 /dev/zero | tr '\0' ' '; head -c 300000 /dev/zero >&2; echo '{"throughput": 1}';;
  *) echo "{\"throughput\": $2, \"last\": \"$3\"}";;
esac
"#;

fn program(scratch: &Scratch) -> PathBuf {
    let (text, program) = (scratch.path.join("text"), scratch.path.join("program"));
    std::fs::write(&text, PROGRAM).expect("a scratch file");
    // Another process makes it: a child that a concurrent test starts meanwhile would have it open
    // for writing, and a file that is open for writing cannot be executed.
    let made = Command::new("install").args(["-m", "755"]).args([&text, &program]).status();
    assert!(made.expect("install").success());
    program
}

fn started(scratch: &Scratch) -> usize {
    std::fs::read_to_string(scratch.path.join("started")).map_or(0, |text| text.lines().count())
}

fn plan(words: &[&str], native: bool) -> Plan {
    let run = |word: &&str| PlannedRun {
        arguments: vec![(*word).to_owned()],
        resolution: Resolution::Ready { identity: (*word).to_owned(), native },
        needed: true,
    };
    Plan { runs: words.iter().map(run).collect(), ..Plan::default() }
}

fn executor(scratch: &Scratch, cache: Option<&Path>) -> Executor {
    let cache = cache.map(|directory| Cache::open(directory, "program").expect("a scratch directory"));
    Executor { program: program(scratch), jobs: 3, cache }
}

#[test]
fn every_end_of_a_run_has_its_outcome() {
    let scratch = Scratch::new("outcomes");
    let words = ["1.5", "broken", "later", "wrong", "silent", "chatter", "interrupted", "large", "2"];
    let watcher = CountingWatcher::default();
    let outcomes = executor(&scratch, None).execute(&plan(&words, false), &watcher);
    let failed = |reason: &str| Outcome::Failed(reason.to_owned());
    let done = |text: &str| Outcome::Done { result: serde_json::from_str(text).unwrap(), cached: false };
    let later = "--flag: not available in this version (accepted: none)";
    let expected = [
        done(r#"{"throughput": 1.5, "last": "--json"}"#),
        failed("it broke"),
        Outcome::NotYet(later.to_owned()),
        failed("--flag: unknown"),
        failed("exit status: 1"),
        failed("the run printed no JSON object"),
        failed("the run was interrupted"),
        done(r#"{"throughput": 1}"#),
        done(r#"{"throughput": 2, "last": "--json"}"#),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(watcher.ended.load(Ordering::SeqCst), words.len());
}

#[test]
fn the_cache_saves_good_results_of_simulated_machines() {
    let scratch = Scratch::new("cached");
    let directory = scratch.path.join("results");
    let executor = executor(&scratch, Some(&directory));
    let cached = |outcomes: &[Outcome]| -> Vec<bool> {
        outcomes.iter().map(|outcome| matches!(outcome, Outcome::Done { cached: true, .. })).collect()
    };
    let run = |words: &[&str], native| executor.execute(&plan(words, native), &CountingWatcher::default());
    assert_eq!(cached(&run(&["1", "broken"], false)), [false, false]);
    assert_eq!(started(&scratch), 2);
    assert_eq!(cached(&run(&["1", "broken", "2"], false)), [true, false, false]);
    assert_eq!(started(&scratch), 4);
    assert_eq!(cached(&run(&["1", "3"], true)), [false, false]);
    assert_eq!(cached(&run(&["3"], false)), [false]);
    assert_eq!(started(&scratch), 7);
}

#[test]
fn native_runs_are_alone() {
    let scratch = Scratch::new("alone");
    let done = |outcomes: Vec<Outcome>| {
        outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done { .. })).count()
    };
    let outcomes = executor(&scratch, None).execute(&plan(&["alone"; 4], true), &CountingWatcher::default());
    assert_eq!(done(outcomes), 4);
}

#[test]
fn simulated_runs_go_side_by_side() {
    let scratch = Scratch::new("together");
    let outcomes =
        executor(&scratch, None).execute(&plan(&["together"; 2], false), &CountingWatcher::default());
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done { .. })), "{outcomes:?}");
}

#[test]
fn stopping_ends_children_and_starts_no_more() {
    let scratch = Scratch::new("stopped");
    let watcher = CountingWatcher { stop_after: Some(1), ..CountingWatcher::default() };
    let words = ["forever", "forever", "1", "2", "3", "4"];
    let outcomes = executor(&scratch, None).execute(&plan(&words, false), &watcher);
    assert_eq!(outcomes[0], Outcome::NotMade);
    assert_eq!(outcomes[1], Outcome::NotMade);
    assert!(matches!(outcomes[2], Outcome::Done { .. }));
    assert_eq!(outcomes[3..], [Outcome::NotMade, Outcome::NotMade, Outcome::NotMade]);
}

#[test]
fn what_is_not_needed_is_not_run() {
    let scratch = Scratch::new("unneeded");
    let mut plan = plan(&["1", "2", "3"], false);
    plan.runs[0].needed = false;
    plan.runs[1] =
        PlannedRun { arguments: Vec::new(), resolution: Resolution::NotYet("x".to_owned()), needed: false };
    let outcomes = executor(&scratch, None).execute(&plan, &CountingWatcher::default());
    assert_eq!(outcomes[..2], [Outcome::NotMade, Outcome::NotYet("x".to_owned())]);
    assert_eq!(started(&scratch), 1);
}

#[test]
fn a_program_that_cannot_be_started_is_a_failure() {
    let executor = Executor { program: PathBuf::from("/nonexistent/isles"), jobs: 0, cache: None };
    let outcomes = executor.execute(&plan(&["1"], false), &CountingWatcher::default());
    assert!(matches!(&outcomes[0], Outcome::Failed(reason) if reason.starts_with("/nonexistent/isles: ")));
}
