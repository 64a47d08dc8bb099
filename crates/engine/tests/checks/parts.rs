//! Prepared parts of transactions over several databases: what is in doubt when a database is
//! opened again, and that no session waits for them.

use std::path::Path;

use boundary::{
    AnyPrepared, Bounds, Decision, DurableOptions, Ending, GlobalId, OpenError, Outcome, PartOf,
    SchemaBuilder, Verbs,
};
use concurrency::{InstanceOptions, SchemeName};
use engine::durable::content::{self, Checked};
use platform::{Intent, Place};
use redo_log::LogOptions;
use schema::{
    ColumnDescription, Datum, Inspector, Row, Schema, Table, TableBuilder, TableDescription, TableOptions,
    ValueType,
};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use terms::Abort;

type P = VirtualMachine;
type Database = boundary::Database<P>;
type Session<'d> = boundary::Session<'d>;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_size(size)))]
struct Thing {
    id: u32,
    size: u32,
    #[row(tail)]
    text: Vec<u8>,
}

fn thing(id: u32, size: u32) -> Thing {
    Thing { id, size, text: vec![size as u8; size as usize] }
}

/// The same with a column more.
fn wider() -> TableDescription {
    let column = |name: &str| ColumnDescription::new(name, ValueType::Unsigned(4));
    let builder = TableBuilder::new("things").column(column("id")).column(column("size"));
    let builder = builder.column(column("color").with_default(Datum::Unsigned(7)));
    let builder = builder.column(ColumnDescription::new("text", ValueType::Bytes));
    builder.key(["id"]).build().expect("a table")
}

fn part(id: u128) -> PartOf {
    PartOf { global: GlobalId(id), coordinator: 3 }
}

fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(disk);
    VirtualMachine::run(&config, program).expect("a run").value
}

fn open_with<T>(
    scheme: SchemeName,
    c: VirtualCore,
    declare: impl FnOnce(&mut SchemaBuilder) -> T,
) -> Result<(Database, T), OpenError> {
    let mut schema = SchemaBuilder::new();
    let things = declare(&mut schema);
    let instance = InstanceOptions {
        sessions_max: 4,
        memory_bytes_max: 64 << 20,
        epoch_nanos: 10_000,
        ..InstanceOptions::default()
    };
    let durable = DurableOptions {
        log: LogOptions { segment_bytes: 32 << 10, buffer_bytes: 4096, ..LogOptions::default() },
        checkpoint_bytes: u64::MAX,
        places: vec![Place { thread: None }],
        ..DurableOptions::new("d".into())
    };
    let opened = engine_simulated::open(scheme, c, &instance, schema, &|_| None, &durable, None);
    opened.map(|(database, _)| (database, things))
}

fn open(scheme: SchemeName, c: VirtualCore) -> (Database, Table<Thing>) {
    let opened = open_with(scheme, c, |schema| schema.table::<Thing>("things", TableOptions::default()));
    opened.expect("a database")
}

/// Ends all parts that are in doubt.
fn roll_all_back(c: VirtualCore) {
    let (database, _) = open(SchemeName::Silo, c);
    let mut session = database.session(c, None, false).expect("a session");
    for (_, prepared) in database.in_doubt(c) {
        assert!(session.finish(prepared, false).is_none());
    }
    drop(session);
    database.close(c).expect("closed");
}

fn once() -> Bounds {
    Bounds { attempts_max: Some(1), ..Bounds::default() }
}

fn contents(database: &Database, c: VirtualCore, things: Table<Thing>) -> Vec<Thing> {
    let mut rows = Vec::new();
    let inspector = &mut database.inspector(c);
    inspector.scan(things.primary(), &0, &u32::MAX, &mut |row: &Thing| rows.push(row.clone()));
    let mut by_size = 0;
    let all = ((0, 0), (u32::MAX, u32::MAX));
    inspector.scan(things.index(Thing::BY_SIZE), &all.0, &all.1, &mut |_: &Thing| by_size += 1);
    assert_eq!(by_size, rows.len());
    rows
}

fn fill(session: &mut Session<'_>, things: Table<Thing>) {
    let filled = session.transact(&Bounds::default(), |transaction| {
        (1..=6).try_for_each(|id| transaction.insert(things, &thing(id, 10 * id)))
    });
    let Ok(Ending::Committed((), commit)) = filled else { panic!("{filled:?}") };
    session.wait_durable(commit).expect("durable");
}

/// Changes thing 1, deletes 2, inserts 12, and puts another 3 in the place of the first.
fn prepare<'d>(session: &mut Session<'d>, things: Table<Thing>, of: PartOf) -> AnyPrepared<'d> {
    let prepared = session.prepare_as(of, &Bounds::default(), |transaction| {
        let gone = Abort::Misuse("it is there");
        let mut find = |id: u32| -> Result<_, Abort> {
            transaction.find(things.primary(), &id, Intent::Write)?.ok_or(gone.clone())
        };
        let (one, two, three) = (find(1)?, find(2)?, find(3)?);
        transaction.replace(one, &thing(1, 11))?;
        transaction.delete(two)?;
        transaction.insert(things, &thing(12, 120))?;
        transaction.delete(three)?;
        transaction.insert(things, &thing(3, 33))
    });
    let ((), prepared, vote) = prepared.expect("no other transaction runs");
    assert!(vote.changes);
    session.wait_durable(vote).expect("durable");
    prepared
}

/// The things before that part, and after it.
fn before_and_after() -> [Vec<Thing>; 2] {
    let before = (1..=6).map(|id| thing(id, 10 * id)).collect();
    let mut after = vec![thing(1, 11), thing(3, 33)];
    after.extend((4..=6).map(|id| thing(id, 10 * id)));
    after.push(thing(12, 120));
    [before, after]
}

fn checked(c: VirtualCore) -> Checked {
    content::check::<P>(c, Path::new("d"), &mut |_, _| ()).expect("whole")
}

/// Nothing that the part has changed can be used by others; whatever else there is can be, unless
/// partitions are locked.
fn is_locked(session: &mut Session<'_>, things: Table<Thing>, scheme: SchemeName) {
    for id in [1, 2, 3] {
        let read = session.transact(&once(), |transaction| {
            let row = transaction.find(things.primary(), &id, Intent::Read)?;
            row.map(|row| transaction.row(row)).transpose()
        });
        assert!(read.as_ref().is_err_and(Abort::is_conflict), "{scheme:?}, thing {id}: {read:?}");
    }
    let inserted = session.transact(&once(), |transaction| transaction.insert(things, &thing(12, 5)));
    assert!(inserted.as_ref().is_err_and(Abort::is_conflict), "{scheme:?}: {inserted:?}");
    session.object().turn_to_another(false);
    if scheme != SchemeName::Hstore {
        let read = session.transact(&once(), |transaction| {
            let row = transaction.find(things.primary(), &4, Intent::Write)?.expect("it is there");
            transaction.replace(row, &thing(4, 40))
        });
        assert!(matches!(read, Ok(Ending::Committed(..))), "{scheme:?}: {read:?}");
    }
}

/// A part is in doubt until it is finished, through crashes, with and without a checkpoint that was
/// made meanwhile.
#[test]
fn parts_are_in_doubt_until_they_are_finished() {
    for (number, scheme) in SchemeName::ALL.into_iter().enumerate() {
        for (copies, commits) in [(false, true), (true, true), (true, false)] {
            let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
            let [before, after] = before_and_after();
            let of = part(number as u128 + 1);
            run(&disk, |c| {
                let (database, things) = open(scheme, c);
                let mut session = database.session(c, None, false).expect("a session");
                fill(&mut session, things);
                let prepared = prepare(&mut session, things, of);
                if copies {
                    assert_eq!(session.checkpoint(), Ok(true), "it waits for no part");
                }
                // A session that drops a part does not finish it.
                drop(prepared);
            });
            disk.lose_power();
            for round in 0..2 {
                run(&disk, |c| {
                    let checked = checked(c);
                    assert_eq!((checked.in_doubt, checked.rows[0].1), (vec![of], 6), "{scheme:?}");
                    assert_eq!(checked.survey.checkpoint.is_some(), copies || round > 0);
                    let (database, things) = open(scheme, c);
                    let mut session = database.session(c, None, false).expect("a session");
                    is_locked(&mut session, things, scheme);
                    let mut in_doubt = database.in_doubt(c);
                    let (found, prepared) = in_doubt.pop().expect("a part in doubt");
                    assert_eq!((found, in_doubt.len(), database.in_doubt(c).len()), (of, 0, 0));
                    if round == 0 {
                        assert_eq!(session.checkpoint(), Ok(true), "{scheme:?}");
                        is_locked(&mut session, things, scheme);
                        return;
                    }
                    let outcome = if commits { Outcome::Commit } else { Outcome::Abort };
                    let commit = session.finish_as(prepared, outcome);
                    assert_eq!(commit.is_some(), commits);
                    let expected = if commits { &after } else { &before };
                    assert_eq!(contents(&database, c, things), *expected, "{scheme:?}");
                    drop(session);
                    database.close(c).expect("closed");
                });
                disk.lose_power();
            }
            run(&disk, |c| {
                let checked = checked(c);
                let (database, things) = open(scheme, c);
                assert_eq!((checked.in_doubt, database.in_doubt(c).len()), (vec![], 0));
                let expected = if commits { &after } else { &before };
                assert_eq!(contents(&database, c, things), *expected, "{scheme:?}");
                let mut session = database.session(c, None, false).expect("a session");
                let read = session.transact(&once(), |transaction| {
                    Ok(transaction.find(things.primary(), &1, Intent::Read)?.is_some())
                });
                assert!(matches!(read, Ok(Ending::Committed(true, _))), "{scheme:?}: {read:?}");
            });
        }
    }
}

/// A part that changes nothing leaves no record; one that was prepared without a transaction's
/// number does not outlive a crash.
#[test]
fn other_parts_are_not_in_doubt() {
    for scheme in SchemeName::ALL {
        let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
        run(&disk, |c| {
            let (database, things) = open(scheme, c);
            let mut session = database.session(c, None, false).expect("a session");
            fill(&mut session, things);
            let read = session.prepare_as(part(5), &Bounds::default(), |transaction| {
                let row = transaction.find(things.primary(), &4, Intent::Read)?.expect("it is there");
                transaction.get(row, Thing::SIZE)
            });
            let (size, prepared, vote) = read.expect("no other transaction runs");
            assert_eq!((size, vote.changes), (40, false), "{scheme:?}");
            session.wait_durable(vote).expect("durable");
            assert!(session.finish(prepared, true).is_some());
            let other = session.prepare(&Bounds::default(), |t| t.insert(things, &thing(9, 9)));
            assert!(other.is_ok());
            assert_eq!(session.checkpoint(), Ok(true), "{scheme:?}");
        });
        disk.lose_power();
        run(&disk, |c| {
            assert_eq!(checked(c).in_doubt, []);
            let (database, things) = open(scheme, c);
            assert!(database.in_doubt(c).is_empty());
            assert_eq!(contents(&database, c, things), before_and_after()[0], "{scheme:?}");
        });
    }
}

/// Decisions are there until they are forgotten, with and without a part of the database's own.
#[test]
fn decisions_are_kept_until_they_are_forgotten() {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    let ids = |database: &Database, c| {
        let mut decisions = database.decisions(c);
        decisions.sort_by_key(|decision| decision.global);
        decisions
    };
    let decision =
        |id, participants: &[u16]| Decision { global: GlobalId(id), participants: participants.to_vec() };
    for copies in [false, true] {
        run(&disk, |c| {
            let (database, things) = open(SchemeName::Silo, c);
            let mut session = database.session(c, None, false).expect("a session");
            if !copies {
                fill(&mut session, things);
                let own = session.prepare(&Bounds::default(), |t| t.insert(things, &thing(7, 70)));
                let outcome = Outcome::Decide { global: GlobalId(1), participants: &[4, 9] };
                let commit =
                    session.finish_as(own.expect("no other transaction runs").1, outcome).expect("a commit");
                let reads = session.prepare(&Bounds::default(), |t| {
                    t.find(things.primary(), &4, Intent::Read).map(|row| row.is_some())
                });
                let outcome = Outcome::Decide { global: GlobalId(2), participants: &[5] };
                let read = session
                    .finish_as(reads.expect("no other transaction runs").1, outcome)
                    .expect("a commit");
                assert!(read.durable_with >= commit.durable_with);
                let decided = [session.decide(GlobalId(3), &[]), session.decide(GlobalId(4), &[8])];
                assert!(
                    session.forget(GlobalId(4))
                        && !session.forget(GlobalId(4))
                        && !session.forget(GlobalId(6))
                );
                session.wait_durable(decided[1].max(read.durable_with)).expect("durable");
            }
            let expected = [decision(1, &[4, 9]), decision(2, &[5]), decision(3, &[])];
            assert_eq!(ids(&database, c), expected);
            assert_eq!(session.checkpoint(), Ok(true));
            drop(session);
            database.close(c).expect("closed");
        });
        disk.lose_power();
    }
    run(&disk, |c| {
        assert_eq!(checked(c).decisions.len(), 3);
        let (database, things) = open(SchemeName::NoWait, c);
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(contents(&database, c, things).len(), 7);
        assert!(session.forget(GlobalId(1)) && session.forget(GlobalId(2)) && session.forget(GlobalId(3)));
        drop(session);
        database.close(c).expect("closed");
    });
    run(&disk, |c| assert!(open(SchemeName::Silo, c).0.decisions(c).is_empty()));
}

/// Columns are not added to rows that a part in doubt has: the opening is refused, and changes
/// nothing.
#[test]
fn tables_of_parts_in_doubt_do_not_change() {
    let declare = |schema: &mut SchemaBuilder| {
        schema.declare(wider(), &TableOptions::default()).expect("declared");
    };
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    run(&disk, |c| {
        let (database, things) = open(SchemeName::Silo, c);
        let mut session = database.session(c, None, false).expect("a session");
        fill(&mut session, things);
        let _part = prepare(&mut session, things, part(77));
    });
    run(&disk, |c| {
        let refused = open_with(SchemeName::Silo, c, declare).map(drop);
        assert!(matches!(&refused, Err(OpenError::InDoubt { global: GlobalId(77), .. })), "{refused:?}");
        roll_all_back(c);
    });
    run(&disk, |c| drop(open_with(SchemeName::Silo, c, declare).expect("nothing is in doubt")));
}

/// A scheme that locks whole partitions cannot keep two parts in one, which another scheme could:
/// it says so, and leaves them to that.
#[test]
fn parts_that_a_scheme_cannot_keep_are_refused_by_its_name() {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    run(&disk, |c| {
        let (database, things) = open(SchemeName::Silo, c);
        let mut session = database.session(c, None, false).expect("a session");
        fill(&mut session, things);
        let _one = prepare(&mut session, things, part(1));
        let other = session.prepare_as(part(2), &Bounds::default(), |t| t.insert(things, &thing(50, 5)));
        let ((), _other, vote) = other.expect("thing 50 is free");
        session.wait_durable(vote).expect("durable");
    });
    run(&disk, |c| {
        let declare = |schema: &mut SchemaBuilder| schema.table::<Thing>("things", TableOptions::default());
        let refused =
            open_with(SchemeName::Hstore, c, declare).map(drop).expect_err("one partition, two parts");
        let line = refused.to_string();
        let expected = "hstore cannot hold it and another part in doubt, in one partition; open the database as it was, \
                        under the scheme that has left it, and finish the part";
        assert!(line.ends_with(expected), "{line}");
        roll_all_back(c);
    });
    run(&disk, |c| drop(open(SchemeName::Hstore, c)));
}

/// Without a log a part is what it was, and says whether it changes anything.
#[test]
fn parts_of_databases_in_memory_are_named_in_vain() {
    run(&Disk::new(DiskModel::RAM, DiskFaults::default()), |c| {
        let mut schema = SchemaBuilder::new();
        let things = schema.table::<Thing>("things", TableOptions::default());
        let options = InstanceOptions { memory_bytes_max: 64 << 20, ..InstanceOptions::default() };
        let database =
            engine_simulated::create(SchemeName::Mvcc, c, &options, schema, &|_| None).expect("memory");
        let mut session = database.session(c, None, false).expect("a session");
        let prepared = session.prepare_as(part(1), &Bounds::default(), |t| t.insert(things, &thing(1, 1)));
        let ((), prepared, vote) = prepared.expect("no other transaction runs");
        assert!(vote.changes && session.is_durable(vote));
        let outcome = Outcome::Decide { global: GlobalId(1), participants: &[2] };
        assert!(session.finish_as(prepared, outcome).is_some());
        assert!(database.decisions(c).is_empty() && database.in_doubt(c).is_empty());
        assert_eq!(contents(&database, c, things), [thing(1, 1)]);
    });
}
