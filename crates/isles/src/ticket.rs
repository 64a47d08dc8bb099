//! Tickets: commits that are acknowledged later.

use std::sync::Arc;
use std::time::Duration;

use platform::{Hardware, Platform};
use terms::Abort;
use terms::Epoch;

use crate::durably::{self, Patience, nanos};
use crate::error::{Error, Result};
use crate::ledger::TicketEntry;
use crate::options::Durability;
use crate::shared::Shared;

/// A commit that need not be on disk yet: what [`crate::Session::transaction_async`] gives. Any
/// thread may wait for it. A ticket keeps its database open.
///
/// The commit is there for all other transactions already. What a program tells the outside world
/// of it before [`Self::wait`] has returned may not be true after a crash. A ticket that is dropped
/// changes nothing.
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
    shared: Arc<Shared>,
    outcome: Epoch,
    /// The log's last whole group when the commit was there.
    begun: u64,
    /// Counted.
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
    pub(crate) fn new(shared: Arc<Shared>, outcome: Epoch) -> Self {
        let entry = shared.ledger.enter_ticket();
        let begun = shared.inner.whole_groups(Hardware::core());
        Ticket { shared, outcome, begun, _entry: entry }
    }

    /// True if the commit is on disk; always true in memory. Asking moves nothing on:
    /// [`Self::wait`] does, and so do transactions.
    ///
    /// [`Ticket`] has an example.
    pub fn is_on_disk(&self) -> bool {
        self.shared.inner.is_written(Hardware::core(), self.outcome, self.begun)
    }

    /// Returns when the commit is on disk.
    ///
    /// Errors: [`Error::NotDurable`] if the log has stopped: the commit is not to be acknowledged;
    /// [`Error::Nested`] within a transaction's closure.
    ///
    /// [`Ticket`] has an example.
    pub fn wait(&self) -> Result<()> {
        self.wait_until(None).map(drop)
    }

    /// Returns when the commit is on disk, or when this time is over; tells whether it is on disk.
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

    /// The database, and the epoch with which the commit is on disk.
    pub(crate) fn place(&self) -> (&Arc<Shared>, Epoch) {
        (&self.shared, self.outcome)
    }
}

/// Waits until an epoch is on disk, or until this time is over; tells whether it is on disk.
pub(crate) fn wait_for_epoch(shared: &Shared, outcome: Epoch, time: Option<Duration>) -> Result<bool> {
    let deadline = time.map(|time| Hardware::now(Hardware::core()).plus(nanos(time)));
    let patience = Patience { durability: Durability::Immediate, deadline, cancel: None };
    match durably::wait(shared, outcome, true, &patience) {
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
