//! Faults that `content::check` finds in directories whose files are whole but contradict each
//! other.

use std::path::Path;

use boundary::directory::description::{Description, DescriptionError, DirectoryTable};
use boundary::{DurableOptions, OpenError, SchemaBuilder, SchemaError};
use concurrency::{InstanceOptions, Silo};
use engine::MemoryDatabase;
use engine::durable::content::{self, Checked, ContentError};
use platform::Place;
use redo_log::{CheckpointFileWriter, LogOptions, Record, Spares, Target, open};
use schema::{Row, Schema, TableDescription, TableOptions};
use sim::{Config, Disk, DiskFaults, DiskModel, Shape, VirtualCore, VirtualMachine};
use storage::Epochs;
use terms::Epoch;

type P = VirtualMachine;

/// Rows of an id and a unique number, with a tail; a dropped table and one that was never there.
const THINGS: u64 = 0;
const DROPPED: u64 = 1;
const UNKNOWN: u64 = 2;

fn description() -> Description {
    let table = |id, name: &str, dropped| {
        let table = TableDescription::of::<Thing>(name).expect("a table");
        DirectoryTable { id, dropped, continued_by: None, table }
    };
    let tables = vec![table(0, "things", None), table(1, "dropped", Some(u64::MAX))];
    Description { next_id: 2, tables }
}

fn insert(table: u64, id: u32, number: i32) -> Vec<u8> {
    let mut change = vec![(table << 2) as u8];
    change.extend_from_slice(&id.to_le_bytes());
    change.extend_from_slice(&number.to_le_bytes());
    change.extend_from_slice(&[2, b'o', b'k']);
    change
}

/// Changes the number.
fn update(table: u64, id: u32, number: i32) -> Vec<u8> {
    let mut change = vec![(table << 2) as u8 | 1];
    change.extend_from_slice(&id.to_le_bytes());
    change.extend_from_slice(&[2, 4, 4]);
    change.extend_from_slice(&number.to_le_bytes());
    change
}

fn delete(table: u64, id: u32) -> Vec<u8> {
    let mut change = vec![(table << 2) as u8 | 2];
    change.extend_from_slice(&id.to_le_bytes());
    change
}

/// A change of a directory.
enum Step {
    Log(Vec<u8>),
    /// A checkpoint begins, has a row, and ends.
    Begin,
    Copy(Vec<u8>),
    End,
}
use Step::{Begin, Copy, End, Log};

/// Makes a directory in which this happened, and inspects it.
fn made<T: Send>(extra: Vec<u8>, steps: Vec<Step>, inspect: impl FnOnce(VirtualCore) -> T) -> T {
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let config = Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(1, 1, 1)) }.with_disk(&disk);
    let outcome = VirtualMachine::run(&config, |c| {
        let opened = open::<P>(c, Path::new("d"), &[Place { thread: None }], None).expect("a directory");
        let epochs = Epochs::<P>::new(c, 1, 10_000).expect("epochs");
        // SAFETY: no worker uses them yet.
        unsafe { epochs.begin_at(c, Epoch(opened.first_epoch)) };
        let options = LogOptions { segment_bytes: 32 << 10, buffer_bytes: 4096, ..LogOptions::default() };
        let log = opened.begin(c, extra, &options, 1).expect("a log");
        let mut checkpoint = None;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Log(body) => {
                    let current = epochs.current(c);
                    let (stamp, epoch) = (current.first_stamp() | number as u64, current.0);
                    let record = Record { stamp, epoch, body: &body };
                    log.append(c, &epochs, 0, 0, &record, &mut Spares::default()).expect("appended");
                    // The next one is of another epoch.
                    let target = Target { epoch, deadline: None, by_epoch: true };
                    log.wait(c, &epochs, target).expect("durable");
                }
                Begin => {
                    let cut = log.begin_checkpoint(c, &epochs).expect("begun");
                    let part = log.checkpoint_file(c, &cut, 0, None).expect("a part");
                    checkpoint = Some((cut, part));
                }
                Copy(body) => {
                    let part: &mut CheckpointFileWriter<P> = &mut checkpoint.as_mut().expect("begun").1;
                    part.push(c, &body).expect("pushed");
                }
                End => {
                    let (cut, part) = checkpoint.take().expect("begun");
                    part.finish(c).expect("finished");
                    log.end_checkpoint(c, &epochs, &cut, 1).expect("ended");
                }
            }
        }
        log.close(c, &epochs).expect("closed");
        inspect(c)
    });
    outcome.expect("a run").value
}

fn check_of(extra: Vec<u8>, steps: Vec<Step>) -> Result<Checked, ContentError> {
    made(extra, steps, |c| content::check::<P>(c, Path::new("d"), &mut |_, _| ()))
}

fn check(steps: Vec<Step>) -> Result<Checked, ContentError> {
    check_of(description().encode(), steps)
}

/// How many rows there are.
fn rows(steps: Vec<Step>) -> u64 {
    let checked = check(steps).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(checked.rows.len(), 1, "of tables that were not dropped");
    checked.rows[0].1
}

/// The fault of row 5.
fn wrong(steps: Vec<Step>) -> &'static str {
    match check(steps) {
        Err(ContentError::Row { table, key, what }) => {
            assert_eq!((&*table, &*key), ("things", "id=5"));
            what
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn whole_databases_are_whole() {
    assert_eq!(rows(vec![]), 0);
    let all = [insert(THINGS, 1, 1), insert(THINGS, 2, 2), update(THINGS, 1, 3), delete(THINGS, 2)];
    assert_eq!(rows(vec![Log(all.concat())]), 1);
    assert_eq!(rows(all.into_iter().map(Log).collect()), 1);
    // The number of a row may be another's before.
    let moved = [insert(THINGS, 1, 1), insert(THINGS, 2, 2), update(THINGS, 1, 3), update(THINGS, 2, 1)];
    assert_eq!(rows(moved.into_iter().map(Log).collect()), 2);
    // Those of a dropped table are passed over, whatever they are.
    let dropped = [insert(DROPPED, 1, 1), insert(DROPPED, 1, 1), delete(DROPPED, 9), insert(THINGS, 1, 1)];
    assert_eq!(
        rows(vec![
            Log(dropped.concat()),
            Begin,
            Copy(insert(DROPPED, 1, 1)),
            Copy(insert(THINGS, 1, 1)),
            End
        ]),
        1
    );
}

#[test]
fn a_checkpoint_has_rows_of_any_moment_while_it_was_made() {
    let during = || {
        vec![
            Log(update(THINGS, 1, 3)),
            Log(delete(THINGS, 2)),
            Log(insert(THINGS, 3, 2)),
            Log(insert(THINGS, 4, 4)),
        ]
    };
    let with = |copies: [Vec<u8>; 3]| {
        let mut steps = vec![Log(insert(THINGS, 1, 1)), Log(insert(THINGS, 2, 2)), Begin];
        steps.extend(during());
        steps.extend(copies.into_iter().filter(|copy| !copy.is_empty()).map(Copy));
        steps.extend([End, Log(delete(THINGS, 1)), Log(insert(THINGS, 1, 9)), Log(delete(THINGS, 4))]);
        steps
    };
    for first in [insert(THINGS, 1, 1), insert(THINGS, 1, 3)] {
        for second in [vec![], insert(THINGS, 2, 2)] {
            for third in [vec![], insert(THINGS, 3, 2)] {
                assert_eq!(rows(with([first.clone(), second.clone(), third])), 2);
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_noticed() {
    let unreadable = |place, number| Err(ContentError::Unreadable { place, number });
    assert_eq!(check(vec![Log(insert(THINGS, 1, 1)), Log(vec![0xff; 30])]), unreadable("log", 2));
    assert_eq!(check(vec![Log(insert(UNKNOWN, 1, 1))]), unreadable("log", 1));
    assert_eq!(check(vec![Log(vec![3, 0, 0, 0, 0])]), unreadable("log", 1));
    let whole = [insert(THINGS, 1, 1), update(THINGS, 1, 2), delete(THINGS, 1)].concat();
    for length in (1..whole.len()).filter(|length| ![12, 24].contains(length)) {
        assert_eq!(check(vec![Log(whole[..length].to_vec())]), unreadable("log", 1), "{length}");
    }
    assert_eq!(check(vec![Begin, Copy(vec![0; 3]), End]), unreadable("checkpoint", 1));
    assert_eq!(check(vec![Begin, Copy(delete(THINGS, 1)), End]), unreadable("checkpoint", 1));
    assert_eq!(check_of(vec![], vec![]), Err(ContentError::Description(DescriptionError::Damaged)));
    assert!(check_of(b"things 8; ".to_vec(), vec![]).is_err());
}

#[test]
fn changes_that_contradict_each_other_are_noticed() {
    let twice = vec![Log(insert(THINGS, 5, 1)), Log(insert(THINGS, 5, 2))];
    assert_eq!(wrong(twice), "it is inserted, and is there already");
    assert_eq!(wrong(vec![Log(update(THINGS, 5, 1))]), "it changes, and is not there");
    assert_eq!(wrong(vec![Log(delete(THINGS, 5))]), "it is deleted, and is not there");
    let gone = vec![Log(insert(THINGS, 5, 1)), Log(delete(THINGS, 5)), Log(update(THINGS, 5, 2))];
    assert_eq!(wrong(gone), "it changes, and is not there");
}

#[test]
fn a_checkpoint_that_contradicts_the_log_is_noticed() {
    let copied = || Copy(insert(THINGS, 5, 1));
    assert_eq!(wrong(vec![Begin, copied(), copied(), End]), "the checkpoint has it twice");
    let missing = vec![Log(insert(THINGS, 5, 1)), Begin, End, Log(update(THINGS, 5, 2))];
    assert_eq!(wrong(missing), "it changes, and the checkpoint does not have it");
    let missing = vec![Log(insert(THINGS, 5, 1)), Begin, End, Log(delete(THINGS, 5))];
    assert_eq!(wrong(missing), "it changes, and the checkpoint does not have it");
    let early = vec![Begin, copied(), End, Log(insert(THINGS, 5, 1))];
    assert_eq!(wrong(early), "the checkpoint has it, and it was not there then");
    let twice = vec![Begin, copied(), End, Log(insert(THINGS, 5, 1)), Log(insert(THINGS, 5, 1))];
    assert_eq!(wrong(twice), "it is inserted, and is there already");
}

#[test]
fn two_rows_with_a_unique_key_are_noticed() {
    let error = || {
        Err(ContentError::NotUnique {
            table: "things".into(),
            index: "by_number".into(),
            key: "number=-7".into(),
        })
    };
    assert_eq!(check(vec![Log(insert(THINGS, 1, -7)), Log(insert(THINGS, 2, -7))]), error());
    let changed = vec![Log(insert(THINGS, 1, 3)), Log(insert(THINGS, 2, -7)), Log(update(THINGS, 1, -7))];
    assert_eq!(check(changed), error());
    let copied = vec![Begin, Copy(insert(THINGS, 1, -7)), End, Log(insert(THINGS, 2, -7))];
    assert_eq!(check(copied), error());
}

#[derive(Row)]
#[row(key(id), unique_index(by_number(number)))]
struct Thing {
    id: u32,
    number: i32,
    #[row(tail)]
    text: Vec<u8>,
}

/// Why a database in which this happened cannot be opened.
fn refused(extra: Vec<u8>, steps: Vec<Step>) -> OpenError {
    let opened = made(extra, steps, |c| {
        let mut schema = SchemaBuilder::new();
        schema.table::<Thing>("things", TableOptions::default());
        let instance = InstanceOptions { memory_bytes_max: 64 << 20, ..InstanceOptions::default() };
        let durable = DurableOptions::new("d".into());
        MemoryDatabase::<P, Silo>::open(c, &instance, schema, &|_| None, &durable).map(drop)
    });
    opened.expect_err("it is refused")
}

#[test]
fn what_contradicts_itself_is_not_opened() {
    let refused_as = |words: &str, steps| match refused(description().encode(), steps) {
        OpenError::Contradiction(what) => assert!(what.contains(words), "{what}"),
        other => panic!("{other}"),
    };
    // The index was unique before: no declaration makes this right.
    let twice = vec![Log(insert(THINGS, 1, 7)), Log(insert(THINGS, 2, 7))];
    refused_as("two rows of things have the same key in by_number", twice);
    let copied = vec![Begin, Copy(insert(THINGS, 1, 7)), Copy(insert(THINGS, 1, 8)), End];
    refused_as("two rows of things have the same key in things", copied);
    let missing = vec![Log(insert(THINGS, 1, 7)), Begin, End, Log(update(THINGS, 1, 8))];
    refused_as("a row changes that is not there", missing);
    refused_as("not what this version writes", vec![Log(insert(UNKNOWN, 1, 7))]);
    refused_as("not what this version writes", vec![Begin, Copy(vec![0; 3]), End]);
    refused_as("a row of the checkpoint is none", vec![Begin, Copy(delete(THINGS, 1)), End]);
    let damaged = OpenError::Schema(SchemaError::Description(DescriptionError::Damaged));
    assert_eq!(refused(vec![1, 0xff], vec![]), damaged);
}
