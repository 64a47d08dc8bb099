//! Columns whose types change while the database is open.
// Times are values of columns.
#![allow(clippy::disallowed_types)]

use std::time::{Duration, SystemTime};

use crate::common::{Directory, SCHEMES};
use isles::{
    Char, Database, Date, Datum, Decimal, Error, Numeric, Row, TableChange, TimestampTz, Uuid, VarChar,
};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_day(day)))]
struct Before {
    id: u64,
    price: i64,
    day: Date,
    code: String,
    token: u128,
    note: Option<String>,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_day(day, price)))]
struct After {
    id: u64,
    price: Numeric<12, 2>,
    day: TimestampTz,
    code: Char<4>,
    token: Uuid,
    note: Option<VarChar<3>>,
}

fn before(id: u64) -> Before {
    let day = Date::from_days(id as i32 * 7 - 50).expect("in range");
    let note = id.is_multiple_of(2).then(|| "é".repeat(id as usize % 4));
    Before {
        id,
        price: id as i64 * 3 - 20,
        day,
        code: format!("c{}", id % 50),
        token: u128::from(id) << 80,
        note,
    }
}

fn after(id: u64) -> After {
    let Before { id, price, day, code, token, note } = before(id);
    After {
        id,
        price: Numeric::try_from(Decimal::from(price)).expect("short"),
        day: format!("{day} 00:00:00Z").parse().expect("a moment"),
        code: code.parse().expect("short"),
        token: Uuid::from_u128(token),
        note: note.map(|note| note.parse().expect("short")),
    }
}

#[test]
fn columns_get_other_types_while_rows_change() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("retyping-{scheme:?}"));
        let mut builder = Database::at(&directory.0).scheme(scheme);
        let old = builder.table::<Before>("things");
        let database = builder.open().expect("a database");
        database.transaction(|t| t.insert_all(old, (0..100).map(before))).expect("inserted");
        let mut session = database.session().expect("a session");
        let mut next = 100;
        // Rows that are inserted and changed meanwhile are kept in both forms.
        let listener = |_| {
            session.transaction(|t| t.insert(old, &before(next))).expect("inserted");
            next += 1;
        };
        let now = database
            .change_table::<After>("things", TableChange::new().on_progress(listener))
            .unwrap_or_else(|error| panic!("{scheme:?}: {error}"));
        let expected: Vec<After> = (0..next).map(after).collect();
        assert!(next > 100);
        let rows = database.transaction(|t| t.scan(now, ..).collect()).expect("read");
        assert_eq!(rows, expected);
        let mut by_day = database.transaction(|t| t.scan(now.by(After::BY_DAY), ..).collect()).expect("read");
        assert!(by_day.is_sorted_by_key(|row| (row.day, row.price)));
        by_day.sort_by_key(|row| row.id);
        assert_eq!(by_day, expected);
        drop(session);
        database.close().expect("closed");
        let mut builder = Database::at(&directory.0).scheme(scheme);
        let now = builder.table::<After>("things");
        let database = builder.open().expect("a database");
        assert_eq!(database.transaction(|t| t.scan(now, ..).collect()), Ok(expected));
    }
}

#[test]
fn a_value_that_does_not_fit_ends_the_change_and_is_named() {
    let mut builder = Database::in_memory();
    let old = builder.table::<Before>("things");
    let database = builder.open().expect("a database");
    let long = Before { code: "five!".into(), ..before(7) };
    database.transaction(|t| t.insert_all(old, (0..7).map(before).chain([long.clone()]))).expect("inserted");
    let refused = database.change_table::<After>("things", TableChange::new());
    let error = refused.expect_err("a value does not fit");
    assert!(matches!(error, Error::NotChanged { .. }), "{error:?}");
    for part in ["\"five!\" does not fit into char(4): column \"code\"", "shorten it", "the row is (7)"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(database.transaction(|t| t.get(old, &7)), Ok(Some(long)));
    database.transaction(|t| t.delete(old, &7)).expect("deleted");
    let now = database.change_table::<After>("things", TableChange::new()).expect("changed");
    assert_eq!(database.transaction(|t| t.scan(now, ..).count()), Ok(7));
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(at, length))]
struct Measured {
    at: SystemTime,
    length: Duration,
    until: Option<SystemTime>,
}

/// Times of the standard library are columns and keys, and lose what is smaller than a microsecond.
#[test]
fn times_of_the_standard_library_are_columns() {
    let mut builder = Database::in_memory();
    let table = builder.table::<Measured>("measured");
    let database = builder.open().expect("a database");
    let at = |nanos: u64| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos);
    let row = |nanos: u64| Measured {
        at: at(nanos),
        length: Duration::from_nanos(nanos),
        until: Some(at(nanos * 2)),
    };
    database.transaction(|t| t.insert(table, &row(5_999))).expect("inserted");
    let earlier = Measured { at: SystemTime::UNIX_EPOCH - Duration::from_secs(1), ..row(1_000) };
    database.transaction(|t| t.insert(table, &earlier)).expect("inserted");
    let rows = database.transaction(|t| t.scan(table, ..).collect()).expect("read");
    let found = Measured { at: at(5_000), length: Duration::from_micros(5), until: Some(at(11_000)) };
    assert_eq!(rows, [earlier, found.clone()]);
    assert_eq!(
        database.transaction(|t| t.get(table, &(at(5_123), Duration::from_nanos(5_001)))),
        Ok(Some(found))
    );
    let described = database.transaction(|t| t.scan_dynamic("measured")).expect("read");
    assert_eq!(described[1][0], Datum::TimestampTz("1970-01-01 00:00:00.000005Z".parse().expect("a moment")));
}
