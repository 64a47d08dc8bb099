//! The workload that runs between crashes, and its check.

use std::ops::ControlFlow;

use boundary::{Bounds, Commit, Database, Direction, Ending, SchemaBuilder, Session, Transaction, Verbs};
use platform::files::Files;
use platform::{Intent, Node, Place, Platform};
use schema::{Inspector, Partitioning, Row, Schema, Table, TableOptions};
use terms::Abort;
use terms::random::Random;

/// Bytes of rows and indexes.
pub(super) const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Rows that a worker keeps; with their notes they exceed the pool of a small database over pages.
pub(super) const KEPT: u64 = 16;
/// Transactions for each checkpoint, on average.
const CHECKPOINT_ONE_IN: u64 = 40;
/// Maximal bytes of short and of long notes.
const NOTE_BYTES: u64 = 400;
const LONG_NOTE_BYTES: u64 = 5_000;
/// Run one in N transactions as a branch of a distributed one: prepared in one session, finished in
/// another.
const BRANCHES_ONE_IN: u64 = 4;
/// One in N transactions reads another worker's counter.
const READS_ONE_IN: u64 = 4;
/// Longest time between preparing and finishing, in steps.
const BRANCH_STEPS_MAX: u64 = 16;
const BRANCH_STEP_NANOS: u64 = 5_000;

/// The row that all workers change, and one row a worker.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Counter {
    id: u16,
    count: u64,
}

/// A row that a worker inserts, changes once, and deletes.
#[derive(Row, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[row(key(worker, slot), unique_index(by_name(name)))]
struct Item {
    worker: u16,
    slot: u64,
    name: u64,
    number: u64,
    changed: u32,
    #[row(tail)]
    note: Vec<u8>,
}

/// True if the worker deletes a row before it inserts another with the same key, in one
/// transaction; otherwise it leaves the key to the next one.
fn deletes_first(worker: u16) -> bool {
    worker.is_multiple_of(2)
}

impl Item {
    fn slot(worker: u16, number: u64, kept: u64) -> u64 {
        number % if deletes_first(worker) { kept } else { kept + 1 }
    }

    /// One note in three is so long that it spans several pages, where rows are in pages; notes
    /// become long, and short again.
    fn note(worker: u16, number: u64, changed: u32) -> Vec<u8> {
        let longest = if (number + u64::from(changed)) % 3 == 1 { LONG_NOTE_BYTES } else { NOTE_BYTES };
        let bytes = (number * 37 + u64::from(changed) * 101) * 11 % longest;
        (0..bytes).map(|place| (place + number + u64::from(worker)) as u8).collect()
    }

    /// The row that transaction `number` inserts; `changed` by the next one. Slots and names repeat
    /// in a cycle.
    fn of(worker: u16, number: u64, changed: bool, kept: u64) -> Item {
        let name = number % (kept + 2);
        let name = u64::from(worker) << 48 | name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        // Every other row gets a new note.
        let note = Item::note(worker, number, u32::from(changed && number.is_multiple_of(2)));
        Item {
            worker,
            slot: Item::slot(worker, number, kept),
            name,
            number,
            changed: u32::from(changed),
            note,
        }
    }
}

/// The tables.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    counters: Table<Counter>,
    items: Table<Item>,
    /// Rows that a worker keeps.
    kept: u64,
    /// True if transactions also change rows behind a savepoint, to which they roll back.
    changes_in_vain: bool,
}

impl Tables {
    /// The tables; each worker's rows have a partition of their own if there are `partitions`; a
    /// worker keeps `kept` rows.
    pub(super) fn declare(schema: &mut SchemaBuilder, partitions: Option<u16>, kept: u64) -> Tables {
        let partitioning = partitions.map(|count| Partitioning { first: 0, count });
        let options = || TableOptions { partitioning, ..TableOptions::default() };
        let counters = schema.table("counters", options());
        Tables { counters, items: schema.table("items", options()), kept, changes_in_vain: false }
    }

    /// The same tables; transactions of some seeds also set savepoints.
    pub(super) fn for_seed(self, seed: u64) -> Tables {
        Tables { changes_in_vain: seed % 3 == 1, ..self }
    }
}

/// Result of a check.
pub(super) struct Checked {
    /// The last number of each worker.
    pub numbers: Vec<u64>,
    /// Violations.
    pub wrong: Vec<String>,
}

impl Checked {
    /// True if the only violations are missing last numbers of workers.
    pub(super) fn only_lost(&self, acknowledged: &[u64]) -> bool {
        let lost = self.numbers.iter().zip(acknowledged).filter(|(last, acknowledged)| last < acknowledged);
        self.wrong.len() == lost.count()
    }
}

/// Checks a database whose workers have acknowledged these numbers.
pub(super) fn check<P: Platform>(
    c: P::Core,
    database: &Database<P>,
    tables: Tables,
    acknowledged: &[u64],
) -> Checked {
    let mut wrong = Vec::new();
    let inspector = &mut database.inspector(c);
    let mut count = |id: u16| inspector.row(tables.counters.primary(), &id).map_or(0, |row| row.count);
    let lasts: Vec<u64> = (0..acknowledged.len() as u16).map(|worker| count(worker + 1)).collect();
    let shared = count(0);
    let sum = lasts.iter().sum::<u64>();
    if shared != sum {
        wrong.push(format!("the shared row has {shared} of {sum} transactions"));
    }
    let mut expected = Vec::new();
    for (worker, (last, acknowledged)) in lasts.iter().zip(acknowledged).enumerate() {
        if last < acknowledged {
            wrong.push(format!("worker {worker} acknowledged {acknowledged}, and {last} are there"));
        }
        let first = (last + 1).saturating_sub(tables.kept).max(1);
        let item = |number| Item::of(worker as u16, number, number < *last, tables.kept);
        expected.extend((first..=*last).map(item));
    }
    expected.sort();
    let all = ((0, 0), (u16::MAX, u64::MAX));
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
    Checked { numbers: lasts, wrong }
}

/// Adds one to a counter, which may be new. Returns its old value.
fn count_up(transaction: &mut impl Verbs, counters: Table<Counter>, id: u16) -> Result<u64, Abort> {
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

/// One transaction of a worker. Returns its number.
fn step(transaction: &mut impl Verbs, tables: Tables, worker: u16) -> Result<u64, Abort> {
    let number = count_up(transaction, tables.counters, worker + 1)? + 1;
    let items = tables.items.primary();
    let kept = tables.kept;
    let key = |number| (worker, Item::slot(worker, number, kept));
    if !deletes_first(worker) {
        transaction.insert(tables.items, &Item::of(worker, number, false, kept))?;
    }
    if number > kept {
        let row = transaction.find(items, &key(number - kept), Intent::Write)?;
        transaction.delete(row.ok_or(Abort::Misuse("the item to delete is gone"))?)?;
    }
    if deletes_first(worker) {
        transaction.insert(tables.items, &Item::of(worker, number, false, kept))?;
    }
    if number > 1 {
        let row = transaction.find(items, &key(number - 1), Intent::Write)?;
        let row = row.ok_or(Abort::Misuse("the last item is gone"))?;
        let changed = Item::of(worker, number - 1, true, kept);
        match (number - 1) % 2 {
            0 => transaction.replace(row, &changed)?,
            _ => transaction.put(row, Item::CHANGED, &1)?,
        }
    }
    if tables.changes_in_vain && number % 3 == 2 {
        change_in_vain(transaction, tables, worker, number)?;
    }
    count_up(transaction, tables.counters, 0)?;
    Ok(number)
}

/// Changes, deletes and inserts rows behind savepoints, and rolls back to them.
fn change_in_vain(
    transaction: &mut impl Verbs,
    tables: Tables,
    worker: u16,
    number: u64,
) -> Result<(), Abort> {
    let items = tables.items.primary();
    let Some(verbs) = transaction.untyped() else { return Ok(()) };
    let outer = verbs.savepoint()?;
    count_up(transaction, tables.counters, worker + 1)?;
    let mut inner = outer;
    // The row of this transaction, and that of the one before.
    for (number, changed) in [(number, 7), (number - 1, 8)] {
        let key = (worker, Item::slot(worker, number, tables.kept));
        let row = transaction.find(items, &key, Intent::Write)?;
        let row = row.ok_or(Abort::Misuse("an item is gone"))?;
        let in_vain =
            Item { changed, note: Item::note(worker, number + 1, changed), ..transaction.row(row)? };
        transaction.replace(row, &in_vain)?;
        if let Some(verbs) = transaction.untyped() {
            inner = verbs.savepoint()?;
        }
        transaction.delete(row)?;
        transaction.insert(tables.items, &Item { note: Vec::new(), ..in_vain.clone() })?;
        match transaction.insert(tables.items, &in_vain) {
            Err(abort) if abort.ends_at_savepoint() => {}
            Err(abort) => return Err(abort),
            Ok(()) => return Err(Abort::Misuse("a key is there twice")),
        }
        if let Some(verbs) = transaction.untyped() {
            verbs.roll_back_to(inner)?;
        }
    }
    let Some(verbs) = transaction.untyped() else { return Ok(()) };
    verbs.roll_back_to(outer)?;
    verbs.release(outer)
}

/// Reads all rows in one transaction, which reports rows that cannot be read: for a [check] they
/// are missing rows.
pub(super) fn read_all<P: Files>(c: P::Core, database: &Database<P>, tables: Tables) -> Result<(), Abort> {
    let session = database.session(c, None, false);
    let mut session = session.map_err(|_| Abort::Misuse("too few sessions"))?;
    let read = run(&mut session, |transaction| {
        let all = ((0, 0), (u16::MAX, u64::MAX));
        let (forward, read) = (Direction::Forward, Intent::Read);
        let counters = tables.counters.primary();
        transaction.scan(counters, &0, &u16::MAX, forward, read, &mut |transaction, row| {
            transaction.row(row).map(|_| ControlFlow::Continue(()))
        })?;
        let items = tables.items.primary();
        transaction.scan(items, &all.0, &all.1, forward, read, &mut |transaction, row| {
            transaction.row(row).map(|_| ControlFlow::Continue(()))
        })?;
        let names = tables.items.index(Item::BY_NAME);
        transaction.scan(names, &0, &u64::MAX, forward, read, &mut |transaction, row| {
            transaction.row(row).map(|_| ControlFlow::Continue(()))
        })?;
        Ok(0)
    });
    read.map(|_| ())
}

/// Reads a worker's number of transactions.
fn read_count(transaction: &mut impl Verbs, tables: Tables, worker: u16) -> Result<u64, Abort> {
    match transaction.find(tables.counters.primary(), &(worker + 1), Intent::Read)? {
        Some(row) => transaction.get(row, Counter::COUNT),
        None => Ok(0),
    }
}

/// Runs a transaction that does not roll back.
fn run(
    session: &mut Session<'_>,
    body: impl FnMut(&mut Transaction<'_>) -> Result<u64, Abort>,
) -> Result<(u64, Commit), Abort> {
    match session.transact(&Bounds::default(), body)? {
        Ending::Committed(number, commit) => Ok((number, commit)),
        Ending::RolledBack(_) => Err(Abort::RollBack),
    }
}

/// A worker's transactions up to `number` have to be there once this commit is durable.
struct PendingNumber {
    worker: u16,
    number: u64,
    commit: Commit,
}

/// The workers of a run.
pub(super) struct Workers<'a, P: Platform> {
    pub database: &'a Database<P>,
    pub tables: Tables,
    /// Number of workers.
    pub count: usize,
    /// Transactions of each worker.
    pub transactions: u64,
    /// Called after each commit, before it is durable.
    pub committed: &'a (dyn Fn() + Sync),
    /// Called with each number of a worker that is durable.
    pub acknowledge: &'a (dyn Fn(usize, u64) + Sync),
}

impl<P: Files> Workers<'_, P> {
    /// Runs all workers in parallel. `random` returns the random choices of each worker; `failed`
    /// receives the error of each that fails.
    pub(super) fn run_all(
        &self,
        c: P::Core,
        random: &(dyn Fn(usize) -> Random + Sync),
        failed: &(dyn Fn(usize, Abort) + Sync),
    ) {
        let worker = |c, number: usize| {
            if let Err(abort) = self.run(c, number, random(number)) {
                failed(number, abort);
            }
        };
        P::parallel(c, &vec![Place { thread: None }; self.count], &worker, &mut |_| ());
    }

    /// Runs the transactions of one worker. One worker in three waits for each commit to be
    /// durable; the others continue at once.
    pub(super) fn run(&self, c: P::Core, worker: usize, mut random: Random) -> Result<(), Abort> {
        let waits = random.below(3) == 0;
        let session = |node| {
            let session = self.database.session(c, Some(Node(node)), false);
            session.map_err(|_| Abort::Misuse("too few sessions"))
        };
        let (mut session, mut other) = (session(worker as u32 % 2)?, session((worker as u32 + 1) % 2)?);
        session.seed(random.below(1 << 30));
        let mut pending = Vec::new();
        let tables = self.tables;
        let worker = worker as u16;
        for _ in 0..self.transactions {
            let other_worker = random.below(self.count as u64) as u16;
            let (whose, (done, commit)) = if random.below(BRANCHES_ONE_IN) == 0 {
                (worker, self.run_branch(c, worker, &mut session, &mut other, &mut random)?)
            } else if random.below(READS_ONE_IN) == 0 {
                (
                    other_worker,
                    run(&mut session, |transaction| read_count(transaction, tables, other_worker))?,
                )
            } else {
                (worker, run(&mut session, |transaction| step(transaction, tables, worker))?)
            };
            (self.committed)();
            pending.push(PendingNumber { worker: whose, number: done, commit });
            session.tend(P::now(c));
            if random.below(CHECKPOINT_ONE_IN) == 0 {
                // A failed checkpoint is a failure of the log, or changes nothing.
                let _ = session.checkpoint();
            }
            self.acknowledge_durable(&session, &mut pending);
            if waits {
                match random.below(2) {
                    0 => session.wait_durable(commit)?,
                    _ => {
                        // Earlier commits are on disk then too, even if the session has no record
                        // of that.
                        session.wait_written(commit)?;
                        pending.retain(|done| {
                            let is_written = done.commit.durable_with <= commit.durable_with;
                            if is_written {
                                (self.acknowledge)(usize::from(done.worker), done.number);
                            }
                            !is_written
                        });
                    }
                }
                self.acknowledge_durable(&session, &mut pending);
            } else {
                P::pause(c, random.below(10_000));
            }
        }
        for done in &pending {
            session.wait_durable(done.commit)?;
        }
        self.acknowledge_durable(&session, &mut pending);
        Ok(())
    }

    /// Runs one transaction as a branch of a distributed one, which waits a little for the other
    /// branches.
    fn run_branch(
        &self,
        c: P::Core,
        worker: u16,
        session: &mut Session<'_>,
        other: &mut Session<'_>,
        random: &mut Random,
    ) -> Result<(u64, Commit), Abort> {
        let tables = self.tables;
        let (done, prepared) = loop {
            match session.prepare(&Bounds::default(), |transaction| step(transaction, tables, worker)) {
                Err(abort) if abort.is_conflict() => {
                    session.tend(P::now(c));
                    P::pause(c, 1 + random.below(BRANCH_STEP_NANOS));
                }
                prepared => break prepared?,
            }
        };
        for _ in 0..random.below(BRANCH_STEPS_MAX) {
            session.idle();
            session.tend(P::now(c));
            P::pause(c, BRANCH_STEP_NANOS);
        }
        let commit = other.finish(prepared, true);
        other.idle();
        commit.map(|commit| (done, commit)).ok_or(Abort::Misuse("a prepared transaction commits"))
    }

    /// Acknowledges the numbers that are durable by now.
    fn acknowledge_durable(&self, session: &Session<'_>, pending: &mut Vec<PendingNumber>) {
        pending.retain(|done| {
            let durable = session.is_durable(done.commit);
            if durable {
                (self.acknowledge)(usize::from(done.worker), done.number);
            }
            !durable
        });
    }
}
