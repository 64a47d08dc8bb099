//! Directories that cannot be opened: each error has a reason and a remedy, and the directory stays
//! unchanged.
// The test creates files, and damages some.
#![allow(clippy::disallowed_methods)]

use std::error::Error as _;
use std::path::Path;

use crate::common::{Directory, person};
use isles::{Database, Error, OpenReason, Scheme};

/// Returns the reason why a directory cannot be opened.
fn refusal(path: &Path) -> (OpenReason, Error) {
    let mut builder = Database::at(path);
    builder.table::<crate::common::Person>("people");
    match builder.open() {
        Err(error @ Error::Open { reason, .. }) => (reason, error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reasons_are_typed_and_have_their_source() {
    let directory = Directory::new("reasons");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    database.transaction(|t| t.insert(people, &person(1))).expect("inserted");
    let (reason, error) = refusal(&directory.0);
    assert_eq!(reason, OpenReason::InUse);
    assert!(error.to_string().contains("end that first"), "{error}");
    let source = error.source().expect("a source");
    assert_eq!(source.to_string(), error.to_string());
    assert_eq!(refusal(&directory.0).1, error, "errors compare by what they say");
    assert_eq!(database.close(), Ok(()));

    let beside = Directory::new("reasons-beside");
    std::fs::create_dir_all(&beside.0).expect("a directory");
    std::fs::write(beside.0.join("letter.txt"), "dear").expect("a file");
    assert_eq!(refusal(&beside.0).0, OpenReason::SomethingElse);
    assert_eq!(std::fs::read_dir(&beside.0).expect("it is there").count(), 1, "nothing was added");
    assert_eq!(refusal(&beside.0.join("letter.txt")).0, OpenReason::Denied, "a file is no directory");

    let (reason, error) = refusal(&beside.0.join("nowhere/data"));
    assert_eq!(reason, OpenReason::Denied);
    assert!(error.to_string().contains("is to be in is not there"), "{error}");
    let (reason, error) = refusal(&beside.0.join("x".repeat(300)));
    assert_eq!(reason, OpenReason::Denied);
    assert!(error.to_string().contains("too long"), "{error}");
    let mut builder = Database::in_memory();
    builder.table::<crate::common::Person>("people\nand others");
    assert!(
        matches!(builder.open(), Err(Error::Declaration { reason, .. }) if reason.contains("control characters"))
    );

    let mut builder = Database::at(&directory.0);
    builder.table::<crate::common::Person>("persons");
    let other = builder.open().expect_err("another table");
    assert!(matches!(other, Error::Open { reason: OpenReason::OtherTables, .. }), "{other}");
    assert!(other.to_string().contains("drop_table"), "{other}");
    let (database, people) = directory.open(Scheme::Silo).expect("nothing was lost");
    assert_eq!(database.transaction(|t| t.get(people, &1)), Ok(Some(person(1))));
}

#[test]
fn damage_is_distinguished_from_other_errors() {
    let directory = Directory::new("damaged");
    let (database, people) = directory.open(Scheme::Silo).expect("a database");
    database.transaction(|t| (0..50).try_for_each(|id| t.insert(people, &person(id)))).expect("inserted");
    database.checkpoint().expect("a checkpoint");
    assert_eq!(database.close(), Ok(()));
    let files =
        std::fs::read_dir(&directory.0).expect("it is there").map(|file| file.expect("a file").path());
    let longest = files.max_by_key(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.contains("checkpoint"))
    });
    let path = longest.expect("a checkpoint");
    let mut bytes = std::fs::read(&path).expect("read");
    let middle = bytes.len() / 2;
    for at in [40, middle] {
        bytes[at] ^= 0xff;
    }
    std::fs::write(&path, bytes).expect("written");
    let (reason, error) = refusal(&directory.0);
    assert_eq!(reason, OpenReason::Damaged, "{error}");
    assert!(error.to_string().contains("restore a backup"), "{error}");
}
