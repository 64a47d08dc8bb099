//! Directories of which files are missing, cut short, of other databases or of earlier lives: an
//! opening finds everything that was acknowledged, or is refused, and changes nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use boundary::{Bounds, DurableOptions, Ending, GlobalId, OpenError, PartOf, SchemaBuilder, Verbs};
use concurrency::{InstanceOptions, SchemeName};
use engine::durable::content::{self, ContentError};
use platform::files::{Access, Buffer, Existence, Files, Operation};
use platform::{Place, Platform};
use redo_log::format::{ALIGNMENT, BLOCK_HEADER_BYTES, BlockHeader};
use redo_log::{LogError, LogOptions, MANIFEST};
use schema::{Row, Schema, Table, TableOptions};
use sim::{Call, Config, Disk, DiskFaults, DiskModel, Refusal, Shape, VirtualCore, VirtualMachine};
use terms::Abort;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Note {
    id: u64,
    #[row(tail)]
    text: Vec<u8>,
}

type P = VirtualMachine;
type Opened = Result<(boundary::Database<P>, Table<Note>), OpenError>;

const SHORT: u64 = 32 << 10;

fn open(c: VirtualCore, directory: &str, segment_bytes: u64) -> Opened {
    let mut schema = SchemaBuilder::new();
    let notes = schema.table::<Note>("notes", TableOptions::default());
    let instance =
        InstanceOptions { sessions_max: 2, memory_bytes_max: 64 << 20, ..InstanceOptions::default() };
    let log = LogOptions { segment_bytes, ..LogOptions::default() };
    let durable = DurableOptions {
        log,
        places: vec![Place { thread: None }; 2],
        checkpoint_bytes: 1 << 30,
        ..DurableOptions::new(directory.into())
    };
    let opened = engine_simulated::open(SchemeName::Silo, c, &instance, schema, &|_| None, &durable, None);
    opened.map(|(database, _)| (database, notes))
}

fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 2, 1)) }.with_disk(disk);
    VirtualMachine::run(&config, program).expect("a run").value
}

fn disk() -> Disk {
    Disk::new(DiskModel::NVME, DiskFaults::default())
}

fn note(id: u64, text: &[u8]) -> Note {
    Note { id, text: text.to_vec() }
}

/// Inserts notes, each of which is on disk when the next one comes; the epoch of the last one.
fn insert(database: &boundary::Database<P>, c: VirtualCore, notes: Table<Note>, rows: &[Note]) -> u64 {
    let mut session = database.session(c, None, false).expect("a session");
    let mut last = 0;
    for row in rows {
        let ended = session.transact(&Bounds::default(), |t| t.insert(notes, row));
        let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
        session.wait_written(commit).expect("on disk");
        last = commit.stamp.epoch().0;
    }
    last
}

fn count(database: &boundary::Database<P>, c: VirtualCore, notes: Table<Note>) -> usize {
    let mut count = 0;
    schema::Inspector::scan(&mut database.inspector(c), notes.primary(), &0, &u64::MAX, &mut |_: &Note| {
        count += 1
    });
    count
}

/// A database of this many notes, whose process ends without closing it.
fn killed(disk: &Disk, directory: &str, rows: u64) {
    run(disk, |c| {
        let (database, notes) = open(c, directory, SHORT).expect("a database");
        let rows: Vec<_> = (0..rows).map(|id| note(id, &[7; 900])).collect();
        insert(&database, c, notes, &rows);
    });
}

fn opens_with(disk: &Disk, directory: &str) -> Result<usize, LogError> {
    run(disk, |c| match open(c, directory, SHORT) {
        Ok((database, notes)) => Ok(count(&database, c, notes)),
        Err(OpenError::Log(error)) => Err(error),
        Err(error) => panic!("{error}"),
    })
}

/// Files of a directory, by name.
fn files(disk: &Disk, directory: &str) -> BTreeMap<String, Vec<u8>> {
    let of =
        |path: &PathBuf| path.strip_prefix(directory).ok().map(|name| name.to_string_lossy().into_owned());
    disk.contents().into_iter().filter_map(|(path, bytes)| Some((of(&path)?, bytes))).collect()
}

fn logs(disk: &Disk, directory: &str) -> Vec<String> {
    files(disk, directory).into_keys().filter(|name| name.starts_with("log-")).collect()
}

/// Removes a file, and puts these bytes in its place.
fn replace(disk: &Disk, directory: &str, name: &str, bytes: Option<&[u8]>) {
    run(disk, |c| {
        let opened = P::open_directory(c, Path::new(directory), true).expect("a directory");
        let mut queue = P::queue(c, &opened).expect("a queue");
        let _ = P::perform(c, &mut queue, Operation::Remove { name: name.into() });
        let Some(bytes) = bytes else { return };
        let open = Operation::Open { name: name.into(), existence: Existence::New, access: Access::Cached };
        let file = P::perform(c, &mut queue, open).into_file().expect("a file");
        let mut buffer = Buffer::new(c, None, bytes.len(), "test").expect("memory");
        buffer.append(c, bytes);
        let write = Operation::Write { file, offset: 0, buffers: vec![buffer] };
        assert!(P::perform(c, &mut queue, write).result.is_ok());
    });
}

/// The opening is refused, and the directory is as it was.
fn is_refused(disk: &Disk, directory: &str, what: &str) -> LogError {
    let before = files(disk, directory);
    let error = opens_with(disk, directory).expect_err(what);
    assert!(files(disk, directory) == before, "{what}: the directory has changed");
    error
}

#[test]
fn a_directory_without_its_manifest_is_refused() {
    for closes in [true, false] {
        let disk = disk();
        killed(&disk, "d", 30);
        if closes {
            run(&disk, |c| open(c, "d", SHORT).expect("a database").0.close(c).expect("closed"));
        }
        let manifest = files(&disk, "d").remove(MANIFEST).expect("a manifest");
        replace(&disk, "d", MANIFEST, None);
        let error = is_refused(&disk, "d", "no manifest");
        assert!(matches!(error, LogError::NoManifest { .. }), "{error}");
        assert!(error.to_string().contains("isles.manifest is missing"), "{error}");
        let checked = run(&disk, |c| content::check::<P>(c, Path::new("d"), &mut |_, _| ()).map(drop));
        assert_eq!(checked, Err(ContentError::Log(error)), "a check says the same");
        replace(&disk, "d", MANIFEST, Some(&manifest));
        assert_eq!(opens_with(&disk, "d"), Ok(30));
    }
}

#[test]
fn what_is_not_the_databases_is_left_alone() {
    let disk = disk();
    killed(&disk, "d", 30);
    let strangers =
        ["log-4294967295-0000000000", "log-000-0000000042", "checkpoint-0000000077-000", "spare-000"];
    let bytes = [5; 6000];
    strangers.iter().for_each(|name| replace(&disk, "d", name, Some(&bytes)));
    assert_eq!(opens_with(&disk, "d"), Ok(30));
    run(&disk, |c| {
        let (database, notes) = open(c, "d", SHORT).expect("a database");
        insert(&database, c, notes, &[note(100, b"another")]);
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.checkpoint(), Ok(true));
        drop(session);
        database.close(c).expect("closed");
    });
    assert_eq!(opens_with(&disk, "d"), Ok(31));
    for name in strangers {
        assert_eq!(files(&disk, "d").get(name).map(Vec::as_slice), Some(&bytes[..]), "{name}");
    }
}

#[test]
fn a_segment_that_is_missing_or_cut_short_is_noticed() {
    let disk = disk();
    killed(&disk, "d", 30);
    let names = logs(&disk, "d");
    assert!(names.len() > 3, "{names:?}");
    for name in &names {
        let whole = files(&disk, "d").remove(name).expect("it is there");
        let is_used = whole.get(ALIGNMENT..).is_some_and(|blocks| blocks.iter().any(|byte| *byte != 0));
        let lengths = [None, Some(0), Some(100), Some(ALIGNMENT), Some(2 * ALIGNMENT), Some(whole.len() / 2)];
        for length in lengths {
            let cut = length.and_then(|length| whole.get(..length));
            // The next segment has a header only.
            if length.is_some_and(|length| length > 100) && !is_used {
                continue;
            }
            replace(&disk, "d", name, cut);
            let error = is_refused(&disk, "d", &format!("{name} with {length:?} bytes"));
            assert!(matches!(&error, LogError::Damaged { .. }), "{name}: {error}");
        }
        replace(&disk, "d", name, Some(&whole));
    }
    assert_eq!(opens_with(&disk, "d"), Ok(30));
}

/// Also where the next segment has one group only, whose blocks know of no flush but those before
/// it.
#[test]
fn the_end_of_a_segment_is_noticed_where_the_next_one_has_a_block() {
    for rows in 3..18 {
        let disk = disk();
        killed(&disk, "d", rows);
        let all = files(&disk, "d");
        let is_used = |name: &String| all[name].chunks(ALIGNMENT).skip(1).any(|part| part[0] != 0);
        let used: Vec<_> = logs(&disk, "d").into_iter().filter(is_used).collect();
        for name in &used[..used.len() - 1] {
            let last = all[name].chunks(ALIGNMENT).rposition(|part| BlockHeader::fetch(part).is_some());
            let end = last.expect("it has blocks") * ALIGNMENT;
            let mut flipped = all[name].clone();
            flipped[end + 20] ^= 1;
            for damaged in [&flipped[..], &all[name][..end + 20]] {
                replace(&disk, "d", name, Some(damaged));
                let error = is_refused(&disk, "d", &format!("{rows} rows, {name} from byte {end} on"));
                assert!(matches!(&error, LogError::Damaged { .. }), "{name}: {error}");
            }
            replace(&disk, "d", name, Some(&all[name]));
        }
        assert_eq!(opens_with(&disk, "d"), Ok(rows as usize));
    }
}

#[test]
fn files_of_other_lives_and_databases_are_refused() {
    let disk = disk();
    killed(&disk, "d", 8);
    killed(&disk, "other", 8);
    let older = files(&disk, "d").remove(MANIFEST).expect("a manifest");
    assert_eq!(opens_with(&disk, "d"), Ok(8));
    run(&disk, |c| {
        let (database, notes) = open(c, "d", SHORT).expect("a database");
        insert(&database, c, notes, &[note(100, b"of a later life")]);
    });
    let newer = files(&disk, "d").remove(MANIFEST).expect("a manifest");
    replace(&disk, "d", MANIFEST, Some(&older));
    let error = is_refused(&disk, "d", "an older manifest");
    assert!(matches!(error, LogError::OlderManifest(_)), "{error}");
    replace(&disk, "d", MANIFEST, Some(&newer));

    let name = &logs(&disk, "d")[0];
    let own = files(&disk, "d").remove(name).expect("a segment");
    let foreign = files(&disk, "other").remove(name).expect("a segment of the same name");
    replace(&disk, "d", name, Some(&foreign));
    assert!(matches!(is_refused(&disk, "d", "another's segment"), LogError::Foreign(_)));
    replace(&disk, "d", name, Some(&own));
    assert_eq!(opens_with(&disk, "d"), Ok(9));
}

/// Headers of blocks as a program can make them: those that it has read in the log, and one that
/// says that everything was flushed.
fn headers(disk: &Disk) -> Vec<Vec<u8>> {
    let mut made = vec![0; BLOCK_HEADER_BYTES];
    let all = BlockHeader { number: 3, flushed_before: u64::MAX, ..BlockHeader::default() };
    all.store(&mut made);
    let logs = files(disk, "d").into_iter().filter(|(name, _)| name.starts_with("log-"));
    let read =
        logs.filter_map(|(_, bytes)| bytes.get(ALIGNMENT..ALIGNMENT + BLOCK_HEADER_BYTES).map(Vec::from));
    std::iter::once(made).chain(read.filter(|bytes| BlockHeader::fetch(bytes).is_some())).collect()
}

#[test]
fn values_that_resemble_blocks_are_values() {
    let disk = disk();
    killed(&disk, "d", 30);
    let headers = headers(&disk);
    assert!(headers.len() > 3);
    let mut rows = Vec::new();
    for shift in 0..ALIGNMENT / 32 {
        // At every place of a block that a value may begin at, one after the other.
        let mut text = vec![0; 32 * shift];
        text.extend_from_slice(&headers[shift % headers.len()]);
        text.resize(ALIGNMENT * 2, shift as u8);
        rows.push(note(1000 + shift as u64, &text));
    }
    let total = run(&disk, |c| {
        let (database, notes) = open(c, "d", SHORT).expect("a database");
        insert(&database, c, notes, &rows);
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.checkpoint(), Ok(true));
        drop(session);
        // Into segments of a former use.
        let more: Vec<_> = (2000..2030).map(|id| note(id, b"short")).collect();
        insert(&database, c, notes, &more);
        count(&database, c, notes)
    });
    disk.lose_power();
    assert_eq!(opens_with(&disk, "d"), Ok(total));
}

#[test]
fn short_lives_take_little_space_and_little_reading() {
    const LARGE: u64 = 64 << 20;
    for closes in [false, true] {
        let disk = disk();
        let bytes_of = |disk: &Disk| files(disk, "d").values().map(Vec::len).sum::<usize>();
        for life in 0..14 {
            let before = disk.used().read_bytes;
            run(&disk, |c| {
                let (database, notes) = open(c, "d", LARGE).expect("a database");
                assert_eq!(count(&database, c, notes), 20 * life);
                let read = disk.used().read_bytes - before;
                assert!(read < 8 << 20, "life {life}: {read} bytes read");
                let rows: Vec<_> =
                    (0..20).map(|number| note((20 * life + number) as u64, b"short")).collect();
                insert(&database, c, notes, &rows);
                if closes {
                    database.close(c).expect("closed");
                }
            });
            let bytes = bytes_of(&disk);
            assert!(bytes <= 4 << 20, "life {life}, closed {closes}: {bytes} bytes");
        }
    }
}

#[test]
fn a_session_that_waits_alone_draws_no_epochs() {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    run(&disk, |c| {
        let (database, notes) = open(c, "d", 1 << 20).expect("a database");
        let (before, began) = (insert(&database, c, notes, &[note(0, b"first")]), P::now(c));
        let rows: Vec<_> = (1..=1000).map(|id| note(id, b"row")).collect();
        let after = insert(&database, c, notes, &rows);
        let (drawn, nanos) = (after - before, P::now(c).since(began));
        assert!(drawn <= 3 + nanos / 1_000_000, "{drawn} epochs in {nanos} ns");
    });
    assert_eq!(opens_with(&disk, "d"), Ok(1001));
}

/// A disk on which there is no room for the next segment takes commits as long as there is room for
/// them.
#[test]
fn space_that_cannot_be_taken_ahead_is_done_without() {
    let faults = DiskFaults { capacity_bytes: 150_000, ..DiskFaults::default() };
    let disk = Disk::new(DiskModel::NVME, faults);
    run(&disk, |c| {
        // The first segment has 64 KiB, and the next one would have twice as many.
        let (database, notes) = open(c, "d", 4 << 20).expect("a database");
        let rows: Vec<_> = (0..25).map(|id| note(id, b"row")).collect();
        insert(&database, c, notes, &rows);
    });
    disk.lose_power();
    disk.set_faults(DiskFaults::default());
    assert_eq!(opens_with(&disk, "d"), Ok(25));
}

/// A buffer for many records that is refused once the machine has no memory for it is done without:
/// the log goes on.
#[test]
fn memory_for_many_records_is_done_without() {
    let disk = disk();
    run(&disk, |c| {
        let (database, notes) = open(c, "d", SHORT).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        let mut insert = |id: u64, stays: bool| {
            let ended = session.transact(&Bounds::default(), |t| {
                t.insert(notes, &note(id, b"row"))?;
                if stays { Ok(()) } else { Err(Abort::RollBack) }
            });
            match ended {
                Ok(Ending::Committed((), commit)) => session.wait_written(commit).expect("on disk"),
                ended => assert!(matches!(ended, Ok(Ending::RolledBack(_))), "{ended:?}"),
            }
        };
        // Memory for rows is there then, and nothing was logged.
        insert(0, false);
        let mut taken = Vec::new();
        while let Ok(region) = P::region(c, None, 256 << 10, "taken") {
            taken.push(region);
        }
        assert!(taken.len() > 100);
        (1..20).for_each(|id| insert(id, true));
    });
    disk.lose_power();
    assert_eq!(opens_with(&disk, "d"), Ok(19));
}

/// The system refuses all memory from now on.
fn refuse_memory(disk: &Disk) {
    let refusal = Some(Refusal { call: Call::Map, after: 0, times: u64::MAX });
    disk.set_faults(DiskFaults { refusal, ..DiskFaults::default() });
}

/// Transactions whose records find no memory are refused before they commit, and later ones are
/// logged.
#[test]
fn commits_go_on_when_memory_for_the_log_is_there_again() {
    let disk = disk();
    run(&disk, |c| {
        let (database, notes) = open(c, "d", SHORT).expect("a database");
        let mut session = database.session(c, None, false).expect("a session");
        let mut try_insert = |id: u64, text: &[u8], stays: bool| {
            let ended = session.transact(&Bounds::default(), |t| {
                t.insert(notes, &note(id, text))?;
                if stays { Ok(()) } else { Err(Abort::RollBack) }
            })?;
            if let Ending::Committed((), commit) = ended {
                session.wait_written(commit)?;
            }
            Ok::<_, Abort>(())
        };
        let long = vec![7; 100 << 10];
        // Memory for rows is there then, and nothing was logged.
        try_insert(0, &long, false).expect("rolled back");
        refuse_memory(&disk);
        let refused = try_insert(1, &long, true);
        assert!(matches!(refused, Err(Abort::OutOfMemory(_))), "{refused:?}");
        // A short record has the buffer that its session keeps.
        try_insert(2, b"row", true).expect("on disk");
        disk.set_faults(DiskFaults::default());
        (3..20).for_each(|id| try_insert(id, &long, true).expect("on disk"));
    });
    disk.lose_power();
    assert_eq!(opens_with(&disk, "d"), Ok(18));
}

/// A part that is prepared keeps the buffer for the record of its end, which cannot be refused any
/// more.
#[test]
fn prepared_parts_end_without_memory_for_the_log() {
    for is_known in [false, true] {
        let disk = disk();
        run(&disk, |c| {
            let (database, notes) = open(c, "d", SHORT).expect("a database");
            let session = || database.session(c, None, false).expect("a session");
            let (mut first, mut second) = (session(), session());
            let body = [7; 40 << 10];
            let prepared: Vec<_> = (0..3)
                .map(|id| {
                    let part = PartOf { global: GlobalId(id.into()), coordinator: 1 };
                    let rows = |t: &mut boundary::Transaction<'_>| t.insert(notes, &note(id, &body));
                    match is_known {
                        true => first.prepare_as(part, &Bounds::default(), rows).expect("prepared").1,
                        false => first.prepare(&Bounds::default(), rows).expect("prepared").1,
                    }
                })
                .collect();
            refuse_memory(&disk);
            let commits: Vec<_> =
                prepared.into_iter().map(|part| second.finish(part, true).expect("a commit")).collect();
            commits.into_iter().for_each(|commit| second.wait_written(commit).expect("on disk"));
        });
        disk.lose_power();
        disk.set_faults(DiskFaults::default());
        assert_eq!(opens_with(&disk, "d"), Ok(3));
    }
}

/// The next segment is tried again where the system refuses to make it for a while, as it does
/// where too many files are open.
#[test]
fn a_segment_that_is_refused_for_a_while_is_made_later() {
    let mut lives = 0;
    for after in 5..25 {
        let disk = disk();
        let refusal = Some(Refusal { call: Call::Open, after, times: 3 });
        disk.set_faults(DiskFaults { refusal, ..DiskFaults::default() });
        let opened = run(&disk, |c| {
            let Ok((database, notes)) = open(c, "d", SHORT) else { return false };
            for id in 0..100 {
                insert(&database, c, notes, &[note(id, &[7; 900])]);
                P::pause(c, 1_000_000);
            }
            true
        });
        disk.lose_power();
        disk.set_faults(DiskFaults::default());
        if opened {
            assert!(logs(&disk, "d").len() > 3);
            lives += 1;
        }
        assert_eq!(opens_with(&disk, "d"), Ok(if opened { 100 } else { 0 }));
    }
    assert!(lives > 5, "{lives} openings");
}

/// A flush that fails ends the log, and what was queued behind it, such as the next segment, does
/// not make the directory a damaged one.
#[test]
fn directories_open_after_a_flush_that_failed() {
    let (mut ended, mut longest) = (0, 0);
    for (seed, after) in (0..3).flat_map(|seed| (0..30).map(move |after| (seed, after))) {
        let disk = disk();
        let acknowledged = run(&disk, |c| {
            let (database, notes) = open(c, "d", SHORT).expect("a database");
            let refusal = Some(Refusal { call: Call::Flush, after, times: 1 });
            disk.set_faults(DiskFaults { seed, refusal, ..DiskFaults::default() });
            let mut sessions = [0, 1].map(|_| database.session(c, None, false).expect("a session"));
            for first in (0..40).step_by(2) {
                // The queue performs a group of two workers. Each is more than the part of a
                // segment at which the next one is made.
                let commits = [0, 1].map(|number| {
                    let row = note(first + number, &[7; 3000]);
                    sessions[number as usize].transact(&Bounds::default(), |t| t.insert(notes, &row))
                });
                let is_durable = commits.into_iter().all(|ended| match ended {
                    Ok(Ending::Committed((), commit)) => sessions[0].wait_durable(commit).is_ok(),
                    _ => false,
                });
                if !is_durable {
                    P::pause(c, 10_000_000);
                    return first as usize;
                }
            }
            40
        });
        (ended, longest) = (ended + usize::from(acknowledged < 40), longest.max(logs(&disk, "d").len()));
        disk.lose_power();
        disk.set_faults(DiskFaults::default());
        let found = opens_with(&disk, "d");
        let is_whole = found.as_ref().is_ok_and(|found| *found >= acknowledged);
        assert!(is_whole, "seed {seed}, after {after} flushes: {found:?} of {acknowledged}");
    }
    assert!(ended > 60 && longest > 3, "{ended} logs ended, of at most {longest} segments");
}

/// A file system that takes no space ahead holds logs all the same.
#[test]
fn logs_grow_where_no_space_is_taken_ahead() {
    let refusal = Some(Refusal { call: Call::Preallocate, after: 0, times: u64::MAX });
    let disk = Disk::new(DiskModel::NVME, DiskFaults { refusal, ..DiskFaults::default() });
    killed(&disk, "d", 40);
    disk.lose_power();
    assert_eq!(opens_with(&disk, "d"), Ok(40));
}

/// A checkpoint counts though files that it stands for cannot be removed: they go later.
#[test]
fn what_cannot_be_removed_behind_a_checkpoint_stays_for_later() {
    let refusal = Some(Refusal { call: Call::Remove, after: 0, times: u64::MAX });
    let disk = Disk::new(DiskModel::NVME, DiskFaults { refusal, ..DiskFaults::default() });
    run(&disk, |c| {
        let (database, notes) = open(c, "d", SHORT).expect("a database");
        let rows: Vec<_> = (0..30).map(|id| note(id, &[7; 900])).collect();
        insert(&database, c, notes, &rows);
        let mut session = database.session(c, None, false).expect("a session");
        assert_eq!(session.checkpoint(), Ok(true));
        insert(&database, c, notes, &[note(30, b"behind the checkpoint")]);
    });
    let first = &logs(&disk, "d")[0];
    disk.lose_power();
    disk.set_faults(DiskFaults::default());
    assert!(files(&disk, "d").contains_key(first));
    assert_eq!(opens_with(&disk, "d"), Ok(31));
    assert!(!files(&disk, "d").contains_key(first), "{first} is superseded");
}
