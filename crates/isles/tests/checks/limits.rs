//! Limits of memory and of rows in one transaction.

use std::ops::ControlFlow;

use crate::common::{Directory, SCHEMES, all_people, declare, person};
use isles::{
    ColumnDescription, Database, Datum, Error, Row, Scheme, Session, TableBuilder, TransactionOptions,
    ValueType,
};

#[test]
fn a_full_database_stays_usable() {
    for scheme in SCHEMES {
        let limit = 1 << 20;
        let builder = Database::in_memory().scheme(scheme).memory_limit(limit);
        let (database, people) = declare(builder).expect("a database");
        let mut session = database.session().expect("a session");
        let mut rows = 0;
        let error = loop {
            match session.transaction(|t| t.insert(people, &person(rows))) {
                Ok(()) => rows += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
        assert!(rows > 1_000 && database.memory_bytes() <= limit);
        assert_eq!(all_people(&database, people).len() as u64, rows);
        // Each round deletes from one end of the keys and inserts at the other, more in all than
        // the database can hold. The rounds insert less than was there before, because nodes of
        // indexes that grow again are not as full as they were.
        let (mut first, mut last) = (0, rows);
        for _ in 0..6 {
            let deleted = session.transaction(|t| t.scan(people, first..).limit(rows / 2).delete());
            first += deleted.expect("deleting needs no memory");
            for _ in 0..rows / 4 {
                let inserted = session.transaction(|t| t.insert(people, &person(last)));
                assert_eq!(inserted, Ok(()), "row {last} after {first}..{rows}");
                last += 1;
            }
        }
        assert_eq!(all_people(&database, people).len() as u64, last - first);
    }
}

#[derive(Row)]
#[row(key(id))]
struct Tiny {
    id: u64,
    value: u64,
}

/// More rows than the room that a transaction keeps for the next one, or than one search of the
/// rows that it has read.
const MANY: u64 = (1 << 20) + 1000;

/// A session whose transactions take as long as they take.
fn patient(database: &Database) -> Session {
    let mut session = database.session().expect("a session");
    session.set_options(TransactionOptions::new().without_deadline());
    session
}

fn many() -> Vec<Tiny> {
    (0..MANY).map(|id| Tiny { id, value: 1 }).collect()
}

#[test]
fn one_transaction_may_touch_all_rows_of_a_large_table() {
    // One scheme of each kind: schemes of a kind share the list of their rows.
    for scheme in [Scheme::Silo, Scheme::Mvcc, Scheme::NoWait, Scheme::Hstore] {
        let mut builder = Database::in_memory().scheme(scheme);
        let table = builder.table::<Tiny>("tiny");
        let database = builder.open().expect("a database");
        let mut session = patient(&database);
        assert_eq!(session.transaction(|t| t.insert_all(table, many())), Ok(()), "{scheme:?}");
        assert_eq!(session.transaction(|t| t.scan(table, ..).count()), Ok(MANY), "{scheme:?}");
        let changed = session.transaction(|t| t.scan(table, ..).update(|row| row.value += row.id));
        assert_eq!(changed, Ok(MANY), "{scheme:?}");
        let sum = session.transaction(|t| {
            let mut sum = 0;
            t.scan(table, ..).for_each(|row| {
                sum += row.value;
                ControlFlow::Continue(())
            })?;
            Ok(sum)
        });
        assert_eq!(sum, Ok(MANY * (MANY - 1) / 2 + MANY), "{scheme:?}");
        assert_eq!(session.transaction(|t| t.scan(table, ..).delete()), Ok(MANY), "{scheme:?}");
        assert_eq!(session.transaction(|t| t.scan(table, ..).count()), Ok(0), "{scheme:?}");
    }
}

#[test]
fn a_large_transaction_is_durable_as_a_whole() {
    let directory = Directory::new("large-transaction");
    let open = || {
        let mut builder = Database::at(&directory.0);
        let table = builder.table::<Tiny>("tiny");
        (builder.open().expect("a database"), table)
    };
    let (database, table) = open();
    assert_eq!(patient(&database).transaction(|t| t.insert_all(table, many())), Ok(()));
    drop(database);
    let (database, table) = open();
    assert_eq!(patient(&database).transaction(|t| t.scan(table, ..).count()), Ok(MANY));
    assert_eq!(patient(&database).transaction(|t| t.scan(table, ..).delete()), Ok(MANY));
    drop(database);
    let (database, table) = open();
    assert_eq!(patient(&database).transaction(|t| t.scan(table, ..).count()), Ok(0));
}

/// Indexes of a table, the primary key included, and one unique column for each.
const INDEXES: u64 = 16;

#[test]
fn tables_have_sixteen_indexes() {
    let directory = Directory::new("sixteen-indexes");
    let builders = SCHEMES.map(|scheme| Database::in_memory().scheme(scheme));
    for mut builder in builders.into_iter().chain([Database::at(&directory.0).pages(4 << 20)]) {
        let name = |number: u64| format!("c{number}");
        let table = |indexes| {
            let begin = TableBuilder::new("wide");
            let column = |number| ColumnDescription::new(name(number), ValueType::Unsigned(8));
            let columns = (0..indexes).fold(begin, |table, number| table.column(column(number)));
            let unique =
                |table: TableBuilder, number| table.unique_index(format!("by{number}"), [name(number)]);
            (1..indexes).fold(columns.key(["c0"]), unique)
        };
        assert!(table(INDEXES + 1).build().is_err());
        builder.described_table(table(INDEXES).build().expect("a table"));
        let database = builder.open().expect("a database");
        let row = |of: u64| -> Vec<Datum> { (0..INDEXES).map(|at| Datum::Unsigned(100 * at + of)).collect() };
        let key = |of: u64| vec![Datum::Unsigned(of)];
        let mut session = database.session().expect("a session");
        session
            .transaction(|t| (0..3).try_for_each(|of| t.insert_dynamic("wide", &row(of))))
            .expect("new rows");
        // A row that has a key of the last index in common with another one.
        let mut taken = row(3);
        taken[INDEXES as usize - 1] = row(1)[INDEXES as usize - 1].clone();
        let refused = session.transaction(|t| t.insert_dynamic("wide", &taken));
        assert!(matches!(&refused, Err(Error::Duplicate { index, .. }) if index == "by15"), "{refused:?}");
        // Its keys in the other indexes were given back, and those of a deleted row are free at
        // once, and after the commit.
        let again = session.transaction(|t| {
            t.delete_dynamic("wide", &key(1))?;
            t.insert_dynamic("wide", &taken)
        });
        assert_eq!(again, Ok(()));
        session.transaction(|t| t.delete_dynamic("wide", &key(3)).map(drop)).expect("a deletion");
        let anew = session.transaction(|t| t.insert_dynamic("wide", &row(1)));
        assert_eq!(anew, Ok(()));
        let rows = session.transaction(|t| t.scan_dynamic("wide")).expect("rows");
        assert_eq!(rows, [row(0), row(1), row(2)]);
        drop(session);
        assert!(database.close().is_ok());
    }
}
