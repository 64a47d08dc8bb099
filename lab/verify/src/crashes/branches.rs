//! Prepared branches of transactions over several databases, through crashes.
//!
//! Rows belong to lanes; the branches of a lane follow each other, each on the result of the one
//! before. A worker prepares branches of its lanes, finishes them after a while or lets them wait,
//! records decisions and forgets them, and makes checkpoints meanwhile. Its operations on a lane
//! are a list of steps, and some prefix of the list is known to be durable. After a crash exactly
//! that prefix or a longer one has to be there: its rows, the branches in doubt and the decisions
//! that it leaves. Rows of branches in doubt have to be locked. Then branches in doubt are
//! finished, or wait for the next crash.

use std::collections::BTreeSet;
use std::sync::Mutex;

use boundary::{
    AnyPrepared, Bounds, Database, GlobalId, Outcome, PartOf, SchemaBuilder, Session, Transaction, Verbs,
};
use concurrency::InstanceOptions;
use platform::{Intent, Place, Platform};
use schema::{Inspector, Partitioning, Row, Schema, Table, TableOptions};
use sim::{Disk, DiskFaults, DiskModel, SimError, VirtualCore, VirtualMachine};
use terms::random::Random;
use terms::{Abort, Epoch};

use super::machine::{EPOCH_NANOS, ROUNDS, boot_repeatedly, check_files, is_refusal, may_refuse, options};
use super::workload::MEMORY_BYTES_MAX;
use crate::mutex::{into_inner, lock};
use crate::subject::Subject;
use crate::task::{Machine, Observed, Task};

/// Lanes of each worker.
const LANES: u16 = 2;
/// Entries that a lane keeps.
const KEPT: u64 = 3;
/// Steps of each worker in a boot.
const STEPS: u64 = 40;
/// The coordinator of all branches but those that the database itself decides about.
const COORDINATOR: u16 = 700;
/// Longest pause of a worker.
const PAUSE_NANOS: u64 = 8_000;

/// One row a lane: the count of its committed branches, and the last of them.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(lane))]
struct Total {
    lane: u16,
    count: u64,
    last: u64,
}

/// The row that a branch inserts; the next branch changes it, and a later one deletes it.
#[derive(Row, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[row(key(lane, slot), unique_index(by_name(lane, name)))]
struct Entry {
    lane: u16,
    slot: u64,
    name: u64,
    part: u64,
    changed_by: u64,
    #[row(tail)]
    note: Vec<u8>,
}

impl Entry {
    /// The row that branch number `part`, the lane's commit number `count`, inserts. In every other
    /// lane the row reuses the slot, and the name, of the deleted one.
    fn of(lane: u16, count: u64, part: u64, changed_by: u64) -> Entry {
        let slot = count % if lane.is_multiple_of(2) { KEPT } else { KEPT + 2 };
        let bytes = (part * 31 + changed_by * 7) % 90;
        let note = (0..bytes).map(|place| (place + part) as u8).collect();
        Entry { lane, slot, name: slot + 100, part, changed_by, note }
    }

    /// The rows of a lane in which these branches have committed.
    fn all(lane: u16, parts: &[u64]) -> Vec<Entry> {
        let first = parts.len().saturating_sub(KEPT as usize);
        let entry = |(place, part): (usize, &u64)| {
            let next = parts.get(place + 1).copied().unwrap_or(0);
            Entry::of(lane, place as u64 + 1, *part, next)
        };
        parts.iter().enumerate().skip(first).map(entry).collect()
    }
}

#[derive(Clone, Copy)]
struct Tables {
    totals: Table<Total>,
    entries: Table<Entry>,
}

impl Tables {
    /// The tables; each lane's rows have a partition of their own if the scheme needs that.
    fn declare(schema: &mut SchemaBuilder, partitions: Option<u16>) -> Tables {
        let partitioning = partitions.map(|count| Partitioning { first: 0, count });
        let options = || TableOptions { partitioning, ..TableOptions::default() };
        Tables { totals: schema.table("totals", options()), entries: schema.table("entries", options()) }
    }
}

/// An operation on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LaneStep {
    Prepare(u64),
    Commit,
    /// Commits, and records the decision, which the lane forgets later.
    Decide,
    Abort,
    Forget(u64),
}

/// The state of a lane after some steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LaneState {
    committed: Vec<u64>,
    in_doubt: Option<u64>,
    decisions: BTreeSet<u64>,
}

impl LaneState {
    fn of(steps: &[LaneStep]) -> LaneState {
        let mut state = LaneState::default();
        for step in steps {
            match (*step, state.in_doubt) {
                (LaneStep::Prepare(part), _) => state.in_doubt = Some(part),
                (LaneStep::Forget(part), _) => _ = state.decisions.remove(&part),
                (end, Some(part)) => {
                    state.in_doubt = None;
                    if end != LaneStep::Abort {
                        state.committed.push(part);
                    }
                    if end == LaneStep::Decide {
                        state.decisions.insert(part);
                    }
                }
                (_, None) => unreachable!("only prepared parts end"),
            }
        }
        state
    }
}

/// LaneState of a lane that survives crashes, outside the machine.
#[derive(Default)]
struct Lane {
    steps: Vec<LaneStep>,
    /// Length of the prefix of steps that is known to be durable.
    durable: usize,
    /// The number of the last branch.
    last: u64,
    /// The branch that was in doubt at the last boot.
    in_doubt_before: Option<u64>,
}

/// LaneState that survives crashes, outside the machine.
struct BranchTrial<'a> {
    subject: &'a Subject,
    task: &'a Task<'a>,
    lanes: Vec<Mutex<Lane>>,
    counts: Mutex<Observed>,
    /// Counts of rare events.
    marks: Mutex<BranchMarks>,
    may_refuse: bool,
}

/// Counts of the events under test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchMarks {
    /// Branches that a boot found in doubt.
    pub in_doubt: u64,
    /// Branches among them that the boot before had found in doubt too.
    pub again: u64,
    /// Checkpoints that ended while branches were prepared.
    pub checkpoints: u64,
    /// Decisions that boots found.
    pub decisions: u64,
}

fn part_of(lane: u16, part: u64) -> PartOf {
    PartOf { global: GlobalId(u128::from(lane) << 64 | u128::from(part)), coordinator: COORDINATOR }
}

impl BranchTrial<'_> {
    fn violated(&self, what: String) {
        lock(&self.counts).violations.push(what);
    }

    fn partitions(&self) -> Option<u16> {
        let divided = self.task.partitioned || self.task.seed % 4 == 3;
        divided.then_some(self.lanes.len() as u16)
    }
}

/// Runs one seed, which fixes the schedule and the crashes, with these faults of the disk. Returns
/// violations, and counts of events.
pub fn violations(
    subject: &Subject,
    seed: u64,
    faults: DiskFaults,
) -> Result<(Vec<String>, BranchMarks), SimError> {
    let mut random = Random::new(seed, 18);
    let workers = 1 + random.below(2) as usize;
    let machine = &Machine::Small;
    let partitioned = subject.partitioned;
    let task = Task { work: crate::task::Work::Crashes, machine, workers, seed, partitioned };
    let model = [DiskModel::RAM, DiskModel::NVME, DiskModel::NVME][random.below(3) as usize];
    let disk = Disk::new(model, faults);
    let trial = BranchTrial {
        subject,
        task: &task,
        lanes: (0..workers * usize::from(LANES)).map(|_| Mutex::default()).collect(),
        counts: Mutex::default(),
        marks: Mutex::default(),
        may_refuse: may_refuse(&faults),
    };
    boot_repeatedly(&task, &disk, model, &mut random, &|c, round| boot(c, &trial, round))?;
    let observed = into_inner(trial.counts);
    let marks = into_inner(trial.marks);
    Ok((observed.violations, marks))
}

/// One boot of the machine.
fn boot(c: VirtualCore, trial: &BranchTrial<'_>, round: u64) {
    let last = round == ROUNDS;
    let seed = trial.task.seed;
    if last {
        check_files(c, seed, &mut |what| trial.violated(what));
    }
    let mut schema = SchemaBuilder::new();
    let tables = Tables::declare(&mut schema, trial.partitions());
    let instance = InstanceOptions {
        sessions_max: trial.task.workers + 3,
        memory_bytes_max: MEMORY_BYTES_MAX,
        epoch_nanos: EPOCH_NANOS,
        ..InstanceOptions::default()
    };
    let database = match trial.subject.open(c, &instance, schema, &options(seed)) {
        Ok((database, _)) => database,
        Err(error) if trial.may_refuse && is_refusal(&error) => return,
        Err(error) => return trial.violated(format!("boot {round}: {error}")),
    };
    let mut random = Random::new(seed, 30 + round);
    let mut waiting: Vec<Option<AnyPrepared<'_>>> = trial.lanes.iter().map(|_| None).collect();
    let mut found: Vec<Option<u64>> = vec![None; trial.lanes.len()];
    for (part, prepared) in database.in_doubt(c) {
        let lane = (part.global.0 >> 64) as usize;
        let number = part.global.0 as u64;
        if part.coordinator != COORDINATOR || lane >= found.len() || found[lane].is_some() {
            return trial.violated(format!("boot {round}: {part:?} is in doubt"));
        }
        (found[lane], waiting[lane]) = (Some(number), Some(prepared));
    }
    let decisions: BTreeSet<u128> = database.decisions(c).iter().map(|decision| decision.global.0).collect();
    if !database.in_doubt(c).is_empty() {
        trial.violated("parts in doubt are given twice".into());
    }
    let check = OpeningCheck { c, trial, database: &database, tables, round, decisions };
    let Ok(mut session) = database.session(c, None, false) else {
        return trial.violated("too too_few sessions".into());
    };
    for (number, (in_doubt, prepared)) in found.into_iter().zip(&mut waiting).enumerate() {
        let id = number as u16;
        if in_doubt.is_some() {
            check.check_lock(&mut session, id);
        }
        let mut lane = lock(&trial.lanes[number]);
        check.find_durable_steps(id, &mut lane, in_doubt);
        let finishes = last || random.below(2) == 0;
        if let Some(prepared) = prepared.take_if(|_| finishes) {
            let step = [LaneStep::Commit, LaneStep::Abort][random.below(2) as usize];
            lane.steps.push(step);
            let commit = session.finish_as(prepared, outcome_of(step));
            if commit.is_some() != (step == LaneStep::Commit) {
                trial.violated(format!("boot {round}, lane {id}: the end of a part"));
            }
            check.check_rows(id, &LaneState::of(&lane.steps));
        }
    }
    drop(session);
    if last {
        return;
    }
    let waiting = Mutex::new(waiting);
    let worker = |c, number: usize| {
        let lanes = usize::from(LANES) * number..usize::from(LANES) * (number + 1);
        let prepared = lock(&waiting)[lanes.clone()].iter_mut().map(Option::take).collect();
        let random = Random::new(seed, 100 + number as u64 * 10 + round);
        let first = lanes.start as u16;
        let mut worker = BranchWorker { c, trial, database: &database, tables, first, prepared, random };
        if let Err(abort) = worker.run()
            && !matches!(abort, Abort::NotDurable(_))
            && !(trial.may_refuse && matches!(abort, Abort::Storage(_)))
        {
            trial.violated(format!("boot {round}, worker {number}: {abort}"));
        }
    };
    let places: Vec<Place> = (0..trial.task.workers).map(|_| Place { thread: None }).collect();
    VirtualMachine::parallel(c, &places, &worker, &mut |_| ());
    if seed.is_multiple_of(2)
        && let Err(error) = database.close(c)
        && !trial.may_refuse
    {
        trial.violated(format!("boot {round}, closing: {error}"));
    }
}

fn outcome_of(step: LaneStep) -> Outcome<'static> {
    if step == LaneStep::Commit { Outcome::Commit } else { Outcome::Abort }
}

/// Checks a database that was opened after a crash.
struct OpeningCheck<'a, 'o> {
    c: VirtualCore,
    trial: &'a BranchTrial<'o>,
    database: &'a Database<VirtualMachine>,
    tables: Tables,
    round: u64,
    decisions: BTreeSet<u128>,
}

impl OpeningCheck<'_, '_> {
    fn violated(&self, lane: u16, what: &str) {
        self.trial.violated(format!("boot {}, lane {lane}: {what}", self.round));
    }

    /// A transaction cannot read rows that a branch in doubt has changed.
    fn check_lock(&self, session: &mut Session<'_>, lane: u16) {
        let once = Bounds { attempts_max: Some(1), ..Bounds::default() };
        let tables = self.tables;
        let read = session.transact(&once, |transaction| {
            let row = transaction.find(tables.totals.primary(), &lane, Intent::Read)?;
            row.map(|row| transaction.get(row, Total::COUNT)).transpose()
        });
        session.object().turn_to_another(false);
        let refused = self.trial.may_refuse && matches!(read, Err(Abort::NotDurable(_)));
        if !refused && !read.as_ref().is_err_and(Abort::is_conflict) {
            self.violated(lane, &format!("what a part in doubt has changed can be read: {read:?}"));
        }
    }

    /// Finds the prefix of steps that is there, and drops the steps behind it.
    fn find_durable_steps(&self, id: u16, lane: &mut Lane, in_doubt: Option<u64>) {
        let mut marks = lock(&self.trial.marks);
        let global = |part: u64| part_of(id, part).global.0;
        let here = |key: &&u128| **key >> 64 == u128::from(id);
        let decisions: BTreeSet<u128> = self.decisions.iter().filter(here).copied().collect();
        marks.decisions += decisions.len() as u64;
        let fits = |length: &usize| {
            let state = LaneState::of(&lane.steps[..*length]);
            let same = state.decisions.iter().map(|part| global(*part)).eq(decisions.iter().copied());
            // Rows cannot be read while a branch in doubt locks them.
            state.in_doubt == in_doubt && same && (in_doubt.is_some() || self.fits(id, &state))
        };
        let Some(length) = (lane.durable..=lane.steps.len()).rev().find(fits) else {
            let (durable, steps) = (lane.durable, &lane.steps);
            let what =
                format!("in doubt {in_doubt:?}, decided {decisions:?}, of {steps:?}, {durable} durable");
            return self.violated(id, &what);
        };
        marks.in_doubt += u64::from(in_doubt.is_some());
        marks.again += u64::from(in_doubt.is_some() && in_doubt == lane.in_doubt_before);
        lane.in_doubt_before = in_doubt;
        lane.steps.truncate(length);
        lane.durable = length;
    }

    /// True if the rows of a lane are those of a state.
    fn fits(&self, id: u16, state: &LaneState) -> bool {
        let inspector = &mut self.database.inspector(self.c);
        // An inspector, not a transaction: a transaction would wait for branches in doubt that lock
        // the gap of an absent row.
        let mut total = None;
        inspector.scan(self.tables.totals.primary(), &id, &id, &mut |row: &Total| total = Some(row.clone()));
        let committed = &state.committed;
        let expected =
            committed.last().map(|last| Total { lane: id, count: committed.len() as u64, last: *last });
        let (mut entries, mut by_name) = (Vec::new(), Vec::new());
        let table = self.tables.entries;
        let (low, high) = ((id, 0), (id, u64::MAX));
        inspector.scan(table.primary(), &low, &high, &mut |row: &Entry| entries.push(row.clone()));
        let names = table.index(Entry::BY_NAME);
        inspector.scan(names, &low, &high, &mut |row: &Entry| by_name.push(row.clone()));
        let mut rows = Entry::all(id, committed);
        rows.sort();
        by_name.sort();
        total == expected && entries == rows && by_name == rows
    }

    /// The rows of a lane without a branch in doubt have to be those of a state.
    fn check_rows(&self, id: u16, state: &LaneState) {
        if !self.fits(id, state) {
            self.violated(id, &format!("the rows are not those of {state:?}"));
        }
    }
}

/// One worker of a boot.
struct BranchWorker<'a, 'o, 'd> {
    c: VirtualCore,
    trial: &'a BranchTrial<'o>,
    database: &'d Database<VirtualMachine>,
    tables: Tables,
    /// The number of its first lane.
    first: u16,
    /// The prepared branches of its lanes.
    prepared: Vec<Option<AnyPrepared<'d>>>,
    random: Random,
}

/// A lane's first `steps` steps are durable when this epoch is.
struct Pending {
    lane: usize,
    steps: usize,
    epoch: Epoch,
}

impl<'d> BranchWorker<'_, '_, 'd> {
    fn run(&mut self) -> Result<(), Abort> {
        let c = self.c;
        let too_few = |_| Abort::Misuse("too too_few sessions");
        let mut session = self.database.session(c, None, false).map_err(too_few)?;
        session.seed(self.random.below(1 << 30));
        let mut pending = Vec::new();
        for _ in 0..STEPS {
            let lane = self.random.below(u64::from(LANES)) as usize;
            let step = match self.prepared[lane].take() {
                None => self.prepare(&mut session, lane)?,
                Some(prepared) if self.random.below(3) == 0 => {
                    self.prepared[lane] = Some(prepared);
                    None
                }
                Some(prepared) => self.finish(&mut session, lane, prepared),
            };
            pending.extend(step);
            if self.random.below(12) == 0 {
                let waits = self.prepared.iter().any(Option::is_some);
                // A failed checkpoint is a failure of the log, or changes nothing.
                let made = session.checkpoint();
                lock(&self.trial.marks).checkpoints += u64::from(waits && made == Ok(true));
            }
            session.tend(VirtualMachine::now(c));
            if let Some(last) = pending.last().filter(|_| self.random.below(3) == 0) {
                session.wait_durable(last.epoch)?;
            } else {
                session.idle();
                VirtualMachine::pause(c, 1 + self.random.below(PAUSE_NANOS));
            }
            self.record_durable(&session, &mut pending);
        }
        Ok(())
    }

    fn lane(&self, lane: usize) -> std::sync::MutexGuard<'_, Lane> {
        lock(&self.trial.lanes[usize::from(self.first) + lane])
    }

    /// Records the steps that are durable by now.
    fn record_durable(&self, session: &Session<'_>, pending: &mut Vec<Pending>) {
        pending.retain(|Pending { lane, steps, epoch }| {
            let durable = session.is_durable(*epoch);
            if durable {
                let mut lane = self.lane(*lane);
                lane.durable = lane.durable.max(*steps);
            }
            !durable
        });
    }

    /// Adds a step to a lane; returns their number.
    fn push(&self, lane: usize, step: LaneStep) -> usize {
        let mut lane = self.lane(lane);
        lane.steps.push(step);
        lane.steps.len()
    }

    /// Prepares the next branch of a lane, unless it conflicts.
    fn prepare(&mut self, session: &mut Session<'d>, lane: usize) -> Result<Option<Pending>, Abort> {
        let id = self.first + lane as u16;
        let tables = self.tables;
        let part = {
            let mut lane = self.lane(lane);
            lane.last += 1;
            lane.last
        };
        let steps = self.push(lane, LaneStep::Prepare(part));
        let of = part_of(id, part);
        let in_vain = self.trial.task.seed % 3 == 1;
        let body = |transaction: &mut Transaction<'_>| run(transaction, tables, id, part, in_vain);
        match session.prepare_as(of, &Bounds::default(), body) {
            Ok(((), prepared, vote)) => {
                if !vote.changes {
                    self.trial.violated(format!("lane {id}: a part that changes something does not say so"));
                }
                self.prepared[lane] = Some(prepared);
                Ok(Some(Pending { lane, steps, epoch: vote.durable_with }))
            }
            Err(abort) if abort.is_conflict() => {
                session.object().turn_to_another(false);
                self.lane(lane).steps.pop();
                Ok(None)
            }
            Err(abort) => Err(abort),
        }
    }

    /// Finishes a branch of a lane, and forgets a decision now and then.
    fn finish(
        &mut self,
        session: &mut Session<'_>,
        lane: usize,
        prepared: AnyPrepared<'_>,
    ) -> Option<Pending> {
        let id = self.first + lane as u16;
        let step = [LaneStep::Abort, LaneStep::Decide, LaneStep::Commit, LaneStep::Commit]
            [self.random.below(4) as usize];
        let state = LaneState::of(&self.lane(lane).steps);
        let steps = self.push(lane, step);
        let outcome = match step {
            LaneStep::Decide => {
                let global = part_of(id, state.in_doubt.unwrap_or(0)).global;
                Outcome::Decide { global, participants: &[1, 2] }
            }
            step => outcome_of(step),
        };
        let commit = session.finish_as(prepared, outcome);
        if let Some(part) = state.decisions.first().filter(|_| self.random.below(2) == 0) {
            self.push(lane, LaneStep::Forget(*part));
            if !session.forget(part_of(id, *part).global) {
                self.trial.violated(format!("lane {id}: decision {part} is not known"));
            }
        }
        commit.map(|commit| Pending { lane, steps, epoch: commit.durable_with })
    }
}

/// Executes a branch; `in_vain`: it also changes rows behind a savepoint, and rolls back to it.
fn run(
    transaction: &mut Transaction<'_>,
    tables: Tables,
    lane: u16,
    part: u64,
    in_vain: bool,
) -> Result<(), Abort> {
    let gone = Abort::Misuse("a row of the lane is gone");
    let (totals, entries) = (tables.totals.primary(), tables.entries.primary());
    let count = match transaction.find(totals, &lane, Intent::Write)? {
        None => {
            transaction.insert(tables.totals, &Total { lane, count: 1, last: part })?;
            1
        }
        Some(row) => {
            let count = transaction.get(row, Total::COUNT)? + 1;
            transaction.put(row, Total::COUNT, &count)?;
            transaction.put(row, Total::LAST, &part)?;
            count
        }
    };
    let key = |count| (lane, Entry::of(lane, count, 0, 0).slot);
    let entry = Entry::of(lane, count, part, 0);
    let inserts_first = !lane.is_multiple_of(2);
    if inserts_first {
        transaction.insert(tables.entries, &entry)?;
    }
    if in_vain {
        let before = transaction.verbs().savepoint()?;
        let row = transaction.find(totals, &lane, Intent::Write)?.ok_or(gone.clone())?;
        transaction.put(row, Total::COUNT, &u64::MAX)?;
        transaction.delete(row)?;
        for slot in count.saturating_sub(KEPT)..count {
            if let Some(row) = transaction.find(entries, &key(slot), Intent::Write)? {
                transaction.delete(row)?;
            }
        }
        transaction
            .insert(tables.entries, &Entry { slot: u64::MAX, ..entry.clone() })
            .or_else(|abort| if abort.ends_at_savepoint() { Ok(()) } else { Err(abort) })?;
        transaction.verbs().roll_back_to(before)?;
    }
    if count > KEPT {
        let row = transaction.find(entries, &key(count - KEPT), Intent::Write)?;
        transaction.delete(row.ok_or(gone.clone())?)?;
    }
    if !inserts_first {
        transaction.insert(tables.entries, &entry)?;
    }
    if count > 1 {
        let row = transaction.find(entries, &key(count - 1), Intent::Write)?.ok_or(gone)?;
        let before: Entry = transaction.row(row)?;
        let changed = Entry::of(lane, count - 1, before.part, part);
        transaction.replace(row, &changed)?;
    }
    Ok(())
}
