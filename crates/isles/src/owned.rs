//! Transaction objects that own their session. A self-referential cell (`Cell`) holds the session
//! and the attempt that borrows it, so that the object can be kept anywhere (decision 0034).

use std::borrow::Borrow;
use std::time::Duration;

use schema::Row;
use self_cell::{MutBorrow, self_cell};

use crate::attempt::Transaction;
use crate::error::{Error, Result};
#[cfg(doc)]
use crate::open::OpenTransaction;
use crate::open::{ActiveTransaction, Decision, verbs};
use crate::range::KeyRange;
use crate::savepoint::Savepoint;
use crate::scan::Scan;
use crate::select::{Assign, Select};
use crate::session::Session;
use crate::table::{Lookup, Table};
use crate::ticket::Ticket;

/// A transaction object that owns its session, returned by [`crate::Database::begin`] and
/// [`Session::into_transaction`]: otherwise as [`OpenTransaction`]. It can be kept in a struct, and
/// sent to another thread.
///
/// ```
/// use isles::{Database, OwnedTransaction, Row, Table};
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// /// A conversation with a client, over several calls.
/// struct Conversation { accounts: Table<Account>, open: OwnedTransaction }
///
/// impl Conversation {
///     fn add(&mut self, id: u64, amount: i64) -> isles::Result<Option<i64>> {
///         self.open.update(self.accounts, &id, |account| {
///             account.balance += amount;
///             account.balance
///         })
///     }
/// }
///
/// let mut builder = Database::in_memory();
/// let accounts = builder.table::<Account>("accounts");
/// let database = builder.open()?;
/// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
///
/// let mut conversation = Conversation { accounts, open: database.begin()? };
/// assert_eq!(conversation.add(1, 7)?, Some(12));
/// conversation.open.commit()?;
/// assert_eq!(database.transaction(|t| t.get_field(accounts, &1, Account::BALANCE))?, Some(12));
/// # Ok::<(), isles::Error>(())
/// ```
#[must_use = "a transaction that is dropped is rolled back"]
pub struct OwnedTransaction {
    cell: Cell,
}

/// `None` when the transaction has ended.
type RunningProcedure<'s> = Option<ActiveTransaction<'s>>;

self_cell! {
    struct Cell {
        owner: MutBorrow<Session>,
        #[not_covariant]
        dependent: RunningProcedure,
    }
}

/// Reason why a cell has a running attempt.
const PRESENT_UNTIL_END: &str = "whoever ends the transaction consumes it";

verbs!(OwnedTransaction);

impl Session {
    /// As [`Self::begin`], but the transaction owns the session: it can be kept in a struct, and
    /// sent to another thread. [`OwnedTransaction::commit_into_session`] returns the session.
    ///
    /// Errors: as [`Self::begin`]. An error drops the session.
    ///
    /// [`OwnedTransaction`] has an example.
    pub fn into_transaction(self) -> Result<OwnedTransaction> {
        OwnedTransaction::new(self)
    }
}

impl OwnedTransaction {
    pub(crate) fn new(session: Session) -> Result<Self> {
        let options = session.options().clone();
        let cell = Cell::try_new(MutBorrow::new(session), |session| {
            session.borrow_mut().activate(options).map(Some)
        })?;
        Ok(OwnedTransaction { cell })
    }

    /// As [`OpenTransaction::verbs`].
    ///
    /// [`OwnedTransaction`] has an example.
    pub fn verbs(&mut self) -> Transaction<'_> {
        self.cell.with_dependent_mut(|_, running| running.as_mut().expect(PRESENT_UNTIL_END).verbs())
    }

    /// As [`OpenTransaction::idle_for`].
    ///
    /// [`TransactionOptions::idle`](crate::TransactionOptions::idle) has an example.
    pub fn idle_for(&self) -> Option<Duration> {
        self.cell.with_dependent(|_, running| running.as_ref().and_then(ActiveTransaction::idle_for))
    }

    /// As [`OpenTransaction::commit`].
    ///
    /// [`OwnedTransaction`] has an example.
    pub fn commit(self) -> Result<()> {
        self.commit_into_session().1
    }

    /// As [`OpenTransaction::commit_async`].
    ///
    /// [`OwnedTransaction`] has an example.
    pub fn commit_async(mut self) -> Result<Ticket> {
        self.end(|active| active.commit_async())
    }

    /// As [`OpenTransaction::roll_back`].
    ///
    /// [`OwnedTransaction`] has an example.
    pub fn roll_back(self) -> Result<()> {
        self.roll_back_into_session().1
    }

    /// As [`Self::commit`], and returns the session.
    ///
    /// [`OwnedTransaction`] has an example.
    pub fn commit_into_session(mut self) -> (Session, Result<()>) {
        let ended = self.end(|active| {
            let decision = Decision::Commit(active.options.durability);
            active.end(decision).map(drop)
        });
        (self.cell.into_owner().into_inner(), ended)
    }

    /// As [`Self::roll_back`], and returns the session.
    ///
    /// [`OwnedTransaction`] has an example.
    pub fn roll_back_into_session(mut self) -> (Session, Result<()>) {
        let ended = self.end(|active| active.end(Decision::RollBack).map(drop));
        (self.cell.into_owner().into_inner(), ended)
    }

    /// Ends the attempt with `end`.
    fn end<T>(&mut self, end: impl FnOnce(ActiveTransaction<'_>) -> T) -> T {
        self.cell.with_dependent_mut(|_, running| end(running.take().expect(PRESENT_UNTIL_END)))
    }
}
