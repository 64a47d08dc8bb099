//! The engines that the suite runs on: rows in memory under every scheme, rows in pages, and
//! several instances.

use std::path::{Path, PathBuf};
use std::time::Duration;

use isles::{
    Builder, Database, Deployment, DeploymentBuilder, Division, Durability, Result, Scheme, Session, Table,
    TableOptions, TransactionOptions,
};
use terms::{Fault, Faults};

use crate::apply::Tables;
use crate::calls::{self, call, call_function};
use crate::deployed::Work;
use crate::model::{EngineTraits, Model};
use crate::rows::{Hashed, TestRow};

/// Parts of the data.
pub const PARTS: u16 = 4;
const MEMORY_BYTES: u64 = 64 << 20;
const POOL_BYTES: u64 = 8 << 20;
const SESSIONS: usize = 8;

/// An engine or deployment that runs the library's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Memory(Scheme),
    Pages,
    /// Pages without some of the locks: a planted fault.
    BrokenPages(BrokenRule),
    /// Several instances. Their number and the scheme follow from the number of the program.
    Deployment,
}

/// A rule of two-phase locking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    /// Rows that are read are locked.
    ReadLocks,
    /// Scans lock gaps.
    Gaps,
}

impl Engine {
    pub fn all() -> Vec<Engine> {
        let memory = Scheme::ALL.into_iter().map(Engine::Memory);
        memory.chain([Engine::Pages, Engine::Deployment]).collect()
    }

    pub fn name(self) -> String {
        match self {
            Engine::Memory(scheme) => scheme.name().to_owned(),
            Engine::Pages => "pages".to_owned(),
            Engine::BrokenPages(rule) => format!("pages without {rule:?}"),
            Engine::Deployment => "deployment".to_owned(),
        }
    }

    /// The scheme of the deployment for this number.
    fn scheme(self, number: u64) -> Scheme {
        match self {
            Engine::Memory(scheme) => scheme,
            _ => Scheme::ALL[number as usize % Scheme::ALL.len()],
        }
    }

    pub fn has_snapshots(self) -> bool {
        self == Engine::Memory(Scheme::Mvcc)
    }

    /// Properties of the engine that the model imitates.
    pub fn traits(self) -> EngineTraits {
        EngineTraits { hashes: matches!(self, Engine::Memory(_)), in_steps: false, fault: None }
    }

    /// Opens the engine; a durable one in this directory.
    pub fn open(self, number: u64, directory: Option<&Path>) -> Result<Opened> {
        calls::enter(&self.name());
        match self {
            Engine::Deployment => open_deployment(self.scheme(number), number, directory),
            _ => open_database(self, directory),
        }
    }
}

/// Bounds of a transaction of the suite. A longer wait is a fault.
pub fn options() -> TransactionOptions {
    call_function!(TransactionOptions::new()).deadline(Duration::from_secs(5)).durability(Durability::Async)
}

/// A temporary directory that is removed when this value is dropped.
#[derive(Debug)]
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("isles-conformance-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An engine that is open.
pub struct Opened {
    pub tables: Tables,
    pub kind: Kind,
}

pub enum Kind {
    One { database: Database, session: Box<Option<Session>> },
    Several { deployment: Deployment<Work>, sessions: Vec<Option<Session>> },
}

/// Declares the tables; `plain` gives a table of rows without options.
macro_rules! declare {
    ($builder:ident, $hashed:expr) => {
        Tables {
            wide: call!($builder.table(crate::rows::Wide::TABLE)),
            plain: call!($builder.table(crate::rows::Plain::TABLE)),
            hashed: $hashed,
            long: call!($builder.table(crate::long_rows::Long::TABLE)),
            tailed: call!($builder.table(crate::long_rows::Tailed::TABLE)),
            sorted: call!($builder.table(crate::sorted_rows::Sorted::TABLE)),
            bookings: call!($builder.table(crate::sql_rows::Booking::TABLE)),
        }
    };
}

fn hashed(builder: &mut Builder) -> Table<Hashed> {
    let options = call_function!(TableOptions::new());
    let options = call!(options.hash(Hashed::KEY));
    let options = options.hash(Hashed::BY_TOKEN).hash(Hashed::BY_MARK);
    let options = call!(options.expected_rows(100));
    call!(builder.table_with(Hashed::TABLE, options))
}

fn open_database(engine: Engine, directory: Option<&Path>) -> Result<Opened> {
    let builder = match directory {
        Some(path) => call_function!(Database::at(path)),
        None => call_function!(Database::in_memory()),
    };
    let builder = call!(builder.sessions(SESSIONS));
    let mut builder = match engine {
        Engine::Memory(scheme) => {
            let builder = call!(builder.memory_limit(MEMORY_BYTES));
            call!(builder.scheme(scheme))
        }
        Engine::BrokenPages(rule) => {
            let fault = match rule {
                BrokenRule::Gaps => Fault::UnlockedGaps,
                BrokenRule::ReadLocks => Fault::UnlockedReads,
            };
            builder.pages(POOL_BYTES).with_faults(Faults::of(&[fault]))
        }
        _ => call!(builder.pages(POOL_BYTES)),
    };
    let hashed = hashed(&mut builder);
    let tables = declare!(builder, hashed);
    let database = call!(builder.open())?;
    let mut session = call!(database.session())?;
    call!(session.set_options(options()));
    Ok(Opened { tables, kind: Kind::One { database, session: Box::new(Some(session)) } })
}

fn open_deployment(scheme: Scheme, number: u64, directory: Option<&Path>) -> Result<Opened> {
    let instances = 2 + number as usize % 2;
    let division = Division { instances, workers: instances, parts: PARTS };
    let builder = match directory {
        Some(path) => call_function!(Deployment::at(path, division)),
        None => call_function!(Deployment::in_memory(division)),
    };
    let builder = call!(builder.memory_limit(3 * MEMORY_BYTES));
    let builder = call!(builder.sessions(SESSIONS));
    let mut builder: DeploymentBuilder = call!(builder.scheme(scheme));
    let hashed = builder.table(Hashed::TABLE);
    let tables = declare!(builder, hashed);
    let deployment: Deployment<Work> = call!(builder.open(tables))?;
    let session = |instance| {
        let mut session = call!(deployment.session(instance))?;
        session.set_options(options());
        Ok(Some(session))
    };
    let sessions = (0..call!(deployment.instances())).map(session).collect::<Result<_>>()?;
    Ok(Opened { tables, kind: Kind::Several { deployment, sessions } })
}

impl Opened {
    /// Number of databases: each has a model of its own.
    pub fn instances(&self) -> usize {
        match &self.kind {
            Kind::One { .. } => 1,
            Kind::Several { sessions, .. } => sessions.len(),
        }
    }

    pub fn models(&self, traits: EngineTraits) -> Vec<Model> {
        vec![Model::new(traits); self.instances()]
    }

    /// The parts of an instance.
    pub fn parts(&self, instance: usize) -> Vec<u16> {
        (0..PARTS).filter(|part| self.instance_of(*part) == instance).collect()
    }

    pub fn instance_of(&self, part: u16) -> usize {
        match &self.kind {
            Kind::One { .. } => 0,
            Kind::Several { deployment, .. } => call!(deployment.instance_of(part)),
        }
    }

    /// A further session of an instance.
    pub fn new_session(&self, instance: usize) -> Result<Session> {
        let mut session = match &self.kind {
            Kind::One { database, .. } => database.session()?,
            Kind::Several { deployment, .. } => deployment.session(instance)?,
        };
        call!(session.set_options(options()));
        Ok(session)
    }

    /// The session of an instance. The caller puts it back.
    pub fn session(&mut self, instance: usize) -> &mut Option<Session> {
        match &mut self.kind {
            Kind::One { session, .. } => session,
            Kind::Several { sessions, .. } => &mut sessions[instance],
        }
    }

    /// Waits until all commits are on disk.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.kind {
            Kind::One { database, .. } => call!(database.flush()),
            Kind::Several { sessions, .. } => sessions.iter_mut().flatten().try_for_each(|session| {
                // A transaction that waits for the disk waits for all commits that it has read
                // from.
                let waits = TransactionOptions::new();
                let mut with = session.with(waits);
                with.transaction(|t| {
                    let (wide, plain) = (self.tables.wide, self.tables.plain);
                    t.scan(wide, ..).count()?;
                    t.scan(plain, ..).count()?;
                    t.scan(self.tables.hashed, ..).count()?;
                    t.scan(self.tables.long, ..).count()?;
                    t.scan(self.tables.tailed, ..).count()?;
                    t.scan(self.tables.sorted, ..).count().map(drop)
                })
            }),
        }
    }

    /// Closes the engine: no session or handle of the suite is left.
    pub fn close(self) -> Result<()> {
        match self.kind {
            Kind::One { database, session } => {
                drop(session);
                call!(database.close())
            }
            Kind::Several { deployment, sessions } => {
                drop(sessions);
                call!(deployment.close())
            }
        }
    }
}
