//! Campaigns: schemes pass, and mutants fail.

use concurrency::SchemeName::{DlDetect, Hstore, Mvcc, NoWait, Occ, Silo, TicToc, WaitDie};
use terms::Fault;
use verify::{Campaign, Machine, Subject, Tally, Trial, Work, scheme, schemes};

use crate::support::{all_hold, holds, is_caught, mutant};

/// Seeds of each scheme and workload; `isles verify` runs as many as requested, and `.ci/deep`
/// 100,000.
const SEEDS: u64 = 60;
/// Seeds of histories of several instances.
const SEEDS_OF_DISTRIBUTED: u64 = 20;
/// Seeds of benchmarks, which load more and run longer.
const SEEDS_OF_BENCHMARKS: u64 = 4;
/// Seeds on hardware, where a seed does not fix the schedule.
const SEEDS_ON_HARDWARE: u64 = 4;
/// Seeds within which a reader of a mutant sees a row between two of its writes, and panics.
const SEEDS_OF_TORN_ROWS: u64 = 20_000;

#[test]
fn histories_are_serializable() {
    for subject in schemes() {
        let Tally { sum, .. } = holds(&subject, Work::Histories, &Machine::Small, SEEDS);
        assert!(sum.histories == SEEDS && sum.aborts > 0);
        assert!(sum.undecided * 50 <= SEEDS, "{} histories were too hard to decide", sum.undecided);
        assert!(sum.withheld * 2 < sum.observations, "the second opinion hears less than half");
    }
}

/// All transactions of several instances are one history.
#[test]
fn histories_of_several_instances_are_serializable() {
    for subject in schemes() {
        let Tally { sum, .. } = holds(&subject, Work::Distributed, &Machine::Small, SEEDS_OF_DISTRIBUTED);
        assert!(sum.histories == SEEDS_OF_DISTRIBUTED && sum.aborts > 0);
        assert!(sum.undecided * 20 <= SEEDS_OF_DISTRIBUTED, "{} histories were undecided", sum.undecided);
        assert!(sum.withheld * 2 < sum.observations, "the second opinion hears less than half");
    }
}

/// Within one database deadlocks are prevented or found: waiting needs no bound.
#[test]
fn waiting_needs_no_bound() {
    for subject in [
        mutant(WaitDie, "wait-die without a bound on waiting", &[Fault::UnboundedWaits]),
        mutant(DlDetect, "dl-detect without a bound on waiting", &[Fault::UnboundedWaits]),
    ] {
        holds(&subject, Work::Histories, &Machine::Small, SEEDS);
    }
}

#[test]
fn totals_of_two_databases_stay() {
    all_hold(&schemes(), &[Work::Bank], &Machine::Small, SEEDS);
}

#[test]
fn benchmarks_keep_their_invariants() {
    all_hold(&schemes(), &[Work::Tpcc, Work::Micro, Work::Ycsb], &Machine::Small, SEEDS_OF_BENCHMARKS);
}

#[test]
fn everything_holds_on_hardware() {
    all_hold(&schemes(), &[Work::Histories, Work::Bank, Work::Micro], &Machine::Hardware, SEEDS_ON_HARDWARE);
}

#[test]
fn instances_keep_invariants_together() {
    all_hold(&schemes(), &[Work::Islands], &Machine::Small, SEEDS_OF_BENCHMARKS / 2);
    holds(&schemes()[0], Work::Islands, &Machine::Hardware, SEEDS_ON_HARDWARE / 2);
    holds(&schemes()[0], Work::Distributed, &Machine::Hardware, SEEDS_ON_HARDWARE / 4);
}

/// TPC-C's conditions at several numbers of simulated cores.
#[test]
fn tpcc_holds_on_many_cores() {
    for subject in schemes() {
        // The longest runs use one scheme of each kind; `.ci/deep` runs all.
        let many = if matches!(subject.name, "silo" | "dl-detect") { 64 } else { 16 };
        for workers in [1, 2, 8, many] {
            let (work, machine, workers) = (Work::Tpcc, &Machine::Small, Some(workers));
            let verdict = Trial { subject: &subject, work, machine, workers, seed: 3 }.run();
            assert_eq!(verdict.failure, None, "{} with {workers:?} workers", subject.name);
        }
    }
}

/// A panic is a failure with its message and the events before it.
#[test]
fn panics_are_failures() {
    let broken = mutant(NoWait, "no-wait without shared locks", &[Fault::EarlySharedUnlock]);
    let mut failures = (0..SEEDS_OF_TORN_ROWS).filter_map(|seed| {
        let (work, machine) = (Work::Histories, &Machine::Small);
        Trial { subject: &broken, work, machine, workers: None, seed }.run().failure
    });
    let torn = failures.find(|failure| failure.what.starts_with("panicked: a torn row"));
    let torn = torn.expect("some seed shows half of a change");
    assert!(torn.what.contains("recorder.rs"), "{}", torn.what);
    assert!(torn.last_events.iter().any(|event| event.starts_with("worker ")), "{:?}", torn.last_events);
    let of_core = |event: &&String| event.starts_with("thread ") && event.contains(" at ");
    assert!(torn.last_events.iter().filter(of_core).count() > 1, "{:?}", torn.last_events);
}

/// Campaigns on one and two threads have the same result; a stopped campaign begins no further
/// trial.
#[test]
fn campaigns_add_up() {
    let subject = schemes()[0];
    let machine = &Machine::Small;
    let run = |threads, seeds, observe: &mut dyn FnMut(verify::Progress) -> bool| {
        let (work, workers) = (Work::Histories, None);
        Campaign { subject: &subject, work, machine, workers, seeds, threads, failures_max: 1 }.run(observe)
    };
    let (mut seen, one) = (0, run(1, 5..45, &mut |_| true));
    let two = run(2, 5..45, &mut |progress| {
        seen = progress.seeds;
        true
    });
    assert_eq!((one.seeds, seen), (40, 40));
    assert_eq!(one, two);
    assert!(run(2, 0..u64::MAX, &mut |progress| progress.seeds < 20).seeds >= 20);
}

/// The first seed of the search: mutants that need many seeds are searched near a seed that is
/// known to fail.
fn first_seed(mutant: &Subject) -> u64 {
    match mutant.name {
        "tictoc without times of reads" => 800,
        "tictoc without times of absences" => 7_400,
        _ => 0,
    }
}

/// Each mutant of each scheme, and the workload that has to reveal it.
#[test]
fn mutants_are_caught() {
    let endless = [Fault::UnboundedWaits, Fault::UnresolvedDeadlocks];
    let mutants = [
        (Work::Histories, mutant(Silo, "silo without read validation", &[Fault::UncheckedReads])),
        (Work::Histories, mutant(Silo, "silo without witnesses", &[Fault::UncheckedLeaves])),
        (Work::Bank, mutant(Silo, "silo without frozen absences", &[Fault::UnfrozenAbsences])),
        (Work::Bank, mutant(Silo, "silo whose participants let go", &[Fault::EarlyParticipantUnlock])),
        (Work::Bank, mutant(TicToc, "tictoc whose participants let go", &[Fault::EarlyParticipantUnlock])),
        (Work::Bank, mutant(Occ, "occ whose participants let go", &[Fault::EarlyParticipantUnlock])),
        (Work::Bank, mutant(Mvcc, "mvcc whose participants let go", &[Fault::EarlyParticipantUnlock])),
        (Work::Histories, mutant(TicToc, "tictoc without read validation", &[Fault::UncheckedReads])),
        (Work::Histories, mutant(TicToc, "tictoc without witnesses", &[Fault::UncheckedLeaves])),
        (Work::Histories, mutant(TicToc, "tictoc without times of reads", &[Fault::UnusedReadTimes])),
        (Work::Histories, mutant(TicToc, "tictoc without times of absences", &[Fault::MissingTraces])),
        (Work::Bank, mutant(TicToc, "tictoc without frozen absences", &[Fault::UnfrozenAbsences])),
        (Work::Histories, mutant(Occ, "occ without read validation", &[Fault::UncheckedReads])),
        (Work::Histories, mutant(Occ, "occ without witnesses", &[Fault::UncheckedLeaves])),
        (Work::Bank, mutant(Occ, "occ without frozen absences", &[Fault::UnfrozenAbsences])),
        (Work::Histories, mutant(Mvcc, "mvcc without read validation", &[Fault::UncheckedReads])),
        (Work::Histories, mutant(Mvcc, "mvcc without witnesses", &[Fault::UncheckedLeaves])),
        (Work::Histories, mutant(Mvcc, "mvcc without old versions", &[Fault::LostVersions])),
        (Work::Histories, mutant(Mvcc, "mvcc whose snapshots are too new", &[Fault::SnapshotOfOpenEpoch])),
        (Work::Histories, mutant(Mvcc, "mvcc without deferred unlinking", &[Fault::EarlyUnlinking])),
        (Work::Bank, mutant(Mvcc, "mvcc without frozen absences", &[Fault::UnfrozenAbsences])),
        (Work::Histories, mutant(Hstore, "hstore without homes of rows", &[Fault::UnlockedHomes])),
        (Work::Histories, mutant(Hstore, "hstore without undo", &[Fault::MissingUndo])),
        (Work::Bank, mutant(Hstore, "hstore whose participants let go", &[Fault::EarlyParticipantUnlock])),
        (Work::Histories, mutant(NoWait, "no-wait without gap locks", &[Fault::UnlockedGaps])),
        (Work::Histories, mutant(NoWait, "no-wait without shared locks", &[Fault::EarlySharedUnlock])),
        (Work::Histories, mutant(WaitDie, "wait-die without gap locks", &[Fault::UnlockedGaps])),
        (Work::Histories, mutant(WaitDie, "wait-die without shared locks", &[Fault::EarlySharedUnlock])),
        (Work::Histories, mutant(WaitDie, "wait-die whose younger wait", &endless)),
        (Work::Histories, mutant(DlDetect, "dl-detect without gap locks", &[Fault::UnlockedGaps])),
        (Work::Histories, mutant(DlDetect, "dl-detect without shared locks", &[Fault::EarlySharedUnlock])),
        (Work::Histories, mutant(DlDetect, "dl-detect that does not look", &endless)),
    ];
    let keeps = &[Fault::KeptSavepointWrites];
    let of_savepoints = [
        (Work::Histories, mutant(Silo, "silo whose savepoints keep writes", keeps)),
        (Work::Histories, mutant(Mvcc, "mvcc whose savepoints keep writes", keeps)),
        (Work::Histories, mutant(NoWait, "no-wait whose savepoints keep writes", keeps)),
        (Work::Histories, mutant(Hstore, "hstore whose savepoints keep writes", keeps)),
        (Work::Crashes, mutant(Silo, "silo whose savepoints keep writes", keeps)),
    ];
    for (work, mutant) in mutants.into_iter().chain(of_savepoints) {
        is_caught(&mutant, work, first_seed(&mutant));
    }
}

/// Faults of several instances: each mutant with a seed shortly before one that fails.
#[test]
fn mutants_of_several_instances_are_caught() {
    let mutants = [
        (890, mutant(Silo, "silo whose reads are free at the vote", &[Fault::EarlyReadUnlock])),
        (1_500, mutant(NoWait, "no-wait whose reads are free at the vote", &[Fault::EarlyReadUnlock])),
        (0, mutant(Silo, "silo that decides before all votes", &[Fault::MissingVote])),
        (0, mutant(Silo, "silo that commits what is to abort", &[Fault::IgnoredAborts])),
        (17_200, Subject::of(Mvcc).with_snapshots("mvcc with snapshots of one instance")),
        (1_290, mutant(Silo, "silo without frozen absences", &[Fault::UnfrozenAbsences])),
        (1_290, mutant(TicToc, "tictoc without frozen absences", &[Fault::UnfrozenAbsences])),
        (1_225, mutant(Hstore, "hstore whose participants let go", &[Fault::EarlyParticipantUnlock])),
    ];
    for (first, mutant) in mutants {
        is_caught(&mutant, Work::Distributed, first);
    }
}

#[test]
fn schemes_have_names() {
    let mut names: Vec<&str> = schemes().iter().map(|subject| subject.name).collect();
    assert!(names.iter().all(|name| scheme(name).is_some_and(|subject| subject.name == *name)));
    assert!(scheme("none").is_none());
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
