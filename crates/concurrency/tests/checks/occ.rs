//! `occ` (Kung, Robinson, TODS 1981): the first read of a row copies it to a private workspace. A
//! row that was written since the transaction began aborts the reader at once.

use concurrency::{Occ, Silo};
use terms::Fault;

use crate::history::{commit_order, execute, execute_with};

#[test]
fn all_rows_are_read_as_they_were_when_the_transaction_began() {
    let history = "b1 w2(x) c2 r1(x) c1";
    assert_eq!(execute::<Occ>(history), "b1 w2(x) c2 a1(ReadChanged)");
    assert_eq!(execute::<Silo>(history), "b1 w2(x) c2 r1(x)=2 c1");
}

#[test]
fn a_row_is_read_again_from_the_workspace() {
    assert_eq!(execute::<Occ>("r1(x) w2(x) c2 r1(x) c1"), "r1(x)=0 w2(x) c2 r1(x)=0 a1(ReadChanged)");
}

#[test]
fn a_row_that_was_read_and_then_overwritten_aborts_the_reader() {
    let history = "r1(x) w2(x) c2 w1(y) c1";
    assert_eq!(execute::<Occ>(history), "r1(x)=0 w2(x) c2 w1(y) a1(ReadChanged)");
    let without_validation = execute_with::<Occ>(&[Fault::UncheckedReads], history);
    assert_eq!(without_validation, "r1(x)=0 w2(x) c2 w1(y) c1");
}

#[test]
fn a_blind_write_does_not_depend_on_the_version_that_it_overwrites() {
    assert_eq!(execute::<Occ>("w1(x) w2(x) c2 c1"), "w1(x) w2(x) c2 c1");
    assert_eq!(commit_order::<Occ>("w1(x) w2(x) c2 c1"), "2 < 1");
}

#[test]
fn keys_are_seen_as_they_are_and_validated_by_leaf() {
    let history = "b1 i2(b) c2 q1(a-e) c1";
    assert_eq!(execute::<Occ>(history), "b1 i2(b) c2 a1(ReadChanged)");
    assert_eq!(execute::<Occ>("q1(a-e) i2(b) c2 w1(x) c1"), "q1(a-e)=ace i2(b) c2 w1(x) a1(Phantom)");
    assert_eq!(execute::<Occ>("b1 d2(c) c2 q1(a-e) c1"), "b1 d2(c) c2 q1(a-e)=ae c1");
}

#[test]
fn a_commit_aborts_at_a_row_that_stays_locked() {
    // The wait for a row that was only read ends after some microseconds.
    assert_eq!(execute::<Occ>("r2(x) w2(y) w1(x) p1 c2 c1"), "r2(x)=0 w2(y) w1(x) p1 a2(Locked) c1");
    assert_eq!(execute::<Occ>("r2(x) w2(x) w1(x) p1 c2 c1"), "r2(x)=0 w2(x) w1(x) p1 a2(Locked) c1");
}
