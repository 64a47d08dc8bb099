//! Readers of changes whose process is killed at any moment: a reader that stores its position with
//! what it made of the changes misses and repeats nothing.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use isles::{ChangePosition, ChangesFrom, CommittedTransaction, Database, Error, Row, Table};
use terms::random::Random;

use crate::changes::{Counter, key_of, number, open_at, step};
use crate::common::{Directory, SCHEMES};

/// Names the directory in the process that is killed.
const KILLED: &str = "ISLES_CHANGES_KILLED";
const KILLS: u64 = 12;

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
            let until = Instant::now() + Duration::from_millis(150 + random.below(250));
            while Instant::now() < until {
                if let Some(status) = child.try_wait().expect("a process") {
                    let output = child.wait_with_output().expect("its output");
                    let text = [output.stdout, output.stderr]
                        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                    panic!("{scheme:?}, kill {kill}: {status}: {}", text.join("\n"));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
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
