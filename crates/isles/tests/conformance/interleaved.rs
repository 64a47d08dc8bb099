//! Transactions that are open at the same time, step by step: as objects in one thread, or each in
//! a thread of its own.
//!
//! The results and outcomes of the transactions must agree with a serial execution in some order:
//! all orders of the transactions that count are tried on the model. A transaction may give up
//! (`Conflict`, or its deadline), and every step has a bound.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use isles::{Durability, Error, OwnedTransaction, Session, TransactionOptions};

use crate::apply::{Tables, apply};
use crate::calls;
use crate::engines::{Engine, Opened};
use crate::model::Model;
use crate::operation::{
    Draw, Operation, Outcome, RangeKind, SHAPES, ScanEnd, ScanPlan, Scope, Verb, continues, kind,
};
use crate::rows::Probe;

/// Longest time of a transaction. No wait in memory is longer than a millisecond; over pages a wait
/// for a lock of the same thread lasts to the deadline.
const DEADLINE: Duration = Duration::from_millis(1_500);
const DEADLINE_OF_ONE_THREAD: Duration = Duration::from_millis(100);
/// Longest time of a step: the deadline, and delays of a busy machine.
const STEP_MAX: Duration = Duration::from_secs(20);
/// Time for which the driver of threads waits for a step before it continues with the others.
const PATIENCE: Duration = Duration::from_millis(10);

/// Action of a transaction in a step.
#[derive(Clone, Debug)]
pub enum Act {
    Do(Operation),
    Commit,
    RollBack,
}

/// Transactions and their actions, in this order.
pub type Schedule = Vec<(usize, Act)>;

/// Threads of the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionMode {
    /// All transactions in the thread of the test.
    OneThread,
    /// Each transaction in a thread of its own.
    Threads,
    /// Every operation is a transaction of its own: a planted fault, which has no isolation.
    NoIsolation,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Committed,
    /// It changed no row, and its reads count.
    RolledBack,
    /// Its reads do not count.
    GaveUp(String),
}

/// Actions and end of a transaction.
#[derive(Clone, Debug)]
pub struct TransactionTrace {
    pub operations: Vec<Operation>,
    pub outcomes: Vec<Outcome>,
    pub ended: Option<Ended>,
}

/// A transaction that performs its steps.
struct Actor {
    session: Option<Session>,
    open: Option<OwnedTransaction>,
    tables: Tables,
    isolated: bool,
    trace: TransactionTrace,
}

fn gives_up(error: &str) -> bool {
    error == "Conflict" || error == "Deadline"
}

impl Actor {
    fn new(mut session: Session, tables: Tables, mode: ExecutionMode) -> Self {
        let deadline = if mode == ExecutionMode::Threads { DEADLINE } else { DEADLINE_OF_ONE_THREAD };
        session.set_options(TransactionOptions::new().deadline(deadline).durability(Durability::Async));
        let isolated = mode != ExecutionMode::NoIsolation;
        let trace = TransactionTrace { operations: Vec::new(), outcomes: Vec::new(), ended: None };
        Actor { session: Some(session), open: None, tables, isolated, trace }
    }

    fn step(&mut self, act: &Act) {
        if self.trace.ended.is_some() {
            return;
        }
        match act {
            Act::Do(operation) => self.operate(operation),
            Act::Commit => self.end(true),
            Act::RollBack => self.end(false),
        }
    }

    fn operate(&mut self, operation: &Operation) {
        self.trace.operations.push(operation.clone());
        let outcome = if self.isolated {
            if let Some(session) = self.session.take() {
                match session.into_transaction() {
                    Ok(open) => self.open = Some(open),
                    Err(error) => return self.trace.ended = Some(Ended::GaveUp(kind(&error))),
                }
            }
            apply(self.open.as_mut().expect("it is open"), &self.tables, operation)
        } else {
            let session = self.session.as_mut().expect("no transaction is open");
            let mut outcome = Err(String::new());
            let _ = session.transaction(|t| {
                outcome = apply(t, &self.tables, operation);
                Ok(())
            });
            outcome
        };
        let error = outcome.as_ref().err().filter(|_| !continues(&outcome)).cloned();
        self.trace.outcomes.push(outcome);
        match error {
            Some(error) if gives_up(&error) => {
                self.open = None;
                self.trace.ended = Some(Ended::GaveUp(error));
            }
            Some(_) => self.end(false),
            None => {}
        }
    }

    fn end(&mut self, commits: bool) {
        let Some(open) = self.open.take() else {
            self.trace.ended = Some(if commits { Ended::Committed } else { Ended::RolledBack });
            return;
        };
        let ended = if commits { open.commit() } else { open.roll_back() };
        let failed = self.trace.outcomes.last().and_then(|outcome| outcome.clone().err());
        self.trace.ended = Some(match ended {
            Ok(()) if commits => Ended::Committed,
            Ok(()) => Ended::RolledBack,
            // The error of the verb, which counts now.
            Err(error) if failed.as_ref() == Some(&kind(&error)) => Ended::RolledBack,
            Err(error) => Ended::GaveUp(kind(&error)),
        });
    }
}

/// Runs a schedule. Returns the trace of each transaction.
///
/// # Errors
/// A step took longer than its bound.
pub fn perform(
    opened: &Opened,
    schedule: &Schedule,
    mode: ExecutionMode,
) -> Result<Vec<TransactionTrace>, String> {
    let count = schedule.iter().map(|(actor, _)| actor + 1).max().unwrap_or(0);
    let actors: Vec<Actor> = (0..count)
        .map(|_| {
            let session = opened.new_session(0).expect("a session");
            Actor::new(session, opened.tables, mode)
        })
        .collect();
    match mode {
        ExecutionMode::Threads => perform_by_threads(actors, schedule),
        ExecutionMode::OneThread | ExecutionMode::NoIsolation => perform_here(actors, schedule),
    }
}

fn perform_here(mut actors: Vec<Actor>, schedule: &Schedule) -> Result<Vec<TransactionTrace>, String> {
    for (number, (actor, act)) in schedule.iter().enumerate() {
        let begun = Instant::now();
        actors[*actor].step(act);
        if begun.elapsed() > STEP_MAX {
            return Err(format!("step {number}, {act:?}, took {:?}", begun.elapsed()));
        }
    }
    Ok(actors.into_iter().map(|actor| actor.trace).collect())
}

/// Runs each transaction in a thread. A step that waits is left behind, and the schedule continues
/// with the next.
fn perform_by_threads(actors: Vec<Actor>, schedule: &Schedule) -> Result<Vec<TransactionTrace>, String> {
    let mut crew: Vec<(Sender<Act>, Receiver<()>)> = Vec::new();
    let (send_trace, traces) = channel();
    let engine = calls::engine();
    for (number, mut actor) in actors.into_iter().enumerate() {
        let (send, steps) = channel::<Act>();
        let (done, dones) = channel();
        let (send_trace, engine) = (send_trace.clone(), engine.clone());
        std::thread::spawn(move || {
            calls::enter(&engine);
            for act in steps {
                actor.step(&act);
                let _ = done.send(());
            }
            let trace = actor.trace.clone();
            // The session's resources are free before the trace is sent.
            drop(actor);
            let _ = send_trace.send((number, trace));
        });
        crew.push((send, dones));
    }
    let mut late = vec![0; crew.len()];
    for (actor, act) in schedule {
        let (send, dones) = &crew[*actor];
        send.send(act.clone()).map_err(|_| "a thread has panicked".to_owned())?;
        late[*actor] += 1;
        while late[*actor] > 0 && dones.recv_timeout(PATIENCE).is_ok() {
            late[*actor] -= 1;
        }
    }
    let count = crew.len();
    drop(crew);
    let mut all: Vec<Option<TransactionTrace>> = vec![None; count];
    for _ in 0..count {
        match traces.recv_timeout(STEP_MAX) {
            Ok((number, trace)) => all[number] = Some(trace),
            Err(RecvTimeoutError::Timeout) => return Err("a transaction hangs".to_owned()),
            Err(RecvTimeoutError::Disconnected) => return Err("a thread has panicked".to_owned()),
        }
    }
    Ok(all.into_iter().flatten().collect())
}

/// Reads all rows in a new transaction, by scans of all ordered indexes.
pub fn read_all(opened: &Opened) -> TransactionTrace {
    let mut session = opened.new_session(0).expect("a session");
    let (operations, mut outcomes) = (scans(), Vec::new());
    let read = session.transaction(|t| {
        outcomes = operations.iter().map(|operation| apply(t, &opened.tables, operation)).collect();
        Ok(())
    });
    read.expect("no transaction conflicts any more");
    TransactionTrace { operations, outcomes, ended: Some(Ended::Committed) }
}

/// Scans of all ordered indexes.
fn scans() -> Vec<Operation> {
    let probe = Probe { part: 0, id: 0, salt: 0 };
    let plan = ScanPlan::all(ScanEnd::Collect);
    let mut all = Vec::new();
    for (table, (indexes, _, _)) in SHAPES.iter().enumerate() {
        // The other indexes are hash indexes.
        let first = if table == 2 { 3 } else { 0 };
        let scan = |index| Operation { table, index, probe, verb: Verb::Scan(plan.clone()) };
        all.extend((first..*indexes).map(scan));
    }
    all
}

/// Finds an order of the transactions that count which explains all their results and the final
/// rows, which the last transaction read. Returns the model after it.
///
/// # Errors
/// There is no such order, or a transaction ended with an error that is not allowed.
pub fn explain(
    before: &Model,
    traces: &[TransactionTrace],
    last: &TransactionTrace,
) -> Result<Model, String> {
    let mut counted = Vec::new();
    for trace in traces {
        match &trace.ended {
            Some(Ended::Committed | Ended::RolledBack) => counted.push(trace),
            Some(Ended::GaveUp(error)) if gives_up(error) => {}
            other => return Err(format!("a transaction ended like {other:?}: {trace:?}")),
        }
    }
    let mut orders = vec![(before.clone(), counted)];
    while let Some((model, left)) = orders.pop() {
        if left.is_empty() {
            let mut read = model.clone();
            if last.operations.iter().map(|operation| read.apply(operation)).eq(last.outcomes.iter().cloned())
            {
                return Ok(model);
            }
        }
        for next in 0..left.len() {
            let mut after = model.clone();
            let same = left[next]
                .operations
                .iter()
                .zip(&left[next].outcomes)
                .all(|(operation, outcome)| after.apply(operation) == *outcome);
            if same {
                let mut others = left.clone();
                let trace = others.remove(next);
                let commits = trace.ended == Some(Ended::Committed);
                orders.push((if commits { after } else { model.clone() }, others));
            }
        }
    }
    Err(format!(
        "in no order would these give what they gave, and leave what is there:\n{traces:#?}\n{:?}",
        last.outcomes
    ))
}

/// Counts of rare events in generated schedules, which the test has to reach.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// Schedules in which several transactions committed.
    pub several: u64,
    /// Transactions that gave up.
    pub gave_up: u64,
}

/// Generated schedules of two or three transactions over few rows.
///
/// # Errors
/// The first schedule without a serial order.
pub fn run_generated(engine: Engine, mode: ExecutionMode, rounds: u64) -> Result<Marks, String> {
    let opened = open_for(engine, 7)?;
    let parts = opened.0.parts(0);
    let scope = Scope {
        parts: parts[..1].to_vec(),
        ids: 5,
        one_part: true,
        only_reads: false,
        tables: vec![1, 2, 3, 4, 5],
        ranges: &RangeKind::OF_ONE_PART,
    };
    let mut model = Model::new(engine.traits());
    let (mut marks, opened) = (Marks::default(), opened.0);
    for round in 0..rounds {
        let mut draw = Draw::new(round + 1_000);
        let schedule = draw_schedule(&scope, &mut draw);
        let traces = perform(&opened, &schedule, mode).map_err(|why| format!("{schedule:#?}: {why}"))?;
        let explained = explain(&model, &traces, &read_all(&opened));
        model = explained
            .map_err(|why| format!("{} {mode:?}, round {round}: {why}\n{schedule:#?}", engine.name()))?;
        let committed = traces.iter().filter(|trace| trace.ended == Some(Ended::Committed)).count();
        marks.several += u64::from(committed > 1);
        marks.gave_up +=
            traces.iter().filter(|trace| matches!(trace.ended, Some(Ended::GaveUp(_)))).count() as u64;
    }
    opened.close().map_err(|error| error.to_string())?;
    Ok(marks)
}

/// An engine for schedules, with a directory if it needs one.
pub fn open_for(engine: Engine, number: u64) -> Result<(Opened, Option<crate::engines::Directory>), String> {
    let name = format!("{}-side-by-side-{number}-{:?}", engine.name(), std::thread::current().id());
    let in_pages = matches!(engine, Engine::Pages | Engine::BrokenPages(_));
    let directory = in_pages.then(|| crate::engines::Directory::new(&name));
    let path = directory.as_ref().map(|directory| directory.0.as_path());
    let opened = engine.open(number, path).map_err(|error: Error| error.to_string())?;
    Ok((opened, directory))
}

fn draw_schedule(scope: &Scope, draw: &mut Draw) -> Schedule {
    let count = 2 + draw.below(2) as usize;
    let mut plans: Vec<Vec<Act>> = (0..count)
        .map(|_| {
            let mut acts: Vec<Act> = (0..1 + draw.below(4)).map(|_| Act::Do(scope.operation(draw))).collect();
            acts.push(if draw.one_in(5) { Act::RollBack } else { Act::Commit });
            acts.reverse();
            acts
        })
        .collect();
    let mut schedule = Vec::new();
    while plans.iter().any(|plan| !plan.is_empty()) {
        let actor = draw.below(count as u64) as usize;
        schedule.extend(plans[actor].pop().map(|act| (actor, act)));
    }
    schedule
}
