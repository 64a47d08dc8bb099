//! Readers of changes whose process is killed at any moment: a reader that stores its position with
//! what it made of the changes misses and repeats nothing. A copy of a directory at rest is
//! the state that a crash would have left.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use isles::{ChangePosition, ChangesFrom, CommittedTransaction, Database, Error, Row, Scheme, Table};
use terms::random::Random;

use crate::changes::{Counter, Tables, key_of, number, open_at, step};
use crate::common::{Directory, SCHEMES};

/// Names the directory in the process that is killed.
const KILLED: &str = "ISLES_CHANGES_KILLED";
const KILLS: u64 = 9;
/// A child reads something within this time.
const PATIENCE: Duration = Duration::from_secs(100);

/// The reader's own state: position and counters, in one transaction with each other.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Stored {
    id: u8,
    position: Vec<u8>,
}

struct Mirror {
    database: Database,
    counters: Table<Counter>,
    stored: Table<Stored>,
}

impl Mirror {
    fn open(path: &Path) -> Self {
        let mut builder = Database::at(path.join("mirror")).memory_limit(64 << 20);
        let (counters, stored) = (builder.table("counters"), builder.table("stored"));
        Mirror { database: builder.open().expect("the mirror"), counters, stored }
    }

    fn position(&self) -> Option<ChangePosition> {
        let stored = self.database.transaction(|t| t.get(self.stored, &0)).expect("the mirror");
        stored.map(|stored| ChangePosition::from_bytes(&stored.position).expect("a position"))
    }

    /// Applies some commits, and stores the position with them.
    fn apply(&self, commits: &[CommittedTransaction]) -> std::result::Result<(), String> {
        let gap = self.database.transaction(|t| {
            for change in commits.iter().flat_map(|commit| &commit.changes) {
                if change.table().name() != "counters" {
                    continue;
                }
                let id = number(&key_of(change)[0]);
                let before = t.get(self.counters, &id)?.map_or(0, |counter| counter.count);
                let mut row = Counter { id, count: before };
                change.apply(&mut row)?;
                row = change.row()?.unwrap_or(row);
                if row.count != before + 1 {
                    return Ok(Some(format!("counter {id}: {} after {before}", row.count)));
                }
                t.upsert(self.counters, &row)?;
            }
            let Some(last) = commits.last() else { return Ok(None) };
            t.upsert(self.stored, &Stored { id: 0, position: last.position.to_bytes().to_vec() })?;
            Ok(None)
        });
        gap.expect("the mirror").map_or(Ok(()), Err)
    }
}

/// Runs until it is killed, in a process of its own.
#[test]
fn child_that_is_killed() {
    let Ok(path) = std::env::var(KILLED) else { return };
    let path = Path::new(&path);
    let scheme = SCHEMES[std::fs::read(path.join("scheme")).expect("a number")[0] as usize];
    let (database, tables) = open_at(&path.join("data"), scheme);
    let mirror = Mirror::open(path);
    let from = mirror.position().map_or(ChangesFrom::Reader("mirror".into()), ChangesFrom::Position);
    if database.change_readers().expect("a log").is_empty() {
        assert!(mirror.position().is_none(), "the reader is forgotten");
        database.register_change_reader("mirror", ChangesFrom::Oldest).expect("a reader");
    }
    let mut changes = database.changes(from).expect("no change is lost");
    std::thread::scope(|scope| {
        for worker in 0..2u32 {
            let (database, tables) = (&database, &tables);
            scope.spawn(move || {
                let mut session = database.session().expect("a session");
                let mut random = Random::new(u64::from(std::process::id()), u64::from(worker));
                for number in 1.. {
                    match step(&mut session, tables, worker, &mut random) {
                        Ok(()) | Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    if worker == 0 && number % 40 == 0 {
                        database.checkpoint().expect("a checkpoint");
                    }
                }
            });
        }
        loop {
            let mut commits = Vec::new();
            while commits.len() < 20
                && let Some(commit) = changes.next_within(Duration::from_millis(1)).expect("a log")
            {
                commits.push(commit);
            }
            mirror.apply(&commits).expect("no gap, and no repeat");
            if let Some(commit) = commits.last() {
                database.acknowledge_changes("mirror", commit.position).expect("acknowledged");
                std::fs::write(path.join("progress"), commit.position.to_bytes()).expect("written");
            }
        }
    });
}

fn start_child(path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "changes_killed::child_that_is_killed", "--nocapture"]).env(KILLED, path);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process")
}

#[test]
fn a_reader_that_is_killed_misses_and_repeats_nothing() {
    let directory = Directory::new("changes-kills");
    let mut random = Random::new(5, 0);
    for (number, scheme) in SCHEMES.iter().enumerate().filter(|(number, _)| number % 3 == 0) {
        let path = directory.0.join(format!("{scheme:?}"));
        std::fs::create_dir_all(&path).expect("a directory");
        std::fs::write(path.join("scheme"), [number as u8]).expect("written");
        for kill in 0..KILLS {
            let mut child = start_child(&path);
            let progress = || std::fs::read(path.join("progress")).ok();
            let before = progress();
            // Some are killed while they open, the others at work.
            let (opening, began) = (kill % 3 == 2, Instant::now());
            while !opening && progress() == before {
                if let Some(status) = child.try_wait().expect("a process") {
                    let output = child.wait_with_output().expect("its output");
                    let text = [output.stdout, output.stderr]
                        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                    panic!("{scheme:?}, kill {kill}: {status}: {}", text.join("\n"));
                }
                assert!(began.elapsed() < PATIENCE, "{scheme:?}, kill {kill}: the reader reads nothing");
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(random.below(150)));
            child.kill().expect("killed");
            child.wait().expect("it has ended");
        }
        assert!(path.join("progress").exists(), "the reader got somewhere");
        let (database, tables) = open_at(&path.join("data"), *scheme);
        let mirror = Mirror::open(&path);
        let mut changes =
            database.changes(mirror.position().expect("a position")).expect("no change is lost");
        let commits: Vec<_> =
            changes.available().expect("a log").map(|commit| commit.expect("a commit")).collect();
        mirror.apply(&commits).expect("no gap, and no repeat");
        let all =
            |database: &Database, table| database.transaction(|t| t.scan(table, ..).collect()).expect("rows");
        let counted = all(&database, tables.counters);
        assert_eq!(all(&mirror.database, mirror.counters), counted);
        assert!(counted.iter().map(|counter| counter.count).sum::<u64>() > KILLS, "{counted:?}");
    }
}

/// Inserts counters with these numbers, each in a transaction.
fn insert(database: &Database, tables: &Tables, numbers: std::ops::Range<u32>) {
    for id in numbers {
        database.transaction(|t| t.insert(tables.counters, &Counter { id, count: 1 })).expect("inserted");
    }
}

/// The numbers of the counters that were inserted behind a position.
fn inserted(database: &Database, from: ChangePosition) -> Vec<u32> {
    let mut changes = database.changes(from).expect("no change is lost");
    let commits = changes.available().expect("a log").map(|commit| commit.expect("a commit"));
    commits.flat_map(|commit| commit.changes).map(|change| number(&key_of(&change)[0])).collect()
}

/// Copies all files of a database that is open and at rest, those for readers too, which a backup
/// leaves out.
fn crash(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        std::fs::copy(from.join(&name), to.join(&name)).expect("a copy");
    }
}

/// Epochs advance while a reader waits, and a crash forgets those without commits.
#[test]
fn a_reader_that_was_idle_before_a_crash_misses_nothing_behind_it() {
    let directory = Directory::new("changes-idle");
    std::fs::create_dir_all(&directory.0).expect("a directory");
    let [data, crashed] = ["data", "crashed"].map(|name| directory.0.join(name));
    let (database, tables) = open_at(&data, Scheme::Silo);
    let position = database.register_change_reader("kept", ChangesFrom::Now).expect("a reader");
    let mut changes = database.changes(position).expect("a stream");
    insert(&database, &tables, 0..3);
    let read = std::iter::from_fn(|| changes.next_within(Duration::from_millis(200)).expect("a log"));
    assert_eq!(read.count(), 3);
    let later = database.changes(ChangesFrom::Now).expect("a stream").last_position();
    crash(&data, &crashed);

    let (database, tables) = open_at(&crashed, Scheme::Silo);
    insert(&database, &tables, 3..9);
    for position in [changes.last_position(), later] {
        assert_eq!(inserted(&database, position), [3, 4, 5, 6, 7, 8]);
    }
}

/// An opening after a crash writes commits once more whose blocks it cannot know to be durable, and
/// so does the next one, if it finds nothing else.
#[test]
fn crashes_one_after_the_other_hide_no_commit_and_repeat_none() {
    let directory = Directory::new("changes-crashes");
    std::fs::create_dir_all(&directory.0).expect("a directory");
    let path = |crash: u32| directory.0.join(crash.to_string());
    let (mut database, tables) = open_at(&path(0), Scheme::Silo);
    let position = database.register_change_reader("kept", ChangesFrom::Now).expect("a reader");
    let mut changes = database.changes(position).expect("a stream");
    let mut positions = vec![changes.last_position()];
    insert(&database, &tables, 0..20);
    let commits = changes.available().expect("a log").map(|commit| commit.expect("a commit"));
    positions.extend(commits.map(|commit| commit.position));
    assert_eq!(positions.len(), 21);
    drop(changes);
    for number in 0..5 {
        crash(&path(number), &path(number + 1));
        let (next, tables) = open_at(&path(number + 1), Scheme::Silo);
        database = next;
        // Mostly there is nothing but what was there.
        if number == 3 {
            insert(&database, &tables, 20..25);
        }
        let end = if number >= 3 { 25 } else { 20 };
        for (read, position) in (0..).zip(&positions) {
            assert_eq!(inserted(&database, *position), (read..end).collect::<Vec<_>>(), "crash {number}");
        }
    }
}
