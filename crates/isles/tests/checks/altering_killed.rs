//! A process that changes tables and rows in one transaction after the other, and is killed: each
//! opening finds all of a transaction or nothing.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use isles::{ColumnDescription, Database, Datum, Result, Scheme, TableBuilder, TableDescription, ValueType};
use terms::random::Random;

use crate::common::Directory;

/// Names the directory in the process that is killed.
const KILLED: &str = "ISLES_ALTERING_KILLED";
const KILLS: u64 = 8;
const PATIENCE: Duration = Duration::from_secs(100);

fn described(name: &str) -> TableDescription {
    let table = TableBuilder::new(name).column(ColumnDescription::new("id", ValueType::Signed(8)));
    let table = table.column(ColumnDescription::new("n", ValueType::Signed(8))).key(["id"]);
    table.build().expect("a table")
}

fn row(id: i64, n: i64) -> [Datum; 2] {
    [id, n].map(Datum::Signed)
}

fn name_of(number: i64) -> String {
    format!("numbered {}", number % 3)
}

fn rows_of(number: i64) -> i64 {
    1 + number % 40
}

fn open(path: &Path) -> Database {
    let mut builder = Database::at(path).scheme(Scheme::Mvcc).spare_tables(4096);
    builder.tables_of_directory().expect("tables");
    builder.open().expect("a database")
}

/// Checks the state that the last transaction has left: its number in a row, and one table of its
/// own. Returns the number.
fn number(database: &Database) -> i64 {
    if database.tables().is_empty() {
        return 0;
    }
    let state = database.transaction(|t| t.scan_dynamic("state")).expect("the state");
    let [_, Datum::Signed(number)] = state[0][..] else { panic!("{state:?}") };
    let names: Vec<_> = database.tables().iter().map(|table| table.name().to_owned()).collect();
    assert_eq!(names.len(), 2, "{names:?} after {number}");
    let rows = database.transaction(|t| t.scan_dynamic(&name_of(number))).expect("its table");
    let expected: Vec<Vec<Datum>> = (0..rows_of(number)).map(|id| row(id, number).into()).collect();
    assert_eq!(rows, expected, "after {number}");
    number
}

/// The next transaction.
fn step(database: &Database, number: i64) -> Result<()> {
    database.transaction(|t| {
        match number {
            1 => {
                t.create_described_table(described("state"))?;
                t.insert_dynamic("state", &row(0, number))?;
            }
            _ => {
                t.update_dynamic("state", &row(0, 0)[..1], &row(0, number))?;
            }
        }
        let (before, name) = (name_of(number - 1), name_of(number));
        match number % 4 {
            _ if number == 1 => t.create_described_table(described(&name))?,
            0 => {
                t.create_described_table(described(&name))?;
                t.drop_table(&before)?;
            }
            1 => {
                t.drop_table(&before)?;
                t.create_described_table(described(&name))?;
            }
            _ => {
                t.rename_table(&before, &name)?;
                t.truncate_table(&name)?;
            }
        }
        (0..rows_of(number)).try_for_each(|id| t.insert_dynamic(&name, &row(id, number)))
    })
}

/// Runs until it is killed, in a process of its own.
#[test]
fn child_that_is_killed() {
    let Ok(path) = std::env::var(KILLED) else { return };
    let path = Path::new(&path);
    let database = open(&path.join("data"));
    for number in number(&database) + 1.. {
        step(&database, number).expect("a transaction");
        std::fs::write(path.join("progress.new"), number.to_string()).expect("written");
        std::fs::rename(path.join("progress.new"), path.join("progress")).expect("renamed");
        if number % 16 == 0 {
            database.checkpoint().expect("a checkpoint");
        }
    }
}

#[test]
fn a_process_that_is_killed_leaves_all_of_a_transaction_or_nothing() {
    let directory = Directory::new("altering-kills");
    let path = &directory.0;
    std::fs::create_dir_all(path).expect("a directory");
    let progress = || {
        let text = std::fs::read_to_string(path.join("progress")).ok();
        text.and_then(|text| text.parse::<i64>().ok()).unwrap_or(0)
    };
    let mut random = Random::new(11, 0);
    for kill in 0..KILLS {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "altering_killed::child_that_is_killed", "--nocapture"]).env(KILLED, path);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a process");
        let (before, began) = (progress(), Instant::now());
        while progress() == before {
            if let Some(status) = child.try_wait().expect("a process") {
                let output = child.wait_with_output().expect("its output");
                panic!("kill {kill}: {status}: {}", String::from_utf8_lossy(&output.stderr));
            }
            assert!(began.elapsed() < PATIENCE, "kill {kill}: nothing happens");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(random.below(60)));
        child.kill().expect("killed");
        child.wait().expect("it has ended");
        // The number may not have been written yet.
        let acknowledged = progress();
        let found = number(&open(&path.join("data")));
        assert!(found == acknowledged || found == acknowledged + 1, "{found} after {acknowledged}");
    }
}
