//! Rows without a Rust type.

use crate::common::{Person, SCHEMES, people, person};
use isles::{Database, Datum, Error, Row, RowError, Scheme, Table, ValueType};

fn values(row: &Person) -> Vec<Datum> {
    vec![
        Datum::Unsigned(row.id),
        Datum::Text(row.email.as_str().to_owned()),
        Datum::Unsigned(u64::from(row.city)),
        Datum::Unsigned(u64::from(row.age)),
        Datum::List(row.scores.iter().map(|score| Datum::Signed(i64::from(*score))).collect()),
        Datum::Bytes(row.notes.clone()),
    ]
}

#[test]
fn typed_and_described_rows_agree() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 30).expect("a database");
        let table = &database.tables()[0];
        assert_eq!((table.name(), table.columns().len(), table.indexes().len()), ("people", 6, 3));
        assert_eq!(table.columns()[1].kind, ValueType::Text(24));
        let outcome = database.transaction(|t| {
            assert_eq!(t.get_dynamic("people", &[Datum::Unsigned(7)])?, Some(values(&person(7))));
            assert_eq!(t.get_dynamic("people", &[Datum::Unsigned(77)])?, None);
            t.insert_dynamic("people", &values(&person(50)))?;
            assert_eq!(t.get(people.by(Person::BY_EMAIL), &person(50).email)?, Some(person(50)));
            let all = t.scan_dynamic("people")?;
            assert!(
                all.iter().eq((0..30).chain([50]).map(|id| values(&person(id))).collect::<Vec<_>>().iter())
            );
            // Invalid rows are refused before the transaction changes anything.
            assert!(matches!(t.get_dynamic("persons", &[]), Err(Error::NoSuchTable(_))));
            let refused = t.insert_dynamic("people", &[Datum::Unsigned(1)]);
            assert!(matches!(refused, Err(Error::Row(RowError::Count { .. }))), "{refused:?}");
            let refused = t.get_dynamic("people", &[Datum::Text("7".into())]);
            assert!(matches!(refused, Err(Error::Row(RowError::Type { .. }))), "{refused:?}");
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        let taken = database.transaction(|t| t.insert_dynamic("people", &values(&person(7))));
        assert_eq!(
            taken,
            Err(Error::Duplicate {
                table: "people".into(),
                index: "primary key".into(),
                key: Some("7".into())
            })
        );
    }
}

#[test]
fn options_are_null() {
    #[derive(Row, Debug, PartialEq)]
    #[row(key(id))]
    struct Note {
        text: Option<String>,
        id: u32,
        stars: Option<u8>,
    }
    let mut builder = Database::in_memory().scheme(Scheme::Mvcc);
    let notes: Table<Note> = builder.table("notes");
    let database = builder.open().expect("a database");
    let (empty, full) = (
        [Datum::Null, Datum::Unsigned(1), Datum::Null],
        [Datum::Text("x".into()), Datum::Unsigned(2), Datum::Unsigned(5)],
    );
    let outcome = database.transaction(|t| {
        t.insert_dynamic("notes", &empty)?;
        t.insert_dynamic("notes", &full)?;
        assert_eq!(t.scan_dynamic("notes")?, [empty.to_vec(), full.to_vec()]);
        t.scan(notes, ..).collect()
    });
    let expected =
        [Note { text: None, id: 1, stars: None }, Note { text: Some("x".into()), id: 2, stars: Some(5) }];
    assert_eq!(outcome.expect("read"), expected);
    let refused =
        database.snapshot(|t| t.insert_dynamic("notes", &[Datum::Null, Datum::Unsigned(3), Datum::Null]));
    assert!(matches!(refused, Err(Error::Misuse(_))));
}
