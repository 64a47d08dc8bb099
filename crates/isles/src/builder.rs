//! Options of a database: limits, scheme, tables; and its opening.
// The number that tells databases apart is no shared word of the engine.
#![allow(clippy::disallowed_types)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use boundary::{DurableOptions, Progress as OpenProgress, Recovered, SchemaBuilder};
use concurrency::InstanceOptions;
use pages::{PagedLogOptions, PagedOptions};
use platform::{Hardware, Place};
use schema::{Row, TableDescription};

use crate::database::{Database, Scheme};
use crate::error::{Error, Result};
use crate::event::{Event, Listener, SLOW_DEFAULT, Watcher};
use crate::shared::{Limits, Made};
use crate::table::{Table, TableOptions};

/// Bytes of rows and indexes that a database holds unless told otherwise.
pub const MEMORY_LIMIT_DEFAULT: u64 = 1 << 30;
/// Sessions at a time unless told otherwise.
pub const SESSIONS_DEFAULT: usize = 64;
/// Most sessions that a database can be opened for.
pub const SESSIONS_MAX: usize = 1 << 14;
/// Tables that can be created while a database is open, unless told otherwise.
pub const SPARE_TABLES_DEFAULT: usize = 64;
/// Most tables that can be created while a database is open.
pub const SPARE_TABLES_MAX: usize = 1 << 12;
/// Most pages of a database, where its pool allows no more: 32 GiB.
const PAGES_MAX: u64 = 1 << 22;
/// How long memory stays unused after a deletion, at least.
pub(crate) const EPOCH_NANOS: u64 = 1_000_000;

/// Tells the databases of a process apart.
static DATABASES: AtomicU64 = AtomicU64::new(1);

/// Declares a database: limits, scheme, tables. [`Database::in_memory`] and [`Database::at`] give a
/// builder.
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
    /// There if rows lie in pages.
    pool_bytes: Option<u64>,
    /// Rules that pages break, for tests.
    broken: pages::Broken,
    sessions_max: usize,
    spare_tables: usize,
    latencies: bool,
    scheme: Scheme,
    schema: SchemaBuilder,
    dropped: Vec<String>,
    /// The first declaration that was wrong.
    failed: Option<Error>,
    id: u64,
    /// The directory, if the database is durable.
    path: Option<PathBuf>,
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
            broken: pages::Broken::default(),
            sessions_max: SESSIONS_DEFAULT,
            spare_tables: SPARE_TABLES_DEFAULT,
            latencies: false,
            scheme: Scheme::default(),
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

    /// Most bytes of rows and indexes; [`MEMORY_LIMIT_DEFAULT`] unless set. A transaction that
    /// needs more gets [`Error::OutOfMemory`], and the database stays usable.
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Most sessions at a time, 1 to [`SESSIONS_MAX`]; [`SESSIONS_DEFAULT`] unless set.
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn sessions(mut self, sessions: usize) -> Self {
        self.sessions_max = sessions;
        self
    }

    /// How many tables [`Database::create_table`] and [`Database::change_table`] can make before
    /// the database is opened again, up to [`SPARE_TABLES_MAX`]; [`SPARE_TABLES_DEFAULT`] unless
    /// set. A place takes some hundred bytes, and is not given to another table when its own is
    /// dropped. Without any, tables cannot be dropped or changed either while the database is open.
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

    /// Has rows lie in the pages of a file, of which a pool of so many bytes is in memory, so that
    /// there may be more of them than memory takes. A directory has rows in pages or in memory for
    /// good.
    ///
    /// Transactions are under two-phase locking then, whatever [`Self::scheme`] and
    /// [`Self::memory_limit`] say: a transaction that reads a row waits for one that changes it.
    /// There are no snapshots ([`Error::NoSnapshots`]), tables cannot be dropped or changed, and
    /// the pool has 64 KiB for each session at least. [`Self::open`] needs a directory.
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

    /// For tests, which see so that checkers notice: rows in pages break these rules.
    #[doc(hidden)]
    #[must_use]
    pub fn breaking(mut self, rules: pages::Broken) -> Self {
        self.broken = rules;
        self
    }

    /// The concurrency control; [`Scheme::Silo`] unless set. Others than `Silo`, `Mvcc` and
    /// `NoWait` need the feature `all-schemes`.
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = scheme;
        self
    }

    /// Sets a listener, which [`Self::open`] calls some times a second with its progress when there
    /// is much to recover. The thread that opens the database calls the listener. There is no
    /// progress for an empty directory, or a database in memory.
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

    /// Sets a listener that hears of what a program may want to write down: recovery, slow
    /// transactions, copies of all rows, a log that has stopped. The thread that it happens to
    /// calls the listener, outside of any transaction. Without a listener nothing is measured for
    /// it.
    ///
    /// The library has no logging of its own: the listener is where `tracing`, `log` or a counter
    /// come in.
    ///
    /// ```
    /// use isles::{Database, Event};
    /// use std::time::Duration;
    ///
    /// let (tell, hear) = std::sync::mpsc::channel();
    /// let database = Database::in_memory()
    ///     .slow_after(Duration::from_millis(5))
    ///     .on_event(move |event| {
    ///         // tracing::warn!(?event) would do the same.
    ///         let _ = tell.send(event.clone());
    ///     })
    ///     .open()?;
    /// database.transaction(|_| Ok(()))?;
    /// database.transaction(|_| Ok(std::thread::sleep(Duration::from_millis(6))))?;
    /// let Ok(Event::SlowTransaction { took, attempts: 1, committed: true, .. }) = hear.try_recv() else { panic!() };
    /// assert!(took >= Duration::from_millis(6));
    /// assert!(hear.try_recv().is_err(), "the other was not slow");
    /// # Ok::<(), isles::Error>(())
    /// ```
    #[must_use]
    pub fn on_event(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Box::new(listener));
        self
    }

    /// How long a transaction takes that is slow: the listener of [`Self::on_event`] hears of those
    /// that take at least so long. [`SLOW_DEFAULT`] unless set.
    ///
    /// [`Builder`] has an example.
    #[must_use]
    pub fn slow_after(mut self, time: Duration) -> Self {
        self.slow_after = time;
        self
    }

    /// Counts how long transactions take, for [`Database::statistics`]; off unless set. The count
    /// costs two readings of the clock a transaction, some 40 ns together, and 3 KiB a session.
    /// [`Latencies::count`](crate::Latencies::count) has an example.
    #[must_use]
    pub fn latencies(mut self, counted: bool) -> Self {
        self.latencies = counted;
        self
    }

    /// Declares a table with ordered indexes. [`Self::open`] reports what is wrong with the table:
    /// a name that is taken, rows that are too long.
    ///
    /// [`Builder`] has an example.
    pub fn table<R: Row>(&mut self, name: &str) -> Table<R> {
        self.table_with(name, TableOptions::new())
    }

    /// Declares a table; see [`Self::table`].
    ///
    /// [`Builder`] has an example.
    pub fn table_with<R: Row>(&mut self, name: &str, options: TableOptions<R>) -> Table<R> {
        let inner = self.schema.declare_rows(name, &options.into_engine()).unwrap_or_else(|error| {
            self.failed.get_or_insert(error.into());
            schema::Table::new(0)
        });
        Table { inner, database: self.id }
    }

    /// The directory, if the database is durable.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// True if a table of this name is declared, or dropped.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let mut declared = self.schema.descriptions();
        declared.any(|table| table.name() == name) || self.dropped.iter().any(|dropped| dropped == name)
    }

    /// Declares a table without a row type.
    pub(crate) fn declare(&mut self, table: TableDescription) {
        if let Err(error) = self.schema.declare(table, &schema::TableOptions::default()) {
            self.failed.get_or_insert(error.into());
        }
    }

    /// Says that a table is not wanted any more: if the directory has a table of this name, the
    /// table is removed with its rows when the database is opened. If not, nothing happens, so that
    /// a program can keep the line. A table that is declared under the name in a later opening is a
    /// new table, and empty.
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

    /// Makes an empty database, or opens the database in the directory, whose tables are known by
    /// their names. The program has to declare each of them, with the same rows, or to
    /// [drop](Self::drop_table) it. The program may declare further tables, and other indexes than
    /// before: indexes are made of the rows at every opening.
    ///
    /// Errors: [`Error::Declaration`] for the first table that cannot be made, or is both declared
    /// and dropped; [`Error::Misuse`] for a number of sessions or spare tables that is out of
    /// range; [`Error::NotCompiled`] for a scheme that needs the feature `all-schemes`;
    /// [`Error::OutOfMemory`] if the tables do not fit into the memory limit; [`Error::Open`] for a
    /// directory that holds other tables or no database, is in use, or is damaged. The directory
    /// stays as it was then.
    ///
    /// [`Builder`] has an example.
    pub fn open(self) -> Result<Database> {
        if let Some(error) = self.failed {
            return Err(error);
        }
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
            return Err(Error::Misuse("a database is opened with room for up to 4096 further tables"));
        }
        let (memory_bytes, sessions) = (self.memory_bytes_max, self.sessions_max);
        let latencies = self.latencies;
        // Tables of pages stay as they are while the database is open.
        let spare_tables = if self.pool_bytes.is_some() { 0 } else { self.spare_tables };
        let limits = Limits { memory_bytes, sessions, spare_tables, latencies };
        let options = InstanceOptions {
            sessions_max: self.sessions_max,
            memory_bytes_max: self.memory_bytes_max,
            epoch_nanos: EPOCH_NANOS,
            spare_tables,
            ..InstanceOptions::default()
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let places = vec![Place { thread: None }; threads];
        let durable = self.path.map(|path| DurableOptions { places, ..DurableOptions::new(path) });
        let mut listener = self.listener;
        let listener = listener.as_mut().map(|listener| &mut **listener as &mut dyn FnMut(OpenProgress));
        let (c, schema, nowhere) = (Hardware::core(), self.schema, |_| None);
        if self.pool_bytes.is_some() && !self.dropped.is_empty() {
            return Err(Error::Misuse("tables of a database whose rows lie in pages cannot be dropped"));
        }
        let (made, found) = match (&durable, self.pool_bytes) {
            (Some(durable), Some(pool_bytes)) => {
                let options = options_of_pages(pool_bytes, self.sessions_max, &durable.path);
                let options = PagedOptions { broken: self.broken, ..options };
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
                let durable = (durable, listener);
                engine_native::open(self.scheme, c, &options, schema, &nowhere, durable)?
            }
        };
        let watcher = self.on_event.map(|listener| Watcher::new(listener, self.slow_after));
        if let Some(watcher) = &watcher {
            watcher.recovered(&found);
        }
        let path = durable.map(|durable| durable.path);
        let made = Made { inner: made, id: self.id, scheme: self.scheme, limits };
        Ok(Database::of(made, path, watcher))
    }
}

/// How a database over pages is opened.
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

/// Checks that databases can be opened under this scheme.
pub(crate) fn check_compiled(scheme: Scheme) -> Result<()> {
    if engine_native::is_compiled(scheme) {
        Ok(())
    } else {
        Err(Error::NotCompiled { scheme: scheme.name() })
    }
}

/// A number that no other database of the process has.
pub(crate) fn new_id() -> u64 {
    // Relaxed: only the numbers matter.
    DATABASES.fetch_add(1, Ordering::Relaxed)
}

impl Database {
    /// Declares a database that lives in memory and ends with the process.
    ///
    /// [`Database`] has an example.
    pub fn in_memory() -> Builder {
        Builder::new(None)
    }

    /// Declares a database that lives in a directory, which is made if it is not there. Rows are in
    /// memory, and every transaction is on disk when the call that ran it returns, so that it
    /// survives a loss of power. One process at a time can have the database open.
    /// [`Builder::open`] says what may change about tables from one opening to the next.
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
