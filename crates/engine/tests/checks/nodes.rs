//! Copies on memory nodes: which memory a session reads, and that all copies say the same.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use boundary::{Bounds, Direction, Ending, SchemaBuilder, Verbs};
use concurrency::{InstanceOptions, Mvcc, Scheme, Silo, Structure};
use engine::{MemoryDatabase, MemorySession};
use platform::{HardwareThread, Intent, Node, Place, Platform};
use schema::{HashPlan, IndexKind, Inspector, Partitioning, Row, Schema, Table, TableOptions};
use sim::{Config, Shape, VirtualCore, VirtualMachine};
use storage::{Optimisation, Optimisations};

use crate::support::options;

/// Never written.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_name(name)))]
struct Fact {
    id: u64,
    name: u64,
    #[row(tail)]
    text: Vec<u8>,
}

/// One row a partition.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id))]
struct Member {
    part: u16,
    id: u32,
}

const FACTS: u64 = 200;
const PARTS: u16 = 40;

fn fact(id: u64) -> Fact {
    Fact { id, name: 7_000 - id, text: vec![id as u8; (id % 40) as usize] }
}

#[derive(Clone, Copy)]
struct Tables {
    facts: Table<Fact>,
    members: Table<Member>,
}

type Machine<S> = MemoryDatabase<VirtualMachine, S>;

/// Facts on node 0, members on node 1, in the memory that the small checks have.
fn database<S: Scheme<VirtualMachine>>(c: VirtualCore, optimisations: Optimisations) -> (Machine<S>, Tables) {
    limited(c, InstanceOptions { optimisations, ..options(4) })
}

fn limited<S: Scheme<VirtualMachine>>(c: VirtualCore, options: InstanceOptions) -> (Machine<S>, Tables) {
    let mut schema = SchemaBuilder::new();
    let kinds = vec![IndexKind::Hash(HashPlan::Mixed)];
    let of_facts = TableOptions { rows: FACTS, kinds, read_only: true, ..TableOptions::default() };
    let partitioning = Some(Partitioning { first: 0, count: PARTS });
    let of_members = TableOptions { partitioning, ..TableOptions::default() };
    let tables =
        Tables { facts: schema.table("facts", of_facts), members: schema.table("members", of_members) };
    let options = InstanceOptions { nodes: vec![Node(0), Node(1)], ..options };
    let node_of = |partition| Some(Node(u32::from(partition > 0)));
    let database = MemoryDatabase::create(c, &options, schema, &node_of).expect("memory");
    let mut session = on_node(c, &database, Some(0));
    for id in 0..FACTS {
        session.transact(&Bounds::default(), |t| t.insert(tables.facts, &fact(id))).expect("loaded");
    }
    drop(session);
    let mut session = on_node(c, &database, Some(1));
    for part in 0..PARTS {
        let member = Member { part, id: 1 };
        session.transact(&Bounds::default(), |t| t.insert(tables.members, &member)).expect("loaded");
    }
    drop(session);
    (database, tables)
}

fn on_node<S: Scheme<VirtualMachine>>(
    c: VirtualCore,
    database: &Machine<S>,
    node: Option<u32>,
) -> MemorySession<'_, VirtualMachine, S> {
    database.session(c, node.map(Node), false).expect("a session")
}

/// Two sockets of one core.
fn virtually<R: Send>(program: impl FnOnce(VirtualCore) -> R) -> R {
    let config = Config { memory_bytes: 256 << 20, ..Config::new(Shape::new(2, 1, 1)) };
    VirtualMachine::run(&config, program).expect("it ends").value
}

/// The fact with this number.
fn look_up<S: Scheme<VirtualMachine>>(
    session: &mut MemorySession<'_, VirtualMachine, S>,
    tables: Tables,
    id: u64,
) -> Option<Fact> {
    let found = session.transact(&Bounds::default(), |t| {
        match t.find(tables.facts.primary(), &id, Intent::Read)? {
            Some(row) => t.row(row).map(Some),
            None => Ok(None),
        }
    });
    match found {
        Ok(Ending::Committed(row, _)) => row,
        other => panic!("{other:?}"),
    }
}

/// Lines that a session on the second socket gets from the first while it reads all facts, and
/// while it reads a member of each partition.
fn lines_from_afar(optimisations: Optimisations) -> (u64, u64) {
    virtually(|c| {
        let (mut database, tables) = database::<Silo>(c, optimisations);
        database.loaded(c).expect("memory");
        let counts = std::sync::Mutex::new((0, 0));
        let worker = |c: VirtualCore, _| {
            let mut session = on_node(c, &database, Some(1));
            let far = |c| {
                let counts = VirtualMachine::statistics(c).counts;
                counts.far_misses + counts.remote_memory_misses
            };
            // What transactions share is in the caches from now on.
            assert_eq!(look_up(&mut session, tables, FACTS), None);
            let before = far(c);
            (0..FACTS).for_each(|id| assert_eq!(look_up(&mut session, tables, id), Some(fact(id))));
            let between = far(c);
            let found = session.transact(&Bounds::default(), |t| {
                for part in 1..PARTS {
                    assert!(t.find(tables.members.primary(), &(part, 1), Intent::Read)?.is_some());
                }
                Ok(())
            });
            found.expect("it commits");
            *counts.lock().expect("one worker") = (between - before, far(c) - between);
        };
        let place = Place { thread: Some(HardwareThread(1)) };
        VirtualMachine::parallel(c, &[place], &worker, &mut |_| ());
        counts.into_inner().expect("one worker")
    })
}

#[test]
fn sessions_read_what_is_on_their_node() {
    assert_eq!(lines_from_afar(Optimisations::ALL), (0, 0));
    let (facts, members) = lines_from_afar(Optimisations::ALL.without(Optimisation::Replicate));
    assert!(
        facts >= 2 * FACTS / 3 && members == 0,
        "a line of three entries and their rows: {facts} {members}"
    );
    let (facts, members) = lines_from_afar(Optimisations::ALL.without(Optimisation::ReplicateIndex));
    assert!(facts < 5 && members >= u64::from(PARTS) - 1, "descriptors: {facts} {members}");
}

/// Sees what sessions of both nodes, of none, and an inspector see.
fn all_see_the_facts<S: Scheme<VirtualMachine>>(
    c: VirtualCore,
    database: &Machine<S>,
    tables: Tables,
    gone: u64,
) {
    let expected: Vec<Fact> = (0..FACTS).filter(|id| *id != gone).map(fact).collect();
    for node in [None, Some(0), Some(1), Some(0)] {
        let mut session = on_node(c, database, node);
        let seen: Vec<Fact> = (0..=FACTS).filter_map(|id| look_up(&mut session, tables, id)).collect();
        assert!(seen == expected, "node {node:?}");
        let mut names = Vec::new();
        let scanned = session.transact(&Bounds::default(), |t| {
            names.clear();
            let index = tables.facts.index(Fact::BY_NAME);
            t.scan(index, &0, &u64::MAX, Direction::Reverse, Intent::Read, &mut |t, row| {
                names.push(t.row(row)?);
                Ok(ControlFlow::Continue(()))
            })
        });
        scanned.expect("it commits");
        assert!(names == expected, "node {node:?}");
    }
    let mut inspected = Vec::new();
    let visit = &mut |row: &Fact| inspected.push(row.clone());
    database.inspector(c).scan(tables.facts.index(Fact::BY_NAME), &0, &u64::MAX, visit);
    inspected.reverse();
    assert!(inspected == expected);
}

/// How many rows of facts, the first table, lie anywhere.
fn places(c: VirtualCore, database: &Machine<impl Scheme<VirtualMachine>>) -> usize {
    let (mut places, mut visits) = (BTreeSet::new(), 0);
    database.instance().visit_structures(c, &mut |structure, at, _| {
        if structure == Structure::Row(0) {
            visits += 1;
            places.insert(VirtualMachine::address(c, at));
        }
    });
    assert_eq!(places.len(), visits, "each is visited once");
    visits
}

#[test]
fn copies_have_the_same_rows() {
    let skip = Optimisations::ALL.without(Optimisation::ReadOnlySkip);
    let (rows, indexes) = (Optimisation::Replicate, Optimisation::ReplicateIndex);
    let cases = [
        (Optimisations::ALL, 2),
        (skip, 2),
        (Optimisations::ALL.without(indexes), 2),
        (Optimisations::ALL.without(rows), 1),
        (Optimisations::ALL.without(rows).without(indexes), 1),
    ];
    for (optimisations, copies) in cases {
        virtually(|c| {
            let (mut database, tables) = database::<Silo>(c, optimisations);
            assert_eq!(places(c, &database) as u64, FACTS);
            database.loaded(c).expect("memory");
            assert_eq!(places(c, &database) as u64, FACTS * copies, "{optimisations:?}");
            all_see_the_facts(c, &database, tables, FACTS);
            database.loaded(c).expect("nothing to do");
            assert_eq!(places(c, &database) as u64, FACTS * copies, "{optimisations:?}");
        });
    }
}

/// Under `mvcc` a deleted row leaves its indexes later: it would leave those of one copy, and be
/// read until then by those who need no concurrency control.
#[test]
fn tables_with_rows_about_to_go_stay_as_they_are() {
    virtually(|c| {
        let (mut database, tables) = database::<Mvcc>(c, Optimisations::ALL);
        let mut session = on_node(c, &database, Some(0));
        let deleted = session.transact(&Bounds::default(), |t| {
            let row = t.find(tables.facts.primary(), &9, Intent::Write)?.expect("loaded");
            t.delete(row)
        });
        deleted.expect("it commits");
        drop(session);
        database.loaded(c).expect("memory");
        assert_eq!(places(c, &database) as u64, FACTS);
        all_see_the_facts(c, &database, tables, 9);
    });
}

#[test]
fn no_memory_for_copies_is_an_error() {
    virtually(|c| {
        let memory_bytes_max = database::<Silo>(c, Optimisations::ALL).0.memory_bytes(c);
        let (mut database, tables) = limited::<Silo>(c, InstanceOptions { memory_bytes_max, ..options(4) });
        let error = database.loaded(c).expect_err("nothing is left").to_string();
        assert!(error.contains("memory limit"), "{error}");
        all_see_the_facts(c, &database, tables, FACTS);
    });
}
