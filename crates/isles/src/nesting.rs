//! Detects nested transactions. A transaction inside the closure of another transaction of the same
//! database is an error: the inner transaction could wait for ever for a lock of the outer one.

// Threads of the program count their open transactions; these words do not belong to the engine.
#![allow(clippy::disallowed_types)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

thread_local! {
    /// The databases of which the thread is running a transaction.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    /// Number of transaction objects that the thread has begun and that have not ended, on any
    /// thread.
    static OPEN: Arc<AtomicU32> = Arc::default();
}

/// Held while the thread is inside a transaction of a database.
pub(crate) struct InsideTransaction(u64);

impl InsideTransaction {
    pub(crate) fn enter(database: u64) -> Result<Self> {
        INSIDE.with_borrow_mut(|inside| {
            // In most cases the list is empty.
            if !inside.is_empty() && inside.contains(&database) {
                return Err(Error::Nested);
            }
            inside.push(database);
            Ok(InsideTransaction(database))
        })
    }
}

impl Drop for InsideTransaction {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| match inside.last() {
            Some(last) if *last == self.0 => drop(inside.pop()),
            _ => inside.retain(|database| *database != self.0),
        });
    }
}

/// Counts a transaction object for the thread that began it. This thread must not wait for ever for
/// a lock of the object.
pub(crate) struct ThreadOpenCount(Arc<AtomicU32>);

impl ThreadOpenCount {
    pub(crate) fn new() -> Self {
        let open = OPEN.with(Arc::clone);
        // Relaxed, as below: the thread itself reads the count, and an object that ends on another
        // thread may be counted a moment longer.
        open.fetch_add(1, Ordering::Relaxed);
        ThreadOpenCount(open)
    }

    /// Returns true if the thread has begun transaction objects that have not ended.
    pub(crate) fn thread_has_open() -> bool {
        OPEN.with(|open| open.load(Ordering::Relaxed)) != 0
    }
}

impl Drop for ThreadOpenCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns [`Error::Nested`] inside a transaction of the database.
pub(crate) fn check_outside(database: u64) -> Result<()> {
    InsideTransaction::enter(database).map(drop)
}
