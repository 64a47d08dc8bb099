//! Bytes as keys and values: buckets, for programs that know redb, fjall, sled or RocksDB.
//!
//! A [`Bucket`] is a table of two columns, `key` and `value`, with the verbs that such programs
//! expect. It is used within transactions like any other table, and beside other tables, so one
//! transaction can change several buckets and typed tables.
//!
//! Keys are ordered by their bytes. They have up to 2 KiB, where each zero byte counts twice, and
//! may be empty. Key and value have up to 1 MiB together.
//!
//! ```
//! use isles::Database;
//! use isles::kv::{Batch, Bucket};
//!
//! # fn main() -> isles::Result<()> {
//! let mut builder = Database::in_memory();
//! let capitals = Bucket::declare(&mut builder, "capitals");
//! let database = builder.open()?;
//!
//! // One transaction, which happens completely or not at all.
//! database.transaction(|t| {
//!     capitals.put(t, "at", "Vienna")?;
//!     capitals.put(t, "be", "Brussels")?;
//!     assert_eq!(capitals.get(t, "at")?.as_deref(), Some(b"Vienna".as_slice()));
//!     assert_eq!(capitals.delete(t, "fr")?, None);
//!     Ok(())
//! })?;
//!
//! // Changes that are collected first.
//! let mut batch = Batch::new();
//! batch.put(capitals, "bg", "Sofia").put(capitals, "bh", "Manama").delete(capitals, "at");
//! database.transaction(|t| batch.apply(t))?;
//!
//! // In the order of keys, with what scans can do.
//! let keys = database.transaction(|t| {
//!     let entries = capitals.prefix(t, "b").reverse().limit(2).collect()?;
//!     assert_eq!(capitals.range(t, "be".."bh").count()?, 2);
//!     Ok(entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>())
//! })?;
//! assert_eq!(keys, [b"bh", b"bg"]);
//!
//! // Only if the value is still the one that was read.
//! let swapped = database.transaction(|t| {
//!     capitals.compare_and_swap(t, "be", Some(b"Brussels"), Some(b"Bruxelles"))
//! })?;
//! assert_eq!(swapped, Ok(()));
//! # Ok(())
//! # }
//! ```

use std::ops::{Bound, RangeBounds};

use schema::{IndexId, Key, KeySink};

use crate::attempt::Transaction;
use crate::builder::Builder;
use crate::database::Database;
use crate::error::Result;
use crate::scan::Scan;
use crate::table::{Index, Table};

/// A key and its value, as a scan of a [`Bucket`] returns them. [Buckets](self) have an example.
#[derive(row_derive::Row, Clone, Debug, PartialEq, Eq)]
#[row(crate = schema, key(key))]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// A key in the bytes of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryKey<'k>(&'k [u8]);

impl Key for EntryKey<'_> {
    const BITS: u32 = <Vec<u8> as Key>::BITS;
    const VARIABLE: bool = true;

    fn append(&self, to: &mut impl KeySink) {
        to.push_terminated(self.0);
    }
}

/// An ordered map of bytes to bytes: a small value to copy into closures and threads.
/// [Buckets](self) have an example.
///
/// Its verbs take a transaction, and fail as verbs of a [`Transaction`] do.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    table: Table<Entry>,
}

impl Bucket {
    /// Declares a bucket before the database is opened, as [`Builder::table`] declares a table.
    /// [Buckets](self) have an example.
    pub fn declare(builder: &mut Builder, name: &str) -> Bucket {
        Bucket { table: builder.table(name) }
    }

    /// Creates a bucket in an open database; see [`Database::create_table`].
    ///
    /// ```
    /// use isles::Database;
    /// use isles::kv::Bucket;
    ///
    /// let database = Database::in_memory().open()?;
    /// let bucket = Bucket::create(&database, "sessions")?;
    /// database.transaction(|t| bucket.put(t, [1, 2], "open"))?;
    /// let same = Bucket::of(&database, "sessions")?;
    /// assert_eq!(database.transaction(|t| same.get(t, [1, 2]))?.as_deref(), Some(b"open".as_slice()));
    /// # Ok::<(), isles::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::create_table`].
    pub fn create(database: &Database, name: &str) -> Result<Bucket> {
        database.create_table(name).map(|table| Bucket { table })
    }

    /// Returns a bucket of an open database. [`Self::create`] has an example.
    ///
    /// # Errors
    /// As [`Database::table`]: there is no such table, or it is no bucket.
    pub fn of(database: &Database, name: &str) -> Result<Bucket> {
        database.table(name).map(|table| Bucket { table })
    }

    /// Returns the table: for verbs that a bucket does not have, such as
    /// [`Transaction::update_field`].
    pub fn table(self) -> Table<Entry> {
        self.table
    }

    fn keys<'k>(self) -> Index<Entry, EntryKey<'k>> {
        let inner = self.table.inner.index(IndexId::new(Entry::KEY.number()));
        let database = self.table.database;
        Index { inner, database }
    }

    /// Returns the value of a key.
    pub fn get(self, t: &mut Transaction<'_>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(t.get(self.keys(), &EntryKey(key.as_ref()))?.map(|entry| entry.value))
    }

    /// Returns true if the key has a value.
    pub fn contains(self, t: &mut Transaction<'_>, key: impl AsRef<[u8]>) -> Result<bool> {
        t.exists(self.keys(), &EntryKey(key.as_ref()))
    }

    /// Sets the value of a key; returns the value before.
    pub fn put(
        self,
        t: &mut Transaction<'_>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let entry = Entry { key: key.as_ref().to_vec(), value: value.as_ref().to_vec() };
        Ok(t.upsert(self.table, &entry)?.map(|before| before.value))
    }

    /// Removes a key; returns its value.
    pub fn delete(self, t: &mut Transaction<'_>, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Ok(t.delete(self.keys(), &EntryKey(key.as_ref()))?.map(|before| before.value))
    }

    /// Sets the value of a key to `new`, if it is `expected`; `None` stands for no value. If it is
    /// another one, nothing is changed, and the inner error is the value that the key has.
    pub fn compare_and_swap(
        self,
        t: &mut Transaction<'_>,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), Option<Vec<u8>>>> {
        let key = key.as_ref();
        let found = self.get(t, key)?;
        if found.as_deref() != expected {
            return Ok(Err(found));
        }
        match new {
            Some(value) => self.put(t, key, value).map(drop)?,
            None => self.delete(t, key).map(drop)?,
        }
        Ok(Ok(()))
    }

    /// Scans the keys of a range, in ascending order unless [`Scan::reverse`] is called.
    pub fn range<'t, K: AsRef<[u8]>>(
        self,
        t: &'t mut Transaction<'_>,
        range: impl RangeBounds<K>,
    ) -> Scan<'t, Entry, Vec<u8>> {
        let bytes = |key: &K| key.as_ref().to_vec();
        t.scan(self.table, (range.start_bound().map(bytes), range.end_bound().map(bytes)))
    }

    /// Scans the keys that begin with these bytes.
    pub fn prefix<'t>(
        self,
        t: &'t mut Transaction<'_>,
        prefix: impl AsRef<[u8]>,
    ) -> Scan<'t, Entry, Vec<u8>> {
        let prefix = prefix.as_ref();
        let end = after_prefix(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        t.scan(self.table, (Bound::Included(prefix.to_vec()), end))
    }

    /// Scans all keys.
    pub fn all<'t>(self, t: &'t mut Transaction<'_>) -> Scan<'t, Entry, Vec<u8>> {
        t.scan(self.table, ..)
    }
}

/// Returns the first key behind all that begin with `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Changes of one bucket or of several, to be applied together. [Buckets](self) have an example.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: Vec<(Bucket, Vec<u8>, Option<Vec<u8>>)>,
}

impl Batch {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Batch::default()
    }

    /// Adds: the key gets the value.
    pub fn put(&mut self, bucket: Bucket, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.changes.push((bucket, key.as_ref().to_vec(), Some(value.as_ref().to_vec())));
        self
    }

    /// Adds: the key is removed, if it is there.
    pub fn delete(&mut self, bucket: Bucket, key: impl AsRef<[u8]>) -> &mut Self {
        self.changes.push((bucket, key.as_ref().to_vec(), None));
        self
    }

    /// Returns the number of changes.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns true if there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Removes all changes, and keeps the memory.
    pub fn clear(&mut self) {
        self.changes.clear();
    }

    /// Makes the changes within a transaction, in the order in which they were added. The batch
    /// keeps them, since the transaction may be tried again.
    ///
    /// # Errors
    /// Those of verbs of a [`Transaction`].
    pub fn apply(&self, t: &mut Transaction<'_>) -> Result<()> {
        for (bucket, key, value) in &self.changes {
            match value {
                Some(value) => bucket.put(t, key, value).map(drop)?,
                None => bucket.delete(t, key).map(drop)?,
            }
        }
        Ok(())
    }
}
