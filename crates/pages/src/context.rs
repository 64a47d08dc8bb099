//! Services of a session for its transaction: locks, rows, changes, and the end of the transaction.

use boundary::{Commit, SavepointList};
use concurrency::{Meter, WAIT_NANOS_MAX_PARTICIPANT};
use platform::files::Files;
use platform::{Code, Nanos, Node, Work};
use schema::RowId;
use terms::{Abort, Category, Conflict, Epoch, LockedPlace, Stamp};

use crate::error::PagedError;
use crate::key::KeyWords;
use crate::locks::{LockAnswer, LockMode, LockRequest};
use crate::log::Log;
use crate::log::record::End;
use crate::lsn::Lsn;
use crate::owner::Owner;
use crate::paths::PathLengths;
use crate::pool::{PoolWorker, ReadPage};
use crate::shared::SharedState;
use crate::tree::EntryHint;
use crate::undo::UndoMark;

/// A row that a transaction has found.
pub(crate) struct FoundRow {
    pub table: usize,
    /// Its primary key.
    pub key: KeyWords,
    pub hint: Option<EntryHint>,
    /// True if no other transaction can change the row.
    pub is_locked: bool,
    /// Deleted by the transaction itself.
    pub is_gone: bool,
}

impl FoundRow {
    /// A row that was just found.
    #[inline]
    pub(crate) fn of(table: usize, key: KeyWords, hint: EntryHint, is_locked: bool) -> Self {
        FoundRow { table, key, hint: Some(hint), is_locked, is_gone: false }
    }

    /// Enters it among the rows of an attempt.
    #[inline]
    pub(crate) fn enter(self, rows: &mut Vec<FoundRow>, attempt: u32) -> RowId {
        rows.push(self);
        RowId::new(rows.len() as u32 - 1, attempt)
    }
}

/// A transaction at a savepoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavepointMark {
    pub undo: UndoMark,
    /// Rows that it had deleted.
    pub gone: usize,
}

/// Bounds of a transaction's waits for locks.
#[derive(Clone, Copy, Default)]
pub(crate) struct LockWaits {
    /// After this time the lock is refused, as to a transaction that may not wait.
    pub bound: Option<u64>,
    /// After this time the transaction fails, unless there is a bound.
    pub timeout: Option<u64>,
}

/// A worker's transaction, and buffers that are kept from one transaction to the next.
pub(crate) struct Context<'d, P: Files> {
    pub shared: &'d SharedState<P>,
    pub worker: PoolWorker<'d, P>,
    /// The owner of the transaction.
    pub owner: Box<Owner>,
    /// The owner of the transaction after the next one that is prepared.
    pub spare: Option<Box<Owner>>,
    pub rows: Vec<FoundRow>,
    /// Rows among them that the transaction has deleted, in order.
    pub gone: Vec<usize>,
    pub savepoints: SavepointList<SavepointMark>,
    /// Room for leaves of keys that are found together.
    pub leaves: Vec<ReadPage<'d, P>>,
    /// Marks the rows of an attempt.
    pub attempt: u32,
    pub deadline: Option<Nanos>,
    /// Bounds of the attempt's waits for locks.
    waits: LockWaits,
    /// An attempt has begun that has not ended: its caller may have forgotten it, or panicked.
    is_open: bool,
    pub last_stamp: u64,
    /// Tables that the transaction has used, as bits of their numbers modulo 64.
    used_tables: u64,
    /// The node that the session's thread runs on, if that is known.
    node: Option<Node>,
    /// The owner of the transaction that has begun in the lines that all transactions write.
    listed: Option<usize>,
}

impl<'d, P: Files> Context<'d, P> {
    pub(crate) fn new(
        shared: &'d SharedState<P>,
        c: P::Core,
        number: usize,
        owner: Box<Owner>,
        node: Option<Node>,
        measure: bool,
    ) -> Self {
        let mut worker = shared.pool.worker_on(c, number, node);
        worker.meter = Meter::new(measure);
        Context {
            shared,
            worker,
            owner,
            spare: None,
            rows: Vec::new(),
            gone: Vec::new(),
            savepoints: SavepointList::default(),
            leaves: Vec::new(),
            attempt: (P::timestamp(c) as u32) ^ (number as u32) << 16,
            deadline: None,
            waits: LockWaits::default(),
            is_open: false,
            last_stamp: 0,
            used_tables: 0,
            node,
            listed: None,
        }
    }

    /// Declares instructions of another storage manager.
    #[inline]
    pub(crate) fn declare_path(&self, instructions: u32) {
        P::instructions(self.worker.c, instructions);
    }

    /// Path lengths of another storage manager.
    #[inline]
    pub(crate) fn paths(&self) -> &'d PathLengths {
        self.shared.pool.paths()
    }

    /// Declares the first use of a table in a transaction.
    #[inline]
    pub(crate) fn use_table(&mut self, table: usize) {
        let bit = 1 << (table % 64);
        if self.used_tables & bit == 0 {
            self.used_tables |= bit;
            self.declare_path(self.paths().open_table);
            if let Some(lines) = &self.shared.central {
                lines.open_table(self.worker.c, self.node);
            }
        }
    }

    /// Declares searches of keys in a tree, of this path length each.
    #[inline]
    pub(crate) fn search_tree(&self, searches: usize, path: u32) {
        P::code(self.worker.c, Code::PagesSearch);
        self.declare_path(searches as u32 * path);
        if let Some(lines) = &self.shared.central {
            (0..searches).for_each(|_| lines.search_tree(self.worker.c, self.node));
        }
    }

    /// Locks a place of a table, and waits for it as long as the transaction may.
    #[inline]
    pub(crate) fn lock(&mut self, table: usize, name: u64, mode: LockMode) -> Result<(), Abort> {
        let before = self.worker.meter.enter::<P>(self.worker.c, Category::Cc);
        let request = self.request(table, name, mode);
        let answer = match self.waits {
            LockWaits { bound: None, timeout: None } => Ok(self.acquire(request, Some(self.deadline))),
            LockWaits { bound: Some(longest), .. } => Ok(self.acquire_soon(request, longest)),
            LockWaits { timeout: Some(longest), .. } => self.acquire_in_time(request, longest),
        };
        self.worker.meter.leave::<P>(self.worker.c, before);
        match answer? {
            LockAnswer::Granted => Ok(()),
            LockAnswer::Refused => {
                self.owner.locks.is_refused(request);
                Err(Abort::Conflict(Conflict::Locked))
            }
            LockAnswer::Late => Err(self.shared.failure(self.worker.c).map_or(Abort::Deadline, Abort::from)),
        }
    }

    /// Locks a place of a table unless another transaction is in the way; false if so.
    pub(crate) fn lock_if_free(&mut self, table: usize, name: u64, mode: LockMode) -> Result<bool, Abort> {
        let before = self.worker.meter.enter::<P>(self.worker.c, Category::Cc);
        let answer = self.acquire(self.request(table, name, mode), None);
        self.worker.meter.leave::<P>(self.worker.c, before);
        match answer {
            LockAnswer::Granted => Ok(true),
            LockAnswer::Refused => Ok(false),
            LockAnswer::Late => Err(self.shared.failure(self.worker.c).map_or(Abort::Deadline, Abort::from)),
        }
    }

    /// Waits for the lock that the attempt before was refused, and acquires it. The transaction has
    /// nothing else yet: no transaction waits for it, so it can wait for any other, and continues
    /// when it is granted. Otherwise it would acquire again what other transactions request, only
    /// to be refused again.
    pub(crate) fn wait_for_refused(&mut self) -> Result<(), Abort> {
        match self.owner.locks.refused() {
            Some(LockRequest { table, name, mode, .. }) if !self.owner.locks.locks_nothing() => {
                self.lock(table, name, mode)
            }
            _ => Ok(()),
        }
    }

    /// Locks a place, and waits for it no longer than this; what was not granted by then is
    /// refused.
    fn acquire_soon(&mut self, request: LockRequest, longest: u64) -> LockAnswer {
        let answer = self.acquire(request, None);
        if answer != LockAnswer::Refused || longest == 0 {
            return answer;
        }
        let c = self.worker.c;
        let until = P::now(c).plus(longest);
        let is_last = self.deadline.is_some_and(|deadline| deadline <= until);
        let answer = self.acquire(request, Some(if is_last { self.deadline } else { Some(until) }));
        match answer == LockAnswer::Late && !is_last && self.shared.failure(c).is_none() {
            true => LockAnswer::Refused,
            false => answer,
        }
    }

    /// Locks a place, and waits for it this long.
    ///
    /// # Errors
    /// The time is over, and the deadline of the transaction has not passed.
    #[cold]
    fn acquire_in_time(&mut self, request: LockRequest, longest: u64) -> Result<LockAnswer, Abort> {
        let c = self.worker.c;
        let began = P::now(c);
        let until = began.plus(longest);
        let deadline = self.deadline.filter(|deadline| *deadline <= until);
        let answer = match longest {
            0 => self.acquire(request, None),
            _ => self.acquire(request, Some(Some(deadline.unwrap_or(until)))),
        };
        let is_over = match answer {
            LockAnswer::Late => deadline.is_none() && self.shared.failure(c).is_none(),
            LockAnswer::Refused => longest == 0,
            LockAnswer::Granted => false,
        };
        if is_over {
            let waited = P::now(c).since(began);
            return Err(Abort::lock_timeout(LockedPlace::Row, waited).in_table(request.table));
        }
        Ok(answer)
    }

    fn acquire(&mut self, request: LockRequest, waits: Option<Option<Nanos>>) -> LockAnswer {
        let c = self.worker.c;
        let (owner, meter) = (&mut self.owner, &mut self.worker.meter);
        let mut on_wait = || {
            meter.enter::<P>(c, Category::Wait);
        };
        owner.locks.acquire(&self.shared.locks, c, request, waits, &mut on_wait)
    }

    /// The request of this transaction for a place of a table.
    #[inline]
    pub(crate) fn request(&self, table: usize, name: u64, mode: LockMode) -> LockRequest {
        LockRequest { table, name, mode, age: self.owner.age }
    }

    /// Begins an attempt; of a part, or of a transaction of this database alone, which waits for a
    /// lock as `waits` says.
    ///
    /// Pre: none is open.
    pub(crate) fn begin(&mut self, deadline: Option<Nanos>, is_part: bool, waits: LockWaits) {
        let (c, shared) = (self.worker.c, self.shared);
        self.is_open = true;
        P::code(c, Code::PagesBegin);
        P::work(c, Work::Transaction, 1);
        self.declare_path(self.paths().begin);
        self.used_tables = 0;
        self.begin_rows(deadline);
        // Two parts could wait for each other in two databases.
        let bounds = [shared.wait_nanos_max, waits.bound, is_part.then_some(WAIT_NANOS_MAX_PARTICIPANT)];
        self.waits = LockWaits { bound: bounds.into_iter().flatten().min(), timeout: waits.timeout };
        self.begin_note();
        // A transaction that runs alone conflicts only with parts that its session has prepared.
        let locks_nothing = shared.locks.has_one_session() && !is_part && !shared.owners.has_parts(c);
        self.owner.locks.begin(locks_nothing);
        if let Some(lines) = &shared.central {
            lines.begin(c, self.owner.number);
            self.listed = Some(self.owner.number);
        }
    }

    /// No row is known that was found before.
    pub(crate) fn begin_rows(&mut self, deadline: Option<Nanos>) {
        self.rows.clear();
        self.gone.clear();
        // Of all numbers in turn (Numerical Recipes, section 7.1), as sessions begin anywhere among
        // them. 0 marks handles that no attempt has made.
        self.attempt = self.attempt.wrapping_mul(1_664_525).wrapping_add(1_013_904_223).max(1);
        self.deadline = deadline;
    }

    /// Notes in the log that a transaction begins.
    pub(crate) fn begin_note(&mut self) {
        let generation = self.worker.pool.log().map_or(0, Log::generation);
        let transaction = self.owner.next_transaction(generation);
        self.worker.begin_transaction(transaction, self.owner.number);
    }

    /// Undoes an attempt that is abandoned, and releases its locks.
    pub(crate) fn give_up(&mut self) {
        // A database that has stopped keeps what could not be undone.
        if self.is_open && self.shared.failure(self.worker.c).is_none() {
            _ = self.roll_back();
        }
    }

    /// Detaches the transaction from the session: it is prepared.
    pub(crate) fn leave(&mut self) {
        self.is_open = false;
        self.leave_path(3);
    }

    /// Ends an attempt that has committed, or whose changes are undone.
    fn end(&mut self) {
        self.is_open = false;
        let changed = if self.owner.undo.is_empty() { 0 } else { self.paths().end_changed };
        let unlocks = self.owner.locks.row_locks() as u32 * self.paths().unlock;
        self.declare_path(self.paths().end + changed + unlocks);
        self.leave_path(2);
        self.worker.rests();
        self.owner.end(&mut self.worker, &self.shared.locks);
    }

    /// Gives back what the session has.
    pub(crate) fn end_session(&mut self, number: usize) {
        self.shared.end_session(self.worker.c, number, &mut self.owner, &mut self.spare);
    }

    /// Unlatches the page that was read last, and ends the transaction in the lines that all
    /// transactions write; with as many records that serialize with checkpoints if it has changed
    /// something.
    fn leave_path(&mut self, records_if_changed: usize) {
        self.worker.unlatch_read();
        if let (Some(lines), Some(owner)) = (&self.shared.central, self.listed.take()) {
            let records = if self.owner.undo.is_empty() { 1 } else { records_if_changed };
            lines.end(self.worker.c, owner, records);
        }
    }

    /// Commits: changes are there already. With a log its locks are released before the commit is
    /// durable: a transaction that reads its changes has a later place in the log, and is durable
    /// only with it (early lock release: Johnson et al., "Aether", PVLDB 2010), unless
    /// [`storage::Optimisation::Aether`] is left out.
    ///
    /// # Errors
    /// The log has stopped: whether the transaction commits is not known, and it is not to be
    /// acknowledged.
    pub(crate) fn commit(&mut self) -> Result<Commit, PagedError> {
        let c = self.worker.c;
        P::code(c, Code::PagesCommit);
        let before = self.worker.meter.enter::<P>(c, Category::Commit);
        // Drawn with all locks held: a thread that gets one of them later draws later.
        let stamp = self.draw_stamp();
        let lsn = match self.log_end(End::Committed) {
            Ok(lsn) => lsn,
            Err(error) => {
                // Locks stay, so that no thread sees what may be lost.
                self.shared.fail(c, error.clone());
                return Err(error);
            }
        };
        self.end();
        self.worker.meter.leave::<P>(c, before);
        Ok(Commit { stamp, durable_with: Epoch(lsn.0) })
    }

    /// A stamp for a commit, all locks of which are held.
    pub(crate) fn draw_stamp(&mut self) -> Stamp {
        self.last_stamp = P::timestamp(self.worker.c).max(self.last_stamp + 1);
        Stamp(self.last_stamp)
    }

    /// Logs how the worker's transaction ends; where the record ends.
    pub(crate) fn log_end(&mut self, end: End<'_>) -> Result<Lsn, PagedError> {
        let lsn = self.worker.end_transaction(end)?;
        if let Some(log) = self.worker.pool.log().filter(|_| !self.shared.aether) {
            log.wait(self.worker.c, lsn, None)?;
        }
        Ok(lsn)
    }

    /// Undoes all changes; where what the transaction has read may end in the log.
    pub(crate) fn roll_back(&mut self) -> Result<Lsn, PagedError> {
        let undone = self.owner.undo.roll_back(&mut self.worker);
        let lsn = undone.and_then(|()| self.log_end(End::RolledBack)).map_err(|error| {
            // Locks stay, so that no thread sees what is there.
            let error = PagedError::NotUndone(error.to_string());
            self.shared.fail(self.worker.c, error.clone());
            error
        })?;
        self.end();
        Ok(lsn)
    }
}
