//! `silo` (Tu et al., SOSP 2013): reads take no locks, writes are kept aside until the commit, and
//! the commit validates that what was read is still the latest version.

use concurrency::Silo;
use terms::Fault;

use crate::history::{commit_order, execute, execute_with};

#[test]
fn a_row_that_was_read_and_then_overwritten_aborts_the_reader() {
    let history = "r1(x) w2(x) c2 w1(y) c1";
    assert_eq!(execute::<Silo>(history), "r1(x)=0 w2(x) c2 w1(y) a1(ReadChanged)");
    let without_validation = execute_with::<Silo>(&[Fault::UncheckedReads], history);
    assert_eq!(without_validation, "r1(x)=0 w2(x) c2 w1(y) c1");
}

#[test]
fn a_transaction_that_only_reads_is_validated_too() {
    assert_eq!(
        execute::<Silo>("r1(x) w2(x) w2(y) c2 r1(y) c1"),
        "r1(x)=0 w2(x) w2(y) c2 r1(y)=2 a1(ReadChanged)"
    );
}

#[test]
fn a_blind_write_does_not_depend_on_the_version_that_it_overwrites() {
    let history = "w1(x) w2(x) c2 c1 r3(x) c3";
    assert_eq!(execute::<Silo>(history), "w1(x) w2(x) c2 c1 r3(x)=1 c3");
    assert_eq!(commit_order::<Silo>("w1(x) w2(x) c2 c1"), "2 < 1");
}

#[test]
fn the_first_of_two_updates_of_a_row_to_commit_wins() {
    let history = "r1(x) r2(x) w1(x) w2(x) c2 c1";
    assert_eq!(execute::<Silo>(history), "r1(x)=0 r2(x)=0 w1(x) w2(x) c2 a1(ReadChanged)");
}

#[test]
fn writes_are_visible_after_the_commit_only() {
    assert_eq!(execute::<Silo>("w1(x) r2(x) c1 r3(x)"), "w1(x) r2(x)=0 c1 r3(x)=1");
    assert_eq!(execute::<Silo>("w1(x) a1 r2(x) c2"), "w1(x) a1 r2(x)=0 c2");
}

#[test]
fn write_skew_aborts_the_later_commit() {
    let history = "r1(x) r1(y) r2(x) r2(y) w1(x) w2(y) c1 c2";
    assert!(execute::<Silo>(history).ends_with("c1 a2(ReadChanged)"));
}

#[test]
fn nothing_waits_for_a_row_that_a_commit_has_locked() {
    // Decision 0020: the paper spins here.
    assert_eq!(execute::<Silo>("r2(x) w2(x) w1(x) p1 c2 c1"), "r2(x)=0 w2(x) w1(x) p1 a2(Locked) c1");
    assert_eq!(execute::<Silo>("r2(x) w2(y) w1(x) p1 c2 c1"), "r2(x)=0 w2(y) w1(x) p1 a2(ReadChanged) c1");
}

#[test]
fn an_insertion_into_a_scanned_range_aborts_the_scan() {
    let history = "q1(a-e) i2(b) c2 w1(x) c1";
    assert_eq!(execute::<Silo>(history), "q1(a-e)=ace i2(b) c2 w1(x) a1(Phantom)");
    let without_witnesses = execute_with::<Silo>(&[Fault::UncheckedLeaves], history);
    assert_eq!(without_witnesses, "q1(a-e)=ace i2(b) c2 w1(x) c1");
}

#[test]
fn an_insertion_of_a_key_that_was_absent_aborts_the_lookup() {
    assert_eq!(execute::<Silo>("r1(b) i2(b) c2 w1(x) c1"), "r1(b)=- i2(b) c2 w1(x) a1(Phantom)");
}

#[test]
fn absence_is_validated_leaf_by_leaf() {
    // The key `d` is not `b`, but lies in the same leaf; `v` lies in another partition.
    assert_eq!(execute::<Silo>("r1(b) i2(d) c2 w1(x) c1"), "r1(b)=- i2(d) c2 w1(x) a1(Phantom)");
    assert_eq!(execute::<Silo>("r1(b) i2(v) c2 w1(x) c1"), "r1(b)=- i2(v) c2 w1(x) c1");
}

#[test]
fn a_deletion_aborts_readers_and_writers_of_the_row() {
    assert_eq!(execute::<Silo>("r1(x) d2(x) c2 w1(y) c1"), "r1(x)=0 d2(x) c2 w1(y) a1(ReadChanged)");
    assert_eq!(execute::<Silo>("w1(x) d2(x) c2 c1"), "w1(x) d2(x) c2 a1(KeyInUse)");
}

#[test]
fn a_reader_commits_after_the_writer_whose_value_it_read() {
    assert_eq!(commit_order::<Silo>("w2(x) c2 r1(x) w1(y) c1 r3(y) w3(z) c3"), "2 < 1 < 3");
}
