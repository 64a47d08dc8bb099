//! The work and the counters of one worker during a run.

use std::sync::atomic::Ordering;

use boundary::{Bounds, Database, Ending, Procedure};
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use platform::{Code, Nanos, Node, Platform};
use schema::Routes;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use terms::random::Random;
use workloads::Workload;

use crate::error::RunError;
use crate::execution::executor::{Executor, ExecutorArguments};
use crate::execution::executors::Executors;
use crate::faults::failing::{Failing, stand_in};
use crate::host::Host;
use crate::measurement::partition_events::Shifted;
use crate::owners::shifting::{Shift, Shifting};
use crate::plan::Plan;
use crate::requests::{Drawing, IDLE_NANOS, Origin, Requests};
use crate::retry::{Buffer, Deferred, Next, Retry};
use crate::workers::acknowledgements::Acknowledgements;
use crate::workers::board::{ANNOUNCE_COMMITS, Board};
use crate::workers::owned::Owners;
use crate::workers::preparation::Preparation;
use crate::workers::schedule::{BINS, Schedule};
use crate::workers::upcoming::Upcoming;

/// Largest latency of the histograms, in nanoseconds.
const LATENCY_NANOS_MAX: u64 = 60_000_000_000;
/// Attempts of a transaction after which a worker checks if the run has ended.
const ATTEMPTS_BETWEEN_LOOKS: u32 = 1_000;
/// Decimal digits of the histograms.
const LATENCY_DIGITS: u8 = 2;

/// Commits, aborts and latencies of one kind of transaction.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KindCounts {
    pub commits: u64,
    pub aborts: u64,
    pub rollbacks: u64,
    #[serde(serialize_with = "write_histogram", deserialize_with = "read_histogram")]
    pub latency_nanos: Histogram<u64>,
}

fn histogram() -> Result<Histogram<u64>, RunError> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, LATENCY_DIGITS).map_err(RunError::of)
}

/// The values that were recorded, each with its count.
fn write_histogram<S: Serializer>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
    let recorded = histogram.iter_recorded();
    let pair = |step: IterationValue<u64>| (step.value_iterated_to(), step.count_at_value());
    recorded.map(pair).collect::<Vec<(u64, u64)>>().serialize(to)
}

fn read_histogram<'de, D: Deserializer<'de>>(from: D) -> Result<Histogram<u64>, D::Error> {
    let mut read = histogram().map_err(serde::de::Error::custom)?;
    let recorded = Vec::<(u64, u64)>::deserialize(from)?;
    recorded.into_iter().for_each(|(value, count)| read.saturating_record_n(value, count));
    Ok(read)
}

fn write_moment<S: Serializer>(moment: &Nanos, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(moment.0)
}

fn read_moment<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
    u64::deserialize(from).map(Nanos)
}

impl KindCounts {
    pub(crate) fn new() -> Result<Self, RunError> {
        Ok(KindCounts { commits: 0, aborts: 0, rollbacks: 0, latency_nanos: histogram()? })
    }

    pub(crate) fn add(&mut self, other: &KindCounts) {
        self.commits += other.commits;
        self.aborts += other.aborts;
        self.rollbacks += other.rollbacks;
        // Equal bounds: adding cannot fail.
        let _ = self.latency_nanos.add(&other.latency_nanos);
    }
}

/// The measurements of one worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerResult {
    pub kinds: Vec<KindCounts>,
    /// Commits by kind, warm-up included.
    pub committed: Vec<u64>,
    pub bins: Vec<u64>,
    pub breakdown: [u64; terms::CATEGORIES],
    pub attempts_max: u32,
    /// Commits of transactions over several instances.
    pub distributed: u64,
    /// Messages to other instances.
    pub messages: u64,
    /// Messages to each instance; empty if there is one instance.
    pub messages_to: Vec<u64>,
    /// Messages that its transactions need by the protocol, warm-up included, less those that it
    /// has sent.
    pub messages_missing: i64,
    /// Transactions that were refused because another instance was missing.
    pub refused: u64,
    /// Number of links that the worker has lost.
    pub losses: u64,
    /// Messages that the worker has received twice.
    pub echoes: u64,
    /// Times for which requests of clients waited in the queue of the worker or its instance.
    #[serde(serialize_with = "write_histogram", deserialize_with = "read_histogram")]
    pub queued_nanos: Histogram<u64>,
    /// Time for which the worker had no request.
    pub idle_nanos: u64,
    /// Planned changes of partitions that the worker has made.
    pub shifted: Vec<Shifted>,
    /// The time at which the warm-up ended.
    #[serde(serialize_with = "write_moment", deserialize_with = "read_moment")]
    pub warm: Nanos,
    #[serde(serialize_with = "write_moment", deserialize_with = "read_moment")]
    pub ended: Nanos,
}

/// One worker of a run.
pub(crate) struct Job<'a, P: Platform, W: Workload> {
    pub database: &'a Database<P>,
    pub executors: &'a Executors<P, W::Procedure>,
    pub workload: &'a W,
    pub tables: &'a <W::Procedure as Procedure>::Tables,
    pub board: &'a Board<P>,
    pub schedule: Schedule,
    pub plan: &'a Plan,
    /// `Some` if workers own partitions.
    pub owners: Option<&'a Owners<P>>,
    /// `Some` if sockets fail.
    pub failing: Option<&'a Failing>,
    /// The drawing of its workers' requests.
    pub drawing: Drawing<'a, W::Procedure>,
}

impl<P: Host, W: Workload> Job<'_, P, W> {
    /// Runs transactions until the schedule or the board ends the run.
    pub(crate) fn run(
        &self,
        c: P::Core,
        worker: usize,
        node: Option<Node>,
    ) -> Result<WorkerResult, RunError> {
        let (database, tables, measure) = (self.database, self.tables, self.plan.instrument);
        let owners = self.owners.map(|owners| (&owners.shared, worker, owners.sites[worker]));
        let adapting = self.owners.and_then(|owners| owners.adapting.as_ref());
        let seed = self.plan.seed;
        let restless = self.plan.restless.then_some(seed ^ worker as u64);
        let arguments = ExecutorArguments { c, database, tables, node, measure, owners, adapting, restless };
        let executor = self.executors.executor(self.plan.execution, seed ^ worker as u64, arguments);
        // A worker without a session arrives, too, because the others wait for all workers.
        let began = self.board.wait_to_begin(c);
        let mut executor = executor.map_err(RunError::of)?;
        executor.session().seed(seed.wrapping_mul(0x9e37_79b9).wrapping_add(worker as u64 + 1));
        executor.session().set_pauses(self.plan.retry.pauses());
        // On the heap, because the stack of a simulated core is small.
        let mut buffer =
            (self.plan.retry == Retry::Buffer).then(|| Box::new(Buffer::new(seed, worker as u64 + 1)));
        let mut random = Random::new(seed, worker as u64 + 1);
        let mut upcoming = Upcoming::new(self.plan.optimisations.look_ahead());
        let mut result = self.nothing()?;
        result.warm = began.plus(self.schedule.warm_up_nanos);
        let mut preparation = Preparation::of::<P>(&self.schedule, executor.session());
        let mut ends = match preparation {
            // No worker leaves before all have arrived once more.
            Some(_) => Nanos(u64::MAX),
            None => self.end(worker, result.warm),
        };
        let mut acknowledgements = Acknowledgements::new(self.plan.durability);
        let mut absent = Vec::new();
        let mut shifting = Shifting::of(&self.plan.shifts, worker, self.failing);
        let mut warm = false;
        let mut counts_before = executor.counts();
        let (mut commits, mut aborts) = (0, 0);
        let mut left = self.schedule.transactions_max.unwrap_or(u64::MAX);
        let mut now = P::now(c);
        if let Drawing::Clients(requests) = self.drawing {
            requests
                .begin(worker, now, &mut |random| self.draw_for_owner(0, random, now, worker, &*executor))?;
        }
        // Relaxed: the flag orders no other access.
        while now < ends
            && (left > 0 || buffer.as_ref().is_some_and(|buffer| !buffer.is_empty()))
            && P::load(c, self.board.stop(), Ordering::Relaxed) == 0
        {
            // Without warm-up the measurement begins with the first transaction, because clocks of
            // threads may differ slightly.
            if !warm && (now >= result.warm || self.schedule.warm_up_nanos == 0) {
                if let Some(preparation) = preparation.take() {
                    self.acknowledge_all(
                        &mut acknowledgements,
                        &mut *executor,
                        &mut result,
                        worker,
                        false,
                        now,
                    )?;
                    let resumed = preparation.provide(c, self.board, &mut *executor).map_err(RunError::of)?;
                    let Some(resumed) = resumed else { break };
                    (result.warm, ends) = (resumed, self.end(worker, resumed));
                    now = P::now(c);
                }
                warm = true;
                // In virtual time all workers get here within one transaction.
                if worker == 0 {
                    P::reset_counters(c);
                }
                executor.session().reset_stats();
                counts_before = executor.counts();
                aborts = 0;
                result.attempts_max = 0;
            }
            // A run that ends with a number of transactions of each worker needs all of them.
            if self.schedule.transactions_max.is_none()
                && executor.stand_by(&mut absent).map_err(RunError::of)?
            {
                if !acknowledgements.is_empty() {
                    let now = P::now(c);
                    self.acknowledge_all(
                        &mut acknowledgements,
                        &mut *executor,
                        &mut result,
                        worker,
                        warm,
                        now,
                    )?;
                }
                if let Drawing::Clients(requests) = self.drawing
                    && let Some(present) = self.board.workers().find(|other| !absent.contains(other))
                {
                    requests.leave(worker, present);
                }
                now = P::now(c);
                executor.session().tend(now);
                continue;
            }
            let next = buffer.as_mut().map_or(Next::New, |buffer| buffer.next(now, left == 0));
            // Procedures are large, so they are not moved.
            let mut again;
            let place = match next {
                Next::Again(deferred) => {
                    executor.session().turn_to_another(true);
                    again = Some(deferred);
                    &mut again
                }
                Next::New => {
                    if buffer.is_some() {
                        executor.session().turn_to_another(false);
                    }
                    let elapsed = if warm { now.since(result.warm) } else { 0 };
                    let place = match self.drawing {
                        Drawing::Clients(requests) => {
                            again = self.take(requests, worker, now, warm, &mut result);
                            if again.is_none() {
                                executor.idle(IDLE_NANOS).map_err(RunError::of)?;
                                let began = std::mem::replace(&mut now, P::now(c));
                                result.idle_nanos += if warm { now.since(began) } else { 0 };
                                executor.session().tend(now);
                                self.acknowledge_ready(
                                    &mut acknowledgements,
                                    &mut *executor,
                                    &mut result,
                                    worker,
                                    warm,
                                    now,
                                )?;
                                continue;
                            }
                            &mut again
                        }
                        drawing => {
                            let draw = || match drawing {
                                Drawing::Homes(homes) => {
                                    self.workload.request(elapsed, homes, &mut random, now.0).0
                                }
                                _ => {
                                    let name = self.name(worker, elapsed, &absent, &mut random);
                                    self.workload.next_at(elapsed, name, &mut random, now.0)
                                }
                            };
                            left -= 1;
                            upcoming.begin(now, left + 1, draw, &mut *executor)
                        }
                    };
                    if let Some(transaction) = place {
                        self.workload.begin(worker, &mut transaction.procedure, now.0);
                    }
                    place
                }
                Next::Wait(until) => {
                    executor.session().rest_until(until.plus(1).min(ends));
                    now = P::now(c);
                    continue;
                }
            };
            let transaction = place.as_mut().expect("there is a transaction to run");
            let (kind, began) = (W::kind(&transaction.procedure), transaction.began);
            P::code(c, Code::Driver);
            let lines = W::code_lines(&transaction.procedure);
            P::code(c, Code::Procedure { number: kind as u8, lines });
            let attempts_max = Some(if buffer.is_some() { 1 } else { ATTEMPTS_BETWEEN_LOOKS });
            let bounds = Bounds { deadline: self.plan.deadline(began), attempts_max };
            let ending = loop {
                match executor.run(&mut transaction.procedure, &bounds) {
                    Err(abort) if buffer.is_none() && abort.is_conflict() => {
                        transaction.attempts += ATTEMPTS_BETWEEN_LOOKS;
                        result.attempts_max = result.attempts_max.max(transaction.attempts);
                        // A transaction that conflicts forever must not prevent the end of the run.
                        if self.is_over(c, ends) {
                            break Err(abort);
                        }
                    }
                    ending => break ending,
                }
            };
            let session = executor.session();
            match ending {
                Ok(Ending::Committed((), commit)) => {
                    acknowledgements.committed(session, kind, began, transaction.origin, commit)?;
                }
                Ok(Ending::RolledBack(_)) => {
                    let (origin, ended) = (transaction.origin, P::now(c));
                    if warm {
                        let counts = &mut result.kinds[kind];
                        counts.rollbacks += 1;
                        counts.latency_nanos.saturating_record(ended.since(began));
                    }
                    self.answer(origin, &mut *executor, &result, worker, warm, ended)?;
                }
                Err(abort) => match &mut buffer {
                    Some(buffer) if abort.is_conflict() => {
                        transaction.attempts += 1;
                        result.attempts_max = result.attempts_max.max(transaction.attempts + 1);
                        buffer.defer(P::now(c), place.take().expect("the transaction has run"));
                    }
                    // The run is over.
                    None if abort.is_conflict() => session.turn_to_another(false),
                    _ => return Err(RunError::Transaction { kind: self.workload.kinds()[kind], abort }),
                },
            }
            let after = P::now(c);
            let session = executor.session();
            session.tend(after);
            if warm {
                let aborted = session.stats().aborts;
                result.kinds[kind].aborts += aborted - aborts;
                aborts = aborted;
            }
            while let Some(done) = acknowledgements.next(executor.session()) {
                self.workload.acknowledged(worker, done.began.0);
                self.acknowledge(&mut result, warm, done.kind, done.began, after);
                self.answer(done.origin, &mut *executor, &result, worker, warm, after)?;
                commits += u64::from(warm);
                if warm && commits % ANNOUNCE_COMMITS == 0 {
                    self.board.announce(c, worker, commits, aborts);
                }
            }
            if self.schedule.commits_max.is_some_and(|most| commits >= most) {
                P::store(c, self.board.stop(), 1, Ordering::Relaxed);
            }
            now = match shifting.due(result.warm, after).filter(|_| warm) {
                Some(shift) => self.shift(c, &mut result, &mut *executor, shift)?,
                None => after,
            };
        }
        if let Some(failing) = self.failing
            && failing.of_worker(worker).is_some_and(|at| at < self.schedule.nanos)
        {
            self.evacuate(c, worker, failing);
        }
        // The work for other workers from here on is no part of the run.
        let counts = executor.counts();
        result.messages = counts.messages - counts_before.messages;
        result.distributed = counts.shared - counts_before.shared;
        acknowledgements.finish(executor.session())?;
        let end = P::now(c);
        self.acknowledge_all(&mut acknowledgements, &mut *executor, &mut result, worker, warm, end)?;
        let session = executor.session();
        result.breakdown = session.breakdown();
        result.attempts_max = result.attempts_max.max(session.stats().attempts_max);
        result.ended = end;
        executor.leave().map_err(RunError::of)?;
        Ok(result)
    }

    /// True if the run has ended or has to end.
    fn is_over(&self, c: P::Core, ends: Nanos) -> bool {
        // Relaxed: the flag orders no other access.
        P::now(c) >= ends || P::load(c, self.board.stop(), Ordering::Relaxed) != 0
    }

    /// The worker on whose behalf a worker draws its next transaction, if the processors of some
    /// workers are gone.
    #[inline]
    fn name(&self, worker: usize, elapsed: u64, absent: &[usize], random: &mut Random) -> usize {
        if self.failing.is_none() && absent.is_empty() {
            return worker;
        }
        let mut gone = self.failing.map_or_else(Vec::new, |failing| failing.gone(elapsed));
        gone.extend(absent);
        gone.sort_unstable();
        gone.dedup();
        stand_in(worker, self.board.workers().len(), &gone, random)
    }

    /// The socket of this worker has failed: its thread moves to another socket, and requests of
    /// clients are for another worker.
    fn evacuate(&self, c: P::Core, worker: usize, failing: &Failing) {
        // If binding is refused, the operating system chooses the thread's processor.
        let _stays = P::bind(c, failing.left());
        if let (Drawing::Clients(requests), Some(survivor)) = (self.drawing, failing.survivor(worker)) {
            requests.leave(worker, survivor);
        }
    }

    /// Takes the next request that clients have for this worker, as a transaction.
    fn take(
        &self,
        requests: &Requests<W::Procedure>,
        worker: usize,
        now: Nanos,
        warm: bool,
        result: &mut WorkerResult,
    ) -> Option<Deferred<W::Procedure>> {
        let request = requests.take(worker)?;
        if warm {
            result.queued_nanos.saturating_record(now.since(request.handed_over));
        }
        Some(Deferred::of_client(request, now))
    }

    /// Draws a request of a client, and finds the worker that owns its first rows.
    fn draw_for_owner<'d>(
        &self,
        elapsed: u64,
        random: &mut Random,
        now: Nanos,
        worker: usize,
        executor: &(dyn Executor<'d, W::Procedure> + 'd),
    ) -> Result<(W::Procedure, usize), RunError> {
        let (mut procedure, _) = self.workload.request(elapsed, None, random, now.0);
        let (mut actions, mut routes) = (Vec::new(), Routes::by_partition());
        procedure.plan(0, &mut actions);
        if let Some(first) = actions.first() {
            W::Procedure::route(self.tables, first, &mut routes);
        }
        Ok((procedure, executor.owner(&routes).map_or(worker, usize::from)))
    }

    /// The request of a client has ended, and the client may hand more requests over.
    fn answer<'d>(
        &self,
        origin: Origin,
        executor: &mut (dyn Executor<'d, W::Procedure> + 'd),
        result: &WorkerResult,
        worker: usize,
        warm: bool,
        now: Nanos,
    ) -> Result<(), RunError> {
        let Drawing::Clients(requests) = self.drawing else { return Ok(()) };
        if !origin.is_of_client() {
            return Ok(());
        }
        let elapsed = if warm { now.since(result.warm) } else { 0 };
        let executor = &*executor;
        requests.end(origin, now, &mut |random| self.draw_for_owner(elapsed, random, now, worker, executor))
    }

    /// Acknowledges the commits that can be acknowledged as of `now`.
    fn acknowledge_ready<'d>(
        &self,
        acknowledgements: &mut Acknowledgements,
        executor: &mut (dyn Executor<'d, W::Procedure> + 'd),
        result: &mut WorkerResult,
        worker: usize,
        warm: bool,
        now: Nanos,
    ) -> Result<(), RunError> {
        while let Some(done) = acknowledgements.next(executor.session()) {
            self.workload.acknowledged(worker, done.began.0);
            self.acknowledge(result, warm, done.kind, done.began, now);
            self.answer(done.origin, executor, result, worker, warm, now)?;
        }
        Ok(())
    }

    /// Waits until all commits can be acknowledged, and acknowledges them as of `now`.
    fn acknowledge_all<'d>(
        &self,
        acknowledgements: &mut Acknowledgements,
        executor: &mut (dyn Executor<'d, W::Procedure> + 'd),
        result: &mut WorkerResult,
        worker: usize,
        warm: bool,
        now: Nanos,
    ) -> Result<(), RunError> {
        acknowledgements.finish(executor.session())?;
        self.acknowledge_ready(acknowledgements, executor, result, worker, warm, now)
    }

    /// Makes planned changes of borders between partitions; returns the time afterwards.
    fn shift<'d>(
        &self,
        c: P::Core,
        result: &mut WorkerResult,
        executor: &mut (dyn Executor<'d, W::Procedure> + 'd),
        shift: Shift,
    ) -> Result<Nanos, RunError> {
        let began = P::now(c);
        let Shift { action, count, .. } = shift;
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let (actions, changes) = executor.shift(action, count).map_err(RunError::of)?;
        let ended = P::now(c);
        result.shifted.push(Shifted {
            action,
            at_seconds: seconds(began.since(result.warm)),
            actions,
            changes,
            took_seconds: seconds(ended.since(began)),
        });
        Ok(ended)
    }

    /// The time at which a worker ends its transactions, of a run whose measured time begins at
    /// `warm`.
    fn end(&self, worker: usize, warm: Nanos) -> Nanos {
        let gone = self.failing.and_then(|failing| failing.of_worker(worker)).unwrap_or(u64::MAX);
        warm.plus(self.schedule.nanos.min(gone))
    }

    /// Counts a commit that is acknowledged at `now`.
    #[inline]
    pub(crate) fn acknowledge(
        &self,
        result: &mut WorkerResult,
        warm: bool,
        kind: usize,
        began: Nanos,
        now: Nanos,
    ) {
        result.committed[kind] += 1;
        if warm {
            let bin = now.since(result.warm) / self.schedule.bin_nanos;
            result.bins[bin.min(BINS - 1) as usize] += 1;
            let counts = &mut result.kinds[kind];
            counts.commits += 1;
            counts.latency_nanos.saturating_record(now.since(began));
        }
    }

    pub(crate) fn nothing(&self) -> Result<WorkerResult, RunError> {
        let kinds = self.workload.kinds().iter().map(|_| KindCounts::new()).collect::<Result<_, _>>()?;
        Ok(WorkerResult {
            kinds,
            committed: vec![0; self.workload.kinds().len()],
            bins: vec![0; BINS as usize],
            breakdown: [0; terms::CATEGORIES],
            attempts_max: 0,
            distributed: 0,
            messages: 0,
            messages_to: Vec::new(),
            messages_missing: 0,
            refused: 0,
            losses: 0,
            echoes: 0,
            queued_nanos: histogram()?,
            idle_nanos: 0,
            shifted: Vec::new(),
            warm: Nanos(0),
            ended: Nanos(0),
        })
    }
}
