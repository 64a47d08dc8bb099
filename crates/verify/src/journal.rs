//! What survives a run that panics or never ends: transactions as they end, outside the machine.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::history::Entry;

/// Transactions shown of each worker after a failure.
const SHOWN_OF_WORKER: usize = 4;

/// The transactions of a trial so far, in the order in which they ended.
#[derive(Default)]
pub(crate) struct Journal {
    entries: Mutex<Vec<Entry>>,
}

impl Journal {
    pub(crate) fn push(&self, entry: Entry) {
        self.lock().push(entry);
    }

    /// All entries; the journal is empty afterwards.
    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        // A worker that panicked pushed a whole entry or none.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last events of each worker, in words: its last recorded transactions. The place for what the virtual machine
/// remembers of each core.
pub(crate) fn last_events(entries: &[Entry]) -> Vec<String> {
    let workers = entries.iter().map(|entry| entry.worker + 1).max().unwrap_or(0);
    let mut lines = Vec::new();
    for worker in 0..workers {
        let own: Vec<(usize, &Entry)> =
            entries.iter().enumerate().filter(|(_, entry)| entry.worker == worker).collect();
        for (number, entry) in &own[own.len().saturating_sub(SHOWN_OF_WORKER)..] {
            lines.push(format!("worker {worker}: entry {number} {}", in_words(entry)));
        }
    }
    lines
}

fn in_words(entry: &Entry) -> String {
    let end = entry.stamp.map_or("rolled back".to_owned(), |stamp| format!("committed at {:#x}", stamp.0));
    format!(
        "from {} to {} ns {end}, read {:?}, wrote {:?}",
        entry.began, entry.ended, entry.reads, entry.writes
    )
}
