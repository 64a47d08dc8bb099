//! Primary keys of any length up to 2 KiB, against a model: on every engine, after a crash, in
//! streams of changes, in read-only copies, and by description.

// The test looks at the files of a database.
#![allow(clippy::disallowed_methods)]

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;

use isles::{
    Builder, ChangeKind, ChangesFrom, ColumnDescription, Database, Datum, DescribedScan, Error, Result, Row,
    RowError, Scheme, Session, Table, TableBuilder, TableChange, Text, ValueType, prefix, prefixes,
};
use terms::random::Random;
use terms::{Fault, Faults};

use crate::common::{Directory, SCHEMES};

/// Several variable parts, one of them descending, and an index that ends with them.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(owner, desc(path), part), index(by_size(size)))]
struct Blob {
    size: u32,
    count: u32,
    owner: String,
    path: Vec<u8>,
    part: i16,
    note: String,
}

/// Nothing but bytes.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(key))]
struct Pair {
    key: Vec<u8>,
    value: Vec<u8>,
}

type BlobKey = (String, Reverse<Vec<u8>>, i16);

fn key_of(blob: &Blob) -> BlobKey {
    (blob.owner.clone(), Reverse(blob.path.clone()), blob.part)
}

#[derive(Clone, Copy)]
struct Tables {
    blobs: Table<Blob>,
    pairs: Table<Pair>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    blobs: BTreeMap<BlobKey, Blob>,
    pairs: BTreeMap<Vec<u8>, Pair>,
}

/// Bytes that agree with others for long, of all lengths, with the bytes that are escaped.
fn bytes(random: &mut Random) -> Vec<u8> {
    bytes_up_to(1000, random)
}

fn bytes_up_to(most: usize, random: &mut Random) -> Vec<u8> {
    let length = [0, 3, 40, 47, 48, 49, 64, 65, 300, 1000][random.below(10) as usize].min(most);
    let mut bytes = vec![[0, 1, 2, b'm', 255][random.below(5) as usize]; length];
    bytes.extend((0..random.below(3)).map(|_| [0, 1, 2, 254, 255][random.below(5) as usize]));
    bytes
}

fn blob_key(random: &mut Random) -> BlobKey {
    let length = [0, 5, 50, 60, 500][random.below(5) as usize];
    let owner =
        format!("{}{}", "owner".repeat(length / 5), ["", "a", "b", "\0", "é"][random.below(5) as usize]);
    (owner, Reverse(bytes_up_to(300, random)), random.below(3) as i16 - 1)
}

fn blob(random: &mut Random) -> Blob {
    let (owner, Reverse(path), part) = blob_key(random);
    let (size, count) = (random.below(5) as u32, random.below(100) as u32);
    Blob { size, count, owner, path, part, note: "n".repeat(random.below(90) as usize) }
}

fn open(mut builder: Builder) -> (Database, Tables) {
    let tables = Tables { blobs: builder.table("blobs"), pairs: builder.table("pairs") };
    (builder.open().expect("a database"), tables)
}

/// One transaction of some changes, which the model repeats if it commits.
fn step(session: &mut Session, tables: Tables, model: &mut Model, random: &mut Random) {
    let mut after = Model::default();
    let seed = random.next();
    let outcome = session.transaction(|t| {
        let random = &mut Random::new(seed, 0);
        after = model.clone();
        for _ in 0..1 + random.below(4) {
            let (before, savepoint) = (after.clone(), t.savepoint()?);
            change(t, tables, &mut after, random)?;
            if random.chance(15) {
                t.roll_back_to(savepoint)?;
                after = before;
            }
        }
        if random.chance(10) { Err(Error::RollBack) } else { Ok(()) }
    });
    match outcome {
        Ok(()) => *model = after,
        Err(Error::RollBack) => {}
        Err(error) => panic!("{error}"),
    }
}

/// A key of the model, or any other.
fn known<K: Ord + Clone, V>(map: &BTreeMap<K, V>, any: K, random: &mut Random) -> K {
    let place = random.below(map.len() as u64 + 1) as usize;
    map.keys().nth(place).cloned().unwrap_or(any)
}

fn change(
    t: &mut isles::Transaction<'_>,
    Tables { blobs, pairs }: Tables,
    model: &mut Model,
    random: &mut Random,
) -> Result<()> {
    let new = blob(random);
    let key = known(&model.blobs, key_of(&new), random);
    let pair = Pair { key: bytes(random), value: bytes(random) };
    match random.below(11) {
        0 | 1 => {
            let is_there = model.blobs.contains_key(&key_of(&new));
            assert_eq!(t.insert_or_ignore(blobs, &new)?, !is_there);
            model.blobs.entry(key_of(&new)).or_insert(new);
        }
        2 => {
            assert_eq!(t.upsert(blobs, &new)?, model.blobs.insert(key_of(&new), new));
        }
        3 => {
            let note = new.note.clone();
            let found = t.update(blobs, &key, |row| row.note.clone_from(&note))?;
            let row = model.blobs.get_mut(&key);
            assert_eq!(found.is_some(), row.is_some());
            row.into_iter().for_each(|row| row.note.clone_from(&note));
        }
        4 => {
            // The key changes too, unless its place is taken.
            let (target, is_there) = (key_of(&new), model.blobs.contains_key(&key_of(&new)));
            if !is_there && let Some(mut row) = model.blobs.remove(&key) {
                let Blob { owner, path, part, .. } = new.clone();
                (row.owner, row.path, row.part) = (owner, path, part);
                let changed = t.update(blobs, &key, |row| {
                    (row.owner, row.path, row.part) = (new.owner.clone(), new.path.clone(), new.part);
                })?;
                assert!(changed.is_some());
                model.blobs.insert(target, row);
            }
        }
        5 => assert_eq!(t.delete(blobs, &key)?, model.blobs.remove(&key)),
        6 => {
            let count = new.count;
            let set = t.set_field(blobs, &key, Blob::COUNT, &count)?;
            let row = model.blobs.get_mut(&key);
            assert_eq!(set, row.is_some());
            row.into_iter().for_each(|row| row.count = count);
        }
        7..10 => {
            assert_eq!(t.upsert(pairs, &pair)?, model.pairs.insert(pair.key.clone(), pair));
        }
        _ => {
            let key = known(&model.pairs, pair.key, random);
            assert_eq!(t.delete(pairs, &key)?, model.pairs.remove(&key));
        }
    }
    read(t, Tables { blobs, pairs }, model, random)
}

/// Some reads, which the model agrees with.
fn read(
    t: &mut isles::Transaction<'_>,
    Tables { blobs, pairs }: Tables,
    model: &Model,
    random: &mut Random,
) -> Result<()> {
    let keys: Vec<BlobKey> = (0..3).map(|_| known(&model.blobs, blob_key(random), random)).collect();
    let expected: Vec<_> = keys.iter().map(|key| model.blobs.get(key).cloned()).collect();
    assert_eq!(t.get_many(blobs, &keys)?, expected);
    assert_eq!(t.get(blobs, &keys[0])?, expected[0]);
    assert_eq!(t.exists(blobs, &keys[1])?, expected[1].is_some());
    let (low, high) = (keys[0].clone().min(keys[1].clone()), keys[0].clone().max(keys[1].clone()));
    let within: Vec<_> = model.blobs.range(low.clone()..high.clone()).map(|(_, row)| row.clone()).collect();
    assert_eq!(t.scan(blobs, low.clone()..high.clone()).first()?, within.first().cloned());
    assert_eq!(t.scan(blobs, low.clone()..high.clone()).last()?, within.last().cloned());
    assert_eq!(t.scan(blobs, low..high).collect()?, within);
    let owner = &keys[2].0;
    let own = model.blobs.keys().filter(|key| key.0 == *owner).count() as u64;
    assert_eq!(t.scan(blobs, prefix(owner.clone())).count()?, own);
    let from = model.blobs.keys().filter(|key| key.0 >= *owner).count() as u64;
    assert_eq!(t.scan(blobs, prefixes(owner.clone()..)).count()?, from);
    let (low, pair) = (bytes(random), known(&model.pairs, bytes(random), random));
    let backwards: Vec<_> = model.pairs.range(low.clone()..).rev().map(|(_, row)| row.clone()).collect();
    assert_eq!(t.scan(pairs, low..).reverse().collect()?, backwards);
    assert_eq!(t.get(pairs, &pair)?, model.pairs.get(&pair).cloned());
    Ok(())
}

/// Everything that is there.
fn content(database: &Database, tables: Tables) -> Model {
    let read = database.transaction(|t| read_all(t, tables));
    read.expect("a read")
}

fn read_all(t: &mut isles::Transaction<'_>, Tables { blobs, pairs }: Tables) -> Result<Model> {
    let (rows, pairs) = (t.scan(blobs, ..).collect()?, t.scan(pairs, ..).collect()?);
    assert!(rows.is_sorted_by_key(key_of) && pairs.is_sorted_by_key(|pair| pair.key.clone()));
    let by_size = t.scan(blobs.by(Blob::BY_SIZE), ..).collect()?;
    assert!(by_size.is_sorted_by_key(|row| (row.size, key_of(row))));
    assert_eq!(by_size.len(), rows.len());
    Ok(Model {
        blobs: rows.into_iter().map(|row| (key_of(&row), row)).collect(),
        pairs: pairs.into_iter().map(|pair| (pair.key.clone(), pair)).collect(),
    })
}

fn run(database: &Database, tables: Tables, model: &mut Model, seed: u64, steps: usize) {
    let (mut session, mut random) = (database.session().expect("a session"), Random::new(seed, 1));
    for _ in 0..steps {
        step(&mut session, tables, model, &mut random);
    }
    assert_eq!(content(database, tables), *model);
}

#[test]
fn long_primary_keys_agree_with_a_model_in_memory() {
    for (seed, scheme) in (0..).zip(SCHEMES) {
        let (database, tables) = open(Database::in_memory().scheme(scheme).memory_limit(64 << 20));
        let mut model = Model::default();
        run(&database, tables, &mut model, seed, 150);
        assert!(model.blobs.len() > 20 && model.pairs.len() > 10, "{scheme:?}: {}", model.blobs.len());
    }
}

/// A copy of a directory at rest is the state that a crash would have left.
fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).expect("a directory");
    for file in std::fs::read_dir(from).expect("the directory") {
        let file = file.expect("a file");
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
}

fn recovers(builder: impl Fn(&Path) -> Builder, name: &str, seed: u64) {
    let (directory, other) = (Directory::new(name), Directory::new(&format!("{name}-copy")));
    let mut model = Model::default();
    let mut path = &directory.0;
    for round in 0..4 {
        let (database, tables) = open(builder(path));
        assert_eq!(content(&database, tables), model, "{name}, round {round}");
        run(&database, tables, &mut model, seed + round, 60);
        if round % 2 == 0 {
            database.checkpoint().expect("a checkpoint");
            run(&database, tables, &mut model, seed + 100 + round, 40);
        }
        // The process ends without closing the database.
        std::mem::forget(database);
        let next = if round % 2 == 0 { &other.0 } else { &directory.0 };
        copy(path, next);
        path = next;
    }
    let check = Database::check(path).expect("whole");
    let rows = [("blobs", model.blobs.len()), ("pairs", model.pairs.len())];
    assert_eq!(check.tables, rows.map(|(name, rows)| (name.to_owned(), rows as u64)));
    let scratch = Directory::new(&format!("{name}-scratch"));
    std::fs::create_dir(&scratch.0).expect("a directory");
    let mut builder = builder(path);
    let tables = Tables { blobs: builder.table("blobs"), pairs: builder.table("pairs") };
    let copied = builder.read_copy(&scratch.0).expect("a copy");
    assert_eq!(copied.read(|t| read_all(t, tables)), Ok(model));
}

#[test]
fn long_primary_keys_survive_a_crash() {
    for (seed, scheme) in (0..).zip(SCHEMES) {
        let builder = |path: &Path| Database::at(path).scheme(scheme).sessions(4).memory_limit(64 << 20);
        recovers(builder, &format!("long-primary-{scheme:?}"), 1000 * seed);
    }
}

#[test]
fn long_primary_keys_in_pages_survive_a_crash() {
    recovers(|path| Database::at(path).sessions(4).pages(8 << 20), "long-primary-pages", 7);
}

/// A mutant: an opening sees that records name no rows.
#[test]
fn records_that_forget_keys_are_noticed() {
    let directory = Directory::new("long-primary-mutant");
    let builder = || Database::at(&directory.0).sessions(2).memory_limit(64 << 20);
    let (database, Tables { pairs, .. }) = open(builder().with_faults(Faults::of(&[Fault::CutKeys])));
    let pair = |value: &str| Pair { key: b"a key".repeat(20), value: value.into() };
    database.transaction(|t| t.insert(pairs, &pair("one"))).expect("inserted");
    database.transaction(|t| t.upsert(pairs, &pair("two"))).expect("changed");
    std::mem::forget(database);
    let other = Directory::new("long-primary-mutant-copy");
    copy(&directory.0, &other.0);
    let opened = std::panic::catch_unwind(|| {
        let (database, tables) = open(Database::at(&other.0).sessions(2).memory_limit(64 << 20));
        content(&database, tables).pairs.into_values().collect::<Vec<_>>()
    });
    assert_ne!(opened.ok(), Some(vec![pair("two")]), "the mutant is not noticed");
    assert!(Database::check(&other.0).is_err());
}

/// The longest key, one byte more, and keys that no row can have.
#[test]
fn the_bound_of_primary_keys_is_named() {
    let directory = Directory::new("long-primary-bound");
    let in_memory = SCHEMES.map(|scheme| Database::in_memory().scheme(scheme));
    for builder in in_memory.into_iter().chain([directory.in_pages()]) {
        let (database, Tables { pairs, .. }) = open(builder);
        let pair = |bytes: usize| Pair { key: vec![b'k'; bytes], value: vec![1] };
        let outcome = database.transaction(|t| {
            let refusal = t.insert(pairs, &pair(2048)).expect_err("refused");
            let Error::Row(RowError::KeyTooLong { table, index, bytes }) = &refusal else {
                panic!("{refusal:?}");
            };
            assert_eq!((&**table, &**index, *bytes), ("pairs", "primary", 2049));
            t.insert(pairs, &pair(2047))?;
            t.insert(pairs, &pair(2046))?;
            for bytes in [2046, 2047, 2048, 5000] {
                let found = (bytes < 2048).then(|| pair(bytes));
                assert_eq!(t.get(pairs, &vec![b'k'; bytes])?, found);
            }
            assert_eq!(t.scan(pairs, vec![b'k'; 2047]..).count()?, 1);
            assert_eq!(t.scan(pairs, ..vec![b'k'; 5000]).count()?, 2);
            assert_eq!(t.delete(pairs, &pair(2046).key)?, Some(pair(2046)));
            let taken = t.insert(pairs, &pair(2047));
            assert!(matches!(taken, Err(Error::Duplicate { .. })), "{taken:?}");
            Ok(())
        });
        assert!(matches!(outcome, Err(Error::Duplicate { .. })), "{outcome:?}");
    }
}

/// Described tables have the same keys: texts, bounded texts, bytes. Their changes name rows.
#[test]
fn described_tables_have_long_primary_keys() {
    let column = ColumnDescription::new;
    let described = || {
        TableBuilder::new("users")
            .column(column("mail", ValueType::VarChar(254)))
            .column(column("site", ValueType::String))
            .column(column("age", ValueType::Unsigned(4)))
            .key(["site", "mail"])
            .build()
            .expect("a table")
    };
    let directories = [false, true].map(|pages| (pages, Directory::new(&format!("long-described-{pages}"))));
    for (is_paged, directory) in &directories {
        let builder = || match is_paged {
            true => directory.in_pages(),
            false => Database::at(&directory.0).sessions(4).memory_limit(64 << 20),
        };
        let user = |number: u32| {
            let mail = format!("{}{number}@example.org", "m".repeat(number as usize * 40));
            let site = "s".repeat(number as usize % 3 * 50);
            [Datum::Text(mail), Datum::Text(site), Datum::Unsigned(number.into())]
        };
        let key = |number: u32| [user(number)[1].clone(), user(number)[0].clone()];
        let open = || {
            let mut builder = builder();
            builder.described_table(described());
            builder.open().expect("a database")
        };
        let database = open();
        let mut changes = (!is_paged).then(|| database.changes(ChangesFrom::Now).expect("a stream"));
        let run = database.transaction(|t| {
            (0..6).try_for_each(|number| t.insert_dynamic("users", &user(number)))?;
            let mut older = user(3);
            older[2] = Datum::Unsigned(99);
            assert!(t.update_dynamic("users", &key(3), &older)?);
            assert!(t.delete_dynamic("users", &key(4))?);
            let long = [Datum::Text("m".repeat(255)), Datum::Text(String::new()), Datum::Unsigned(0)];
            assert!(matches!(t.insert_dynamic("users", &long), Err(Error::Row(RowError::Range { .. }))));
            t.get_dynamic("users", &key(5))
        });
        assert_eq!(run, Ok(Some(user(5).to_vec())));
        let change = database.transaction(|t| {
            let mut older = user(2);
            older[2] = Datum::Unsigned(50);
            t.update_dynamic("users", &key(2), &older)?;
            t.delete_dynamic("users", &key(5))
        });
        assert_eq!(change, Ok(true));
        if let Some(changes) = &mut changes {
            let mut next = || changes.next_within(std::time::Duration::from_secs(60)).expect("a log");
            let (_, last) = (next(), next().expect("a commit"));
            let keys = last.changes.iter().map(|change| (change.kind(), change.key().expect("a key")));
            let expected = vec![(ChangeKind::Update, key(2).to_vec()), (ChangeKind::Delete, key(5).to_vec())];
            assert_eq!(keys.collect::<Vec<_>>(), expected);
        }
        drop(changes);
        database.close().expect("closed");
        let database = open();
        let rows = database.transaction(|t| t.scan_dynamic("users")).expect("a read");
        let ages: Vec<_> = rows.iter().map(|row| row[2].clone()).collect();
        assert_eq!(ages, [0, 99, 1, 50].map(Datum::Unsigned));
        let after = database.transaction(|t| t.scan_dynamic_after("users", Some(&key(3)), 9));
        assert_eq!(after.expect("a read").len(), 2);
        database.close().expect("closed");
        assert_eq!(Database::check(&directory.0).expect("whole").tables, [("users".to_owned(), 4)]);
    }
}

/// As a pair, with one more column.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(key), index(by_weight(weight)))]
struct Weighed {
    key: Vec<u8>,
    value: Vec<u8>,
    weight: Option<u32>,
}

/// Rows get another form; the log has both.
#[test]
fn tables_with_long_primary_keys_get_another_form() {
    let (directory, other) = (Directory::new("long-primary-form"), Directory::new("long-primary-form-copy"));
    let builder = |path: &Path| Database::at(path).scheme(Scheme::Silo).sessions(4).memory_limit(64 << 20);
    let (database, tables) = open(builder(&directory.0));
    let mut model = Model::default();
    run(&database, tables, &mut model, 77, 60);
    let weighed = database.change_table::<Weighed>("pairs", TableChange::new()).expect("changed");
    let key = model.pairs.keys().next_back().expect("a pair").clone();
    let set = database.transaction(|t| t.update(weighed, &key, |row| row.weight = Some(9)));
    assert!(set.expect("a commit").is_some());
    let gone = model.pairs.keys().next().expect("a pair").clone();
    assert!(database.transaction(|t| t.delete(weighed, &gone)).expect("a commit").is_some());
    model.pairs.remove(&gone);
    std::mem::forget(database);
    copy(&directory.0, &other.0);
    let mut builder = builder(&other.0);
    let (_, weighed) = (builder.table::<Blob>("blobs"), builder.table::<Weighed>("pairs"));
    let database = builder.open().expect("it opens");
    let rows = database.transaction(|t| t.scan(weighed, ..).collect()).expect("a read");
    let of_model = |pair: &Pair| {
        let Pair { key: own, value } = pair.clone();
        Weighed { weight: (own == key).then_some(9), key: own, value }
    };
    assert_eq!(rows, model.pairs.values().map(of_model).collect::<Vec<_>>());
    database.close().expect("closed");
    Database::check(&other.0).expect("whole");
}

/// A fixed length, and the least of long ones: nine words.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(key), index(by_code(code)))]
struct Fixed {
    key: [u8; 65],
    code: Text<70>,
    content: Vec<u8>,
}

#[test]
fn fixed_keys_of_nine_words_are_long() {
    let directory = Directory::new("long-primary-fixed");
    let in_memory = Database::in_memory().scheme(Scheme::Silo);
    for mut builder in [in_memory, directory.in_pages()] {
        let table = builder.table::<Fixed>("fixed");
        let database = builder.open().expect("a database");
        let row = |number: u8| {
            let mut key = [0; 65];
            (key[0], key[64]) = (number / 2, number % 2);
            Fixed {
                key,
                code: Text::truncated(&"c".repeat(usize::from(number) * 30)),
                content: vec![number; 3000],
            }
        };
        let outcome = database.transaction(|t| {
            t.insert_all(table, (0..8).map(row))?;
            t.update(table, &row(3).key, |row| row.content.push(1))?;
            assert_eq!(t.delete(table, &row(4).key)?, Some(row(4)));
            assert_eq!(t.get(table, &row(4).key)?, None);
            assert_eq!(t.get_many(table, [row(6).key, row(4).key])?, [Some(row(6)), None]);
            t.scan(table.by(Fixed::BY_CODE), ..).count()
        });
        assert_eq!(outcome, Ok(7));
        let keys = database.transaction(|t| t.scan(table, row(1).key..row(7).key).collect());
        let keys: Vec<_> = keys.expect("a read").iter().map(|row| row.key).collect();
        assert_eq!(keys, [1, 2, 3, 5, 6].map(|number| row(number).key));
    }
}

/// Reads a range of an index without a row type; returns the names of its rows.
fn names(database: &Database, scan: &DescribedScan) -> Vec<String> {
    let read = database.transaction(|t| {
        let (mut scan, mut names) = (scan.clone(), Vec::new());
        assert_eq!(t.next_described(&mut scan, 0)?, Vec::<Vec<Datum>>::new());
        loop {
            let rows = t.next_described(&mut scan, 7)?;
            if rows.is_empty() {
                return Ok(names);
            }
            names.extend(rows.iter().map(|row| row[0].to_string().trim_matches('"').to_string()));
        }
    });
    read.expect("a range")
}

#[test]
fn tables_with_text_keys_are_scanned_and_changed_by_description() {
    let described = |name: &str| {
        TableBuilder::new(name)
            .column(ColumnDescription::new("name", ValueType::String))
            .column(ColumnDescription::new("town", ValueType::String))
            .key(["name"])
            .index("by_town", ["town"])
    };
    let name = |number: u64| format!("{}{number:03}", "n".repeat(number as usize % 3 * 40));
    for scheme in SCHEMES {
        let database = Database::in_memory().scheme(scheme).open().expect("a database");
        let made = database.transaction(|t| {
            t.create_described_table(described("people").build()?)?;
            (0..600).try_for_each(|number| {
                let town = format!("town {}", number % 10);
                t.insert_dynamic("people", &[Datum::Text(name(number)), Datum::Text(town)])
            })
        });
        made.expect("made");
        let mut all: Vec<_> = (0..600).map(name).collect();
        all.sort_unstable();
        let between = |low: &str, high: &str| {
            let of = |text: &str| vec![Datum::Text(text.into())];
            (Bound::Included(of(low)), Bound::Excluded(of(high)))
        };
        let expected = |low: &str, high: &str| {
            let within = |name: &&String| (low..high).contains(&name.as_str());
            all.iter().filter(within).cloned().collect::<Vec<_>>()
        };
        for (low, high) in [("", "o"), ("1", "n"), ("n", "o"), (&all[100], &all[500]), ("x", "y")] {
            let (from, to) = between(low, high);
            let scan = DescribedScan::new("people", 0).low(from).high(to);
            assert_eq!(names(&database, &scan), expected(low, high), "{scheme:?}: {low} to {high}");
            let mut backwards = names(&database, &scan.reverse());
            backwards.reverse();
            assert_eq!(backwards, expected(low, high), "{scheme:?}: {low} to {high}, backwards");
        }
        let (from, to) = between("town 3", "town 4");
        assert_eq!(names(&database, &DescribedScan::new("people", 1).low(from).high(to)).len(), 60);

        // Copies of more rows than are copied at a time.
        let changed = database.transaction(|t| {
            t.rename_table("people", "persons")?;
            t.change_described_table(described("persons").key(["town", "name"]).build()?)
        });
        changed.expect("changed");
        let rows = database.transaction(|t| t.scan_dynamic("persons")).expect("read");
        assert_eq!(rows.len(), 600, "{scheme:?}");
    }
}
