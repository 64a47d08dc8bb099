//! Rows in pages, whose sessions do not travel: the library does not open them, and what the engine says of its databases holds of them too.

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
    assert!(object.roaming_session(c, None, false).is_none());
    let mut session = database.session(c, None, false).expect("a session");
    let insert = |t: &mut Transaction<'_>| t.insert(people, &person(1));
    let Ok(Ending::Committed((), commit)) = session.transact(&Bounds::default(), insert) else {
        panic!("nobody is in the way");
    };
    assert!(!object.is_durable(c, commit.durable_with), "nobody has waited");
    assert_eq!(object.wait_durable_until(c, commit.durable_with, None), Ok(true));
    assert!(object.is_durable(c, commit.durable_with));
    // Without a session it knows nothing, and says so.
    let last = database.session(c, None, false).expect("the last session");
    assert!(!object.is_durable(c, commit.durable_with));
    let waited = object.wait_durable_until(c, commit.durable_with, None);
    assert!(matches!(&waited, Err(cc::Abort::Storage(why)) if why.contains("all 2 sessions")), "{waited:?}");
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
