//! Refusals of the operating system as a campaign: calls of one kind are refused, once, for a while
//! or for good, while a database opens, works, makes checkpoints and closes.
//!
//! After that every number that was acknowledged has to be there, and where the refusal was for a
//! while the database goes on: in the same process, workers commit again and their numbers become
//! durable. Only a flush that fails ends a log, since nobody knows what the device has of what was
//! to be flushed, and a write of records ([`ends_the_log`]). A refusal ends an opening in an error
//! of one line, and the next opening has everything. [`native`] is the same with refusals of the
//! real system, in processes.

pub mod native;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use boundary::{Database, SchemaBuilder};
use concurrency::InstanceOptions;
use platform::{Nanos, Place, Platform};
use sim::{Call, Disk, DiskModel, Faults, Refusal, SimError, VirtualCore, VirtualMachine};
use terms::random::Random;

use crate::caught::caught;
use crate::crashes::machine::{EPOCH_NANOS, options};
use crate::crashes::workload::{KEPT, MEMORY_BYTES_MAX, Tables, Worker, check, read_all};
use crate::subject::Subject;
use crate::task::{Observed, Task};

/// Transactions of each worker, before and after.
const TRANSACTIONS: u64 = 16;
/// Calls of a kind that succeed before the first that is refused: less than so many, and of those
/// that a life makes few of.
const AFTER_MAX: u64 = 24;
const AFTER_MAX_OF_FEW: u64 = 3;
/// No life is as long: one that is waits for ever.
const NANOS_MAX: u64 = 20_000_000_000;

/// What a campaign of refusals has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalMarks {
    /// Calls that were refused.
    pub refused: u64,
    /// Openings that ended in an error.
    pub openings: u64,
    /// Workers that ended in an error.
    pub workers: u64,
    /// Databases that went on after a refusal.
    pub went_on: u64,
    /// Transactions.
    pub transactions: u64,
}

impl RefusalMarks {
    /// Adds those of another seed.
    pub fn add(&mut self, other: RefusalMarks) {
        self.refused += other.refused;
        self.openings += other.openings;
        self.workers += other.workers;
        self.went_on += other.went_on;
        self.transactions += other.transactions;
    }
}

/// A planted fault of the database, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// Who was refused takes it for success: what a worker has committed counts as acknowledged
    /// before it is durable.
    AcknowledgesEarly,
    /// What was refused once is not tried again.
    StaysRefused,
}

/// True if the log may stop for good when this call is refused: what was to be written or flushed
/// may be there or not, and a second answer of the system means nothing.
pub fn ends_the_log(call: Call) -> bool {
    matches!(call, Call::Write | Call::Flush | Call::FlushDirectory)
}

struct Trial<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    refusal: Refusal,
    planted: Planted,
    disk: Disk,
    acknowledged: Vec<AtomicU64>,
    marks: Mutex<RefusalMarks>,
    wrong: Mutex<Vec<String>>,
}

/// What is refused in the trial of this seed.
pub fn refusal(seed: u64) -> Refusal {
    let mut random = Random::new(seed, 12);
    let call = Call::ALL[(seed % Call::ALL.len() as u64) as usize];
    let after_max = match call {
        // Once in a life.
        Call::OpenDirectory => 1,
        Call::List | Call::Rename | Call::Preallocate => AFTER_MAX_OF_FEW,
        // Openings over pages make many, those of rows in memory few.
        Call::Read => [AFTER_MAX_OF_FEW, AFTER_MAX][(seed / Call::ALL.len() as u64 / 2 % 2) as usize],
        _ => AFTER_MAX,
    };
    Refusal { call, after: random.below(after_max), times: [1, 1, 4, u64::MAX][random.below(4) as usize] }
}

pub(crate) fn run(subject: &Subject, task: &Task<'_>) -> Result<Observed, SimError> {
    let (marks, violations) = trial(subject, task, refusal(task.seed), Planted::Nothing)?;
    Ok(Observed { transactions: marks.transactions, violations, ..Observed::default() })
}

/// Runs one seed of a scheme; what was done, and what is wrong.
///
/// # Errors
/// The machine fails.
pub fn try_seed(
    subject: &Subject,
    seed: u64,
    refusal: Refusal,
    planted: Planted,
) -> Result<(RefusalMarks, Vec<String>), SimError> {
    let (work, machine) = (crate::Work::Refusals, &crate::Machine::Small);
    let task = Task { work, machine, workers: work.workers(seed), seed, partitioned: subject.partitioned };
    trial(subject, &task, refusal, planted)
}

fn trial(
    subject: &Subject,
    task: &Task<'_>,
    refusal: Refusal,
    planted: Planted,
) -> Result<(RefusalMarks, Vec<String>), SimError> {
    let healthy = Faults { seed: task.seed, ..Faults::default() };
    let trial = Trial {
        subject,
        task,
        refusal,
        planted,
        disk: Disk::new(DiskModel::RAM, healthy),
        acknowledged: (0..task.workers).map(|_| AtomicU64::new(0)).collect(),
        marks: Mutex::default(),
        wrong: Mutex::default(),
    };
    // Half of the seeds refuse from the first opening on, the others where there is a database
    // already.
    if task.seed / Call::ALL.len() as u64 % 2 == 1 {
        trial.boot(0, |c| trial.work(c, 0))?;
    }
    trial.disk.set_faults(Faults { refusal: Some(refusal), ..healthy });
    trial.boot(1, |c| trial.work(c, 1))?;
    // Before its faults are set anew: an opening that was refused has not told.
    let refused = trial.disk.refused();
    {
        let marks = &mut *trial.lock(&trial.marks);
        marks.refused = marks.refused.max(refused);
    }
    trial.disk.set_faults(healthy);
    trial.disk.lose_power();
    trial.boot(2, |c| trial.work(c, 2))?;
    let wrong = trial.wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    let marks = trial.marks.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((marks, wrong.into_iter().map(|what| format!("{refusal:?}: {what}")).collect()))
}

impl Trial<'_> {
    fn lock<'m, T>(&self, mutex: &'m Mutex<T>) -> std::sync::MutexGuard<'m, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn boot(&self, round: u64, body: impl FnOnce(VirtualCore)) -> Result<(), SimError> {
        let config = self.task.machine.config(self.task).with_disk(&self.disk);
        let config = config.with_seed(self.task.seed.wrapping_mul(41).wrapping_add(round));
        let config = sim::Config { time_limit: Some(Nanos(NANOS_MAX)), ..config };
        match caught(|| VirtualMachine::run(&config, body)) {
            Ok(run) => run.map(|_| ()),
            Err(panic) => {
                self.violated(round, format!("panicked: {panic}"));
                Ok(())
            }
        }
    }

    fn violated(&self, round: u64, what: impl Into<String>) {
        self.lock(&self.wrong).push(format!("life {round}: {}", what.into()));
    }

    fn open(&self, c: VirtualCore) -> Result<(Database<VirtualMachine>, Tables), String> {
        let mut schema = SchemaBuilder::new();
        let partitions = self.task.partitioned.then_some(self.task.workers as u16 + 1);
        let tables = Tables::declare(&mut schema, partitions, KEPT);
        let instance = InstanceOptions {
            sessions_max: 4 * self.task.workers + 2,
            memory_bytes_max: MEMORY_BYTES_MAX,
            epoch_nanos: EPOCH_NANOS,
            ..InstanceOptions::default()
        };
        let opened = self.subject.open(c, &instance, schema, &options(self.task.seed));
        opened.map(|(database, _)| (database, tables)).map_err(|error| error.to_string())
    }

    /// One life: opens, checks, runs transactions, is no longer refused, and runs more.
    fn work(&self, c: VirtualCore, round: u64) {
        let refuses = round == 1;
        let (database, tables) = match self.open(c) {
            Ok(opened) => opened,
            Err(error) => {
                if !refuses {
                    self.violated(round, format!("refused although nothing is: {error}"));
                } else if error.contains('\n') {
                    self.violated(round, format!("refused in several lines: {error}"));
                }
                self.lock(&self.marks).openings += 1;
                return;
            }
        };
        if refuses {
            // What cannot be read while calls are refused is no loss, and said.
            _ = read_all(c, &database, tables);
        } else {
            let acknowledged: Vec<u64> =
                self.acknowledged.iter().map(|number| number.load(Ordering::Relaxed)).collect();
            let checked = check(c, &database, tables, &acknowledged);
            checked.wrong.into_iter().for_each(|what| self.violated(round, what));
            for (acknowledged, number) in self.acknowledged.iter().zip(checked.numbers) {
                acknowledged.fetch_max(number, Ordering::Relaxed);
            }
        }
        let failed = self.workers(c, &database, tables, round);
        if refuses {
            let refused = self.disk.refused();
            self.lock(&self.marks).refused = refused;
            if self.planted != Planted::StaysRefused {
                self.disk.set_faults(Faults { seed: self.task.seed, ..Faults::default() });
            }
            let again = self.workers(c, &database, tables, round + 10);
            // What waits for a segment of the log of pages waits for a while.
            let passes = self.refusal.times < u64::MAX || !self.subject.has_pages();
            let ends = refused > 0 && (ends_the_log(self.refusal.call) || !passes);
            match again {
                Some(_) if ends => {}
                Some(error) => self.violated(round, format!("does not go on: {error}")),
                None if refused > 0 => self.lock(&self.marks).went_on += 1,
                None => {}
            }
        } else if let Some(error) = failed {
            self.violated(round, error);
        }
        if self.task.seed.is_multiple_of(2)
            && let Err(error) = database.close(c)
            && !refuses
        {
            self.violated(round, format!("closing: {error}"));
        }
    }

    /// Runs the workers; an error of one of them.
    fn workers(
        &self,
        c: VirtualCore,
        database: &Database<VirtualMachine>,
        tables: Tables,
        round: u64,
    ) -> Option<String> {
        let failed = Mutex::new(None);
        let acknowledge =
            |worker: usize, done| _ = self.acknowledged[worker].fetch_max(done, Ordering::Relaxed);
        let committed = || self.lock(&self.marks).transactions += 1;
        let worker = |c, number: usize| {
            let mut worker = Worker {
                database,
                tables,
                number,
                workers: self.task.workers as u16,
                random: Random::new(self.task.seed, 100 + number as u64 * 100 + round),
                transactions: TRANSACTIONS,
                committed: &committed,
                acknowledge: &acknowledge,
            };
            if let Err(abort) = worker.run(c) {
                self.lock(&self.marks).workers += 1;
                *self.lock(&failed) = Some(format!("worker {number}: {abort}"));
                if self.planted == Planted::AcknowledgesEarly {
                    self.acknowledged[number].fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let places = vec![Place { thread: None }; self.task.workers];
        VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
        failed.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
