//! One session against a map: every verb, a secondary index, tails, transactions that roll back (as
//! a whole or to savepoints), in a pool of 8 frames.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use boundary::{Bounds, Direction, Ending, SchemaBuilder, Verbs};
use pages::{PagedDatabase, PagedError, PagedOptions};
use platform::files::Files;
use platform::{Hardware, Intent};
use schema::{Row, Schema, Table, TableOptions};
use storage::{Optimisation, Optimisations};
use terms::Abort;

use crate::support::{Random, assert_sound, options, session, virtually};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(part, id), unique_index(by_token(token)), unique_index(by_address(address)))]
struct Thing {
    part: u16,
    id: u32,
    token: u64,
    /// A long key: see [`address`].
    address: [u8; 88],
    amount: i64,
    #[row(tail)]
    note: Vec<u8>,
}

type Model = BTreeMap<(u16, u32), Thing>;

const PARTS: u64 = 3;
const IDS: u64 = 120;

/// The address of a token: many agree in the bytes that entries have, and many end with zeros.
fn address(token: u64) -> [u8; 88] {
    let mut address = [0; 88];
    let at = [0, 48, 50, 79][token as usize % 4];
    address[..at].fill(7);
    address[at..at + 8].copy_from_slice(&token.to_be_bytes());
    address
}

fn thing(random: &mut Random) -> Thing {
    let (part, id) = (random.below(PARTS) as u16, random.below(IDS) as u32);
    // Some of them need several pages, or none of their own by little.
    let bytes = [60, 60, 60, 240, 4_000][random.below(5) as usize];
    let note = vec![random.below(256) as u8; random.below(bytes) as usize];
    let token = random.below(PARTS * IDS * 2);
    Thing { part, id, token, address: address(token), amount: random.below(1_000) as i64, note }
}

fn is_duplicate(model: &Model, thing: &Thing) -> bool {
    model.contains_key(&(thing.part, thing.id)) || model.values().any(|other| other.token == thing.token)
}

/// One step on both; an error is the duplicate that the model predicts.
fn step(
    t: &mut impl Verbs,
    table: Table<Thing>,
    model: &mut Model,
    random: &mut Random,
) -> Result<(), Abort> {
    if random.below(8) == 0 {
        return part(t, table, model, random);
    }
    let other = thing(random);
    let id = (other.part, other.id);
    match random.below(20) {
        0..=8 => {
            let predicted = is_duplicate(model, &other);
            if predicted && random.below(8) > 0 {
                return Ok(());
            }
            let inserted = t.insert(table, &other);
            assert_eq!(predicted, matches!(inserted, Err(Abort::Duplicate { .. })), "{inserted:?}");
            inserted?;
            model.insert(id, other);
        }
        9 | 10 => {
            let found = t.find(table.primary(), &id, Intent::Read)?;
            assert_eq!(found.map(|row| t.row(row)).transpose()?.as_ref(), model.get(&id));
            let found = t.find(table.index(Thing::BY_TOKEN), &other.token, Intent::Write)?;
            let expected = model.values().find(|thing| thing.token == other.token);
            assert_eq!(found.map(|row| t.row(row)).transpose()?.as_ref(), expected);
            let found = t.find(table.index(Thing::BY_ADDRESS), &other.address, Intent::Read)?;
            assert_eq!(found.map(|row| t.row(row)).transpose()?.as_ref(), expected);
        }
        11 | 12 => {
            let found = t.find(table.primary(), &id, Intent::Write)?;
            assert_eq!(found.is_some(), model.remove(&id).is_some());
            found.map_or(Ok(()), |row| t.delete(row))?;
        }
        13 | 14 => {
            if let Some(row) = t.find(table.primary(), &id, Intent::Read)? {
                t.put(row, Thing::AMOUNT, &other.amount)?;
                assert_eq!(t.get(row, Thing::AMOUNT)?, other.amount);
                model.get_mut(&id).expect("the model has it too").amount = other.amount;
            }
        }
        15 | 16 => {
            let Some(row) = t.find(table.primary(), &id, Intent::Write)? else { return Ok(()) };
            let before = model.remove(&id).expect("the model has it too");
            // Half of them keep their keys.
            let token = if random.below(2) == 0 { before.token } else { other.token };
            let after = Thing { token, address: address(token), ..other };
            let predicted = is_duplicate(model, &after);
            let replaced = t.replace(row, &after);
            assert_eq!(predicted, matches!(replaced, Err(Abort::Duplicate { .. })), "{replaced:?}");
            replaced?;
            model.insert(id, after);
        }
        17 | 18 => {
            let last = thing(random);
            let last = (last.part, last.id);
            let is_up = random.below(2) == 0;
            let direction = if is_up { Direction::Forward } else { Direction::Reverse };
            let mut found = Vec::new();
            t.scan(table.primary(), &id, &last, direction, Intent::Read, &mut |t, row| {
                found.push(t.row(row)?);
                Ok(ControlFlow::Continue(()))
            })?;
            let inside = model.iter().filter(|(key, _)| id <= **key && **key <= last);
            let mut expected: Vec<Thing> = inside.map(|(_, thing)| thing.clone()).collect();
            if !is_up {
                expected.reverse();
            }
            assert_eq!(found, expected);
        }
        _ => {
            let last = (id.0, id.1 + 20);
            let deletes = random.below(2) == 0;
            t.scan(table.primary(), &id, &last, Direction::Forward, Intent::Write, &mut |t, row| {
                if deletes {
                    t.delete(row)?
                } else {
                    t.put(row, Thing::AMOUNT, &7)?
                }
                Ok(ControlFlow::Continue(()))
            })?;
            let inside = |key: &(u16, u32)| id <= *key && *key <= last;
            match deletes {
                true => model.retain(|key, _| !inside(key)),
                false => model.iter_mut().filter(|(key, _)| inside(key)).for_each(|(_, one)| one.amount = 7),
            }
        }
    }
    Ok(())
}

/// Steps behind a savepoint, to which the transaction rolls back if one fails, and by chance.
fn part(
    t: &mut impl Verbs,
    table: Table<Thing>,
    model: &mut Model,
    random: &mut Random,
) -> Result<(), Abort> {
    const OBJECTS: &str = "a transaction of objects";
    let savepoint = t.untyped().expect(OBJECTS).savepoint()?;
    let (before, steps) = (model.clone(), 1 + random.below(6));
    let done = (0..steps).try_for_each(|_| step(t, table, model, random));
    if done.is_err() || random.below(5) < 3 {
        t.untyped().expect(OBJECTS).roll_back_to(savepoint)?;
        *model = before;
    }
    if random.below(2) == 0 { t.untyped().expect(OBJECTS).release(savepoint) } else { Ok(()) }
}

fn behaves_like_a_map<P: Files>(c: P::Core, options: &PagedOptions, seed: u64, transactions: usize) {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Thing>("things", TableOptions::default());
    let database = PagedDatabase::<P>::create(c, options, schema).expect("a pool");
    let (mut random, mut model) = (Random::new(seed), Model::new());
    for number in 0..transactions {
        let mut session = session(&database, c);
        let before = model.clone();
        let (steps, rolls_back) = (1 + random.below(12), random.below(5) == 0);
        let ended = session.transact(&Bounds { deadline: None, attempts_max: Some(1) }, |t| {
            (0..steps).try_for_each(|_| step(t, table, &mut model, &mut random))?;
            if rolls_back { Err(Abort::RollBack) } else { Ok(()) }
        });
        match ended {
            Ok(Ending::Committed(..)) => assert!(!rolls_back),
            Ok(Ending::RolledBack(_)) | Err(Abort::Duplicate { .. }) => model = before,
            Err(abort) => panic!("seed {seed}: alone, and yet {abort}"),
        }
        drop(session);
        if number % 16 == 15 || number + 1 == transactions {
            assert_sound(&database, c);
            is_the_same(c, &database, table, &model);
        }
    }
    assert!(model.len() > 20, "seed {seed}: too few rows to say anything");
}

/// All rows, as both indexes have them.
fn is_the_same<P: Files>(c: P::Core, database: &PagedDatabase<P>, table: Table<Thing>, model: &Model) {
    let mut session = session(database, c);
    let ended = session.transact(&Bounds::default(), |t| {
        let (mut rows, mut tokens) = (Vec::new(), 0);
        let (low, high) = ((0, 0), (u16::MAX, u32::MAX));
        t.scan(table.primary(), &low, &high, Direction::Forward, Intent::Read, &mut |t, row| {
            rows.push(t.row(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        assert!(rows.iter().eq(model.values()), "{rows:?}");
        let index = table.index(Thing::BY_TOKEN);
        t.scan(index, &0, &u64::MAX, Direction::Reverse, Intent::Read, &mut |_, _| {
            tokens += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        assert_eq!(tokens, model.len());
        let mut addresses = Vec::new();
        let index = table.index(Thing::BY_ADDRESS);
        t.scan(index, &[0; 88], &[u8::MAX; 88], Direction::Reverse, Intent::Read, &mut |t, row| {
            addresses.push(t.row(row)?.address);
            Ok(ControlFlow::Continue(()))
        })?;
        assert!(addresses.is_sorted_by(|left, right| left > right) && addresses.len() == tokens);
        Ok(())
    });
    assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
}

#[test]
fn eight_frames_are_enough_for_one_session() {
    for seed in 0..6 {
        virtually(seed, 1, |c| {
            behaves_like_a_map::<sim::VirtualMachine>(c, &options(8, 1024, 1), seed, 120);
        });
    }
}

#[test]
fn a_pool_without_a_file_behaves_like_a_map() {
    for seed in 10..16 {
        let options = PagedOptions { directory: None, ..options(400, 1024, 1) };
        behaves_like_a_map::<Hardware>(Hardware::core(), &options, seed, 200);
    }
}

#[test]
fn locks_end_no_transaction_however_many_there_are() {
    // A single session that locks all the same: with room for fewer locks than most scans take, and
    // two tables' worth of trees.
    let optimisations = Optimisations::ALL.without(Optimisation::PlainLocks);
    for (seed, escalation) in [(20, 4), (21, 16), (22, 1_000)] {
        let small = PagedOptions { directory: None, ..options(400, 1024, 1) };
        let options = PagedOptions { optimisations, locks_max: 24, escalation, ..small };
        behaves_like_a_map::<Hardware>(Hardware::core(), &options, seed, 120);
    }
}

#[test]
fn a_pool_that_is_too_small_is_refused() {
    let made = |options: &PagedOptions| {
        let mut schema = SchemaBuilder::new();
        schema.table::<Thing>("things", TableOptions::default());
        PagedDatabase::<Hardware>::create(Hardware::core(), options, schema).err()
    };
    let without = |frames, sessions| PagedOptions { directory: None, ..options(frames, 1024, sessions) };
    assert_eq!(made(&without(8, 1)), None);
    let refused = made(&without(15, 2)).expect("two sessions need 16");
    assert_eq!(refused, PagedError::PoolTooSmall { pool: 15 << 10, bytes: 16 << 10, sessions: 2 });
    let odd = PagedOptions { page_bytes: 1000, ..without(64, 1) };
    assert_eq!(made(&odd), Some(PagedError::PageBytes(1000)));
    assert_eq!(made(&without(1 << 16, 4_096)), Some(PagedError::TooManySessions(4_096)));
}

#[test]
fn a_full_pool_without_a_file_is_an_error_and_no_hang() {
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Thing>("things", TableOptions::default());
    let options = PagedOptions { directory: None, ..options(24, 1024, 1) };
    let database = PagedDatabase::<Hardware>::create(c, &options, schema).expect("a pool");
    let mut session = session(&database, c);
    let mut inserted = 0;
    let refused = loop {
        let token = u64::from(inserted);
        let (address, note) = (address(token), vec![1; 90]);
        let row = Thing { part: 0, id: inserted, token, address, amount: 0, note };
        match session.transact(&Bounds::default(), |t| t.insert(table, &row)) {
            Ok(_) => inserted += 1,
            Err(abort) => break abort,
        }
    };
    assert!(matches!(&refused, Abort::Storage(why) if why.contains("make the pool larger")), "{refused}");
    assert!(inserted > 30, "{inserted}");
    // What was refused has left nothing, and the rest is there.
    drop(session);
    assert_sound(&database, c);
}
