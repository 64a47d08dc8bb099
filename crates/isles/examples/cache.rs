//! A cache with expiry: values by name, each with a time at which it expires. Expired values are
//! never returned, and a sweep removes them in small steps. Several threads use the cache at the
//! same time, and an expensive value is computed once.
//!
//! Shows an index over the time of expiry, a bounded sweep over a range of this index, `upsert`,
//! and deletions that return the row.
//!
//! Run with `cargo run --release -p isles --example cache`.
// A user's program has threads of its own.
#![allow(clippy::disallowed_methods)]

use isles::{Database, Row, Session, Table, Text, prefixes};

/// An entry of the cache.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(name), index(by_end(ends)))]
pub struct Entry {
    /// Its name.
    pub name: Text<32>,
    /// The time at which it expires.
    pub ends: u64,
    /// The cached value.
    pub value: Vec<u8>,
}

/// Largest number of entries that one sweep removes, so that every sweep is a short transaction.
const SWEPT_AT_ONCE: u64 = 100;

/// A cache. The caller passes the current time, in seconds or any other unit.
#[derive(Clone, Copy)]
pub struct Cache {
    entries: Table<Entry>,
}

impl Cache {
    /// Opens an empty cache.
    pub fn open() -> isles::Result<(Database, Cache)> {
        let mut builder = Database::in_memory();
        let cache = Cache { entries: builder.table("entries") };
        Ok((builder.open()?, cache))
    }

    /// Returns the value of this name, if it has not expired.
    pub fn get(self, session: &mut Session, name: Text<32>, now: u64) -> isles::Result<Option<Vec<u8>>> {
        let found = session.transaction(|t| t.get(self.entries, &name))?;
        Ok(found.filter(|entry| entry.ends > now).map(|entry| entry.value))
    }

    /// Returns the value of this name, or computes it with `make` and stores it. Concurrent callers
    /// get the same value: the first one commits, and the others read its value.
    pub fn get_or_make(
        self,
        session: &mut Session,
        name: Text<32>,
        now: u64,
        ends: u64,
        make: impl Fn() -> Vec<u8>,
    ) -> isles::Result<Vec<u8>> {
        if let Some(value) = self.get(session, name, now)? {
            return Ok(value);
        }
        let value = make();
        session.transaction(|t| match t.get_for_update(self.entries, &name)? {
            Some(entry) if entry.ends > now => Ok(entry.value),
            _ => t.upsert(self.entries, &Entry { name, ends, value: value.clone() }).map(|_| value.clone()),
        })
    }

    /// Removes an entry. Returns true if there was one.
    pub fn forget(self, session: &mut Session, name: Text<32>) -> isles::Result<bool> {
        session.transaction(|t| Ok(t.delete(self.entries, &name)?.is_some()))
    }

    /// Removes some expired entries. Returns their number. Call it from time to time until it
    /// returns 0.
    pub fn sweep(self, session: &mut Session, now: u64) -> isles::Result<u64> {
        session.transaction(|t| {
            t.scan(self.entries.by(Entry::BY_END), prefixes(..=now)).limit(SWEPT_AT_ONCE).delete()
        })
    }
}

/// Runs the example.
pub fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (database, cache) = Cache::open()?;
    let name = |number: u64| Text::<32>::try_from(format!("page {number}").as_str());
    // Four threads request the same 500 pages; each page has its own time of expiry.
    let workers: Vec<_> = (0..4_u64)
        .map(|worker| {
            let mut session = database.session()?;
            Ok(std::thread::spawn(move || -> isles::Result<Vec<Vec<u8>>> {
                (0..500)
                    .map(|number| {
                        let make = || format!("made by {worker}").into_bytes();
                        cache.get_or_make(&mut session, name(number)?, 0, 1 + number, make)
                    })
                    .collect()
            }))
        })
        .collect::<isles::Result<_>>()?;
    let mut seen = Vec::new();
    for worker in workers {
        seen.push(worker.join().expect("workers do not panic")?);
    }
    assert!(seen.iter().all(|pages| *pages == seen[0]), "all have got the same pages");

    let mut session = database.session()?;
    assert_eq!(cache.get(&mut session, name(3)?, 3)?.as_ref(), Some(&seen[0][3]));
    assert_eq!(cache.get(&mut session, name(3)?, 4)?, None, "it is over, though it is still there");
    assert!(cache.forget(&mut session, name(499)?)?);
    let mut swept = 0;
    loop {
        match cache.sweep(&mut session, 250)? {
            0 => break,
            some => swept += some,
        }
    }
    assert_eq!(swept, 250);
    let left = session.transaction(|t| t.scan(cache.entries, ..).count())?;
    assert_eq!(left, 500 - 250 - 1);
    println!("swept {swept}, left {left}");
    Ok(())
}

#[allow(dead_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    run()
}
