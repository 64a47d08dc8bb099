//! A workload of transactions on the database of each instance: load, run, check.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use engine::dynamic::Database;
use engine::{Inspector, JointInspector, Occupant, Procedure, RowLoader, SchemaBuilder};
use hdrhistogram::Histogram;
use platform::{Address, Nanos, Platform};
use workloads::{Check, Random, Workload};

use crate::board::Board;
use crate::context::Context;
use crate::control::{Control, Sample};
use crate::deployment::{Deployment, DeploymentError};
use crate::error::RunError;
use crate::executor::Executors;
use crate::host::Host;
use crate::measurement::{Breakdown, Kind, Latency, Measurement, abort_ratio};
use crate::opening::{self, OpenedDatabase};
use crate::plan::{Length, Plan};
use crate::several::Division;
use crate::worker::{BINS, Job, KindCounts, Schedule, WorkerResult};

/// Longest run when its length is given in transactions.
const SECONDS_MAX: f64 = 86_400.0;
/// Seconds that such a run is expected to take, for the width of bins.
const SECONDS_EXPECTED: f64 = 10.0;
/// How often the main thread looks at the workers.
const LOOK_NANOS: u64 = 100_000_000;
/// The same in virtual time.
const LOOK_NANOS_VIRTUAL: u64 = 1_000_000;
/// Loading takes no virtual time but this, for each row.
const LOAD_NANOS_VIRTUAL: u64 = 1_000;

/// Streams of random numbers for loading begin here, those of workers below.
const LOAD_STREAM: u64 = 1 << 32;

type Tables<W> = <<W as Workload>::Procedure as Procedure>::Tables;

/// Loads, runs and checks; `inspect` is shown the database in the end.
pub(crate) fn run<P: Host, W: Workload>(
    c: P::Core,
    workload: &W,
    cx: Context<'_>,
    executors: &Executors<P, W::Procedure>,
    inspect: &mut dyn FnMut(&Database<P>, &Tables<W>),
) -> Result<Measurement, RunError> {
    let Context { plan, deployment, control } = cx;
    let instances = deployment.instances.len();
    let division = match instances {
        0 | 1 => None,
        _ => Some(Division::new(c, workload, plan, deployment)?),
    };
    let mut opened = Vec::with_capacity(instances);
    let mut tables = None;
    for instance in 0..instances {
        let mut schema = SchemaBuilder::new();
        tables = Some(workload.create(&mut schema));
        if let Some(division) = &division {
            schema.keep_partitions(|part| division.instance_of_part(part) == instance);
        }
        let options = plan.instance_options(deployment, instance);
        let parts = workload.parts();
        let own = deployment.node(deployment.first_worker(instance));
        let is_elsewhere = |partition: usize| {
            let owner = division.as_ref().map_or(0, |division| division.instance_of_part(partition % parts));
            deployment.instances[owner].machine != deployment.instances[instance].machine
        };
        // Nothing of an instance lies on another machine, not even what is empty.
        let node_of =
            |partition| if is_elsewhere(partition) { own } else { deployment.home(partition, parts) };
        P::work_for(c, own);
        opened.push(opening::open::<P>(c, cx, &options, schema, &node_of)?);
    }
    let tables = tables.ok_or_else(|| RunError::of(DeploymentError::NoInstances))?;
    // Only a single instance can have been there before.
    let recovered = opened[0].recovered;
    let existed = recovered.is_some();
    let mut bench = Bench { workload, tables, opened, executors, plan, deployment, division };
    let mut measured = if existed { Measurement::default() } else { bench.load(c, control)? };
    measured.recovered = recovered;
    for (instance, opened) in bench.opened.iter_mut().enumerate() {
        P::work_for(c, deployment.node(deployment.first_worker(instance)));
        opened.loaded(c)?;
        opened.database.loaded(c).map_err(RunError::of)?;
    }
    let committed = bench.measure(c, control, &mut measured)?;
    control.progress.checking();
    let checks = bench.check(c, (!existed).then_some(&committed[..]));
    measured.checks = checks.into_iter().map(|check| (check.name.to_owned(), check.result.into())).collect();
    for opened in bench.opened {
        inspect(&opened.database, &bench.tables);
        opened.end(c)?;
    }
    Ok(measured)
}

/// A workload on its database, or on one for each instance.
struct Bench<'a, P: Host, W: Workload> {
    workload: &'a W,
    tables: Tables<W>,
    opened: Vec<OpenedDatabase<P>>,
    executors: &'a Executors<P, W::Procedure>,
    plan: &'a Plan,
    deployment: &'a Deployment,
    /// How data are divided, if there are several instances.
    division: Option<Division<P>>,
}

/// Results of workers, by number. Workers fill it once, when they are done.
type Results<T> = Mutex<Vec<Option<Result<T, RunError>>>>;

fn collect<T>(results: Results<T>) -> Result<Vec<T>, RunError> {
    let results = results.into_inner().map_err(|_| RunError::Worker("a worker panicked"))?;
    let missing = || RunError::Worker("a worker ended without a result");
    results.into_iter().map(|result| result.ok_or_else(missing)?).collect()
}

/// Runs `job` on every worker, and `look` on the main thread now and then.
fn on_workers<P: Platform, T: Send>(
    c: P::Core,
    (deployment, control): (&Deployment, Control<'_>),
    board: &Board<P>,
    job: &(dyn Fn(P::Core, usize) -> Result<T, RunError> + Sync),
    look: &mut dyn FnMut(P::Core),
) -> Result<Vec<T>, RunError> {
    let workers = deployment.workers();
    let results: Results<T> = Mutex::new((0..workers).map(|_| None).collect());
    let worker = |c, number: usize| {
        let result = job(c, number);
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
    let every = if P::VIRTUAL { LOOK_NANOS_VIRTUAL } else { LOOK_NANOS };
    P::parallel(c, &deployment.places(), &worker, &mut |c| {
        loop {
            // Acquire: pairs with the release of the workers.
            let done = P::load(c, board.done(), Ordering::Acquire);
            if done >= workers as u64 {
                break;
            }
            P::park(c, board.done(), done, Some(P::now(c).plus(every)));
            if (control.stop_requested)() {
                P::store(c, board.stop(), 1, Ordering::Relaxed);
            }
            look(c);
        }
    });
    collect(results)
}

impl<P: Host, W: Workload> Bench<'_, P, W> {
    /// Loads all parts in parallel.
    fn load(&self, c: P::Core, control: Control<'_>) -> Result<Measurement, RunError> {
        let parts = self.workload.parts();
        let total = (0..parts).map(|part| self.workload.rows(part)).sum();
        control.progress.loading(total);
        let board = Board::<P>::new(c, self.deployment.workers()).map_err(RunError::of)?;
        let started = P::now(c);
        let job = |c, worker: usize| self.load_parts(c, &board, worker);
        let ended = on_workers(c, (self.deployment, control), &board, &job, &mut |c| {
            control.progress.loaded(P::load(c, board.rows(), Ordering::Relaxed));
        })?;
        if (control.stop_requested)() {
            return Err(RunError::Interrupted);
        }
        let last = ended.into_iter().max().unwrap_or(started);
        Ok(Measurement {
            rows_loaded: P::load(c, board.rows(), Ordering::Relaxed),
            load_seconds: seconds(last.since(started)),
            memory_bytes: Some(self.memory_bytes(c)),
            ..Measurement::default()
        })
    }

    fn memory_bytes(&self, c: P::Core) -> u64 {
        self.opened.iter().map(|opened| opened.database.memory_bytes(c)).sum()
    }

    /// The consistency checks, over the data of all instances; `committed` by kind, if that is known.
    fn check(&self, c: P::Core, committed: Option<&[u64]>) -> Vec<Check> {
        let Some(division) = &self.division else {
            return self.checks(&mut self.opened[0].database.inspector(c), committed);
        };
        let databases: Vec<&Database<P>> = self.opened.iter().map(|opened| &opened.database).collect();
        let owner = |column| usize::from(division.map.owner(column).instance);
        let (shared, columns) = (division.map.divided(), division.map.columns());
        let inspector = JointInspector { databases: &databases, c, shared, columns, owner: &owner };
        self.checks(&mut { inspector }, committed)
    }

    fn checks(&self, inspector: &mut impl Inspector, committed: Option<&[u64]>) -> Vec<Check> {
        match committed {
            Some(committed) => self.workload.check_committed(&self.tables, inspector, committed),
            // What earlier runs have committed is not known.
            None => self.workload.check(&self.tables, inspector),
        }
    }

    fn load_parts(&self, c: P::Core, board: &Board<P>, worker: usize) -> Result<Nanos, RunError> {
        let (plan, deployment) = (self.plan, self.deployment);
        let node = deployment.node(worker);
        let instance = deployment.instance_of(worker);
        let database = &self.opened[instance].database;
        let mut session = database.session(c, node, false).map_err(RunError::of)?;
        let parts = self.workload.parts();
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
        for part in (0..parts).filter(|part| deployment.loader(*part, parts) == worker) {
            if P::load(c, board.stop(), Ordering::Relaxed) != 0 {
                break;
            }
            let mut random = Random::new(plan.seed, LOAD_STREAM + part as u64);
            let mut report = |rows| {
                P::fetch_add(c, board.rows(), rows, Ordering::Relaxed);
                if P::VIRTUAL {
                    // Others load too, and the main thread looks.
                    P::pause(c, rows * LOAD_NANOS_VIRTUAL);
                }
            };
            let mut loader = RowLoader::new(session.object(), &mut report);
            self.workload.load(&self.tables, part, &mut random, &mut loader).map_err(RunError::of)?;
            loader.finish();
        }
        let ended = P::now(c);
        session.reserve(plan.reserve_bytes(deployment)).map_err(RunError::of)?;
        P::untimed(c, false);
        Ok(ended)
    }

    /// What lies at these addresses, in whichever instance.
    fn occupants(&self, c: P::Core, lines: &[Address]) -> Vec<Option<Occupant>> {
        let mut all = self.opened[0].database.occupants(c, lines);
        for opened in &self.opened[1..] {
            let others = opened.database.occupants(c, lines);
            all.iter_mut().zip(others).for_each(|(one, other)| *one = one.take().or(other));
        }
        all
    }

    /// Runs the workload as long as planned; commits by kind.
    fn measure(
        &self,
        c: P::Core,
        control: Control<'_>,
        measured: &mut Measurement,
    ) -> Result<Vec<u64>, RunError> {
        let (plan, deployment) = (self.plan, self.deployment);
        let schedule = schedule(plan.length, plan.warm_up_seconds);
        control.progress.running(match plan.length {
            Length::Seconds(seconds) => seconds,
            Length::Commits(_) | Length::Transactions(_) => 0.0,
        });
        let board = Board::<P>::new(c, self.deployment.workers()).map_err(RunError::of)?;
        let (workload, tables, executors) = (self.workload, &self.tables, self.executors);
        let job = |worker: usize| {
            let database = &self.opened[deployment.instance_of(worker)].database;
            Job { database, executors, workload, tables, board: &board, schedule, plan }
        };
        // Several instances have no log.
        let first = &self.opened[0].database;
        let (log_before, began) = (first.log_used(c), P::now(c));
        let mut watch = Watch { workers: deployment.workers(), schedule, commits: 0, at: P::now(c) };
        let results = on_workers(
            c,
            (deployment, control),
            &board,
            &|c, worker| match &self.division {
                None => job(worker).run(c, worker, deployment.node(worker)),
                Some(division) => job(worker).run_among(c, worker, deployment.node(worker), division),
            },
            &mut |c| control.progress.tick(watch.look(c, &board)),
        )?;
        let nanos = P::now(c).since(began);
        measured.interrupted = (control.stop_requested)();
        P::counts(c).enter(measured, |lines| self.occupants(c, lines));
        let sum = |kind: usize| results.iter().map(|result| result.committed[kind]).sum();
        let committed: Vec<u64> = (0..self.workload.kinds().len()).map(sum).collect();
        if let (Some(before), Some(after)) = (log_before, first.log_used(c)) {
            measured.counters.log_bytes = Some(after.written_bytes - before.written_bytes);
            measured.counters.fsyncs = Some(after.flushes - before.flushes);
            measured.log = Some(opening::log_figures(before, after, (committed.iter().sum(), nanos)));
        }
        measured.bin_seconds = seconds(schedule.bin_nanos);
        measured.memory_bytes = Some(self.memory_bytes(c));
        measured.instances = deployment.instances.len();
        summarise(measured, self.workload.kinds(), &results)?;
        if self.division.is_some() {
            summarise_messages(measured, &results);
        }
        Ok(committed)
    }
}

/// Adds up what workers told each other.
fn summarise_messages(measured: &mut Measurement, results: &[WorkerResult]) {
    let sum = |of: fn(&WorkerResult) -> u64| results.iter().map(of).sum::<u64>();
    let (messages, distributed) = (sum(|result| result.messages), sum(|result| result.distributed));
    let commits: u64 = measured.kinds.iter().map(|(_, kind)| kind.commits).sum();
    measured.counters.messages = Some(messages);
    measured.distributed_ratio = distributed as f64 / commits.max(1) as f64;
    measured.messages_per_distributed = (distributed > 0).then(|| messages as f64 / distributed as f64);
    measured.messages_amiss = results.iter().map(|result| result.messages_missing).sum();
}

/// The schedule of a run of this length.
fn schedule(length: Length, warm_up_seconds: f64) -> Schedule {
    let nanos = |seconds: f64| (seconds * 1e9) as u64;
    let (most, expected) = match length {
        Length::Seconds(seconds) => (seconds, seconds),
        Length::Commits(_) | Length::Transactions(_) => (SECONDS_MAX, SECONDS_EXPECTED),
    };
    let (mut commits_max, mut transactions_max) = (None, None);
    match length {
        Length::Seconds(_) => {}
        Length::Commits(count) => commits_max = Some(count),
        Length::Transactions(count) => transactions_max = Some(count),
    }
    Schedule {
        warm_up_nanos: nanos(warm_up_seconds),
        nanos: nanos(most),
        bin_nanos: (nanos(expected) / BINS).max(1),
        commits_max,
        transactions_max,
    }
}

/// Adds up what the workers counted of transactions of these kinds.
fn summarise(
    measured: &mut Measurement,
    kinds: &[&'static str],
    results: &[WorkerResult],
) -> Result<(), RunError> {
    // The mean over workers: a worker whose last transaction takes long must not stand for all.
    let measured_nanos: u64 = results.iter().map(|result| result.ended.since(result.warm)).sum();
    measured.elapsed_seconds = seconds(measured_nanos / results.len().max(1) as u64);
    measured.bins = vec![0; BINS as usize];
    let mut breakdown = [0; cc::CATEGORIES];
    let mut all: Option<Histogram<u64>> = None;
    for (number, name) in kinds.iter().enumerate() {
        let mut sum = KindCounts::new()?;
        results.iter().for_each(|result| sum.add(&result.kinds[number]));
        let latency = &sum.latency_nanos;
        match &mut all {
            Some(all) => all.add(latency).map_err(RunError::of)?,
            None => all = Some(latency.clone()),
        }
        let KindCounts { commits, aborts, rollbacks, .. } = sum;
        let latency_us = Latency::of_nanos(latency);
        measured.kinds.push((name, Kind { commits, aborts, rollbacks, latency_us }));
    }
    for result in results {
        measured.bins.iter_mut().zip(&result.bins).for_each(|(sum, bin)| *sum += bin);
        breakdown.iter_mut().zip(&result.breakdown).for_each(|(sum, nanos)| *sum += nanos);
    }
    measured.attempts_max = results.iter().map(|result| result.attempts_max).max();
    measured.latency = all.map_or_else(Latency::default, |all| Latency::of_nanos(&all));
    measured.breakdown = Breakdown::of_times(breakdown);
    Ok(())
}

/// What the main thread has seen of the run.
struct Watch {
    workers: usize,
    schedule: Schedule,
    commits: u64,
    at: Nanos,
}

impl Watch {
    fn nanos_left<P: Platform>(&self, c: P::Core, board: &Board<P>, now: Nanos) -> u64 {
        let Schedule { warm_up_nanos, nanos, .. } = self.schedule;
        // Relaxed: for the progress line.
        match P::load(c, board.began(), Ordering::Relaxed) {
            0 => warm_up_nanos + nanos,
            began => Nanos(began).plus(warm_up_nanos).plus(nanos).since(now),
        }
    }

    fn look<P: Platform>(&mut self, c: P::Core, board: &Board<P>) -> Sample {
        let (mut commits, mut aborts) = (0, 0);
        for worker in 0..self.workers {
            let (commit_word, abort_word) = board.counts(worker);
            commits += P::load(c, commit_word, Ordering::Relaxed);
            aborts += P::load(c, abort_word, Ordering::Relaxed);
        }
        let now = P::now(c);
        let passed = seconds(now.since(self.at)).max(1e-9);
        let sample = Sample {
            seconds_left: seconds(self.nanos_left(c, board, now)),
            throughput: commits.saturating_sub(self.commits) as f64 / passed,
            abort_ratio: abort_ratio(commits, aborts),
        };
        (self.commits, self.at) = (commits, now);
        sample
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
