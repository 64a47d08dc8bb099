//! The log of a benchmark: where it is, and when commits are acknowledged.

use std::collections::VecDeque;
use std::path::PathBuf;

use cc::{InstanceOptions, Scheme};
use engine::{
    Bounds, Commit, Database, DurableOptions, Ending, Inspector, Row, Schema, SchemaBuilder, Session, Stage,
    Table, TableOptions, Verbs,
};
use platform::files::Access;
use platform::{Nanos, Node};
use storage::log::{LogOptions, LogUse};

use super::counted::Counted;
use super::setting::Setting;
use crate::choices::Durability;
use crate::config::Config;
use crate::errors::Failure;
use crate::progress::Progress;
use crate::report::{LogFigures, Recovery};

/// Bytes of a segment of the log, on hardware and in virtual machines, whose disks are in the host's memory.
const SEGMENT_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES_VIRTUAL: u64 = 1 << 20;
/// Commits of a worker that wait for their acknowledgement.
const PENDING_MAX: usize = 1 << 14;

/// Says that loading is complete: there is one such row, or none.
#[derive(Row, Clone, Debug)]
#[row(key(id))]
struct Loaded {
    id: u64,
}

/// A directory that is gone afterwards.
pub(super) struct Temporary(Option<PathBuf>);

impl Drop for Temporary {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // What is left behind is found under a name that says what it is.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// An opened database.
pub(super) struct Opened<P: Counted, S: Scheme<P>> {
    /// It is dropped before the directory goes.
    pub database: Database<P, S>,
    pub directory: Temporary,
    /// What it took to open what an earlier run has loaded, if it holds that.
    pub recovered: Option<Recovery>,
    mark: Option<Table<Loaded>>,
}

impl<P: Counted, S: Scheme<P>> Opened<P, S> {
    /// Remembers that loading is complete, once all of it is durable.
    pub(super) fn loaded(&self, c: P::Core) -> Result<(), Failure> {
        let Some(mark) = self.mark.filter(|_| self.recovered.is_none()) else { return Ok(()) };
        let mut session = self.database.session(c, None, false).map_err(Failure::of)?;
        let insert = session.transact(&Bounds::default(), |verbs| verbs.insert(mark, &Loaded { id: 1 }));
        match insert.map_err(Failure::of)? {
            Ending::Committed((), commit) => session.wait_durable(commit).map_err(Failure::of),
            Ending::RolledBack(_) => Ok(()),
        }
    }

    /// Closes the database. Of one whose directory goes with it nobody wants the checkpoint that closing may make.
    pub(super) fn end(self, c: P::Core) -> Result<(), Failure> {
        if self.directory.0.is_some() {
            return Ok(());
        }
        self.database.close(c).map_err(Failure::of)
    }
}

/// Makes or opens the database of a run.
pub(super) fn open<P: Counted, S: Scheme<P>>(
    c: P::Core,
    (config, progress): (&Config, &Progress),
    setting: &Setting,
    options: &InstanceOptions,
    mut schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<Opened<P, S>, Failure> {
    if config.durability == Durability::None {
        let database = Database::create(c, options, schema, node_of).map_err(Failure::of)?;
        return Ok(Opened { database, directory: Temporary(None), recovered: None, mark: None });
    }
    let (path, directory) = match (&config.path, P::VIRTUAL) {
        (Some(path), _) => (PathBuf::from(path), Temporary(None)),
        (None, true) => (PathBuf::from("database"), Temporary(None)),
        (None, false) => {
            let path = std::env::temp_dir().join(format!("isles-bench-{}", std::process::id()));
            (path.clone(), Temporary(Some(path)))
        }
    };
    // After the workload's own: their numbers stay.
    let mark = schema.table::<Loaded>("benchmark", TableOptions::default());
    let places = setting.places.clone();
    let durable = DurableOptions { log: log_options::<P>(setting), places, ..DurableOptions::new(path) };
    let mut listener = |at: engine::Progress| progress.recovering(name_of(at.stage), at.done, at.total);
    let listening = Some(&mut listener as &mut dyn FnMut(engine::Progress));
    let (database, recovered) = Database::open_telling(c, options, schema, node_of, &durable, listening)
        .map_err(|error| Failure::at(&durable.path, &error))?;
    let existed = database.inspector(c).row(mark.primary(), &1).is_some();
    if !existed && recovered.rows + recovered.records > 0 {
        let path = durable.path.display();
        return Err(Failure::Failed(format!(
            "{path}: its loading was interrupted: remove it, or take another"
        )));
    }
    let recovered = existed.then(|| Recovery {
        records: recovered.records,
        changes: recovered.changes,
        rows: recovered.rows,
        bytes: recovered.log_bytes + recovered.checkpoint_bytes,
        seconds: recovered.nanos as f64 / 1e9,
    });
    Ok(Opened { database, directory, recovered, mark: Some(mark) })
}

fn name_of(stage: Stage) -> &'static str {
    match stage {
        Stage::Reading => "reading the log",
        Stage::Dividing => "dividing the log",
        Stage::Repeating => "repeating the log",
        Stage::Loading => "loading the checkpoint",
    }
}

/// A stream for each node that workers are on.
fn log_options<P: Counted>(setting: &Setting) -> LogOptions {
    let mut streams = setting.nodes.clone();
    streams.sort();
    streams.dedup();
    let segment_bytes = if P::VIRTUAL { SEGMENT_BYTES_VIRTUAL } else { SEGMENT_BYTES };
    LogOptions { streams, segment_bytes, access: Access::Direct, ..LogOptions::default() }
}

/// What a log did between two looks, between which so many transactions committed and so many nanoseconds passed.
pub(super) fn log_figures(before: LogUse, after: LogUse, (commits, nanos): (u64, u64)) -> LogFigures {
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

/// A commit that is not acknowledged yet.
pub(super) struct Waiting {
    pub kind: usize,
    pub began: Nanos,
    commit: Commit,
}

/// Commits of one worker on their way to their acknowledgement.
pub(super) struct Acknowledgements {
    durability: Durability,
    waiting: VecDeque<Waiting>,
}

impl Acknowledgements {
    pub(super) fn new(durability: Durability) -> Self {
        Acknowledgements { durability, waiting: VecDeque::new() }
    }

    /// A transaction of this kind has committed.
    pub(super) fn committed<P: Counted, S: Scheme<P>>(
        &mut self,
        session: &mut Session<'_, P, S>,
        (kind, began, commit): (usize, Nanos, Commit),
    ) -> Result<(), Failure> {
        let oldest = match self.durability {
            Durability::None | Durability::Async => None,
            Durability::Sync => Some(commit),
            Durability::Group if self.waiting.len() < PENDING_MAX => None,
            Durability::Group => self.waiting.front().map(|waiting| waiting.commit),
        };
        self.waiting.push_back(Waiting { kind, began, commit });
        match oldest {
            Some(commit) => session.wait_durable(commit).map_err(Failure::of),
            None => Ok(()),
        }
    }

    /// The next commit that can be acknowledged now.
    pub(super) fn next<P: Counted, S: Scheme<P>>(&mut self, session: &Session<'_, P, S>) -> Option<Waiting> {
        let waiting = self.waiting.front()?;
        let at_once = matches!(self.durability, Durability::None | Durability::Async);
        if at_once || session.is_durable(waiting.commit) { self.waiting.pop_front() } else { None }
    }

    /// Waits until everything can be acknowledged.
    pub(super) fn finish<P: Counted, S: Scheme<P>>(
        &self,
        session: &mut Session<'_, P, S>,
    ) -> Result<(), Failure> {
        match (self.durability, self.waiting.back()) {
            (Durability::Group | Durability::Sync, Some(last)) => {
                session.wait_durable(last.commit).map_err(Failure::of)
            }
            _ => Ok(()),
        }
    }
}
