//! An optimisation that is left out is really out, and changes nothing but the time.

use std::ops::ControlFlow;

use boundary::{Bounds, Direction, Ending, Verbs};
use concurrency::{InstanceOptions, NoWait, Scheme, Silo, WaitDie};
use engine::{MemoryDatabase, Transaction};
use platform::{Intent, Platform};
use schema::{Inspector, Row, Table, TableOptions, Text, Value};
use sim::{Config, Outcome, Shape, VirtualCore, VirtualMachine};
use storage::{LatchSeat, LatchedWord, Optimisation, Optimisations};
use terms::Abort;

use crate::support::{options, virtually, with_rows, workers};

const ROWS: u64 = 600;

#[derive(Value, Clone, Debug, PartialEq)]
struct Name {
    initial: u8,
    rest: Text<11>,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Item {
    id: u64,
    group: u16,
    name: Name,
    price: u32,
    stock: [u16; 5],
    weight: f64,
}

fn item(id: u64) -> Item {
    let name = Name { initial: id as u8, rest: Text::truncated("abcdefgh") };
    Item { id, group: id as u16, name, price: id as u32 * 3, stock: [id as u16; 5], weight: id as f64 / 8.0 }
}

fn database<S: Scheme<VirtualMachine>>(
    c: VirtualCore,
    optimisations: Optimisations,
) -> (MemoryDatabase<VirtualMachine, S>, Table<Item>) {
    let options = InstanceOptions { optimisations, ..options(3) };
    let of_table = TableOptions { rows: ROWS, ..TableOptions::default() };
    let (mut database, items) = with_rows(c, &options, of_table, (0..ROWS).map(item));
    database.loaded(c).expect("memory for copies");
    (database, items)
}

/// Every verb that reads rows or brings them closer, and some that write, on one core: the rows as
/// they are in the end.
fn use_everything<S: Scheme<VirtualMachine>>(optimisations: Optimisations) -> Outcome<Vec<Item>> {
    let config = Config { memory_bytes: 256 << 20, ..Config::new(Shape::new(1, 2, 1)).with_seed(1) };
    let outcome = VirtualMachine::run(&config, |c| {
        let (database, items) = database::<S>(c, optimisations);
        workers(c, &database, 1, &|session, _| {
            let ended = session.transact(&Bounds::default(), |t| change_and_read(t, items));
            assert!(matches!(ended, Ok(Ending::Committed(..))));
        });
        let mut rows = Vec::new();
        let mut show = |row: &Item| rows.push(row.clone());
        database.inspector(c).scan(items.primary(), &0, &ROWS, &mut show);
        rows
    });
    outcome.expect("the run ends")
}

fn change_and_read<T: Verbs>(t: &mut T, items: Table<Item>) -> Result<(), Abort> {
    let keys: Vec<u64> = (0..40).map(|number| number * 17).collect();
    let mut found = Vec::new();
    t.find_many(items.primary(), &keys, Intent::Write, &mut found)?;
    for row in found.into_iter().flatten() {
        t.prefetch(row, Item::WEIGHT, Intent::Read);
        let name = t.get(row, Item::NAME)?;
        let second = t.get(row, Item::STOCK.at(1))?;
        t.put(row, Item::STOCK.at(2), &(second + u16::from(name.initial)))?;
        t.put(row, Item::NAME.then(Name::INITIAL), &7)?;
    }
    let first = t.find(items.primary(), &5, Intent::Write)?.expect("loaded");
    t.replace(first, &Item { price: 1, ..item(5) })?;
    let mut prices = 0;
    t.scan(items.primary(), &0, &ROWS, Direction::Forward, Intent::Read, &mut |t, row| {
        prices += t.row(row)?.price;
        Ok(ControlFlow::Continue(()))
    })?;
    assert_eq!(prices, (0..ROWS as u32).map(|id| id * 3).sum::<u32>() - 14);
    Ok(())
}

fn leave_out<S: Scheme<VirtualMachine>>() {
    let all = use_everything::<S>(Optimisations::ALL);
    assert_eq!(all.value.len(), ROWS as usize);
    assert_eq!(
        all.value[17],
        Item { name: Name { initial: 7, ..item(17).name }, stock: [17, 17, 34, 17, 17], ..item(17) }
    );
    assert!(all.statistics.counts.prefetches > 0);
    let slow = use_everything::<S>(Optimisations::ALL.without(Optimisation::Prefetch));
    assert_eq!(slow.statistics.counts.prefetches, 0);
    assert_eq!(slow.value, all.value);
    let interpreted = use_everything::<S>(Optimisations::ALL.without(Optimisation::CompiledRows));
    assert_eq!(interpreted.value, all.value);
    let ratio = interpreted.statistics.elapsed.0 as f64 / all.statistics.elapsed.0 as f64;
    assert!(ratio > 1.2, "an interpreter takes {ratio} times as long");
    let central = use_everything::<S>(Optimisations::ALL.without(Optimisation::ThreadAlloc));
    assert_eq!(central.value, all.value);
    let plain = Optimisations::ALL.without(Optimisation::ThreadAlloc).without(Optimisation::QueueLatch);
    assert_eq!(use_everything::<S>(plain).value, all.value);
}

#[test]
fn results_are_the_same_without_silo() {
    leave_out::<Silo>();
}

#[test]
fn results_are_the_same_without_no_wait() {
    leave_out::<NoWait>();
}

/// Raises the price of item 1.
fn raise<T: Verbs>(t: &mut T, items: Table<Item>) -> Result<(), Abort> {
    let row = t.find(items.primary(), &1, Intent::Write)?.expect("loaded");
    let price = t.get(row, Item::PRICE)?;
    t.put(row, Item::PRICE, &(price + 1))
}

/// Nanoseconds that an attempt takes which finds a locked row.
fn attempt_at_locked_row(optimisations: Optimisations) -> u64 {
    virtually(1, 1, |c| {
        let (database, items) = database::<Silo>(c, optimisations);
        let nanos = LatchedWord::<VirtualMachine>::new(c, None).expect("memory");
        workers(c, &database, 1, &|holder, _| {
            let c = holder.core();
            let mut other = database.session(c, None, false).expect("a session");
            let write = |t: &mut Transaction<'_, '_, VirtualMachine, Silo>| raise(t, items);
            let (_, prepared) = holder.prepare(&Bounds::default(), write).expect("no other transaction runs");
            let begin = VirtualMachine::now(c);
            let ended = other.transact(&Bounds { deadline: None, attempts_max: Some(1) }, write);
            assert!(ended.is_err_and(|abort| abort.is_conflict()));
            let mut seat = LatchSeat::new(c, None).expect("memory");
            nanos.add(c, &mut seat, VirtualMachine::now(c).since(begin));
            assert!(holder.finish(prepared, true).is_some());
        });
        nanos.value()
    })
}

#[test]
fn optimistic_transactions_do_not_wait_for_locked_rows_without_spinning() {
    assert!(attempt_at_locked_row(Optimisations::ALL) > 5_000);
    let nanos = attempt_at_locked_row(Optimisations::ALL.without(Optimisation::BoundedSpin));
    assert!(nanos < 3_000, "{nanos}");
}

/// Nanoseconds that the commit of a transaction takes which has read a row that is locked by now.
fn commit_at_locked_row() -> u64 {
    virtually(1, 1, |c| {
        let (database, items) = database::<Silo>(c, Optimisations::ALL);
        let nanos = LatchedWord::<VirtualMachine>::new(c, None).expect("memory");
        workers(c, &database, 1, &|holder, _| {
            let c = holder.core();
            let mut other = database.session(c, None, false).expect("a session");
            let write = |t: &mut Transaction<'_, '_, VirtualMachine, Silo>| raise(t, items);
            let (mut prepared, mut begin) = (None, VirtualMachine::now(c));
            let ended = other.transact(&Bounds { deadline: None, attempts_max: Some(1) }, |t| {
                write(t)?;
                prepared = Some(holder.prepare(&Bounds::default(), write).expect("the row is not locked").1);
                begin = VirtualMachine::now(c);
                Ok(())
            });
            assert!(ended.is_err_and(|abort| abort.is_conflict()));
            let mut seat = LatchSeat::new(c, None).expect("memory");
            nanos.add(c, &mut seat, VirtualMachine::now(c).since(begin));
            assert!(holder.finish(prepared.expect("the body has run"), true).is_some());
        });
        nanos.value()
    })
}

#[test]
fn a_commit_does_not_wait_for_a_row_that_it_has_read() {
    let nanos = commit_at_locked_row();
    assert!(nanos < 3_000, "{nanos}");
}

/// Attempts of an older transaction that finds a row which a younger one holds for longer than the
/// bound.
fn attempts_at_held_row(optimisations: Optimisations) -> u32 {
    let attempts = virtually(1, 2, |c| {
        let (database, items) = database::<WaitDie>(c, optimisations);
        let most = LatchedWord::<VirtualMachine>::new(c, None).expect("memory");
        workers(c, &database, 2, &|session, number| {
            let c = session.core();
            let younger = number == 0;
            // Ages of those who have done much are ahead of the clock for a while.
            VirtualMachine::pause(c, if younger { 2_100_000 } else { 2_000_000 });
            let ended = session.transact(&Bounds::default(), |t| {
                if !younger {
                    VirtualMachine::pause(c, 500_000);
                }
                let row = t.find(items.primary(), &1, Intent::Write)?.expect("loaded");
                if younger {
                    VirtualMachine::pause(c, 3_000_000);
                }
                t.put(row, Item::PRICE, &1)
            });
            assert!(matches!(ended, Ok(Ending::Committed(..))));
            if !younger {
                let mut seat = LatchSeat::new(c, None).expect("memory");
                most.add(c, &mut seat, u64::from(session.stats().attempts_max));
            }
        });
        most.value()
    });
    attempts as u32
}

#[test]
fn the_older_waits_as_long_as_it_takes_without_a_bound() {
    assert!(attempts_at_held_row(Optimisations::ALL) > 1);
    assert_eq!(attempts_at_held_row(Optimisations::ALL.without(Optimisation::BoundedSpin)), 1);
}
