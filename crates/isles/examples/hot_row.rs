//! Sixteen sessions whose transactions all update one row, like those of `pgbench` at scale 1: an
//! account, a teller, the branch, and an entry of the history.
//!
//! Shows `TransactionOptions::lock_wait`: sessions that wait for locks beside sessions that are
//! refused and try again, in pairs.
//!
//! Run with `cargo run --release -p isles --features all-schemes --example hot_row`.
// A user's program has threads and a clock.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Mutex;
use std::time::{Duration, Instant};

use isles::{Database, Row, Scheme, TransactionOptions};

const SESSIONS: u64 = 16;
const ACCOUNTS: u64 = 10_000;
const TELLERS: u64 = 10;

/// The balance of an account, a teller or a branch.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
pub struct Balance {
    /// Its number.
    pub id: u64,
    /// The money.
    pub amount: i64,
}

/// An entry of the history.
#[derive(Row, Clone, Debug)]
#[row(key(session, number))]
pub struct Entry {
    /// The session that has made it.
    pub session: u64,
    /// Its number among those of the session.
    pub number: u64,
    /// The account.
    pub account: u64,
    /// The money that was moved.
    pub delta: i64,
}

/// Results of a run.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Transactions a second.
    pub throughput: f64,
    /// Attempts that conflicted.
    pub conflicts: u64,
    /// Half of the transactions took no longer than this.
    pub median: Duration,
    /// The longest time of a transaction.
    pub longest: Duration,
    /// Transactions that took longer than [`WAITED`]: those whose thread has slept.
    pub waited: usize,
    /// Half of these took no longer than this.
    pub median_wait: Duration,
}

/// A transaction that took longer has waited for others.
pub const WAITED: Duration = Duration::from_micros(50);

/// Runs this many transactions in each session.
///
/// # Errors
/// Errors of the library.
pub fn run(scheme: Scheme, lock_wait: Option<Duration>, transactions: u64) -> isles::Result<Report> {
    let mut builder = Database::in_memory().scheme(scheme);
    let tables = ["accounts", "tellers", "branches"].map(|name| builder.table::<Balance>(name));
    let [accounts, tellers, branches] = tables;
    let history = builder.table::<Entry>("history");
    let database = builder.open()?;
    database.transaction(|t| {
        for (table, rows) in [(accounts, ACCOUNTS), (tellers, TELLERS), (branches, 1)] {
            t.insert_all(table, (0..rows).map(|id| Balance { id, amount: 0 }))?;
        }
        Ok(())
    })?;
    let (times, conflicts, failed) = (Mutex::new(Vec::new()), Mutex::new(0), Mutex::new(Ok(())));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for number in 0..SESSIONS {
            let (database, times, conflicts, failed) = (&database, &times, &conflicts, &failed);
            scope.spawn(move || {
                let work = || -> isles::Result<()> {
                    let mut session = database.session()?;
                    let options = TransactionOptions::new().without_deadline().attempts(u32::MAX);
                    session.set_options(match lock_wait {
                        Some(longest) => options.lock_wait(longest),
                        None => options,
                    });
                    let (mut own, mut random) = (Vec::new(), number);
                    for entry in 0..transactions {
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2 * number + 1);
                        let (account, teller) = ((random >> 33) % ACCOUNTS, (random >> 20) % TELLERS);
                        let delta = (random >> 50).cast_signed() - (1 << 13);
                        let before = Instant::now();
                        session.transaction(|t| {
                            for (table, id) in [(accounts, account), (tellers, teller), (branches, 0)] {
                                t.update_field(table, &id, Balance::AMOUNT, |amount| *amount += delta)?;
                            }
                            t.insert(history, &Entry { session: number, number: entry, account, delta })
                        })?;
                        own.push(before.elapsed());
                    }
                    times.lock().expect("no panic").append(&mut own);
                    *conflicts.lock().expect("no panic") += session.stats().aborts;
                    Ok(())
                };
                if let Err(error) = work() {
                    *failed.lock().expect("no panic") = Err(error);
                }
            });
        }
    });
    let elapsed = began.elapsed();
    failed.into_inner().expect("no panic")?;
    let sums = database.transaction(|t| {
        let mut sums = [0; 4];
        for (sum, table) in sums.iter_mut().zip(tables) {
            *sum = t.scan(table, ..).fields(Balance::AMOUNT).sum::<isles::Result<i64>>()?;
        }
        sums[3] = t.scan(history, ..).fields(Entry::DELTA).sum::<isles::Result<i64>>()?;
        Ok(sums)
    })?;
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}: an update is lost");
    let mut times = times.into_inner().expect("no panic");
    times.sort_unstable();
    let waits = &times[times.partition_point(|time| *time <= WAITED)..];
    Ok(Report {
        waited: waits.len(),
        median_wait: waits.get(waits.len() / 2).copied().unwrap_or_default(),
        throughput: times.len() as f64 / elapsed.as_secs_f64(),
        conflicts: conflicts.into_inner().expect("no panic"),
        median: times[times.len() / 2],
        longest: times[times.len() - 1],
    })
}

#[allow(dead_code)]
fn main() -> isles::Result<()> {
    let transactions = 20_000;
    for _ in 0..5 {
        let refused = run(Scheme::NoWait, None, transactions)?;
        let waiting = run(Scheme::DlDetect, Some(Duration::from_secs(60)), transactions)?;
        let ratio = waiting.throughput / refused.throughput;
        println!("no-wait {refused:?}\nwaiting {waiting:?}\nwaiting has {ratio:.2} of the throughput");
    }
    Ok(())
}
