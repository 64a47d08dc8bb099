//! The sequences of a database that have handles. The list does not know their type, which belongs
//! to `sequence`.
// The list belongs to the library, not to the engine.
#![allow(clippy::disallowed_types)]

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// State of a sequence.
pub(crate) type AnySequence = dyn Any + Send + Sync;

/// The sequences of a database that have handles, by name.
#[derive(Default)]
pub(crate) struct SequenceList {
    states: Mutex<BTreeMap<String, Weak<AnySequence>>>,
}

/// The list, for one thread at a time.
pub(crate) struct LockedSequences<'l>(MutexGuard<'l, BTreeMap<String, Weak<AnySequence>>>);

impl SequenceList {
    /// Waits for the list.
    pub(crate) fn lock(&self) -> LockedSequences<'_> {
        LockedSequences(self.states.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl LockedSequences<'_> {
    /// Returns the state of the sequence of this name, if the sequence has handles.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<AnySequence>> {
        self.0.get(name).and_then(Weak::upgrade)
    }

    /// Adds a sequence, and forgets those without handles.
    pub(crate) fn add(&mut self, name: &str, state: &Arc<AnySequence>) {
        self.0.retain(|_, state| state.strong_count() > 0);
        self.0.insert(name.to_owned(), Arc::downgrade(state));
    }
}
