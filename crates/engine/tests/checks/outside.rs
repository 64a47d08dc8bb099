//! The verbs that stand outside of concurrency control: rows read without it, and rows that enter
//! no index.

use boundary::{Bounds, Ending, SchemaBuilder, Transaction as Erased, Verbs};
use concurrency::{Scheme, for_each_scheme};
use engine::MemoryDatabase;
use platform::{Hardware, Intent, Platform};
use schema::{Inspector, Row, Schema, Table, TableOptions};
use terms::Abort;

use crate::support::{options, virtually};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Item {
    id: u64,
    left: u64,
    right: u64,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Noted {
    id: u64,
    #[row(tail)]
    note: Vec<u8>,
}

fn item(id: u64) -> Item {
    Item { id, left: id, right: id }
}

type Opened<P, S> = (MemoryDatabase<P, S>, Table<Item>, Table<Noted>);

fn database<P: Platform, S: Scheme<P>>(c: P::Core, sessions: usize) -> Opened<P, S> {
    let mut schema = SchemaBuilder::new();
    let items = schema.table::<Item>("item", TableOptions::default());
    let notes = schema.table::<Noted>("noted", TableOptions::default());
    let database = MemoryDatabase::create(c, &options(sessions), schema, &|_| None).expect("memory");
    let mut session = database.session(c, None, false).expect("a session");
    let filled = session.transact(&Bounds::default(), |t| {
        t.insert(items, &item(1))?;
        t.insert(notes, &Noted { id: 1, note: b"a note".to_vec() })
    });
    filled.expect("filled");
    drop(session);
    (database, items, notes)
}

/// Under schemes that lock, or that would see at the commit that the row has changed: the reader
/// goes on and commits.
fn reads_what_others_change<S: Scheme<Hardware>>() {
    let c = Hardware::core();
    let (database, items, _) = database::<Hardware, S>(c, 2);
    let mut writer = database.session(c, None, false).expect("a session");
    let mut reader = database.session(c, None, false).expect("a session");
    let once = Bounds { deadline: None, attempts_max: Some(1) };
    let read = reader.transact(&once, |t| {
        let row = t.find_unvalidated(items.primary(), &1)?.expect("the row is there");
        let before = t.get(row, Item::LEFT)?;
        let changed = writer.transact(&once, |t| {
            let row = t.find(items.primary(), &1, Intent::Write)?.expect("the row is there");
            t.put(row, Item::LEFT, &7)
        });
        assert!(matches!(changed, Ok(Ending::Committed(..))), "{}: {changed:?}", S::NAME);
        assert!(t.find_unvalidated(items.primary(), &2)?.is_none());
        Ok((before, t.get(row, Item::LEFT)?))
    });
    match read {
        Ok(Ending::Committed(seen, _)) => assert_eq!(seen, (1, 7), "{}", S::NAME),
        other => panic!("{}: {other:?}", S::NAME),
    }
}

#[test]
fn rows_that_are_read_without_validation_hinder_no_transaction() {
    for_each_scheme!(S => { reads_what_others_change::<S>(); });
}

/// A row that was found without concurrency control is another one when it is found with it.
fn found_both_ways<S: Scheme<Hardware>>() {
    let c = Hardware::core();
    let (database, items, notes) = database::<Hardware, S>(c, 2);
    let mut session = database.session(c, None, false).expect("a session");
    let bounds = Bounds::default();
    let changed = session.transact(&bounds, |t| {
        let loose = t.find_unvalidated(items.primary(), &1)?.expect("there");
        let row = t.find(items.primary(), &1, Intent::Write)?.expect("there");
        t.put(row, Item::RIGHT, &5)?;
        Ok((t.get(loose, Item::LEFT)?, t.get(row, Item::RIGHT)?))
    });
    assert!(matches!(changed, Ok(Ending::Committed((1, 5), _))), "{}: {changed:?}", S::NAME);
    let written = session.transact(&bounds, |t| {
        let loose = t.find_unvalidated(items.primary(), &1)?.expect("there");
        t.put(loose, Item::RIGHT, &6)
    });
    assert!(matches!(written, Err(Abort::Misuse(_))), "{}: {written:?}", S::NAME);
    let tail = session.transact(&bounds, |t| {
        let loose = t.find_unvalidated(notes.primary(), &1)?.expect("there");
        t.row(loose)
    });
    assert!(matches!(tail, Err(Abort::Misuse(_))), "{}: {tail:?}", S::NAME);
}

#[test]
fn what_was_found_without_concurrency_control_is_apart_and_only_read() {
    for_each_scheme!(S => { found_both_ways::<S>(); });
}

/// Rows in no index are never found, and are never duplicates; an attempt that rolls back gives
/// their memory back.
fn unindexed<S: Scheme<Hardware>>() {
    let c = Hardware::core();
    let (database, items, notes) = database::<Hardware, S>(c, 2);
    let mut session = database.session(c, None, false).expect("a session");
    let bounds = Bounds::default();
    for id in [1, 2, 2] {
        let inserted = session.transact(&bounds, |t| {
            t.insert_unindexed(items, &item(id))?;
            t.insert_unindexed(notes, &Noted { id, note: b"lost".to_vec() })?;
            let mut erased = Erased::new(t);
            erased.insert_unindexed(items, &item(id))?;
            Ok(erased.find(items.primary(), &2, Intent::Read)?.is_none())
        });
        assert!(matches!(inserted, Ok(Ending::Committed(true, _))), "{}: {inserted:?}", S::NAME);
    }
    for _ in 0..10_000 {
        let rolled_back = session.transact(&bounds, |t| {
            (0..8).try_for_each(|id| t.insert_unindexed(items, &item(id)))?;
            Err::<(), Abort>(Abort::RollBack)
        });
        assert!(matches!(rolled_back, Ok(Ending::RolledBack(_))), "{}: {rolled_back:?}", S::NAME);
        database.instance().epochs().try_advance(c);
    }
    assert!(database.memory_bytes(c) < 8 << 20, "{}: {} bytes", S::NAME, database.memory_bytes(c));
    let mut seen = Vec::new();
    database.inspector(c).scan(items.primary(), &0, &u64::MAX, &mut |row: &Item| seen.push(row.clone()));
    assert_eq!(seen, [item(1)], "{}", S::NAME);
}

#[test]
fn rows_in_no_index_are_nowhere() {
    for_each_scheme!(S => { unindexed::<S>(); });
}

/// While one worker changes both columns and inserts and deletes a row, the others read: halves of
/// transactions, but words that a session has written.
fn torn<P: Platform, S: Scheme<P>>(c: P::Core) {
    let (database, items, _) = database::<P, S>(c, 4);
    crate::support::workers(c, &database, 3, &|session, number| {
        for round in 0..60u64 {
            let done = session.transact(&Bounds::default(), |t| {
                if number > 0 {
                    for id in [1, 9] {
                        if let Some(row) = t.find_unvalidated(items.primary(), &id)? {
                            let seen = (t.get(row, Item::LEFT)?, t.get(row, Item::RIGHT)?);
                            assert!(seen.0 <= 100 && seen.1 <= 100, "{}: {seen:?}", S::NAME);
                        }
                    }
                    return Ok(());
                }
                let row = t.find(items.primary(), &1, Intent::Write)?.expect("there");
                t.put(row, Item::LEFT, &round)?;
                t.put(row, Item::RIGHT, &round)?;
                match t.find(items.primary(), &9, Intent::Write)? {
                    Some(row) => t.delete(row),
                    None => t.insert(items, &item(9)),
                }
            });
            assert!(matches!(done, Ok(Ending::Committed(..))), "{}: {done:?}", S::NAME);
        }
    });
}

#[test]
fn torn_rows_consist_of_written_words() {
    for_each_scheme!(S => {
        torn::<Hardware, S>(Hardware::core());
        for seed in 0..4 {
            virtually(seed, 3, torn::<sim::VirtualMachine, S>);
        }
    });
}
