//! The log of a benchmark: where it is, and when commits are acknowledged.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use cc::{InstanceOptions, Scheme, Stamp};
use engine::{Database, DurableOptions, SchemaBuilder, Session};
use platform::files::Access;
use platform::{Nanos, Node};
use storage::log::LogOptions;

use super::counted::Counted;
use super::setting::Setting;
use crate::choices::Durability;
use crate::config::Config;
use crate::errors::Failure;

/// Bytes of a segment of the log, on hardware and in virtual machines, whose disks are in the host's memory.
const SEGMENT_BYTES: u64 = 64 << 20;
const SEGMENT_BYTES_VIRTUAL: u64 = 1 << 20;
/// Commits of a worker that wait for their acknowledgement.
const PENDING_MAX: usize = 1 << 14;

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
    /// Whether it holds what an earlier run left.
    pub existed: bool,
}

/// Makes or opens the database of a run.
pub(super) fn open<P: Counted, S: Scheme<P>>(
    c: P::Core,
    config: &Config,
    setting: &Setting,
    options: &InstanceOptions,
    schema: SchemaBuilder,
    node_of: &dyn Fn(usize) -> Option<Node>,
) -> Result<Opened<P, S>, Failure> {
    if config.durability == Durability::None {
        let database = Database::create(c, options, schema, node_of).map_err(Failure::of)?;
        return Ok(Opened { database, directory: Temporary(None), existed: false });
    }
    let (path, directory) = match (&config.path, P::VIRTUAL) {
        (Some(path), _) => (PathBuf::from(path), Temporary(None)),
        (None, true) => (PathBuf::from("database"), Temporary(None)),
        (None, false) => {
            let path = std::env::temp_dir().join(format!("isles-bench-{}", std::process::id()));
            (path.clone(), Temporary(Some(path)))
        }
    };
    let durable = DurableOptions { log: log_options::<P>(setting), ..DurableOptions::new(path) };
    let (database, recovered) = Database::open(c, options, schema, node_of, &durable)
        .map_err(|error| failed(&durable.path, &error))?;
    Ok(Opened { database, directory, existed: recovered.rows + recovered.records > 0 })
}

fn failed(path: &Path, error: &engine::OpenError) -> Failure {
    let text = error.to_string();
    let named = text.contains(&path.display().to_string());
    Failure::Failed(if named { text } else { format!("{}: {text}", path.display()) })
}

/// A stream for each node that workers are on.
fn log_options<P: Counted>(setting: &Setting) -> LogOptions {
    let mut streams = setting.nodes.clone();
    streams.sort();
    streams.dedup();
    let segment_bytes = if P::VIRTUAL { SEGMENT_BYTES_VIRTUAL } else { SEGMENT_BYTES };
    LogOptions { streams, segment_bytes, access: Access::Direct, ..LogOptions::default() }
}

/// A commit that is not acknowledged yet.
pub(super) struct Waiting {
    pub kind: usize,
    pub began: Nanos,
    stamp: Stamp,
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
        (kind, began, stamp): (usize, Nanos, Stamp),
    ) -> Result<(), Failure> {
        let oldest = match self.durability {
            Durability::None | Durability::Async => None,
            Durability::Sync => Some(stamp),
            Durability::Group if self.waiting.len() < PENDING_MAX => None,
            Durability::Group => self.waiting.front().map(|waiting| waiting.stamp),
        };
        self.waiting.push_back(Waiting { kind, began, stamp });
        match oldest {
            Some(stamp) => session.wait_durable(stamp).map_err(Failure::of),
            None => Ok(()),
        }
    }

    /// The next commit that can be acknowledged now.
    pub(super) fn next<P: Counted, S: Scheme<P>>(&mut self, session: &Session<'_, P, S>) -> Option<Waiting> {
        let waiting = self.waiting.front()?;
        let at_once = matches!(self.durability, Durability::None | Durability::Async);
        if at_once || session.is_durable(waiting.stamp) { self.waiting.pop_front() } else { None }
    }

    /// Waits until everything can be acknowledged.
    pub(super) fn finish<P: Counted, S: Scheme<P>>(
        &self,
        session: &mut Session<'_, P, S>,
    ) -> Result<(), Failure> {
        match (self.durability, self.waiting.back()) {
            (Durability::Group | Durability::Sync, Some(last)) => {
                session.wait_durable(last.stamp).map_err(Failure::of)
            }
            _ => Ok(()),
        }
    }
}
