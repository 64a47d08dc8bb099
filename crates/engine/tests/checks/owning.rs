//! Sessions that own rows of a durable database in memory: checkpoints that the owners make, and
//! stamps of transactions after owners.

use boundary::{
    Bounds, Branches, Database, DurableOptions, Ending, OtherBranches, Recovered, SchemaBuilder, Session,
    Transaction, Verbs,
};
use concurrency::{InstanceOptions, SchemeName};
use platform::{Intent, Place, Platform};
use redo_log::LogOptions;
use schema::{Row, Schema, Table, TableOptions};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use terms::Abort;

type P = VirtualMachine;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Item {
    id: u64,
    value: u64,
}

/// An epoch that does not end by itself.
const LONG_NANOS: u64 = 1 << 40;
const SHORT_NANOS: u64 = 10_000;

fn open(c: VirtualCore, epoch_nanos: u64, checkpoint_bytes: u64) -> (Database<P>, Table<Item>, Recovered) {
    let mut schema = SchemaBuilder::new();
    let items = schema.table::<Item>("items", TableOptions::default());
    let instance = InstanceOptions {
        sessions_max: 6,
        memory_bytes_max: 256 << 20,
        epoch_nanos,
        ..InstanceOptions::default()
    };
    let log = LogOptions { segment_bytes: 1 << 20, buffer_bytes: 64 << 10, ..LogOptions::default() };
    let durable = DurableOptions {
        log,
        checkpoint_bytes,
        places: vec![Place { thread: None }; 2],
        ..DurableOptions::new("d".into())
    };
    let opened = engine_simulated::open(SchemeName::Hstore, c, &instance, schema, &|_| None, &durable, None);
    let (database, recovered) = opened.expect("a database");
    (database, items, recovered)
}

fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(disk);
    VirtualMachine::run(&config, program).expect("a run").value
}

fn branches<'s>(session: &'s mut Session<'_>) -> &'s mut dyn Branches {
    session.object().branches().expect("the scheme has branches")
}

fn set(branches: &mut dyn Branches, branch: usize, items: Table<Item>, id: u64, value: u64) {
    let acted = branches.act(branch, None, &mut |verbs| {
        let mut t = Transaction::new(verbs);
        let row = t.find(items.primary(), &id, Intent::Write)?.ok_or(Abort::Misuse("no item"))?;
        t.put(row, Item::VALUE, &value)
    });
    assert_eq!(acted, Ok(()));
}

/// Changes an item in a branch, and commits that.
fn change(session: &mut Session<'_>, items: Table<Item>, id: u64, value: u64) {
    let branches = branches(session);
    let branch = branches.begin().expect("a branch");
    set(branches, branch, items, id, value);
    branches.commit(Some(branch), &OtherBranches::default()).expect("a commit");
    branches.end(branch, None);
}

/// Loads items with the value 0, and closes the database.
fn load(disk: &Disk, count: u64) {
    const TOGETHER: usize = 64;
    run(disk, |c| {
        let (database, items, _) = open(c, SHORT_NANOS, u64::MAX);
        let mut session = database.session(c, None, false).expect("a session");
        for first in (0..count).step_by(TOGETHER) {
            let inserted = session.transact(&Bounds::default(), |t| {
                let ids = first..count.min(first + TOGETHER as u64);
                ids.into_iter().try_for_each(|id| t.insert(items, &Item { id, value: 0 }))
            });
            assert!(matches!(inserted, Ok(Ending::Committed(..))));
        }
        drop(session);
        database.close(c).expect("closed");
    });
}

/// The value of an item in a database that is opened after a loss of power, and the opening.
fn recovered(disk: &Disk, id: u64) -> (u64, Recovered) {
    disk.lose_power();
    run(disk, |c| {
        let (database, items, recovered) = open(c, SHORT_NANOS, u64::MAX);
        let mut session = database.session(c, None, false).expect("a session");
        let read = session.transact(&Bounds::default(), |t| {
            let row = t.find(items.primary(), &id, Intent::Read)?.ok_or(Abort::Misuse("no item"))?;
            t.get(row, Item::VALUE)
        });
        let Ok(Ending::Committed(value, _)) = read else { panic!("{read:?}") };
        (value, recovered)
    })
}

/// One turn of an owner: it tends its session, and copies rows that it owns and that are free.
fn turn(session: &mut Session<'_>, c: VirtualCore, is_free: &dyn Fn(u64) -> bool) {
    // Longer than the session rests from a checkpoint.
    P::pause(c, 1_000_000);
    session.object().tend(P::now(c));
    branches(session).copy_rows(P::now(c), &|_, key| is_free(key[0]));
}

/// A checkpoint waits for an open branch only while it lacks rows that the branch has locked.
#[test]
fn an_owners_checkpoint_ends_while_a_branch_is_open() {
    const COUNT: u64 = 200;
    const HELD: u64 = 77;
    for is_locked in [true, false] {
        let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
        load(&disk, COUNT);
        run(&disk, |c| {
            let (database, items, _) = open(c, SHORT_NANOS, 0);
            let mut session = database.session(c, None, false).expect("a session");
            let before = database.object().checkpoints(c).0;
            branches(&mut session).begin_owning();
            let branch = branches(&mut session).begin().expect("a branch");
            if is_locked {
                set(branches(&mut session), branch, items, HELD, 1);
            }
            (0..40).for_each(|_| turn(&mut session, c, &|id| !is_locked || id != HELD));
            assert_eq!(database.object().checkpoints(c).0 > before, !is_locked, "locked: {is_locked}");
            set(branches(&mut session), branch, items, HELD, 1);
            let committed = branches(&mut session).commit(Some(branch), &OtherBranches::default());
            branches(&mut session).end(branch, None);
            (0..40).for_each(|_| turn(&mut session, c, &|_| true));
            assert!(database.object().checkpoints(c).0 > before);
            session.wait_durable(committed.expect("a commit").durable_with).expect("durable");
        });
        assert_eq!(recovered(&disk, HELD).0, 1);
    }
}

/// When as many lists of keys wait for their owners as may wait, owners that find none of their own
/// wait too, and the checkpoint ends as soon as the others have copied theirs.
#[test]
fn a_checkpoint_ends_though_one_owner_comes_late() {
    // More than 1,024 lists of 64 keys.
    const COUNT: u64 = 1_100 * 64;
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    load(&disk, COUNT);
    run(&disk, |c| {
        let (database, _, _) = open(c, SHORT_NANOS, 0);
        let mut early = database.session(c, None, false).expect("a session");
        let mut late = database.session(c, None, false).expect("a session");
        let before = database.object().checkpoints(c).0;
        branches(&mut early).begin_owning();
        branches(&mut late).begin_owning();
        let is_late = |id: u64| id < COUNT - 1;
        (0..1_300).for_each(|_| turn(&mut early, c, &|id| !is_late(id)));
        assert_eq!(database.object().checkpoints(c).0, before, "rows are missing");
        let turns = (0..3_000).find(|_| {
            turn(&mut late, c, &is_late);
            turn(&mut early, c, &|id| !is_late(id));
            database.object().checkpoints(c).0 > before
        });
        assert!(turns.is_some_and(|turns| turns < 1_500), "{turns:?}");
        assert_eq!(database.object().checkpoints(c).1, Ok(()));
    });
    assert_eq!(recovered(&disk, COUNT - 1).1.rows, COUNT);
}

/// Transactions that are no branches do not know the stamps of owners: the epoch orders them.
#[test]
fn transactions_after_owners_have_larger_stamps() {
    let disk = Disk::new(DiskModel::NVME, DiskFaults::default());
    load(&disk, 10);
    run(&disk, |c| {
        let (database, items, _) = open(c, LONG_NANOS, u64::MAX);
        let mut session = database.session(c, None, false).expect("a session");
        branches(&mut session).begin_owning();
        (1..9).for_each(|value| change(&mut session, items, 3, value));
        branches(&mut session).end_owning();
        let ending = session.transact(&Bounds::default(), |t| {
            let row = t.find(items.primary(), &3, Intent::Write)?.ok_or(Abort::Misuse("no item"))?;
            t.put(row, Item::VALUE, &100)
        });
        let Ok(Ending::Committed((), stamp)) = ending else { panic!("{ending:?}") };
        session.wait_durable(stamp).expect("durable");
    });
    assert_eq!(recovered(&disk, 3).0, 100);
}
