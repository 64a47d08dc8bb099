//! Sessions: a session runs transactions, and tries each of them again until it commits, within
//! bounds.
//!
//! Between transactions a session leaves its epoch, so that it holds no memory of deleted rows
//! back; entering again costs a fence. Inside a transaction a session holds nothing else back,
//! however long it stays: other sessions commit, and their commits become durable. A transaction
//! without verbs takes some 50 ns, 20 more than one that stays in its epoch and has no deadline.
//!
//! A session of the engine borrows its database. A session of this library holds the database
//! beside it (`Attached`), so that a struct, a pool or a task can have it: decision 0034.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use boundary::{AnySession, RoamingSession};
use boundary::{Bounds, Stats};
use concurrency::TooManySessions;
use platform::{Hardware, Nanos, Platform};
use self_cell::self_cell;
use terms::Epoch;
use terms::{Abort, Conflict, Mode};

use crate::attempt::{State, Transaction};
use crate::durably::{self, Patience, nanos};
use crate::error::{Error, Result};
use crate::ledger::{Counters, SessionEntry};
use crate::memory_pauses::wait_for_memory;
use crate::open::{Active, Begun, OpenTransaction, bound_waits};
use crate::options::{Durability, TransactionOptions, is_cancelled};
use crate::own::Own;
use crate::shared::Shared;
use crate::ticket::Ticket;

/// Transactions of a session between two looks at the age of the epoch: each look reads the clock.
const TRANSACTIONS_PER_TEND: u32 = 8;
/// Times that a transaction waits for memory under a scheme with versions.
const WAITS_WITH_VERSIONS: u32 = 3;

type Inner<'d> = Box<dyn RoamingSession<'d> + 'd>;

self_cell! {
    /// A session of the engine beside the database that it borrows.
    struct Attached {
        owner: Arc<Shared>,
        #[not_covariant]
        dependent: Inner,
    }
}

/// One thread's use of a database: a session runs one transaction after the other. A session keeps
/// its database open, can be kept in a struct, and can be sent to another thread; between
/// transactions it holds nothing up. Dropping a session gives its place back.
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
    inner: Own<Attached>,
    options: TransactionOptions,
    state: State,
    /// Transactions begun.
    transactions: u32,
    /// True if a transaction that [`Self::begin`] gave has not ended.
    begun: bool,
    entry: Own<SessionEntry>,
}

/// A [`Session`] with other options for some transactions: what [`Session::with`] gives.
/// [`TransactionOptions`](crate::TransactionOptions) has an example.
pub struct SessionWith<'s> {
    session: &'s mut Session,
    options: TransactionOptions,
}

/// Makes a session rest when this goes out of scope, also through a panic of the program's closure.
struct Resting<'s, 'd>(&'s mut (dyn AnySession<'d> + 'd));

impl Drop for Resting<'_, '_> {
    fn drop(&mut self) {
        self.0.idle();
    }
}

/// How a transaction ended.
enum Ended {
    /// With the value or error that the body returned in its last attempt; the epoch with which
    /// that is durable.
    AsTheBodySaid(Epoch),
    /// With this error, whatever the body returned.
    Failed(Error),
}

/// The options of a transaction beside its body.
#[derive(Clone, Copy)]
struct Wish<'w> {
    mode: Mode,
    options: &'w TransactionOptions,
}

impl<'w> Wish<'w> {
    /// A transaction like most.
    fn of(options: &'w TransactionOptions) -> Self {
        Wish { mode: Mode::Single, options }
    }
}

impl Session {
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Self> {
        shared.check_process()?;
        let limit = |full: TooManySessions| Error::TooManySessions { limit: full.0 };
        let inner = Attached::try_new(Arc::clone(shared), |shared| {
            let session = shared.inner.roaming_session(Hardware::core(), None, false);
            let session = session.ok_or(Error::Misuse("a storage manager whose sessions do not travel"))?;
            let mut session = session.map_err(limit)?;
            // Relaxed: only the numbers matter.
            session.seed(shared.sessions.fetch_add(1, Ordering::Relaxed));
            Ok::<_, Error>(session)
        })?;
        let (inner, entry) = (Own::new(inner), Own::new(shared.ledger.enter()));
        let (options, state) = (TransactionOptions::default(), State::default());
        Ok(Session { inner, options, state, transactions: 0, begun: false, entry })
    }

    /// The state that all handles of the database share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.inner.borrow_owner()
    }

    /// Sets the options of all transactions from now on.
    ///
    /// [`Session`] has an example.
    pub fn set_options(&mut self, options: TransactionOptions) {
        self.options = options;
    }

    /// Other options for some transactions: `session.with(options).transaction(..)`.
    ///
    /// [`Session`] has an example.
    pub fn with(&mut self, options: TransactionOptions) -> SessionWith<'_> {
        SessionWith { session: self, options }
    }

    /// Runs `body` as one transaction: all changes of the body happen at once when the body returns
    /// `Ok`, and none of them when the body returns an error or panics.
    ///
    /// The body is called again after a collision with another transaction: it should have no
    /// effects but through the transaction, and pass errors of its verbs on with `?`. The body may
    /// return any [`Error`] to roll back, such as [`Error::RollBack`]. That decision, like a
    /// commit, counts only if what the body has read was current, so the caller can rely on the
    /// decision. Until then, under [`crate::Scheme::Silo`], an attempt that is going to be repeated
    /// may read rows that never were there at one moment: a panic over such rows is a panic of the
    /// program, so return errors instead.
    ///
    /// Errors: those of the verbs, [`Error::Conflict`] when the attempts are used up,
    /// [`Error::Deadline`], [`Error::Cancelled`], [`Error::DurabilityUnknown`] if the time is over
    /// after the commit, [`Error::Nested`] within a closure of the same database. A verb that fails
    /// ends the transaction even if the body does not pass the error on.
    ///
    /// [`Session`] has an example.
    pub fn transaction<T>(&mut self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.try_transaction(body)
    }

    /// As [`Self::transaction`], for bodies with an error type of their own, which comes through
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
        self.run(Wish::of(&options), body).map(|(value, _)| value)
    }

    /// As [`Self::transaction`], but returns when the transaction has committed, with a ticket to
    /// wait for: when its wait is over, the commit is on disk. So a server can go on, and
    /// acknowledge later. An error is told when what it follows from is on disk.
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

    /// Runs `body` over a snapshot: what was committed before the call, and nothing else, however
    /// long the body takes. The body only reads, runs once, waits for no other transaction's locks
    /// and keeps no other waiting. It never fails with [`Error::Conflict`].
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

    /// Begins a transaction that lives as long as the caller likes, for code that cannot be a
    /// closure: see [`OpenTransaction`]. [`Self::into_transaction`] gives one that has its session
    /// with it.
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

    /// The attempt that [`Self::begin`] begins.
    pub(crate) fn activate(&mut self, options: TransactionOptions) -> Result<Active<'_>> {
        self.shared().check_outside()?;
        self.end_forgotten()?;
        let c = Hardware::core();
        let deadline = options.deadline.map(|time| Hardware::now(c).plus(nanos(time)));
        self.count_transaction();
        let Session { inner, state, begun, entry, .. } = self;
        state.begin_attempt(1);
        state.only_reads = false;
        inner.with_dependent_mut(|shared, session| {
            let bounds = Bounds { deadline, attempts_max: Some(1) };
            let attempt = session.begin(Mode::Single, &bounds);
            let attempt = attempt.map_err(|abort| Error::from_abort(&abort, shared.tables(), 1))?;
            let began = shared.begin_watch();
            let begun = Begun::new(begun, entry);
            let attempt = Own::new(attempt);
            Ok(Active { attempt, begun, state, shared, options, deadline, began })
        })
    }

    /// Ends a transaction whose object was forgotten.
    fn end_forgotten(&mut self) -> Result<()> {
        if self.begun {
            if !self.inner.with_dependent_mut(|_, session| session.give_up()) {
                return Err(Error::Misuse("a transaction of this session was forgotten (`mem::forget`)"));
            }
            self.begun = false;
        }
        Ok(())
    }

    /// Looks at the age of the epoch now and then.
    fn count_transaction(&mut self) {
        self.transactions = self.transactions.wrapping_add(1);
        if self.transactions.is_multiple_of(TRANSACTIONS_PER_TEND) {
            self.inner.with_dependent_mut(|shared, session| {
                session.tend(Hardware::now(Hardware::core()));
                shared.look_at_checkpoints();
            });
        }
    }

    /// Counters of this session: commits, attempts that collided, transactions that rolled back by
    /// their own decision.
    ///
    /// [`Session`] has an example.
    pub fn stats(&self) -> Stats {
        self.inner.with_dependent(|_, session| session.stats())
    }

    fn run<T, E: From<Error>>(
        &mut self,
        wish: Wish<'_>,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<(T, Epoch), E> {
        let mut said = None;
        let began = self.shared().begin_watch();
        let ended = self.drive(wish, &mut |transaction| {
            let outcome = body(transaction);
            let good = outcome.is_ok();
            said = Some(outcome);
            good
        });
        let committed = self.count(&ended, said.as_ref().is_some_and(Result::is_ok));
        self.shared().end_watch(&self.entry.counters, began, (self.state.attempts, committed));
        match ended {
            Ended::Failed(error) => Err(error.into()),
            Ended::AsTheBodySaid(outcome) => match said {
                Some(said) => said.map(|value| (value, outcome)),
                None => unreachable!("a transaction ends by its body or by a failure"),
            },
        }
    }

    /// Counts how a transaction ended; whether it has committed. `good`: the body said so.
    fn count(&self, ended: &Ended, good: bool) -> bool {
        let counters = &self.entry.counters;
        match ended {
            Ended::AsTheBodySaid(_) if good => counters.commit(),
            Ended::AsTheBodySaid(_) if self.state.failed.is_none() => counters.roll_back(),
            Ended::AsTheBodySaid(_) => counters.fail(),
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
        good && matches!(ended, Ended::AsTheBodySaid(_))
    }

    /// Runs attempts; `body` returns whether to commit.
    fn drive(&mut self, wish: Wish<'_>, body: &mut dyn FnMut(&mut Transaction<'_>) -> bool) -> Ended {
        let _inside = match self.shared().enter() {
            Ok(inside) => inside,
            Err(refused) => return Ended::Failed(refused),
        };
        if let Err(forgotten) = self.end_forgotten() {
            return Ended::Failed(forgotten);
        }
        let c = Hardware::core();
        let Wish { mode, options } = wish;
        let deadline = options.deadline.map(|time| Hardware::now(c).plus(nanos(time)));
        let patience = Patience { durability: options.durability, deadline, cancel: options.cancel.as_ref() };
        self.count_transaction();
        self.state.attempts = 0;
        self.state.only_reads = mode == Mode::Snapshot;
        let (state, counters) = (&mut self.state, &*self.entry.counters);
        let ended = self.inner.with_dependent_mut(|shared, session| {
            let most = bound_waits(&mut **session, state)
                .map_or(options.attempts, |most| most.min(options.attempts));
            let by = Asked { shared, state, counters };
            try_attempts(&mut **session, by, (mode, most, &patience), body)
        });
        // The body may have forked, and returned in the child.
        self.shared().check_process().map_or_else(Ended::Failed, |()| ended)
    }
}

/// The parts of a session that attempts use.
struct Asked<'s> {
    shared: &'s Shared,
    state: &'s mut State,
    counters: &'s Counters,
}

/// Runs attempts until one commits or fails for good.
fn try_attempts<'d>(
    session: &mut (dyn RoamingSession<'d> + 'd),
    Asked { shared, state, counters }: Asked<'_>,
    (mode, attempts_max, patience): (Mode, u32, &Patience<'_>),
    body: &mut dyn FnMut(&mut Transaction<'_>) -> bool,
) -> Ended {
    // With versions, a row that is deleted has to leave its indexes first, in a transaction that
    // begins when no snapshot needs it.
    let mut waits = if shared.inner.traits().snapshots { WAITS_WITH_VERSIONS } else { 1 };
    loop {
        let resting = Resting(session);
        let result = durably::transact(resting.0, shared, mode, attempts_max, patience, &mut |verbs| {
            let transaction = Transaction { verbs, state: &mut *state, shared, cancel: patience.cancel };
            attempt(transaction, counters, patience.deadline, body)
        });
        drop(resting);
        match result {
            Ok(outcome) => return Ended::AsTheBodySaid(outcome),
            Err(Abort::OutOfMemory(_)) if waits > 0 => {
                waits -= 1;
                state.lacked_memory = true;
                wait_for_memory(session);
            }
            Err(_) if state.lost_patience => {
                let abort = Abort::Conflict(Conflict::Locked);
                return Ended::Failed(Error::from_abort(&abort, shared.tables(), state.attempts));
            }
            // The body's error counts unless it follows from rows that were never there at one
            // moment (the engine reports a conflict then), or from rows that a crash may lose.
            Err(abort)
                if state.passed_on
                    && !abort.is_conflict()
                    && !matches!(abort, Abort::DurabilityUnknown { .. } | Abort::NotDurable(_)) =>
            {
                return Ended::AsTheBodySaid(Epoch(0));
            }
            Err(abort) => {
                if abort.is_conflict() {
                    counters.conflict(state.failed.as_ref().map(|failure| &failure.abort));
                }
                // A verb that failed with this has told more of it than the abort does.
                let told = state.failed.as_ref().filter(|failure| failure.abort == abort);
                return Ended::Failed(match told {
                    Some(failure) => failure.error.clone(),
                    None => Error::from_abort(&abort, shared.tables(), state.attempts),
                });
            }
        }
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
        self.session.run(Wish::of(&self.options), body).map(|(value, _)| value)
    }

    /// As [`Session::transaction_async`].
    ///
    /// [`Session`] has an example.
    pub fn transaction_async<T>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T>,
    ) -> Result<(T, Ticket)> {
        let options = self.options.clone().durability(Durability::Async);
        let (value, outcome) = self.session.run(Wish::of(&options), body)?;
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
        let patience = self.options.deadline.map_or(u64::MAX, nanos);
        let deadline = Nanos(Hardware::now(c).0.saturating_add(patience));
        if !shared.inner.let_snapshots_show(c, deadline) {
            return Err(Error::Deadline);
        }
        let wish = Wish { mode: Mode::Snapshot, options: &self.options };
        self.session.run(wish, body).map(|(value, _)| value)
    }

    /// As [`Session::begin`].
    ///
    /// [`Session`] has an example.
    pub fn begin(self) -> Result<OpenTransaction<'s>> {
        self.session.activate(self.options).map(OpenTransaction::new)
    }
}

/// One attempt, up to its commit.
fn attempt(
    mut transaction: Transaction<'_>,
    counters: &Counters,
    deadline: Option<Nanos>,
    body: &mut dyn FnMut(&mut Transaction<'_>) -> bool,
) -> Result<(), Abort> {
    let state = &mut *transaction.state;
    if state.attempts > 0 && !state.lacked_memory {
        // There is another attempt because that before it met another transaction.
        counters.conflict(state.failed.as_ref().map(|failure| &failure.abort));
    }
    state.begin_attempt(state.attempts + 1);
    if is_cancelled(transaction.cancel) {
        return Err(Abort::Cancelled);
    }
    let again = state.attempts > 1;
    if again && deadline.is_some_and(|deadline| Hardware::now(Hardware::core()) >= deadline) {
        return Err(Abort::Deadline);
    }
    if again && state.patience_ends.is_some_and(|ends| Hardware::now(Hardware::core()) >= ends) {
        state.lost_patience = true;
        return Err(Abort::Deadline);
    }
    let good = body(&mut transaction);
    let Transaction { state, cancel, shared, .. } = transaction;
    if shared.check_process().is_err() {
        // Anything that ends the attempt will do: `Session::drive` says why.
        return Err(Abort::Cancelled);
    }
    let Some(failure) = &state.failed else {
        return match (good, is_cancelled(cancel)) {
            (true, false) => Ok(()),
            (true, true) => Err(Abort::Cancelled),
            (false, _) => Err(Abort::RollBack),
        };
    };
    state.passed_on = !good;
    Err(failure.abort.clone())
}
