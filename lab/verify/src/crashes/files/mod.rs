//! Files as a campaign: what becomes of a database one of whose files is missing, cut, damaged,
//! doubled, or another's.
//!
//! A seed makes the directory of a database in two lives, the second of which ends with a close or
//! a kill, and that of another database. Then each [`Damage`] happens to a copy of the directory,
//! which is opened. Either it opens with every number that was acknowledged, and so it does once
//! more after that; or it is refused in one line, and no byte of the directory has changed; or,
//! over pages, the first transaction that needs a damaged page is refused. A file that is not
//! provably the database's own is there as before in both cases. Losses that nobody can see are in
//! a table ([`UNDECIDABLE`]): there the last transactions may be missing, and nothing else may be
//! wrong.

mod damage;
mod undecidable;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use boundary::{Database, SchemaBuilder};
use concurrency::InstanceOptions;
use platform::{Place, Platform};
use sim::{Crash, Disk, DiskModel, Faults, SimError, VirtualCore, VirtualMachine};
use terms::random::Random;

use super::machine::{EPOCH_NANOS, options};
use super::workload::{KEPT, MEMORY_BYTES_MAX, Tables, Worker, check, read_all};
use crate::caught::caught;
use crate::subject::Subject;
use crate::task::{Observed, Task};

pub use damage::{Content, Damage, Sources, written};
pub use undecidable::{Ended, Loss, UNDECIDABLE, Undecidable};

/// Transactions of each worker in one life.
const TRANSACTIONS: u64 = 12;
/// Violations of a seed that are told.
const TOLD_MAX: usize = 6;
/// The seed of another database.
const OTHER: u64 = 0x0123_4567;

/// What somebody does to a directory who should not: a planted fault.
#[derive(Clone, Copy)]
pub struct Meddling {
    /// Before it is opened.
    pub before: fn(&mut Content),
    /// After it was refused.
    pub refused: fn(&mut Content),
}

/// What a campaign of files has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMarks {
    /// Damaged directories that were opened.
    pub damages: u64,
    /// Those that opened with everything.
    pub whole: u64,
    /// Those that were refused.
    pub refused: u64,
    /// Those that opened with a loss which nobody can see.
    pub undecidable: u64,
}

/// A directory, and what was acknowledged when it was left.
struct Left {
    content: Content,
    acknowledged: Vec<u64>,
    /// Where the last group of each file begins.
    last_groups: BTreeMap<String, u64>,
}

/// One trial.
struct Trial<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    path: PathBuf,
    meddling: Option<Meddling>,
}

/// What an opening shows.
enum Opening {
    Refused(String),
    /// It opens, and a row that is looked at is refused: pages are read when they are needed.
    Unreadable(String),
    /// What is wrong with the rows, and whether that is only that the last ones are missing.
    Opened {
        wrong: Vec<String>,
        only_lost: bool,
    },
}

pub(crate) fn run(subject: &Subject, task: &Task<'_>) -> Result<Observed, SimError> {
    let (marks, mut violations) = violations(subject, task, None)?;
    let more = violations.len().saturating_sub(TOLD_MAX);
    violations.truncate(TOLD_MAX);
    if more > 0 {
        violations.push(format!("and {more} more"));
    }
    Ok(Observed { transactions: marks.damages, violations, ..Observed::default() })
}

/// Runs one seed of a scheme; what was done, and what is wrong.
///
/// # Errors
/// The machine that makes the directories fails.
pub fn try_seed(
    subject: &Subject,
    seed: u64,
    meddling: Option<Meddling>,
) -> Result<(FileMarks, Vec<String>), SimError> {
    let (work, machine) = (crate::Work::Files, &crate::Machine::Small);
    let task = Task { work, machine, workers: work.workers(seed), seed, partitioned: subject.partitioned };
    violations(subject, &task, meddling)
}

fn violations(
    subject: &Subject,
    task: &Task<'_>,
    meddling: Option<Meddling>,
) -> Result<(FileMarks, Vec<String>), SimError> {
    let mut random = Random::new(task.seed, 11);
    let trial = Trial { subject, task, path: options(task.seed).path, meddling };
    let ended = if task.seed.is_multiple_of(2) { Ended::Killed } else { Ended::Closed };
    let disk = trial.disk(0);
    let older = trial.live(&disk, 0, Ended::Closed, vec![0; task.workers])?;
    let left = trial.live(&disk, 1, ended, older.acknowledged.clone())?;
    let other = trial.live(&trial.disk(OTHER), 2, Ended::Closed, vec![0; task.workers])?;
    let sources = Sources { content: &left.content, older: &older.content, other: &other.content };
    let names: Vec<&str> = left.content.keys().map(String::as_str).collect();
    let (mut marks, mut wrong) = (FileMarks::default(), Vec::new());
    for damage in Damage::all(&sources, &mut random) {
        marks.damages += 1;
        let mut content = damage.apply(&sources);
        if let Some(meddling) = meddling {
            (meddling.before)(&mut content);
        }
        let of_pages = subject.has_pages();
        let loss = Loss { damage: &damage, ended, of_pages, names: &names, last_groups: &left.last_groups };
        match trial.judge(&damage, &content, &left.acknowledged, &mut random) {
            Ok(Opening::Refused(_) | Opening::Unreadable(_)) => marks.refused += 1,
            Ok(Opening::Opened { wrong, .. }) if wrong.is_empty() => marks.whole += 1,
            Ok(Opening::Opened { only_lost: true, .. }) if loss.undecidable().is_some() => {
                marks.undecidable += 1
            }
            Ok(Opening::Opened { wrong: what, .. }) => {
                wrong.push(format!("{ended:?}, {damage}: opened: {}", what.join("; ")));
            }
            Err(what) => wrong.push(format!("{ended:?}, {damage}: {what}")),
        }
    }
    Ok((marks, wrong))
}

impl Trial<'_> {
    fn disk(&self, which: u64) -> Disk {
        Disk::new(DiskModel::RAM, Faults { seed: self.task.seed ^ which, ..Faults::default() })
    }

    fn config(&self, disk: &Disk, round: u64) -> sim::Config {
        let config = self.task.machine.config(self.task).with_disk(disk);
        config.with_seed(self.task.seed.wrapping_mul(37).wrapping_add(round))
    }

    fn open(&self, c: VirtualCore) -> Result<(Database<VirtualMachine>, Tables), String> {
        let mut schema = SchemaBuilder::new();
        let partitions = self.task.partitioned.then_some(self.task.workers as u16 + 1);
        let tables = Tables::declare(&mut schema, partitions, KEPT);
        let instance = InstanceOptions {
            sessions_max: 2 * self.task.workers + 1,
            memory_bytes_max: MEMORY_BYTES_MAX,
            epoch_nanos: EPOCH_NANOS,
            ..InstanceOptions::default()
        };
        let opened = self.subject.open(c, &instance, schema, &options(self.task.seed));
        opened.map(|(database, _)| (database, tables)).map_err(|error| error.to_string())
    }

    /// One life on this disk: opens, runs transactions, and ends as told.
    fn live(&self, disk: &Disk, round: u64, ended: Ended, acknowledged: Vec<u64>) -> Result<Left, SimError> {
        let acknowledged: Vec<AtomicU64> = acknowledged.into_iter().map(AtomicU64::new).collect();
        let wrong = Mutex::new(Vec::new());
        let mut random = Random::new(self.task.seed, 20 + round);
        let config = self.config(disk, round);
        // Half of the killed ones are killed in the midst of transactions, the others forget to
        // close.
        let killed = ended == Ended::Killed && random.below(2) == 0;
        let config =
            if killed { config.crashing(Crash::Event(20_000 + random.below(60_000))) } else { config };
        let run = VirtualMachine::run(&config, |c| {
            if let Err(what) = self.transact(c, round, ended, &acknowledged) {
                wrong.lock().unwrap_or_else(PoisonError::into_inner).push(what);
            }
        });
        match run {
            Ok(_) | Err(SimError::Crashed { .. }) => {}
            Err(error) => return Err(error),
        }
        let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert!(wrong.is_empty(), "a life without damage: {wrong:?}");
        let acknowledged = acknowledged.into_iter().map(AtomicU64::into_inner).collect();
        let content = self.content(disk);
        let place = |name: &String| Some((name.clone(), disk.last_group(&self.path, name)?));
        let last_groups = content.keys().filter_map(place).collect();
        Ok(Left { content, acknowledged, last_groups })
    }

    fn transact(
        &self,
        c: VirtualCore,
        round: u64,
        ended: Ended,
        acknowledged: &[AtomicU64],
    ) -> Result<(), String> {
        let (database, tables) = self.open(c)?;
        let wrong = Mutex::new(Vec::new());
        let acknowledge = |worker: usize, done| _ = acknowledged[worker].fetch_max(done, Ordering::Relaxed);
        let worker = |c, number: usize| {
            let mut worker = Worker {
                database: &database,
                tables,
                number,
                workers: self.task.workers as u16,
                random: Random::new(self.task.seed, 100 + number as u64 * 10 + round),
                transactions: TRANSACTIONS,
                committed: &|| (),
                acknowledge: &acknowledge,
            };
            if let Err(abort) = worker.run(c) {
                wrong.lock().unwrap_or_else(PoisonError::into_inner).push(abort.to_string());
            }
        };
        let places = vec![Place { thread: None }; self.task.workers];
        VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
        if ended == Ended::Closed {
            database.close(c).map_err(|error| error.to_string())?;
        }
        let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Opens a directory in which something has happened; what is wrong with how that ends.
    fn judge(
        &self,
        damage: &Damage,
        content: &Content,
        floor: &[u64],
        random: &mut Random,
    ) -> Result<Opening, String> {
        let disk = self.disk(0);
        disk.replace_directory(&self.path, content);
        let opening = self.look(&disk, floor)?;
        let mut after = self.content(&disk);
        if let (Some(meddling), Opening::Refused(_)) = (self.meddling, &opening) {
            (meddling.refused)(&mut after);
        }
        if let Some(name) = damage.foreign()
            && after.get(name) != content.get(name)
            && !damage.is_superseded(&after)
        {
            return Err(format!("{name} is not the database's own, and was changed or removed"));
        }
        match &opening {
            Opening::Refused(text) if text.contains('\n') => Err(format!("refused in several lines: {text}")),
            Opening::Refused(text) if after != *content => {
                Err(format!("refused ({text}), and changed: {}", changes(content, &after)))
            }
            Opening::Unreadable(text) if text.contains('\n') || !self.subject.has_pages() => {
                Err(format!("opened, and a row cannot be read: {text}"))
            }
            // What the first opening has written is opened by the next.
            Opening::Opened { wrong, .. } if wrong.is_empty() && random.below(3) == 0 => {
                match self.look(&disk, floor)? {
                    Opening::Refused(text) | Opening::Unreadable(text) => {
                        Err(format!("opened, and then refused: {text}"))
                    }
                    Opening::Opened { wrong, .. } if !wrong.is_empty() => {
                        Err(format!("opened twice: {}", wrong.join("; ")))
                    }
                    Opening::Opened { .. } => Ok(opening),
                }
            }
            _ => Ok(opening),
        }
    }

    /// Opens a directory and reads all rows.
    fn look(&self, disk: &Disk, floor: &[u64]) -> Result<Opening, String> {
        let config = self.config(disk, 3);
        let run = caught(|| {
            VirtualMachine::run(&config, |c| match self.open(c) {
                Err(refusal) => Opening::Refused(refusal),
                Ok((database, tables)) => match read_all(c, &database, tables) {
                    Err(abort) => Opening::Unreadable(abort.to_string()),
                    Ok(()) => {
                        let checked = check(c, &database, tables, floor);
                        Opening::Opened { only_lost: checked.only_lost(floor), wrong: checked.wrong }
                    }
                },
            })
        });
        match run {
            Ok(Ok(outcome)) => Ok(outcome.value),
            Ok(Err(error)) => Err(error.to_string()),
            Err(panic) => Err(format!("panicked: {panic}")),
        }
    }

    fn content(&self, disk: &Disk) -> Content {
        let files = disk.contents().into_iter();
        let inside = files.filter(|(path, _)| path.parent() == Some(Path::new(&self.path)));
        let named = |(path, bytes): (PathBuf, Vec<u8>)| {
            Some((path.file_name()?.to_string_lossy().into_owned(), bytes))
        };
        inside.filter_map(named).collect()
    }
}

/// What differs between two states of a directory.
fn changes(before: &Content, after: &Content) -> String {
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("{name} is gone"));
    let new = after.keys().filter(|name| !before.contains_key(*name)).map(|name| format!("{name} is new"));
    let other = after.iter().filter(|(name, bytes)| before.get(*name).is_some_and(|before| before != *bytes));
    let other = other.map(|(name, bytes)| {
        let before = &before[name];
        let place = before.iter().zip(bytes).position(|(one, other)| one != other);
        let place = place.unwrap_or(before.len().min(bytes.len()));
        format!("{name} differs at byte {place} ({} bytes, then {})", before.len(), bytes.len())
    });
    gone.chain(new).chain(other).collect::<Vec<_>>().join(", ")
}

impl FileMarks {
    /// Adds those of another seed.
    pub fn add(&mut self, other: FileMarks) {
        self.damages += other.damages;
        self.whole += other.whole;
        self.refused += other.refused;
        self.undecidable += other.undecidable;
    }
}
