//! State that the sessions of a database share.

use std::sync::atomic::Ordering;

use boundary::PartOf;
use concurrency::TooManySessions;
use platform::LINE_BYTES;
use platform::files::Files;
use redo_log::LogError;
use storage::Latched;
use terms::{Fault, Faults};

use crate::central::CentralLines;
use crate::checkpoints::checkpoint::Checkpoints;
use crate::error::PagedError;
use crate::locks::{LockAnswer, LockManager, LockMode, LockPlace, LockRequest, name};
use crate::options::PagedOptions;
use crate::owner::{KeptPart, Owner, Owners};
use crate::pool::{Pool, Writing};
use crate::rows::tables::Table;
use crate::undo::PartInDoubt;

/// State that the sessions of a database share.
pub(crate) struct SharedState<P: Files> {
    pub(crate) pool: Pool<P>,
    pub(crate) locks: LockManager<P>,
    pub(crate) owners: Owners<P>,
    /// Lines that all transactions write, where the database imitates one that has them.
    pub(crate) central: Option<CentralLines<P>>,
    /// Most branches of a session.
    pub(crate) branches_max: usize,
    /// The number in the log of the first branch of the first session.
    pub(crate) first_branch: usize,
    /// Longest wait for a lock, if there is a bound.
    pub(crate) wait_nanos_max: Option<u64>,
    /// By number.
    pub(crate) tables: Vec<Table>,
    /// A word for each session: 1 while it is there.
    sessions: P::Region,
    sessions_max: usize,
    pub(crate) is_loaded: bool,
    pub(crate) faults: Faults,
    /// True if locks are released before commits are durable.
    pub(crate) aether: bool,
    /// There with a log.
    pub(crate) checkpoints: Option<Checkpoints<P>>,
    /// Parts in doubt that were found when the database was opened, until a session takes them.
    pub(crate) in_doubt: Latched<P, Vec<(PartOf, KeptPart)>>,
    /// The error that has stopped the database.
    failure: Latched<P, Option<PagedError>>,
    /// A word that is not 0 once there is a failure.
    failed: P::Region,
}

impl<P: Files> SharedState<P> {
    /// The state of a database without sessions yet.
    pub(crate) fn new(
        c: P::Core,
        options: &PagedOptions,
        pool: Pool<P>,
        locks: LockManager<P>,
        tables: Vec<Table>,
        checkpoints: Option<Checkpoints<P>>,
    ) -> Result<Self, PagedError> {
        let sessions_max = options.sessions_max.max(1);
        let owners = Owners::new(c, &locks, sessions_max, options.parts_max)?;
        let central = options
            .has_latched_reads()
            .then(|| CentralLines::new(c, options.owners(), &options.nodes))
            .transpose()?;
        Ok(SharedState {
            pool,
            locks,
            owners,
            central,
            branches_max: options.branches_max,
            first_branch: options.owners(),
            wait_nanos_max: options.wait_nanos_max,
            tables,
            sessions: P::region(c, None, sessions_max * LINE_BYTES, "sessions")?,
            sessions_max,
            is_loaded: false,
            faults: options.faults,
            aether: options.has_aether(),
            checkpoints,
            in_doubt: Latched::new(c, "parts in doubt", Vec::new())?,
            failure: Latched::new(c, "failure of the database", None)?,
            failed: P::region(c, None, LINE_BYTES, "failure of the database")?,
        })
    }

    /// The number of a session that begins, and its owner.
    pub(crate) fn begin_session(&self, c: P::Core) -> Result<(usize, Box<Owner>), TooManySessions> {
        let is_mine = |number: &usize| {
            let word = P::word_of(&self.sessions, number * LINE_BYTES);
            // Acquire: pairs with the release of the session that had the number before.
            P::cas(c, word, 0, 1, Ordering::Acquire).is_ok()
        };
        let too_many = TooManySessions(self.sessions_max);
        let number = (0..self.sessions_max).find(is_mine).ok_or(too_many)?;
        self.owners.take(c).map(|owner| (number, owner)).ok_or(too_many)
    }

    /// Takes the number of a session back, and its owners: that of its transactions, and perhaps
    /// one of a part.
    pub(crate) fn end_session(
        &self,
        c: P::Core,
        number: usize,
        owner: &mut Owner,
        spare: &mut Option<Box<Owner>>,
    ) {
        self.owners.give_back(c, owner, false, &self.locks);
        if let Some(spare) = spare {
            self.owners.give_back(c, spare, true, &self.locks);
        }
        // Release: pairs with the acquire of the next session with the number.
        P::store(c, P::word_of(&self.sessions, number * LINE_BYTES), 0, Ordering::Release);
    }

    /// Stops the database: from now on no transaction begins.
    #[cold]
    pub(crate) fn fail(&self, c: P::Core, error: PagedError) {
        self.failure.with(c, |failure| {
            failure.get_or_insert(error);
        });
        // Release: pairs with the acquire in `check`.
        P::store(c, P::word_of(&self.failed, 0), 1, Ordering::Release);
        self.locks.stop(c);
    }

    /// An address that distinguishes this database from others while it is open.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The error that has stopped the database, if the database has stopped.
    pub(crate) fn failure(&self, c: P::Core) -> Option<PagedError> {
        if let Some(stopped) = self.pool.log().and_then(|log| log.stopped(c)) {
            return Some(stopped);
        }
        // Acquire: pairs with the release in `fail`.
        if P::load(c, P::word_of(&self.failed, 0), Ordering::Acquire) == 0 {
            return None;
        }
        self.failure.with(c, |failure| failure.clone())
    }

    /// Keeps a part that was found in doubt: its changes are locked again, before there are
    /// sessions.
    pub(crate) fn adopt(&self, c: P::Core, doubted: PartInDoubt) -> Result<(), PagedError> {
        let PartInDoubt { transaction, part, undo } = doubted;
        let refused =
            || PagedError::NotUndone("what a part in doubt has changed cannot be locked".to_owned());
        let mut owner = self.owners.take_for_part(c).ok_or_else(refused)?;
        owner.draw_age::<P>(c);
        owner.locks.begin(false);
        for (tree, key) in undo.keys().filter(|_| !self.faults.has(Fault::UnlockedDoubt)) {
            let is_here = |table: &Table| table.all_trees().any(|other| other.number == tree.number);
            let table = self.tables.iter().position(is_here).ok_or(PagedError::UnknownTree(tree.number))?;
            let rows = self.tables[table].trees[0];
            // A piece of a row is that row's.
            let is_piece = self.tables[table].overflow.is_some_and(|other| other.number == tree.number);
            let name = match is_piece {
                true => name(rows.number, LockPlace::Key, &key[..rows.width]),
                false => name(tree.number, LockPlace::Key, &key),
            };
            let request = LockRequest { table, name, mode: LockMode::Exclude, age: owner.age };
            if owner.locks.acquire(&self.locks, c, request, None, &mut || ()) != LockAnswer::Granted {
                return Err(refused());
            }
        }
        owner.undo = undo;
        owner.writing = Writing::of_earlier(transaction, Some(owner.number));
        if self.locks.has_one_session() {
            self.owners.count(c, true);
        }
        self.in_doubt.with(c, |in_doubt| in_doubt.push((part, KeptPart { owner, is_known: true })));
        Ok(())
    }

    /// Makes a checkpoint, if there is a log.
    pub(crate) fn checkpoint(&self, c: P::Core) -> Result<bool, LogError> {
        let (Some(checkpoints), Some(log)) = (&self.checkpoints, self.pool.log()) else { return Ok(false) };
        match checkpoints.make(c, &self.pool, log) {
            Ok(()) => Ok(true),
            Err(PagedError::Log(error)) => Err(error),
            Err(PagedError::File(error)) => Err(error.into()),
            Err(PagedError::OutOfMemory(error)) => Err(error.into()),
            Err(other) => Err(LogError::Copy(other.to_string())),
        }
    }
}
