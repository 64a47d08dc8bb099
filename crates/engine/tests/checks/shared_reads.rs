//! Rows that a prepared part has only read do not change until the part ends, and other
//! transactions can read them.

use boundary::{AnyPrepared, Bounds, SchemaBuilder, Verbs};
use concurrency::{InstanceOptions, SchemeName};
use platform::{Intent, Place, Platform};
use schema::{Row, Schema, Table, TableOptions};
use sim::{Config, Shape, VirtualCore, VirtualMachine};

type Database = boundary::Database<VirtualMachine>;
type Session<'d> = boundary::Session<'d>;

const ROWS: u32 = 40;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Thing {
    id: u32,
    size: u64,
}

/// Schemes that lock partitions as wholes share nothing.
fn schemes() -> impl Iterator<Item = SchemeName> {
    SchemeName::ALL.into_iter().filter(|scheme| *scheme != SchemeName::Hstore)
}

/// Runs a program over a database with rows from 0 on.
fn run(
    scheme: SchemeName,
    config: Config,
    sessions_max: usize,
    program: impl FnOnce(VirtualCore, &Database, Table<Thing>) + Send,
) {
    let config = Config { memory_bytes: 1 << 30, ..config };
    let ran = VirtualMachine::run(&config, |c| {
        let mut schema = SchemaBuilder::new();
        let things = schema.table::<Thing>("things", TableOptions::default());
        let instance = InstanceOptions {
            sessions_max,
            memory_bytes_max: 64 << 20,
            epoch_nanos: 10_000,
            // As in one of several instances.
            wait_nanos_max: if sessions_max == 1 { 0 } else { 10_000 },
            ..InstanceOptions::default()
        };
        let database = engine_simulated::create(scheme, c, &instance, schema, &|_| None).expect("memory");
        let mut session = database.session(c, None, false).expect("a session");
        let filled = session.transact(&Bounds::default(), |transaction| {
            (0..ROWS).try_for_each(|id| transaction.insert(things, &Thing { id, size: 0 }))
        });
        filled.expect("no other transaction runs");
        drop(session);
        program(c, &database, things);
    });
    ran.unwrap_or_else(|error| panic!("{scheme}: {error}"));
}

fn small() -> Config {
    Config::new(Shape::new(1, 3, 1))
}

fn read<'d>(session: &mut Session<'d>, things: Table<Thing>, ids: &[u32]) -> Option<AnyPrepared<'d>> {
    let prepared = session.prepare(&Bounds::default(), |transaction| {
        for id in ids {
            let row = transaction.find(things.primary(), id, Intent::Read)?.expect("it is there");
            transaction.row(row)?;
        }
        Ok(())
    });
    conflict_or(prepared.map(|((), prepared)| prepared))
}

fn write<'d>(session: &mut Session<'d>, things: Table<Thing>, id: u32) -> Option<AnyPrepared<'d>> {
    let prepared = session.prepare(&Bounds::default(), |transaction| {
        let row = transaction.find(things.primary(), &id, Intent::Write)?.expect("it is there");
        transaction.replace(row, &Thing { id, size: 1 })
    });
    conflict_or(prepared.map(|((), prepared)| prepared))
}

fn conflict_or<T>(result: Result<T, terms::Abort>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(abort) => {
            assert!(abort.is_conflict(), "{abort}");
            None
        }
    }
}

/// True if a transaction of this instance alone can write the row, in one attempt.
fn writes(session: &mut Session<'_>, things: Table<Thing>, id: u32) -> bool {
    let once = Bounds { attempts_max: Some(1), ..Bounds::default() };
    let ended = session.transact(&once, |transaction| {
        let row = transaction.find(things.primary(), &id, Intent::Write)?.expect("it is there");
        let size = transaction.row(row)?.size + 1;
        transaction.replace(row, &Thing { id, size })
    });
    conflict_or(ended).is_some()
}

/// True if one can read it.
fn reads(session: &mut Session<'_>, things: Table<Thing>, id: u32) -> bool {
    let once = Bounds { attempts_max: Some(1), ..Bounds::default() };
    let ended = session.transact(&once, |transaction| {
        let row = transaction.find(things.primary(), &id, Intent::Read)?.expect("it is there");
        transaction.row(row).map(drop)
    });
    conflict_or(ended).is_some()
}

#[test]
fn readers_share_and_keep_writers_out() {
    for (scheme, sessions_max) in schemes().flat_map(|scheme| [(scheme, 1), (scheme, 4)]) {
        run(scheme, small(), sessions_max, |c, database, things| {
            let session = &mut database.session(c, None, false).expect("a session");
            for ends in [[true, false], [false, true]] {
                let first = read(session, things, &[1, 2, 3]).expect("no transaction writes");
                let second = read(session, things, &[2, 3, 4]);
                let second = second.unwrap_or_else(|| panic!("{scheme}: readers abort readers"));
                assert!(reads(session, things, 2), "{scheme}");
                for id in 1..=4 {
                    assert!(!writes(session, things, id), "{scheme}: a part has read {id}");
                    assert!(write(session, things, id).is_none(), "{scheme}: a part has read {id}");
                }
                assert!(writes(session, things, 20), "{scheme}: no transaction has read that");
                session.finish(first, ends[0]);
                assert!(writes(session, things, 1) && !writes(session, things, 2), "{scheme}");
                session.finish(second, ends[1]);
                assert!((1..=4).all(|id| writes(session, things, id)), "{scheme}");
            }
        });
    }
}

#[test]
fn a_writer_keeps_readers_out() {
    for (scheme, sessions_max) in schemes().flat_map(|scheme| [(scheme, 1), (scheme, 4)]) {
        run(scheme, small(), sessions_max, |c, database, things| {
            let session = &mut database.session(c, None, false).expect("a session");
            for commits in [false, true] {
                let writer = write(session, things, 5).expect("no other transaction");
                assert!(read(session, things, &[4, 5]).is_none(), "{scheme}");
                // The attempt that failed has left nothing.
                assert!(writes(session, things, 4), "{scheme}");
                session.finish(writer, commits);
                let reader = read(session, things, &[4, 5]).expect("no transaction writes");
                assert!(!writes(session, things, 4), "{scheme}");
                session.finish(reader, true);
                assert!(writes(session, things, 4), "{scheme}");
            }
        });
    }
}

/// Prepares a part that reads a row, and what it has read; nothing after a conflict.
fn size<'d>(session: &mut Session<'d>, things: Table<Thing>, id: u32) -> Option<(AnyPrepared<'d>, u64)> {
    let prepared = session.prepare(&Bounds::default(), |transaction| {
        let row = transaction.find(things.primary(), &id, Intent::Read)?.expect("it is there");
        transaction.row(row).map(|thing| thing.size)
    });
    conflict_or(prepared.map(|(size, prepared)| (prepared, size)))
}

/// Reads a row in two parts, the second one before the first one ends; false after a conflict.
fn reads_twice(session: &mut Session<'_>, things: Table<Thing>, c: VirtualCore, id: u32) -> bool {
    let Some((first, seen)) = size(session, things, id) else { return false };
    VirtualMachine::pause(c, 2_000);
    if let Some((second, size)) = size(session, things, id) {
        assert_eq!(size, seen, "{id} has changed before the part ended");
        session.finish(second, false);
    }
    session.finish(first, true);
    true
}

/// Two workers read in parts what a third one writes.
#[test]
fn nothing_changes_between_vote_and_decision() {
    for scheme in schemes() {
        for seed in 0..6 {
            run(scheme, small().with_seed(seed).perturbed(), 4, |c, database, things| {
                let worker = |c, number: usize| {
                    let session = &mut database.session(c, None, false).expect("a session");
                    let mut ended = 0;
                    for round in 0..80 {
                        let id = round % 4;
                        let ends = match number {
                            2 => writes(session, things, id),
                            _ => reads_twice(session, things, c, id),
                        };
                        ended += u32::from(ends);
                    }
                    assert!(ended > 0, "{scheme} seed {seed}: worker {number} conflicted each time");
                };
                VirtualMachine::parallel(c, &[Place { thread: None }; 3], &worker, &mut |_| ());
            });
        }
    }
}
