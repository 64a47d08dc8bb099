//! `tictoc` (Yu et al., SIGMOD 2016): the rows that a transaction used decide at which time it
//! commits. A row is valid from the time of its writer (`wts`) to a time that readers move on
//! (`rts`).

use concurrency::{Silo, TicToc};
use terms::Fault;

use crate::history::{commit_order, commit_order_with, execute, execute_with};

/// Transaction 4 makes `y` young, so that transaction 3 reads `x` at a later time than 1 needs.
/// The writer of `x` then comes after that time.
const READ_IN_TIME: &str = "w4(y) c4 r3(x) w3(y) c3 r1(x) w2(x) c2 w1(z) c1";

#[test]
fn a_reader_commits_before_the_writer_that_overwrote_its_row() {
    assert!(execute::<TicToc>(READ_IN_TIME).ends_with("r1(x)=0 w2(x) c2 w1(z) c1"));
    assert!(execute::<Silo>(READ_IN_TIME).ends_with("r1(x)=0 w2(x) c2 w1(z) a1(ReadChanged)"));
    assert_eq!(commit_order::<TicToc>(READ_IN_TIME), "1 = 4 < 3 < 2");
}

#[test]
fn a_reader_aborts_if_its_row_is_overwritten_and_was_not_valid_long_enough() {
    let history = "r1(x) w2(x) c2 r1(y) w1(y) c1";
    assert_eq!(execute::<TicToc>(history), "r1(x)=0 w2(x) c2 r1(y)=0 w1(y) a1(ReadChanged)");
    let without_validation = execute_with::<TicToc>(&[Fault::UncheckedReads], history);
    assert_eq!(without_validation, "r1(x)=0 w2(x) c2 r1(y)=0 w1(y) c1");
}

#[test]
fn a_writer_commits_after_all_readers_of_the_version_that_it_overwrites() {
    let history = "w4(y) c4 r1(x) w1(y) c1 w2(x) c2";
    assert_eq!(commit_order::<TicToc>(history), "4 < 1 < 2");
    assert_ne!(commit_order_with::<TicToc>(&[Fault::UnusedReadTimes], history), "4 < 1 < 2");
}

#[test]
fn a_row_that_was_read_and_written_must_not_have_changed() {
    let history = "r1(x) r2(x) w1(x) w2(x) c2 c1";
    assert_eq!(execute::<TicToc>(history), "r1(x)=0 r2(x)=0 w1(x) w2(x) c2 a1(ReadChanged)");
}

#[test]
fn an_insertion_into_a_scanned_range_aborts_the_scan() {
    let history = "q1(a-e) i2(b) c2 w1(x) c1";
    assert_eq!(execute::<TicToc>(history), "q1(a-e)=ace i2(b) c2 w1(x) a1(Phantom)");
    let without_witnesses = execute_with::<TicToc>(&[Fault::UncheckedLeaves], history);
    assert_eq!(without_witnesses, "q1(a-e)=ace i2(b) c2 w1(x) c1");
}

#[test]
fn an_insertion_commits_after_the_transactions_that_saw_the_key_absent() {
    let history = "w4(y) c4 r1(b) r1(y) w1(y) c1 i2(b) c2";
    assert_eq!(commit_order::<TicToc>(history), "4 < 1 < 2");
    assert_ne!(commit_order_with::<TicToc>(&[Fault::MissingTraces], history), "4 < 1 < 2");
}

#[test]
fn a_transaction_that_sees_a_key_absent_commits_after_its_deletion() {
    let history = "w4(y) c4 r2(y) d2(c) c2 r1(c) w1(x) c1";
    assert_eq!(commit_order::<TicToc>(history), "4 < 2 < 1");
    assert_ne!(commit_order_with::<TicToc>(&[Fault::IgnoredRemovals], history), "4 < 2 < 1");
}

#[test]
fn a_commit_waits_a_moment_for_a_locked_row() {
    assert_eq!(execute::<TicToc>("w1(x) p1 w2(x) c2 c1"), "w1(x) p1 w2(x) a2(Locked) c1");
}
