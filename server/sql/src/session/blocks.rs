//! Transactions of a session.

use std::sync::Arc;
use std::time::Duration;

use isles::{CancelToken, TransactionOptions};

use crate::error::{Result, SqlError, state};
use crate::session::{Block, Session};

/// Longest wait for a lock: what would wait longer is no transaction any more.
const LOCK_WAIT: Duration = Duration::from_secs(24 * 3600);

impl Session {
    /// Returns the time that a setting allows; `None`: any.
    pub(super) fn time_setting(&self, name: &str) -> Option<Duration> {
        self.context.settings.time(name).filter(|time| !time.is_zero())
    }

    /// Begins a transaction of the engine, if none is open.
    pub(crate) fn begin_engine(&mut self) -> Result<()> {
        if self.transaction.is_some() {
            return Ok(());
        }
        let cancel = CancelToken::new();
        self.engine.set_cancel(self.context.process, &cancel);
        self.context.cancel = cancel.clone();
        let entered = self.engine.gate.enter(&|| match cancel.is_cancelled() {
            true => Err(SqlError::new(state::CANCELLED, "canceling statement due to user request")),
            false => Ok(()),
        })?;
        self.context.schema = self.engine.schema();
        self.context.now = crate::context::moment();
        let mut session = match self.idle.take() {
            Some(session) => session,
            None => self.engine.database.session()?,
        };
        let lock_wait = self.time_setting("lock_timeout").unwrap_or(LOCK_WAIT);
        let options = TransactionOptions::new().attempts(1).lock_wait(lock_wait).cancel(&cancel);
        session.set_options(options.without_deadline());
        self.transaction = Some(session.into_transaction()?);
        self.entered = Some(entered);
        self.statements = 0;
        Ok(())
    }

    /// Commits the transaction of the engine, if one is open.
    pub(super) fn commit_engine(&mut self) -> Result<()> {
        self.savepoints.clear();
        self.cursors.clear();
        self.statements = 0;
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        let (session, committed) = transaction.commit_into_session();
        self.idle = Some(session);
        self.entered = None;
        committed.map_err(SqlError::from)
    }

    /// Rolls the transaction of the engine back, if one is open.
    pub fn abandon(&mut self) {
        self.savepoints.clear();
        self.cursors.clear();
        (self.copy, self.copy_out) = (None, None);
        self.statements = 0;
        if let Some(transaction) = self.transaction.take() {
            // An error would say that what was read was not current, which does not matter now.
            let (session, _) = transaction.roll_back_into_session();
            self.idle = Some(session);
        }
        self.entered = None;
    }

    /// Begins a block.
    pub(super) fn begin_block(&mut self, read_only: Option<bool>) {
        if self.block != Block::None {
            self.context.notices.push(("WARNING", "there is already a transaction in progress".to_owned()));
            return;
        }
        self.block = Block::Open;
        self.settings_before = Some(self.context.settings.clone());
        let default = self.context.settings.get("default_transaction_read_only") == Some("on");
        self.read_only = read_only.unwrap_or(default);
        self.context.now = crate::context::moment();
    }

    /// Commits a block; returns the tag.
    pub(super) fn commit_block(&mut self) -> Result<&'static str> {
        match std::mem::replace(&mut self.block, Block::None) {
            Block::None => {
                self.context.notices.push(("WARNING", "there is no transaction in progress".to_owned()));
                self.commit_engine()?;
                Ok("COMMIT")
            }
            Block::Open => {
                self.settings_before = None;
                self.read_only = false;
                self.commit_engine()?;
                Ok("COMMIT")
            }
            Block::Failed => {
                self.roll_back_block();
                Ok("ROLLBACK")
            }
        }
    }

    /// Rolls a block back.
    pub(super) fn roll_back_block(&mut self) {
        self.abandon();
        self.block = Block::None;
        self.read_only = false;
        if let Some(settings) = self.settings_before.take() {
            self.context.settings = settings;
        }
    }

    /// Ends what was sent together: commits it, or rolls it back if something has failed. Blocks
    /// stay open.
    pub fn end_batch(&mut self, failed: bool) -> Result<()> {
        if self.block != Block::None {
            return Ok(());
        }
        if failed {
            self.abandon();
            return Ok(());
        }
        self.commit_engine()
    }

    /// Notes that a statement has failed.
    pub fn fail(&mut self) {
        (self.copy, self.copy_out) = (None, None);
        match self.block {
            Block::None => self.abandon(),
            Block::Open | Block::Failed => {
                self.block = Block::Failed;
                // Nothing of it can be kept, so that its locks are of no use either.
                if self.savepoints.is_empty() {
                    self.abandon();
                }
            }
        }
    }

    /// Sets a savepoint.
    pub(super) fn set_savepoint(&mut self, name: String) -> Result<()> {
        if self.block == Block::None {
            return Err(SqlError::new(
                state::NO_TRANSACTION,
                "SAVEPOINT can only be used in transaction blocks",
            ));
        }
        self.begin_engine()?;
        let Some(transaction) = &mut self.transaction else { return Ok(()) };
        let savepoint = transaction.verbs().savepoint()?;
        self.savepoints.push((name, savepoint));
        Ok(())
    }

    fn savepoint(&self, name: &str) -> Result<usize> {
        let missing = || SqlError::new(state::NO_SAVEPOINT, format!("savepoint \"{name}\" does not exist"));
        self.savepoints.iter().rposition(|(own, _)| own == name).ok_or_else(missing)
    }

    /// Forgets a savepoint and those after it.
    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let place = self.savepoint(name)?;
        if let Some(transaction) = &mut self.transaction {
            transaction.verbs().release(self.savepoints[place].1)?;
        }
        self.savepoints.truncate(place);
        Ok(())
    }

    /// Rolls back to a savepoint.
    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let place = self.savepoint(name)?;
        if let Some(transaction) = &mut self.transaction {
            transaction.verbs().roll_back_to(self.savepoints[place].1)?;
        }
        self.savepoints.truncate(place + 1);
        self.block = Block::Open;
        Ok(())
    }

    /// Ends the transaction so far, because tables change outside of transactions.
    pub(super) fn end_before_change(&mut self) -> Result<()> {
        if self.block != Block::None && self.transaction.is_some() {
            let message = "a change of tables commits the transaction so far, and cannot be rolled back";
            self.context.notices.push(("NOTICE", message.to_owned()));
        } else if self.block != Block::None {
            let message = "a change of tables commits by itself, and cannot be rolled back";
            self.context.notices.push(("NOTICE", message.to_owned()));
        }
        self.commit_engine()
    }

    /// Changes tables while no transaction runs.
    pub(super) fn change_tables(&mut self, statement: &sqlparser::ast::Statement) -> Result<String> {
        self.check_change(statement)?;
        self.end_before_change()?;
        let cancel = CancelToken::new();
        self.engine.set_cancel(self.context.process, &cancel);
        self.context.cancel = cancel.clone();
        let most = self.time_setting("lock_timeout");
        let alone = self.engine.gate.alone(most, &|| match cancel.is_cancelled() {
            true => Err(SqlError::new(state::CANCELLED, "canceling statement due to user request")),
            false => Ok(()),
        })?;
        self.context.sequences.clear();
        let engine = Arc::clone(&self.engine);
        let mut change = crate::ddl::Change { engine: &engine, schema: engine.schema(), notices: Vec::new() };
        let done = change.run(statement);
        self.context.notices.append(&mut change.notices);
        self.context.schema = engine.schema();
        drop(alone);
        done
    }
}
