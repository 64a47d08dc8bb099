//! The tables that all sessions see, and the moment at which a transaction that has changed tables
//! makes them public.
//!
//! A statement is bound to a schema and then uses tables by their names. A table may change between
//! the two, so a session asks after each verb whether a schema was made public since. The count of
//! publications grows before the commit of the change, so that a verb that has seen the changed
//! table is followed by a look at a larger count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::schema::Schema;

/// The tables that all sessions see.
pub struct SharedSchema {
    schema: RwLock<Arc<Schema>>,
    /// Version of the schema that is public or about to be.
    current: AtomicU64,
    /// The last version that was given to a schema.
    last: AtomicU64,
}

impl SharedSchema {
    /// Returns a schema that is public.
    pub fn new(schema: Schema) -> Arc<Self> {
        let version = schema.version;
        Arc::new(SharedSchema {
            schema: RwLock::new(Arc::new(schema)),
            current: AtomicU64::new(version),
            last: AtomicU64::new(version),
        })
    }

    /// Returns the tables as they are.
    pub fn get(&self) -> Arc<Schema> {
        Arc::clone(&self.schema.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the version of the schema that is public or about to be.
    #[inline]
    pub fn current(&self) -> u64 {
        // Acquire: pairs with `publish`, whose store precedes the commit.
        self.current.load(Ordering::Acquire)
    }

    /// Returns a version that no other schema has.
    pub fn new_version(&self) -> u64 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Runs the commit of the transaction that has made this schema, and makes it public.
    pub fn publish<T>(
        &self,
        schema: Arc<Schema>,
        commit: impl FnOnce() -> T,
        has_committed: impl FnOnce(&T) -> bool,
    ) -> T {
        let mut public = self.schema.write().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.swap(schema.version, Ordering::AcqRel);
        let done = commit();
        match has_committed(&done) {
            true => *public = schema,
            false => self.current.store(before, Ordering::Release),
        }
        done
    }
}
