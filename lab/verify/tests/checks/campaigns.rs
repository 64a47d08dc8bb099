//! Campaigns: schemes pass, and mutants fail.

use std::ops::Range;

use concurrency::SchemeName;
use terms::{Fault, Faults};
use verify::{Campaign, Machine, Subject, Tally, Trial, Work, scheme, schemes};

/// Seeds of each scheme and workload; `isles verify` runs as many as requested, and `.ci/deep`
/// 100,000.
const SEEDS: u64 = 60;
/// Seeds of histories of several instances.
const SEEDS_OF_DISTRIBUTED: u64 = 20;
/// The rules of several instances.
/// Seeds of benchmarks, which load more and run longer.
const SEEDS_OF_BENCHMARKS: u64 = 4;
/// Seeds on hardware, where a seed does not fix the schedule.
const SEEDS_ON_HARDWARE: u64 = 4;
/// Seeds within which a mutant fails; some need several rare events at a time.
const SEEDS_OF_MUTANTS: u64 = 20_000;
/// Seeds within which a reader of a mutant sees a row between two of its writes, and panics.
const SEEDS_OF_TORN_ROWS: u64 = 20_000;

fn campaign(subject: &Subject, work: Work, machine: &Machine, seeds: Range<u64>) -> Tally {
    let campaign = Campaign { subject, work, machine, workers: None, seeds, threads: 1, failures_max: 1 };
    let tally = campaign.run(&mut |_| true);
    println!("{} {work}: {:?}", subject.name, tally.sum);
    tally
}

fn holds(subject: &Subject, work: Work, machine: &Machine, seeds: u64) -> Tally {
    let tally = campaign(subject, work, machine, 0..seeds);
    assert_eq!(tally.failures, [], "{} {work}", subject.name);
    assert_eq!(tally.seeds, seeds);
    assert!(tally.sum.transactions > 0);
    tally
}

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
        Subject::of(SchemeName::WaitDie)
            .with_faults("wait-die without a bound on waiting", Faults::of(&[Fault::UnboundedWaits])),
        Subject::of(SchemeName::DlDetect)
            .with_faults("dl-detect without a bound on waiting", Faults::of(&[Fault::UnboundedWaits])),
    ] {
        holds(&subject, Work::Histories, &Machine::Small, SEEDS);
    }
}

#[test]
fn totals_of_two_databases_stay() {
    for subject in schemes() {
        holds(&subject, Work::Bank, &Machine::Small, SEEDS);
    }
}

#[test]
fn benchmarks_keep_their_invariants() {
    for subject in schemes() {
        for work in [Work::Tpcc, Work::Micro, Work::Ycsb] {
            holds(&subject, work, &Machine::Small, SEEDS_OF_BENCHMARKS);
        }
    }
}

#[test]
fn everything_holds_on_hardware() {
    for subject in schemes() {
        for work in [Work::Histories, Work::Bank, Work::Micro] {
            holds(&subject, work, &Machine::Hardware, SEEDS_ON_HARDWARE);
        }
    }
}

#[test]
fn instances_keep_invariants_together() {
    for subject in schemes() {
        holds(&subject, Work::Islands, &Machine::Small, SEEDS_OF_BENCHMARKS / 2);
    }
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
    let broken = Subject::of(SchemeName::NoWait)
        .with_faults("no-wait without shared locks", Faults::of(&[Fault::EarlySharedUnlock]));
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
    let mutants = [
        (
            Work::Histories,
            Subject::of(SchemeName::Silo)
                .with_faults("silo without read validation", Faults::of(&[Fault::UncheckedReads])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Silo)
                .with_faults("silo without witnesses", Faults::of(&[Fault::UncheckedLeaves])),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::Silo)
                .with_faults("silo without frozen absences", Faults::of(&[Fault::UnfrozenAbsences])),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::Silo)
                .with_faults("silo whose participants let go", Faults::of(&[Fault::EarlyParticipantUnlock])),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::TicToc).with_faults(
                "tictoc whose participants let go",
                Faults::of(&[Fault::EarlyParticipantUnlock]),
            ),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::Occ)
                .with_faults("occ whose participants let go", Faults::of(&[Fault::EarlyParticipantUnlock])),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::Mvcc)
                .with_faults("mvcc whose participants let go", Faults::of(&[Fault::EarlyParticipantUnlock])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::TicToc)
                .with_faults("tictoc without read validation", Faults::of(&[Fault::UncheckedReads])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::TicToc)
                .with_faults("tictoc without witnesses", Faults::of(&[Fault::UncheckedLeaves])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::TicToc)
                .with_faults("tictoc without times of reads", Faults::of(&[Fault::UnusedReadTimes])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::TicToc)
                .with_faults("tictoc without times of absences", Faults::of(&[Fault::MissingTraces])),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::TicToc)
                .with_faults("tictoc without frozen absences", Faults::of(&[Fault::UnfrozenAbsences])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Occ)
                .with_faults("occ without read validation", Faults::of(&[Fault::UncheckedReads])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Occ)
                .with_faults("occ without witnesses", Faults::of(&[Fault::UncheckedLeaves])),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::Occ)
                .with_faults("occ without frozen absences", Faults::of(&[Fault::UnfrozenAbsences])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Mvcc)
                .with_faults("mvcc without read validation", Faults::of(&[Fault::UncheckedReads])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Mvcc)
                .with_faults("mvcc without witnesses", Faults::of(&[Fault::UncheckedLeaves])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Mvcc)
                .with_faults("mvcc without old versions", Faults::of(&[Fault::LostVersions])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Mvcc)
                .with_faults("mvcc whose snapshots are too new", Faults::of(&[Fault::SnapshotOfOpenEpoch])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Mvcc)
                .with_faults("mvcc without deferred unlinking", Faults::of(&[Fault::EarlyUnlinking])),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::Mvcc)
                .with_faults("mvcc without frozen absences", Faults::of(&[Fault::UnfrozenAbsences])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Hstore)
                .with_faults("hstore without homes of rows", Faults::of(&[Fault::UnlockedHomes]))
                .with_partitions(),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::Hstore)
                .with_faults("hstore without undo", Faults::of(&[Fault::MissingUndo]))
                .with_partitions(),
        ),
        (
            Work::Bank,
            Subject::of(SchemeName::Hstore)
                .with_faults("hstore whose participants let go", Faults::of(&[Fault::EarlyParticipantUnlock]))
                .with_partitions(),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::NoWait)
                .with_faults("no-wait without gap locks", Faults::of(&[Fault::UnlockedGaps])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::NoWait)
                .with_faults("no-wait without shared locks", Faults::of(&[Fault::EarlySharedUnlock])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::WaitDie)
                .with_faults("wait-die without gap locks", Faults::of(&[Fault::UnlockedGaps])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::WaitDie)
                .with_faults("wait-die without shared locks", Faults::of(&[Fault::EarlySharedUnlock])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::WaitDie).with_faults(
                "wait-die whose younger wait",
                Faults::of(&[Fault::UnboundedWaits, Fault::UnresolvedDeadlocks]),
            ),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::DlDetect)
                .with_faults("dl-detect without gap locks", Faults::of(&[Fault::UnlockedGaps])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::DlDetect)
                .with_faults("dl-detect without shared locks", Faults::of(&[Fault::EarlySharedUnlock])),
        ),
        (
            Work::Histories,
            Subject::of(SchemeName::DlDetect).with_faults(
                "dl-detect that does not look",
                Faults::of(&[Fault::UnboundedWaits, Fault::UnresolvedDeadlocks]),
            ),
        ),
    ];
    for (work, mutant) in mutants {
        is_caught(&mutant, work, first_seed(&mutant));
    }
}

fn is_caught(mutant: &Subject, work: Work, first: u64) {
    let machine = &Machine::Small;
    let tally = campaign(mutant, work, machine, first..first + SEEDS_OF_MUTANTS);
    let Some(failure) = tally.failures.first() else {
        panic!("{}: {} seeds did not show what is missing", mutant.name, tally.seeds)
    };
    println!("{}: seed {}: {}", mutant.name, failure.seed, failure.what);
    let again = Trial { subject: mutant, work, machine, workers: None, seed: failure.seed };
    assert_eq!(again.run().failure.as_ref(), Some(failure), "a seed repeats its failure");
}

/// Faults of several instances: each mutant with a seed shortly before one that fails.
#[test]
fn mutants_of_several_instances_are_caught() {
    let (free, early) = (Faults::of(&[Fault::EarlyReadUnlock]), Faults::of(&[Fault::MissingVote]));
    let deaf = Faults::of(&[Fault::IgnoredAborts]);
    let of = Subject::of;
    let mutants = [
        (890, of(SchemeName::Silo).with_faults("silo whose reads are free at the vote", free)),
        (1_500, of(SchemeName::NoWait).with_faults("no-wait whose reads are free at the vote", free)),
        (0, of(SchemeName::Silo).with_faults("silo that decides before all votes", early)),
        (0, of(SchemeName::Silo).with_faults("silo that commits what is to abort", deaf)),
        (42_600, of(SchemeName::Mvcc).with_snapshots("mvcc with snapshots of one instance")),
        (
            1_290,
            Subject::of(SchemeName::Silo)
                .with_faults("silo without frozen absences", Faults::of(&[Fault::UnfrozenAbsences])),
        ),
        (
            1_290,
            Subject::of(SchemeName::TicToc)
                .with_faults("tictoc without frozen absences", Faults::of(&[Fault::UnfrozenAbsences])),
        ),
        (
            1_225,
            Subject::of(SchemeName::Hstore)
                .with_faults("hstore whose participants let go", Faults::of(&[Fault::EarlyParticipantUnlock]))
                .with_partitions(),
        ),
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
