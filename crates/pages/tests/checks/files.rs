//! Files of databases on this machine's disk: what is damaged is named and, where something has it,
//! made anew; copies while transactions run.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{AnyDatabase, Bounds, Ending, SchemaBuilder, Verbs};
use pages::{
    Examined, PagedDatabase, PagedError, PagedLogOptions, PagedOptions, Repaired, copy_pages, examine, repair,
};
use platform::{Hardware, HardwareCore, Intent, Place, Platform};
use schema::{Row, Schema, Table, TableOptions};

use crate::support::{assert_sound, options, session};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Entry {
    id: u64,
    version: u64,
    #[row(tail)]
    note: Vec<u8>,
}

impl Entry {
    fn of(id: u64, version: u64) -> Self {
        let bytes = if id.is_multiple_of(5) { 9_000 } else { 200 };
        Entry { id, version, note: vec![(id + version) as u8; bytes] }
    }
}

/// An empty place for a test.
fn place(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

type Entries = (PagedDatabase<Hardware>, Table<Entry>);

fn opened(path: &Path) -> Result<Entries, PagedError> {
    opened_in(path, 40)
}

/// The same with this many frames.
fn opened_in(path: &Path, frames: u64) -> Result<Entries, PagedError> {
    let log = PagedLogOptions { segment_bytes: 1 << 20, buffer_bytes: 1 << 20, checkpoint_bytes: 3 << 20 };
    let options =
        PagedOptions { directory: Some(path.to_path_buf()), log: Some(log), ..options(frames, 4096, 3) };
    let mut schema = SchemaBuilder::new();
    let table = schema.table::<Entry>("entries", TableOptions::default());
    let (database, _) = PagedDatabase::open(Hardware::core(), &options, schema, None)?;
    Ok((database, table))
}

/// Puts these rows, each by a transaction that is on disk before the next one begins.
fn put(database: &PagedDatabase<Hardware>, table: Table<Entry>, c: HardwareCore, rows: &[(u64, u64)]) {
    let mut session = session(database, c);
    for (id, version) in rows {
        let row = Entry::of(*id, *version);
        let ended =
            session.transact(&Bounds::default(), |t| match t.find(table.primary(), id, Intent::Write)? {
                Some(found) => t.replace(found, &row),
                None => t.insert(table, &row),
            });
        let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
        session.wait_durable(commit).expect("the disk is there");
        session.tend(Hardware::now(c));
    }
}

/// The versions of all rows, which are whole.
fn versions(database: &PagedDatabase<Hardware>, table: Table<Entry>, count: u64) -> Vec<Option<u64>> {
    let mut session = session(database, Hardware::core());
    let read = |id: u64, session: &mut boundary::Session<'_>| {
        let ended = session.transact(&Bounds::default(), |t| {
            let found = t.find(table.primary(), &id, Intent::Read)?;
            found.map(|found| t.row(found)).transpose()
        });
        let Ok(Ending::Committed(row, _)) = ended else { panic!("{ended:?}") };
        row.inspect(|row: &Entry| assert_eq!(*row, Entry::of(id, row.version))).map(|row| row.version)
    };
    (0..count).map(|id| read(id, &mut session)).collect()
}

fn close(database: PagedDatabase<Hardware>) {
    AnyDatabase::close(Box::new(database), Hardware::core()).expect("it closes");
}

/// The last file of the log, with its length up to the last byte that is not zero.
fn last_segment(path: &Path) -> (PathBuf, usize) {
    let entries = std::fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
    let last = entries.filter(is_segment).max().expect("a log");
    let bytes = std::fs::read(&last).expect("it can be read");
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    (last, used)
}

fn write_at(path: &Path, offset: u64, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    file.write_all_at(bytes, offset).expect("written");
}

/// A database of rows 0 to 19 that was not closed.
fn left_open(name: &str) -> PathBuf {
    let path = place(name);
    let (database, table) = opened(&path).expect("a database");
    put(&database, table, Hardware::core(), &(0..20).map(|id| (id, 1)).collect::<Vec<_>>());
    path
}

#[test]
fn a_log_that_is_damaged_before_its_end_is_named() {
    let path = left_open("damaged-log");
    let (segment, used) = last_segment(&path);
    let before = std::fs::read(&segment).expect("it can be read");
    // In the middle of it, a group each.
    for place in [used / 4, used / 2, used * 3 / 4] {
        let offset = place as u64 / 4096 * 4096;
        write_at(&segment, offset, &[0xa5; 4096]);
        let error = opened(&path).err().expect("the log is damaged");
        let text = error.to_string();
        let name = segment.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(text.contains("was on disk as a whole once") && text.contains(name), "{text}");
        let examined = examine::<Hardware>(Hardware::core(), &path).expect_err("the same");
        assert_eq!(examined, error);
        write_at(&segment, 0, &before);
    }
    write_at(&segment, 0, &[0; 4096]);
    let error = opened(&path).err().expect("the log has lost a header");
    assert!(error.to_string().contains("head of the file"), "{error}");
    write_at(&segment, 0, &before);
    let (database, table) = opened(&path).expect("it is whole again");
    assert_eq!(versions(&database, table, 20), vec![Some(1); 20]);
    drop(database);
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

#[test]
fn a_log_that_ends_within_its_last_group_ends_before_it() {
    let path = left_open("torn-log");
    let (segment, used) = last_segment(&path);
    let last = (used as u64 - 1) / 4096 * 4096;
    write_at(&segment, last, &[0x5a; 4096]);
    let (database, table) = opened(&path).expect("as after a crash");
    let there = versions(&database, table, 20);
    assert_eq!(there[..19], vec![Some(1); 19]);
    assert_sound(&database, Hardware::core());
    drop(database);
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

#[test]
fn a_log_that_ends_before_what_the_last_checkpoint_knows_is_named() {
    let path = left_open("short-log");
    let (database, table) = opened(&path).expect("a database");
    // A transaction is under way when the checkpoint is made, so the log from its beginning on is
    // needed.
    let (mut one, mut other) = (session(&database, Hardware::core()), session(&database, Hardware::core()));
    let ended = one.transact(&Bounds::default(), |t| {
        t.insert(table, &Entry::of(77, 1))?;
        assert_eq!(other.checkpoint(), Ok(true));
        Err::<(), _>(terms::Abort::RollBack)
    });
    assert!(matches!(ended, Ok(Ending::RolledBack(_))), "{ended:?}");
    drop((one, other));
    drop(database);
    let (segment, used) = last_segment(&path);
    write_at(&segment, 4096, &vec![0; used - 4096]);
    let error = opened(&path).err().expect("the log is too short");
    assert!(error.to_string().contains("the last checkpoint knows of more"), "{error}");
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

#[test]
fn a_directory_that_has_lost_its_checkpoint_is_not_taken_for_a_new_one() {
    let path = left_open("no-checkpoint");
    std::fs::remove_file(path.join("pages.checkpoint")).expect("a checkpoint");
    let error = opened(&path).err().expect("it had rows");
    assert!(
        error.to_string().contains("pages.checkpoint") && error.to_string().contains("missing"),
        "{error}"
    );
    let names: Vec<_> = std::fs::read_dir(&path).expect("a directory").collect();
    assert_eq!(names.len(), 2, "{names:?}");
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

/// Damages the pages of a file that `choose` chooses by their numbers, of those that are there.
fn harm(path: &Path, choose: impl Fn(u64) -> bool) -> Vec<u64> {
    let file = path.join("pages.data");
    let bytes = std::fs::read(&file).expect("pages");
    let is_there = |number: &u64| bytes[*number as usize * 4096..][..4096].iter().any(|byte| *byte != 0);
    let chosen: Vec<u64> =
        (1..bytes.len() as u64 / 4096).filter(|number| choose(*number)).filter(is_there).collect();
    chosen.iter().for_each(|number| write_at(&file, number * 4096 + 100, &[0x77; 64]));
    chosen
}

#[test]
fn damaged_pages_are_made_anew_from_a_backup() {
    let (path, backup) = (place("repaired"), place("repaired-backup"));
    let c = Hardware::core();
    let (database, table) = opened(&path).expect("a database");
    put(&database, table, c, &(0..60).map(|id| (id, 1)).collect::<Vec<_>>());
    // A copy of a database that is open: some of its pages are in its log only.
    std::fs::create_dir(&backup).expect("a directory");
    copy_pages(&path, &backup).expect("a copy");
    close(database);
    let damaged = harm(&path, |number| number.is_multiple_of(3));
    assert!(damaged.len() > 5, "{damaged:?}");
    let examined = examine::<Hardware>(c, &path).expect("it can be read");
    assert_eq!((examined.wrong.len(), &examined.damaged), (damaged.len(), &damaged));
    let repaired = repair::<Hardware>(c, &path, &backup).expect("both can be read");
    assert_eq!(repaired, Repaired { pages: damaged, left: Vec::new() });
    assert_eq!(examine::<Hardware>(c, &path).expect("it can be read").wrong, Vec::<String>::new());
    let (database, table) = opened(&path).expect("it is whole");
    assert_eq!(versions(&database, table, 60), vec![Some(1); 60]);
    // What changes after the backup is not in it.
    put(&database, table, c, &(0..60).map(|id| (id, 2)).collect::<Vec<_>>());
    close(database);
    let damaged = harm(&path, |number| number.is_multiple_of(2));
    let repaired = repair::<Hardware>(c, &path, &backup).expect("both can be read");
    assert!(!repaired.left.is_empty(), "{repaired:?}");
    assert_eq!(repaired.pages.len() + repaired.left.len(), damaged.len());
    let left = examine::<Hardware>(c, &path).expect("it can be read").damaged;
    assert_eq!(left, repaired.left);
    // The backup of something else.
    let other = left_open("another");
    let refused = repair::<Hardware>(c, &path, &other);
    assert!(matches!(refused, Err(PagedError::OtherBackup { .. })), "{refused:?}");
    for path in [path, backup, other] {
        std::fs::remove_dir_all(&path).expect("the test's directory");
    }
}

#[test]
fn a_copy_that_was_opened_repairs_its_original_no_more() {
    let (path, first, later) = (left_open("forked"), place("forked-first"), place("forked-later"));
    let copy = |path: &Path, to: &Path| {
        std::fs::create_dir(to).expect("a directory");
        copy_pages(path, to).expect("a copy");
    };
    let (database, table) = opened(&path).expect("a database");
    copy(&path, &first);
    put(&database, table, Hardware::core(), &[(3, 2)]);
    copy(&path, &later);
    close(database);
    let c = Hardware::core();
    assert!(!harm(&path, |_| true).is_empty());
    let (copied, table) = opened(&first).expect("a copy is a database");
    put(&copied, table, c, &[(3, 7)]);
    close(copied);
    let refused = repair::<Hardware>(c, &path, &first);
    assert!(matches!(refused, Err(PagedError::OtherBackup { .. })), "{refused:?}");
    // Nor does the original, as it was when the copy had been made, repair the copy.
    assert!(!harm(&first, |_| true).is_empty());
    let refused = repair::<Hardware>(c, &first, &later);
    assert!(matches!(refused, Err(PagedError::OtherBackup { .. })), "{refused:?}");
    let repaired = repair::<Hardware>(c, &path, &later).expect("a copy of the same life");
    assert!(!repaired.pages.is_empty() && repaired.left.is_empty(), "{repaired:?}");
    for path in [path, first, later] {
        std::fs::remove_dir_all(&path).expect("the test's directory");
    }
}

#[test]
fn pages_that_are_written_have_images_in_the_log() {
    const ROWS: u64 = 600;
    let (path, copy) = (place("written"), place("written-copy"));
    let c = Hardware::core();
    let (database, table) = opened_in(&path, 300).expect("a database");
    put(&database, table, c, &(0..ROWS).filter(|id| id % 5 > 0).map(|id| (id, 1)).collect::<Vec<_>>());
    let mut session = session(&database, c);
    assert_eq!(session.checkpoint(), Ok(true));
    let harmed = harm(&path, |_| true);
    // Leaves become empty and thin, and are merged with others.
    let ended = session.transact(&Bounds::default(), |t| {
        (20..580).filter(|id| id % 5 > 0 && id % 50 > 3).try_for_each(|id| {
            let row = t.find(table.primary(), &id, Intent::Write)?.expect("it was put");
            t.delete(row)
        })
    });
    assert!(matches!(ended, Ok(Ending::Committed(..))), "{ended:?}");
    // Another commit, which is on disk with what has followed the first.
    put(&database, table, c, &[(1, 2)]);
    std::fs::create_dir(&copy).expect("a directory");
    for entry in std::fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry")) {
        std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("a copy");
    }
    assert_eq!(session.checkpoint(), Ok(true));
    let bytes = std::fs::read(path.join("pages.data")).expect("pages");
    let is_written = |number: &&u64| bytes[**number as usize * 4096 + 100..][..64] != [0x77; 64];
    let written: Vec<u64> = harmed.iter().filter(is_written).copied().collect();
    // As they would be after a crash before the second checkpoint, if all of their writes were
    // torn.
    let lost = examine::<Hardware>(c, &copy).expect("it can be read").damaged;
    assert!(written.len() > 4 && !lost.is_empty(), "{written:?}, {lost:?}");
    assert!(written.iter().all(|number| !lost.contains(number)), "{written:?}, {lost:?}");
    drop(session);
    drop(database);
    for path in [path, copy] {
        std::fs::remove_dir_all(&path).expect("the test's directory");
    }
}

#[test]
fn copies_while_transactions_run_have_all_that_was_acknowledged() {
    const ROWS: u64 = 60;
    let path = place("copied");
    let (database, table) = opened(&path).expect("a database");
    put(&database, table, Hardware::core(), &(0..ROWS).map(|id| (id, 0)).collect::<Vec<_>>());
    let (acknowledged, copies) = (AtomicU64::new(0), AtomicU64::new(0));
    let worker = |c: HardwareCore, number: usize| {
        if number == 0 {
            for version in 1.. {
                put(&database, table, c, &(0..ROWS).map(|id| (id, version)).collect::<Vec<_>>());
                acknowledged.store(version, Ordering::SeqCst);
                if copies.load(Ordering::SeqCst) == 6 {
                    break;
                }
            }
            return;
        }
        for round in 0..6 {
            let copy = place(&format!("copy-{round}"));
            std::fs::create_dir(&copy).expect("a directory");
            let least = acknowledged.load(Ordering::SeqCst);
            copy_pages(&path, &copy).expect("a copy");
            let examined = examine::<Hardware>(c, &copy).expect("it can be read");
            assert_eq!(examined.wrong, Vec::<String>::new());
            let (copied, table) = opened(&copy).expect("a database");
            let found = versions(&copied, table, ROWS);
            assert!(found.iter().all(|version| version.is_some_and(|version| version >= least)), "{found:?}");
            assert_sound(&copied, c);
            drop(copied);
            std::fs::remove_dir_all(&copy).expect("the test's directory");
            copies.fetch_add(1, Ordering::SeqCst);
        }
    };
    Hardware::parallel(Hardware::core(), &[Place { thread: None }; 2], &worker, &mut |_| ());
    assert_sound(&database, Hardware::core());
    drop(database);
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

#[test]
fn a_directory_that_was_not_closed_has_the_rows_that_its_next_opening_has() {
    let (path, copy, c) = (left_open("counted"), place("counted-copy"), Hardware::core());
    let (database, table) = opened(&path).expect("a database");
    put(&database, table, c, &(0..30).map(|id| (id, 2)).collect::<Vec<_>>());
    let (mut one, mut other) = (session(&database, c), session(&database, c));
    let ended = one.transact(&Bounds::default(), |t| {
        for id in 40..80 {
            t.insert(table, &Entry::of(id, 1))?;
        }
        let old = t.find(table.primary(), &5, Intent::Write)?.expect("it was put");
        t.delete(old)?;
        let old = t.find(table.primary(), &7, Intent::Write)?.expect("it was put");
        t.replace(old, &Entry { id: 7, version: 9, note: vec![1; 20_000] })?;
        // The copy's log ends here, with a checkpoint in the midst of the transaction.
        assert_eq!(other.checkpoint(), Ok(true));
        t.insert(table, &Entry::of(90, 1))?;
        let commit = other.transact(&Bounds::default(), |t| t.insert(table, &Entry::of(1_000, 1)));
        let Ok(Ending::Committed((), commit)) = commit else { panic!("{commit:?}") };
        other.wait_durable(commit)?;
        std::fs::create_dir(&copy).expect("a directory");
        copy_pages(&path, &copy).expect("a copy");
        Err::<(), _>(terms::Abort::RollBack)
    });
    assert!(matches!(ended, Ok(Ending::RolledBack(_))), "{ended:?}");
    drop((one, other));
    drop(database);
    let files = |path: &Path| {
        let names =
            std::fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path());
        names.map(|path| (std::fs::read(&path).expect("it can be read"), path)).collect::<BTreeSet<_>>()
    };
    let before = files(&copy);
    let examined = examine::<Hardware>(c, &copy).expect("it can be read");
    assert!(before == files(&copy), "nothing is changed");
    assert_eq!(examined.wrong, Vec::<String>::new());
    assert_eq!((examined.unfinished, examined.records > 40), (1, true));
    let entries = |examined: &Examined| {
        let trees = examined.tables.iter().flat_map(|(_, trees)| trees);
        trees.map(|tree| tree.entries).collect::<Vec<_>>()
    };
    let found = entries(&examined);
    assert_eq!(found[0], 31);
    let (copied, table) = opened(&copy).expect("a database");
    assert_eq!(versions(&copied, table, 30), vec![Some(2); 30]);
    close(copied);
    let examined = examine::<Hardware>(c, &copy).expect("it can be read");
    assert_eq!((entries(&examined), examined.records), (found, 0));
    for path in [path, copy] {
        std::fs::remove_dir_all(&path).expect("the test's directory");
    }
}
