//! Rows that are inserted together: like one by one, and all or none of them for other
//! transactions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use boundary::{Bounds, Direction, Ending, SchemaBuilder, Verbs};
use concurrency::Scheme;
use engine::{MemoryDatabase, MemorySession, Transaction};
use platform::{Hardware, Intent, Platform};
use schema::{Row, Schema, Table, TableOptions};
use terms::Abort;

use crate::support::{Random, options, virtually, with_rows, workers};

/// Rows of a group.
const GROUP: u64 = 12;
/// Groups of the concurrent test: so few that transactions conflict.
const GROUPS: u64 = 6;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Line {
    id: u64,
    value: u64,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_value(value)))]
struct Indexed {
    id: u64,
    value: u64,
}

type Verb<'t, 's, 'i, P, S> = &'t mut Transaction<'s, 'i, P, S>;

fn lines(ids: impl Iterator<Item = u64>, value: u64) -> impl Iterator<Item = Line> {
    ids.map(move |id| Line { id, value })
}

fn ids<P: Platform, S: Scheme<P>>(
    t: Verb<'_, '_, '_, P, S>,
    table: Table<Line>,
    low: u64,
    high: u64,
) -> Result<Vec<(u64, u64)>, Abort> {
    let mut found = Vec::new();
    t.scan(table.primary(), &low, &high, Direction::Forward, Intent::Read, &mut |t, row| {
        let line = t.row(row)?;
        found.push((line.id, line.value));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// One worker inserts and deletes at random, and everything is as it is in a map.
fn they_are_like_rows_one_by_one<S: Scheme<Hardware>>(seed: u64) {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Line>("lines", TableOptions::default());
    let indexed = schema.table::<Indexed>("indexed", TableOptions::default());
    let c = Hardware::core();
    let database = MemoryDatabase::<_, S>::create(c, &options(1), schema, &|_| None).expect("memory");
    let mut session = database.session(c, None, false).expect("a session");
    let (mut random, mut model) = (Random::new(seed, 1), BTreeMap::new());
    for value in 0..300 {
        let (first, step) = (random.below(400), 1 + random.below(2));
        let mut wanted: Vec<u64> = (0..random.below(40)).map(|place| first + place * step).collect();
        if random.chance(20) {
            wanted.reverse();
        }
        let (rolls_back, deletes) = (random.chance(20), random.chance(50));
        let is_new = wanted.iter().all(|id| deletes || !model.contains_key(id));
        let ended = session.transact(&Bounds::default(), |t| {
            for id in wanted.iter().filter(|_| deletes) {
                if let Some(row) = t.find(table.primary(), id, Intent::Write)? {
                    t.delete(row)?;
                    let row = t.find(indexed.primary(), id, Intent::Write)?.expect("in both");
                    t.delete(row)?;
                }
            }
            // What the transaction has seen itself is not a phantom to itself.
            let before = ids(t, table, 0, u64::MAX)?.len();
            t.insert_all(table, lines(wanted.iter().copied(), value))?;
            let rows = wanted.iter().map(|id| Indexed { id: *id, value: value << 32 | id });
            t.insert_all(indexed, rows)?;
            assert_eq!(ids(t, table, 0, u64::MAX)?.len(), before + wanted.len());
            if rolls_back { Err(Abort::RollBack) } else { Ok(()) }
        });
        match ended {
            Ok(Ending::Committed(..)) => model.extend(wanted.into_iter().map(|id| (id, value))),
            Ok(Ending::RolledBack(_)) => assert!(rolls_back && is_new),
            Err(abort) => assert!(abort == Abort::duplicate(0, 0) && !is_new, "{}: {abort}", S::NAME),
        }
        let expected: Vec<(u64, u64)> = model.clone().into_iter().collect();
        let found = session.transact(&Bounds::default(), |t| {
            let found = ids(t, table, 0, u64::MAX)?;
            for (id, value) in &found {
                let by_value = indexed.index(Indexed::BY_VALUE);
                let row = t.find(by_value, &(value << 32 | id), Intent::Read)?.expect("in both indexes");
                assert_eq!(t.get(row, Indexed::ID)?, *id);
            }
            Ok(found)
        });
        assert!(
            matches!(found, Ok(Ending::Committed(found, _)) if found == expected),
            "{} seed {seed}",
            S::NAME
        );
    }
}

/// Workers insert and delete whole groups: no session sees a part of one.
fn groups_are_whole<S: Scheme<sim::VirtualMachine>>(seed: u64) {
    virtually(seed, 4, |c| {
        let (database, table) = with_rows::<_, S, Line>(c, &options(4), TableOptions::default(), []);
        let work = |session: &mut MemorySession<'_, _, S>, worker: usize| {
            let mut random = Random::new(seed, worker as u64 + 1);
            for _ in 0..40 {
                let (first, others) = (random.below(GROUPS) * GROUP, random.below(GROUPS) * GROUP);
                let ended = session.transact(&Bounds::default(), |t| {
                    let here = ids(t, table, first, first + GROUP - 1)?;
                    for (id, _) in &here {
                        let row = t.find(table.primary(), id, Intent::Write)?;
                        t.delete(row.ok_or(Abort::Conflict(terms::Conflict::ReadChanged))?)?;
                    }
                    let there = ids(t, table, others, others + GROUP - 1)?;
                    if here.is_empty() {
                        t.insert_all(table, lines(first..first + GROUP, worker as u64))?;
                    }
                    Ok([here, there])
                });
                match ended {
                    Ok(Ending::Committed([here, there], _)) => {
                        let is_whole = |group: &[(u64, u64)]| {
                            let one = group.iter().all(|(_, value)| *value == group[0].1);
                            one && (group.is_empty() || group.len() as u64 == GROUP)
                        };
                        assert!(
                            is_whole(&here) && (first == others || is_whole(&there)),
                            "{} seed {seed}",
                            S::NAME
                        );
                    }
                    other => panic!("{} seed {seed}: {other:?}", S::NAME),
                }
            }
        };
        workers(c, &database, 4, &work);
    });
}

#[test]
fn like_rows_one_by_one() {
    concurrency::for_each_scheme!(S => { (1..3).for_each(they_are_like_rows_one_by_one::<S>); });
}

#[test]
fn whole_for_all_others() {
    concurrency::for_each_scheme!(S => { (1..5).for_each(groups_are_whole::<S>); });
}
