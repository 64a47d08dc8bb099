//! `isles import` and `isles export`: what is written is read back, and a bad file changes nothing
//! without saying so.
// The test makes files.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use isles::{Database, Row, Table, Text, Value};

use crate::support::{Outcome, Scratch, assert_fault, isles};

#[derive(Value, Clone, Copy, Debug, PartialEq)]
struct Place {
    street: Text<8>,
    house: u16,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id, code), unique_index(by_serial(serial)))]
struct Thing {
    id: i32,
    code: Text<4>,
    serial: u64,
    place: Place,
    sizes: [i16; 3],
    hash: [u8; 4],
    weight: f64,
    ratio: Option<f32>,
    good: bool,
    name: String,
    remark: Option<String>,
    picture: Option<Vec<u8>>,
}

const REMARKS: [Option<&str>; 5] = [None, Some(""), Some("a, \"b\"\nc"), Some(" é😀 "), Some("null")];

fn thing(number: i32) -> Thing {
    let words = number.unsigned_abs() as usize;
    Thing {
        id: number,
        code: format!("{}", number % 7).try_into().expect("short"),
        serial: u64::MAX - words as u64 * 2 - u64::from(number < 0),
        place: Place { street: "a\"b, c".try_into().expect("short"), house: words as u16 },
        sizes: [number as i16, -1, i16::MAX],
        hash: number.to_be_bytes(),
        weight: f64::from(number) / 3.0,
        ratio: (number % 2 == 0).then_some(number as f32 / 7.0),
        good: number % 3 == 0,
        name: "x".repeat(words % 5),
        remark: REMARKS[words % 5].map(str::to_owned),
        picture: (number % 4 == 0).then(|| vec![number as u8; words % 6]),
    }
}

fn open(path: &Path) -> (Database, Table<Thing>) {
    let mut builder = Database::at(path);
    let things = builder.table("things");
    (builder.open().expect("a database"), things)
}

/// Makes a database with these things.
fn make(path: &Path, numbers: std::ops::Range<i32>) {
    let (database, things) = open(path);
    database.transaction(|t| t.insert_all(things, numbers.clone().map(thing))).expect("inserted");
    database.close().expect("closed");
}

fn all(path: &Path) -> Vec<Thing> {
    let (database, things) = open(path);
    let rows = database.transaction(|t| t.scan(things, ..).collect()).expect("read");
    database.close().expect("closed");
    rows
}

/// Runs a command that succeeds; what it says.
fn succeeds(arguments: &[&str]) -> String {
    let Outcome { status, output, error } = isles(arguments);
    assert_eq!((status, &*error), (0, ""), "{arguments:?}");
    output
}

/// Runs a command that fails; what it says, in one line.
fn fails(arguments: &[&str]) -> String {
    let Outcome { status, output, error } = isles(arguments);
    assert_eq!((status, &*output), (1, ""), "{arguments:?}: {error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    error
}

#[test]
fn what_is_exported_is_imported() {
    let scratch = Scratch::new("rows-round");
    let [from, to] = ["from", "to"].map(|name| scratch.0.join(name));
    make(&from, -50..70);
    for format in ["csv", "jsonl"] {
        make(&to, 0..0);
        let (one, two) = (scratch.name(&format!("one.{format}")), scratch.name(&format!("two.{format}")));
        let said = succeeds(&["export", &scratch.name("from"), "things", "--out", &one]);
        assert!(said.ends_with(": 120 rows of things\n"), "{said}");
        let said = succeeds(&["import", &scratch.name("to"), "things", &one]);
        assert_eq!(said, "things: 120 rows imported\n");
        assert_eq!(all(&to), (-50..70).map(thing).collect::<Vec<_>>());
        succeeds(&["export", &scratch.name("to"), "things", "--out", &two]);
        assert_eq!(scratch.read(&format!("one.{format}")), scratch.read(&format!("two.{format}")));
        let printed = succeeds(&["export", &scratch.name("to"), "things", "--format", format]);
        assert_eq!(printed, scratch.read(&format!("one.{format}")));
        let again = fails(&["export", &scratch.name("to"), "things", "--out", &one]);
        assert!(again.contains(&one), "a file is not overwritten: {again}");
        std::fs::remove_dir_all(&to).expect("removed");
    }
}

const CSV: &str = "code,id,serial,place,sizes,hash,weight,ratio,good,name,remark,picture\n";
const PLACE: &str =
    "\"{\"\"street\"\": \"\"a\"\", \"\"house\"\": 1}\",\"[1, 2, 3]\",0x00000001,0.5,,true,n,,0x00";

fn record(id: i32) -> String {
    format!("c,{id},{id},{PLACE}\n")
}

fn object(id: i32) -> String {
    format!(
        "{{\"id\": {id}, \"code\": \"c\", \"serial\": {id}, \"place\": {{\"house\": 1, \"street\": \"a\"}}, \"sizes\": [1, 2, 3], \
         \"hash\": \"0x00000001\", \"weight\": 0.5, \"good\": true, \"name\": \"n\"}}\n"
    )
}

#[test]
fn bad_files_change_nothing_and_say_where() {
    let scratch = Scratch::new("rows-bad");
    let data = scratch.0.join("data");
    make(&data, 0..3);
    let before = all(&data);
    let good = record(7);
    let csv = [
        (String::new(), "line 1: the names of columns are missing"),
        (
            CSV.replace("weight", "height"),
            "line 1: column height: table things has none of this name: there are id, code,",
        ),
        (CSV.replace("weight", "id"), "line 1: column id comes twice"),
        (format!("{CSV}{good}{}", good.replace(",7,7,", ",8,x,")), "line 3: column serial: \"x\" is no u64"),
        (
            format!("{CSV}{}", good.replace(",7,7,", ",4294967296,7,")),
            "line 2: 4294967296 does not fit into i32: column \"id\"",
        ),
        (format!("{CSV}{}", good.replace("c,7", "ccccc,7")), "does not fit into text(4): column \"code\""),
        (format!("{CSV}{}", good.replace("true", "yes")), "line 2: column good: \"yes\" is no bool"),
        (format!("{CSV}{}", good.replace(",0.5,", ",,")), "line 2: column weight: \"\" is no f64"),
        (
            format!("{CSV}{}", good.replace("0x00000001", "0x01")),
            "line 2: 0x01 does not fit into [u8; 4]: column \"hash\"",
        ),
        (format!("{CSV}{}", good.replace("[1, 2, 3]", "[1, 2")), "line 2: column sizes: "),
        (format!("{CSV}{}", good.replace("house", "hose")), "line 2: column place: \"hose\" is no member"),
        (format!("{CSV}{good}c,8,8\n"), "line 3: 3 fields, and the first line names 12 columns"),
        (
            format!("{CSV}{good}c,8,8,\"{{"),
            "line 3: a field in quotation marks has no end: the file ends in the middle of it",
        ),
        (
            format!("{CSV}{good}{}", record(8).replace(",7,7,", ",8,7,").replace(",8,8,", ",8,7,")),
            "line 3: column serial: a row with this key",
        ),
        (format!("{CSV}{good}c,0,0\n"), "line 3: 3 fields"),
        ("id\n1\n".to_owned(), "line 2: column code: no value, and it has no default"),
    ];
    let json_good = object(7);
    let json = [
        (format!("{json_good}{}", &object(8)[..40]), "line 2: character 41: ends in the middle"),
        (format!("{json_good}[]\n"), "line 2: no object"),
        (json_good.replace("weight", "height"), "line 1: column height: table things has none of this name"),
        (json_good.replace("weight", "id"), "\"id\" comes twice"),
        (json_good.replace("0.5", "\"much\""), "line 1: column weight: \"much\" is no f64"),
        (json_good.replace("0.5", "null"), "line 1: column \"weight\" of table \"things\" is not nullable"),
        (json_good.replace("\"good\": true, ", ""), "line 1: column good: no value, and it has no default"),
        (
            json_good.replace("\"serial\": 7", "\"serial\": -7"),
            "line 1: -7 does not fit into u64: column \"serial\"",
        ),
        (format!("{json_good}\n{json_good}"), "line 3: column id, code: a row with this key"),
    ];
    for (end, files) in [("csv", &csv[..]), ("jsonl", &json[..])] {
        for (text, expected) in files {
            let file = scratch.write(&format!("bad.{end}"), text);
            let said = fails(&["import", &scratch.name("data"), "things", &file]);
            assert!(said.contains(expected) && said.contains(&file), "{expected}: {said}");
            assert!(said.trim_end().ends_with("; nothing was imported"), "{said}");
        }
    }
    let file = scratch.write("bad.csv", [CSV.as_bytes(), &[b'c', 0xff, b'\n']].concat());
    let said = fails(&["import", &scratch.name("data"), "things", &file]);
    assert!(said.contains("line 2: no UTF-8; nothing was imported"), "{said}");
    assert_eq!(all(&data), before, "none of them has changed anything");
}

#[test]
fn batches_say_how_far_they_came() {
    let scratch = Scratch::new("rows-batches");
    let data = scratch.0.join("data");
    make(&data, 0..0);
    let text = format!("{CSV}{}{}{}{}", record(1), record(2), record(1), record(3));
    let file = scratch.write("rows.csv", &text);
    let all_at_once = fails(&["import", &scratch.name("data"), "things", &file]);
    assert!(
        all_at_once.contains("line 4: column id, code") && all_at_once.contains("nothing was imported"),
        "{all_at_once}"
    );
    assert!(all(&data).is_empty());
    let said = fails(&["import", &scratch.name("data"), "things", &file, "--batch", "2"]);
    assert!(
        said.trim_end().ends_with("; imported are the 2 rows before line 4, and none of the others"),
        "{said}"
    );
    let ids: Vec<i32> = all(&data).iter().map(|thing| thing.id).collect();
    assert_eq!(ids, [1, 2]);
    // What is there already is left out when that is asked for.
    let said = succeeds(&["import", &scratch.name("data"), "things", &file, "--skip-existing"]);
    assert_eq!(said, "things: 1 rows imported, 3 left out that are there already\n");
    assert_eq!(all(&data).len(), 3);
}

#[test]
fn what_cannot_be_opened_says_why() {
    let scratch = Scratch::new("rows-opened");
    let data = scratch.0.join("data");
    make(&data, 0..2);
    let (path, file) = (scratch.name("data"), scratch.write("rows.csv", format!("{CSV}{}", record(9))));
    assert!(fails(&["import", &path, "thinks", &file]).contains("no table thinks: there are things"));
    assert!(fails(&["export", &path, "thinks", "--format", "csv"]).contains("no table thinks"));
    assert!(fails(&["import", &path, "things", &scratch.name("none.csv")]).contains("none.csv"));
    assert!(
        fails(&["export", &scratch.name("none"), "things", "--format", "csv"])
            .contains("no database with tables")
    );
    assert!(!scratch.0.join("none").exists(), "nothing was made");
    let (database, _) = open(&data);
    assert!(fails(&["import", &path, "things", &file]).contains("end that first"));
    drop(database);
    assert_fault(&["import", &path, "things", "rows.txt"], "--format: missing");
    assert_fault(
        &["export", &path, "things", "--format", "xml"],
        "--format xml: unknown (accepted: csv, jsonl)",
    );
    assert_fault(&["export", &path, "things"], "--format: missing");
    for batch in ["0", "many", "-1", "500001"] {
        let expected = format!("--batch {batch}: no number of rows (accepted: 1 to 500000)");
        assert_fault(&["import", &path, "things", &file, "--batch", batch], &expected);
    }
    assert_fault(&["import", &path, "things"], "");
    for command in ["import", "export"] {
        // Wrapping is the terminal's business.
        let help = succeeds(&[command, "--help"]).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            help.contains("Examples:") && help.contains("Exit status: 0 done, 1 failed, 2 bad input"),
            "{help}"
        );
    }
    assert_eq!(all(&data).len(), 2);
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(big), index(by_neg(neg)))]
struct Long {
    big: u128,
    neg: i128,
    short: f32,
    pair: [u128; 2],
}

#[test]
fn long_integers_are_digits_and_floats_the_fewest() {
    let scratch = Scratch::new("rows-long");
    let open = |name: &str| {
        let mut builder = Database::at(scratch.0.join(name));
        let longs = builder.table::<Long>("longs");
        (builder.open().expect("a database"), longs)
    };
    let rows = [
        Long { big: 5, neg: -5, short: 0.1, pair: [0, u128::MAX] },
        Long { big: u128::MAX, neg: i128::MIN, short: f32::MIN_POSITIVE, pair: [1, 2] },
    ];
    for name in ["data", "csv", "jsonl"] {
        let (database, longs) = open(name);
        if name == "data" {
            database.transaction(|t| rows.iter().try_for_each(|row| t.insert(longs, row))).expect("inserted");
        }
        database.close().expect("closed");
    }
    for end in ["csv", "jsonl"] {
        let file = scratch.name(&format!("longs.{end}"));
        succeeds(&["export", &scratch.name("data"), "longs", "--out", &file]);
        let text = scratch.read(&format!("longs.{end}"));
        assert!(text.contains("-5") && text.contains(&u128::MAX.to_string()), "{text}");
        assert!(text.contains("0.1") && !text.contains("0.10"), "{text}");
        assert!(!text.contains("0x"), "{text}");
        succeeds(&["import", &scratch.name(end), "longs", &file]);
        let (database, longs) = open(end);
        let read = database.transaction(|t| t.scan(longs, ..).collect());
        assert_eq!(read.expect("read"), rows);
        let by_sign = database.transaction(|t| t.scan(longs.by(Long::BY_NEG), ..).first());
        assert_eq!(by_sign.expect("read"), Some(rows[1].clone()), "the least comes first");
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let scratch = Scratch::new("rows-mark");
    let data = scratch.0.join("data");
    make(&data, 0..0);
    let csv = scratch.write("marked.csv", format!("\u{feff}{CSV}{}", record(1)));
    let json = scratch.write("marked.jsonl", format!("\u{feff}{}", object(2)));
    for file in [csv, json] {
        assert_eq!(
            succeeds(&["import", &scratch.name("data"), "things", &file]),
            "things: 1 rows imported\n"
        );
    }
    assert_eq!(all(&data).len(), 2);
}

/// A database that is open is read as a copy, and the commands say so.
#[test]
fn a_database_that_is_open_is_checked_inspected_and_exported() {
    let scratch = Scratch::new("open-elsewhere");
    let data = scratch.name("data");
    let (database, things) = open(Path::new(&data));
    database.transaction(|t| t.insert_all(things, (0..30).map(thing))).expect("inserted");
    let note = format!("{data}: another process has it open; read is a copy as of epoch ");
    let checked = succeeds(&["check", &data]);
    assert!(checked.starts_with(&note) && checked.contains(&format!("\n{data}: ok, ")), "{checked}");
    assert!(checked.contains("things: 30 rows"), "{checked}");
    let inspected = succeeds(&["inspect", &data]);
    assert!(inspected.starts_with(&note) && inspected.contains("\ntables\n"), "{inspected}");
    let out = scratch.name("things.jsonl");
    let exported = succeeds(&["export", &data, "things", "--out", &out]);
    assert!(exported.starts_with(&note) && exported.ends_with("30 rows of things\n"), "{exported}");
    assert_eq!(std::fs::read_to_string(&out).expect("rows").lines().count(), 30);
    let lines = succeeds(&["export", &data, "things", "--format", "jsonl"]);
    assert_eq!(lines.lines().count(), 30, "the note is not among the rows");
    // The process that has it open went on all the time.
    database.transaction(|t| t.insert(things, &thing(30))).expect("inserted");
    database.close().expect("closed");
    assert!(succeeds(&["check", &data]).starts_with(&format!("{data}: ok, ")));
}
