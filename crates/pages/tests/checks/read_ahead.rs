//! Pages that scans read ahead save time, and are never older than writes of other sessions.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{Bounds, Direction, Ending, SchemaBuilder, Session, Verbs};
use pages::{PagedDatabase, PagedOptions};
use platform::{Intent, Place, Platform};
use schema::{Row, Schema, Table, TableOptions};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use terms::{Fault, Faults};

use crate::support::{Random, assert_sound, options, session, sum, virtually};

#[derive(Row, Clone, Debug)]
#[row(key(number))]
struct Account {
    number: u64,
    amount: u64,
    filling: [u64; 12],
}

const ACCOUNTS: u64 = 1_200;
const MONEY: u64 = ACCOUNTS * 100;
/// The time that a slow scan takes for a row.
const PAUSE_NANOS: u64 = 50_000;

type Accounts = (PagedDatabase<VirtualMachine>, Table<Account>);

fn loaded(c: VirtualCore, options: &PagedOptions) -> Accounts {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Account>("accounts", TableOptions::default());
    let database = PagedDatabase::create(c, options, schema).expect("a pool");
    {
        let mut session = session(&database, c);
        for number in 0..ACCOUNTS {
            let account = Account { number, amount: 100, filling: [number; 12] };
            let ended = session.transact(&Bounds::default(), |t| t.insert(table, &account));
            assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
        }
    }
    (database, table)
}

/// Virtual time of scans in a direction, of a database made for this many sessions.
fn nanos(sessions: usize, direction: Direction) -> u64 {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    let config = Config { memory_bytes: 256 << 20, ..Config::new(Shape::new(1, 1, 1)).with_seed(1) };
    let run = VirtualMachine::run(&config.with_disk(&disk), |c| {
        let (database, table) = loaded(c, &options(24, 1024, sessions));
        let taken = AtomicU64::new(0);
        // What a worker does takes time.
        let worker = |c: VirtualCore, _| {
            let mut session = session(&database, c);
            let before = VirtualMachine::now(c);
            let ended = session.transact(&Bounds::default(), |t| sum(t, table, Account::AMOUNT, direction));
            assert!(matches!(ended, Ok(Ending::Committed(MONEY, _))), "{ended:?}");
            taken.store(VirtualMachine::now(c).since(before), Ordering::Relaxed);
        };
        VirtualMachine::parallel(c, &[Place { thread: None }], &worker, &mut |_| ());
        taken.into_inner()
    });
    run.expect("a run").value
}

#[test]
fn scans_in_both_directions_wait_less_for_the_disk() {
    for direction in [Direction::Forward, Direction::Reverse] {
        // Of the same pool, each of three sessions has too little to read ahead with.
        let (ahead, one_by_one) = (nanos(1, direction), nanos(3, direction));
        assert!(
            ahead * 2 < one_by_one,
            "{direction:?}: {ahead} ns, and {one_by_one} ns one page after the other"
        );
    }
}

/// How often a slow scan found a row as it was before a change that had been committed when the
/// scan came to it.
fn steps_back(c: VirtualCore, options: &PagedOptions, seed: u64) -> u64 {
    let (database, table) = loaded(c, options);
    let (back, is_over) = (AtomicU64::new(0), AtomicU64::new(0));
    let committed: Vec<AtomicU64> = (0..ACCOUNTS).map(|_| AtomicU64::new(0)).collect();
    let scans = |c: VirtualCore, session: &mut Session<'_>| {
        for direction in [Direction::Forward, Direction::Reverse] {
            let ended = session.transact(&Bounds::default(), |t| {
                let mut least = (0, 0);
                t.scan(table.primary(), &0, &u64::MAX, direction, Intent::Read, &mut |t, row| {
                    let account: Account = t.row(row)?;
                    let is_old = least.0 == account.number && account.amount < least.1;
                    back.fetch_add(u64::from(is_old), Ordering::Relaxed);
                    // The next row is not locked yet.
                    let next = match direction {
                        Direction::Forward => (account.number + 1).min(ACCOUNTS - 1),
                        Direction::Reverse => account.number.saturating_sub(1),
                    };
                    VirtualMachine::pause(c, PAUSE_NANOS);
                    least = (next, committed[next as usize].load(Ordering::SeqCst));
                    Ok(ControlFlow::Continue(()))
                })
            });
            assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
        }
        is_over.store(1, Ordering::SeqCst);
    };
    let worker = |c: VirtualCore, number: usize| {
        let mut session = session(&database, c);
        let mut random = Random::new(seed * 10 + number as u64);
        if number == 0 {
            return scans(c, &mut session);
        }
        // A row that the scan has locked is left alone.
        let bounds = Bounds { deadline: None, attempts_max: Some(1) };
        while is_over.load(Ordering::SeqCst) == 0 {
            let number = random.below(ACCOUNTS);
            let ended = session.transact(&bounds, |t| {
                let Some(row) = t.find(table.primary(), &number, Intent::Write)? else { return Ok(0) };
                let amount = t.get(row, Account::AMOUNT)? + 1;
                t.put(row, Account::AMOUNT, &amount)?;
                Ok(amount)
            });
            if let Ok(Ending::Committed(amount, _)) = ended {
                committed[number as usize].fetch_max(amount, Ordering::SeqCst);
            }
        }
    };
    VirtualMachine::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
    if options.faults == Faults::NONE {
        assert_sound(&database, c);
    }
    back.into_inner()
}

#[test]
fn what_was_read_ahead_is_never_old() {
    let small = || PagedOptions { escalation: 4_096, ..options(72, 1024, 3) };
    for seed in 0..6 {
        assert_eq!(virtually(seed, 3, |c| steps_back(c, &small(), seed)), 0, "seed {seed}");
    }
    let faults = Faults::of(&[Fault::StaleReadAhead]);
    let back = |seed| virtually(seed, 3, |c| steps_back(c, &PagedOptions { faults, ..small() }, seed));
    assert!((80..400).any(|seed| back(seed) > 0), "no scan has noticed that pages were old");
}
