//! Sequences: numbers are given once, by threads, across openings and across crashes.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use isles::{Database, Error, Sequence, SequenceOptions};
use terms::{Fault, Faults};

use crate::common::Directory;

/// The directory of a process that this test started, and its fault.
const PATH: &str = "ISLES_TEST_SEQUENCE";
const FAULT: &str = "ISLES_TEST_SEQUENCE_FAULT";

fn open_at(path: &Path) -> Database {
    let mut builder = Database::at(path);
    builder.sequences();
    builder.open().expect("a database")
}

fn in_memory() -> Database {
    let mut builder = Database::in_memory();
    builder.sequences();
    builder.open().expect("a database")
}

fn sequence(database: &Database, options: SequenceOptions) -> Sequence {
    database.sequence("numbers", options).expect("a sequence")
}

#[test]
fn threads_get_each_number_once() {
    let database = in_memory();
    let numbers = sequence(&database, SequenceOptions::new().block(7));
    let take = || (0..1_000).map(|_| numbers.next_value().expect("a number")).collect::<Vec<_>>();
    let taken: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(taken.iter().all(|of_one| of_one.is_sorted()), "a thread gets ascending numbers");
    let all: BTreeSet<i64> = taken.into_iter().flatten().collect();
    assert!(all.into_iter().eq(1..=4_000), "each number, and none twice");
}

#[test]
fn handles_share_their_numbers_and_differing_options_are_refused() {
    let database = in_memory();
    let first = sequence(&database, SequenceOptions::new());
    let second = sequence(&database, SequenceOptions::new().block(3));
    assert_eq!([first.next_value(), second.next_value(), first.next_value()], [Ok(1), Ok(2), Ok(3)]);
    let refused = database.sequence("numbers", SequenceOptions::new().first(0));
    assert!(matches!(refused, Err(Error::Declaration { .. })), "{refused:?}");
    assert!(matches!(database.drop_sequence("numbers"), Err(Error::Misuse(_))), "it has handles");
    drop((first, second));
    let refused = database.sequence("numbers", SequenceOptions::new().increment(2));
    assert!(matches!(refused, Err(Error::Declaration { .. })), "also without handles: {refused:?}");
    assert!(sequence(&database, SequenceOptions::new()).next_value().expect("a number") > 3);
    assert_eq!(database.drop_sequence("numbers"), Ok(true));
    assert_eq!(database.drop_sequence("numbers"), Ok(false));
    let anew = sequence(&database, SequenceOptions::new().first(i64::MIN).last(i64::MAX));
    assert_eq!(anew.next_value(), Ok(i64::MIN));
}

#[test]
fn names_and_options_without_numbers_are_refused() {
    let database = in_memory();
    let long = "n".repeat(49);
    let options = [
        ("", SequenceOptions::new()),
        (&*long, SequenceOptions::new()),
        ("numbers", SequenceOptions::new().increment(0)),
        ("numbers", SequenceOptions::new().last(0)),
        ("numbers", SequenceOptions::new().increment(-1).last(2)),
    ];
    for (name, options) in options {
        let refused = database.sequence(name, options.clone());
        assert!(matches!(refused, Err(Error::Declaration { .. })), "{name} {options:?}: {refused:?}");
    }
    let without = Database::in_memory().open().expect("a database");
    let refused = without.sequence("numbers", SequenceOptions::new());
    assert!(matches!(&refused, Err(Error::NoSuchTable(why)) if why.contains("Builder::sequences")));
}

#[test]
fn a_sequence_ends_with_its_last_number() {
    let database = in_memory();
    let ends = |numbers: &Sequence| matches!(numbers.next_value(), Err(Error::SequenceEnd { sequence }) if sequence == "numbers");
    for (first, last, increment, count) in
        [(1, 10, 4, 3), (5, 5, 1, 1), (-1, -9, -2, 5), (i64::MAX - 1, i64::MAX, 1, 2)]
    {
        let options = SequenceOptions::new().first(first).last(last).increment(increment).block(2);
        let numbers = sequence(&database, options);
        let given: Vec<_> = (0..count).map(|_| numbers.next_value().expect("a number")).collect();
        assert!(
            given.iter().zip(0..).all(|(number, place)| *number == first + place * increment),
            "{given:?}"
        );
        assert!(ends(&numbers) && ends(&numbers));
        drop(numbers);
        database.drop_sequence("numbers").expect("no handles");
    }
    let numbers = sequence(&database, SequenceOptions::new().last(10));
    assert_eq!(numbers.next_values(8).expect("eight").len(), 8);
    assert!(numbers.next_values(3).is_err(), "two are left");
    assert!(ends(&numbers), "and are skipped");
}

#[test]
fn numbers_are_raised_and_never_lowered() {
    let database = in_memory();
    let numbers = sequence(&database, SequenceOptions::new().first(10).increment(10));
    for (to, next) in [(5, 10), (11, 20), (10, 30), (41, 50), (i64::MIN, 60)] {
        numbers.raise_to(to).expect("raised");
        assert_eq!(numbers.next_value(), Ok(next), "raised to {to}");
    }
    numbers.raise_to(i64::MAX).expect("raised");
    assert!(numbers.next_value().is_err(), "no number is beyond");
}

#[test]
fn numbers_are_taken_inside_transactions() {
    let database = Database::in_memory().sessions(2);
    let mut builder = database;
    builder.sequences();
    let database = builder.open().expect("a database");
    let numbers = sequence(&database, SequenceOptions::new().block(1));
    let mut session = database.session().expect("the second place");
    let taken = session.transaction(|_| Ok((numbers.next_value()?, numbers.next_value()?)));
    assert_eq!(taken, Ok((1, 2)));
    let refused = session.transaction(|_| numbers.next_value().and(Err::<(), _>(Error::RollBack)));
    assert_eq!(refused, Err(Error::RollBack));
    assert_eq!(numbers.next_value(), Ok(4), "a number that was rolled back is not given again");
    drop(session);
    assert!(matches!(database.close(), Err(Error::InUse { .. })), "the sequence keeps it open");
}

/// Takes a number in a process that ends at once, `faults` planted, and returns the number.
fn take_and_crash(path: &Path, fault: bool) -> i64 {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "sequences::a_crash_repeats_no_number", "--nocapture"]).env(PATH, path);
    if fault {
        command.env(FAULT, "1");
    }
    let output = command.output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    let number = text.lines().find_map(|line| line.split("number ").nth(1)).expect("a number");
    number.trim().parse().expect("a number")
}

#[test]
fn a_crash_repeats_no_number() {
    if let Some(path) = std::env::var_os(PATH).map(PathBuf::from) {
        let fault = std::env::var_os(FAULT).is_some();
        let faults = if fault { Faults::of(&[Fault::EarlyNumbers]) } else { Faults::NONE };
        let numbers = sequence(&open_at(&path), SequenceOptions::new().block(3).with_faults(faults));
        println!("number {}", numbers.next_value().expect("a number"));
        std::process::abort();
    }
    let take = |name: &str, fault: bool| {
        let directory = Directory::new(name);
        open_at(&directory.0).close().expect("no session uses it");
        drop(sequence(&open_at(&directory.0), SequenceOptions::new()));
        (0..3).map(|_| take_and_crash(&directory.0, fault)).collect::<Vec<_>>()
    };
    let taken = take("sequences-crash", false);
    assert!(taken.is_sorted_by(|earlier, later| earlier < later), "{taken:?}");
    assert_eq!(taken, [1, 4, 7], "no more than a block is skipped");
    let repeated = take("sequences-fault", true);
    assert!(!repeated.is_sorted_by(|earlier, later| earlier < later), "the fault is noticed: {repeated:?}");
}
