//! Transaction objects: one call begins the transaction, another call ends it.
//!
//! An attempt of the engine borrows its session; `ActiveTransaction` holds both.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use boundary::{AnyAttempt, RoamingSession};
use platform::{Hardware, Nanos, Platform};
use schema::Row;
use terms::{Abort, Epoch};

use crate::attempt::{Failure, Transaction, TransactionState};
use crate::durable_wait::{self, WaitOptions};
use crate::ended::EndedVerbs;
use crate::error::{Error, Result};
use crate::ledger::{Counters, ObjectEntry, SessionEntry};
use crate::nesting::ThreadOpenCount;
use crate::options::{Durability, TransactionOptions, is_cancelled};
use crate::plans::Plans;
use crate::process_owned::ProcessOwned;
use crate::range::KeyRange;
use crate::savepoint::Savepoint;
use crate::scan::Scan;
use crate::select::{Assign, Select};
use crate::shared::DatabaseShared;
use crate::table::{Lookup, Table};
use crate::ticket::Ticket;

/// A thread with an open transaction object may wait for a lock of that very transaction. These
/// bounds apply to its other transactions: to one wait for a lock, to the retries of a closure, and
/// to the number of attempts under a scheme where a wait is an attempt.
const SELF_WAIT_NANOS: u64 = 1_000_000;
const SELF_RETRY_NANOS: u64 = 10_000_000;
const SELF_WAIT_ATTEMPTS: u32 = 10;

/// Bounds the waits of a thread that has a transaction object open. Returns the maximum number of
/// attempts if waits are counted as attempts.
pub(crate) fn bound_waits<'d>(
    session: &mut (dyn RoamingSession<'d> + 'd),
    state: &mut TransactionState,
    options: &TransactionOptions,
) -> Option<u32> {
    state.self_wait_expired = false;
    bound_lock_waits(session, state, options);
    // Otherwise the program has said how long, also for what its thread has itself.
    let may_wait_for_itself = options.lock_wait.is_none() && ThreadOpenCount::thread_has_open();
    if !may_wait_for_itself && state.self_wait_ends.is_none() {
        return None;
    }
    let ends = Hardware::now(Hardware::core()).plus(SELF_RETRY_NANOS);
    state.self_wait_ends = may_wait_for_itself.then_some(ends);
    let counts_waits = session.bound_waits(may_wait_for_itself.then_some(SELF_WAIT_NANOS));
    (may_wait_for_itself && counts_waits).then_some(SELF_WAIT_ATTEMPTS)
}

/// Has the session wait for locks as long as the options say.
#[inline]
pub(crate) fn bound_lock_waits<'d>(
    session: &mut (dyn RoamingSession<'d> + 'd),
    state: &mut TransactionState,
    options: &TransactionOptions,
) {
    if state.lock_wait != options.lock_wait {
        state.lock_wait = options.lock_wait;
        session.wait_for_locks(options.lock_wait.map(durable_wait::nanos));
    }
}

/// Marks a session as having an open transaction until this guard is dropped.
pub(crate) struct OpenTransactionGuard<'s> {
    begun: &'s mut bool,
    counters: &'s Counters,
    /// True once the program has committed or rolled back.
    decided: bool,
    _entry: ObjectEntry<'s>,
    _here: ThreadOpenCount,
}

impl<'s> OpenTransactionGuard<'s> {
    pub(crate) fn new(begun: &'s mut bool, entry: &'s SessionEntry) -> Self {
        *begun = true;
        OpenTransactionGuard {
            begun,
            counters: &entry.counters,
            decided: false,
            _entry: entry.register_object(),
            _here: ThreadOpenCount::new(),
        }
    }

    /// Counts how the transaction ended. Returns true if it committed.
    fn count(&mut self, decision: Decision, ended: &Result<Epoch>, verb: Option<&Abort>) -> bool {
        self.decided = true;
        match ended {
            Ok(_) if decision == Decision::RollBack => self.counters.roll_back(),
            Ok(_) | Err(Error::DurabilityUnknown) => {
                self.counters.commit();
                return true;
            }
            Err(error) => {
                if matches!(error, Error::Conflict { .. }) {
                    self.counters.conflict(verb);
                }
                self.counters.fail();
            }
        }
        false
    }
}

impl Drop for OpenTransactionGuard<'_> {
    fn drop(&mut self) {
        if !self.decided {
            self.counters.roll_back();
        }
        *self.begun = false;
    }
}

/// A running attempt, and the parts of its session that verbs use. The field order matters: the
/// attempt is dropped before the guard that releases the session.
pub(crate) struct ActiveTransaction<'s> {
    /// `None`: it was rolled back because the program had left it idle.
    pub(crate) attempt: Option<ProcessOwned<Box<dyn AnyAttempt + Send + 's>>>,
    pub(crate) ended: EndedVerbs,
    /// When its last call began, if the options bound how long it may be idle.
    pub(crate) used: Option<Nanos>,
    pub(crate) guard: OpenTransactionGuard<'s>,
    pub(crate) state: &'s mut TransactionState,
    pub(crate) shared: &'s Arc<DatabaseShared>,
    pub(crate) options: TransactionOptions,
    pub(crate) deadline: Option<Nanos>,
    /// Begin of the transaction, if its duration is measured.
    pub(crate) began: Option<Nanos>,
    pub(crate) plans: Option<&'s Plans>,
}

/// End of a transaction, chosen by the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Commit(Durability),
    RollBack,
}

impl ActiveTransaction<'_> {
    pub(crate) fn verbs(&mut self) -> Transaction<'_> {
        self.note_use();
        Transaction {
            verbs: match &mut self.attempt {
                Some(attempt) => attempt.verbs(),
                None => &mut self.ended,
            },
            state: &mut *self.state,
            shared: self.shared,
            cancel: self.options.cancel.as_ref(),
            plans: self.plans,
        }
    }

    /// Returns the time since its last call began, if its options bound that.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let used = self.used?;
        Some(Duration::from_nanos(Hardware::now(Hardware::core()).since(used)))
    }

    /// A call begins: rolls the transaction back if the program has left it idle for too long.
    fn note_use(&mut self) {
        let (Some(limit), Some(idle)) = (self.options.idle, self.idle_for()) else { return };
        if idle <= limit {
            self.used = Some(Hardware::now(Hardware::core()));
            return;
        }
        if self.shared.check_process().is_err() {
            return;
        }
        if let Some(attempt) = self.attempt.take() {
            drop(attempt);
            let error = Error::Idle { idle, limit };
            self.state.failed.get_or_insert(Failure { abort: Abort::Cancelled, error });
        }
    }

    pub(crate) fn commit_async(self) -> Result<Ticket> {
        let shared = Arc::clone(self.shared);
        self.end(Decision::Commit(Durability::Async)).map(|outcome| Ticket::new(shared, outcome))
    }

    /// Commits or gives up what the transaction has done to tables. An error is the failure of the
    /// attempt.
    #[cold]
    fn end_tables(&mut self, decision: Decision) {
        let commits = decision != Decision::RollBack && self.state.failed.is_none();
        let mut verbs = self.verbs();
        match commits && !is_cancelled(verbs.cancel) {
            true => {
                let committed = verbs.commit_tables();
                let _ = verbs.check(committed);
            }
            false => verbs.give_up_tables(),
        }
    }

    /// Ends the transaction. Returns the epoch with which the end is durable.
    pub(crate) fn end(mut self, decision: Decision) -> Result<Epoch> {
        self.shared.check_process()?;
        self.note_use();
        if decision != Decision::RollBack && !self.state.deferred.is_empty() {
            // An error is the failure of the attempt.
            let _ = self.verbs().check_deferred();
        }
        if self.state.altered.is_some() {
            self.end_tables(decision);
        }
        let failure = self.state.failed.take();
        let verb = failure.as_ref().map(|failure| failure.abort.clone());
        let ActiveTransaction { attempt, mut guard, shared, options, deadline, began, .. } = self;
        let ended = match (attempt, failure) {
            (Some(attempt), failure) => {
                end(attempt.into_inner(), shared, failure, decision, &options, deadline)
            }
            (None, failure) => Err(failure.map_or(Error::Cancelled, |failure| failure.error)),
        };
        let committed = guard.count(decision, &ended, verb.as_ref());
        let counters = guard.counters;
        drop(guard);
        if let Err(Error::NotDurable(why)) = &ended {
            shared.log_stopped(why);
        }
        shared.record_end(counters, began, 1, committed);
        ended
    }
}

/// Ends an attempt; `failure` is the error of its first failed verb.
fn end(
    attempt: Box<dyn AnyAttempt + Send + '_>,
    shared: &DatabaseShared,
    failure: Option<Failure>,
    decision: Decision,
    options: &TransactionOptions,
    deadline: Option<Nanos>,
) -> Result<Epoch> {
    let commits = failure.is_none() && decision != Decision::RollBack;
    if commits && is_cancelled(options.cancel.as_ref()) {
        return Err(Error::Cancelled);
    }
    let ended = match commits {
        true => attempt.commit().map(|commit| commit.durable_with),
        false => Err(attempt.roll_back()),
    };
    let error = |abort: &Abort| Error::from_abort(abort, shared.tables(), 1);
    let (outcome, failed) = match ended {
        Ok(outcome) => (outcome, None),
        // The error of the verb is reported if the rows that led to it were current.
        Err((abort, depends_on)) => match failure {
            Some(failure) if !abort.is_conflict() => (depends_on, Some(failure.error)),
            None if decision == Decision::RollBack && abort == Abort::RollBack => (depends_on, None),
            _ => (depends_on, Some(error(&abort))),
        },
    };
    let durability = match decision {
        Decision::Commit(durability) => durability,
        Decision::RollBack => Durability::Immediate,
    };
    let wait = WaitOptions { durability, deadline, cancel: options.cancel.as_ref() };
    durable_wait::wait(shared, outcome, commits && failed.is_none(), &wait).map_err(|abort| error(&abort))?;
    failed.map_or(Ok(outcome), Err)
}

/// A transaction object that borrows its session, returned by [`crate::Session::begin`]: for code
/// that cannot be a closure. Dropping it rolls back. An [`crate::OwnedTransaction`] owns its
/// session instead.
///
/// The object has the verbs of [`Transaction`]. It makes *one attempt*: after [`Error::Conflict`]
/// the program has to begin again. Closures ([`crate::Session::transaction`]) retry automatically,
/// and keep their age under schemes that prefer older transactions, so prefer closures where
/// possible. Values and errors returned by verbs are confirmed only when [`Self::commit`] returns:
/// until then another transaction may have changed the rows that led to them.
///
/// Keep transaction objects short: an open transaction keeps the memory of deleted rows from being
/// reused, and other transactions may conflict with its locks. Verbs and the commit check the
/// deadline of its options. Two open transactions of one thread conflict like those of two threads:
/// the later transaction gets [`Error::Conflict`], after a millisecond under schemes that wait for
/// locks and over pages. A closure of a thread that has a transaction open is retried for a few
/// milliseconds only and then returns [`Error::Conflict`], because the closure may be waiting for
/// that open transaction.
///
/// A forgotten transaction (`std::mem::forget`) does not end and keeps its locks: over pages until
/// its session is used again or dropped; in memory its session becomes unusable.
///
/// ```
/// use isles::{Database, Row};
///
/// #[derive(Row, Debug, PartialEq)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// let mut builder = Database::in_memory();
/// let accounts = builder.table::<Account>("accounts");
/// let database = builder.open()?;
/// let mut session = database.session()?;
///
/// let mut open = session.begin()?;
/// open.insert(accounts, &Account { id: 1, balance: 5 })?;
/// open.commit()?;
///
/// let mut open = session.begin()?;
/// open.delete(accounts, &1)?;
/// drop(open); // nothing happened
/// assert_eq!(session.transaction(|t| t.get(accounts, &1))?, Some(Account { id: 1, balance: 5 }));
/// # Ok::<(), isles::Error>(())
/// ```
#[must_use = "a transaction that is dropped is rolled back"]
pub struct OpenTransaction<'s> {
    active: ActiveTransaction<'s>,
}

impl<'s> OpenTransaction<'s> {
    pub(crate) fn new(active: ActiveTransaction<'s>) -> Self {
        OpenTransaction { active }
    }

    /// Returns the transaction in the form that closures of [`crate::Session::transaction`]
    /// receive, for functions that take a [`Transaction`].
    ///
    /// [`OpenTransaction`] has an example.
    pub fn verbs(&mut self) -> Transaction<'_> {
        self.active.verbs()
    }

    /// Commits: all changes happen at once, if all rows that were read are still current. Returns
    /// when the commit is as durable as the options require ([`Durability`]).
    ///
    /// Errors: [`Error::Conflict`] if the transaction conflicted with another one: begin again; the
    /// error of a verb that failed before; [`Error::Deadline`]; [`Error::Cancelled`];
    /// [`Error::DurabilityUnknown`] and [`Error::NotDurable`] after the commit. After any error but
    /// the last two, nothing of the transaction remains.
    ///
    /// [`OpenTransaction`] has an example.
    pub fn commit(self) -> Result<()> {
        let decision = Decision::Commit(self.active.options.durability);
        self.active.end(decision).map(drop)
    }

    /// As [`Self::commit`], but returns as soon as the transaction has committed, with a [`Ticket`]
    /// that waits for the disk.
    ///
    /// [`OpenTransaction`] has an example.
    pub fn commit_async(self) -> Result<Ticket> {
        self.active.commit_async()
    }

    /// Returns how long ago the last call of the transaction began, if
    /// [`TransactionOptions::idle`] bounds that; `None` otherwise.
    ///
    /// [`TransactionOptions::idle`] has an example.
    pub fn idle_for(&self) -> Option<Duration> {
        self.active.idle_for()
    }

    /// Rolls back, and confirms the decision: `Ok` means that all rows that were read were current
    /// at one moment and are on disk. Dropping the transaction rolls back too, without this
    /// confirmation.
    ///
    /// Errors: [`Error::Conflict`] if the rows that were read were never current at one moment; the
    /// error of a verb that failed before. The transaction is rolled back in any case.
    ///
    /// [`OpenTransaction`] has an example.
    pub fn roll_back(self) -> Result<()> {
        self.active.end(Decision::RollBack).map(drop)
    }
}

/// Implements the verbs of [`Transaction`] for a transaction object.
macro_rules! verbs {
    ($($transaction:ty),*) => { $(
        impl std::fmt::Debug for $transaction {
            fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str(concat!(stringify!($transaction), " { .. }"))
            }
        }

        /// Verbs, as those of [`Transaction`].
        impl $transaction {
            /// As [`Transaction::get`].
            pub fn get<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                self.verbs().get(index, key)
            }

            /// As [`Transaction::get_for_update`].
            pub fn get_for_update<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                self.verbs().get_for_update(index, key)
            }

            /// As [`Transaction::lock`].
            pub fn lock<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                self.verbs().lock(index, key)
            }

            /// As [`Transaction::get_field`].
            pub fn get_field<L: Lookup, F: Select<L::Row>>(
                &mut self,
                index: L,
                key: &L::Key,
                field: F,
            ) -> Result<Option<F::Value>> {
                self.verbs().get_field(index, key, field)
            }

            /// As [`Transaction::get_many`].
            pub fn get_many<L: Lookup>(
                &mut self,
                index: L,
                keys: impl IntoIterator<Item: Borrow<L::Key>>,
            ) -> Result<Vec<Option<L::Row>>> {
                self.verbs().get_many(index, keys)
            }

            /// As [`Transaction::exists`].
            pub fn exists<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<bool> {
                self.verbs().exists(index, key)
            }

            /// As [`Transaction::scan`].
            pub fn scan<L: Lookup>(
                &mut self,
                index: L,
                range: impl KeyRange<L::Key>,
            ) -> Scan<'_, L::Row, L::Key> {
                self.verbs().into_scan(index, range)
            }

            /// As [`Transaction::insert`].
            pub fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<()> {
                self.verbs().insert(table, row)
            }

            /// As [`Transaction::insert_returning`].
            pub fn insert_returning<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<R> {
                self.verbs().insert_returning(table, row)
            }

            /// As [`Transaction::insert_all`].
            pub fn insert_all<R: Row>(
                &mut self,
                table: Table<R>,
                rows: impl IntoIterator<Item: Borrow<R>>,
            ) -> Result<()> {
                self.verbs().insert_all(table, rows)
            }

            /// As [`Transaction::insert_or_ignore`].
            pub fn insert_or_ignore<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<bool> {
                self.verbs().insert_or_ignore(table, row)
            }

            /// As [`Transaction::upsert`].
            pub fn upsert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<Option<R>> {
                self.verbs().upsert(table, row)
            }

            /// As [`Transaction::upsert_with`].
            pub fn upsert_with<R: Row>(
                &mut self,
                table: Table<R>,
                row: &R,
                merge: impl FnOnce(&mut R),
            ) -> Result<bool> {
                self.verbs().upsert_with(table, row, merge)
            }

            /// As [`Transaction::update_if`].
            pub fn update_if<L: Lookup>(
                &mut self,
                index: L,
                key: &L::Key,
                condition: impl FnOnce(&L::Row) -> bool,
                change: impl FnOnce(&mut L::Row),
            ) -> Result<Option<bool>> {
                self.verbs().update_if(index, key, condition, change)
            }

            /// As [`Transaction::update`].
            pub fn update<L: Lookup, T>(
                &mut self,
                index: L,
                key: &L::Key,
                change: impl FnOnce(&mut L::Row) -> T,
            ) -> Result<Option<T>> {
                self.verbs().update(index, key, change)
            }

            /// As [`Transaction::set_field`].
            pub fn set_field<L: Lookup, F: Assign<L::Row>>(
                &mut self,
                index: L,
                key: &L::Key,
                field: F,
                value: &F::Value,
            ) -> Result<bool> {
                self.verbs().set_field(index, key, field, value)
            }

            /// As [`Transaction::update_field`].
            pub fn update_field<L: Lookup, F: Assign<L::Row>, T>(
                &mut self,
                index: L,
                key: &L::Key,
                field: F,
                change: impl FnOnce(&mut F::Value) -> T,
            ) -> Result<Option<T>> {
                self.verbs().update_field(index, key, field, change)
            }

            /// As [`Transaction::delete`].
            pub fn delete<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                self.verbs().delete(index, key)
            }

            /// As [`Transaction::savepoint`].
            pub fn savepoint(&mut self) -> Result<Savepoint> {
                self.verbs().savepoint()
            }

            /// As [`Transaction::roll_back_to`].
            pub fn roll_back_to(&mut self, savepoint: Savepoint) -> Result<()> {
                self.verbs().roll_back_to(savepoint)
            }

            /// As [`Transaction::release`].
            pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
                self.verbs().release(savepoint)
            }

            /// As [`Transaction::nested`].
            pub fn nested<T>(
                &mut self,
                body: impl FnOnce(&mut Transaction<'_>) -> Result<T>,
            ) -> Result<T> {
                self.verbs().nested(body)
            }

            /// As [`Transaction::try_nested`].
            pub fn try_nested<T, E: From<Error>>(
                &mut self,
                body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
            ) -> Result<T, E> {
                self.verbs().try_nested(body)
            }
        }
    )* };
}
pub(crate) use verbs;

verbs!(OpenTransaction<'_>);
