//! Crashes of durable databases: simulated ones, and processes that are killed.
#![allow(clippy::disallowed_methods)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use concurrency::SchemeName::{self, Hstore, Mvcc, Occ, Silo, TicToc};
use platform::files::Access;
use sim::DiskFaults;
use terms::{Fault, Faults};
use verify::crashes::branches;
use verify::crashes::deployment_trial::{DeploymentMarks, Scenario};
use verify::crashes::forms::{self, FormMarks};
use verify::crashes::killed::{self, ProcessRun};
use verify::crashes::{deployments, instances};
use verify::crashes::{faults, violations};
use verify::{Injected, Machine, Subject, Work, scheme, schemes};

use crate::support::{
    branches_survive, child_process, first_violation, has_violation, holds, mutant, place, run_scenario,
    sound_disk,
};

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

#[test]
fn crashes_lose_nothing_that_was_acknowledged() {
    for subject in schemes() {
        let tally = holds(&subject, Work::Crashes, &Machine::Small, SEEDS);
        assert!(tally.sum.transactions > 20 * SEEDS, "{}", subject.name);
    }
}

/// Schemes that report changes to the log incompletely.
#[test]
fn mutants_are_caught() {
    let mutants = [
        mutant(Silo, "silo whose updates are not told", &[Fault::UnloggedUpdates]),
        mutant(Silo, "silo without stamps within an epoch", &[Fault::UnorderedStamps]),
        mutant(Silo, "silo whose parts keep their stamps", &[Fault::StampOfPreparation]),
        mutant(Silo, "silo whose readers do not wait", &[Fault::EarlyReaders]),
        mutant(TicToc, "tictoc whose updates are not told", &[Fault::UnloggedUpdates]),
        mutant(TicToc, "tictoc without stamps within an epoch", &[Fault::UnorderedStamps]),
        mutant(TicToc, "tictoc whose parts keep their stamps", &[Fault::StampOfPreparation]),
        mutant(Occ, "occ without stamps within an epoch", &[Fault::UnorderedStamps]),
        mutant(Mvcc, "mvcc without stamps within an epoch", &[Fault::UnorderedStamps]),
        mutant(Mvcc, "mvcc whose parts keep their stamps", &[Fault::StampOfPreparation]),
        mutant(Hstore, "hstore whose updates are not told", &[Fault::UnloggedUpdates]),
        mutant(Hstore, "hstore without the stamps of its sites", &[Fault::UnorderedStamps]),
        mutant(Hstore, "hstore whose parts keep their stamps", &[Fault::StampOfPreparation]),
    ];
    for mutant in mutants {
        let run = |seed| violations(&mutant, seed, sound_disk(seed)).expect("a run");
        // A branch that keeps its stamp writes a record outside a commit, which the engine asserts
        // in debug builds.
        let found = |seed| match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(mut violations) => violations.pop(),
            Err(panic) => panic.downcast::<&str>().ok().map(|message| message.to_string()),
        };
        has_violation(mutant.name, 0..SEEDS_OF_MUTANTS, found);
    }
}

#[test]
fn prepared_parts_survive_crashes() {
    for subject in schemes() {
        branches_survive(&subject, 0..SEEDS_OF_PARTS);
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
        let mutant = mutant(Silo, name, &[fault]);
        has_violation(name, 0..SEEDS_OF_MUTANTS, |seed| {
            first_violation(branches::violations(&mutant, seed, sound_disk(seed)))
        });
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
        let mutant = mutant(Silo, name, &[fault]);
        has_violation(name, begin..begin + SEEDS_OF_MUTANTS, |seed| {
            first_violation(forms::violations(&mutant, seed, sound_disk(seed)))
        });
    }
}

/// Several instances: each transaction is in all of its sites or in none, and acknowledged ones are
/// there.
#[test]
fn crashes_leave_no_transaction_half_applied() {
    let mut sum = DeploymentMarks::default();
    for scheme in SchemeName::ALL {
        run_scenario(deployments::SCENARIO, scheme, 0..SEEDS_OF_DEPLOYMENTS, &mut sum);
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
        run_scenario(instances::SCENARIO, scheme, first..first + SEEDS_OF_INSTANCES, &mut sum);
    }
    println!("{sum:?}");
    assert!(sum.returned > 3 && sum.adopted > 3 && sum.losses > 50, "{sum:?}");
    let Injected { deaths, together, cuts, delays, losses, duplicates, echoes, .. } = sum.injected;
    let least = [deaths, together, cuts, delays, losses, duplicates, echoes].into_iter().min();
    assert!(least > Some(0), "{sum:?}");
}

fn are_caught(scenario: Scenario, mutants: &[(&str, Fault)]) {
    for (name, fault) in mutants {
        has_violation(name, 0..SEEDS_OF_MUTANTS, |seed| {
            let run = scenario.violations(Silo, seed, Faults::of(&[*fault]));
            run.expect("a run").0.into_iter().next()
        });
    }
}

/// Protocols that do not wait until something is durable, or leave no record of it.
#[test]
fn mutants_of_deployments_are_caught() {
    let mutants = [
        ("a part that leaves no record", Fault::UnloggedPart),
        ("a vote before its part is durable", Fault::EarlyVote),
        ("a decision that leaves no record", Fault::UnloggedDecision),
        ("a decision that is told before it is durable", Fault::EarlyDecision),
        ("an answer before the decision is durable", Fault::EarlyAnswer),
        ("a commit that is acknowledged before it is durable", Fault::EarlyAcknowledgement),
        ("a part in doubt that is lost", Fault::LostDoubt),
    ];
    are_caught(deployments::SCENARIO, &mutants);
}

/// Protocols that fail when one instance crashes and returns while others run.
#[test]
fn mutants_of_rejoining_are_caught() {
    let mutants = [
        ("a part that leaves no record", Fault::UnloggedPart),
        ("a decision that is told before it is durable", Fault::EarlyDecision),
        ("an answer before the decision is durable", Fault::EarlyAnswer),
        ("a part in doubt that is lost", Fault::LostDoubt),
        ("a decision that is applied twice", Fault::RepeatedDecision),
        ("a part in doubt of which nobody asks", Fault::MissingInquiry),
        ("a coordinator that waits for what is lost", Fault::UnabortedLosses),
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
    let mut command = |subject: &Subject, number: u64| child_process(subject, &path, number);
    let killed =
        killed::kill_repeatedly(subjects, &path, WORKERS, KILLS, 1, &mut command).expect("processes");
    println!("{killed:?}");
    assert!(killed.violations.is_empty(), "{killed:?}");
    assert!(killed.kills == KILLS && killed.acknowledged > 0);
    std::fs::remove_dir_all(&path).expect("the test's directory");
    killed.records
}
