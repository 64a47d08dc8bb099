//! Tables that come and go while the database is open: with crashes at any moment, and while other
//! sessions use them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use boundary::{Bounds, ChangeError, Ending, OpenError, SchemaBuilder, Swept, Verbs};
use concurrency::{InstanceOptions, SchemeName};
use platform::{Intent, Place, Platform};
use schema::{Row, Table};
use sim::{Crash, Disk, DiskFaults, DiskModel, SimError, VirtualCore, VirtualMachine};
use terms::Abort;
use terms::rows::KeyBounds;

use crate::changing::{
    ByA, Content, Database, Item, P, checked, config, contents, durable, insert, instance, item, run, table,
    transact,
};
use crate::support::Random;

/// Room for tables.
const SPARE: usize = 12;
const NAMES: [&str; 3] = ["north", "east", "south"];
pub(crate) const SCHEMES: [SchemeName; 4] =
    [SchemeName::Silo, SchemeName::NoWait, SchemeName::Mvcc, SchemeName::Hstore];

type Rows = BTreeMap<u32, Content>;
type Model = BTreeMap<&'static str, Rows>;
pub(crate) type Handles = BTreeMap<&'static str, Table<ByA>>;

pub(crate) fn options() -> InstanceOptions {
    InstanceOptions { spare_tables: SPARE, sessions_max: 3, ..instance() }
}

pub(crate) fn open<'n>(
    scheme: SchemeName,
    c: VirtualCore,
    names: impl Iterator<Item = &'n &'static str>,
) -> (Database, Handles) {
    try_to_open(scheme, c, names).expect("a database")
}

fn try_to_open<'n>(
    scheme: SchemeName,
    c: VirtualCore,
    names: impl Iterator<Item = &'n &'static str>,
) -> Result<(Database, Handles), OpenError> {
    let mut schema = SchemaBuilder::new();
    let handles = names.map(|name| (*name, table::<ByA>(&mut schema, name))).collect();
    let opened = engine_simulated::open(scheme, c, &options(), schema, &|_| None, &durable(), None);
    opened.map(|(database, _)| (database, handles))
}

/// True if the disk has refused.
fn is_refusal(error: &OpenError) -> bool {
    matches!(error, OpenError::Log(error) if error.file().is_some())
}

fn one_table(name: &'static str) -> SchemaBuilder {
    let mut schema = SchemaBuilder::new();
    table::<ByA>(&mut schema, name);
    schema
}

/// The expected content: after all acknowledged steps, or after the step under way as well.
#[derive(Clone, Default)]
struct Expected {
    acknowledged: Model,
    under_way: Option<(Step, Model)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Create,
    Drop,
    Change,
}

/// One random step; what is known of it is in `expected` before anything happens, and after it has
/// returned. False if the log has stopped, which may be only where a disk `refuses`.
fn step(
    database: &Database,
    c: VirtualCore,
    refuses: bool,
    handles: &mut Handles,
    random: &mut Random,
    expected: &Mutex<Expected>,
) -> bool {
    let model = expected.lock().expect("no panic").acknowledged.clone();
    let mut next = model.clone();
    let name = NAMES[random.below(NAMES.len() as u64) as usize];
    let begin = |step, next: Model| expected.lock().expect("no panic").under_way = Some((step, next));
    let mut session = database.session(c, None, false).expect("a session");
    match (random.below(8), model.get(name)) {
        (0 | 1, Some(_)) => {
            next.remove(name);
            begin(Step::Drop, next.clone());
            match session.object().drop_table(handles[name].number()) {
                Ok(()) => drop(handles.remove(name)),
                Err(ChangeError::Log(_)) if refuses => return refused(Step::Drop, expected),
                Err(error) => panic!("{error}"),
            }
            if random.chance(50) {
                while session.object().sweep() != Swept::All {}
            }
        }
        (_, None) => {
            next.insert(name, Rows::new());
            begin(Step::Create, next.clone());
            match session.object().create_table(one_table(name)) {
                Ok(number) => drop(handles.insert(name, Table::new(number))),
                Err(ChangeError::NoRoom) => {
                    expected.lock().expect("no panic").under_way = None;
                    return true;
                }
                Err(ChangeError::Log(_)) if refuses => return refused(Step::Create, expected),
                Err(error) => panic!("{error}"),
            }
        }
        (2, Some(_)) => {
            assert_eq!(
                session
                    .object()
                    .create_table(one_table(name))
                    .map_err(|e| matches!(e, ChangeError::Table(_))),
                Err(true)
            );
            let made = session.checkpoint();
            assert!(made == Ok(true) || refuses && made.is_err(), "{made:?}");
            return true;
        }
        (_, Some(rows)) => {
            let row = item(random.below(12) as u32, random.below(9) as u32);
            next.get_mut(name).expect("it is there").insert(row.0, row.clone());
            begin(Step::Change, next.clone());
            let (table, is_there, row) = (handles[name], rows.contains_key(&row.0), ByA::make(row));
            let changed = session.transact(&Bounds::default(), |t| {
                if !is_there {
                    return t.insert(table, &row);
                }
                let found = t.find(table.primary(), &row.key(), Intent::Write)?;
                t.replace(found.ok_or(Abort::Misuse("it is there"))?, &row)
            });
            let durable = changed.and_then(|ending| match ending {
                Ending::Committed((), commit) => session.wait_durable(commit),
                Ending::RolledBack(_) => panic!("rolled back"),
            });
            match durable {
                Ok(()) => {}
                Err(Abort::NotDurable(_)) if refuses => return false,
                Err(abort) => panic!("{abort}"),
            }
        }
    }
    *expected.lock().expect("no panic") = Expected { acknowledged: next, under_way: None };
    true
}

/// The directory cannot be changed: nothing has happened, and the database is used on.
fn refused(step: Step, expected: &Mutex<Expected>) -> bool {
    expected.lock().expect("no panic").under_way = None;
    REFUSED[usize::from(step == Step::Drop)].fetch_add(1, Ordering::SeqCst);
    true
}

/// Creations and drops that a disk refused.
static REFUSED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// How crashes left the steps that were under way: created or dropped before, and after.
static BEFORE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static AFTER: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The faults of a disk that refuses.
fn refusing(seed: u64) -> DiskFaults {
    let mut random = Random::new(seed, 2);
    DiskFaults {
        seed,
        garbage_one_in: [0, 3][random.below(2) as usize],
        flush_failure_one_in: [0, 6, 20, 60][random.below(4) as usize],
        capacity_bytes: [u64::MAX, 90_000, 140_000][random.below(3) as usize],
        ..DiskFaults::default()
    }
}

/// A life: steps, while another core makes checkpoints if one `helps`. The disk may refuse.
fn live(
    scheme: SchemeName,
    c: VirtualCore,
    refuses: bool,
    helps: bool,
    random: &mut Random,
    expected: &Mutex<Expected>,
) {
    let model = expected.lock().expect("no panic").acknowledged.clone();
    let (database, mut handles) = match try_to_open(scheme, c, model.keys()) {
        Ok(opened) => opened,
        Err(error) if refuses && is_refusal(&error) => return,
        Err(error) => panic!("{error}"),
    };
    for (name, handle) in &handles {
        let rows: Vec<_> = model[name].values().cloned().collect();
        assert_eq!(contents(&database, c, *handle), rows, "{name}");
    }
    let (over, steps) = (AtomicBool::new(!helps), Mutex::new((&mut handles, random)));
    let work = |c: VirtualCore, worker: usize| match worker {
        0 => {
            let (handles, random) = &mut *steps.lock().expect("no panic");
            let _ = (0..25).all(|_| step(&database, c, refuses, handles, random, expected));
            over.store(true, Ordering::SeqCst);
        }
        _ => {
            let mut session = database.session(c, None, false).expect("a session");
            while !over.load(Ordering::SeqCst) {
                let made = session.checkpoint();
                assert!(made == Ok(true) || refuses && made.is_err(), "{made:?}");
                session.idle();
                P::pause(c, 10_000);
            }
        }
    };
    P::parallel(c, &[Place { thread: None }; 2], &work, &mut |_| ());
}

/// Lives of a database that creates and drops tables, each ended by a crash, on a disk with these
/// faults.
fn lives(scheme: SchemeName, seed: u64, faults: DiskFaults) {
    let refuses = faults.flush_failure_one_in > 0 || faults.capacity_bytes < u64::MAX;
    let healthy = DiskFaults { seed, ..DiskFaults::default() };
    let disk = Disk::new(DiskModel::NVME, healthy);
    let mut random = Random::new(seed, 1);
    let mut model = Model::new();
    run(&disk, |c| drop(open(scheme, c, model.keys())));
    for life in 0..4 {
        disk.set_faults(DiskFaults { seed: seed << 8 | life, ..faults });
        let crash = match random.chance(60) {
            true => Crash::DiskOperation(1 + random.below(160)),
            false => Crash::Event(1 + random.below(4_000)),
        };
        let expected = Mutex::new(Expected { acknowledged: model.clone(), under_way: None });
        let helps = random.chance(50);
        let ended = VirtualMachine::run(&config(&disk).crashing(crash), |c| {
            live(scheme, c, refuses, helps, &mut random, &expected);
        });
        let whole = matches!(ended, Ok(_) | Err(SimError::Crashed { .. }));
        assert!(whole, "seed {seed} life {life}: {:?}", ended.err());
        if random.chance(70) {
            disk.lose_power();
        }
        let Expected { acknowledged, under_way } = expected.into_inner().expect("no panic");
        // An opening that is refused leaves the directory as it was.
        if refuses && !matches!(under_way, Some((Step::Drop, _))) {
            let refused = run(&disk, |c| try_to_open(scheme, c, acknowledged.keys()).map(drop).err());
            let undeclared = |error: &OpenError| matches!(error, OpenError::Schema(_));
            let is_expected =
                |error: &OpenError| is_refusal(error) || undeclared(error) && under_way.is_some();
            assert!(refused.as_ref().is_none_or(is_expected), "seed {seed} life {life}: {refused:?}");
        }
        disk.set_faults(healthy);
        let found: BTreeMap<String, u64> = checked(&disk).rows.into_iter().collect();
        let counts = |model: &Model| -> BTreeMap<String, u64> {
            model.iter().map(|(name, rows)| ((*name).to_owned(), rows.len() as u64)).collect()
        };
        let is_whole = |model: &Model| {
            counts(model) == found
                && run(&disk, |c| {
                    let (database, handles) = open(scheme, c, model.keys());
                    let mut tables = handles.iter();
                    tables.all(|(name, handle)| {
                        let rows: Vec<_> = model[name].values().cloned().collect();
                        contents(&database, c, *handle) == rows
                    })
                })
        };
        let mark = |marks: &[AtomicU64; 2]| match &under_way {
            Some((Step::Create, _)) => drop(marks[0].fetch_add(1, Ordering::SeqCst)),
            Some((Step::Drop, _)) => drop(marks[1].fetch_add(1, Ordering::SeqCst)),
            _ => {}
        };
        model = match &under_way {
            Some((_, after)) if is_whole(after) => {
                mark(&AFTER);
                after.clone()
            }
            _ => {
                mark(&BEFORE);
                let whole = is_whole(&acknowledged);
                assert!(whole, "seed {seed} life {life} {crash:?}: {found:?} after {acknowledged:?}");
                acknowledged
            }
        };
    }
}

#[test]
fn a_crash_leaves_the_tables_before_a_step_or_those_after() {
    for seed in 0..120 {
        lives(SCHEMES[seed as usize % SCHEMES.len()], seed, DiskFaults { seed, ..DiskFaults::default() });
    }
    let counts = |marks: &[AtomicU64; 2]| [0, 1].map(|step| marks[step].load(Ordering::SeqCst));
    let (before, after) = (counts(&BEFORE), counts(&AFTER));
    assert!(before.iter().chain(&after).all(|count| *count > 1), "{before:?} before, {after:?} after");
}

#[test]
fn disks_that_refuse_leave_the_tables_before_a_step_or_those_after() {
    // Seed 167 has a checkpoint during a drop which is refused.
    for seed in 130..190 {
        lives(SCHEMES[seed as usize % SCHEMES.len()], seed, refusing(seed));
    }
    let refused = [0, 1].map(|step| REFUSED[step].load(Ordering::SeqCst));
    assert!(refused.iter().all(|count| *count > 3), "{refused:?} creations and drops were refused");
}

/// A manifest that a disk does not take: no table has come or gone, and all can be used.
#[test]
fn what_a_disk_refuses_has_not_happened() {
    let (healthy, full) = (DiskFaults::default(), DiskFaults { capacity_bytes: 0, ..DiskFaults::default() });
    let failing = DiskFaults { flush_failure_one_in: 1, ..healthy };
    for (scheme, faults) in SCHEMES.into_iter().zip([full, failing, full, failing]) {
        let disk = Disk::new(DiskModel::NVME, healthy);
        run(&disk, |c| {
            let (database, handles) = open(scheme, c, ["north", "east"].iter());
            let (north, east) = (handles["north"], handles["east"]);
            assert!((0..9).all(|id| insert(&database, c, north, item(id, id))));
            let mut session = database.session(c, None, false).expect("a session");
            disk.set_faults(faults);
            let refused = session.object().create_table(one_table("south"));
            assert!(matches!(refused, Err(ChangeError::Log(_))), "{refused:?}");
            let refused = session.object().drop_table(north.number());
            assert!(matches!(refused, Err(ChangeError::Log(_))), "{refused:?}");
            assert_eq!(session.object().sweep(), Swept::All);
            disk.set_faults(healthy);
            assert!(insert(&database, c, north, item(9, 9)));
            assert_eq!(session.checkpoint(), Ok(true));
            let south: Table<ByA> =
                Table::new(session.object().create_table(one_table("south")).expect("room"));
            assert_eq!(session.object().drop_table(east.number()), Ok(()));
            assert!(insert(&database, c, south, item(1, 1)));
        });
        disk.lose_power();
        assert_eq!(checked(&disk).rows, [("north".to_owned(), 10), ("south".to_owned(), 1)]);
        run(&disk, |c| {
            let (database, handles) = open(scheme, c, ["north", "south"].iter());
            assert_eq!(
                contents(&database, c, handles["north"]),
                (0..10).map(|id| item(id, id)).collect::<Vec<_>>()
            );
            assert_eq!(contents(&database, c, handles["south"]), [item(1, 1)]);
        });
    }
}

/// The table that others may use; none.
const NONE: usize = usize::MAX;

/// One core creates a table, drops it and lets its rows go, again and again, while others change it
/// together with another table.
fn others_go_on(scheme: SchemeName, seed: u64, refused: &mut u64) {
    let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..DiskFaults::default() });
    let now = AtomicUsize::new(NONE);
    let (committed, hits) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    let program = |c: VirtualCore| {
        let mut schema = SchemaBuilder::new();
        let kept = table::<ByA>(&mut schema, "kept");
        let options = InstanceOptions { sessions_max: 4, ..options() };
        let opened = engine_simulated::open(scheme, c, &options, schema, &|_| None, &durable(), None);
        let database = opened.expect("a database").0;
        let changes = |c: VirtualCore| {
            let mut session = database.session(c, None, false).expect("a session");
            for _ in 0..SPARE {
                let number = session.object().create_table(one_table("coming")).expect("there is room");
                let table: Table<ByA> = Table::new(number);
                now.store(number, Ordering::SeqCst);
                for id in 1_000..1_100 {
                    let row = ByA::make(item(id, id));
                    session.transact(&Bounds::default(), |t| t.insert(table, &row)).expect("a row");
                    session.tend(P::now(c));
                }
                now.store(NONE, Ordering::SeqCst);
                session.object().drop_table(number).expect("dropped");
                assert_eq!(session.object().drop_table(number), Err(ChangeError::NoSuchTable));
            }
            while session.object().sweep() != Swept::All {
                P::pause(c, 1_000);
            }
            now.store(NONE - 1, Ordering::SeqCst);
        };
        let uses = |c: VirtualCore, worker: u32| {
            let mut session = database.session(c, None, false).expect("a session");
            session.seed(u64::from(worker));
            let mut id = worker * 100_000;
            while now.load(Ordering::SeqCst) != NONE - 1 {
                id += 1;
                // A transaction that begins now can use what is listed now.
                let listed: Table<ByA> = Table::new(database.tables().len() - 1);
                let ending = session.transact(&Bounds::default(), |t| {
                    let number = now.load(Ordering::SeqCst);
                    if number >= NONE - 1 {
                        let found = t.find(listed.primary(), &0, Intent::Read);
                        assert!(
                            !matches!(found, Err(Abort::Misuse(_))),
                            "seed {seed}: {:?}",
                            found.map(drop)
                        );
                        return Err(Abort::RollBack);
                    }
                    let table: Table<ByA> = Table::new(number);
                    t.insert(table, &ByA::make(item(id, id)))?;
                    P::pause(c, u64::from(id % 7) * 2_000);
                    t.insert(kept, &ByA::make(item(id, id)))
                });
                match ending {
                    Ok(Ending::Committed(..)) => committed.lock().expect("no panic").push(id),
                    Ok(Ending::RolledBack(_)) => P::pause(c, 5_000),
                    Err(Abort::Misuse(_)) => drop(hits.fetch_add(1, Ordering::SeqCst)),
                    Err(abort) => panic!("{abort}"),
                }
                session.tend(P::now(c));
            }
        };
        let work = |c: VirtualCore, worker: usize| match worker {
            0 => changes(c),
            _ => uses(c, worker as u32),
        };
        P::parallel(c, &[Place { thread: None }; 3], &work, &mut |_| ());
        for number in 1..=SPARE {
            let mut rows = 0;
            database.object().inspect(
                c,
                number,
                0,
                KeyBounds { low: &[0], high: &[u64::MAX] },
                &mut |_, _| rows += 1,
            );
            assert_eq!(rows, 0, "rows of a dropped table stay");
        }
        database.close(c).expect("closed");
    };
    let perturbed = config(&disk).with_seed(seed).perturbed();
    VirtualMachine::run(&perturbed, program).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    *refused += hits.into_inner();
    let mut committed = committed.into_inner().expect("no panic");
    committed.sort_unstable();
    assert!(!committed.is_empty());
    disk.lose_power();
    assert_eq!(checked(&disk).rows, [("kept".to_owned(), committed.len() as u64)]);
    run(&disk, |c| {
        let (database, handles) = open(SchemeName::Silo, c, [&"kept"].into_iter());
        let found: Vec<u32> = contents(&database, c, handles["kept"]).iter().map(|row| row.0).collect();
        assert_eq!(found, committed);
    });
}

#[test]
fn other_sessions_go_on_while_a_table_comes_and_goes() {
    let mut refused = 0;
    for seed in 0..4 {
        for scheme in SchemeName::ALL {
            others_go_on(scheme, seed, &mut refused);
        }
    }
    assert!(refused > 0, "no commit has hit the end of its table");
}

#[test]
fn memory_of_dropped_tables_is_used_again() {
    run(&Disk::new(DiskModel::NVME, DiskFaults::default()), |c| {
        let (schema, options) =
            (SchemaBuilder::new(), InstanceOptions { memory_bytes_max: 4 << 20, ..options() });
        let made = engine_simulated::create(SchemeName::Silo, c, &options, schema, &|_| None);
        let database = made.expect("memory");
        for _ in 0..SPARE {
            let mut session = database.session(c, None, false).expect("a session");
            let number = session.object().create_table(one_table("big")).expect("a table");
            let table: Table<ByA> = Table::new(number);
            // Two of these do not fit beside each other.
            for ids in 0..60 {
                let rows = (ids * 100..ids * 100 + 100).map(|id| ByA::make((id, id, 0, vec![1; 200])));
                let rows: Vec<ByA> = rows.collect();
                let ending = session
                    .transact(&Bounds::default(), |t| rows.iter().try_for_each(|row| t.insert(table, row)));
                assert!(matches!(ending, Ok(Ending::Committed(..))), "{ending:?}");
            }
            assert_eq!(session.object().drop_table(number), Ok(()));
            while session.object().sweep() != Swept::All {}
            for _ in 0..8 {
                P::pause(c, 20_000);
                session.tend(P::now(c));
            }
        }
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.object().create_table(one_table("more")), Err(ChangeError::NoRoom));
        let many = SchemaBuilder::new();
        assert_eq!(session.object().create_table(many), Err(ChangeError::NoSuchTable), "none is declared");
    });
}

#[test]
fn a_transaction_that_began_before_reads_on() {
    for scheme in SchemeName::ALL {
        run(&Disk::new(DiskModel::NVME, DiskFaults::default()), |c| {
            let (database, handles) = open(scheme, c, [&"north"].into_iter());
            assert!((0..30).all(|id| insert(&database, c, handles["north"], item(id, id))));
            let mut other = database.session(c, None, false).expect("a session");
            transact(&database, c, |t| {
                assert!(t.find(handles["north"].primary(), &3, Intent::Read)?.is_some());
                if !database.tables().is_empty() && other.object().drop_table(0).is_ok() {
                    assert_eq!(other.object().sweep(), Swept::Waits);
                }
                assert!(t.find(handles["north"].primary(), &4, Intent::Read)?.is_some());
                Ok(())
            });
            while other.object().sweep() != Swept::All {}
            assert_eq!(contents(&database, c, handles["north"]), []);
        });
    }
}
