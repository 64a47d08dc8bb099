//! The cost of scans in virtual time: the same for each row, whatever the number of rows.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{Bounds, Direction, Verbs};
use concurrency::Scheme;
use engine::{MemorySession, Transaction};
use platform::{Intent, Platform};
use schema::{Row, Table, TableOptions};
use sim::VirtualMachine;
use terms::Abort;

use crate::support::{options, virtually, with_rows, workers};

const FEW: u64 = 600;
/// Times as many.
const FACTOR: u64 = 10;
/// Times the cost of a few rows that those may take: with a higher tree, and caches that hold less
/// of it.
const COST_FACTOR_MAX: u64 = 20;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Item {
    id: u64,
    value: u64,
}

/// The body of one transaction on a table with this number of rows.
type Body<'b, S> =
    &'b (dyn Fn(&mut Transaction<'_, '_, VirtualMachine, S>, Table<Item>, u64) -> Result<(), Abort> + Sync);

/// The time that a transaction takes, alone on its machine.
fn nanos<S: Scheme<VirtualMachine>>(rows: u64, body: Body<'_, S>) -> u64 {
    virtually(1, 1, |c| {
        let (database, items) = with_rows::<_, S, Item>(c, &options(1), TableOptions::default(), []);
        let nanos = AtomicU64::new(0);
        let work = |session: &mut MemorySession<'_, _, S>, _| {
            let c = session.core();
            for id in 0..rows {
                let insert = |t: &mut Transaction<'_, '_, _, S>| t.insert(items, &Item { id, value: 1 });
                session.transact(&Bounds::default(), insert).expect("loaded");
            }
            let begin = VirtualMachine::now(c);
            session
                .transact(&Bounds::default(), |t| body(t, items, rows))
                .expect("no other transaction runs");
            nanos.store(VirtualMachine::now(c).since(begin), Ordering::Relaxed);
        };
        workers(c, &database, 1, &work);
        nanos.into_inner()
    })
}

fn is_linear<S: Scheme<VirtualMachine>>(what: &str, body: Body<'_, S>) {
    let (few, many) = (nanos::<S>(FEW, body), nanos::<S>(FEW * FACTOR, body));
    println!("{} {what}: {few} ns for {FEW} rows, {many} ns for {} rows", S::NAME, FEW * FACTOR);
    assert!(
        few > FEW && many <= few * COST_FACTOR_MAX,
        "{} {what}: {few} ns, and {many} ns for more",
        S::NAME
    );
}

fn scans_are_linear<S: Scheme<VirtualMachine>>() {
    for (what, direction) in [("forward", Direction::Forward), ("in reverse", Direction::Reverse)] {
        is_linear::<S>(what, &|t, items, rows| {
            let mut seen = 0;
            t.scan(items.primary(), &0, &u64::MAX, direction, Intent::Read, &mut |t, row| {
                seen += t.get(row, Item::VALUE)?;
                Ok(ControlFlow::Continue(()))
            })?;
            assert_eq!(seen, rows);
            Ok(())
        });
    }
    is_linear::<S>("with lookups that find nothing", &|t, items, _| {
        t.scan(items.primary(), &0, &u64::MAX, Direction::Forward, Intent::Read, &mut |t, row| {
            let id = t.get(row, Item::ID)?;
            assert!(t.find(items.primary(), &(id << 32 | 1 << 30), Intent::Read)?.is_none());
            Ok(ControlFlow::Continue(()))
        })
    });
    is_linear::<S>("with scans of their own", &|t, items, _| {
        t.scan(items.primary(), &0, &u64::MAX, Direction::Forward, Intent::Read, &mut |t, row| {
            let id = t.get(row, Item::ID)?;
            let visit = &mut |_: &mut _, _| Ok(ControlFlow::Continue(()));
            t.scan(items.primary(), &id, &(id + 1), Direction::Forward, Intent::Read, visit)?;
            Ok(ControlFlow::Continue(()))
        })
    });
}

#[test]
fn under_all_schemes() {
    concurrency::for_each_scheme!(S => { scans_are_linear::<S>(); });
}
