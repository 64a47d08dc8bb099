//! What runs between crashes, and what has to be there after them.

use std::collections::VecDeque;

use cc::{Abort, Scheme, Stamp};
use engine::{
    Bounds, Database, Ending, Inspector, Row, Schema, SchemaBuilder, Session, Table, TableOptions, Verbs,
};
use platform::files::Files;
use platform::{Intent, Node, Platform};
use workloads::Random;

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
        let note = Item::note(worker, number, u32::from(changed && number.is_multiple_of(2)));
        Item { worker, number, name, changed: u32::from(changed), note }
    }
}

/// The tables.
#[derive(Clone, Copy)]
pub(super) struct Tables {
    counters: Table<Counter>,
    items: Table<Item>,
}

impl Tables {
    pub(super) fn declare(schema: &mut SchemaBuilder) -> Tables {
        Tables {
            counters: schema.table("counters", TableOptions::default()),
            items: schema.table("items", TableOptions::default()),
        }
    }
}

/// What a check of a database shows.
pub(super) struct Checked {
    /// The last number of each worker.
    pub numbers: Vec<u64>,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// Checks a database in which these workers have acknowledged these numbers.
pub(super) fn check<P: Platform, S: Scheme<P>>(
    c: P::Core,
    database: &Database<P, S>,
    tables: Tables,
    acknowledged: &[u64],
) -> Checked {
    let mut wrong = Vec::new();
    let inspector = &mut database.inspector(c);
    let mut count = |id: u64| inspector.row(tables.counters.primary(), &id).map_or(0, |row| row.count);
    let lasts: Vec<u64> = (0..acknowledged.len() as u64).map(|worker| count(worker + 1)).collect();
    let (shared, sum) = (count(0), lasts.iter().sum::<u64>());
    if shared != sum {
        wrong.push(format!("the shared row has {shared} of {sum} transactions"));
    }
    let mut expected = Vec::new();
    for (worker, (last, acknowledged)) in lasts.iter().zip(acknowledged).enumerate() {
        if last < acknowledged {
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
    Checked { numbers: lasts, wrong }
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

/// One worker.
pub(super) struct Worker<'a, P: Platform, S: Scheme<P>> {
    pub database: &'a Database<P, S>,
    pub tables: Tables,
    pub number: usize,
    pub random: Random,
    pub transactions: u64,
    /// Hears of every commit, before it is durable.
    pub committed: &'a (dyn Fn() + Sync),
    /// Hears of every worker's number that is durable.
    pub acknowledge: &'a (dyn Fn(usize, u64) + Sync),
}

impl<P: Files, S: Scheme<P>> Worker<'_, P, S> {
    /// Runs its transactions; one worker in three waits for each to be durable, the others go on.
    pub(super) fn run(&mut self, c: P::Core) -> Result<(), Abort> {
        let waits = self.random.below(3) == 0;
        let node = Some(Node((self.number % 2) as u32));
        let session = self.database.session(c, node, false);
        let mut session = session.map_err(|_| Abort::Misuse("too few sessions"))?;
        session.seed(self.random.below(1 << 30));
        let mut pending: VecDeque<(u64, Stamp)> = VecDeque::new();
        let (tables, worker) = (self.tables, self.number as u32);
        for _ in 0..self.transactions {
            let ending =
                session.transact(&Bounds::default(), |transaction| step(transaction, tables, worker))?;
            let Ending::Committed(done, stamp) = ending else { continue };
            (self.committed)();
            pending.push_back((done, stamp));
            session.tend(P::now(c));
            self.take(&session, &mut pending);
            if waits {
                session.wait_durable(stamp)?;
                self.take(&session, &mut pending);
            } else {
                P::pause(c, self.random.below(10_000));
            }
        }
        if let Some((_, stamp)) = pending.back() {
            session.wait_durable(*stamp)?;
        }
        self.take(&session, &mut pending);
        Ok(())
    }

    /// Acknowledges what is durable by now.
    fn take(&self, session: &Session<'_, P, S>, pending: &mut VecDeque<(u64, Stamp)>) {
        while let Some((done, stamp)) = pending.front()
            && session.is_durable(*stamp)
        {
            (self.acknowledge)(self.number, *done);
            pending.pop_front();
        }
    }
}
