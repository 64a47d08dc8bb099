//! The same procedures give the same bytes compiled with the engine and through its dynamic
//! boundary: results, virtual time, counts of the machine, commits and aborts of each worker, and
//! all rows. So both ways declare the same work and touch the same memory in the same order.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Mutex;

use boundary::{Bounds, Direction, Ending, Plan, Procedure, SchemaBuilder, Stats, Upkeep, Verbs};
use concurrency::{CommitLocks, Deadlocks, InstanceOptions, RowCopies, RowLock, Scheme, SchemeName, Ways};
use engine::MemorySession;
use platform::{Intent, Nanos, Node, Place, Platform, Work};
use schema::{HashPlan, IndexKind, Inspector, Partitioning, Routes, Row, Schema, Table, TableOptions, Value};
use serde::{Deserialize, Serialize};
use sim::{Config, Outcome, Shape, VirtualCore, VirtualMachine};
use storage::{Optimisation, Optimisations};
use terms::Abort;

use crate::support::{Random, options};

/// The choices that a database is made with.
#[derive(Clone, Copy)]
struct Choices {
    optimisations: Optimisations,
    ways: Ways,
}

const WORKERS: usize = 4;
const TRANSACTIONS: u64 = 60;
const PARTS: u16 = 3;
/// Numbers of things in each part: few, so that workers conflict.
const IDS: u32 = 6;
const TOKENS: u64 = 40;
const FACTS: u64 = 20;

#[derive(Value, Clone, Debug, PartialEq)]
struct Mark {
    shape: u8,
    size: u16,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id), index(by_group(part, group)), unique_index(by_token(token)))]
struct Thing {
    part: u16,
    id: u32,
    group: u8,
    token: u64,
    amount: i64,
    grades: [u8; 5],
    mark: Mark,
    body: [u64; 18],
    #[row(tail)]
    note: Vec<u8>,
}

/// Small, and without a tail.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part))]
struct Sum {
    part: u16,
    changes: u64,
}

/// Never written.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Fact {
    id: u64,
    value: u32,
}

type Id = (u16, u32);

fn thing(part: u16, id: u32, token: u64, seed: u64) -> Thing {
    let (group, grades) = ((seed % 3) as u8, [seed as u8; 5]);
    let mark = Mark { shape: seed as u8, size: seed as u16 };
    let note = vec![seed as u8; (seed % 90) as usize];
    Thing { part, id, group, token, amount: seed as i64, grades, mark, body: [seed; 18], note }
}

#[derive(Clone, Copy)]
struct Tables {
    things: Table<Thing>,
    sums: Table<Sum>,
    facts: Table<Fact>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
enum Action {
    Get(Id),
    Row(Id),
    FindMany(Vec<Id>),
    FindPrefetched { ids: Vec<Id>, ahead: bool, writes: bool },
    FindToken(u64),
    Fact(u64),
    Scan { low: Id, high: Id, forward: bool, most: usize },
    ScanGroup { part: u16, group: u8, forward: bool },
    PutWhileScanning { low: Id, high: Id, amount: i64 },
    Put(Id, i64),
    Replace { id: Id, seed: u64, token: Option<u64>, to: Option<Id> },
    Insert(Id, u64, u64),
    Delete(Id),
    Count(u16),
    Misuse(Id),
}

/// A few actions, one that follows from what they give, and an end.
#[derive(Clone, Debug)]
struct Mix {
    actions: Vec<Action>,
    last: Action,
    rolls_back: bool,
    read_only: bool,
    /// The outputs of the actions of the last attempt.
    outputs: Vec<u64>,
}

fn digest(value: &impl std::fmt::Debug) -> u64 {
    let mut hasher = DefaultHasher::new();
    format!("{value:?}").hash(&mut hasher);
    hasher.finish()
}

impl Procedure for Mix {
    type Tables = Tables;
    type Action = Action;
    type Output = u64;

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        match phase {
            0 => {
                self.outputs.clear();
                actions.extend_from_slice(&self.actions);
            }
            1 if self.rolls_back && digest(&self.outputs).is_multiple_of(2) => return Plan::RollBack,
            1 => actions.push(self.last.clone()),
            _ if self.rolls_back => return Plan::RollBack,
            _ => return Plan::Commit,
        }
        Plan::Run
    }

    /// More than any action touches.
    fn route(tables: &Tables, action: &Action, to: &mut Routes) {
        match action {
            Action::Count(_) => to.all(tables.sums, Intent::Write),
            Action::Fact(_) => to.all(tables.facts, Intent::Read),
            _ => to.all(tables.things, Intent::Write),
        }
    }

    fn execute<T: Verbs>(tables: &Tables, action: &Action, t: &mut T) -> Result<u64, Abort> {
        match action {
            Action::Fact(id) => {
                let row = t.find(tables.facts.primary(), id, Intent::Read)?.expect("loaded");
                Ok(u64::from(t.get(row, Fact::VALUE)?))
            }
            Action::Count(part) => {
                t.prefetch_key(tables.sums.primary(), part);
                let row = t.find(tables.sums.primary(), part, Intent::Write)?.expect("loaded");
                t.prefetch(row, Sum::CHANGES, Intent::Write);
                t.work(Work::Access, 3);
                let changes = t.get(row, Sum::CHANGES)? + 1;
                t.replace(row, &Sum { part: *part, changes })?;
                Ok(changes)
            }
            Action::Put(..)
            | Action::Replace { .. }
            | Action::Insert(..)
            | Action::Delete(_)
            | Action::Misuse(_) => change(t, tables.things, action),
            Action::Scan { .. } | Action::ScanGroup { .. } | Action::PutWhileScanning { .. } => {
                scan(t, tables.things, action)
            }
            _ => read(t, tables.things, action),
        }
    }

    fn absorb(&mut self, phase: usize, action: usize, output: u64) {
        self.outputs.push(digest(&(phase, action, output)));
    }

    fn read_only(&self) -> bool {
        self.read_only
    }
}

/// Actions that look rows up, and perhaps change fields.
fn read<T: Verbs>(t: &mut T, things: Table<Thing>, action: &Action) -> Result<u64, Abort> {
    let mut seen = Vec::new();
    match action {
        Action::Get(id) => {
            if let Some(row) = t.find(things.primary(), id, Intent::Read)? {
                // Not in the order in which they stand in the row.
                let fields = (Thing::MARK, Thing::AMOUNT, Thing::GRADES.at(2));
                let together = t.get_together(row, fields)?;
                let values = (t.get(row, Thing::AMOUNT)?, t.get(row, Thing::GRADES.at(2))?);
                let groups = (t.get(row, Thing::MARK)?, t.get(row, Thing::MARK.then(Mark::SIZE))?);
                assert_eq!(together, (groups.0.clone(), values.0, values.1));
                seen.push(digest(&(values, groups, t.get(row, Thing::BODY)?)));
            }
        }
        Action::Row(id) => {
            if let Some(row) = t.find(things.primary(), id, Intent::Read)? {
                seen.push(digest(&t.row(row)?));
            }
        }
        Action::FindToken(token) => {
            if let Some(row) = t.find(things.index(Thing::BY_TOKEN), token, Intent::Read)? {
                seen.push(digest(&t.row(row)?));
            }
        }
        Action::FindMany(ids) => {
            let mut found = Vec::new();
            t.find_many(things.primary(), ids, Intent::Read, &mut found)?;
            for row in found.into_iter().flatten() {
                seen.push(t.get(row, Thing::AMOUNT)? as u64);
            }
        }
        Action::FindPrefetched { ids, ahead, writes } => {
            ids.iter().for_each(|id| t.prefetch_key(things.primary(), id));
            let intent = if *writes { Intent::Write } else { Intent::Read };
            let ahead = ahead.then_some(Thing::BODY);
            let mut found = Vec::new();
            t.find_prefetched(things.primary(), ids, intent, ahead, &mut found)?;
            for row in found.into_iter().flatten() {
                let mut body = t.get(row, Thing::BODY)?;
                seen.push(body[3]);
                if *writes {
                    body[3] += 1;
                    t.put(row, Thing::BODY, &body)?;
                }
            }
        }
        _ => unreachable!("changes and scans are elsewhere"),
    }
    Ok(digest(&seen))
}

/// Actions that change one row.
fn change<T: Verbs>(t: &mut T, things: Table<Thing>, action: &Action) -> Result<u64, Abort> {
    if let Action::Insert(id, token, seed) = action {
        t.prefetch_key(things.primary(), id);
        return t.insert(things, &thing(id.0, id.1, *token, *seed)).map(|()| 1);
    }
    let (Action::Put(id, _) | Action::Replace { id, .. } | Action::Delete(id) | Action::Misuse(id)) = action
    else {
        unreachable!("other actions change no single row")
    };
    let Some(row) = t.find(things.primary(), id, Intent::Write)? else { return Ok(0) };
    match action {
        Action::Put(_, amount) => {
            t.put(row, Thing::AMOUNT, amount)?;
            t.put(row, Thing::GRADES.at(3), &(*amount as u8))?;
            t.put(row, Thing::MARK.then(Mark::SIZE), &(*amount as u16))?;
            t.put(row, Thing::BODY, &[*amount as u64; 18])?;
        }
        Action::Replace { seed, token, to, .. } => {
            let old = t.row(row)?;
            let (part, id) = to.unwrap_or(*id);
            t.replace(row, &thing(part, id, token.unwrap_or(old.token), *seed))?;
        }
        Action::Delete(_) => t.delete(row)?,
        _ => t.put(row, Thing::TOKEN, &1)?,
    }
    Ok(1)
}

/// Actions that visit a range.
fn scan<T: Verbs>(t: &mut T, things: Table<Thing>, action: &Action) -> Result<u64, Abort> {
    let direction = |forward| if forward { Direction::Forward } else { Direction::Reverse };
    let mut seen = Vec::new();
    match *action {
        Action::Scan { low, high, forward, most } => {
            t.scan(things.primary(), &low, &high, direction(forward), Intent::Read, &mut |t, row| {
                seen.push(digest(&t.row(row)?));
                Ok(if seen.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
        }
        Action::ScanGroup { part, group, forward } => {
            let (low, high) = ((part, group, 0), (part, group, u32::MAX));
            let index = things.index(Thing::BY_GROUP);
            t.scan(index, &low, &high, direction(forward), Intent::Read, &mut |t, row| {
                seen.push(t.get(row, Thing::AMOUNT)? as u64);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Action::PutWhileScanning { low, high, amount } => {
            t.scan(things.primary(), &low, &high, Direction::Forward, Intent::Write, &mut |t, row| {
                t.put(row, Thing::AMOUNT, &amount)?;
                let other = t.find(things.primary(), &high, Intent::Read)?;
                seen.push(u64::from(other.is_some()));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        _ => unreachable!("other actions are elsewhere"),
    }
    Ok(digest(&seen))
}

fn random_id(random: &mut Random) -> Id {
    (random.below(u64::from(PARTS)) as u16, random.below(u64::from(IDS)) as u32)
}

fn random_ids(random: &mut Random) -> Vec<Id> {
    (0..=random.below(5)).map(|_| random_id(random)).collect()
}

fn random_range(random: &mut Random) -> (Id, Id) {
    let (low, high) = (random_id(random), random_id(random));
    // The ends of a scan lie in one part.
    (low, (low.0, high.1))
}

fn random_read(random: &mut Random) -> Action {
    match random.below(8) {
        0 => Action::Get(random_id(random)),
        1 => Action::Row(random_id(random)),
        2 => Action::FindMany(random_ids(random)),
        3 => Action::FindPrefetched { ids: random_ids(random), ahead: random.chance(50), writes: false },
        4 => Action::FindToken(random.below(TOKENS)),
        5 => Action::Fact(random.below(FACTS)),
        6 => {
            let (low, high) = random_range(random);
            Action::Scan { low, high, forward: random.chance(50), most: 1 + random.below(4) as usize }
        }
        _ => {
            let (part, _) = random_id(random);
            Action::ScanGroup { part, group: random.below(3) as u8, forward: random.chance(50) }
        }
    }
}

fn random_action(random: &mut Random) -> Action {
    match random.below(24) {
        0..4 => Action::Put(random_id(random), random.below(1000) as i64),
        4..7 => Action::Count(random_id(random).0),
        7..10 => {
            let token = random.chance(40).then(|| random.below(TOKENS));
            let to = random.chance(30).then(|| random_id(random));
            Action::Replace { id: random_id(random), seed: random.below(1000), token, to }
        }
        10..13 => Action::Insert(random_id(random), random.below(TOKENS), random.below(1000)),
        13..15 => Action::Delete(random_id(random)),
        15 => {
            let (low, high) = random_range(random);
            Action::PutWhileScanning { low, high, amount: random.below(1000) as i64 }
        }
        16 => Action::FindPrefetched { ids: random_ids(random), ahead: random.chance(50), writes: true },
        17 if random.chance(20) => Action::Misuse(random_id(random)),
        _ => random_read(random),
    }
}

fn random_mix(random: &mut Random) -> Mix {
    let read_only = random.chance(20);
    let mut action = || if read_only { random_read(random) } else { random_action(random) };
    let (first, second, last) = (action(), action(), action());
    let mut actions = vec![first, second];
    actions.truncate(1 + random.below(2) as usize);
    Mix { actions, last, rolls_back: random.chance(10), read_only, outputs: Vec::new() }
}

/// A session, entered one way.
trait Way {
    fn run(&mut self, tables: &Tables, mix: &mut Mix, bounds: &Bounds) -> Result<Ending<()>, Abort>;
    fn upkeep(&mut self) -> &mut dyn Upkeep;
}

impl<S: Scheme<VirtualMachine>> Way for MemorySession<'_, VirtualMachine, S> {
    fn run(&mut self, tables: &Tables, mix: &mut Mix, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        MemorySession::run(self, tables, mix, &mut Vec::new(), bounds)
    }

    fn upkeep(&mut self) -> &mut dyn Upkeep {
        self
    }
}

impl Way for boundary::Session<'_> {
    fn run(&mut self, tables: &Tables, mix: &mut Mix, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        boundary::Session::run(self, tables, mix, &mut Vec::new(), bounds)
    }

    fn upkeep(&mut self) -> &mut dyn Upkeep {
        self.object()
    }
}

type Database = boundary::Database<VirtualMachine>;
type Enter = for<'d> fn(&'d Database, VirtualCore, Node) -> Box<dyn Way + 'd>;

fn compiled<S: Scheme<VirtualMachine>>(database: &Database, c: VirtualCore, node: Node) -> Box<dyn Way + '_> {
    let database = database.object().as_any().downcast_ref::<engine::MemoryDatabase<VirtualMachine, S>>();
    Box::new(database.expect("it has this scheme").session(c, Some(node), true).expect("a session"))
}

fn dynamically(database: &Database, c: VirtualCore, node: Node) -> Box<dyn Way + '_> {
    Box::new(database.session(c, Some(node), true).expect("a session"))
}

fn database(scheme: SchemeName, c: VirtualCore, choices: Choices) -> (Database, Tables) {
    let mut schema = SchemaBuilder::new();
    let partitioning = Some(Partitioning { first: 0, count: PARTS });
    let kinds = vec![IndexKind::Ordered, IndexKind::Ordered, IndexKind::Hash(HashPlan::Mixed)];
    let things = TableOptions { rows: 100, kinds, partitioning, ..TableOptions::default() };
    let sums = TableOptions { rows: 10, partitioning, ..TableOptions::default() };
    let facts = TableOptions { rows: FACTS, read_only: true, ..TableOptions::default() };
    let tables = Tables {
        things: schema.table("things", things),
        sums: schema.table("sums", sums),
        facts: schema.table("facts", facts),
    };
    let nodes = vec![Node(0), Node(1)];
    let Choices { optimisations, ways } = choices;
    let options = InstanceOptions { optimisations, ways, nodes, ..options(WORKERS + 1) };
    let node_of = |partition| Some(Node(partition as u32 % 2));
    let mut database = engine_simulated::create(scheme, c, &options, schema, &node_of).expect("memory");
    let mut session = database.session(c, Some(Node(0)), false).expect("a session");
    let loaded = session.transact(&Bounds::default(), |t| {
        for id in 0..FACTS {
            t.insert(tables.facts, &Fact { id, value: id as u32 })?;
        }
        for part in 0..PARTS {
            t.insert(tables.sums, &Sum { part, changes: 0 })?;
            for id in (0..IDS).step_by(2) {
                let token = u64::from(u32::from(part) * IDS + id);
                t.insert(tables.things, &thing(part, id, token, token))?;
            }
        }
        Ok(())
    });
    assert!(matches!(loaded, Ok(Ending::Committed(..))));
    drop(session);
    database.loaded(c).expect("memory for copies");
    (database, tables)
}

/// All rows, in the order of their keys.
fn content(database: &Database, c: VirtualCore, tables: Tables) -> Vec<String> {
    let mut rows = Vec::new();
    let mut inspector = database.inspector(c);
    let (low, high) = ((0, 0), (u16::MAX, u32::MAX));
    inspector.scan(tables.things.primary(), &low, &high, &mut |row: &Thing| rows.push(format!("{row:?}")));
    inspector.scan(tables.sums.primary(), &0, &u16::MAX, &mut |row: &Sum| rows.push(format!("{row:?}")));
    inspector.scan(tables.facts.primary(), &0, &u64::MAX, &mut |row: &Fact| rows.push(format!("{row:?}")));
    rows
}

/// The observations of a worker.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// Endings with their stamps, what the actions gave, and when, of each transaction.
    transactions: Vec<String>,
    stats: Stats,
    breakdown: [u64; terms::CATEGORIES],
}

#[derive(Debug, PartialEq)]
struct Ran {
    workers: Vec<Seen>,
    rows: Vec<String>,
}

fn work(way: &mut dyn Way, tables: &Tables, random: &mut Random) -> Seen {
    let mut transactions = Vec::new();
    for _ in 0..TRANSACTIONS {
        let mut mix = random_mix(random);
        let began = way.upkeep().now();
        let deadline = random.chance(20).then(|| Nanos(began.0 + random.below(20_000)));
        let attempts_max = random.chance(10).then_some(1);
        let ended = way.run(tables, &mut mix, &Bounds { deadline, attempts_max });
        let now = way.upkeep().now();
        transactions.push(format!("{ended:?} {:?} {now:?}", mix.outputs));
        way.upkeep().tend(now);
    }
    let upkeep = way.upkeep();
    Seen { transactions, stats: upkeep.stats(), breakdown: upkeep.breakdown() }
}

fn run(scheme: SchemeName, seed: u64, choices: Choices, enter: Enter) -> Outcome<Ran> {
    let config =
        Config { memory_bytes: 256 << 20, ..Config::new(Shape::new(2, 2, 1)).with_seed(seed).perturbed() };
    let outcome = VirtualMachine::run(&config, |c| {
        let (database, tables) = database(scheme, c, choices);
        let seen = Mutex::new(vec![Seen::default(); WORKERS]);
        let worker = |c: VirtualCore, number: usize| {
            let mut way = enter(&database, c, Node(number as u32 % 2));
            way.upkeep().seed(number as u64);
            let saw = work(&mut *way, &tables, &mut Random::new(seed, number as u64));
            seen.lock().expect("no worker panics")[number] = saw;
        };
        VirtualMachine::parallel(c, &[Place { thread: None }; WORKERS], &worker, &mut |_| ());
        let workers = seen.into_inner().expect("no worker panics");
        Ran { workers, rows: content(&database, c, tables) }
    });
    outcome.unwrap_or_else(|error| panic!("{scheme}, seed {seed}: {error}"))
}

/// Names of what ended transactions: the test has to reach all of them.
fn endings(ran: &Ran) -> BTreeSet<String> {
    let transactions = ran.workers.iter().flat_map(|worker| &worker.transactions);
    let name =
        |line: &String| line.split(|c: char| !c.is_alphanumeric()).take(2).collect::<Vec<_>>().join(" ");
    transactions.map(name).collect()
}

fn the_same_both_ways<S: Scheme<VirtualMachine>>(choices: Choices) {
    let scheme: SchemeName = S::NAME.parse().expect("a scheme of the registry");
    let (mut reached, mut aborts) = (BTreeSet::new(), 0);
    for seed in 0..3 {
        let (first, second) =
            (run(scheme, seed, choices, compiled::<S>), run(scheme, seed, choices, dynamically));
        for (number, (one, other)) in first.value.workers.iter().zip(&second.value.workers).enumerate() {
            let mut pairs = one.transactions.iter().zip(&other.transactions);
            if let Some(place) = pairs.position(|(one, other)| one != other) {
                let (one, other) = (&one.transactions[place], &other.transactions[place]);
                panic!("{scheme}, seed {seed}, worker {number}, transaction {place}:\n{one}\n{other}");
            }
        }
        assert_eq!(first, second, "{scheme}, seed {seed}");
        reached.append(&mut endings(&first.value));
        aborts += first.value.workers.iter().map(|worker| worker.stats.aborts).sum::<u64>();
    }
    let all =
        ["Err Conflict", "Err Deadline", "Err Duplicate", "Err Misuse", "Ok Committed", "Ok RolledBack"];
    assert!(reached.iter().eq(all.iter()), "{scheme} has reached {reached:?} only");
    // A scheme that locks what a route names conflicts only where the route names too late what
    // it needs.
    let least = if S::LOCKS_PARTITIONS { 1 } else { 50 };
    assert!(aborts >= least, "{scheme}: {aborts} aborts");
}

#[test]
fn the_same_with_all_optimisations() {
    concurrency::for_each_scheme!(S => { the_same_both_ways::<S>(Choices { optimisations: Optimisations::ALL, ways: Ways::default() }); });
}

#[test]
fn the_same_without_prefetches() {
    let without = Optimisations::ALL.without(Optimisation::Prefetch);
    concurrency::for_each_scheme!(S => { the_same_both_ways::<S>(Choices { optimisations: without, ways: Ways::default() }); });
}

#[test]
fn the_same_with_interpreted_rows() {
    let without = Optimisations::ALL.without(Optimisation::CompiledRows);
    concurrency::for_each_scheme!(S => { the_same_both_ways::<S>(Choices { optimisations: without, ways: Ways::default() }); });
}

#[test]
fn the_same_in_other_ways() {
    let (row_lock, row_copies, commit_locks) = (RowLock::Latch, RowCopies::Rows, CommitLocks::NoWait);
    let ways = Ways { row_lock, row_copies, commit_locks, deadlocks: Deadlocks::Lists, ..Ways::default() };
    concurrency::for_each_scheme!(S => { the_same_both_ways::<S>(Choices { optimisations: Optimisations::ALL, ways }); });
}
