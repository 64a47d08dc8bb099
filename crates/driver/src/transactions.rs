//! A workload of transactions on one database: load, run, check.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use cc::{InstanceOptions, Scheme};
use engine::{Procedure, RowLoader, SchemaBuilder};
use hdrhistogram::Histogram;
use platform::{Nanos, Platform};
use workloads::{Outcome, Random, Workload};

use super::Companions;
use super::counted::Counted;
use super::durable::{self, Opened};
use super::setting::Setting;
use super::worker::{BINS, Board, Job, KindCounts, Schedule, WorkerResult};
use crate::choices::Switch;
use crate::config::{Config, Length};
use crate::errors::Failure;
use crate::progress::Sample;
use crate::report::{self, Breakdown, Kind, Latency, Measurement};

/// Shortest epoch.
const EPOCH_NANOS: u64 = 1_000_000;
/// Bytes that one worker may insert in a second: pages for them are faulted in before the run.
const INSERT_BYTES_PER_SECOND: f64 = 300e6;
/// Most bytes to fault in ahead for one worker: it takes about two seconds.
const RESERVE_BYTES_MAX: usize = 3 << 29;
/// Bytes that one transaction may insert, where the length is given in transactions.
const INSERT_BYTES_PER_TRANSACTION: f64 = 1_500.0;
/// Longest run when its length is given in transactions.
const SECONDS_MAX: f64 = 86_400.0;
/// How often the main thread looks at the workers.
const LOOK_NANOS: u64 = 100_000_000;
/// The same in virtual time.
const LOOK_NANOS_VIRTUAL: u64 = 1_000_000;
/// Loading takes no virtual time but this, for each row.
const LOAD_NANOS_VIRTUAL: u64 = 1_000;

/// Streams of random numbers for loading begin here, those of workers below.
const LOAD_STREAM: u64 = 1 << 32;

type Tables<W> = <<W as Workload>::Procedure as Procedure>::Tables;

/// Loads, runs and checks.
pub(super) fn run<P: Counted, S: Scheme<P>, W: Workload>(
    c: P::Core,
    workload: &W,
    setting: &Setting,
    with: Companions<'_>,
) -> Result<Measurement, Failure> {
    let mut schema = SchemaBuilder::new();
    let tables = workload.create(&mut schema);
    let options = InstanceOptions {
        sessions_max: setting.workers() + 1,
        memory_bytes_max: setting.memory_bytes_max,
        epoch_nanos: EPOCH_NANOS,
        timestamps: with.config.timestamp.source(),
        nodes: setting.nodes_in_use(),
        without: with.config.left_out(),
    };
    let parts = workload.parts();
    let node_of = |partition: usize| setting.home(partition, parts);
    let opened = durable::open::<P, S>(c, (with.config, with.progress), setting, &options, schema, &node_of)?;
    let recovered = opened.recovered;
    let existed = recovered.is_some();
    let mut bench = Bench {
        workload,
        tables,
        opened,
        setting,
        seed: with.config.seed,
        reserve_bytes: reserve_bytes(with.config, setting),
    };
    let mut measured = if existed { Measurement::default() } else { bench.load(c, with)? };
    measured.recovered = recovered;
    bench.opened.loaded(c)?;
    bench.opened.database.loaded(c).map_err(Failure::of)?;
    let committed = bench.measure(c, with, &mut measured)?;
    with.progress.checking();
    let inspector = &mut bench.opened.database.inspector(c);
    // What earlier runs have committed is not known.
    let checks = match existed {
        true => workload.check(&bench.tables, inspector),
        false => workload.check_committed(&bench.tables, inspector, &committed),
    };
    for check in checks {
        let outcome = match check.result {
            Outcome::Ok => report::Check::Ok,
            Outcome::NotApplicable(reason) => report::Check::NotApplicable(reason),
            Outcome::Violated(what) => report::Check::Violated(what),
        };
        measured.checks.push((check.name.to_owned(), outcome));
    }
    bench.opened.end(c)?;
    Ok(measured)
}

/// What all workers share.
struct Bench<'a, P: Counted, S: Scheme<P>, W: Workload> {
    workload: &'a W,
    tables: Tables<W>,
    opened: Opened<P, S>,
    setting: &'a Setting,
    seed: u64,
    /// Memory that each worker takes ahead for what it will insert.
    reserve_bytes: usize,
}

/// Memory for what one worker inserts during the run, at most its part of half of what is left.
pub(super) fn reserve_bytes(config: &Config, setting: &Setting) -> usize {
    let wanted = match config.length {
        Length::Seconds(seconds) => (seconds + config.warmup_seconds) * INSERT_BYTES_PER_SECOND,
        Length::Transactions(count) => count as f64 * INSERT_BYTES_PER_TRANSACTION,
    };
    (wanted as usize).min(RESERVE_BYTES_MAX).min((setting.memory_bytes_max / 4) as usize / setting.workers())
}

/// Results of workers, by number. Workers fill it once, when they are done.
type Results<T> = Mutex<Vec<Option<Result<T, Failure>>>>;

fn collect<T>(results: Results<T>) -> Result<Vec<T>, Failure> {
    let results = results.into_inner().map_err(|_| Failure::Failed("a worker panicked".to_owned()))?;
    let missing = || Failure::Failed("a worker ended without a result".to_owned());
    results.into_iter().map(|result| result.ok_or_else(missing)?).collect()
}

/// Runs `job` on every worker, and `look` on the main thread now and then.
fn on_workers<P: Platform, T: Send>(
    c: P::Core,
    setting: &Setting,
    with: Companions<'_>,
    board: &Board<P>,
    job: &(dyn Fn(P::Core, usize) -> Result<T, Failure> + Sync),
    look: &mut dyn FnMut(P::Core),
) -> Result<Vec<T>, Failure> {
    let workers = setting.workers();
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
    P::parallel(c, &setting.places, &worker, &mut |c| {
        loop {
            // Acquire: pairs with the release of the workers.
            let done = P::load(c, board.done(), Ordering::Acquire);
            if done >= workers as u64 {
                break;
            }
            P::park(c, board.done(), done, Some(P::now(c).plus(every)));
            if with.interrupt.requested() {
                P::store(c, board.stop(), 1, Ordering::Relaxed);
            }
            look(c);
        }
    });
    collect(results)
}

impl<P: Counted, S: Scheme<P>, W: Workload> Bench<'_, P, S, W> {
    /// Loads all parts in parallel.
    fn load(&self, c: P::Core, with: Companions<'_>) -> Result<Measurement, Failure> {
        let parts = self.workload.parts();
        let total = (0..parts).map(|part| self.workload.rows(part)).sum();
        with.progress.loading(total);
        let board = Board::<P>::new(c, self.setting.workers()).map_err(Failure::of)?;
        let started = P::now(c);
        let job = |c, worker: usize| self.load_parts(c, &board, worker);
        let ended = on_workers(c, self.setting, with, &board, &job, &mut |c| {
            with.progress.loaded(P::load(c, board.rows(), Ordering::Relaxed));
        })?;
        if with.interrupt.requested() {
            return Err(Failure::Failed("interrupted while loading".to_owned()));
        }
        let last = ended.into_iter().max().unwrap_or(started);
        Ok(Measurement {
            rows_loaded: P::load(c, board.rows(), Ordering::Relaxed),
            load_seconds: seconds(last.since(started)),
            memory_bytes: Some(self.opened.database.memory_bytes(c)),
            ..Measurement::default()
        })
    }

    fn load_parts(&self, c: P::Core, board: &Board<P>, worker: usize) -> Result<Nanos, Failure> {
        let node = self.setting.nodes[worker];
        let mut session = self.opened.database.session(c, node, false).map_err(Failure::of)?;
        let parts = self.workload.parts();
        P::untimed(c, true);
        for part in (0..parts).filter(|part| self.setting.loader(*part, parts) == worker) {
            if P::load(c, board.stop(), Ordering::Relaxed) != 0 {
                break;
            }
            let mut random = Random::new(self.seed, LOAD_STREAM + part as u64);
            let mut report = |rows| {
                P::fetch_add(c, board.rows(), rows, Ordering::Relaxed);
                if P::VIRTUAL {
                    // Others load too, and the main thread looks.
                    P::pause(c, rows * LOAD_NANOS_VIRTUAL);
                }
            };
            let mut loader = RowLoader::new(&mut session, &mut report);
            self.workload.load(&self.tables, part, &mut random, &mut loader).map_err(Failure::of)?;
            loader.finish();
        }
        let ended = P::now(c);
        session.reserve(self.reserve_bytes).map_err(Failure::of)?;
        P::untimed(c, false);
        Ok(ended)
    }

    /// Runs the workload as long as configured; commits by kind.
    fn measure(
        &self,
        c: P::Core,
        with: Companions<'_>,
        measured: &mut Measurement,
    ) -> Result<Vec<u64>, Failure> {
        let config = with.config;
        let (length, commits_max) = match config.length {
            Length::Seconds(seconds) => (seconds, None),
            Length::Transactions(count) => (SECONDS_MAX, Some(count)),
        };
        with.progress.running(if commits_max.is_some() { 0.0 } else { length });
        let board = Board::<P>::new(c, self.setting.workers()).map_err(Failure::of)?;
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let expected = if commits_max.is_some() { 10.0 } else { length };
        let schedule = Schedule {
            warm_up_nanos: nanos(config.warmup_seconds),
            nanos: nanos(length),
            bin_nanos: (nanos(expected) / BINS).max(1),
            commits_max,
        };
        let job = Job {
            database: &self.opened.database,
            workload: self.workload,
            tables: &self.tables,
            board: &board,
            schedule,
            seed: config.seed,
            measure: config.instrument == Switch::On,
            durability: config.durability,
        };
        let (log_before, began) = (self.opened.database.log_used(c), P::now(c));
        let mut watch = Watch { workers: self.setting.workers(), schedule, commits: 0, at: P::now(c) };
        let results = on_workers(
            c,
            self.setting,
            with,
            &board,
            &|c, worker| job.run(c, worker, self.setting.nodes[worker]),
            &mut |c| with.progress.tick(watch.look(c, &board)),
        )?;
        let nanos = P::now(c).since(began);
        measured.interrupted = with.interrupt.requested();
        let counts = P::counts(c);
        measured.machine_use = counts.machine_use(|lines| self.opened.database.occupants(c, lines));
        measured.counters = counts.counters;
        let sum = |kind: usize| results.iter().map(|result| result.committed[kind]).sum();
        let committed: Vec<u64> = (0..self.workload.kinds().len()).map(sum).collect();
        if let (Some(before), Some(after)) = (log_before, self.opened.database.log_used(c)) {
            measured.counters.log_bytes = Some(after.written_bytes - before.written_bytes);
            measured.counters.fsyncs = Some(after.flushes - before.flushes);
            measured.log = Some(durable::log_figures(before, after, (committed.iter().sum(), nanos)));
        }
        measured.bin_seconds = seconds(schedule.bin_nanos);
        measured.memory_bytes = Some(self.opened.database.memory_bytes(c));
        self.summarise(measured, &results)?;
        Ok(committed)
    }

    fn summarise(&self, measured: &mut Measurement, results: &[WorkerResult]) -> Result<(), Failure> {
        // The mean over workers: one whose last transaction takes long must not stand for all.
        let measured_nanos: u64 = results.iter().map(|result| result.ended.since(result.warm)).sum();
        measured.elapsed_seconds = seconds(measured_nanos / results.len().max(1) as u64);
        measured.bins = vec![0; BINS as usize];
        let mut breakdown = [0; cc::CATEGORIES];
        let mut all: Option<Histogram<u64>> = None;
        for (number, name) in self.workload.kinds().iter().enumerate() {
            let mut sum = KindCounts::new()?;
            results.iter().for_each(|result| sum.add(&result.kinds[number]));
            let latency = &sum.latency_nanos;
            match &mut all {
                Some(all) => all.add(latency).map_err(|error| Failure::Failed(error.to_string()))?,
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
            abort_ratio: report::abort_ratio(commits, aborts),
        };
        (self.commits, self.at) = (commits, now);
        sample
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
