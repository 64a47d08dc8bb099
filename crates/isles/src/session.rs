//! Sessions: a session runs transactions, and tries each of them again until it commits, within bounds.
//!
//! Between transactions a session leaves its epoch, so that it holds no memory of deleted rows back; entering again costs
//! a fence. Inside a transaction a session holds nothing else back, however long it stays: other sessions commit, and their
//! commits become durable. A transaction without verbs takes some 50 ns, 20 more than one that stays in its epoch and has
//! no deadline.

use cc::{Abort, TooManySessions};
use engine::dynamic::AnySession;
use engine::{Bounds, Stats};
use platform::{Hardware, Nanos, Platform};

use crate::attempt::{State, Transaction};
use crate::durably;
use crate::error::{Error, Result};
use crate::nesting::Inside;
use crate::options::{TransactionOptions, is_cancelled};
use crate::shared::Shared;

/// Transactions of a session between two looks at the age of the epoch: each look reads the clock.
const TRANSACTIONS_PER_TEND: u32 = 8;
/// Pauses after which memory of deleted rows can be used again, if no transaction of another session lasts longer.
const PAUSES_FOR_MEMORY: u32 = 5;
/// Length of such a pause: a little more than an epoch.
const PAUSE_FOR_MEMORY: std::time::Duration = std::time::Duration::from_micros(1_100);

/// One thread's use of a database: a session runs one transaction after the other. A session can be sent to another thread
/// between transactions, and holds nothing up then. Dropping a session gives its place back.
pub struct Session<'d> {
    inner: Box<dyn AnySession<'d> + Send + 'd>,
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

/// Makes a session rest when this goes out of scope, also through a panic of the program's closure.
struct Resting<'s, 'd>(&'s mut (dyn AnySession<'d> + Send + 'd));

impl Drop for Resting<'_, '_> {
    fn drop(&mut self) {
        self.0.idle();
    }
}

/// How a transaction ended.
enum Ended {
    /// With the value or error that the body returned in its last attempt.
    AsTheBodySaid,
    /// With this error, whatever the body returned.
    Failed(Error),
}

impl<'d> Session<'d> {
    pub(crate) fn new(shared: &'d Shared, seed: u64) -> Result<Self> {
        let limit = |full: TooManySessions| Error::TooManySessions { limit: full.0 };
        let mut inner = shared.inner.session_to_send(Hardware::core(), None, false).map_err(limit)?;
        inner.seed(seed);
        let (options, state) = (TransactionOptions::default(), State::default());
        Ok(Session { inner, shared, options, state, transactions: 0 })
    }

    /// Sets the bounds of all transactions from now on.
    pub fn set_options(&mut self, options: TransactionOptions) {
        self.options = options;
    }

    /// Other bounds for some transactions: `session.with(options).transaction(..)`.
    pub fn with(&mut self, options: TransactionOptions) -> SessionWith<'_, 'd> {
        SessionWith { session: self, options }
    }

    /// Runs `body` as one transaction: all changes of the body happen at once when the body returns `Ok`, and none of them
    /// when the body returns an error or panics.
    ///
    /// The body is called again after a collision with another transaction: it should have no effects but through the
    /// transaction, and pass errors of its verbs on with `?`. The body may return any [`Error`] to roll back, such as
    /// [`Error::RollBack`]. That decision, like a commit, counts only if what the body has read was current, so the caller
    /// can rely on the decision. Until then, under [`crate::Scheme::Silo`], an attempt that is going to be repeated may read
    /// rows that never were there at one moment: a panic over such rows is a panic of the program, so return errors instead.
    ///
    /// Errors: those of the verbs, [`Error::Conflict`] when the attempts are used up, [`Error::Deadline`],
    /// [`Error::Cancelled`], [`Error::DurabilityUnknown`] if the time is over after the commit, [`Error::Nested`] within a
    /// closure of the same database. A verb that fails ends the transaction even if the body does not pass the error on.
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

    /// Runs attempts; `body` returns whether to commit.
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
            self.inner.tend(Hardware::now(c));
        }
        let mut waited = false;
        loop {
            let resting = Resting(&mut *self.inner);
            let result = durably::transact(resting.0, &bounds, cancel, &mut |verbs| {
                attempt(Transaction { verbs, state, shared, cancel }, deadline, body)
            });
            drop(resting);
            match result {
                Ok(_) => return Ended::AsTheBodySaid,
                Err(Abort::OutOfMemory(_)) if !waited => {
                    waited = true;
                    wait_for_memory(&mut *self.inner);
                }
                // The body's error counts unless it follows from rows that were never there at one moment (the engine reports
                // a conflict then), or from rows that a crash may lose.
                Err(abort)
                    if state.passed_on
                        && !abort.is_conflict()
                        && !matches!(abort, Abort::DurabilityUnknown { .. } | Abort::NotDurable(_)) =>
                {
                    return Ended::AsTheBodySaid;
                }
                Err(abort) => {
                    return Ended::Failed(Error::from_abort(&abort, &shared.tables, state.attempts));
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

/// Waits for a few epochs, after which memory of rows that this session has deleted may be usable.
// The thread belongs to the program and runs on the machine itself, so it may sleep.
#[allow(clippy::disallowed_methods)]
fn wait_for_memory(session: &mut dyn AnySession<'_>) {
    for _ in 0..PAUSES_FOR_MEMORY {
        std::thread::sleep(PAUSE_FOR_MEMORY);
        session.tend(session.now());
    }
}
