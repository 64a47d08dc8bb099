//! A simulated machine that crashes and restarts.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::{Database, DurableOptions, OpenError, SchemaBuilder};
use concurrency::InstanceOptions;
use engine::durable::content::{self, ContentError};
use pages::PagedError;
use platform::files::{Access, FileErrorKind};
use platform::{Nanos, Node, Place};
use redo_log::{LogError, LogOptions};
use sim::{Crash, Disk, DiskFaults, DiskModel, SimError, VirtualCore, VirtualMachine};
use terms::Abort;
use terms::random::Random;

use super::workload::{KEPT, MEMORY_BYTES_MAX, Tables, Workers, check};
use crate::mutex::{into_inner, lock};
use crate::subject::Subject;
use crate::task::{Machine, Observed, Task, Work};

/// Epochs are short, so that a run has many.
pub(super) const EPOCH_NANOS: u64 = 20_000;
/// Transactions of each worker in a boot.
const TRANSACTIONS: u64 = 24;
/// Boots that run transactions.
pub(super) const ROUNDS: u64 = 3;

/// State that survives the crashes, outside the machine.
struct CrashTrial<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    /// The last number that each worker acknowledged.
    acknowledged: Vec<AtomicU64>,
    commits: AtomicU64,
    violations: Mutex<Vec<String>>,
    /// True if the disk may refuse operations.
    may_refuse: bool,
}

/// Runs a task with the disk faults of its seed.
pub(crate) fn run(subject: &Subject, task: &Task<'_>) -> Result<Observed, SimError> {
    run_on(subject, task, faults(task.seed))
}

/// The disk faults of this seed.
pub fn faults(seed: u64) -> DiskFaults {
    let mut random = Random::new(seed, 7);
    DiskFaults {
        seed,
        sector_bytes: if random.below(2) == 0 { 512 } else { 4096 },
        garbage_one_in: [0, 0, 3][random.below(3) as usize],
        flush_failure_one_in: [0, 0, 0, 12, 40][random.below(5) as usize],
        capacity_bytes: [u64::MAX, u64::MAX, u64::MAX, 400_000][random.below(4) as usize],
        ..DiskFaults::default()
    }
}

/// The violations of a trial of a scheme on a disk with these faults.
pub fn violations(subject: &Subject, seed: u64, faults: DiskFaults) -> Result<Vec<String>, SimError> {
    let (work, machine) = (Work::Crashes, &Machine::Small);
    let task = Task { work, machine, workers: work.workers(seed), seed, partitioned: false };
    run_on(subject, &task, faults).map(|observed| observed.violations)
}

fn run_on(subject: &Subject, task: &Task<'_>, faults: DiskFaults) -> Result<Observed, SimError> {
    let mut random = Random::new(task.seed, 8);
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME, DiskModel::HDD][random.below(4) as usize];
    let disk = Disk::new(model, faults);
    let workers = task.workers;
    let trial = CrashTrial {
        subject,
        task,
        acknowledged: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        commits: AtomicU64::new(0),
        violations: Mutex::default(),
        may_refuse: may_refuse(&faults),
    };
    boot_repeatedly(task, &disk, model, &mut random, &|c, round| boot(c, &trial, round))?;
    let violations = into_inner(trial.violations);
    let transactions = trial.commits.into_inner();
    Ok(Observed { transactions, violations, ..Observed::default() })
}

/// Boots a machine several times over the same disk: rounds that end in a crash, and a last one
/// without a crash.
pub(super) fn boot_repeatedly(
    task: &Task<'_>,
    disk: &Disk,
    model: DiskModel,
    random: &mut Random,
    boot: &dyn Fn(VirtualCore, u64),
) -> Result<(), SimError> {
    for round in 0..=ROUNDS {
        let config = task.machine.config(task).with_disk(disk);
        let config = config.with_seed(task.seed.wrapping_mul(31).wrapping_add(round));
        let last = round == ROUNDS;
        if last {
            // The last boot reads the disk without faults.
            disk.set_faults(DiskFaults { seed: task.seed, ..DiskFaults::default() });
        }
        let crash = draw_crash(random, model);
        let config = if last { config } else { config.crashing(crash) };
        match VirtualMachine::run(&config, |c| boot(c, round)) {
            Ok(_) | Err(SimError::Crashed { .. }) => {}
            Err(error) => return Err(error),
        }
        // One crash in four ends only the processes.
        if random.below(4) > 0 {
            disk.lose_power();
        }
    }
    Ok(())
}

/// True if a disk with these faults may refuse.
pub(super) fn may_refuse(faults: &DiskFaults) -> bool {
    faults.flush_failure_one_in > 0 || faults.capacity_bytes < u64::MAX
}

/// Draws the moment at which a machine with this disk crashes.
fn draw_crash(random: &mut Random, model: DiskModel) -> Crash {
    // A run takes several flushes a transaction at least.
    let longest = 400_000 + 40 * model.flush_nanos + 20 * model.seek_nanos;
    match random.below(3) {
        0 => Crash::At(Nanos(random.below(longest))),
        1 => Crash::DiskOperation(1 + random.below(120)),
        _ => Crash::Event(1 + random.below(30_000)),
    }
}

/// The durability options of this seed's database.
pub(super) fn options(seed: u64) -> DurableOptions {
    let mut random = Random::new(seed, 9);
    let streams = [vec![None], vec![Some(Node(0)), Some(Node(1))]];
    DurableOptions {
        path: PathBuf::from("database"),
        log: LogOptions {
            streams: streams[random.below(2) as usize].clone(),
            segment_bytes: [24 << 10, 64 << 10, 1 << 20][random.below(3) as usize],
            buffer_bytes: [4 << 10, 16 << 10][random.below(2) as usize],
            access: if random.below(2) == 0 { Access::Direct } else { Access::Cached },
            ..LogOptions::default()
        },
        checkpoint_bytes: [0, 8 << 10, u64::MAX][random.below(3) as usize],
        places: vec![Place { thread: None }; 1 + random.below(2) as usize],
    }
}

impl CrashTrial<'_> {
    /// Partitions of the tables: one for the shared row, and one for each worker; `None`: tables
    /// are not divided.
    fn partitions(&self) -> Option<u16> {
        let divided = self.task.partitioned || self.task.seed % 4 == 3;
        divided.then_some(self.task.workers as u16 + 1)
    }

    fn violated(&self, what: String) {
        lock(&self.violations).push(what);
    }
}

/// Checks the files by their contents alone.
pub(super) fn check_files(c: VirtualCore, seed: u64, violated: &mut dyn FnMut(String)) {
    let path = options(seed).path;
    match content::check::<VirtualMachine>(c, &path, &mut |_, _| ()) {
        Ok(_) => {}
        Err(ContentError::Log(LogError::NotADatabase(_) | LogError::RowsInPages(_))) => {
            match pages::examine::<VirtualMachine>(c, &path) {
                Ok(examined) => {
                    examined.wrong.into_iter().for_each(|what| violated(format!("the files: {what}")))
                }
                Err(PagedError::Log(LogError::NotADatabase(_))) => {}
                Err(error) => violated(format!("the files: {error}")),
            }
        }
        // No database was ever opened.
        Err(ContentError::Log(LogError::File(error))) if error.kind == FileErrorKind::Missing => {}
        Err(error) => violated(format!("the files: {error}")),
    }
}

/// Opens the database of a task, whose tables are divided into these partitions.
pub(super) fn open_database(
    c: VirtualCore,
    subject: &Subject,
    task: &Task<'_>,
    partitions: Option<u16>,
    sessions_max: usize,
) -> Result<(Database<VirtualMachine>, Tables), OpenError> {
    let mut schema = SchemaBuilder::new();
    let tables = Tables::declare(&mut schema, partitions, KEPT).for_seed(task.seed);
    let instance = InstanceOptions {
        sessions_max,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let opened = subject.open(c, &instance, schema, &options(task.seed));
    opened.map(|(database, _)| (database, tables))
}

/// One boot: opens the database, checks it, and runs transactions until the machine crashes.
fn boot(c: VirtualCore, trial: &CrashTrial<'_>, round: u64) {
    if round == ROUNDS {
        check_files(c, trial.task.seed, &mut |what| trial.violated(what));
    }
    let sessions_max = 2 * trial.task.workers + 1;
    let (database, tables) =
        match open_database(c, trial.subject, trial.task, trial.partitions(), sessions_max) {
            Ok(opened) => opened,
            Err(error) if trial.may_refuse && is_refusal(&error) => return,
            Err(error) => return trial.violated(format!("boot {round}: {error}")),
        };
    let acknowledged: Vec<u64> =
        trial.acknowledged.iter().map(|number| number.load(Ordering::Relaxed)).collect();
    let checked = check(c, &database, tables, &acknowledged);
    for what in checked.wrong.into_iter().chain(trial.subject.examine(c, &database)) {
        trial.violated(format!("boot {round}: {what}"));
    }
    // Numbers that an opening has shown stay.
    for (acknowledged, number) in trial.acknowledged.iter().zip(checked.numbers) {
        acknowledged.store(number, Ordering::Relaxed);
    }
    if round == ROUNDS {
        return;
    }
    let workers = Workers {
        database: &database,
        tables,
        count: trial.task.workers,
        transactions: TRANSACTIONS,
        committed: &|| _ = trial.commits.fetch_add(1, Ordering::Relaxed),
        acknowledge: &|worker, done| _ = trial.acknowledged[worker].fetch_max(done, Ordering::Relaxed),
    };
    let random = |number| Random::new(trial.task.seed, 100 + number as u64 * 10 + round);
    workers.run_all(c, &random, &|number, abort| {
        let is_refused = trial.may_refuse && matches!(abort, Abort::Storage(_));
        if !is_refused && !matches!(abort, Abort::NotDurable(_)) {
            trial.violated(format!("boot {round}, worker {number}: {abort}"));
        }
    });
    if trial.task.seed.is_multiple_of(2)
        && let Err(error) = database.close(c)
        && !trial.may_refuse
    {
        trial.violated(format!("boot {round}, closing: {error}"));
    }
}

/// True if this error may be a refusal of the disk.
pub(super) fn is_refusal(error: &OpenError) -> bool {
    let OpenError::Log(LogError::File(error) | LogError::Stopped(error)) = error else { return false };
    matches!(error.kind, FileErrorKind::Full | FileErrorKind::Device(_))
}
