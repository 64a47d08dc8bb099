//! Attempts of transactions as objects.

use terms::{Abort, Epoch};

use crate::any_verbs::AnyVerbs;
use crate::ending::Commit;

/// One attempt of a transaction, as an object that may outlive the call that began it. Dropping it
/// rolls back. Its session holds the memory of rows that are deleted meanwhile until it ends.
pub trait AnyAttempt {
    /// The operations of the transaction.
    fn verbs(&mut self) -> &mut dyn AnyVerbs;

    /// Commits. An error comes with the epoch that has to be durable before it may be reported; it
    /// is a conflict if it follows from rows that were never there at one moment.
    ///
    /// # Errors
    /// Another transaction was in the way, the deadline has passed, or a verb had failed before.
    fn commit(self: Box<Self>) -> Result<Commit, (Abort, Epoch)>;

    /// Rolls back by the caller's decision: [`Abort::RollBack`] if what the attempt has read was
    /// there at one moment, and a conflict if not. The decision may be sent when the epoch is
    /// durable.
    fn roll_back(self: Box<Self>) -> (Abort, Epoch);
}
