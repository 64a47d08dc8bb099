//! Measures the cost of a scan through the library, and of the same scan by the engine's own verbs,
//! which are compiled with their scheme and inlined.
//!
//! ```sh
//! cargo build --release -p isles --example scans
//! for way in library iterator engine; do for transactions in 1000 11000; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null target/release/examples/scans $way $transactions
//! done; done
//! ```
//!
//! A transaction reads 100 consecutive rows of 248 bytes, of 2,000 rows under `Silo` in memory. The
//! cost of a row is the difference between two runs of the same kind, divided by 1,000,000. Without
//! `valgrind` the program prints nanoseconds for each row.

use std::ops::ControlFlow;
use std::process::ExitCode;

use boundary::{Bounds, Direction, Ending, SchemaBuilder, Verbs};
use isles::{Database, Row};
use platform::{Hardware, Intent, Platform};
use schema::{Schema, TableOptions};

const ROWS: u64 = 2_000;
/// Rows that a transaction reads.
const READS: u64 = 100;
const WORDS: usize = 29;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Reading {
    id: u64,
    counter: u64,
    payload: [u64; WORDS],
}

impl Reading {
    fn of(id: u64) -> Self {
        Reading { id, counter: 3 * id, payload: std::array::from_fn(|word| id * word as u64) }
    }

    /// Returns a number that depends on all words.
    fn digest(&self) -> u64 {
        self.payload.iter().fold(self.counter, |sum, word| sum ^ word)
    }
}

/// Returns the first key of a transaction.
fn first(transaction: u64) -> u64 {
    transaction * 31 % (ROWS - READS)
}

fn library(transactions: u64, iterates: bool) -> isles::Result<u64> {
    let mut builder = Database::in_memory();
    let readings = builder.table::<Reading>("readings");
    let database = builder.open()?;
    let mut session = database.session()?;
    session.transaction(|t| t.insert_all(readings, (0..ROWS).map(Reading::of)))?;
    let mut total = 0_u64;
    for number in 0..transactions {
        let first = first(number);
        let sum = session.transaction(|t| {
            let mut sum = 0_u64;
            let scan = t.scan(readings, first..first + READS);
            if iterates {
                for row in scan {
                    sum = sum.wrapping_add(row?.digest());
                }
            } else {
                scan.for_each(|row| {
                    sum = sum.wrapping_add(row.digest());
                    ControlFlow::Continue(())
                })?;
            }
            Ok(sum)
        })?;
        total = total.wrapping_add(sum);
    }
    Ok(total)
}

fn compiled(transactions: u64) -> Result<u64, Box<dyn std::error::Error>> {
    let (c, options) = (Hardware::core(), concurrency::InstanceOptions::default());
    let mut schema = SchemaBuilder::new();
    let readings = schema.table::<Reading>("readings", TableOptions::default());
    let database =
        engine::MemoryDatabase::<Hardware, concurrency::Silo>::create(c, &options, schema, &|_| None)?;
    let mut session = database.session(c, None, false)?;
    session.transact(&Bounds::default(), |t| {
        (0..ROWS).try_for_each(|id| t.insert(readings, &Reading::of(id)))
    })?;
    let mut total = 0_u64;
    for number in 0..transactions {
        let (first, last) = (first(number), first(number) + READS - 1);
        let ending = session.transact(&Bounds::default(), |t| {
            let mut sum = 0_u64;
            t.scan(readings.primary(), &first, &last, Direction::Forward, Intent::Read, &mut |t, row| {
                sum = sum.wrapping_add(t.row(row)?.digest());
                Ok(ControlFlow::Continue(()))
            })?;
            Ok(sum)
        })?;
        if let Ending::Committed(sum, _) = ending {
            total = total.wrapping_add(sum);
        }
        if number % 8 == 0 {
            session.tend(Hardware::now(c));
        }
    }
    Ok(total)
}

/// Sum of the values that all transactions have read.
fn expected(transactions: u64) -> u64 {
    let digests: Vec<u64> = (0..ROWS).map(|id| Reading::of(id).digest()).collect();
    let of = |number| &digests[first(number) as usize..(first(number) + READS) as usize];
    (0..transactions).flat_map(of).fold(0, |sum, digest| sum.wrapping_add(*digest))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let way = arguments.next().unwrap_or_else(|| "library".to_owned());
    let transactions = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let expected = expected(transactions);
    let began = Hardware::now(Hardware::core());
    let sum = match way.as_str() {
        "library" => library(transactions, false).map_err(|error| error.to_string()),
        "iterator" => library(transactions, true).map_err(|error| error.to_string()),
        "engine" => compiled(transactions).map_err(|error| error.to_string()),
        _ => Err("scans library|iterator|engine [transactions]".to_owned()),
    };
    let nanos = Hardware::now(Hardware::core()).since(began) / (transactions * READS).max(1);
    match sum {
        Ok(sum) if sum == expected => {
            println!("{way}: {transactions} transactions have read {sum}, {nanos} ns a row");
            ExitCode::SUCCESS
        }
        other => {
            eprintln!("{other:?}");
            ExitCode::FAILURE
        }
    }
}
