//! One session reads a whole table, again and again, beside three that change its rows all the
//! time: how many attempts a reader needs, and what it costs the others.
//!
//! Run with `cargo run --release -p isles --example long_reader`.
// A user's program has threads and a clock.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use isles::{Database, Row, Scheme};

const WRITERS: u64 = 3;

/// An account.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
pub struct Account {
    /// Its number.
    pub id: u64,
    /// The money.
    pub balance: i64,
}

/// Results of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Attempts of each transaction that read all accounts, in ascending order.
    pub attempts: Vec<u64>,
    /// The longest of these transactions.
    pub longest: Duration,
    /// Transactions of the others in a second.
    pub writes: f64,
}

/// Reads all accounts this often, beside three sessions that move money.
///
/// # Errors
/// Errors of the library.
pub fn run(scheme: Scheme, accounts: u64, scans: u64) -> isles::Result<Report> {
    let mut builder = Database::in_memory().scheme(scheme);
    let table = builder.table::<Account>("accounts");
    let database = builder.open()?;
    database.transaction(|t| t.insert_all(table, (0..accounts).map(|id| Account { id, balance: 100 })))?;
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let mut report = Report::default();
    let read = std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let (database, is_over, written) = (&database, &is_over, &written);
            scope.spawn(move || -> isles::Result<()> {
                let (mut session, mut random) = (database.session()?, number);
                while !is_over.load(Ordering::Relaxed) {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2 * number + 1);
                    let (from, to) = ((random >> 40) % accounts, (random >> 20) % accounts);
                    session.transaction(|t| {
                        t.update_field(table, &from, Account::BALANCE, |balance| *balance -= 1)?;
                        t.update_field(table, &to, Account::BALANCE, |balance| *balance += 1).map(drop)
                    })?;
                    written.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            });
        }
        let mut read = || -> isles::Result<()> {
            let mut session = database.session()?;
            for _ in 0..scans {
                let (mut attempts, mut sum, before) = (0, 0, Instant::now());
                session.transaction(|t| {
                    (attempts, sum) = (attempts + 1, 0);
                    for account in t.scan(table, ..) {
                        sum += account?.balance;
                    }
                    Ok(())
                })?;
                assert_eq!(sum, 100 * accounts.cast_signed(), "the accounts of one moment");
                report.attempts.push(attempts);
                report.longest = report.longest.max(before.elapsed());
            }
            Ok(())
        };
        let read = read();
        is_over.store(true, Ordering::Relaxed);
        read
    });
    read?;
    report.writes = written.into_inner() as f64 / began.elapsed().as_secs_f64();
    report.attempts.sort_unstable();
    Ok(report)
}

#[allow(dead_code)]
fn main() -> isles::Result<()> {
    for accounts in [20_000, 200_000, 2_000_000] {
        for scheme in [Scheme::Silo, Scheme::Mvcc, Scheme::NoWait] {
            // Whose attempts take longer than others wait for it meets its deadline.
            match run(scheme, accounts, 10) {
                Ok(report) => println!("{accounts} accounts, {}: {report:?}", scheme.name()),
                Err(error) => println!("{accounts} accounts, {}: {error}", scheme.name()),
            }
        }
    }
    Ok(())
}
