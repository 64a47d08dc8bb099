//! Types of fields: each value is read as it was written, under every scheme and from disk, and an
//! unsuitable value is an error.

use crate::common::{Directory, SCHEMES};
use isles::{Builder, Database, Error, Result, Row, Scheme, Table, Text, TextError, Value, prefix, text};

#[derive(Value, Clone, Copy, Debug, PartialEq, PartialOrd)]
#[row(key)]
struct Id(i128);

#[derive(Value, Clone, Copy, Debug, PartialEq)]
struct Money(i64);

#[derive(Value, Clone, Copy, Debug, PartialEq)]
#[row(key)]
#[repr(i16)]
enum Color {
    Red = -300,
    Green = 7,
    Blue,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_color(color, big)), unique_index(by_uuid(uuid)))]
struct Thing {
    name: String,
    id: Id,
    color: Color,
    big: u128,
    uuid: [u8; 16],
    price: Option<Money>,
    picture: Option<Vec<u8>>,
    sizes: Option<[u16; 3]>,
    flag: Option<bool>,
    data: Vec<u8>,
    remark: Option<String>,
}

fn thing(number: i64) -> Thing {
    let is = |modulus: i64| number.rem_euclid(modulus) == 0;
    let many = |bytes: i64| vec![number as u8; (number.unsigned_abs() as usize * bytes as usize) % 70_000];
    Thing {
        name: format!("thing {number}").repeat(number.unsigned_abs() as usize % 5),
        id: Id(i128::from(number) << 70),
        color: [Color::Red, Color::Green, Color::Blue][number.rem_euclid(3) as usize],
        big: u128::from(number.unsigned_abs()) << 64 | 1,
        uuid: (number as u128).to_le_bytes(),
        price: is(2).then_some(Money(number)),
        picture: is(3).then(|| many(1_000)),
        sizes: is(5).then_some([number as u16, 2, 3]),
        flag: is(7).then_some(is(2)),
        data: many(3),
        remark: is(4).then(|| "é".repeat(number.unsigned_abs() as usize)),
    }
}

fn declare(mut builder: Builder) -> Result<(Database, Table<Thing>)> {
    let things = builder.table("things");
    Ok((builder.open()?, things))
}

fn all() -> Vec<Thing> {
    (-40..40).map(thing).collect()
}

#[test]
fn every_type_round_trips() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("types-{scheme:?}"));
        let (database, things) = declare(Database::at(&directory.0).scheme(scheme)).expect("a database");
        database.transaction(|t| t.insert_all(things, all())).expect("inserted");
        let inspect = |database: &Database| {
            let outcome = database.transaction(|t| {
                assert_eq!(t.scan(things, ..).collect()?, all(), "negative numbers first");
                assert_eq!(t.scan(things, Id(-5 << 70)..Id(5 << 70)).count()?, 10);
                let red = t.scan(things.by(Thing::BY_COLOR), prefix(Color::Red)).collect()?;
                assert!(
                    red.iter().all(|thing| thing.color == Color::Red)
                        && red.is_sorted_by_key(|thing| thing.big)
                );
                assert_eq!(red.len(), 27);
                assert_eq!(t.get(things.by(Thing::BY_UUID), &thing(9).uuid)?, Some(thing(9)));
                let some = t.get_field(
                    things,
                    &Id(10 << 70),
                    (Thing::PRICE, Thing::SIZES, Thing::FLAG, Thing::COLOR),
                )?;
                assert_eq!(some, Some((Some(Money(10)), Some([10, 2, 3]), None, Color::Green)));
                Ok(())
            });
            outcome.expect("read");
        };
        inspect(&database);
        drop(database);
        let (database, same) = declare(Database::at(&directory.0).scheme(scheme)).expect("a database");
        let found = database.transaction(|t| t.scan(same, ..).collect()).expect("read");
        assert_eq!(found, all(), "from disk");
    }
}

#[test]
fn optional_values_are_set_and_cleared() {
    for scheme in SCHEMES {
        let (database, things) = declare(Database::in_memory().scheme(scheme)).expect("a database");
        let mut model = thing(1);
        let outcome = database.transaction(|t| {
            t.insert(things, &model)?;
            for round in 0..6_i64 {
                let price = (round % 2 == 0).then_some(Money(round));
                let flag = (round % 3 == 0).then_some(true);
                assert!(t.set_field(things, &model.id, Thing::PRICE, &price)?);
                let before =
                    t.update_field(things, &model.id, Thing::FLAG, |there| std::mem::replace(there, flag))?;
                assert_eq!(before, Some(model.flag));
                (model.price, model.flag) = (price, flag);
                assert_eq!(t.get(things, &model.id)?, Some(model.clone()));
                t.update(things, &model.id, |thing| {
                    thing.name.push('x');
                    thing.remark = flag.map(|_| "there".to_owned());
                    thing.picture = price.map(|_| vec![1; 40_000]);
                    thing.data.clear();
                })?;
                model.name.push('x');
                model.remark = flag.map(|_| "there".to_owned());
                model.picture = price.map(|_| vec![1; 40_000]);
                model.data.clear();
                assert_eq!(t.get(things, &model.id)?, Some(model.clone()));
            }
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
    }
}

#[test]
fn texts_are_never_cut() {
    #[derive(Row, Debug)]
    #[row(key(id))]
    struct Named {
        id: u64,
        name: Text<4>,
    }
    let mut builder = Database::in_memory();
    let table: Table<Named> = builder.table("named");
    let database = builder.open().expect("a database");
    let insert = |name: &str| {
        database.transaction(|t| t.upsert(table, &Named { id: 1, name: name.try_into()? }).map(drop))
    };
    assert_eq!(insert("four"), Ok(()));
    let refusal = insert("fives").expect_err("too long");
    assert_eq!(refusal, Error::Text(TextError::TooLong { bytes: 5, bytes_max: 4, start: "fives".into() }));
    assert!(refusal.to_string().contains("shorten it"), "{refusal}");
    assert_eq!(insert("a\0b"), Err(Error::Text(TextError::Zero)));
    assert_eq!(database.transaction(|t| t.get_field(table, &1, Named::NAME)), Ok(Some(text!("four"))));
}

#[test]
fn tails_have_a_maximum_length() {
    let (database, things) = declare(Database::in_memory()).expect("a database");
    let long = |bytes| Thing { name: "x".repeat(bytes), ..thing(1) };
    assert_eq!(database.transaction(|t| t.insert(things, &long(1 << 19))), Ok(()));
    let refusal = database
        .transaction(|t| t.insert(things, &Thing { id: Id(0), uuid: [9; 16], ..long((1 << 20) + 1) }));
    assert!(matches!(refusal, Err(Error::Misuse(_))), "{refusal:?}");
    let refusal =
        database.transaction(|t| t.update(things, &thing(1).id, |thing| thing.name = "x".repeat(1 << 21)));
    assert!(matches!(refusal, Err(Error::Misuse(_))), "{refusal:?}");
}

#[derive(Value, Clone, Copy, Debug, PartialEq)]
enum Newer {
    A,
    B,
    C,
}

#[derive(Value, Clone, Copy, Debug, PartialEq)]
enum Older {
    A,
    #[row(other)]
    Other,
}

mod before {
    use super::*;

    #[derive(Row, Debug)]
    #[row(key(id))]
    pub struct Record {
        pub id: u64,
        pub choice: Newer,
        pub name: String,
    }
}

/// The same table in the next version of a program.
#[derive(Row, Debug, PartialEq)]
#[row(key(id))]
struct Record {
    id: u64,
    /// A number that is no variant of the enum.
    choice: Older,
    age: Option<u16>,
    name: String,
    notes: Option<String>,
}

#[test]
fn options_are_added_between_openings() {
    for scheme in [Scheme::Silo, Scheme::Mvcc, Scheme::NoWait] {
        let directory = Directory::new(&format!("added-{scheme:?}"));
        let mut builder = Database::at(&directory.0).scheme(scheme);
        let table: Table<before::Record> = builder.table("records");
        let database = builder.open().expect("a database");
        let names = ["", "ada", "ben"];
        let rows = names.iter().zip([Newer::A, Newer::B, Newer::C]).zip(0..);
        let rows = rows.map(|((name, choice), id)| before::Record { id, choice, name: (*name).to_owned() });
        database.transaction(|t| t.insert_all(table, rows.clone())).expect("inserted");
        assert_eq!(database.close(), Ok(()));

        for _ in 0..2 {
            let mut builder = Database::at(&directory.0).scheme(scheme);
            let table: Table<Record> = builder.table("records");
            let database = builder.open().expect("it opens with more options");
            let outcome = database.transaction(|t| {
                let rows = t.scan(table, ..3).collect()?;
                for (row, id) in rows.iter().zip(0..) {
                    let choice = if id == 0 { Older::A } else { Older::Other };
                    let name = names[id as usize].to_owned();
                    assert_eq!(*row, Record { id, choice, age: None, name, notes: None });
                }
                assert_eq!(rows.len(), 3);
                let new = Record {
                    id: 7,
                    choice: Older::A,
                    age: Some(3),
                    name: "c".into(),
                    notes: Some("n".into()),
                };
                t.upsert(table, &new)?;
                assert_eq!(t.get(table, &7)?, Some(new));
                Ok(())
            });
            assert_eq!(outcome, Ok(()));
        }
    }
}

/// A log does not have the whole rows of changes and deletions: the keys of its records are read
/// without the other columns.
#[test]
fn enums_need_no_variant_with_the_number_zero() {
    #[derive(Row, Clone, Debug, PartialEq)]
    #[row(key(id))]
    struct Painted {
        id: u64,
        color: Color,
        pieces: u32,
    }
    let painted = |id, pieces| Painted { id, color: Color::Blue, pieces };
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("no-zero-{scheme:?}"));
        let open = || {
            let mut builder = Database::at(&directory.0).scheme(scheme);
            let table: Table<Painted> = builder.table("painted");
            builder.open().map(|database| (database, table))
        };
        let (database, table) = open().expect("a database");
        database.transaction(|t| t.insert_all(table, [painted(1, 1), painted(2, 2)])).expect("inserted");
        database.transaction(|t| t.set_field(table, &1, Painted::PIECES, &7)).expect("changed");
        database.transaction(|t| t.delete(table, &2).map(drop)).expect("deleted");
        drop(database);
        let (database, table) = open().expect("its log is read");
        assert_eq!(database.transaction(|t| t.scan(table, ..).collect()), Ok(vec![painted(1, 7)]));
    }
}
