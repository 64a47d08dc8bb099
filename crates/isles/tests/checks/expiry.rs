//! Rows that expire, under every scheme and over pages.
// A program's thread, and its clock.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::{Duration, SystemTime};

use isles::{Constraints, Database, Error, ForeignKey, Row, Scheme, Table, TableOptions, TransactionOptions};

use crate::common::Directory;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_end(ends)))]
struct Visit {
    id: u32,
    ends: Option<SystemTime>,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_visit(visit)))]
struct Remark {
    id: u32,
    visit: u32,
}

/// One of three is over, one lasts an hour, and one has no end.
fn visit(id: u32) -> Visit {
    let hour = Duration::from_secs(3600);
    let ends = match id % 3 {
        0 => Some(SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(id))),
        1 => Some(SystemTime::now() + hour),
        _ => None,
    };
    Visit { id, ends }
}

fn declare(mut builder: isles::Builder) -> (Database, Table<Visit>, Table<Remark>) {
    let expires = TableOptions::new().constraints(Constraints::new().expires("ends"));
    let visits = builder.table_with::<Visit>("visits", expires);
    let visit = ForeignKey::new("visit_there", ["visit"], "visits", ["id"]);
    let remarks = TableOptions::new().constraints(Constraints::new().foreign_key(visit));
    let remarks = builder.table_with::<Remark>("remarks", remarks);
    (builder.open().expect("a database"), visits, remarks)
}

/// Runs transactions until `count` visits are left. Fails if that takes many looks.
fn run_until(database: &Database, visits: Table<Visit>, count: u64) {
    let mut session = database.session().expect("a session");
    let mut left = 0;
    for _ in 0..2_000 {
        left = session.transaction(|t| t.scan(visits, ..).count()).expect("counted");
        if left == count {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{left} rows are left, not {count}");
}

fn rows_expire(builder: isles::Builder) {
    let (database, visits, remarks) = declare(builder);
    let (count, kept) = (3_u32 * 400, 5);
    database.transaction(|t| t.insert_all(visits, (0..count).map(visit))).expect("inserted");
    // Visits to which a remark refers stay as long as it does, and hold up no others.
    let refer = |id| Remark { id, visit: 3 * id };
    database.transaction(|t| t.insert_all(remarks, (0..kept).map(refer))).expect("inserted");
    run_until(&database, visits, u64::from(count / 3 * 2 + kept));
    database.transaction(|t| t.scan(remarks, ..).delete()).expect("deleted");
    run_until(&database, visits, u64::from(count / 3 * 2));
    let left = database.transaction(|t| t.scan(visits, ..).collect()).expect("read");
    assert!(left.iter().all(|visit| visit.id % 3 != 0));
}

#[test]
fn rows_expire_under_every_scheme() {
    for scheme in Scheme::ALL {
        rows_expire(Database::in_memory().scheme(scheme));
    }
}

#[test]
fn rows_expire_over_pages_and_after_an_opening() {
    let directory = Directory::new("expiry");
    rows_expire(directory.in_pages());
    let (database, visits, _) = declare(directory.in_pages());
    database
        .transaction(|t| t.update(visits, &1, |visit| visit.ends = Some(SystemTime::UNIX_EPOCH)))
        .expect("set");
    run_until(&database, visits, 799);
}

#[test]
fn a_directory_keeps_which_rows_expire() {
    let directory = Directory::new("expiry-kept");
    let open = |constraints| {
        let mut builder = Database::at(&directory.0);
        let visits = builder.table_with::<Visit>("visits", TableOptions::new().constraints(constraints));
        builder.open().map(|database| (database, visits))
    };
    let expires = || Constraints::new().expires("ends");
    drop(open(expires()).expect("a database"));
    let refused = open(Constraints::new()).expect_err("other constraints").to_string();
    assert!(refused.contains("moment of expiry"), "{refused}");
    let (database, visits) = open(expires()).expect("the same ones");
    database.transaction(|t| t.insert(visits, &visit(3))).expect("inserted");
    run_until(&database, visits, 0);
}

#[test]
fn moments_of_expiry_have_a_type_and_an_index() {
    #[derive(Row)]
    #[row(key(id))]
    struct Unordered {
        id: u32,
        ends: SystemTime,
        text: String,
    }
    for (column, reason) in [
        ("ends", "no index begins with the moment"),
        ("text", "is a timestamptz, and the column is"),
        ("absent", "there is no column"),
    ] {
        let mut builder = Database::in_memory();
        let options = TableOptions::new().constraints(Constraints::new().expires(column));
        builder.table_with::<Unordered>("unordered", options);
        let refused = builder.open();
        assert!(
            matches!(&refused, Err(Error::Declaration { reason: said, .. }) if said.contains(reason)),
            "{refused:?}"
        );
    }
}

#[test]
fn a_change_of_a_moment_keeps_a_row() {
    let (database, visits, _) = declare(Database::in_memory().scheme(Scheme::NoWait));
    database.transaction(|t| t.insert(visits, &visit(0))).expect("inserted");
    let mut session = database.session().expect("a session");
    // The row is prolonged in a transaction that is open while others look for expired rows.
    let mut open = database.begin().expect("begun");
    open.update(visits, &0, |visit| visit.ends = None).expect("prolonged");
    for _ in 0..100 {
        session.with(TransactionOptions::new().attempts(1)).transaction(|_| Ok(())).expect("nothing");
    }
    open.commit().expect("committed");
    for _ in 0..100 {
        session.transaction(|_| Ok(())).expect("nothing");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(session.transaction(|t| t.scan(visits, ..).count()), Ok(1));
}
