//! A run whose instances are processes, from the command's side: it orders the steps, adds up the
//! measurements of the instances as if they were threads, and checks their rows.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;

use boundary::{RowSource, SchemaBuilder};
use distributed::{DataOwners, Undecided};
use platform::{Hardware, HardwareCore, Platform};
use terms::rows::KeyBounds;
use workloads::Workload;

use super::crew::{Crew, Instances};
use super::messages::{Order, Report, Task, plan_fingerprint};
use super::outliving::{self, Ran, combined};
use crate::context::Context;
use crate::error::RunError;
use crate::measurement::memory_figures::MemoryTaken;
use crate::measurement::values::{Check, Measurement, Recovery};
use crate::members::Division;
use crate::plan::Durability;
use crate::run::transactions::{joint_checks, outcomes, seconds_of};
use crate::workers::membership::{self, Found};
use crate::workers::opening::{LogGrowth, RunDirectory};
use crate::workers::summary::enter;

/// Loads, runs and checks.
pub(crate) fn run<W: Workload>(
    c: HardwareCore,
    workload: &W,
    cx: Context<'_>,
    how: &Instances,
) -> Result<Measurement, RunError> {
    let Context { plan, deployment, .. } = cx;
    let division = Division::new(workload, plan, deployment)?;
    let owners = division.deployed(deployment.instances.len());
    // The directory stays locked until all processes have ended.
    let directory = match how {
        Instances::Started(program) if program.paths.is_empty() => {
            RunDirectory::<Hardware>::open(c, plan, Some(&owners))?
        }
        _ => RunDirectory::lent(None, false),
    };
    let mut is_loaded = false;
    let ran = run_in(c, workload, cx, how, &division, &directory, &mut is_loaded);
    let stays = match (directory.path(), how.database(plan, 0)) {
        (Some(path), _) if !directory.is_temporary => Some(path.display().to_string()),
        (_, Some(_)) => Some("the directories of its instances".to_owned()),
        _ => None,
    };
    ran.map_err(|error| match (error, stays.filter(|_| is_loaded)) {
        (RunError::InstanceGone(why), Some(where_from)) => {
            RunError::Refused(format!("{why}; the same command goes on from {where_from}"))
        }
        (error, _) => error,
    })
}

/// As [`run`], in this directory. Sets `is_loaded` when the data are complete, so that a later run
/// could continue on them.
fn run_in<W: Workload>(
    c: HardwareCore,
    workload: &W,
    cx: Context<'_>,
    how: &Instances,
    division: &Division,
    directory: &RunDirectory<Hardware>,
    is_loaded: &mut bool,
) -> Result<Measurement, RunError> {
    let Context { plan, deployment, control } = cx;
    let tables = workload.create(&mut SchemaBuilder::new());
    let instances = deployment.instances.len();
    let mut crew = Crew::start(how, instances, control.stop_requested)?;
    // Unique: process numbers of running processes differ, and a process starts once.
    let number = u64::from(std::process::id()) << 32 ^ Hardware::now(c).0;
    let place = crew.directory().to_owned();
    let temporary = directory.path().filter(|_| directory.is_temporary);
    // A durable instance that the command has not started can be started again without losing data.
    let outlived = matches!(how, Instances::Come { .. }) && how.database(plan, 0).is_some();
    let task = |instance, returns| Task {
        outlived,
        returns,
        deployment: match how {
            Instances::Started(_) => deployment.to_string(),
            Instances::Come { .. } => deployment.clone().on_machine_of(instance).to_string(),
        },
        instance,
        number,
        directory: place.clone(),
        address: how.address(instance),
        database: how.database(plan, instance).or_else(|| directory.of_instance(instance)),
        temporary: temporary.map(Path::to_path_buf),
        plan: plan_fingerprint(plan),
    };
    crew.begin(|instance| task(instance, false));
    let owners = division.deployed(instances);
    let recovered = open(c, cx, &mut crew, &owners)?;
    let existed = recovered.is_some();
    *is_loaded = existed;
    let (mut measured, endpoints) = load(workload, cx, &mut crew, existed)?;
    *is_loaded = true;
    measured.recovered = recovered;
    crew.send_to_all(&Order::Connect(endpoints.clone()));
    crew.each(|report| matches!(report, Report::Connected).then_some(()))?;
    crew.remove_endpoints();
    let Ran { results, memory, log } = match outlived {
        true => {
            let begin = |instance| Order::Begin(task(instance, true));
            outliving::work(cx, &mut crew, endpoints, owners.sum(), &begin)?
        }
        false => work(cx, &mut crew, instances)?,
    };
    measured.interrupted = crew.stopping();
    let committed = enter(&mut measured, workload, plan, deployment, &results)?;
    measured.memory = Some(memory.figures(committed.iter().sum()));
    if let Some(log) = log {
        log.enter(&mut measured, committed.iter().sum());
    }
    control.progress.checking();
    if let Some(missing) = crew.missing().first() {
        let why = format!("instance {missing} is missing");
        measured.checks = vec![("all instances".to_owned(), Check::NotApplicable(why))];
        return crew.end(true).map(|()| measured);
    }
    let crew = RefCell::new(crew);
    let failed = RefCell::new(None);
    let source = |number| -> Box<dyn RowSource + '_> {
        Box::new(InstanceRows { crew: &crew, number, prefetched: Prefetched::default(), failed: &failed })
    };
    let mut sources: Vec<_> = (0..instances).map(source).collect();
    // The commits of an instance before it came back are not counted.
    let committed = (!existed && measured.losses == 0).then_some(&committed[..]);
    let checks = joint_checks(workload, &tables, division, &mut sources, committed);
    measured.checks = outcomes(checks);
    drop(sources);
    match failed.into_inner() {
        Some(error) => Err(error),
        None => crew.into_inner().end(plan.durability != Durability::None).map(|()| measured),
    }
}

/// Lets all instances open their databases, and resolves the transactions in doubt. Returns the
/// cost, if there were data; otherwise orders the instances to load.
fn open(
    c: HardwareCore,
    cx: Context<'_>,
    crew: &mut Crew<'_>,
    owners: &DataOwners,
) -> Result<Option<Recovery>, RunError> {
    let opened = crew.each(|report| match report {
        Report::Opened { recovered, found, undecided } => Some((recovered, found, undecided)),
        _ => None,
    });
    let opened = opened.map_err(|error| crew.unless_stopping(error))?;
    let found: Vec<Found> = opened.iter().map(|(_, found, _)| found.clone()).collect();
    if !membership::belong_together(&found, owners.sum())? {
        crew.send_to_all(&Order::Load(membership::new_number::<Hardware>(cx.plan.seed)));
        return Ok(None);
    }
    let began = Hardware::now(c);
    let undecided: Vec<Undecided> = opened.iter().map(|(_, _, undecided)| undecided.clone()).collect();
    let ends = distributed::doubt::ends(&undecided, cx.plan.faults).map_err(RunError::of)?;
    let committed = ends.iter().flatten().filter(|commits| **commits).count() as u64;
    let in_doubt = ends.iter().flatten().count() as u64;
    ends.into_iter().enumerate().for_each(|(number, ends)| crew.send(number, &Order::Finish(ends)));
    crew.each(|report| matches!(report, Report::Finished).then_some(()))?;
    crew.send_to_all(&Order::Forget);
    let recovered = opened.iter().filter_map(|(recovered, _, _)| *recovered);
    // The instances were opened concurrently.
    let longest = recovered.clone().map(|recovered| recovered.seconds).fold(0.0, f64::max);
    let seconds = longest + Hardware::now(c).since(began) as f64 / 1e9;
    let all = recovered.reduce(Recovery::and);
    Ok(all.map(|all| Recovery { in_doubt, in_doubt_committed: committed, seconds, ..all }))
}

/// Lets all instances load, unless their data `existed`; returns the measurement so far, and the
/// endpoint of each instance.
fn load<W: Workload>(
    workload: &W,
    cx: Context<'_>,
    crew: &mut Crew<'_>,
    existed: bool,
) -> Result<(Measurement, Vec<String>), RunError> {
    let progress = cx.control.progress;
    let instances = cx.deployment.instances.len();
    if !existed {
        progress.loading((0..workload.parts()).map(|part| workload.rows(part)).sum());
    }
    let mut measured = Measurement::default();
    let (mut loaded, mut endpoints) = (vec![0; instances], vec![None; instances]);
    while endpoints.iter().any(Option::is_none) {
        let (number, report) = crew.report().map_err(|error| crew.unless_stopping(error))?;
        match report {
            Report::Loaded(rows) => loaded[number] = rows,
            Report::Ready { rows, seconds, endpoint } => {
                loaded[number] = rows;
                measured.rows_loaded += rows;
                measured.load_seconds = measured.load_seconds.max(seconds);
                endpoints[number] = Some(endpoint);
            }
            _ => return Err(crew.unexpected(number)),
        }
        if !existed {
            progress.loaded(loaded.iter().sum());
        }
    }
    Ok((measured, endpoints.into_iter().flatten().collect()))
}

/// Lets all workers run; returns their results by number, and the work of all logs.
fn work(cx: Context<'_>, crew: &mut Crew<'_>, instances: usize) -> Result<Ran, RunError> {
    let progress = cx.control.progress;
    let (mut logs, mut memory_taken) = (Vec::new(), MemoryTaken::default());
    progress.running(seconds_of(cx.plan.length));
    crew.send_to_all(&Order::Run);
    let mut samples = vec![None; instances];
    let mut ran = Vec::new();
    ran.resize_with(instances, || None);
    while ran.iter().any(Option::is_none) {
        match crew.report()? {
            (number, Report::Progress(sample)) => {
                samples[number] = Some(sample);
                progress.tick(combined(samples.iter().flatten()));
            }
            (number, Report::Ran { results, memory, log }) if ran[number].is_none() => {
                if results.len() != cx.deployment.instances[number].workers.len() {
                    return Err(crew.unexpected(number));
                }
                memory_taken = memory_taken.and(memory);
                logs.extend(log);
                ran[number] = Some(results);
            }
            (number, _) => return Err(crew.unexpected(number)),
        }
    }
    let results = ran.into_iter().flatten().flatten();
    let log = logs.into_iter().reduce(LogGrowth::and);
    Ok(Ran { results: results.collect(), memory: memory_taken, log })
}

/// Number of keys that are requested together, if ascending keys were requested before.
const PREFETCHED_KEYS: u64 = 128;

/// Words and tail of a row.
type CopiedRow = (Vec<u64>, Vec<u8>);

/// Prefetched rows of requests by key.
#[derive(Default)]
struct Prefetched {
    table: usize,
    index: usize,
    /// The last requested key.
    last: Vec<u64>,
    /// Difference between the last word of this key and that of the key before.
    step: u64,
    /// Prefetched rows by key; `None` if there is no row with that key.
    rows: VecDeque<(Vec<u64>, Option<CopiedRow>)>,
}

impl Prefetched {
    /// The keys to request now that this one is needed: conditions read rows by ascending keys.
    fn keys(&mut self, table: usize, index: usize, key: &[u64]) -> Vec<Vec<u64>> {
        let word = key.last().copied();
        let last = self.last.last().copied();
        let step = word.unwrap_or(0).wrapping_sub(last.unwrap_or(0));
        let is_steady = step != 0 && (table, index, step) == (self.table, self.index, self.step);
        let count = if is_steady { PREFETCHED_KEYS } else { 1 };
        (self.table, self.index, self.step) = (table, index, step);
        let next = |number: u64| {
            let mut key = key.to_vec();
            if let Some(word) = key.last_mut() {
                *word = word.checked_add(step.checked_mul(number)?)?;
            }
            Some(key)
        };
        (0..count).map_while(next).collect()
    }
}

/// The rows of an instance, which its process sends.
struct InstanceRows<'r, 'c> {
    crew: &'r RefCell<Crew<'c>>,
    number: usize,
    prefetched: Prefetched,
    /// The error that caused rows to be missing, if there is one.
    failed: &'r RefCell<Option<RunError>>,
}

impl InstanceRows<'_, '_> {
    fn request(&self, order: &Order, visit: &mut dyn FnMut(&[u64], &[u8])) {
        if self.failed.borrow().is_some() {
            return;
        }
        if let Err(error) = self.try_request(order, visit) {
            *self.failed.borrow_mut() = Some(error);
        }
    }

    fn try_request(&self, order: &Order, visit: &mut dyn FnMut(&[u64], &[u8])) -> Result<(), RunError> {
        let mut crew = self.crew.borrow_mut();
        crew.send(self.number, order);
        loop {
            let rows = crew.rows(self.number)?;
            rows.each(visit).ok_or_else(|| crew.unexpected(self.number))?;
            if rows.is_last {
                return Ok(());
            }
        }
    }
}

impl RowSource for InstanceRows<'_, '_> {
    fn rows(
        &mut self,
        table: usize,
        index: usize,
        range: KeyBounds<'_>,
        visit: &mut dyn FnMut(&[u64], &[u8]),
    ) {
        self.request(
            &Order::Rows { table, index, low: range.low.to_vec(), high: range.high.to_vec() },
            visit,
        );
    }

    fn row(&mut self, table: usize, index: usize, key: &[u64], visit: &mut dyn FnMut(&[u64], &[u8])) {
        let is_there = |(other, _): &(Vec<u64>, _)| other == key;
        let of_same = (table, index) == (self.prefetched.table, self.prefetched.index);
        let known = self.prefetched.rows.iter().position(is_there).filter(|_| of_same);
        if known.is_none() {
            let keys = self.prefetched.keys(table, index, key);
            let mut rows: VecDeque<_> = keys.iter().map(|key| (key.clone(), None)).collect();
            self.request(&Order::Row { table, index, keys }, &mut |words, tail| {
                let Some((number, words)) = words.split_first() else { return };
                if let Some(row) = rows.get_mut(usize::try_from(*number).unwrap_or(usize::MAX)) {
                    row.1 = Some((words.to_vec(), tail.to_vec()));
                }
            });
            self.prefetched.rows = rows;
        }
        self.prefetched.last = key.to_vec();
        self.prefetched.rows.drain(..known.unwrap_or(0));
        if let Some((_, Some((words, tail)))) = self.prefetched.rows.pop_front() {
            visit(&words, &tail);
        }
    }
}
