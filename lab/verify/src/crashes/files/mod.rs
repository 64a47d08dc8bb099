//! Campaign of damaged files: opens databases with one file missing, truncated, damaged,
//! duplicated, or of another database.
//!
//! A seed makes the directory of a database in two generations, the second of which ends with a
//! close or a kill, and that of another database. Then each [`Damage`] is applied to a copy of the
//! directory, which is opened. One of these has to happen: the database opens with all acknowledged
//! numbers, and does so again afterwards; or the opening is refused with one line, and no byte of
//! the directory changes; or, over pages, the first transaction that needs a damaged page is
//! refused. A file that is not provably the database's own stays as it is in all cases. Losses that
//! no opening can detect are in a table ([`UNDECIDABLE`]): there the last transactions may be
//! missing, and nothing else may be wrong.

mod damage;
mod undecidable;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::Database;
use sim::{Crash, Disk, DiskFaults, DiskModel, SimError, VirtualCore, VirtualMachine};
use terms::random::Random;

use super::machine::{open_database, options};
use super::workload::{Tables, Workers, check, read_all};
use crate::mutex::{into_inner, lock};
use crate::panics::catch_panic;
use crate::subject::Subject;
use crate::task::{Observed, Task};

pub use damage::{Content, Damage, Sources, written};
pub use undecidable::{Ended, Loss, UNDECIDABLE, Undecidable};

/// Transactions of each worker in one generation.
const TRANSACTIONS: u64 = 12;
/// Violations of a seed that are reported.
const VIOLATIONS_SHOWN: usize = 6;
/// Changes the seed for the other database.
const OTHER: u64 = 0x0123_4567;

/// Changes of a directory that stand for a faulty opening: an injected fault.
#[derive(Clone, Copy)]
pub struct DirectoryFault {
    /// Applied before the opening.
    pub before: fn(&mut Content),
    /// Applied after a refused opening.
    pub refused: fn(&mut Content),
}

/// Counts of a campaign of damaged files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMarks {
    /// Damaged directories that were opened.
    pub damages: u64,
    /// Directories that opened with all acknowledged numbers.
    pub whole: u64,
    /// Directories that were refused.
    pub refused: u64,
    /// Directories that opened with a loss that no opening can detect.
    pub undecidable: u64,
}

/// A directory, and the numbers that were acknowledged when it was left.
struct DirectoryState {
    content: Content,
    acknowledged: Vec<u64>,
    /// Offset of the last group of each file.
    last_groups: BTreeMap<String, u64>,
}

/// One trial.
struct FileTrial<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    path: PathBuf,
    fault: Option<DirectoryFault>,
}

/// Result of an opening.
enum Opening {
    Refused(String),
    /// The database opens, and a row that is read is refused: pages are read when they are needed.
    Unreadable(String),
    /// The database opens with these violations; `only_lost`: the only violations are missing last
    /// transactions.
    Opened {
        wrong: Vec<String>,
        only_lost: bool,
    },
}

pub(crate) fn run(subject: &Subject, task: &Task<'_>) -> Result<Observed, SimError> {
    let (marks, mut violations) = violations(subject, task, None)?;
    let more = violations.len().saturating_sub(VIOLATIONS_SHOWN);
    violations.truncate(VIOLATIONS_SHOWN);
    if more > 0 {
        violations.push(format!("and {more} more"));
    }
    Ok(Observed { transactions: marks.damages, violations, ..Observed::default() })
}

/// Runs one seed of a scheme. Returns counts, and violations.
///
/// # Errors
/// The machine that makes the directories fails.
pub fn try_seed(
    subject: &Subject,
    seed: u64,
    fault: Option<DirectoryFault>,
) -> Result<(FileMarks, Vec<String>), SimError> {
    let (work, machine) = (crate::Work::Files, &crate::Machine::Small);
    let task = Task { work, machine, workers: work.workers(seed), seed, partitioned: subject.partitioned };
    violations(subject, &task, fault)
}

fn violations(
    subject: &Subject,
    task: &Task<'_>,
    fault: Option<DirectoryFault>,
) -> Result<(FileMarks, Vec<String>), SimError> {
    let mut random = Random::new(task.seed, 11);
    let trial = FileTrial { subject, task, path: options(task.seed).path, fault };
    let ended = if task.seed.is_multiple_of(2) { Ended::Killed } else { Ended::Closed };
    let disk = trial.disk(0);
    let older = trial.run_generation(&disk, 0, Ended::Closed, vec![0; task.workers])?;
    let left = trial.run_generation(&disk, 1, ended, older.acknowledged.clone())?;
    let other = trial.run_generation(&trial.disk(OTHER), 2, Ended::Closed, vec![0; task.workers])?;
    let sources = Sources { content: &left.content, older: &older.content, other: &other.content };
    let names: Vec<&str> = left.content.keys().map(String::as_str).collect();
    let (mut marks, mut wrong) = (FileMarks::default(), Vec::new());
    for damage in Damage::all(&sources, &mut random) {
        marks.damages += 1;
        let mut content = damage.apply(&sources);
        if let Some(fault) = fault {
            (fault.before)(&mut content);
        }
        let has_pages = subject.has_pages();
        let loss = Loss { damage: &damage, ended, has_pages, names: &names, last_groups: &left.last_groups };
        match trial.open_damaged(&damage, &content, &left.acknowledged, &mut random) {
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

impl FileTrial<'_> {
    fn disk(&self, which: u64) -> Disk {
        Disk::new(DiskModel::RAM, DiskFaults { seed: self.task.seed ^ which, ..DiskFaults::default() })
    }

    fn config(&self, disk: &Disk, round: u64) -> sim::Config {
        let config = self.task.machine.config(self.task).with_disk(disk);
        config.with_seed(self.task.seed.wrapping_mul(37).wrapping_add(round))
    }

    fn open(&self, c: VirtualCore) -> Result<(Database<VirtualMachine>, Tables), String> {
        let partitions = self.task.partitioned.then_some(self.task.workers as u16 + 1);
        open_database(c, self.subject, self.task, partitions, 2 * self.task.workers + 1)
            .map_err(|error| error.to_string())
    }

    /// One generation on this disk: opens, runs transactions, and ends as `ended` says.
    fn run_generation(
        &self,
        disk: &Disk,
        round: u64,
        ended: Ended,
        acknowledged: Vec<u64>,
    ) -> Result<DirectoryState, SimError> {
        let acknowledged: Vec<AtomicU64> = acknowledged.into_iter().map(AtomicU64::new).collect();
        let wrong = Mutex::new(Vec::new());
        let mut random = Random::new(self.task.seed, 20 + round);
        let config = self.config(disk, round);
        // Half of the killed generations end in the midst of transactions, the others without a
        // close.
        let killed = ended == Ended::Killed && random.below(2) == 0;
        let config =
            if killed { config.crashing(Crash::Event(20_000 + random.below(60_000))) } else { config };
        let run = VirtualMachine::run(&config, |c| {
            if let Err(what) = self.transact(c, round, ended, &acknowledged) {
                lock(&wrong).push(what);
            }
        });
        match run {
            Ok(_) | Err(SimError::Crashed { .. }) => {}
            Err(error) => return Err(error),
        }
        let wrong = into_inner(wrong);
        assert!(wrong.is_empty(), "a life without damage: {wrong:?}");
        let acknowledged = acknowledged.into_iter().map(AtomicU64::into_inner).collect();
        let content = self.content(disk);
        let place = |name: &String| Some((name.clone(), disk.last_group(&self.path, name)?));
        let last_groups = content.keys().filter_map(place).collect();
        Ok(DirectoryState { content, acknowledged, last_groups })
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
        let workers = Workers {
            database: &database,
            tables,
            count: self.task.workers,
            transactions: TRANSACTIONS,
            committed: &|| (),
            acknowledge: &|worker, done| _ = acknowledged[worker].fetch_max(done, Ordering::Relaxed),
        };
        let random = |number| Random::new(self.task.seed, 100 + number as u64 * 10 + round);
        workers.run_all(c, &random, &|_, abort| lock(&wrong).push(abort.to_string()));
        if ended == Ended::Closed {
            database.close(c).map_err(|error| error.to_string())?;
        }
        let wrong = into_inner(wrong);
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }

    /// Opens a damaged directory. The error is a violation.
    fn open_damaged(
        &self,
        damage: &Damage,
        content: &Content,
        floor: &[u64],
        random: &mut Random,
    ) -> Result<Opening, String> {
        let disk = self.disk(0);
        disk.replace_directory(&self.path, content);
        let opening = self.open_and_read(&disk, floor)?;
        let mut after = self.content(&disk);
        if let (Some(fault), Opening::Refused(_)) = (self.fault, &opening) {
            (fault.refused)(&mut after);
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
            // The next opening opens what the first one wrote.
            Opening::Opened { wrong, .. } if wrong.is_empty() && random.below(3) == 0 => {
                match self.open_and_read(&disk, floor)? {
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
    fn open_and_read(&self, disk: &Disk, floor: &[u64]) -> Result<Opening, String> {
        let config = self.config(disk, 3);
        let run = catch_panic(|| {
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

/// Differences between two states of a directory.
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
    /// Adds the counts of another seed.
    pub fn add(&mut self, other: FileMarks) {
        self.damages += other.damages;
        self.whole += other.whole;
        self.refused += other.refused;
        self.undecidable += other.undecidable;
    }
}
