//! Sessions: transactions, prepared statements, portals.

mod blocks;
mod execution;
mod passwords;
mod settings;
mod statements;

pub use passwords::set_password;
pub use statements::Outcome;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isles::{CancelToken, Datum, OwnedTransaction, Savepoint};
use sqlparser::ast::Statement;

use crate::bind::{Binder, ModifyPlan, OutputColumn};
use crate::context::{Context, Settings};
use crate::engine::Engine;
use crate::error::{Result, SqlError, state};
use crate::exec::{Node, Row};
use crate::parse::Parsed;
use crate::plan::Plan;
use crate::schema::{Schema, Table};
use crate::types::SqlType;

/// Plans that a session keeps by the texts of their statements.
const PLANS_MAX: usize = 256;

/// State of the block that `BEGIN` begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// There is none: a statement, or several that are sent together, are a transaction.
    None,
    /// It is open.
    Open,
    /// A statement has failed: only its end is accepted.
    Failed,
}

/// Receives rows.
pub trait RowSink {
    /// Receives a row of a result.
    fn row(&mut self, row: &[Datum], columns: &[OutputColumn], context: &Context) -> Result<()>;

    /// Forgets what was received since the statement began. Returns false if something was passed
    /// on already: the statement cannot be tried again then.
    fn restart(&mut self) -> bool;
}

/// The bound form of a statement.
#[derive(Debug)]
pub enum Work {
    /// No statement.
    Empty,
    /// A query.
    Query(Plan),
    /// A change of rows: `INSERT`, `UPDATE`, `DELETE`.
    Modify(ModifyPlan),
    /// A statement that is executed as it is written.
    Utility(Box<Statement>),
    /// A statement that does nothing, with its tag.
    Nothing(&'static str),
}

/// A statement that can be executed.
#[derive(Debug)]
pub struct Prepared {
    parsed: Option<Parsed>,
    /// Its plan, or the statement itself.
    pub work: Work,
    /// The types of its parameters.
    pub params: Vec<SqlType>,
    /// The columns of its result; none if it has no rows.
    pub columns: Vec<OutputColumn>,
    /// True if it has rows.
    pub has_rows: bool,
    slots: usize,
    version: u64,
    /// The tables that it was bound to.
    tables: Vec<Arc<Table>>,
}

/// An execution of a statement.
pub struct Portal {
    /// The statement.
    pub prepared: Arc<Prepared>,
    params: Vec<Datum>,
    progress: Progress,
    /// True for a cursor WITH HOLD, which outlives its transaction.
    is_held: bool,
}

/// Progress of a portal.
enum Progress {
    New,
    Open(Box<Cursor>),
    /// Rows that were made at once, and the tag at their end.
    Rows(std::vec::IntoIter<Row>, String),
    Done,
}

struct Cursor {
    node: Node,
    slots: Vec<Datum>,
    common: BTreeMap<usize, Rc<Vec<Row>>>,
    held: usize,
}

/// The end of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion {
    /// The tag of the statement.
    Complete(String),
    /// There was no statement.
    Empty,
    /// There may be more rows.
    Suspended,
    /// Data are awaited: the number of columns, and whether they are binary.
    CopyIn(usize, bool),
    /// Data follow: the number of columns, and whether they are binary.
    CopyOut(usize, bool),
}

/// A session of a client.
pub struct Session {
    /// State that all sessions share.
    pub engine: Arc<Engine>,
    /// State that expressions see.
    pub context: Context,
    /// The block.
    pub block: Block,
    idle: Option<isles::Session>,
    transaction: Option<OwnedTransaction>,
    /// The tables as the transaction has changed them, if it has.
    altered: Option<Arc<Schema>>,
    /// Sequences of the engine that may be dropped when the transaction has ended.
    loose_sequences: Vec<String>,
    /// Savepoints, and the tables that the transaction had changed by then.
    savepoints: Vec<(String, Savepoint, Option<Arc<Schema>>)>,
    read_only: bool,
    /// Statements of the transaction so far: only the first one can be tried again by itself.
    statements: u64,
    /// Settings before the block, which come back if it fails.
    settings_before: Option<Settings>,
    cursors: BTreeMap<String, Portal>,
    prepared: BTreeMap<String, Arc<Prepared>>,
    plans: BTreeMap<String, Arc<Prepared>>,
    copy: Option<crate::copy::CopyIn>,
    copy_out: Option<crate::copy::CopyOut>,
    busy: Arc<AtomicBool>,
    /// The number that another connection needs to cancel a statement.
    pub secret: i32,
}

impl Session {
    /// Begins a session.
    pub fn new(engine: &Arc<Engine>, user: &str, database: &str, random: u64) -> Session {
        let secret = (random >> 32) as i32;
        let busy = Arc::new(AtomicBool::new(false));
        let process = engine.register(secret, Arc::clone(&busy));
        let mut settings = Settings::with_defaults(&engine.defaults());
        _ = settings.set("session_authorization", user);
        Session {
            context: Context {
                database: engine.database.clone(),
                schema: engine.schema.get(),
                shared: Arc::clone(&engine.schema),
                seen: 0,
                user: user.to_owned(),
                database_name: database.to_owned(),
                process,
                now: crate::context::moment(),
                settings,
                last_numbers: BTreeMap::new(),
                last_sequence: None,
                cancel: CancelToken::new(),
                sequences: BTreeMap::new(),
                pattern: None,
                random_state: random,
                notices: Vec::new(),
            },
            engine: Arc::clone(engine),
            block: Block::None,
            idle: None,
            transaction: None,
            altered: None,
            loose_sequences: Vec::new(),
            savepoints: Vec::new(),
            read_only: false,
            statements: 0,
            settings_before: None,
            cursors: BTreeMap::new(),
            prepared: BTreeMap::new(),
            plans: BTreeMap::new(),
            copy: None,
            copy_out: None,
            busy,
            secret,
        }
    }

    /// Says whether a statement runs, which another connection could cancel.
    pub fn set_busy(&mut self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    /// Returns the bound form of a statement of a text, which is kept for the next time.
    pub fn prepare_text(&mut self, text: &str, types: &[SqlType]) -> Result<Arc<Prepared>> {
        self.see_schema();
        if let Some(prepared) = self.plans.get(text).filter(|_| types.is_empty())
            && prepared.version == self.context.schema.version
        {
            return Ok(Arc::clone(prepared));
        }
        let mut parsed = crate::parse::statements(text)?;
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(state::SYNTAX, message));
        }
        let prepared = Arc::new(self.prepare(parsed.pop(), types)?);
        if types.is_empty() {
            if self.plans.len() >= PLANS_MAX {
                self.plans.clear();
            }
            self.plans.insert(text.to_owned(), Arc::clone(&prepared));
        }
        Ok(prepared)
    }

    /// Returns the bound form of a statement.
    pub fn prepare(&mut self, parsed: Option<Parsed>, types: &[SqlType]) -> Result<Prepared> {
        self.see_schema();
        let mut binder = Binder::new(Arc::clone(&self.context.schema), types.to_vec());
        let version = self.context.schema.version;
        let mut columns = Vec::new();
        let mut has_rows = false;
        let work = match &parsed {
            None => Work::Empty,
            Some(Parsed::Maintenance(tag)) => Work::Nothing(tag),
            Some(Parsed::Unsupported(what)) => return Err(SqlError::unsupported(what)),
            Some(Parsed::Statement(statement)) => match &**statement {
                Statement::Query(query) => {
                    let bound = binder.query(query, None)?;
                    (columns, has_rows) = (bound.columns, true);
                    Work::Query(bound.plan)
                }
                Statement::Insert(_) | Statement::Update(_) | Statement::Delete(_) => {
                    let (plan, returned) = match &**statement {
                        Statement::Insert(insert) => binder.insert(insert)?,
                        Statement::Update(update) => binder.update(update)?,
                        Statement::Delete(delete) => binder.delete(delete)?,
                        _ => return Err(SqlError::new(state::INTERNAL, "no change of rows")),
                    };
                    has_rows = !returned.is_empty();
                    columns = returned;
                    Work::Modify(plan)
                }
                utility => {
                    columns = self.utility_columns(utility)?;
                    has_rows = !columns.is_empty();
                    Work::Utility(statement.clone())
                }
            },
        };
        self.check_privileges(&binder.touched)?;
        // A parameter of which nothing is known is a text.
        let unknown = |kind: SqlType| if kind == SqlType::Unknown { SqlType::Text } else { kind };
        let params = binder.params.into_iter().map(unknown).collect();
        Ok(Prepared {
            parsed,
            work,
            params,
            columns,
            has_rows,
            slots: binder.slots,
            version,
            tables: binder.tables,
        })
    }

    /// Begins the execution of a statement.
    pub fn portal(&mut self, prepared: &Arc<Prepared>, params: Vec<Datum>) -> Result<Portal> {
        let (given, needed) = (params.len(), prepared.params.len());
        if given != needed {
            let message =
                format!("bind message supplies {given} parameters, but prepared statement requires {needed}");
            return Err(SqlError::new("08P01", message));
        }
        Ok(Portal { prepared: Arc::clone(prepared), params, progress: Progress::New, is_held: false })
    }

    /// Returns true if a transaction of the engine is open.
    pub fn has_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Returns the portal of a cursor, which clients may describe too.
    pub fn cursor_portal(&self, name: &str) -> Option<&Portal> {
        self.cursors.get(name)
    }

    /// Takes the notices that have come up.
    pub fn take_notices(&mut self) -> Vec<(&'static str, String)> {
        std::mem::take(&mut self.context.notices)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abandon();
        self.engine.unregister(self.context.process);
    }
}
