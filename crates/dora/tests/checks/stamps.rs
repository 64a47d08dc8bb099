//! Keys that move to another owner within an epoch: later commits over them have larger stamps.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use boundary::{Bounds, Database, Ending, Plan, Procedure, Verbs};
use dora::{Actions, Borders, Dynamic, OwnerWorker, Shared, Typed};
use platform::{Intent, Platform};
use repartitioning::{Change, Core, Table as Division};
use schema::{Routes, Row, Table};
use serde::{Deserialize, Serialize};
use sim::{Disk, DiskFaults, DiskModel, VirtualCore, VirtualMachine};
use terms::{Abort, Fault, Faults};

use crate::support::{PLACES, SITE, open, run};

type P = VirtualMachine;

/// No epoch ends by itself.
const EPOCH_NANOS: u64 = 1 << 40;
/// Commits of the first owner, of whose stamps the second one learns by the move alone.
const COMMITS: u64 = 20;
const LAST: u64 = 1_000;

#[derive(Row, Clone, Debug)]
#[row(key(site))]
struct Value {
    site: u16,
    value: u64,
}

/// Sets the value of the first site.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Set(u64);

impl Procedure for Set {
    type Tables = Table<Value>;
    type Action = Set;
    type Output = ();

    fn plan(&mut self, phase: usize, actions: &mut Vec<Set>) -> Plan {
        if phase > 0 {
            return Plan::Commit;
        }
        actions.push(self.clone());
        Plan::Run
    }

    fn route(values: &Table<Value>, _: &Set, route: &mut Routes) {
        route.write(*values, &0u16);
    }

    fn execute<T: Verbs>(values: &Table<Value>, set: &Set, t: &mut T) -> Result<(), Abort> {
        match t.find(values.primary(), &0, Intent::Write)? {
            Some(row) => t.put(row, Value::VALUE, &set.0),
            None => t.insert(*values, &Value { site: 0, value: set.0 }),
        }
    }

    fn absorb(&mut self, _: usize, _: usize, (): ()) {}
}

fn work(
    c: VirtualCore,
    number: usize,
    (database, values, shared): (&Database<P>, Table<Value>, &Shared<P>),
    has_moved: &AtomicBool,
) {
    let mut session = database.session(c, None, false).expect("a session");
    let mut actions = Actions::<Set>::new(2);
    let mut worker = OwnerWorker::new(c, shared, number, SITE).expect("memory");
    let branches = session.object().branches().expect("branches");
    branches.begin_owning();
    let mut last = None;
    if number == 0 {
        for value in 0..COMMITS {
            let mut set = Set(value);
            let executor = &mut Typed::new(Dynamic(branches), &values, &mut actions, Some(&mut set));
            let ending = worker.run(executor, &Bounds::default());
            assert!(matches!(ending, Ok(Ending::Committed(..))), "{ending:?}");
        }
        let executor = &mut Typed::new(Dynamic(branches), &values, &mut actions, None);
        let change = Change::Move { table: Division(0), low: 0, to: Core(1) };
        worker.rearrange(executor, &[change], Borders::Logical).expect("all are there").expect("a move");
        has_moved.store(true, Relaxed);
    } else {
        while !has_moved.load(Relaxed) {
            worker.attend(&mut Typed::new(Dynamic(branches), &values, &mut actions, None)).expect("served");
        }
        let mut set = Set(LAST);
        let executor = &mut Typed::new(Dynamic(branches), &values, &mut actions, Some(&mut set));
        let Ok(Ending::Committed((), commit)) = worker.run(executor, &Bounds::default()) else {
            panic!("no other transaction runs");
        };
        last = Some(commit);
    }
    worker.leave(&mut Typed::new(Dynamic(branches), &values, &mut actions, None)).expect("all are there");
    branches.end_owning();
    last.into_iter().for_each(|commit| session.wait_durable(commit).expect("durable"));
}

/// The value that is there after a crash.
fn recovered(faults: Faults) -> u64 {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    run(&disk, |c| {
        let (database, values, shared) = open(c, EPOCH_NANOS);
        let (shared, has_moved) = (shared.with_faults(faults), AtomicBool::new(false));
        let worker = |c, number: usize| work(c, number, (&database, values, &shared), &has_moved);
        VirtualMachine::parallel(c, &PLACES, &worker, &mut |_| ());
    });
    disk.lose_power();
    run(&disk, |c| {
        let (database, values, _) = open::<Value>(c, EPOCH_NANOS);
        let mut session = database.session(c, None, false).expect("a session");
        let read = session.transact(&Bounds::default(), |t| {
            let row = t.find(values.primary(), &0, Intent::Read)?.ok_or(Abort::Misuse("no value"))?;
            t.get(row, Value::VALUE)
        });
        let Ok(Ending::Committed(value, _)) = read else { panic!("{read:?}") };
        value
    })
}

#[test]
fn stamps_move_with_keys() {
    assert_eq!(recovered(Faults::NONE), LAST);
    // Recovery repeats the changes of the first owner after that of the second one.
    assert_ne!(recovered(Faults::of(&[Fault::UnexchangedStamps])), LAST, "the mutant was not noticed");
}
