//! What a session has at hand for its transaction: locks, rows, changes; and how the transaction ends.

use cc::{Abort, Category, Conflict, Meter, Stamp};
use engine::{Commit, Epoch};
use platform::files::Files;
use platform::{Nanos, Work};

use crate::key::KeyWords;
use crate::locks::{Answer, LockMode, Place, TransactionLocks, Wish, name};
use crate::options::PagedError;
use crate::pool::Worker;
use crate::shared::Shared;
use crate::tree::Hint;
use crate::undo::Undo;

/// A row that a transaction has found.
pub(crate) struct FoundRow {
    pub table: usize,
    /// Its primary key.
    pub key: KeyWords,
    pub hint: Option<Hint>,
    /// Whether nobody else can change the row.
    pub is_locked: bool,
    /// Deleted by the transaction itself.
    pub is_gone: bool,
}

/// One worker's transaction, and what is kept from one to the next.
pub(crate) struct Context<'d, P: Files> {
    pub shared: &'d Shared<P>,
    pub worker: Worker<'d, P>,
    pub locks: TransactionLocks,
    pub rows: Vec<FoundRow>,
    pub undo: Undo,
    pub meter: Meter,
    /// Smaller is older: kept from attempt to attempt.
    pub age: u64,
    /// Marks the rows of an attempt.
    pub attempt: u32,
    pub deadline: Option<Nanos>,
    last_stamp: u64,
}

impl<'d, P: Files> Context<'d, P> {
    pub(crate) fn new(shared: &'d Shared<P>, (c, number): (P::Core, usize), measure: bool) -> Self {
        Context {
            shared,
            worker: shared.pool.worker(c, number),
            locks: TransactionLocks::new(&shared.locks, number),
            rows: Vec::new(),
            undo: Undo::default(),
            meter: Meter::new(measure),
            age: 0,
            attempt: (P::timestamp(c) as u32) ^ (number as u32) << 16,
            deadline: None,
            last_stamp: 0,
        }
    }

    /// Locks a place of a table, and waits for it as long as the transaction may.
    pub(crate) fn lock(&mut self, table: usize, name: u64, mode: LockMode) -> Result<(), Abort> {
        let c = self.worker.c;
        let wish = self.wish(table, name, mode);
        let before = self.meter.enter::<P>(c, Category::Cc);
        let (locks, meter) = (&mut self.locks, &mut self.meter);
        let mut on_wait = || {
            meter.enter::<P>(c, Category::Wait);
        };
        let waits = Some(self.deadline);
        let answer = locks.acquire((&self.shared.locks, c), wish, waits, &mut on_wait);
        self.meter.leave::<P>(c, before);
        match answer {
            Answer::Granted => Ok(()),
            Answer::Refused => Err(Abort::Conflict(Conflict::Locked)),
            Answer::Late => Err(Abort::Deadline),
        }
    }

    /// The wish of this transaction for a place of a table.
    pub(crate) fn wish(&self, table: usize, name: u64, mode: LockMode) -> Wish {
        Wish { table, name, mode, age: self.age }
    }

    /// Begins an attempt.
    pub(crate) fn begin(&mut self, deadline: Option<Nanos>) {
        P::work(self.worker.c, Work::Transaction, 1);
        self.rows.clear();
        // Of all numbers in turn (Numerical Recipes, section 7.1), as sessions begin anywhere among them. 0 marks handles that no attempt
        // has made.
        self.attempt = self.attempt.wrapping_mul(1_664_525).wrapping_add(1_013_904_223).max(1);
        self.deadline = deadline;
    }

    /// Ends an attempt that has committed, or whose changes are undone: ghosts leave, then all locks are given back.
    fn end(&mut self) {
        let c = self.worker.c;
        let Context { shared, worker, locks, undo, .. } = self;
        let manager = &shared.locks;
        undo.bury(worker, |tree, key| {
            let gap = name(tree.number, Place::GapBelow, key);
            locks.is_free((manager, c), gap, LockMode::IntentExclude)
        });
        locks.release_all((manager, c));
    }

    /// Commits: changes are there already, and nothing is logged.
    pub(crate) fn commit(&mut self) -> Commit {
        let c = self.worker.c;
        let before = self.meter.enter::<P>(c, Category::Commit);
        // Drawn with all locks held: whoever gets one of them later draws later.
        self.last_stamp = P::timestamp(c).max(self.last_stamp + 1);
        self.end();
        self.meter.leave::<P>(c, before);
        Commit { stamp: Stamp(self.last_stamp), durable_with: Epoch(0) }
    }

    /// Gives back what the session has kept from transaction to transaction.
    pub(crate) fn end_session(&mut self) {
        self.locks.end((&self.shared.locks, self.worker.c));
    }

    /// Undoes all changes.
    pub(crate) fn roll_back(&mut self) -> Result<(), PagedError> {
        if let Err(error) = self.undo.roll_back(&mut self.worker) {
            // Locks stay, so that nobody sees what is there.
            let error = PagedError::NotUndone(error.to_string());
            self.shared.fail(self.worker.c, error.clone());
            return Err(error);
        }
        self.end();
        Ok(())
    }
}
