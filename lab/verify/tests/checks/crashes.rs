//! Crashes of durable databases: simulated ones, and processes that are killed.
#![allow(clippy::disallowed_methods)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use concurrency::SchemeName;
use platform::files::Access;
use sim::DiskFaults;
use terms::{Fault, Faults};
use verify::crashes::branches::{self, BranchMarks};
use verify::crashes::deployment_trial::{DeploymentMarks, Scenario};
use verify::crashes::forms::{self, FormMarks};
use verify::crashes::killed::{self, ProcessRun};
use verify::crashes::{deployments, instances};
use verify::crashes::{faults, violations};
use verify::{Campaign, Injected, Machine, Subject, Tally, Work, scheme, schemes};

/// Seeds of each scheme.
const SEEDS: u64 = 20;
/// Seeds within which a disk that ignores flushes is noticed.
const SEEDS_OF_LIES: u64 = 30;
/// Seeds within which a mutant fails.
const SEEDS_OF_MUTANTS: u64 = 400;
/// Seeds of each scheme with prepared branches.
const SEEDS_OF_PARTS: u64 = 24;
/// Seeds of each scheme with tables that change their form.
const SEEDS_OF_FORMS: u64 = 8;
/// Seeds of each scheme with several instances.
const SEEDS_OF_DEPLOYMENTS: u64 = 4;
/// Seeds of each scheme in which one of several instances crashes, or connections break.
const SEEDS_OF_INSTANCES: u64 = 1;
/// Processes to kill.
const KILLS: u64 = 16;
const WORKERS: usize = 3;

fn campaign(name: &str, seeds: std::ops::Range<u64>) -> Tally {
    let subject = scheme(name).expect("a scheme");
    let campaign = Campaign {
        subject: &subject,
        work: Work::Crashes,
        machine: &Machine::Small,
        workers: None,
        seeds,
        threads: 1,
        failures_max: 3,
    };
    let tally = campaign.run(&mut |_| true);
    println!("{name}: {} seeds, {:?}", tally.seeds, tally.sum);
    tally
}

#[test]
fn crashes_lose_nothing_that_was_acknowledged() {
    for subject in schemes() {
        let name = subject.name;
        let tally = campaign(name, 0..SEEDS);
        assert_eq!(tally.failures, [], "{name}");
        assert!(tally.sum.transactions > 20 * SEEDS, "{name}");
    }
}

/// Schemes that report changes to the log incompletely.
#[test]
fn mutants_are_caught() {
    let mutants = [
        Subject::of(SchemeName::Silo)
            .with_faults("silo whose updates are not told", Faults::of(&[Fault::UnloggedUpdates])),
        Subject::of(SchemeName::Silo)
            .with_faults("silo without stamps within an epoch", Faults::of(&[Fault::UnorderedStamps])),
        Subject::of(SchemeName::Silo)
            .with_faults("silo whose parts keep their stamps", Faults::of(&[Fault::StampOfPreparation])),
        Subject::of(SchemeName::Silo)
            .with_faults("silo whose readers do not wait", Faults::of(&[Fault::EarlyReaders])),
        Subject::of(SchemeName::TicToc)
            .with_faults("tictoc whose updates are not told", Faults::of(&[Fault::UnloggedUpdates])),
        Subject::of(SchemeName::TicToc)
            .with_faults("tictoc without stamps within an epoch", Faults::of(&[Fault::UnorderedStamps])),
        Subject::of(SchemeName::TicToc)
            .with_faults("tictoc whose parts keep their stamps", Faults::of(&[Fault::StampOfPreparation])),
        Subject::of(SchemeName::Occ)
            .with_faults("occ without stamps within an epoch", Faults::of(&[Fault::UnorderedStamps])),
        Subject::of(SchemeName::Mvcc)
            .with_faults("mvcc without stamps within an epoch", Faults::of(&[Fault::UnorderedStamps])),
        Subject::of(SchemeName::Mvcc)
            .with_faults("mvcc whose parts keep their stamps", Faults::of(&[Fault::StampOfPreparation])),
        Subject::of(SchemeName::Hstore)
            .with_faults("hstore whose updates are not told", Faults::of(&[Fault::UnloggedUpdates])),
        Subject::of(SchemeName::Hstore)
            .with_faults("hstore without the stamps of its sites", Faults::of(&[Fault::UnorderedStamps])),
        Subject::of(SchemeName::Hstore)
            .with_faults("hstore whose parts keep their stamps", Faults::of(&[Fault::StampOfPreparation])),
    ];
    for mutant in mutants {
        let name = mutant.name;
        let run =
            |seed| violations(&mutant, seed, DiskFaults { seed, ..DiskFaults::default() }).expect("a run");
        // A branch that keeps its stamp writes a record outside a commit, which the engine asserts
        // in debug builds.
        let found = |seed| match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(mut violations) => violations.pop(),
            Err(panic) => panic.downcast::<&str>().ok().map(|message| message.to_string()),
        };
        let first = (0..SEEDS_OF_MUTANTS).find_map(|seed| found(seed).map(|what| (seed, what)));
        println!("{name}: {first:?}");
        assert!(first.is_some(), "{name} was not caught");
    }
}

/// Prepared branches of transactions over several databases are in doubt after a crash if, and only
/// if, they were not finished.
#[test]
fn prepared_parts_survive_crashes() {
    for subject in schemes() {
        let mut sum = BranchMarks::default();
        for seed in 0..SEEDS_OF_PARTS {
            let (violations, marks) = branches::violations(&subject, seed, faults(seed)).expect("a run");
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
}

/// Databases that handle branches wrongly.
#[test]
fn mutants_of_parts_are_caught() {
    let mutants = [
        ("a part that leaves no record", Fault::UnloggedPreparation),
        ("an end that leaves no record", Fault::UnloggedEnd),
        ("a commit that is durable before its part", Fault::CommitBeforePreparation),
        ("a part in doubt that is lost", Fault::ForgottenParts),
        ("a checkpoint that carries nothing", Fault::CheckpointWithoutParts),
    ];
    for (name, fault) in mutants {
        let mutant = Subject::of(SchemeName::Silo).with_faults(name, Faults::of(&[fault]));
        let found = |seed| {
            // The files of a mutant may be such that the run cannot continue.
            branches::violations(&mutant, seed, DiskFaults { seed, ..DiskFaults::default() })
                .map(|(wrong, _)| wrong)
        };
        let first = (0..SEEDS_OF_MUTANTS).find_map(|seed| match found(seed) {
            Ok(wrong) => wrong.into_iter().next().map(|what| (seed, what)),
            Err(error) => Some((seed, error.to_string())),
        });
        println!("{name}: {first:?}");
        assert!(first.is_some(), "{name} was not caught");
    }
}

/// A table changes its form again and again, under crashes.
#[test]
fn tables_change_their_form_through_crashes() {
    for subject in schemes() {
        let mut sum = FormMarks::default();
        for seed in 0..SEEDS_OF_FORMS {
            let (violations, marks) = forms::violations(&subject, seed, faults(seed)).expect("a run");
            assert_eq!(violations, Vec::<String>::new(), "{}, seed {seed}", subject.name);
            sum.add(marks);
        }
        println!("{}: {sum:?}", subject.name);
        assert!(sum.changed > 0 && sum.meanwhile > 0, "{}: {sum:?}", subject.name);
    }
}

/// Databases that change tables wrongly.
#[test]
fn mutants_of_forms_are_caught() {
    let mutants = [
        (0, "a transaction that changes one form alone", Fault::SingleForm),
        (0, "rows that change before older transactions have ended", Fault::EarlyConversion),
        (225, "a form that counts before it is durable", Fault::EarlySwitch),
    ];
    for (begin, name, fault) in mutants {
        let mutant = Subject::of(SchemeName::Silo).with_faults(name, Faults::of(&[fault]));
        let found =
            |seed| match forms::violations(&mutant, seed, DiskFaults { seed, ..DiskFaults::default() }) {
                Ok((wrong, _)) => wrong.into_iter().next(),
                Err(error) => Some(error.to_string()),
            };
        let first = (begin..begin + SEEDS_OF_MUTANTS).find_map(|seed| found(seed).map(|what| (seed, what)));
        println!("{name}: {first:?}");
        assert!(first.is_some(), "{name} was not caught");
    }
}

/// Several instances: each transaction is in all of its sites or in none, and acknowledged ones are
/// there.
#[test]
fn crashes_leave_no_transaction_half_applied() {
    let mut sum = DeploymentMarks::default();
    for scheme in SchemeName::ALL {
        for seed in 0..SEEDS_OF_DEPLOYMENTS {
            let (wrong, marks) = deployments::SCENARIO.violations(scheme, seed, Faults::NONE).expect("a run");
            assert_eq!(wrong, Vec::<String>::new(), "{scheme} seed {seed}");
            sum.add(marks);
        }
    }
    println!("{sum:?}");
    let runs = SEEDS_OF_DEPLOYMENTS * SchemeName::ALL.len() as u64;
    assert!(sum.injected.crashes > runs && sum.transactions > 10 * runs, "{sum:?}");
    assert!(
        sum.committed > 10 && sum.in_doubt - sum.committed > 10,
        "both ends of what was in doubt: {sum:?}"
    );
}

/// Instances crash while the others run, or connections break: the same holds, and nothing is in
/// doubt at the end.
#[test]
fn instances_come_back_to_others_that_run_on() {
    let mut sum = DeploymentMarks::default();
    for (first, scheme) in SchemeName::ALL.into_iter().enumerate() {
        let first = 2 + first as u64;
        for seed in first..first + SEEDS_OF_INSTANCES {
            let (wrong, marks) = instances::SCENARIO.violations(scheme, seed, Faults::NONE).expect("a run");
            assert_eq!(wrong, Vec::<String>::new(), "{scheme} seed {seed}");
            sum.add(marks);
        }
    }
    println!("{sum:?}");
    assert!(sum.returned > 3 && sum.adopted > 3 && sum.losses > 50, "{sum:?}");
    let Injected { deaths, together, cuts, delays, losses, duplicates, echoes, .. } = sum.injected;
    let least = [deaths, together, cuts, delays, losses, duplicates, echoes].into_iter().min();
    assert!(least > Some(0), "{sum:?}");
}

fn are_caught(story: Scenario, mutants: &[(&str, Faults)]) {
    for (name, faults) in mutants {
        let found = |seed| story.violations(SchemeName::Silo, seed, *faults).expect("a run").0;
        let first =
            (0..SEEDS_OF_MUTANTS).find_map(|seed| found(seed).into_iter().next().map(|what| (seed, what)));
        println!("{name}: {first:?}");
        assert!(first.is_some(), "{name} was not caught");
    }
}

/// Protocols that do not wait until something is durable, or leave no record of it.
#[test]
fn mutants_of_deployments_are_caught() {
    let mutants = [
        ("a part that leaves no record", Faults::of(&[Fault::UnloggedPart])),
        ("a vote before its part is durable", Faults::of(&[Fault::EarlyVote])),
        ("a decision that leaves no record", Faults::of(&[Fault::UnloggedDecision])),
        ("a decision that is told before it is durable", Faults::of(&[Fault::EarlyDecision])),
        ("an answer before the decision is durable", Faults::of(&[Fault::EarlyAnswer])),
        ("a commit that is acknowledged before it is durable", Faults::of(&[Fault::EarlyAcknowledgement])),
        ("a part in doubt that is lost", Faults::of(&[Fault::LostDoubt])),
    ];
    are_caught(deployments::SCENARIO, &mutants);
}

/// Protocols that fail when one instance crashes and returns while others run.
#[test]
fn mutants_of_rejoining_are_caught() {
    let mutants = [
        ("a part that leaves no record", Faults::of(&[Fault::UnloggedPart])),
        ("a decision that is told before it is durable", Faults::of(&[Fault::EarlyDecision])),
        ("an answer before the decision is durable", Faults::of(&[Fault::EarlyAnswer])),
        ("a part in doubt that is lost", Faults::of(&[Fault::LostDoubt])),
        ("a decision that is applied twice", Faults::of(&[Fault::RepeatedDecision])),
        ("a part in doubt of which nobody asks", Faults::of(&[Fault::MissingInquiry])),
        ("a coordinator that waits for what is lost", Faults::of(&[Fault::UnabortedLosses])),
    ];
    are_caught(instances::SCENARIO, &mutants);
}

/// A log that omits a flush equals a log on a disk that ignores it.
#[test]
fn forgotten_flushes_are_caught() {
    let silo = scheme("silo").expect("a scheme");
    let caught = |faults_of: fn(u64) -> DiskFaults| {
        let wrong = |seed| !violations(&silo, seed, faults_of(seed)).expect("a run").is_empty();
        (0..SEEDS_OF_LIES).filter(|seed| wrong(*seed)).count()
    };
    assert_eq!(caught(faults), 0);
    let files = caught(|seed| DiskFaults { ignores_flushes: true, ..faults(seed) });
    let directories = caught(|seed| DiskFaults { ignores_directory_flushes: true, ..faults(seed) });
    println!(
        "of {SEEDS_OF_LIES} seeds: without flushes {files}, without flushes of the directory {directories}"
    );
    assert!(files > 2 && directories > 2);
}

/// An empty directory for a test.
fn place(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// The child process of the test below: by itself this is no test.
#[test]
fn child() {
    if let Some(path) = std::env::var_os("ISLES_CRASH_DIRECTORY") {
        let seed = std::env::var("ISLES_CRASH_SEED").map_or(0, |seed| seed.parse().unwrap_or(0));
        let name = std::env::var("ISLES_CRASH_SCHEME").expect("a scheme");
        let subject = &scheme(&name).expect("a scheme");
        let path = Path::new(&path);
        let run = ProcessRun { subject, path, access: Access::Direct, seed, acknowledged: &[0; WORKERS] };
        killed::run(&run).expect("a database");
    }
}

#[test]
fn killed_processes_lose_nothing_that_was_acknowledged() {
    assert!(lose_nothing("killed", &schemes()) > 0, "rows are read from a checkpoint or the log");
}

#[test]
fn killed_processes_with_rows_in_pages_lose_nothing() {
    lose_nothing("killed-pages", &[scheme(pages::TWO_PHASE_LOCKING).expect("the scheme of pages")]);
}

/// Kills processes under these schemes. Returns the records that the last opening read.
fn lose_nothing(name: &str, subjects: &[Subject]) -> u64 {
    let path = place(name);
    let program = std::env::current_exe().expect("this program");
    let mut command = |subject: &Subject, number: u64| {
        let mut command = Command::new(&program);
        command.args(["--exact", "crashes::child", "--nocapture"]).env("ISLES_CRASH_SCHEME", subject.name);
        command.env("ISLES_CRASH_DIRECTORY", &path).env("ISLES_CRASH_SEED", number.to_string());
        command
    };
    let killed =
        killed::kill_repeatedly(subjects, &path, WORKERS, KILLS, 1, &mut command).expect("processes");
    println!("{killed:?}");
    assert!(killed.violations.is_empty(), "{killed:?}");
    assert!(killed.kills == KILLS && killed.acknowledged > 0);
    std::fs::remove_dir_all(&path).expect("the test's directory");
    killed.records
}
