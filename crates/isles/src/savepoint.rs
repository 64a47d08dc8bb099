//! Savepoints and nested transactions: a transaction takes a part of its changes back, and goes on.

use terms::Abort;

use crate::attempt::{Failure, Transaction};
use crate::error::{Error, Result};

/// A moment within a transaction, returned by [`Transaction::savepoint`]. The transaction can roll
/// back to it with [`Transaction::roll_back_to`], also after a verb has failed.
///
/// Savepoints nest: after a roll-back to a savepoint, those that were set later are gone, and so
/// are they after its [`Transaction::release`]. A savepoint that is gone, or of another transaction
/// or attempt, is an [`Error::StaleSavepoint`].
///
/// A roll-back takes back what verbs have changed since the savepoint: rows that were inserted,
/// changed and deleted. It keeps what verbs have read since, because that may have decided what the
/// transaction does next: the transaction commits only if those rows are still current. Rows stay
/// locked that a verb has locked, and keys stay taken that were inserted and rolled back, until the
/// transaction ends: other transactions that need them wait or conflict as before.
///
/// *After an error.* A verb that fails ends the transaction as long as there is no savepoint. With
/// a savepoint, errors of the program leave the transaction usable after a roll-back:
/// [`Error::Duplicate`], [`Error::Constraint`], [`Error::Misuse`] and [`Error::StaleSavepoint`].
/// All others end the attempt, whatever the program does: an [`Error::Conflict`] is tried again as
/// a whole.
///
/// In a [`crate::Deployment`] a step of a procedure can set savepoints, and roll back to them,
/// while it runs. There is no savepoint of a whole procedure.
///
/// ```
/// use isles::{Database, Error, Row};
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(key(id), unique_index(by_email(email)))]
/// struct User { id: u64, email: u64 }
///
/// let mut builder = Database::in_memory();
/// let users = builder.table::<User>("users");
/// let database = builder.open()?;
/// let stale = database.transaction(|t| {
///     t.insert(users, &User { id: 1, email: 7 })?;
///     let before = t.savepoint()?;
///     t.insert(users, &User { id: 2, email: 8 })?;
///     let failed = t.insert(users, &User { id: 3, email: 7 });
///     assert!(matches!(failed, Err(Error::Duplicate { .. })));
///     t.roll_back_to(before)?;
///     assert!(t.exists(users, &1)? && !t.exists(users, &2)?);
///     t.release(before)?;
///     Ok(before)
/// })?;
/// let refused = database.transaction(|t| t.roll_back_to(stale));
/// assert_eq!(refused, Err(Error::StaleSavepoint), "it was of another transaction, and released");
///
/// // The same as closures.
/// let added = database.transaction(|t| {
///     let mut added = 0;
///     for (id, email) in [(2, 7), (3, 8), (4, 9)] {
///         match t.nested(|t| t.insert(users, &User { id, email })) {
///             Ok(()) => added += 1,
///             Err(Error::Duplicate { .. }) => {}
///             Err(error) => return Err(error),
///         }
///     }
///     Ok(added)
/// })?;
/// assert_eq!(added, 2);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(boundary::Savepoint);

/// The error of a transaction after a panic within [`Transaction::nested`].
const PANICKED: &str = "the closure of a nested transaction panicked: roll back";

/// A nested transaction that runs. If its closure panics, the transaction around it has failed.
struct RunningNested<'t> {
    transaction: Transaction<'t>,
    has_ended: bool,
}

impl Drop for RunningNested<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let failure = || Failure { abort: Abort::Misuse(PANICKED), error: Error::Misuse(PANICKED) };
            self.transaction.state.failed.get_or_insert_with(failure);
        }
    }
}

impl Transaction<'_> {
    /// Sets a savepoint, to which [`Self::roll_back_to`] returns. Savepoints nest.
    ///
    /// Errors: [`Error::Misuse`] with more than 1,048,576 savepoints at a time.
    ///
    /// [`Savepoint`] has an example.
    pub fn savepoint(&mut self) -> Result<Savepoint> {
        self.check_running()?;
        let set = self.verbs.savepoint();
        let set = self.check(set)?;
        self.note_savepoint(set);
        Ok(Savepoint(set))
    }

    /// Takes back what the transaction has changed since the savepoint. The savepoint stays; later
    /// ones are gone. If a verb has failed since by an error of the program ([`Savepoint`] lists
    /// them), the transaction is usable again.
    ///
    /// Errors: [`Error::StaleSavepoint`]; the error of a verb that has ended the attempt.
    ///
    /// [`Savepoint`] has an example.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.shared.check_process()?;
        if let Some(failure) = self.state.failed.as_ref().filter(|failure| !failure.abort.ends_at_savepoint())
        {
            return Err(failure.error.clone());
        }
        match self.verbs.roll_back_to(savepoint.0) {
            Ok(()) => {
                self.state.failed = None;
                self.return_to_tables(savepoint.0);
                self.check_cancelled()
            }
            Err(abort @ Abort::StaleSavepoint) => {
                self.state.failed.get_or_insert(Failure { abort, error: Error::StaleSavepoint });
                Err(Error::StaleSavepoint)
            }
            Err(abort) => {
                // The attempt has ended, whatever had failed before.
                self.state.failed = None;
                self.check(Err(abort))
            }
        }
    }

    /// Forgets a savepoint and all later ones. What was changed since stays, unless the transaction
    /// rolls back, or back to an earlier savepoint.
    ///
    /// Errors: [`Error::StaleSavepoint`].
    ///
    /// [`Savepoint`] has an example.
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        self.check_running()?;
        let released = self.verbs.release(savepoint.0);
        self.check(released)
    }

    /// Runs `body` as a transaction within this one: if it returns an error, or a verb in it fails,
    /// what it has changed is rolled back, and this transaction goes on. It is a savepoint that is
    /// released or rolled back to when `body` returns; [`Savepoint`] says what a roll-back keeps,
    /// and which errors end the whole attempt instead. Nested transactions nest. The body does not
    /// roll back to a savepoint that was set before it.
    ///
    /// Errors: the error of the body; the error of a verb that failed in it, if the body returned
    /// `Ok` nevertheless. After an error that ends the attempt, all further verbs return it.
    ///
    /// [`Savepoint`] has an example.
    pub fn nested<T>(&mut self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.try_nested(body)
    }

    /// As [`Self::nested`], for bodies with an error type of their own.
    ///
    /// [`Savepoint`] has an example.
    pub fn try_nested<T, E: From<Error>>(
        &mut self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.savepoint()?;
        let mut nested = RunningNested { transaction: self.again(), has_ended: false };
        let result = body(&mut nested.transaction);
        nested.has_ended = true;
        drop(nested);
        let failed = self.state.failed.as_ref().map(|failure| failure.error.clone());
        let result = match failed {
            Some(error) => result.and(Err(error.into())),
            None => result,
        };
        if result.is_ok() {
            self.release(before)?;
        } else if self.roll_back_to(before).is_ok() {
            // An attempt that has ended says so at the next verb.
            self.release(before)?;
        }
        result
    }
}
