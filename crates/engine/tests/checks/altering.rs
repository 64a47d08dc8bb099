//! Transactions that change tables and rows together, with crashes at any moment: what is there
//! after one is all of a transaction or nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use boundary::{Bounds, Ending, SchemaBuilder, TableChanges, Verbs};
use concurrency::SchemeName;
use engine::durable::content;
use platform::{Place, Platform};
use schema::Table;
use sim::{Crash, Disk, DiskFaults, DiskModel, SimError, VirtualCore, VirtualMachine};
use terms::{Abort, Fault, Faults};

use crate::changing::{
    ByA, Content, Database, Item, P, checked, config, contents, durable, item, run, table,
};
use crate::changing_open::{Handles, SCHEMES, options};
use crate::support::Random;

const NAMES: [&str; 4] = ["north", "east", "south", "west"];

type Model = BTreeMap<&'static str, BTreeMap<u32, Content>>;

/// The expected content: after all acknowledged transactions, or after the one under way as well.
#[derive(Clone, Default)]
struct Expected {
    acknowledged: Model,
    under_way: Option<Model>,
}

/// The outcomes of crashes for the transactions under way.
#[derive(Debug, Default)]
struct Marks {
    nothing: u32,
    all: u32,
    /// Crashes while the directory had two descriptions.
    undecided: u32,
}

fn open(scheme: SchemeName, c: VirtualCore, faults: Faults, model: &Model) -> (Database, Handles) {
    let mut schema = SchemaBuilder::new();
    let handles = model.keys().map(|name| (*name, table::<ByA>(&mut schema, name))).collect();
    let options = concurrency::InstanceOptions { spare_tables: 200, faults, ..options() };
    let opened = engine_simulated::open(scheme, c, &options, schema, &|_| None, &durable(), None);
    (opened.expect("a database").0, handles)
}

fn one_table(name: &'static str) -> SchemaBuilder {
    let mut schema = SchemaBuilder::new();
    table::<ByA>(&mut schema, name);
    schema
}

/// A part of a transaction.
#[derive(Clone, Copy)]
enum Part {
    Create(&'static str),
    Drop(&'static str),
    Truncate(&'static str),
    Insert(&'static str, u32),
}

/// Draws a transaction; the content after it.
fn draw(random: &mut Random, model: &Model) -> (Vec<Part>, Model) {
    let (mut parts, mut next) = (Vec::new(), model.clone());
    for _ in 0..2 + random.below(5) {
        let name = NAMES[random.below(NAMES.len() as u64) as usize];
        let part = match (random.below(6), next.get_mut(name)) {
            (_, None) => {
                next.insert(name, BTreeMap::new());
                Part::Create(name)
            }
            (0, Some(_)) => {
                next.remove(name);
                Part::Drop(name)
            }
            (1, Some(rows)) => {
                rows.clear();
                Part::Truncate(name)
            }
            (_, Some(rows)) => {
                let id = rows.len() as u32;
                rows.insert(id, item(id, 7));
                Part::Insert(name, id)
            }
        };
        parts.push(part);
    }
    (parts, next)
}

/// Does these parts in a transaction, and gives the handles after it.
fn play(
    t: &mut boundary::Transaction<'_>,
    parts: &[Part],
    mut handles: Handles,
    commits: bool,
) -> Result<Handles, Abort> {
    t.verbs().give_up_tables();
    assert!(t.verbs().hold_tables(Box::new(())), "nobody else changes tables");
    let mut changes = TableChanges::default();
    let mut end = |handles: &mut Handles, name| {
        let number = handles.remove(name).expect("it is there").number();
        match changes.made.iter().position(|made| *made == number) {
            Some(place) => drop(changes.made.remove(place)),
            None => changes.gone.push(number),
        }
    };
    let mut made = Vec::new();
    for part in parts {
        match *part {
            Part::Drop(name) => end(&mut handles, name),
            Part::Create(name) | Part::Truncate(name) => {
                if matches!(part, Part::Truncate(_)) {
                    end(&mut handles, name);
                }
                let number = t.verbs().make_table(one_table(name)).expect("there is room");
                made.push(number);
                handles.insert(name, Table::new(number));
            }
            Part::Insert(name, id) => t.insert(handles[name], &ByA::make(item(id, 7)))?,
        }
    }
    if !commits {
        return Err(Abort::RollBack);
    }
    let numbers: Vec<_> = handles.values().map(|table| table.number()).collect();
    changes.made = made.into_iter().filter(|made| numbers.contains(made)).collect();
    t.verbs().commit_tables(&changes)?;
    t.verbs().give_up_tables();
    Ok(handles)
}

/// A life: transactions, while another core makes checkpoints.
fn live(scheme: SchemeName, c: VirtualCore, faults: Faults, random: &mut Random, expected: &Mutex<Expected>) {
    let model = expected.lock().expect("no panic").acknowledged.clone();
    let (database, handles) = open(scheme, c, faults, &model);
    let (over, state) = (AtomicBool::new(false), Mutex::new((handles, random)));
    let work = |c: VirtualCore, worker: usize| {
        let mut session = database.session(c, None, false).expect("a session");
        if worker > 0 {
            while !over.load(Ordering::SeqCst) {
                assert_eq!(session.checkpoint(), Ok(true));
                session.idle();
                P::pause(c, 20_000);
            }
            return;
        }
        let (handles, random) = &mut *state.lock().expect("no panic");
        for _ in 0..12 {
            let model = expected.lock().expect("no panic").acknowledged.clone();
            let (parts, next) = draw(random, &model);
            let commits = random.chance(75);
            expected.lock().expect("no panic").under_way = commits.then(|| next.clone());
            let mut after = handles.clone();
            let ended = session.transact(&Bounds::default(), |t| {
                after = play(t, &parts, handles.clone(), commits)?;
                Ok(())
            });
            match ended {
                Ok(Ending::Committed(..)) => {
                    *handles = after;
                    *expected.lock().expect("no panic") = Expected { acknowledged: next, under_way: None };
                }
                Ok(Ending::RolledBack(_)) if !commits => {
                    session
                        .transact(&Bounds::default(), |t| {
                            t.verbs().give_up_tables();
                            Ok(())
                        })
                        .map(drop)
                        .expect("nothing is in the way");
                }
                other => panic!("{other:?}"),
            }
        }
        over.store(true, Ordering::SeqCst);
    };
    P::parallel(c, &[Place { thread: None }; 2], &work, &mut |_| ());
}

/// The content that an opening finds.
fn found(scheme: SchemeName, disk: &Disk, marks: &mut Marks) -> Result<Model, String> {
    let survey = checked(disk).survey;
    marks.undecided += u32::from(boundary::directory::undecided::Undecided::decode(&survey.extra).is_some());
    run(disk, |c| {
        let described = content::decided_description::<P>(c, Path::new("d"), &survey.extra);
        let described = described.expect("a description");
        let is_there = |name: &&&str| described.present().any(|table| table.table.name() == **name);
        let names = NAMES.iter().filter(is_there).map(|name| (*name, BTreeMap::new())).collect();
        let (database, handles) = open(scheme, c, Faults::NONE, &names);
        let mut model = Model::new();
        for (name, handle) in handles {
            let rows = contents(&database, c, handle);
            if !rows.iter().zip(0..).all(|(row, id)| *row == item(id, 7)) {
                return Err(format!("{name} has {rows:?}"));
            }
            model.insert(name, rows.into_iter().map(|row| (row.0, row)).collect());
        }
        Ok(model)
    })
}

/// Lives of a database, each ended by a crash.
fn lives(scheme: SchemeName, seed: u64, faults: Faults, marks: &mut Marks) -> Result<(), String> {
    let disk = Disk::new(DiskModel::NVME, DiskFaults { seed, ..DiskFaults::default() });
    let mut random = Random::new(seed, 1);
    let mut model = Model::new();
    run(&disk, |c| drop(open(scheme, c, faults, &model)));
    for life in 0..3 {
        let crash = match random.chance(70) {
            true => Crash::DiskOperation(1 + random.below(120)),
            false => Crash::Event(1 + random.below(9_000)),
        };
        let expected = Mutex::new(Expected { acknowledged: model.clone(), under_way: None });
        let ended = VirtualMachine::run(&config(&disk).crashing(crash), |c| {
            live(scheme, c, faults, &mut random, &expected);
        });
        let whole = matches!(ended, Ok(_) | Err(SimError::Crashed { .. }));
        assert!(whole, "seed {seed} life {life}: {:?}", ended.err());
        if random.chance(70) {
            disk.lose_power();
        }
        let Expected { acknowledged, under_way } = expected.into_inner().expect("no panic");
        let found = found(scheme, &disk, marks).map_err(|why| format!("seed {seed} life {life}: {why}"))?;
        if found == acknowledged {
            marks.nothing += u32::from(under_way.is_some());
        } else if Some(&found) == under_way.as_ref() {
            marks.all += 1;
        } else {
            return Err(format!("seed {seed} life {life}: {found:?} after {acknowledged:?}, {under_way:?}"));
        }
        model = found;
    }
    Ok(())
}

#[test]
fn a_crash_leaves_all_of_a_transaction_or_nothing() {
    let mut marks = Marks::default();
    for seed in 0..48 {
        lives(SCHEMES[seed as usize % SCHEMES.len()], seed, Faults::NONE, &mut marks)
            .unwrap_or_else(|why| panic!("{why}"));
    }
    assert!(marks.nothing > 3 && marks.all > 3 && marks.undecided > 3, "{marks:?}");
}

/// A mutant: the directory says what a transaction does before the transaction has committed.
#[test]
fn tables_that_count_too_early_are_noticed() {
    let faults = Faults::of(&[Fault::EarlyTables]);
    let is_noticed = |seed| {
        let lived = std::panic::AssertUnwindSafe(|| {
            lives(SCHEMES[seed as usize % SCHEMES.len()], seed, faults, &mut Marks::default())
        });
        // A table may also be missing that the opening needs.
        std::panic::catch_unwind(lived).is_ok_and(|lived| lived.is_err())
    };
    assert!((0..48).any(is_noticed), "no seed shows the fault");
}
