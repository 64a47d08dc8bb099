//! Maintenance of a database: statistics and explicit checkpoints.

use std::time::Duration;

use platform::Hardware;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::statistics::{LogStatistics, MemoryStatistics, Statistics};

impl Database {
    /// Returns statistics of the database. The call takes a few microseconds and delays no
    /// transaction.
    ///
    /// ```
    /// use isles::{Database, Error, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// let mut builder = Database::in_memory();
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// let mut session = database.session()?;
    /// session.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// let _ = session.transaction(|_| Err::<(), _>(Error::RollBack));
    ///
    /// let now = database.statistics();
    /// assert_eq!((now.transactions.commits, now.transactions.rollbacks, now.sessions), (1, 1, 1));
    /// assert!(now.memory.used > 0 && now.memory.reserved <= now.memory.limit);
    /// assert_eq!(now.log, None);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn statistics(&self) -> Statistics {
        let (c, shared) = (Hardware::core(), &*self.shared);
        let used = shared.inner.memory_use(c);
        let log = shared.inner.log_used(c).map(|log| LogStatistics {
            written_bytes: log.written_bytes,
            flushes: log.flushes,
            groups: log.groups,
            group_time: Duration::from_nanos(log.group_nanos),
        });
        Statistics {
            memory: MemoryStatistics {
                limit: shared.limits.memory_bytes,
                reserved: used.reserved,
                touched: used.touched,
                used: used.used,
            },
            log,
            epoch: shared.inner.epoch(c).0,
            checkpoints: shared.inner.checkpoints(c).0,
            transactions: shared.ledger.transactions(),
            latencies: shared.ledger.latencies(),
            sessions: shared.ledger.users().sessions,
            sessions_max: shared.limits.sessions,
        }
    }

    /// Makes a checkpoint: copies all rows to the directory while transactions continue, and
    /// returns when the copy is complete. The next opening reads the copy instead of the log before
    /// it. A program need not call this method: sessions make checkpoints in small steps whenever
    /// the log has grown by twice the size of the previous checkpoint and by at least 1 GiB. In
    /// memory the call does nothing.
    ///
    /// Errors: [`Error::NotDurable`] if the log has stopped or a file operation failed (the message
    /// says which): the previous checkpoint then stays valid; [`Error::TooManySessions`];
    /// [`Error::Nested`] inside a transaction.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// # let path = std::env::temp_dir().join(format!("isles-doc-checkpoint-{}", std::process::id()));
    /// let mut builder = Database::at(&path);
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert_all(accounts, (0..1_000).map(|id| Account { id, balance: 5 })))?;
    /// database.checkpoint()?; // before a planned restart, which reads the copy and no log
    /// assert_eq!(database.statistics().checkpoints, 1);
    /// # drop(database);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.check_outside()?;
        let mut session = self.shared.inner.session(Hardware::core(), None, false)?;
        let made = session.checkpoint().map(|_| ()).map_err(|error| Error::NotDurable(error.to_string()));
        drop(session);
        self.shared.report_checkpoints();
        made
    }
}
