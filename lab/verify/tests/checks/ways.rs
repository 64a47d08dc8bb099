//! Variants of schemes are as correct as the defaults, and their mutants are noticed.

use concurrency::SchemeName::{DlDetect, Hstore, Mvcc, NoWait, Occ, Silo, TicToc, WaitDie};
use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, TimestampDraws, Ways};
use terms::Fault;
use verify::{Machine, Subject, Tally, Work};

use crate::support::{all_hold, holds, is_caught, mutant};

/// Seeds of each scheme and workload.
const SEEDS: u64 = 30;
/// Seeds of crashes, each of which boots a machine several times.
const SEEDS_OF_CRASHES: u64 = 6;
/// Seeds of benchmarks, which load more and run longer.
const SEEDS_OF_BENCHMARKS: u64 = 2;
/// Seeds on hardware, where a seed does not fix the schedule.
const SEEDS_ON_HARDWARE: u64 = 1;

const LATCH: Ways = Ways {
    row_lock: RowLock::Latch,
    row_copies: RowCopies::Fields,
    commit_locks: CommitLocks::Ordered,
    deadlocks: Deadlocks::Graph,
    timestamp_draws: TimestampDraws::Published,
};
const LISTS: Ways = Ways { deadlocks: Deadlocks::Lists, ..LATCH };
const COPIES: Ways = Ways { row_lock: RowLock::Word, row_copies: RowCopies::Rows, ..LATCH };
const NO_WAIT: Ways = Ways { row_lock: RowLock::Word, commit_locks: CommitLocks::NoWait, ..LATCH };
/// All variants at once.
const ALL: Ways = Ways { row_copies: RowCopies::Rows, commit_locks: CommitLocks::NoWait, ..LISTS };

fn subjects() -> Vec<Subject> {
    [
        (NoWait, "no-wait with latches", LATCH),
        (WaitDie, "wait-die with latches", LATCH),
        (DlDetect, "dl-detect with latches", LATCH),
        (DlDetect, "dl-detect with lists", LISTS),
        (NoWait, "no-wait with copies", COPIES),
        (Silo, "silo with copies", COPIES),
        (TicToc, "tictoc with copies", COPIES),
        (Silo, "silo that does not wait", NO_WAIT),
        (TicToc, "tictoc that does not wait", NO_WAIT),
        (Mvcc, "mvcc that does not wait", NO_WAIT),
        (Silo, "silo in all ways", ALL),
        (TicToc, "tictoc in all ways", ALL),
        (Occ, "occ in all ways", ALL),
        (Mvcc, "mvcc in all ways", ALL),
        (NoWait, "no-wait in all ways", ALL),
        (WaitDie, "wait-die in all ways", ALL),
        (DlDetect, "dl-detect in all ways", ALL),
        (Hstore, "hstore in all ways", ALL),
    ]
    .map(|(scheme, name, ways)| Subject::of(scheme).in_ways(name, ways))
    .to_vec()
}

#[test]
fn histories_of_all_ways_are_serializable() {
    for subject in subjects() {
        let Tally { sum, .. } = holds(&subject, Work::Histories, &Machine::Small, SEEDS);
        assert!(sum.histories == SEEDS && sum.aborts > 0);
    }
}

#[test]
fn totals_of_two_databases_stay_in_all_ways() {
    all_hold(&subjects(), &[Work::Bank], &Machine::Small, SEEDS);
}

#[test]
fn crashes_lose_nothing_in_all_ways() {
    all_hold(&subjects(), &[Work::Crashes], &Machine::Small, SEEDS_OF_CRASHES);
}

#[test]
fn benchmarks_keep_their_invariants_in_all_ways() {
    all_hold(&subjects(), &[Work::Tpcc, Work::Micro, Work::Ycsb], &Machine::Small, SEEDS_OF_BENCHMARKS);
}

#[test]
fn everything_holds_on_hardware_in_all_ways() {
    all_hold(&subjects(), &[Work::Histories, Work::Bank, Work::Micro], &Machine::Hardware, SEEDS_ON_HARDWARE);
}

/// With lock managers too, waiting needs no bound within one database.
#[test]
fn waiting_in_queues_needs_no_bound() {
    let unbounded = [Fault::UnboundedWaits];
    for (subject, ways) in [
        (mutant(WaitDie, "wait-die with latches without a bound", &unbounded), LATCH),
        (mutant(DlDetect, "dl-detect with latches without a bound", &unbounded), LATCH),
        (mutant(DlDetect, "dl-detect with lists without a bound", &unbounded), LISTS),
    ] {
        holds(&subject.in_ways(subject.name, ways), Work::Histories, &Machine::Small, SEEDS);
    }
}

#[test]
fn mutants_with_managers_are_caught() {
    let careless = [Fault::SharedOwnership];
    let endless = [Fault::UnboundedWaits, Fault::UnresolvedDeadlocks];
    for (mutant, ways) in [
        (mutant(NoWait, "no-wait whose managers let all in", &careless), LATCH),
        (mutant(WaitDie, "wait-die whose managers let all in", &careless), LATCH),
        (mutant(DlDetect, "dl-detect whose managers let all in", &careless), LATCH),
        (mutant(DlDetect, "dl-detect with lists whose managers let all in", &careless), LISTS),
        (mutant(NoWait, "no-wait with managers without gap locks", &[Fault::UnlockedGaps]), LATCH),
        (mutant(NoWait, "no-wait with managers without shared locks", &[Fault::EarlySharedUnlock]), LATCH),
        (mutant(WaitDie, "wait-die with managers whose younger wait", &endless), LATCH),
        (mutant(DlDetect, "dl-detect with managers that does not look", &endless), LATCH),
        (mutant(DlDetect, "dl-detect with lists that does not look", &endless), LISTS),
    ] {
        is_caught(&mutant.in_ways(mutant.name, ways), Work::Histories, 0);
    }
}
