//! `mvcc`: a snapshot reads old versions, waits for no transaction and never aborts. Transactions
//! that write read the latest versions and validate them, as under `silo`.

use concurrency::Mvcc;
use terms::Fault;

use crate::history::{execute, execute_with};

#[test]
fn a_snapshot_reads_the_old_version_and_commits() {
    let history = "s1 r1(x) w2(x) w2(y) c2 + r1(y) r1(x) c1";
    assert_eq!(execute::<Mvcc>(history), "s1 r1(x)=0 w2(x) w2(y) c2 r1(y)=0 r1(x)=0 c1");
    let without_versions = execute_with::<Mvcc>(&[Fault::LostVersions], history);
    assert_ne!(without_versions, execute::<Mvcc>(history));
}

#[test]
fn a_snapshot_is_of_epochs_that_are_over() {
    // The first snapshot begins in the epoch of the commit, the second some epochs later.
    let history = "w1(x) c1 s2 r2(x) c2 + s3 r3(x) c3";
    assert_eq!(execute::<Mvcc>(history), "w1(x) c1 s2 r2(x)=0 c2 s3 r3(x)=1 c3");
    let without_lag = execute_with::<Mvcc>(&[Fault::SnapshotOfOpenEpoch], history);
    assert_ne!(without_lag, execute::<Mvcc>(history));
}

#[test]
fn a_snapshot_does_not_wait_for_a_commit_under_way() {
    assert_eq!(execute::<Mvcc>("w1(x) p1 s2 r2(x) c2 c1"), "w1(x) p1 s2 r2(x)=0 c2 c1");
}

#[test]
fn a_snapshot_sees_deleted_rows_and_no_inserted_ones() {
    let history = "s1 d2(c) i2(b) c2 + q1(a-e) r1(c) c1 r3(c) r3(b) c3";
    assert_eq!(execute::<Mvcc>(history), "s1 d2(c) i2(b) c2 q1(a-e)=ace r1(c)=0 c1 r3(c)=- r3(b)=2 c3");
    let without_dead_rows = execute_with::<Mvcc>(&[Fault::EarlyUnlinking], history);
    assert_ne!(without_dead_rows, execute::<Mvcc>(history));
}

#[test]
fn a_snapshot_that_began_before_two_commits_sees_neither() {
    let history = "s1 w2(x) c2 + w3(x) c3 + s4 r1(x) r4(x) c1 c4";
    assert_eq!(execute::<Mvcc>(history), "s1 w2(x) c2 w3(x) c3 s4 r1(x)=0 r4(x)=3 c1 c4");
}

#[test]
fn a_transaction_that_writes_is_validated_against_the_latest_version() {
    let history = "r1(x) w2(x) c2 w1(y) c1";
    assert_eq!(execute::<Mvcc>(history), "r1(x)=0 w2(x) c2 w1(y) a1(ReadChanged)");
    let without_validation = execute_with::<Mvcc>(&[Fault::UncheckedReads], history);
    assert_eq!(without_validation, "r1(x)=0 w2(x) c2 w1(y) c1");
}

#[test]
fn an_insertion_into_a_scanned_range_aborts_the_scan_unless_it_is_of_a_snapshot() {
    assert_eq!(execute::<Mvcc>("q1(a-e) i2(b) c2 w1(x) c1"), "q1(a-e)=ace i2(b) c2 w1(x) a1(Phantom)");
    assert_eq!(execute::<Mvcc>("s1 q1(a-e) i2(b) c2 c1"), "s1 q1(a-e)=ace i2(b) c2 c1");
}
