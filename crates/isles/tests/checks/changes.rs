//! Streams of committed changes: a copy that is kept by one equals the database, under concurrency,
//! checkpoints, openings, bounds, and the end of the process at any moment.
// A program of a user has threads of its own.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use isles::{
    Builder, ChangeKind, ChangePosition, Changes, ChangesFrom, CommittedTransaction, Database, Datum, Error,
    Result, Row, Scheme, Session, Table, TableChange,
};
use terms::random::Random;
use terms::{Fault, Faults};

use crate::common::{Directory, SCHEMES};

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(group, id), index(by_size(size)))]
pub struct Item {
    group: u16,
    id: u32,
    size: i64,
    label: Option<u16>,
    text: String,
}

/// As an item, with one more column.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(group, id))]
struct LongItem {
    group: u16,
    id: u32,
    size: i64,
    label: Option<u16>,
    text: String,
    color: u8,
}

#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
pub struct Counter {
    pub id: u32,
    pub count: u64,
}

pub struct Tables {
    items: Table<Item>,
    pub counters: Table<Counter>,
}

fn open(builder: Builder) -> Result<(Database, Tables)> {
    let mut builder = builder.memory_limit(64 << 20).sessions(8);
    let (items, counters) = (builder.table("items"), builder.table("counters"));
    Ok((builder.open()?, Tables { items, counters }))
}

pub fn open_at(path: &Path, scheme: Scheme) -> (Database, Tables) {
    open(Database::at(path).scheme(scheme)).expect("a database")
}

/// A copy of the tables, as a stream has described them so far.
#[derive(Default)]
struct Copy {
    items: BTreeMap<(u16, u32), Item>,
    /// The same from values, by the number of the table's form.
    values: BTreeMap<(u32, String), Vec<Datum>>,
    counters: BTreeMap<u32, u64>,
    transactions: u64,
}

pub fn key_of(change: &isles::RowChange) -> Vec<Datum> {
    change.key().expect("a key")
}

pub fn number(datum: &Datum) -> u32 {
    match datum {
        Datum::Unsigned(number) => u32::try_from(*number).expect("a small number"),
        other => panic!("{other:?}"),
    }
}

impl Copy {
    fn apply(&mut self, transaction: &CommittedTransaction) -> std::result::Result<(), String> {
        self.transactions += 1;
        for change in &transaction.changes {
            let key = key_of(change);
            let place = (change.table_id(), format!("{key:?}"));
            let contradiction = || format!("{:?} of {place:?}", change.kind());
            match change.kind() {
                ChangeKind::Insert => {
                    let values = change.values().expect("values").expect("a row");
                    if self.values.insert(place.clone(), values).is_some() {
                        return Err(contradiction());
                    }
                }
                ChangeKind::Update => {
                    let values = self.values.get_mut(&place).ok_or_else(contradiction)?;
                    change.apply_to_values(values).expect("values of the table");
                }
                _ => drop(self.values.remove(&place).ok_or_else(contradiction)?),
            }
            match change.table().name() {
                "items" if change.table().columns().len() == 5 => self.apply_item(change, &key)?,
                "counters" => self.apply_counter(change, &key)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn apply_item(&mut self, change: &isles::RowChange, key: &[Datum]) -> std::result::Result<(), String> {
        let key = (number(&key[0]) as u16, number(&key[1]));
        match change.kind() {
            ChangeKind::Insert => {
                let row = change.row::<Item>().expect("an item").expect("a row");
                assert_eq!((row.group, row.id), key);
                self.items.insert(key, row);
            }
            ChangeKind::Update => {
                let row = self.items.get_mut(&key).ok_or("no such row")?;
                change.apply(row).expect("an item");
            }
            _ => drop(self.items.remove(&key)),
        }
        Ok(())
    }

    /// Each commit that changes a counter counts one more.
    fn apply_counter(&mut self, change: &isles::RowChange, key: &[Datum]) -> std::result::Result<(), String> {
        let id = number(&key[0]);
        let before = self.counters.get(&id).copied().unwrap_or(0);
        let mut row = Counter { id, count: before };
        change.apply(&mut row).expect("a counter");
        row = change.row().expect("a counter").unwrap_or(row);
        if row.count != before + 1 {
            return Err(format!("counter {id}: {} after {before}", row.count));
        }
        self.counters.insert(id, row.count);
        Ok(())
    }

    fn apply_all(&mut self, changes: &mut Changes) {
        for transaction in changes.available().expect("a log") {
            self.apply(&transaction.expect("a transaction")).expect("no gap");
        }
    }

    fn assert_equals(&self, database: &Database, tables: &Tables) {
        let (items, counters) = database
            .transaction(|t| {
                Ok((t.scan(tables.items, ..).collect()?, t.scan(tables.counters, ..).collect()?))
            })
            .expect("rows");
        assert_eq!(self.items.values().cloned().collect::<Vec<_>>(), items);
        let counted: Vec<_> = counters.iter().map(|counter| (counter.id, counter.count)).collect();
        assert_eq!(self.counters.clone().into_iter().collect::<Vec<_>>(), counted);
    }
}

/// One transaction of a worker: some changes of items, and one more on the worker's counter.
pub fn step(session: &mut Session, tables: &Tables, worker: u32, random: &mut Random) -> Result<()> {
    let changes: Vec<_> = (0..1 + random.below(5)).map(|_| random.next()).collect();
    session.transaction(|t| {
        for word in &changes {
            let (group, id) = ((word >> 8) as u16 % 3, (word >> 24) as u32 % 40);
            let (key, size) = ((group, id), (word >> 32) as i64);
            let label = (word >> 40 & 1 == 0).then_some((word >> 41) as u16);
            match word % 6 {
                0 | 1 => {
                    let text = "x".repeat((word >> 48) as usize % 50);
                    t.upsert(tables.items, &Item { group, id, size, label, text }).map(drop)?;
                }
                2 => _ = t.update(tables.items, &key, |item| item.size = size)?,
                3 => _ = t.update(tables.items, &key, |item| item.text.push('y'))?,
                4 => _ = t.update(tables.items, &key, |item| (item.label, item.size) = (label, 0))?,
                _ => _ = t.delete(tables.items, &key)?,
            }
        }
        let counted = t.update_field(tables.counters, &worker, Counter::COUNT, |count| *count += 1)?;
        if counted.is_none() {
            t.insert(tables.counters, &Counter { id: worker, count: 1 })?;
        }
        Ok(())
    })
}

/// Runs workers beside a reader; the reader's copy.
fn run_beside(
    database: &Database,
    tables: &Tables,
    changes: &mut Changes,
    copy: &mut Copy,
    seed: u64,
) -> Result<(), String> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3u32)
            .map(|worker| {
                scope.spawn(move || {
                    let mut session = database.session().expect("a session");
                    let mut random = Random::new(seed, u64::from(worker));
                    for number in 0..150 {
                        match step(&mut session, tables, worker, &mut random) {
                            Ok(()) | Err(Error::Conflict { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                        if worker == 0 && number % 50 == 40 {
                            database.checkpoint().expect("a checkpoint");
                        }
                    }
                })
            })
            .collect();
        let done = &done;
        let reader = scope.spawn(move || {
            let mut last = false;
            loop {
                match changes.next_within(Duration::from_millis(5)).expect("a log") {
                    Some(transaction) => copy.apply(&transaction)?,
                    None if last => return Ok(()),
                    None => last = done.load(Ordering::SeqCst),
                }
            }
        });
        // The reader ends even if a worker has panicked.
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        let flushed = database.flush();
        done.store(true, Ordering::SeqCst);
        let read = reader.join().expect("no panic");
        ended.into_iter().for_each(|worker| worker.expect("no panic"));
        flushed.expect("a disk");
        read
    })
}

#[test]
fn a_copy_equals_the_database_under_every_scheme() {
    for scheme in SCHEMES {
        let directory = Directory::new(&format!("changes-model-{scheme:?}"));
        let mut copy = Copy::default();
        let mut position = None;
        for round in 0..4 {
            let (database, tables) = open_at(&directory.0, scheme);
            if round == 0 {
                database.register_change_reader("copy", ChangesFrom::Oldest).expect("a reader");
            }
            let from = position.map_or(ChangesFrom::Oldest, ChangesFrom::Position);
            let mut changes = database.changes(from).expect("a stream");
            run_beside(&database, &tables, &mut changes, &mut copy, round)
                .unwrap_or_else(|gap| panic!("{scheme:?}, round {round}: {gap}"));
            copy.apply_all(&mut changes);
            copy.assert_equals(&database, &tables);
            position = Some(changes.last_position());
            drop(changes);
            database.acknowledge_changes("copy", position.expect("a position")).expect("acknowledged");
            match round % 2 {
                // Some more that the reader sees after the next opening.
                0 => {
                    let mut session = database.session().expect("a session");
                    let mut random = Random::new(round, 9);
                    (0..20).for_each(|_| step(&mut session, &tables, 7, &mut random).expect("committed"));
                    drop(session);
                    database.close().expect("closed");
                }
                _ => drop(database),
            }
        }
        assert!(copy.transactions > 1000, "{}", copy.transactions);
    }
}

#[test]
fn a_stream_that_skips_a_commit_is_noticed() {
    let directory = Directory::new("changes-mutant");
    let builder = Database::at(&directory.0).with_faults(Faults::of(&[Fault::SkippedCommit]));
    let (database, tables) = open(builder).expect("a database");
    let mut changes = database.changes(ChangesFrom::Now).expect("a stream");
    let mut copy = Copy::default();
    let seen = run_beside(&database, &tables, &mut changes, &mut copy, 1);
    assert!(seen.is_err_and(|gap| gap.contains("counter") || gap.contains("of (")), "the gap is seen");
}

#[test]
fn commits_come_in_order_and_one_transaction_at_a_time() {
    let directory = Directory::new("changes-order");
    let (database, tables) = open_at(&directory.0, Scheme::Silo);
    let mut changes = database.changes(ChangesFrom::Now).expect("a stream");
    assert_eq!(changes.next_within(Duration::ZERO), Ok(None));
    assert!(changes.available().expect("a log").next().is_none());
    let mut session = database.session().expect("a session");
    for count in 1..=50 {
        let counter = Counter { id: 1, count };
        session
            .transaction(|t| {
                t.upsert(tables.counters, &counter).map(drop)?;
                t.upsert(tables.counters, &Counter { id: 2, count })
            })
            .expect("committed");
    }
    let mut last = changes.last_position();
    for count in 1..=50 {
        let transaction = changes.next().expect("a commit").expect("a log");
        assert_eq!(transaction.changes.len(), 2);
        assert_ne!(transaction.position, last);
        last = transaction.position;
        let row = |change: &isles::RowChange| {
            let mut row = change.row::<Counter>().expect("a counter").unwrap_or(Counter { id: 0, count: 0 });
            change.apply(&mut row).expect("a counter");
            row.count
        };
        assert!(transaction.changes.iter().all(|change| row(change) == count), "{transaction:?}");
        assert!(matches!(transaction.changes[0].row::<Item>(), Err(Error::NoSuchTable(_))));
        // From any position the rest follows.
        let resumed =
            database.changes(transaction.position).expect("a stream").available().expect("a log").count();
        assert_eq!(resumed as u64, 50 - count);
    }
}

#[test]
fn a_reader_that_waits_is_woken() {
    let directory = Directory::new("changes-wake");
    let (database, tables) = open_at(&directory.0, Scheme::Silo);
    let mut changes = database.changes(ChangesFrom::Now).expect("a stream");
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || changes.next().expect("a commit").expect("a log"));
        let mut session = database.session().expect("a session");
        // Not on disk when it returns, and no session comes afterwards.
        let ((), ticket) = session
            .transaction_async(|t| t.insert(tables.counters, &Counter { id: 1, count: 1 }))
            .expect("committed");
        drop((session, ticket));
        assert_eq!(reader.join().expect("no panic").changes.len(), 1);
    });
}

/// Commits until the log has this many bytes more.
fn grow(database: &Database, tables: &Tables, count: u64) {
    let mut session = database.session().expect("a session");
    for number in 0..count {
        let text = "z".repeat(3000);
        let item = Item { group: 9, id: (number % 50) as u32, size: number as i64, label: None, text };
        session.transaction(|t| t.upsert(tables.items, &item)).expect("committed");
    }
}

#[test]
fn readers_that_are_registered_keep_the_log_within_a_bound() {
    let directory = Directory::new("changes-bound");
    let (database, tables) = open_at(&directory.0, Scheme::Silo);
    let unregistered = database.register_change_reader("slow", ChangesFrom::Now).expect("a position");
    drop(database);
    for round in 0..3 {
        let (database, tables) = open_at(&directory.0, Scheme::Silo);
        grow(&database, &tables, 100);
        database.checkpoint().expect("a checkpoint");
        let readers = database.change_readers().expect("readers");
        assert_eq!((readers.len(), readers[0].is_lost), (1, false), "round {round}");
        database.close().expect("closed");
    }
    // All of it is there.
    let (database, tables_now) = open_at(&directory.0, Scheme::Silo);
    let mut changes = database.changes(ChangesFrom::Reader("slow".into())).expect("a stream");
    assert_eq!(changes.available().expect("a log").map(Result::unwrap).count(), 300);
    let segments = || {
        let names = std::fs::read_dir(&directory.0).expect("a directory");
        names
            .filter(|name| {
                name.as_ref().is_ok_and(|name| name.file_name().to_string_lossy().starts_with("log-"))
            })
            .count()
    };
    let before = segments();
    // What was acknowledged goes.
    database.acknowledge_changes("slow", changes.last_position()).expect("acknowledged");
    drop(changes);
    assert!(segments() < before, "{before} segments stay");
    let gone = database.changes(unregistered).map(drop);
    assert_eq!(gone, Err(Error::ChangesLost));
    assert_eq!(
        database.changes(ChangesFrom::Reader("other".into())).map(drop),
        Err(Error::NoSuchReader { name: "other".into() })
    );
    let _ = (tables, tables_now);
    database.close().expect("closed");

    // Beyond the bound.
    let (database, tables) =
        open(Database::at(&directory.0).retained_changes(200 << 10)).expect("a database");
    let mut open_stream = database.changes(ChangesFrom::Now).expect("a stream");
    for _ in 0..4 {
        grow(&database, &tables, 100);
        database.checkpoint().expect("a checkpoint");
    }
    assert!(database.change_readers().expect("readers")[0].is_lost);
    assert_eq!(database.changes(ChangesFrom::Reader("slow".into())).map(drop), Err(Error::ChangesLost));
    let read: Vec<_> = open_stream.by_ref().take(401).collect();
    assert_eq!(read.last(), Some(&Err(Error::ChangesLost)), "{} commits", read.len());
    assert!(open_stream.next().is_none());
    assert!(matches!(open_stream.next_within(Duration::ZERO), Err(Error::Misuse(_))));
    // From a copy on.
    let position = database.register_change_reader("slow", ChangesFrom::Now).expect("a position");
    grow(&database, &tables, 3);
    assert_eq!(database.changes(position).expect("a stream").available().expect("a log").count(), 3);
    assert_eq!(database.forget_change_reader("slow"), Ok(true));
    assert_eq!(database.forget_change_reader("slow"), Ok(false));
    database.checkpoint().expect("a checkpoint");
    drop(open_stream);
    database.close().expect("closed");
    assert!(!directory.0.join("isles.changes").exists(), "nobody reads");
}

#[test]
fn without_readers_nothing_stays() {
    let directory = Directory::new("changes-none");
    let (database, tables) = open_at(&directory.0, Scheme::Silo);
    let start = database.changes(ChangesFrom::Oldest).expect("a stream").last_position();
    grow(&database, &tables, 100);
    database.checkpoint().expect("a checkpoint");
    assert!(!directory.0.join("isles.changes").exists());
    assert_eq!(database.changes(start).map(drop), Err(Error::ChangesLost));
    database.close().expect("closed");
}

#[test]
fn tables_come_and_go_beside_a_stream() {
    let directory = Directory::new("changes-tables");
    let (database, tables) = open_at(&directory.0, Scheme::Silo);
    let mut changes = database.changes(ChangesFrom::Now).expect("a stream");
    grow(&database, &tables, 60);
    let extra = database.create_table::<Counter>("extra").expect("a table");
    database.transaction(|t| t.insert(extra, &Counter { id: 5, count: 5 })).expect("inserted");
    database.drop_table("extra").expect("dropped");
    database.checkpoint().expect("a checkpoint");
    let again = database.create_table::<Counter>("extra").expect("a table");
    database.transaction(|t| t.insert(again, &Counter { id: 6, count: 6 })).expect("inserted");
    let change = TableChange::new().new_columns_of(&LongItem {
        group: 0,
        id: 0,
        size: 0,
        label: None,
        text: String::new(),
        color: 3,
    });
    let items = database.change_table::<LongItem>("items", change).expect("changed");
    database
        .transaction(|t| t.update_field(items, &(9, 1), LongItem::COLOR, |color| *color = 4))
        .expect("updated");
    database.checkpoint().expect("a checkpoint");

    let mut copy = Copy::default();
    let (mut extras, mut forms) = (Vec::new(), Vec::new());
    for transaction in changes.available().expect("a log") {
        let transaction = transaction.expect("a transaction");
        for change in &transaction.changes {
            match change.table().name() {
                "extra" => extras.push((change.table_id(), key_of(change))),
                "items" => forms.push(change.table_id()),
                _ => {}
            }
        }
        copy.apply(&transaction).expect("no gap");
    }
    assert_eq!(extras.len(), 2);
    assert_ne!(extras[0].0, extras[1].0);
    // The last form has all rows of the table.
    let last = *forms.iter().max().expect("changes");
    let rows = database.transaction(|t| t.scan_dynamic("items")).expect("rows");
    let copied: Vec<_> =
        copy.values.iter().filter(|((form, _), _)| *form == last).map(|(_, values)| values.clone()).collect();
    let sorted = |mut rows: Vec<Vec<Datum>>| {
        rows.sort_by_key(|row| format!("{row:?}"));
        rows
    };
    assert_eq!(sorted(copied), sorted(rows));
    // Both descriptions are known after an opening, too.
    drop((changes, database));
}

#[test]
fn a_watch_wakes_for_its_rows_alone() {
    let directory = Directory::new("changes-watch");
    let (database, tables) = open_at(&directory.0, Scheme::Silo);
    let (soon, now) = (Duration::from_secs(20), Duration::from_millis(50));
    let mut range = database.watch(tables.items, (1, 10)..(1, 20)).expect("a stream");
    let mut one = database.watch(tables.counters, 5..=5).expect("a stream");
    let mut none = database.watch(tables.items, (1, 10)..(1, 10)).expect("a stream");
    let item = |group, id| Item { group, id, size: 0, label: None, text: String::new() };
    let insert = |group, id| {
        database.transaction(|t| t.insert(tables.items, &item(group, id))).expect("inserted");
    };
    [(0, 15), (1, 9), (1, 20), (2, 15)].into_iter().for_each(|(group, id)| insert(group, id));
    assert_eq!(range.wait_for(now), Ok(false));
    insert(1, 10);
    assert_eq!(range.wait_for(soon), Ok(true));
    assert_eq!(range.wait_for(Duration::ZERO), Ok(false), "once");
    database.transaction(|t| t.update(tables.items, &(1, 10), |item| item.size = 7)).expect("updated");
    assert_eq!(range.wait_for(soon), Ok(true));
    database.transaction(|t| t.delete(tables.items, &(1, 10))).expect("deleted");
    assert_eq!(range.wait_for(soon), Ok(true));
    assert_eq!(one.wait_for(now), Ok(false));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || one.wait_for(soon));
        database.transaction(|t| t.insert(tables.counters, &Counter { id: 5, count: 1 })).expect("inserted");
        assert_eq!(waiting.join().expect("no panic"), Ok(true));
    });
    assert_eq!(none.wait_for(now), Ok(false));
    let other = Database::in_memory().open().expect("a database");
    assert!(matches!(other.watch(tables.items, ..), Err(Error::Misuse(_))));
}

#[test]
fn where_there_is_no_stream_an_error_says_so() {
    let database = Database::in_memory().open().expect("a database");
    assert!(matches!(database.changes(ChangesFrom::Now), Err(Error::NoChanges { .. })));
    assert!(matches!(database.change_readers(), Err(Error::NoChanges { .. })));
    let [first, second] = ["changes-first", "changes-second"].map(Directory::new);
    let (first, _) = open_at(&first.0, Scheme::Silo);
    let (other, tables) = open_at(&second.0, Scheme::Silo);
    let position = first.changes(ChangesFrom::Now).expect("a stream").last_position();
    assert!(matches!(other.changes(position), Err(Error::Misuse(_))));
    assert!(matches!(other.acknowledge_changes("r", position), Err(Error::Misuse(_))));
    assert!(matches!(other.register_change_reader("", ChangesFrom::Now), Err(Error::Misuse(_))));
    assert!(matches!(other.register_change_reader(&"n".repeat(65), ChangesFrom::Now), Err(Error::Misuse(_))));
    let mut changes = other.changes(ChangesFrom::Now).expect("a stream");
    let nested = other.transaction(|t| {
        t.insert(tables.counters, &Counter { id: 1, count: 1 })?;
        Ok((changes.next_within(Duration::ZERO).map(drop), other.changes(ChangesFrom::Now).map(drop)))
    });
    assert_eq!(nested, Ok((Err(Error::Nested), Err(Error::Nested))));
    assert!(matches!(other.close(), Err(Error::InUse { clones: 1, .. })));
}

#[test]
fn positions_are_read_as_written_and_every_flipped_bit_is_seen() {
    let directory = Directory::new("changes-position");
    let (database, _) = open_at(&directory.0, Scheme::Silo);
    let position = database.changes(ChangesFrom::Now).expect("a stream").last_position();
    let mut bytes = position.to_bytes();
    assert_eq!(ChangePosition::from_bytes(&bytes), Ok(position));
    assert_eq!(position.to_string().parse(), Ok(position));
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(ChangePosition::from_bytes(&bytes).is_err(), "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    assert!(ChangePosition::from_bytes(&bytes[1..]).is_err());
    assert!("".parse::<ChangePosition>().is_err() && "zz".repeat(32).parse::<ChangePosition>().is_err());
}
