//! Databases whose tables are others than at the opening before: created, dropped, with other
//! indexes, with other rows; with crashes between.

use std::collections::BTreeMap;
use std::path::Path;

use boundary::{Bounds, DurableOptions, Ending, OpenError, SchemaBuilder, SchemaError, Verbs};
use concurrency::{InstanceOptions, SchemeName};
use engine::durable::content::{self, Checked};
use platform::Intent;
use redo_log::LogOptions;
use schema::{Inspector, Row, Schema, Table, TableOptions, Value};
use sim::{Config, Crash, Disk, DiskFaults, DiskModel, Shape, SimError, VirtualCore, VirtualMachine};
use terms::Abort;

use crate::support::Random;

pub(crate) type P = VirtualMachine;
pub(crate) type Database = boundary::Database<P>;

/// The same rows with other indexes.
macro_rules! rows {
    ($($name:ident: $attributes:meta;)*) => { $(
        #[derive(Row, Clone, Debug, PartialEq)]
        #[$attributes]
        pub(crate) struct $name {
            id: u32,
            a: u32,
            b: u64,
            #[row(tail)]
            text: Vec<u8>,
        }

        impl Item for $name {
            fn make(content: Content) -> Self {
                let (id, a, b, text) = content;
                $name { id, a, b, text }
            }

            fn content(self) -> Content {
                (self.id, self.a, self.b, self.text)
            }
        }
    )* };
}

rows! {
    Plain: row(key(id));
    ByA: row(key(id), index(by_a(a)));
    ByBoth: row(key(id), index(by_b(b), by_a(a, b)));
    OneA: row(key(id), unique_index(by_a(a)));
    OneB: row(key(id), index(by_a(a)), unique_index(by_b(b)));
}

pub(crate) type Content = (u32, u32, u64, Vec<u8>);

pub(crate) trait Item: Row<Key = u32> + Clone {
    fn make(content: Content) -> Self;
    fn content(self) -> Content;
}

pub(crate) fn item(id: u32, a: u32) -> Content {
    (id, a, u64::from(id) << 20, vec![id as u8; id as usize % 40])
}

pub(crate) fn instance() -> InstanceOptions {
    InstanceOptions {
        sessions_max: 2,
        memory_bytes_max: 64 << 20,
        epoch_nanos: 10_000,
        ..InstanceOptions::default()
    }
}

pub(crate) fn durable() -> DurableOptions {
    let log = LogOptions { segment_bytes: 32 << 10, buffer_bytes: 4096, ..LogOptions::default() };
    DurableOptions { log, checkpoint_bytes: u64::MAX, ..DurableOptions::new("d".into()) }
}

pub(crate) fn config(disk: &Disk) -> Config {
    Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(disk)
}

pub(crate) fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    VirtualMachine::run(&config(disk), program).expect("a run").value
}

pub(crate) fn disk() -> Disk {
    Disk::new(DiskModel::NVME, DiskFaults::default())
}

/// Opens a database with the tables that `declare` declares.
fn open_as<T>(
    scheme: SchemeName,
    c: VirtualCore,
    declare: impl FnOnce(&mut SchemaBuilder) -> T,
) -> Result<(Database, T), OpenError> {
    let mut schema = SchemaBuilder::new();
    let tables = declare(&mut schema);
    let opened = engine_simulated::open(scheme, c, &instance(), schema, &|_| None, &durable(), None);
    opened.map(|(database, _)| (database, tables))
}

pub(crate) fn open<T>(
    c: VirtualCore,
    declare: impl FnOnce(&mut SchemaBuilder) -> T,
) -> Result<(Database, T), OpenError> {
    open_as(SchemeName::Silo, c, declare)
}

pub(crate) fn table<R: Item>(schema: &mut SchemaBuilder, name: &'static str) -> Table<R> {
    schema.table(name, TableOptions::default())
}

/// Runs a transaction until it is durable; false if a key is taken.
pub(crate) fn transact(
    database: &Database,
    c: VirtualCore,
    body: impl FnMut(&mut boundary::Transaction<'_>) -> Result<(), Abort>,
) -> bool {
    let mut session = database.session(c, None, false).expect("a session");
    match session.transact(&Bounds::default(), body) {
        Ok(Ending::Committed((), stamp)) => session.wait_durable(stamp).map(|()| true).expect("durable"),
        Err(Abort::Duplicate { .. }) => false,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn insert<R: Item>(database: &Database, c: VirtualCore, table: Table<R>, row: Content) -> bool {
    let row = R::make(row);
    transact(database, c, |transaction| transaction.insert(table, &row))
}

/// Changes columns that indexes may be made of at another opening.
pub(crate) fn set<R: Item>(database: &Database, c: VirtualCore, table: Table<R>, row: Content) {
    transact(database, c, |transaction| {
        let found = transaction.find(table.primary(), &row.0, Intent::Write)?;
        transaction.replace(found.ok_or(Abort::Misuse("it is there"))?, &R::make(row.clone()))
    });
}

/// All rows, in the order of their keys.
pub(crate) fn contents<R: Item>(database: &Database, c: VirtualCore, table: Table<R>) -> Vec<Content> {
    let mut rows = Vec::new();
    database
        .inspector(c)
        .scan(table.primary(), &0, &u32::MAX, &mut |row: &R| rows.push(row.clone().content()));
    rows
}

pub(crate) fn checked(disk: &Disk) -> Checked {
    run(disk, |c| content::check::<P>(c, Path::new("d"), &mut |_, _| ()).expect("whole"))
}

pub(crate) fn schema_error<T>(opened: Result<T, OpenError>) -> SchemaError {
    match opened.err() {
        Some(OpenError::Schema(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn tables_are_known_by_name_whatever_their_order() {
    let disk = disk();
    run(&disk, |c| {
        let (database, (one, two)) =
            open(c, |s| (table::<Plain>(s, "one"), table::<ByA>(s, "two"))).expect("new");
        (0..9).for_each(|id| {
            assert!(insert(&database, c, one, item(id, 1)) && insert(&database, c, two, item(id, 2)))
        });
    });
    disk.lose_power();
    run(&disk, |c| {
        let declare = |s: &mut SchemaBuilder| {
            (table::<Plain>(s, "three"), table::<ByA>(s, "two"), table::<Plain>(s, "one"))
        };
        let (database, (three, two, one)) = open(c, declare).expect("a further table");
        assert_eq!(contents(&database, c, one), (0..9).map(|id| item(id, 1)).collect::<Vec<_>>());
        assert_eq!(contents(&database, c, two), (0..9).map(|id| item(id, 2)).collect::<Vec<_>>());
        assert!(contents(&database, c, three).is_empty() && insert(&database, c, three, item(1, 3)));
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.checkpoint(), Ok(true));
        drop(session);
        assert!(insert(&database, c, two, item(9, 2)));
    });
    disk.lose_power();
    let rows = checked(&disk).rows;
    assert_eq!(rows, [("one".to_owned(), 9), ("two".to_owned(), 10), ("three".to_owned(), 1)]);
    run(&disk, |c| {
        let declare = |s: &mut SchemaBuilder| {
            (table::<Plain>(s, "one"), table::<Plain>(s, "three"), table::<ByA>(s, "two"))
        };
        let (database, (one, three, two)) = open(c, declare).expect("a database");
        let counts = [one, three].map(|table| contents(&database, c, table).len());
        assert_eq!((counts, contents(&database, c, two).len()), ([9, 1], 10));
    });
}

#[test]
fn tables_go_when_the_program_drops_them() {
    let disk = disk();
    let before = run(&disk, |c| {
        let (database, (one, two)) =
            open(c, |s| (table::<Plain>(s, "one"), table::<Plain>(s, "two"))).expect("new");
        (0..9).for_each(|id| {
            assert!(insert(&database, c, one, item(id, 1)) && insert(&database, c, two, item(id, 2)))
        });
        database.close(c).expect("closed");
        disk.contents()
    });
    run(&disk, |c| {
        let forgotten = open(c, |s| table::<Plain>(s, "one"));
        assert_eq!(schema_error(forgotten), SchemaError::Undeclared { table: "two".into() });
        let both = open(c, |s| {
            s.drop_table("two");
            (table::<Plain>(s, "one"), table::<Plain>(s, "two"))
        });
        assert_eq!(schema_error(both), SchemaError::DeclaredAndDropped { table: "two".into() });
    });
    assert_eq!(disk.contents(), before, "refused openings change nothing");
    let dropping = |s: &mut SchemaBuilder| {
        s.drop_table("two");
        s.drop_table("never there");
        table::<Plain>(s, "one")
    };
    for _ in 0..2 {
        run(&disk, |c| {
            let (database, one) = open(c, dropping).expect("without it");
            assert_eq!(contents(&database, c, one).len(), 9);
        });
        disk.lose_power();
        let checked = checked(&disk);
        assert_eq!(checked.rows, [("one".to_owned(), 9)]);
        assert_eq!(checked.description.tables.len(), 2, "its records are still in the log");
    }
    run(&disk, |c| {
        let (database, (two, _)) =
            open(c, |s| (table::<ByA>(s, "two"), table::<Plain>(s, "one"))).expect("anew");
        assert!(contents(&database, c, two).is_empty() && insert(&database, c, two, item(4, 4)));
    });
    disk.lose_power();
    for round in 0..3 {
        run(&disk, |c| {
            let (database, (one, two)) =
                open(c, |s| (table::<Plain>(s, "one"), table::<ByA>(s, "two"))).expect("both");
            assert_eq!(
                (contents(&database, c, one).len(), contents(&database, c, two)),
                (9, vec![item(4, 4)])
            );
            let mut session = database.session(c, None, false).expect("a session");
            assert_eq!(session.checkpoint(), Ok(true));
        });
        disk.lose_power();
        // After a checkpoint no record of the dropped table counts, and the next opening forgets
        // it.
        let tables = checked(&disk).description;
        let ids: Vec<_> = tables.tables.iter().map(|table| table.id).collect();
        assert_eq!((ids, tables.next_id), (if round == 0 { vec![0, 1, 2] } else { vec![0, 2] }, 3));
    }
}

#[test]
fn indexes_come_and_go() {
    let disk = disk();
    run(&disk, |c| {
        let (database, things) = open(c, |s| table::<Plain>(s, "things")).expect("new");
        (0..20).for_each(|id| assert!(insert(&database, c, things, item(id, 0))));
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.checkpoint(), Ok(true));
        drop(session);
        // The checkpoint has other values in a column that becomes an index: the log has those of
        // the end.
        (0..20).for_each(|id| set(&database, c, things, item(id, 19 - id)));
    });
    disk.lose_power();
    run(&disk, |c| {
        let (database, things) = open(c, |s| table::<ByA>(s, "things")).expect("with an index");
        let mut found = Vec::new();
        let index = things.index(ByA::BY_A);
        database.inspector(c).scan(index, &(0, 0), &(u32::MAX, u32::MAX), &mut |row: &ByA| found.push(row.a));
        assert_eq!(found, (0..20).collect::<Vec<_>>());
    });
    run(&disk, |c| {
        let (database, things) = open(c, |s| table::<OneA>(s, "things")).expect("with another");
        for id in 0..20 {
            let row = database.inspector(c).row(things.index(OneA::BY_A), &id);
            assert_eq!(row.map(Item::content), Some(item(19 - id, id)));
        }
        assert!(!insert(&database, c, things, item(20, 5)), "the index is unique");
        assert!(insert(&database, c, things, item(20, 20)));
    });
    run(&disk, |c| {
        let (database, things) = open(c, |s| table::<ByBoth>(s, "things")).expect("with two");
        assert!(insert(&database, c, things, item(21, 20)));
        database.close(c).expect("closed");
    });
    let before = disk.contents();
    run(&disk, |c| {
        let error = schema_error(open(c, |s| table::<OneA>(s, "things")));
        assert_eq!(error, SchemaError::NotUnique { table: "things".into(), index: "by_a".into() });
    });
    assert_eq!(disk.contents(), before, "a refused opening changes nothing");
    assert_eq!(checked(&disk).rows, [("things".to_owned(), 22)]);
}

#[derive(Value, Clone, Debug, PartialEq)]
struct Pair {
    a: u32,
    b: u8,
}

/// Rows that are others than those of [`Plain`].
macro_rules! others {
    ($($name:ident($attributes:meta) { $($field:ident: $kind:ty),* } $($tail:ident)?;)*) => { $(
        #[derive(Row)]
        #[$attributes]
        #[allow(dead_code)]
        struct $name { $($field: $kind,)* $(#[row(tail)] $tail: Vec<u8>)? }
    )* };
}
others! {
    Shorter(row(key(id))) { id: u32, a: u32 } text;
    Signed(row(key(id))) { id: u32, a: i32, b: u64 } text;
    Renamed(row(key(id))) { id: u32, c: u32, b: u64 } text;
    Grouped(row(key(id))) { id: u32, a: u32, b: Pair } text;
    Without(row(key(id))) { id: u32, a: u32, b: u64 };
    OtherKey(row(key(id, a))) { id: u32, a: u32, b: u64 } text;
}

#[test]
fn other_rows_are_refused_by_the_first_difference() {
    let disk = disk();
    run(&disk, |c| {
        let (database, things) = open(c, |s| table::<Plain>(s, "things")).expect("new");
        assert!(insert(&database, c, things, item(1, 1)));
        database.close(c).expect("closed");
    });
    let before = disk.contents();
    let refused = |part: &str, found: &str, declared: &str, declare: &(dyn Fn(&mut SchemaBuilder) + Sync)| {
        let error = run(&disk, |c| schema_error(open(c, declare)));
        let [part, found, declared] = [part, found, declared].map(str::to_owned);
        assert_eq!(error, SchemaError::Rows { table: "things".into(), part, found, declared });
    };
    fn other<R: Row>(schema: &mut SchemaBuilder) {
        schema.table::<R>("things", TableOptions::default());
    }
    refused("column 3", "b: u64 at byte 8", "the rest of the row", &other::<Shorter>);
    refused("column 2", "a: u32 at byte 4", "a: i32 at byte 4", &other::<Signed>);
    refused("column 2", "a: u32 at byte 4", "c: u32 at byte 4", &other::<Renamed>);
    refused("column 3", "b: u64 at byte 8", "b: {a: u32, b: u8} at byte 8", &other::<Grouped>);
    refused("column 4", "the rest of the row", "not there", &other::<Without>);
    refused("the primary key", "(id)", "(id, a)", &other::<OtherKey>);
    assert_eq!(disk.contents(), before, "refused openings change nothing");
}

/// A drop and a creation are there as a whole or not at all, whenever the machine stops.
#[test]
fn a_crash_leaves_the_tables_before_or_those_after() {
    let crashes = (1..40).map(Crash::DiskOperation).chain((1..30).map(|number| Crash::Event(7 * number)));
    let (mut before, mut after) = (0, 0);
    for (number, crash) in crashes.enumerate() {
        let disk = Disk::new(DiskModel::NVME, DiskFaults { seed: number as u64, ..DiskFaults::default() });
        run(&disk, |c| {
            let (database, (old, _)) =
                open(c, |s| (table::<Plain>(s, "old"), table::<Plain>(s, "kept"))).expect("new");
            (0..5).for_each(|id| assert!(insert(&database, c, old, item(id, id))));
        });
        disk.lose_power();
        let acknowledged = std::sync::atomic::AtomicBool::new(false);
        let changed = VirtualMachine::run(&config(&disk).crashing(crash), |c| {
            let declare = |s: &mut SchemaBuilder| {
                s.drop_table("old");
                (table::<OneA>(s, "kept"), table::<ByA>(s, "new"))
            };
            let (database, (_, new)) = open(c, declare).expect("changed");
            assert!(insert(&database, c, new, item(7, 7)));
            acknowledged.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        assert!(matches!(changed, Ok(_) | Err(SimError::Crashed { .. })), "{:?}", changed.err());
        if number % 3 > 0 {
            disk.lose_power();
        }
        let rows = checked(&disk).rows;
        let names: Vec<_> = rows.iter().map(|(name, _)| &**name).collect();
        if names == ["old", "kept"] {
            before += 1;
            assert!(rows[0].1 == 5 && !acknowledged.into_inner(), "{crash:?}");
            run(&disk, |c| {
                let (database, (old, _)) =
                    open(c, |s| (table::<Plain>(s, "old"), table::<Plain>(s, "kept"))).expect("as before");
                assert_eq!(contents(&database, c, old).len(), 5);
            });
        } else {
            after += 1;
            assert_eq!(names, ["kept", "new"], "{crash:?}");
            assert!(rows[1].1 == 1 || !acknowledged.into_inner(), "{crash:?}");
            run(&disk, |c| {
                let (database, (_, new)) =
                    open(c, |s| (table::<Plain>(s, "kept"), table::<ByA>(s, "new"))).expect("as after");
                assert_eq!(contents(&database, c, new).len() as u64, rows[1].1);
            });
        }
    }
    assert!(before > 5 && after > 5, "{before} before, {after} after");
}

/// The operations of a program on a table whose row type it knows.
trait Handle {
    fn insert(&self, database: &Database, c: VirtualCore, row: Content) -> bool;
    fn set(&self, database: &Database, c: VirtualCore, row: Content);
    fn delete(&self, database: &Database, c: VirtualCore, id: u32);
    fn contents(&self, database: &Database, c: VirtualCore) -> Vec<Content>;
}

impl<R: Item> Handle for Table<R> {
    fn insert(&self, database: &Database, c: VirtualCore, row: Content) -> bool {
        insert(database, c, *self, row)
    }

    fn set(&self, database: &Database, c: VirtualCore, row: Content) {
        set(database, c, *self, row);
    }

    fn delete(&self, database: &Database, c: VirtualCore, id: u32) {
        transact(database, c, |transaction| {
            let found = transaction.find(self.primary(), &id, Intent::Write)?;
            transaction.delete(found.ok_or(Abort::Misuse("it is there"))?)
        });
    }

    fn contents(&self, database: &Database, c: VirtualCore) -> Vec<Content> {
        contents(database, c, *self)
    }
}

const NAMES: [&str; 4] = ["north", "east", "south", "west"];
/// The unique value of each kind of table.
const KINDS: [fn(&Content) -> Option<u64>; 5] =
    [|_| None, |_| None, |_| None, |row| Some(u64::from(row.1)), |row| Some(row.2)];

fn declare(schema: &mut SchemaBuilder, name: &'static str, kind: usize) -> Box<dyn Handle> {
    match kind {
        0 => Box::new(table::<Plain>(schema, name)),
        1 => Box::new(table::<ByA>(schema, name)),
        2 => Box::new(table::<ByBoth>(schema, name)),
        3 => Box::new(table::<OneA>(schema, name)),
        _ => Box::new(table::<OneB>(schema, name)),
    }
}

type Rows = BTreeMap<u32, Content>;

fn is_unique(rows: &Rows, kind: usize) -> bool {
    let mut keys: Vec<_> = rows.values().filter_map(KINDS[kind]).collect();
    keys.sort_unstable();
    keys.windows(2).all(|pair| pair[0] != pair[1])
}

/// Random openings with random tables, and what must be there.
fn openings(scheme: SchemeName, seed: u64) {
    let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..DiskFaults::default() });
    let mut random = Random::new(seed, 1);
    let mut model: BTreeMap<&str, Rows> = BTreeMap::new();
    let mut refused = 0;
    for round in 0..8 {
        // Declared as some kind, or dropped; sometimes forgotten.
        let mut plan: Vec<(&str, Option<usize>)> =
            NAMES.map(|name| (name, random.chance(70).then(|| random.below(5) as usize))).to_vec();
        (1..plan.len()).for_each(|place| plan.swap(place, random.below(place as u64 + 1) as usize));
        let forgets = random.chance(15) && plan[0].1.is_none();
        let bad = plan.iter().find(|(name, kind)| {
            kind.is_some_and(|kind| model.get(name).is_some_and(|rows| !is_unique(rows, kind)))
        });
        let undeclared = forgets && model.contains_key(plan[0].0);
        let refuses = bad.is_some() || undeclared;
        let transactions = random.below(30);
        let (closes, checkpoints, loses) = (random.chance(40), random.chance(40), random.chance(70));
        let now = run(&disk, |c| {
            let opened = open_as(scheme, c, |schema| {
                let mut handles = BTreeMap::new();
                for (place, (name, kind)) in plan.iter().enumerate() {
                    match kind {
                        Some(kind) => drop(handles.insert(*name, (declare(schema, name, *kind), *kind))),
                        None if forgets && place == 0 => {}
                        None => schema.drop_table(*name),
                    }
                }
                handles
            });
            if refuses {
                match schema_error(opened) {
                    SchemaError::Undeclared { table } => assert!(undeclared && table == plan[0].0),
                    SchemaError::NotUnique { table, .. } => {
                        assert!(!undeclared && model.contains_key(&*table), "{table}");
                    }
                    other => panic!("{other}"),
                }
                return None;
            }
            let (database, handles) =
                opened.unwrap_or_else(|error| panic!("seed {seed} round {round}: {error}"));
            let mut now: BTreeMap<&str, Rows> = BTreeMap::new();
            for (name, (handle, _)) in &handles {
                let rows = model.get(name).cloned().unwrap_or_default();
                let found = handle.contents(&database, c);
                assert_eq!(
                    found,
                    rows.values().cloned().collect::<Vec<_>>(),
                    "seed {seed} round {round} {name}"
                );
                now.insert(name, rows);
            }
            let names: Vec<_> = handles.keys().copied().collect();
            for number in 0..transactions {
                if checkpoints && number == transactions / 2 {
                    let mut session = database.session(c, None, false).expect("a session");
                    assert_eq!(session.checkpoint(), Ok(true));
                }
                let Some(name) = names.get(random.below(names.len().max(1) as u64) as usize) else {
                    continue;
                };
                let ((handle, kind), rows) = (&handles[name], now.entry(name).or_default());
                let id = random.below(12) as u32;
                let mut row = item(id, random.below(9) as u32);
                row.2 = random.below(9);
                let mut would = rows.clone();
                would.insert(id, row.clone());
                match rows.contains_key(&id) {
                    true if random.chance(40) => {
                        handle.delete(&database, c, id);
                        rows.remove(&id);
                    }
                    true if is_unique(&would, *kind) => {
                        handle.set(&database, c, row);
                        *rows = would;
                    }
                    true => {}
                    false => {
                        assert_eq!(handle.insert(&database, c, row), is_unique(&would, *kind));
                        if is_unique(&would, *kind) {
                            *rows = would;
                        }
                    }
                }
            }
            if closes {
                database.close(c).expect("closed");
            }
            Some(now)
        });
        refused += u32::from(now.is_none());
        model = now.unwrap_or(model);
        if loses {
            disk.lose_power();
        }
        let mut rows = checked(&disk).rows;
        rows.sort();
        let expected: Vec<_> =
            model.iter().map(|(name, rows)| ((*name).to_owned(), rows.len() as u64)).collect();
        assert_eq!(rows, expected, "seed {seed} round {round}");
    }
    REFUSED.fetch_add(u64::from(refused), std::sync::atomic::Ordering::SeqCst);
}

/// Openings that were refused.
static REFUSED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[test]
fn random_openings_find_what_was_left() {
    for seed in 0..60 {
        match seed % 3 {
            0 => openings(SchemeName::Silo, seed),
            1 => openings(SchemeName::NoWait, seed),
            _ => openings(SchemeName::Mvcc, seed),
        }
    }
    assert!(REFUSED.load(std::sync::atomic::Ordering::SeqCst) > 20);
}
