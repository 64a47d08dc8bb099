//! `isles import` and `isles export` of the types of SQL and of the longest integers: digits and
//! times are read as they were written.
// The test makes files, and times are values of columns.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::path::Path;
use std::time::{Duration, SystemTime};

use isles::{
    Char, Database, Date, Interval, JsonText, Numeric, Row, Table, Time, Timestamp, TimestampTz, Uuid,
    VarChar,
};

use crate::support::{Outcome, Scratch, isles};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(day, price, id))]
struct Booking {
    day: Date,
    price: Numeric<10, 2>,
    id: u128,
    depth: i128,
    list: [u128; 2],
    time: Time,
    local: Timestamp,
    moment: TimestampTz,
    length: Interval,
    uuid: Uuid,
    total: Option<Numeric<38, 20>>,
    until: Option<TimestampTz>,
    system: SystemTime,
    duration: Option<Duration>,
    days: [Date; 2],
    code: Char<4>,
    title: VarChar<20>,
    json: Option<JsonText>,
    numbers: Vec<i128>,
    names: Option<Vec<String>>,
}

fn booking(number: u32) -> Booking {
    let signed = i128::from(number) - 5;
    let after = Duration::from_micros(u64::from(number) << 40 | 1);
    let moment = TimestampTz::from_micros(signed as i64 * 1_000_000_000_000_007).expect("in range");
    let digits = 10_i128.pow(37) + i128::from(number);
    Booking {
        day: [Date::NEG_INFINITY, Date::MIN, moment.utc().date()][number as usize % 3],
        price: Numeric::from_digits(signed * 111).expect("short"),
        // Neighbours that are one and the same as floats.
        id: u128::MAX - u128::from(number),
        depth: i128::MIN + i128::from(number),
        list: [1 << 53 | 1, u128::MAX / 3],
        time: [Time::MIDNIGHT, Time::MAX, moment.utc().time()][number as usize % 3],
        local: moment.utc(),
        moment,
        length: Interval::new(signed as i32, -3, signed as i64),
        uuid: Uuid::from_u128(u128::from(number) << 90 | 1),
        total: number.is_multiple_of(2).then(|| Numeric::from_digits(digits).expect("38 digits")),
        until: [None, Some(TimestampTz::INFINITY), Some(TimestampTz::MIN)][number as usize % 3],
        system: SystemTime::UNIX_EPOCH + after,
        duration: (number % 2 == 1).then_some(after),
        days: [Date::INFINITY, Date::MAX],
        code: ["", "a", "é, b"][number as usize % 3].parse().expect("short"),
        title: [" ", "a\nb", ""][number as usize % 3].parse().expect("short"),
        json: number.is_multiple_of(2).then(|| " {\"a\": 1e400,\n \"b\": \"\"}".parse().expect("JSON")),
        numbers: vec![i128::MAX - i128::from(number); number as usize % 4],
        names: (!number.is_multiple_of(3)).then(|| vec!["a\"b".to_owned(), String::new()]),
    }
}

fn with_bookings<T>(path: &Path, body: impl Fn(&Database, Table<Booking>) -> isles::Result<T>) -> T {
    let mut builder = Database::at(path);
    let bookings = builder.table("bookings");
    let database = builder.open().expect("a database");
    let found = body(&database, bookings).expect("done");
    database.close().expect("closed");
    found
}

fn all(path: &Path) -> Vec<Booking> {
    with_bookings(path, |database, table| database.transaction(|t| t.scan(table, ..).collect()))
}

fn make(path: &Path, rows: &[Booking]) {
    with_bookings(path, |database, table| database.transaction(|t| t.insert_all(table, rows.to_vec())));
}

#[test]
fn every_type_is_exported_and_imported_exactly() {
    let scratch = Scratch::new("types-round");
    let rows: Vec<_> = (0..40).map(booking).collect();
    let [from, to] = ["from", "to"].map(|name| scratch.0.join(name));
    make(&from, &rows);
    for format in ["csv", "jsonl"] {
        make(&to, &[]);
        let [one, two] = ["one", "two"].map(|name| format!("{name}.{format}"));
        let commands =
            [["export", "from", "--out", &one], ["import", "to", "", &one], ["export", "to", "--out", &two]];
        for [verb, directory, flag, file] in commands {
            let (directory, file) = (scratch.name(directory), scratch.name(file));
            let arguments = [verb, &directory, "bookings", flag, &file];
            let arguments: Vec<&str> =
                arguments.into_iter().filter(|argument| !argument.is_empty()).collect();
            let Outcome { status, error, .. } = isles(&arguments);
            assert_eq!((status, &*error), (0, ""), "{arguments:?}");
        }
        assert_eq!(scratch.read(&one), scratch.read(&two));
        let texts = |rows: &[Booking]| rows.iter().map(|row| format!("{row:?}")).collect::<Vec<_>>();
        assert_eq!(texts(&all(&to)), texts(&all(&from)));
        std::fs::remove_dir_all(&to).expect("removed");
    }
    let written = scratch.read("one.jsonl");
    for part in [
        "\"price\": -5.55",
        "\"id\": 340282366920938463463374607431768211455",
        "\"length\": \"P-5M-3DT-0.000005S\"",
        "\"until\": \"infinity\"",
        "\"uuid\": \"00000000-",
    ] {
        assert!(written.contains(part), "{part}: {written}");
    }
}

/// A bad value names its line, its column, itself and the cure.
#[test]
fn bad_values_say_what_they_should_be() {
    let scratch = Scratch::new("types-bad");
    make(&scratch.0.join("data"), &[booking(4)]);
    let name = scratch.name("data");
    let Outcome { output: good, .. } = isles(&["export", &name, "bookings", "--format", "jsonl"]);
    let row = booking(4);
    for (column, value, expected) in [
        (
            "local",
            format!("\"{}\"", row.local),
            "\"tomorrow\" is no timestamp: write it like 2026-11-28 04:35:00.123456",
        ),
        (
            "moment",
            format!("\"{}\"", row.moment),
            "\"tomorrow\" is no timestamptz: write it like 2026-11-28 04:35:00+00",
        ),
        ("time", format!("\"{}\"", row.time), "\"tomorrow\" is no time: write it like 04:35:00"),
        (
            "length",
            format!("\"{}\"", row.length),
            "\"tomorrow\" is no interval: write it like P1Y2M3DT4H5M6.789S",
        ),
        ("uuid", format!("\"{}\"", row.uuid), "\"tomorrow\" is no uuid: write it like 67e55044"),
        (
            "total",
            row.total.map(|total| total.to_string()).unwrap_or_default(),
            "\"tomorrow\" is no decimal number",
        ),
    ] {
        let text = good.replace(&format!("\"{column}\": {value}"), &format!("\"{column}\": \"tomorrow\""));
        let file = scratch.write("bad.jsonl", text);
        let Outcome { status, error, .. } = isles(&["import", &name, "bookings", &file]);
        let expected = format!("line 1: column {column}: {expected}");
        assert!(status == 1 && error.contains(&expected), "{expected}: {error}");
    }
    let text = good.replace("\"price\": -1.11", "\"price\": 1.115");
    let file = scratch.write("bad.jsonl", text);
    let Outcome { status, error, .. } = isles(&["import", &name, "bookings", &file]);
    let expected = "1.115 does not fit into numeric(10, 2): column \"price\" of table \"bookings\"; round it, or make the column longer";
    assert!(status == 1 && error.contains(expected), "{error}");
}
