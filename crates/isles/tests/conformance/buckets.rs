//! Buckets on each engine: every function, and the order of keys beside a model.

use std::collections::BTreeMap;
use std::path::Path;

use isles::kv::{Batch, Bucket, Entry};
use isles::{Builder, Error, Result, RowError};

use crate::calls::{call, call_function};
use crate::engines::{Directory, Engine};

/// Keys that differ early, late, in length alone and in zeros.
fn keys() -> Vec<Vec<u8>> {
    let long = |last: u8| [vec![b'k'; 900], vec![last]].concat();
    let mut keys = vec![vec![], vec![0], vec![0, 0], vec![0, 1], vec![255], vec![255, 255], long(1), long(2)];
    keys.extend(["a", "ab", "abc", "b"].map(|text| text.as_bytes().to_vec()));
    keys.push(vec![b'k'; 48]);
    keys.push(vec![b'k'; 900]);
    keys
}

fn value(key: &[u8]) -> Vec<u8> {
    key.iter().rev().copied().chain([7]).collect()
}

/// Calls the functions of buckets on a database in a directory of its own.
pub fn call_on_database(engine: Engine, declared: impl Fn(Engine, &Path) -> Builder) {
    let directory = Directory::new(&format!("{}-buckets", engine.name()));
    let mut builder = declared(engine, &directory.0);
    let bucket = call_function!(Bucket::declare(&mut builder, "bucket"));
    let database = builder.spare_tables(4).open().expect("a database");
    let model: BTreeMap<Vec<u8>, Vec<u8>> =
        keys().into_iter().map(|key| (key.clone(), value(&key))).collect();

    let mut batch = call_function!(Batch::new());
    assert!(call!(batch.is_empty()));
    for key in keys() {
        call!(batch.put(bucket, &key, value(&key)));
    }
    call!(batch.delete(bucket, "absent"));
    assert_eq!(call!(batch.len()), model.len() + 1);
    database.transaction(|t| call!(batch.apply(t))).expect("written");
    call!(batch.clear());
    assert_eq!(batch.len(), 0);

    database
        .transaction(|t| {
            let all = call!(bucket.all(t)).collect()?;
            let expected: Vec<_> = model.iter().map(|(key, value)| entry(key, value)).collect();
            assert_eq!(all, expected, "{}", engine.name());
            for (low, high) in [("", "b"), ("a", "abc"), ("ab", "zz"), ("x", "y")] {
                let (low, high) = (low.as_bytes().to_vec(), high.as_bytes().to_vec());
                let expected = model.range(low.clone()..high.clone()).count() as u64;
                assert_eq!(call!(bucket.range(t, low..high)).count()?, expected);
            }
            for prefix in [vec![], vec![0], vec![255], b"ab".to_vec(), vec![b'k'; 60]] {
                let expected: Vec<_> = model.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
                let found = call!(bucket.prefix(t, &prefix)).collect()?;
                assert_eq!(found.into_iter().map(|entry| entry.key).collect::<Vec<_>>(), expected);
            }
            Ok(())
        })
        .expect("read");
    call_single_verbs(&database, bucket);

    let (created, is_created) = match call_function!(Bucket::create(&database, "later")) {
        Ok(created) => (created, true),
        // Tables over pages are declared when the database is opened.
        Err(Error::Misuse(_)) => (bucket, false),
        Err(error) => panic!("{error}"),
    };
    assert_eq!(database.transaction(|t| created.put(t, "later", "1")), Ok(None));
    let table = call!(created.table());
    assert_eq!(database.transaction(|t| t.get(table, &b"later".to_vec())), Ok(Some(entry(b"later", b"1"))));
    drop(database);

    let mut builder = declared(engine, &directory.0);
    Bucket::declare(&mut builder, "bucket");
    if is_created {
        Bucket::declare(&mut builder, "later");
    }
    let database = builder.spare_tables(4).open().expect("opened again");
    let bucket = call_function!(Bucket::of(&database, "bucket")).expect("it is there");
    for key in keys() {
        assert_eq!(database.transaction(|t| bucket.get(t, &key)), Ok(Some(value(&key))));
    }
}

fn entry(key: &[u8], value: &[u8]) -> Entry {
    Entry { key: key.to_vec(), value: value.to_vec() }
}

fn call_single_verbs(database: &isles::Database, bucket: Bucket) {
    let done: Result<()> = database.transaction(|t| {
        assert_eq!(call!(bucket.get(t, "a"))?, Some(value(b"a")));
        assert!(!call!(bucket.contains(t, "aa"))?);
        assert_eq!(call!(bucket.put(t, "a", "1"))?, Some(value(b"a")));
        assert_eq!(call!(bucket.delete(t, "a"))?.as_deref(), Some(b"1".as_slice()));
        let is_there = Err(Some(value(b"b")));
        assert_eq!(call!(bucket.compare_and_swap(t, "b", None, None))?, is_there);
        assert_eq!(bucket.compare_and_swap(t, "a", None, Some(b"2"))?, Ok(()));
        assert_eq!(bucket.compare_and_swap(t, "a", Some(b"2"), None)?, Ok(()));
        assert_eq!(bucket.put(t, "a", value(b"a"))?, None);
        Ok(())
    });
    assert_eq!(done, Ok(()));
    let long = database.transaction(|t| bucket.put(t, vec![1; 3_000], "long"));
    assert!(matches!(long, Err(Error::Row(RowError::KeyTooLong { .. }))), "{long:?}");
}
