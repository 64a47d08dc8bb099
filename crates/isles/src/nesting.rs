//! The databases in whose transactions a thread is. A transaction within another transaction of the same database is an error:
//! the inner transaction would wait, in many cases for ever, for what the outer transaction holds.

use std::cell::RefCell;

use crate::error::{Error, Result};

thread_local! {
    /// The databases in whose transactions the thread is.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
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

/// Refuses what cannot be done inside a transaction of the database.
pub(crate) fn check_outside(database: u64) -> Result<()> {
    Inside::enter(database).map(drop)
}
