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
