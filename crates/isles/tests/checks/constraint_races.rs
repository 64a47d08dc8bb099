//! Races about references: a transaction inserts a row that refers to another one while a second
//! transaction deletes that row or changes its key. Whatever the outcome, no row refers to nothing.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use isles::{
    Builder, Constraints, Database, Durability, Error, ForeignAction, ForeignKey, Result, Table,
    TransactionOptions,
};
use terms::{Fault, Faults};

use crate::common::{Directory, SCHEMES};
use crate::constraints::{Child, Parent, child, declare, of_parent, parent};

/// Rounds of threads.
const ROUNDS: u32 = 150;

struct Race {
    database: Database,
    parents: Table<Parent>,
    children: Table<Child>,
}

/// How the row that is referred to goes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Going {
    Deleted,
    Renamed,
}

impl Race {
    fn open(mut builder: Builder, key: ForeignKey, faults: Faults) -> Self {
        let (parents, children) = declare(&mut builder, Constraints::new().foreign_key(key));
        let database = builder.with_faults(faults).open().expect("a database");
        Race { database, parents, children }
    }

    /// The children that refer to no parent.
    fn orphans(&self) -> Vec<Child> {
        let read = self.database.transaction(|t| {
            let mut orphans = Vec::new();
            for child in t.scan(self.children, ..).collect()? {
                if let Some(parent) = child.parent
                    && !t.exists(self.parents, &parent)?
                {
                    orphans.push(child);
                }
            }
            Ok(orphans)
        });
        read.expect("nobody else is there")
    }

    fn go(&self, t: &mut isles::Transaction<'_>, going: Going, id: u32) -> Result<()> {
        match going {
            Going::Deleted => t.delete(self.parents, &id).map(drop),
            Going::Renamed => t.update(self.parents, &id, |row| row.id += 1_000_000).map(drop),
        }
    }

    /// Both transactions are objects of this thread, and end in either order: each step of one
    /// happens before or after each step of the other.
    fn step_by_step(&self, going: Going) -> u32 {
        let options =
            TransactionOptions::new().deadline(Duration::from_millis(100)).durability(Durability::Async);
        let (mut inserts, mut deletes) =
            (self.database.session().expect("a session"), self.database.session().expect("a session"));
        inserts.set_options(options.clone());
        deletes.set_options(options);
        let mut both = 0;
        for order in 0..4_u32 {
            let id = 1 + order;
            self.database.transaction(|t| t.insert(self.parents, &parent(id))).expect("a parent");
            let mut insertion = inserts.begin().expect("it begins");
            let mut deletion = deletes.begin().expect("it begins");
            let outcomes = match order {
                0 | 1 => {
                    let inserted = insertion.insert(self.children, &child(id, id));
                    let deleted = self.go(&mut deletion.verbs(), going, id);
                    (inserted, deleted)
                }
                _ => {
                    let deleted = self.go(&mut deletion.verbs(), going, id);
                    (insertion.insert(self.children, &child(id, id)), deleted)
                }
            };
            let (inserted, deleted) = if order % 2 == 0 {
                let inserted = insertion.commit();
                (outcomes.0.and(inserted), outcomes.1.and(deletion.commit()))
            } else {
                let deleted = deletion.commit();
                (outcomes.0.and(insertion.commit()), outcomes.1.and(deleted))
            };
            both += u32::from(inserted.is_ok() && deleted.is_ok());
            for outcome in [inserted, deleted] {
                let is_expected = matches!(
                    outcome,
                    Ok(()) | Err(Error::Conflict { .. } | Error::Deadline | Error::Constraint { .. })
                );
                assert!(is_expected, "{outcome:?}");
            }
        }
        both
    }

    /// Threads insert children of parents that other threads delete, again and again.
    fn by_threads(&self, going: Going) -> (u32, u32) {
        let [inserted, gone] = [AtomicU32::new(0), AtomicU32::new(0)];
        let barrier = Barrier::new(2);
        let round =
            |round: u32, acts: &dyn Fn(&mut isles::Transaction<'_>) -> Result<()>, count: &AtomicU32| {
                barrier.wait();
                match self.database.transaction(|t| acts(t)) {
                    Ok(()) => drop(count.fetch_add(1, Ordering::Relaxed)),
                    Err(Error::Constraint { .. } | Error::Conflict { .. }) => {}
                    Err(error) => panic!("round {round}: {error}"),
                }
            };
        for id in 10..10 + ROUNDS {
            self.database.transaction(|t| t.insert(self.parents, &parent(id))).expect("a parent");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (10..10 + ROUNDS).for_each(|id| {
                    round(id, &|t| t.insert(self.children, &child(id, id)), &inserted);
                });
            });
            scope.spawn(|| (10..10 + ROUNDS).for_each(|id| round(id, &|t| self.go(t, going, id), &gone)));
        });
        (inserted.into_inner(), gone.into_inner())
    }
}

fn keys() -> [(ForeignKey, Going); 5] {
    [
        (of_parent(), Going::Deleted),
        (of_parent().on_delete(ForeignAction::Cascade), Going::Deleted),
        (of_parent().on_delete(ForeignAction::SetNull), Going::Deleted),
        (of_parent().deferred(), Going::Deleted),
        (of_parent().on_update(ForeignAction::Cascade), Going::Renamed),
    ]
}

#[test]
fn no_row_refers_to_nothing_after_a_race() {
    for (key, going) in keys() {
        for scheme in SCHEMES {
            let race = Race::open(Database::in_memory().scheme(scheme), key.clone(), Faults::NONE);
            race.step_by_step(going);
            assert_eq!(race.orphans(), [], "{scheme:?}, {key:?}");
            let (inserted, gone) = race.by_threads(going);
            assert_eq!(race.orphans(), [], "{scheme:?}, {key:?}");
            assert!(inserted + gone > 0, "{scheme:?}: nothing happened");
        }
        let directory = Directory::new("reference-races");
        let race = Race::open(directory.in_pages(), key.clone(), Faults::NONE);
        race.step_by_step(going);
        assert_eq!(race.orphans(), [], "pages, {key:?}");
        race.by_threads(going);
        assert_eq!(race.orphans(), [], "pages, {key:?}");
    }
}

/// A reference that looks at the other row without concurrency control misses races, which the
/// test above finds: under each scheme with rows in memory.
#[test]
fn a_reference_that_misses_a_race_is_found() {
    for scheme in SCHEMES {
        let faults = Faults::of(&[Fault::UnprotectedReferences]);
        let race = Race::open(Database::in_memory().scheme(scheme), of_parent(), faults);
        race.by_threads(Going::Deleted);
        assert!(!race.orphans().is_empty(), "{scheme:?}");
    }
}
