//! The schemes that campaigns verify, registered schemes and mutants, as values.

use std::fmt;

use boundary::{Database, DurableOptions, OpenError, Recovered, SchemaBuilder, Traits};
use concurrency::mutants::{Broken, Rule};
use concurrency::{InstanceOptions, Scheme, SchemeName, Ways};
use distributed::Rules;
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

/// Rules that several instances follow, which tests break on purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    /// The rules of the protocol.
    pub rules: Rules,
    /// No transaction takes a snapshot of one instance.
    pub avoids_snapshots: bool,
}

impl Agreement {
    /// All rules hold.
    pub(crate) const SOUND: Agreement = Agreement { rules: Rules::SOUND, avoids_snapshots: true };
}

/// All schemes.
pub fn schemes() -> Vec<Subject> {
    SchemeName::ALL.map(Subject::of).to_vec()
}

/// The scheme of this name on the command line: a registered one, or that of rows in pages.
pub fn scheme(name: &str) -> Option<Subject> {
    if name == TWO_PHASE_LOCKING {
        return Some(Subject::of_pages(TWO_PHASE_LOCKING, pages::Broken::default()));
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

type Create =
    fn(VirtualCore, &InstanceOptions, SchemaBuilder) -> Result<Database<VirtualMachine>, OutOfMemory>;
type Opened = Result<(Database<VirtualMachine>, Recovered), OpenError>;
type Open = fn(VirtualCore, &InstanceOptions, SchemaBuilder, &DurableOptions) -> Opened;

/// How databases of a subject are created.
#[derive(Clone, Copy)]
enum Origin {
    Registry(SchemeName),
    /// A scheme that breaks these rules, in the virtual machine only.
    Mutant(Create, Open, Broken),
    /// Rows in pages, under a scheme that breaks these rules.
    Pages(pages::Broken),
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
    /// Rules of its deployments of several instances.
    pub(crate) agreement: Agreement,
    /// Faults of its workers that own partitions.
    pub(crate) owners: dora::Broken,
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
            agreement: Agreement::SOUND,
            owners: dora::Broken::default(),
            origin: Origin::Registry(scheme),
        }
    }

    /// A scheme that breaks these rules on purpose: it runs [`Histories`](crate::Work::Histories),
    /// [`Bank`](crate::Work::Bank), [`Distributed`](crate::Work::Distributed) and
    /// [`Crashes`](crate::Work::Crashes) in the virtual machine.
    pub fn mutant<S: Scheme<VirtualMachine>>(name: &'static str, rules: &[Rule]) -> Self {
        let broken = Broken::rules(rules);
        let create: Create =
            |c, options, schema| instances::create_under::<_, S>(c, options, schema, &|_| None);
        let open: Open = |c, options, schema, durable| {
            instances::open_under::<_, S>(c, options, schema, &|_| None, (durable, None))
        };
        let (ways, origin) = (Ways::default(), Origin::Mutant(create, open, broken));
        let owners = dora::Broken::default();
        Subject { name, partitioned: false, ways, agreement: Agreement::SOUND, owners, origin }
    }

    /// Two-phase locking over pages, which breaks these rules: it runs
    /// [`Histories`](Work::Histories), [`Bank`](Work::Bank), [`Distributed`](Work::Distributed) and
    /// [`Crashes`](Work::Crashes), and without broken rules [`Islands`](Work::Islands).
    pub fn of_pages(name: &'static str, broken: pages::Broken) -> Self {
        let (ways, origin) = (Ways::default(), Origin::Pages(broken));
        let owners = dora::Broken::default();
        Subject { name, partitioned: false, ways, agreement: Agreement::SOUND, owners, origin }
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
            Origin::Pages(_) => of_pages.contains(&work) || work == Work::Owners,
            Origin::Registry(scheme) => {
                work != Work::Owners || instances::traits::<VirtualMachine>(scheme).branches
            }
            Origin::Mutant(..) => work != Work::Owners,
        }
    }

    /// The same scheme under another name; several instances of it break rules of the protocol on
    /// purpose. It runs [`Distributed`](crate::Work::Distributed).
    pub fn with_rules(self, name: &'static str, rules: Rules) -> Self {
        Subject { name, agreement: Agreement { rules, ..self.agreement }, ..self }
    }

    /// The same scheme under another name; its workers that own partitions break rules on purpose.
    /// It runs [`Owners`](crate::Work::Owners).
    pub fn with_owners(self, name: &'static str, owners: dora::Broken) -> Self {
        Subject { name, owners, ..self }
    }

    /// The same scheme under another name; a transaction that reads only one of several instances
    /// takes a snapshot.
    pub fn with_snapshots(self, name: &'static str) -> Self {
        Subject { name, agreement: Agreement { avoids_snapshots: false, ..self.agreement }, ..self }
    }

    /// The same scheme on partitioned tables only.
    pub fn with_partitions(self) -> Self {
        Subject { partitioned: true, ..self }
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
    pub(crate) fn driven(&self) -> Result<Driven, String> {
        match self.origin {
            Origin::Pages(broken) if broken == pages::Broken::default() => Ok(Driven::PAGES),
            Origin::Pages(_) => Err(format!("{} is no scheme that runs are made under", self.name)),
            _ => self.registered().map(Driven::from),
        }
    }

    /// True if rows lie in pages.
    pub(crate) fn has_pages(&self) -> bool {
        matches!(self.origin, Origin::Pages(_))
    }

    /// Its registered scheme.
    pub(crate) fn registered(&self) -> Result<SchemeName, String> {
        match self.origin {
            Origin::Registry(scheme) => Ok(scheme),
            Origin::Mutant(..) => Err(format!("{} runs in the virtual machine only", self.name)),
            Origin::Pages(_) => Err(format!("{} is no scheme of rows in memory", self.name)),
        }
    }

    /// Creates a database in the virtual machine.
    pub(crate) fn create(
        &self,
        c: VirtualCore,
        options: &InstanceOptions,
        schema: SchemaBuilder,
    ) -> Result<Database<VirtualMachine>, OutOfMemory> {
        match self.origin {
            Origin::Mutant(create, _, broken) => {
                let ways = self.ways;
                create(c, &InstanceOptions { ways, broken, ..options.clone() }, schema)
            }
            _ => self.create_on(c, options, schema),
        }
    }

    /// True if it runs on hardware.
    pub(crate) fn is_everywhere(&self) -> bool {
        !matches!(self.origin, Origin::Mutant(..))
    }

    /// Creates a database on any platform. Pre: [`Self::is_everywhere`].
    pub(crate) fn create_on<P: Host>(
        &self,
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
    ) -> Result<Database<P>, OutOfMemory> {
        let options = InstanceOptions { ways: self.ways, ..options.clone() };
        match self.origin {
            Origin::Registry(scheme) => P::CREATE(scheme, c, &options, schema, &|_| None),
            Origin::Pages(broken) => {
                let pages = PagedOptions {
                    sessions_max: options.sessions_max,
                    parts_max: PARTS_MAX,
                    branches_max: options.sessions_max,
                    wait_nanos_max: bound(&options),
                    page_bytes: PAGE_BYTES,
                    escalation: ESCALATION,
                    broken,
                    ..PagedOptions::with_pool(POOL_BYTES)
                };
                P::OPEN_PAGED(c, &pages, schema, None).map(|(database, _)| database).map_err(memory_error)
            }
            Origin::Mutant(..) => unreachable!("a mutant is in the virtual machine only"),
        }
    }

    /// Opens a durable database in the virtual machine.
    pub(crate) fn open(
        &self,
        c: VirtualCore,
        options: &InstanceOptions,
        schema: SchemaBuilder,
        durable: &DurableOptions,
    ) -> Opened {
        match self.origin {
            Origin::Mutant(_, open, broken) => {
                let ways = self.ways;
                open(c, &InstanceOptions { ways, broken, ..options.clone() }, schema, durable)
            }
            _ => self.open_on(c, options, schema, durable),
        }
    }

    /// Opens a durable database on any platform. Pre: [`Self::is_everywhere`].
    pub(crate) fn open_on<P: Host>(
        &self,
        c: P::Core,
        options: &InstanceOptions,
        schema: SchemaBuilder,
        durable: &DurableOptions,
    ) -> Result<(Database<P>, Recovered), OpenError> {
        let options = InstanceOptions { ways: self.ways, ..options.clone() };
        match self.origin {
            Origin::Registry(scheme) => P::OPEN(scheme, c, &options, schema, &|_| None, (durable, None)),
            Origin::Pages(broken) => {
                let page_bytes = if P::VIRTUAL { SMALL_PAGE_BYTES } else { BLOCK_BYTES };
                let pages = PagedOptions { broken, ..pages_of(&options, durable, page_bytes) };
                P::OPEN_PAGED(c, &pages, schema, None).map_err(open_error)
            }
            Origin::Mutant(..) => unreachable!("a mutant is in the virtual machine only"),
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
