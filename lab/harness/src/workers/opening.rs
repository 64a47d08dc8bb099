//! The database of a run: created in memory, or opened in a directory, which may contain the data
//! of an earlier run.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use boundary::{
    Bounds, Database, Direction, DurableOptions, Ending, OpenError, Recovered, SchemaBuilder, Verbs,
};
use distributed::{DataOwners, DeploymentDirectory};
use pages::{PagedError, PagedOptions};
use platform::files::Access;
use platform::{Intent, Node};
use redo_log::{LogError, LogOptions, LogUse};
use schema::{Inspector, Row, Schema, Table, TableOptions};
use serde::{Deserialize, Serialize};
use terms::Faults;
use workloads::LoadedWith;

use crate::context::Context;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::host::Host;
use crate::measurement::values::{LogFigures, Measurement, Recovery};
use crate::plan::{Durability, Engine, Plan, SEGMENT_BYTES, SEGMENT_BYTES_VIRTUAL};
use crate::workers::loaded_with;
use crate::workers::membership::{self, FIRST_ROW, Found, Membership};
use crate::workers::partitions::{self, Remembered};

/// Row 1 marks the end of loading. Rows with larger numbers contain the membership of the instance,
/// and the owners of partitions.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
struct Loaded {
    id: u64,
    /// In row 1 the parameters of loading ([`loaded_with`]); empty in the others.
    with: String,
}

impl Loaded {
    fn row(id: u64) -> Self {
        Loaded { id, with: String::new() }
    }
}

/// The directory of the databases of a run, which stays locked.
pub(crate) struct RunDirectory<P: Host> {
    /// `None` if nothing is durable.
    path: Option<PathBuf>,
    /// `Some` if the run has several instances.
    instances: Option<DeploymentDirectory<P>>,
    /// True if the directory is removed after the run.
    pub is_temporary: bool,
    /// True if another process removes it.
    is_lent: bool,
}

impl<P: Host> Drop for RunDirectory<P> {
    fn drop(&mut self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.is_temporary && !self.is_lent) {
            // If this fails, the name of the directory tells its origin.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

impl<P: Host> RunDirectory<P> {
    /// Opens the directory of a run of one instance, or of several with this division of data.
    pub(crate) fn open(c: P::Core, plan: &Plan, deployed: Option<&DataOwners>) -> Result<Self, RunError> {
        let is_paged = plan.engine != Engine::Memory;
        let (path, is_temporary) = match (plan.durability, &plan.path, P::VIRTUAL) {
            (Durability::None, _, _) if !is_paged => (None, false),
            (_, Some(path), _) => (Some(path.clone()), false),
            (_, None, true) => (Some(PathBuf::from("database")), false),
            (_, None, false) => {
                (Some(std::env::temp_dir().join(format!("isles-bench-{}", std::process::id()))), true)
            }
        };
        if let (Some(path), None) = (plan.path.as_ref().filter(|path| path.exists()), deployed)
            && let Ok(Some(found)) = distributed::directory::read::<P>(c, path)
        {
            return Err(loaded_with::is_divided(path, &found));
        }
        let mut directory = RunDirectory { path, instances: None, is_temporary, is_lent: false };
        if let (Some(path), Some(deployed)) = (&directory.path, deployed) {
            let opened = DeploymentDirectory::open(c, path, deployed);
            let opened = opened.map_err(|error| loaded_with::other_deployment(path, error))?;
            if opened.existed && !P::VIRTUAL {
                all_are_there(&opened, deployed.instances)?;
            }
            // Each instance stores its own membership.
            opened.settle(c).map_err(|error| RunError::at(path, &error))?;
            directory.instances = Some(opened);
        }
        Ok(directory)
    }

    /// The directory of an instance, which another process has chosen, and removes if it is
    /// temporary.
    pub(crate) fn lent(path: Option<PathBuf>, is_temporary: bool) -> Self {
        RunDirectory { path, instances: None, is_temporary, is_lent: true }
    }

    /// The directory of all databases, if they are durable.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The directory of an instance, if it is durable.
    pub(crate) fn of_instance(&self, instance: usize) -> Option<PathBuf> {
        match &self.instances {
            Some(instances) => Some(instances.instance(instance)),
            None => self.path.clone(),
        }
    }

    /// Closes a database. Closing may make a checkpoint, which a database with a temporary
    /// directory does not need.
    pub(crate) fn close(&self, c: P::Core, opened: OpenedDatabase<P>) -> Result<(), RunError> {
        if self.is_temporary {
            return Ok(());
        }
        opened.database.close(c).map_err(RunError::of)
    }

    /// Resolves the transactions in doubt of opened instances. Returns the cost of recovery, if
    /// there were data.
    pub(crate) fn recover(
        &self,
        c: P::Core,
        opened: &[OpenedDatabase<P>],
        deployed: Option<&DataOwners>,
        faults: Faults,
        deployment: &Deployment,
    ) -> Result<Option<Recovery>, RunError> {
        let Some(deployed) = deployed.filter(|_| self.path.is_some()) else {
            let Some(one) = opened.first() else { return Ok(None) };
            membership::stands_alone(&one.found())?;
            return Ok(one.recovered);
        };
        let found: Vec<Found> = opened.iter().map(OpenedDatabase::found).collect();
        if !membership::belong_together(&found, deployed.sum())? {
            return Ok(None);
        }
        let recovered = opened.iter().filter_map(|opened| opened.recovered);
        let Some(mut all) = recovered.reduce(Recovery::and) else { return Ok(None) };
        let databases: Vec<&Database<P>> = opened.iter().map(|opened| &opened.database).collect();
        let began = P::now(c);
        let turn_to = &mut |instance| P::work_for(c, deployment.node_of_instance(instance));
        let resolved = distributed::resolve_apart(c, &databases, faults, turn_to).map_err(RunError::of)?;
        all.in_doubt = resolved.committed + resolved.aborted;
        all.in_doubt_committed = resolved.committed;
        all.seconds += P::now(c).since(began) as f64 / 1e9;
        Ok(Some(all))
    }
}

/// Refuses a deployment of which some instances exist and others do not, which would be created
/// again.
fn all_are_there<P: Host>(directory: &DeploymentDirectory<P>, instances: usize) -> Result<(), RunError> {
    let (there, missing): (Vec<PathBuf>, Vec<PathBuf>) =
        (0..instances).map(|instance| directory.instance(instance)).partition(|path| path.exists());
    match missing.first() {
        Some(path) if !there.is_empty() => Err(RunError::Refused(format!(
            "{}: is missing, and other instances are there: bring it back, or remove all",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// An opened database.
pub(crate) struct OpenedDatabase<P: Host> {
    pub database: Database<P>,
    /// The cost of opening the data of an earlier run, if there are any.
    pub recovered: Option<Recovery>,
    /// The number of this opening, larger than all earlier ones; 0 if the database is not durable.
    pub opening: u64,
    /// The membership of the instance, if it has one.
    membership: Option<Membership>,
    /// The owners of partitions when an earlier run ended, if they are stored.
    pub remembered: Option<Remembered>,
    /// Empty if the database is not durable.
    path: PathBuf,
    mark: Option<Table<Loaded>>,
    /// The parameters of loading.
    with: String,
}

impl<P: Host> OpenedDatabase<P> {
    /// A database that is not durable.
    fn volatile(database: Database<P>) -> Self {
        let (membership, remembered, path) = (None, None, PathBuf::new());
        let with = String::new();
        OpenedDatabase {
            database,
            recovered: None,
            opening: 0,
            membership,
            remembered,
            path,
            mark: None,
            with,
        }
    }

    /// A database of a directory, checked to be loaded with these parameters or empty.
    fn found_in(
        c: P::Core,
        path: PathBuf,
        database: Database<P>,
        recovered: Recovered,
        mark: Table<Loaded>,
        with: &LoadedWith,
    ) -> Result<Self, RunError> {
        let loaded: Option<Loaded> = database.inspector(c).row(mark.primary(), &1);
        let existed = loaded.is_some();
        if let Some(loaded) = loaded {
            loaded_with::check(&path, &loaded.with, with)?;
        }
        if !existed && recovered.rows + recovered.records > 0 {
            return Err(RunError::HalfLoaded(path));
        }
        let opening = recovered.opening;
        let recovered = existed.then(|| Recovery {
            records: recovered.records,
            changes: recovered.changes,
            rows: recovered.rows,
            bytes: recovered.log_bytes + recovered.checkpoint_bytes,
            seconds: recovered.nanos as f64 / 1e9,
            in_doubt: recovered.in_doubt,
            in_doubt_committed: 0,
        });
        let mut rows = Vec::new();
        let all = (&FIRST_ROW, &u64::MAX);
        database.inspector(c).scan(mark.primary(), all.0, all.1, &mut |row: &Loaded| rows.push(row.id));
        let (membership, remembered) = (Membership::of_rows(&rows), Remembered::of_rows(&rows));
        let mark = Some(mark);
        let with = loaded_with::text(with);
        Ok(OpenedDatabase { database, recovered, opening, membership, remembered, path, mark, with })
    }

    /// The content of the directory.
    pub(crate) fn found(&self) -> Found {
        Found { path: self.path.clone(), is_loaded: self.recovered.is_some(), membership: self.membership }
    }

    /// Marks the end of loading and the membership of the instance, and waits until they are
    /// durable.
    pub(crate) fn loaded(&self, c: P::Core, membership: Option<Membership>) -> Result<(), RunError> {
        let Some(mark) = self.mark.filter(|_| self.recovered.is_none()) else { return Ok(()) };
        let mut session = self.database.session(c, None, false).map_err(RunError::of)?;
        let rows = membership.iter().flat_map(Membership::rows);
        let first = Loaded { id: 1, with: self.with.clone() };
        let rows: Vec<Loaded> = std::iter::once(first).chain(rows.map(Loaded::row)).collect();
        let insert = session.transact(&Bounds::default(), |verbs| {
            rows.iter().try_for_each(|row| verbs.insert(mark, row).map(drop))
        });
        match insert.map_err(RunError::of)? {
            Ending::Committed((), commit) => session.wait_durable(commit).map_err(RunError::of),
            Ending::RolledBack(_) => Ok(()),
        }
    }
}

impl<P: Host> OpenedDatabase<P> {
    /// Replaces the stored owners of partitions. Does not wait until that is durable.
    pub(crate) fn remember(&self, c: P::Core, who: &Remembered) -> Result<(), RunError> {
        let Some(mark) = self.mark else { return Ok(()) };
        let mut session = self.database.session(c, None, false).map_err(RunError::of)?;
        let rows: Vec<Loaded> = who.rows().into_iter().map(Loaded::row).collect();
        let ended = session.transact(&Bounds::default(), |verbs| {
            let mut old = Vec::new();
            let (low, high) = &partitions::ROWS;
            verbs.scan(mark.primary(), low, high, Direction::Forward, Intent::Write, &mut |_, row| {
                old.push(row);
                Ok(ControlFlow::Continue(()))
            })?;
            old.into_iter().try_for_each(|row| verbs.delete(row))?;
            rows.iter().try_for_each(|row| verbs.insert(mark, row).map(drop))
        });
        ended.map(drop).map_err(RunError::of)
    }
}

/// Creates the database of an instance, or opens it in this directory.
pub(crate) fn open<P: Host>(
    c: P::Core,
    cx: Context<'_>,
    instance: usize,
    path: Option<PathBuf>,
    mut schema: SchemaBuilder,
    with: &LoadedWith,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<OpenedDatabase<P>, RunError> {
    let plan = cx.plan;
    if let Some(options) = plan.paged_options(cx.deployment, instance, path.clone(), P::VIRTUAL) {
        return open_pages(c, cx, options, schema, with);
    }
    let options = &plan.instance_options(cx.deployment, instance);
    let Some(path) = path else {
        let database = P::CREATE(plan.scheme, c, options, schema, node_of).map_err(RunError::of)?;
        return Ok(OpenedDatabase::volatile(database));
    };
    // The table comes after the workload's own, whose numbers do not change.
    let mark = schema.table::<Loaded>("benchmark", TableOptions::default());
    let workers = &cx.deployment.instances[instance].workers;
    let first = cx.deployment.first_worker(instance);
    let workers = first..first + workers.len();
    let places = cx.deployment.places()[workers.clone()].to_vec();
    let log = log_options(&cx.deployment.nodes()[workers], P::VIRTUAL);
    let mut durable = DurableOptions { log, places, ..DurableOptions::new(path) };
    durable.checkpoint_bytes = plan.checkpoint_bytes.unwrap_or(durable.checkpoint_bytes);
    let progress = cx.control.progress;
    let mut listener = |at: boundary::Progress| progress.recovering(at.stage, at.done, at.total);
    let listening = Some(&mut listener as &mut dyn FnMut(boundary::Progress));
    let (database, recovered) = P::OPEN(plan.scheme, c, options, schema, node_of, &durable, listening)
        .map_err(|error| match &error {
            OpenError::Schema(other) => loaded_with::other_tables(&durable.path, other, with),
            OpenError::Log(LogError::RowsInPages(path)) => {
                loaded_with::other_engine(path, ["memory", "paged"])
            }
            _ => RunError::at(&durable.path, &error),
        })?;
    OpenedDatabase::found_in(c, durable.path, database, recovered, mark, with)
}

/// Creates or opens a database over pages.
fn open_pages<P: Host>(
    c: P::Core,
    cx: Context<'_>,
    options: PagedOptions,
    mut schema: SchemaBuilder,
    with: &LoadedWith,
) -> Result<OpenedDatabase<P>, RunError> {
    let progress = cx.control.progress;
    let mut listener = |at: boundary::Progress| progress.recovering(at.stage, at.done, at.total);
    let listening = Some(&mut listener as &mut dyn FnMut(boundary::Progress));
    let (Some(path), Some(_)) = (options.directory.clone(), options.log) else {
        let (database, _) = P::OPEN_PAGED(c, &options, schema, None).map_err(RunError::of)?;
        return Ok(OpenedDatabase::volatile(database));
    };
    let mark = schema.table::<Loaded>("benchmark", TableOptions::default());
    let (database, recovered) =
        P::OPEN_PAGED(c, &options, schema, listening).map_err(|error| match &error {
            PagedError::Schema(other) => loaded_with::other_tables(&path, other, with),
            PagedError::OtherEngine(path) => loaded_with::other_engine(path, ["paged", "memory"]),
            _ => RunError::at(&path, &error),
        })?;
    OpenedDatabase::found_in(c, path, database, recovered, mark, with)
}

/// Options with a stream for each node of workers.
fn log_options(nodes: &[Option<Node>], is_virtual: bool) -> LogOptions {
    let mut streams = nodes.to_vec();
    streams.sort();
    streams.dedup();
    let segment_bytes = if is_virtual { SEGMENT_BYTES_VIRTUAL } else { SEGMENT_BYTES };
    LogOptions { streams, segment_bytes, access: Access::Direct, ..LogOptions::default() }
}

/// The work of the logs of all instances since they were opened; `None` if nothing is durable.
pub(crate) fn log_used<P: Host>(c: P::Core, opened: &[OpenedDatabase<P>]) -> Option<LogUse> {
    opened.iter().filter_map(|opened| opened.database.log_used(c)).reduce(|all, one| LogUse {
        written_bytes: all.written_bytes + one.written_bytes,
        flushes: all.flushes + one.flushes,
        groups: all.groups + one.groups,
        group_nanos: all.group_nanos + one.group_nanos,
        epoch: all.epoch + one.epoch,
    })
}

/// The growth of logs between two measurements.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct LogGrowth {
    bytes: u64,
    flushes: u64,
    groups: u64,
    group_nanos: u64,
    epochs: u64,
    /// Nanoseconds between the measurements, summed over instances.
    nanos: u64,
}

impl LogGrowth {
    /// The growth of logs from `before` to `after` in each instance, over these nanoseconds, summed
    /// up.
    pub(crate) fn between(before: LogUse, after: LogUse, nanos: u64) -> Self {
        LogGrowth {
            bytes: after.written_bytes - before.written_bytes,
            flushes: after.flushes - before.flushes,
            groups: after.groups - before.groups,
            group_nanos: after.group_nanos - before.group_nanos,
            epochs: after.epoch - before.epoch,
            nanos,
        }
    }

    /// The sum with another instance.
    pub(crate) fn and(self, other: LogGrowth) -> Self {
        LogGrowth {
            bytes: self.bytes + other.bytes,
            flushes: self.flushes + other.flushes,
            groups: self.groups + other.groups,
            group_nanos: self.group_nanos + other.group_nanos,
            epochs: self.epochs + other.epochs,
            nanos: self.nanos + other.nanos,
        }
    }

    /// Adds the figures, for this number of commits, to a measurement.
    pub(crate) fn enter(self, measured: &mut Measurement, commits: u64) {
        let share = |whole: u64, parts: u64| whole as f64 / parts.max(1) as f64;
        measured.counters.log_bytes = Some(self.bytes);
        measured.counters.fsyncs = Some(self.flushes);
        measured.log = Some(LogFigures {
            bytes_per_commit: share(self.bytes, commits),
            groups: self.groups,
            group_bytes: share(self.bytes, self.groups),
            group_us: share(self.group_nanos, self.groups) / 1e3,
            epoch_us: share(self.nanos, self.epochs) / 1e3,
        });
    }
}
