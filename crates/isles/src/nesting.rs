//! The databases in whose transactions a thread is. A transaction within another transaction of the
//! same database is an error: the inner transaction would wait, in many cases for ever, for what
//! the outer transaction holds.

// Threads of the program count what they have open: the words are none of the engine's.
#![allow(clippy::disallowed_types)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

thread_local! {
    /// The databases in whose transactions the thread is.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// Transactions that are objects, which the thread has begun, and which have not ended,
    /// wherever they are by now.
    static OPEN: Arc<AtomicU32> = Arc::default();
}

/// Held while the thread is inside a transaction of a database.
pub(crate) struct Inside(u64);

impl Inside {
    pub(crate) fn enter(database: u64) -> Result<Self> {
        INSIDE.with_borrow_mut(|inside| {
            // Mostly the thread is in none.
            if !inside.is_empty() && inside.contains(&database) {
                return Err(Error::Nested);
            }
            inside.push(database);
            Ok(Inside(database))
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| match inside.last() {
            Some(last) if *last == self.0 => drop(inside.pop()),
            _ => inside.retain(|database| *database != self.0),
        });
    }
}

/// Held by a transaction that is an object: the thread that has begun it cannot wait for ever for
/// what it has locked.
pub(crate) struct OpenHere(Arc<AtomicU32>);

impl OpenHere {
    pub(crate) fn new() -> Self {
        let open = OPEN.with(Arc::clone);
        // Relaxed, as below: the thread itself reads it, and an object that ends elsewhere may
        // count a moment longer.
        open.fetch_add(1, Ordering::Relaxed);
        OpenHere(open)
    }

    /// True if the thread has begun transactions that have not ended.
    pub(crate) fn are_some() -> bool {
        OPEN.with(|open| open.load(Ordering::Relaxed)) != 0
    }
}

impl Drop for OpenHere {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Refuses what cannot be done inside a transaction of the database.
pub(crate) fn check_outside(database: u64) -> Result<()> {
    Inside::enter(database).map(drop)
}
