//! What all handles of a database share.
// The number of sessions is no shared word of the engine.
#![allow(clippy::disallowed_types)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use cc::SchemeName;
use engine::TableDescription;
use engine::dynamic::AnyDatabase;
use platform::{Hardware, Intent};

use crate::event::Watcher;
use crate::ledger::{Ledger, Users};

/// What all handles of a database share.
pub(crate) struct Shared {
    pub(crate) inner: Box<dyn AnyDatabase<Hardware>>,
    /// What its tables are, by their numbers.
    pub(crate) tables: Vec<TableDescription>,
    pub(crate) id: u64,
    pub(crate) scheme: SchemeName,
    /// Sessions begun so far: seeds of their backoff times.
    pub(crate) sessions: AtomicU64,
    /// What it has, if it is one of several instances.
    pub(crate) share: Option<Share>,
    /// Its directory, if it is durable.
    pub(crate) path: Option<PathBuf>,
    pub(crate) limits: Limits,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) watcher: Option<Watcher>,
}

/// What a database was opened for.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) memory_bytes: u64,
    pub(crate) sessions: usize,
}

impl Shared {
    /// Tells who listens that the log has stopped.
    #[cold]
    pub(crate) fn log_stopped(&self, why: &str) {
        if let Some(watcher) = &self.watcher {
            watcher.log_stopped(why);
        }
    }

    /// Tells who listens of checkpoints that have ended.
    pub(crate) fn look_at_checkpoints(&self) {
        if let Some(watcher) = &self.watcher {
            watcher.look_at_checkpoints(self.inner.checkpoints(Hardware::core()));
        }
    }

    /// Who uses the database beside one handle of it, if `handles` are there of all kinds; and how many of them are clones.
    pub(crate) fn others(&self, handles: usize) -> (Users, usize) {
        let users = self.ledger.users();
        (users, handles.saturating_sub(1 + users.sessions + users.tickets))
    }
}

/// What one of several instances has.
pub(crate) struct Share {
    /// By part of the data: whether it is here.
    pub(crate) parts: Vec<bool>,
    /// By number of the table: whether all instances have all of it.
    pub(crate) copied: Vec<bool>,
}

/// What a step of a procedure may use: one part, and whether it only reads.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) part: u16,
    pub(crate) only_reads: bool,
}

impl Share {
    /// What is wrong with the use of a key of a table, or of a range of keys; `part` is its part, if it has one.
    pub(crate) fn refuses(
        &self,
        limit: Option<Limit>,
        (table, part, intent): (usize, Option<u16>, Intent),
    ) -> Option<&'static str> {
        let writes = intent == Intent::Write;
        if self.copied.get(table).copied().unwrap_or(false) {
            return writes.then_some("a table that all instances have is only read");
        }
        if writes && limit.is_some_and(|limit| limit.only_reads) {
            return Some("a step that says that it only reads changes a row");
        }
        let here = |part: u16| self.parts.get(usize::from(part)).copied().unwrap_or(false);
        match (part, limit) {
            (Some(part), Some(limit)) if part != limit.part => {
                Some("a step uses a key of another part than its own")
            }
            (None, Some(_)) => Some("a step scans keys of several parts"),
            (Some(part), None) if !here(part) => Some(
                "this instance does not have the key's part: use a session of the one that has, or a procedure",
            ),
            _ => None,
        }
    }
}
