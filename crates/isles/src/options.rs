//! How long a transaction is tried, how another thread stops it, and when its commit is
//! acknowledged.
// A token is shared with threads of the program that the engine does not know: its word does not
// belong to the engine.
#![allow(clippy::disallowed_types)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Attempts that a transaction makes unless told otherwise.
pub const ATTEMPTS_DEFAULT: u32 = 10_000;
/// Time that a transaction takes at most unless told otherwise.
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

/// When a commit is acknowledged, in a database that is in a directory: when the call that ran the
/// transaction returns.
///
/// Whatever is chosen, what is found after a crash is a state that was there: a commit is never
/// there without those that it has read from. So a commit that waits for the disk, or a transaction
/// that only reads and waits, waits for what it has read too. [`TransactionOptions`] has an
/// example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the commit is on disk. The caller asks the disk at once; callers that wait at the same
    /// time share one flush.
    #[default]
    Immediate,
    /// When the commit is on disk. The caller first waits this long for other commits, so that more
    /// of them share a flush: for devices whose flushes are dear, and programs with many sessions.
    Group(Duration),
    /// At once. A crash loses what was not on disk yet; nothing says when it is there, but
    /// [`crate::Ticket::wait`], [`crate::Database::flush`], any later transaction that waits, and
    /// [`crate::Database::close`]. Errors, and decisions to roll back, are told when what they
    /// follow from is on disk.
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
    /// [`ATTEMPTS_DEFAULT`] attempts within [`DEADLINE_DEFAULT`], no token,
    /// [`Durability::Immediate`].
    ///
    /// [`TransactionOptions`] has an example.
    pub fn new() -> Self {
        TransactionOptions::default()
    }

    /// Most attempts, at least 1: how often a transaction that collides with others is tried before
    /// [`crate::Error::Conflict`]. Pauses between attempts grow to some 60 microseconds.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Longest time from the call to the commit, all attempts together, before
    /// [`crate::Error::Deadline`]. The transaction checks the time between attempts, every 64 verbs
    /// or rows of a scan, and before the commit. A commit that is not on disk when the time is over
    /// is [`crate::Error::DurabilityUnknown`]. A session that is alone flushes its commit itself if
    /// a second or more is left: a disk that hangs holds it for longer.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// No deadline.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn without_deadline(mut self) -> Self {
        self.deadline = None;
        self
    }

    /// When the commit is acknowledged; without effect in memory.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// A token that stops the transaction.
    ///
    /// [`TransactionOptions`] has an example.
    #[must_use]
    pub fn cancel(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

/// Stops transactions from another thread: transactions that were given the token end with
/// [`crate::Error::Cancelled`] at their next verb, row of a scan, attempt or commit. Clones are the
/// same token. A token that is set stays set.
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
    /// A token that is not set.
    ///
    /// [`CancelToken`] has an example.
    pub fn new() -> Self {
        CancelToken::default()
    }

    /// Sets the token for good.
    ///
    /// [`CancelToken`] has an example.
    pub fn cancel(&self) {
        // Relaxed: no other data depends on the token.
        self.set.store(true, Ordering::Relaxed);
    }

    /// True if the token is set.
    ///
    /// [`CancelToken`] has an example.
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: see `cancel`.
        self.set.load(Ordering::Relaxed)
    }
}

/// True if a transaction with this token, if it has one, is to end.
pub(crate) fn is_cancelled(token: Option<&CancelToken>) -> bool {
    token.is_some_and(CancelToken::is_cancelled)
}
