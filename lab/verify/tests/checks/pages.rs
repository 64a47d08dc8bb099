//! Histories and crashes of databases over pages, and mutants of their locks, their log and their
//! restart.

use sim::DiskFaults;
use terms::{Fault, Faults};
use verify::crashes::branches::{self, BranchMarks};
use verify::crashes::deployment_trial::DeploymentMarks;
use verify::crashes::{deployments, faults, instances};
use verify::{Driven, Machine, Subject, Trial, Work};

/// The first of these seeds that fails, and its failure.
fn first_failure(subject: &Subject, work: Work, seeds: std::ops::Range<u64>) -> Option<String> {
    let (mut transactions, mut aborts) = (0, 0);
    let trial = |seed| Trial { subject, work, machine: &Machine::Small, workers: None, seed }.run();
    let failure = seeds.map(trial).find_map(|verdict| {
        transactions += verdict.transactions;
        aborts += verdict.aborts;
        verdict.failure
    });
    let has_seen = transactions > 0 && (aborts > 0 || work == Work::Crashes);
    assert!(failure.is_some() || has_seen, "nothing was seen");
    failure.map(|failure| format!("seed {}: {}", failure.seed, failure.what))
}

#[test]
fn histories_over_pages_are_serializable() {
    let subject = verify::scheme(pages::TWO_PHASE_LOCKING).expect("the scheme of pages");
    assert_eq!(first_failure(&subject, Work::Histories, 0..60), None);
}

#[test]
fn transactions_over_several_databases_of_pages_are_whole() {
    let subject = verify::scheme(pages::TWO_PHASE_LOCKING).expect("the scheme of pages");
    assert_eq!(first_failure(&subject, Work::Distributed, 0..60), None);
    assert_eq!(first_failure(&subject, Work::Bank, 0..60), None);
    assert_eq!(first_failure(&subject, Work::Islands, 0..8), None);
}

#[test]
fn parts_of_pages_survive_crashes() {
    let subject = verify::scheme(pages::TWO_PHASE_LOCKING).expect("the scheme of pages");
    let mut sum = BranchMarks::default();
    for seed in 0..60 {
        let (violations, marks) = branches::violations(&subject, seed, faults(seed)).expect("a run");
        assert_eq!(violations, Vec::<String>::new(), "seed {seed}");
        sum.in_doubt += marks.in_doubt;
        sum.again += marks.again;
        sum.checkpoints += marks.checkpoints;
        sum.decisions += marks.decisions;
    }
    println!("{sum:?}");
    let least = [sum.in_doubt, sum.again, sum.checkpoints, sum.decisions].into_iter().min();
    assert!(least > Some(0), "{sum:?}");
}

#[test]
fn mutants_of_parts_that_survive_are_caught() {
    let mutants = [
        ("a part that leaves no record", Faults::of(&[Fault::UnloggedPreparation])),
        ("what a part in doubt has changed is not locked", Faults::of(&[Fault::UnlockedDoubt])),
        ("checkpoints without parts", Faults::of(&[Fault::CheckpointWithoutParts])),
        ("checkpoints without decisions", Faults::of(&[Fault::CheckpointWithoutDecisions])),
    ];
    for (name, faults) in mutants {
        let mutant = Subject::of_pages().with_faults(name, faults);
        let found =
            |seed| match branches::violations(&mutant, seed, DiskFaults { seed, ..DiskFaults::default() }) {
                Ok((wrong, _)) => wrong.into_iter().next(),
                Err(error) => Some(error.to_string()),
            };
        let first = (0..400).find_map(|seed| found(seed).map(|what| (seed, what)));
        println!("{name}: {first:?}");
        assert!(first.is_some(), "{name} was not noticed");
    }
}

#[test]
fn crashes_of_instances_of_pages_leave_no_transaction_half_applied() {
    let mut sum = DeploymentMarks::default();
    for seed in 0..24 {
        let (wrong, marks) =
            deployments::SCENARIO.violations(Driven::PAGES, seed, Faults::NONE).expect("a run");
        assert_eq!(wrong, Vec::<String>::new(), "all crash, seed {seed}");
        sum.add(marks);
    }
    println!("{sum:?}");
    assert!(sum.committed > 3 && sum.in_doubt - sum.committed > 3, "both ends: {sum:?}");
    let mut sum = DeploymentMarks::default();
    for seed in 0..8 {
        let (wrong, marks) =
            instances::SCENARIO.violations(Driven::PAGES, seed, Faults::NONE).expect("a run");
        assert_eq!(wrong, Vec::<String>::new(), "some crash, seed {seed}");
        sum.add(marks);
    }
    println!("{sum:?}");
    assert!(sum.returned > 1 && sum.losses > 5, "{sum:?}");
}

#[test]
fn mutants_of_parts_are_caught() {
    let pages = verify::scheme(pages::TWO_PHASE_LOCKING).expect("the scheme of pages");
    let twice = Faults::of(&[Fault::RepeatedDecision, Fault::DecisionSentTwice]);
    // Histories continue with other keys while some are locked for ever; a bank cannot.
    let mutants = [
        (
            Work::Distributed,
            Subject::of_pages()
                .with_faults("locks are given back at prepare", Faults::of(&[Fault::EarlyPartUnlock])),
        ),
        (
            Work::Bank,
            Subject::of_pages().with_faults("parts are not finished", Faults::of(&[Fault::UnfinishedParts])),
        ),
        (Work::Distributed, pages.with_faults("parts are finished twice", twice)),
    ];
    for (work, subject) in mutants {
        let failure = first_failure(&subject, work, 0..2_000);
        println!("{}: {failure:?}", subject.name);
        assert!(failure.is_some(), "{} was not noticed", subject.name);
    }
}

#[test]
fn mutants_of_locks_are_caught() {
    let gaps = Faults::of(&[Fault::UnlockedGaps]);
    let reads = Faults::of(&[Fault::UnlockedReads]);
    let intents = Faults::of(&[Fault::MissingIntents]);
    let inherited = Faults::of(&[Fault::KeptInheritedLocks]);
    let mutants = [
        ("no locks of gaps", gaps),
        ("no locks of reads", reads),
        ("no intentions", intents),
        ("inherited locks stay", inherited),
    ];
    for (name, faults) in mutants {
        let subject = Subject::of_pages().with_faults(name, faults);
        assert!(first_failure(&subject, Work::Histories, 0..200).is_some(), "{name} was not noticed");
    }
}

#[test]
fn crashes_of_pages_lose_nothing_that_was_acknowledged() {
    let subject = verify::scheme(pages::TWO_PHASE_LOCKING).expect("the scheme of pages");
    assert_eq!(first_failure(&subject, Work::Crashes, 0..80), None);
}

#[test]
fn mutants_of_log_and_restart_are_caught() {
    let mutants = [
        ("pages before their log", Faults::of(&[Fault::PagesBeforeLog])),
        ("no images of pages", Faults::of(&[Fault::MissingImages])),
        ("no undo at restart", Faults::of(&[Fault::MissingRestartUndo])),
        ("no compensation", Faults::of(&[Fault::MissingCompensation])),
        ("acknowledged in memory", Faults::of(&[Fault::MissingFlush])),
        ("pieces of rows that are gone", Faults::of(&[Fault::KeptPieces])),
        ("merges that move nothing again", Faults::of(&[Fault::MissingMergeRedo])),
    ];
    for (name, faults) in mutants {
        let subject = Subject::of_pages().with_faults(name, faults);
        let failure = first_failure(&subject, Work::Crashes, 0..400);
        println!("{name}: {failure:?}");
        assert!(failure.is_some(), "{name} was not noticed");
    }
}
