//! Rows that come and go for long take no more memory than they need at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{Bounds, Ending, SchemaBuilder, Verbs};
use concurrency::{
    CommitLocks, Deadlocks, InstanceOptions, RowCopies, RowLock, Scheme, TimestampDraws, Ways,
};
use engine::{MemoryDatabase, MemorySession};
use platform::{Hardware, Intent, Platform};
use schema::{HashPlan, IndexKind, Row, Schema, Table, TableOptions};
use sim::VirtualMachine;
use terms::Abort;

use crate::support::{Random, options, virtually, workers};

const WORKERS: usize = 3;
/// Rows are locked by managers, which come and go with them.
const LATCH: Ways = Ways {
    row_lock: RowLock::Latch,
    row_copies: RowCopies::Fields,
    commit_locks: CommitLocks::Ordered,
    deadlocks: Deadlocks::Lists,
    timestamp_draws: TimestampDraws::Used,
};
/// Rounds that a worker may be ahead of another, so that a slow one does not hold back an epoch's
/// worth of everything.
const LEAD_MAX: u64 = 200;
/// Rows at a time: each worker's own, and those that all of them change.
const KEYS: u64 = 16;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id), index(by_owner(owner, id)), unique_index(by_token(token)))]
pub struct Leaf {
    id: u64,
    owner: u64,
    token: u64,
    filler: [u64; 16],
    #[row(tail)]
    pub note: Vec<u8>,
}

pub fn leaf(id: u64, owner: u64) -> Leaf {
    Leaf { id, owner, token: id, filler: [id; 16], note: vec![7; 200] }
}

/// Changes one key in one of the ways that leave memory behind.
fn churn<T: Verbs>(t: &mut T, leaves: Table<Leaf>, id: u64, random: &mut Random) -> Result<(), Abort> {
    let owner = random.below(4);
    match t.find(leaves.primary(), &id, Intent::Write)? {
        None => t.insert(leaves, &leaf(id, owner))?,
        Some(row) => match random.below(4) {
            0 => t.delete(row)?,
            1 => {
                t.delete(row)?;
                t.insert(leaves, &leaf(id, owner))?;
            }
            _ => t.replace(row, &leaf(id, owner))?,
        },
    }
    if random.chance(20) { Err(Abort::RollBack) } else { Ok(()) }
}

/// Runs `rounds` of each worker; bytes that were ever in use after a quarter of them, and in the
/// end.
fn bytes<P: Platform, S: Scheme<P>>(c: P::Core, rounds: u64, seed: u64, ways: Ways) -> (u64, u64) {
    let mut schema = SchemaBuilder::new();
    let kinds = vec![IndexKind::Ordered, IndexKind::Ordered, IndexKind::Hash(HashPlan::Mixed)];
    let leaves = schema.table::<Leaf>("leaves", TableOptions { rows: 64, kinds, ..TableOptions::default() });
    // A table of its own: a lookup of a key just below one that is in doubt may have to wait for
    // its end.
    let doubtful = schema.table::<Leaf>("doubtful", TableOptions::default());
    let options = InstanceOptions { ways, ..options(WORKERS + 1) };
    let database = MemoryDatabase::<P, S>::create(c, &options, schema, &|_| None).expect("memory");
    let done: [AtomicU64; WORKERS] = Default::default();
    let early = AtomicU64::new(0);
    let slowest = || done.iter().map(|rounds| rounds.load(Ordering::Relaxed)).min().unwrap_or(0);
    let work = |session: &mut MemorySession<'_, P, S>, number: usize| {
        let c = session.core();
        let mut random = Random::new(seed, number as u64);
        for round in 0..rounds {
            let shared = random.chance(30);
            let id = random.below(KEYS) + if shared { 0 } else { KEYS * (number as u64 + 1) };
            let ended = session.transact(&Bounds::default(), |t| churn(t, leaves, id, &mut random));
            ended.expect("no end but commit and roll back");
            session.tend(P::now(c));
            done[number].store(round + 1, Ordering::Relaxed);
            if round == rounds / 4 {
                early.fetch_max(database.memory_use(c).touched, Ordering::Relaxed);
            }
            while round > slowest() + LEAD_MAX {
                session.idle();
                P::pause(c, 500);
            }
        }
        session.idle();
    };
    // In doubt all the while, which holds no epoch. Another session than the one that began
    // finishes it.
    let (mut first, mut last) = {
        let session = || database.session(c, None, false).expect("a session");
        (session(), session())
    };
    let id = 1;
    let inserted = first.prepare(&Bounds::default(), |t| t.insert(doubtful, &leaf(id, 0)));
    let ((), prepared) = inserted.expect("no other transaction runs");
    drop(first);
    workers(c, &database, WORKERS, &work);
    last.finish(prepared, true);
    let found =
        last.transact(&Bounds::default(), |t| match t.find(doubtful.primary(), &id, Intent::Read)? {
            Some(row) => t.row(row).map(Some),
            None => Ok(None),
        });
    assert!(matches!(found, Ok(Ending::Committed(Some(row), _)) if row == leaf(id, 0)));
    (early.into_inner(), database.memory_use(c).touched)
}

fn assert_bounded(early: u64, late: u64, rounds: u64) {
    let written = WORKERS as u64 * rounds * size_of::<[u64; 50]>() as u64 / 2;
    println!("{early} bytes after a quarter, {late} in the end; {written} and more were written");
    assert!(late < written / 6, "{early} bytes after a quarter of the rounds, {late} in the end");
}

#[test]
fn memory_is_bounded_on_threads() {
    // Versions of rows stay for some epochs: up to 1.7 MB under `mvcc` on a fast machine, however
    // many rounds there are.
    const ROUNDS: u64 = 20_000;
    for ways in [Ways::default(), LATCH] {
        concurrency::for_each_scheme!(S => {
            let (early, late) = bytes::<Hardware, S>(Hardware::core(), ROUNDS, 1, ways);
            assert_bounded(early, late, ROUNDS);
        });
    }
}

#[test]
fn memory_is_bounded_virtually() {
    for seed in 0..2 {
        concurrency::for_each_scheme!(S => {
            let ways = if seed == 0 { Ways::default() } else { LATCH };
            let (early, late) = virtually(seed, 4, |c| bytes::<VirtualMachine, S>(c, 5_000, seed, ways));
            assert_bounded(early, late, 5_000);
        });
    }
}

/// Rows that the primary key names, whether or not they are there for transactions.
fn named<P: Platform, S: Scheme<P>>(c: P::Core, database: &MemoryDatabase<P, S>) -> usize {
    let mut named = 0;
    database.instance().visit_structures(c, &mut |structure, _, _| {
        named += usize::from(matches!(structure, concurrency::Structure::Row(_)));
    });
    named
}

/// Rows that were deleted by sessions that do nothing any more, or are gone, leave the indexes
/// while others work.
#[test]
fn dead_rows_of_idle_sessions_are_swept() {
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let leaves = schema.table::<Leaf>("leaves", TableOptions::default());
    let database = MemoryDatabase::<Hardware, concurrency::Mvcc>::create(c, &options(8), schema, &|_| None)
        .expect("memory");
    let mut idle = Vec::new();
    for number in 0..6 {
        let mut session = database.session(c, None, false).expect("a session");
        for id in 10 * number..10 * (number + 1) {
            session.transact(&Bounds::default(), |t| t.insert(leaves, &leaf(id, 0))).expect("inserted");
        }
        let deleted = session.transact(&Bounds::default(), |t| {
            (10 * number..10 * (number + 1)).try_for_each(|id| {
                let row = t.find(leaves.primary(), &id, Intent::Write)?.expect("it is there");
                t.delete(row)
            })
        });
        deleted.expect("deleted");
        session.idle();
        if number % 2 == 0 {
            idle.push(session);
        }
    }
    assert!(named(c, &database) >= 40, "they wait for snapshots that might need them");
    let mut working = database.session(c, None, false).expect("a session");
    for _ in 0..100 {
        assert!(database.instance().epochs().try_advance(c));
        working.transact(&Bounds::default(), |_| Ok(())).expect("nothing is in its way");
    }
    assert_eq!(named(c, &database), 0);
}

/// Memory in use, and memory that was ever used, when a session has let what it deleted become
/// usable.
fn memory_of<S: Scheme<Hardware>>(
    session: &mut MemorySession<'_, Hardware, S>,
    database: &MemoryDatabase<Hardware, S>,
) -> (u64, u64) {
    for _ in 0..20 {
        assert!(database.instance().epochs().try_advance(session.core()));
        session.transact(&Bounds::default(), |_| Ok(())).expect("nothing is in its way");
    }
    session.idle();
    let memory = database.memory_use(session.core());
    assert!(memory.used <= memory.touched && memory.touched <= memory.reserved, "{memory:?}");
    (memory.used, memory.touched)
}

/// Memory of rows that were inserted and deleted is returned, and used again.
fn cycles<S: Scheme<Hardware>>() {
    const ROWS: u64 = 400;
    let c = Hardware::core();
    let mut schema = SchemaBuilder::new();
    let leaves = schema.table::<Leaf>("leaves", TableOptions::default());
    let database = MemoryDatabase::<Hardware, S>::create(c, &options(2), schema, &|_| None).expect("memory");
    let mut session = database.session(c, None, false).expect("a session");
    let (empty, _) = memory_of(&mut session, &database);
    let (mut full_first, mut touched_first) = (0, 0);
    for round in 0..5 {
        for id in 0..ROWS {
            session.transact(&Bounds::default(), |t| t.insert(leaves, &leaf(id, id % 7))).expect("inserted");
            session.tend(Hardware::now(c));
        }
        let (full, touched) = memory_of(&mut session, &database);
        assert!(full > empty + ROWS * 400, "{}: {full} bytes in use of {ROWS} rows", S::NAME);
        if round == 0 {
            (full_first, touched_first) = (full, touched);
        }
        assert!(full < full_first + full_first / 4, "{}: {full} after {full_first}", S::NAME);
        assert!(touched < touched_first + touched_first / 2, "{}: {touched} after {touched_first}", S::NAME);
        for id in 0..ROWS {
            let deleted = session.transact(&Bounds::default(), |t| {
                let row = t.find(leaves.primary(), &id, Intent::Write)?.expect("it is there");
                t.delete(row)
            });
            deleted.expect("deleted");
        }
        let (left, _) = memory_of(&mut session, &database);
        assert!(left < empty + (full - empty) / 10, "{}: {left} bytes of {full} are in use", S::NAME);
    }
}

#[test]
fn memory_of_deleted_rows_is_not_in_use() {
    concurrency::for_each_scheme!(S => { cycles::<S>(); });
}
