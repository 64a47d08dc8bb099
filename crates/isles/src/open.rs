//! Transactions as objects: begun by one call, ended by another, with anything in between.
//!
//! An attempt of the engine borrows its session, and stands beside the borrow (`Active`).

use std::borrow::Borrow;
use std::sync::Arc;

use boundary::{AnyAttempt, RoamingSession};
use platform::{Hardware, Nanos, Platform};
use schema::Row;
use terms::Abort;
use terms::Epoch;

use crate::attempt::{Failure, State, Transaction};
use crate::durably::{self, Patience};
use crate::error::{Error, Result};
use crate::ledger::{Counters, ObjectEntry, SessionEntry};
use crate::nesting::OpenHere;
use crate::options::{Durability, TransactionOptions, is_cancelled};
use crate::own::Own;
use crate::range::KeyRange;
use crate::scan::Scan;
use crate::select::{Assign, Select};
use crate::shared::Shared;
use crate::table::{Lookup, Table};
use crate::ticket::Ticket;

/// A thread that has a transaction open may wait for itself: so long it waits for a lock, so long
/// it tries a closure again, and so often where a wait is an attempt.
const OWN_WAIT_NANOS: u64 = 1_000_000;
const OWN_PATIENCE_NANOS: u64 = 10_000_000;
const OWN_ATTEMPTS: u32 = 10;

/// Bounds what a thread waits that has a transaction open; the most attempts, if there is such a
/// bound.
pub(crate) fn bound_waits<'d>(session: &mut (dyn RoamingSession<'d> + 'd), state: &mut State) -> Option<u32> {
    state.lost_patience = false;
    let may_meet_itself = OpenHere::are_some();
    if !may_meet_itself && state.patience_ends.is_none() {
        return None;
    }
    let ends = Hardware::now(Hardware::core()).plus(OWN_PATIENCE_NANOS);
    state.patience_ends = may_meet_itself.then_some(ends);
    let counts_waits = session.bound_waits(may_meet_itself.then_some(OWN_WAIT_NANOS));
    (may_meet_itself && counts_waits).then_some(OWN_ATTEMPTS)
}

/// Says of a session that its transaction has not ended.
pub(crate) struct Begun<'s> {
    begun: &'s mut bool,
    counters: &'s Counters,
    /// True if the program has said how it ends.
    decided: bool,
    _entry: ObjectEntry<'s>,
    _here: OpenHere,
}

impl<'s> Begun<'s> {
    pub(crate) fn new(begun: &'s mut bool, entry: &'s SessionEntry) -> Self {
        *begun = true;
        Begun {
            begun,
            counters: &entry.counters,
            decided: false,
            _entry: entry.begin_object(),
            _here: OpenHere::new(),
        }
    }

    /// Counts how the transaction ended, which the program has said; whether it has committed.
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

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.decided {
            self.counters.roll_back();
        }
        *self.begun = false;
    }
}

/// A running attempt, and what its verbs need of the session. The attempt comes first: it ends
/// before the session is told.
pub(crate) struct Active<'s> {
    pub(crate) attempt: Own<Box<dyn AnyAttempt + Send + 's>>,
    pub(crate) begun: Begun<'s>,
    pub(crate) state: &'s mut State,
    pub(crate) shared: &'s Arc<Shared>,
    pub(crate) options: TransactionOptions,
    pub(crate) deadline: Option<Nanos>,
    /// When it began, if somebody wants to know how long it takes.
    pub(crate) began: Option<Nanos>,
}

/// How the program ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Commit(Durability),
    RollBack,
}

impl Active<'_> {
    pub(crate) fn verbs(&mut self) -> Transaction<'_> {
        Transaction {
            verbs: self.attempt.verbs(),
            state: &mut *self.state,
            shared: self.shared,
            cancel: self.options.cancel.as_ref(),
        }
    }

    pub(crate) fn commit_async(self) -> Result<Ticket> {
        let shared = Arc::clone(self.shared);
        self.end(Decision::Commit(Durability::Async)).map(|outcome| Ticket::new(shared, outcome))
    }

    /// Ends the transaction; the epoch with which the end is durable.
    pub(crate) fn end(self, decision: Decision) -> Result<Epoch> {
        self.shared.check_process()?;
        let failure = self.state.failed.take();
        let verb = failure.as_ref().map(|failure| failure.abort.clone());
        let Active { attempt, mut begun, shared, options, deadline, began, .. } = self;
        let ended = end(attempt.into_inner(), shared, (failure, decision), (options, deadline));
        let committed = begun.count(decision, &ended, verb.as_ref());
        let counters = begun.counters;
        drop(begun);
        if let Err(Error::NotDurable(why)) = &ended {
            shared.log_stopped(why);
        }
        shared.end_watch(counters, began, (1, committed));
        ended
    }
}

/// Ends an attempt, a verb of which may have failed.
fn end(
    attempt: Box<dyn AnyAttempt + Send + '_>,
    shared: &Shared,
    (failure, decision): (Option<Failure>, Decision),
    (options, deadline): (TransactionOptions, Option<Nanos>),
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
        // The error that the verb gave counts, if what it follows from was true.
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
    let patience = Patience { durability, deadline, cancel: options.cancel.as_ref() };
    durably::wait(shared, outcome, commits && failed.is_none(), &patience).map_err(|abort| error(&abort))?;
    failed.map_or(Ok(outcome), Err)
}

/// A transaction that lives as long as the program likes, for code that cannot be a closure: what
/// [`crate::Session::begin`] gives. Dropping it rolls back. An [`crate::OwnedTransaction`] has its
/// session with it.
///
/// It has the verbs of [`Transaction`]. It is *one attempt*: after [`Error::Conflict`] the program
/// begins again. Closures ([`crate::Session::transaction`]) do that by themselves, and age under
/// schemes that let the older go first: prefer closures where they will do. The error of a verb may
/// follow from rows that another transaction has changed meanwhile; that of [`Self::commit`] is the
/// one to rely on. The same holds for all that was read: it counts when `commit` has returned.
///
/// While it is open, it keeps the memory of rows that are deleted meanwhile from being used again,
/// and other transactions may fail on what it has locked: end it soon. The deadline of its options
/// is looked at by verbs and by the commit. Two transactions that one thread has open may meet like
/// those of two threads: the later one gets [`Error::Conflict`] then, after a millisecond under
/// schemes that wait for locks, and over pages. A closure of a thread that has a transaction open
/// is tried again for a few milliseconds only, and ends with [`Error::Conflict`], too, as what it
/// waits for may be that one.
///
/// A transaction that is forgotten (`std::mem::forget`) has not ended, and keeps what it has
/// locked: over pages until its session is used again or dropped; in memory the session is of no
/// use any more.
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
    active: Active<'s>,
}

impl<'s> OpenTransaction<'s> {
    pub(crate) fn new(active: Active<'s>) -> Self {
        OpenTransaction { active }
    }

    /// The transaction as bodies of [`crate::Session::transaction`] get it, for functions that are
    /// written for them.
    ///
    /// [`OpenTransaction`] has an example.
    pub fn verbs(&mut self) -> Transaction<'_> {
        self.active.verbs()
    }

    /// Commits: all changes happen at once, if all that was read is still current. Returns when
    /// that is on disk, as far as the options ask for it ([`Durability`]).
    ///
    /// Errors: [`Error::Conflict`] if another transaction was in the way: begin again; the error of
    /// a verb that failed before; [`Error::Deadline`], [`Error::Cancelled`];
    /// [`Error::DurabilityUnknown`] and [`Error::NotDurable`] after the commit. Unless it is one of
    /// the last two, nothing of the transaction remains.
    ///
    /// [`OpenTransaction`] has an example.
    pub fn commit(self) -> Result<()> {
        let decision = Decision::Commit(self.active.options.durability);
        self.active.end(decision).map(drop)
    }

    /// As [`Self::commit`], but returns when the transaction has committed, with a ticket to wait
    /// for.
    ///
    /// [`OpenTransaction`] has an example.
    pub fn commit_async(self) -> Result<Ticket> {
        self.active.commit_async()
    }

    /// Rolls back, and tells whether the decision can be relied on: all that was read was there at
    /// one moment, and is on disk. Dropping the transaction rolls back too, and tells nothing.
    ///
    /// Errors: [`Error::Conflict`] if what was read was never there at one moment; the error of a
    /// verb that failed before. The transaction is rolled back then too.
    ///
    /// [`OpenTransaction`] has an example.
    pub fn roll_back(self) -> Result<()> {
        self.active.end(Decision::RollBack).map(drop)
    }
}

/// Gives a type the verbs of [`Transaction`].
macro_rules! verbs {
    ($($transaction:ty),*) => { $(
        impl std::fmt::Debug for $transaction {
            fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str(concat!(stringify!($transaction), " { .. }"))
            }
        }

        /// The verbs: as those of [`Transaction`].
        impl $transaction {
            /// As [`Transaction::get`].
            pub fn get<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                self.verbs().get(index, key)
            }

            /// As [`Transaction::get_for_update`].
            pub fn get_for_update<L: Lookup>(&mut self, index: L, key: &L::Key) -> Result<Option<L::Row>> {
                self.verbs().get_for_update(index, key)
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
        }
    )* };
}
pub(crate) use verbs;

verbs!(OpenTransaction<'_>);
