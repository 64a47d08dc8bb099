//! The database of a run: made in memory, or opened in a directory, which may hold what an earlier run has loaded.

use std::path::PathBuf;

use engine::dynamic::Database;
use engine::{
    Bounds, DurableOptions, Ending, Inspector, Row, Schema, SchemaBuilder, Table, TableOptions, Verbs,
};
use islands::{DataOwners, DeploymentDirectory, Rules};
use platform::Node;
use platform::files::Access;
use storage::log::{LogOptions, LogUse};

use crate::context::Context;
use crate::error::RunError;
use crate::host::Host;
use crate::measurement::{LogFigures, Recovery};
use crate::plan::{Durability, Plan};

/// Bytes of a segment of the log, on hardware and in virtual machines, whose disks are in the host's memory.
const SEGMENT_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES_VIRTUAL: u64 = 1 << 20;

/// Says that loading is complete: there is one such row, or none.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
struct Loaded {
    id: u64,
}

/// Where the databases of a run are, and stay locked.
pub(crate) struct RunDirectory<P: Host> {
    /// `None` if nothing is durable.
    path: Option<PathBuf>,
    /// There if the run has several instances.
    instances: Option<DeploymentDirectory<P>>,
    /// Whether the directory goes with the run.
    is_temporary: bool,
}

impl<P: Host> Drop for RunDirectory<P> {
    fn drop(&mut self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.is_temporary) {
            // What is left behind is found under a name that says what it is.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

impl<P: Host> RunDirectory<P> {
    /// The directory of a run of one instance, or of several that divide data so.
    pub(crate) fn open(c: P::Core, plan: &Plan, deployed: Option<&DataOwners>) -> Result<Self, RunError> {
        let (path, is_temporary) = match (plan.durability, &plan.path, P::VIRTUAL) {
            (Durability::None, _, _) => (None, false),
            (_, Some(path), _) => (Some(path.clone()), false),
            (_, None, true) => (Some(PathBuf::from("database")), false),
            (_, None, false) => {
                (Some(std::env::temp_dir().join(format!("isles-bench-{}", std::process::id()))), true)
            }
        };
        let mut directory = RunDirectory { path, instances: None, is_temporary };
        if let (Some(path), Some(deployed)) = (&directory.path, deployed) {
            let opened = DeploymentDirectory::open(c, path, deployed);
            directory.instances = Some(opened.map_err(|error| RunError::at(path, &error))?);
        }
        Ok(directory)
    }

    /// The directory of an instance, if it is durable.
    pub(crate) fn of_instance(&self, instance: usize) -> Option<PathBuf> {
        match &self.instances {
            Some(instances) => Some(instances.instance(instance)),
            None => self.path.clone(),
        }
    }

    /// Closes a database in it. A database whose directory goes with the run needs no checkpoint, which closing may make.
    pub(crate) fn close(&self, c: P::Core, opened: OpenedDatabase<P>) -> Result<(), RunError> {
        if self.is_temporary {
            return Ok(());
        }
        opened.database.close(c).map_err(RunError::of)
    }

    /// Brings opened instances together: what was under way when they went down is resolved. What that took, if they were there.
    pub(crate) fn recover(
        &self,
        c: P::Core,
        opened: &[OpenedDatabase<P>],
        rules: Rules,
    ) -> Result<Option<Recovery>, RunError> {
        let mut all: Option<Recovery> = None;
        for recovered in opened.iter().filter_map(|opened| opened.recovered.as_ref()) {
            match &mut all {
                Some(all) => all.add(recovered),
                None => all = Some(*recovered),
            }
        }
        if all.is_some() && opened.iter().any(|opened| opened.recovered.is_none()) {
            return Err(RunError::HalfLoaded(self.path.clone().unwrap_or_default()));
        }
        let Some(all) = all.as_mut().filter(|_| opened.len() > 1) else { return Ok(all) };
        let databases: Vec<&Database<P>> = opened.iter().map(|opened| &opened.database).collect();
        let began = P::now(c);
        let resolved = islands::resolve(c, &databases, rules).map_err(RunError::of)?;
        all.in_doubt = resolved.committed + resolved.aborted;
        all.in_doubt_committed = resolved.committed;
        all.seconds += P::now(c).since(began) as f64 / 1e9;
        Ok(Some(*all))
    }
}

/// An opened database.
pub(crate) struct OpenedDatabase<P: Host> {
    pub database: Database<P>,
    /// What it took to open what an earlier run has loaded, if it holds that.
    pub recovered: Option<Recovery>,
    /// The number of this opening, larger than that of any before; 0 if the database is not durable.
    pub opening: u64,
    mark: Option<Table<Loaded>>,
}

impl<P: Host> OpenedDatabase<P> {
    /// Remembers that loading is complete, once all of it is durable.
    pub(crate) fn loaded(&self, c: P::Core) -> Result<(), RunError> {
        let Some(mark) = self.mark.filter(|_| self.recovered.is_none()) else { return Ok(()) };
        let mut session = self.database.session(c, None, false).map_err(RunError::of)?;
        let insert = session.transact(&Bounds::default(), |verbs| verbs.insert(mark, &Loaded { id: 1 }));
        match insert.map_err(RunError::of)? {
            Ending::Committed((), commit) => session.wait_durable(commit).map_err(RunError::of),
            Ending::RolledBack(_) => Ok(()),
        }
    }
}

/// Makes the database of an instance, or opens it in this directory.
pub(crate) fn open<P: Host>(
    c: P::Core,
    cx: Context<'_>,
    (instance, path): (usize, Option<PathBuf>),
    mut schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<OpenedDatabase<P>, RunError> {
    let plan = cx.plan;
    let options = &plan.instance_options(cx.deployment, instance);
    let Some(path) = path else {
        let database = P::CREATE(plan.scheme, c, options, schema, node_of).map_err(RunError::of)?;
        return Ok(OpenedDatabase { database, recovered: None, opening: 0, mark: None });
    };
    // After the workload's own: their numbers stay.
    let mark = schema.table::<Loaded>("benchmark", TableOptions::default());
    let workers = &cx.deployment.instances[instance].workers;
    let first = cx.deployment.first_worker(instance);
    let workers = first..first + workers.len();
    let places = cx.deployment.places()[workers.clone()].to_vec();
    let log = log_options(&cx.deployment.nodes()[workers], P::VIRTUAL);
    let durable = DurableOptions { log, places, ..DurableOptions::new(path) };
    let progress = cx.control.progress;
    let mut listener = |at: engine::Progress| progress.recovering(at.stage, at.done, at.total);
    let listening = Some(&mut listener as &mut dyn FnMut(engine::Progress));
    let (database, recovered) = P::OPEN(plan.scheme, c, options, schema, node_of, (&durable, listening))
        .map_err(|error| RunError::at(&durable.path, &error))?;
    let existed = database.inspector(c).row(mark.primary(), &1).is_some();
    if !existed && recovered.rows + recovered.records > 0 {
        return Err(RunError::HalfLoaded(durable.path));
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
    Ok(OpenedDatabase { database, recovered, opening, mark: Some(mark) })
}

/// A stream for each node that workers are on.
fn log_options(nodes: &[Option<Node>], is_virtual: bool) -> LogOptions {
    let mut streams = nodes.to_vec();
    streams.sort();
    streams.dedup();
    let segment_bytes = if is_virtual { SEGMENT_BYTES_VIRTUAL } else { SEGMENT_BYTES };
    LogOptions { streams, segment_bytes, access: Access::Direct, ..LogOptions::default() }
}

/// What the logs of all instances have done since they were opened; `None` if nothing is durable.
pub(crate) fn log_used<P: Host>(c: P::Core, opened: &[OpenedDatabase<P>]) -> Option<LogUse> {
    opened.iter().filter_map(|opened| opened.database.log_used(c)).reduce(|all, one| LogUse {
        written_bytes: all.written_bytes + one.written_bytes,
        flushes: all.flushes + one.flushes,
        groups: all.groups + one.groups,
        group_nanos: all.group_nanos + one.group_nanos,
        epoch: all.epoch + one.epoch,
    })
}

/// What a log did between two looks, between which so many transactions committed and so many nanoseconds passed, in each
/// instance.
pub(crate) fn log_figures(before: LogUse, after: LogUse, (commits, nanos): (u64, u64)) -> LogFigures {
    let bytes = (after.written_bytes - before.written_bytes) as f64;
    let groups = after.groups - before.groups;
    let share = |whole: f64, parts: u64| whole / parts.max(1) as f64;
    LogFigures {
        bytes_per_commit: share(bytes, commits),
        groups,
        group_bytes: share(bytes, groups),
        group_us: share((after.group_nanos - before.group_nanos) as f64, groups) / 1e3,
        epoch_us: share(nanos as f64, after.epoch - before.epoch) / 1e3,
    }
}
