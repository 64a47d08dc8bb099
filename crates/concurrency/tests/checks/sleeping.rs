//! `dl-detect` in sessions that say how long they wait for locks: transactions sleep in queues, in
//! the order of arrival, and the youngest of a circle aborts; age is when a transaction began.

use concurrency::{DlDetect, NoWait, WaitDie};
use terms::Fault;

use crate::history::execute_waiting;

/// A second, which no history lasts.
const LONG: u64 = 1_000_000_000;

fn execute(history: &str) -> String {
    execute_waiting::<DlDetect>(LONG, &[], history)
}

#[test]
fn a_transaction_waits_longer_than_a_millisecond() {
    assert_eq!(execute("w1(x) w2(x) . . . . c1 c2"), "w1(x) c1 w2(x) c2");
}

#[test]
fn those_who_wait_are_served_in_the_order_of_arrival() {
    let history = "b4 b3 b2 w1(x) w3(x) w4(x) w2(x) . c1 c3 c4 c2";
    assert_eq!(execute(history), "b4 b3 b2 w1(x) c1 w3(x) c3 w4(x) c4 w2(x) c2");
    // Readers share the lock, in their turn; a reader who comes later does not overtake a writer.
    let history = "r1(x) w2(x) r3(x) r4(x) . c1 c2 c3 c4";
    assert_eq!(execute(history), "r1(x)=0 c1 w2(x) c2 r3(x)=2 r4(x)=2 c3 c4");
}

#[test]
fn who_shares_a_row_goes_before_those_who_have_nothing_of_it() {
    assert_eq!(execute("r1(x) w2(x) w1(x) . c1 c2"), "r1(x)=0 w1(x) c1 w2(x) c2");
    // Two that share it are in each other's way.
    let history = "b1 r2(x) r1(x) w3(x) w2(x) w1(x) . c1 c3";
    assert_eq!(execute(history), "b1 r2(x)=0 r1(x)=0 a2(Deadlock) w1(x) c1 w3(x) c3");
}

#[test]
fn the_youngest_of_a_circle_aborts() {
    let two = "b1 b2 w2(y) w1(x) w2(x) w1(y) . c1";
    assert_eq!(execute(two), "b1 b2 w2(y) w1(x) a2(Deadlock) w1(y) c1");
    let three = "b2 b3 b1 w1(x) w2(y) w3(z) w1(y) w2(z) w3(x) . c3 c2";
    assert_eq!(execute(three), "b2 b3 b1 w1(x) w2(y) w3(z) a1(Deadlock) w3(x) c3 w2(z) c2");
}

#[test]
fn a_circle_through_the_order_of_a_queue_is_found() {
    // 3 waits behind 2 for 1, which waits for 3.
    let history = "r1(x) w3(y) w2(x) r3(x) w1(y) . c1 c2";
    assert_eq!(execute(history), "r1(x)=0 w3(y) a3(Deadlock) w1(y) c1 w2(x) c2");
}

#[test]
fn gaps_are_waited_for() {
    assert_eq!(execute("q1(a-e) i2(b) . . c1 c2"), "q1(a-e)=ace c1 i2(b) c2");
    assert_eq!(execute("r1(b) i2(b) . . c1 c2"), "r1(b)=- c1 i2(b) c2");
    // Each has read the gap that the other one needs.
    let history = "q1(a-e) q2(a-e) i2(b) i1(d) . c1";
    assert_eq!(execute(history), "q1(a-e)=ace q2(a-e)=ace a2(Deadlock) i1(d) c1");
}

#[test]
fn a_row_that_is_deleted_is_not_waited_for() {
    assert_eq!(execute("d1(x) w2(x) . c1 c2"), "d1(x) c1 a2(Locked)");
    assert_eq!(execute("d1(x) w2(x) . a1 c2"), "d1(x) a1 w2(x) c2");
    assert_eq!(execute("i1(b) i2(b) . a1 c2"), "i1(b) a1 i2(b) c2");
}

#[test]
fn a_wait_ends_when_its_time_is_over() {
    let ended = execute_waiting::<DlDetect>(1_000_000, &[], "w1(x) w2(x) w3(x) . c1");
    let [before, after] = ["w1(x) ", " c1"];
    assert!(ended.starts_with(before) && ended.ends_with(after), "{ended}");
    assert_eq!(ended.matches("LockTimeout { table: Some(0), place: Row").count(), 2, "{ended}");
    let none = execute_waiting::<DlDetect>(0, &[], "w1(x) w2(x) c1");
    assert!(none.contains("LockTimeout"), "{none}");
}

#[test]
fn who_gives_up_lets_others_pass() {
    // 3 could share the row with 1, and waits for 2 only.
    let history = "r1(x) b4 w4(y) w2(x) r3(x) w2(y) . c3 c1 c4";
    let ended = execute_waiting::<DlDetect>(1_000_000, &[], history);
    assert!(ended.starts_with("r1(x)=0 b4 w4(y) "), "{ended}");
    assert!(ended.contains("a2(LockTimeout") && ended.contains("r3(x)=0"), "{ended}");
}

#[test]
fn other_policies_keep_their_rules() {
    assert_eq!(execute_waiting::<NoWait>(LONG, &[], "w1(x) w2(x) c1"), "w1(x) a2(Locked) c1");
    assert_eq!(execute_waiting::<WaitDie>(LONG, &[], "b1 b2 w1(x) w2(x) c1"), "b1 b2 w1(x) a2(Locked) c1");
    assert_eq!(execute_waiting::<WaitDie>(LONG, &[], "b1 b2 w2(x) w1(x) . c2"), "b1 b2 w2(x) a1(Locked) c2");
}

#[test]
fn locked_rows_are_skipped() {
    assert_eq!(
        execute("w1(c) k2(a-e) k3(a-e) c1 k3(a-e) c2 c3"),
        "w1(c) k2(a-e)=ae k3(a-e)= c1 k3(a-e)=c c2 c3"
    );
    // What is skipped, and what lies between, is not read: others insert there.
    assert_eq!(execute("k1(a-e) i2(b) c2 k1(a-e) c1"), "k1(a-e)=ace i2(b) c2 k1(a-e)=abce c1");
    // A row that is being inserted or deleted is locked.
    assert_eq!(execute("i1(b) d1(c) k2(a-e) c1 c2"), "i1(b) d1(c) k2(a-e)=ae c1 c2");
    // Own rows are visited again, but for those that the transaction has deleted.
    assert_eq!(execute("r1(a) d1(c) i1(b) k1(a-e) c1"), "r1(a)=0 d1(c) i1(b) k1(a-e)=abe c1");
    // Another one shares the row.
    assert_eq!(execute("r1(a) r2(a) k1(a-e) c1 c2"), "r1(a)=0 r2(a)=0 k1(a-e)=ce c1 c2");
    assert_eq!(execute_waiting::<NoWait>(0, &[], "w1(c) k2(a-e) c1 c2"), "w1(c) k2(a-e)=ae c1 c2");
    assert_eq!(execute_waiting::<WaitDie>(0, &[], "w1(c) k2(a-e) c1 c2"), "w1(c) k2(a-e)=ae c1 c2");
}

#[test]
fn mutant_rows_that_are_not_skipped() {
    let ended = execute_waiting::<DlDetect>(LONG, &[Fault::UnskippedRows], "w1(c) k2(a-e) c1 c2");
    assert!(ended.contains("k2(a-e)=ace"), "{ended}");
}

#[test]
fn mutant_a_waiter_that_is_skipped() {
    // Number 3 is never served.
    let history = "w1(x) w2(x) w3(x) w4(x) c1 c2 c3 c4";
    let skipped = execute_waiting::<DlDetect>(2_000_000, &[Fault::SkippedWaiter], history);
    assert!(skipped.contains("a3(LockTimeout"), "{skipped}");
    let served = execute_waiting::<DlDetect>(2_000_000, &[], history);
    assert_eq!(served, "w1(x) c1 w2(x) c2 w3(x) c3 w4(x) c4");
}
