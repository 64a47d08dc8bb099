//! Sessions that say how long they wait for locks over pages, deadlocks through tables, and queues
//! whose consumers skip what others have locked.

use std::sync::Mutex;

use boundary::{Bounds, Direction, SchemaBuilder, Span, Verbs};
use pages::{PagedDatabase, PagedOptions};
use platform::{Intent, Place, Platform};
use schema::{Row, Schema, Table, TableOptions};
use sim::{VirtualCore, VirtualMachine};
use terms::rows::{KeyBounds, TableIndex};
use terms::{Abort, Conflict, Fault, Faults, Mode};

use crate::support::{assert_sound, options, session, virtually};

type P = VirtualMachine;

const SECOND: u64 = 1_000_000_000;

#[derive(Row, Clone, Debug)]
#[row(key(id))]
struct Counter {
    id: u64,
    count: u64,
}

/// A database with two tables of this many rows.
fn counters(c: VirtualCore, options: &PagedOptions, rows: u64) -> (PagedDatabase<P>, [Table<Counter>; 2]) {
    let mut schema = SchemaBuilder::new();
    let tables = ["some", "others"].map(|name| schema.table::<Counter>(name, TableOptions::default()));
    let database = PagedDatabase::<P>::create(c, options, schema).expect("a pool");
    let mut loader = session(&database, c);
    let load = |t: &mut boundary::Transaction<'_>| {
        let all = tables.iter().flat_map(|table| (0..rows).map(move |id| (*table, id)));
        all.into_iter().try_for_each(|(table, id)| t.insert(table, &Counter { id, count: id }))
    };
    loader.transact(&Bounds::default(), load).expect("no other transaction runs");
    drop(loader);
    (database, tables)
}

fn add(t: &mut impl Verbs, table: Table<Counter>, id: u64) -> Result<(), Abort> {
    let row = t.find(table.primary(), &id, Intent::Write)?.expect("loaded");
    let count = t.get(row, Counter::COUNT)?;
    t.put(row, Counter::COUNT, &(count + 1))
}

#[test]
fn a_hot_row_is_served_in_order_and_without_an_abort() {
    const WORKERS: usize = 16;
    const TRANSACTIONS: u64 = 20;
    for seed in 0..3 {
        virtually(seed, WORKERS, |c| {
            let (database, [table, _]) = counters(c, &options(400, 1024, WORKERS + 1), 1);
            let times = Mutex::new(Vec::new());
            let worker = |c: VirtualCore, number: usize| {
                let mut session = session(&database, c);
                session.seed(number as u64);
                session.object().wait_for_locks(Some(SECOND));
                for _ in 0..TRANSACTIONS {
                    let began = P::now(c);
                    session.transact(&Bounds::default(), |t| add(t, table, 0)).expect("it commits");
                    times.lock().expect("no panic").push(P::now(c).since(began));
                }
                assert_eq!(session.stats().aborts, 0, "seed {seed}");
            };
            P::parallel(c, &[Place { thread: None }; WORKERS], &worker, &mut |_| ());
            let read = session(&database, c).transact(&Bounds::default(), |t| {
                let row = t.find(table.primary(), &0, Intent::Read)?.expect("loaded");
                assert_eq!(t.get(row, Counter::COUNT)?, WORKERS as u64 * TRANSACTIONS);
                Ok(())
            });
            read.expect("no other transaction runs");
            let mut times = times.into_inner().expect("no panic");
            times.sort_unstable();
            let (longest, median) = (times[times.len() - 1], times[times.len() / 2]);
            assert!(longest <= 4 * median, "seed {seed}: {longest} ns, and half of them take {median} ns");
        });
    }
}

#[test]
fn a_wait_ends_when_its_time_is_over() {
    virtually(1, 2, |c| {
        let (database, [table, _]) = counters(c, &options(60, 1024, 3), 1);
        let worker = |c: VirtualCore, number: usize| {
            let mut session = session(&database, c);
            for longest in [0, 3_000_000] {
                session.object().wait_for_locks(Some(longest));
                if number == 1 {
                    P::pause(c, 1_000_000);
                }
                let ended = session.transact(&Bounds::default(), |t| {
                    add(t, table, 0)?;
                    P::pause(c, 10_000_000);
                    Ok(())
                });
                match (number, ended) {
                    (1, Err(Abort::LockTimeout { table: Some(0), nanos, .. })) => {
                        assert!(nanos >= longest, "{nanos} ns");
                        P::pause(c, 10_000_000 - 1_000_000 - longest);
                    }
                    (0, Ok(_)) => {}
                    (_, other) => panic!("{other:?}"),
                }
            }
        };
        P::parallel(c, &[Place { thread: None }; 2], &worker, &mut |_| ());
    });
}

/// One transaction reads all of a table, and so has the table; another changes a row of the second
/// table. Then each goes for what the other has: the attempts that each needs.
fn circle_through_a_table(reads_first: bool) -> [u32; 2] {
    let attempts = Mutex::new([0; 2]);
    virtually(1, 2, |c| {
        let (database, [some, others]) = counters(c, &options(90, 1024, 3), 40);
        let worker = |c: VirtualCore, number: usize| {
            let mut session = session(&database, c);
            session.object().wait_for_locks(Some(SECOND));
            let reads = (number == 0) == reads_first;
            P::pause(c, number as u64 * 100_000);
            let ended = session.transact(&Bounds::default(), |t| {
                attempts.lock().expect("no panic")[number] += 1;
                if reads {
                    let mut sum = 0;
                    t.scan(
                        some.primary(),
                        &0,
                        &u64::MAX,
                        Direction::Forward,
                        Intent::Read,
                        &mut |t, row| {
                            sum += t.get(row, Counter::COUNT)?;
                            Ok(std::ops::ControlFlow::Continue(()))
                        },
                    )?;
                    P::pause(c, 2_000_000);
                    return add(t, others, 7);
                }
                add(t, others, 7)?;
                P::pause(c, 2_000_000);
                add(t, some, 39)
            });
            ended.expect("both commit");
        };
        P::parallel(c, &[Place { thread: None }; 2], &worker, &mut |_| ());
        assert_sound(&database, c);
    });
    attempts.into_inner().expect("no panic")
}

#[test]
fn of_a_circle_through_a_tables_lock_the_younger_gives_up() {
    assert_eq!(circle_through_a_table(true), [1, 2]);
    assert_eq!(circle_through_a_table(false), [1, 2]);
}

/// Consumers take the items of a queue; how many attempts failed.
fn consume(seed: u64, faults: Faults) -> u64 {
    const WORKERS: usize = 8;
    const ITEMS: u64 = 60;
    virtually(seed, WORKERS, |c| {
        let options = PagedOptions { faults, ..options(120, 1024, WORKERS + 1) };
        let (database, [items, _]) = counters(c, &options, ITEMS);
        let place = TableIndex { table: items.number(), index: 0 };
        let (taken, aborts) = (Mutex::new(Vec::new()), Mutex::new(0));
        let worker = |c: VirtualCore, number: usize| {
            let mut session = session(&database, c);
            session.seed(number as u64);
            while taken.lock().expect("no panic").len() < ITEMS as usize {
                let mut item = None;
                let ended = session.object().transact(Mode::Single, &Bounds::default(), &mut |verbs| {
                    item = None;
                    let mut found = None;
                    let range = KeyBounds { low: &[0], high: &[u64::MAX] };
                    verbs.scan_or_skip(place, range, Direction::Forward, &mut |_, row| {
                        found = Some(row);
                        Ok(false)
                    })?;
                    let Some(row) = found else { return Ok(()) };
                    let mut words = [0; 2];
                    verbs.read(row, Span::of_words(0, 2), &mut words)?;
                    item = Some(words[1]);
                    verbs.delete(row, &[&[words[0]]])
                });
                match ended {
                    Ok(_) => taken.lock().expect("no panic").extend(item),
                    // A row that it has found is another one, or gone: the fault.
                    Err(_) if faults.has(Fault::UnskippedRows) => {
                        *aborts.lock().expect("no panic") += 1;
                        return;
                    }
                    Err(other) => panic!("{other}"),
                }
            }
            *aborts.lock().expect("no panic") += session.stats().aborts;
        };
        P::parallel(c, &[Place { thread: None }; WORKERS], &worker, &mut |_| ());
        let aborts = aborts.into_inner().expect("no panic");
        if !faults.has(Fault::UnskippedRows) {
            let mut taken = taken.into_inner().expect("no panic");
            taken.sort_unstable();
            assert_eq!(taken, (0..ITEMS).collect::<Vec<_>>(), "seed {seed}: items are lost, or taken twice");
            assert_sound(&database, c);
        }
        aborts
    })
}

#[test]
fn consumers_that_skip_locked_rows_do_not_conflict() {
    for seed in 0..4 {
        assert_eq!(consume(seed, Faults::NONE), 0, "seed {seed}");
    }
}

#[test]
fn mutant_rows_that_others_have_locked_are_not_skipped() {
    assert!(consume(1, Faults::of(&[Fault::UnskippedRows])) > 0, "consumers conflict");
}

#[test]
fn a_transaction_without_a_bound_of_its_own_is_refused_as_before() {
    virtually(1, 2, |c| {
        let bounded = PagedOptions { wait_nanos_max: Some(0), ..options(60, 1024, 3) };
        let (database, [table, _]) = counters(c, &bounded, 1);
        let worker = |c: VirtualCore, number: usize| {
            let mut session = session(&database, c);
            P::pause(c, number as u64 * 1_000_000);
            let bounds = Bounds { attempts_max: Some(1), deadline: None };
            let ended = session.transact(&bounds, |t| {
                add(t, table, 0)?;
                P::pause(c, 5_000_000);
                Ok(())
            });
            match (number, ended) {
                (0, Ok(_)) | (1, Err(Abort::Conflict(Conflict::Locked))) => {}
                (_, other) => panic!("{other:?}"),
            }
        };
        P::parallel(c, &[Place { thread: None }; 2], &worker, &mut |_| ());
    });
}
