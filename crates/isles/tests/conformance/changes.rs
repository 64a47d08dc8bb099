//! Streams of committed changes: every function, with its expected result on each engine.

use std::path::Path;
use std::time::Duration;

use isles::{
    ChangeKind, ChangePosition, Changes, ChangesFrom, Database, Deployment, Error, Key, NoProcedure, Row,
    Table,
};

use crate::calls::{call, call_function};

const SOON: Duration = Duration::from_secs(20);

/// Calls the functions of a database that gives a stream of its changes. `row` is not there, and
/// not in the end.
pub fn call_all<R: Row + Clone + PartialEq + std::fmt::Debug>(
    database: &Database,
    table: Table<R>,
    row: &R,
    change: impl Fn(&mut R),
) where
    R::Key: Key,
{
    let position = call!(database.register_change_reader("reader", ChangesFrom::Now)).expect("a reader");
    let mut changes = call!(database.changes(position)).expect("a stream");
    let mut watch = call!(database.watch(table, row.key()..=row.key())).expect("a stream");
    make_changes(|body| database.transaction(body), table, row, &change);
    assert_eq!(call!(watch.wait_for(SOON)), Ok(true));
    check_changes(&mut changes, row, change);
    let end = changes.last_position();
    call!(database.acknowledge_changes("reader", end)).expect("acknowledged");
    let readers = call!(database.change_readers()).expect("readers");
    assert_eq!((&*readers[0].name, readers[0].position), ("reader", end));
    assert_eq!(call!(database.forget_change_reader("reader")), Ok(true));
}

/// The same of an instance of a deployment.
pub fn call_on_instance<R: Row + Clone + PartialEq + std::fmt::Debug>(
    deployment: &Deployment<NoProcedure>,
    instance: usize,
    table: Table<R>,
    row: &R,
    change: impl Fn(&mut R),
) {
    let position = call!(deployment.register_change_reader(instance, "reader", ChangesFrom::Now));
    let mut changes = call!(deployment.changes(instance, position.expect("a reader"))).expect("a stream");
    let mut session = deployment.session(instance).expect("a session");
    make_changes(|body| session.transaction(body), table, row, &change);
    check_changes(&mut changes, row, change);
    let end = changes.last_position();
    call!(deployment.acknowledge_changes(instance, "reader", end)).expect("acknowledged");
    let readers = call!(deployment.change_readers(instance)).expect("readers");
    assert_eq!((readers.len(), readers[0].is_lost), (1, false));
    assert_eq!(call!(deployment.forget_change_reader(instance, "reader")), Ok(true));
    let other = deployment.changes(99, ChangesFrom::Now);
    assert!(matches!(other, Err(Error::Misuse(_))), "{other:?}");
}

/// Inserts a row, changes it, and deletes it, each in a transaction.
fn make_changes<R: Row + Clone>(
    mut transact: impl FnMut(
        &mut dyn FnMut(&mut isles::Transaction<'_>) -> isles::Result<()>,
    ) -> isles::Result<()>,
    table: Table<R>,
    row: &R,
    change: &impl Fn(&mut R),
) {
    transact(&mut |t| t.insert(table, row)).expect("inserted");
    transact(&mut |t| t.update(table, &row.key(), |row| change(row)).map(drop)).expect("updated");
    transact(&mut |t| t.delete(table, &row.key()).map(drop)).expect("deleted");
}

fn check_changes<R: Row + Clone + PartialEq + std::fmt::Debug>(
    changes: &mut Changes,
    row: &R,
    change: impl Fn(&mut R),
) {
    let inserted = call!(changes.next_within(SOON)).expect("a log").expect("a commit");
    let insertion = &inserted.changes[0];
    assert_eq!(call!(insertion.kind()), ChangeKind::Insert);
    assert_eq!(call!(insertion.row::<R>()), Ok(Some(row.clone())));
    let mut values = call!(insertion.values()).expect("a row").expect("an insertion");
    let (name, id) = (call!(insertion.table()).name().to_owned(), call!(insertion.table_id()));

    let rest: Vec<_> =
        call!(changes.available()).expect("a log").map(|commit| commit.expect("a commit")).collect();
    assert_eq!(rest.len(), 2, "{rest:?}");
    let (update, deletion) = (&rest[0].changes[0], &rest[1].changes[0]);
    let (mut applied, mut expected) = (row.clone(), row.clone());
    call!(update.apply(&mut applied)).expect("a row of the type");
    change(&mut expected);
    assert_eq!(applied, expected);
    call!(update.apply_to_values(&mut values)).expect("a row of the table");
    assert_eq!(call!(deletion.key()), update.key());
    assert_eq!(
        (deletion.kind(), deletion.table().name(), deletion.table_id()),
        (ChangeKind::Delete, &*name, id)
    );

    let position = call!(changes.last_position());
    let bytes = call!(position.to_bytes());
    assert_eq!(call_function!(ChangePosition::from_bytes(&bytes)), Ok(position));
}

/// An engine without a stream of changes says so.
pub fn refuse<R: Row>(database: &Database, table: Table<R>) {
    fn assert_refused<T>(result: isles::Result<T>) {
        assert!(matches!(result, Err(Error::NoChanges { .. })));
    }
    assert_refused(call!(database.changes(ChangesFrom::Now)));
    assert_refused(call!(database.watch(table, ..)));
    assert_refused(call!(database.register_change_reader("reader", ChangesFrom::Now)));
    assert_refused(call!(database.change_readers()));
    assert_refused(call!(database.forget_change_reader("reader")));
    // A position of another database, which memory gives.
    let directory = crate::engines::Directory::new("refused-changes");
    let other = Database::at(&directory.0).open().expect("a database");
    let position = other.changes(ChangesFrom::Now).expect("a stream").last_position();
    assert_refused(call!(database.acknowledge_changes("reader", position)));
}

/// Reads a copy of a directory that is open.
pub fn read_copy<R: Row>(builder: isles::Builder, name: &str, scratch: &Path, rows: u64) {
    let copy = call!(builder.read_copy(scratch)).expect("a copy");
    let table = call!(copy.table::<R>(name)).expect("a table");
    assert_eq!(call!(copy.read(|t| t.scan(table, ..).count())), Ok(rows));
    // What a reader changes is undone.
    let emptied = copy.read(|t| {
        let all = t.scan(table, ..).delete()?;
        Ok((all, t.scan(table, ..).count()?))
    });
    assert_eq!(emptied.map(|(_, left)| left), Ok(0));
    assert_eq!(copy.read(|t| t.scan(table, ..).count()), Ok(rows));
    assert!(call!(copy.tables()).iter().any(|table| table.name() == name));
    assert!(call!(copy.source()).files > 0);
}
