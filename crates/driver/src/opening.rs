//! The database of a run: made in memory, or opened in a directory, which may hold what an earlier run has loaded.

use std::path::PathBuf;

use cc::InstanceOptions;
use engine::dynamic::Database;
use engine::{
    Bounds, DurableOptions, Ending, Inspector, Row, Schema, SchemaBuilder, Table, TableOptions, Verbs,
};
use platform::Node;
use platform::files::Access;
use storage::log::{LogOptions, LogUse};

use crate::context::Context;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::host::Host;
use crate::measurement::{LogFigures, Recovery};
use crate::plan::Durability;

/// Bytes of a segment of the log, on hardware and in virtual machines, whose disks are in the host's memory.
const SEGMENT_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES_VIRTUAL: u64 = 1 << 20;

/// Says that loading is complete: there is one such row, or none.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
struct Loaded {
    id: u64,
}

/// A directory that is gone afterwards.
pub(crate) struct TemporaryDirectory(Option<PathBuf>);

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What is left behind is found under a name that says what it is.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// An opened database.
pub(crate) struct OpenedDatabase<P: Host> {
    /// The database, dropped before its directory goes.
    pub database: Database<P>,
    pub directory: TemporaryDirectory,
    /// What it took to open what an earlier run has loaded, if it holds that.
    pub recovered: Option<Recovery>,
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

    /// Closes the database. A database whose directory goes with it needs no checkpoint, which closing may make.
    pub(crate) fn end(self, c: P::Core) -> Result<(), RunError> {
        if self.directory.0.is_some() {
            return Ok(());
        }
        self.database.close(c).map_err(RunError::of)
    }
}

/// Makes or opens the database of a run.
pub(crate) fn open<P: Host>(
    c: P::Core,
    cx: Context<'_>,
    options: &InstanceOptions,
    mut schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<OpenedDatabase<P>, RunError> {
    let plan = cx.plan;
    if plan.durability == Durability::None {
        let database = P::CREATE(plan.scheme, c, options, schema, node_of).map_err(RunError::of)?;
        return Ok(OpenedDatabase {
            database,
            directory: TemporaryDirectory(None),
            recovered: None,
            mark: None,
        });
    }
    let (path, directory) = match (&plan.path, P::VIRTUAL) {
        (Some(path), _) => (path.clone(), TemporaryDirectory(None)),
        (None, true) => (PathBuf::from("database"), TemporaryDirectory(None)),
        (None, false) => {
            let path = std::env::temp_dir().join(format!("isles-bench-{}", std::process::id()));
            (path.clone(), TemporaryDirectory(Some(path)))
        }
    };
    // After the workload's own: their numbers stay.
    let mark = schema.table::<Loaded>("benchmark", TableOptions::default());
    let places = cx.deployment.places();
    let durable =
        DurableOptions { log: log_options(cx.deployment, P::VIRTUAL), places, ..DurableOptions::new(path) };
    let progress = cx.control.progress;
    let mut listener = |at: engine::Progress| progress.recovering(at.stage, at.done, at.total);
    let listening = Some(&mut listener as &mut dyn FnMut(engine::Progress));
    let (database, recovered) = P::OPEN(plan.scheme, c, options, schema, node_of, (&durable, listening))
        .map_err(|error| RunError::at(&durable.path, &error))?;
    let existed = database.inspector(c).row(mark.primary(), &1).is_some();
    if !existed && recovered.rows + recovered.records > 0 {
        return Err(RunError::HalfLoaded(durable.path));
    }
    let recovered = existed.then(|| Recovery {
        records: recovered.records,
        changes: recovered.changes,
        rows: recovered.rows,
        bytes: recovered.log_bytes + recovered.checkpoint_bytes,
        seconds: recovered.nanos as f64 / 1e9,
    });
    Ok(OpenedDatabase { database, directory, recovered, mark: Some(mark) })
}

/// A stream for each node that workers are on.
fn log_options(deployment: &Deployment, is_virtual: bool) -> LogOptions {
    let mut streams = deployment.nodes();
    streams.sort();
    streams.dedup();
    let segment_bytes = if is_virtual { SEGMENT_BYTES_VIRTUAL } else { SEGMENT_BYTES };
    LogOptions { streams, segment_bytes, access: Access::Direct, ..LogOptions::default() }
}

/// What a log did between two looks, between which so many transactions committed and so many nanoseconds passed.
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
