//! Owners: the state of a transaction until it ends, in this session or another.
//!
//! A session has an owner for its transactions. When a part of a transaction over several databases
//! is prepared the owner moves to the part, with all locks, all changes to be undone, and its place
//! in the log; the session continues with another owner. The session that finishes the part returns
//! the owner.

use std::sync::atomic::Ordering;

use platform::files::Files;
use platform::{LINE_BYTES, OutOfMemory};
use storage::Latched;

use crate::limits::OWNERS_MAX;
use crate::locks::{LockManager, LockMode, LockPlace, TransactionLocks, name};
use crate::pool::{PoolWorker, Writing};
use crate::undo::Undo;

/// Bits of ages and of transactions' numbers that name the owner.
const OWNER_BITS: u32 = 12;
const _: () = assert!(OWNERS_MAX < 1 << OWNER_BITS);
/// Bits of a transaction's number that its owner counts.
const COUNT_BITS: u32 = 36;
const _: () = assert!(OWNER_BITS + COUNT_BITS == 48);

/// The state of a transaction.
pub(crate) struct Owner {
    pub number: usize,
    pub locks: TransactionLocks,
    pub undo: Undo,
    /// Smaller is older: kept from attempt to attempt, and until a prepared part is finished.
    pub age: u64,
    /// The place in the log of a part that is prepared.
    pub writing: Writing,
    transactions: u64,
}

impl Owner {
    /// An owner that has had this many transactions.
    fn new<P: Files>(manager: &LockManager<P>, number: usize, transactions: u64) -> Self {
        let (undo, writing) = (Undo::default(), Writing::default());
        Owner { number, locks: TransactionLocks::new(manager, number), undo, age: 0, writing, transactions }
    }

    /// Gives its transaction an age, which no other one has.
    pub(crate) fn draw_age<P: Files>(&mut self, c: P::Core) {
        self.age = P::timestamp(c) << OWNER_BITS | self.number as u64;
        self.locks.begin_anew();
    }

    /// The number in the log of a transaction that begins: of the log's generation, the owner, and
    /// a counter.
    pub(crate) fn next_transaction(&mut self, generation: u64) -> u64 {
        self.transactions += 1;
        let count = self.transactions & ((1 << COUNT_BITS) - 1);
        generation << (OWNER_BITS + COUNT_BITS) | (self.number as u64) << COUNT_BITS | count
    }

    /// Ends a transaction that has committed, or whose changes are undone: ghosts leave, then all
    /// locks are given back.
    pub(crate) fn end<P: Files>(&mut self, worker: &mut PoolWorker<'_, P>, manager: &LockManager<P>) {
        let c = worker.c;
        let Owner { locks, undo, .. } = self;
        undo.bury(worker, |tree, key| {
            let gap = name(tree.number, LockPlace::GapBelow, key);
            locks.is_free(manager, c, gap, LockMode::IntentExclude)
        });
        locks.release_all(manager, c);
    }
}

/// A prepared part.
pub(crate) struct KeptPart {
    pub owner: Box<Owner>,
    /// True if the log has a record that the part is prepared.
    pub is_known: bool,
}

/// Owners in no use.
struct Free {
    /// Boxed: owners move between threads.
    #[allow(clippy::vec_box)]
    owners: Vec<Box<Owner>>,
    /// Owners that parts may take still.
    parts_left: usize,
}

/// The owners of a database.
pub(crate) struct Owners<P: Files> {
    free: Latched<P, Free>,
    /// A word: parts that are prepared, where one session counts them.
    prepared: P::Region,
}

impl<P: Files> Owners<P> {
    /// Owners for each session, and as many for parts.
    pub(crate) fn new(
        c: P::Core,
        manager: &LockManager<P>,
        sessions: usize,
        parts: usize,
    ) -> Result<Self, OutOfMemory> {
        let owners =
            (0..sessions + parts).rev().map(|number| Box::new(Owner::new(manager, number, 0))).collect();
        let free = Latched::new(c, "owners of locks", Free { owners, parts_left: parts })?;
        Ok(Owners { free, prepared: P::region(c, None, LINE_BYTES, "prepared parts")? })
    }

    /// An owner for a session that begins; `None` if sessions have ended that could not undo what
    /// they had changed.
    pub(crate) fn take(&self, c: P::Core) -> Option<Box<Owner>> {
        self.free.with(c, |free| match free.owners.len() > free.parts_left {
            true => free.owners.pop(),
            false => None,
        })
    }

    /// An owner for a session whose own moves to a part; `None` if the limit of parts is reached.
    pub(crate) fn take_for_part(&self, c: P::Core) -> Option<Box<Owner>> {
        self.free.with(c, |free| {
            free.parts_left = free.parts_left.checked_sub(1)?;
            free.owners.pop()
        })
    }

    /// Takes an owner back; of a part, or of a session. Its transaction is over.
    pub(crate) fn give_back(&self, c: P::Core, owner: &mut Owner, of_part: bool, manager: &LockManager<P>) {
        owner.locks.end(manager, c);
        let fresh = Box::new(Owner::new(manager, owner.number, owner.transactions));
        self.free.with(c, |free| {
            free.parts_left += usize::from(of_part);
            free.owners.push(fresh);
        });
    }

    /// Counts a part that is prepared, or one that is finished.
    ///
    /// Pre: one session at a time, or none yet.
    pub(crate) fn count(&self, c: P::Core, is_prepared: bool) {
        let word = P::word_of(&self.prepared, 0);
        // Relaxed, both: one session at a time.
        let parts = P::load(c, word, Ordering::Relaxed);
        let parts = if is_prepared { parts + 1 } else { parts.saturating_sub(1) };
        P::store(c, word, parts, Ordering::Relaxed);
    }

    /// Returns true if counted parts are prepared.
    #[inline]
    pub(crate) fn has_parts(&self, c: P::Core) -> bool {
        P::load(c, P::word_of(&self.prepared, 0), Ordering::Relaxed) != 0
    }
}
