//! No transaction starves where all want the same rows: the number of attempts is bounded,
//! not just small on average.

use boundary::{Bounds, Verbs};
use concurrency::{DlDetect, NoWait, Scheme, Silo, WaitDie};
use engine::{MemoryDatabase, MemorySession};
use platform::Intent;
use schema::{HashPlan, IndexKind, Row, Table, TableOptions};
use sim::VirtualMachine;
use terms::Category;

use crate::support::{Random, options, virtually, with_rows, workers};

const CORES: usize = 16;
/// Rows that the large transaction adds to.
const ROWS: u64 = 24;
/// Transactions of each worker.
const TRANSACTIONS: u64 = 30;
/// Most attempts of any transaction of a scheme that lets the older one win.
const ATTEMPTS_MAX: u32 = 100;
/// Most attempts of any transaction of a scheme that only lets it go first after it has failed too
/// often.
const ATTEMPTS_MAX_ELDER: u32 = 200;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Counter {
    id: u64,
    count: u64,
}

/// The access of a transaction to the hot rows 0 and 1.
#[derive(Clone, Copy, Debug)]
enum Contention {
    /// Adds to row 0.
    OneRow,
    /// Reads row 0, then adds to it: all want to become writers of what all read.
    Upgrade,
    /// Adds to both rows, in either order.
    OppositeOrders,
    /// One in four adds to row 0; the others read it.
    FewWriters,
}

fn add<T: Verbs>(t: &mut T, counters: Table<Counter>, id: u64, intent: Intent) -> Result<(), terms::Abort> {
    let row = t.find(counters.primary(), &id, intent)?.expect("loaded");
    let count = t.get(row, Counter::COUNT)?;
    t.put(row, Counter::COUNT, &(count + 1))
}

/// This many counters at 0, which are found by hashing.
fn counters<S: Scheme<VirtualMachine>>(
    c: sim::VirtualCore,
    count: u64,
) -> (MemoryDatabase<VirtualMachine, S>, Table<Counter>) {
    let kinds = vec![IndexKind::Hash(HashPlan::Mixed)];
    let of_table = TableOptions { rows: 64, kinds, ..TableOptions::default() };
    let rows = (0..count).map(|id| Counter { id, count: 0 });
    with_rows(c, &options(CORES + 1), of_table, rows)
}

/// Most attempts that a transaction needed, and whether a session waited.
fn contend<S: Scheme<VirtualMachine>>(c: sim::VirtualCore, contention: Contention, seed: u64) -> (u32, bool) {
    let (database, counters) = counters::<S>(c, 2 + CORES as u64);
    let results = std::sync::Mutex::new((0, false));
    let added = std::sync::Mutex::new(0);
    let work = |session: &mut MemorySession<'_, VirtualMachine, S>, number: usize| {
        let mut random = Random::new(seed, number as u64);
        for _ in 0..TRANSACTIONS {
            let first = random.below(2);
            let writes = random.below(4) == 0;
            let ended = session.transact(&Bounds::default(), |t| {
                add(t, counters, 2 + number as u64, Intent::Write)?;
                match contention {
                    Contention::OneRow => add(t, counters, 0, Intent::Write),
                    Contention::Upgrade => add(t, counters, 0, Intent::Read),
                    Contention::OppositeOrders => {
                        add(t, counters, first, Intent::Write)?;
                        add(t, counters, 1 - first, Intent::Write)
                    }
                    Contention::FewWriters if writes => add(t, counters, 0, Intent::Write),
                    Contention::FewWriters => {
                        let row = t.find(counters.primary(), &0, Intent::Read)?.expect("loaded");
                        t.get(row, Counter::COUNT).map(|_| ())
                    }
                }
            });
            ended.expect("it commits in the end");
            if writes || !matches!(contention, Contention::FewWriters) {
                *added.lock().expect("no panic") += 1;
            }
            session.tend(<VirtualMachine as platform::Platform>::now(session.core()));
        }
        let waited = session.breakdown()[Category::Wait as usize] > 0;
        let mut results = results.lock().expect("no panic");
        *results = (results.0.max(session.stats().attempts_max), results.1 || waited);
    };
    workers(c, &database, CORES, &work);
    let mut count = 0;
    let mut session = database.session(c, None, false).expect("a session");
    session
        .transact(&Bounds::default(), |t| {
            let row = t.find(counters.primary(), &0, Intent::Read)?.expect("loaded");
            count = t.get(row, Counter::COUNT)?;
            Ok(())
        })
        .expect("no other transaction runs");
    assert_eq!(count, added.into_inner().expect("no panic"), "additions are lost");
    results.into_inner().expect("no panic")
}

fn is_fair<S: Scheme<VirtualMachine>>() {
    for contention in
        [Contention::OneRow, Contention::Upgrade, Contention::OppositeOrders, Contention::FewWriters]
    {
        let mut most = 0;
        for seed in 0..8 {
            let (attempts, waited) = virtually(seed, CORES, |c| contend::<S>(c, contention, seed));
            assert!(waited, "{contention:?}, seed {seed}: no transaction waited");
            most = most.max(attempts);
        }
        println!("{contention:?}: at most {most} attempts");
        assert!(most <= ATTEMPTS_MAX, "{contention:?}: a transaction needed {most} attempts");
    }
}

#[test]
fn wait_die_is_fair() {
    is_fair::<WaitDie>();
}

#[test]
fn dl_detect_is_fair() {
    is_fair::<DlDetect>();
}

/// Most attempts of a transaction that adds to 24 rows, while others, with nothing else to do, keep
/// adding to one of them.
fn large_among_small<S: Scheme<VirtualMachine>>(c: sim::VirtualCore, seed: u64) -> u32 {
    let (database, counters) = counters::<S>(c, ROWS);
    let done = std::sync::atomic::AtomicBool::new(false);
    let most = std::sync::atomic::AtomicU32::new(0);
    let work = |session: &mut MemorySession<'_, VirtualMachine, S>, number: usize| {
        let mut random = Random::new(seed, number as u64);
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let row = random.below(ROWS);
            let rows = if number == 0 { 0..ROWS } else { row..row + 1 };
            let ended = session.transact(&Bounds::default(), |t| {
                rows.clone().try_for_each(|id| add(t, counters, id, Intent::Write))
            });
            ended.expect("it commits in the end");
            if number == 0 {
                done.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            most.fetch_max(session.stats().attempts_max, std::sync::atomic::Ordering::Relaxed);
            session.tend(<VirtualMachine as platform::Platform>::now(session.core()));
        }
    };
    workers(c, &database, CORES, &work);
    most.into_inner()
}

#[test]
fn who_failed_too_often_goes_first() {
    let most = |attempts: fn(sim::VirtualCore, u64) -> u32| {
        (0..4).map(|seed| virtually(seed, CORES, |c| attempts(c, seed))).max().expect("four seeds")
    };
    let attempts = [most(large_among_small::<Silo>), most(large_among_small::<NoWait>)];
    println!("at most {attempts:?} attempts");
    assert!(attempts.iter().all(|most| *most <= ATTEMPTS_MAX_ELDER), "{attempts:?}");
    assert!(attempts.iter().any(|most| *most > ATTEMPTS_MAX), "no transaction had to go first: {attempts:?}");
}

/// True if a part that reads is prepared beside another one that does, after a part that writes has
/// waited in vain.
fn reader_after_a_writer_that_gave_up<S: Scheme<VirtualMachine>>(c: sim::VirtualCore) -> bool {
    let of_table = TableOptions { rows: 64, ..TableOptions::default() };
    let row = Counter { id: 0, count: 0 };
    let (database, counters) = with_rows::<_, S, _>(c, &options(4), of_table, [row]);
    let mut sessions: Vec<_> = (0..3).map(|_| database.session(c, None, false).expect("a session")).collect();
    let [first, writer, second] = sessions.as_mut_slice() else { panic!("three sessions") };
    let reads = |t: &mut engine::Transaction<'_, '_, VirtualMachine, S>| {
        let row = t.find(counters.primary(), &0, Intent::Read)?.expect("loaded");
        t.get(row, Counter::COUNT)
    };
    let (_, held) = first.prepare(&Bounds::default(), reads).expect("no other transaction runs");
    let refused = writer.prepare(&Bounds::default(), |t| add(t, counters, 0, Intent::Write));
    assert!(refused.is_err(), "two have prepared what cannot both be");
    let result = second.prepare(&Bounds::default(), reads);
    first.finish(held, true);
    match result {
        Ok((_, prepared)) => {
            second.finish(prepared, true);
            true
        }
        Err(_) => false,
    }
}

#[test]
fn a_transaction_that_gave_up_blocks_no_other() {
    // Under wait-die the older writer has claimed the lock, and the younger reader has to die.
    let gets = [
        virtually(1, 1, reader_after_a_writer_that_gave_up::<DlDetect>),
        virtually(1, 1, reader_after_a_writer_that_gave_up::<NoWait>),
    ];
    assert_eq!(gets, [true; 2]);
}
