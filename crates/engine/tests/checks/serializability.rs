//! Histories of all schemes are serializable, and those of schemes without their checks are not.

use std::ops::Range;

use cc::mutants::{
    WithoutGapLocks, WithoutGraves, WithoutHomes, WithoutLag, WithoutOldVersions, WithoutReadTimes,
    WithoutReadValidation, WithoutSharedLocks, WithoutTraces, WithoutUndo, WithoutWitnesses,
};
use cc::{Hstore, Mvcc, NoWait, Occ, Scheme, Silo, TicToc};
use engine::testing::{Violation, history};
use platform::Hardware;
use sim::VirtualMachine;

use crate::histories::{Mix, record};
use crate::support::virtually;

/// Virtual seeds of each scheme.
const SEEDS: u64 = 320;
/// Virtual seeds within which a mutant must be caught.
const SEEDS_OF_MUTANTS: u64 = 60;
/// The same for mutants that need several rare things at a time; `time_travel` shows them step by step.
const SEEDS_OF_RARE_MUTANTS: u64 = 640;

fn mix(seed: u64) -> Mix {
    let (workers, transactions) = (3 + (seed % 4) as usize, 8 + seed / 4 % 3 * 6);
    let keys = match seed / 12 % 4 {
        // Several leaves, which are split and unlinked.
        3 => 120,
        small => 6 + small * 4,
    };
    let hot = if keys == 120 { (8, seed % 7 * 16) } else { (keys, 0) };
    let epoch_nanos = if seed.is_multiple_of(2) { 3_000 } else { 100_000 };
    Mix {
        workers,
        transactions,
        keys,
        hot,
        partitioned: seed / 48 % 2 == 1,
        epoch_nanos,
        snapshots: 0,
        snapshots_never_abort: false,
    }
}

fn violation<S: Scheme<VirtualMachine>>(seed: u64) -> Result<history::Report, Violation> {
    let mut mix = mix(seed);
    if S::SNAPSHOTS {
        (mix.snapshots, mix.snapshots_never_abort) = (30, true);
    }
    let history = virtually(seed, mix.workers, |c| record::<VirtualMachine, S>(c, &mix, seed));
    history::check(&history)
}

fn holds_virtually<S: Scheme<VirtualMachine>>() {
    let mut total = history::Report::default();
    let mut undecided = 0;
    for seed in 0..SEEDS {
        match violation::<S>(seed) {
            Ok(report) => {
                total.writers += report.writers;
                total.rows_seen += report.rows_seen;
                total.absences_seen += report.absences_seen;
                undecided += u64::from(report.undecided);
            }
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    assert!(total.writers > 0 && total.rows_seen > 0 && total.absences_seen > 0);
    assert!(undecided * 50 <= SEEDS, "{undecided} histories were too hard to decide");
}

fn holds_on_threads<S: Scheme<Hardware>>() {
    for seed in 0..24 {
        let mut mix = Mix { workers: 2 + (seed % 3) as usize, transactions: 40, ..mix(seed) };
        (mix.snapshots, mix.snapshots_never_abort) = (if S::SNAPSHOTS { 30 } else { 0 }, true);
        let history = record::<Hardware, S>(Hardware::core(), &mix, seed);
        if let Err(violation) = history::check(&history) {
            panic!("seed {seed}: {violation}");
        }
    }
}

/// A transaction that sees a torn row stops the program: that counts.
fn is_caught_within<S: Scheme<VirtualMachine>>(seeds: Range<u64>) {
    let fails = |seed| std::panic::catch_unwind(|| violation::<S>(seed).is_err()).unwrap_or(true);
    let first = seeds.clone().find(|seed| fails(*seed));
    println!("caught with seed {first:?}");
    assert!(first.is_some(), "seeds {seeds:?} did not show what is missing");
}

fn is_caught<S: Scheme<VirtualMachine>>() {
    is_caught_within::<S>(0..SEEDS_OF_MUTANTS);
}

#[test]
fn silo_is_serializable_virtually() {
    holds_virtually::<Silo>();
}

#[test]
fn no_wait_is_serializable_virtually() {
    holds_virtually::<NoWait>();
}

#[test]
fn silo_is_serializable_on_threads() {
    holds_on_threads::<Silo>();
}

#[test]
fn no_wait_is_serializable_on_threads() {
    holds_on_threads::<NoWait>();
}

#[test]
fn tictoc_is_serializable_virtually() {
    holds_virtually::<TicToc>();
}

#[test]
fn tictoc_is_serializable_on_threads() {
    holds_on_threads::<TicToc>();
}

#[test]
fn occ_is_serializable_virtually() {
    holds_virtually::<Occ>();
}

#[test]
fn occ_is_serializable_on_threads() {
    holds_on_threads::<Occ>();
}

#[test]
fn tictoc_without_read_validation_is_caught() {
    is_caught::<TicToc<WithoutReadValidation>>();
}

#[test]
fn tictoc_without_witnesses_is_caught() {
    is_caught::<TicToc<WithoutWitnesses>>();
}

#[test]
fn tictoc_without_read_times_is_caught() {
    is_caught_within::<TicToc<WithoutReadTimes>>(0..SEEDS_OF_RARE_MUTANTS);
}

#[test]
fn tictoc_without_traces_is_caught() {
    is_caught_within::<TicToc<WithoutTraces>>(0..SEEDS_OF_RARE_MUTANTS);
}

#[test]
fn occ_without_read_validation_is_caught() {
    is_caught::<Occ<WithoutReadValidation>>();
}

#[test]
fn occ_without_witnesses_is_caught() {
    is_caught::<Occ<WithoutWitnesses>>();
}

#[test]
fn silo_without_read_validation_is_caught() {
    is_caught::<Silo<WithoutReadValidation>>();
}

#[test]
fn silo_without_witnesses_is_caught() {
    is_caught::<Silo<WithoutWitnesses>>();
}

#[test]
fn no_wait_without_gap_locks_is_caught() {
    is_caught::<NoWait<WithoutGapLocks>>();
}

#[test]
fn no_wait_without_shared_locks_is_caught() {
    is_caught::<NoWait<WithoutSharedLocks>>();
}

#[test]
fn hstore_is_serializable_virtually() {
    holds_virtually::<Hstore>();
}

#[test]
fn hstore_is_serializable_on_threads() {
    holds_on_threads::<Hstore>();
}

#[test]
fn hstore_without_homes_is_caught() {
    // With several partitions.
    is_caught_within::<Hstore<WithoutHomes>>(60..96);
}

#[test]
fn hstore_without_undo_is_caught() {
    is_caught::<Hstore<WithoutUndo>>();
}

#[test]
fn mvcc_is_serializable_virtually() {
    holds_virtually::<Mvcc>();
}

#[test]
fn mvcc_is_serializable_on_threads() {
    holds_on_threads::<Mvcc>();
}

#[test]
fn mvcc_without_read_validation_is_caught() {
    is_caught::<Mvcc<WithoutReadValidation>>();
}

#[test]
fn mvcc_without_witnesses_is_caught() {
    is_caught::<Mvcc<WithoutWitnesses>>();
}

#[test]
fn mvcc_without_old_versions_is_caught() {
    is_caught::<Mvcc<WithoutOldVersions>>();
}

#[test]
fn mvcc_without_lag_is_caught() {
    is_caught::<Mvcc<WithoutLag>>();
}

#[test]
fn mvcc_without_graves_is_caught() {
    is_caught::<Mvcc<WithoutGraves>>();
}

/// The same seed gives the same history: what a seed found can be looked at again.
#[test]
fn histories_repeat() {
    let run = || {
        let history = virtually(7, 4, |c| record::<VirtualMachine, Silo>(c, &mix(7), 7));
        format!("{:?}", history.entries)
    };
    assert_eq!(run(), run());
}
