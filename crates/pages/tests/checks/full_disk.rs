//! A disk without room: commits stop with an error that says so, nothing that was acknowledged is
//! lost, and with room the database goes on.

use std::path::PathBuf;

use boundary::{Bounds, Ending, SchemaBuilder, Verbs};
use pages::{PagedDatabase, PagedError, PagedLogOptions, PagedOptions};
use platform::{Intent, Platform};
use schema::{Row, Schema, Table, TableOptions};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use terms::Abort;

use crate::support::{assert_sound, options, session};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub struct Entry {
    id: u64,
    #[row(tail)]
    note: Vec<u8>,
}

impl Entry {
    pub fn of(id: u64) -> Self {
        Entry { id, note: vec![id as u8; if id.is_multiple_of(7) { 6_000 } else { 300 }] }
    }
}

/// A machine of one core with this disk.
pub fn machine(disk: &Disk) -> Config {
    let config = Config { memory_bytes: 256 << 20, ..Config::new(Shape::new(1, 1, 1)).with_seed(1) };
    config.with_disk(disk)
}

pub fn boot<R: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> R) -> R {
    match VirtualMachine::run(&machine(disk), program) {
        Ok(outcome) => outcome.value,
        Err(error) => panic!("{error}"),
    }
}

pub type Opened = Result<(PagedDatabase<VirtualMachine>, Table<Entry>), PagedError>;

pub fn opened(c: VirtualCore) -> Opened {
    let log = PagedLogOptions { segment_bytes: 64 << 10, buffer_bytes: 64 << 10, checkpoint_bytes: 100_000 };
    let options =
        PagedOptions { log: Some(log), directory: Some(PathBuf::from("pages")), ..options(30, 1024, 2) };
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Entry>("entries", TableOptions::default());
    let (database, _) = PagedDatabase::open(c, &options, schema, None)?;
    Ok((database, table))
}

/// Refused transactions after which a program gives up.
const REFUSALS: usize = 10;

/// Inserts rows until the disk is full; those that are on disk, and why no more are.
fn insert_all(
    c: VirtualCore,
    database: &PagedDatabase<VirtualMachine>,
    table: Table<Entry>,
) -> (Vec<u64>, Vec<Abort>) {
    let mut session = session(database, c);
    let (mut acknowledged, mut refusals) = (Vec::new(), Vec::new());
    for id in 0.. {
        let row = Entry::of(id);
        let inserted = session.transact(&Bounds::default(), |t| t.insert(table, &row));
        let waited = match inserted {
            Ok(Ending::Committed((), commit)) => session.wait_durable(commit),
            Ok(other) => panic!("{other:?}"),
            Err(abort) => Err(abort),
        };
        match waited {
            Ok(()) => acknowledged.push(id),
            Err(abort) => refusals.push(abort),
        }
        if refusals.len() == REFUSALS {
            break;
        }
        session.tend(VirtualMachine::now(c));
    }
    (acknowledged, refusals)
}

#[test]
fn a_full_disk_stops_commits_and_loses_nothing() {
    for capacity_bytes in [300_000, 500_000, 900_000] {
        let faults = DiskFaults { capacity_bytes, ..DiskFaults::default() };
        let disk = Disk::new(DiskModel::RAM, faults);
        let (acknowledged, refusals) = boot(&disk, |c| {
            let (database, table) = opened(c).expect("room for a little");
            insert_all(c, &database, table)
        });
        for text in refusals.iter().map(Abort::to_string) {
            assert!(text.contains("the disk is full: make room on it") && !text.contains('\n'), "{text}");
        }
        assert!(acknowledged.len() > 10, "{acknowledged:?}");
        disk.lose_power();
        // Without room it does not open, or reads what there is; either way nothing goes.
        boot(&disk, |c| {
            if let Err(error) = opened(c) {
                assert!(error.to_string().contains("the disk is full"), "{error}");
            }
        });
        disk.lose_power();
        disk.set_faults(DiskFaults::default());
        boot(&disk, |c| {
            let (database, table) = opened(c).expect("there is room again");
            let mut session = session(&database, c);
            let read = session.transact(&Bounds::default(), |t| {
                for id in &acknowledged {
                    let found = t.find(table.primary(), id, Intent::Read)?;
                    assert_eq!(found.map(|found| t.row(found)).transpose()?, Some(Entry::of(*id)));
                }
                t.insert(table, &Entry::of(1 << 40))
            });
            assert!(matches!(read, Ok(Ending::Committed(..))), "{read:?}");
            drop(session);
            assert_sound(&database, c);
        });
    }
}
