//! Parts of transactions over several databases: what they hold between being prepared and being
//! finished.

use boundary::{
    AnyDatabase, AnyPrepared, Bounds, Decision, Ending, GlobalId, Outcome, PartOf, SchemaBuilder, Session,
    Verbs,
};
use pages::{PagedDatabase, PagedLogOptions, PagedOptions};
use platform::Intent;
use schema::{Row, Schema, Table, TableOptions};
use sim::{VirtualCore, VirtualMachine};
use terms::{Abort, Fault, Faults};

use crate::support::{assert_sound, options, session, virtually};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Account {
    id: u64,
    amount: u64,
}

const ROWS: u64 = 40;
const ONCE: Bounds = Bounds { deadline: None, attempts_max: Some(1) };

fn part(id: u128) -> PartOf {
    PartOf { global: GlobalId(id), coordinator: 3 }
}

/// Options with this many sessions and parts.
fn with_parts(sessions_max: usize, parts_max: usize) -> PagedOptions {
    PagedOptions { parts_max, wait_nanos_max: Some(0), ..options(200, 512, sessions_max) }
}

fn open(c: VirtualCore, options: &PagedOptions) -> (PagedDatabase<VirtualMachine>, Table<Account>) {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Account>("accounts", TableOptions::default());
    let (database, recovered) = PagedDatabase::open(c, options, schema, None).expect("a database");
    if !recovered.existed {
        let mut session = session(&database, c);
        let ended = session.transact(&Bounds::default(), |t| {
            (0..ROWS).try_for_each(|id| t.insert(table, &Account { id, amount: 100 }))
        });
        assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
    }
    (database, table)
}

/// Adds to an account; to what.
fn add(t: &mut impl Verbs, table: Table<Account>, id: u64) -> Result<u64, Abort> {
    let row = t.find(table.primary(), &id, Intent::Write)?.ok_or(Abort::Misuse("no such account"))?;
    let amount = t.get(row, Account::AMOUNT)? + 1;
    t.put(row, Account::AMOUNT, &amount)?;
    Ok(amount)
}

/// The value that a transaction of the session reads, or `None` if it conflicts.
fn read(session: &mut Session<'_>, table: Table<Account>, id: u64) -> Option<u64> {
    let read = session.transact(&ONCE, |t| {
        let row = t.find(table.primary(), &id, Intent::Read)?;
        row.map_or(Ok(0), |row| t.get(row, Account::AMOUNT))
    });
    match read {
        Ok(Ending::Committed(amount, _)) => Some(amount),
        Err(abort) if abort.is_conflict() => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_part_keeps_its_locks_until_any_session_finishes_it() {
    virtually(1, 2, |c| {
        let (database, table) = open(c, &with_parts(2, 4));
        let (mut one, mut other) = (session(&database, c), session(&database, c));
        for (round, commits) in [(0, true), (1, false), (2, true)] {
            let before = read(&mut other, table, 7).expect("no transaction runs");
            let (_, prepared) = one.prepare(&ONCE, |t| add(t, table, 7)).expect("prepared");
            assert_eq!(read(&mut other, table, 7), None, "round {round}");
            assert_eq!(read(&mut one, table, 7), None, "round {round}");
            assert_eq!(read(&mut one, table, 8), Some(100));
            let commit = other.finish(prepared, commits);
            assert_eq!(commit.is_some(), commits);
            assert_eq!(read(&mut one, table, 7), Some(before + u64::from(commits)), "round {round}");
        }
        drop((one, other));
        assert_sound(&database, c);
    });
}

#[test]
fn parts_that_are_too_many_are_refused_and_nothing_waits() {
    virtually(2, 2, |c| {
        let (database, table) = open(c, &with_parts(1, 2));
        let mut session = session(&database, c);
        fn prepare<'d>(
            session: &mut Session<'d>,
            table: Table<Account>,
            id: u64,
        ) -> Result<(u64, AnyPrepared<'d>), Abort> {
            session.prepare(&ONCE, |t| add(t, table, id))
        }
        let (_, first) = prepare(&mut session, table, 1).expect("prepared");
        let (_, second) = prepare(&mut session, table, 2).expect("prepared");
        assert!(prepare(&mut session, table, 3).is_err_and(|abort| abort.is_conflict()));
        // What was refused is undone, and holds nothing.
        assert_eq!(read(&mut session, table, 3), Some(100));
        assert!(session.finish(first, true).is_some());
        let (_, third) = prepare(&mut session, table, 3).expect("prepared");
        assert!(session.finish(second, false).is_none() && session.finish(third, true).is_some());
        let amounts = [1, 2, 3].map(|id| read(&mut session, table, id));
        assert_eq!(amounts, [Some(101), Some(100), Some(101)]);
    });
}

#[test]
fn one_session_conflicts_with_its_prepared_parts() {
    let seen = |faults: Faults| {
        virtually(3, 1, |c| {
            let (database, table) = open(c, &PagedOptions { faults, ..with_parts(1, 3) });
            let mut session = session(&database, c);
            assert_eq!(read(&mut session, table, 5), Some(100));
            let (_, prepared) = session.prepare(&ONCE, |t| add(t, table, 5)).expect("prepared");
            let refused = read(&mut session, table, 5);
            session.finish(prepared, true);
            (refused, read(&mut session, table, 5))
        })
    };
    assert_eq!(seen(Faults::NONE), (None, Some(101)));
    assert_eq!(seen(Faults::of(&[Fault::EarlyPartUnlock])), (Some(101), Some(101)));
    assert_eq!(seen(Faults::of(&[Fault::UnfinishedParts])), (None, None));
}

#[test]
fn parts_and_decisions_are_there_after_the_database_was_closed() {
    virtually(4, 2, |c| {
        let options = PagedOptions { log: Some(PagedLogOptions::default()), ..with_parts(1, 3) };
        let (database, table) = open(c, &options);
        let mut one = session(&database, c);
        for id in [4, 5, 6] {
            let (_, prepared, vote) =
                one.prepare_as(part(id.into()), &ONCE, |t| add(t, table, id)).expect("part");
            assert!(vote.changes);
            // It stays as it is until the next life.
            drop(prepared);
            let _ = one.checkpoint();
        }
        let ended = one.transact(&ONCE, |t| add(t, table, 7));
        assert!(matches!(ended, Ok(Ending::Committed(101, _))), "{ended:?}");
        one.object().decide(GlobalId(70), &[1, 2]);
        one.object().decide(GlobalId(71), &[1]);
        assert!(one.forget(GlobalId(71)) && !one.forget(GlobalId(71)));
        drop(one);
        Box::new(database).close(c).expect("a log that goes on");

        let (database, table) = open(c, &options);
        let mut in_doubt = database.in_doubt(c);
        assert_eq!(in_doubt.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [part(4), part(5), part(6)]);
        assert!(database.in_doubt(c).is_empty(), "they are given once");
        assert_eq!(database.decisions(c), [Decision { global: GlobalId(70), participants: vec![1, 2] }]);
        let mut one = session(&database, c);
        assert_eq!([4, 5, 6, 7].map(|id| read(&mut one, table, id)), [None, None, None, Some(101)]);
        assert!(!one.object().is_over(GlobalId(4)));
        for outcome in [Outcome::Commit, Outcome::Abort] {
            one.finish_as(in_doubt.pop().expect("a part").1, outcome);
        }
        assert_eq!([5, 6].map(|id| read(&mut one, table, id)), [Some(100), Some(101)]);
        drop(one);
        Box::new(database).close(c).expect("a log that goes on");

        let (database, table) = open(c, &options);
        let in_doubt = database.in_doubt(c);
        assert_eq!(in_doubt.iter().map(|(part, _)| *part).collect::<Vec<_>>(), [part(4)]);
        let mut one = session(&database, c);
        assert_eq!([4, 5, 6].map(|id| read(&mut one, table, id)), [None, Some(100), Some(101)]);
        drop(one);
        assert_sound(&database, c);
    });
}
