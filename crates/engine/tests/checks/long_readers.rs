//! Transactions that read a whole table beside others that change it all the time: they commit
//! after a few attempts, what they have read is of one moment, and snapshots remember nothing.

use std::sync::Mutex;

use boundary::{Bounds, Verbs};
use concurrency::{InstanceOptions, Mvcc, NoWait, RowWords, Scheme, Silo};
use engine::MemorySession;
use platform::{Hardware, Intent, Platform};
use schema::{Row, TableOptions};
use sim::VirtualMachine;
use storage::tree::{Direction, ScanOrder};
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Fault, Faults};

use crate::support::{Random, options, virtually, with_rows, workers};

const CORES: usize = 4;
/// Reading all of them takes longer than hundreds of the transactions that change two of them.
const ROWS: u64 = 6_000;
const SCANS: u64 = 3;
const AMOUNT: u64 = 100;
/// Most attempts of a transaction that reads all rows.
const ATTEMPTS_MAX: u32 = 12;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Account {
    id: u64,
    amount: u64,
}

fn all_words() -> RowWords {
    RowWords { first: 0, count: 2, ahead: 16, most: u64::MAX }
}

const FORWARD: ScanOrder = ScanOrder { direction: Direction::Forward, intent: Intent::Read };

/// Reads all rows in three transactions while other sessions move amounts and rows; how many
/// attempts failed, or the error of a transaction with this many attempts.
fn read_beside_writers<S: Scheme<VirtualMachine>>(
    seed: u64,
    attempts_max: u32,
    faults: Faults,
) -> Result<u64, Abort> {
    virtually(seed, CORES, |c| {
        let options = InstanceOptions { faults, ..options(CORES + 1) };
        let rows = (0..ROWS).map(|id| Account { id: 2 * id, amount: AMOUNT });
        let (database, accounts) =
            with_rows::<VirtualMachine, S, _>(c, &options, TableOptions::default(), rows);
        let place = TableIndex { table: accounts.number(), index: 0 };
        let (ended, is_over) = (Mutex::new(Ok(0)), Mutex::new(false));
        let read = |session: &mut MemorySession<'_, VirtualMachine, S>| -> Result<u64, Abort> {
            let bounds = Bounds { attempts_max: Some(attempts_max), deadline: None };
            for _ in 0..SCANS {
                let mut sum = 0;
                session.transact(&bounds, |t| {
                    sum = 0;
                    let range = KeyBounds { low: &[0], high: &[u64::MAX] };
                    boundary::AnyVerbs::scan_and_read(
                        t,
                        place,
                        range,
                        FORWARD,
                        all_words(),
                        &mut |_, words| {
                            sum += words.chunks_exact(2).map(|row| row[1]).sum::<u64>();
                            Ok(true)
                        },
                    )
                })?;
                assert_eq!(sum, ROWS * AMOUNT, "seed {seed}: not the rows of one moment");
            }
            Ok(session.stats().aborts)
        };
        let write = |session: &mut MemorySession<'_, VirtualMachine, S>, number: usize| {
            let mut random = Random::new(seed, number as u64);
            while !*is_over.lock().expect("no panic") {
                let (from, to) = (random.below(2 * ROWS), random.below(2 * ROWS));
                let ended = session.transact(&Bounds::default(), |t| {
                    let Some(row) = t.find(accounts.primary(), &from, Intent::Write)? else { return Ok(()) };
                    let amount = t.get(row, Account::AMOUNT)?;
                    match t.find(accounts.primary(), &to, Intent::Write)? {
                        _ if from == to => Ok(()),
                        // All of the amount goes to the other row, and the row is gone.
                        Some(other) => {
                            let sum = amount + t.get(other, Account::AMOUNT)?;
                            t.put(other, Account::AMOUNT, &sum)?;
                            t.put(row, Account::AMOUNT, &0)
                        }
                        None => {
                            t.delete(row)?;
                            t.insert(accounts, &Account { id: to, amount })
                        }
                    }
                });
                ended.expect("it commits in the end");
                session.tend(VirtualMachine::now(session.core()));
            }
        };
        workers(c, &database, CORES, &|session, number| match number {
            0 => {
                *ended.lock().expect("no panic") = read(session);
                *is_over.lock().expect("no panic") = true;
            }
            _ => write(session, number),
        });
        ended.into_inner().expect("no panic")
    })
}

#[test]
fn who_reads_all_rows_commits_after_a_few_attempts() {
    for seed in 0..2 {
        read_beside_writers::<Silo>(seed, ATTEMPTS_MAX, Faults::NONE).expect("silo");
        read_beside_writers::<Mvcc>(seed, ATTEMPTS_MAX, Faults::NONE).expect("mvcc");
    }
    // Its attempts are short: they end at the first row that another transaction holds.
    read_beside_writers::<NoWait>(0, 130, Faults::NONE).expect("no-wait");
}

#[test]
fn mutant_nobody_waits_for_who_reads_all_rows() {
    let ended = read_beside_writers::<Silo>(0, ATTEMPTS_MAX, Faults::of(&[Fault::IgnoredElders]));
    assert!(matches!(ended, Err(Abort::Conflict(_))), "{ended:?}");
}

#[test]
fn snapshots_remember_no_rows_that_are_not_named_again() {
    let c = Hardware::core();
    let rows = (0..1_000).map(|id| Account { id, amount: AMOUNT });
    let (database, accounts) = with_rows::<Hardware, Mvcc, _>(c, &options(2), TableOptions::default(), rows);
    let mut session = database.session(c, None, false).expect("a session");
    let place = TableIndex { table: accounts.number(), index: 0 };
    // Snapshots are older than the rows for some epochs.
    let mut has_rows = false;
    while !has_rows {
        session.tend(Hardware::now(c));
        let ended = session.snapshot(&Bounds::default(), |t| {
            has_rows = t.find(accounts.primary(), &7, Intent::Read)?.is_some();
            Ok(())
        });
        assert!(ended.is_ok());
    }
    // A row's number is the place in the list of those that the transaction remembers.
    let mut numbers = |is_snapshot: bool| {
        let mut found = Vec::new();
        let body = |t: &mut engine::Transaction<'_, '_, Hardware, Mvcc>| {
            found.clear();
            found.extend(boundary::AnyVerbs::find(t, place.table, 0, &[7], Intent::Read)?);
            boundary::AnyVerbs::forget_rows(t);
            let mut count = 0;
            let range = KeyBounds { low: &[0], high: &[u64::MAX] };
            boundary::AnyVerbs::scan_and_read(t, place, range, FORWARD, all_words(), &mut |_, words| {
                count += words.len() / 2;
                Ok(true)
            })?;
            assert!(boundary::AnyVerbs::find_and_read(t, place, &[8], 0, &mut [0; 2])?);
            found.extend(boundary::AnyVerbs::find(t, place.table, 0, &[9], Intent::Read)?);
            Ok(count)
        };
        let ended = match is_snapshot {
            true => session.snapshot(&Bounds::default(), body),
            false => session.transact(&Bounds::default(), body),
        };
        assert!(ended.is_ok());
        found
    };
    let of_snapshot = numbers(true);
    assert_eq!(of_snapshot[0], of_snapshot[1]);
    let of_transaction = numbers(false);
    assert_ne!(of_transaction[0], of_transaction[1]);
}
