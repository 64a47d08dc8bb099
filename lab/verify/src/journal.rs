//! A record of a trial that survives a run that panics or never ends: transactions as they end,
//! outside the machine.

use std::sync::{Mutex, MutexGuard};

use sim::{CoreEvents, VirtualCore, VirtualMachine};

use crate::history::Entry;
use crate::mutex::lock;

/// Transactions shown of each worker after a failure.
const SHOWN_OF_WORKER: usize = 4;

/// Events shown of each core after a failure.
const SHOWN_OF_CORE: usize = 8;

/// The transactions of a trial so far, in the order in which they ended, and the last events of its
/// cores.
#[derive(Default)]
pub(crate) struct Journal {
    entries: Mutex<Vec<Entry>>,
    cores: Mutex<Vec<CoreEvents>>,
}

impl Journal {
    pub(crate) fn push(&self, entry: Entry) {
        self.lock().push(entry);
    }

    /// Returns all entries; the journal is empty afterwards.
    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.lock())
    }

    /// The last events of each core of a traced machine, as text.
    pub(crate) fn cores(&self) -> Vec<String> {
        let cores = lock(&self.cores);
        cores.iter().map(core_in_words).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        // A worker that panicked pushed a whole entry or none.
        lock(&self.entries)
    }
}

/// Copies the last events of a traced machine's cores to the journal when it is dropped: at the end
/// of the run, or while a panic unwinds it.
pub(crate) struct EventCapture<'a> {
    core: VirtualCore,
    journal: &'a Journal,
}

impl<'a> EventCapture<'a> {
    pub(crate) fn new(core: VirtualCore, journal: &'a Journal) -> Self {
        EventCapture { core, journal }
    }
}

impl Drop for EventCapture<'_> {
    fn drop(&mut self) {
        let mut cores = lock(&self.journal.cores);
        *cores = VirtualMachine::last_events(self.core);
    }
}

/// The last recorded transactions of each worker, as text.
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

fn core_in_words(core: &CoreEvents) -> String {
    let first = core.events.len().saturating_sub(SHOWN_OF_CORE);
    let events: Vec<String> = core.events[first..].iter().map(ToString::to_string).collect();
    format!("thread {}: {}", core.thread.0, events.join(", "))
}

fn in_words(entry: &Entry) -> String {
    let end = entry.stamp.map_or("rolled back".to_owned(), |stamp| format!("committed at {:#x}", stamp.0));
    format!(
        "from {} to {} ns {end}, read {:?}, wrote {:?}",
        entry.began, entry.ended, entry.reads, entry.writes
    )
}
