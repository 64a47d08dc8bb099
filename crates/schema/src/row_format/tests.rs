//! Tests of the format of rows.

use proptest::prelude::*;

use super::*;
use crate::description::{ColumnDescription, TableBuilder};
use crate::key_order::KeyColumn;
use crate::row::Row;
use crate::text::Text;

#[derive(row_derive::Value, Clone, Debug, PartialEq)]
#[row(crate = crate)]
struct Day {
    year: i16,
    day: u8,
    share: f32,
}

/// Every type that a derived row can have, in keys and outside.
#[derive(row_derive::Row, Clone, Debug, PartialEq)]
#[row(key(town, number), index(by_low(low, small)), unique_index(by_code(code)), crate = crate)]
struct Wide {
    number: u32,
    town: Text<9>,
    low: i64,
    small: i8,
    flag: bool,
    code: [u8; 5],
    days: [Day; 2],
    ratio: f64,
    counts: [u16; 3],
    #[row(tail)]
    rest: Vec<u8>,
}

fn day() -> impl Strategy<Value = Day> {
    (any::<i16>(), any::<u8>(), any::<f32>()).prop_map(|(year, day, share)| Day { year, day, share })
}

fn wide() -> impl Strategy<Value = Wide> {
    let keys = (any::<u32>(), "[a-zé]{0,4}", any::<i64>(), any::<i8>(), any::<bool>(), any::<[u8; 5]>());
    let others = (day(), day(), any::<f64>(), any::<[u16; 3]>(), prop::collection::vec(any::<u8>(), 0..60));
    (keys, others).prop_map(|((number, town, low, small, flag, code), (one, two, ratio, counts, rest))| {
        let (town, days) = (Text::truncated(&town), [one, two]);
        Wide { number, town, low, small, flag, code, days, ratio, counts, rest }
    })
}

fn of_day(day: &Day) -> Datum {
    let Day { year, day, share } = day;
    Datum::List(vec![
        Datum::Signed(i64::from(*year)),
        Datum::Unsigned(u64::from(*day)),
        Datum::Float(f64::from(*share)),
    ])
}

fn values(row: &Wide) -> Vec<Datum> {
    vec![
        Datum::Unsigned(u64::from(row.number)),
        Datum::Text(row.town.as_str().to_owned()),
        Datum::Signed(row.low),
        Datum::Signed(i64::from(row.small)),
        Datum::Bool(row.flag),
        Datum::Bytes(row.code.to_vec()),
        Datum::List(row.days.iter().map(of_day).collect()),
        Datum::Float(row.ratio),
        Datum::List(row.counts.iter().map(|count| Datum::Unsigned(u64::from(*count))).collect()),
        Datum::Bytes(row.rest.clone()),
    ]
}

fn column(name: &str, kind: ValueType) -> ColumnDescription {
    ColumnDescription::new(name, kind)
}

/// The rows of [`mixed`].
#[derive(row_derive::Row, Clone, Debug, PartialEq)]
#[row(
    key(desc(id)),
    index(by_flagless(id)),
    index(by_age(flag, nulls_first(age), desc(size))),
    unique_index(by_size(desc(nulls_last(size)), age), only_age(age) nulls_not_distinct),
    crate = crate
)]
struct Mixed {
    id: u32,
    age: Option<u16>,
    name: String,
    size: Option<f64>,
    data: Option<Vec<u8>>,
    notes: Option<String>,
    flag: bool,
}

/// Keys of columns in the tail.
#[derive(row_derive::Row, Clone, Debug, PartialEq)]
#[row(
    key(id),
    index(by_name(name, size), by_both(desc(data), nulls_first(alias))),
    unique_index(by_alias(desc(alias))),
    crate = crate
)]
struct Named {
    id: u32,
    size: Option<u16>,
    name: String,
    notes: Vec<u8>,
    alias: Option<String>,
    data: Vec<u8>,
}

fn mixed_value(row: &Mixed) -> Vec<Datum> {
    fn or_null<T>(value: &Option<T>, datum: impl Fn(&T) -> Datum) -> Datum {
        value.as_ref().map_or(Datum::Null, datum)
    }
    vec![
        Datum::Unsigned(u64::from(row.id)),
        or_null(&row.age, |age| Datum::Unsigned(u64::from(*age))),
        Datum::Text(row.name.clone()),
        or_null(&row.size, |size| Datum::Float(*size)),
        or_null(&row.data, |data| Datum::Bytes(data.clone())),
        or_null(&row.notes, |notes| Datum::Text(notes.clone())),
        Datum::Bool(row.flag),
    ]
}

#[test]
fn derived_rows_have_a_directory_and_null_bits() {
    assert_eq!(TableDescription::of::<Mixed>("mixed"), Ok(mixed()));
}

/// Two columns in the fixed part and two in the tail that are nullable, and two of each that are
/// not.
fn mixed() -> TableDescription {
    let builder = TableBuilder::new("mixed")
        .column(column("id", ValueType::Unsigned(4)))
        .column(column("age", ValueType::Unsigned(2)).nullable())
        .column(column("name", ValueType::String))
        .column(column("size", ValueType::Float(8)).nullable())
        .column(column("data", ValueType::Bytes).nullable())
        .column(column("notes", ValueType::String).nullable())
        .column(column("flag", ValueType::Bool));
    let key = KeyColumn::new;
    let builder = builder
        .key([key("id").descending()])
        .index("by_flagless", ["id"])
        .index("by_age", [key("flag"), key("age").nulls_first(), key("size").descending()])
        .unique_index("by_size", [key("size").descending().nulls_last(), key("age")])
        .unique_index_nulls_not_distinct("only_age", ["age"]);
    builder.build().expect("a table")
}

fn mixed_values() -> impl Strategy<Value = Vec<Datum>> {
    let long = prop_oneof![4 => 0..50_usize, 1 => 30_000..40_000_usize];
    let bytes = long.prop_flat_map(|length| prop::collection::vec(any::<u8>(), length));
    let row = (
        any::<u32>().prop_map(|value| Datum::Unsigned(u64::from(value))),
        prop::option::of(any::<u16>()),
        "\\PC{0,30}".prop_map(Datum::Text),
        prop::option::of(any::<f64>()),
        prop::option::of(bytes),
        prop::option::of("\\PC{0,20}"),
        any::<bool>().prop_map(Datum::Bool),
    );
    row.prop_map(|(id, age, name, size, data, notes, flag)| {
        let age = age.map_or(Datum::Null, |age| Datum::Unsigned(u64::from(age)));
        let size = size.map_or(Datum::Null, Datum::Float);
        let data = data.map_or(Datum::Null, Datum::Bytes);
        vec![id, age, name, size, data, notes.map_or(Datum::Null, Datum::Text), flag]
    })
}

fn encode(table: &TableDescription, values: &[Datum]) -> RowBytes {
    let mut bytes = RowBytes::default();
    table.encode_row(values, &mut bytes).expect("a row");
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 256 }))]
    #[test]
    fn described_rows_are_those_of_the_derive(row in wide()) {
        let table = TableDescription::of::<Wide>("wide").expect("a table");
        let bytes = encode(&table, &values(&row));
        let mut fixed = vec![0xaa; Wide::BYTES];
        row.store(&mut fixed);
        prop_assert_eq!((&bytes.fixed, &*bytes.tail), (&fixed, &*row.tail()));
        for (index, described) in bytes.keys.iter().enumerate() {
            let mut key = AnyKey::new(table.indexes()[index].key_bits);
            row.index_key(index, &mut key);
            prop_assert_eq!(described.clone(), key.clone());
            prop_assert_eq!(key.bits(), table.indexes()[index].key_bits);
        }
        prop_assert_eq!(table.decode_row(&fixed, &row.tail()), Ok(values(&row)));
        prop_assert_eq!(Wide::fetch(&bytes.fixed, &bytes.tail), row);
    }

    #[test]
    fn rows_are_read_as_written(values in mixed_values()) {
        let table = mixed();
        let bytes = encode(&table, &values);
        prop_assert_eq!(bytes.fixed.len(), table.row_bytes());
        prop_assert_eq!(table.decode_row(&bytes.fixed, &bytes.tail), Ok(values.clone()));
        let row = Mixed::fetch(&bytes.fixed, &bytes.tail);
        prop_assert_eq!(mixed_value(&row), values.clone());
        let mut fixed = vec![0xaa; Mixed::BYTES];
        row.store(&mut fixed);
        prop_assert_eq!((&fixed, &*row.tail()), (&bytes.fixed, &*bytes.tail));
        prop_assert_eq!(table.encode_key(0, &values[..1]), Ok(bytes.keys[0].clone()));
        for (index, described) in bytes.keys.iter().enumerate() {
            let mut key = AnyKey::new(table.indexes()[index].key_bits);
            row.index_key(index, &mut key);
            prop_assert_eq!(described.clone(), key.clone(), "index {}", index);
            prop_assert!(key.bits() <= table.indexes()[index].key_bits);
        }
        prop_assert_eq!(AnyKey::of(&row.key()), bytes.keys[0].clone());
    }

    #[test]
    fn keys_of_the_tail(
        id: u32, size: Option<u16>, name in "\\PC{0,20}", alias in prop::option::of(prop_oneof!["[\0-c]{0,60}", "[\0-~]{2000,2060}"]),
        data in prop::collection::vec(0..4_u8, 0..20),
    ) {
        let row = Named { id, size, name, notes: vec![1; 100], alias, data };
        let table = TableDescription::of::<Named>("named").expect("a table");
        let mut fixed = vec![0; Named::BYTES];
        row.store(&mut fixed);
        let values = table.decode_row(&fixed, &row.tail()).expect("a row");
        let mut bytes = RowBytes::default();
        let encoded = table.encode_row(&values, &mut bytes);
        let keys: Vec<_> = (0..4).map(|index| {
            let mut key = AnyKey::new(table.indexes()[index].key_bits);
            row.index_key(index, &mut key);
            key
        }).collect();
        for (index, key) in keys.iter().enumerate() {
            prop_assert_eq!(&table.key_of(index, &fixed, &row.tail()), key, "index {}", index);
        }
        match crate::row_keys::too_long_key(&row) {
            None => {
                prop_assert_eq!(encoded, Ok(()));
                prop_assert_eq!(&bytes.keys, &keys);
                let by_name = [values[2].clone(), values[1].clone(), values[0].clone()];
                prop_assert_eq!(table.encode_key(1, &by_name), Ok(keys[1].clone()));
            }
            Some((index, length)) => {
                prop_assert!(keys[index].is_too_long() && keys[..index].iter().all(|key| !key.is_too_long()));
                prop_assert_eq!(encoded, Err(table.key_too_long(index, length)));
            }
        }
        let are_there = crate::row_keys::with_keys(&row, |words| {
            words.iter().zip(&keys).all(|(words, key)| words.is_empty() == key.is_too_long())
        });
        prop_assert!(are_there);
        let changed = Named { alias: Some("other".into()), ..row.clone() };
        prop_assert!(!tails_agree(&table.key_tail_columns(), &row.tail(), &changed.tail()));
        let kept = Named { notes: vec![2; 7], ..row.clone() };
        prop_assert!(tails_agree(&table.key_tail_columns(), &row.tail(), &kept.tail()));
    }

    /// Rows written before columns were added have the defaults of these columns.
    #[test]
    fn earlier_rows_have_defaults(values in mixed_values(), later in mixed_values(), number: i32) {
        let first = mixed();
        let counted = column("count", ValueType::Signed(4)).with_default(Datum::Signed(i64::from(number)));
        let second = first.with_column(counted).expect("one more");
        let third = second.with_column(column("more", ValueType::String).nullable()).expect("and one more");
        let bytes = encode(&first, &values);
        let mut expected = values.clone();
        expected.push(Datum::Signed(i64::from(number)));
        prop_assert_eq!(second.decode_row(&bytes.fixed, &bytes.tail), Ok(expected.clone()));
        expected.push(Datum::Null);
        prop_assert_eq!(third.decode_row(&bytes.fixed, &bytes.tail), Ok(expected));
        // A row written after the addition has its own values.
        let mut values = later;
        values.extend([Datum::Signed(-3), Datum::Text("own".into())]);
        let bytes = encode(&third, &values);
        prop_assert_eq!(third.decode_row(&bytes.fixed, &bytes.tail), Ok(values));
    }

    /// Decoding of arbitrary bytes terminates and stays within bounds.
    #[test]
    fn other_bytes_do_no_harm(fixed in prop::collection::vec(any::<u8>(), 0..40), tail: Vec<u8>) {
        let _ = mixed().decode_row(&fixed, &tail);
    }
}

#[test]
fn the_layout_is_as_drawn() {
    let table = mixed();
    let values = [
        Datum::Unsigned(0x0403_0201),
        Datum::Null,
        Datum::Text("ab".into()),
        Datum::Float(0.0),
        Datum::Null,
        Datum::Text("c".into()),
        Datum::Bool(true),
    ];
    let bytes = encode(&table, &values);
    // Four bytes of the id, two of the age and two in between, eight of the size, the flag, null
    // bits, zeros.
    assert_eq!(bytes.fixed, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]);
    // Three columns, which end at 2, 2 without a value, and 3.
    assert_eq!(bytes.tail, [3, 0, 2, 0, 2, 0x80, 3, 0, b'a', b'b', b'c']);
    let mut long = values.clone();
    long[2] = Datum::Text("x".repeat(WIDE_BYTES - 2));
    assert_eq!(encode(&table, &long).tail[..2], [3, 0]);
    long[2] = Datum::Text("x".repeat(WIDE_BYTES - 1));
    assert_eq!(encode(&table, &long).tail[..6], [3, 0x80, 0xff, 0x7f, 0, 0]);
    assert_eq!(
        table.decode_row(&bytes.fixed, &encode(&table, &long).tail).map(|row| row[5].clone()),
        Ok(values[5].clone())
    );
    let no_columns = TableBuilder::new("plain").column(column("id", ValueType::Unsigned(8))).key(["id"]);
    assert!(encode(&no_columns.build().expect("a table"), &[Datum::Unsigned(1)]).tail.is_empty());
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let table = mixed();
    let row = || {
        let text = || Datum::Text("t".into());
        let (id, data) = (Datum::Unsigned(1), Datum::Bytes(vec![1]));
        vec![id, Datum::Unsigned(2), text(), Datum::Float(1.5), data, text(), Datum::Bool(false)]
    };
    let refused = |column: usize, value: Datum| {
        let mut values = row();
        values[column] = value;
        table.encode_row(&values, &mut RowBytes::default()).expect_err("refused")
    };
    assert!(matches!(refused(0, Datum::Null), RowError::Null { column, .. } if column == "id"));
    assert!(matches!(refused(2, Datum::Null), RowError::Null { .. }));
    assert!(matches!(refused(0, Datum::Text("1".into())), RowError::Type { .. }));
    assert!(matches!(refused(0, Datum::Unsigned(1 << 32)), RowError::Range { .. }));
    assert!(matches!(refused(0, Datum::Signed(-1)), RowError::Range { .. }));
    assert!(matches!(refused(2, Datum::Bytes(vec![])), RowError::Type { .. }));
    let long = Datum::Bytes(vec![0; TAIL_BYTES_MAX]);
    assert!(matches!(refused(4, long), RowError::TailTooLong { .. }));
    let short = table.encode_row(&row()[1..], &mut RowBytes::default());
    assert!(matches!(short, Err(RowError::Count { values: 6, columns: 7, .. })));
    let refused = refused(1, Datum::Signed(70_000)).to_string();
    assert_eq!(
        refused,
        "70000 does not fit into u16: column \"age\" of table \"mixed\"; give it a smaller one that is not negative, or make the column longer"
    );
    // Integers are stored independent of the signedness of their `Datum`.
    let mut values = row();
    values[1] = Datum::Signed(7);
    let bytes = encode(&table, &values);
    assert_eq!(table.decode_column(1, &bytes.fixed, &bytes.tail), Ok(Datum::Unsigned(7)));
}

#[test]
fn damaged_tails_are_noticed() {
    let table = mixed();
    let fixed = vec![0; table.row_bytes()];
    let damaged = |tail: &[u8]| matches!(table.decode_row(&fixed, tail), Err(RowError::Damaged { .. }));
    // Half a count, missing ends, ends that decrease or exceed the tail, and invalid UTF-8.
    assert!(damaged(&[1]) && damaged(&[3, 0, 0, 0]) && damaged(&[1, 0, 9, 0, b'a']));
    assert!(damaged(&[2, 0, 2, 0, 1, 0, b'a', b'b']) && damaged(&[1, 0, 1, 0, 0xff]));
    // A name is not nullable, and this row was written without one.
    assert_eq!(table.decode_column(2, &fixed, &[]), Ok(Datum::Null));
}
