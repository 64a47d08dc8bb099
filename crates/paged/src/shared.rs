//! What the sessions of a database share.

use std::sync::atomic::Ordering;

use cc::TooManySessions;
use platform::LINE_BYTES;
use platform::files::Files;
use storage::Latched;
use storage::log::LogError;

use crate::checkpoint::Checkpoints;
use crate::locks::LockManager;
use crate::options::{Broken, PagedError, PagedOptions};
use crate::pool::Pool;
use crate::tables::Table;

/// What the sessions of a database share.
pub(crate) struct Shared<P: Files> {
    pub(crate) pool: Pool<P>,
    pub(crate) locks: LockManager<P>,
    /// By number.
    pub(crate) tables: Vec<Table>,
    /// A word for each session: 1 while it is there.
    sessions: P::Region,
    sessions_max: usize,
    pub(crate) is_loaded: bool,
    pub(crate) broken: Broken,
    /// Whether locks are given back before commits are durable.
    pub(crate) aether: bool,
    /// There with a log.
    pub(crate) checkpoints: Option<Checkpoints<P>>,
    /// Why nothing runs any more.
    failure: Latched<P, Option<PagedError>>,
    /// A word that is not 0 once there is a failure.
    failed: P::Region,
}

impl<P: Files> Shared<P> {
    /// Of a database that nobody uses yet.
    pub(crate) fn new(
        c: P::Core,
        options: &PagedOptions,
        (pool, locks, tables): (Pool<P>, LockManager<P>, Vec<Table>),
        checkpoints: Option<Checkpoints<P>>,
    ) -> Result<Self, PagedError> {
        let sessions_max = options.sessions_max.max(1);
        Ok(Shared {
            pool,
            locks,
            tables,
            sessions: P::region(c, None, sessions_max * LINE_BYTES, "sessions")?,
            sessions_max,
            is_loaded: false,
            broken: options.broken,
            aether: options.has_aether(),
            checkpoints,
            failure: Latched::new(c, "failure of the database", None)?,
            failed: P::region(c, None, LINE_BYTES, "failure of the database")?,
        })
    }

    /// The number of a session that begins.
    pub(crate) fn begin_session(&self, c: P::Core) -> Result<usize, TooManySessions> {
        let is_mine = |number: &usize| {
            let word = P::word_of(&self.sessions, number * LINE_BYTES);
            // Acquire: pairs with the release of the session that had the number before.
            P::cas(c, word, 0, 1, Ordering::Acquire).is_ok()
        };
        (0..self.sessions_max).find(is_mine).ok_or(TooManySessions(self.sessions_max))
    }

    /// Takes the number of a session back.
    pub(crate) fn end_session(&self, c: P::Core, number: usize) {
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

    /// Why the database has stopped, if it has.
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
