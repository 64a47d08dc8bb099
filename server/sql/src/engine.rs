//! State that all sessions share: the database, its schema, and the sessions that run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use isles::{
    CancelToken, ColumnDescription, Database, Datum, Scheme, TableBuilder, TableDescription, ValueType,
};

use crate::error::{Result, SqlError, state};
use crate::schema::{Schema, SideText, TEXTS, sql_name};
use crate::shared_schema::SharedSchema;

/// Tables that can be made before the next opening.
const SPARE_TABLES: usize = 8192;

/// Options of an opening.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Most sessions.
    pub sessions: usize,
    /// Most bytes of rows in memory.
    pub memory_bytes: Option<u64>,
    /// The name of the database.
    pub database_name: String,
}

/// State that all sessions share.
pub struct Engine {
    /// The database.
    pub database: Database,
    /// The name of the database.
    pub database_name: String,
    /// The tables that all sessions see.
    pub schema: Arc<SharedSchema>,
    /// Values of settings in new sessions.
    defaults: RwLock<Arc<Vec<(String, String)>>>,
    sessions: Mutex<BTreeMap<i32, Running>>,
    next_process: AtomicI32,
}

/// A session that another connection may cancel.
struct Running {
    secret: i32,
    cancel: CancelToken,
    busy: Arc<AtomicBool>,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the table with the texts that descriptions have no place for.
pub fn table_of_texts() -> Result<TableDescription> {
    let text = |name: &str| ColumnDescription::new(name, ValueType::String);
    let table = TableBuilder::new(TEXTS)
        .column(ColumnDescription::new("id", ValueType::Signed(8)))
        .column(text("kind"))
        .column(text("object"))
        .column(text("part"))
        .column(text("body"))
        .key(["id"])
        .build();
    table.map_err(|error| SqlError::new(state::INTERNAL, error.to_string()))
}

impl Engine {
    /// Opens the database in a directory, or one in memory.
    pub fn open(path: Option<&Path>, options: &EngineOptions) -> Result<Arc<Engine>> {
        let mut builder = match path {
            Some(path) => Database::at(path),
            None => Database::in_memory(),
        };
        builder = builder.scheme(Scheme::DlDetect).sessions(options.sessions).spare_tables(SPARE_TABLES);
        if let Some(bytes) = options.memory_bytes {
            builder = builder.memory_limit(bytes);
        }
        builder.sequences();
        let names = match path {
            Some(_) => builder.tables_of_directory()?,
            None => Vec::new(),
        };
        if !names.iter().any(|name| name == TEXTS) {
            builder.described_table(table_of_texts()?);
        }
        let database = builder.open()?;
        drop_unfinished(&database)?;
        let texts = read_texts(&database)?;
        let tables: Vec<_> = database.tables().into_iter().cloned().collect();
        let schema = Schema::of(&tables, texts, 1);
        Ok(Arc::new(Engine {
            database,
            database_name: options.database_name.clone(),
            schema: SharedSchema::new(schema),
            defaults: RwLock::default(),
            sessions: Mutex::default(),
            next_process: AtomicI32::new(1),
        }))
    }

    /// Returns the values of settings in new sessions, beside those that every server has.
    pub fn defaults(&self) -> Arc<Vec<(String, String)>> {
        Arc::clone(&self.defaults.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives new sessions these values of settings.
    pub fn set_defaults(&self, defaults: Vec<(String, String)>) {
        *self.defaults.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(defaults);
    }

    /// Registers a session; returns its number.
    pub fn register(&self, secret: i32, busy: Arc<AtomicBool>) -> i32 {
        let process = self.next_process.fetch_add(1, Ordering::Relaxed);
        held(&self.sessions).insert(process, Running { secret, cancel: CancelToken::new(), busy });
        process
    }

    /// Says which token cancels the session's statement.
    pub fn set_cancel(&self, process: i32, cancel: &CancelToken) {
        if let Some(running) = held(&self.sessions).get_mut(&process) {
            running.cancel = cancel.clone();
        }
    }

    /// Forgets a session.
    pub fn unregister(&self, process: i32) {
        held(&self.sessions).remove(&process);
    }

    /// Cancels the statement that a session runs.
    pub fn cancel(&self, process: i32, secret: i32) {
        let sessions = held(&self.sessions);
        let running = sessions.get(&process).filter(|running| running.secret == secret);
        if let Some(running) = running.filter(|running| running.busy.load(Ordering::Acquire)) {
            running.cancel.cancel();
        }
    }

    /// Cancels all statements, for the end of the server.
    pub fn cancel_all(&self) {
        held(&self.sessions).values().for_each(|running| running.cancel.cancel());
    }

    /// Returns the numbers of all sessions.
    pub fn processes(&self) -> Vec<i32> {
        held(&self.sessions).keys().copied().collect()
    }
}

/// Drops tables that a crash has left beside those that they were to replace.
fn drop_unfinished(database: &Database) -> Result<()> {
    let names: Vec<_> = database.tables().iter().map(|table| table.name().to_owned()).collect();
    for name in &names {
        // The older table is whole as long as it is there.
        let is_older =
            |other: &&String| sql_name(other) == sql_name(name) && generation(other) < generation(name);
        if names.iter().any(|other| is_older(&other)) {
            database.drop_table(name)?;
        }
    }
    Ok(())
}

/// Returns the number behind the name of a table that was made anew.
pub fn generation(engine_table: &str) -> u64 {
    engine_table.split_once('#').and_then(|(_, number)| number.parse().ok()).unwrap_or(0)
}

fn read_texts(database: &Database) -> Result<Vec<SideText>> {
    let rows = database.transaction(|t| t.scan_dynamic(TEXTS))?;
    let text = |value: &Datum| if let Datum::Text(text) = value { text.clone() } else { String::new() };
    let texts = rows.iter().map(|row| SideText {
        id: if let Datum::Signed(id) = row[0] { id } else { 0 },
        kind: text(&row[1]),
        object: text(&row[2]),
        part: text(&row[3]),
        body: text(&row[4]),
    });
    Ok(texts.collect())
}
