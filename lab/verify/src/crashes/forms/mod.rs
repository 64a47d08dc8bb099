//! A table whose form changes, again and again, while workers use it and the machine crashes.
//!
//! One core adds a column and two indexes to the table, removes them, and so on: generations, of
//! which the odd ones are wide. Each worker has rows of its own, whose contents it knows in either
//! form; each of its transactions reads one of them, changes it, and counts itself in a row of the
//! worker and in a shared one. So a worker detects a row whose forms differ; a change that is in
//! one form only is missing later; and a transaction that reads both forms finds counters that
//! contradict each other. After a crash the table has either form, with everything acknowledged.

mod rows;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use boundary::{
    Bounds, ChangeError, ChangeStep, Database, Ending, OpenError, SchemaBuilder, Session, TableChange,
    Transaction, Verbs,
};
use concurrency::InstanceOptions;
use platform::{Intent, Place, Platform};
use schema::{Inspector, Row, Table, TableOptions};
use sim::{Disk, DiskFaults, DiskModel, SimError, VirtualCore, VirtualMachine};
use terms::Abort;
use terms::random::Random;

use super::machine::{
    EPOCH_NANOS, ROUNDS, boot_repeatedly, check_files, faults, is_refusal, may_refuse, options,
};
use super::workload::MEMORY_BYTES_MAX;
use crate::mutex::{into_inner, lock};
use crate::subject::Subject;
use crate::task::{Machine, Observed, Task, Work};
use rows::{Content, EXTRA, Form, Narrow, Wide, note};

/// The table.
const NAME: &str = "things";
/// Rows of each worker, beside its counter.
const IDS: u64 = 5;
/// The number of the counters, and the worker of the shared one.
const COUNTER: u32 = 1_000;
const ALL: u32 = u32::MAX;
/// Transactions of each worker in a boot.
const TRANSACTIONS: u64 = 16;
/// In one in N seeds workers run fewer transactions, and the table changes its form after them,
/// when no other session causes the log to be written.
const SEEDS_PER_ALONE: u64 = 4;
const TRANSACTIONS_BEFORE: u64 = 2;
const CHANGES_ALONE: u64 = 4;
/// Changes of the table's form in a boot, at most.
const CHANGES: usize = 6;
/// Longest pause within a transaction.
const PAUSE_NANOS: u64 = 40_000;

/// Expected rows of a worker.
#[derive(Clone, Debug, Default, PartialEq)]
struct ExpectedRows {
    /// By number: the value, and what was written to the new column, with the generation.
    rows: BTreeMap<u32, (u64, Option<(u64, u64)>)>,
    /// Number of transactions.
    count: u64,
}

impl ExpectedRows {
    fn content(&self, worker: u32, id: u32, generation: u64) -> Option<Content> {
        let (value, written) = self.rows.get(&id)?;
        let extra = written.filter(|(at, _)| *at == generation).map_or(EXTRA, |(_, extra)| extra);
        Some(Content { worker, id, value: *value, extra })
    }

    /// All rows of the worker, including its counter.
    fn all(&self, worker: u32, generation: u64) -> Vec<Content> {
        self.rows.keys().filter_map(|id| self.content(worker, *id, generation)).collect()
    }
}

/// ExpectedRows of a worker that survives crashes, outside the machine.
#[derive(Clone, Debug, Default)]
struct WorkerRecord {
    acknowledged: ExpectedRows,
    under_way: Option<ExpectedRows>,
}

/// Counts of the events under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FormMarks {
    /// Changes of the form while workers used the table.
    pub changed: u64,
    /// Changes that were cancelled.
    pub cancelled: u64,
    /// Changes that a disk refused.
    pub refused: u64,
    /// Crashes during a change after which the table had the form before, and the next one.
    pub before: u64,
    /// See `before`.
    pub after: u64,
    /// Transactions that committed during a change.
    pub meanwhile: u64,
    /// Transactions that committed.
    pub transactions: u64,
}

impl FormMarks {
    /// Adds the counts of another trial.
    pub fn add(&mut self, other: FormMarks) {
        let FormMarks { changed, cancelled, refused, before, after, meanwhile, transactions } = other;
        self.transactions += transactions;
        self.changed += changed;
        self.cancelled += cancelled;
        self.refused += refused;
        self.before += before;
        self.after += after;
        self.meanwhile += meanwhile;
    }
}

struct FormTrial<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    workers: Vec<Mutex<WorkerRecord>>,
    /// The last generation known to be valid, and whether a change to the next one is under way.
    generation: AtomicU64,
    changing: AtomicBool,
    marks: Mutex<FormMarks>,
    violations: Mutex<Vec<String>>,
    may_refuse: bool,
}

impl FormTrial<'_> {
    fn violated(&self, what: String) {
        lock(&self.violations).push(what);
    }

    /// True if the table changes its form after the workers have ended.
    fn is_alone(&self) -> bool {
        self.task.seed % SEEDS_PER_ALONE == 1
    }
}

/// Runs a task of a campaign.
pub(crate) fn run(subject: &Subject, task: &Task<'_>) -> Result<Observed, SimError> {
    let (violations, marks) = violations(subject, task.seed, faults(task.seed))?;
    Ok(Observed { transactions: marks.transactions, violations, ..Observed::default() })
}

/// Runs one seed, which fixes the schedule and the crashes, with these faults of the disk. Returns
/// violations, and counts of events.
///
/// # Errors
/// The machine cannot run.
pub fn violations(
    subject: &Subject,
    seed: u64,
    faults: DiskFaults,
) -> Result<(Vec<String>, FormMarks), SimError> {
    let mut random = Random::new(seed, 28);
    let workers = 2 + random.below(2) as usize;
    let (machine, partitioned) = (&Machine::Small, subject.partitioned);
    let task = Task { work: Work::Crashes, machine, workers, seed, partitioned };
    let model = [DiskModel::RAM, DiskModel::NVME][random.below(2) as usize];
    let disk = Disk::new(model, faults);
    let trial = FormTrial {
        subject,
        task: &task,
        workers: (0..workers).map(|_| Mutex::default()).collect(),
        generation: AtomicU64::new(0),
        changing: AtomicBool::new(false),
        marks: Mutex::default(),
        violations: Mutex::default(),
        may_refuse: may_refuse(&faults),
    };
    boot_repeatedly(&task, &disk, model, &mut random, &|c, round| boot(c, &trial, round))?;
    let FormTrial { violations, marks, .. } = trial;
    Ok((into_inner(violations), into_inner(marks)))
}

fn declared<F: Form>() -> SchemaBuilder {
    let mut schema = SchemaBuilder::new();
    let declared = schema.declare_rows::<F>(NAME, &TableOptions::default());
    declared.expect("a table");
    schema
}

/// One boot of the machine.
fn boot(c: VirtualCore, trial: &FormTrial<'_>, round: u64) {
    let task = trial.task;
    let violated = |what: String| trial.violated(format!("boot {round}: {what}"));
    if round == ROUNDS {
        check_files(c, task.seed, &mut |what| trial.violated(what));
    }
    let instance = InstanceOptions {
        sessions_max: task.workers + 3,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        spare_tables: CHANGES,
        ..InstanceOptions::default()
    };
    let open = |schema| trial.subject.open(c, &instance, schema, &options(task.seed));
    let (opened, parity) = match open(declared::<Narrow>()) {
        Err(OpenError::Schema(_)) => (open(declared::<Wide>()), 1),
        opened => (opened, 0),
    };
    let database = match opened {
        Ok((database, _)) => database,
        Err(error) if trial.may_refuse && is_refusal(&error) => return,
        Err(error) => return violated(error.to_string()),
    };
    let known = trial.generation.load(Ordering::SeqCst);
    let is_next = known % 2 != parity;
    match (trial.changing.swap(false, Ordering::SeqCst), is_next) {
        (false, true) => return violated(format!("the form of generation {known} is lost")),
        (true, false) => lock(&trial.marks).before += 1,
        (true, true) => lock(&trial.marks).after += 1,
        (false, false) => {}
    }
    let generation = known + u64::from(is_next);
    trial.generation.store(generation, Ordering::SeqCst);
    let this_boot = FormBoot {
        trial,
        database: &database,
        now: AtomicU64::new(generation << 32),
        working: AtomicUsize::new(task.workers),
    };
    this_boot.resolve(c, 0, generation, true);
    let places: Vec<Place> = (0..=task.workers).map(|_| Place { thread: None }).collect();
    let work = |c, number: usize| {
        let random = Random::new(task.seed, 200 + number as u64 * 10 + round);
        let ended = match number {
            0 => this_boot.change_forms(c, random),
            _ => this_boot.run_worker(c, number - 1, random),
        };
        match ended {
            Ok(()) | Err(Abort::NotDurable(_)) => {}
            Err(abort) => violated(format!("worker {number}: {abort}")),
        }
        this_boot.working.fetch_sub(usize::from(number > 0), Ordering::SeqCst);
    };
    VirtualMachine::parallel(c, &places, &work, &mut |_| ());
    let now = this_boot.now.load(Ordering::SeqCst);
    this_boot.resolve(c, (now & 0xffff_ffff) as usize, now >> 32, false);
    if task.seed.is_multiple_of(2)
        && let Err(error) = database.close(c)
        && !trial.may_refuse
    {
        violated(format!("closing: {error}"));
    }
}

/// An open database.
struct FormBoot<'a> {
    trial: &'a FormTrial<'a>,
    database: &'a Database<VirtualMachine>,
    /// The generation, and the number of its table.
    now: AtomicU64,
    /// Workers that have not ended.
    working: AtomicUsize,
}

impl FormBoot<'_> {
    /// Finds, while no transaction runs, the state that each worker has left. Rows that an opening
    /// has found are on disk, and become the acknowledged state if `counts`; rows in memory at the
    /// end of a boot may be a commit that a disk has refused.
    fn resolve(&self, c: VirtualCore, number: usize, generation: u64, counts: bool) {
        let found = match generation % 2 {
            0 => self.rows::<Narrow>(c, Table::new(number)),
            _ => self.rows::<Wide>(c, Table::new(number)),
        };
        let mut count = 0;
        for (worker, known) in (0_u32..).zip(&self.trial.workers) {
            let mut known = lock(known);
            let own: Vec<Content> = found.iter().filter(|row| row.worker == worker).copied().collect();
            let WorkerRecord { acknowledged, under_way } = &*known;
            let mut states = std::iter::once(acknowledged).chain(under_way);
            match states.find(|state| state.all(worker, generation) == own) {
                Some(state) => {
                    count += state.count;
                    if counts {
                        *known = WorkerRecord { acknowledged: state.clone(), under_way: None };
                    }
                }
                None => self.trial.violated(format!("generation {generation}: {own:?} after {known:?}")),
            }
        }
        let all = found.iter().find(|row| row.worker == ALL).map_or(0, |row| row.value);
        if all != count {
            self.trial.violated(format!("generation {generation}: all count {all}, the workers {count}"));
        }
    }

    /// All rows in the order of their keys, after a check that the indexes have the same rows.
    fn rows<F: Form>(&self, c: VirtualCore, table: Table<F>) -> Vec<Content> {
        let mut rows = Vec::new();
        let (low, high) = ((0, 0), (u32::MAX, u32::MAX));
        let mut inspector = self.database.inspector(c);
        inspector.scan(table.primary(), &low, &high, &mut |row: &F| rows.push(row.clone()));
        if let Some(row) = rows.iter().find(|row| row.note() != note(row.content().value)) {
            self.trial.violated(format!("the tail of {:?} is that of another row", row.content()));
        }
        let sorted = |mut rows: Vec<Content>| {
            rows.sort_by_key(|row| (row.worker, row.id));
            rows
        };
        let rows: Vec<Content> = rows.iter().map(Form::content).collect();
        for by_index in F::by_indexes(self.database, c, table) {
            let by_index = sorted(by_index.iter().map(Form::content).collect());
            if by_index != rows {
                self.trial.violated(format!("an index has {by_index:?}, the table {rows:?}"));
            }
        }
        rows
    }

    /// Changes the form of the table as long as workers run, and a few times more if
    /// [`is_alone`](CrashTrial::is_alone).
    fn change_forms(&self, c: VirtualCore, mut random: Random) -> Result<(), Abort> {
        let trial = self.trial;
        let mut session = self.database.session(c, None, false).expect("there are enough");
        let mut alone = if trial.is_alone() { CHANGES_ALONE } else { 0 };
        while self.working.load(Ordering::SeqCst) > 0 || alone > 0 {
            alone -= u64::from(self.working.load(Ordering::SeqCst) == 0 && alone > 0);
            let now = self.now.load(Ordering::SeqCst);
            let (generation, number) = (now >> 32, (now & 0xffff_ffff) as usize);
            let cancels_at = (random.below(6) == 0).then(|| random.below(6));
            let pause = random.below(PAUSE_NANOS);
            let mut steps = 0;
            let mut watch = |step: ChangeStep| {
                if let ChangeStep::Counts { before, after } = step {
                    assert_eq!(before, number);
                    trial.generation.store(generation + 1, Ordering::SeqCst);
                    self.now.store((generation + 1) << 32 | after as u64, Ordering::SeqCst);
                    VirtualMachine::pause(c, pause);
                }
                steps += 1;
                Some(steps) != cancels_at
            };
            let (schema, template) = match generation % 2 {
                0 => (declared::<Wide>(), {
                    let row = Wide::make(Content { worker: 0, id: 0, value: 0, extra: EXTRA });
                    let mut fixed = vec![0; Wide::BYTES];
                    row.store(&mut fixed);
                    Some((fixed, row.note))
                }),
                _ => (declared::<Narrow>(), None),
            };
            trial.changing.store(true, Ordering::SeqCst);
            let change = TableChange { schema, template, patience_nanos: None, watch: &mut watch };
            let changed = session.object().change_table(number, change);
            match changed {
                Ok(_) => lock(&trial.marks).changed += 1,
                Err(ChangeError::Cancelled) => lock(&trial.marks).cancelled += 1,
                Err(ChangeError::NoRoom) => {
                    trial.changing.store(false, Ordering::SeqCst);
                    return Ok(());
                }
                // The disk may_refuse before it writes anything.
                Err(ChangeError::Log(_)) if trial.may_refuse => lock(&trial.marks).refused += 1,
                Err(error) => trial.violated(format!("the table does not change: {error}")),
            }
            trial.changing.store(false, Ordering::SeqCst);
            session.tend(VirtualMachine::now(c));
            session.idle();
            VirtualMachine::pause(c, 1 + random.below(PAUSE_NANOS));
        }
        Ok(())
    }

    /// Runs the transactions of one worker.
    fn run_worker(&self, c: VirtualCore, worker: usize, mut random: Random) -> Result<(), Abort> {
        let known = &self.trial.workers[worker];
        let mut session = self.database.session(c, None, false).expect("there are enough");
        session.seed(random.below(1 << 30));
        for _ in 0..if self.trial.is_alone() { TRANSACTIONS_BEFORE } else { TRANSACTIONS } {
            let id = random.below(IDS) as u32;
            let (value, deletes) = (random.below(200), random.below(4) == 0);
            let pauses = if random.below(3) == 0 { random.below(PAUSE_NANOS) } else { 0 };
            let plan = PlannedTransaction { worker: worker as u32, id, value, deletes, pauses };
            let state = lock(known).acknowledged.clone();
            let mut wrong = None;
            let ended = session.transact(&Bounds::default(), |t| {
                let now = self.now.load(Ordering::SeqCst);
                let (generation, number) = (now >> 32, (now & 0xffff_ffff) as usize);
                let (next, found) = match generation % 2 {
                    0 => plan.run::<Narrow>(c, t, Table::new(number), &state, generation)?,
                    _ => plan.run::<Wide>(c, t, Table::new(number), &state, generation)?,
                };
                wrong = found;
                // Recorded before the commit, which a crash may follow at once.
                lock(known).under_way = Some(next);
                Ok(())
            });
            match ended? {
                Ending::Committed((), commit) => session.wait_durable(commit)?,
                Ending::RolledBack(_) => self.trial.violated("a transaction rolls back".into()),
            }
            if let Some(wrong) = wrong {
                self.trial.violated(wrong);
            }
            let mut known = lock(known);
            known.acknowledged = known.under_way.take().expect("it has committed");
            drop(known);
            let mut marks = lock(&self.trial.marks);
            marks.meanwhile += u64::from(self.trial.changing.load(Ordering::SeqCst));
            marks.transactions += 1;
            drop(marks);
            self.audit(&mut session)?;
            session.tend(VirtualMachine::now(c));
            session.idle();
        }
        Ok(())
    }

    /// Checks that the shared counter is the sum of the others, in a snapshot if the scheme has
    /// them.
    fn audit(&self, session: &mut Session<'_>) -> Result<(), Abort> {
        let mut counts = (0, 0);
        let ended = session.snapshot(&Bounds::default(), |t| {
            let now = self.now.load(Ordering::SeqCst);
            let (generation, number) = (now >> 32, (now & 0xffff_ffff) as usize);
            counts = match generation % 2 {
                0 => self.counts::<Narrow>(t, Table::new(number))?,
                _ => self.counts::<Wide>(t, Table::new(number))?,
            };
            Ok(())
        });
        ended?;
        if counts.0 != counts.1 {
            self.trial.violated(format!("all count {}, the workers {}", counts.0, counts.1));
        }
        Ok(())
    }

    fn counts<F: Form>(&self, t: &mut Transaction<'_>, table: Table<F>) -> Result<(u64, u64), Abort> {
        let all = count(t, table, ALL)?;
        let mut own = 0;
        for worker in 0..self.trial.workers.len() as u32 {
            own += count(t, table, worker)?;
        }
        Ok((all, own))
    }
}

fn count<F: Form>(t: &mut Transaction<'_>, table: Table<F>, worker: u32) -> Result<u64, Abort> {
    let found = t.find(table.primary(), &(worker, COUNTER), Intent::Read)?;
    found.map_or(Ok(0), |row| t.row(row).map(|row| row.content().value))
}

/// The parameters of a transaction.
struct PlannedTransaction {
    worker: u32,
    id: u32,
    value: u64,
    deletes: bool,
    pauses: u64,
}

impl PlannedTransaction {
    /// Runs the transaction. Returns the worker's rows afterwards, and a violation found by its
    /// reads.
    fn run<F: Form>(
        &self,
        c: VirtualCore,
        t: &mut Transaction<'_>,
        table: Table<F>,
        state: &ExpectedRows,
        generation: u64,
    ) -> Result<(ExpectedRows, Option<String>), Abort> {
        let PlannedTransaction { worker, id, value, deletes, pauses } = *self;
        let mut next = state.clone();
        let mut wrong = None;
        let found = t.find(table.primary(), &(worker, id), Intent::Write)?;
        let row = found.map(|found| t.row(found)).transpose()?;
        let expected = state.content(worker, id, generation);
        if row.as_ref().map(Form::content) != expected {
            let row = row.as_ref().map(Form::content);
            wrong = Some(format!("generation {generation}: {row:?} is read, not {expected:?}"));
        }
        if let Some(row) = &row
            && !row.is_indexed(t, table)?
        {
            wrong = Some(format!("generation {generation}: {:?} is not in the indexes", row.content()));
        }
        VirtualMachine::pause(c, pauses);
        let new = F::make(Content { worker, id, value, extra: value * 3 + 1 });
        match found {
            Some(found) if deletes => {
                t.delete(found)?;
                next.rows.remove(&id);
            }
            Some(found) => F::change(t, found, table, &new)?,
            None => t.insert(table, &new)?,
        }
        if found.is_none() || !deletes {
            let written = (generation % 2 == 1).then_some((generation, value * 3 + 1));
            next.rows.insert(id, (value, written));
        }
        for counter in [worker, ALL] {
            let found = t.find(table.primary(), &(counter, COUNTER), Intent::Write)?;
            let content = |value, extra| F::make(Content { worker: counter, id: COUNTER, value, extra });
            match found {
                None => t.insert(table, &content(1, EXTRA))?,
                Some(row) => {
                    let old = t.row(row)?.content();
                    F::change(t, row, table, &content(old.value + 1, old.extra))?;
                }
            }
        }
        next.count += 1;
        next.rows.insert(COUNTER, (next.count, None));
        Ok((next, wrong))
    }
}
