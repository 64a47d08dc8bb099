//! What a session has at hand for its transaction: locks, rows, changes; and how the transaction ends.

use cc::{Abort, Category, Conflict, Meter, Stamp};
use engine::{Commit, Epoch};
use platform::files::Files;
use platform::{Nanos, Work};

use crate::key::KeyWords;
use crate::locks::{Answer, LockMode, Place, TransactionLocks, Wish, name};
use crate::log::Log;
use crate::lsn::Lsn;
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
    number: usize,
    transactions: u64,
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
            number,
            transactions: 0,
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
            Answer::Late => Err(self.shared.failure(c).map_or(Abort::Deadline, Abort::from)),
        }
    }

    /// The wish of this transaction for a place of a table.
    pub(crate) fn wish(&self, table: usize, name: u64, mode: LockMode) -> Wish {
        Wish { table, name, mode, age: self.age }
    }

    /// Begins an attempt.
    ///
    /// Transactions have numbers of their own in the log: of the generation, the session, and a counter.
    pub(crate) fn begin(&mut self, deadline: Option<Nanos>) {
        P::work(self.worker.c, Work::Transaction, 1);
        self.rows.clear();
        // Of all numbers in turn (Numerical Recipes, section 7.1), as sessions begin anywhere among them. 0 marks handles that no attempt
        // has made.
        self.attempt = self.attempt.wrapping_mul(1_664_525).wrapping_add(1_013_904_223).max(1);
        self.deadline = deadline;
        self.transactions += 1;
        let generation = self.worker.pool.log().map_or(0, Log::generation);
        let transaction = generation << 48 | (self.number as u64) << 36 | self.transactions & 0xf_ffff_ffff;
        self.worker.begin_transaction(transaction);
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

    /// Commits: changes are there already. With a log its locks are given back before the commit is durable: whoever sees what the
    /// transaction has done has a later place in the log, and is durable only with it (early lock release: Johnson et al., "Aether",
    /// PVLDB 2010), unless [`storage::Optimisation::Aether`] is left out.
    ///
    /// # Errors
    /// The log has stopped: whether the transaction commits is not known, and it is not to be acknowledged.
    pub(crate) fn commit(&mut self) -> Result<Commit, PagedError> {
        let c = self.worker.c;
        let before = self.meter.enter::<P>(c, Category::Commit);
        // Drawn with all locks held: whoever gets one of them later draws later.
        self.last_stamp = P::timestamp(c).max(self.last_stamp + 1);
        let lsn = match self.end_logged(true) {
            Ok(lsn) => lsn,
            Err(error) => {
                // Locks stay, so that nobody sees what may be lost.
                self.shared.fail(c, error.clone());
                return Err(error);
            }
        };
        self.end();
        self.meter.leave::<P>(c, before);
        Ok(Commit { stamp: Stamp(self.last_stamp), durable_with: Epoch(lsn.0) })
    }

    /// Gives back what the session has kept from transaction to transaction.
    pub(crate) fn end_session(&mut self) {
        self.locks.end((&self.shared.locks, self.worker.c));
    }

    /// Logs how the transaction ends.
    fn end_logged(&mut self, committed: bool) -> Result<Lsn, PagedError> {
        let lsn = self.worker.end_transaction(committed)?;
        if let Some(log) = self.worker.pool.log().filter(|_| !self.shared.aether) {
            log.wait(self.worker.c, lsn, None)?;
        }
        Ok(lsn)
    }

    /// Undoes all changes; where what the transaction has read may end in the log.
    pub(crate) fn roll_back(&mut self) -> Result<Lsn, PagedError> {
        let undone = self.undo.roll_back(&mut self.worker).and_then(|()| self.end_logged(false));
        let lsn = undone.map_err(|error| {
            // Locks stay, so that nobody sees what is there.
            let error = PagedError::NotUndone(error.to_string());
            self.shared.fail(self.worker.c, error.clone());
            error
        })?;
        self.end();
        Ok(lsn)
    }
}
