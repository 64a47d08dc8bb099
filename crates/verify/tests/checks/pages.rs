//! Histories and crashes of databases over pages, and mutants of their locks, their log and their restart.

use paged::Broken;
use verify::{Machine, Subject, Trial, Work};

/// The first of these seeds that shows something wrong, and what.
fn first_failure(subject: &Subject, work: Work, seeds: std::ops::Range<u64>) -> Option<String> {
    let (mut transactions, mut aborts) = (0, 0);
    let trial = |seed| Trial { subject, work, machine: &Machine::Small, workers: None, seed }.run();
    let failure = seeds.map(trial).find_map(|verdict| {
        transactions += verdict.transactions;
        aborts += verdict.aborts;
        verdict.failure
    });
    let has_seen = transactions > 0 && (aborts > 0 || work == Work::Crashes);
    assert!(failure.is_some() || has_seen, "nothing was seen");
    failure.map(|failure| format!("seed {}: {}", failure.seed, failure.what))
}

#[test]
fn histories_over_pages_are_serializable() {
    let subject = verify::scheme(paged::TWO_PHASE_LOCKING).expect("the scheme of pages");
    assert_eq!(first_failure(&subject, Work::Histories, 0..60), None);
}

#[test]
fn mutants_of_locks_are_caught() {
    let gaps = Broken { gaps: true, ..Broken::default() };
    let reads = Broken { read_locks: true, ..Broken::default() };
    let intents = Broken { intents: true, ..Broken::default() };
    let inherited = Broken { keeps_inherited: true, ..Broken::default() };
    let mutants = [
        ("no locks of gaps", gaps),
        ("no locks of reads", reads),
        ("no intentions", intents),
        ("inherited locks stay", inherited),
    ];
    for (name, broken) in mutants {
        let subject = Subject::of_pages(name, broken);
        assert!(first_failure(&subject, Work::Histories, 0..200).is_some(), "{name} was not noticed");
    }
}

#[test]
fn crashes_of_pages_lose_nothing_that_was_acknowledged() {
    let subject = verify::scheme(paged::TWO_PHASE_LOCKING).expect("the scheme of pages");
    assert_eq!(first_failure(&subject, Work::Crashes, 0..150), None);
}

#[test]
fn mutants_of_log_and_restart_are_caught() {
    let sound = Broken::default();
    let mutants = [
        ("pages before their log", Broken { log_first: true, ..sound }),
        ("no images of pages", Broken { images: true, ..sound }),
        ("no undo at restart", Broken { undo: true, ..sound }),
        ("no compensation", Broken { compensation: true, ..sound }),
        ("acknowledged in memory", Broken { flushes: true, ..sound }),
    ];
    for (name, broken) in mutants {
        let subject = Subject::of_pages(name, broken);
        let failure = first_failure(&subject, Work::Crashes, 0..400);
        println!("{name}: {failure:?}");
        assert!(failure.is_some(), "{name} was not noticed");
    }
}
