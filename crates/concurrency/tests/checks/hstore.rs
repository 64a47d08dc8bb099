//! `hstore` (Kallman et al., PVLDB 2008): a transaction locks whole partitions and has them to
//! itself. The rows `a`, `c`, `e` are one partition, `x`, `y`, `z` another one.

use concurrency::Hstore;
use terms::Fault;

use crate::history::{commit_order, execute, execute_with};

#[test]
fn a_transaction_has_its_partition_to_itself() {
    // The transactions use different rows, and one only reads.
    assert_eq!(execute::<Hstore>("w1(x) r2(y) c1 c2"), "w1(x) c1 r2(y)=0 c2");
    assert_eq!(execute::<Hstore>("r1(x) r2(x) c1 c2"), "r1(x)=0 c1 r2(x)=0 c2");
}

#[test]
fn transactions_of_different_partitions_run_side_by_side() {
    assert_eq!(execute::<Hstore>("w1(x) w2(a) c2 c1"), "w1(x) w2(a) c2 c1");
}

#[test]
fn a_partition_above_all_held_ones_is_waited_for() {
    assert_eq!(execute::<Hstore>("w2(x) w1(a) w1(x) c2 c1"), "w2(x) w1(a) c2 w1(x) c1");
}

#[test]
fn a_partition_below_a_held_one_is_locked_only_if_it_is_free() {
    assert_eq!(execute::<Hstore>("w1(x) w1(a) c1"), "w1(x) w1(a) c1");
    assert_eq!(execute::<Hstore>("w2(a) w1(x) w1(a) c2"), "w2(a) w1(x) a1(Locked) c2");
}

#[test]
fn another_attempt_begins_with_all_partitions_that_the_last_one_named() {
    // Otherwise it would lock `x` at once, and 3 would wait for it.
    let history = "w2(a) w1(x) w1(a) b1 w1(x) c2 w1(a) c1";
    assert_eq!(execute::<Hstore>(history), "w2(a) w1(x) a1(Locked) b1 c2 w1(x) w1(a) c1");
}

#[test]
fn announced_partitions_are_locked_in_order_before_the_first_row() {
    let history = "e1(x) e1(a) r1(x) r2(a) c1 c2";
    assert_eq!(execute::<Hstore>(history), "e1(x) e1(a) r1(x)=0 c1 r2(a)=0 c2");
}

#[test]
fn writes_are_in_place_and_are_taken_back_by_an_abort() {
    let history = "w1(x) i1(v) d1(y) a1 r2(x) r2(v) r2(y) c2";
    assert_eq!(execute::<Hstore>(history), "w1(x) i1(v) d1(y) a1 r2(x)=0 r2(v)=- r2(y)=0 c2");
    let without_undo = execute_with::<Hstore>(&[Fault::MissingUndo], "w1(x) a1 r2(x) c2");
    assert_eq!(without_undo, "w1(x) a1 r2(x)=1 c2");
}

#[test]
fn nothing_enters_a_partition_that_is_scanned() {
    assert_eq!(execute::<Hstore>("q1(a-e) i2(b) c1 c2"), "q1(a-e)=ace c1 i2(b) c2");
}

#[test]
fn commits_are_in_the_order_of_the_partitions_locks() {
    assert_eq!(commit_order::<Hstore>("w2(x) w1(x) c2 c1"), "2 < 1");
}

#[test]
fn no_transaction_waits_for_ever() {
    assert_eq!(execute::<Hstore>("w1(x) w2(x) . c1"), "w1(x) a2(Locked) c1");
}
