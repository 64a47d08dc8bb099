//! The checkers against histories written by hand: each anomaly by name, and correct histories.

use std::collections::BTreeMap;

use terms::{Epoch, Stamp};
use verify::history::{Origin, check};
use verify::second_opinion::opinion;
use verify::{Change, Entry, History, Seen, Violation};

const X: u64 = 1;
const Y: u64 = 2;
/// A key that is absent at the beginning.
const Z: u64 = 5;
/// Versions of `X` and `Y` at the beginning.
const X0: u64 = 10;
const Y0: u64 = 20;

/// A transaction concurrent with all others.
fn entry(stamp: u64, reads: &[(u64, Seen)], writes: &[(u64, Change)]) -> Entry {
    let (reads, writes) = (reads.to_vec(), writes.to_vec());
    Entry { stamp: Some(Stamp(stamp)), began: 0, ended: 1000, reads, writes, ..Entry::default() }
}

fn update(version: u64) -> Change {
    Change::Update { version, tag: 0 }
}

fn insert(version: u64) -> Change {
    Change::Insert { version, tag: 0 }
}

fn saw(version: u64) -> Seen {
    Seen::Version(version)
}

fn history(entries: Vec<Entry>) -> History {
    History { initial: BTreeMap::from([(X, (X0, 0)), (Y, (Y0, 0))]), entries, ..History::default() }
}

/// Asserts that both checkers find a violation, and that the second one calls it `name`.
fn both_object(history: &History, name: &str) -> Violation {
    let opinion = opinion(history);
    let names: Vec<&str> = opinion.objections.iter().map(|(kind, _)| kind.as_str()).collect();
    assert!(names.contains(&name), "{name} in {names:?}");
    match check(history) {
        Ok(report) => panic!("{name} was accepted: {report:?}"),
        Err(violation) => violation,
    }
}

fn both_accept(history: &History) {
    assert_eq!(opinion(history).objections, []);
    let report = check(history).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(!report.undecided);
}

/// Writes of two transactions interleave: the changes of `X` and `Y` are in opposite orders, which
/// one stamp a transaction cannot express. A deletion after a deletion shows it.
#[test]
fn g0_dirty_write() {
    let interleaved = history(vec![
        entry(4, &[], &[(X, Change::Delete), (Y, update(21))]),
        entry(8, &[(Y, saw(Y0))], &[(X, Change::Delete), (Y, update(22))]),
    ]);
    assert!(matches!(check(&interleaved), Err(Violation::BrokenChain { key: X, .. })));
    let ended_before = history(vec![
        Entry { began: 2000, ended: 3000, ..entry(4, &[], &[(X, update(11))]) },
        entry(8, &[], &[(X, update(12))]),
    ]);
    both_object(&ended_before, "G0-realtime");
}

#[test]
fn g1a_aborted_read() {
    let mut dirty = history(vec![
        entry(4, &[(X, saw(11))], &[(Y, update(21))]),
        Entry { stamp: None, aborted: vec![(X, 11)], ..entry(0, &[], &[]) },
    ]);
    let violation = both_object(&dirty, "G1a");
    assert!(matches!(violation, Violation::NeverCommitted { version: 11, origin: Origin::Aborted, .. }));
    dirty.entries[1].aborted.clear();
    let violation = check(&dirty).err();
    assert!(matches!(violation, Some(Violation::NeverCommitted { origin: Origin::Nowhere, .. })));
}

#[test]
fn g1b_intermediate_read() {
    let dirty = history(vec![
        entry(8, &[(X, saw(11))], &[(Y, update(21))]),
        Entry { overwritten: vec![(X, 11)], ..entry(4, &[], &[(X, update(12))]) },
    ]);
    let violation = both_object(&dirty, "G1b");
    assert!(matches!(violation, Violation::NeverCommitted { origin: Origin::Overwritten, .. }));
}

/// A key that a transaction inserts and deletes again has not changed, and no other transaction may
/// see the row in between.
#[test]
fn changes_that_are_taken_back() {
    let back = Entry { overwritten: vec![(Z, 50)], ..entry(4, &[(Z, Seen::Absent)], &[(X, update(11))]) };
    let mut fine = history(vec![back, entry(8, &[(X, saw(11)), (Z, Seen::Absent)], &[])]);
    both_accept(&fine);
    fine.entries[1].reads[1] = (Z, saw(50));
    both_object(&fine, "G1a");
}

#[test]
fn g1c_circular_information_flow() {
    let circular = history(vec![
        entry(4, &[(Y, saw(21))], &[(X, update(11))]),
        entry(8, &[(X, saw(11))], &[(Y, update(21))]),
    ]);
    both_object(&circular, "G1c");
}

#[test]
fn lost_update() {
    let lost = history(vec![
        entry(4, &[(X, saw(X0))], &[(X, update(11))]),
        entry(8, &[(X, saw(X0))], &[(X, update(12))]),
    ]);
    both_object(&lost, "lost-update");
    // The same if the second write is missing at the end.
    let mut gone = history(vec![entry(4, &[], &[(X, update(11))])]);
    gone.last = Some(BTreeMap::from([(X, X0), (Y, Y0)]));
    assert!(matches!(check(&gone), Err(Violation::LostWrite { key: X, .. })));
}

#[test]
fn unrepeatable_read() {
    let twice = history(vec![
        entry(4, &[(X, saw(X0)), (X, saw(11))], &[(Y, update(21))]),
        entry(8, &[], &[(X, update(11))]),
    ]);
    both_object(&twice, "internal");
}

#[test]
fn write_skew() {
    let skew = history(vec![
        entry(4, &[(X, saw(X0)), (Y, saw(Y0))], &[(X, update(11))]),
        entry(8, &[(X, saw(X0)), (Y, saw(Y0))], &[(Y, update(21))]),
    ]);
    assert!(matches!(both_object(&skew, "G2-item"), Violation::Cycle(_)));
}

#[test]
fn phantom() {
    let skew = history(vec![
        entry(4, &[(Z, Seen::Absent), (6, Seen::Absent)], &[(Z, insert(50))]),
        entry(8, &[(Z, Seen::Absent), (6, Seen::Absent)], &[(6, insert(60))]),
    ]);
    assert!(matches!(both_object(&skew, "G2-item"), Violation::Cycle(_)));
}

/// A phantom of a secondary index: a row changes its tag while a scan of the tag misses it.
#[test]
fn phantom_of_a_tag() {
    let tagged = Change::Update { version: 11, tag: 7 };
    let moved = history(vec![
        entry(4, &[], &[(X, tagged), (Y, update(21))]),
        entry(8, &[(X, Seen::NotTagged(7)), (Y, saw(21))], &[]),
    ]);
    both_object(&moved, "G-single-item");
}

/// Fekete, O'Neil, O'Neil, "A read-only transaction anomaly under snapshot isolation", SIGMOD
/// Record 2004: a report sees the deposit and not the withdrawal, which in turn saw no deposit and
/// charged a penalty.
#[test]
fn read_only_anomaly() {
    let (withdrawal, deposit, report) = (
        entry(8, &[(X, saw(X0)), (Y, saw(Y0))], &[(X, update(11))]),
        entry(4, &[(Y, saw(Y0))], &[(Y, update(21))]),
        entry(4, &[(X, saw(X0)), (Y, saw(21))], &[]),
    );
    let mut anomaly = history(vec![withdrawal, deposit, report]);
    both_object(&anomaly, "G2-item");
    anomaly.entries.pop();
    both_accept(&anomaly);
}

#[test]
fn stale_read() {
    let mut late = history(vec![
        entry(8, &[], &[(X, update(11))]),
        Entry { began: 2000, ended: 3000, ..entry(12, &[(X, saw(X0))], &[]) },
    ]);
    assert!(matches!(both_object(&late, "G-single-item-realtime"), Violation::Cycle(_)));
    // Concurrent with the writer, the reader may come first.
    late.entries[1].began = 0;
    both_accept(&late);
}

/// Observations of a transaction that rolled back must be as consistent as those of others.
#[test]
fn false_reasons_to_roll_back() {
    let torn = history(vec![
        entry(4, &[], &[(X, update(11)), (Y, update(21))]),
        Entry { stamp: None, ..entry(0, &[(X, saw(11)), (Y, saw(Y0))], &[]) },
    ]);
    both_object(&torn, "G-single-item");
}

#[test]
fn stamps_follow_dependencies() {
    let backwards = history(vec![entry(8, &[], &[(X, update(11))]), entry(4, &[(X, saw(11))], &[])]);
    assert!(matches!(check(&backwards), Err(Violation::Stamps { .. })));
    assert_eq!(opinion(&backwards).objections, [], "it is serializable nevertheless");
}

/// One transaction misses a commit and sees one that began later.
#[test]
fn strictness_within_an_epoch_is_optional() {
    let epoch = Epoch(1).first_stamp();
    let mut traveller = history(vec![
        Entry { ended: 100, ..entry(epoch + 8, &[], &[(X, update(11))]) },
        Entry { began: 200, ..entry(epoch + 4, &[], &[(Y, update(21))]) },
        entry(epoch + 5, &[(X, saw(X0)), (Y, saw(21))], &[]),
    ]);
    assert!(matches!(both_object(&traveller, "G-single-item-realtime"), Violation::Cycle(_)));
    traveller.by_epochs = true;
    both_accept(&traveller);
    traveller.entries[1].stamp = Some(Stamp(2 * epoch + 4));
    traveller.entries[2].stamp = Some(Stamp(2 * epoch + 5));
    assert!(check(&traveller).is_err(), "another epoch");
    let mut stale = history(vec![
        entry(8, &[], &[(X, update(11))]),
        Entry { began: 2000, ended: 3000, ..entry(12, &[(X, saw(X0))], &[]) },
    ]);
    stale.by_epochs = true;
    assert!(matches!(check(&stale), Err(Violation::Impossible { .. })), "older than the transaction");
}

#[test]
fn serial_histories_are_accepted() {
    both_accept(&history(Vec::new()));
    both_accept(&history(vec![
        Entry { began: 0, ended: 1, ..entry(4, &[(X, saw(X0)), (Z, Seen::Absent)], &[(Z, insert(50))]) },
        Entry { began: 2, ended: 3, ..entry(8, &[(Z, saw(50))], &[(Z, Change::Delete), (X, update(11))]) },
        Entry { began: 4, ended: 5, stamp: None, ..entry(0, &[(Z, Seen::Absent), (X, saw(11))], &[]) },
        Entry {
            began: 6,
            ended: 7,
            ..entry(12, &[(Z, Seen::Absent)], &[(Z, insert(51)), (Y, Change::Delete)])
        },
        Entry { began: 8, ended: 9, ..entry(16, &[(Y, Seen::NotTagged(0)), (Z, Seen::Present)], &[]) },
    ]));
}

#[test]
fn absences_find_their_place() {
    // Absent, inserted, deleted, inserted: the reader saw the second absence, since it saw another
    // key changed by the deleting transaction.
    let mut fine = history(vec![
        entry(4, &[], &[(Z, insert(50))]),
        entry(8, &[], &[(Z, Change::Delete), (X, update(11))]),
        entry(12, &[], &[(Z, insert(51))]),
        entry(12, &[(Z, Seen::Absent), (X, saw(11))], &[]),
    ]);
    both_accept(&fine);
    assert_eq!(opinion(&fine).withheld, 1, "two absences");
    fine.entries[3].reads[1] = (X, saw(X0));
    check(&fine).expect("the first absence explains it");
    fine.entries[3].reads.push((Z, saw(50)));
    assert!(check(&fine).is_err(), "present and absent");
}
