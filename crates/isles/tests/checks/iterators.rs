//! Iterators over ranges, reads of many keys, and verbs that look up a row once.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;

use crate::common::{Person, SCHEMES, all_people, people, person};
use isles::{Database, Error, Result, Row, Scheme, Table, TableOptions, prefix, prefixes};

/// More rows than an iterator reads at a time.
const MANY: u64 = 700;

#[test]
fn iterators_and_scans_return_the_same_rows() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, MANY).expect("a database");
        let outcome = database.transaction(|t| {
            for (low, high) in [(0, MANY), (3, 3), (5, 6), (17, 400), (600, 2 * MANY)] {
                let all = t.scan(people, low..high).collect()?;
                assert_eq!(t.scan(people, low..high).rows().collect::<Result<Vec<_>>>()?, all);
                let mut back = t.scan(people, low..high).reverse().rows().collect::<Result<Vec<_>>>()?;
                back.reverse();
                assert_eq!(back, all);
                assert_eq!(t.scan(people, low..high).last()?, all.last().cloned());
                assert_eq!(t.scan(people, low..high).reverse().last()?, all.first().cloned());
                for limit in [0, 1, 8, 9, 300] {
                    let some = t.scan(people, low..high).limit(limit).rows().collect::<Result<Vec<_>>>()?;
                    assert_eq!(some, all[..all.len().min(limit as usize)]);
                }
                let ids: Result<Vec<_>> = t.scan(people, low..high).fields(Person::ID).collect();
                assert!(ids?.into_iter().eq(all.iter().map(|row| row.id)));
            }
            // Another index, by leading columns, in both directions.
            let by_city = people.by(Person::BY_CITY);
            let cities = t.scan(by_city, prefixes(1..=3)).fields((Person::CITY, Person::ID, Person::AGE));
            let cities = cities.collect::<Result<Vec<_>>>()?;
            assert_eq!(cities.len() as u64, MANY / 5 * 3);
            assert!(cities.is_sorted());
            assert!(
                cities.iter().all(|(city, id, age)| person(*id).city == *city && person(*id).age == *age)
            );
            let last: Vec<u64> = t
                .scan(by_city, prefix(2))
                .reverse()
                .into_iter()
                .take(2)
                .map(|row| row.map(|row| row.id))
                .collect::<Result<_>>()?;
            assert_eq!(last, [697, 692]);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
    }
}

/// Compares changes between two steps of an iterator with a model.
#[test]
fn verbs_may_run_between_rows_of_an_iterator() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, MANY).expect("a database");
        let mut model: BTreeMap<u64, Person> = (0..MANY).map(|id| (id, person(id))).collect();
        let outcome = database.transaction(|t| {
            let mut seen = 0;
            let mut rows = t.scan(people, ..).rows();
            while let Some(row) = rows.next() {
                let row = row?;
                seen += 1;
                // The program deletes the row itself or changes another row, also the last row that
                // was read ahead.
                if row.id % 3 == 0 {
                    rows.transaction().delete(people, &row.id)?;
                } else {
                    rows.transaction().update_field(people, &row.id, Person::AGE, |age| *age += 1)?;
                }
            }
            Ok(seen)
        });
        assert_eq!(outcome, Ok(MANY));
        model.retain(|id, _| id % 3 != 0);
        model.values_mut().for_each(|row| row.age += 1);
        assert!(all_people(&database, people).iter().eq(model.values()));
    }
}

/// The range that an iterator has visited is protected, also at the boundary of two batches.
#[test]
fn iterators_protect_their_range() {
    let (database, people) = people(Scheme::Silo, 0).expect("a database");
    let sparse = (0..100).map(|id| person(10 * id));
    database.transaction(|t| t.insert_all(people, sparse.clone())).expect("inserted");
    let mut other = database.session().expect("a session");
    let mut session = database.session().expect("a session");
    for place in 0..99 {
        let mut open = session.begin().expect("begun");
        assert_eq!(open.scan(people, ..1000).rows().filter(|row| row.is_ok()).count(), 100);
        let phantom = 10 * place + 5;
        other.transaction(|t| t.insert(people, &person(phantom))).expect("inserted");
        open.insert(people, &person(5000)).expect("inserted");
        assert!(matches!(open.commit(), Err(Error::Conflict { .. })), "{phantom} appeared");
        other.transaction(|t| t.delete(people, &phantom)).expect("deleted");
    }
    // Other transactions may insert behind the visited range.
    let mut open = session.begin().expect("begun");
    assert_eq!(open.scan(people, ..).rows().take(3).filter(|row| row.is_ok()).count(), 3);
    other.transaction(|t| t.insert(people, &person(985))).expect("inserted");
    open.insert(people, &person(5000)).expect("inserted");
    assert_eq!(open.commit(), Ok(()));
}

#[test]
fn iterators_end_with_their_first_error() {
    #[derive(Row, Clone, Debug, PartialEq)]
    #[row(key(id))]
    struct Hashed {
        id: u64,
    }
    let mut builder = Database::in_memory();
    let table: Table<Hashed> = builder.table_with("hashed", TableOptions::new().hash(Hashed::KEY));
    let database = builder.open().expect("a database");
    let outcome = database.transaction(|t| {
        let mut rows = t.scan(table, ..).rows();
        assert!(matches!(rows.next(), Some(Err(Error::Misuse(_)))));
        assert!(rows.next().is_none() && rows.next().is_none());
        Ok(())
    });
    assert!(matches!(outcome, Err(Error::Misuse(what)) if what.contains("hash index")));
}

#[test]
fn get_many_returns_rows_in_order() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 100).expect("a database");
        let keys: Vec<u64> = (0..300).map(|number| number * 7 % 150).collect();
        let outcome = database.transaction(|t| {
            t.delete(people, &14)?;
            t.insert(people, &person(120))?;
            let found = t.get_many(people, &keys)?;
            for (key, found) in keys.iter().zip(found) {
                let there = (*key < 100 || *key == 120) && *key != 14;
                assert_eq!(found, there.then(|| person(*key)), "{key}");
            }
            let emails = [3, 200].map(|id| person(id).email);
            assert_eq!(t.get_many(people.by(Person::BY_EMAIL), emails)?, [Some(person(3)), None]);
            assert_eq!(t.get_many(people, [0; 0])?, []);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
    }
}

#[test]
fn fields_change_in_place() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 10).expect("a database");
        let outcome = database.transaction(|t| {
            let doubled = t.update_field(people, &3, Person::SCORES.at(0), |score| {
                *score *= 2;
                *score
            })?;
            assert_eq!(doubled, Some(6));
            assert_eq!(
                t.update_field(people.by(Person::BY_CITY), &(4, 4), Person::AGE, |age| *age = 1)?,
                Some(())
            );
            assert_eq!(t.update_field(people, &77, Person::AGE, |age| *age)?, None);
            t.get_field(people, &3, (Person::SCORES, Person::AGE))
        });
        assert_eq!(outcome, Ok(Some(([6, -1, 1], 23))));
        assert_eq!(all_people(&database, people)[4].age, 1);
        let outcome = database.transaction(|t| t.update_field(people, &3, Person::CITY, |city| *city += 1));
        assert!(matches!(outcome, Err(Error::Misuse(what)) if what.contains("key column")));
    }
}

#[test]
fn insert_or_ignore_keeps_the_existing_row() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 10).expect("a database");
        let outcome = database.transaction(|t| {
            assert!(!t.insert_or_ignore(people, &person(3))?, "the primary key");
            assert!(!t.insert_or_ignore(people, &Person { id: 50, ..person(3) })?, "the unique index");
            assert!(t.insert_or_ignore(people, &person(60))?);
            assert!(!t.insert_or_ignore(people, &person(60))?, "its own");
            t.delete(people, &3)?;
            assert!(t.insert_or_ignore(people, &Person { age: 1, ..person(3) })?);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        let all = all_people(&database, people);
        assert_eq!((all.len(), all[3].age, all[10].id), (11, 1, 60));
    }
}

/// Threads insert the same keys: each key is inserted once, and no thread gets an error.
#[test]
fn concurrent_insert_or_ignore_inserts_once() {
    for scheme in SCHEMES {
        let (database, people) = people(scheme, 0).expect("a database");
        let threads: Vec<_> = (0..3u16)
            .map(|city| {
                let database = database.clone();
                std::thread::spawn(move || {
                    let mut session = database.session().expect("a session");
                    let mine = |id| Person { city, ..person(id) };
                    (0..200)
                        .filter(|id| {
                            session.transaction(|t| t.insert_or_ignore(people, &mine(*id))).expect("no error")
                        })
                        .count()
                })
            })
            .collect();
        let inserted: usize = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
        assert_eq!((inserted, all_people(&database, people).len()), (200, 200));
    }
}
