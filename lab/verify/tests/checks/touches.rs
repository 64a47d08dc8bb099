//! Checks that transactions declare the shared memory that they access
//! (`docs/declaring-touches.md`).
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use sim::{Config, Shape};
use verify::{Machine, Trial, Work};

const WORKERS: usize = 3;

/// Regions and functions whose undeclared accesses are known; `docs/declaring-touches.md` lists the
/// reasons.
const UNDECLARED: &[&str] =
    &["catalog", "memory limit", "WriteBuffer::keep_edges", "mvcc::versions::prepend"];

/// Runs a small workload of all schemes and over pages on a machine that compares accesses with
/// declarations.
fn check(work: Work, seeds: std::ops::Range<u64>) {
    let config = Config {
        checks_touches: true,
        unchecked: UNDECLARED,
        memory_bytes: 256 << 20,
        ..Config::new(Shape::new(2, WORKERS, 1))
    };
    let machine = Machine::Described(Box::new(config));
    let pages = verify::Subject::of_pages();
    let mut wrong = Vec::new();
    for subject in verify::schemes().into_iter().chain([pages]).filter(|subject| subject.runs(work)) {
        for seed in seeds.clone() {
            let trial = Trial { subject: &subject, work, machine: &machine, workers: Some(WORKERS), seed };
            let verdict = trial.run();
            if let Some(failure) = verdict.failure {
                wrong.push(format!("{} seed {seed}: {}", subject.name, failure.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn histories_declare_what_they_touch() {
    check(Work::Histories, 0..2);
}

#[test]
fn ycsb_declares_what_it_touches() {
    check(Work::Ycsb, 0..1);
}
