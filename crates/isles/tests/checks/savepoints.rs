//! Savepoints and nested transactions, under all schemes and over pages.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{Person, all_people, on_all_engines, person};
use isles::{Error, Savepoint, TransactionOptions, text};

/// Rows that an import inserts.
const IMPORTED: u64 = 3_000;

fn is_duplicate<T: std::fmt::Debug>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Duplicate { .. }))
}

#[test]
fn a_roll_back_gives_every_row_its_former_value() {
    on_all_engines("savepoints-former-values", 10, |database, people| {
        let before = all_people(database, people);
        let kept = database.transaction(|t| {
            t.update(people, &1, |row| (row.age, row.notes) = (99, vec![1; 70]))?;
            t.delete(people, &2)?;
            t.insert(people, &person(20))?;
            let first = t.savepoint()?;
            // Rows that have changed before, and others; columns of any length, and keys.
            t.update(people, &1, |row| (row.age, row.notes) = (98, vec![2; 300]))?;
            t.set_field(people, &1, Person::AGE, &97)?;
            t.update(people, &3, |row| row.notes = vec![3; 50])?;
            t.insert(people, &person(2))?;
            t.update(people, &20, |row| row.city = 77)?;
            let second = t.savepoint()?;
            t.delete(people, &20)?;
            t.delete(people, &1)?;
            t.delete(people, &2)?;
            t.update(people, &4, |row| row.id = 400)?;
            assert_eq!(t.scan(people, ..).count()?, 8);
            t.roll_back_to(second)?;
            assert_eq!(t.get(people, &2)?, Some(person(2)));
            assert_eq!(t.get_field(people, &20, Person::CITY)?, Some(77));
            assert_eq!(t.get(people, &1)?.map(|row| (row.age, row.notes)), Some((97, vec![2; 300])));
            assert!(t.exists(people, &4)? && !t.exists(people, &400)?);
            t.roll_back_to(first)?;
            assert_eq!(t.get(people, &1)?.map(|row| (row.age, row.notes)), Some((99, vec![1; 70])));
            assert_eq!(t.get(people, &20)?, Some(person(20)));
            assert_eq!(t.get(people.by(Person::BY_EMAIL), &text!("p2@isles"))?, None);
            t.get(people, &3)
        });
        assert_eq!(kept, Ok(Some(person(3))));
        let changed = |mut row: Person| {
            if row.id == 1 {
                (row.age, row.notes) = (99, vec![1; 70]);
            }
            row
        };
        let mut expected: Vec<Person> = before.into_iter().filter(|row| row.id != 2).map(changed).collect();
        expected.push(person(20));
        assert_eq!(all_people(database, people), expected);
    });
}

#[test]
fn a_savepoint_that_is_gone_is_an_error() {
    on_all_engines("savepoints-stale", 3, |database, people| {
        let mut session = database.session().expect("a session");
        let mut other = None;
        let ended = session.transaction(|t| {
            let outer = t.savepoint()?;
            let inner = t.savepoint()?;
            t.roll_back_to(outer)?;
            t.insert(people, &person(7))?;
            assert_eq!(t.roll_back_to(inner), Err(Error::StaleSavepoint), "it was set later");
            assert_eq!(t.exists(people, &7), Err(Error::StaleSavepoint), "the transaction has failed");
            t.roll_back_to(outer)?;
            assert!(!t.exists(people, &7)?, "an outer savepoint cures that");
            t.release(outer)?;
            other = Some(outer);
            Ok(())
        });
        assert_eq!(ended, Ok(()));
        let refused = session.transaction(|t| {
            t.insert(people, &person(8))?;
            let stale: Savepoint = other.expect("set above");
            assert_eq!(t.release(stale), Err(Error::StaleSavepoint), "of another transaction");
            Ok(())
        });
        assert_eq!(refused, Err(Error::StaleSavepoint), "and the transaction does not commit");
        assert_eq!(all_people(database, people).len(), 3);
    });
}

#[test]
fn a_nested_transaction_that_fails_leaves_the_outer_one_usable() {
    on_all_engines("savepoints-nested", 5, |database, people| {
        let outcome = database.transaction(|t| {
            t.insert(people, &person(10))?;
            let nested = t.nested(|t| {
                t.insert(people, &person(11))?;
                t.nested(|t| t.delete(people, &0).map(drop))?;
                t.insert(people, &Person { email: person(3).email, ..person(12) })
            });
            assert!(is_duplicate(&nested), "{nested:?}");
            // A body that does not pass the error on is rolled back all the same.
            let swallowed = t.nested(|t| {
                t.insert(people, &person(13))?;
                let _ = t.insert(people, &person(13));
                Ok(())
            });
            assert!(is_duplicate(&swallowed), "{swallowed:?}");
            assert_eq!(t.nested(|t| t.insert(people, &person(14))), Ok(()));
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                t.nested(|t| -> isles::Result<()> {
                    t.insert(people, &person(15))?;
                    std::panic::panic_any("in the body")
                })
            }));
            assert!(panicked.is_err());
            assert!(matches!(t.exists(people, &10), Err(Error::Misuse(_))), "the transaction has failed");
            Ok(())
        });
        assert!(matches!(outcome, Err(Error::Misuse(_))), "{outcome:?}");
        let outcome = database.transaction(|t| {
            let outer = t.savepoint()?;
            let nested: isles::Result<()> = t.nested(|t| {
                t.insert(people, &person(16))?;
                Err(Error::RollBack)
            });
            assert_eq!(nested, Err(Error::RollBack));
            t.insert(people, &person(17))?;
            t.release(outer)
        });
        assert_eq!(outcome, Ok(()));
        let ids: Vec<u64> = all_people(database, people).iter().map(|row| row.id).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4, 17]);
    });
}

/// Savepoints are of the attempt: a conflict ends it, and no roll-back cures that.
#[test]
fn a_conflict_ends_the_attempt() {
    on_all_engines("savepoints-conflict", 3, |database, people| {
        let options = TransactionOptions::new().deadline(std::time::Duration::from_millis(300));
        let mut writer = database.session().expect("a session").into_transaction().expect("it begins");
        let mut session = database.session().expect("a session");
        session.set_options(options);
        let mut reader = session.into_transaction().expect("it begins");
        let read = reader.nested(|t| t.get(people, &1));
        // Schemes that lock may refuse one of the two at any verb; the others let one commit only.
        let changed =
            read.is_ok() && writer.update(people, &1, |row| row.age = 70).is_ok() && writer.commit().is_ok();
        let before = reader.savepoint();
        let met = before.as_ref().map_err(Error::clone).and_then(|before| {
            reader.nested(|t| t.update(people, &1, |row| row.age += 1))?;
            reader.roll_back_to(*before)
        });
        let age = reader.get_field(people, &1, Person::AGE);
        let committed = reader.commit();
        if changed {
            let seen = [met.err(), age.err(), committed.err()];
            assert!(seen.iter().flatten().all(|error| matches!(error, Error::Conflict { .. })), "{seen:?}");
            assert!(seen.iter().flatten().count() > 0, "what was read in the nested transaction counts");
        }
    });
}

#[test]
fn transaction_objects_have_savepoints() {
    on_all_engines("savepoints-objects", 4, |database, people| {
        let mut open = database.begin().expect("it begins");
        let before = open.savepoint().expect("a savepoint");
        assert_eq!(open.delete(people, &1), Ok(Some(person(1))));
        assert!(is_duplicate(&open.insert(people, &person(2))));
        assert!(open.exists(people, &1).is_err(), "a verb has failed");
        assert_eq!(open.roll_back_to(before), Ok(()));
        assert_eq!(open.exists(people, &1), Ok(true));
        assert_eq!(open.nested(|t| t.insert(people, &person(9))), Ok(()));
        assert_eq!(open.release(before), Ok(()));
        open.commit().expect("alone");
        assert_eq!(all_people(database, people).len(), 5);
    });
}

/// A row at a time, half of which are there already: as one transaction, and quickly.
#[test]
fn an_import_leaves_out_what_is_there() {
    on_all_engines("savepoints-import", 0, |database, people| {
        let evens = |id: u64| id.is_multiple_of(2);
        let first = database.transaction(|t| {
            (0..IMPORTED).filter(|id| evens(*id)).try_for_each(|id| t.insert(people, &person(id)))
        });
        assert_eq!(first, Ok(()));
        let imported = database.transaction(|t| {
            let mut imported = 0_u64;
            for id in 0..IMPORTED {
                let row = Person { age: 7, ..person(id) };
                match t.nested(|t| t.insert(people, &row)) {
                    Ok(()) => imported += 1,
                    Err(Error::Duplicate { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(imported)
        });
        assert_eq!(imported, Ok(IMPORTED / 2));
        let rows = all_people(database, people);
        assert_eq!(rows.len() as u64, IMPORTED);
        assert!(rows.iter().all(|row| evens(row.id) == (row.age != 7)));
    });
}
