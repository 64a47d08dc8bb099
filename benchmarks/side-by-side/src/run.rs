//! The clients of an engine: one thread for each, which waits for its transaction before it begins
//! the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::engine::{
    CONTENDED_ROWS, Client, Engine, FIRST_INSERTED, Failure, Keys, Operation, ROWS_PER_SCAN,
    ROWS_PER_TRANSACTION,
};
use crate::random::Random;

/// Largest latency of the histogram, in nanoseconds.
const LATENCY_NANOS_MAX: u64 = 60_000_000_000;
/// Decimal digits of latencies: a more precise histogram would use more cache than some engines.
const LATENCY_DIGITS: u8 = 2;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The operation of a transaction.
    pub operation: Operation,
    /// Clients at a time.
    pub clients: usize,
    /// Time before the measurement.
    pub warm_up: Duration,
    /// Time of the measurement.
    pub time: Duration,
    /// Number of transactions of all clients together after which the run ends early.
    pub most: Option<u64>,
    /// Rows to choose from.
    pub rows: u64,
    /// Seed of the choice of rows.
    pub seed: u64,
    /// Number of the run on this database: no two insert the same rows.
    pub number: u64,
}

impl Plan {
    /// Most transactions of a client.
    fn share(&self, client: usize) -> u64 {
        let (clients, client) = (self.clients as u64, client as u64);
        self.most.map_or(u64::MAX, |most| most / clients + u64::from(client < most % clients))
    }

    /// The rows of a client's next transaction, after `done` transactions.
    fn keys(&self, random: &mut Random, client: usize, done: u64) -> Keys {
        match self.operation {
            Operation::Update | Operation::Read => random.keys(self.rows),
            Operation::Contend => random.keys(self.rows.min(CONTENDED_ROWS)),
            // The first of the rows that are read.
            Operation::Scan => {
                let mut keys: Keys = random.keys(self.rows);
                keys[0] = keys[0].min(self.rows - ROWS_PER_SCAN as u64);
                keys
            }
            // Each client's keys ascend.
            Operation::Insert => {
                let first = FIRST_INSERTED | self.number << 40 | (client as u64) << 30;
                let count = ROWS_PER_TRANSACTION as u64;
                std::array::from_fn(|row| first + done * count + row as u64)
            }
        }
    }
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Transactions that ended in the measured time.
    pub commits: u64,
    /// Attempts of these transactions.
    pub attempts: u64,
    /// All transactions that ended.
    pub acknowledged: u64,
    /// Latencies of the transactions in the measured time, in nanoseconds.
    pub latencies: Histogram<u64>,
}

impl Measured {
    fn new() -> Result<Self, Failure> {
        let latencies = Histogram::new_with_max(LATENCY_NANOS_MAX, LATENCY_DIGITS)?;
        Ok(Measured { commits: 0, attempts: 0, acknowledged: 0, latencies })
    }

    fn add(&mut self, other: &Measured) -> Result<(), Failure> {
        self.commits += other.commits;
        self.attempts += other.attempts;
        self.acknowledged += other.acknowledged;
        Ok(self.latencies.add(&other.latencies)?)
    }
}

/// State that the clients of a run share.
struct SharedState {
    ready: Barrier,
    /// The time at which the first client began: all clients measure the same interval, however
    /// late they start.
    began: OnceLock<Instant>,
    /// True if a client has failed: the others end, too.
    over: AtomicBool,
}

/// Runs the clients.
///
/// # Errors
/// The first failure of a client.
pub fn run(engine: &dyn Engine, plan: &Plan) -> Result<Measured, Failure> {
    let shared = SharedState {
        ready: Barrier::new(plan.clients),
        began: OnceLock::new(),
        over: AtomicBool::new(false),
    };
    let mut total = Measured::new()?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..plan.clients)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || {
                    let measured = run_client(engine, plan, number, shared);
                    if measured.is_err() {
                        // Relaxed: the flag orders no other access.
                        shared.over.store(true, Ordering::Relaxed);
                    }
                    measured
                })
            })
            .collect();
        for thread in threads {
            let measured = thread.join().map_err(|_| Failure::from("a client panicked"))?;
            total.add(&measured?)?;
        }
        Ok(total)
    })
}

fn run_client(
    engine: &dyn Engine,
    plan: &Plan,
    number: usize,
    shared: &SharedState,
) -> Result<Measured, Failure> {
    let client = engine.client(plan.operation);
    // A client that failed to connect arrives here, too, because the others wait for it.
    shared.ready.wait();
    let mut client = client?;
    let mut random = Random::new(plan.seed, number as u64);
    let mut measured = Measured::new()?;
    let counts_from = *shared.began.get_or_init(Instant::now) + plan.warm_up;
    let until = counts_from + plan.time;
    let share = plan.share(number);
    // Relaxed: see `run`.
    while measured.acknowledged < share && !shared.over.load(Ordering::Relaxed) {
        let keys = plan.keys(&mut random, number, measured.acknowledged);
        let begin = Instant::now();
        if begin >= until {
            break;
        }
        let attempts = transact(&mut *client, plan.operation, &keys)?;
        let end = Instant::now();
        measured.acknowledged += 1;
        if counts_from <= end && end < until {
            measured.commits += 1;
            measured.attempts += u64::from(attempts);
            let nanos = u64::try_from((end - begin).as_nanos()).unwrap_or(u64::MAX);
            measured.latencies.saturating_record(nanos);
        }
    }
    Ok(measured)
}

fn transact(client: &mut dyn Client, operation: Operation, keys: &Keys) -> Result<u32, Failure> {
    match operation {
        Operation::Update | Operation::Contend => client.update(keys),
        Operation::Insert => client.insert(keys),
        Operation::Read => {
            let (attempts, digest) = client.read(keys)?;
            std::hint::black_box(digest);
            Ok(attempts)
        }
        Operation::Scan => {
            let (attempts, digest) = client.scan(keys[0])?;
            std::hint::black_box(digest);
            Ok(attempts)
        }
    }
}
