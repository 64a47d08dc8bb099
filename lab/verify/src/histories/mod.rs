//! Random short transactions over few rows, recorded for the checkers.
//!
//! - [`rows`]: the tables: one of several ordered indexes, one of a single ordered index, and one
//!   of a hash index;
//! - [`recorder`]: one attempt of reads, blind writes, read-modify-writes, insertions of one row or
//!   of several at once, deletions, changes of secondary keys, scans in both directions, lookups
//!   and scans by secondary indexes, sweeps over ranges, and rollbacks by the transaction's own
//!   decision;
//! - [`unnamed`]: reads and scans in one call, as the embedded library makes them;
//! - [`visits`]: the same as procedures over several sites, which [`deployed`] runs on several
//!   instances and [`owned`] where workers own partitions; [`change_numbers`] orders the versions
//!   that they wrote.

mod change_numbers;
pub(crate) mod deployed;
mod mix;
pub(crate) mod owned;
mod recorder;
mod rows;
mod unnamed;
mod visits;

use boundary::{Bounds, Ending, SchemaBuilder, Session, Transaction};
use concurrency::{InstanceOptions, Use};
use platform::{Place, Platform};
use schema::KeyBuffer;
use terms::Abort;
use terms::random::Random;

use crate::history::{Entry, History};
use crate::journal::Journal;
use crate::subject::MakeDatabase;
use crate::task::{Observed, Task, bounds};
use mix::Mix;
use recorder::Recorder;
use rows::{Item, TAGS, Tables, stored};

/// Bytes of rows and indexes.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Transactions in a hundred that read a snapshot, under schemes that have them.
const SNAPSHOTS_PERCENT: u64 = 30;

/// Runs random transactions on a fresh database and records them.
pub(crate) fn run<P: Platform>(
    c: P::Core,
    task: &Task<'_>,
    create: MakeDatabase<'_, P>,
    journal: &Journal,
) -> Observed {
    let mix = Mix::of(task, P::VIRTUAL);
    let workers = task.workers;
    let mut schema = SchemaBuilder::new();
    let tables = rows::declare(&mut schema, mix.partitioned.then_some(2), true, None);
    let options = InstanceOptions {
        sessions_max: workers + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: mix.epoch_nanos,
        lock_queues: mix.lock_wait.is_some(),
        ..InstanceOptions::default()
    };
    let database = create(&options, schema).expect("memory for tables");
    let initial = rows::load(c, &database, tables, mix.keys);
    let traits = database.traits();
    if traits.snapshots {
        database.settle(c);
    }
    let aborts = std::sync::atomic::AtomicU64::new(0);
    let worker = |c: P::Core, number: usize| {
        let mut session = database.session(c, None, P::VIRTUAL).expect("sessions for all workers");
        session.seed(task.seed ^ number as u64);
        session.object().wait_for_locks(mix.lock_wait_of(number));
        let mut random = Random::new(task.seed, number as u64);
        let mut next_version = (number as u64 + 1) << 32;
        let mut ahead = Random::new(!task.seed, number as u64);
        for _ in 0..mix.transactions {
            look_ahead(&mut session, &mut ahead, tables, &mix);
            let entry = transact::<P>(
                c,
                &mut session,
                &mut random,
                tables,
                &mix,
                traits.snapshots,
                &mut next_version,
            );
            journal.push(Entry { worker: number, ..entry });
            session.tend(P::now(c));
        }
        aborts.fetch_add(session.stats().aborts, std::sync::atomic::Ordering::Relaxed);
    };
    P::parallel(c, &vec![Place { thread: None }; workers], &worker, &mut |_| ());
    let last = rows::inspect(c, &database, tables);
    let history = History {
        initial,
        entries: journal.take(),
        last: Some(last),
        by_epochs: !traits.strict,
        orders_versions_only: false,
    };
    Observed {
        transactions: history.entries.len() as u64,
        aborts: aborts.into_inner(),
        history: Some(history),
        ..Observed::default()
    }
}

/// Announces keys that a transaction may use, or none: no result may depend on it.
fn look_ahead(session: &mut Session<'_>, random: &mut Random, tables: Tables, mix: &Mix) {
    if random.chance(30) {
        return;
    }
    session.object().step_ahead();
    for _ in 0..random.below(8) {
        let key = random.below(mix.keys);
        let what = if random.chance(40) { Use::Insertion } else { Use::Row(u64::MAX) };
        let (items, cells) = (tables.items, tables.cells);
        let ((table, index), key) = match random.below(3) {
            0 => ((cells.number(), 0), KeyBuffer::of(&(key / 2))),
            1 => ((items.number(), Item::BY_TAG.number()), KeyBuffer::of(&(random.below(TAGS), stored(key)))),
            _ => ((items.number(), 0), KeyBuffer::of(&stored(key))),
        };
        session.object().add_ahead(table, index, key.words(key.bits().div_ceil(u64::BITS) as usize), what);
    }
}

/// Runs one transaction. Returns its entry.
fn transact<P: Platform>(
    c: P::Core,
    session: &mut Session<'_>,
    random: &mut Random,
    tables: Tables,
    mix: &Mix,
    snapshots: bool,
    next_version: &mut u64,
) -> Entry {
    let mut entry = Entry::default();
    let mut written = Vec::new();
    entry.snapshot = snapshots && random.chance(SNAPSHOTS_PERCENT);
    let snapshot = entry.snapshot;
    // Snapshots succeed at the first attempt.
    let bounds = Bounds { attempts_max: snapshot.then_some(1), ..bounds::<P>(c) };
    let run = |t: &mut Transaction<'_>| {
        entry.began = P::now(c).0;
        // Writes of the attempt before are aborted.
        entry.aborted.append(&mut written);
        let mut recorder = Recorder::new(random, tables, mix, next_version);
        let result = if snapshot { recorder.run_read_only(t) } else { recorder.run(t) };
        (entry.reads, entry.writes, written) = recorder.end();
        result
    };
    let result = if snapshot { session.snapshot(&bounds, run) } else { session.transact(&bounds, run) };
    entry.ended = P::now(c).0;
    entry.stamp = match result {
        Ok(Ending::Committed((), commit)) => Some(commit.stamp),
        // What was read until the time was over is locked.
        Ok(Ending::RolledBack(_)) | Err(Abort::Duplicate { .. } | Abort::LockTimeout { .. }) => None,
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
