//! The schemes that campaigns verify, registered schemes and mutants, as values.

use std::fmt;

use boundary::{Database, DurableOptions, OpenError, Recovered, SchemaBuilder, Traits};
use concurrency::{InstanceOptions, SchemeName, Ways};
use engine::instances;
use harness::{Engine, Host};
use pages::{
    FRAMES_PER_SESSION, PagedDatabase, PagedError, PagedLogOptions, PagedOptions, TWO_PHASE_LOCKING,
};
use platform::OutOfMemory;
use platform::files::BLOCK_BYTES;
use redo_log::LogError;
use sim::{VirtualCore, VirtualMachine};
use storage::{Optimisation, Optimisations};
use terms::Faults;

use crate::task::Work;

/// Bytes of the pool of a small database over pages.
const POOL_BYTES: u64 = 4 << 20;
/// Bytes of the pools of all instances that the harness runs.
const POOL_BYTES_DRIVEN: u64 = 2 << 20;
/// Pages are small, so that a few rows fill several.
const PAGE_BYTES: usize = 1 << 10;
/// Row locks in a table after which a transaction locks the whole table: few, so that short
/// transactions do so now and then.
const ESCALATION: usize = 6;
/// Prepared branches of a database.
const PARTS_MAX: usize = 24;
/// Pages of databases that crash; not all fit in the pool. On hardware a page is a block, and is
/// written past the operating system's cache.
const SMALL_PAGE_BYTES: usize = 1 << 10;
const SPARE_FRAMES: usize = 8;
/// Minimal size of the log's buffer, in pages.
const LOG_BUFFER_PAGES_MIN: u64 = 32;

/// All schemes.
pub fn schemes() -> Vec<Subject> {
    SchemeName::ALL.map(Subject::of).to_vec()
}

/// The scheme of this name on the command line: a registered one, or that of rows in pages.
pub fn scheme(name: &str) -> Option<Subject> {
    if name == TWO_PHASE_LOCKING {
        return Some(Subject::of_pages());
    }
    name.parse().ok().map(Subject::of)
}

/// The engine of the harness's databases: rows in memory under a scheme, or rows in pages under
/// their own scheme.
#[derive(Clone, Copy, Debug)]
pub struct Driven {
    /// The scheme of rows in memory.
    pub scheme: SchemeName,
    /// The engine: rows in memory or in pages.
    pub engine: Engine,
}

impl Driven {
    /// Rows in pages, few of which are in the pool.
    pub const PAGES: Driven =
        Driven { scheme: SchemeName::ALL[0], engine: Engine::Paged { pool_bytes: POOL_BYTES_DRIVEN } };

    /// True if rows lie in pages, which need a disk.
    pub(crate) fn has_pages(&self) -> bool {
        self.engine != Engine::Memory
    }
}

impl From<SchemeName> for Driven {
    fn from(scheme: SchemeName) -> Self {
        Driven { scheme, engine: Engine::Memory }
    }
}

impl fmt::Display for Driven {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(if self.has_pages() { TWO_PHASE_LOCKING } else { self.scheme.name() })
    }
}

/// How databases of a subject are created.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Rows in memory.
    Registry(SchemeName),
    /// Rows in pages.
    Pages,
}

/// A scheme under test, as a value.
#[derive(Clone, Copy)]
pub struct Subject {
    /// Its name on the command line.
    pub name: &'static str,
    /// True if the scheme needs partitioned tables.
    pub(crate) partitioned: bool,
    /// Optimisations and variants that differ from the default.
    pub(crate) ways: Ways,
    /// Faults that a test has planted.
    pub(crate) faults: Faults,
    /// True if a transaction takes a snapshot of one of several instances, which is a fault of the
    /// work.
    pub(crate) takes_snapshots: bool,
    origin: Origin,
}

impl Subject {
    /// A registered scheme: it runs all work on all machines.
    pub fn of(scheme: SchemeName) -> Self {
        let Traits { locks_partitions, .. } = instances::traits::<VirtualMachine>(scheme);
        Subject {
            name: scheme.name(),
            partitioned: locks_partitions,
            ways: Ways::default(),
            faults: Faults::NONE,
            takes_snapshots: false,
            origin: Origin::Registry(scheme),
        }
    }

    /// Two-phase locking over pages: it runs [`Histories`](Work::Histories), [`Bank`](Work::Bank),
    /// [`Distributed`](Work::Distributed), [`Crashes`](Work::Crashes), [`Islands`](Work::Islands)
    /// and [`Owners`](Work::Owners).
    pub fn of_pages() -> Self {
        Subject {
            name: TWO_PHASE_LOCKING,
            partitioned: false,
            ways: Ways::default(),
            faults: Faults::NONE,
            takes_snapshots: false,
            origin: Origin::Pages,
        }
    }

    /// The same scheme with these faults, under another name.
    pub fn with_faults(self, name: &'static str, faults: Faults) -> Self {
        Subject { name, faults, ..self }
    }

    /// True if the scheme runs this work, whatever the machine.
    pub fn runs(&self, work: Work) -> bool {
        let of_pages = [
            Work::Histories,
            Work::Bank,
            Work::Islands,
            Work::Distributed,
            Work::Crashes,
            Work::Files,
            Work::Refusals,
        ];
        match self.origin {
            Origin::Pages => of_pages.contains(&work) || work == Work::Owners,
            Origin::Registry(scheme) => {
                work != Work::Owners || instances::traits::<VirtualMachine>(scheme).branches
            }
        }
    }

    /// The same scheme under another name; a transaction that reads only one of several instances
    /// takes a snapshot.
    pub fn with_snapshots(self, name: &'static str) -> Self {
        Subject { name, takes_snapshots: true, ..self }
    }

    /// The same scheme with these variants, under another name.
    pub fn in_ways(self, name: &'static str, ways: Ways) -> Self {
        Subject { name, ways, ..self }
    }

    /// Violations of the structure of a database's pages; empty for rows in memory.
    pub(crate) fn examine(&self, c: VirtualCore, database: &Database<VirtualMachine>) -> Vec<String> {
        let pages = database.object().as_any().downcast_ref::<PagedDatabase<VirtualMachine>>();
        let found = pages.map(|pages| pages.check(c));
        found.map_or(Vec::new(), |found| found.unwrap_or_else(|error| vec![error.to_string()]))
    }

    /// The engine of the harness's databases.
    pub(crate) fn driven(&self) -> Driven {
        match self.origin {
            Origin::Pages => Driven::PAGES,
            Origin::Registry(scheme) => Driven::from(scheme),
        }
    }

    /// True if rows lie in pages.
    pub(crate) fn has_pages(&self) -> bool {
        self.origin == Origin::Pages
    }

    /// Creates a database on any platform.
    pub(crate) fn create<P: Host>(
        &self,
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
    ) -> Result<Database<P>, OutOfMemory> {
        let options = InstanceOptions { ways: self.ways, faults: self.faults, ..options.clone() };
        match self.origin {
            Origin::Registry(scheme) => P::CREATE(scheme, c, &options, schema, &|_| None),
            Origin::Pages => {
                let pages = PagedOptions {
                    sessions_max: options.sessions_max,
                    parts_max: PARTS_MAX,
                    branches_max: options.sessions_max,
                    wait_nanos_max: bound(&options),
                    page_bytes: PAGE_BYTES,
                    escalation: ESCALATION,
                    faults: self.faults,
                    ..PagedOptions::with_pool(POOL_BYTES)
                };
                P::OPEN_PAGED(c, &pages, schema, None).map(|(database, _)| database).map_err(memory_error)
            }
        }
    }

    /// Opens a durable database on any platform.
    pub(crate) fn open<P: Host>(
        &self,
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
        durable: &DurableOptions,
    ) -> Result<(Database<P>, Recovered), OpenError> {
        let options = InstanceOptions { ways: self.ways, faults: self.faults, ..options.clone() };
        match self.origin {
            Origin::Registry(scheme) => P::OPEN(scheme, c, &options, schema, &|_| None, durable, None),
            Origin::Pages => {
                let page_bytes = if P::VIRTUAL { SMALL_PAGE_BYTES } else { BLOCK_BYTES };
                let pages = PagedOptions { faults: self.faults, ..pages_of(&options, durable, page_bytes) };
                P::OPEN_PAGED(c, &pages, schema, None).map_err(open_error)
            }
        }
    }
}

/// Creates databases under the subject's scheme.
pub(crate) type MakeDatabase<'a, P> =
    &'a dyn Fn(&InstanceOptions, SchemaBuilder) -> Result<Database<P>, OutOfMemory>;

/// The longest wait for a lock, if the options shorten the default.
fn bound(options: &InstanceOptions) -> Option<u64> {
    Some(options.wait_nanos_max).filter(|longest| *longest < InstanceOptions::default().wait_nanos_max)
}

/// Options of a small pool that evicts all the time, with a log like that of rows in memory.
fn pages_of(options: &InstanceOptions, durable: &DurableOptions, page_bytes: usize) -> PagedOptions {
    let frames = (options.sessions_max * FRAMES_PER_SESSION + SPARE_FRAMES) as u64;
    let log = PagedLogOptions {
        segment_bytes: durable.log.segment_bytes,
        buffer_bytes: (durable.log.buffer_bytes as u64).max(LOG_BUFFER_PAGES_MIN * page_bytes as u64),
        checkpoint_bytes: durable.checkpoint_bytes,
    };
    // Databases without checkpoints log without Aether.
    let optimisations = match durable.checkpoint_bytes {
        u64::MAX => Optimisations::ALL.without(Optimisation::Aether),
        _ => Optimisations::ALL,
    };
    PagedOptions {
        sessions_max: options.sessions_max,
        parts_max: PARTS_MAX,
        wait_nanos_max: Some(options.wait_nanos_max),
        page_bytes,
        directory: Some(durable.path.clone()),
        lock_lists: 64,
        optimisations,
        log: Some(log),
        ..PagedOptions::with_pool(frames * page_bytes as u64)
    }
}

/// The error of opening a database over pages as an [`OpenError`].
fn open_error(error: PagedError) -> OpenError {
    match error {
        PagedError::Log(error) => error.into(),
        PagedError::File(error) => LogError::from(error).into(),
        PagedError::OutOfMemory(error) => error.into(),
        PagedError::Schema(error) => error.into(),
        other => OpenError::Contradiction(other.to_string()),
    }
}

/// The error of creating a pool as an [`OutOfMemory`].
fn memory_error(error: PagedError) -> OutOfMemory {
    match error {
        PagedError::OutOfMemory(error) => error,
        other => OutOfMemory { requested: POOL_BYTES as usize, name: "pages", reason: other.to_string() },
    }
}
