//! Actions stay inside their routes, and each way to leave one is noticed.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use boundary::{Bounds, Direction, Ending, Plan, Procedure, SchemaBuilder, Verbs};
use concurrency::{Hstore, Scheme};
use engine::testing::{Shuffle, run_shuffled};
use engine::{MemoryDatabase, MemorySession};
use platform::{Hardware, Intent};
use schema::{Partitioning, Routes, Row, Schema, Table, TableOptions};
use serde::{Deserialize, Serialize};
use sim::VirtualMachine;
use terms::Abort;

use crate::support::{options, virtually, workers};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(group, id), index(by_size(group, size)), unique_index(by_serial(serial)))]
struct Thing {
    group: u16,
    id: u32,
    size: u16,
    serial: u64,
    value: i64,
}

impl Thing {
    fn new(group: u16, id: u32) -> Thing {
        Thing { group, id, size: 10 - id as u16, serial: u64::from(group) << 32 | u64::from(id), value: 0 }
    }
}

/// The operation of an action, on row 3 of group 2 if it has one row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Deed {
    Find,
    FindAbsent,
    FindToWrite,
    FindMany,
    FindBySerial,
    Scan,
    ScanBySize,
    Insert,
    Change,
    Replace,
    /// Replaces the row by row 9.
    Rename,
    Delete,
    /// Changes the row, which a scan has found.
    ChangeWhatAScanFinds,
    /// Changes a row, which was found by another index.
    ChangeWhatASerialFinds,
}

/// The rows that an action declares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum DeclaredRows {
    Thing(u16, u32),
    Things(u16, u32, u32),
    Group(u16),
    All,
    /// A key of another table.
    Other(u16, u32),
}

use DeclaredRows::{All, Group, Other, Things};
use Deed::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Action {
    deed: Deed,
    route: Vec<(DeclaredRows, bool)>,
}

struct Doing(Action);

#[derive(Clone, Copy)]
struct Tables {
    things: Table<Thing>,
    others: Table<Thing>,
}

impl Procedure for Doing {
    type Tables = Tables;
    type Action = Action;
    type Output = ();

    fn plan(&mut self, phase: usize, actions: &mut Vec<Action>) -> Plan {
        actions.push(self.0.clone());
        if phase == 0 { Plan::Run } else { Plan::RollBack }
    }

    fn route(tables: &Tables, action: &Action, route: &mut Routes) {
        let Tables { things, others } = tables;
        for (rows, writes) in &action.route {
            let intent = if *writes { Intent::Write } else { Intent::Read };
            match rows {
                DeclaredRows::Thing(group, id) => {
                    route.between(*things, &(*group, *id), &(*group, *id), intent)
                }
                Things(group, low, high) => route.between(*things, &(*group, *low), &(*group, *high), intent),
                Group(group) if *writes => route.write(*things, group),
                Group(group) => route.read(*things, group),
                All => route.all(*things, intent),
                Other(group, id) => route.between(*others, &(*group, *id), &(*group, *id), intent),
            }
        }
    }

    fn execute<T: Verbs>(tables: &Tables, action: &Action, t: &mut T) -> Result<(), Abort> {
        let things = &tables.things;
        let (primary, key) = (things.primary(), (2, 3));
        match action.deed {
            Find => drop(t.find(primary, &key, Intent::Read)?),
            FindAbsent => assert!(t.find(primary, &(2, 8), Intent::Read)?.is_none()),
            FindToWrite => drop(t.find(primary, &key, Intent::Write)?),
            FindMany => t.find_many(primary, &[key, (2, 5)], Intent::Read, &mut Vec::new())?,
            FindBySerial => drop(t.find(things.index(Thing::BY_SERIAL), &7, Intent::Read)?),
            Scan => t.scan(primary, &(2, 2), &(2, 5), Direction::Forward, Intent::Read, &mut |t, row| {
                t.get(row, Thing::VALUE)?;
                Ok(ControlFlow::Continue(()))
            })?,
            ScanBySize => {
                let (low, high) = ((2, 4, 0), (2, 6, u32::MAX));
                let by_size = things.index(Thing::BY_SIZE);
                t.scan(by_size, &low, &high, Direction::Reverse, Intent::Read, &mut |t, row| {
                    t.get(row, Thing::VALUE)?;
                    Ok(ControlFlow::Break(()))
                })?;
            }
            Insert => t.insert(*things, &Thing::new(2, 9))?,
            Change | Replace | Rename | Delete => {
                let row = t.find(primary, &key, Intent::Write)?.expect("loaded");
                match action.deed {
                    Change => t.put(row, Thing::VALUE, &1)?,
                    Replace => t.replace(row, &Thing { value: 1, ..Thing::new(2, 3) })?,
                    Rename => t.replace(row, &Thing::new(2, 9))?,
                    _ => t.delete(row)?,
                }
            }
            ChangeWhatAScanFinds => {
                let low = (2, 3);
                t.scan(primary, &low, &low, Direction::Forward, Intent::Read, &mut |t, row| {
                    t.put(row, Thing::VALUE, &1)?;
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            ChangeWhatASerialFinds => {
                let serial = Thing::new(2, 3).serial;
                let row = t.find(things.index(Thing::BY_SERIAL), &serial, Intent::Read)?.expect("loaded");
                t.put(row, Thing::VALUE, &1)?;
            }
        }
        Ok(())
    }

    fn absorb(&mut self, _: usize, _: usize, (): ()) {}
}

/// Four groups of five things, each in its partition.
fn things<S: Scheme<Hardware>>() -> (MemoryDatabase<Hardware, S>, Tables) {
    let mut schema = SchemaBuilder::new();
    let table = |schema: &mut SchemaBuilder, name| schema.table::<Thing>(name, TableOptions::default());
    let tables = Tables { things: table(&mut schema, "things"), others: table(&mut schema, "others") };
    let c = Hardware::core();
    let database = MemoryDatabase::create(c, &options(2), schema, &|_| None).expect("memory");
    let mut session = database.session(c, None, false).expect("a session");
    for (group, id) in (0..4).flat_map(|group| (1..6).map(move |id| (group, id))) {
        session
            .transact(&Bounds::default(), |t| t.insert(tables.things, &Thing::new(group, id)))
            .expect("loaded");
    }
    drop(session);
    (database, tables)
}

/// The rows of a route, and true if the route writes.
type DeclaredRoutes = Vec<(DeclaredRows, bool)>;

/// Each deed, the least that it has to say, and what is too little.
fn deeds() -> Vec<(Deed, DeclaredRoutes, Vec<DeclaredRoutes>)> {
    let (row, elsewhere) = (DeclaredRows::Thing(2, 3), DeclaredRows::Thing(2, 4));
    let little = || vec![vec![(elsewhere, true)], vec![(Other(2, 3), true)], vec![(Group(1), true)]];
    let and = |more: Vec<(DeclaredRows, bool)>| little().into_iter().chain([more]).collect::<Vec<_>>();
    let unread = vec![(row, false)];
    vec![
        (Find, vec![(row, false)], little()),
        (FindAbsent, vec![(DeclaredRows::Thing(2, 8), false)], and(unread.clone())),
        (FindToWrite, vec![(row, true)], and(unread.clone())),
        (FindMany, vec![(row, false), (DeclaredRows::Thing(2, 5), false)], and(vec![(row, true)])),
        (FindBySerial, vec![(All, false)], and(vec![(Group(2), true)])),
        (Scan, vec![(Things(2, 2, 5), false)], and(vec![(Things(2, 3, 5), true)])),
        (ScanBySize, vec![(Group(2), false)], and(vec![(Things(2, 0, 100), true)])),
        (Insert, vec![(DeclaredRows::Thing(2, 9), true)], and(vec![(DeclaredRows::Thing(2, 9), false)])),
        (Change, vec![(row, true)], and(unread.clone())),
        (Replace, vec![(row, true)], and(unread.clone())),
        (Rename, vec![(row, true), (DeclaredRows::Thing(2, 9), true)], and(vec![(row, true)])),
        (Delete, vec![(row, true)], and(unread.clone())),
        (ChangeWhatAScanFinds, vec![(row, true)], and(unread)),
        (ChangeWhatASerialFinds, vec![(All, true)], and(vec![(All, false), (row, true)])),
    ]
}

fn run<S: Scheme<Hardware>>(
    session: &mut MemorySession<'_, Hardware, S>,
    tables: &Tables,
    deed: Deed,
    route: &[(DeclaredRows, bool)],
) -> Result<Ending<()>, Abort> {
    let mut doing = Doing(Action { deed, route: route.to_vec() });
    run_shuffled(session, tables, &mut doing, &Bounds::default(), &mut Shuffle::new(1))
}

fn watches<S: Scheme<Hardware>>() {
    let (database, tables) = things::<S>();
    for (deed, route, little) in deeds() {
        let mut session = database.session(Hardware::core(), None, false).expect("a session");
        run(&mut session, &tables, deed, &route).unwrap_or_else(|error| panic!("{deed:?}: {error}"));
        drop(session);
        for route in little {
            let caught = catch_unwind(AssertUnwindSafe(|| {
                let mut session = database.session(Hardware::core(), None, false).expect("a session");
                run(&mut session, &tables, deed, &route)
            }));
            let panic = caught.err().unwrap_or_else(|| panic!("{deed:?} with {route:?} is not caught"));
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            assert!(text.starts_with("an action leaves its route: "), "{deed:?} with {route:?}: {text}");
            assert!(text.contains("Thing (table 0)") && text.contains(&format!("{deed:?}")), "{text}");
        }
    }
}

#[test]
fn a_route_that_covers_too_little_is_detected() {
    concurrency::for_each_scheme!(S => { watches::<S>(); });
}

#[test]
#[should_panic(expected = "an action belongs nowhere")]
fn an_action_without_a_route_is_noticed() {
    let (database, tables) = things::<Hstore>();
    let mut session = database.session(Hardware::core(), None, false).expect("a session");
    let _ = run(&mut session, &tables, Find, &[]);
}

/// Writes the same rows of several partitions in some order, by one action.
struct Together(Vec<u16>);

impl Procedure for Together {
    type Tables = Table<Thing>;
    type Action = Vec<u16>;
    type Output = ();

    fn plan(&mut self, phase: usize, actions: &mut Vec<Vec<u16>>) -> Plan {
        actions.push(self.0.clone());
        if phase == 0 { Plan::Run } else { Plan::Commit }
    }

    fn route(things: &Table<Thing>, groups: &Vec<u16>, route: &mut Routes) {
        match groups[..] {
            // A range of groups.
            [first, last] => route.between(*things, &first, &last, Intent::Write),
            _ => groups.iter().for_each(|group| route.write(*things, &(*group, 1u32))),
        }
    }

    fn execute<T: Verbs>(things: &Table<Thing>, groups: &Vec<u16>, t: &mut T) -> Result<(), Abort> {
        let groups: Vec<u16> = match groups[..] {
            [first, last] => (first..=last).rev().collect(),
            _ => groups.clone(),
        };
        for group in groups {
            let row = t.find(things.primary(), &(group, 1), Intent::Write)?.expect("loaded");
            let value = t.get(row, Thing::VALUE)?;
            t.put(row, Thing::VALUE, &(value + 1))?;
        }
        Ok(())
    }

    fn absorb(&mut self, _: usize, _: usize, (): ()) {}
}

/// A scheme that locks partitions receives all of them before the first is touched: no attempt
/// begins again, although workers touch partitions in descending order.
#[test]
fn routes_lock_all_partitions_in_order() {
    for groups in [vec![3, 2, 0], vec![0, 3]] {
        virtually(7, 4, |c| {
            let mut schema = SchemaBuilder::new();
            let partitioning = Some(Partitioning { first: 0, count: 4 });
            let options_of = TableOptions { partitioning, ..TableOptions::default() };
            // Its entries by serial number lie in other partitions: this test does not insert
            // beside others.
            let things = schema.table::<Thing>("things", options_of);
            let database =
                MemoryDatabase::<VirtualMachine, Hstore>::create(c, &options(5), schema, &|_| None)
                    .expect("memory");
            let mut session = database.session(c, None, false).expect("a session");
            for group in 0..4 {
                let row = Thing::new(group, 1);
                session.transact(&Bounds::default(), |t| t.insert(things, &row)).expect("loaded");
            }
            drop(session);
            workers(c, &database, 4, &|session, _| {
                for _ in 0..30 {
                    let mut procedure = Together(groups.clone());
                    session
                        .run(&things, &mut procedure, &mut Vec::new(), &Bounds::default())
                        .expect("commits");
                }
                let stats = session.stats();
                assert_eq!((stats.commits, stats.aborts), (30, 0), "{groups:?}");
            });
        });
    }
}
