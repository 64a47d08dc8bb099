//! The verbs do as documented, under all schemes and over pages.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::common::{Person, SCHEMES, all_people, on_all_engines, people, person};
use isles::{Database, Error, Row, prefix, prefixes, text};
use terms::random::Xorshift;

#[test]
fn rows_are_found_by_every_index() {
    on_all_engines("verbs-rows_are_found_by_every_index", 100, |database, people| {
        let mut session = database.session().expect("a session");
        let outcome = session.transaction(|t| {
            assert_eq!(t.get(people, &7)?, Some(person(7)));
            assert_eq!(t.get(people, &100)?, None);
            assert_eq!(t.get(people.by(Person::BY_EMAIL), &text!("p42@isles"))?, Some(person(42)));
            assert_eq!(t.get(people.by(Person::BY_CITY), &(2, 42))?, Some(person(42)));
            assert_eq!(t.get(people.by(Person::BY_CITY), &(3, 42))?, None);
            assert_eq!(t.get_for_update(people, &99)?, Some(person(99)));
            assert!(t.exists(people, &0)? && !t.exists(people, &1000)?);
            assert_eq!(t.get_field(people, &8, Person::SCORES.at(0))?, Some(8));
            assert_eq!(t.get_field(people, &8, Person::AGE)?, Some(28));
            assert_eq!(t.get_field(people, &800, Person::AGE)?, None);
            Ok(t.attempt())
        });
        assert_eq!(outcome, Ok(1));
    });
}

#[test]
fn transactions_see_their_own_changes() {
    on_all_engines("verbs-transactions_see_their_own_changes", 10, |database, people| {
        let outcome = database.transaction(|t| {
            let age = t.update(people, &3, |row| {
                row.age += 1;
                row.notes.push(7);
                row.age
            })?;
            assert_eq!(age, Some(person(3).age + 1));
            assert_eq!(t.get(people, &3)?.map(|row| row.notes.len()), Some(4));
            assert!(t.set_field(people, &3, Person::SCORES, &[5, 6, 7])?);
            assert!(!t.set_field(people, &30, Person::AGE, &1)?);
            assert_eq!(t.get_field(people, &3, Person::SCORES.at(2))?, Some(7));
            // Keys change in all indexes.
            t.update(people, &4, |row| (row.id, row.city) = (400, 4000))?;
            assert_eq!(t.get(people, &4)?, None);
            assert_eq!(t.get(people.by(Person::BY_EMAIL), &text!("p4@isles"))?.map(|row| row.id), Some(400));
            assert_eq!(t.scan(people.by(Person::BY_CITY), prefix(4000)).count()?, 1);
            assert_eq!(t.upsert(people, &person(5))?, Some(person(5)));
            assert_eq!(t.upsert(people, &person(50))?, None);
            assert_eq!(t.delete(people, &6)?, Some(person(6)));
            assert_eq!(t.delete(people, &6)?, None);
            t.insert(people, &person(6))?;
            assert_eq!(t.scan(people, ..).count()?, 11);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        let rows = all_people(database, people);
        let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 5, 6, 7, 8, 9, 50, 400]);
        assert_eq!(rows[3].scores, [5, 6, 7]);
        assert_eq!(rows[3].notes, [3, 3, 3, 7]);
    });
}

#[test]
fn scans_visit_ranges() {
    on_all_engines("verbs-scans_visit_ranges", 500, |database, people| {
        let outcome = database.transaction(|t| {
            let ids = |rows: Vec<Person>| rows.iter().map(|row| row.id).collect::<Vec<_>>();
            assert_eq!(ids(t.scan(people, 10..13).collect()?), [10, 11, 12]);
            assert_eq!(ids(t.scan(people, 10..=13).reverse().collect()?), [13, 12, 11, 10]);
            assert_eq!(ids(t.scan(people, 498..).collect()?), [498, 499]);
            assert_eq!(ids(t.scan(people, (Bound::Excluded(5), Bound::Excluded(8))).collect()?), [6, 7]);
            assert_eq!(ids(t.scan(people, ..).reverse().limit(2).collect()?), [499, 498]);
            assert_eq!(t.scan(people, 600..).count()?, 0);
            #[allow(clippy::reversed_empty_ranges)]
            let reversed = t.scan(people, 9..3).count()?;
            assert_eq!((reversed, t.scan(people, ..).limit(0).count()?), (0, 0));
            assert_eq!(t.scan(people, 100..).first()?, Some(person(100)));
            assert_eq!(t.scan(people, ..).reverse().first()?, Some(person(499)));
            assert_eq!(t.scan(people, 500..).first()?, None);
            let by_city = people.by(Person::BY_CITY);
            assert_eq!(t.scan(by_city, prefix(2)).count()?, 100);
            assert_eq!(t.scan(by_city, prefixes(2..4)).count()?, 200);
            assert_eq!(ids(t.scan(by_city, (4, 490)..).collect()?), [494, 499]);
            assert_eq!(t.scan(people, ..).for_update().count()?, 500);
            let mut seen = 0;
            t.scan(people, ..).try_for_each(|t, row| {
                seen += 1;
                t.set_field(people, &row.id, Person::AGE, &1)?;
                Ok(if seen == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            assert_eq!(seen, 10);
            let young: usize = t.scan(people, ..).collect()?.iter().filter(|row| row.age == 1).count();
            assert_eq!(young, 10);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
    });
}

#[test]
fn scans_change_all_rows_of_a_range() {
    on_all_engines("verbs-scans_change_all_rows_of_a_range", 50, |database, people| {
        let outcome = database.transaction(|t| {
            assert_eq!(t.scan(people, 10..20).delete()?, 10);
            // The keys of the scanned index change: each row is changed once.
            let moved = t.scan(people.by(Person::BY_CITY), prefixes(1..)).update(|row| row.city += 1)?;
            assert_eq!(moved, 32);
            t.scan(people.by(Person::BY_EMAIL), ..).limit(5).update(|row| row.notes.clear())?;
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        let rows = all_people(database, people);
        assert_eq!(rows.len(), 40);
        let mut cities = BTreeMap::new();
        rows.iter().for_each(|row| *cities.entry(row.city).or_insert(0) += 1);
        assert_eq!(cities, BTreeMap::from([(0, 8), (2, 8), (3, 8), (4, 8), (5, 8)]));
    });
}

#[test]
fn errors_of_visitors_are_returned() {
    on_all_engines("verbs-errors_of_visitors_are_returned", 50, |database, people| {
        let outcome = database.transaction(|t| {
            t.scan(people, ..).try_for_each(|t, row| match row.id {
                9 => t.insert(people, &person(9)).map(|()| ControlFlow::Continue(())),
                _ => Ok(ControlFlow::Continue(())),
            })
        });
        assert_eq!(
            outcome,
            Err(Error::Duplicate {
                table: "people".into(),
                index: "primary key".into(),
                key: Some("9".into())
            })
        );
        let outcome = database.transaction(|t| t.scan(people, ..).try_for_each(|_, _| Err(Error::RollBack)));
        assert_eq!(outcome, Err(Error::RollBack));
    });
}

/// A key moves from row to row within one transaction.
#[test]
fn deleted_keys_can_be_inserted_again() {
    on_all_engines("verbs-deleted_keys_can_be_inserted_again", 10, |database, people| {
        let mut session = database.session().expect("a session");
        for commits in [false, true] {
            let outcome = session.transaction(|t| {
                // A column of an index changes twice: each time the row is deleted and inserted.
                assert_eq!(t.update(people, &1, |row| row.city = 77)?, Some(()));
                assert_eq!(t.update(people, &1, |row| row.city = 78)?, Some(()));
                assert_eq!(t.get(people, &1)?.map(|row| row.city), Some(78));
                assert_eq!(t.scan(people.by(Person::BY_CITY), prefix(1)).count()?, 1);
                assert_eq!(t.scan(people.by(Person::BY_CITY), prefix(77)).count()?, 0);
                assert_eq!(t.scan(people.by(Person::BY_CITY), prefix(78)).count()?, 1);
                // Deleted, inserted and deleted.
                t.delete(people, &2)?;
                t.insert(people, &Person { age: 1, ..person(2) })?;
                assert_eq!(t.delete(people, &2)?.map(|row| row.age), Some(1));
                assert!(!t.exists(people, &2)?);
                // And inserted once more.
                t.delete(people, &3)?;
                t.insert(people, &Person { age: 1, ..person(3) })?;
                t.delete(people, &3)?;
                t.insert(people, &Person { age: 2, ..person(3) })?;
                assert_eq!(t.get_field(people.by(Person::BY_EMAIL), &person(3).email, Person::AGE)?, Some(2));
                // The unique keys of one row go to two others.
                t.delete(people, &4)?;
                t.insert(people, &Person { email: text!("new"), ..person(4) })?;
                t.insert(people, &Person { id: 40, ..person(4) })?;
                assert_eq!(t.get(people, &4)?.map(|row| row.email), Some(text!("new")));
                assert_eq!(t.get(people.by(Person::BY_EMAIL), &person(4).email)?.map(|row| row.id), Some(40));
                assert_eq!(t.scan(people, ..).count()?, 10);
                if commits { Ok(()) } else { Err(Error::RollBack) }
            });
            assert_eq!(outcome.is_ok(), commits, "{outcome:?}");
            assert_eq!(all_people(database, people).len(), 10);
        }
        let ids: Vec<_> = all_people(database, people).iter().map(|row| row.id).collect();
        assert_eq!(ids, [0, 1, 3, 4, 5, 6, 7, 8, 9, 40]);
        let twice = session.transaction(|t| {
            t.delete(people, &5)?;
            t.insert(people, &person(5))?;
            t.insert(people, &person(5))
        });
        assert_eq!(
            twice,
            Err(Error::Duplicate {
                table: "people".into(),
                index: "primary key".into(),
                key: Some("5".into())
            })
        );
        assert_eq!(session.transaction(|t| t.insert(people, &person(2))), Ok(()), "the key is free");
        assert_eq!(all_people(database, people).len(), 11);
    });
}

#[derive(Row, Clone, Copy, Debug, PartialEq)]
#[row(key(order, line))]
struct Line {
    order: u32,
    line: u16,
    pieces: u64,
}

#[test]
fn rows_are_inserted_together() {
    let line = |order, line| Line { order, line, pieces: u64::from(order) * u64::from(line) };
    for scheme in SCHEMES {
        let mut builder = Database::in_memory().scheme(scheme);
        let lines = builder.table::<Line>("lines");
        let database = builder.open().expect("a database");
        let mut session = database.session().expect("a session");
        // Orders come in any order, and the lines of one order are adjacent.
        for order in [7, 3, 9, 1, 8] {
            let rows = (0..40).map(|number| line(order, number));
            assert_eq!(session.transaction(|t| t.insert_all(lines, rows.clone())), Ok(()));
        }
        let twice = [line(2, 0), line(2, 1), line(3, 39), line(3, 40)];
        let failed = session.transaction(|t| t.insert_all(lines, twice));
        assert_eq!(
            failed,
            Err(Error::Duplicate { table: "lines".into(), index: "primary key".into(), key: None })
        );
        assert_eq!(session.transaction(|t| t.insert_all(lines, [&twice[3], &twice[0]])), Ok(()));
        assert_eq!(session.transaction(|t| t.insert_all(lines, Vec::<Line>::new())), Ok(()));
        let all = session.transaction(|t| t.scan(lines, ..).collect()).expect("a read");
        let orders =
            [1, 3, 7, 8, 9].into_iter().flat_map(|order| (0..40).map(move |number| line(order, number)));
        let mut expected: Vec<_> = orders.chain([line(2, 0), line(3, 40)]).collect();
        expected.sort_by_key(|line| (line.order, line.line));
        assert_eq!(all, expected);
        // Rows with tails, in several indexes.
        let (database, people) = people(scheme, 3).expect("a database");
        let more: Vec<_> = (3..20).map(person).collect();
        assert_eq!(database.transaction(|t| t.insert_all(people, &more)), Ok(()));
        assert_eq!(all_people(&database, people), (0..20).map(person).collect::<Vec<_>>());
    }
}

#[test]
fn many_verbs_agree_with_a_model() {
    on_all_engines("verbs-many_verbs_agree_with_a_model", 0, |database, people| {
        let mut session = database.session().expect("a session");
        let mut model = BTreeMap::new();
        let mut numbers = Xorshift::new(88_172_645_463_325_252);
        for round in 0..3_000u32 {
            let random = numbers.next();
            let (id, choice, commits) = (random % 40, random >> 20 & 3, random >> 30 & 3 != 0);
            let mut row = person(id);
            (row.age, row.city) = (round, (random >> 40 & 7) as u16);
            row.notes = vec![round as u8; (random >> 50 & 63) as usize];
            let mut next = model.clone();
            let outcome = session.transaction(|t| {
                next.clone_from(&model);
                match choice {
                    0 => assert_eq!(t.delete(people, &id)?, next.remove(&id)),
                    1 => {
                        let changed =
                            t.update(people.by(Person::BY_EMAIL), &row.email, |old| *old = row.clone())?;
                        assert_eq!(changed.is_some(), next.contains_key(&id));
                        next.entry(id).and_modify(|old| *old = row.clone());
                    }
                    2 => {
                        let changed = t.set_field(people, &id, Person::AGE, &round)?;
                        assert_eq!(changed, next.contains_key(&id));
                        next.entry(id).and_modify(|old| old.age = round);
                    }
                    _ => assert_eq!(t.upsert(people, &row)?, next.insert(id, row.clone())),
                }
                let rows: Vec<_> = next.values().cloned().collect();
                assert_eq!(t.scan(people, ..).collect()?, rows);
                if commits { Ok(()) } else { Err(Error::RollBack) }
            });
            assert_eq!(outcome.is_ok(), commits, "{outcome:?}");
            if commits {
                model = next;
            }
        }
        assert_eq!(all_people(database, people), model.into_values().collect::<Vec<_>>());
    });
}

#[test]
fn tables_are_found_by_name() {
    let (database, _) = people(SCHEMES[0], 3).expect("a database");
    let people = database.table::<Person>("people").expect("the table");
    assert_eq!(database.transaction(|t| t.get(people, &2)), Ok(Some(person(2))));
    let text = database.table::<Person>("persons").expect_err("no such table").to_string();
    assert!(text.contains("persons") && text.contains("people"), "{text}");
    #[derive(isles::Row)]
    #[row(key(id))]
    struct Other {
        id: u64,
    }
    let error = database.table::<Other>("people").expect_err("another row type");
    assert!(matches!(error, Error::NoSuchTable(_)), "{error}");
}
