//! Databases as objects.

use std::any::Any;

use concurrency::{Content, Scheme, TooManySessions};
use platform::{Address, Nanos, Node, OutOfMemory, Platform};
use redo_log::{LogError, LogUse};
use schema::TableDescription;
use storage::MemoryUse;
use terms::rows::KeyBounds;
use terms::{Abort, Epoch};

use crate::change_stream::{ChangeSource, ChangesError};
use crate::participants::{Decision, PartOf};
use crate::session::{AnyPrepared, AnySession, RoamingSession};

/// Properties of a database's scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Its name on the command line.
    pub name: &'static str,
    /// True if the order of commits agrees with real time: see [`Scheme::STRICT`].
    pub strict: bool,
    /// True if transactions that only read see snapshots.
    pub snapshots: bool,
    /// True if it locks whole partitions.
    pub locks_partitions: bool,
    /// True if its sessions have branches: see [`AnySession::branches`].
    pub branches: bool,
}

impl Traits {
    /// Those of a scheme.
    pub fn of<P: Platform, S: Scheme<P>>() -> Self {
        Traits {
            name: S::NAME,
            strict: S::STRICT,
            snapshots: S::SNAPSHOTS,
            locks_partitions: S::LOCKS_PARTITIONS,
            branches: S::BRANCHES,
        }
    }
}

/// A database of any scheme.
pub trait AnyDatabase<P: Platform>: Send + Sync {
    /// Properties of the scheme.
    fn traits(&self) -> Traits;

    /// The descriptions of its tables, by their numbers.
    fn tables(&self) -> &[TableDescription];

    /// A session for the calling core: new rows lie on `node`; `measure` keeps a breakdown of its
    /// time.
    ///
    /// # Errors
    /// There are as many sessions as the database was made for.
    fn session<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Box<dyn AnySession<'d> + 'd>, TooManySessions>;

    /// The same, where a session may go to another thread.
    ///
    /// # Errors
    /// As [`Self::session`].
    fn session_to_send<'d>(
        &'d self,
        c: P::Core,
        node: Option<Node>,
        measure: bool,
    ) -> Result<Box<dyn AnySession<'d> + Send + 'd>, TooManySessions>
    where
        P::Core: Send;

    /// The same, where a transaction may be an object that goes to another thread too; `None` from
    /// a database that has none.
    ///
    /// # Errors
    /// As [`Self::session`].
    fn roaming_session<'d>(
        &'d self,
        _: P::Core,
        _: Option<Node>,
        _: bool,
    ) -> Option<Result<Box<dyn RoamingSession<'d> + 'd>, TooManySessions>>
    where
        P::Core: Send,
    {
        None
    }

    /// True if an outcome survives whatever happens ([`crate::Upkeep::is_durable`]). A database
    /// that needs a session to find out uses one; if it has none left, it returns false.
    fn is_durable(&self, c: P::Core, outcome: Epoch) -> bool {
        self.session(c, None, false).is_ok_and(|session| session.is_durable(outcome))
    }

    /// Waits until an outcome is durable, or until the deadline, if there is one; true if it is
    /// ([`crate::Upkeep::wait_durable_until`]). No session of the caller is inside an epoch.
    ///
    /// # Errors
    /// The log has stopped: the outcome is not to be acknowledged. A database that waits in a
    /// session has none left.
    fn wait_durable_until(&self, c: P::Core, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        let session = self.session(c, None, false);
        let no_session = |full: TooManySessions| Abort::Storage(full.to_string());
        session.map_err(no_session)?.wait_durable_until(outcome, deadline)
    }

    /// The number of the last whole group of the log that was begun, for [`Self::is_written`]; 0
    /// without such groups.
    fn whole_groups(&self, _c: P::Core) -> u64 {
        0
    }

    /// True if an outcome survives whatever happens, about which [`Self::whole_groups`] was asked
    /// when the outcome was there: groups are durable before their epochs are.
    fn is_written(&self, c: P::Core, outcome: Epoch, _begun: u64) -> bool {
        self.is_durable(c, outcome)
    }

    /// As [`Self::wait_durable_until`], for a caller that does not ask again:
    /// [`crate::Upkeep::wait_written_until`].
    ///
    /// # Errors
    /// As [`Self::wait_durable_until`].
    fn wait_written_until(&self, c: P::Core, outcome: Epoch, deadline: Option<Nanos>) -> Result<bool, Abort> {
        self.wait_durable_until(c, outcome, deadline)
    }

    /// Moves epochs on until snapshots that begin from now on show what was committed before this
    /// call, no longer than until the deadline; returns true if they do. Commits under way are
    /// waited for, no other transaction. The caller is in none. A database without snapshots
    /// ([`Traits::snapshots`]) has nothing to move on.
    fn let_snapshots_show(&self, _: P::Core, _: Nanos) -> bool {
        true
    }

    /// Ends loading.
    ///
    /// # Errors
    /// There is no memory for the copies of read-only tables.
    fn loaded(&mut self, c: P::Core) -> Result<(), OutOfMemory>;

    /// Lets snapshots show everything that is committed. No transaction runs.
    fn settle(&self, c: P::Core);

    /// Bytes taken from the machine for rows and indexes.
    fn memory_bytes(&self, c: P::Core) -> u64;

    /// How much of it is used.
    fn memory_use(&self, c: P::Core) -> MemoryUse;

    /// Bytes of rows and of entries of indexes by themselves. No transaction runs.
    fn content(&self, c: P::Core) -> Content;

    /// The work of the log since the database was opened; `None` if the database is not durable.
    fn log_used(&self, c: P::Core) -> Option<LogUse>;

    /// With which outcome everything is durable that was committed before; `None` if the database
    /// is not durable.
    fn durable_with(&self, c: P::Core) -> Option<Epoch> {
        self.log_used(c).map(|used| Epoch(used.epoch))
    }

    /// The global epoch; 0 if the database has no epochs.
    fn epoch(&self, _: P::Core) -> Epoch {
        Epoch(0)
    }

    /// How many checkpoints have ended since the database was opened, and how the last of them did;
    /// none, if the database does not count them.
    fn checkpoints(&self, _: P::Core) -> (u64, Result<(), LogError>) {
        (0, Ok(()))
    }

    /// The committed changes for readers.
    ///
    /// # Errors
    /// [`ChangesError::Unsupported`] from a database that gives none.
    fn change_source(&self) -> Result<&dyn ChangeSource<P>, ChangesError> {
        Err(ChangesError::Unsupported("a database of this kind gives no stream of its changes"))
    }

    /// The rows and parts of indexes on the lines at these addresses. No transaction runs
    /// meanwhile.
    fn occupants(&self, c: P::Core, lines: &[Address]) -> Vec<Option<Occupant>>;

    /// Visits words and tail of all rows of a table with keys in a range of an index, while no
    /// transaction runs. An index without order gives all rows.
    fn inspect(
        &self,
        c: P::Core,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    );

    /// The parts of transactions over several databases that were prepared before the database was
    /// opened, and not finished; each is given once.
    fn in_doubt(&self, c: P::Core) -> Vec<(PartOf, AnyPrepared<'_>)>;

    /// The transactions that this database has decided to commit, and not forgotten since.
    fn decisions(&self, c: P::Core) -> Vec<Decision>;

    /// Ends the log, if there is one.
    ///
    /// # Errors
    /// The log has stopped: what is durable is what was acknowledged.
    fn close(self: Box<Self>, c: P::Core) -> Result<(), LogError>;

    /// The database itself, for callers that know its scheme.
    fn as_any(&self) -> &dyn Any;
}

/// The part of a database that lies on a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupant {
    /// The structure: `district row`, `stock primary key, leaf`.
    pub structure: String,
    /// Bytes from the beginning of the structure to that of the line; 0 if the structure begins on
    /// the line.
    pub offset: u64,
}
