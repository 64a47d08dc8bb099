//! `no-wait` (Bernstein, Goodman, 1981): two-phase locking in which a transaction that does not get
//! a lock aborts at once. All locks are held until the end.

use concurrency::NoWait;
use terms::Fault;

use crate::history::{commit_order, execute, execute_with};

#[test]
fn the_second_to_lock_a_row_aborts() {
    assert_eq!(execute::<NoWait>("w1(x) w2(x) c1"), "w1(x) a2(Locked) c1");
    assert_eq!(execute::<NoWait>("w1(x) r2(x) c1"), "w1(x) a2(Locked) c1");
    assert_eq!(execute::<NoWait>("r1(x) w2(x) c1"), "r1(x)=0 a2(Locked) c1");
}

#[test]
fn readers_share_a_row() {
    assert_eq!(execute::<NoWait>("r1(x) r2(x) c1 c2"), "r1(x)=0 r2(x)=0 c1 c2");
}

#[test]
fn a_row_that_was_read_stays_locked_until_the_end() {
    let history = "r1(x) r1(y) w2(x) c2 c1 w3(x) c3";
    assert_eq!(execute::<NoWait>(history), "r1(x)=0 r1(y)=0 a2(Locked) c1 w3(x) c3");
    let without_shared_locks = execute_with::<NoWait>(&[Fault::EarlySharedUnlock], "r1(x) w2(x) c2 r1(x) c1");
    assert!(without_shared_locks.starts_with("r1(x)=0 w2(x) c2"));
}

#[test]
fn a_reader_becomes_a_writer_if_no_other_reads() {
    assert_eq!(execute::<NoWait>("r1(x) w1(x) c1 r2(x)"), "r1(x)=0 w1(x) c1 r2(x)=1");
    assert_eq!(execute::<NoWait>("r1(x) r2(x) w1(x) c2"), "r1(x)=0 r2(x)=0 a1(Locked) c2");
}

#[test]
fn an_abort_releases_its_locks_and_leaves_no_write() {
    assert_eq!(execute::<NoWait>("w1(x) a1 r2(x) c2"), "w1(x) a1 r2(x)=0 c2");
}

#[test]
fn nothing_enters_a_scanned_range() {
    let history = "q1(a-e) i2(b) c2 q1(a-e) c1";
    assert_eq!(execute::<NoWait>(history), "q1(a-e)=ace a2(Phantom) q1(a-e)=ace c1");
    let without_gap_locks = execute_with::<NoWait>(&[Fault::UnlockedGaps], history);
    assert_eq!(without_gap_locks, "q1(a-e)=ace i2(b) c2 q1(a-e)=abce c1");
}

#[test]
fn the_gap_behind_a_scanned_range_is_locked_and_the_next_one_is_not() {
    // The range ends at `b`, so the gap is that below `c`.
    assert_eq!(execute::<NoWait>("q1(a-b) i2(d) c2 c1"), "q1(a-b)=a i2(d) c2 c1");
    assert_eq!(execute::<NoWait>("q1(a-b) i2(b) c2 c1"), "q1(a-b)=a a2(Phantom) c1");
}

#[test]
fn a_lookup_that_finds_nothing_locks_the_gap() {
    assert_eq!(execute::<NoWait>("r1(b) i2(b) c2 c1"), "r1(b)=- a2(Phantom) c1");
}

#[test]
fn commits_are_in_the_order_of_the_locks() {
    assert_eq!(commit_order::<NoWait>("w2(x) c2 r1(x) w1(y) c1 r3(y) w3(z) c3"), "2 < 1 < 3");
}
