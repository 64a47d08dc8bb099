//! Tickets: commits that are acknowledged later.

use std::sync::Arc;
use std::time::Duration;

use platform::{Hardware, Platform};
use terms::{Abort, Epoch};

use crate::durable_wait::{self, WaitOptions, nanos};
use crate::error::{Error, Result};
use crate::ledger::TicketEntry;
use crate::options::Durability;
use crate::shared::DatabaseShared;

/// A commit that need not be on disk yet, returned by [`crate::Session::transaction_async`]. Any
/// thread may wait for it. A ticket keeps its database open.
///
/// Other transactions already see the commit. Until [`Self::wait`] has returned, a crash may undo
/// it, so a program should not acknowledge it before. Dropping a ticket has no effect on the
/// commit.
///
/// ```
/// use isles::{Database, Row};
/// use std::time::Duration;
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// # let path = std::env::temp_dir().join(format!("isles-doc-ticket-{}", std::process::id()));
/// let mut builder = Database::at(&path);
/// let accounts = builder.table::<Account>("accounts");
/// let database = builder.open()?;
/// let mut session = database.session()?;
/// let ((), ticket) = session.transaction_async(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
/// // Something else meanwhile; then:
/// while !ticket.wait_for(Duration::from_millis(10))? {}
/// ticket.wait()?;
/// assert!(ticket.is_on_disk());
/// # drop((session, database, ticket));
/// # let _ = std::fs::remove_dir_all(&path);
/// # Ok::<(), isles::Error>(())
/// ```
#[must_use = "the commit is acknowledged when `wait` has returned"]
#[derive(Clone)]
pub struct Ticket {
    shared: Arc<DatabaseShared>,
    outcome: Epoch,
    /// Last complete group of the log at the time of the commit.
    begun: u64,
    /// Counts the ticket as a user of the database.
    _entry: TicketEntry,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Ticket")
            .field("epoch", &self.outcome.0)
            .field("on_disk", &self.is_on_disk())
            .finish()
    }
}

impl Ticket {
    pub(crate) fn new(shared: Arc<DatabaseShared>, outcome: Epoch) -> Self {
        let entry = shared.ledger.register_ticket();
        let begun = shared.inner.whole_groups(Hardware::core());
        Ticket { shared, outcome, begun, _entry: entry }
    }

    /// Returns true if the commit is on disk; always true in memory. This call requests no flush;
    /// [`Self::wait`] and transactions that wait do.
    ///
    /// [`Ticket`] has an example.
    pub fn is_on_disk(&self) -> bool {
        self.shared.inner.is_written(Hardware::core(), self.outcome, self.begun)
    }

    /// Waits until the commit is on disk.
    ///
    /// Errors: [`Error::NotDurable`] if the log has stopped: the commit must not be acknowledged;
    /// [`Error::Nested`] within a transaction's closure.
    ///
    /// [`Ticket`] has an example.
    pub fn wait(&self) -> Result<()> {
        self.wait_until(None).map(drop)
    }

    /// Waits until the commit is on disk, but no longer than `time`. Returns true if the commit is
    /// on disk.
    ///
    /// Errors: as [`Self::wait`].
    ///
    /// [`Ticket`] has an example.
    pub fn wait_for(&self, time: Duration) -> Result<bool> {
        self.wait_until(Some(time))
    }

    fn wait_until(&self, time: Option<Duration>) -> Result<bool> {
        self.shared.check_outside()?;
        wait_for_epoch(&self.shared, self.outcome, time)
    }

    /// Returns the database, and the epoch with which the commit is durable.
    pub(crate) fn place(&self) -> (&Arc<DatabaseShared>, Epoch) {
        (&self.shared, self.outcome)
    }
}

/// Waits until an epoch is on disk, but no longer than `time`. Returns true if the epoch is on
/// disk.
pub(crate) fn wait_for_epoch(
    shared: &DatabaseShared,
    outcome: Epoch,
    time: Option<Duration>,
) -> Result<bool> {
    let deadline = time.map(|time| Hardware::now(Hardware::core()).plus(nanos(time)));
    let options = WaitOptions { durability: Durability::Immediate, deadline, cancel: None };
    match durable_wait::wait(shared, outcome, true, &options) {
        Ok(()) => Ok(true),
        Err(Abort::DurabilityUnknown { .. }) => Ok(false),
        Err(abort) => {
            let error = Error::from_abort(&abort, shared.tables(), 1);
            if let Error::NotDurable(why) = &error {
                shared.log_stopped(why);
            }
            Err(error)
        }
    }
}
