//! Calls that the operating system refuses while a durable database is open.
// Refusals of the real system need processes, and their directories.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};

use sim::{Call, Refusal};
use verify::crashes::killed_instances;
use verify::crashes::refusals::native::{self, Limit, MemoryDisk, RefusedCalls};
use verify::crashes::refusals::{self, Planted, RefusalMarks};
use verify::{Subject, scheme};

use crate::support::{child_process, place};

/// Seeds of each engine: each kind of call four times.
const SEEDS: u64 = 4 * Call::ALL.len() as u64;
/// Workers of a process.
const WORKERS: usize = 3;

/// Runs seeds. Returns the sum of their counts, the kinds of refused calls, and violations.
fn run(
    subject: &Subject,
    seeds: std::ops::Range<u64>,
    planted: Planted,
) -> (RefusalMarks, Vec<Call>, Vec<String>) {
    let (mut sum, mut calls, mut wrong) = (RefusalMarks::default(), Vec::new(), Vec::new());
    for seed in seeds {
        let refusal = refusals::refusal(seed);
        let (marks, more) = refusals::try_seed(subject, seed, refusal, planted).expect("a machine");
        sum.add(marks);
        if marks.refused > 0 {
            calls.push(refusal.call);
        }
        wrong.extend(more.into_iter().map(|what| format!("{} {seed}: {what}", subject.name)));
    }
    println!("{}: {sum:?}", subject.name);
    (sum, calls, wrong)
}

#[test]
fn what_was_acknowledged_is_there_after_refusals() {
    for subject in ["silo", "mvcc", "2pl"].map(|name| scheme(name).expect("a scheme")) {
        let (marks, calls, wrong) = run(&subject, 0..SEEDS, Planted::Nothing);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let least = [marks.openings, marks.workers, marks.went_on].into_iter().min();
        assert!(least > Some(0), "{marks:?}");
        let missing: Vec<Call> = Call::ALL.into_iter().filter(|call| !calls.contains(call)).collect();
        assert!(missing.is_empty(), "{}: {missing:?} was never refused", subject.name);
    }
}

/// Refusals that once revealed an error, by scheme and seed.
const ONCE_WRONG: [(&str, u64, Call, u64); 5] = [
    // The next opening relied on a group of the log that was written, but not flushed.
    (pages::TWO_PHASE_LOCKING, 17, Call::Read, 8),
    // Closing waited for a copy that an earlier attempt had sent, without letting time pass.
    (pages::TWO_PHASE_LOCKING, 12, Call::Write, 8),
    ("silo", 19, Call::Flush, 12),
    // Commits that could no longer be refused found no memory for their records, and the log
    // stopped.
    ("silo", 266, Call::Map, 23),
    ("hstore", 266, Call::Map, 23),
];

#[test]
fn what_went_wrong_once_does_not_again() {
    for (name, seed, call, after) in ONCE_WRONG {
        let subject = scheme(name).expect("a scheme");
        for times in [1, u64::MAX] {
            let refusal = Refusal { call, after, times };
            let (marks, wrong) =
                refusals::try_seed(&subject, seed, refusal, Planted::Nothing).expect("a machine");
            assert!(wrong.is_empty() && marks.refused > 0, "{name} {seed}, {marks:?}: {wrong:?}");
        }
    }
}

#[test]
fn acknowledgements_of_what_was_refused_are_caught() {
    let silo = scheme("silo").expect("a scheme");
    let refusal = Refusal { call: Call::Flush, after: 8, times: u64::MAX };
    let (_, wrong) = refusals::try_seed(&silo, 0, refusal, Planted::AcknowledgesEarly).expect("a machine");
    assert!(wrong.iter().any(|what| what.contains("acknowledged")), "{wrong:?}");
}

#[test]
fn databases_that_do_not_try_again_are_caught() {
    let silo = scheme("silo").expect("a scheme");
    let refusal = Refusal { call: Call::Map, after: 40, times: u64::MAX };
    let caught = |after| {
        let refusal = Refusal { after, ..refusal };
        let (_, wrong) = refusals::try_seed(&silo, 0, refusal, Planted::StaysRefused).expect("a machine");
        wrong.iter().any(|what| what.contains("does not go on"))
    };
    assert!((0..200).step_by(5).any(caught));
}

#[test]
fn processes_whose_limits_are_lowered_go_on_or_stop_in_words() {
    if let Some(what) = native::missing_for_limits() {
        eprintln!("missing: {what}; no limit was lowered");
        return;
    }
    for subject in ["silo", "2pl"].map(|name| scheme(name).expect("a scheme")) {
        let path = place(&format!("limits-{}", subject.name));
        let limits =
            [Limit::Descriptors, Limit::FileBytes(16 << 10), Limit::Descriptors, Limit::FileBytes(0)];
        let mut command = |number| child_process(&subject, &path, number);
        let lowered = native::run_with_lowered_limits(&subject, &path, WORKERS, &limits, &mut command)
            .expect("processes");
        println!("{}: {lowered:?}", subject.name);
        assert!(lowered.violations.is_empty(), "{lowered:?}");
        assert!(lowered.went_on >= 2, "{lowered:?}");
        std::fs::remove_dir_all(&path).expect("the test's directory");
    }
}

/// Each kind of call, at several positions of openings and afterwards; once, and for a while.
fn refused_calls() -> Vec<RefusedCalls> {
    let at = |kind: RefusedCalls, places: &[(u64, u64)]| -> Vec<RefusedCalls> {
        places.iter().map(|(first, times)| RefusedCalls { first: *first, times: *times, ..kind }).collect()
    };
    [
        at(RefusedCalls::RENAME, &[(1, 1), (3, 4)]),
        at(RefusedCalls::UNLINK, &[(1, 1), (2, 4)]),
        // The program itself starts the first thread.
        at(RefusedCalls::THREAD, &[(2, 1), (3, 2)]),
        at(RefusedCalls::MAP, &[(5, 1), (12, 1), (30, 4)]),
    ]
    .concat()
}

#[test]
fn processes_whose_calls_are_refused_go_on_or_stop_in_words() {
    if let Some(what) = native::missing_for_tracing() {
        eprintln!("missing: {what}; no call was refused");
        return;
    }
    for subject in ["silo", "2pl"].map(|name| scheme(name).expect("a scheme")) {
        let path = place(&format!("calls-{}", subject.name));
        let mut command = |number| child_process(&subject, &path, number);
        let done = native::run_with_refused_calls(&subject, &path, WORKERS, &refused_calls(), &mut command)
            .expect("processes");
        println!("{}: {done:?}", subject.name);
        assert!(done.violations.is_empty(), "{done:?}");
        assert!(done.went_on > 0 && done.stopped > 0 && done.refused > done.lives / 2, "{done:?}");
        // Injected: a refusal that ends the log is repeated.
        let flush = [RefusedCalls { first: 12, times: 60_000, ..RefusedCalls::FLUSH }];
        let planted = native::run_with_refused_calls(&subject, &path, WORKERS, &flush, &mut command)
            .expect("processes");
        assert!(planted.violations.iter().any(|what| what.contains("does not go on")), "{planted:?}");
        std::fs::remove_dir_all(&path).expect("the test's directory");
    }
}

/// The example that runs deployments, which is built with all tests.
fn deployments() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.parent()?.parent()?.join("examples/kills");
    program.exists().then_some(program)
}

#[test]
fn deployments_whose_sockets_are_refused_lose_nothing() {
    let lacks = native::missing_for_tracing();
    let program = deployments();
    let (None, Some(program)) = (lacks, program) else {
        eprintln!("missing: {}; no socket was refused", lacks.unwrap_or("the example kills"));
        return;
    };
    let at = |kind: RefusedCalls, first, times| RefusedCalls { first, times, ..kind };
    let refusals = [
        at(RefusedCalls::SOCKET, 1, 1),
        at(RefusedCalls::SOCKET, 2, 2),
        at(RefusedCalls::SOCKET_BYTES, 3, 1),
        at(RefusedCalls::SOCKET_BYTES, 200, 1),
        at(RefusedCalls::SOCKET_BYTES, 300, 4),
    ];
    let path = place("sockets");
    let (done, refused) =
        killed_instances::refuse_repeatedly(&program, &path, &refusals, false).expect("processes");
    println!("{done:?}, {refused} refused");
    assert!(done.violations.is_empty(), "{done:?}");
    assert!(done.acknowledged > 0 && refused >= 5, "{done:?}, {refused} refused");
    // Injected: too many numbers count as acknowledged.
    let (planted, _) =
        killed_instances::refuse_repeatedly(&program, &path, &refusals[..1], true).expect("processes");
    assert!(!planted.violations.is_empty(), "{planted:?}");
    std::fs::remove_dir_all(&path).expect("the test's directory");
}

#[test]
fn processes_whose_flushes_are_interrupted_go_on() {
    if let Some(what) = native::missing_for_interrupts() {
        eprintln!("missing: {what}; no flush was interrupted");
        return;
    }
    for subject in ["silo", "2pl"].map(|name| scheme(name).expect("a scheme")) {
        let path = place(&format!("interrupted-{}", subject.name));
        let command = child_process(&subject, &path, 0);
        let told = native::run_with_interrupted_flushes(&subject, &path, WORKERS, &command)
            .expect("flushes are tried again");
        println!("{}: {told} acknowledgements", subject.name);
        std::fs::remove_dir_all(&path).expect("the test's directory");
    }
}

#[test]
fn what_was_acknowledged_is_on_a_disk_that_is_full_or_takes_no_space_ahead() {
    let small = MemoryDisk::Small;
    for (name, disk) in
        [("silo", small(600 << 10)), ("2pl", small(3 << 20)), ("2pl", MemoryDisk::WithoutSpaceAhead)]
    {
        let subject = scheme(name).expect("a scheme");
        let path = place(&format!("full-{name}"));
        let mut command = |path: &Path| child_process(&subject, path, 1);
        match native::run_on_memory_disk(&subject, &path, WORKERS, disk, &mut command)
            .expect("nothing is lost")
        {
            None => eprintln!("missing: a mount namespace; no transaction ran on {disk:?}"),
            Some(acknowledged) => {
                println!("{name}: {acknowledged} acknowledgements on {disk:?}");
                assert!(acknowledged > 0, "{disk:?}");
                std::fs::remove_dir_all(&path).expect("the test's directory");
            }
        }
    }
}
