//! Declares a database (limits, scheme, tables) and opens it.
// The counter of database identifiers belongs to the library, not to the engine.
#![allow(clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use boundary::{DurableOptions, Progress as OpenProgress, Recovered, SchemaBuilder};
use concurrency::InstanceOptions;
use pages::{PagedLogOptions, PagedOptions};
use platform::{Hardware, Place};
use schema::{Row, TableDescription};
use terms::Faults;

use crate::database::{Database, Scheme};
use crate::error::{Error, Result};
use crate::event::{Event, EventReporter, Listener, SLOW_DEFAULT};
use crate::plans::{Plans, TableForm, check_ordered};
use crate::shared::{Limits, OpenedDatabase};
use crate::table::{Table, TableOptions};

/// Default of [`Builder::memory_limit`]: 1 GiB.
pub const MEMORY_LIMIT_DEFAULT: u64 = 1 << 30;
/// Default of [`Builder::sessions`].
pub const SESSIONS_DEFAULT: usize = 64;
/// Maximum of [`Builder::sessions`].
pub const SESSIONS_MAX: usize = 1 << 14;
/// Default of [`Builder::spare_tables`].
pub const SPARE_TABLES_DEFAULT: usize = 1 << 12;
/// Maximum of [`Builder::spare_tables`].
pub const SPARE_TABLES_MAX: usize = 1 << 15;
/// Default of [`Builder::retained_changes`]: 1 GiB.
pub const RETAINED_CHANGES_DEFAULT: u64 = 1 << 30;
/// Most pages of a database (32 GiB), unless its pool allows more.
const PAGES_MAX: u64 = 1 << 22;
/// Length of an epoch: memory of deleted rows is reused after an epoch at the earliest.
pub(crate) const EPOCH_NANOS: u64 = 1_000_000;

/// Next identifier of a database within this process.
static DATABASES: AtomicU64 = AtomicU64::new(1);

/// Declares a database: its limits, scheme and tables. [`Database::in_memory`] and [`Database::at`]
/// return a builder.
///
/// ```
/// use isles::{Database, Row, Scheme, TableOptions};
///
/// #[derive(Row)]
/// #[row(key(id))]
/// struct Account { id: u64, balance: i64 }
///
/// let mut builder = Database::in_memory().memory_limit(64 << 20).sessions(8).scheme(Scheme::NoWait);
/// let accounts = builder.table::<Account>("accounts");
/// let drafts = builder.table_with::<Account>("drafts", TableOptions::new().hash(Account::KEY));
/// let database = builder.open()?;
/// assert_eq!(database.scheme(), Scheme::NoWait);
/// # let _ = (accounts, drafts);
/// # Ok::<(), isles::Error>(())
/// ```
pub struct Builder {
    memory_bytes_max: u64,
    /// `Some` if rows lie in pages.
    pool_bytes: Option<u64>,
    /// Faults planted for tests.
    faults: Faults,
    sessions_max: usize,
    spare_tables: usize,
    latencies: bool,
    scheme: Scheme,
    retained_changes: u64,
    schema: SchemaBuilder,
    dropped: Vec<String>,
    /// Error of the first invalid declaration.
    failed: Option<Error>,
    id: u64,
    /// The directory, if the database is durable.
    pub(crate) path: Option<PathBuf>,
    listener: Option<Box<dyn FnMut(OpenProgress)>>,
    on_event: Option<Box<Listener>>,
    slow_after: Duration,
}

impl Builder {
    fn new(path: Option<PathBuf>) -> Self {
        let id = new_id();
        Builder {
            memory_bytes_max: MEMORY_LIMIT_DEFAULT,
            pool_bytes: None,
            faults: Faults::NONE,
            sessions_max: SESSIONS_DEFAULT,
            spare_tables: SPARE_TABLES_DEFAULT,
            latencies: false,
            scheme: Scheme::default(),
            retained_changes: RETAINED_CHANGES_DEFAULT,
            schema: SchemaBuilder::new(),
            dropped: Vec::new(),
            failed: None,
            id,
            path,
            listener: None,
            on_event: None,
            slow_after: SLOW_DEFAULT,
        }
    }

    /// Limits the bytes of rows and indexes; the default is [`MEMORY_LIMIT_DEFAULT`]. A transaction
    /// that needs more gets [`Error::OutOfMemory`], and the database stays usable.
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Limits the number of sessions that exist at the same time, 1 to [`SESSIONS_MAX`]; the
    /// default is [`SESSIONS_DEFAULT`].
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions;
        self
    }

    /// Limits the bytes of superseded log that stay for readers of changes
    /// ([`Database::changes`]); the default is [`RETAINED_CHANGES_DEFAULT`]. A reader that is
    /// further behind gets [`Error::ChangesLost`]. Without readers nothing stays.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("isles-doc-retained-{}", std::process::id()));
    /// let database = isles::Database::at(&path).retained_changes(16 << 20).open()?;
    /// # drop(database);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn retained_changes(mut self, bytes: u64) -> Self {
        self.retained_changes = bytes;
        self
    }

    /// Reserves places for tables that [`Database::create_table`], [`Database::change_table`] and
    /// transactions create while the database is open: up to [`SPARE_TABLES_MAX`], by default
    /// [`SPARE_TABLES_DEFAULT`]. A place takes a few bytes as long as it is empty. The place of a
    /// dropped table is not reused before the database is opened again. With 0 places, tables
    /// cannot be dropped or changed either while the database is open.
    ///
    /// ```
    /// use isles::{Database, Error, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Visit { id: u64, page: u32 }
    ///
    /// let database = Database::in_memory().spare_tables(1).open()?;
    /// database.create_table::<Visit>("monday")?;
    /// assert!(matches!(database.create_table::<Visit>("tuesday"), Err(Error::Declaration { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn spare_tables(mut self, tables: usize) -> Self {
        self.spare_tables = tables;
        self
    }

    /// Stores rows in the pages of a file, with a buffer pool of `pool_bytes` in memory, so that
    /// the database may be larger than memory. The choice between pages and memory is fixed when
    /// the directory is created.
    ///
    /// Transactions then use two-phase locking, and [`Self::scheme`] and [`Self::memory_limit`]
    /// have no effect: a transaction that reads a row waits for a transaction that changes the row.
    /// There are no snapshots ([`Error::NoSnapshots`]), and tables cannot be dropped or changed.
    /// The pool needs at least 64 KiB for each session. [`Self::open`] requires a directory.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row, Debug, PartialEq)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// # let path = std::env::temp_dir().join(format!("isles-doc-pages-{}", std::process::id()));
    /// let mut builder = Database::at(&path).pages(64 << 20);
    /// let accounts = builder.table::<Account>("accounts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// assert_eq!(database.transaction(|t| t.get(accounts, &1))?, Some(Account { id: 1, balance: 5 }));
    /// # drop(database);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn pages(mut self, pool_bytes: u64) -> Self {
        self.pool_bytes = Some(pool_bytes);
        self
    }

    /// Plants faults in the engine. Tests use this method to prove that checkers find
    /// them.
    #[doc(hidden)]
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Sets the concurrency control; the default is [`Scheme::Silo`]. All schemes except `Silo`,
    /// `Mvcc` and `NoWait` need the feature `all-schemes`.
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Sets a listener for the progress of recovery. [`Self::open`] calls the listener several
    /// times a second, on the calling thread, while it recovers a large database. An empty
    /// directory or a database in memory reports no progress.
    ///
    /// ```
    /// use isles::Database;
    ///
    /// let path = std::env::temp_dir().join(format!("isles-progress-{}", std::process::id()));
    /// let builder = Database::at(&path);
    /// let database = builder.on_progress(|at| eprintln!("{:?}: {} of {}", at.stage, at.done, at.total)).open()?;
    /// # drop(database);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn on_progress(mut self, listener: impl FnMut(OpenProgress) + 'static) -> Self {
        self.listener = Some(Box::new(listener));
        self
    }

    /// Sets a listener for events that a program may want to log: recovery, slow transactions,
    /// checkpoints, a log that has stopped. The thread that causes the event calls the listener,
    /// outside of any transaction. Without a listener the library measures no durations for it.
    ///
    /// The library has no logging of its own. A listener can forward events to `log` or a counter;
    /// with the feature `tracing`, `trace_event` forwards them to that crate.
    ///
    /// ```
    /// use isles::{Database, Event};
    /// use std::time::Duration;
    ///
    /// let (sender, events) = std::sync::mpsc::channel();
    /// let database = Database::in_memory()
    ///     .slow_after(Duration::from_millis(5))
    ///     .on_event(move |event| {
    ///         // tracing::warn!(?event) would do the same.
    ///         let _ = sender.send(event.clone());
    ///     })
    ///     .open()?;
    /// database.transaction(|_| Ok(()))?;
    /// database.transaction(|_| Ok(std::thread::sleep(Duration::from_millis(6))))?;
    /// let Ok(Event::SlowTransaction { took, attempts: 1, committed: true, .. }) = events.try_recv() else { panic!() };
    /// assert!(took >= Duration::from_millis(6));
    /// assert!(events.try_recv().is_err(), "the other transaction was not slow");
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn on_event(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Box::new(listener));
        self
    }

    /// Sets the duration from which on a transaction is slow. The listener of [`Self::on_event`]
    /// receives an event for each slow transaction. The default is [`SLOW_DEFAULT`].
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn slow_after(mut self, time: Duration) -> Self {
        self.slow_after = time;
        self
    }

    /// Enables a histogram of the durations of transactions in [`Database::statistics`]; it is
    /// disabled by default. It costs two readings of the clock for each transaction, about 40 ns
    /// together, and 3 KiB for each session. [`Latencies::count`](crate::Latencies::count) has an
    /// example.
    #[must_use]
    pub fn latencies(mut self, counted: bool) -> Self {
        self.latencies = counted;
        self
    }

    /// Declares a table with ordered indexes. [`Self::open`] reports invalid declarations, for
    /// example a name that is taken or rows that are too long.
    ///
    /// [`Builder`] has an example.
    pub fn table<R: Row>(&mut self, name: &str) -> Table<R> {
        self.table_with(name, TableOptions::new())
    }

    /// Declares a table with options; otherwise as [`Self::table`].
    ///
    /// [`Builder`] has an example.
    pub fn table_with<R: Row>(&mut self, name: &str, options: TableOptions<R>) -> Table<R> {
        let options = options.into_engine();
        let declared = self.schema.declare_rows(name, &options).map_err(Error::from).and_then(|table| {
            let description = self.schema.descriptions().last();
            description.map_or(Ok(table), |declared| check_ordered(declared, &options.kinds).map(|()| table))
        });
        let inner = declared.unwrap_or_else(|error| {
            self.failed.get_or_insert(error);
            schema::Table::new(0)
        });
        Table { inner, database: self.id }
    }

    /// The directory, if the database is durable.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// True if a table of this name is declared or dropped.
    pub(crate) fn has_table(&self, name: &str) -> bool {
        let mut declared = self.schema.descriptions();
        declared.any(|table| table.name() == name) || self.dropped.iter().any(|dropped| dropped == name)
    }

    /// Declares a table by its description, with ordered indexes. Verbs without a row type use it
    /// by its name ([`crate::Transaction::insert_columns`] has an example).
    pub fn described_table(&mut self, table: TableDescription) {
        self.declare(table);
    }

    /// Returns true if a column of a declared table gets numbers of a sequence.
    pub(crate) fn has_identities(&self) -> bool {
        self.schema.descriptions().any(|table| !table.constraints().identities.is_empty())
    }

    /// Declares a table without a row type.
    pub(crate) fn declare(&mut self, table: TableDescription) {
        if let Err(error) = self.schema.declare(table, &schema::TableOptions::default()) {
            self.failed.get_or_insert(error.into());
        }
    }

    /// Drops a table: if the directory has a table of this name, [`Self::open`] removes the table
    /// with its rows. Otherwise nothing happens, so that a program can keep the call. A table
    /// declared under the same name in a later opening is a new, empty table.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// #[derive(Row)]
    /// #[row(key(id), index(by_balance(balance)))] // indexes may be others than before
    /// struct Indexed { id: u64, balance: i64 }
    ///
    /// # let path = std::env::temp_dir().join(format!("isles-doc-drop-{}", std::process::id()));
    /// let mut builder = Database::at(&path);
    /// let accounts = builder.table::<Account>("accounts");
    /// let drafts = builder.table::<Account>("drafts");
    /// let database = builder.open()?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// drop(database);
    ///
    /// let mut builder = Database::at(&path);
    /// builder.table::<Account>("accounts");
    /// assert!(builder.open().is_err(), "what becomes of the drafts?");
    ///
    /// let mut builder = Database::at(&path);
    /// let accounts = builder.table::<Indexed>("accounts");
    /// builder.drop_table("drafts");
    /// let database = builder.open()?;
    /// assert!(database.transaction(|t| t.exists(accounts.by(Indexed::BY_BALANCE), &(5, 1)))?);
    /// # drop(database);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn drop_table(&mut self, name: &str) {
        self.dropped.push(name.to_owned());
        self.schema.drop_table(name);
    }

    /// Creates an empty database, or opens the database in the directory. Tables are identified by
    /// their names. The program has to declare each table of the directory with the same rows, or
    /// to [drop](Self::drop_table) it. The program may declare further tables, and other indexes
    /// than before: every opening builds the indexes from the rows.
    ///
    /// Errors: [`Error::Declaration`] for the first table that cannot be created, or that is both
    /// declared and dropped; [`Error::Misuse`] for a number of sessions or spare tables that is out
    /// of range; [`Error::NotCompiled`] for a scheme that needs the feature `all-schemes`;
    /// [`Error::OutOfMemory`] if the tables do not fit into the memory limit; [`Error::Open`] for a
    /// directory that holds other tables or no database, is in use, or is damaged. After an error
    /// the directory is unchanged.
    ///
    /// [`Builder`] has an example.
    pub fn open(mut self) -> Result<Database> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.declare_sequences();
        if let Some(table) = self
            .schema
            .descriptions()
            .map(TableDescription::name)
            .find(|name| self.dropped.iter().any(|other| other == name))
        {
            let reason =
                "it is dropped too: do one of them, or drop it in an opening of its own before".into();
            return Err(Error::Declaration { table: table.to_owned(), reason });
        }
        if !(1..=SESSIONS_MAX).contains(&self.sessions_max) {
            return Err(Error::Misuse("a database is opened for 1 to 16384 sessions"));
        }
        if self.pool_bytes.is_none() {
            check_compiled(self.scheme)?;
        }
        if self.spare_tables > SPARE_TABLES_MAX {
            return Err(Error::Misuse("a database is opened with room for up to 32768 further tables"));
        }
        let forms: Vec<_> = self.schema.descriptions().enumerate().map(TableForm::of).collect();
        let plans = Plans::of(&forms, self.faults)?;
        let (memory_bytes, sessions) = (self.memory_bytes_max, self.sessions_max);
        let latencies = self.latencies;
        // The engine over pages cannot create tables while the database is open.
        let spare_tables = if self.pool_bytes.is_some() { 0 } else { self.spare_tables };
        let limits = Limits { memory_bytes, sessions, spare_tables, latencies };
        let options = InstanceOptions {
            sessions_max: self.sessions_max,
            memory_bytes_max: self.memory_bytes_max,
            epoch_nanos: EPOCH_NANOS,
            lock_queues: true,
            spare_tables,
            faults: self.faults,
            ..InstanceOptions::default()
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let places = vec![Place { thread: None }; threads];
        let durable = self.path.map(|path| {
            let mut durable = DurableOptions { places, ..DurableOptions::new(path) };
            durable.log.retained_bytes = self.retained_changes;
            durable
        });
        let mut listener = self.listener;
        let listener = listener.as_mut().map(|listener| &mut **listener as &mut dyn FnMut(OpenProgress));
        let (c, schema, nowhere) = (Hardware::core(), self.schema, |_| None);
        if self.pool_bytes.is_some() && !self.dropped.is_empty() {
            return Err(Error::Misuse("tables of a database whose rows lie in pages cannot be dropped"));
        }
        let (made, found) = match (&durable, self.pool_bytes) {
            (Some(durable), Some(pool_bytes)) => {
                let options = options_of_pages(pool_bytes, self.sessions_max, &durable.path);
                let options = PagedOptions { faults: self.faults, ..options };
                engine_native::open_paged(c, &options, schema, listener)?
            }
            (None, Some(_)) => {
                return Err(Error::Misuse("rows in pages need a directory: begin with `Database::at`"));
            }
            (None, None) => {
                let made = engine_native::create(self.scheme, c, &options, schema, &nowhere)?;
                (made, Recovered::default())
            }
            (Some(durable), None) => {
                engine_native::open(self.scheme, c, &options, schema, &nowhere, durable, listener)?
            }
        };
        let reporter = self.on_event.map(|listener| EventReporter::new(listener, self.slow_after));
        if let Some(reporter) = &reporter {
            reporter.recovered(&found);
        }
        let path = durable.map(|durable| durable.path);
        let (scheme, faults) = (self.scheme, self.faults);
        let made = OpenedDatabase { inner: made, id: self.id, scheme, limits, faults };
        let database = Database::of(made, path, reporter);
        database.shared.plans.publish(plans)?;
        database.give_numbers();
        Ok(database)
    }
}

/// Options of a database over pages.
fn options_of_pages(pool_bytes: u64, sessions_max: usize, path: &Path) -> PagedOptions {
    let defaults = PagedOptions::with_pool(pool_bytes);
    PagedOptions {
        sessions_max,
        directory: Some(path.to_path_buf()),
        log: Some(PagedLogOptions::default()),
        pages_max: defaults.pages_max.max(PAGES_MAX),
        ..defaults
    }
}

/// Returns an error if the program is built without this scheme.
pub(crate) fn check_compiled(scheme: Scheme) -> Result<()> {
    if engine_native::is_compiled(scheme) {
        Ok(())
    } else {
        Err(Error::NotCompiled { scheme: scheme.name() })
    }
}

/// Returns an identifier that no other database of the process has.
pub(crate) fn new_id() -> u64 {
    // Relaxed: only the numbers matter.
    DATABASES.fetch_add(1, Ordering::Relaxed)
}

impl Database {
    /// Declares a database in memory. All rows are lost when the process ends.
    ///
    /// [`Database`] has an example.
    pub fn in_memory() -> Builder {
        Builder::new(None)
    }

    /// Declares a durable database in a directory, which [`Builder::open`] creates if it does not
    /// exist. Rows are in memory. Every transaction is on disk when the call that ran it returns,
    /// so that it survives a loss of power. One process at a time can have the database open.
    /// [`Builder::open`] describes which changes of tables are allowed from one opening to the
    /// next.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row, Clone, Debug, PartialEq)]
    /// #[row(key(id))]
    /// struct Account {
    ///     id: u64,
    ///     balance: i64,
    /// }
    ///
    /// # let path = std::env::temp_dir().join(format!("isles-doc-{}", std::process::id()));
    /// let open = || {
    ///     let mut builder = Database::at(&path);
    ///     let accounts = builder.table::<Account>("accounts");
    ///     builder.open().map(|database| (database, accounts))
    /// };
    /// let (database, accounts) = open()?;
    /// database.transaction(|transaction| transaction.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// drop(database); // or the end of the process, or of the power
    /// let (database, accounts) = open()?;
    /// let account = database.transaction(|transaction| transaction.get(accounts, &1))?;
    /// assert_eq!(account, Some(Account { id: 1, balance: 5 }));
    /// # drop(database);
    /// # let _ = std::fs::remove_dir_all(&path);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn at(path: impl Into<PathBuf>) -> Builder {
        Builder::new(Some(path.into()))
    }
}
