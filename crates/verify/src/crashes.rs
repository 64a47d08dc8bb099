//! Crashes: a database on a simulated disk whose machine stops at any moment, loses its power or only its processes, and is
//! booted again, several times over the same disk.
//!
//! Each worker runs numbered transactions that change a row which all share, rows of its own (inserted, changed, deleted)
//! and a counter of its own; it acknowledges a number when its commit is durable. After every crash the database has to hold,
//! for each worker, the effects of exactly its first so many transactions, at least as many as it acknowledged, and the shared
//! row the sum of all: so no acknowledged transaction is lost, none is there by half, and none without those that it depends on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cc::{Abort, InstanceOptions, Scheme, Stamp};
use engine::durable::{DurableOptions, OpenError};
use engine::{
    Bounds, Database, Ending, Inspector, Row, Schema, SchemaBuilder, Session, Table, TableOptions, Verbs,
};
use platform::files::{Access, FileErrorKind};
use platform::{Intent, Nanos, Node, Place, Platform};
use sim::{Crash, Disk, DiskModel, Faults, SimError, VirtualCore, VirtualMachine};
use storage::log::{LogError, LogOptions};
use workloads::Random;

use crate::trial::{Observed, Trial};

/// Bytes of rows and indexes.
const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Short, so that a run has many.
const EPOCH_NANOS: u64 = 20_000;
/// Transactions of each worker between two boots.
const TRANSACTIONS: u64 = 24;
/// Boots that run transactions.
const ROUNDS: u64 = 3;
/// Rows that a worker leaves of its own.
const KEPT: u64 = 3;

/// The row that everybody changes, and one row a worker.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Counter {
    id: u64,
    count: u64,
}

/// What a worker inserts, changes once, and deletes.
#[derive(Row, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[row(key(worker, number), unique_index(by_name(name)))]
struct Item {
    worker: u32,
    number: u64,
    name: u64,
    changed: u32,
    #[row(tail)]
    note: Vec<u8>,
}

impl Item {
    fn note(worker: u32, number: u64, changed: u32) -> Vec<u8> {
        let bytes = (number * 37 + u64::from(changed) * 101) % 400;
        (0..bytes).map(|place| (place + number + u64::from(worker)) as u8).collect()
    }

    /// The row that transaction `number` inserts; `changed` by the next one.
    fn of(worker: u32, number: u64, changed: bool) -> Item {
        let name = (u64::from(worker) << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Every other one gets a new note.
        let note = Item::note(worker, number, u32::from(changed && number % 2 == 0));
        Item { worker, number, name, changed: u32::from(changed), note }
    }
}

#[derive(Clone, Copy)]
struct Tables {
    counters: Table<Counter>,
    items: Table<Item>,
}

impl Tables {
    fn declare(schema: &mut SchemaBuilder) -> Tables {
        Tables {
            counters: schema.table("counters", TableOptions::default()),
            items: schema.table("items", TableOptions::default()),
        }
    }
}

/// What is known outside the machine.
struct Outside<'a> {
    trial: &'a Trial<'a>,
    workers: usize,
    /// The last number that each worker acknowledged.
    acknowledged: Vec<AtomicU64>,
    commits: AtomicU64,
    violations: Mutex<Vec<String>>,
    /// The disk may refuse.
    refuses: bool,
}

/// Runs a trial, with the disk's faults as the seed says.
pub(crate) fn run<S: Scheme<VirtualMachine>>(trial: &Trial<'_>) -> Result<Observed, SimError> {
    run_on::<S>(trial, faults(trial.seed))
}

/// What goes wrong with the disk of this seed.
pub fn faults(seed: u64) -> Faults {
    let mut random = Random::new(seed, 7);
    Faults {
        seed,
        sector_bytes: if random.below(2) == 0 { 512 } else { 4096 },
        garbage_one_in: [0, 0, 3][random.below(3) as usize],
        flush_failure_one_in: [0, 0, 0, 12, 40][random.below(5) as usize],
        capacity_bytes: [u64::MAX, u64::MAX, u64::MAX, 400_000][random.below(4) as usize],
        ..Faults::default()
    }
}

pub(crate) fn run_on<S: Scheme<VirtualMachine>>(
    trial: &Trial<'_>,
    faults: Faults,
) -> Result<Observed, SimError> {
    if !S::LOGS {
        return Ok(Observed::default());
    }
    let mut random = Random::new(trial.seed, 8);
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME, DiskModel::HDD][random.below(4) as usize];
    let disk = Disk::new(model, faults);
    let workers = trial.workers();
    let outside = Outside {
        trial,
        workers,
        acknowledged: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        commits: AtomicU64::new(0),
        violations: Mutex::default(),
        refuses: faults.flush_failure_one_in > 0 || faults.capacity_bytes < u64::MAX,
    };
    for round in 0..=ROUNDS {
        let config = trial.machine.config(trial).with_disk(&disk);
        let config = config.with_seed(trial.seed.wrapping_mul(31).wrapping_add(round));
        let last = round == ROUNDS;
        if last {
            // What is left is read by a machine without faults.
            disk.set_faults(Faults { seed: trial.seed, ..Faults::default() });
        }
        let crash = draw_crash(&mut random, model);
        let config = if last { config } else { config.crashing(crash) };
        match VirtualMachine::run(&config, |c| boot::<S>(c, &outside, round)) {
            Ok(_) | Err(SimError::Crashed { .. }) => {}
            Err(error) => return Err(error),
        }
        // One crash in four is that of the processes alone.
        if random.below(4) > 0 {
            disk.lose_power();
        }
    }
    let violations = outside.violations.into_inner().unwrap_or_else(PoisonError::into_inner);
    let transactions = outside.commits.into_inner();
    Ok(Observed { transactions, violations, ..Observed::default() })
}

fn draw_crash(random: &mut Random, model: DiskModel) -> Crash {
    // A run takes some flushes a transaction at least.
    let longest = 400_000 + 40 * model.flush_nanos + 20 * model.seek_nanos;
    match random.below(3) {
        0 => Crash::At(Nanos(random.below(longest))),
        1 => Crash::DiskOperation(1 + random.below(120)),
        _ => Crash::Event(1 + random.below(30_000)),
    }
}

fn options(outside: &Outside<'_>) -> DurableOptions {
    let mut random = Random::new(outside.trial.seed, 9);
    let streams = [vec![None], vec![Some(Node(0)), Some(Node(1))]];
    DurableOptions {
        path: PathBuf::from("database"),
        log: LogOptions {
            streams: streams[random.below(2) as usize].clone(),
            segment_bytes: [24 << 10, 64 << 10, 1 << 20][random.below(3) as usize],
            buffer_bytes: [4 << 10, 16 << 10][random.below(2) as usize],
            access: if random.below(2) == 0 { Access::Direct } else { Access::Cached },
        },
    }
}

impl Outside<'_> {
    fn violated(&self, what: String) {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    fn node(worker: usize) -> Option<Node> {
        Some(Node((worker % 2) as u32))
    }
}

/// One life of the machine: opens, checks, and runs transactions until it crashes.
fn boot<S: Scheme<VirtualMachine>>(c: VirtualCore, outside: &Outside<'_>, round: u64) {
    let mut schema = SchemaBuilder::new();
    let tables = Tables::declare(&mut schema);
    let instance = InstanceOptions {
        sessions_max: outside.workers + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
    };
    let opened =
        Database::<VirtualMachine, S>::open(c, &instance, schema, &|_| None, &options(outside));
    let database = match opened {
        Ok((database, _)) => database,
        Err(error) if outside.refuses && is_refusal(&error) => return,
        Err(error) => return outside.violated(format!("boot {round}: {error}")),
    };
    for what in check(c, &database, tables, outside) {
        outside.violated(format!("boot {round}: {what}"));
    }
    if round == ROUNDS {
        return;
    }
    let places: Vec<Place> = (0..outside.workers).map(|_| Place { thread: None }).collect();
    let worker = |c, number: usize| {
        if let Err(abort) = work(c, &database, tables, outside, number, round)
            && !matches!(abort, Abort::NotDurable(_))
        {
            outside.violated(format!("boot {round}, worker {number}: {abort}"));
        }
    };
    VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
}

/// Whether the disk may well have refused.
fn is_refusal(error: &OpenError) -> bool {
    let OpenError::Log(LogError::File(error)) = error else { return false };
    matches!(error.kind, FileErrorKind::Full | FileErrorKind::Device(_))
}

/// What is wrong with the database.
fn check<S: Scheme<VirtualMachine>>(
    c: VirtualCore,
    database: &Database<VirtualMachine, S>,
    tables: Tables,
    outside: &Outside<'_>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let inspector = &mut database.inspector(c);
    let mut count = |id: u64| inspector.row(tables.counters.primary(), &id).map_or(0, |row| row.count);
    let lasts: Vec<u64> = (0..outside.workers as u64).map(|worker| count(worker + 1)).collect();
    let (shared, sum) = (count(0), lasts.iter().sum::<u64>());
    if shared != sum {
        wrong.push(format!("the shared row has {shared} of {sum} transactions"));
    }
    let mut expected = Vec::new();
    for (worker, last) in lasts.iter().enumerate() {
        let acknowledged = outside.acknowledged[worker].load(Ordering::Relaxed);
        if *last < acknowledged {
            wrong.push(format!("worker {worker} acknowledged {acknowledged}, and {last} are there"));
        }
        let first = (last + 1).saturating_sub(KEPT).max(1);
        expected.extend((first..=*last).map(|number| Item::of(worker as u32, number, number < *last)));
    }
    let all = ((0, 0), (u32::MAX, u64::MAX));
    let mut found = Vec::new();
    inspector.scan(tables.items.primary(), &all.0, &all.1, &mut |row: &Item| found.push(row.clone()));
    if found != expected {
        wrong.push(format!("{} items where {} belong, or others", found.len(), expected.len()));
    }
    let mut by_name = Vec::new();
    let index = tables.items.index(Item::BY_NAME);
    inspector.scan(index, &0, &u64::MAX, &mut |row: &Item| by_name.push(row.clone()));
    by_name.sort();
    if by_name != found {
        wrong.push("the index of names has other rows than the table".into());
    }
    wrong
}

/// Adds one to a counter, which may be new; what it was.
fn count_up(transaction: &mut impl Verbs, counters: Table<Counter>, id: u64) -> Result<u64, Abort> {
    match transaction.find(counters.primary(), &id, Intent::Write)? {
        Some(row) => {
            let count = transaction.get(row, Counter::COUNT)?;
            transaction.put(row, Counter::COUNT, &(count + 1))?;
            Ok(count)
        }
        None => {
            transaction.insert(counters, &Counter { id, count: 1 })?;
            Ok(0)
        }
    }
}

/// One transaction of a worker; its number.
fn step(transaction: &mut impl Verbs, tables: Tables, worker: u32) -> Result<u64, Abort> {
    let number = count_up(transaction, tables.counters, u64::from(worker) + 1)? + 1;
    transaction.insert(tables.items, &Item::of(worker, number, false))?;
    let items = tables.items.primary();
    if number > 1 {
        let row = transaction.find(items, &(worker, number - 1), Intent::Write)?;
        let row = row.ok_or(Abort::Misuse("the last item is gone"))?;
        let changed = Item::of(worker, number - 1, true);
        match (number - 1) % 2 {
            0 => transaction.replace(row, &changed)?,
            _ => transaction.put(row, Item::CHANGED, &1)?,
        }
    }
    if number > KEPT {
        let row = transaction.find(items, &(worker, number - KEPT), Intent::Write)?;
        transaction.delete(row.ok_or(Abort::Misuse("the item to delete is gone"))?)?;
    }
    count_up(transaction, tables.counters, 0)?;
    Ok(number)
}

fn work<S: Scheme<VirtualMachine>>(
    c: VirtualCore,
    database: &Database<VirtualMachine, S>,
    tables: Tables,
    outside: &Outside<'_>,
    number: usize,
    round: u64,
) -> Result<(), Abort> {
    let mut random = Random::new(outside.trial.seed, 100 + number as u64 * 10 + round);
    let waits = random.below(3) == 0;
    let session = database.session(c, Outside::node(number), false);
    let mut session = session.map_err(|_| Abort::Misuse("too few sessions"))?;
    session.seed(random.below(1 << 30));
    let mut pending: VecDeque<(u64, Stamp)> = VecDeque::new();
    for _ in 0..TRANSACTIONS {
        let ending = session.transact(&Bounds::default(), |transaction| {
            step(transaction, tables, number as u32)
        })?;
        let Ending::Committed(done, stamp) = ending else { continue };
        outside.commits.fetch_add(1, Ordering::Relaxed);
        pending.push_back((done, stamp));
        session.tend(VirtualMachine::now(c));
        acknowledge(&session, outside, number, &mut pending);
        if waits {
            session.wait_durable(stamp)?;
            acknowledge(&session, outside, number, &mut pending);
        } else {
            VirtualMachine::pause(c, random.below(10_000));
        }
    }
    if let Some((_, stamp)) = pending.back() {
        session.wait_durable(*stamp)?;
    }
    acknowledge(&session, outside, number, &mut pending);
    Ok(())
}

/// Acknowledges what is durable by now.
fn acknowledge<S: Scheme<VirtualMachine>>(
    session: &Session<'_, VirtualMachine, S>,
    outside: &Outside<'_>,
    worker: usize,
    pending: &mut VecDeque<(u64, Stamp)>,
) {
    while let Some((done, stamp)) = pending.front()
        && session.is_durable(*stamp)
    {
        outside.acknowledged[worker].store(*done, Ordering::Relaxed);
        pending.pop_front();
    }
}
