//! Rows that are inserted together: each goes where it belongs, whatever the one before it has
//! found, also while other workers insert.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use boundary::{Bounds, Direction, Ending, SchemaBuilder, Verbs};
use pages::PagedDatabase;
use platform::{Intent, Place, Platform};
use schema::{Schema, TableOptions};
use sim::{VirtualCore, VirtualMachine};
use terms::Abort;

use crate::support::{Random, assert_sound, options, session, virtually};
use crate::together::Account;

const NUMBERS: u64 = 300;
const WORKERS: u64 = 2;

/// An account with this number; the order of owners is another one.
fn account(number: u64) -> Account {
    Account { number, owner: number * 7 % NUMBERS, amount: number }
}

/// Some numbers of a worker: most of the time ascending, with gaps.
fn run(random: &mut Random, worker: u64) -> Vec<u64> {
    let (mut number, length) = (random.below(NUMBERS), 1 + random.below(10));
    let mut numbers = BTreeSet::new();
    for _ in 0..length {
        numbers.insert(number / WORKERS * WORKERS + worker);
        number = (number + 1 + random.below(6)) % NUMBERS;
    }
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    match random.below(4) {
        0 => numbers.reverse(),
        1 => numbers.rotate_left(1),
        _ => {}
    }
    numbers
}

fn insert_and_delete(c: VirtualCore, seed: u64) {
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Account>("accounts", TableOptions::default());
    let database = PagedDatabase::<VirtualMachine>::create(c, &options(40, 512, 3), schema).expect("a pool");
    let all = std::sync::Mutex::new(BTreeSet::new());
    let worker = |c: VirtualCore, worker: usize| {
        let (mut session, worker) = (session(&database, c), worker as u64);
        let (mut random, mut model) = (Random::new(seed * 100 + worker), BTreeSet::new());
        for _ in 0..60 {
            let numbers = run(&mut random, worker);
            let (deletes, rolls_back) = (random.below(3) == 0, random.below(4) == 0);
            let is_duplicate = !deletes && numbers.iter().any(|number| model.contains(number));
            let ended = session.transact(&Bounds::default(), |t| {
                if !deletes {
                    t.insert_all(table, numbers.iter().copied().map(account))?;
                } else {
                    for number in &numbers {
                        if let Some(row) = t.find(table.primary(), number, Intent::Write)? {
                            t.delete(row)?;
                        }
                    }
                }
                if rolls_back { Err(Abort::RollBack) } else { Ok(()) }
            });
            match ended {
                Ok(Ending::Committed(..)) if deletes => model.retain(|number| !numbers.contains(number)),
                Ok(Ending::Committed(..)) => model.extend(numbers),
                Ok(Ending::RolledBack(_)) if rolls_back => {}
                Err(Abort::Duplicate { .. }) if is_duplicate => {}
                other => panic!("seed {seed}: {other:?}"),
            }
        }
        all.lock().expect("no panic").append(&mut model);
    };
    VirtualMachine::parallel(c, &vec![Place { thread: None }; WORKERS as usize], &worker, &mut |_| ());
    assert_sound(&database, c);
    let mut found = BTreeSet::new();
    let ended = session(&database, c).transact(&Bounds::default(), |t| {
        let range = (0, u64::MAX);
        t.scan(table.primary(), &range.0, &range.1, Direction::Forward, Intent::Read, &mut |t, row| {
            let row: Account = t.row(row)?;
            assert_eq!((row.owner, row.amount), (account(row.number).owner, row.number));
            found.insert(row.number);
            Ok(ControlFlow::Continue(()))
        })
    });
    assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
    assert_eq!(found, all.into_inner().expect("no panic"), "seed {seed}");
}

#[test]
fn runs_of_rows_go_where_they_belong() {
    for seed in 0..20 {
        virtually(seed, WORKERS as usize, |c| insert_and_delete(c, seed));
    }
}
