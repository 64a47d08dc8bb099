//! A list of active transactions behind one latch, as Shore-MT has it: a worker whose transaction
//! begins or ends changes the head or its neighbours.

use std::sync::atomic::Ordering;

use platform::{Node, OutOfMemory, Platform};
use storage::{LatchSeat, LatchedLines};

/// Beside the latch: the name of the first entry; 0: the list is empty.
const HEAD: usize = 0;

/// Words of a worker's entry. Its name is the worker's number and 1.
const NEXT: usize = 0;
const BEFORE: usize = 8;
const NUMBER: usize = 16;

/// The list.
pub(crate) struct ActiveList<P: Platform> {
    latch: LatchedLines<P>,
}

/// The entries of all workers, each on its worker's node.
pub(crate) struct ActiveEntries<'a, P: Platform>(pub(crate) &'a [P::Region]);

impl<P: Platform> ActiveEntries<'_, P> {
    fn word(&self, name: u64, word: usize) -> &P::Word {
        P::word_of(&self.0[name as usize - 1], word)
    }
}

impl<P: Platform> ActiveList<P> {
    /// An empty list.
    pub(crate) fn new(c: P::Core, node: Option<Node>) -> Result<Self, OutOfMemory> {
        Ok(ActiveList { latch: LatchedLines::new(c, node, 1, "list of active transactions")? })
    }

    /// A transaction of this worker is active from here on. Pre: the worker has none.
    pub(crate) fn enter(
        &self,
        c: P::Core,
        seat: &mut LatchSeat<P>,
        entries: &ActiveEntries<'_, P>,
        worker: usize,
        number: u64,
    ) {
        let name = worker as u64 + 1;
        self.latch.hold(c, 0, seat, || {
            // Relaxed, all of them: ordered by the latch.
            let head = self.latch.word(0, HEAD);
            let first = P::load(c, head, Ordering::Relaxed);
            P::store(c, entries.word(name, NEXT), first, Ordering::Relaxed);
            P::store(c, entries.word(name, BEFORE), 0, Ordering::Relaxed);
            P::store(c, entries.word(name, NUMBER), number, Ordering::Relaxed);
            if first != 0 {
                P::store(c, entries.word(first, BEFORE), name, Ordering::Relaxed);
            }
            P::store(c, head, name, Ordering::Relaxed);
        });
    }

    /// The worker's transaction is over.
    pub(crate) fn leave(
        &self,
        c: P::Core,
        seat: &mut LatchSeat<P>,
        entries: &ActiveEntries<'_, P>,
        worker: usize,
    ) {
        let name = worker as u64 + 1;
        self.latch.hold(c, 0, seat, || {
            // Relaxed, all of them: ordered by the latch.
            let next = P::load(c, entries.word(name, NEXT), Ordering::Relaxed);
            let before = P::load(c, entries.word(name, BEFORE), Ordering::Relaxed);
            if next != 0 {
                P::store(c, entries.word(next, BEFORE), before, Ordering::Relaxed);
            }
            match before {
                0 => P::store(c, self.latch.word(0, HEAD), next, Ordering::Relaxed),
                before => P::store(c, entries.word(before, NEXT), next, Ordering::Relaxed),
            }
        });
    }

    /// The numbers of all active transactions, by worker.
    pub(crate) fn active(
        &self,
        c: P::Core,
        seat: &mut LatchSeat<P>,
        entries: &ActiveEntries<'_, P>,
    ) -> Vec<(u16, u64)> {
        let mut active = Vec::new();
        self.latch.hold(c, 0, seat, || {
            let mut name = P::load(c, self.latch.word(0, HEAD), Ordering::Relaxed);
            while name != 0 {
                active.push((name as u16 - 1, P::load(c, entries.word(name, NUMBER), Ordering::Relaxed)));
                name = P::load(c, entries.word(name, NEXT), Ordering::Relaxed);
            }
        });
        active
    }
}
