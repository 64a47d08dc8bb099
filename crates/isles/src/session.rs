//! Sessions: what runs transactions, again and again until they commit, within bounds.
//!
//! The scheme is chosen when the database is opened, so types of this library do not name it. A session is an object: it is
//! called once a transaction, to begin it; from then on its verbs are called through [`engine::ErasedVerbs`]. Reading one field
//! by its key took some 75 ns that way, where the engine's own typed verbs, inlined, took some 50 (1,000 rows in cache,
//! ten reads a transaction). In return the engine is compiled once a scheme, in this crate, and not again in every
//! program for each type of row, and a [`Transaction`] names neither scheme nor session.
//!
//! Between transactions a session leaves its epoch, so that it holds no memory of deleted rows back; entering again costs
//! a fence. Inside one it holds nothing else back, however long it stays: others commit, and their commits become durable.
//!
//! A transaction within a closure of another one of the same database would wait, in many cases for ever, for what the
//! outer one holds: each thread knows in which databases it is inside a closure.
//! A transaction without verbs takes some 50 ns, 20 more than one that stays in its epoch and has no deadline.

use std::cell::RefCell;

use cc::{Abort, Scheme};
use engine::{Bounds, Ending, ErasedVerbs, Stats};
use platform::{Hardware, Nanos, Platform};

use crate::database::Shared;
use crate::error::{Error, Result};
use crate::options::{CancelToken, TransactionOptions};
use crate::transaction::{State, Transaction};

/// How often one who waits for the disk looks at its token.
const CANCEL_NANOS: u64 = 1_000_000;
/// Transactions of a session between two looks at the age of the epoch: a look costs a reading of the clock.
const TRANSACTIONS_PER_TEND: u32 = 8;
/// Pauses after which memory of deleted rows can be used again, if no transaction of another session lasts longer.
const PAUSES_FOR_MEMORY: u32 = 5;
/// Length of such a pause: an epoch and a bit.
const PAUSE_FOR_MEMORY: std::time::Duration = std::time::Duration::from_micros(1_100);

/// One thread's use of a database: it runs one transaction after the other. It can be sent to another thread between
/// transactions. Dropping it gives its place back; between transactions it holds nothing up.
pub struct Session<'d> {
    inner: Box<dyn AnySession + 'd>,
    shared: &'d Shared,
    options: TransactionOptions,
    state: State,
    /// Transactions begun.
    transactions: u32,
}

/// A [`Session`] with other options for some transactions: what [`Session::with`] gives.
pub struct SessionWith<'s, 'd> {
    session: &'s mut Session<'d>,
    options: TransactionOptions,
}

/// A database under one of the schemes.
pub(crate) trait AnyDatabase: Send + Sync {
    /// A session; the seed is that of its backoff times.
    fn session(&self, seed: u64) -> Result<Box<dyn AnySession + '_>>;
    fn memory_bytes(&self) -> u64;
    /// Makes a checkpoint; nothing without a log.
    fn checkpoint(&self) -> Result<()>;
    /// Ends the log, if there is one.
    fn close(self: Box<Self>) -> Result<()>;
}

impl<S: Scheme<Hardware>> AnyDatabase for engine::Database<Hardware, S> {
    fn session(&self, seed: u64) -> Result<Box<dyn AnySession + '_>> {
        let limit = |full: cc::TooManySessions| Error::TooManySessions { limit: full.0 };
        let mut session = self.session(Hardware::core(), None, false).map_err(limit)?;
        session.seed(seed);
        Ok(Box::new(session))
    }

    fn memory_bytes(&self) -> u64 {
        self.memory_bytes(Hardware::core())
    }

    fn checkpoint(&self) -> Result<()> {
        let limit = |full: cc::TooManySessions| Error::TooManySessions { limit: full.0 };
        let mut session = self.session(Hardware::core(), None, false).map_err(limit)?;
        session.checkpoint().map(|_| ()).map_err(|error| Error::NotDurable(error.to_string()))
    }

    fn close(self: Box<Self>) -> Result<()> {
        engine::Database::close(*self, Hardware::core()).map_err(|error| Error::NotDurable(error.to_string()))
    }
}

/// The body of a transaction as the engine runs it.
type Attempt<'a> = dyn FnMut(&mut dyn ErasedVerbs) -> Result<(), Abort> + 'a;

/// A session under one of the schemes.
pub(crate) trait AnySession: Send {
    fn transact(
        &mut self,
        bounds: &Bounds,
        cancel: Option<&CancelToken>,
        attempt: &mut Attempt<'_>,
    ) -> Result<Ending<()>, Abort>;
    /// Holds nothing up from now on.
    fn rest(&mut self);
    /// Lets memory of deleted rows become usable, if it is time.
    fn tend(&mut self);
    fn stats(&self) -> Stats;
}

impl<S: Scheme<Hardware>> AnySession for engine::Session<'_, Hardware, S> {
    fn transact(
        &mut self,
        bounds: &Bounds,
        cancel: Option<&CancelToken>,
        attempt: &mut Attempt<'_>,
    ) -> Result<Ending<()>, Abort> {
        durably(self, bounds, cancel, attempt)
    }

    fn rest(&mut self) {
        self.idle();
    }

    fn tend(&mut self) {
        self.tend(Hardware::now(Hardware::core()));
    }

    fn stats(&self) -> Stats {
        self.stats()
    }
}

/// Runs a transaction, and waits until it is durable, or what its decision to roll back follows from.
fn durably<S: cc::Scheme<Hardware>>(
    session: &mut engine::Session<'_, Hardware, S>,
    bounds: &Bounds,
    cancel: Option<&CancelToken>,
    attempt: &mut Attempt<'_>,
) -> Result<Ending<()>, Abort> {
    let ending = session.transact(bounds, |verbs| attempt(verbs))?;
    let (outcome, committed) = match ending {
        Ending::Committed((), commit) => (commit.durable_with, true),
        Ending::RolledBack(depends_on) => (depends_on, false),
    };
    if session.is_durable(outcome) {
        return Ok(ending);
    }
    loop {
        let now = Hardware::now(Hardware::core());
        let ends = bounds.deadline.is_some_and(|deadline| now >= deadline) || is_cancelled(cancel);
        // Who has no time left still sees what is there.
        let look = cancel.map(|_| now.plus(CANCEL_NANOS));
        let until = [bounds.deadline, look].into_iter().flatten().min();
        if session.wait_durable_until(outcome, until)? {
            return Ok(ending);
        }
        if ends {
            return Err(Abort::DurabilityUnknown { committed });
        }
    }
}

thread_local! {
    /// Databases in whose transactions the thread is.
    static INSIDE: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Being inside a transaction of a database, until dropped.
struct Inside(u64);

impl Inside {
    fn enter(database: u64) -> Result<Self> {
        INSIDE.with_borrow_mut(|inside| {
            if inside.contains(&database) {
                return Err(Error::Nested);
            }
            inside.push(database);
            Ok(Inside(database))
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| inside.retain(|database| *database != self.0));
    }
}

/// Refuses what cannot be done inside a transaction of the database.
pub(crate) fn check_outside(database: u64) -> Result<()> {
    Inside::enter(database).map(drop)
}

/// Makes a session rest when it goes out of scope, be it through a panic of the program's closure.
struct Resting<'s, 'd>(&'s mut (dyn AnySession + 'd));

impl Drop for Resting<'_, '_> {
    fn drop(&mut self) {
        self.0.rest();
    }
}

/// How a transaction ended.
enum Ended {
    /// With the value or error that the body returned last.
    AsTheBodySaid,
    /// Otherwise.
    Failed(Error),
}

impl<'d> Session<'d> {
    pub(crate) fn new(shared: &'d Shared, seed: u64) -> Result<Self> {
        let inner = shared.inner.session(seed)?;
        let (options, state) = (TransactionOptions::default(), State::default());
        Ok(Session { inner, shared, options, state, transactions: 0 })
    }

    /// Bounds of all transactions from now on.
    pub fn set_options(&mut self, options: TransactionOptions) {
        self.options = options;
    }

    /// Other bounds for some transactions: `session.with(options).transaction(..)`.
    pub fn with(&mut self, options: TransactionOptions) -> SessionWith<'_, 'd> {
        SessionWith { session: self, options }
    }

    /// Runs `body` as one transaction: all that it did happens at once when it returns `Ok`, or nothing of it when it
    /// returns an error or panics.
    ///
    /// The body is called again after a collision with another transaction: it should have no effects but through the
    /// transaction, and pass errors of its verbs on with `?`. It may return any [`Error`] to roll back, such as
    /// [`Error::RollBack`]; that decision, like a commit, counts only if what it has read was current, so the caller can
    /// rely on it. Until then, under [`crate::Scheme::Silo`], an attempt that is going to be repeated may read rows that
    /// never were together: a panic over such rows is a panic of the program, so return errors instead.
    ///
    /// Errors: those of the verbs, [`Error::Conflict`] when the attempts are used up, [`Error::Deadline`],
    /// [`Error::Cancelled`], [`Error::DurabilityUnknown`] if the time is over after the commit, [`Error::Nested`] within a
    /// closure of the same database. An error of a verb that the body does not pass on ends the transaction all the same.
    pub fn transaction<T>(&mut self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.try_transaction(body)
    }

    /// As [`Self::transaction`], for bodies with an error type of their own, which comes through unchanged.
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
        self.run(&options, body)
    }

    /// Counters of this session: commits, attempts that collided, transactions that rolled back by their own decision.
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn run<T, E: From<Error>>(
        &mut self,
        options: &TransactionOptions,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut said = None;
        let ended = self.drive(options, &mut |transaction| {
            let outcome = body(transaction);
            let good = outcome.is_ok();
            said = Some(outcome);
            good
        });
        match (ended, said) {
            (Ended::Failed(error), _) => Err(error.into()),
            (Ended::AsTheBodySaid, Some(outcome)) => outcome,
            (Ended::AsTheBodySaid, None) => unreachable!("a transaction ends by its body or by a failure"),
        }
    }

    /// Runs attempts; `body` says whether it wants to commit.
    fn drive(
        &mut self,
        options: &TransactionOptions,
        body: &mut dyn FnMut(&mut Transaction<'_>) -> bool,
    ) -> Ended {
        let _inside = match Inside::enter(self.shared.id) {
            Ok(inside) => inside,
            Err(nested) => return Ended::Failed(nested),
        };
        let c = Hardware::core();
        let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let deadline = options.deadline.map(|time| Hardware::now(c).plus(nanos(time)));
        let bounds = Bounds { deadline, attempts_max: Some(options.attempts) };
        let cancel = options.cancel.as_ref();
        let (state, shared) = (&mut self.state, self.shared);
        state.attempts = 0;
        self.transactions = self.transactions.wrapping_add(1);
        if self.transactions.is_multiple_of(TRANSACTIONS_PER_TEND) {
            self.inner.tend();
        }
        let mut waited = false;
        loop {
            let resting = Resting(&mut *self.inner);
            let result = resting.0.transact(&bounds, cancel, &mut |verbs| {
                attempt(Transaction { verbs, state, shared, cancel }, deadline, body)
            });
            drop(resting);
            match result {
                Ok(_) => return Ended::AsTheBodySaid,
                Err(Abort::OutOfMemory(_)) if !waited => {
                    waited = true;
                    wait_for_memory(&mut *self.inner);
                }
                // What the body said may come from rows that were not together: the engine says conflict then. Or from rows that
                // may be lost yet.
                Err(abort)
                    if state.passed_on
                        && !abort.is_conflict()
                        && !matches!(abort, Abort::DurabilityUnknown { .. } | Abort::NotDurable(_)) =>
                {
                    return Ended::AsTheBodySaid;
                }
                Err(abort) => {
                    let table = state.failed.as_ref().map_or("", |failure| failure.table);
                    return Ended::Failed(Error::from_abort(&abort, table, state.attempts));
                }
            }
        }
    }
}

impl SessionWith<'_, '_> {
    /// As [`Session::transaction`].
    pub fn transaction<T>(&mut self, body: impl FnMut(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.session.run(&self.options, body)
    }

    /// As [`Session::try_transaction`].
    pub fn try_transaction<T, E: From<Error>>(
        &mut self,
        body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.session.run(&self.options, body)
    }
}

/// One attempt, up to its commit.
fn attempt(
    mut transaction: Transaction<'_>,
    deadline: Option<Nanos>,
    body: &mut dyn FnMut(&mut Transaction<'_>) -> bool,
) -> Result<(), Abort> {
    let state = &mut *transaction.state;
    state.attempts += 1;
    state.failed = None;
    state.passed_on = false;
    if is_cancelled(transaction.cancel) {
        return Err(Abort::Cancelled);
    }
    let again = state.attempts > 1;
    if again && deadline.is_some_and(|deadline| Hardware::now(Hardware::core()) >= deadline) {
        return Err(Abort::Deadline);
    }
    let good = body(&mut transaction);
    let Transaction { state, cancel, .. } = transaction;
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

fn is_cancelled(token: Option<&CancelToken>) -> bool {
    token.is_some_and(CancelToken::is_cancelled)
}

/// Deleted rows of this session may become usable memory in a few epochs.
// The thread is the program's, and it runs on the machine itself: it may sleep like any other.
#[allow(clippy::disallowed_methods)]
fn wait_for_memory(session: &mut dyn AnySession) {
    for _ in 0..PAUSES_FOR_MEMORY {
        std::thread::sleep(PAUSE_FOR_MEMORY);
        session.tend();
    }
}
