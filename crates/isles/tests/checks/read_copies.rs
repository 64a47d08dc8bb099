//! Copies that are read while the directory is open and busy.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use isles::{Builder, Database, Error, Row, Scheme};

use crate::common::Directory;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Half {
    id: u32,
    count: u64,
    filling: String,
}

/// Sets a flag at the end of a thread, also if the thread panics.
struct SetAtEnd<'f>(&'f AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn declare(path: &Path, pages: bool) -> (Builder, isles::Table<Half>) {
    let builder = Database::at(path).sessions(4).memory_limit(64 << 20).scheme(Scheme::Silo);
    let mut builder = if pages { builder.pages(8 << 20) } else { builder };
    let halves = builder.table("halves");
    (builder, halves)
}

/// All files of a directory, without their ends, which a writer may extend.
fn names(path: &Path) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry"));
    let named = |entry: std::fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("a file").len())
    };
    entries.map(named).collect()
}

/// A writer keeps two rows of each number equal, and checkpoints; copies are consistent, and have
/// everything that was acknowledged before.
fn copies_are_consistent(pages: bool) {
    let directory = Directory::new(if pages { "read-copy-pages" } else { "read-copy" });
    let scratch = Directory::new(if pages { "read-copy-pages-scratch" } else { "read-copy-scratch" });
    std::fs::create_dir_all(&scratch.0).expect("a directory");
    let (builder, halves) = declare(&directory.0, pages);
    let database = builder.open().expect("a database");
    let (acknowledged, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (database, acknowledged, done) = (&database, &acknowledged, &done);
        scope.spawn(move || {
            let _ended = SetAtEnd(done);
            let mut session = database.session().expect("a session");
            for count in 1.. {
                if done.load(Ordering::SeqCst) {
                    return;
                }
                let half = |id| Half { id, count, filling: "f".repeat(count as usize % 3000) };
                let number = (count % 20) as u32;
                session
                    .transaction(|t| {
                        t.upsert(halves, &half(number))?;
                        t.upsert(halves, &half(1000 + number)).map(drop)
                    })
                    .expect("committed");
                acknowledged.store(count, Ordering::SeqCst);
                if count % 25 == 0 {
                    database.checkpoint().expect("a checkpoint");
                }
            }
        });
        let _ended = SetAtEnd(done);
        let mut last = 0;
        for _ in 0..if pages { 3 } else { 8 } {
            while acknowledged.load(Ordering::SeqCst) < last + 30 {
                assert!(!done.load(Ordering::SeqCst), "the writer has ended");
                std::thread::yield_now();
            }
            let least = acknowledged.load(Ordering::SeqCst);
            let (builder, halves) = declare(&directory.0, pages);
            let copy = builder.read_copy(&scratch.0).expect("a copy");
            let rows = copy.read(|t| t.scan(halves, ..).collect()).expect("rows");
            let (first, second) = rows.split_at(rows.len() / 2);
            let same = |one: &Half, other: &Half| (one.count, &one.filling) == (other.count, &other.filling);
            assert!(
                first.iter().zip(second).all(|(one, other)| one.id + 1000 == other.id && same(one, other))
            );
            last = rows.iter().map(|row| row.count).max().expect("rows");
            assert!(last >= least, "{last} is older than {least}");
            drop(copy);
            assert!(names(&scratch.0).is_empty(), "the copy is removed");
        }
    });
    // Without a writer at work, a copy changes nothing.
    let before = names(&directory.0);
    let (builder, halves) = declare(&directory.0, pages);
    let copy = builder.read_copy(&scratch.0).expect("a copy");
    assert!(copy.read(|t| t.scan(halves, ..).count()).expect("rows") > 0);
    assert_eq!(copy.read(|_| Err::<(), _>(Error::Cancelled)), Err(Error::Cancelled));
    assert_eq!(names(&directory.0), before);
    database.close().expect("closed");
}

#[test]
fn copies_of_rows_in_memory_are_consistent() {
    copies_are_consistent(false);
}

#[test]
fn copies_of_rows_in_pages_are_consistent() {
    copies_are_consistent(true);
}

#[test]
fn what_cannot_be_copied_is_refused_and_leaves_nothing() {
    let scratch = Directory::new("read-copy-refused");
    std::fs::create_dir_all(&scratch.0).expect("a directory");
    let missing = Database::at(scratch.0.join("missing")).read_copy(&scratch.0);
    assert!(matches!(missing, Err(Error::Backup { .. })), "{missing:?}");
    let in_memory = Database::in_memory().read_copy(&scratch.0);
    assert!(matches!(in_memory, Err(Error::Misuse(_))), "{in_memory:?}");
    assert!(names(&scratch.0).is_empty());
}
