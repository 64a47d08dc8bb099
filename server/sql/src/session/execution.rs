//! Executions of statements.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use isles::Datum;
use sqlparser::ast::Statement;

use crate::bind::ModifyPlan;
use crate::error::{Result, SqlError, state};
use crate::exec::{Exec, Node};
use crate::schema::Table;
use crate::session::{Block, Completion, Cursor, Portal, Prepared, Progress, RowSink, Session, Work};

/// Most attempts of a statement that conflicts.
pub(super) const ATTEMPTS_MAX: u32 = 10_000;
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(4);

impl Session {
    /// Executes a portal, or goes on with it. `limit`: rows at most.
    pub fn run(
        &mut self,
        portal: &mut Portal,
        limit: Option<usize>,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        self.check_block(&portal.prepared)?;
        if matches!(portal.progress, Progress::Open(_)) {
            self.check_open(&portal.prepared)?;
        }
        let prepared = Arc::clone(&portal.prepared);
        match &prepared.work {
            Work::Empty => Ok(Completion::Empty),
            Work::Nothing(tag) => Ok(Completion::Complete((*tag).to_owned())),
            Work::Utility(statement) => {
                if matches!(portal.progress, Progress::New) {
                    portal.progress = match self.utility(statement, &portal.params)? {
                        super::statements::Outcome::Tag(tag) => Progress::Rows(Vec::new().into_iter(), tag),
                        super::statements::Outcome::Rows(rows, tag) => Progress::Rows(rows.into_iter(), tag),
                        super::statements::Outcome::CopyIn(columns, binary) => {
                            portal.progress = Progress::Done;
                            return Ok(Completion::CopyIn(columns, binary));
                        }
                        super::statements::Outcome::CopyOut(columns, binary) => {
                            portal.progress = Progress::Done;
                            return Ok(Completion::CopyOut(columns, binary));
                        }
                    };
                }
                self.send(portal, limit, sink)
            }
            Work::Query(_) | Work::Modify(_) => self.attempt(portal, limit, sink),
        }
    }

    /// Refuses statements in a block that has failed.
    fn check_block(&self, prepared: &Prepared) -> Result<()> {
        if self.block != Block::Failed {
            return Ok(());
        }
        let ends = match &prepared.work {
            Work::Utility(statement) => {
                matches!(**statement, Statement::Commit { .. } | Statement::Rollback { .. })
            }
            _ => false,
        };
        if ends {
            return Ok(());
        }
        Err(failed_block())
    }

    /// Binds a statement again whose tables have changed.
    fn renew(&mut self, portal: &mut Portal) -> Result<()> {
        let is_plan = matches!(portal.prepared.work, Work::Query(_) | Work::Modify(_));
        if !is_plan {
            return Ok(());
        }
        // From here on tables stay as they are.
        self.begin_engine()?;
        self.see_schema();
        if portal.prepared.version == self.context.schema.version {
            return Ok(());
        }
        let renewed = self.prepare(portal.prepared.parsed.clone(), &portal.prepared.params)?;
        let kinds = |prepared: &Prepared| {
            prepared.columns.iter().map(|column| column.kind.clone()).collect::<Vec<_>>()
        };
        if kinds(&renewed) != kinds(&portal.prepared) {
            return Err(SqlError::new(state::NOT_SUPPORTED, "cached plan must not change result type"));
        }
        portal.prepared = std::sync::Arc::new(renewed);
        Ok(())
    }

    /// Refuses to go on with a query whose tables have changed since it began.
    fn check_open(&mut self, prepared: &Prepared) -> Result<()> {
        self.see_schema();
        let schema = &self.context.schema;
        let is_there =
            |table: &Arc<Table>| schema.tables.get(&table.name).is_some_and(|now| now.is_like(table));
        if prepared.version == schema.version || prepared.tables.iter().all(is_there) {
            return Ok(());
        }
        Err(SqlError::new(state::IN_USE, "a table of the open query was changed in this transaction"))
    }

    /// Executes a plan, again after conflicts as long as nothing was sent and it is the first
    /// statement of its transaction.
    fn attempt(
        &mut self,
        portal: &mut Portal,
        limit: Option<usize>,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let is_new = matches!(portal.progress, Progress::New);
        for attempt in 1.. {
            self.begin_engine()?;
            if is_new {
                self.renew(portal)?;
            }
            let is_first = self.statements == 0 && self.savepoints.is_empty();
            self.statements += u64::from(is_new);
            let error = match self.step(portal, limit, sink) {
                Ok(completion) => return Ok(completion),
                Err(error) => error,
            };
            let again = error.is_conflict && is_new && is_first && attempt < ATTEMPTS_MAX && sink.restart();
            if !again {
                return Err(error);
            }
            self.abandon();
            portal.progress = Progress::New;
            self.pause(attempt);
        }
        Err(failed_block())
    }

    /// Waits before another attempt.
    pub(super) fn pause(&mut self, attempt: u32) {
        let most = PAUSE_MAX.as_nanos().min(20_000 << attempt.min(10)) as f64;
        let pause = most * self.context.random();
        std::thread::sleep(Duration::from_nanos(pause as u64));
    }

    fn step(
        &mut self,
        portal: &mut Portal,
        limit: Option<usize>,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let prepared = std::sync::Arc::clone(&portal.prepared);
        match &prepared.work {
            Work::Modify(plan) if matches!(portal.progress, Progress::New) => {
                if self.read_only {
                    let message = "cannot execute a change of rows in a read-only transaction";
                    return Err(SqlError::new(state::READ_ONLY, message));
                }
                let mut cursor = Cursor::new(&prepared, None);
                let changed = self.with_exec(&mut cursor, &portal.params, |_, x| plan.run(x))?;
                let tag = match plan {
                    ModifyPlan::Insert(_) => format!("INSERT 0 {}", changed.rows),
                    ModifyPlan::Update(..) => format!("UPDATE {}", changed.rows),
                    ModifyPlan::Delete(_) => format!("DELETE {}", changed.rows),
                };
                portal.progress = Progress::Rows(changed.returned.into_iter(), tag);
                self.send(portal, limit, sink)
            }
            Work::Query(plan) if matches!(portal.progress, Progress::New | Progress::Open(_)) => {
                let mut cursor = match std::mem::replace(&mut portal.progress, Progress::Done) {
                    Progress::Open(cursor) => *cursor,
                    _ => Cursor::new(&prepared, Some(plan)),
                };
                let mut sent = 0_usize;
                let is_done = self.with_exec(&mut cursor, &portal.params, |node, x| {
                    while limit.is_none_or(|limit| sent < limit) {
                        let Some(row) = node.next(plan, x)? else { return Ok(true) };
                        sink.row(&row, &prepared.columns, x.context)?;
                        sent += 1;
                        x.check()?;
                    }
                    Ok(false)
                })?;
                if is_done {
                    return Ok(Completion::Complete(format!("SELECT {sent}")));
                }
                portal.progress = Progress::Open(Box::new(cursor));
                Ok(Completion::Suspended)
            }
            _ => self.send(portal, limit, sink),
        }
    }

    /// Runs a part of a plan.
    fn with_exec<T>(
        &mut self,
        cursor: &mut Cursor,
        params: &[Datum],
        body: impl FnOnce(&mut Node, &mut Exec<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let Some(transaction) = &mut self.transaction else { return Err(failed_block()) };
        let mut verbs = transaction.verbs();
        let mut x = Exec {
            transaction: &mut verbs,
            params,
            slots: &mut cursor.slots,
            context: &mut self.context,
            common: &mut cursor.common,
            held: cursor.held,
            unchecked: 0,
        };
        let done = body(&mut cursor.node, &mut x);
        cursor.held = x.held;
        done
    }

    /// Sends rows that were made at once.
    fn send(
        &mut self,
        portal: &mut Portal,
        limit: Option<usize>,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        let Progress::Rows(rows, tag) = &mut portal.progress else {
            return Ok(Completion::Complete(format!("SELECT {}", 0)));
        };
        for row in rows.by_ref().take(limit.unwrap_or(usize::MAX)) {
            sink.row(&row, &portal.prepared.columns, &self.context)?;
        }
        if rows.len() > 0 {
            return Ok(Completion::Suspended);
        }
        let tag = std::mem::take(tag);
        portal.progress = Progress::Done;
        Ok(Completion::Complete(tag))
    }

    /// Runs a part of a statement within the transaction of the engine.
    pub(crate) fn within<T>(&mut self, body: impl FnOnce(&mut Exec<'_, '_>) -> Result<T>) -> Result<T> {
        self.begin_engine()?;
        self.statements += 1;
        let mut cursor =
            Cursor { node: Node::Values(0), slots: Vec::new(), common: BTreeMap::new(), held: 0 };
        self.with_exec(&mut cursor, &[], |_, x| body(x))
    }
}

impl Cursor {
    fn new(prepared: &Prepared, plan: Option<&crate::plan::Plan>) -> Cursor {
        let node = plan.map_or(Node::Values(0), Node::new);
        Cursor { node, slots: vec![Datum::Null; prepared.slots], common: BTreeMap::new(), held: 0 }
    }
}

/// The error of a statement in a block that has failed.
fn failed_block() -> SqlError {
    SqlError::new(
        state::FAILED_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
