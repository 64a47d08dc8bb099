//! Planted faults: the suite has to find each of them.

use std::collections::BTreeSet;

use isles::{Database, Scheme, ValueType};

use crate::anomalies;
use crate::engines::{BrokenRule, Engine, Kind};
use crate::interleaved::{self, ExecutionMode};
use crate::model::Fault;
use crate::programs::Program;

/// Number of programs in which a fault has to be found.
const PROGRAMS: u64 = 60;

/// A model that differs from the engine stands for an engine that differs from the model.
#[test]
fn differences_from_the_model_are_found() {
    for fault in Fault::ALL {
        let found = (0..PROGRAMS).any(|number| {
            // Directories are not needed to find these faults.
            let program =
                Program { durable: false, ..Program::draw(Engine::Memory(Scheme::Silo), number, 60) };
            program.run(Some(fault)).is_err()
        });
        assert!(found, "{fault:?} was not found in {PROGRAMS} programs");
    }
}

/// An engine whose transactions are not isolated shows every anomaly of the cases.
#[test]
fn every_anomaly_is_detected_without_isolation() {
    let engine = Engine::Memory(Scheme::Silo);
    let found = anomalies::run_all(engine, ExecutionMode::NoIsolation).expect("no transaction waits");
    let wrong: BTreeSet<_> = found.wrong.into_iter().map(|(name, _)| name).collect();
    let cases: BTreeSet<_> = anomalies::cases().into_iter().map(|case| case.name).collect();
    assert_eq!(wrong, cases);
    let generated = interleaved::run_generated(engine, ExecutionMode::NoIsolation, 200);
    assert!(generated.is_err(), "200 schedules without isolation all have a serial order: {generated:?}");
}

/// Two-phase locking over pages without some of the locks: the engine's own mutants, through the
/// library.
#[test]
fn omitted_locks_are_detected() {
    let find = |rule| {
        let engine = Engine::BrokenPages(rule);
        let found =
            anomalies::run_all(engine, ExecutionMode::OneThread).expect("no transaction waits for ever");
        found.wrong.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>()
    };
    let without_read_locks = find(BrokenRule::ReadLocks);
    for name in ["lost update", "write skew", "read-only anomaly", "read skew", "long fork"] {
        assert!(without_read_locks.contains(name), "{name} is not in {without_read_locks:?}");
    }
    let without_gaps = find(BrokenRule::Gaps);
    for name in ["phantom by range", "phantom by index", "write skew by range"] {
        assert!(without_gaps.contains(name), "{name} is not in {without_gaps:?}");
    }
}

/// The name of a type of columns. A new type does not compile before a table of the suite has it.
fn name(kind: &ValueType) -> String {
    match kind {
        ValueType::Unsigned(_) | ValueType::Signed(_) | ValueType::Float(_) | ValueType::Bool => {
            kind.to_string()
        }
        ValueType::Text(_) => "text".to_owned(),
        ValueType::Array(of, _) => format!("array of {}", name(of)),
        ValueType::Group(_) => "group".to_owned(),
        ValueType::Char(_) => "char".to_owned(),
        ValueType::VarChar(_) => "varchar".to_owned(),
        ValueType::List(of) => format!("list of {}", name(of)),
        ValueType::Numeric { precision, .. } => format!("numeric of {precision} digits"),
        ValueType::Bytes
        | ValueType::String
        | ValueType::Date
        | ValueType::Time
        | ValueType::Timestamp
        | ValueType::TimestampTz
        | ValueType::Interval
        | ValueType::Json
        | ValueType::Uuid => kind.to_string(),
    }
}

#[test]
fn every_type_of_column_and_kind_of_index_is_in_a_table() {
    let opened = Engine::Memory(Scheme::Silo).open(0, None).expect("a database");
    let Kind::One { database, .. } = &opened.kind else { unreachable!("it is one database") };
    let kinds = |nullable: bool| -> BTreeSet<String> {
        let tables = Database::tables(database);
        let columns = tables.iter().flat_map(|table| table.columns());
        columns.filter(|column| column.nullable == nullable).map(|column| name(&column.kind)).collect()
    };
    let all = [
        "u8",
        "u16",
        "u32",
        "u64",
        "i8",
        "i16",
        "i32",
        "i64",
        "f32",
        "f64",
        "bool",
        "text",
        "array of u8",
        "array of i16",
        "group",
        "bytes",
        "string",
        "numeric of 10 digits",
        "numeric of 30 digits",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "interval",
        "uuid",
        "char",
        "varchar",
        "json",
        "list of i32",
        "list of string",
    ];
    let missing: Vec<_> = all.iter().filter(|kind| !kinds(false).contains(**kind)).collect();
    assert!(missing.is_empty(), "no table has columns of {missing:?}");
    let optional = ["u8", "i64", "f64", "bool", "text", "array of u16", "group", "i16", "string", "bytes"];
    let missing: Vec<_> = optional.iter().filter(|kind| !kinds(true).contains(**kind)).collect();
    assert!(missing.is_empty(), "no table has optional columns of {missing:?}");
    opened.close().expect("no session uses it");
}
