//! Epochs and transactions: a session that sleeps inside an epoch does not delay the durability of
//! other sessions, decisions wait for the rows that they follow from, and an exhaustion of epoch
//! numbers is reported.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use boundary::{Bounds, Commit, DurableOptions, Ending, OpenError, SchemaBuilder, Verbs};
use concurrency::{Hstore, InstanceOptions, Scheme, Silo};
use engine::{MemoryDatabase, MemorySession};
use platform::files::Files;
use platform::{Intent, Nanos, Place, Platform};
use redo_log::{Generation, LogError, LogOptions, Manifest};
use schema::{Inspector, Row, Schema, Table, TableOptions};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use terms::{Abort, Epoch, Fault, Faults};

type P = VirtualMachine;

const SECOND: u64 = 1_000_000_000;
/// How long a session sleeps inside a transaction.
const SLEEP_NANOS: u64 = 5 * SECOND;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Item {
    id: u64,
    value: u64,
}

/// Two tables: rows that are used, and rows that a sleeper reads.
#[derive(Clone, Copy)]
struct Tables {
    items: Table<Item>,
    others: Table<Item>,
}

type Opened<S> = Result<(MemoryDatabase<P, S>, Tables), OpenError>;

fn open<S: Scheme<P>>(c: VirtualCore) -> Opened<S> {
    open_without(c, &[])
}

/// The same under a mutant.
fn open_without<S: Scheme<P>>(c: VirtualCore, faults: &[Fault]) -> Opened<S> {
    let mut schema = SchemaBuilder::new();
    let items = schema.table::<Item>("items", TableOptions::default());
    let others = schema.table::<Item>("others", TableOptions::default());
    let instance = InstanceOptions {
        sessions_max: 4,
        memory_bytes_max: 64 << 20,
        epoch_nanos: 1_000_000,
        faults: Faults::of(faults),
        ..InstanceOptions::default()
    };
    let log = LogOptions { segment_bytes: 32 << 10, buffer_bytes: 4096, ..LogOptions::default() };
    let durable = DurableOptions { log, checkpoint_bytes: u64::MAX, ..DurableOptions::new("d".into()) };
    let opened = MemoryDatabase::open(c, &instance, schema, &|_| None, &durable);
    opened.map(|(database, _)| (database, Tables { items, others }))
}

fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(disk);
    VirtualMachine::run(&config, program).expect("a run").value
}

fn disk() -> Disk {
    Disk::new(DiskModel::NVME, DiskFaults::default())
}

/// Inserts a row; the commit is not durable yet.
fn insert<S: Scheme<P>>(
    session: &mut MemorySession<'_, P, S>,
    table: Table<Item>,
    id: u64,
) -> Result<Commit, Abort> {
    match session.transact(&Bounds::default(), |t| t.insert(table, &Item { id, value: 7 }))? {
        Ending::Committed((), commit) => Ok(commit),
        Ending::RolledBack(_) => unreachable!("it does not"),
    }
}

fn ids<S: Scheme<P>>(database: &MemoryDatabase<P, S>, c: VirtualCore, table: Table<Item>) -> Vec<u64> {
    let mut ids = Vec::new();
    database.inspector(c).scan(table.primary(), &0, &u64::MAX, &mut |item: &Item| ids.push(item.id));
    ids
}

macro_rules! under_all_schemes {
    ($($test:ident, $check:ident;)*) => { $(
        #[test]
        fn $test() {
            concurrency::for_each_scheme!(S => { $check::<S>(); });
        }
    )* };
}

under_all_schemes! {
    who_sleeps_inside_a_transaction_holds_up_no_commit, sleeps_beside_commits;
    who_sleeps_inside_a_transaction_holds_up_no_checkpoint, sleeps_beside_a_checkpoint;
    decisions_are_told_when_what_they_follow_from_is_durable, reports_when_durable;
    epochs_go_on_beyond_32_bits, crosses_32_bits;
    the_log_stops_before_the_last_epoch, stops_at_the_end;
}

/// Runs `beside` while another worker sleeps inside a transaction in which it has read a row: what
/// it gives, and when that was before the other woke up.
fn beside_a_sleeper<S: Scheme<P>, T: Send>(
    c: VirtualCore,
    database: &MemoryDatabase<P, S>,
    tables: Tables,
    beside: &(dyn Fn(&mut MemorySession<'_, P, S>) -> T + Sync),
) -> (T, bool) {
    let (inside, awake) = (AtomicBool::new(false), AtomicBool::new(false));
    let result = std::sync::Mutex::new(None);
    let worker = |c: VirtualCore, number: usize| {
        let mut session = database.session(c, None, false).expect("a session");
        if number == 0 {
            let slept = session.transact(&Bounds::default(), |t| {
                let row = t.find(tables.others.primary(), &1, Intent::Read)?.expect("it is there");
                let value = t.get(row, Item::VALUE)?;
                inside.store(true, Ordering::SeqCst);
                P::pause(c, SLEEP_NANOS);
                awake.store(true, Ordering::SeqCst);
                Ok(value)
            });
            assert!(matches!(slept, Ok(Ending::Committed(7, _))), "{}: {slept:?}", S::NAME);
        } else {
            while !inside.load(Ordering::SeqCst) {
                P::pause(c, 1_000);
            }
            let value = beside(&mut session);
            *result.lock().expect("no panic") = Some((value, !awake.load(Ordering::SeqCst)));
        }
    };
    P::parallel(c, &[Place { thread: None }; 2], &worker, &mut |_| ());
    result.into_inner().expect("no panic").expect("it was run")
}

fn sleeps_beside_commits<S: Scheme<P>>() {
    run(&disk(), |c| {
        let (database, tables) = open::<S>(c).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        insert(&mut session, tables.others, 1).expect("inserted");
        session.idle();
        let (nanos, before) = beside_a_sleeper(c, &database, tables, &|session| {
            let began = P::now(session.core());
            for id in 0..50 {
                let commit = insert(session, tables.items, id).expect("inserted");
                session.wait_durable(commit).expect("durable");
            }
            P::now(session.core()).since(began)
        });
        assert!(before && nanos < SECOND / 10, "{}: {nanos} ns", S::NAME);
    });
}

fn sleeps_beside_a_checkpoint<S: Scheme<P>>() {
    let disk = disk();
    run(&disk, |c| {
        let (database, tables) = open::<S>(c).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        insert(&mut session, tables.others, 1).expect("inserted");
        for id in 0..200 {
            insert(&mut session, tables.items, id).expect("inserted");
        }
        session.idle();
        if S::NAME == "hstore" {
            // A session that has read a row has its partition to itself, and keeps it from being
            // copied too.
            return;
        }
        let (made, before) = beside_a_sleeper(c, &database, tables, &|session| session.checkpoint());
        assert_eq!((made.expect("a checkpoint"), before), (true, true), "{}", S::NAME);
    });
}

/// Under `hstore` a transaction that has touched nothing yet sleeps.
#[test]
fn who_sleeps_before_the_first_row_holds_up_no_checkpoint() {
    run(&disk(), |c| {
        let (database, tables) = open::<Hstore>(c).expect("a database");
        let session = || database.session(c, None, false).expect("a session");
        let (mut first, mut other) = (session(), session());
        insert(&mut first, tables.items, 1).expect("inserted");
        let ended = first.transact(&Bounds::default(), |t| {
            assert!(other.checkpoint().expect("a checkpoint"));
            t.insert(tables.items, &Item { id: 2, value: 7 })
        });
        assert!(matches!(ended, Ok(Ending::Committed((), _))));
    });
}

/// A wait for durability ends at the deadline, and the transaction becomes durable nevertheless.
#[test]
fn waiting_ends_at_the_deadline() {
    run(&Disk::new(DiskModel::HDD, DiskFaults::default()), |c| {
        let (database, tables) = open::<Silo>(c).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        let commit = insert(&mut session, tables.items, 1).expect("inserted");
        for wait in [0, 10_000, 100_000] {
            let deadline = P::now(c).plus(wait);
            assert_eq!(session.wait_durable_until(commit, Some(deadline)), Ok(false));
            let late = P::now(c).since(deadline);
            assert!(late < 50_000, "{late} ns late");
        }
        assert!(!session.is_durable(commit));
        assert_eq!(session.wait_durable_until(commit, Some(Nanos(u64::MAX))), Ok(true));
        assert!(session.is_durable(commit));
    });
}

/// A session reads a row that is not durable yet, rolls back, and reports that; or cannot insert it
/// again, and reports that. Then the power is lost: the reported state must still be true.
fn report_before_loss<S: Scheme<P>>(faults: &[Fault]) {
    for duplicate in [false, true] {
        let disk = disk();
        run(&disk, |c| {
            let (database, tables) = open_without::<S>(c, faults).expect("a database");
            let session = || database.session(c, None, false).expect("a session");
            let (mut writer, mut reader) = (session(), session());
            // No session waits for it.
            insert(&mut writer, tables.items, 1).expect("inserted");
            writer.idle();
            let ended = reader.transact(&Bounds::default(), |t| {
                if duplicate {
                    return t.insert(tables.items, &Item { id: 1, value: 8 });
                }
                let row = t.find(tables.items.primary(), &1, Intent::Read)?.expect("it is there");
                assert_eq!(t.get(row, Item::VALUE)?, 7);
                Err(Abort::RollBack)
            });
            match ended {
                Ok(Ending::RolledBack(depends_on)) => reader.wait_durable(depends_on).expect("durable"),
                Err(Abort::Duplicate { .. }) => {}
                other => panic!("{}: {other:?}", S::NAME),
            }
        });
        // Reported. Now it has to stay true.
        disk.lose_power();
        let found = run(&disk, |c| {
            let (database, tables) = open_without::<S>(c, faults).expect("a database");
            ids(&database, c, tables.items)
        });
        assert_eq!(found, [1], "{}: a reported state is lost", S::NAME);
    }
}

fn reports_when_durable<S: Scheme<P>>() {
    report_before_loss::<S>(&[]);
}

#[test]
#[should_panic(expected = "a reported state is lost")]
fn mutant_decisions_are_reported_at_once() {
    report_before_loss::<Silo>(&[Fault::EarlyReaders]);
}

/// A transaction that rolls back for what it has read waits for that and no more.
#[test]
fn decisions_wait_for_what_was_read_only() {
    run(&disk(), |c| {
        let (database, tables) = open::<Silo>(c).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        let old = insert(&mut session, tables.items, 1).expect("inserted");
        session.wait_durable(old).expect("durable");
        insert(&mut session, tables.items, 2).expect("inserted");
        let mut decide = |id: u64| {
            let ended = session.transact(&Bounds::default(), |t| {
                let row =
                    t.find(tables.items.primary(), &id, Intent::Read)?.map(|row| t.get(row, Item::VALUE));
                row.transpose()?;
                Err::<(), _>(Abort::RollBack)
            });
            let Ok(Ending::RolledBack(depends_on)) = ended else { panic!("{ended:?}") };
            session.is_durable(depends_on)
        };
        assert_eq!([1, 2, 3].map(&mut decide), [true, false, false], "old, new, and absent");
    });
}

/// Makes the next opening of the directory begin with this epoch.
fn begin_at(c: VirtualCore, epoch: u64) {
    let directory = P::open_directory(c, Path::new("d"), false).expect("a directory");
    let mut queue = P::queue(c, &directory).expect("a queue");
    let mut manifest = Manifest::read::<P>(c, &mut queue).expect("read").expect("a manifest");
    let last = manifest.generations.last().expect("an opening");
    let (number, starts) = (last.number + 1, last.starts.clone());
    // An opening takes seven epochs for itself.
    let first_epoch = epoch - 7;
    let last_epoch = Some(first_epoch - 1);
    manifest.generations.push(Generation { number, identity: 0, starts, first_epoch, last_epoch });
    manifest.write::<P>(c, &mut queue).expect("written");
}

/// Makes a database whose next transactions begin in this epoch or one of the next few.
fn made_at<S: Scheme<P>>(epoch: u64) -> Disk {
    let disk = disk();
    run(&disk, |c| open::<S>(c).expect("a database").0.close(c).expect("closed"));
    // Filling takes some epochs more.
    run(&disk, |c| begin_at(c, epoch - 4));
    disk
}

fn crosses_32_bits<S: Scheme<P>>() {
    const EACH: u64 = 6;
    let before = u64::from(u32::MAX) - 2;
    let disk = made_at::<S>(before);
    for round in 0..4 {
        run(&disk, |c| {
            let (database, tables) = open::<S>(c).expect("a database");
            let epochs = database.instance().epochs();
            assert!(epochs.current(c).0 >= before);
            assert_eq!(round == 0, epochs.current(c).0 <= u64::from(u32::MAX), "{}", S::NAME);
            let known: Vec<_> = (0..round * EACH).collect();
            assert_eq!(ids(&database, c, tables.items), known, "{}: round {round}", S::NAME);
            let mut session = database.session(c, None, false).expect("a session");
            let mut last = None;
            for id in known.len() as u64..(round + 1) * EACH {
                let commit = insert(&mut session, tables.items, id).expect("inserted");
                assert!(last < Some(commit.stamp), "{}", S::NAME);
                assert!(commit.stamp.epoch() >= Epoch(before), "{}", S::NAME);
                assert!(!session.is_durable(commit), "{}: acknowledged before it is flushed", S::NAME);
                session.wait_durable(commit).expect("durable");
                last = Some(commit.stamp);
            }
            // Overwrites after overwrites, within an epoch and beyond.
            for value in 0..EACH {
                let ended = session.transact(&Bounds::default(), |t| {
                    let row = t.find(tables.items.primary(), &0, Intent::Write)?.expect("it is there");
                    t.replace(row, &Item { id: 0, value })
                });
                assert!(matches!(ended, Ok(Ending::Committed((), commit)) if last < Some(commit.stamp)));
            }
            assert!(epochs.current(c).0 > u64::from(u32::MAX), "{}", S::NAME);
        });
        disk.lose_power();
    }
}

fn stops_at_the_end<S: Scheme<P>>() {
    let disk = made_at::<S>(Epoch::LAST.0 - 20);
    let acknowledged = run(&disk, |c| {
        let (database, tables) = open::<S>(c).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        for id in 0..100 {
            let done = insert(&mut session, tables.items, id).and_then(|commit| session.wait_durable(commit));
            if let Err(abort) = done {
                let Abort::NotDurable(reason) = &abort else { panic!("{}: {abort}", S::NAME) };
                assert!(reason.contains("used up its epochs"), "{}: {reason}", S::NAME);
                let again = insert(&mut session, tables.items, 1000);
                assert_eq!(again.map(drop), Err(abort), "{}: nothing commits any more", S::NAME);
                return id;
            }
        }
        panic!("{}: it goes on", S::NAME)
    });
    assert!(acknowledged > 2, "{}", S::NAME);
    disk.lose_power();
    run(&disk, |c| {
        assert!(matches!(open::<S>(c), Err(OpenError::Log(LogError::NoEpochs))), "{}", S::NAME);
    });
}
