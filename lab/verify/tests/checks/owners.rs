//! Workers that own partitions: histories, invariants, crashes, and mutants of the rules that
//! isolate their transactions and keep them atomic.

use concurrency::SchemeName;
use terms::{Fault, Faults};
use verify::crashes::owners;
use verify::{Driven, Machine, Subject, Work};

use crate::support::{first_failure, first_violation, has_violation};

fn in_memory() -> Subject {
    Subject::of(SchemeName::Hstore)
}

#[test]
fn owners_keep_transactions_apart_and_whole() {
    assert_eq!(first_failure(&Subject::of_pages(), Work::Owners, &Machine::Small, 0..48), None);
}

#[test]
fn owners_of_rows_in_memory_keep_transactions_apart_and_whole() {
    assert_eq!(first_failure(&in_memory(), Work::Owners, &Machine::Small, 0..32), None);
    assert_eq!(first_failure(&in_memory(), Work::Owners, &Machine::Hardware, [0, 2, 4, 6]), None);
}

#[test]
fn owners_on_hardware_keep_transactions_apart() {
    // Crashes need the virtual machine.
    let seeds = (0..16).filter(|seed| seed % 4 < 3);
    assert_eq!(first_failure(&Subject::of_pages(), Work::Owners, &Machine::Hardware, seeds), None);
}

#[test]
fn mutants_of_owners_are_caught() {
    // With the first seeds over pages and in memory, shortly before one that fails.
    let mutants = [
        ((0, 0), "actions run at other workers", Fault::MisroutedActions),
        ((0, 0), "locks are left behind", Fault::KeptOwnerLocks),
        ((0, 0), "one owner rolls back what commits", Fault::PartialCommit),
        ((112, 48), "owners lock nothing", Fault::MissingOwnerLocks),
        ((16, 8), "a worker keeps its map", Fault::StaleMap),
        ((16, 64), "the map changes while transactions are active", Fault::UndrainedMap),
    ];
    for ((first_of_pages, first_in_memory), name, fault) in mutants {
        let faults = Faults::of(&[fault]);
        // Without crashes.
        let seeds = (first_of_pages..600).filter(|seed| seed % 4 < 3);
        let mutant = Subject::of_pages().with_faults(name, faults);
        let failure = first_failure(&mutant, Work::Owners, &Machine::Small, seeds);
        assert!(failure.is_some(), "{name} was not noticed");
        let seeds = (first_in_memory..600).filter(|seed| seed % 4 < 3);
        let mutant = in_memory().with_faults(name, faults);
        let failure = first_failure(&mutant, Work::Owners, &Machine::Small, seeds);
        assert!(failure.is_some(), "{name}, of rows in memory, was not noticed");
    }
}

#[test]
fn branches_that_take_nothing_back_are_caught() {
    let subject = in_memory().with_faults("branches without undo", Faults::of(&[Fault::MissingUndo]));
    assert!(first_failure(&subject, Work::Owners, &Machine::Small, 0..200).is_some(), "it was not noticed");
}

/// Rows in pages, and rows in memory.
fn engines() -> [Driven; 2] {
    [Driven::PAGES, Driven::from(SchemeName::Hstore)]
}

#[test]
fn crashes_leave_no_branch_alone() {
    for driven in engines() {
        let mut sum = 0;
        for seed in 0..20 {
            let (wrong, transactions) = owners::violations(driven, seed, Faults::NONE).expect("a run");
            assert_eq!(wrong, Vec::<String>::new(), "{driven}, seed {seed}");
            sum += transactions;
        }
        assert!(sum > 1_000, "{driven}: {sum} transactions");
    }
}

#[test]
fn mutants_of_the_commit_record_are_caught() {
    let mutants = [
        ("a commit of one branch", Fault::SingleBranchCommit),
        ("a commit that is acknowledged before it is durable", Fault::EarlyAcknowledgement),
    ];
    for (name, fault) in mutants {
        for driven in engines() {
            let faults = Faults::of(&[fault]);
            let violation = |seed| first_violation(owners::violations(driven, seed, faults));
            has_violation(name, 0..200, violation);
        }
    }
    let (driven, faults) = (Driven::from(SchemeName::Hstore), Faults::of(&[Fault::UnorderedStamps]));
    let violation = |seed| first_violation(owners::violations(driven, seed, faults));
    has_violation("stamps of owners that do not ascend", 0..200, violation);
}
