//! The sequences of a database that have handles, and the counters of those whose numbers columns
//! of tables get. The list does not know their types, which belong to `sequence`.
// The list belongs to the library, not to the engine.
#![allow(clippy::disallowed_types)]

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// State of a sequence.
pub(crate) type AnySequence = dyn Any + Send + Sync;

/// The sequences of a database, by name.
#[derive(Default)]
pub(crate) struct SequenceList {
    inner: Mutex<Sequences>,
}

#[derive(Default)]
struct Sequences {
    /// Those that have handles.
    handles: BTreeMap<String, Weak<AnySequence>>,
    /// Counters that the database keeps.
    counters: BTreeMap<String, Arc<AnySequence>>,
}

/// The list, for one thread at a time.
pub(crate) struct LockedSequences<'l>(MutexGuard<'l, Sequences>);

impl SequenceList {
    /// Waits for the list.
    pub(crate) fn lock(&self) -> LockedSequences<'_> {
        LockedSequences(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LockedSequences<'_> {
    /// Returns the state of the sequence of this name, if the sequence has handles.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<AnySequence>> {
        self.0.handles.get(name).and_then(Weak::upgrade)
    }

    /// Returns the counters of the sequence of this name, if the database keeps them.
    pub(crate) fn counters(&self, name: &str) -> Option<Arc<AnySequence>> {
        self.0.counters.get(name).cloned()
    }

    /// Adds a sequence, and forgets those without handles.
    pub(crate) fn add(&mut self, name: &str, state: &Arc<AnySequence>) {
        self.0.handles.retain(|_, state| state.strong_count() > 0);
        self.0.handles.insert(name.to_owned(), Arc::downgrade(state));
    }

    /// Keeps the counters of a sequence. They have no session, which would keep the database open.
    pub(crate) fn keep(&mut self, name: &str, counters: Arc<AnySequence>) {
        self.0.counters.insert(name.to_owned(), counters);
    }
}
