//! Histories of databases over pages, and mutants of their locks.

use paged::Broken;
use verify::{Machine, Subject, Trial, Work};

/// The first of these seeds whose history is wrong, and what is.
fn first_failure(subject: &Subject, seeds: std::ops::Range<u64>) -> Option<String> {
    let (mut observations, mut aborts) = (0, 0);
    let trial =
        |seed| Trial { subject, work: Work::Histories, machine: &Machine::Small, workers: None, seed }.run();
    let failure = seeds.map(trial).find_map(|verdict| {
        observations += verdict.observations;
        aborts += verdict.aborts;
        verdict.failure
    });
    assert!(failure.is_some() || (observations > 0 && aborts > 0), "nothing was seen");
    failure.map(|failure| format!("seed {}: {}", failure.seed, failure.what))
}

#[test]
fn histories_over_pages_are_serializable() {
    let subject = verify::scheme(paged::TWO_PHASE_LOCKING).expect("the scheme of pages");
    assert_eq!(first_failure(&subject, 0..60), None);
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
        assert!(first_failure(&subject, 0..200).is_some(), "{name} was not noticed");
    }
}
