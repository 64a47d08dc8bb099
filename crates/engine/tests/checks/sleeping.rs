//! Sessions that say how long they wait for locks, under `dl-detect`: on a hot row each
//! transaction commits at its first attempt, and those that wait do so about as long as any other.
//! And queues of rows whose consumers skip what others have locked: each row has one consumer.

use std::sync::Mutex;

use boundary::{AnySession, Bounds, Span, Verbs};
use concurrency::{DlDetect, InstanceOptions, Mvcc, NoWait, Scheme, Silo, TicToc, WaitDie};
use engine::MemorySession;
use platform::{Intent, Platform};
use schema::{Row, TableOptions};
use sim::VirtualMachine;
use storage::tree::Direction;
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Fault, Faults, Mode};

use crate::support::{options, virtually, with_rows, workers};

const CORES: usize = 16;
const TRANSACTIONS: u64 = 40;
const SECOND: u64 = 1_000_000_000;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Counter {
    id: u64,
    count: u64,
}

/// Times of transactions that have waited, in nanoseconds.
struct Times {
    longest: u64,
    median: u64,
}

/// A transaction that took longer has waited, and perhaps slept.
const WAITED_NANOS: u64 = 5_000;

/// Adds to one row in all sessions; the times, and how many attempts failed.
fn add_to_a_hot_row(seed: u64, faults: Faults) -> Result<(Times, u64), Abort> {
    virtually(seed, CORES, |c| {
        let options = InstanceOptions { lock_queues: true, faults, ..options(CORES + 1) };
        let rows = [Counter { id: 0, count: 0 }];
        let (database, counters) =
            with_rows::<VirtualMachine, DlDetect, _>(c, &options, TableOptions::default(), rows);
        let (times, failed) = (Mutex::new(Vec::new()), Mutex::new(Ok(0)));
        let work = |session: &mut MemorySession<'_, VirtualMachine, DlDetect>, _: usize| {
            AnySession::wait_for_locks(session, Some(SECOND / 100));
            for _ in 0..TRANSACTIONS {
                let began = VirtualMachine::now(session.core());
                let ended = session.transact(&Bounds::default(), |t| {
                    let row = t.find(counters.primary(), &0, Intent::Write)?.expect("loaded");
                    let count = t.get(row, Counter::COUNT)?;
                    t.put(row, Counter::COUNT, &(count + 1))
                });
                let now = VirtualMachine::now(session.core());
                times.lock().expect("no panic").push(now.since(began));
                if let Err(abort) = ended {
                    *failed.lock().expect("no panic") = Err(abort);
                    return;
                }
                session.tend(now);
            }
            let aborts = session.stats().aborts;
            if let Ok(all) = &mut *failed.lock().expect("no panic") {
                *all += aborts;
            }
        };
        workers(c, &database, CORES, &work);
        let failed = failed.into_inner().expect("no panic")?;
        let mut session = database.session(c, None, false).expect("a session");
        let mut count = 0;
        let read = session.transact(&Bounds::default(), |t| {
            let row = t.find(counters.primary(), &0, Intent::Read)?.expect("loaded");
            count = t.get(row, Counter::COUNT)?;
            Ok(())
        });
        read.expect("no other transaction runs");
        assert_eq!(count, CORES as u64 * TRANSACTIONS, "additions are lost");
        let mut times = times.into_inner().expect("no panic");
        times.retain(|nanos| *nanos > WAITED_NANOS);
        times.sort_unstable();
        assert!(times.len() > CORES, "{} have waited", times.len());
        Ok((Times { longest: times[times.len() - 1], median: times[times.len() / 2] }, failed))
    })
}

#[test]
fn a_hot_row_is_served_without_an_abort_and_nobody_waits_much_longer() {
    for seed in 0..6 {
        let (times, aborts) = add_to_a_hot_row(seed, Faults::NONE).expect("all commit");
        assert_eq!(aborts, 0, "seed {seed}");
        let Times { longest, median } = times;
        assert!(longest <= 20 * median, "seed {seed}: {longest} ns, and half of them take {median} ns");
    }
}

#[test]
fn mutant_a_waiter_that_is_skipped_forever() {
    let ended = add_to_a_hot_row(1, Faults::of(&[Fault::SkippedWaiter]));
    assert!(matches!(ended, Err(Abort::LockTimeout { table: Some(0), .. })), "it waits in vain");
}

/// The items that consumers of a queue have taken, and how many attempts failed.
fn consume<S: Scheme<VirtualMachine>>(seed: u64, faults: Faults) -> (Vec<u64>, u64) {
    const ITEMS: u64 = 60;
    virtually(seed, CORES, |c| {
        let options = InstanceOptions { faults, ..options(CORES + 1) };
        let rows = (0..ITEMS).map(|id| Counter { id, count: id });
        let (database, items) = with_rows::<VirtualMachine, S, _>(c, &options, TableOptions::default(), rows);
        let place = TableIndex { table: items.number(), index: 0 };
        let (taken, aborts) = (Mutex::new(Vec::new()), Mutex::new(0));
        let work = |session: &mut MemorySession<'_, VirtualMachine, S>, _: usize| {
            while taken.lock().expect("no panic").len() < ITEMS as usize {
                let mut item = None;
                let ended = AnySession::transact(session, Mode::Single, &Bounds::default(), &mut |verbs| {
                    item = None;
                    let mut found = None;
                    let range = KeyBounds { low: &[0], high: &[u64::MAX] };
                    verbs.scan_or_skip(place, range, Direction::Forward, &mut |_, row| {
                        found = Some(row);
                        Ok(false)
                    })?;
                    let Some(row) = found else { return Ok(()) };
                    let mut words = [0; 2];
                    verbs.read(row, Span::of_words(0, 2), &mut words)?;
                    item = Some(words[1]);
                    verbs.delete(row, &[&[words[0]]])
                });
                ended.expect("it commits in the end");
                taken.lock().expect("no panic").extend(item);
                session.tend(VirtualMachine::now(session.core()));
            }
            *aborts.lock().expect("no panic") += session.stats().aborts;
        };
        workers(c, &database, CORES, &work);
        let mut taken = taken.into_inner().expect("no panic");
        taken.sort_unstable();
        assert_eq!(taken, (0..ITEMS).collect::<Vec<_>>(), "seed {seed}: items are lost, or taken twice");
        (taken, aborts.into_inner().expect("no panic"))
    })
}

#[test]
fn consumers_that_skip_locked_rows_do_not_conflict() {
    for seed in 0..4 {
        for aborts in [
            consume::<NoWait>(seed, Faults::NONE).1,
            consume::<WaitDie>(seed, Faults::NONE).1,
            consume::<DlDetect>(seed, Faults::NONE).1,
        ] {
            assert_eq!(aborts, 0, "seed {seed}");
        }
    }
}

#[test]
fn each_item_has_one_consumer_where_nothing_is_locked_before_the_commit() {
    for seed in 0..2 {
        consume::<Silo>(seed, Faults::NONE);
        consume::<TicToc>(seed, Faults::NONE);
        consume::<Mvcc>(seed, Faults::NONE);
    }
}

#[test]
fn mutant_rows_that_others_have_locked_are_not_skipped() {
    let (_, aborts) = consume::<NoWait>(1, Faults::of(&[Fault::UnskippedRows]));
    assert!(aborts > 0, "consumers conflict");
}
