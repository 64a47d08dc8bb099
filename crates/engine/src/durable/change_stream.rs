//! Committed changes for readers: the records of the log, in the order of commits, as changes of
//! rows.
//!
//! Updates are given as the log has them: the bytes that have changed. The changes of a part of a
//! transaction over several databases are in the record of its preparation; they are given with the
//! commit of the part. Tables are described as they were: a change that was logged before a table
//! got another form is one of the former form.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use boundary::directory::description::Description;
use boundary::{
    AnyChangeStream, ChangedRow, ChangedTable, ChangesError, ChangesFrom, CommittedChanges, GlobalId,
    LogPosition, RowChange,
};
use platform::{Nanos, Platform};
use redo_log::{LogError, LoggedCommit};
use storage::Epochs;

use super::Durable;
use super::global::Item;
use super::journal::LogCursor;
use super::layout::{Layout, UntypedChange, read_head};

/// A table, and how its changes are read.
struct KnownTable {
    table: Arc<ChangedTable>,
    layout: Layout,
}

/// A stream of changes of a memory engine.
pub(crate) struct MemoryChangeStream {
    cursor: LogCursor,
    position: LogPosition,
    /// By id.
    tables: BTreeMap<u32, KnownTable>,
    /// The changes of parts that are prepared.
    prepared: BTreeMap<GlobalId, Vec<u8>>,
    /// Number of commits that were given.
    pub commits: u64,
}

impl AnyChangeStream for MemoryChangeStream {
    fn position(&self) -> LogPosition {
        self.position
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn unreadable() -> ChangesError {
    let what = "a record is no change of the tables that the database has or had";
    LogError::Damaged { file: "the log".into(), offset: 0, what }.into()
}

impl MemoryChangeStream {
    /// Opens a stream of the commits behind `from`.
    pub(crate) fn open<P: Platform>(
        c: P::Core,
        durable: &Durable<P>,
        epochs: &Epochs<P>,
        from: ChangesFrom,
    ) -> Result<Self, ChangesError> {
        let (cursor, position) = durable.journal.open_changes(c, epochs, from)?;
        let (tables, prepared) = (BTreeMap::new(), BTreeMap::new());
        Ok(MemoryChangeStream { cursor, position, tables, prepared, commits: 0 })
    }

    /// The next commit with changes; `None` if there is none by the deadline.
    pub(crate) fn next<P: Platform>(
        &mut self,
        c: P::Core,
        durable: &Durable<P>,
        epochs: &Epochs<P>,
        deadline: Option<Nanos>,
    ) -> Result<Option<CommittedChanges>, ChangesError> {
        loop {
            let (commit, position) = durable.journal.next_commit(c, epochs, &mut self.cursor, deadline)?;
            self.position = position;
            let Some(commit) = commit else { return Ok(None) };
            let rows = self.changes(c, durable, &commit)?;
            if commit.is_new && !rows.is_empty() {
                self.commits += 1;
                return Ok(Some(CommittedChanges { position: commit.position, rows }));
            }
        }
    }

    /// Ends the stream.
    pub(crate) fn close<P: Platform>(self, c: P::Core, durable: &Durable<P>) {
        durable.journal.close_changes(c, self.cursor);
    }

    /// The changes of one commit.
    fn changes<P: Platform>(
        &mut self,
        c: P::Core,
        durable: &Durable<P>,
        commit: &LoggedCommit,
    ) -> Result<Vec<ChangedRow>, ChangesError> {
        let mut rows = Vec::new();
        let mut ended = Vec::new();
        for record in &commit.bodies {
            let (mut body, mut is_part) = (&record[..], false);
            while let Some(item) = Item::take(&mut body).map_err(|_| unreadable())? {
                match item {
                    Item::Prepare(part) => {
                        is_part = true;
                        self.prepared.entry(part.global).or_insert_with(|| body.to_vec());
                    }
                    Item::Commit(global) => ended.push((global, true)),
                    Item::Abort(global) => ended.push((global, false)),
                    Item::Decision(_) | Item::Forget(_) => {}
                }
            }
            if commit.is_new && !is_part {
                self.read(c, durable, body, &mut rows)?;
            }
        }
        for (global, commits) in ended {
            let changes = self.prepared.remove(&global);
            if commits && commit.is_new {
                // Without them its preparation is before everything that was read.
                let changes = changes.ok_or(ChangesError::Lost)?;
                self.read(c, durable, &changes, &mut rows)?;
            }
        }
        Ok(rows)
    }

    fn read<P: Platform>(
        &mut self,
        c: P::Core,
        durable: &Durable<P>,
        mut rest: &[u8],
        rows: &mut Vec<ChangedRow>,
    ) -> Result<(), ChangesError> {
        while !rest.is_empty() {
            let (id, kind) = read_head(&mut rest).ok_or_else(unreadable)?;
            if !self.tables.contains_key(&id) {
                self.describe(c, durable)?;
            }
            let KnownTable { table, layout } = self.tables.get(&id).ok_or_else(unreadable)?;
            let change = layout.read_change(kind, &mut rest).ok_or_else(unreadable)?;
            let change = match change {
                UntypedChange::Insert { fixed, tail } => {
                    RowChange::Inserted { fixed: fixed.to_vec(), tail: tail.to_vec() }
                }
                UntypedChange::Update { key, changes, tail } => RowChange::Updated {
                    key: key.to_vec(),
                    parts: changes.map(|(offset, bytes)| (offset, bytes.to_vec())).collect(),
                    tail: tail.map(<[u8]>::to_vec),
                },
                UntypedChange::Delete { key } => RowChange::Deleted { key: key.to_vec() },
            };
            rows.push(ChangedRow { table: Arc::clone(table), change });
        }
        Ok(())
    }

    /// Learns all tables that the directory knows, or knew when checkpoints ended that the stream
    /// is behind.
    fn describe<P: Platform>(&mut self, c: P::Core, durable: &Durable<P>) -> Result<(), ChangesError> {
        for extra in durable.journal.descriptions(c)? {
            let described = Description::decode_all(&extra).map_err(|_| unreadable())?;
            for table in described.into_iter().flat_map(|description| description.tables) {
                let layout = Layout::of(&table.table);
                let described = Arc::new(ChangedTable { id: table.id, description: table.table });
                self.tables.entry(table.id).or_insert(KnownTable { table: described, layout });
            }
        }
        Ok(())
    }
}
