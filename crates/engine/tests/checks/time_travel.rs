//! Histories that a scheme which orders commits by their data allows and other schemes do not, and
//! histories that it must not allow either: a transaction calls other sessions while it runs, and
//! no epoch ends.

use boundary::{Bounds, Ending, Verbs};
use concurrency::{InstanceOptions, Occ, Scheme, Silo, TicToc};
use engine::{MemoryDatabase, MemorySession, Transaction};
use platform::{Hardware, Intent};
use schema::{Row, Table, TableOptions};
use terms::{Abort, Fault, Faults, Stamp};

use crate::support::{options, with_rows};

/// Rows of the beginning, all with value 0; others are absent.
const ROWS: u64 = 4;
/// A row that is updated often: a session that reads it has a late time.
const HOT: u64 = 0;
const X: u64 = 1;
const Y: u64 = 2;
const KEY: u64 = 3;
const ABSENT: u64 = 4;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Cell {
    id: u64,
    value: u64,
}

type Step<'s, 'd, S> = Transaction<'s, 'd, Hardware, S>;

struct Stage<S: Scheme<Hardware>> {
    database: MemoryDatabase<Hardware, S>,
    cells: Table<Cell>,
}

impl<S: Scheme<Hardware>> Stage<S> {
    /// `X` is known to be valid for long.
    fn new() -> Self {
        Self::without(&[])
    }

    /// The same under a mutant.
    fn without(faults: &[Fault]) -> Self {
        let options = InstanceOptions { epoch_nanos: u64::MAX, faults: Faults::of(faults), ..options(4) };
        let rows = (0..ROWS).map(|id| Cell { id, value: 0 });
        let (database, cells) = with_rows(Hardware::core(), &options, TableOptions::default(), rows);
        let stage = Stage { database, cells };
        let mut session = stage.session();
        for value in 0..100 {
            session.transact(&once(), |t| stage.put(t, HOT, value)).expect("no other transaction runs");
        }
        let read = session.transact(&once(), |t| Ok((stage.get(t, HOT)?, stage.get(t, X)?)));
        assert!(matches!(read, Ok(Ending::Committed((Some(99), Some(0)), _))));
        drop(session);
        stage
    }

    fn session(&self) -> MemorySession<'_, Hardware, S> {
        self.database.session(Hardware::core(), None, false).expect("a session")
    }

    fn get(&self, t: &mut Step<'_, '_, S>, id: u64) -> Result<Option<u64>, Abort> {
        let Some(cell) = t.find(self.cells.primary(), &id, Intent::Read)? else { return Ok(None) };
        t.get(cell, Cell::VALUE).map(Some)
    }

    fn put(&self, t: &mut Step<'_, '_, S>, id: u64, value: u64) -> Result<(), Abort> {
        let cell = t.find(self.cells.primary(), &id, Intent::Write)?.expect("it is there");
        t.put(cell, Cell::VALUE, &value)
    }

    /// Reads `X`, lets others run, goes on with that. Others run in the first attempt only. Gives
    /// what the attempt that committed saw, how many there were, and the stamp.
    fn meanwhile<T>(
        &self,
        others: impl Fn(&Self),
        then: impl Fn(&mut Step<'_, '_, S>) -> Result<T, Abort>,
    ) -> (Option<u64>, T, u32, Stamp) {
        let mut attempts = 0;
        let ended = self.session().transact(&Bounds::default(), |t| {
            attempts += 1;
            let x = self.get(t, X)?;
            if attempts == 1 {
                others(self);
            }
            Ok((x, then(t)?))
        });
        match ended {
            Ok(Ending::Committed((x, value), commit)) => (x, value, attempts, commit.stamp),
            _ => panic!("it does not fail"),
        }
    }
}

fn once() -> Bounds {
    Bounds { deadline: None, attempts_max: Some(1) }
}

/// A row that was read is overwritten before the reader writes another: how many attempts the
/// reader takes.
fn attempts_of_a_traveller<S: Scheme<Hardware>>(stage: &Stage<S>) -> u32 {
    let other = std::cell::Cell::new(Stamp(0));
    let overwrite = |stage: &Stage<S>| {
        match stage.session().transact(&once(), |t| stage.put(t, X, 1)) {
            Ok(Ending::Committed((), commit)) => other.set(commit.stamp),
            _ => panic!("nothing is in its way"),
        };
    };
    let (x, (), attempts, stamp) = stage.meanwhile(overwrite, |t| stage.put(t, Y, 2));
    assert_eq!((x == Some(0), attempts == 1), (stamp < other.get(), stamp < other.get()));
    attempts
}

#[test]
fn tictoc_travels_in_time() {
    assert_eq!(attempts_of_a_traveller(&Stage::<TicToc>::new()), 1);
    assert_eq!(attempts_of_a_traveller(&Stage::<Silo>::new()), 2);
    assert_eq!(attempts_of_a_traveller(&Stage::<Occ>::new()), 2);
}

#[test]
fn tictoc_stays_in_real_time_where_several_databases_are() {
    let stage = Stage::<TicToc>::new();
    let mut session = stage.session();
    let ((), part) = session.prepare(&once(), |t| stage.put(t, HOT, 7)).expect("no other transaction runs");
    assert!(session.finish(part, true).is_some());
    assert_eq!(attempts_of_a_traveller(&stage), 2);
}

/// True if a reader sees both of two changes, or none.
fn changes_are_seen_together<S: Scheme<Hardware>>(faults: &[Fault]) -> bool {
    let stage = Stage::<S>::without(faults);
    let change = |stage: &Stage<S>| {
        let changed = stage.session().transact(&once(), |t| {
            stage.put(t, X, 1)?;
            stage.put(t, Y, 1)
        });
        changed.expect("nothing is in its way");
    };
    let (x, y, ..) = stage.meanwhile(change, |t| stage.get(t, Y));
    x == y
}

#[test]
fn rows_are_written_after_they_were_read() {
    assert!(changes_are_seen_together::<Silo>(&[]) && changes_are_seen_together::<Occ>(&[]));
    assert!(changes_are_seen_together::<TicToc>(&[]));
    assert!(!changes_are_seen_together::<TicToc>(&[Fault::UnusedReadTimes]));
}

/// True if a reader sees both an update and a deletion, or none.
fn deletions_are_seen_together<S: Scheme<Hardware>>(faults: &[Fault]) -> bool {
    let stage = Stage::<S>::without(faults);
    let change = |stage: &Stage<S>| {
        let changed = stage.session().transact(&once(), |t| {
            stage.put(t, X, 1)?;
            let cell = t.find(stage.cells.primary(), &KEY, Intent::Write)?.expect("it is there");
            t.delete(cell)
        });
        changed.expect("nothing is in its way");
    };
    let (x, key, ..) = stage.meanwhile(change, |t| stage.get(t, KEY));
    (x == Some(1)) == key.is_none()
}

#[test]
fn who_sees_that_a_key_is_gone_comes_later() {
    assert!(deletions_are_seen_together::<Silo>(&[]) && deletions_are_seen_together::<Occ>(&[]));
    assert!(deletions_are_seen_together::<TicToc>(&[]));
    assert!(!deletions_are_seen_together::<TicToc>(&[Fault::IgnoredRemovals]));
}

/// True if a transaction that inserts a key comes after an update that another session saw without
/// seeing the key.
fn insertions_come_after_absences<S: Scheme<Hardware>>(faults: &[Fault]) -> bool {
    let stage = Stage::<S>::without(faults);
    let others = |stage: &Stage<S>| {
        let mut session = stage.session();
        session.transact(&once(), |t| stage.put(t, X, 1)).expect("nothing is in its way");
        let read = session.transact(&once(), |t| Ok((stage.get(t, X)?, stage.get(t, ABSENT)?)));
        assert!(matches!(read, Ok(Ending::Committed((Some(1), None), _))));
    };
    let row = Cell { id: ABSENT, value: 0 };
    let (x, ..) = stage.meanwhile(others, |t| t.insert(stage.cells, &row));
    x == Some(1)
}

#[test]
fn who_inserts_a_key_comes_after_those_who_missed_it() {
    assert!(insertions_come_after_absences::<Silo>(&[]) && insertions_come_after_absences::<Occ>(&[]));
    assert!(insertions_come_after_absences::<TicToc>(&[]));
    assert!(!insertions_come_after_absences::<TicToc>(&[Fault::MissingTraces]));
}
