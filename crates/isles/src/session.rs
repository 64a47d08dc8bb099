//! Sessions: a session runs transactions, and retries each transaction within bounds until it
//! commits.
//!
//! Between transactions a session leaves its epoch, so that the memory of deleted rows can be
//! reused; entering an epoch costs a fence. A long transaction delays only this reuse: other
//! sessions commit, and their commits become durable. A transaction without verbs takes about 50
//! ns, 20 ns more than a transaction that stays in its epoch and has no deadline.
//!
//! A session of the engine borrows its database. A session of this library owns a handle of the
//! database next to it (`Attached`), so that a struct, a pool or a task can own the session
//! (decision 0034).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use boundary::{Bounds, RoamingSession, Stats};
use platform::{Hardware, Nanos, Platform};
use self_cell::self_cell;
use terms::{Epoch, Mode};

use crate::attempt::{Transaction, TransactionState};
use crate::attempts::{AttemptContext, Ended, try_attempts};
use crate::durable_wait::{WaitOptions, nanos};
use crate::ended::EndedVerbs;
use crate::error::{Error, Result};
use crate::ledger::SessionEntry;
use crate::open::{ActiveTransaction, OpenTransaction, OpenTransactionGuard, bound_lock_waits, bound_waits};
use crate::options::{Durability, TransactionOptions};
use crate::process_owned::ProcessOwned;
use crate::shared::DatabaseShared;
use crate::sweeping;
use crate::ticket::Ticket;

/// Transactions of a session between two checks of the age of the epoch, which read the clock.
const TRANSACTIONS_PER_TEND: u32 = 8;
type Inner<'d> = Box<dyn RoamingSession<'d> + 'd>;

self_cell! {
    /// A session of the engine, and the database that it borrows.
    struct Attached {
        owner: Arc<DatabaseShared>,
        #[not_covariant]
        dependent: Inner,
    }
}

/// Runs transactions of a database, one after the other. A session keeps its database open, can be
/// kept in a struct, and can be sent to another thread. Between transactions it delays no other
/// session. Dropping a session frees its place for another one.
///
/// ```
/// use isles::{Database, Row, TransactionOptions};
/// use std::time::Duration;
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// let mut builder = Database::in_memory();
/// let accounts = builder.table::<Account>("accounts");
/// let mut session = builder.open()?.session()?; // it keeps the database open
/// session.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
/// // Other bounds for one transaction, or for all that follow.
/// let hurried = TransactionOptions::new().deadline(Duration::from_millis(500)).attempts(100);
/// session.with(hurried.clone()).transaction(|t| t.delete(accounts, &1).map(drop))?;
/// session.set_options(hurried);
/// let mut open = session.begin()?;
/// open.insert(accounts, &Account { id: 2, balance: 7 })?;
/// open.commit()?;
/// assert_eq!(session.stats().commits, 3);
/// # Ok::<(), isles::Error>(())
/// ```
pub struct Session {
    inner: ProcessOwned<Attached>,
    options: TransactionOptions,
    state: TransactionState,
    /// Number of transactions begun.
    transactions: u32,
    /// True if the session looks for expired rows when the present transaction has ended.
    sweeps: bool,
    /// True if a transaction that [`Self::begin`] gave has not ended.
    begun: bool,
    /// Dropped last: threads that wait for a place are told of one that is free.
    entry: ProcessOwned<SessionEntry>,
}

/// A [`Session`] with other options for some transactions, returned by [`Session::with`].
/// [`TransactionOptions`](crate::TransactionOptions) has an example.
pub struct SessionWith<'s> {
    session: &'s mut Session,
    options: TransactionOptions,
}

impl Session {
    pub(crate) fn new(shared: &Arc<DatabaseShared>) -> Result<Self> {
        shared.check_process()?;
        let inner = Attached::try_new(Arc::clone(shared), |shared| {
            let session = shared.inner.roaming_session(Hardware::core(), None, false);
            let session = session.ok_or(Error::Misuse("a storage manager whose sessions do not travel"))?;
            let mut session = session?;
            // Relaxed: only the numbers matter.
            session.seed(shared.sessions.fetch_add(1, Ordering::Relaxed));
            Ok::<_, Error>(session)
        })?;
        let (inner, entry) = (ProcessOwned::new(inner), ProcessOwned::new(shared.ledger.register_session()));
        let (options, state) = (TransactionOptions::default(), TransactionState::default());
        Ok(Session { inner, options, state, transactions: 0, sweeps: false, begun: false, entry })
    }

    /// Returns the state that all handles of the database share.
    pub(crate) fn shared(&self) -> &Arc<DatabaseShared> {
        self.inner.borrow_owner()
    }

    /// Sets the options of all following transactions of this session.
    ///
    /// [`Session`] has an example.
    pub fn set_options(&mut self, options: TransactionOptions) {
        self.options = options;
    }

    /// Returns the session with other options for some transactions:
    /// `session.with(options).transaction(..)`.
    ///
    /// [`Session`] has an example.
    pub fn with(&mut self, options: TransactionOptions) -> SessionWith<'_> {
        SessionWith { session: self, options }
    }

    /// Runs `body` as one transaction: all changes of the body happen at once when the body returns
    /// `Ok`, and none of them when the body returns an error or panics.
    ///
    /// The session calls the body again after a conflict with another transaction. The body should
    /// therefore have no effects except through the transaction, and should pass on errors of verbs
    /// with `?`. The body may return any [`Error`] to roll back, such as [`Error::RollBack`]. Like
    /// a commit, such an error is returned only if the rows that the body read were current, so the
    /// caller can rely on it. Under [`crate::Scheme::Silo`] an attempt that is about to be repeated
    /// may read rows that were never current at one moment. A panic caused by such rows would be a
    /// panic of the program: return an error instead.
    ///
    /// Errors: those of the verbs; [`Error::Conflict`] after the last attempt; [`Error::Deadline`];
    /// [`Error::Cancelled`]; [`Error::DurabilityUnknown`] if the deadline passes after the commit;
    /// [`Error::Nested`] within a closure of the same database. A verb that fails ends the
    /// transaction even if the body does not pass the error on.
    ///
    /// [`Session`] has an example.
    pub fn transaction<T>(&mut self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.try_transaction(body)
    }

    /// As [`Self::transaction`], for bodies with an error type of their own, which the call returns
    /// unchanged.
    ///
    /// ```
    /// # use isles::{Database, Error, Row};
    /// # #[derive(Row)]
    /// # #[row(key(id))]
    /// # struct Account { id: u64, balance: i64 }
    /// #[derive(Debug, PartialEq)]
    /// enum BankError { Broke { missing: i64 }, Database(Error) }
    ///
    /// impl From<Error> for BankError {
    ///     fn from(error: Error) -> Self { BankError::Database(error) }
    /// }
    ///
    /// # let mut builder = Database::in_memory();
    /// # let accounts = builder.table::<Account>("accounts");
    /// # let database = builder.open()?;
    /// # let mut session = database.session()?;
    /// # session.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 30 }))?;
    /// let outcome = session.try_transaction(|t| {
    ///     let balance = t.update(accounts, &1, |account| {
    ///         account.balance -= 100;
    ///         account.balance
    ///     })?;
    ///     match balance {
    ///         Some(left) if left < 0 => Err(BankError::Broke { missing: -left }),
    ///         _ => Ok(()),
    ///     }
    /// });
    /// assert_eq!(outcome, Err(BankError::Broke { missing: 70 }));
    /// # assert_eq!(session.transaction(|t| t.get_field(accounts, &1, Account::BALANCE))?, Some(30));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn try_transaction<T, E: From<Error>>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let options = self.options.clone();
        self.run(Mode::Single, &options, body).map(|(value, _)| value)
    }

    /// As [`Self::transaction`], but returns as soon as the transaction has committed, with a
    /// [`Ticket`] that waits for the disk. A server can thus continue, and acknowledge the commit
    /// later. An error is returned when the rows that led to it are on disk.
    ///
    /// ```
    /// # use isles::{Database, Row};
    /// # #[derive(Row)]
    /// # #[row(key(id))]
    /// # struct Event { id: u64, at: u64 }
    /// # let path = std::env::temp_dir().join(format!("isles-doc-ticket-{}", std::process::id()));
    /// let mut builder = Database::at(&path);
    /// let events = builder.table::<Event>("events");
    /// let database = builder.open()?;
    /// let mut session = database.session()?;
    /// let mut tickets = Vec::new();
    /// for id in 0..100 {
    ///     let ((), ticket) = session.transaction_async(|t| t.insert(events, &Event { id, at: 7 }))?;
    ///     tickets.push(ticket);
    /// }
    /// // All of them are on disk after a flush or two.
    /// tickets.iter().try_for_each(|ticket| ticket.wait())?;
    /// # drop((session, tickets));
    /// # database.close()?;
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn transaction_async<T>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Ticket)> {
        let options = self.options.clone();
        self.with(options).transaction_async(body)
    }

    /// Runs `body` over a snapshot of all transactions that committed before the call. The body
    /// only reads and runs once. It waits for no locks, and no transaction waits for it. It never
    /// fails with [`Error::Conflict`].
    ///
    /// Errors: [`Error::NoSnapshots`] unless the database was opened with [`crate::Scheme::Mvcc`];
    /// [`Error::Misuse`] if the body changes a row; those of [`Self::transaction`], without
    /// conflicts.
    ///
    /// ```
    /// use isles::{Database, Row, Scheme};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// let mut builder = Database::in_memory().scheme(Scheme::Mvcc);
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// let (mut reads, mut writes) = (database.session()?, database.session()?);
    /// writes.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// let sum = reads.snapshot(|t| {
    ///     let before: i64 = t.scan(accounts, ..).collect()?.iter().map(|account| account.balance).sum();
    ///     std::thread::scope(|scope| {
    ///         let change = || writes.transaction(|t| t.set_field(accounts, &1, Account::BALANCE, &7));
    ///         scope.spawn(change).join().expect("no panic")
    ///     })?;
    ///     assert_eq!(t.get_field(accounts, &1, Account::BALANCE)?, Some(5), "still what it was");
    ///     Ok(before)
    /// })?;
    /// assert_eq!(sum, 5);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn snapshot<T>(&mut self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let options = self.options.clone();
        self.with(options).snapshot(body)
    }

    /// Begins a transaction object, for code that cannot be a closure: see [`OpenTransaction`].
    /// [`Self::into_transaction`] returns a transaction object that owns its session.
    ///
    /// Errors: [`Error::Nested`] within a closure of the same database; [`Error::NotDurable`] if
    /// the log has stopped.
    ///
    /// [`Session`] has an example.
    pub fn begin(&mut self) -> Result<OpenTransaction<'_>> {
        let options = self.options.clone();
        self.activate(options).map(OpenTransaction::new)
    }

    pub(crate) fn options(&self) -> &TransactionOptions {
        &self.options
    }

    /// Begins the attempt of a transaction object.
    pub(crate) fn activate(&mut self, options: TransactionOptions) -> Result<ActiveTransaction<'_>> {
        self.shared().check_outside()?;
        self.end_forgotten()?;
        let c = Hardware::core();
        let deadline = options.deadline.map(|time| Hardware::now(c).plus(nanos(time)));
        self.count_transaction();
        let Session { inner, state, begun, entry, .. } = self;
        state.begin_attempt(1);
        state.only_reads = false;
        inner.with_dependent_mut(|shared, session| {
            bound_lock_waits(&mut **session, state, &options);
            let bounds = Bounds { deadline, attempts_max: Some(1) };
            let attempt = session.begin(Mode::Single, &bounds);
            let attempt = attempt.map_err(|abort| Error::from_abort(&abort, shared.tables(), 1))?;
            let began = shared.start_timer();
            let guard = OpenTransactionGuard::new(begun, entry);
            let attempt = Some(ProcessOwned::new(attempt));
            let (ended, used) = (EndedVerbs, options.idle.map(|_| Hardware::now(c)));
            let plans = shared.plans.current();
            Ok(ActiveTransaction {
                attempt,
                ended,
                used,
                guard,
                state,
                shared,
                options,
                deadline,
                began,
                plans,
            })
        })
    }

    /// Ends a transaction object that was forgotten (`mem::forget`).
    fn end_forgotten(&mut self) -> Result<()> {
        if self.begun {
            if !self.inner.with_dependent_mut(|_, session| session.give_up()) {
                return Err(Error::Misuse("a transaction of this session was forgotten (`mem::forget`)"));
            }
            self.begun = false;
        }
        Ok(())
    }

    /// Counts a transaction, and from time to time checks the age of the epoch.
    fn count_transaction(&mut self) {
        self.transactions = self.transactions.wrapping_add(1);
        if self.transactions.is_multiple_of(TRANSACTIONS_PER_TEND) {
            self.inner.with_dependent_mut(|shared, session| {
                session.tend(Hardware::now(Hardware::core()));
                shared.report_checkpoints();
            });
            self.sweeps = self.shared().plans.current().is_some_and(|plans| !plans.expiring.is_empty());
        }
    }

    /// Deletes some expired rows, if it is time.
    #[cold]
    fn sweep(&mut self) {
        self.sweeps = false;
        let (shared, now) = (Arc::clone(self.shared()), Hardware::now(Hardware::core()).0);
        if shared.next_sweep.begin(now) {
            let outcome = sweeping::sweep(&shared, &mut |body| {
                let ended = self.run_attempts(Mode::Single, &sweeping::options(), &mut |t| body(t).is_ok());
                matches!(ended, Ended::ByBody(_)) && self.state.failed.is_none()
            });
            shared.next_sweep.end(now, outcome);
        }
    }

    /// Returns the counters of this session: commits, attempts that conflicted, transactions that
    /// rolled back by their own decision.
    ///
    /// [`Session`] has an example.
    pub fn stats(&self) -> Stats {
        self.inner.with_dependent(|_, session| session.stats())
    }

    fn run<T, E: From<Error>>(
        &mut self,
        mode: Mode,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<(T, Epoch), E> {
        let mut returned = None;
        let began = self.shared().start_timer();
        let ended = self.run_attempts(mode, options, &mut |transaction| {
            let outcome = body(transaction);
            let good = outcome.is_ok();
            returned = Some(outcome);
            good
        });
        let committed = self.count(&ended, returned.as_ref().is_some_and(Result::is_ok));
        self.shared().record_end(&self.entry.counters, began, self.state.attempts, committed);
        if self.sweeps {
            self.sweep();
        }
        match ended {
            Ended::Failed(error) => Err(error.into()),
            Ended::ByBody(epoch) => match returned {
                Some(returned) => returned.map(|value| (value, epoch)),
                None => unreachable!("a transaction ends by its body or by a failure"),
            },
        }
    }

    /// Counts how a transaction ended. Returns true if it committed. `good`: the body returned
    /// `Ok`.
    fn count(&self, ended: &Ended, good: bool) -> bool {
        let counters = &self.entry.counters;
        match ended {
            Ended::ByBody(_) if good => counters.commit(),
            Ended::ByBody(_) if self.state.failed.is_none() => counters.roll_back(),
            Ended::ByBody(_) => counters.fail(),
            Ended::Failed(Error::DurabilityUnknown) => {
                counters.commit();
                return true;
            }
            Ended::Failed(error) => {
                if let Error::NotDurable(why) = error {
                    self.shared().log_stopped(why);
                }
                counters.fail();
            }
        }
        good && matches!(ended, Ended::ByBody(_))
    }

    /// Runs attempts; `body` returns whether to commit.
    fn run_attempts(
        &mut self,
        mode: Mode,
        options: &TransactionOptions,
        body: &mut dyn FnMut(&mut Transaction<'_>) -> bool,
    ) -> Ended {
        let _inside = match self.shared().enter() {
            Ok(inside) => inside,
            Err(refused) => return Ended::Failed(refused),
        };
        if let Err(forgotten) = self.end_forgotten() {
            return Ended::Failed(forgotten);
        }
        let c = Hardware::core();
        let deadline = options.deadline.map(|time| Hardware::now(c).plus(nanos(time)));
        let wait = WaitOptions { durability: options.durability, deadline, cancel: options.cancel.as_ref() };
        self.count_transaction();
        self.state.attempts = 0;
        self.state.only_reads = mode == Mode::Snapshot;
        let (state, counters) = (&mut self.state, &*self.entry.counters);
        let ended = self.inner.with_dependent_mut(|shared, session| {
            let attempts_max = bound_waits(&mut **session, state, options)
                .map_or(options.attempts, |bound| bound.min(options.attempts));
            let context = AttemptContext { shared, state, counters, mode, attempts_max, wait: &wait };
            try_attempts(&mut **session, context, body)
        });
        // The body may have forked, and returned in the child.
        self.shared().check_process().map_or_else(Ended::Failed, |()| ended)
    }
}

impl<'s> SessionWith<'s> {
    /// As [`Session::transaction`].
    ///
    /// [`Session`] has an example.
    pub fn transaction<T>(&mut self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.try_transaction(body)
    }

    /// As [`Session::try_transaction`].
    ///
    /// [`Session`] has an example.
    pub fn try_transaction<T, E: From<Error>>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.session.run(Mode::Single, &self.options, body).map(|(value, _)| value)
    }

    /// As [`Session::transaction_async`].
    ///
    /// [`Session`] has an example.
    pub fn transaction_async<T>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Ticket)> {
        let options = self.options.clone().durability(Durability::Async);
        let (value, outcome) = self.session.run(Mode::Single, &options, body)?;
        Ok((value, Ticket::new(Arc::clone(self.session.shared()), outcome)))
    }

    /// As [`Session::snapshot`].
    ///
    /// [`Session`] has an example.
    pub fn snapshot<T>(&mut self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let shared = self.session.shared();
        shared.check_outside()?;
        if shared.share.is_some() {
            return Err(Error::Misuse("an instance of a deployment has no snapshots: read in a transaction"));
        }
        let traits = shared.inner.traits();
        if !traits.snapshots {
            return Err(Error::NoSnapshots { scheme: traits.name });
        }
        let c = Hardware::core();
        let wait_nanos = self.options.deadline.map_or(u64::MAX, nanos);
        let deadline = Nanos(Hardware::now(c).0.saturating_add(wait_nanos));
        if !shared.inner.let_snapshots_show(c, deadline) {
            return Err(Error::Deadline);
        }
        self.session.run(Mode::Snapshot, &self.options, body).map(|(value, _)| value)
    }

    /// As [`Session::begin`].
    ///
    /// [`Session`] has an example.
    pub fn begin(self) -> Result<OpenTransaction<'s>> {
        self.session.activate(self.options).map(OpenTransaction::new)
    }
}
