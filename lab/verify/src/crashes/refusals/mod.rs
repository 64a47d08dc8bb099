//! Campaign of refusals of the operating system: calls of one kind are refused, once, for a while
//! or for good, while a database opens, runs transactions, makes checkpoints and closes.
//!
//! Afterwards all acknowledged numbers have to be there. Where calls were refused for a while only,
//! the database has to continue: in the same process, workers commit again and their numbers become
//! durable. Only a failed flush, after which the contents of the device are unknown, or a failed
//! write of records ends a log ([`ends_the_log`]). A refused opening ends with an error of one
//! line, and the next opening has everything. [`native`] does the same with refusals of the real
//! operating system, in processes.

pub mod native;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use boundary::Database;
use platform::Nanos;
use sim::{Call, Disk, DiskFaults, DiskModel, Refusal, SimError, VirtualCore, VirtualMachine};
use terms::random::Random;

use crate::crashes::machine::open_database;
use crate::crashes::workload::{Tables, Workers, check, read_all};
use crate::mutex::{into_inner, lock};
use crate::panics::catch_panic;
use crate::subject::Subject;
use crate::task::{Observed, Task};

/// Transactions of each worker, during and after the refusals.
const TRANSACTIONS: u64 = 16;
/// Calls of a kind that succeed before the first refusal are fewer than this; a smaller limit for
/// kinds of which a boot makes few.
const AFTER_MAX: u64 = 24;
const AFTER_MAX_OF_FEW: u64 = 3;
/// Longest boot: a longer one waits for ever.
const NANOS_MAX: u64 = 20_000_000_000;

/// Counts of a campaign of refusals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalMarks {
    /// Calls that were refused.
    pub refused: u64,
    /// Openings that ended in an error.
    pub openings: u64,
    /// Workers that ended in an error.
    pub workers: u64,
    /// Databases that continued after a refusal.
    pub went_on: u64,
    /// Number of transactions.
    pub transactions: u64,
}

impl RefusalMarks {
    /// Adds the counts of another seed.
    pub fn add(&mut self, other: RefusalMarks) {
        self.refused += other.refused;
        self.openings += other.openings;
        self.workers += other.workers;
        self.went_on += other.went_on;
        self.transactions += other.transactions;
    }
}

/// An injected fault of the database, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// No fault.
    #[default]
    Nothing,
    /// A refusal counts as success: commits of a worker are acknowledged before they are durable.
    AcknowledgesEarly,
    /// A refused call is not tried again.
    StaysRefused,
}

/// True if a refusal of this call may end the log: whether the bytes were written or flushed is
/// unknown, and a later success of the call proves nothing.
pub fn ends_the_log(call: Call) -> bool {
    matches!(call, Call::Write | Call::Flush | Call::FlushDirectory)
}

struct RefusalTrial<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    refusal: Refusal,
    planted: Planted,
    disk: Disk,
    acknowledged: Vec<AtomicU64>,
    marks: Mutex<RefusalMarks>,
    wrong: Mutex<Vec<String>>,
}

/// The refused calls of this seed's trial.
pub fn refusal(seed: u64) -> Refusal {
    let mut random = Random::new(seed, 12);
    let call = Call::ALL[(seed % Call::ALL.len() as u64) as usize];
    let after_max = match call {
        // One call a boot.
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

/// Runs one seed of a scheme. Returns counts, and violations.
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
    let healthy = DiskFaults { seed: task.seed, ..DiskFaults::default() };
    let trial = RefusalTrial {
        subject,
        task,
        refusal,
        planted,
        disk: Disk::new(DiskModel::RAM, healthy),
        acknowledged: (0..task.workers).map(|_| AtomicU64::new(0)).collect(),
        marks: Mutex::default(),
        wrong: Mutex::default(),
    };
    // Half of the seeds refuse from the first opening on, the others when a database exists
    // already.
    if task.seed / Call::ALL.len() as u64 % 2 == 1 {
        trial.boot(0, |c| trial.run_boot(c, 0))?;
    }
    trial.disk.set_faults(DiskFaults { refusal: Some(refusal), ..healthy });
    trial.boot(1, |c| trial.run_boot(c, 1))?;
    // Read before the faults change: a refused opening has recorded no count.
    let refused = trial.disk.refused();
    {
        let marks = &mut *lock(&trial.marks);
        marks.refused = marks.refused.max(refused);
    }
    trial.disk.set_faults(healthy);
    trial.disk.lose_power();
    trial.boot(2, |c| trial.run_boot(c, 2))?;
    let wrong = into_inner(trial.wrong);
    let marks = into_inner(trial.marks);
    Ok((marks, wrong.into_iter().map(|what| format!("{refusal:?}: {what}")).collect()))
}

impl RefusalTrial<'_> {
    fn boot(&self, round: u64, body: impl FnOnce(VirtualCore)) -> Result<(), SimError> {
        let config = self.task.machine.config(self.task).with_disk(&self.disk);
        let config = config.with_seed(self.task.seed.wrapping_mul(41).wrapping_add(round));
        let config = sim::Config { time_limit: Some(Nanos(NANOS_MAX)), ..config };
        match catch_panic(|| VirtualMachine::run(&config, body)) {
            Ok(run) => run.map(|_| ()),
            Err(panic) => {
                self.violated(round, format!("panicked: {panic}"));
                Ok(())
            }
        }
    }

    fn violated(&self, round: u64, what: impl Into<String>) {
        lock(&self.wrong).push(format!("life {round}: {}", what.into()));
    }

    fn open(&self, c: VirtualCore) -> Result<(Database<VirtualMachine>, Tables), String> {
        let partitions = self.task.partitioned.then_some(self.task.workers as u16 + 1);
        open_database(c, self.subject, self.task, partitions, 4 * self.task.workers + 2)
            .map_err(|error| error.to_string())
    }

    /// One boot: opens, checks, runs transactions, ends the refusals, and runs more.
    fn run_boot(&self, c: VirtualCore, round: u64) {
        let refuses = round == 1;
        let (database, tables) = match self.open(c) {
            Ok(opened) => opened,
            Err(error) => {
                if !refuses {
                    self.violated(round, format!("refused although nothing is: {error}"));
                } else if error.contains('\n') {
                    self.violated(round, format!("refused in several lines: {error}"));
                }
                lock(&self.marks).openings += 1;
                return;
            }
        };
        if refuses {
            // Rows that cannot be read while calls are refused are no loss.
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
        let failed = self.run_workers(c, &database, tables, round);
        if refuses {
            let refused = self.disk.refused();
            lock(&self.marks).refused = refused;
            if self.planted != Planted::StaysRefused {
                self.disk.set_faults(DiskFaults { seed: self.task.seed, ..DiskFaults::default() });
            }
            let again = self.run_workers(c, &database, tables, round + 10);
            // A log of pages waits for a new segment for a limited time only.
            let passes = self.refusal.times < u64::MAX || !self.subject.has_pages();
            let ends = refused > 0 && (ends_the_log(self.refusal.call) || !passes);
            match again {
                Some(_) if ends => {}
                Some(error) => self.violated(round, format!("does not go on: {error}")),
                None if refused > 0 => lock(&self.marks).went_on += 1,
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

    /// Runs the workers; returns an error of one of them.
    fn run_workers(
        &self,
        c: VirtualCore,
        database: &Database<VirtualMachine>,
        tables: Tables,
        round: u64,
    ) -> Option<String> {
        let failed = Mutex::new(None);
        let workers = Workers {
            database,
            tables,
            count: self.task.workers,
            transactions: TRANSACTIONS,
            committed: &|| lock(&self.marks).transactions += 1,
            acknowledge: &|worker, done| _ = self.acknowledged[worker].fetch_max(done, Ordering::Relaxed),
        };
        let random = |number| Random::new(self.task.seed, 100 + number as u64 * 100 + round);
        workers.run_all(c, &random, &|number, abort| {
            lock(&self.marks).workers += 1;
            *lock(&failed) = Some(format!("worker {number}: {abort}"));
            if self.planted == Planted::AcknowledgesEarly {
                self.acknowledged[number].fetch_add(1, Ordering::Relaxed);
            }
        });
        into_inner(failed)
    }
}
