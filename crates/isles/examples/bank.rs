//! A bank: threads transfer money between accounts at the same time, and every audit sees the same
//! total.
//!
//! Shows a session for each thread, an error type of the program, access to single fields, and all
//! schemes.
//!
//! Run with `cargo run --release -p isles --example bank`.
// A user's program has threads of its own.
#![allow(clippy::disallowed_methods)]

use isles::{CancelToken, Database, Error, Row, Scheme, Table};

const ACCOUNTS: u64 = 100;
const OPENING_BALANCE: i64 = 1_000;
const THREADS: u64 = 4;
const TRANSFERS_PER_THREAD: u64 = 10_000;

/// One account.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub struct Account {
    /// Number, from 0.
    pub id: u64,
    /// Cents.
    pub balance: i64,
    /// Number of transfers from this account.
    pub transfers: u32,
}

/// Reasons for which a transfer failed.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// There is no such account.
    #[error("there is no account {0}")]
    NoAccount(u64),
    /// The balance is too low for the transfer.
    #[error("the account has {balance} only")]
    Insufficient {
        /// Its balance.
        balance: i64,
    },
    /// An error of the database.
    #[error(transparent)]
    Database(#[from] Error),
}

/// Opens a bank whose accounts all have the same balance.
pub fn open(scheme: Scheme) -> isles::Result<(Database, Table<Account>)> {
    let mut builder = Database::in_memory().scheme(scheme);
    let accounts = builder.table("accounts");
    let database = builder.open()?;
    database.transaction(|t| {
        (0..ACCOUNTS)
            .try_for_each(|id| t.insert(accounts, &Account { id, balance: OPENING_BALANCE, transfers: 0 }))
    })?;
    Ok((database, accounts))
}

/// Transfers money between two accounts.
pub fn transfer(
    session: &mut isles::Session,
    accounts: Table<Account>,
    from: u64,
    to: u64,
    amount: i64,
) -> Result<(), TransferError> {
    session.try_transaction(|t| {
        let left = t
            .update(accounts, &from, |account| {
                account.balance -= amount;
                account.transfers += 1;
                account.balance
            })?
            .ok_or(TransferError::NoAccount(from))?;
        if left < 0 {
            // The update above is undone.
            return Err(TransferError::Insufficient { balance: left + amount });
        }
        t.update(accounts, &to, |account| account.balance += amount)?.ok_or(TransferError::NoAccount(to))
    })
}

/// Returns the sum of all balances at one moment.
pub fn total(session: &mut isles::Session, accounts: Table<Account>) -> isles::Result<i64> {
    session.transaction(|t| Ok(t.scan(accounts, ..).collect()?.iter().map(|account| account.balance).sum()))
}

/// Makes random transfers. Returns how many were refused because the balance was too low.
fn customer(database: &Database, accounts: Table<Account>, seed: u64) -> Result<u64, TransferError> {
    let mut session = database.session()?;
    let (mut random, mut refused) = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, 0);
    for _ in 0..TRANSFERS_PER_THREAD {
        // xorshift64 (Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (from, to) = (random % ACCOUNTS, (random >> 20) % ACCOUNTS);
        match transfer(&mut session, accounts, from, to, ((random >> 40) % 500) as i64) {
            Ok(()) => {}
            Err(TransferError::Insufficient { .. }) => refused += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(refused)
}

/// Runs the bank under one scheme.
fn run_under(scheme: Scheme) -> Result<(), TransferError> {
    let (database, accounts) = open(scheme)?;
    let done = CancelToken::new();
    let auditor = {
        let (database, done) = (database.clone(), done.clone());
        std::thread::spawn(move || -> isles::Result<u64> {
            let mut session = database.session()?;
            let mut audits = 0;
            while !done.is_cancelled() {
                assert_eq!(total(&mut session, accounts)?, ACCOUNTS as i64 * OPENING_BALANCE);
                audits += 1;
            }
            Ok(audits)
        })
    };
    let customers: Vec<_> = (1..=THREADS)
        .map(|seed| {
            let database = database.clone();
            std::thread::spawn(move || customer(&database, accounts, seed))
        })
        .collect();
    let mut refused = 0;
    for customer in customers {
        refused += customer.join().expect("customers do not panic")?;
    }
    done.cancel();
    let audits = auditor.join().expect("the auditor does not panic")?;
    let total = total(&mut database.session()?, accounts)?;
    assert_eq!(total, ACCOUNTS as i64 * OPENING_BALANCE);
    println!(
        "{scheme:?}: {} transfers, {refused} refused, {audits} audits on the way, total {total} as before",
        THREADS * TRANSFERS_PER_THREAD,
    );
    Ok(())
}

/// Runs the example.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    for scheme in Scheme::ALL {
        run_under(scheme)?;
    }
    Ok(())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
