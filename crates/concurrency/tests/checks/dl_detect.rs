//! `dl-detect` (Yu et al., PVLDB 2014): two-phase locking in which transactions wait for locks, and
//! search for circles of waiting transactions meanwhile. The youngest of a circle aborts; age is
//! when a transaction first waited.

use concurrency::DlDetect;
use terms::Fault;

use crate::history::{execute, execute_with};

#[test]
fn a_transaction_waits_for_a_lock_whatever_its_age() {
    assert_eq!(execute::<DlDetect>("b1 b2 w1(x) w2(x) c1 c2"), "b1 b2 w1(x) c1 w2(x) c2");
    assert_eq!(execute::<DlDetect>("b1 b2 w2(x) w1(x) c2 c1"), "b1 b2 w2(x) c2 w1(x) c1");
}

#[test]
fn readers_share_a_row_and_a_writer_waits_for_all_of_them() {
    assert_eq!(execute::<DlDetect>("r1(x) r2(x) w3(x) c1 c2 c3"), "r1(x)=0 r2(x)=0 c1 c2 w3(x) c3");
}

#[test]
fn of_two_transactions_that_wait_for_each_other_the_younger_aborts() {
    let history = "w1(x) w2(y) w1(y) w2(x) c1";
    assert_eq!(execute::<DlDetect>(history), "w1(x) w2(y) a2(Deadlock) w1(y) c1");
    let without_detection = execute_with::<DlDetect>(&[Fault::UnresolvedDeadlocks], &format!("{history} ."));
    assert!(!without_detection.contains("Deadlock"), "{without_detection}");
}

#[test]
fn of_a_circle_of_three_the_youngest_aborts() {
    let history = "w1(x) w2(y) w3(z) w1(y) w2(z) w3(x) c2 c1";
    assert_eq!(execute::<DlDetect>(history), "w1(x) w2(y) w3(z) a3(Deadlock) w2(z) c2 w1(y) c1");
}

#[test]
fn two_readers_that_both_want_to_write_are_a_deadlock() {
    let history = "r1(x) r2(x) w1(x) w2(x) c1";
    assert_eq!(execute::<DlDetect>(history), "r1(x)=0 r2(x)=0 a2(Deadlock) w1(x) c1");
}

#[test]
fn a_chain_without_a_circle_waits() {
    let history = "w1(x) w2(y) w2(x) w3(y) c1 c2 c3";
    assert_eq!(execute::<DlDetect>(history), "w1(x) w2(y) c1 w2(x) c2 w3(y) c3");
}

#[test]
fn an_insertion_waits_for_a_scan() {
    assert_eq!(execute::<DlDetect>("q1(a-e) i2(b) c1 c2"), "q1(a-e)=ace c1 i2(b) c2");
}

#[test]
fn no_transaction_waits_for_ever() {
    assert_eq!(execute::<DlDetect>("w1(x) w2(x) . c1"), "w1(x) a2(Locked) c1");
}
