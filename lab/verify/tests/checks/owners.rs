//! Workers that own partitions: histories, invariants, crashes, and mutants of the rules that
//! isolate their transactions and keep them atomic.

use concurrency::SchemeName;
use terms::{Fault, Faults};
use verify::crashes::owners;
use verify::{Machine, Subject, Trial, Work};

fn pages() -> Subject {
    verify::scheme(pages::TWO_PHASE_LOCKING).expect("the scheme of pages")
}

fn in_memory() -> Subject {
    Subject::of(SchemeName::Hstore)
}

/// The first of these seeds that fails, and its failure.
fn first_failure(subject: &Subject, machine: &Machine, seeds: impl Iterator<Item = u64>) -> Option<String> {
    let (mut transactions, mut aborts) = (0, 0);
    let trial = |seed| Trial { subject, work: Work::Owners, machine, workers: None, seed }.run();
    let failure = seeds.map(trial).find_map(|verdict| {
        transactions += verdict.transactions;
        aborts += verdict.aborts;
        verdict.failure
    });
    println!("{}: {transactions} transactions, {aborts} aborts, {failure:?}", subject.name);
    assert!(failure.is_some() || transactions > 0 && aborts > 0, "nothing was seen");
    failure.map(|failure| format!("seed {}: {}", failure.seed, failure.what))
}

#[test]
fn owners_keep_transactions_apart_and_whole() {
    assert_eq!(first_failure(&pages(), &Machine::Small, 0..48), None);
}

#[test]
fn owners_of_rows_in_memory_keep_transactions_apart_and_whole() {
    assert_eq!(first_failure(&in_memory(), &Machine::Small, 0..32), None);
    assert_eq!(first_failure(&in_memory(), &Machine::Hardware, [0, 2, 4, 6].into_iter()), None);
}

#[test]
fn owners_on_hardware_keep_transactions_apart() {
    // Crashes need the virtual machine.
    let seeds = (0..16).filter(|seed| seed % 4 < 3);
    assert_eq!(first_failure(&pages(), &Machine::Hardware, seeds), None);
}

#[test]
fn mutants_of_owners_are_caught() {
    // With the first seeds over pages and in memory, shortly before one that fails.
    let mutants = [
        ((0, 0), "actions run at other workers", Faults::of(&[Fault::MisroutedActions])),
        ((0, 0), "locks are left behind", Faults::of(&[Fault::KeptOwnerLocks])),
        ((0, 0), "one owner rolls back what commits", Faults::of(&[Fault::PartialCommit])),
        ((112, 48), "owners lock nothing", Faults::of(&[Fault::MissingOwnerLocks])),
        ((16, 8), "a worker keeps its map", Faults::of(&[Fault::StaleMap])),
        ((16, 64), "the map changes while transactions are active", Faults::of(&[Fault::UndrainedMap])),
    ];
    for ((first_of_pages, first_in_memory), name, faults) in mutants {
        // Without crashes.
        let seeds = (first_of_pages..600).filter(|seed| seed % 4 < 3);
        let failure = first_failure(&pages().with_faults(name, faults), &Machine::Small, seeds);
        assert!(failure.is_some(), "{name} was not noticed");
        let seeds = (first_in_memory..600).filter(|seed| seed % 4 < 3);
        let failure = first_failure(&in_memory().with_faults(name, faults), &Machine::Small, seeds);
        assert!(failure.is_some(), "{name}, of rows in memory, was not noticed");
    }
}

#[test]
fn branches_that_take_nothing_back_are_caught() {
    let subject = in_memory().with_faults("branches without undo", Faults::of(&[Fault::MissingUndo]));
    assert!(first_failure(&subject, &Machine::Small, 0..200).is_some(), "it was not noticed");
}

#[test]
fn crashes_leave_no_branch_alone() {
    let mut sum = 0;
    for seed in 0..20 {
        let (wrong, transactions) = owners::violations(seed, Faults::NONE).expect("a run");
        assert_eq!(wrong, Vec::<String>::new(), "seed {seed}");
        sum += transactions;
    }
    assert!(sum > 1_000, "{sum} transactions");
}

#[test]
fn a_commit_of_one_branch_is_caught() {
    let faults = Faults::of(&[Fault::SingleBranchCommit]);
    let found = |seed| match owners::violations(seed, faults) {
        Ok((wrong, _)) => wrong.into_iter().next(),
        Err(error) => Some(error.to_string()),
    };
    let first = (0..200).find_map(|seed| found(seed).map(|what| (seed, what)));
    println!("{first:?}");
    assert!(first.is_some(), "nothing was noticed");
}
