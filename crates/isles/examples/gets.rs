//! Measures the cost of a read through the library, and of the same read by the engine's own verbs,
//! which are compiled with their scheme and inlined.
//!
//! ```sh
//! cargo build --release -p isles --example gets
//! for way in library engine; do for transactions in 1000 11000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/gets $way $transactions
//! done; done
//! ```
//!
//! A transaction reads one field of ten rows by their keys, of 1,000 rows under `Silo` in memory.
//! The cost of a transaction is the difference between two runs of the same kind, divided by
//! 10,000.

use std::process::ExitCode;

use boundary::{Bounds, Ending, SchemaBuilder, Verbs};
use isles::{Database, Row};
use platform::{Hardware, Intent, Platform};
use schema::{Schema, TableOptions};

const ROWS: u64 = 1_000;
/// Rows that a transaction reads.
const READS: u64 = 10;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Account {
    id: u64,
    owner: u32,
    balance: i64,
}

fn account(id: u64) -> Account {
    Account { id, owner: id as u32 % 7, balance: id as i64 }
}

/// Returns the keys of a transaction.
fn keys(transaction: u64) -> impl Iterator<Item = u64> {
    (0..READS).map(move |read| (transaction * 31 + read * 97) % ROWS)
}

fn library(transactions: u64) -> isles::Result<i64> {
    let mut builder = Database::in_memory();
    let accounts = builder.table::<Account>("accounts");
    let database = builder.open()?;
    let mut session = database.session()?;
    session.transaction(|t| t.insert_all(accounts, (0..ROWS).map(account)))?;
    let mut sum = 0;
    for number in 0..transactions {
        sum += session.transaction(|t| {
            let mut sum = 0;
            for key in keys(number) {
                sum += t.get_field(accounts, &key, Account::BALANCE)?.unwrap_or(0);
            }
            Ok(sum)
        })?;
    }
    Ok(sum)
}

fn compiled(transactions: u64) -> Result<i64, Box<dyn std::error::Error>> {
    let (c, options) = (Hardware::core(), concurrency::InstanceOptions::default());
    let mut schema = SchemaBuilder::new();
    let accounts = schema.table::<Account>("accounts", TableOptions::default());
    let database =
        engine::MemoryDatabase::<Hardware, concurrency::Silo>::create(c, &options, schema, &|_| None)?;
    let mut session = database.session(c, None, false)?;
    session
        .transact(&Bounds::default(), |t| (0..ROWS).try_for_each(|id| t.insert(accounts, &account(id))))?;
    let mut total = 0;
    for number in 0..transactions {
        let ending = session.transact(&Bounds::default(), |t| {
            let mut sum = 0;
            for key in keys(number) {
                if let Some(row) = t.find(accounts.primary(), &key, Intent::Read)? {
                    sum += t.get(row, Account::BALANCE)?;
                }
            }
            Ok(sum)
        })?;
        if let Ending::Committed(sum, _) = ending {
            total += sum;
        }
        if number % 8 == 0 {
            session.tend(Hardware::now(c));
        }
    }
    Ok(total)
}

/// Sum of the values that all transactions have read.
fn expected(transactions: u64) -> i64 {
    (0..transactions).flat_map(keys).map(|id| account(id).balance).sum()
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let way = arguments.next().unwrap_or_else(|| "library".to_owned());
    let transactions = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let sum = match way.as_str() {
        "library" => library(transactions).map_err(|error| error.to_string()),
        "engine" => compiled(transactions).map_err(|error| error.to_string()),
        _ => Err("gets library|engine [transactions]".to_owned()),
    };
    match sum {
        Ok(sum) if sum == expected(transactions) => {
            println!("{way}: {transactions} transactions have read {sum}");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("{other:?}");
            ExitCode::FAILURE
        }
    }
}
