//! Rows in pages: a database that the library opens as any other, and what the engine says of such databases.

use crate::common::{Directory, Person, person};
use engine::dynamic::Transaction;
use engine::{Bounds, Ending, SchemaBuilder, TableOptions, Verbs};
use isles::{Database, Error, OpenReason};
use paged::{PagedLogOptions, PagedOptions};
use platform::Hardware;

fn open(directory: &Directory) -> (engine::dynamic::Database<Hardware>, engine::Table<Person>) {
    let mut schema = SchemaBuilder::new();
    let people = schema.declare_rows::<Person>("people", &TableOptions::default()).expect("a table");
    let options = PagedOptions {
        sessions_max: 2,
        directory: Some(directory.0.clone()),
        log: Some(PagedLogOptions::default()),
        ..PagedOptions::default()
    };
    let opened = engine_hardware::open_paged(Hardware::core(), &options, schema, None);
    (opened.expect("a database").0, people)
}

#[test]
fn databases_of_pages_know_what_is_on_disk() {
    let directory = Directory::new("pages-durable");
    let (database, people) = open(&directory);
    let c = Hardware::core();
    let object = database.object();
    assert!(!object.traits().snapshots, "nobody asks it to move snapshots on");
    assert!(object.roaming_session(c, None, false).is_some_and(|session| session.is_ok()));
    let mut session = database.session(c, None, false).expect("a session");
    let insert = |t: &mut Transaction<'_>| t.insert(people, &person(1));
    let Ok(Ending::Committed((), commit)) = session.transact(&Bounds::default(), insert) else {
        panic!("nobody is in the way");
    };
    assert!(!object.is_durable(c, commit.durable_with), "nobody has waited");
    assert_eq!(object.wait_durable_until(c, commit.durable_with, None), Ok(true));
    assert!(object.is_durable(c, commit.durable_with));
    // It needs no session for that.
    let last = database.session(c, None, false).expect("the last session");
    assert!(object.is_durable(c, commit.durable_with));
    assert_eq!(object.wait_durable_until(c, commit.durable_with, None), Ok(true));
    drop(last);
}

#[test]
fn a_directory_of_pages_is_something_else() {
    let directory = Directory::new("pages-opened");
    let (database, _) = open(&directory);
    database.close(Hardware::core()).expect("closed");
    let mut builder = Database::at(&directory.0);
    builder.table::<Person>("people");
    let refusal = builder.open();
    assert!(matches!(refusal, Err(Error::Open { reason: OpenReason::SomethingElse, .. })), "{refusal:?}");
    open(&directory).0.close(Hardware::core()).expect("nothing happened to it");
}

fn in_pages(directory: &Directory) -> (Database, isles::Table<Person>) {
    let mut builder = Database::at(&directory.0).sessions(4).pages(8 << 20);
    let people = builder.table::<Person>("people");
    (builder.open().expect("a database"), people)
}

#[test]
fn rows_in_pages_are_used_as_rows_in_memory() {
    let directory = Directory::new("pages-library");
    let (database, people) = in_pages(&directory);
    for id in 1..=300 {
        database.transaction(|t| t.insert(people, &person(id))).expect("nobody is in the way");
    }
    // A transaction as an object: one that is dropped, one that is rolled back, one that commits.
    let mut session = database.session().expect("a session");
    {
        let mut open = session.begin().expect("it begins");
        open.delete(people, &1).expect("it is there");
    }
    let mut open = session.begin().expect("it begins");
    open.delete(people, &2).expect("it is there");
    open.roll_back().expect("nobody is in the way");
    let mut open = session.begin().expect("it begins");
    open.delete(people, &3).expect("it is there");
    open.commit().expect("nobody is in the way");
    drop(session);
    let there = |(database, people): (&Database, isles::Table<Person>)| -> Vec<u64> {
        let ids = database.transaction(|t| (1..=4).filter_map(|id| t.get(people, &id).transpose()).collect());
        let found: Vec<Person> = ids.expect("nobody is in the way");
        found.into_iter().map(|person| person.id).collect()
    };
    assert_eq!(there((&database, people)), [1, 2, 4]);
    let refused = database.snapshot(|_| Ok(()));
    assert!(matches!(refused, Err(Error::NoSnapshots { .. })), "{refused:?}");
    // A copy of a database that is open, and its own directory, hold the same.
    let copy = Directory::new("pages-library-copy");
    let made = database.backup(&copy.0).expect("a copy");
    assert!(made.pages.is_some_and(|pages| pages > 3), "{made:?}");
    database.flush().expect("the disk is there");
    database.close().expect("it closes");
    let checked = Database::check(&directory.0).expect("it is whole");
    assert_eq!(checked.tables, [("people".to_owned(), 299)]);
    for directory in [&directory, &copy] {
        let (database, people) = in_pages(directory);
        assert_eq!(there((&database, people)), [1, 2, 4]);
        database.close().expect("it closes");
    }
}

#[test]
fn what_pages_cannot_do_is_said() {
    let refused = Database::in_memory().pages(8 << 20).open();
    assert!(matches!(refused, Err(Error::Misuse(why)) if why.contains("directory")), "{refused:?}");
    let directory = Directory::new("pages-refused");
    let small = Database::at(&directory.0).pages(1 << 20).open();
    let Err(Error::Open { reason: OpenReason::TooSmall, source }) = small else { panic!("{small:?}") };
    assert!(source.to_string().contains("too small for 64 sessions"), "{source}");
    Database::at(&directory.0).open().expect("rows in memory").close().expect("it closes");
    let other = Database::at(&directory.0).pages(8 << 20).sessions(4).open();
    let Err(Error::Open { reason: OpenReason::SomethingElse, source }) = other else { panic!("{other:?}") };
    assert!(source.to_string().contains("holds rows in memory"), "{source}");
}
