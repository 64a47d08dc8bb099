//! Generated programs: transactions of all kinds, one after the other, each compared with the
//! model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use isles::{Error, Session, Ticket, Transaction};

use crate::apply::apply;
use crate::calls::{self, call};
use crate::deployed::Work;
use crate::engines::{Directory, Engine, Kind, Opened, PARTS, options};
use crate::model::{Fault, Model};
use crate::operation::{
    Draw, Operation, Outcome, RangeKind, SHAPES, SKIPPING, ScanEnd, ScanPlan, Scope, Verb, continues, kind,
};
use crate::rows::Probe;

/// Numbers of rows that programs use.
const IDS: u32 = 48;
/// Rows of each table and part that exist from the start.
const ROWS_FIRST: u32 = 24;
const OPERATIONS_MAX: u64 = 9;
/// Limit of the conflicts of an object with parts of a deployment that have not ended.
const CONFLICTS_MAX: usize = 5_000;

/// Function of the library that runs or begins a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionCall {
    Transaction,
    TryTransaction,
    TransactionAsync(usize),
    With(usize),
    DatabaseTransaction,
    Snapshot(usize),
    Begin,
    WithBegin,
    IntoTransaction,
    DatabaseBegin,
    Procedure(bool),
}

const CLOSURES: [TransactionCall; 10] = [
    TransactionCall::Transaction,
    TransactionCall::TryTransaction,
    TransactionCall::TransactionAsync(0),
    TransactionCall::TransactionAsync(1),
    TransactionCall::TransactionAsync(2),
    TransactionCall::TransactionAsync(3),
    TransactionCall::With(0),
    TransactionCall::With(1),
    TransactionCall::With(2),
    TransactionCall::DatabaseTransaction,
];
const OBJECTS: [TransactionCall; 4] = [
    TransactionCall::Begin,
    TransactionCall::WithBegin,
    TransactionCall::IntoTransaction,
    TransactionCall::DatabaseBegin,
];
const SNAPSHOTS: [TransactionCall; 3] =
    [TransactionCall::Snapshot(0), TransactionCall::Snapshot(1), TransactionCall::Snapshot(2)];

/// End of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Commit,
    CommitAsync,
    CommitIntoSession,
    RollBack,
    RollBackIntoSession,
    Drop,
}

impl End {
    const ALL: [End; 6] = [
        End::Commit,
        End::CommitAsync,
        End::CommitIntoSession,
        End::RollBack,
        End::RollBackIntoSession,
        End::Drop,
    ];

    fn commits(self) -> bool {
        matches!(self, End::Commit | End::CommitAsync | End::CommitIntoSession)
    }
}

/// One transaction of a program.
#[derive(Clone, Debug)]
pub struct Planned {
    pub instance: usize,
    pub call: TransactionCall,
    pub end: End,
    pub operations: Vec<Operation>,
}

/// A program for an engine.
#[derive(Clone, Debug)]
pub struct Program {
    pub engine: Engine,
    pub number: u64,
    pub durable: bool,
    pub transactions: Vec<Planned>,
}

impl Program {
    pub fn draw(engine: Engine, number: u64, transactions: usize) -> Program {
        let mut draw = Draw::new(number);
        let instances = if engine == Engine::Deployment { 2 + number as usize % 2 } else { 1 };
        let parts_of = |instance| {
            let here = |part: &u16| usize::from(*part) % instances == instance;
            (0..PARTS).filter(here).collect::<Vec<_>>()
        };
        let mut all: Vec<Planned> = (0..instances).flat_map(|at| first(at, &parts_of(at))).collect();
        if number == 0 {
            all.extend((0..instances).flat_map(|at| every_call(&mut draw, at, &parts_of(at))));
        }
        for _ in 0..transactions {
            let instance = draw.below(instances as u64) as usize;
            all.push(planned(engine, &mut draw, instance, parts_of(instance)));
        }
        let durable = engine == Engine::Pages || number % 2 == 1;
        Program { engine, number, durable, transactions: all }
    }

    /// Runs the program, and the model with this fault beside it.
    ///
    /// # Errors
    /// The first difference, as text.
    pub fn run(&self, fault: Option<Fault>) -> Result<(), String> {
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_through(fault)));
        ran.unwrap_or_else(|_| Err("a panic".to_owned()))
    }

    fn run_through(&self, fault: Option<Fault>) -> Result<(), String> {
        let name = format!("{}-{}", self.engine.name(), self.number);
        let directory = self.durable.then(|| Directory::new(&name));
        let path = directory.as_ref().map(|directory| directory.0.as_path());
        let mut opened = self.open(path)?;
        let mut models = opened.models(crate::model::EngineTraits { fault, ..self.engine.traits() });
        for (number, planned) in self.transactions.iter().enumerate() {
            let ran = run(&mut opened, self.engine, &mut models, planned);
            ran.map_err(|why| format!("{name}, transaction {number} ({planned:?}): {why}"))?;
        }
        compare_all(&mut opened, &models).map_err(|why| format!("{name}, in the end: {why}"))?;
        if self.number % 4 == 1 {
            // The state after a crash of the process: the log is read.
            opened.flush().map_err(|error| format!("{name} is not flushed: {error}"))?;
            drop(opened);
        } else {
            opened.close().map_err(|error| format!("{name} is not closed: {error}"))?;
        }
        if let Some(path) = path {
            let mut opened = self.open(Some(path))?;
            compare_all(&mut opened, &models).map_err(|why| format!("{name}, opened again: {why}"))?;
            opened.close().map_err(|error| format!("{name} is not closed again: {error}"))?;
        }
        Ok(())
    }

    fn open(&self, path: Option<&Path>) -> Result<Opened, String> {
        self.engine.open(self.number, path).map_err(|error| format!("not opened: {error}"))
    }

    /// Runs the program. A failing program is shortened by leaving out transactions and operations,
    /// as far as it still fails.
    ///
    /// # Panics
    /// There is a difference.
    pub fn check(&self) {
        let Err(first) = self.run(None) else { return };
        let mut least = (self.clone(), first);
        let mut shorter = true;
        while shorter {
            shorter = false;
            for candidate in least.0.shorter() {
                if let Err(why) = candidate.run(None) {
                    least = (candidate, why);
                    shorter = true;
                    break;
                }
            }
        }
        let (program, why) = least;
        panic!("{why}\nin the program {program:#?}");
    }

    /// Programs without one of the transactions or one of the operations.
    fn shorter(&self) -> Vec<Program> {
        let mut all = Vec::new();
        for at in (0..self.transactions.len()).rev() {
            let mut without = self.clone();
            without.transactions.remove(at);
            all.push(without);
        }
        for at in 0..self.transactions.len() {
            for operation in 0..self.transactions[at].operations.len() {
                let mut without = self.clone();
                without.transactions[at].operations.remove(operation);
                all.push(without);
            }
        }
        all
    }
}

/// Transactions that insert the first rows into the tables of an instance.
fn first(instance: usize, parts: &[u16]) -> Vec<Planned> {
    let planned = |part: u16| {
        let operation = |table| {
            let probes = (0..ROWS_FIRST).map(|id| Probe { part, id: 2 * id, salt: 3 * id }).collect();
            Operation {
                table,
                index: 0,
                probe: Probe { part, id: 0, salt: 0 },
                verb: Verb::InsertAll(probes),
            }
        };
        let operations = (0..SHAPES.len()).map(operation).collect();
        Planned { instance, call: TransactionCall::Transaction, end: End::Commit, operations }
    };
    parts.iter().copied().map(planned).collect()
}

/// Every verb in closures and in both kinds of objects, and every kind and end of a transaction,
/// each in a transaction of its own.
fn every_call(draw: &mut Draw, instance: usize, parts: &[u16]) -> Vec<Planned> {
    let (parts, ranges) = (parts.to_vec(), &RangeKind::OF_AN_INSTANCE[..]);
    let scope = Scope { parts, ids: IDS, one_part: false, only_reads: false, tables: vec![1], ranges };
    let mut all = Vec::new();
    for call in [TransactionCall::Transaction, TransactionCall::Begin, TransactionCall::IntoTransaction] {
        for kind in 0..=SKIPPING {
            let operations = vec![scope.operation_of(draw, kind)];
            all.push(Planned { instance, call, end: End::Commit, operations });
        }
    }
    for call in CLOSURES.iter().chain(&SNAPSHOTS).chain(&OBJECTS).copied() {
        for end in End::ALL {
            let only_reads = matches!(call, TransactionCall::Snapshot(_));
            let operations = vec![Scope { only_reads, ..scope.clone() }.operation(draw)];
            all.push(Planned { instance, call, end, operations });
        }
    }
    all
}

fn planned(engine: Engine, draw: &mut Draw, instance: usize, parts: Vec<u16>) -> Planned {
    let several = engine == Engine::Deployment;
    let call = match draw.below(8) {
        0..=2 => draw.of(&CLOSURES),
        3 if several => TransactionCall::Procedure(draw.one_in(3)),
        4 => draw.of(&SNAPSHOTS),
        5 if several => TransactionCall::Procedure(false),
        _ => draw.of(&OBJECTS),
    };
    let owned = matches!(call, TransactionCall::IntoTransaction | TransactionCall::DatabaseBegin);
    let end = match draw.below(8) {
        0 => End::CommitAsync,
        1 => End::RollBack,
        2 => End::Drop,
        3 | 4 if owned => End::CommitIntoSession,
        5 if owned => End::RollBackIntoSession,
        _ => End::Commit,
    };
    let only_reads = matches!(call, TransactionCall::Snapshot(_) | TransactionCall::Procedure(true));
    let of_procedure = matches!(call, TransactionCall::Procedure(_));
    let parts = if of_procedure { (0..PARTS).collect() } else { parts };
    let tables = (0..SHAPES.len()).collect();
    let ranges = match (of_procedure, several) {
        (true, _) => &RangeKind::OF_ONE_PART[..],
        (false, true) => &RangeKind::OF_AN_INSTANCE[..],
        (false, false) => &RangeKind::ALL[..],
    };
    let scope = Scope { parts, ids: IDS, one_part: of_procedure, only_reads, tables, ranges };
    let operations = (0..1 + draw.below(OPERATIONS_MAX)).map(|_| scope.operation_alone(draw)).collect();
    Planned { instance, call, end, operations }
}

/// Outcomes of operations on a model, up to the first that ends the attempt.
fn expect(model: &mut Model, operations: &[Operation]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for operation in operations {
        let outcome = model.apply(operation);
        let ends = !continues(&outcome);
        outcomes.push(outcome);
        if ends {
            break;
        }
    }
    outcomes
}

/// Runs one transaction, and compares its results with the model.
fn run(
    opened: &mut Opened,
    engine: Engine,
    models: &mut Vec<Model>,
    planned: &Planned,
) -> Result<(), String> {
    if let TransactionCall::Procedure(only_reads) = planned.call {
        return run_procedure(opened, models, planned, only_reads);
    }
    if matches!(planned.call, TransactionCall::Snapshot(_)) && !engine.has_snapshots() {
        return run_refused_snapshot(opened, engine, planned);
    }
    let mut next = models[planned.instance].clone();
    let expected = expect(&mut next, &planned.operations);
    let failed =
        expected.last().filter(|outcome| !continues(outcome)).and_then(|outcome| outcome.clone().err());
    let (mut outcomes, mut ended) = perform(opened, planned);
    let gave_up = Err("Conflict".to_owned());
    for _ in 0..CONFLICTS_MAX {
        // A part may not have been notified of the end of the previous procedure yet: an object is
        // one attempt, and begins again.
        let conflicted = is_object(planned.call)
            && (outcomes.last() == Some(&gave_up) || ended == Err("Conflict".to_owned()));
        if engine != Engine::Deployment || !conflicted {
            break;
        }
        std::thread::sleep(Duration::from_micros(200));
        (outcomes, ended) = perform(opened, planned);
    }
    compare(&planned.operations, &outcomes, &expected)?;
    let rolled_back = "RollBack".to_owned();
    let wanted = match (&failed, planned.call) {
        (Some(_), _) if planned.end == End::Drop && is_object(planned.call) => Ok(()),
        (Some(error), _) => Err(error.clone()),
        (None, call) if is_object(call) || planned.end.commits() => Ok(()),
        (None, _) => Err(rolled_back),
    };
    if ended != wanted {
        return Err(format!("it ended with {ended:?}, and should have with {wanted:?}"));
    }
    let commits = failed.is_none() && planned.end.commits();
    if commits || next.traits.fault == Some(Fault::RollBackKeeps) {
        models[planned.instance] = next;
    }
    Ok(())
}

fn is_object(call: TransactionCall) -> bool {
    OBJECTS.contains(&call)
}

/// Compares outcomes.
fn compare(operations: &[Operation], outcomes: &[Outcome], expected: &[Outcome]) -> Result<(), String> {
    for (number, operation) in operations.iter().enumerate() {
        let (got, wanted) = (outcomes.get(number), expected.get(number));
        if got != wanted {
            return Err(format!("{operation:?}\n  gave   {got:?}\n  wanted {wanted:?}"));
        }
    }
    Ok(())
}

/// Runs operations in a transaction up to the first that ends the attempt. Returns its error, which
/// the next verb returns too.
pub fn run_all<T: crate::verbs::Verbs>(
    transaction: &mut T,
    tables: &crate::apply::Tables,
    operations: &[Operation],
    outcomes: &mut Vec<Outcome>,
) -> Result<(), Error> {
    outcomes.clear();
    for operation in operations {
        let outcome = apply(transaction, tables, operation);
        outcomes.push(outcome.clone());
        if !continues(&outcome) {
            let again = transaction.exists(tables.plain, &(operation.probe.part, 0));
            let error = again.expect_err("no verb runs after one that has failed");
            assert_eq!(outcome, Err(kind(&error)), "every further verb gives the same error");
            return Err(error);
        }
    }
    Ok(())
}

/// Runs a closure or an object. Returns the outcomes of the operations, and the end of the
/// transaction.
fn perform(opened: &mut Opened, planned: &Planned) -> (Vec<Outcome>, Result<(), String>) {
    let (mut outcomes, tables, operations) = (Vec::new(), opened.tables, &planned.operations[..]);
    let ended = if is_object(planned.call) {
        perform_object(opened, planned, &mut outcomes)
    } else {
        let mut body = |t: &mut Transaction<'_>| {
            run_all(t, &tables, operations, &mut outcomes)?;
            if planned.end.commits() { Ok(()) } else { Err(Error::RollBack) }
        };
        perform_closure(opened, planned, &mut body)
    };
    (outcomes, ended.map_err(|error| kind(&error)))
}

type Body<'b> = dyn FnMut(&mut Transaction<'_>) -> Result<(), Error> + 'b;

fn perform_closure(opened: &mut Opened, planned: &Planned, body: &mut Body<'_>) -> Result<(), Error> {
    if let (TransactionCall::DatabaseTransaction, Kind::One { database, .. }) = (planned.call, &opened.kind) {
        return call!(database.transaction(body));
    }
    if let (TransactionCall::Snapshot(2), Kind::One { database, .. }) = (planned.call, &opened.kind) {
        return call!(database.snapshot(body));
    }
    let session = opened.session(planned.instance).as_mut().expect("a session");
    match planned.call {
        TransactionCall::TryTransaction => call!(session.try_transaction(body)),
        TransactionCall::TransactionAsync(wait) => {
            let ((), ticket) = call!(session.transaction_async(body))?;
            wait_for(ticket, wait)
        }
        TransactionCall::With(number) => {
            let mut with = call!(session.with(options()));
            match number {
                0 => call!(with.transaction(body)),
                1 => call!(with.try_transaction(body)),
                _ => call!(with.transaction_async(body)).map(drop),
            }
        }
        TransactionCall::Snapshot(0) => call!(session.snapshot(body)),
        TransactionCall::Snapshot(_) => {
            let mut with = session.with(options());
            call!(with.snapshot(body))
        }
        _ => call!(session.transaction(body)),
    }
}

/// Waits for a commit by one of the methods.
// The thread belongs to the program.
fn wait_for(ticket: Ticket, method: usize) -> Result<(), Error> {
    match method {
        0 => call!(ticket.wait()),
        1 => call!(ticket.wait_for(Duration::from_secs(5))).map(|on_disk| assert!(on_disk)),
        2 => {
            let on_disk = call!(ticket.on_disk_by(|job| job()));
            let mut on_disk = std::pin::pin!(on_disk);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            loop {
                if let std::task::Poll::Ready(result) = on_disk.as_mut().poll(&mut context) {
                    return result;
                }
            }
        }
        _ => {
            let _ = call!(ticket.is_on_disk());
            Ok(())
        }
    }
}

fn perform_object(opened: &mut Opened, planned: &Planned, outcomes: &mut Vec<Outcome>) -> Result<(), Error> {
    let (tables, operations, end) = (opened.tables, &planned.operations[..], planned.end);
    if matches!(planned.call, TransactionCall::Begin | TransactionCall::WithBegin) {
        let session = opened.session(planned.instance).as_mut().expect("a session");
        let mut open = match planned.call {
            TransactionCall::Begin => call!(session.begin())?,
            _ => {
                let with = session.with(options());
                call!(with.begin())?
            }
        };
        let _ = run_all(&mut open, &tables, operations, outcomes);
        return match end {
            End::Commit | End::CommitIntoSession => call!(open.commit()),
            End::CommitAsync => call!(open.commit_async()).and_then(|ticket| wait_for(ticket, 0)),
            End::RollBack | End::RollBackIntoSession => call!(open.roll_back()),
            End::Drop => Ok(()),
        };
    }
    let of_database = match &opened.kind {
        Kind::One { database, .. } if planned.call == TransactionCall::DatabaseBegin => {
            Some(call!(database.begin())?)
        }
        _ => None,
    };
    let place = opened.session(planned.instance);
    let mut owned = match of_database {
        Some(owned) => owned,
        None => {
            let session: Session = place.take().expect("a session");
            call!(session.into_transaction())?
        }
    };
    let _ = run_all(&mut owned, &tables, operations, outcomes);
    let ended = match end {
        End::Commit => call!(owned.commit()),
        End::CommitAsync => call!(owned.commit_async()).and_then(|ticket| wait_for(ticket, 0)),
        End::RollBack => call!(owned.roll_back()),
        End::Drop => {
            drop(owned);
            Ok(())
        }
        End::CommitIntoSession | End::RollBackIntoSession => {
            let (session, ended) = match end {
                End::CommitIntoSession => call!(owned.commit_into_session()),
                _ => call!(owned.roll_back_into_session()),
            };
            *place = Some(session);
            ended
        }
    };
    if opened.session(planned.instance).is_none() {
        let session = opened.new_session(planned.instance)?;
        *opened.session(planned.instance) = Some(session);
    }
    ended
}

/// A snapshot on an engine without snapshots is refused, and its body is not called.
fn run_refused_snapshot(opened: &mut Opened, engine: Engine, planned: &Planned) -> Result<(), String> {
    let mut called = false;
    let mut body = |_: &mut Transaction<'_>| {
        called = true;
        Ok(())
    };
    let refused = perform_closure(opened, planned, &mut body).map_err(|error| kind(&error));
    let wanted = if engine == Engine::Deployment { "Misuse" } else { "NoSnapshots" };
    if called || refused != Err(wanted.to_owned()) {
        return Err(format!("a snapshot gave {refused:?}, and its body was called: {called}"));
    }
    Ok(())
}

fn run_procedure(
    opened: &mut Opened,
    models: &mut Vec<Model>,
    planned: &Planned,
    only_reads: bool,
) -> Result<(), String> {
    let work = Work::new(&planned.operations, only_reads, !planned.end.commits());
    let steps = work.steps.clone();
    let (mut next, mut expected, mut errors) = (models.clone(), Vec::new(), Vec::new());
    let home = steps.first().map_or(0, |step| opened.instance_of(step.part));
    for step in &steps {
        let instance = opened.instance_of(step.part);
        next[instance].traits.in_steps = true;
        let outcomes = expect(&mut next[instance], &step.operations);
        next[instance].traits.in_steps = false;
        if let Some(Err(error)) = outcomes.last().filter(|outcome| !continues(outcome)) {
            errors.push(if instance == home { error.clone() } else { format!("Elsewhere {instance}") });
        }
        expected.push(outcomes);
    }
    let Kind::Several { deployment, .. } = &opened.kind else {
        unreachable!("procedures run on deployments")
    };
    let ran = match planned.operations.len() % 2 {
        0 => call!(deployment.run(work)),
        _ => call!(deployment.run_with(&options(), work)),
    };
    calls::enter("deployment");
    match ran {
        Ok(work) if errors.is_empty() && planned.end.commits() => {
            for ((step, outcomes), expected) in steps.iter().zip(&work.outcomes).zip(&expected) {
                compare(&step.operations, outcomes, expected)?;
            }
            *models = next;
            Ok(())
        }
        Err(error) if errors.contains(&kind(&error)) => Ok(()),
        Err(Error::RollBack) if errors.is_empty() && !planned.end.commits() => Ok(()),
        other => Err(format!("it gave {other:?}, where the steps should fail with {errors:?}")),
    }
}

/// Reads all rows by every index, typed and described, and compares them with the models.
pub fn compare_all(opened: &mut Opened, models: &[Model]) -> Result<(), String> {
    for (instance, model) in models.iter().enumerate() {
        let probe = Probe { part: 0, id: 0, salt: 0 };
        let plan = ScanPlan::all(ScanEnd::Collect);
        let mut checks = Vec::new();
        for (table, (indexes, _, _)) in SHAPES.iter().enumerate() {
            checks.extend((0..*indexes).map(|index| (table, index, Verb::Scan(plan.clone()))));
            checks.push((table, 0, Verb::ScanDynamic));
            let probes: Vec<Probe> = opened
                .parts(instance)
                .into_iter()
                .flat_map(|part| (0..IDS).map(move |id| Probe { part, id, salt: 0 }))
                .collect();
            checks.push((table, 0, Verb::GetMany(probes)));
        }
        for (table, index, verb) in checks {
            let operations = vec![Operation { table, index, probe, verb }];
            let planned =
                Planned { instance, call: TransactionCall::Transaction, end: End::Commit, operations };
            let expected = expect(&mut model.clone(), &planned.operations);
            let (outcomes, _) = perform(opened, &planned);
            compare(&planned.operations, &outcomes, &expected)?;
        }
    }
    Ok(())
}

/// Number of programs that each test runs: few in CI, more if the environment variable is set.
pub fn count(few: u64) -> u64 {
    let asked = std::env::var("ISLES_CONFORMANCE_PROGRAMS").ok();
    asked.map_or(few, |asked| asked.parse().expect("ISLES_CONFORMANCE_PROGRAMS is a number"))
}
