//! Changes of a table's rows while the database is open.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Directory, Person, SCHEMES, people, person};
use isles::{CancelToken, Database, Datum, Error, Result, Row, Scheme, Table, TableChange, Text};

/// People without scores, with a title, indexed by age; the name is optional.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_age(age)), unique_index(by_email(email)))]
struct Citizen {
    id: u64,
    title: Text<8>,
    age: u32,
    email: Text<24>,
    city: u16,
    name: Option<String>,
    about: String,
}

fn citizen(id: u64) -> Citizen {
    let Person { email, city, age, .. } = person(id);
    Citizen { id, title: isles::text!("dr"), age, email, city, name: None, about: "new".into() }
}

fn change<'c>() -> TableChange<'c, Citizen> {
    TableChange::new().new_columns_of(&citizen(0))
}

/// Returns all rows of the table, read through each of its indexes.
fn citizens(database: &Database, table: Table<Citizen>) -> Result<Vec<Citizen>> {
    database.transaction(|t| {
        let rows = t.scan(table, ..).collect()?;
        let mut by_age = t.scan(table.by(Citizen::BY_AGE), ..).collect()?;
        assert!(by_age.is_sorted_by_key(|row| (row.age, row.id)));
        by_age.sort_by_key(|row| row.id);
        let mut by_email = t.scan(table.by(Citizen::BY_EMAIL), ..).collect()?;
        by_email.sort_by_key(|row| row.id);
        assert_eq!((&rows, &rows), (&by_age, &by_email));
        Ok(rows)
    })
}

#[test]
fn rows_get_other_columns_and_indexes_while_sessions_use_them() {
    for scheme in SCHEMES {
        let (database, old) = people(scheme, 300).expect("a database");
        let mut session = database.session().expect("a session");
        let (mut rounds, mut last, mut kept) = (0, 0, None);
        let listener = |rows| {
            // Rows that are copied already, and rows that are not.
            session
                .transaction(|t| {
                    t.update(old, &rounds, |row| row.age = 99)?;
                    t.set_field(old, &(299 - rounds), Person::SCORES, &[7; 3])?;
                    t.delete(old, &(100 + rounds))?;
                    t.insert(old, &person(1_000 + rounds))
                })
                .expect("changed");
            if rounds == 0 && !matches!(scheme, Scheme::Hstore) {
                kept = Some([0, 1].map(|_| database.begin().expect("begun")));
            }
            (rounds, last) = (rounds + 1, rows);
        };
        let now = database.change_table("people", change().on_progress(listener)).expect("changed");
        assert!(rounds > 3 && last >= 300 - rounds, "{rounds} {last}");
        let expected: Vec<Citizen> = (0..300)
            .filter(|id| !(100..100 + rounds).contains(id))
            .map(|id| if id < rounds { Citizen { age: 99, ..citizen(id) } } else { citizen(id) })
            .chain((1_000..1_000 + rounds).map(citizen))
            .collect();
        assert_eq!(citizens(&database, now), Ok(expected.clone()));

        // A transaction that began before continues with the old rows, and conflicts if it uses the
        // new ones.
        if let Some([mut open, mut other]) = kept {
            session.transaction(|t| t.set_field(now, &3, Citizen::CITY, &77)).expect("changed");
            assert_eq!(open.get_field(old, &240, Person::CITY), Ok(Some(person(240).city)), "{scheme:?}");
            assert_eq!(open.commit(), Ok(()), "{scheme:?}");
            let refused = other.get(now, &3).map(drop);
            assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
            drop(other);
            session.transaction(|t| t.set_field(now, &3, Citizen::CITY, &3)).expect("changed");
        }
        assert_eq!(citizens(&database, now), Ok(expected));
        let refused = session.transaction(|t| t.get(old, &1));
        assert!(
            matches!(&refused, Err(Error::NoSuchTable(what)) if what.contains("other rows")),
            "{refused:?}"
        );
        assert!(database.table::<Person>("people").is_err());
        let again = database.change_table::<Citizen>("people", TableChange::new()).expect("nothing to do");
        assert_eq!(format!("{again:?}"), format!("{now:?}"));
        assert_eq!(database.tables().len(), 1);
        let row = session.transaction(|t| t.get_dynamic("people", &[Datum::Unsigned(5)])).expect("read");
        assert_eq!(row.map(|row| row[5].clone()), Some(Datum::Null));
        // The table can be dropped like any other.
        assert_eq!(database.drop_table("people"), Ok(()));
    }
}

/// A transaction that began while the table changed commits after that, in both forms.
#[test]
fn a_transaction_of_the_old_form_commits_in_both_forms() {
    for scheme in [Scheme::Silo, Scheme::Mvcc] {
        let directory = Directory::new(&format!("converting-late-{scheme:?}"));
        let (database, old) = directory.open(scheme).expect("a database");
        database.transaction(|t| t.insert_all(old, (0..9).map(person))).expect("inserted");
        let mut late = None;
        let listener = |_| {
            late.get_or_insert_with(|| {
                let mut open = database.begin().expect("begun");
                open.insert(old, &person(50)).expect("inserted");
                open.update(old, &4, |row| row.city = 40).expect("changed");
                open.delete(old, &8).expect("deleted");
                open
            });
        };
        let now = database.change_table("people", change().on_progress(listener)).expect("changed");
        assert_eq!(citizens(&database, now).expect("read").len(), 9);
        database.transaction(|t| t.update(now, &1, |row| row.age = 10)).expect("changed");
        // Other transactions already use the new form, and this transaction continues with the old
        // one.
        let mut late = late.expect("it began");
        assert_eq!(late.get_field(old, &5, Person::AGE), Ok(Some(25)));
        assert_eq!(late.set_field(old, &2, Person::AGE, &99), Ok(true));
        assert_eq!(late.insert(old, &person(51)), Ok(()));
        late.commit().expect("no transaction conflicted");
        let rows = citizens(&database, now).expect("read");
        let found: Vec<_> = rows.iter().map(|row| (row.id, row.city, row.age)).collect();
        let expected = [0, 1, 2, 3, 4, 5, 6, 7, 50, 51].map(|id| match (id, person(id)) {
            (1, row) => (id, row.city, 10),
            (2, row) => (id, row.city, 99),
            (4, row) => (id, 40, row.age),
            (_, row) => (id, row.city, row.age),
        });
        assert_eq!(found, expected);
        // Sessions remove the old rows while they run transactions.
        let mut session = database.session().expect("a session");
        (0..400).try_for_each(|_| session.transaction(|t| t.exists(now, &1)).map(drop)).expect("read");
        drop(session);
        assert_eq!(database.close(), Ok(()));
        assert_eq!(Database::check(&directory.0).expect("whole").tables, [("people".to_owned(), 10)]);
        let mut builder = Database::at(&directory.0).scheme(scheme);
        let now = builder.table::<Citizen>("people");
        assert_eq!(citizens(&builder.open().expect("a database"), now), Ok(rows));
    }
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), unique_index(by_city(city)))]
struct Mayor {
    id: u64,
    city: u16,
    age: u32,
    name: Option<String>,
}

#[derive(Row)]
#[row(key(email))]
struct ByEmail {
    email: Text<24>,
}

#[derive(Row)]
#[row(key(id))]
struct OtherType {
    id: u64,
    age: [u8; 4],
}

fn refused<R: Row>(database: &Database, change: TableChange<'_, R>, what: &str) {
    match database.change_table::<R>("people", change).map(drop) {
        Err(Error::NotChanged { table, source }) => {
            assert!(table == "people" && source.to_string().contains(what), "{source}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_impossible_change_leaves_the_rows_unchanged() {
    let (database, people) = people(Scheme::Silo, 40).expect("a database");
    refused::<Citizen>(&database, TableChange::new(), "give one");
    refused::<ByEmail>(&database, TableChange::new(), "primary key (id u64)");
    refused::<OtherType>(&database, TableChange::new(), "cannot be [u8; 4]");
    // Several people live in the same city.
    refused::<Mayor>(&database, TableChange::new(), "by_city");
    let token = CancelToken::new();
    let cancelled = change().cancel(&token).on_progress(|_| token.cancel());
    assert_eq!(database.change_table("people", cancelled).map(drop), Err(Error::Cancelled));
    let open = database.begin().expect("begun");
    refused(&database, change().wait(Duration::from_millis(5)), "still open");
    drop(open);
    let missing = database.change_table::<Citizen>("nobody", change()).map(drop);
    assert!(matches!(missing, Err(Error::NoSuchTable(_))), "{missing:?}");
    let within = database.transaction(|_| database.change_table("people", change()).map(drop));
    assert_eq!(within, Err(Error::Nested));
    assert_eq!(crate::common::all_people(&database, people).len(), 40);

    // While a unique index is being built, transactions fail as if it existed.
    database.transaction(|t| (5..40).try_for_each(|id| t.delete(people, &id).map(drop))).expect("deleted");
    let mut session = database.session().expect("a session");
    let mut reached = 0;
    let listener = |_| {
        let taken = session.transaction(|t| t.insert(people, &person(7)));
        assert!(matches!(&taken, Err(Error::Duplicate { index, .. }) if index == "by_city"), "{taken:?}");
        reached += 1;
    };
    let mayors = database.change_table::<Mayor>("people", TableChange::new().on_progress(listener));
    assert_eq!(database.transaction(|t| t.scan(mayors.clone()?, ..).count()), Ok(5));
    assert!(reached > 0);

    let without = Database::in_memory().spare_tables(0);
    let (without, _) = crate::common::declare(without).expect("a database");
    assert!(matches!(without.change_table("people", change()).map(drop), Err(Error::Misuse(_))));
}

#[test]
fn other_sessions_continue_while_a_table_changes_back_and_forth() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("converting-{scheme:?}"));
        let (database, _) = directory.open(scheme).expect("a database");
        let people = database.table::<Person>("people").expect("a table");
        database.transaction(|t| t.insert_all(people, (0..60).map(person))).expect("inserted");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let user = |user: u64| {
                let (database, over) = (&database, &over);
                move || -> Result<u32> {
                    let (mut session, mut changes) = (database.session()?, 0);
                    while !over.load(Ordering::SeqCst) {
                        let outcome = match database.table::<Person>("people") {
                            Ok(people) => session.transaction(|t| {
                                t.update(people, &(user + 2), |row| row.city += 1)?;
                                t.update_field(people, &user, Person::AGE, |age| *age += 1)
                            }),
                            Err(_) => match database.table::<Citizen>("people") {
                                Ok(people) => session.transaction(|t| {
                                    t.update_field(people, &(user + 2), Citizen::CITY, |city| *city += 1)?;
                                    t.update(people, &user, |row| row.age += 1)
                                }),
                                Err(error) => Err(error),
                            },
                        };
                        match outcome {
                            Ok(_) => changes += 1,
                            Err(Error::NoSuchTable(_)) => {}
                            Err(error) => return Err(error),
                        }
                    }
                    Ok(changes)
                }
            };
            let users = [0, 1].map(|number| scope.spawn(user(number)));
            for _ in 0..3 {
                database.change_table("people", change()).expect("changed");
                let back = TableChange::<Person>::new().new_columns_of(&person(0));
                database.change_table("people", back).expect("changed");
            }
            over.store(true, Ordering::SeqCst);
            let users = users.map(|user| user.join().expect("no panic").expect("no error"));
            let people = database.table::<Person>("people").expect("a table");
            let all = crate::common::all_people(&database, people);
            for (user, changes) in users.into_iter().enumerate() {
                assert!(changes > 0, "{scheme:?}");
                assert_eq!(all[user].age, person(user as u64).age + changes, "{scheme:?}");
                let city = u32::from(person(user as u64 + 2).city) + changes;
                assert_eq!(u32::from(all[user + 2].city), city, "{scheme:?}");
            }
            assert_eq!(all.len(), 60);
        });
        assert_eq!(database.close(), Ok(()));
        assert_eq!(Database::check(&directory.0).expect("whole").tables, [("people".to_owned(), 60)]);
    }
}
