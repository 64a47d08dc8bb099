//! Tests of descriptions.

use super::*;
use crate::key::KEY_BYTES_MAX;
use crate::table_limits::{INDEXES_MAX, KEY_COLUMNS_MAX, KeyFault, ROW_BYTES_MAX};

fn column(name: &str, kind: ValueType) -> ColumnDescription {
    ColumnDescription::new(name, kind)
}

/// Builds a table with a key and a column of this type.
fn with(kind: ValueType) -> TableBuilder {
    TableBuilder::new("t").column(column("id", ValueType::Unsigned(8))).column(column("c", kind)).key(["id"])
}

fn fault(builder: TableBuilder) -> TableFault {
    builder.build().expect_err("refused").fault
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let number = || ValueType::Unsigned(4);
    assert_eq!(fault(TableBuilder::new("t").column(column("id", number()))), TableFault::NoKey);
    assert_eq!(
        fault(with(number()).key(Vec::<String>::new())),
        TableFault::EmptyKey { index: "primary".into() }
    );
    assert!(matches!(fault(with(ValueType::Unsigned(3))), TableFault::Type { .. }));
    assert!(matches!(fault(with(ValueType::Array(Box::new(ValueType::String), 2))), TableFault::Type { .. }));
    assert_eq!(
        fault(with(number()).column(column("c", number()))),
        TableFault::DuplicateColumn { column: "c".into() }
    );
    let twice = with(number()).index("by_c", ["c"]).unique_index("by_c", ["c"]);
    assert_eq!(fault(twice), TableFault::DuplicateIndex { index: "by_c".into() });
    assert!(matches!(fault(with(number()).column(column("", number()))), TableFault::Name { .. }));
    for name in ["a\0", "a\nb", "\u{1b}[0m"] {
        assert!(matches!(fault(with(number()).column(column(name, number()))), TableFault::Name { .. }));
    }
    assert!(matches!(fault(with(number()).index("x".repeat(256), ["c"])), TableFault::Name { .. }));
    let long = fault(with(ValueType::Text(ROW_BYTES_MAX)));
    assert_eq!(long, TableFault::RowTooLong { bytes: ROW_BYTES_MAX + 8 });
    assert!(with(ValueType::Text(ROW_BYTES_MAX - 8)).build().is_ok());
    let default = column("d", number()).with_default(Datum::Text("no".into()));
    assert!(matches!(fault(with(number()).column(default)), TableFault::Default { .. }));
    let many = (0..COLUMNS_MAX)
        .fold(with(number()), |table, number| table.column(column(&format!("c{number}"), ValueType::Bool)));
    assert!(matches!(fault(many), TableFault::TooManyColumns { .. }));
    let indexes =
        |count| (0..count).fold(with(number()), |table, number| table.index(format!("i{number}"), ["c"]));
    assert_eq!(fault(indexes(INDEXES_MAX)), TableFault::TooManyIndexes { indexes: INDEXES_MAX + 1 });
    assert!(indexes(INDEXES_MAX - 1).build().is_ok());
}

#[test]
fn columns_that_no_key_can_have_are_refused() {
    let key = |kind| match fault(with(kind).index("by_c", ["c"])) {
        TableFault::Key { index, column, fault } if index == "by_c" && column == "c" => fault,
        other => panic!("{other}"),
    };
    let pair = || ValueType::Array(Box::new(ValueType::Unsigned(2)), 2);
    assert_eq!(key(pair()), KeyFault::Type { kind: "[u16; 2]".into() });
    // Keys have no end of such a value that sorts.
    for kind in ["json", "[i32]", "[string]"] {
        assert_eq!(key(kind.parse().expect("a type")), KeyFault::Type { kind: kind.into() });
    }
    let of = |builder: TableBuilder| match fault(builder) {
        TableFault::Key { fault, .. } => fault,
        other => panic!("{other}"),
    };
    let number = || ValueType::Unsigned(4);
    assert_eq!(of(with(number()).index("i", ["x"])), KeyFault::Unknown { known: "id, c".into() });
    assert_eq!(of(with(number()).index("i", ["c", "c"])), KeyFault::Twice);
    let nullable = with(number()).column(column("n", number()).nullable());
    assert_eq!(of(nullable.key(["n"])), KeyFault::Nullable);
    let text = with(ValueType::String).key(["c"]).build().expect("a table");
    assert_eq!((text.indexes()[0].key_bits, text.has_ordered_keys()), (8 * KEY_BYTES_MAX as u32, true));
    assert_eq!(of(with(ValueType::Bytes).compact().index("i", ["c"])), KeyFault::WholeTail);
}

/// The longest key, and one byte more, alone and with the primary key.
#[test]
fn keys_have_a_bound() {
    let longest = |bytes| with(ValueType::Text(bytes)).unique_index("by_c", ["c"]);
    let bits = longest(KEY_BYTES_MAX).build().map(|table| table.indexes()[1].key_bits);
    assert_eq!(bits, Ok(8 * KEY_BYTES_MAX as u32));
    let too_long = |bytes| TableFault::KeyTooLong { index: "by_c".into(), bytes };
    assert_eq!(fault(longest(KEY_BYTES_MAX + 1)), too_long(KEY_BYTES_MAX + 1));
    let completed = |bytes| with(ValueType::Text(bytes)).index("by_c", ["c"]);
    assert!(completed(KEY_BYTES_MAX - 8).build().is_ok());
    assert_eq!(fault(completed(KEY_BYTES_MAX - 7)), too_long(KEY_BYTES_MAX + 1));
    let text = longest(3000).build().expect_err("refused").to_string();
    assert!(text.contains("by_c") && text.contains("3000 bytes") && text.contains("at most 2048"), "{text}");
    let primary = |bytes| with(ValueType::Text(bytes)).key(["c"]);
    assert!(primary(KEY_BYTES_MAX).build().is_ok());
    let bytes = KEY_BYTES_MAX + 1;
    assert_eq!(fault(primary(bytes)), TableFault::KeyTooLong { index: "primary".into(), bytes });
}

/// The most columns, and one more.
#[test]
fn keys_have_a_number_of_columns() {
    let bools = (0..KEY_COLUMNS_MAX).fold(with(ValueType::Unsigned(1)), |table, number| {
        table.column(column(&format!("b{number}"), ValueType::Bool))
    });
    let names: Vec<_> = (0..KEY_COLUMNS_MAX).map(|number| format!("b{number}")).collect();
    let table = bools.unique_index("all", &names).build().expect("a table");
    assert_eq!(table.indexes()[1].key_bits, 8 * KEY_COLUMNS_MAX as u32);
    let bools = (0..KEY_COLUMNS_MAX).fold(with(ValueType::Unsigned(1)), |table, number| {
        table.column(column(&format!("b{number}"), ValueType::Bool))
    });
    let names: Vec<_> = names.iter().map(|name| &**name).chain(["c"]).collect();
    let many = TableFault::TooManyKeyColumns { index: "all".into(), columns: KEY_COLUMNS_MAX + 1 };
    assert_eq!(fault(bools.unique_index("all", names)), many);
}

/// Nulls and the primary key behind them count.
#[test]
fn keys_with_nulls_are_longer() {
    let build = |text: usize| {
        let table = with(ValueType::Unsigned(1)).column(column("t", ValueType::Text(text)).nullable());
        (table.unique_index("i", ["t"]), text + 1 + 8)
    };
    let (longest, bytes) = build(KEY_BYTES_MAX - 9);
    assert_eq!(longest.build().map(|table| table.indexes()[1].key_bits), Ok(8 * bytes as u32));
    let (longer, bytes) = build(KEY_BYTES_MAX - 8);
    assert_eq!(fault(longer), TableFault::KeyTooLong { index: "i".into(), bytes });
    let table = with(ValueType::Unsigned(1)).column(column("t", ValueType::Text(20)).nullable());
    let same = table.unique_index_nulls_not_distinct("i", ["t"]).build().expect("a table");
    assert_eq!(
        (same.indexes()[1].key_bits, &*same.format_index(1)),
        (168, "unique i (t) nulls not distinct")
    );
}

/// A key with a column of variable length has the longest length, and has room for the others.
#[test]
fn variable_keys_have_room() {
    let table = |bytes| with(ValueType::String).column(column("t", ValueType::Text(bytes)));
    let fits = table(KEY_BYTES_MAX - 9).index("i", ["t", "c"]).build().expect("a table");
    assert_eq!(fits.indexes()[1].key_bits, 8 * KEY_BYTES_MAX as u32);
    assert_eq!((fits.key_tail_columns(), fits.has_ordered_keys()), (vec![0], true));
    let long = TableFault::KeyTooLong { index: "i".into(), bytes: KEY_BYTES_MAX + 1 };
    assert_eq!(fault(table(KEY_BYTES_MAX - 8).index("i", ["c", "t"])), long);
}

/// The null bit of a column of a key is all that belongs to the key in its byte.
#[test]
fn bytes_of_keys_have_masks() {
    let nullable = |name: &str| column(name, ValueType::Unsigned(1)).nullable();
    let table = with(ValueType::Unsigned(1)).column(nullable("x")).column(nullable("y")).index("i", ["y"]);
    let table = table.build().expect("a table");
    let keys = table.key_bytes();
    assert_eq!(
        keys.iter().map(|key| (key.from, key.to, key.mask)).collect::<Vec<_>>(),
        [(0, 8, 0xff), (10, 11, 0xff), (11, 12, 0b10)]
    );
    let changes = |before: &[u8], written: &[u8]| keys[2].are_changed(10, before, written);
    assert!(!changes(&[7, 0b00], &[7, 0b01]) && changes(&[7, 0b00], &[7, 0b10]) && !changes(&[7], &[8]));
}

#[test]
fn columns_are_added_where_there_is_room() {
    let extensible = with(ValueType::Unsigned(4)).build().expect("a table");
    let note = || column("note", ValueType::Text(4)).nullable();
    let added = extensible.with_column(note()).expect("a column");
    assert_eq!((added.row_bytes(), added.place(2)), (extensible.row_bytes(), Place::Tail(0)));
    let fault = |table: &TableDescription, column| table.with_column(column).expect_err("refused").fault;
    assert!(matches!(fault(&added, note()), TableFault::DuplicateColumn { .. }));
    assert!(matches!(fault(&added, column("x", ValueType::Bool)), TableFault::NoDefault { .. }));
    let compact = with(ValueType::Unsigned(4)).compact().build().expect("a table");
    assert!(matches!(fault(&compact, note()), TableFault::NotExtensible { .. }));
    let forms = [ValueType::Bytes, ValueType::String]
        .map(|kind| with(kind).compact().build().map(|table| table.tail()));
    assert_eq!(forms, [Ok(TailForm::Whole), Ok(TailForm::Directory)]);
}
