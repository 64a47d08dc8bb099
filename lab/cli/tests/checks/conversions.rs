//! `isles convert` and `isles upgrade`: a database of the other engine has the same tables and
//! rows, and what cannot be done leaves nothing behind.
// The test makes directories.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::os::unix::fs::FileExt;
use std::path::Path;

use isles::{
    ColumnDescription, Constraints, Database, Datum, ForeignKey, SequenceOptions, TableBuilder, ValueType,
};

use crate::support::{Outcome, Scratch, assert_fault, isles};

/// Bytes of the pool of databases in pages.
const POOL: u64 = 64 << 20;
const PEOPLE: i64 = 25_000;

fn name(number: i64) -> Datum {
    Datum::Text(format!("{number:05}{}", "n".repeat(number as usize % 3 * 40)))
}

/// Makes a database in memory. Each person but the last one was hired by a later one, and each
/// visit is one of a person.
fn make(path: &Path) {
    let column = ColumnDescription::new;
    let people = TableBuilder::new("people")
        .column(column("name", ValueType::String))
        .column(column("hired_by", ValueType::String).nullable())
        .key(["name"])
        .constraints(
            Constraints::new()
                .foreign_key(ForeignKey::new("hired", ["hired_by"], "people", ["name"]).deferred()),
        )
        .index("by_hirer", ["hired_by"]);
    let visits = TableBuilder::new("a_visit")
        .column(column("id", ValueType::Signed(8)))
        .column(column("who", ValueType::String))
        .key(["id"])
        .index("by_person", ["who"])
        .constraints(Constraints::new().identity("id", "visit ids").foreign_key(ForeignKey::new(
            "known",
            ["who"],
            "people",
            ["name"],
        )));
    let mut builder = Database::at(path);
    builder.described_table(people.build().expect("a table"));
    builder.described_table(visits.build().expect("a table"));
    let database = builder.open().expect("a database");
    let made = database.transaction(|t| {
        (0..PEOPLE).try_for_each(|number| {
            let hirer = if number + 1 < PEOPLE { name(number + 1) } else { Datum::Null };
            t.insert_dynamic("people", &[name(number), hirer])
        })?;
        (0..100).try_for_each(|number| t.insert_columns("a_visit", &[("who", name(number * 7))]).map(drop))
    });
    made.expect("rows");
    database.close().expect("closed");
}

fn open(path: &str, pages: bool) -> Database {
    open_with(path, pages, 3)
}

/// Opens a database with this many tables, among them that of sequences.
fn open_with(path: &str, pages: bool, tables: usize) -> Database {
    let builder = Database::at(path);
    let mut builder = if pages { builder.pages(POOL) } else { builder };
    assert_eq!(builder.tables_of_directory().expect("tables").len(), tables, "{path}");
    builder.open().expect("a database")
}

fn rows(database: &Database, table: &str) -> Vec<Vec<Datum>> {
    database.transaction(|t| t.scan_dynamic(table)).expect("rows")
}

#[test]
fn a_converted_database_has_the_same_rows_and_constraints() {
    let scratch = Scratch::new("convert");
    let paths = ["one", "two", "three"].map(|path| scratch.name(path));
    make(Path::new(&paths[0]));
    for (from, to) in [(0, 1), (1, 2)] {
        let Outcome { status, output, error } = isles(&["convert", &paths[from], &paths[to]]);
        assert_eq!(status, 0, "{error}");
        assert!(output.contains("people: 25,000 rows") && output.contains("a_visit: 100 rows"), "{output}");
    }
    let first = open(&paths[0], false);
    for (path, pages) in [(&paths[1], true), (&paths[2], false)] {
        let database = open(path, pages);
        for table in ["people", "a_visit"] {
            let same = rows(&database, table) == rows(&first, table);
            assert!(same, "{path}: rows of {table}");
            let of = |database: &Database| {
                let tables = database.tables();
                tables.into_iter().find(|found| found.name() == table).cloned()
            };
            assert_eq!(of(&database), of(&first), "{path}: description of {table}");
        }
        let unknown = database.transaction(|t| t.insert_columns("a_visit", &[("who", name(-1))]));
        assert!(matches!(unknown, Err(isles::Error::Constraint { .. })), "{path}: {unknown:?}");
        let next =
            database.transaction(|t| t.insert_columns("a_visit", &[("who", name(0))])).expect("a visit");
        assert!(matches!(next[0], Datum::Signed(101..)), "{path}: the number {} came before", next[0]);
        let numbers = database.sequence("visit ids", SequenceOptions::new()).expect("the sequence");
        assert!(numbers.next_value().expect("a number") > 100, "{path}");
    }
}

#[test]
fn rows_in_pages_are_exported_and_imported() {
    let scratch = Scratch::new("rows-in-pages");
    let (one, two, file) = (scratch.name("one"), scratch.name("two"), scratch.name("visits.csv"));
    make(Path::new(&one));
    assert_eq!(isles(&["convert", &one, &two, "--engine", "paged", "--pool", "32MiB"]).status, 0);
    let exported = isles(&["export", &two, "a_visit", "--out", &file]);
    assert_eq!((exported.status, &*exported.error), (0, ""));
    assert_eq!(scratch.read("visits.csv").lines().count(), 101);
    let imported = isles(&["import", &two, "a_visit", &file, "--skip-existing"]);
    assert_eq!(imported.status, 0, "{}", imported.error);
    assert!(imported.output.contains("100 left out"), "{}", imported.output);
}

#[test]
fn a_conversion_that_cannot_be_made_leaves_nothing() {
    let scratch = Scratch::new("no-convert");
    let (one, there) = (scratch.name("one"), scratch.name("there"));
    make(Path::new(&one));
    std::fs::create_dir(&there).expect("a directory");
    let fails = |arguments: &[&str], expected: &str| {
        let Outcome { status, output, error } = isles(arguments);
        assert_eq!((status, &*output), (1, ""), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
    };
    fails(&["convert", &one, &there], "is there already");
    fails(&["convert", &there, &scratch.name("to")], "no database with tables");
    fails(&["upgrade", &there], "no database with tables");
    assert_fault(&["convert", &one, &scratch.name("to"), "--engine", "stone"], "--engine stone");
    assert_fault(&["convert", &one, &scratch.name("to"), "--pool", "much"], "--pool much");
    let mut names: Vec<_> = std::fs::read_dir(&scratch.0)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["one", "there"]);
}

#[test]
fn an_upgrade_says_which_format_a_directory_has() {
    let scratch = Scratch::new("upgrade");
    let one = scratch.name("one");
    make(Path::new(&one));
    let Outcome { status, output, error } = isles(&["upgrade", &one]);
    assert_eq!((status, &*error), (0, ""));
    assert!(output.contains("nothing to do"), "{output}");
    // The number of the format follows the magic.
    let manifest = Path::new(&one).join(redo_log::MANIFEST);
    let mut bytes = std::fs::read(&manifest).expect("a manifest");
    bytes[8..12].copy_from_slice(&7_u32.to_le_bytes());
    std::fs::write(&manifest, bytes).expect("written");
    let Outcome { status, error, .. } = isles(&["upgrade", &one]);
    assert_eq!(status, 1);
    assert!(error.contains("format 7"), "{error}");
}

/// Makes the directory that a file of `formats` describes: the names of files with their lengths,
/// and what they have that is not zero.
fn make_of(text: &str, path: &Path) {
    std::fs::create_dir(path).expect("a directory");
    let mut file = None;
    for line in text.lines() {
        if let Some((name, length)) = line.strip_prefix("file ").and_then(|line| line.split_once(' ')) {
            let made = std::fs::File::create_new(path.join(name)).expect("a file");
            made.set_len(length.parse().expect("a length")).expect("zeros");
            file = Some(made);
        } else {
            let (at, digits) = line.split_once(' ').expect("a place and bytes");
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("a byte");
            let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
            let file = file.as_ref().expect("a file comes first");
            file.write_all_at(&bytes, at.parse().expect("a place")).expect("written");
        }
    }
}

/// Directories of each format since the first that later versions read. Programs made them in that
/// version and left them as a crash does (in memory), or closed them (in pages).
#[test]
fn directories_of_released_formats_are_read() {
    let formats = [
        ("8-memory", include_str!("formats/8-memory.txt")),
        ("8-pages", include_str!("formats/8-pages.txt")),
    ];
    let scratch = Scratch::new("formats");
    for (format, text) in formats {
        let path = scratch.name(format);
        make_of(text, Path::new(&path));
        let upgraded = isles(&["upgrade", &path]);
        assert_eq!((upgraded.status, &*upgraded.error), (0, ""), "{format}");
        let exported = isles(&["export", &path, "people", "--format", "jsonl"]);
        assert_eq!((exported.status, &*exported.error), (0, ""), "{format}");
        let row = |number| {
            let Datum::Text(name) = name(number) else { unreachable!("a text") };
            format!("{{\"name\": \"{name}\", \"born\": 1900, \"weight\": null, \"paid\": {number}}}\n")
        };
        assert_eq!(exported.output, (0..40).map(row).collect::<String>(), "{format}");
        let database = open_with(&path, format == "8-pages", 2);
        let numbers = database.sequence("numbers", SequenceOptions::new()).expect("the sequence");
        assert!(numbers.next_value().expect("a number") > 1, "{format}: 1 was given");
    }
}
