//! Groups that count as they are, since all that they depend on is in them or before them: in
//! several streams and segments, and where parts of transactions over several databases end
//! meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{
    Bounds, Commit, Database, DurableOptions, Ending, GlobalId, Outcome, PartOf, SchemaBuilder, Session,
    Verbs,
};
use concurrency::{InstanceOptions, SchemeName};
use platform::{Intent, Node, Place, Platform};
use redo_log::{LogOptions, parse_segment_name};
use schema::{Inspector, Row, Schema, Table, TableOptions};
use sim::{Config, Crash, Disk, DiskFaults, DiskModel, Shape, SimError, VirtualCore, VirtualMachine};
use terms::Abort;

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Note {
    id: u64,
    value: u64,
    #[row(tail)]
    text: Vec<u8>,
}

type P = VirtualMachine;

/// Longer than any test.
const EPOCH_NANOS: u64 = 1 << 40;
/// Workers of a test.
const WORKERS: usize = 2;

fn open(scheme: SchemeName, c: VirtualCore, epoch_nanos: u64) -> (Database<P>, Table<Note>) {
    let mut schema = SchemaBuilder::new();
    let notes = schema.table::<Note>("notes", TableOptions::default());
    let instance = InstanceOptions {
        sessions_max: 9,
        memory_bytes_max: 64 << 20,
        epoch_nanos,
        ..InstanceOptions::default()
    };
    let log = LogOptions {
        streams: vec![Some(Node(0)), Some(Node(1))],
        segment_bytes: 24 << 10,
        buffer_bytes: 4 << 10,
        ..LogOptions::default()
    };
    let durable = DurableOptions { log, checkpoint_bytes: 1 << 30, ..DurableOptions::new("d".into()) };
    let opened = engine_simulated::open(scheme, c, &instance, schema, &|_| None, &durable, None);
    opened.map(|(database, _)| (database, notes)).expect("a database")
}

fn config(disk: &Disk) -> Config {
    Config { memory_bytes: 1 << 30, ..Config::new(Shape::new(2, 4, 1)) }.with_disk(disk)
}

fn run<T: Send>(disk: &Disk, program: impl FnOnce(VirtualCore) -> T) -> T {
    VirtualMachine::run(&config(disk), program).expect("a run").value
}

fn disk() -> Disk {
    Disk::new(DiskModel::NVME, DiskFaults::default())
}

fn session<'d>(database: &'d Database<P>, c: VirtualCore, node: u32) -> Session<'d> {
    database.session(c, Some(Node(node)), false).expect("a session")
}

fn note(id: u64, value: u64) -> Note {
    Note { id, value, text: vec![7; 900] }
}

fn all(database: &Database<P>, c: VirtualCore, notes: Table<Note>) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    let collect = &mut |note: &Note| all.push((note.id, note.value));
    database.inspector(c).scan(notes.primary(), &0, &u64::MAX, collect);
    all
}

/// Inserts two rows, without waiting.
fn insert_pair(session: &mut Session<'_>, notes: Table<Note>, number: u64) -> Commit {
    let ended = session.transact(&Bounds::default(), |t| {
        t.insert(notes, &note(2 * number, number))?;
        t.insert(notes, &note(2 * number + 1, number))
    });
    let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
    commit
}

/// Segments of a stream that have blocks.
fn segments(disk: &Disk, stream: u32) -> usize {
    let contents = disk.contents();
    let names = contents.iter().filter_map(|(path, bytes)| {
        let (its, _) = parse_segment_name(&path.file_name()?.to_string_lossy())?;
        (its == stream && bytes.len() > 4096 && bytes[4096] != 0).then_some(())
    });
    names.count()
}

/// Two sessions commit without waiting, each in a stream of its own, and go through several
/// segments; then one of them waits, and the power fails.
#[test]
fn a_whole_group_counts_over_all_segments_and_streams_before_it() {
    for (before, after) in [(20, 0), (80, 0), (81, 1), (120, 30)] {
        let disk = disk();
        run(&disk, |c| {
            let (database, notes) = open(SchemeName::Silo, c, EPOCH_NANOS);
            let mut sessions = [0, 1].map(|node| session(&database, c, node));
            let commits: Vec<_> = (0..before)
                .map(|number| insert_pair(&mut sessions[number as usize % 2], notes, number))
                .collect();
            sessions[0].wait_written(*commits.last().expect("one")).expect("on disk");
            assert!(!sessions[0].is_durable(commits[0]), "no epoch says that it is durable");
            for number in before..before + after {
                insert_pair(&mut sessions[number as usize % 2], notes, number);
            }
        });
        if before >= 80 {
            assert!(segments(&disk, 0) >= 3 && segments(&disk, 1) >= 3, "several segments");
        }
        disk.lose_power();
        let there = run(&disk, |c| {
            let (database, notes) = open(SchemeName::Silo, c, EPOCH_NANOS);
            all(&database, c, notes)
        });
        let pairs = there.len() as u64 / 2;
        assert!((before..=before + after).contains(&pairs), "{before} acknowledged, {pairs} are there");
        let expected: Vec<_> = (0..2 * pairs).map(|id| (id, id / 2)).collect();
        assert_eq!(there, expected, "no transaction by half");
    }
}

/// One worker changes row 0 in parts that are prepared and finished; the other copies it to row 1,
/// and waits for its own commit alone.
fn copies(c: VirtualCore, scheme: SchemeName, acknowledged: &AtomicU64) {
    let (database, notes) = open(scheme, c, 1_000_000);
    let mut first = session(&database, c, 0);
    let ended = first.transact(&Bounds::default(), |t| {
        t.insert(notes, &note(0, 0))?;
        t.insert(notes, &note(1, 0))
    });
    let Ok(Ending::Committed((), commit)) = ended else { panic!("{ended:?}") };
    first.wait_durable(commit).expect("durable");
    drop(first);
    let worker = |c, number: usize| {
        let mut session = session(&database, c, number as u32);
        for round in 1..=60 {
            if number == 0 {
                let part = PartOf { global: GlobalId(round.into()), coordinator: 1 };
                let prepared = session.prepare_as(part, &Bounds::default(), |t| {
                    let row = t.find(notes.primary(), &0, Intent::Write)?.expect("it is there");
                    t.put(row, Note::VALUE, &round)
                });
                if let Ok(((), prepared, _)) = prepared {
                    session.finish_as(prepared, Outcome::Commit);
                }
                session.tend(P::now(c));
            } else {
                let ended = session.transact(&Bounds::default(), |t| {
                    let row = t.find(notes.primary(), &0, Intent::Read)?.expect("it is there");
                    let value = t.get(row, Note::VALUE)?;
                    let row = t.find(notes.primary(), &1, Intent::Write)?.expect("it is there");
                    t.put(row, Note::VALUE, &value)?;
                    Ok::<_, Abort>(value)
                });
                if let Ok(Ending::Committed(value, commit)) = ended {
                    session.wait_written(commit).expect("on disk");
                    acknowledged.fetch_max(value, Ordering::Relaxed);
                }
            }
        }
    };
    let places = [Place { thread: None }; WORKERS];
    VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
}

/// Transactions that follow from the end of a part do not survive it: a part is ending until its
/// record is written.
#[test]
fn the_end_of_a_part_is_in_every_whole_group_that_depends_on_it() {
    for scheme in [SchemeName::Silo, SchemeName::NoWait] {
        let mut most = 0;
        for crash in 1..40 {
            let (disk, acknowledged) = (disk(), AtomicU64::new(0));
            let config = config(&disk).with_seed(crash).crashing(Crash::DiskOperation(20 + 3 * crash));
            match VirtualMachine::run(&config, |c| copies(c, scheme, &acknowledged)) {
                Ok(_) | Err(SimError::Crashed { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            disk.lose_power();
            let there = run(&disk, |c| {
                let (database, notes) = open(scheme, c, 1_000_000);
                all(&database, c, notes)
            });
            let acknowledged = acknowledged.into_inner();
            most = most.max(acknowledged);
            let (made, copied) = match there[..] {
                [] => (0, 0),
                [(0, made), (1, copied)] => (made, copied),
                _ => panic!("{there:?}"),
            };
            assert!(copied >= acknowledged, "crash {crash}: {acknowledged} acknowledged, {copied} there");
            assert!(made >= copied, "crash {crash}: a copy of {copied}, where {made} was made");
        }
        assert!(most > 10, "copies are made of many parts: {most}");
    }
}

/// Sessions that all wait draw no epochs for that.
#[test]
fn sessions_that_wait_together_draw_no_epochs() {
    const EACH: u64 = 60;
    const TOGETHER: usize = 8;
    let disk = Disk::new(DiskModel::RAM, DiskFaults::default());
    let drawn = run(&disk, |c| {
        let (database, notes) = open(SchemeName::Silo, c, EPOCH_NANOS);
        let before = insert_pair(&mut session(&database, c, 0), notes, 1 << 20).stamp.epoch().0;
        let worker = |c, number: usize| {
            let mut session = session(&database, c, number as u32 % 2);
            for round in 0..EACH {
                let commit = insert_pair(&mut session, notes, round * TOGETHER as u64 + number as u64);
                session.wait_written(commit).expect("on disk");
                P::pause(c, (round * 7 + number as u64 * 3) % 11 * 100);
            }
        };
        VirtualMachine::parallel(c, &[Place { thread: None }; TOGETHER], &worker, &mut |_| ());
        insert_pair(&mut session(&database, c, 0), notes, 1 << 21).stamp.epoch().0 - before
    });
    assert_eq!(drawn, 0);
}
