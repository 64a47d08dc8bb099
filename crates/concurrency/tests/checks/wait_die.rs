//! `wait-die` (Rosenkrantz, Stearns, Lewis, TODS 1978): two-phase locking in which the older
//! transaction waits for the younger one, and the younger one dies. Age is when a transaction
//! began its first attempt.

use concurrency::WaitDie;
use terms::Fault;

use crate::history::{execute, execute_with};

#[test]
fn the_older_transaction_waits() {
    let history = "b1 b2 w2(x) w1(x) c2 c1 r3(x)";
    assert_eq!(execute::<WaitDie>(history), "b1 b2 w2(x) c2 w1(x) c1 r3(x)=1");
}

#[test]
fn the_younger_transaction_dies() {
    assert_eq!(execute::<WaitDie>("b1 b2 w1(x) w2(x) c1"), "b1 b2 w1(x) a2(Locked) c1");
    let without_deaths = execute_with::<WaitDie>(&[Fault::UnresolvedDeadlocks], "b1 b2 w1(x) w2(x) c1 c2");
    assert_eq!(without_deaths, "b1 b2 w1(x) c1 w2(x) c2");
}

#[test]
fn the_same_holds_of_readers_and_writers() {
    assert_eq!(execute::<WaitDie>("b1 b2 r2(x) w1(x) c2 c1"), "b1 b2 r2(x)=0 c2 w1(x) c1");
    assert_eq!(execute::<WaitDie>("b1 b2 w2(x) r1(x) c2 c1"), "b1 b2 w2(x) c2 r1(x)=2 c1");
    assert_eq!(execute::<WaitDie>("b1 b2 r1(x) w2(x) c1"), "b1 b2 r1(x)=0 a2(Locked) c1");
    assert_eq!(execute::<WaitDie>("b1 b2 r1(x) r2(x) c1 c2"), "b1 b2 r1(x)=0 r2(x)=0 c1 c2");
}

#[test]
fn a_transaction_waits_only_if_it_is_older_than_all_holders() {
    let history = "b1 b2 b3 r1(x) r3(x) w2(x) c1 c3";
    assert_eq!(execute::<WaitDie>(history), "b1 b2 b3 r1(x)=0 r3(x)=0 a2(Locked) c1 c3");
}

#[test]
fn no_deadlock_closes() {
    let history = "b1 b2 w1(x) w2(y) w1(y) w2(x) c1";
    assert_eq!(execute::<WaitDie>(history), "b1 b2 w1(x) w2(y) a2(Locked) w1(y) c1");
}

#[test]
fn a_transaction_that_died_keeps_its_age() {
    // The second attempt of 2 is older than 3, which began between the two attempts.
    let history = "b1 b2 w1(x) w2(x) c1 b3 w3(x) b2 w2(x) c3 c2";
    assert_eq!(execute::<WaitDie>(history), "b1 b2 w1(x) a2(Locked) c1 b3 w3(x) b2 c3 w2(x) c2");
}

#[test]
fn younger_transactions_do_not_overtake_one_that_waits() {
    let history = "b1 b2 b3 r2(x) w1(x) r3(x) c2 c1";
    assert_eq!(execute::<WaitDie>(history), "b1 b2 b3 r2(x)=0 a3(Locked) c2 w1(x) c1");
}

#[test]
fn an_insertion_waits_for_a_scan() {
    assert_eq!(execute::<WaitDie>("b1 b2 q2(a-e) i1(b) c2 c1"), "b1 b2 q2(a-e)=ace c2 i1(b) c1");
    assert_eq!(execute::<WaitDie>("b1 b2 q1(a-e) i2(b) c1"), "b1 b2 q1(a-e)=ace a2(Phantom) c1");
}

#[test]
fn no_transaction_waits_for_ever() {
    assert_eq!(execute::<WaitDie>("b1 b2 w2(x) w1(x) . c2"), "b1 b2 w2(x) a1(Locked) c2");
}
