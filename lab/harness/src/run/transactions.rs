//! A workload of transactions on the database of each instance: load, run, check.
//!
//! All instances are in this process ([`run`]), or one of them ([`crate::instances`]), with the
//! same steps.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use boundary::{Database, JointInspector, Occupant, Procedure, RowLoader, RowSource, SchemaBuilder};
use platform::{Address, Nanos, Platform};
use redo_log::LogUse;
use repartitioning::{PartitionMap, Story};
use terms::random::Random;
use workloads::{Check, Workload};

use crate::context::Context;
use crate::control::Control;
use crate::deployment::{Deployment, DeploymentError};
use crate::error::RunError;
use crate::execution::executors::Executors;
use crate::faults::failing::Failing;
use crate::host::Host;
use crate::measurement::memory_figures::MemoryTaken;
use crate::measurement::partition_events::PartitionEvent;
use crate::measurement::values::Measurement;
use crate::members::Division;
use crate::members::news::Arrivals;
use crate::members::seats::{self, Bells, Seats};
use crate::owners::adapting::Monitoring;
use crate::plan::{Length, Plan};
use crate::requests::Drawing;
use crate::run::clients::RunClients;
use crate::run::progress::Watch;
use crate::workers::board::Board;
use crate::workers::membership::{self, Membership};
use crate::workers::opening::{self, LogGrowth, OpenedDatabase, RunDirectory};
use crate::workers::owned::Owners;
use crate::workers::partitions::Remembered;
use crate::workers::preparation::Preparation;
use crate::workers::schedule::Schedule;
use crate::workers::summary::{enter, seconds};
use crate::workers::worker::{Job, WorkerResult};

/// Interval at which the main thread polls the workers.
const POLL_NANOS: u64 = 100_000_000;
/// As [`POLL_NANOS`], in virtual time.
const POLL_NANOS_VIRTUAL: u64 = 1_000_000;
/// Virtual time for loading a row; loading takes no other virtual time.
const LOAD_NANOS_VIRTUAL: u64 = 1_000;
/// The first stream of random numbers for loading; the streams of workers have lower numbers.
const LOAD_STREAM: u64 = 1 << 32;

pub(crate) type Tables<W> = <<W as Workload>::Procedure as Procedure>::Tables;

/// Loads, runs and checks; `inspect` receives the database in the end.
pub(crate) fn run<P: Host, W: Workload>(
    c: P::Core,
    workload: &W,
    cx: Context<'_>,
    executors: &Executors<P, W::Procedure>,
    inspect: &mut dyn FnMut(&Database<P>, &Tables<W>),
) -> Result<Measurement, RunError> {
    let Context { plan, deployment, control } = cx;
    let instances = deployment.instances.len();
    let (mut division, mut seats, mut delays) = (None, None, 0);
    if instances > 1 {
        let divided = Division::new(workload, plan, deployment)?;
        let troubles = plan.troubles.as_ref();
        let mut random = Random::new(troubles.map_or(0, |troubles| troubles.seed), 70);
        let mut wire = || {
            let wire = troubles.and_then(|troubles| troubles.wire(&mut random, deployment.transport));
            delays += u64::from(wire.is_some());
            wire
        };
        let (bells, mut links) = seats::connect::<P>(c, deployment, &divided.names, &mut wire)?;
        links.arrivals = troubles.map(|_| Arc::new(Arrivals::new(0..deployment.workers())));
        seats = Some((bells, links));
        division = Some(divided);
    }
    let deployed = division.as_ref().map(|division| division.deployed(instances));
    let directory = RunDirectory::<P>::open(c, plan, deployed.as_ref())?;
    let mut bench = Bench::open(c, workload, cx, executors, division, &directory, 0..instances)?;
    let recovered = directory.recover(c, &bench.opened, deployed.as_ref(), plan.faults, deployment)?;
    let existed = recovered.is_some();
    let mut measured = if existed { Measurement::default() } else { bench.load(c, control)? };
    measured.recovered = recovered;
    bench.loaded(c, membership::new_number::<P>(plan.seed))?;
    let seats = seats.as_ref().map(|(bells, links)| (bells, links));
    let committed = bench.measure(c, control, seats, &mut measured)?;
    measured.troubles.delays += delays;
    control.progress.checking();
    // The commits of an instance before it came back are not counted.
    let is_known = !existed && measured.losses == 0 && measured.returned.is_empty();
    let checks = bench.check(c, is_known.then_some(&committed[..]));
    measured.checks = outcomes(checks);
    bench.databases().for_each(|database| inspect(database, &bench.tables));
    bench.end(c, &directory)?;
    Ok(measured)
}

/// The outcomes of checks for a measurement.
pub(crate) fn outcomes(checks: Vec<Check>) -> Vec<(String, crate::measurement::values::Check)> {
    checks.into_iter().map(|check| (check.name.to_owned(), check.result.into())).collect()
}

/// A workload on its database, or on one for each instance of this process.
pub(crate) struct Bench<'a, P: Host, W: Workload> {
    workload: &'a W,
    tables: Tables<W>,
    /// The databases of the instances of this process.
    opened: Vec<OpenedDatabase<P>>,
    /// The directories of the databases, if they are durable.
    paths: Vec<Option<PathBuf>>,
    executors: &'a Executors<P, W::Procedure>,
    plan: &'a Plan,
    pub(crate) deployment: &'a Deployment,
    /// The division of the data, if there are several instances.
    pub(crate) division: Option<Division>,
    /// The instances of this process.
    here: Range<usize>,
    /// Their workers.
    pub(crate) workers: Range<usize>,
}

/// The decisions about partitions that follow the workload, and their events.
type Adapted = (Story, Vec<PartitionEvent>);

/// Results of workers, by number. Workers fill it once, when they are done.
type Results<T> = Mutex<Vec<Option<Result<T, RunError>>>>;

/// The results of all workers.
pub(crate) fn collect<T>(results: Vec<Option<Result<T, RunError>>>) -> Result<Vec<T>, RunError> {
    let missing = || RunError::Worker("a worker ended without a result");
    let mut values = Vec::with_capacity(results.len());
    let mut errors = Vec::new();
    for result in results {
        match result.unwrap_or_else(|| Err(missing())) {
            Ok(value) => values.push(value),
            Err(error) => errors.push(error),
        }
    }
    RunError::first_cause(errors).map_or(Ok(values), Err)
}

/// Runs `job` on every worker, and `poll` on the main thread at intervals.
fn on_workers<P: Platform, T: Send>(
    c: P::Core,
    deployment: &Deployment,
    control: Control<'_>,
    board: &Board<P>,
    job: &(dyn Fn(P::Core, usize) -> Result<T, RunError> + Sync),
    poll: &mut dyn FnMut(P::Core),
) -> Result<Vec<T>, RunError> {
    collect(run_workers(c, deployment, control, poll_nanos::<P>(), board, job, poll)?)
}

/// The default interval at which the main thread polls.
fn poll_nanos<P: Platform>() -> u64 {
    if P::VIRTUAL { POLL_NANOS_VIRTUAL } else { POLL_NANOS }
}

/// As [`on_workers`], with a longest interval between two polls; returns the result of each worker
/// that has ended.
pub(crate) fn run_workers<P: Platform, T: Send>(
    c: P::Core,
    deployment: &Deployment,
    control: Control<'_>,
    every: u64,
    board: &Board<P>,
    job: &(dyn Fn(P::Core, usize) -> Result<T, RunError> + Sync),
    poll: &mut dyn FnMut(P::Core),
) -> Result<Vec<Option<Result<T, RunError>>>, RunError> {
    let workers = board.workers();
    let results: Results<T> = Mutex::new(workers.clone().map(|_| None).collect());
    let worker = |c, number: usize| {
        // A worker that the operating system places has a machine.
        P::work_for(c, deployment.node(workers.start + number));
        let result = job(c, workers.start + number);
        if result.is_err() {
            P::store(c, board.stop(), 1, Ordering::Relaxed);
        }
        if let Ok(mut results) = results.lock() {
            results[number] = Some(result);
        }
        // Release: pairs with the acquire of the main thread.
        P::fetch_add(c, board.done(), 1, Ordering::Release);
        P::unpark(c, board.done(), 1);
    };
    P::parallel(c, &deployment.places()[workers.clone()], &worker, &mut |c| {
        loop {
            // Acquire: pairs with the release of the workers.
            let done = P::load(c, board.done(), Ordering::Acquire);
            if done >= workers.len() as u64 {
                break;
            }
            P::park(c, board.done(), done, Some(P::now(c).plus(every)));
            if (control.stop_requested)() {
                P::store(c, board.stop(), 1, Ordering::Relaxed);
            }
            poll(c);
        }
    });
    results.into_inner().map_err(|_| RunError::Worker("a worker panicked"))
}

impl<'a, P: Host, W: Workload> Bench<'a, P, W> {
    /// Creates or opens the databases of the instances `here`.
    pub(crate) fn open(
        c: P::Core,
        workload: &'a W,
        cx: Context<'a>,
        executors: &'a Executors<P, W::Procedure>,
        mut division: Option<Division>,
        directory: &RunDirectory<P>,
        here: Range<usize>,
    ) -> Result<Self, RunError> {
        let Context { plan, deployment, .. } = cx;
        let mut opened = Vec::with_capacity(here.len());
        let mut tables = None;
        let paths: Vec<_> = here.clone().map(|instance| directory.of_instance(instance)).collect();
        for (instance, path) in here.clone().zip(&paths) {
            let made = open_instance(c, workload, cx, division.as_ref(), instance, path.clone())?;
            tables = Some(made.0);
            opened.push(made.1);
        }
        if let Some(division) = &mut division {
            let openings = here.clone().zip(&opened).map(|(instance, opened)| (instance, opened.opening));
            openings.for_each(|(instance, opening)| division.openings[instance] = opening);
        }
        let tables = tables.ok_or_else(|| RunError::of(DeploymentError::NoInstances))?;
        let workers = deployment.first_worker(here.start)..deployment.first_worker(here.end);
        Ok(Bench { workload, tables, opened, paths, executors, plan, deployment, division, here, workers })
    }

    /// Opens an instance of this process again, whose workers have crashed.
    pub(crate) fn open_again(
        &self,
        c: P::Core,
        instance: usize,
        loses_power: bool,
    ) -> Result<OpenedDatabase<P>, RunError> {
        let path = self.paths[instance - self.here.start].clone();
        let path = path.ok_or(RunError::Worker("an instance that is not durable fell"))?;
        P::work_for(c, self.deployment.node_of_instance(instance));
        P::lose_directory(c, &path, loses_power);
        let cx = Context { plan: self.plan, deployment: self.deployment, control: Control::NONE };
        let division = self.division.as_ref();
        open_instance(c, self.workload, cx, division, instance, Some(path)).map(|(_, opened)| opened)
    }

    /// Ends loading. A new deployment has this number from now on.
    pub(crate) fn loaded(&mut self, c: P::Core, number: u64) -> Result<(), RunError> {
        let instances = self.deployment.instances.len();
        let owners = self.division.as_ref().map(|division| division.deployed(instances).sum());
        for (instance, opened) in self.here.clone().zip(&mut self.opened) {
            P::work_for(c, self.deployment.node_of_instance(instance));
            let membership = owners.map(|owners| Membership {
                deployment: number,
                instance: instance as u16,
                instances: instances as u16,
                owners,
            });
            opened.loaded(c, membership)?;
            opened.database.loaded(c).map_err(RunError::of)?;
        }
        Ok(())
    }

    /// Closes the databases.
    pub(crate) fn end(self, c: P::Core, directory: &RunDirectory<P>) -> Result<(), RunError> {
        self.here.zip(self.opened).try_for_each(|(instance, opened)| {
            P::work_for(c, self.deployment.node_of_instance(instance));
            directory.close(c, opened)
        })
    }

    /// The first of the instances of this process.
    pub(crate) fn first(&self) -> &OpenedDatabase<P> {
        &self.opened[0]
    }

    /// The work of the logs since they were opened; `None` if nothing is durable.
    pub(crate) fn log_used(&self, c: P::Core) -> Option<LogUse> {
        opening::log_used(c, &self.opened)
    }

    /// The databases, by the numbers of the instances from the first of this process on.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &Database<P>> {
        self.opened.iter().map(|opened| &opened.database)
    }

    pub(crate) fn database(&self, instance: usize) -> &Database<P> {
        &self.opened[instance - self.here.start].database
    }

    /// Loads all parts of the instances of this process in parallel.
    pub(crate) fn load(&self, c: P::Core, control: Control<'_>) -> Result<Measurement, RunError> {
        let parts = self.workload.parts();
        let is_here = |part: &usize| self.workers.contains(&self.deployment.loader(*part, parts));
        let total = (0..parts).filter(is_here).map(|part| self.workload.rows(part)).sum();
        control.progress.loading(total);
        let board = Board::<P>::new(c, self.workers.clone()).map_err(RunError::of)?;
        let started = P::now(c);
        let job = |c, worker: usize| self.load_parts(c, &board, worker);
        let ended = on_workers(c, self.deployment, control, &board, &job, &mut |c| {
            control.progress.loaded(P::load(c, board.rows(), Ordering::Relaxed));
        })?;
        if (control.stop_requested)() {
            return Err(RunError::Interrupted);
        }
        let last = ended.into_iter().max().unwrap_or(started);
        Ok(Measurement {
            rows_loaded: P::load(c, board.rows(), Ordering::Relaxed),
            load_seconds: seconds(last.since(started)),
            ..Measurement::default()
        })
    }

    /// The memory of its databases, while no transaction runs.
    pub(crate) fn memory(&self, c: P::Core) -> MemoryTaken {
        let all = self.databases().map(|database| MemoryTaken::of(c, database));
        all.fold(MemoryTaken::default(), MemoryTaken::and)
    }

    /// The consistency checks, over the data of all instances; `committed` by kind, if that is
    /// known.
    fn check(&self, c: P::Core, committed: Option<&[u64]>) -> Vec<Check> {
        let Some(division) = &self.division else {
            return self.workload.check(&self.tables, &mut self.opened[0].database.inspector(c), committed);
        };
        let sources = self.databases().map(|database| Box::new(database.inspector(c)) as Box<dyn RowSource>);
        joint_checks(self.workload, &self.tables, division, &mut sources.collect::<Vec<_>>(), committed)
    }

    /// The parts that a worker loads, each with its table if tables are placed by themselves.
    fn loaded_by(&self, worker: usize) -> Vec<(Option<usize>, usize)> {
        let (deployment, parts, sockets) =
            (self.deployment, self.workload.parts(), self.deployment.sockets());
        let tables = match self.workload.placed_tables() {
            0 => vec![None],
            tables => (0..tables).map(Some).collect(),
        };
        let all = tables.into_iter().flat_map(|table| (0..parts).map(move |part| (table, part)));
        let loader = |(table, part): &(Option<usize>, usize)| {
            let placed = table.and_then(|table| self.workload.owner(table, *part, &sockets));
            placed.unwrap_or_else(|| deployment.loader(*part, parts))
        };
        all.filter(|piece| loader(piece) == worker).collect()
    }

    fn load_parts(&self, c: P::Core, board: &Board<P>, worker: usize) -> Result<Nanos, RunError> {
        let (plan, deployment) = (self.plan, self.deployment);
        let node = deployment.node(worker);
        let instance = deployment.instance_of(worker);
        let database = self.database(instance);
        let mut session = database.session(c, node, false).map_err(RunError::of)?;
        P::untimed(c, true);
        let shared = self.workload.shared_part().zip(self.division.as_ref());
        if let Some((part, _)) = shared.filter(|(part, division)| {
            division.instance_of_part(*part) != instance && deployment.first_worker(instance) == worker
        }) {
            let mut random = Random::new(plan.seed, LOAD_STREAM + part as u64);
            let mut report = |_| ();
            let mut loader = RowLoader::new(session.object(), &mut report);
            self.workload.load_shared(&self.tables, &mut random, &mut loader).map_err(RunError::of)?;
            loader.finish();
        }
        for (table, part) in self.loaded_by(worker) {
            if P::load(c, board.stop(), Ordering::Relaxed) != 0 {
                break;
            }
            let mut random = Random::new(plan.seed, LOAD_STREAM + part as u64);
            let mut report = |rows| {
                P::fetch_add(c, board.rows(), rows, Ordering::Relaxed);
                if P::VIRTUAL {
                    // Lets other workers load, and the main thread poll.
                    P::pause(c, rows * LOAD_NANOS_VIRTUAL);
                }
            };
            let mut loader = RowLoader::new(session.object(), &mut report);
            let loaded = match table {
                Some(table) => self.workload.load_table(&self.tables, table, part, &mut loader),
                None => self.workload.load(&self.tables, part, &mut random, &mut loader),
            };
            loaded.map_err(RunError::of)?;
            loader.finish();
        }
        let ended = P::now(c);
        P::untimed(c, false);
        Ok(ended)
    }

    /// The rows and parts of indexes at these addresses, in any instance.
    fn occupants(&self, c: P::Core, lines: &[Address]) -> Vec<Option<Occupant>> {
        let mut all = self.opened[0].database.occupants(c, lines);
        for opened in &self.opened[1..] {
            let others = opened.database.occupants(c, lines);
            all.iter_mut().zip(others).for_each(|(one, other)| *one = one.take().or(other));
        }
        all
    }

    /// Runs the workload as long as planned; returns commits by kind.
    fn measure(
        &mut self,
        c: P::Core,
        control: Control<'_>,
        seats: Option<(&Bells<P>, &Seats<P>)>,
        measured: &mut Measurement,
    ) -> Result<Vec<u64>, RunError> {
        let (log_before, memory_before) = (self.log_used(c), self.memory(c));
        let began = P::now(c);
        let results = match (&self.plan.troubles, seats) {
            (Some(troubles), Some((bells, seats))) => {
                let endured = self.work_in_trouble(c, control, seats, bells, troubles)?;
                // Of several lives of an instance the last one comes first, and is kept.
                for (instance, opened) in endured.returned.into_iter().rev() {
                    measured.returned.extend(opened.recovered);
                    self.opened[instance - self.here.start] = opened;
                }
                measured.troubles = endured.met;
                endured.results
            }
            _ => {
                let (results, story) = self.work_and_adapt(c, control, seats.map(|(_, seats)| seats))?;
                if let Some((story, events)) = story {
                    measured.adaptation = Some(story);
                    measured.events = events;
                }
                results
            }
        };
        let nanos = P::now(c).since(began);
        measured.interrupted = (control.stop_requested)();
        P::counts(c).enter(measured, |lines| self.occupants(c, lines));
        let memory = self.memory(c).since(memory_before);
        let committed = enter(measured, self.workload, self.plan, self.deployment, &results)?;
        measured.memory = Some(memory.figures(committed.iter().sum()));
        if let (Some(before), Some(after)) = (log_before, self.log_used(c)) {
            let growth = LogGrowth::between(before, after, nanos * self.opened.len() as u64);
            growth.enter(measured, committed.iter().sum());
        }
        Ok(committed)
    }

    /// Lets the workers of this process run as long as planned; returns their results.
    pub(crate) fn work(
        &self,
        c: P::Core,
        control: Control<'_>,
        seats: Option<&Seats<P>>,
    ) -> Result<Vec<WorkerResult>, RunError> {
        self.work_and_adapt(c, control, seats).map(|(results, _)| results)
    }

    /// Stores the owners of partitions in a durable database: the next run on it begins with them.
    fn remember(&self, c: P::Core, map: &PartitionMap, report: &mut dyn FnMut(&str)) {
        let Some(owners) = Remembered::of(map, self.deployment.workers()) else { return };
        if let Err(error) = self.first().remember(c, &owners) {
            report(&format!("partitions are not remembered: {error}"));
        }
    }

    /// As [`Self::work`]; also returns decisions and events of partitions that follow the workload.
    fn work_and_adapt(
        &self,
        c: P::Core,
        control: Control<'_>,
        seats: Option<&Seats<P>>,
    ) -> Result<(Vec<WorkerResult>, Option<Adapted>), RunError> {
        let (plan, deployment) = (self.plan, self.deployment);
        let schedule = Schedule::of(plan);
        let failing = Failing::of(&plan.failures, deployment)?;
        control.progress.running(seconds_of(plan.length));
        let board = Board::<P>::new(c, self.workers.clone()).map_err(RunError::of)?;
        let remembered = self.opened.first().and_then(|opened| opened.remembered.as_ref());
        let owners = Owners::of(c, self.workload, plan, deployment, remembered)?;
        let workers_own = owners.is_some();
        let clients = RunClients::of(self.workload, plan, deployment, self.here.len(), workers_own)?;
        let job = |worker: usize| {
            let instance = deployment.instance_of(worker);
            let job = self.job(&board, self.database(instance));
            let drawing = clients.drawing(instance);
            Job { owners: owners.as_ref(), failing: failing.as_ref(), drawing, ..job }
        };
        let among = self.division.as_ref().zip(seats);
        let mut watch = Watch { workers: self.workers.clone(), schedule, commits: 0, at: P::now(c) };
        let mut monitoring = owners.as_ref().and_then(|owners| owners.monitoring(failing.as_ref()));
        let every = monitoring.as_ref().map_or(u64::MAX, Monitoring::poll_nanos).min(poll_nanos::<P>());
        let results = run_workers(
            c,
            deployment,
            control,
            every,
            &board,
            &|c, worker| match among {
                None => job(worker).run(c, worker, deployment.node(worker)),
                Some((division, seats)) => {
                    job(worker).run_among(c, worker, deployment.node(worker), division, seats)
                }
            },
            &mut |c| {
                control.progress.tick(watch.sample(c, &board));
                if let Some(monitoring) = &mut monitoring
                    && let Some((began, warm)) = moments(c, &board, &schedule)
                {
                    let report = &mut |words: &str| control.progress.decided(words);
                    if let Some(map) = monitoring.poll(c, began, warm, watch.commits, report) {
                        self.remember(c, map, report);
                    }
                }
            },
        )?;
        Ok((collect(results)?, monitoring.and_then(|monitoring| monitoring.story(c))))
    }
}

impl<P: Host, W: Workload> Bench<'_, P, W> {
    /// The job of a worker on this database.
    pub(crate) fn job<'j>(&'j self, board: &'j Board<P>, database: &'j Database<P>) -> Job<'j, P, W> {
        let (workload, tables, executors) = (self.workload, &self.tables, self.executors);
        let schedule = Schedule::of(self.plan);
        let plan = self.plan;
        let (owners, failing, drawing) = (None, None, Drawing::Home);
        Job { database, executors, workload, tables, board, schedule, plan, owners, failing, drawing }
    }
}

/// The times at which the workers began, and from which they measure, as far as is known now.
/// `None` while they wait for each other, without transactions.
fn moments<P: Platform>(c: P::Core, board: &Board<P>, schedule: &Schedule) -> Option<(Nanos, Nanos)> {
    // Relaxed, twice: the times order no other access.
    let words = [board.began(), board.resumed()].map(|word| P::load(c, word, Ordering::Relaxed));
    let planned = Nanos(words[0]).plus(schedule.warm_up_nanos);
    match words {
        [0, _] => None,
        [began, 0] if Preparation::is_for::<P>(schedule) => {
            (P::now(c) < planned).then_some((Nanos(began), planned))
        }
        [began, 0] => Some((Nanos(began), planned)),
        [began, resumed] => Some((Nanos(began), Nanos(resumed))),
    }
}

/// Creates or opens the database of an instance.
fn open_instance<P: Host, W: Workload>(
    c: P::Core,
    workload: &W,
    cx: Context<'_>,
    division: Option<&Division>,
    instance: usize,
    path: Option<PathBuf>,
) -> Result<(Tables<W>, OpenedDatabase<P>), RunError> {
    let deployment = cx.deployment;
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    if let Some(division) = division {
        schema.keep_partitions(|part| division.instance_of_part(part) == instance);
    }
    let parts = workload.parts();
    let own = deployment.node_of_instance(instance);
    let node_of = |partition: usize| match division {
        // The partition is almost empty: it needs no memory of another node or machine.
        Some(division) if division.instance_of_part(partition % parts) != instance => own,
        _ => deployment.home(partition, parts),
    };
    P::work_for(c, own);
    Ok((tables, opening::open::<P>(c, cx, instance, path, schema, &workload.loaded_with(), &node_of)?))
}

/// The seconds of a run; 0 if they are not known.
pub(crate) fn seconds_of(length: Length) -> f64 {
    match length {
        Length::Seconds(seconds) => seconds,
        Length::Commits(_) | Length::Transactions(_) => 0.0,
    }
}

/// The consistency checks over the data of several instances, by their numbers; `committed` by
/// kind, if it is known.
pub(crate) fn joint_checks<W: Workload>(
    workload: &W,
    tables: &Tables<W>,
    division: &Division,
    sources: &mut [Box<dyn RowSource + '_>],
    committed: Option<&[u64]>,
) -> Vec<Check> {
    let owner = |column| usize::from(division.map.owner(column).instance);
    let (shared, columns) = (division.map.divided(), division.map.columns());
    let inspector = JointInspector { sources, shared, columns, owner: &owner };
    workload.check(tables, &mut { inspector }, committed)
}
