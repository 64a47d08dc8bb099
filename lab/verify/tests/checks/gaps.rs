//! A transaction that inserts into a range that it has read finds the range unchanged but for its
//! own rows.
#![allow(clippy::disallowed_types, reason = "the test steers its workers without words of the machine")]

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{Bounds, Direction, Ending, SchemaBuilder, Transaction, Verbs};
use concurrency::{InstanceOptions, NoWait};
use platform::{Intent, Place, Platform};
use schema::{Row, Schema, Table, TableOptions};
use sim::{Config, Shape, VirtualMachine};
use terms::{Abort, Fault, Faults};

/// Schedules that are tried.
const SEEDS: u64 = 20;
/// Transactions of the worker that reads, inserts, and reads again.
const TURNS: u64 = 60;
/// Time until the other worker tries to insert.
const HEAD_START_NANOS: u64 = 1_000;
/// Longer than an insertion and its commit.
const PAUSE_NANOS: u64 = 5_000;

#[derive(Row)]
#[row(key(id))]
struct Line {
    id: u64,
}

fn ids(t: &mut Transaction<'_>, table: Table<Line>, low: u64, high: u64) -> Result<Vec<u64>, Abort> {
    let mut found = Vec::new();
    t.scan(table.primary(), &low, &high, Direction::Forward, Intent::Read, &mut |t, row| {
        found.push(t.row(row)?.id);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// One worker reads ranges, inserts the upper end of each, and reads again, while another inserts
/// just below these rows. Returns how many ranges have changed.
fn phantoms(faults: Faults, seed: u64) -> u64 {
    let shape = Shape::new(2, 1, 1);
    let config = Config { memory_bytes: 64 << 20, ..Config::new(shape).with_seed(seed).perturbed() };
    let outcome = VirtualMachine::run(&config, |c| {
        let mut schema = SchemaBuilder::new();
        let table = schema.table::<Line>("lines", TableOptions::default());
        let options = InstanceOptions {
            sessions_max: 3,
            memory_bytes_max: 32 << 20,
            faults,
            ..InstanceOptions::default()
        };
        let database =
            engine::instances::create_under::<VirtualMachine, NoWait>(c, &options, schema, &|_| None);
        let database = database.expect("memory");
        let (phantoms, step) = (AtomicU64::new(0), AtomicU64::new(0));
        let work = |c: sim::VirtualCore, worker: usize| {
            let mut session = database.session(c, None, true).expect("sessions for all workers");
            session.seed(worker as u64);
            for turn in 0..TURNS {
                let (low, high) = (turn * 10, turn * 10 + 9);
                if worker == 0 {
                    let ended = session.transact(&Bounds::default(), |t| {
                        let before = ids(t, table, low, high)?;
                        step.store(2 * turn + 1, Ordering::SeqCst);
                        VirtualMachine::pause(c, HEAD_START_NANOS);
                        t.insert(table, &Line { id: high })?;
                        VirtualMachine::pause(c, PAUSE_NANOS);
                        let mut after = ids(t, table, low, high)?;
                        after.retain(|id| *id != high);
                        Ok(before != after)
                    });
                    let Ok(Ending::Committed(changed, _)) = ended else { panic!("a transaction failed") };
                    phantoms.fetch_add(u64::from(changed), Ordering::SeqCst);
                    step.store(2 * turn + 2, Ordering::SeqCst);
                    continue;
                }
                while step.load(Ordering::SeqCst) <= 2 * turn {
                    VirtualMachine::pause(c, 50);
                }
                while step.load(Ordering::SeqCst) == 2 * turn + 1 {
                    let once = Bounds { attempts_max: Some(1), ..Bounds::default() };
                    let ended = session.transact(&once, |t| t.insert(table, &Line { id: high - 1 }));
                    if ended.is_ok() {
                        break;
                    }
                }
            }
        };
        VirtualMachine::parallel(c, &[Place { thread: None }; 2], &work, &mut |_| ());
        phantoms.into_inner()
    });
    outcome.expect("the machine runs to its end").value
}

#[test]
fn rows_inherit_gaps_before_others_find_them() {
    let of = |broken: &[Fault]| (0..SEEDS).map(|seed| phantoms(Faults::of(broken), seed)).sum::<u64>();
    assert_eq!(of(&[]), 0);
    assert!(of(&[Fault::LateGapLock]) > 0, "the mutant shows no phantoms");
}
