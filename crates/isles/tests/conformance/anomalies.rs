//! The classic anomalies, step by step. The names are those of Berenson et al., "A Critique of ANSI
//! SQL Isolation Levels" (1995), Fekete et al., "A Read-Only Transaction Anomaly Under Snapshot
//! Isolation" (2004), and Adya's thesis (1999).

use crate::engines::Engine;
use crate::interleaved::{Act, Ended, ExecutionMode, Schedule, explain, open_for, perform, read_all};
use crate::model::Model;
use crate::operation::{Operation, PartEnd, RangeKind, ScanEnd, ScanPlan, Verb};
use crate::rows::{Aspect, Probe};

/// The table that most cases use: `Plain`.
const PLAIN: usize = 1;
/// The table with hash indexes.
const HASHED: usize = 2;
/// Its index by group, and its unique index by code.
const BY_GROUP: usize = 1;

/// A case: its name, and its steps.
pub struct Case {
    pub name: &'static str,
    pub schedule: Schedule,
}

/// The probe of a row. Rows that exist from the start have the numbers 0 to 3 and the salt 0.
fn probe(id: u32, salt: u32) -> Probe {
    Probe { part: 0, id, salt }
}

fn on(table: usize, id: u32, verb: Verb) -> Act {
    Act::Do(Operation { table, index: 0, probe: probe(id, 0), verb })
}

fn get(id: u32) -> Act {
    on(PLAIN, id, Verb::Get)
}

fn set(id: u32, salt: u32) -> Act {
    on(PLAIN, id, Verb::SetField(0, salt))
}

fn insert(table: usize, id: u32, salt: u32) -> Act {
    Act::Do(Operation { table, index: 0, probe: probe(id, salt), verb: Verb::Insert })
}

fn scan(index: usize, range: RangeKind, end: ScanEnd) -> Act {
    let plan = ScanPlan { range, to: probe(30, 0), ..ScanPlan::all(end) };
    Act::Do(Operation { table: PLAIN, index, probe: probe(0, 0), verb: Verb::Scan(plan) })
}

fn count() -> Act {
    scan(0, RangeKind::HalfOpen, ScanEnd::Count)
}

fn range() -> Act {
    scan(0, RangeKind::HalfOpen, ScanEnd::Collect)
}

/// The rows of the group of salt 0.
fn group() -> Act {
    scan(BY_GROUP, RangeKind::Prefix, ScanEnd::Collect)
}

use Act::{Commit, RollBack};

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut all = on_rows();
    all.extend(phantoms());
    all.extend(behind_savepoints());
    all.into_iter().map(|(name, schedule)| Case { name, schedule }).collect()
}

fn on_rows() -> Vec<(&'static str, Schedule)> {
    let for_update = |id| on(PLAIN, id, Verb::GetForUpdate);
    vec![
        (
            "lost update",
            vec![(0, get(0)), (1, get(0)), (0, set(0, 1)), (0, Commit), (1, set(0, 2)), (1, Commit)],
        ),
        (
            "lost update, both before the first commit",
            vec![(0, get(0)), (1, get(0)), (0, set(0, 1)), (1, set(0, 2)), (0, Commit), (1, Commit)],
        ),
        (
            "lost update of rows that are read to be changed",
            vec![
                (0, for_update(0)),
                (1, for_update(0)),
                (0, set(0, 1)),
                (1, set(0, 2)),
                (0, Commit),
                (1, Commit),
            ],
        ),
        (
            "write skew",
            vec![
                (0, get(0)),
                (0, get(1)),
                (1, get(0)),
                (1, get(1)),
                (0, set(0, 1)),
                (1, set(1, 1)),
                (0, Commit),
                (1, Commit),
            ],
        ),
        (
            "read-only anomaly",
            vec![
                (0, get(0)),
                (0, get(1)),
                (1, get(1)),
                (1, set(1, 20)),
                (1, Commit),
                (2, get(0)),
                (2, get(1)),
                (2, Commit),
                (0, set(0, 11)),
                (0, Commit),
            ],
        ),
        ("dirty read of what is rolled back", vec![(0, set(0, 1)), (1, get(0)), (0, RollBack), (1, Commit)]),
        (
            "read of what is not final",
            vec![(0, set(0, 1)), (1, get(0)), (0, set(0, 2)), (0, Commit), (1, Commit)],
        ),
        (
            "dirty write",
            vec![
                (0, set(0, 1)),
                (1, set(0, 2)),
                (1, set(1, 2)),
                (0, set(1, 1)),
                (0, get(0)),
                (0, Commit),
                (1, get(1)),
                (1, Commit),
            ],
        ),
        ("fuzzy read", vec![(0, get(0)), (1, set(0, 1)), (1, Commit), (0, get(0)), (0, Commit)]),
        (
            "read skew",
            vec![(0, get(0)), (1, set(0, 1)), (1, set(1, 1)), (1, Commit), (0, get(1)), (0, Commit)],
        ),
        (
            "circular flow",
            vec![(0, set(0, 1)), (1, set(1, 1)), (0, get(1)), (1, get(0)), (0, Commit), (1, Commit)],
        ),
        (
            "long fork",
            vec![
                (2, get(0)),
                (3, get(1)),
                (0, set(0, 1)),
                (0, Commit),
                (1, set(1, 1)),
                (1, Commit),
                (2, get(1)),
                (3, get(0)),
                (2, Commit),
                (3, Commit),
            ],
        ),
    ]
}

fn phantoms() -> Vec<(&'static str, Schedule)> {
    let exists = |table, id| on(table, id, Verb::Exists);
    let delete = |id| on(PLAIN, id, Verb::Delete);
    let enter_group = |id| on(PLAIN, id, Verb::Update(Aspect::Indexed, probe(id, 0)));
    vec![
        (
            "phantom by range",
            vec![(0, range()), (1, insert(PLAIN, 9, 1)), (1, Commit), (0, range()), (0, Commit)],
        ),
        ("phantom by index", vec![(0, group()), (1, enter_group(3)), (1, Commit), (0, group()), (0, Commit)]),
        ("phantom by count", vec![(0, count()), (1, delete(2)), (1, Commit), (0, count()), (0, Commit)]),
        (
            "write skew by range",
            vec![
                (0, range()),
                (1, range()),
                (0, insert(PLAIN, 8, 1)),
                (1, insert(PLAIN, 9, 1)),
                (0, Commit),
                (1, Commit),
            ],
        ),
        (
            "write skew by index",
            vec![
                (0, group()),
                (1, group()),
                (0, insert(PLAIN, 8, 0)),
                (1, enter_group(3)),
                (0, Commit),
                (1, Commit),
            ],
        ),
        (
            "write skew by count",
            vec![(0, count()), (1, count()), (0, delete(0)), (1, delete(1)), (0, Commit), (1, Commit)],
        ),
        (
            "a missing key appears",
            vec![
                (0, exists(PLAIN, 9)),
                (1, insert(PLAIN, 9, 1)),
                (1, Commit),
                (0, exists(PLAIN, 9)),
                (0, Commit),
            ],
        ),
        (
            "a missing key of a hash index appears",
            vec![
                (0, exists(HASHED, 9)),
                (1, insert(HASHED, 9, 1)),
                (1, Commit),
                (0, exists(HASHED, 9)),
                (0, Commit),
            ],
        ),
        (
            "write skew by missing keys of a hash index",
            vec![
                (0, exists(HASHED, 8)),
                (1, exists(HASHED, 9)),
                (0, insert(HASHED, 9, 1)),
                (1, insert(HASHED, 8, 1)),
                (0, Commit),
                (1, Commit),
            ],
        ),
        (
            "a deleted row is inserted meanwhile",
            vec![
                (0, delete(0)),
                (1, exists(PLAIN, 0)),
                (0, insert(PLAIN, 0, 3)),
                (0, Commit),
                (1, get(0)),
                (1, Commit),
            ],
        ),
    ]
}

/// Operations that are rolled back to a savepoint: they have read what they have read.
fn behind_savepoints() -> Vec<(&'static str, Schedule)> {
    let delete = |id| on(PLAIN, id, Verb::Delete);
    let in_vain = |operations: Vec<Act>| {
        let operation = |act| match act {
            Act::Do(operation) => Some(operation),
            Commit | RollBack => None,
        };
        let operations = operations.into_iter().filter_map(operation).collect();
        on(PLAIN, 0, Verb::Partly(operations, PartEnd::RollBack))
    };
    vec![
        (
            "write skew by rows that were read behind savepoints",
            vec![
                (0, in_vain(vec![get(0)])),
                (1, in_vain(vec![get(1)])),
                (0, set(1, 1)),
                (1, set(0, 1)),
                (0, Commit),
                (1, Commit),
            ],
        ),
        (
            "phantom by a range that was read behind a savepoint",
            vec![
                (0, in_vain(vec![range(), insert(PLAIN, 8, 1)])),
                (1, insert(PLAIN, 9, 1)),
                (1, Commit),
                (0, range()),
                (0, Commit),
            ],
        ),
        (
            "a duplicate goes away",
            vec![
                (0, in_vain(vec![insert(PLAIN, 0, 1)])),
                (1, delete(0)),
                (1, Commit),
                (0, get(0)),
                (0, Commit),
            ],
        ),
        (
            "a row that was inserted and rolled back",
            vec![
                (0, in_vain(vec![insert(PLAIN, 9, 1), set(9, 2)])),
                (1, insert(PLAIN, 9, 3)),
                (1, Commit),
                (0, get(9)),
                (0, Commit),
            ],
        ),
        (
            "a row that was changed and deleted in vain",
            vec![
                (0, in_vain(vec![set(0, 1), delete(0), insert(PLAIN, 0, 2)])),
                (0, get(1)),
                (1, get(0)),
                (1, set(1, 1)),
                (1, Commit),
                (0, set(0, 3)),
                (0, Commit),
            ],
        ),
    ]
}

/// Inserts the rows that exist before a case.
fn setup() -> Schedule {
    let rows = |table, salts: [u32; 4]| {
        let probes = (0..4).map(|id| probe(id, salts[id as usize])).collect();
        (0, Act::Do(Operation { table, index: 0, probe: probe(0, 0), verb: Verb::InsertAll(probes) }))
    };
    vec![rows(PLAIN, [0, 0, 0, 1]), rows(HASHED, [0; 4]), (0, Commit)]
}

/// Deletes the rows of a case.
fn clear() -> Schedule {
    let everything = |table, index| {
        let plan = ScanPlan::all(ScanEnd::Delete);
        (0, Act::Do(Operation { table, index, probe: probe(0, 0), verb: Verb::Scan(plan) }))
    };
    vec![everything(PLAIN, 0), everything(HASHED, 3), (0, Commit)]
}

/// Results of the cases on an engine.
pub struct AnomalyResults {
    /// The names of the cases without a serial order, with the reasons.
    pub wrong: Vec<(&'static str, String)>,
    /// Cases in which a transaction committed.
    pub committed: usize,
}

/// Runs all cases on an engine.
///
/// # Errors
/// A step hangs, or the engine cannot be opened.
pub fn run_all(engine: Engine, mode: ExecutionMode) -> Result<AnomalyResults, String> {
    let (opened, _directory) = open_for(engine, 6)?;
    let (mut wrong, mut committed) = (Vec::new(), 0);
    for Case { name, schedule } in cases() {
        let mut model = Model::new(engine.traits());
        for (_, act) in setup() {
            if let Act::Do(operation) = act {
                model.apply(&operation).map_err(|error| format!("the setup: {error}"))?;
            }
        }
        perform(&opened, &setup(), ExecutionMode::OneThread)?;
        let traces = perform(&opened, &schedule, mode).map_err(|why| format!("{name}: {why}"))?;
        if let Err(why) = explain(&model, &traces, &read_all(&opened)) {
            wrong.push((name, why));
        }
        committed += usize::from(traces.iter().any(|trace| trace.ended == Some(Ended::Committed)));
        perform(&opened, &clear(), ExecutionMode::OneThread)?;
    }
    opened.close().map_err(|error| error.to_string())?;
    Ok(AnomalyResults { wrong, committed })
}
