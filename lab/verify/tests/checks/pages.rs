//! Histories and crashes of databases over pages, and mutants of their locks, their log and their
//! restart.

use terms::{Fault, Faults};
use verify::crashes::branches;
use verify::crashes::deployment_trial::DeploymentMarks;
use verify::crashes::{deployments, instances};
use verify::{Driven, Machine, Subject, Work};

use crate::support::{
    branches_survive, first_failure, first_violation, has_violation, run_scenario, sound_disk,
};

#[test]
fn histories_over_pages_are_serializable() {
    let subject = Subject::of_pages();
    assert_eq!(first_failure(&subject, Work::Histories, &Machine::Small, 0..60), None);
}

#[test]
fn transactions_over_several_databases_of_pages_are_whole() {
    let subject = Subject::of_pages();
    assert_eq!(first_failure(&subject, Work::Distributed, &Machine::Small, 0..60), None);
    assert_eq!(first_failure(&subject, Work::Bank, &Machine::Small, 0..60), None);
    assert_eq!(first_failure(&subject, Work::Islands, &Machine::Small, 0..8), None);
}

#[test]
fn parts_of_pages_survive_crashes() {
    branches_survive(&Subject::of_pages(), 0..60);
}

#[test]
fn mutants_of_parts_that_survive_are_caught() {
    let mutants = [
        ("a part that leaves no record", Fault::UnloggedPreparation),
        ("what a part in doubt has changed is not locked", Fault::UnlockedDoubt),
        ("checkpoints without parts", Fault::CheckpointWithoutParts),
        ("checkpoints without decisions", Fault::CheckpointWithoutDecisions),
    ];
    for (name, fault) in mutants {
        let mutant = Subject::of_pages().with_faults(name, Faults::of(&[fault]));
        has_violation(name, 0..400, |seed| {
            first_violation(branches::violations(&mutant, seed, sound_disk(seed)))
        });
    }
}

#[test]
fn crashes_of_instances_of_pages_leave_no_transaction_half_applied() {
    let mut sum = DeploymentMarks::default();
    run_scenario(deployments::SCENARIO, Driven::PAGES, 0..24, &mut sum);
    println!("{sum:?}");
    assert!(sum.committed > 3 && sum.in_doubt - sum.committed > 3, "both ends: {sum:?}");
    let mut sum = DeploymentMarks::default();
    run_scenario(instances::SCENARIO, Driven::PAGES, 0..8, &mut sum);
    println!("{sum:?}");
    assert!(sum.returned > 1 && sum.losses > 5, "{sum:?}");
}

#[test]
fn mutants_of_parts_are_caught() {
    let pages = Subject::of_pages();
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
        let failure = first_failure(&subject, work, &Machine::Small, 0..2_000);
        assert!(failure.is_some(), "{} was not noticed", subject.name);
    }
}

#[test]
fn mutants_of_locks_are_caught() {
    let mutants = [
        ("no locks of gaps", Fault::UnlockedGaps),
        ("no locks of reads", Fault::UnlockedReads),
        ("no intentions", Fault::MissingIntents),
        ("inherited locks stay", Fault::KeptInheritedLocks),
        ("savepoints that keep a write", Fault::KeptSavepointWrites),
    ];
    for (name, fault) in mutants {
        let subject = Subject::of_pages().with_faults(name, Faults::of(&[fault]));
        assert!(
            first_failure(&subject, Work::Histories, &Machine::Small, 0..200).is_some(),
            "{name} was not noticed"
        );
    }
}

#[test]
fn crashes_of_pages_lose_nothing_that_was_acknowledged() {
    let subject = Subject::of_pages();
    assert_eq!(first_failure(&subject, Work::Crashes, &Machine::Small, 0..80), None);
}

#[test]
fn mutants_of_log_and_restart_are_caught() {
    let mutants = [
        ("pages before their log", Fault::PagesBeforeLog),
        ("no images of pages", Fault::MissingImages),
        ("no undo at restart", Fault::MissingRestartUndo),
        ("no compensation", Fault::MissingCompensation),
        ("acknowledged in memory", Fault::MissingFlush),
        ("pieces of rows that are gone", Fault::KeptPieces),
        ("merges that move nothing again", Fault::MissingMergeRedo),
        ("savepoints that keep a write", Fault::KeptSavepointWrites),
    ];
    for (name, fault) in mutants {
        let subject = Subject::of_pages().with_faults(name, Faults::of(&[fault]));
        let failure = first_failure(&subject, Work::Crashes, &Machine::Small, 0..400);
        assert!(failure.is_some(), "{name} was not noticed");
    }
}
