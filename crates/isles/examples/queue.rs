//! A work queue: producers append jobs, and workers take the oldest job of the most urgent class. A
//! job that fails goes back to the queue. Every job succeeds exactly once.
//!
//! Shows rows with text of variable length, keys of several columns, `scan(..).first()`, and
//! options for single transactions.
//!
//! Run with `cargo run --release -p isles --example queue`.
// A user's program has threads of its own.
#![allow(clippy::disallowed_methods)]

use std::time::Duration;

use isles::{Database, Error, Row, Session, Table, TransactionOptions, prefix};

const JOBS_PER_PRODUCER: u64 = 2_000;
const PRODUCERS: u64 = 2;
const WORKERS: u64 = 3;

/// A waiting job.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(urgency, number))]
pub struct Job {
    /// 0 is most urgent.
    pub urgency: u8,
    /// Position among the jobs of its urgency.
    pub number: u64,
    /// Number of failed attempts.
    pub failures: u32,
    /// Description of the work.
    #[row(tail)]
    pub text: Vec<u8>,
}

/// A completed job.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(urgency, number))]
pub struct FinishedJob {
    /// As in [`Job`].
    pub urgency: u8,
    /// As in [`Job`].
    pub number: u64,
    /// Worker that completed the job.
    pub worker: u64,
}

/// Counter of the jobs of an urgency.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(urgency))]
pub struct Counter {
    /// As in [`Job`].
    pub urgency: u8,
    /// The next number.
    pub next: u64,
}

/// The tables of a queue.
#[derive(Clone, Copy)]
pub struct Queue {
    jobs: Table<Job>,
    /// Jobs that a worker has taken and not completed.
    under_way: Table<Job>,
    done: Table<FinishedJob>,
    counters: Table<Counter>,
}

impl Queue {
    /// Opens an empty queue.
    pub fn open() -> isles::Result<(Database, Queue)> {
        let mut builder = Database::in_memory();
        let queue = Queue {
            jobs: builder.table("jobs"),
            under_way: builder.table("under way"),
            done: builder.table("done"),
            counters: builder.table("counters"),
        };
        Ok((builder.open()?, queue))
    }

    /// Appends a job. Returns its number.
    pub fn push(self, session: &mut Session, urgency: u8, text: &str) -> isles::Result<u64> {
        session.transaction(|t| {
            let counted = t.update(self.counters, &urgency, |counter| {
                counter.next += 1;
                counter.next - 1
            })?;
            let number = match counted {
                Some(number) => number,
                None => t.insert(self.counters, &Counter { urgency, next: 1 }).map(|()| 0)?,
            };
            t.insert(self.jobs, &Job { urgency, number, failures: 0, text: text.into() })?;
            Ok(number)
        })
    }

    /// Takes the oldest job of the most urgent class and runs `work` on it, which returns true for
    /// success. After a failure the job goes to the end of its class. Returns false if the queue is
    /// empty.
    ///
    /// One transaction takes the job and another one completes it. The work itself runs outside of
    /// both, because the body of a transaction may be called again. If a worker dies in between,
    /// its job stays in the table of taken jobs, where an operator can find it.
    pub fn work(
        self,
        session: &mut Session,
        worker: u64,
        work: impl FnOnce(&Job) -> bool,
    ) -> isles::Result<bool> {
        // A worker polls the queue again instead of waiting long for a conflict.
        let options = TransactionOptions::new().deadline(Duration::from_secs(5));
        let taken = session.with(options.clone()).transaction(|t| {
            let Some(job) = t.scan(self.jobs, ..).for_update().first()? else { return Ok(None) };
            t.delete(self.jobs, &(job.urgency, job.number))?;
            t.insert(self.under_way, &job)?;
            Ok(Some(job))
        })?;
        let Some(job) = taken else { return Ok(false) };
        let succeeded = work(&job);
        session.with(options).transaction(|t| {
            let mut job = job.clone();
            t.delete(self.under_way, &(job.urgency, job.number))?;
            if succeeded {
                t.insert(self.done, &FinishedJob { urgency: job.urgency, number: job.number, worker })?;
            } else {
                let next = t.update(self.counters, &job.urgency, |counter| {
                    counter.next += 1;
                    counter.next - 1
                })?;
                job.number = next.ok_or(Error::Misuse("a job without a counter"))?;
                job.failures += 1;
                t.insert(self.jobs, &job)?;
            }
            Ok(true)
        })
    }
}

fn produce(database: &Database, queue: Queue, producer: u64) -> isles::Result<()> {
    let mut session = database.session()?;
    for number in 0..JOBS_PER_PRODUCER {
        let urgency = (number % 3) as u8;
        queue.push(&mut session, urgency, &format!("job {number} of producer {producer}"))?;
    }
    Ok(())
}

/// Works until all jobs are completed.
fn consume(database: &Database, queue: Queue, worker: u64) -> isles::Result<u64> {
    let mut session = database.session()?;
    let mut taken = 0;
    loop {
        // The first attempt fails for every job whose text ends with 7.
        if queue.work(&mut session, worker, |job| job.failures > 0 || job.number % 10 != 7)? {
            taken += 1;
        } else if session.transaction(|t| t.scan(queue.done, ..).count())? == PRODUCERS * JOBS_PER_PRODUCER {
            return Ok(taken);
        } else {
            std::thread::yield_now();
        }
    }
}

/// Runs the example.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (database, queue) = Queue::open()?;
    let (mut producers, mut workers) = (Vec::new(), Vec::new());
    for number in 0..PRODUCERS {
        let database = database.clone();
        producers.push(std::thread::spawn(move || produce(&database, queue, number)));
    }
    for number in 0..WORKERS {
        let database = database.clone();
        workers.push(std::thread::spawn(move || consume(&database, queue, number)));
    }
    for producer in producers {
        producer.join().expect("producers do not panic")?;
    }
    let mut taken = 0;
    for worker in workers {
        taken += worker.join().expect("workers do not panic")?;
    }
    let done = database.transaction(|t| {
        assert_eq!(t.scan(queue.jobs, ..).count()?, 0);
        (0..3).map(|urgency| t.scan(queue.done, prefix(urgency)).count()).collect::<isles::Result<Vec<_>>>()
    })?;
    assert_eq!(done.iter().sum::<u64>(), PRODUCERS * JOBS_PER_PRODUCER);
    println!("jobs done by urgency: {done:?}; handed back on the way: {}", taken - done.iter().sum::<u64>());
    Ok(())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
