//! A simulated machine that crashes and is booted again.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use boundary::{DurableOptions, OpenError, SchemaBuilder};
use concurrency::InstanceOptions;
use engine::durable::content::{self, ContentError};
use pages::PagedError;
use platform::files::{Access, FileErrorKind};
use platform::{Nanos, Node, Place, Platform};
use redo_log::{LogError, LogOptions};
use sim::{Crash, Disk, DiskModel, Faults, SimError, VirtualCore, VirtualMachine};
use terms::Abort;
use terms::random::Random;

use super::workload::{KEPT, MEMORY_BYTES_MAX, Tables, Worker, check};
use crate::subject::Subject;
use crate::task::{Machine, Observed, Task, Work};

/// Short, so that a run has many.
pub(super) const EPOCH_NANOS: u64 = 20_000;
/// Transactions of each worker between two boots.
const TRANSACTIONS: u64 = 24;
/// Boots that run transactions.
pub(super) const ROUNDS: u64 = 3;

/// What is known outside the machine.
struct Outside<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    /// The last number that each worker acknowledged.
    acknowledged: Vec<AtomicU64>,
    commits: AtomicU64,
    violations: Mutex<Vec<String>>,
    /// The disk may refuse.
    refuses: bool,
}

/// Runs a task, with the disk's faults as the seed says.
pub(crate) fn run(subject: &Subject, task: &Task<'_>) -> Result<Observed, SimError> {
    run_on(subject, task, faults(task.seed))
}

/// What goes wrong with the disk of this seed.
pub fn faults(seed: u64) -> Faults {
    let mut random = Random::new(seed, 7);
    Faults {
        seed,
        sector_bytes: if random.below(2) == 0 { 512 } else { 4096 },
        garbage_one_in: [0, 0, 3][random.below(3) as usize],
        flush_failure_one_in: [0, 0, 0, 12, 40][random.below(5) as usize],
        capacity_bytes: [u64::MAX, u64::MAX, u64::MAX, 400_000][random.below(4) as usize],
        ..Faults::default()
    }
}

/// What is wrong after a trial of a scheme on a disk with these faults.
pub fn violations(subject: &Subject, seed: u64, faults: Faults) -> Result<Vec<String>, SimError> {
    let (work, machine) = (Work::Crashes, &Machine::Small);
    let task = Task { work, machine, workers: work.workers(seed), seed, partitioned: false };
    run_on(subject, &task, faults).map(|observed| observed.violations)
}

fn run_on(subject: &Subject, task: &Task<'_>, faults: Faults) -> Result<Observed, SimError> {
    let mut random = Random::new(task.seed, 8);
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME, DiskModel::HDD][random.below(4) as usize];
    let disk = Disk::new(model, faults);
    let workers = task.workers;
    let outside = Outside {
        subject,
        task,
        acknowledged: (0..workers).map(|_| AtomicU64::new(0)).collect(),
        commits: AtomicU64::new(0),
        violations: Mutex::default(),
        refuses: refuses(&faults),
    };
    boot_again(task, (&disk, model), &mut random, &|c, round| boot(c, &outside, round))?;
    let violations = outside.violations.into_inner().unwrap_or_else(PoisonError::into_inner);
    let transactions = outside.commits.into_inner();
    Ok(Observed { transactions, violations, ..Observed::default() })
}

/// Boots a machine over the same disk again and again: rounds that end in a crash, and a last one
/// that is left alone.
pub(super) fn boot_again(
    task: &Task<'_>,
    (disk, model): (&Disk, DiskModel),
    random: &mut Random,
    boot: &dyn Fn(VirtualCore, u64),
) -> Result<(), SimError> {
    for round in 0..=ROUNDS {
        let config = task.machine.config(task).with_disk(disk);
        let config = config.with_seed(task.seed.wrapping_mul(31).wrapping_add(round));
        let last = round == ROUNDS;
        if last {
            // What is left is read by a machine without faults.
            disk.set_faults(Faults { seed: task.seed, ..Faults::default() });
        }
        let crash = draw_crash(random, model);
        let config = if last { config } else { config.crashing(crash) };
        match VirtualMachine::run(&config, |c| boot(c, round)) {
            Ok(_) | Err(SimError::Crashed { .. }) => {}
            Err(error) => return Err(error),
        }
        // One crash in four is that of the processes alone.
        if random.below(4) > 0 {
            disk.lose_power();
        }
    }
    Ok(())
}

/// True if a disk with these faults may refuse.
pub(super) fn refuses(faults: &Faults) -> bool {
    faults.flush_failure_one_in > 0 || faults.capacity_bytes < u64::MAX
}

/// When a machine with this disk crashes.
fn draw_crash(random: &mut Random, model: DiskModel) -> Crash {
    // A run takes some flushes a transaction at least.
    let longest = 400_000 + 40 * model.flush_nanos + 20 * model.seek_nanos;
    match random.below(3) {
        0 => Crash::At(Nanos(random.below(longest))),
        1 => Crash::DiskOperation(1 + random.below(120)),
        _ => Crash::Event(1 + random.below(30_000)),
    }
}

/// How the database of this seed is durable.
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
        },
        checkpoint_bytes: [0, 8 << 10, u64::MAX][random.below(3) as usize],
        places: vec![Place { thread: None }; 1 + random.below(2) as usize],
    }
}

impl Outside<'_> {
    /// One for the row that all share, and one for each worker; or tables are not divided.
    fn partitions(&self) -> Option<u16> {
        let divided = self.task.partitioned || self.task.seed % 4 == 3;
        divided.then_some(self.task.workers as u16 + 1)
    }

    fn violated(&self, what: String) {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

/// Judges the files by what they say alone.
pub(super) fn judge(c: VirtualCore, seed: u64, violated: &mut dyn FnMut(String)) {
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
        // Nothing was ever opened.
        Err(ContentError::Log(LogError::File(error))) if error.kind == FileErrorKind::Missing => {}
        Err(error) => violated(format!("the files: {error}")),
    }
}

/// One life of the machine: opens, checks, and runs transactions until it crashes.
fn boot(c: VirtualCore, outside: &Outside<'_>, round: u64) {
    if round == ROUNDS {
        judge(c, outside.task.seed, &mut |what| outside.violated(what));
    }
    let mut schema = SchemaBuilder::new();
    let tables = Tables::declare(&mut schema, outside.partitions(), KEPT);
    let instance = InstanceOptions {
        sessions_max: 2 * outside.task.workers + 1,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let opened = outside.subject.open(c, &instance, schema, &options(outside.task.seed));
    let database = match opened {
        Ok((database, _)) => database,
        Err(error) if outside.refuses && is_refusal(&error) => return,
        Err(error) => return outside.violated(format!("boot {round}: {error}")),
    };
    let acknowledged: Vec<u64> =
        outside.acknowledged.iter().map(|number| number.load(Ordering::Relaxed)).collect();
    let checked = check(c, &database, tables, &acknowledged);
    for what in checked.wrong.into_iter().chain(outside.subject.examine(c, &database)) {
        outside.violated(format!("boot {round}: {what}"));
    }
    // What was seen once stays.
    for (acknowledged, number) in outside.acknowledged.iter().zip(checked.numbers) {
        acknowledged.store(number, Ordering::Relaxed);
    }
    if round == ROUNDS {
        return;
    }
    let places: Vec<Place> = (0..outside.task.workers).map(|_| Place { thread: None }).collect();
    let committed = || _ = outside.commits.fetch_add(1, Ordering::Relaxed);
    let acknowledge =
        |worker: usize, done| _ = outside.acknowledged[worker].fetch_max(done, Ordering::Relaxed);
    let worker = |c, number: usize| {
        let mut worker = Worker {
            database: &database,
            tables,
            number,
            workers: outside.task.workers as u16,
            random: Random::new(outside.task.seed, 100 + number as u64 * 10 + round),
            transactions: TRANSACTIONS,
            committed: &committed,
            acknowledge: &acknowledge,
        };
        if let Err(abort) = worker.run(c)
            && !matches!(abort, Abort::NotDurable(_))
            && !(outside.refuses && matches!(abort, Abort::Storage(_)))
        {
            outside.violated(format!("boot {round}, worker {number}: {abort}"));
        }
    };
    VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
    if outside.task.seed.is_multiple_of(2)
        && let Err(error) = database.close(c)
        && !outside.refuses
    {
        outside.violated(format!("boot {round}, closing: {error}"));
    }
}

/// True if the disk may well have refused.
pub(super) fn is_refusal(error: &OpenError) -> bool {
    let OpenError::Log(LogError::File(error) | LogError::Stopped(error)) = error else { return false };
    matches!(error.kind, FileErrorKind::Full | FileErrorKind::Device(_))
}
