//! Campaigns, searches for violations, and processes, for several files of checks.

use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use concurrency::SchemeName;
use sim::DiskFaults;
use terms::{Fault, Faults};
use verify::crashes::branches::{self, BranchMarks};
use verify::crashes::deployment_trial::{DeploymentMarks, Scenario};
use verify::crashes::faults;
use verify::{Campaign, Driven, Machine, Subject, Tally, Trial, Work};

/// Seeds of histories within which a mutant fails; some need several rare events at a time.
pub const SEEDS_OF_MUTANTS: u64 = 20_000;

/// A scheme with planted faults.
pub fn mutant(scheme: SchemeName, name: &'static str, planted: &[Fault]) -> Subject {
    Subject::of(scheme).with_faults(name, Faults::of(planted))
}

/// Runs a campaign until a seed fails.
pub fn campaign(subject: &Subject, work: Work, machine: &Machine, seeds: Range<u64>) -> Tally {
    let campaign = Campaign { subject, work, machine, workers: None, seeds, threads: 1, failures_max: 1 };
    let tally = campaign.run(&mut |_| true);
    println!("{} {work}: {:?}", subject.name, tally.sum);
    tally
}

/// Runs a campaign in which no seed fails.
pub fn holds(subject: &Subject, work: Work, machine: &Machine, seeds: u64) -> Tally {
    let tally = campaign(subject, work, machine, 0..seeds);
    assert_eq!(tally.failures, [], "{} {work}", subject.name);
    assert_eq!(tally.seeds, seeds);
    assert!(tally.sum.transactions > 0);
    tally
}

/// Runs a campaign of each subject and workload, in which no seed fails.
pub fn all_hold(subjects: &[Subject], works: &[Work], machine: &Machine, seeds: u64) {
    for subject in subjects {
        works.iter().for_each(|work| _ = holds(subject, *work, machine, seeds));
    }
}

/// Searches from seed `first` on for a failure, which the same seed repeats.
pub fn is_caught(mutant: &Subject, work: Work, first: u64) {
    let machine = &Machine::Small;
    let tally = campaign(mutant, work, machine, first..first + SEEDS_OF_MUTANTS);
    let Some(failure) = tally.failures.first() else {
        panic!("{}: {} seeds did not show what is missing", mutant.name, tally.seeds)
    };
    println!("{}: seed {}: {}", mutant.name, failure.seed, failure.what);
    let again = Trial { subject: mutant, work, machine, workers: None, seed: failure.seed };
    assert_eq!(again.run().failure.as_ref(), Some(failure), "a seed repeats its failure");
}

/// The first of these seeds that fails, and its failure.
pub fn first_failure(
    subject: &Subject,
    work: Work,
    machine: &Machine,
    seeds: impl IntoIterator<Item = u64>,
) -> Option<String> {
    let (mut transactions, mut aborts) = (0, 0);
    let trial = |seed| Trial { subject, work, machine, workers: None, seed }.run();
    let failure = seeds.into_iter().map(trial).find_map(|verdict| {
        transactions += verdict.transactions;
        aborts += verdict.aborts;
        verdict.failure
    });
    println!("{}: {transactions} transactions, {aborts} aborts, {failure:?}", subject.name);
    let has_seen = transactions > 0 && (aborts > 0 || work == Work::Crashes);
    assert!(failure.is_some() || has_seen, "nothing was seen");
    failure.map(|failure| format!("seed {}: {}", failure.seed, failure.what))
}

/// Searches these seeds for a violation.
pub fn has_violation(name: &str, seeds: Range<u64>, violation: impl Fn(u64) -> Option<String>) {
    let first = { seeds }.find_map(|seed| violation(seed).map(|what| (seed, what)));
    println!("{name}: {first:?}");
    assert!(first.is_some(), "{name} was not caught");
}

/// The first violation of a run, or the error that ended it: the files of a mutant may be such that
/// the run cannot continue.
pub fn first_violation<T>(run: Result<(Vec<String>, T), impl Display>) -> Option<String> {
    match run {
        Ok((violations, _)) => violations.into_iter().next(),
        Err(error) => Some(error.to_string()),
    }
}

/// A disk without faults.
pub fn sound_disk(seed: u64) -> DiskFaults {
    DiskFaults { seed, ..DiskFaults::default() }
}

/// Adds counts of runs of a scenario that violate nothing.
pub fn run_scenario(
    scenario: Scenario,
    driven: impl Into<Driven>,
    seeds: Range<u64>,
    sum: &mut DeploymentMarks,
) {
    let driven = driven.into();
    for seed in seeds {
        let (wrong, marks) = scenario.violations(driven, seed, Faults::NONE).expect("a run");
        assert_eq!(wrong, Vec::<String>::new(), "{} seed {seed}", driven.scheme);
        sum.add(marks);
    }
}

/// Prepared branches of transactions over several databases are in doubt after a crash if, and only
/// if, they were not finished.
pub fn branches_survive(subject: &Subject, seeds: Range<u64>) {
    let mut sum = BranchMarks::default();
    for seed in seeds {
        let (violations, marks) = branches::violations(subject, seed, faults(seed)).expect("a run");
        assert_eq!(violations, Vec::<String>::new(), "{}, seed {seed}", subject.name);
        sum.in_doubt += marks.in_doubt;
        sum.again += marks.again;
        sum.checkpoints += marks.checkpoints;
        sum.decisions += marks.decisions;
    }
    println!("{}: {sum:?}", subject.name);
    let least = [sum.in_doubt, sum.again, sum.checkpoints, sum.decisions].into_iter().min();
    assert!(least > Some(0), "{}: {sum:?}", subject.name);
}

/// An empty directory for a test.
#[allow(clippy::disallowed_methods, reason = "the directory is outside all platforms")]
pub fn place(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// A process that runs transactions: the test `crashes::child` of this program.
pub fn child_process(subject: &Subject, path: &Path, number: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "crashes::child", "--nocapture"]).env("ISLES_CRASH_SCHEME", subject.name);
    command.env("ISLES_CRASH_DIRECTORY", path).env("ISLES_CRASH_SEED", number.to_string());
    command
}
