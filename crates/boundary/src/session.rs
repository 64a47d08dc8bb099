//! Sessions as objects.

use std::any::Any;
use std::marker::PhantomData;

use concurrency::Use;
use platform::Nanos;
use redo_log::LogError;
use terms::{Abort, Category, Epoch, Mode};

use crate::any_verbs::Body;
use crate::attempt::AnyAttempt;
use crate::branches::Branches;
use crate::changes::{ChangeError, Swept, TableChange};
use crate::contention::Pauses;
use crate::declaration::SchemaBuilder;
use crate::ending::{Bounds, Commit, Ending, Stats};
use crate::participants::{GlobalId, Outcome, PartOf, Vote};

/// A prepared part of a transaction over several databases, whatever its scheme.
#[must_use = "a prepared part keeps its rows locked until it is finished"]
pub struct AnyPrepared<'d> {
    /// Where the part is kept, with the address of the instance, which no other has as long as `'d`
    /// lasts.
    inner: Box<dyn Any + Send>,
    instance: usize,
    database: PhantomData<&'d ()>,
}

impl AnyPrepared<'_> {
    /// A part that another storage manager keeps; `instance` distinguishes its databases as long as
    /// they live.
    pub fn new(inner: Box<dyn Any + Send>, instance: usize) -> Self {
        AnyPrepared { inner, instance, database: PhantomData }
    }

    /// The part that [`Self::new`] was given.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    pub fn into_inner(self, instance: usize) -> Box<dyn Any + Send> {
        assert!(self.instance == instance, "the part was prepared in another database");
        self.inner
    }
}

/// Services and state of a session between its transactions.
pub trait Upkeep {
    /// True if a commit, or what a decision to roll back depends on, survives whatever happens.
    fn is_durable(&self, outcome: Epoch) -> bool;

    /// Waits until an outcome is durable, no longer than until the deadline, if there is one;
    /// returns true if the outcome is durable. If not, nothing is known yet: a commit has happened,
    /// and other transactions may see it, but a crash may lose it.
    ///
    /// # Errors
    /// The log has stopped: the commit is not to be acknowledged.
    fn wait_durable_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort>;

    /// As [`Self::wait_durable_until`], for a caller that does not ask again: the outcome is on
    /// disk when this is true, and [`Self::is_durable`] may be true only later. Sessions that all
    /// wait like this draw no epochs.
    ///
    /// # Errors
    /// As [`Self::wait_durable_until`].
    fn wait_written_until(&mut self, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_durable_until(outcome, deadline)
    }

    /// Moves epochs on towards an outcome that is not durable yet, as far as others let them, and
    /// has the log write, without waiting: for a caller whose prepared parts keep others out until
    /// then, and who has nothing else to do between two transactions.
    fn hurry(&mut self, outcome: Epoch) {
        let _ = outcome;
    }

    /// The platform's time.
    fn now(&self) -> Nanos;

    /// Lets the epoch advance and the log flush if it is time, works on a checkpoint, and has
    /// memory provided ahead.
    fn tend(&mut self, now: Nanos);

    /// Has memory at hand for rows that follow, after many were inserted.
    fn get_ready(&mut self);

    /// Has about this many bytes more provided for rows that follow, or a part of them; how many.
    /// 0: there is no more, or the storage manager provides its memory otherwise.
    fn provide(&mut self, bytes: usize) -> usize {
        let _ = bytes;
        0
    }

    /// Bytes that this worker has taken for rows and indexes and that were not used before.
    fn bytes_taken(&mut self) -> u64 {
        0
    }

    /// Leaves the epoch: no transaction follows soon.
    fn idle(&mut self);

    /// Seeds the generator of backoff times.
    fn seed(&mut self, seed: u64);

    /// Chooses how the session pauses after failed attempts.
    fn set_pauses(&mut self, pauses: Pauses);

    /// The next transaction is not another attempt of the last one; `again`: it is one of an
    /// earlier one.
    fn turn_to_another(&mut self, again: bool);

    /// Rests off the processor until this moment.
    fn rest_until(&mut self, moment: Nanos);

    /// Counters since the session began, or since they were reset.
    fn stats(&self) -> Stats;

    /// Forgets counters and breakdown.
    fn reset_stats(&mut self);

    /// Nanoseconds by [`terms::Category`], of the transactions that were measured.
    fn breakdown(&mut self) -> [u64; terms::CATEGORIES];

    /// Counts the time until the next call for this category, outside of any transaction; `None`
    /// ends the count.
    fn measure(&mut self, what: Option<Category>);
}

/// A session of any platform and scheme: the way of one worker into a database.
pub trait AnySession<'d>: Upkeep {
    /// Runs a transaction until it commits, rolls back, or fails for good. [`Mode::Participant`] is
    /// for [`Self::prepare`].
    fn transact(&mut self, mode: Mode, bounds: &Bounds, body: &mut Body<'_>) -> Result<Ending<()>, Abort>;

    /// From now on each wait for a lock has this bound, if the session has no shorter one; `None`:
    /// no other one. What is not granted by then is a conflict; true if the next attempt begins
    /// with a wait for it then. Most schemes have bounds of their own, and need no other.
    fn bound_waits(&mut self, _nanos: Option<u64>) -> bool {
        false
    }

    /// From now on transactions of the session wait for a lock as long as this, asleep, and fail
    /// with [`Abort::LockTimeout`] then; `None`: as long as the scheme lets them, as at first. Only
    /// schemes under which every transaction may wait heed that: `dl-detect`, in an instance with
    /// queues of locks, and `2pl` over pages. Others keep their rules. Parts of transactions over
    /// several databases, too.
    fn wait_for_locks(&mut self, longest: Option<u64>) {
        let _ = longest;
    }

    /// Undoes an attempt that is not continued ([`RoamingSession::begin`]), if there is one; false
    /// if the session cannot.
    ///
    /// Pre: nothing is left of the attempt but the memory of its object.
    fn give_up(&mut self) -> bool {
        false
    }

    /// All announced transactions come one nearer, and another one is announced: the one that the
    /// session will run as number [`concurrency::LOOK_AHEAD`] from here (number 1 is the next). The
    /// caller calls this between transactions, and either before each transaction or never. The
    /// session is inside an epoch afterwards: a caller that waits before it runs a transaction
    /// calls [`Upkeep::idle`] first.
    fn step_ahead(&mut self);

    /// The transaction that was announced last will use this key of an index (table and index by
    /// number). Nothing happens if there is no such index, or if its keys have another length.
    fn add_ahead(&mut self, table: usize, index: usize, key: &[u64], what: Use);

    /// Runs one attempt of a part of a transaction over several databases, and prepares the part.
    /// After a conflict the caller tries the same part again, or calls [`Upkeep::turn_to_another`].
    /// Also gives the epoch that has to be durable before what the part has read may be sent, if it
    /// does not commit.
    fn prepare(&mut self, bounds: &Bounds, body: &mut Body<'_>) -> Result<(AnyPrepared<'d>, Epoch), Abort>;

    /// As [`Self::prepare`], but in a durable database the part survives crashes.
    fn prepare_as(
        &mut self,
        part: PartOf,
        bounds: &Bounds,
        body: &mut Body<'_>,
    ) -> Result<(AnyPrepared<'d>, Vote), Abort>;

    /// Finishes what some session of this database has prepared, or what was in doubt when the
    /// database was opened.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    fn finish_as(&mut self, prepared: AnyPrepared<'_>, outcome: Outcome<'_>) -> Option<Commit>;

    /// Commits or rolls back what [`Self::prepare`] prepared in some session of this database.
    ///
    /// # Panics
    /// If the part was prepared in another database.
    fn finish(&mut self, prepared: AnyPrepared<'_>, commit: bool) -> Option<Commit> {
        self.finish_as(prepared, if commit { Outcome::Commit } else { Outcome::Abort })
    }

    /// Decides that a transaction commits of which this database has no part that changes anything;
    /// the epoch with which the decision is durable.
    fn decide(&mut self, global: GlobalId, participants: &[u16]) -> Epoch;

    /// Forgets a decision to commit; false if the database knows of no such decision.
    fn forget(&mut self, global: GlobalId) -> bool;

    /// True if the database has no part of a transaction any more that could be in doubt, now or
    /// after a crash: none that is not finished, and none whose end is not durable.
    fn is_over(&mut self, global: GlobalId) -> bool;

    /// Makes a checkpoint; false if the database is not durable.
    ///
    /// # Errors
    /// The log has stopped, or the files refuse.
    fn checkpoint(&mut self) -> Result<bool, LogError>;

    /// Makes the one table that the schema declares; its number. Transactions of all sessions that
    /// begin when this has returned can use it. The session is in no transaction.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed, but if the log has stopped an empty table may be found
    /// at the next opening.
    fn create_table(&mut self, schema: SchemaBuilder) -> Result<usize, ChangeError> {
        let _ = schema;
        Err(ChangeError::Unsupported)
    }

    /// Drops a table: when this returns, that is durable, and the name is free. The caller lets no
    /// transaction use the table that begins later. Those that have begun may read it; if they have
    /// changed it, their commits are refused in a durable database. The session is in no
    /// transaction.
    ///
    /// # Errors
    /// [`ChangeError`]; the table is as before, but for commits that were refused meanwhile. If the
    /// log has stopped the table may be gone at the next opening.
    fn drop_table(&mut self, table: usize) -> Result<(), ChangeError> {
        let _ = table;
        Err(ChangeError::Unsupported)
    }

    /// Gives the rows of a table another form, or the table other indexes, while sessions use it
    /// through objects; the number of the table as it is from then on. Until then transactions use
    /// the number that the table had. Transactions that make two rows with one key in an index that
    /// is to be unique fail as if it were there. The session is in no transaction, and no caller
    /// uses the table through compiled verbs.
    ///
    /// # Errors
    /// [`ChangeError`]; the table is as it was. If the log has stopped it may be found in the other
    /// form at the next opening.
    fn change_table(&mut self, table: usize, change: TableChange<'_>) -> Result<usize, ChangeError> {
        let _ = (table, change);
        Err(ChangeError::Unsupported)
    }

    /// Waits until all transactions have ended that began before, at the longest until this moment;
    /// false if some go on. The session is in no transaction. A storage manager whose tables do not
    /// change while it is open does not wait.
    fn await_earlier(&mut self, until: Option<Nanos>) -> bool {
        let _ = until;
        true
    }

    /// Lets some rows of dropped tables go, if no transaction can use them any more. The session is
    /// in no transaction.
    fn sweep(&mut self) -> Swept {
        Swept::All
    }

    /// The branches of this session for transactions of several workers; `None` if its storage
    /// manager or scheme has none, or none in a durable database.
    fn branches(&mut self) -> Option<&mut dyn Branches> {
        None
    }
}

/// A session that may go to another thread, also within a transaction.
pub trait RoamingSession<'d>: AnySession<'d> + Send {
    /// Begins one attempt of a transaction. After a conflict the caller may begin again.
    ///
    /// # Errors
    /// The log has stopped.
    fn begin(&mut self, mode: Mode, bounds: &Bounds) -> Result<Box<dyn AnyAttempt + Send + '_>, Abort>;
}
