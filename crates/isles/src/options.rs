//! Options of transactions: attempts, deadline, cancellation, and when a commit is acknowledged.
// Threads of the program share a token; its word does not belong to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Default of [`TransactionOptions::attempts`].
pub const ATTEMPTS_DEFAULT: u32 = 10_000;
/// Default of [`TransactionOptions::deadline`].
pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(10);

/// Bounds of a transaction: of all transactions of a session ([`crate::Session::set_options`]) or
/// of one ([`crate::Session::with`]).
///
/// ```
/// use isles::{Database, Durability, Error, TransactionOptions};
/// use std::time::Duration;
///
/// let database = Database::in_memory().open()?;
/// let mut session = database.session()?;
/// let options = TransactionOptions::new().attempts(10).deadline(Duration::ZERO).durability(Durability::Async);
/// assert_eq!(session.with(options.clone()).transaction(|_| Ok(())), Err(Error::Deadline));
/// assert_eq!(session.with(options.without_deadline()).transaction(|_| Ok(())), Ok(()));
/// # Ok::<(), isles::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TransactionOptions {
    pub(crate) attempts: u32,
    pub(crate) deadline: Option<Duration>,
    pub(crate) cancel: Option<CancelToken>,
    pub(crate) durability: Durability,
    pub(crate) lock_wait: Option<Duration>,
    pub(crate) idle: Option<Duration>,
}

/// Durability of a commit when the call that ran the transaction returns. It has an effect only in
/// a database that lives in a directory.
///
/// Under every choice, recovery after a crash restores a consistent state: a recovered commit
/// implies that the commits which it read from are recovered too. A transaction that waits for the
/// disk therefore also waits for the commits that it read from, even if it only reads.
/// [`TransactionOptions`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The call returns when the commit is on disk. The caller requests a flush at once; callers
    /// that wait at the same time share one flush.
    #[default]
    Immediate,
    /// The call returns when the commit is on disk. The caller first waits this long for other
    /// commits, so that more commits share a flush. This suits devices with slow flushes and
    /// programs with many sessions.
    Group(Duration),
    /// The call returns at once. A crash loses commits that are not on disk yet.
    /// [`crate::Ticket::wait`], [`crate::Database::flush`], [`crate::Database::close`] and any
    /// later transaction that waits put them on disk. Errors and rollbacks are reported when the
    /// rows that led to them are on disk.
    Async,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            attempts: ATTEMPTS_DEFAULT,
            deadline: Some(DEADLINE_DEFAULT),
            cancel: None,
            durability: Durability::Immediate,
            lock_wait: None,
            idle: None,
        }
    }
}

impl TransactionOptions {
    /// Returns the default options: [`ATTEMPTS_DEFAULT`] attempts within [`DEADLINE_DEFAULT`], no
    /// token, [`Durability::Immediate`].
    ///
    /// [`TransactionOptions`] has an example.
    pub fn new() -> Self {
        TransactionOptions::default()
    }

    /// Limits the number of attempts, at least 1. A transaction that conflicts in every attempt
    /// returns [`crate::Error::Conflict`]. Pauses between attempts grow to about 60 microseconds.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Limits the time from the call to the commit, over all attempts; after that the transaction
    /// returns [`crate::Error::Deadline`]. The transaction checks the time between attempts, every
    /// 64 verbs or rows of a scan, and before the commit. A commit that is not on disk at the
    /// deadline returns [`crate::Error::DurabilityUnknown`]. A single session flushes its commit
    /// itself if a second or more is left, so a disk that hangs can delay the call beyond the
    /// deadline.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Removes the deadline.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// Lets a transaction wait this long for a lock that another one holds, from nothing to
    /// minutes. It sleeps meanwhile, is served in the order of arrival (in memory, others may
    /// overtake the first for two milliseconds until its thread runs), and returns
    /// [`crate::Error::LockTimeout`] when the time is over. Transactions that wait for each other
    /// are found: the youngest of them conflicts, and a closure tries it again. Transactions that
    /// update a row that all others update too then follow one another, without conflicts.
    ///
    /// This holds under [`crate::Scheme::DlDetect`] and where rows lie in pages; there, older
    /// transactions are served first, and one that is younger may conflict before a circle closes.
    /// Other schemes keep their rules: `WaitDie` lets the older wait for a millisecond and the
    /// younger conflict, `NoWait` never waits, and under the optimistic ones nothing is locked
    /// before the commit; there, closures are tried again as ever. So do the instances of a
    /// deployment. Without this option a transaction waits for up to a millisecond in memory, and
    /// over pages as long as its deadline allows.
    ///
    /// A transaction that waits ends at its deadline, and notices its [`CancelToken`] when the wait
    /// is over.
    ///
    /// ```
    /// use isles::{Database, Error, Row, Scheme, TransactionOptions};
    /// use std::time::Duration;
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// let mut builder = Database::in_memory().scheme(Scheme::DlDetect);
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// let mut other = database.begin()?;
    /// other.update(accounts, &1, |account| account.balance += 1)?;
    ///
    /// let mut session = database.session()?;
    /// session.set_options(TransactionOptions::new().lock_wait(Duration::from_millis(20)));
    /// let refused = session.transaction(|t| t.update(accounts, &1, |account| account.balance += 1));
    /// match refused {
    ///     Err(Error::LockTimeout { table, waited, .. }) => {
    ///         assert_eq!(table, "accounts");
    ///         assert!(waited >= Duration::from_millis(20));
    ///     }
    ///     other => unreachable!("{other:?}"),
    /// }
    /// other.commit()?;
    /// session.transaction(|t| t.update(accounts, &1, |account| account.balance += 1))?;
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn lock_wait(mut self, longest: Duration) -> Self {
        self.lock_wait = Some(longest);
        self
    }

    /// Limits how long a transaction object may be idle between two calls. The next call after a
    /// longer time rolls the transaction back, and it and all further ones return
    /// [`crate::Error::Idle`]. Closures are not affected.
    ///
    /// The library has no thread of its own, so nothing happens before the next call: a program
    /// that keeps transactions for clients drops those that
    /// [`idle_for`](crate::OwnedTransaction::idle_for) says have been idle for too long. Dropping
    /// rolls back and unlocks at once.
    ///
    /// ```
    /// use isles::{Database, Error, OwnedTransaction, Row, TransactionOptions};
    /// use std::time::Duration;
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// let mut builder = Database::in_memory();
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// let limit = Duration::from_millis(20);
    /// let begin = || -> isles::Result<OwnedTransaction> {
    ///     let mut session = database.session()?;
    ///     session.set_options(TransactionOptions::new().idle(limit));
    ///     session.into_transaction()
    /// };
    ///
    /// let mut slow = begin()?;
    /// slow.insert(accounts, &Account { id: 1, balance: 5 })?;
    /// std::thread::sleep(2 * limit); // its client thinks
    /// assert!(matches!(slow.get(accounts, &1), Err(Error::Idle { .. })));
    /// // It is rolled back: its rows are free.
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 7 }))?;
    /// assert!(matches!(slow.commit(), Err(Error::Idle { .. })));
    ///
    /// // A server ends them at their bound, whatever their clients do.
    /// let mut conversations = vec![begin()?, begin()?];
    /// std::thread::sleep(2 * limit);
    /// assert!(conversations[1].get(accounts, &1).is_err(), "it was idle, too");
    /// conversations.retain(|open| open.idle_for().is_none_or(|idle| idle <= limit));
    /// assert!(conversations.is_empty());
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn idle(mut self, longest: Duration) -> Self {
        self.idle = Some(longest);
        self
    }

    /// Sets when the commit is acknowledged. A database in memory ignores this option.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets a token by which another thread can cancel the transaction.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

/// Cancels transactions from another thread: transactions with this token return
/// [`crate::Error::Cancelled`] at their next verb, row of a scan, attempt or commit. Clones share
/// one state. A token stays set once it is set.
///
/// ```
/// use isles::{CancelToken, Database, Error, TransactionOptions};
///
/// let database = Database::in_memory().open()?;
/// let mut session = database.session()?;
/// let token = CancelToken::new();
/// token.cancel(); // usually by another thread, through a clone
/// let outcome = session.with(TransactionOptions::new().cancel(&token)).transaction(|_| Ok(()));
/// assert_eq!(outcome, Err(Error::Cancelled));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelToken {
    set: Arc<AtomicBool>,
}

impl CancelToken {
    /// Returns a token that is not set.
    ///
    /// [`CancelToken`] has an example.
    pub fn new() -> Self {
        CancelToken::default()
    }

    /// Sets the token permanently.
    ///
    /// [`CancelToken`] has an example.
    pub fn cancel(&self) {
        // Relaxed: no other data depends on the token.
        self.set.store(true, Ordering::Relaxed);
    }

    /// Returns true if the token is set.
    ///
    /// [`CancelToken`] has an example.
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: see `cancel`.
        self.set.load(Ordering::Relaxed)
    }
}

/// Returns true if there is a token and it is set.
pub(crate) fn is_cancelled(token: Option<&CancelToken>) -> bool {
    token.is_some_and(CancelToken::is_cancelled)
}
