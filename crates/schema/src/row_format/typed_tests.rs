//! Rows with the types of SQL: typed and described ones have the same bytes and keys, and a value
//! that does not fit is named with its cure.

use proptest::prelude::*;

use super::*;
use crate::bounded::{Char, VarChar};
use crate::decimal::Numeric;
use crate::description::TableBuilder;
use crate::json_text::JsonText;
use crate::row::Row;
use crate::temporal::{Date, Time, Timestamp, TimestampTz};
use crate::uuid::Uuid;

#[derive(row_derive::Row, Clone, Debug, PartialEq)]
#[row(key(day, price, code), index(by_length(length, moment)), unique_index(by_uuid(uuid, total)))]
#[row(index(by_local(local, time)), crate = crate)]
struct Typed {
    names: Vec<String>,
    day: Date,
    price: Numeric<10, 2>,
    code: Char<2>,
    length: Interval,
    moment: TimestampTz,
    uuid: Uuid,
    total: Numeric<38, 9>,
    local: Timestamp,
    time: Time,
    until: Option<Date>,
    share: Option<Numeric<30, 30>>,
    title: VarChar<8>,
    note: Option<VarChar<3>>,
    json: JsonText,
    days: Vec<Date>,
    pairs: Option<Vec<[i16; 2]>>,
}

fn typed() -> impl Strategy<Value = Typed> {
    let numbers = (-9_999_999_999..=9_999_999_999_i64, any::<i64>(), any::<u128>(), any::<i32>());
    let texts = ("[a-zé ]{0,2}", "[a-zé ]{0,8}", prop::collection::vec("[é,\"]{0,3}", 0..4), any::<bool>());
    let lists = (prop::collection::vec(0..9_000_i32, 0..4), prop::collection::vec(any::<[i16; 2]>(), 0..3));
    (numbers, texts, lists).prop_map(
        |((price, long, uuid, days), (code, title, names, there), (list, pairs))| {
            let micros = long / 1_000;
            let moment = TimestampTz::from_micros(micros).expect("in range");
            let day = |days: i32| Date::from_days(days % 1_000_000).expect("in range");
            Typed {
                names,
                day: if there { day(days) } else { Date::INFINITY },
                price: Numeric::from_digits(price.into()).expect("ten digits"),
                code: Char::try_from(code).expect("short"),
                length: Interval::new(days, days / 2, long),
                moment,
                uuid: Uuid::from_u128(uuid),
                total: Numeric::from_digits(i128::from(long) * 1_000_000).expect("38 digits"),
                local: moment.utc(),
                time: moment.utc().time(),
                until: there.then(|| day(days / 3)),
                share: (!there).then(|| Numeric::from_digits(long.into()).expect("30 digits")),
                title: VarChar::try_from(title).expect("short"),
                note: there.then(VarChar::default),
                json: JsonText::of(&(long, "é")).expect("JSON"),
                days: list.into_iter().map(day).collect(),
                pairs: there.then_some(pairs),
            }
        },
    )
}

fn values(row: &Typed) -> Vec<Datum> {
    let text = |text: &str| Datum::Text(text.to_owned());
    let or_null = |value: Option<Datum>| value.unwrap_or(Datum::Null);
    let pair = |[a, b]: &[i16; 2]| Datum::List(vec![Datum::Signed((*a).into()), Datum::Signed((*b).into())]);
    vec![
        Datum::List(row.names.iter().map(|name| text(name)).collect()),
        Datum::Date(row.day),
        Datum::Numeric(row.price.into()),
        Datum::Text(row.code.to_string()),
        Datum::Interval(row.length),
        Datum::TimestampTz(row.moment),
        Datum::Uuid(row.uuid),
        Datum::Numeric(row.total.into()),
        Datum::Timestamp(row.local),
        Datum::Time(row.time),
        or_null(row.until.map(Datum::Date)),
        or_null(row.share.map(|share| Datum::Numeric(share.into()))),
        text(&row.title),
        or_null(row.note.as_ref().map(|note| text(note))),
        text(row.json.as_str()),
        Datum::List(row.days.iter().copied().map(Datum::Date).collect()),
        or_null(row.pairs.as_ref().map(|pairs| Datum::List(pairs.iter().map(pair).collect()))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
    #[test]
    fn typed_and_described_rows_are_the_same(row in typed()) {
        let table = TableDescription::of::<Typed>("typed").expect("a table");
        let (mut bytes, mut own) = (RowBytes::default(), vec![0; Typed::BYTES]);
        table.encode_row(&values(&row), &mut bytes).expect("a row");
        row.store(&mut own);
        prop_assert_eq!(&bytes.fixed, &own);
        prop_assert_eq!(&bytes.tail[..], &row.tail()[..]);
        for (index, key) in bytes.keys.iter().enumerate() {
            let mut typed = AnyKey::new(table.indexes()[index].key_bits);
            row.index_key(index, &mut typed);
            prop_assert_eq!(key.clone(), typed, "index {}", index);
        }
        prop_assert_eq!(Typed::fetch(&bytes.fixed, &bytes.tail), row.clone());
        let decoded = table.decode_row(&bytes.fixed, &bytes.tail).expect("a row");
        prop_assert_eq!(format!("{:?}", decoded), format!("{:?}", values(&row)));
        prop_assert_eq!(table.key_bits(&table.indexes()[0]), 8 * (4 + 8 + 8));
    }

    #[test]
    fn damaged_values_are_no_values(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        for column in TableDescription::of::<Typed>("typed").expect("a table").columns() {
            if let Some(value) = Datum::fetch(&column.kind, &bytes) {
                let mut again = Vec::new();
                let appended = value.append(&column.kind, &mut again);
                prop_assert!(column.kind == ValueType::Json || appended == Ok(()), "{} {value}", column.kind);
                // Behind the zero that ends a padded text nothing is read.
                let is_same = appended.is_err() || matches!(column.kind, ValueType::Char(_)) || again == bytes;
                prop_assert!(is_same, "{} {value}", column.kind);
            }
        }
    }
}

#[test]
fn an_empty_row_has_a_value_of_each_type() {
    let table = TableDescription::of::<Typed>("typed").expect("a table");
    let (fixed, tail) = table.empty_row().expect("a row");
    let texts: Vec<_> =
        table.decode_row(&fixed, &tail).expect("a row").iter().map(Datum::to_string).collect();
    let expected = [
        "()",
        "2000-01-01",
        "0.00",
        "\"  \"",
        "PT0S",
        "2000-01-01 00:00:00+00",
        "00000000-0000-0000-0000-000000000000",
        "0.000000000",
        "2000-01-01 00:00:00",
        "00:00:00",
        "null",
        "null",
        "\"\"",
        "null",
        "\"null\"",
        "()",
        "null",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn a_value_that_does_not_fit_is_named_with_its_cure() {
    let refused = |kind: &str, value: Datum| {
        let column = ColumnDescription::new("c", kind.parse().expect("a type"));
        let builder = TableBuilder::new("t").column(ColumnDescription::new("id", ValueType::Unsigned(1)));
        let table = builder.column(column).key(["id"]).build().expect("a table");
        let row = table.encode_row(&[Datum::Unsigned(1), value], &mut RowBytes::default());
        row.expect_err(kind).to_string()
    };
    let text = |text: &str| Datum::Text(text.to_owned());
    for (kind, value, error) in [
        (
            "varchar(3)",
            text("abcd"),
            "\"abcd\" does not fit into varchar(3): column \"c\" of table \"t\"; shorten it, or make the column longer",
        ),
        ("char(3)", text("abcd"), "does not fit into char(3)"),
        ("numeric(4, 2)", Datum::Unsigned(100), "100 does not fit into numeric(4, 2)"),
        ("numeric(4, 2)", Datum::Numeric("1.005".parse().expect("a number")), "round it"),
        (
            "numeric(4, 2)",
            Datum::Float(1.0),
            "1 is no numeric(4, 2): column \"c\" of table \"t\"; give it an exact number",
        ),
        ("date", text("2026-11-28"), "give it a date"),
        ("timestamptz", Datum::Timestamp(Timestamp::MIN), "give it a timestamp with its offset from UTC"),
        ("json", text("{"), "give it a text that is JSON"),
        ("[i32]", Datum::List(vec![Datum::Unsigned(1 << 40)]), "(1099511627776) does not fit into [i32]"),
        ("[string]", Datum::List(vec![Datum::Null]), "(null) is no [string]"),
        ("uuid", Datum::Unsigned(1), "give it a UUID"),
    ] {
        let found = refused(kind, value);
        assert!(found.contains(error), "{kind}: {found}");
    }
    let long = refused("varchar(3)", text(&"é".repeat(10_000)));
    assert!(long.len() < 300 && long.contains("..."), "{long}");
}

#[test]
fn columns_of_other_types_are_converted_or_refused() {
    let table = |kinds: [&str; 3]| {
        let columns = kinds.iter().zip(["a", "b", "c"]);
        let builder = TableBuilder::new("t").column(ColumnDescription::new("id", ValueType::Unsigned(1)));
        let add = |builder: TableBuilder, (kind, name): (&&str, &str)| {
            builder.column(ColumnDescription::new(name, kind.parse().expect("a type")).nullable())
        };
        columns.fold(builder, add).key(["id"]).build().expect("a table")
    };
    let from = table(["i64", "string", "date"]);
    let to = table(["numeric(10, 2)", "timestamptz", "string"]);
    assert_eq!((from.obstacle(&to, false), to.obstacle(&from, false)), (None, None));
    assert!(from.obstacle(&table(["date", "string", "date"]), false).is_some());
    let convert = |values: &[Datum]| {
        let mut row = RowBytes::default();
        from.encode_row(values, &mut row).expect("a row");
        let (fixed, tail) = from.convert(&to, &row.fixed, &row.tail, None)?;
        to.decode_row(&fixed, &tail)
    };
    let day = Datum::Date(Date::new(2026, 11, 28).expect("a date"));
    let row =
        [Datum::Unsigned(1), Datum::Signed(-5), Datum::Text("2026-11-28 04:35:00Z".into()), day.clone()];
    let texts = convert(&row).map(|row| row.iter().map(Datum::to_string).collect::<Vec<_>>().join(" "));
    assert_eq!(texts, Ok("1 -5.00 2026-11-28 04:35:00+00 \"2026-11-28\"".to_owned()));
    let nulls = [Datum::Unsigned(1), Datum::Null, Datum::Null, Datum::Null];
    assert_eq!(convert(&nulls), Ok(nulls.to_vec()));
    let error = convert(&[Datum::Unsigned(1), Datum::Null, Datum::Text("soon".into()), Datum::Null]);
    let error = error.expect_err("no time").to_string();
    assert!(error.starts_with("\"soon\" is no timestamptz: column \"b\" of table \"t\"; give it"), "{error}");
}
