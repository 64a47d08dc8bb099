//! Transactions of a session.

use std::sync::Arc;
use std::time::Duration;

use isles::{CancelToken, TransactionOptions};
use sqlparser::ast::Statement;

use crate::error::{Result, SqlError, state};
use crate::session::execution::ATTEMPTS_MAX;
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
        self.context.now = crate::context::moment();
        let mut session = match self.idle.take() {
            Some(session) => session,
            None => self.engine.database.session()?,
        };
        let lock_wait = self.time_setting("lock_timeout").unwrap_or(LOCK_WAIT);
        let options = TransactionOptions::new().attempts(1).lock_wait(lock_wait).cancel(&cancel);
        session.set_options(options.without_deadline());
        self.transaction = Some(session.into_transaction()?);
        self.statements = 0;
        self.see_schema();
        Ok(())
    }

    /// Has statements see the tables as they are now: those that the transaction has made, or those
    /// of all sessions.
    pub(super) fn see_schema(&mut self) {
        self.context.schema = self.engine.schema.get();
        self.context.seen = self.context.schema.version;
        if let Some(altered) = &self.altered {
            // No other transaction changes tables meanwhile.
            self.context.schema = Arc::clone(altered);
        }
    }

    /// Commits the transaction of the engine, if one is open.
    pub(super) fn commit_engine(&mut self) -> Result<()> {
        self.savepoints.clear();
        self.cursors.retain(|_, cursor| cursor.is_held);
        self.statements = 0;
        let altered = self.altered.take();
        let Some(transaction) = self.transaction.take() else { return Ok(()) };
        let (session, committed) = match altered {
            None => transaction.commit_into_session(),
            Some(altered) => {
                let database = self.engine.database.clone();
                let is_there =
                    altered.tables.values().map(|table| table.description.clone()).collect::<Vec<_>>();
                let has_committed = |(_, committed): &(isles::Session, isles::Result<()>)| {
                    // After some errors of the disk the tables are there all the same.
                    committed.is_ok() || is_there.iter().all(|table| database.tables().contains(&table))
                };
                self.engine.schema.publish(altered, || transaction.commit_into_session(), has_committed)
            }
        };
        self.idle = Some(session);
        self.drop_loose_sequences();
        committed.map_err(SqlError::from)
    }

    /// Drops sequences of the engine that no schema has after the end of the transaction.
    fn drop_loose_sequences(&mut self) {
        if self.loose_sequences.is_empty() {
            return;
        }
        let schema = self.engine.schema.get();
        for name in std::mem::take(&mut self.loose_sequences) {
            let mut texts = schema.texts.iter().filter(|text| text.kind == "sequence");
            if !texts.any(|text| text.engine_sequence() == name) {
                self.context.sequences.remove(&name);
                // A handle of another session keeps the numbers, which are not given again anyway.
                _ = self.engine.database.drop_sequence(&name);
            }
        }
    }

    /// Rolls the transaction of the engine back, if one is open.
    pub fn abandon(&mut self) {
        self.savepoints.clear();
        self.cursors.retain(|_, cursor| cursor.is_held);
        (self.copy, self.copy_out) = (None, None);
        self.statements = 0;
        self.altered = None;
        if let Some(transaction) = self.transaction.take() {
            // An error would say that what was read was not current, which does not matter now.
            let (session, _) = transaction.roll_back_into_session();
            self.idle = Some(session);
        }
        self.drop_loose_sequences();
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
        self.savepoints.push((name, savepoint, self.altered.clone()));
        Ok(())
    }

    fn savepoint(&self, name: &str) -> Result<usize> {
        let missing = || SqlError::new(state::NO_SAVEPOINT, format!("savepoint \"{name}\" does not exist"));
        self.savepoints.iter().rposition(|(own, ..)| own == name).ok_or_else(missing)
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
        self.altered.clone_from(&self.savepoints[place].2);
        self.savepoints.truncate(place + 1);
        self.block = Block::Open;
        Ok(())
    }

    /// Changes tables in the transaction; again after conflicts if it is its first statement.
    pub(super) fn change_tables(&mut self, statement: &Statement) -> Result<String> {
        if self.read_only {
            let message = "cannot execute a change of tables in a read-only transaction";
            return Err(SqlError::new(state::READ_ONLY, message));
        }
        for attempt in 1.. {
            self.begin_engine()?;
            self.check_change(statement)?;
            let is_first = self.statements == 0 && self.savepoints.is_empty();
            match self.change_once(statement) {
                Err(error) if error.is_conflict && is_first && attempt < ATTEMPTS_MAX => {
                    self.abandon();
                    self.pause(attempt);
                }
                done => return done,
            }
        }
        Err(SqlError::new(state::INTERNAL, "no more attempts"))
    }

    fn change_once(&mut self, statement: &Statement) -> Result<String> {
        // The right to change tables, which no other transaction has before this one ends.
        let texts = crate::engine::table_of_texts()?;
        self.within(|x| Ok(x.transaction.change_described_table(texts)?))?;
        self.see_schema();
        // Roles may have changed while the transaction waited for that right.
        self.check_change(statement)?;
        let (done, schema, loose) = self.within(|x| {
            let schema = Arc::clone(&x.context.schema);
            let mut change = crate::ddl::Change { x, schema, loose_sequences: Vec::new() };
            let done = change.run(statement);
            Ok((done, change.schema, change.loose_sequences))
        })?;
        self.loose_sequences.extend(loose);
        if done.is_ok() && schema.version != self.engine.schema.current() {
            self.altered = Some(schema);
        }
        self.see_schema();
        done
    }
}
