//! One session against a map: every verb, all kinds of indexes, tails, transactions that roll back,
//! as a whole or to savepoints.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use boundary::{AnyVerbs, Bounds, Direction, Ending, SchemaBuilder, Verbs};
use concurrency::{CommitLocks, Deadlocks, InstanceOptions, RowCopies, RowLock, SchemeName, Ways};
use platform::{Hardware, Intent, Platform};
use proptest::prelude::*;
use schema::{HashPlan, IndexKind, Inspector, Partitioning, Row, Schema, Table, TableOptions};
use storage::{Optimisation, Optimisations};
use terms::Abort;

use crate::support::options;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id), index(by_group(part, group)), unique_index(by_token(token)))]
struct Thing {
    part: u16,
    id: u32,
    group: u8,
    token: u64,
    amount: i64,
    grades: [u8; 5],
    body: [u64; 12],
    #[row(tail)]
    note: Vec<u8>,
}

type Id = (u16, u32);
type Model = BTreeMap<Id, Thing>;

#[derive(Clone, Debug)]
enum Step {
    Find(Id),
    FindToken(u64),
    FindMany(Vec<Id>),
    Insert(Thing),
    Delete(Id),
    Put(Id, i64, u8),
    Replace(Id, Thing),
    Scan {
        low: Id,
        high: Id,
        forward: bool,
        most: usize,
    },
    ScanGroup {
        part: u16,
        group: u8,
        forward: bool,
    },
    PutWhileScanning {
        low: Id,
        high: Id,
        amount: i64,
    },
    DeleteWhileScanning {
        low: Id,
        high: Id,
    },
    /// Steps behind a savepoint, to which the transaction rolls back if one fails, or else if
    /// `rolls_back`.
    Part {
        steps: Vec<Step>,
        rolls_back: bool,
        releases: bool,
    },
}

fn ids() -> impl Strategy<Value = Id> {
    (0..3u16, 0..8u32)
}

fn things() -> impl Strategy<Value = Thing> {
    (ids(), 0..3u8, 0..16u64, any::<i64>(), any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(
        |((part, id), group, token, amount, seed, note)| Thing {
            part,
            id,
            group,
            token,
            amount,
            grades: [seed; 5],
            body: [u64::from(seed); 12],
            note,
        },
    )
}

fn steps() -> impl Strategy<Value = Step> {
    plain_steps().prop_recursive(3, 24, 6, |inner| {
        let part = (prop::collection::vec(inner.clone(), 1..6), prop::bool::weighted(0.6), any::<bool>());
        let part = part.prop_map(|(steps, rolls_back, releases)| Step::Part { steps, rolls_back, releases });
        prop_oneof![3 => inner, 2 => part]
    })
}

fn plain_steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => ids().prop_map(Step::Find),
        1 => (0..16u64).prop_map(Step::FindToken),
        1 => prop::collection::vec(ids(), 0..6).prop_map(Step::FindMany),
        6 => things().prop_map(Step::Insert),
        3 => ids().prop_map(Step::Delete),
        2 => (ids(), any::<i64>(), any::<u8>()).prop_map(|(id, amount, grade)| Step::Put(id, amount, grade)),
        4 => (ids(), things()).prop_map(|(id, thing)| Step::Replace(id, thing)),
        3 => (ids(), ids(), any::<bool>(), 1..9usize)
            .prop_map(|(low, high, forward, most)| Step::Scan { low, high, forward, most }),
        2 => (0..3u16, 0..3u8, any::<bool>())
            .prop_map(|(part, group, forward)| Step::ScanGroup { part, group, forward }),
        1 => (ids(), ids(), any::<i64>())
            .prop_map(|(low, high, amount)| Step::PutWhileScanning { low, high, amount }),
        1 => (ids(), ids()).prop_map(|(low, high)| Step::DeleteWhileScanning { low, high }),
    ]
}

/// Steps, and whether they roll back in the end.
fn transactions() -> impl Strategy<Value = Vec<(Vec<Step>, bool)>> {
    let transaction = (prop::collection::vec(steps(), 1..12), prop::bool::weighted(0.2));
    prop::collection::vec(transaction, 1..12)
}

/// True if the model refuses the thing.
fn duplicate(model: &Model, thing: &Thing) -> bool {
    model.contains_key(&(thing.part, thing.id)) || model.values().any(|other| other.token == thing.token)
}

/// One step on both; an error is the duplicate that the model predicts.
fn step<T: Verbs>(t: &mut T, table: Table<Thing>, model: &mut Model, step: &Step) -> Result<(), Abort> {
    let primary = table.primary();
    match step {
        Step::Find(id) => {
            let found = t.find(primary, id, Intent::Read)?;
            let row = found.map(|handle| t.row(handle)).transpose()?;
            assert_eq!(row.as_ref(), model.get(id));
        }
        Step::FindToken(token) => {
            let found = t.find(table.index(Thing::BY_TOKEN), token, Intent::Write)?;
            let row = found.map(|handle| t.row(handle)).transpose()?;
            assert_eq!(row.as_ref(), model.values().find(|thing| thing.token == *token));
        }
        Step::FindMany(ids) => {
            let mut found = Vec::new();
            t.find_many(primary, ids, Intent::Read, &mut found)?;
            assert_eq!(found.len(), ids.len());
            for (id, handle) in ids.iter().zip(found) {
                let amount = handle.map(|handle| t.get(handle, Thing::AMOUNT)).transpose()?;
                assert_eq!(amount, model.get(id).map(|thing| thing.amount));
            }
        }
        Step::Insert(thing) => {
            let predicted = duplicate(model, thing);
            let inserted = t.insert(table, thing);
            assert_eq!(predicted, matches!(inserted, Err(Abort::Duplicate { .. })), "{inserted:?}");
            inserted?;
            model.insert((thing.part, thing.id), thing.clone());
        }
        Step::Delete(id) => {
            let found = t.find(primary, id, Intent::Write)?;
            assert_eq!(found.is_some(), model.remove(id).is_some());
            if let Some(handle) = found {
                t.delete(handle)?;
            }
        }
        Step::Put(id, amount, grade) => {
            if let Some(handle) = t.find(primary, id, Intent::Write)? {
                t.put(handle, Thing::AMOUNT, amount)?;
                t.put(handle, Thing::GRADES.at(3), grade)?;
                assert_eq!(t.get(handle, Thing::GRADES)?[3], *grade);
                let thing = model.get_mut(id).expect("the model has it too");
                (thing.amount, thing.grades[3]) = (*amount, *grade);
            }
        }
        Step::Replace(id, thing) => {
            let Some(handle) = t.find(primary, id, Intent::Write)? else { return Ok(()) };
            let old = model.remove(id).expect("the model has it too");
            let predicted = duplicate(model, thing);
            let replaced = t.replace(handle, thing);
            assert_eq!(predicted, matches!(replaced, Err(Abort::Duplicate { .. })), "{old:?}: {replaced:?}");
            replaced?;
            model.insert((thing.part, thing.id), thing.clone());
        }
        Step::Part { steps, rolls_back, releases } => {
            let savepoint = objects(t).savepoint()?;
            let before = model.clone();
            let done = steps.iter().try_for_each(|one| self::step(t, table, model, one));
            if *rolls_back || done.is_err() {
                objects(t).roll_back_to(savepoint)?;
                *model = before;
            }
            if *releases {
                objects(t).release(savepoint)?;
            }
        }
        _ => scan(t, table, model, step)?,
    }
    Ok(())
}

/// The transaction without types.
fn objects<T: Verbs>(t: &mut T) -> &mut (dyn AnyVerbs + '_) {
    t.untyped().expect("a transaction of objects")
}

fn scan<T: Verbs>(t: &mut T, table: Table<Thing>, model: &mut Model, step: &Step) -> Result<(), Abort> {
    let direction = |forward| if forward { Direction::Forward } else { Direction::Reverse };
    let ordered = |mut things: Vec<Thing>, forward: bool| {
        if !forward {
            things.reverse();
        }
        things
    };
    match *step {
        Step::Scan { low, high, forward, most } => {
            let mut found = Vec::new();
            t.scan(table.primary(), &low, &high, direction(forward), Intent::Read, &mut |t, handle| {
                found.push(t.row(handle)?);
                Ok(if found.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            let expected = model.iter().filter(|(id, _)| low <= **id && **id <= high);
            let mut expected = ordered(expected.map(|(_, thing)| thing.clone()).collect(), forward);
            expected.truncate(most);
            assert_eq!(found, expected);
        }
        Step::ScanGroup { part, group, forward } => {
            let mut found = Vec::new();
            let (low, high) = ((part, group, 0), (part, group, u32::MAX));
            let index = table.index(Thing::BY_GROUP);
            t.scan(index, &low, &high, direction(forward), Intent::Read, &mut |t, handle| {
                found.push(t.row(handle)?);
                Ok(ControlFlow::Continue(()))
            })?;
            let expected = model.values().filter(|thing| thing.part == part && thing.group == group);
            assert_eq!(found, ordered(expected.cloned().collect(), forward));
        }
        Step::PutWhileScanning { low, high, amount } => {
            t.scan(table.primary(), &low, &high, Direction::Forward, Intent::Write, &mut |t, handle| {
                t.put(handle, Thing::AMOUNT, &amount)?;
                // Another read within the visit.
                t.find(table.primary(), &(9, 9), Intent::Read)?;
                Ok(ControlFlow::Continue(()))
            })?;
            let touched = model.iter_mut().filter(|(id, _)| low <= **id && **id <= high);
            touched.for_each(|(_, thing)| thing.amount = amount);
        }
        Step::DeleteWhileScanning { low, high } => {
            t.scan(table.primary(), &low, &high, Direction::Reverse, Intent::Write, &mut |t, handle| {
                t.delete(handle)?;
                Ok(ControlFlow::Continue(()))
            })?;
            model.retain(|id, _| *id < low || high < *id);
        }
        _ => {}
    }
    Ok(())
}

/// Leaves out those optimisations that have a bit set.
fn without(bits: u16) -> Optimisations {
    let all = [
        Optimisation::ThreadAlloc,
        Optimisation::HashIndex,
        Optimisation::Prefetch,
        Optimisation::CompiledRows,
        Optimisation::BoundedSpin,
        Optimisation::QueueLatch,
    ];
    let chosen = all.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    chosen.fold(Optimisations::ALL, |all, (_, one)| all.without(one))
}

/// Ways by the number of what is left out.
fn ways(number: u16) -> Ways {
    Ways {
        row_lock: if number & 256 == 0 { RowLock::Word } else { RowLock::Latch },
        row_copies: if number & 512 == 0 { RowCopies::Fields } else { RowCopies::Rows },
        commit_locks: if number & 1024 == 0 { CommitLocks::Ordered } else { CommitLocks::NoWait },
        deadlocks: if number & 256 == 0 { Deadlocks::Graph } else { Deadlocks::Lists },
        ..Ways::default()
    }
}

fn behaves_like_a_map(
    scheme: SchemeName,
    transactions: &[(Vec<Step>, bool)],
    hash: bool,
    parts: u16,
    left_out: u16,
) {
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let kinds = if hash {
        vec![IndexKind::Ordered, IndexKind::Ordered, IndexKind::Hash(HashPlan::Mixed)]
    } else {
        Vec::new()
    };
    let partitioning = (parts > 1).then_some(Partitioning { first: 0, count: parts });
    let table =
        schema.table::<Thing>("things", TableOptions { rows: 4, kinds, partitioning, ..Default::default() });
    // With one session at a time the locks of rows are plain.
    let sessions = 1 + usize::from(left_out & 2048 != 0);
    let options =
        InstanceOptions { optimisations: without(left_out), ways: ways(left_out), ..options(sessions) };
    let database = engine_native::create(scheme, c, &options, schema, &|_| None).expect("memory");
    let mut session = database.session(c, None, false).expect("a session");
    let mut model = Model::new();
    for (steps, rolls_back) in transactions {
        let before = model.clone();
        let result = session.transact(&Bounds { deadline: None, attempts_max: Some(1) }, |t| {
            steps.iter().try_for_each(|one| step(t, table, &mut model, one))?;
            if *rolls_back { Err(Abort::RollBack) } else { Ok(()) }
        });
        match result {
            Ok(Ending::Committed(..)) => assert!(!rolls_back),
            Ok(Ending::RolledBack(_)) | Err(Abort::Duplicate { .. }) => model = before,
            Err(abort) => panic!("alone, and yet {abort}"),
        }
        session.tend(Hardware::now(c));
        let mut rows = Vec::new();
        let (low, high) = ((0, 0), (u16::MAX, u32::MAX));
        database
            .inspector(c)
            .scan(table.primary(), &low, &high, &mut |thing: &Thing| rows.push(thing.clone()));
        assert_eq!(rows, model.values().cloned().collect::<Vec<_>>());
        let mut tokens = BTreeMap::new();
        database.inspector(c).scan(table.index(Thing::BY_TOKEN), &0, &u64::MAX, &mut |thing: &Thing| {
            assert!(tokens.insert(thing.token, thing.clone()).is_none());
        });
        assert_eq!(tokens.len(), model.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_scheme_behaves_like_a_map(transactions in transactions(), hash: bool, parts in 1..4u16, out: u16) {
        for scheme in SchemeName::ALL {
            behaves_like_a_map(scheme, &transactions, hash, parts, out);
        }
    }
}
