//! Random short transactions over few rows, recorded for the checkers.
//!
//! - [`rows`]: two tables, one of ordered indexes and one of a hash index;
//! - [`recorder`]: reads, blind writes, read-modify-writes, insertions, deletions, changes of secondary keys, scans in
//!   both directions, lookups and scans by secondary indexes, sweeps over ranges, and endings by the transaction's own
//!   decision.

mod recorder;
mod rows;

use cc::{Abort, InstanceOptions, Scheme};
use engine::{Bounds, Database, Ending, SchemaBuilder, Session, Transaction};
use platform::{Place, Platform};
use workloads::Random;

use recorder::Recorder;
use rows::Tables;

use crate::history::{Entry, History};
use crate::journal::Journal;
use crate::trial::{Observed, Trial, bounds};

/// Bytes of rows and indexes.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Short enough that memory is reused and stamps of several epochs meet; long enough that many transactions share one.
const EPOCHS_NANOS: [u64; 2] = [3_000, 100_000];
/// Transactions in a hundred that read a snapshot, under schemes that have them.
const SNAPSHOTS_PERCENT: u64 = 30;
/// Keys that fill several leaves, which are then split and unlinked.
const KEYS_MANY: u64 = 120;
/// On hardware transactions overlap less: more of them.
const HARDWARE_FACTOR: u64 = 6;

/// How a history is made.
struct Mix {
    /// Transactions of each worker.
    transactions: u64,
    /// Keys of items; cells have half as many.
    keys: u64,
    /// Those that are used most: their number and the first of them.
    hot: (u64, u64),
    /// Whether the table of items is divided in two.
    partitioned: bool,
    /// Shortest epoch.
    epoch_nanos: u64,
}

impl Mix {
    fn of(trial: &Trial<'_>, is_virtual: bool) -> Self {
        let seed = trial.seed;
        let many = seed % 16 == 7;
        let keys = if many { KEYS_MANY } else { 4 + seed / 3 % 4 * 3 };
        let hot = if many { (8, seed / 16 % 7 * 16) } else { (keys, 0) };
        let transactions = if many { 12 } else { 4 + seed / 12 % 5 };
        let factor = if is_virtual { 1 } else { HARDWARE_FACTOR };
        let partitioned = trial.subject.partitioned || seed / 60 % 2 == 1;
        let epoch_nanos = EPOCHS_NANOS[(seed / 16 % 2) as usize];
        Mix { transactions: transactions * factor, keys, hot, partitioned, epoch_nanos }
    }
}

/// True for so many percent of all draws.
fn chance(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

/// Runs random transactions on a fresh database and records them.
pub(crate) fn run<P: Platform, S: Scheme<P>>(c: P::Core, trial: &Trial<'_>, journal: &Journal) -> Observed {
    let mix = Mix::of(trial, P::VIRTUAL);
    let workers = trial.workers();
    let mut schema = SchemaBuilder::new();
    let tables = rows::declare(&mut schema, mix.partitioned);
    let options = InstanceOptions {
        sessions_max: workers + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: mix.epoch_nanos,
        ..InstanceOptions::default()
    };
    let database = Database::<P, S>::create(c, &options, schema, &|_| None).expect("memory for tables");
    let initial = rows::load(c, &database, tables, mix.keys);
    if S::SNAPSHOTS {
        database.instance().settle(c);
    }
    let aborts = std::sync::atomic::AtomicU64::new(0);
    let worker = |c: P::Core, number: usize| {
        let mut session = database.session(c, None, P::VIRTUAL).expect("sessions for all workers");
        session.seed(trial.seed ^ number as u64);
        let mut random = Random::new(trial.seed, number as u64);
        let mut next_version = (number as u64 + 1) << 32;
        for _ in 0..mix.transactions {
            let entry = transact(&mut session, &mut random, (tables, &mix), &mut next_version);
            journal.push(Entry { worker: number, ..entry });
            session.tend(P::now(c));
        }
        aborts.fetch_add(session.stats().aborts, std::sync::atomic::Ordering::Relaxed);
    };
    P::parallel(c, &vec![Place { thread: None }; workers], &worker, &mut |_| ());
    let last = rows::inspect(c, &database, tables);
    let history = History { initial, entries: journal.take(), last: Some(last), by_epochs: !S::STRICT };
    Observed {
        transactions: history.entries.len() as u64,
        aborts: aborts.into_inner(),
        history: Some(history),
        violations: Vec::new(),
    }
}

/// One transaction, as it ended.
fn transact<P: Platform, S: Scheme<P>>(
    session: &mut Session<'_, P, S>,
    random: &mut Random,
    (tables, mix): (Tables, &Mix),
    next_version: &mut u64,
) -> Entry {
    let c = session.core();
    let mut entry = Entry::default();
    let mut written = Vec::new();
    entry.snapshot = S::SNAPSHOTS && chance(random, SNAPSHOTS_PERCENT);
    let snapshot = entry.snapshot;
    // Snapshots succeed at once.
    let bounds = Bounds { attempts_max: snapshot.then_some(1), ..bounds::<P>(c) };
    let run = |t: &mut Transaction<'_, '_, P, S>| {
        entry.began = P::now(c).0;
        // What an attempt before this one wrote came to nothing.
        entry.aborted.append(&mut written);
        let mut recorder = Recorder::new(random, tables, mix, next_version);
        let result = if snapshot { recorder.look(t) } else { recorder.run(t) };
        (entry.reads, entry.writes, written) = recorder.end();
        result
    };
    let result = if snapshot { session.snapshot(&bounds, run) } else { session.transact(&bounds, run) };
    entry.ended = P::now(c).0;
    entry.stamp = match result {
        Ok(Ending::Committed((), commit)) => Some(commit.stamp),
        Ok(Ending::RolledBack(_)) | Err(Abort::Duplicate { .. }) => None,
        Err(abort) => panic!("a transaction failed: {abort}"),
    };
    if entry.stamp.is_none() {
        entry.writes.clear();
        entry.aborted.append(&mut written);
    }
    let is_last = |(key, version): &(u64, u64)| {
        entry.writes.iter().any(|(its, change)| its == key && change.version() == Some(*version))
    };
    written.retain(|one| !is_last(one));
    entry.overwritten = written;
    entry
}
