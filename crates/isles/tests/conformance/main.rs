//! One suite for all engines of the library: every verb, every type of column, every kind of index,
//! closures and objects, typed and described rows, in generated programs that are compared with a
//! model (maps of the standard library); and the classic anomalies, step by step. `surface.rs`
//! lists the functions in the library's source, and a test for each engine fails for functions that
//! the suite has not called there.
//!
//! `ISLES_CONFORMANCE_PROGRAMS=N` runs N programs and schedules on each engine; CI runs a few.
#![allow(missing_docs)]
// These are programs that use the library, with their own threads, clocks and files.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod administration;
mod altering;
mod anomalies;
mod apply;
mod buckets;
mod calls;
mod changes;
mod constraints;
mod deployed;
mod engines;
mod faults;
mod interleaved;
mod long_rows;
mod model;
mod operation;
mod procedures;
mod programs;
mod rows;
mod sorted_rows;
mod sql_rows;
mod surface;
mod verbs;

use anomalies::AnomalyResults;
use engines::Engine;
use interleaved::ExecutionMode;
use isles::Scheme;
use programs::{Program, count};

/// Number of transactions of a program.
const TRANSACTIONS: usize = 60;

/// The model agrees with the engine, and every function of the library was called on it.
fn conforms(engine: Engine) {
    for number in 0..count(4) {
        Program::draw(engine, number, TRANSACTIONS).check();
    }
    administration::call_all(engine);
    let all = match engine {
        Engine::Deployment => surface::of_deployments(),
        Engine::Pages => surface::of_pages(),
        _ => surface::of_databases(),
    };
    let called = calls::of(&engine.name());
    let missing: Vec<_> = all.difference(&called).collect();
    assert!(missing.is_empty(), "the suite calls none of these on {}: {missing:?}", engine.name());
}

fn has_no_anomalies(engine: Engine) {
    for mode in [ExecutionMode::OneThread, ExecutionMode::Threads] {
        let AnomalyResults { wrong, committed } = anomalies::run_all(engine, mode).expect("no step hangs");
        assert!(wrong.is_empty(), "{} in {mode:?}: {wrong:#?}", engine.name());
        // Two conflicting transactions may both give up, but an engine on which all do so proves
        // nothing.
        let least = anomalies::cases().len() / 2;
        assert!(
            committed >= least,
            "{} in {mode:?}: a transaction committed in {committed} cases",
            engine.name()
        );
    }
}

fn is_serializable(engine: Engine) {
    for mode in [ExecutionMode::OneThread, ExecutionMode::Threads] {
        let marks = interleaved::run_generated(engine, mode, count(40)).unwrap_or_else(|why| panic!("{why}"));
        assert!(marks.several > 0, "{} in {mode:?}: {marks:?}", engine.name());
    }
}

/// The tests of each engine.
macro_rules! engines {
    ($($name:ident: $engine:expr;)+) => { $(
        mod $name {
            use super::*;

            #[test]
            fn every_function_agrees_with_the_model() {
                conforms($engine);
            }

            #[test]
            fn the_classic_anomalies_do_not_happen() {
                has_no_anomalies($engine);
            }

            #[test]
            fn concurrent_transactions_are_serializable() {
                is_serializable($engine);
            }
        }
    )+

        #[test]
        fn all_engines_are_tested() {
            assert_eq!(vec![$($engine),+], Engine::all());
        }
    };
}

/// Two and three instances, under every scheme.
#[test]
fn concurrent_procedures_are_serializable() {
    for number in 0..Scheme::ALL.len() as u64 {
        let marks = procedures::run(number, count(15)).unwrap_or_else(|why| panic!("{why}"));
        assert!(marks.several > 0, "deployment {number}: {marks:?}");
    }
}

engines! {
    silo: Engine::Memory(Scheme::Silo);
    tictoc: Engine::Memory(Scheme::TicToc);
    occ: Engine::Memory(Scheme::Occ);
    mvcc: Engine::Memory(Scheme::Mvcc);
    no_wait: Engine::Memory(Scheme::NoWait);
    wait_die: Engine::Memory(Scheme::WaitDie);
    dl_detect: Engine::Memory(Scheme::DlDetect);
    hstore: Engine::Memory(Scheme::Hstore);
    pages: Engine::Pages;
    deployment: Engine::Deployment;
}
