//! Calls that the system refuses: what passes is waited for, and nothing that was acknowledged is
//! lost by what does not.

use std::path::PathBuf;

use boundary::{Bounds, Ending, SchemaBuilder, Verbs};
use pages::{PagedDatabase, PagedLogOptions, PagedOptions};
use platform::{Intent, Platform};
use schema::{Row, Schema, Table, TableOptions};
use sim::{
    Call, Config, Crash, Disk, DiskFaults, DiskModel, Refusal, Shape, SimError, VirtualCore, VirtualMachine,
};
use terms::Abort;

use crate::support::{assert_sound, options, session};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Entry {
    id: u64,
    version: u64,
    note: [u64; 30],
}

impl Entry {
    fn of(id: u64, version: u64) -> Self {
        Entry { id, version, note: [id; 30] }
    }
}

struct Entries {
    database: PagedDatabase<VirtualMachine>,
    table: Table<Entry>,
}

const SEGMENT_BYTES: u64 = 64 << 10;
/// An operation that is refused longer than this is refused for good.
const PATIENCE_NANOS: u64 = 3_000_000_000;
const TOO_MANY: &str = "too many open files";

fn boot<R: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> R) -> R {
    let config = Config { memory_bytes: 256 << 20, ..Config::new(Shape::new(1, 1, 1)).with_seed(1) };
    match VirtualMachine::run(&config.with_disk(disk), program) {
        Ok(outcome) => outcome.value,
        Err(error) => panic!("{error}"),
    }
}

fn opened(c: VirtualCore) -> Entries {
    let (buffer_bytes, checkpoint_bytes) = (256 << 10, 1 << 40);
    let log = PagedLogOptions { segment_bytes: SEGMENT_BYTES, buffer_bytes, checkpoint_bytes };
    let options =
        PagedOptions { log: Some(log), directory: Some(PathBuf::from("pages")), ..options(16, 1024, 2) };
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Entry>("entries", TableOptions::default());
    let (database, _) = PagedDatabase::open(c, &options, schema, None).expect("a database");
    Entries { database, table }
}

/// From now on calls of this kind are refused, this many times; all others are not.
fn refuse(disk: &Disk, call: Call, times: u64) {
    disk.set_faults(DiskFaults { refusal: Some(Refusal { call, after: 0, times }), ..DiskFaults::default() });
}

/// Inserts a row, and waits until it is on disk.
fn insert(c: VirtualCore, entries: &Entries, id: u64) -> Result<(), Abort> {
    let Entries { database, table } = entries;
    let mut session = session(database, c);
    match session.transact(&Bounds::default(), |t| t.insert(*table, &Entry::of(id, 0)))? {
        Ending::Committed((), commit) => session.wait_durable(commit)?,
        other => panic!("{other:?}"),
    }
    session.tend(VirtualMachine::now(c));
    Ok(())
}

/// Versions of all rows, which are these.
fn versions(c: VirtualCore, entries: &Entries, rows: u64) -> Vec<u64> {
    let Entries { database, table } = entries;
    let mut session = session(database, c);
    let read = session.transact(&Bounds::default(), |t| {
        let version = |id: u64| {
            let found = t.find(table.primary(), &id, Intent::Read)?.expect("it was acknowledged");
            Ok(t.row(found)?.version)
        };
        (0..rows).map(version).collect::<Result<Vec<_>, Abort>>()
    });
    let Ok(Ending::Committed(versions, _)) = read else { panic!("{read:?}") };
    versions
}

#[test]
fn segments_are_made_when_there_are_descriptors_again() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let rows = boot(&disk, |c| {
        let entries = opened(c);
        let mut rows = 0;
        // The first refusals find time left, those of the last round wait with everything for the
        // segment.
        for times in [1, 4, 1_000] {
            let before = segments(&disk);
            refuse(&disk, Call::Open, times);
            while segments(&disk) == before || disk.refused() < times {
                insert(c, &entries, rows).expect("what is refused for a while is waited for");
                rows += 1;
            }
            assert_eq!((disk.refused(), segments(&disk)), (times, before + 1));
        }
        assert_eq!(versions(c, &entries, rows).len() as u64, rows);
        rows
    });
    disk.lose_power();
    boot(&disk, |c| assert_eq!(versions(c, &opened(c), rows).len() as u64, rows));
}

fn segments(disk: &Disk) -> usize {
    let is_segment =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wal-"));
    disk.contents().into_iter().filter(|(path, _)| is_segment(path)).count()
}

#[test]
fn a_log_whose_segments_are_never_made_stops_in_words() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let rows = boot(&disk, |c| {
        let entries = opened(c);
        refuse(&disk, Call::Open, u64::MAX);
        let began = VirtualMachine::now(c);
        let mut rows = 0;
        let refused = loop {
            match insert(c, &entries, rows) {
                Ok(()) => rows += 1,
                Err(abort) => break abort.to_string(),
            }
        };
        assert!(refused.contains(TOO_MANY) && !refused.contains('\n'), "{refused}");
        assert!(VirtualMachine::now(c).since(began) >= PATIENCE_NANOS);
        rows
    });
    // Each of them takes a block.
    assert!(rows >= SEGMENT_BYTES / 4096 - 3, "the current segment is filled first: {rows}");
    disk.lose_power();
    disk.set_faults(DiskFaults::default());
    boot(&disk, |c| assert_eq!(versions(c, &opened(c), rows).len() as u64, rows));
}

/// More rows than the pool has room for.
const ROWS: u64 = 200;

/// Changes all rows in one transaction, and rolls it back while this many reads are refused; the
/// result, and how long that took.
fn roll_back_refused(
    c: VirtualCore,
    disk: &Disk,
    entries: &Entries,
    times: u64,
) -> (Result<Ending<()>, Abort>, u64) {
    let Entries { database, table } = entries;
    let mut session = session(database, c);
    let mut began = VirtualMachine::now(c);
    let ended = session.transact(&Bounds::default(), |t| {
        for id in 0..ROWS {
            let old = t.find(table.primary(), &id, Intent::Write)?.expect("it was put");
            t.delete(old)?;
            t.insert(*table, &Entry::of(id, 7))?;
        }
        began = VirtualMachine::now(c);
        refuse(disk, Call::Read, times);
        Err(Abort::RollBack)
    });
    (ended, VirtualMachine::now(c).since(began))
}

#[test]
fn a_transaction_is_rolled_back_once_its_pages_can_be_read_again() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    boot(&disk, |c| {
        let entries = opened(c);
        (0..ROWS).for_each(|id| insert(c, &entries, id).expect("nothing is refused"));
        for times in [1, 5, 500] {
            let (ended, nanos) = roll_back_refused(c, &disk, &entries, times);
            assert!(matches!(ended, Ok(Ending::RolledBack(_))), "{ended:?}");
            assert_eq!(disk.refused(), times);
            assert!(nanos < PATIENCE_NANOS);
            assert_eq!(versions(c, &entries, ROWS), vec![0; ROWS as usize]);
        }
        insert(c, &entries, ROWS).expect("the database goes on");
        assert_sound(&entries.database, c);
    });
    disk.lose_power();
    boot(&disk, |c| assert_eq!(versions(c, &opened(c), ROWS + 1), vec![0; ROWS as usize + 1]));
}

#[test]
fn a_database_that_cannot_roll_back_stops_and_the_next_opening_does() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    boot(&disk, |c| {
        let entries = opened(c);
        (0..ROWS).for_each(|id| insert(c, &entries, id).expect("nothing is refused"));
        let (ended, nanos) = roll_back_refused(c, &disk, &entries, u64::MAX);
        let refused = ended.expect_err("pages cannot be read").to_string();
        assert!(!refused.contains('\n'), "{refused}");
        // Each row has its own patience.
        assert!((PATIENCE_NANOS..2 * PATIENCE_NANOS).contains(&nanos), "{nanos}");
        disk.set_faults(DiskFaults::default());
        let stopped = insert(c, &entries, ROWS).expect_err("a transaction is by half").to_string();
        assert!(!stopped.contains('\n'), "{stopped}");
    });
    disk.lose_power();
    boot(&disk, |c| {
        let entries = opened(c);
        assert_eq!(versions(c, &entries, ROWS), vec![0; ROWS as usize]);
        assert_sound(&entries.database, c);
    });
}

/// A machine that stops at this event of an opening, and loses its power; whether the opening came
/// to it.
fn opening_is_cut(disk: &Disk, event: u64) -> bool {
    let config = Config { memory_bytes: 256 << 20, ..Config::new(Shape::new(1, 1, 1)).with_seed(1) };
    let config = config.with_disk(disk).crashing(Crash::Event(event));
    let ended = VirtualMachine::run(&config, |c| drop(opened(c)));
    disk.lose_power();
    match ended {
        Ok(_) => false,
        Err(SimError::Crashed { .. }) => true,
        Err(error) => panic!("{error}"),
    }
}

/// The last block of a segment is in memory of the operating system only when the database stops:
/// the next opening makes it durable before it says where it goes on, although the segment behind
/// is there already.
#[test]
fn the_last_block_of_a_segment_is_durable_before_an_opening_goes_on_behind_it() {
    let blocks = SEGMENT_BYTES / 4096 - 1;
    for rows in blocks / 2..=blocks {
        let mut event = 0;
        loop {
            let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
            let acknowledged = boot(&disk, |c| {
                let entries = opened(c);
                let done = (0..rows).take_while(|id| insert(c, &entries, *id).is_ok()).count() as u64;
                refuse(&disk, Call::Flush, 1);
                insert(c, &entries, done).expect_err("a flush that fails ends the log");
                done
            });
            disk.set_faults(DiskFaults::default());
            event += 7;
            let is_cut = opening_is_cut(&disk, event);
            let there = boot(&disk, |c| versions(c, &opened(c), acknowledged).len() as u64);
            assert_eq!(there, acknowledged);
            if !is_cut {
                break;
            }
        }
    }
}
