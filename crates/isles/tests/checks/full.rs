//! Limited file sizes: each write beyond a limit fails, as on a full disk.
// The test starts itself again under the limit.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Directory;
use isles::{Database, Error, OpenReason, Row, Table};

/// Environment variable with the directory of the process under the limit.
const UNDER: &str = "ISLES_UNDER_A_LIMIT";
const ROWS: u64 = 40;
/// Bytes of a row: all rows together do not fit into a file of a checkpoint, and each fits into a
/// segment of the log.
const ROW_BYTES: usize = 900_000;
/// Limits in blocks of 512 bytes: larger than the segments of the log and smaller than all rows;
/// and smaller than one row.
const SEGMENTS_FIT: u32 = 66 << 11;
const NOTHING_FITS: u32 = 1 << 7;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Big {
    id: u64,
    #[row(tail)]
    bytes: Vec<u8>,
}

fn big(id: u64) -> Big {
    Big { id, bytes: vec![id as u8; ROW_BYTES] }
}

fn open(path: &Path) -> isles::Result<(Database, Table<Big>)> {
    let mut builder = Database::at(path);
    let rows = builder.table::<Big>("rows");
    Ok((builder.open()?, rows))
}

/// Runs this test in a process whose files have at most `blocks` blocks.
fn under(test: &str, blocks: u32, path: &Path) {
    // A write beyond the limit raises a signal unless the process ignores it: the library does.
    let script = "ulimit -f \"$0\"; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, &blocks.to_string()]);
    command.arg(std::env::current_exe().expect("this test")).args(["--exact", test]).env(UNDER, path);
    let output = command.output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn directory_under_the_limit() -> Option<PathBuf> {
    std::env::var_os(UNDER).map(PathBuf::from)
}

#[test]
fn a_checkpoint_on_a_full_disk_keeps_the_log_and_acknowledged_commits() {
    if let Some(path) = directory_under_the_limit() {
        let (database, rows) = open(&path).expect("segments fit");
        for id in 0..2 * ROWS {
            database.transaction(|t| t.insert(rows, &big(id))).expect("the log has room");
        }
        let refused = database.checkpoint().expect_err("one file for all rows");
        let is_told = |why: &str| why.contains("checkpoint") && why.contains("ulimit -f");
        assert!(matches!(&refused, Error::NotDurable(why) if is_told(why)), "{refused}");
        // The log continues.
        database.transaction(|t| t.delete(rows, &0)).expect("the log has room");
        return;
    }
    let directory = Directory::new("full-checkpoint");
    under(
        "full::a_checkpoint_on_a_full_disk_keeps_the_log_and_acknowledged_commits",
        SEGMENTS_FIT,
        &directory.0,
    );
    let (database, rows) = open(&directory.0).expect("nothing was lost");
    let count = database.transaction(|t| t.scan(rows, ..).count()).expect("read");
    assert_eq!(count, 2 * ROWS - 1);
    assert_eq!(database.transaction(|t| t.get(rows, &7)), Ok(Some(big(7))));
    assert_eq!(database.checkpoint(), Ok(()), "there is room again");
    assert_eq!(database.close(), Ok(()));
    assert_eq!(Database::check(&directory.0).expect("whole").tables, [("rows".to_owned(), 2 * ROWS - 1)]);
}

#[test]
fn a_log_on_a_full_disk_acknowledges_nothing_and_loses_nothing() {
    if let Some(path) = directory_under_the_limit() {
        for path in [path.join("new"), path.join("old")] {
            let (database, rows) = match open(&path) {
                Ok(opened) => opened,
                Err(Error::Open { reason: OpenReason::DiskFull, .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            for id in 2..4 {
                let refused = database.transaction(|t| t.insert(rows, &big(id)));
                assert!(
                    matches!(&refused, Err(Error::NotDurable(why)) if why.contains("isles") && why.contains("ulimit -f")),
                    "{refused:?}"
                );
            }
            assert!(matches!(database.create_table::<Big>("more"), Err(Error::NotDurable(_))));
            assert!(matches!(database.drop_table("rows"), Err(Error::NotDurable(_))));
            assert_eq!(database.tables().iter().map(|table| table.name()).collect::<Vec<_>>(), ["rows"]);
        }
        return;
    }
    let directory = Directory::new("full-log");
    std::fs::create_dir_all(&directory.0).expect("a directory");
    let old = directory.0.join("old");
    let (database, rows) = open(&old).expect("a database");
    database.transaction(|t| t.insert(rows, &big(1))).expect("inserted");
    drop(database);
    under("full::a_log_on_a_full_disk_acknowledges_nothing_and_loses_nothing", NOTHING_FITS, &directory.0);
    for (path, expected) in [(old, vec![1]), (directory.0.join("new"), vec![])] {
        let mut builder = Database::at(&path);
        let rows = builder.table::<Big>("rows");
        // A table whose creation was not acknowledged may exist, and is empty.
        builder.tables_of_directory().expect("readable");
        let database = builder.open().expect("what was refused is no obstacle");
        let ids =
            database.transaction(|t| t.scan(rows, ..).fields(Big::ID).collect::<isles::Result<Vec<_>>>());
        assert_eq!(ids, Ok(expected));
        if let Ok(more) = database.table::<Big>("more") {
            assert_eq!(database.transaction(|t| t.scan(more, ..).count()), Ok(0));
        }
        database.transaction(|t| t.insert(rows, &big(9))).expect("there is room again");
    }
}
