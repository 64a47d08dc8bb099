//! Copies of damaged directories, and the files of copies.
// The tests damage files.
#![allow(clippy::disallowed_methods)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::common::{Directory, Person, all_people, declare, person};
use isles::{Builder, Database, Error, OpenReason, Table, copy_directory};

/// A new directory for each engine.
fn both(name: &str) -> [(Directory, bool); 2] {
    [false, true].map(|pages| (Directory::new(&format!("{name}-{pages}")), pages))
}

fn builder(directory: &Directory, pages: bool) -> Builder {
    let builder = Database::at(&directory.0);
    if pages { builder.pages(8 << 20) } else { builder }
}

fn fill(directory: &Directory, pages: bool) -> (Database, Table<Person>) {
    let (database, people) = declare(builder(directory, pages)).expect("a database");
    for id in 0..40 {
        database.transaction(|t| t.insert(people, &person(id))).expect("inserted");
    }
    (database, people)
}

/// Returns the file of the log that contains the transactions, and the position of its last written
/// byte.
fn log_of(directory: &Path) -> (PathBuf, usize) {
    let files =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let logs = files.filter(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.starts_with("log-") || name.starts_with("wal-")
    });
    let written = logs.map(|path| {
        let bytes = std::fs::read(&path).expect("read");
        let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        (path, last)
    });
    written.max_by_key(|(_, last)| *last).expect("a log")
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).expect("read");
    bytes[at] ^= 1;
    std::fs::write(path, bytes).expect("written");
}

#[test]
fn a_damaged_log_is_reported_and_not_copied() {
    for (directory, pages) in both("backup-damaged") {
        let (database, _) = fill(&directory, pages);
        drop(database);
        let copy = Directory::new("backup-damaged-copy");
        copy_directory(&directory.0, &copy.0).expect("it is whole");
        std::fs::remove_dir_all(&copy.0).expect("removed");
        let (log, last) = log_of(&directory.0);
        let name = log.file_name().expect("a name").to_string_lossy().into_owned();
        for at in (4096 + 200..last - 4096 * 2).step_by(4096 * 15) {
            flip(&log, at);
            let check = Database::check(&directory.0);
            assert!(
                matches!(check, Err(Error::Open { reason: OpenReason::Damaged, .. })),
                "pages {pages}, {at}: {check:?}"
            );
            let copied = copy_directory(&directory.0, &copy.0).expect_err("acknowledged rows are missing");
            let text = copied.to_string();
            assert!(text.contains(&name) && text.contains("damaged"), "{text}");
            assert!(text.contains(&*directory.0.to_string_lossy()), "{text}");
            assert!(!copy.0.exists(), "nothing is left");
            flip(&log, at);
        }
        let (database, people) = declare(builder(&directory, pages)).expect("the copies changed nothing");
        assert_eq!(all_people(&database, people).len(), 40);
    }
}

#[test]
fn copies_are_private_and_have_no_unwritten_space() {
    for (directory, pages) in both("backup-modes") {
        let (database, people) = fill(&directory, pages);
        let copy = Directory::new("backup-modes-copy");
        let made = database.backup(copy.0.join("a/b")).expect("a copy");
        let copy_path = copy.0.join("a/b");
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!((mode(&copy_path), mode(&directory.0)), (0o700, 0o700));
        let mut bytes = 0;
        let mut files = 0;
        for entry in std::fs::read_dir(&copy_path).expect("a directory") {
            let path = entry.expect("an entry").path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            bytes += std::fs::metadata(&path).expect("it is there").len();
            files += 1;
        }
        assert_eq!(made.files, files);
        assert!(bytes < 2 << 20, "pages {pages}: {bytes} bytes for 40 rows");
        let back = Directory::new("backup-modes-back");
        copy_directory(&copy_path, &back.0).expect("restored");
        drop((database, people));
        let (database, people) = declare(builder(&back, pages)).expect("a database");
        assert_eq!(all_people(&database, people).len(), 40);
    }
}
