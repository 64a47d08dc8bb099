//! The work of a worker in a deployment of several instances: it runs local transactions as in a
//! single instance, coordinates transactions over several instances, and executes branches for
//! other instances between two transactions.
//!
//! A worker that has no transaction left reports this to those of other instances, and continues to
//! serve until all of them have reported it, so that no transaction loses a participant. A local
//! transaction that conflicted is tried again by the loop, and not within its session, because it
//! may conflict with a branch of this same worker, which releases its locks only when the worker
//! receives the decision.

pub(crate) mod batch;
mod clients;
mod crossing;
pub(crate) mod news;
pub(crate) mod pace;
pub(crate) mod seats;
pub(crate) mod waiting;

use std::sync::atomic::Ordering;

use boundary::{Backoff, Bounds, Commit, Ending, Procedure, SchemaBuilder, run_as};
use distributed::messages::INCARNATIONS_MAX;
use distributed::{
    Adopted, Counts, DataOwners, Done, HomeInstance, Map, Member, MemberError, Setting, WorkerName,
};
use platform::link::SendError;
use platform::{Code, Nanos, Node, Platform};
use terms::random::Random;
use terms::{Abort, Category, Fault, Mode};
use workloads::Workload;

use crate::deployment::Deployment;
use crate::error::RunError;
use crate::execution::executor::{Executor, ExecutorArguments};
use crate::host::Host;
use crate::members::batch::Batch;
use crate::members::news::{Arrivals, News};
use crate::members::pace::Pace;

pub(crate) use crate::members::seats::{LinkSeat, Seats};
use crate::members::waiting::{Distributed, Tickets, Waiting};
use crate::plan::{CommitProtocol, Durability, Plan};
use crate::requests::Origin;
use crate::retry::Deferred;
use crate::workers::acknowledgements::Acknowledgements;
use crate::workers::board::{ANNOUNCE_COMMITS, Board};
use crate::workers::upcoming::Upcoming;
use crate::workers::worker::{Job, WorkerResult};

/// Most conflicted local transactions that a worker of a durable instance keeps waiting while it
/// runs others: its rows may be locked until groups are durable. Without durability rows are locked
/// for a round trip, and waiting aside gains nothing: 0.93 to 1.03 of the throughput under seven
/// schemes, 0.4 to 0.9 in most runs under `hstore` (docs/islands.md).
const ASIDE_MAX: usize = 64;
/// Interval at which a worker that waits for answers checks if the run is over.
const POLL_NANOS: u64 = 50_000;

/// The division of the data of a workload over the instances of a deployment.
#[derive(Clone)]
pub(crate) struct Division {
    pub map: Map,
    /// Fingerprint of the tables.
    pub fingerprint: u32,
    /// The names of the workers.
    pub names: Vec<WorkerName>,
    /// Numbers of the openings of the instances.
    pub openings: Vec<u64>,
}

impl Division {
    /// Divides the data.
    pub(crate) fn new<W: Workload>(
        workload: &W,
        plan: &Plan,
        deployment: &Deployment,
    ) -> Result<Self, RunError> {
        let instances = deployment.instances.len();
        if let Some(why) = workload.undivided() {
            return Err(RunError::Refused(why.to_owned()));
        }
        if !plan.optimisations.has(storage::Optimisation::BoundedSpin) {
            let why = "several instances need bounded waits: bounded-spin cannot be left out";
            return Err(RunError::Refused(why.to_owned()));
        }
        let mut schema = SchemaBuilder::new();
        workload.create(&mut schema);
        let name = |worker: usize| WorkerName {
            instance: deployment.instance_of(worker) as u16,
            worker: worker as u16,
        };
        let parts = workload.parts();
        let owners = (0..parts).map(|part| name(deployment.loader(part, parts))).collect();
        let map = Map::new(&schema.divisions(), owners, instances).map_err(RunError::of)?;
        let fingerprint = distributed::messages::fingerprint(schema.descriptions());
        let names: Vec<WorkerName> = (0..deployment.workers()).map(name).collect();
        Ok(Division { map, fingerprint, names, openings: vec![0; instances] })
    }

    /// The owners of the data.
    pub(crate) fn deployed(&self, instances: usize) -> DataOwners {
        DataOwners { instances, parts: self.map.instances() }
    }

    /// Number of partitions of a worker.
    fn partitions_of(&self, worker: WorkerName) -> usize {
        let parts = 0..self.map.instances().len();
        parts.filter(|part| self.map.owner_of_part(*part) == worker).count()
    }

    /// The instance that has a part of the data.
    pub(crate) fn instance_of_part(&self, part: usize) -> usize {
        usize::from(self.map.owner_of_part(part).instance)
    }
}

/// Reports that a worker is gone when it is dropped, unless the worker has left properly.
struct Presence<'a, P: Platform> {
    c: P::Core,
    board: &'a Board<P>,
    leaves_well: bool,
}

impl<P: Platform> Drop for Presence<'_, P> {
    fn drop(&mut self) {
        if !self.leaves_well && !P::is_gone(self.c) {
            // Relaxed: the flags order no other access.
            P::store(self.c, self.board.broken(), 1, Ordering::Relaxed);
            P::store(self.c, self.board.stop(), 1, Ordering::Relaxed);
        }
    }
}

impl<'d, P: Host, W: Workload> Job<'d, P, W> {
    /// As [`Self::run`], for a worker of one of several instances.
    pub(crate) fn run_among(
        &self,
        c: P::Core,
        worker: usize,
        node: Option<Node>,
        division: &Division,
        seats: &Seats<P>,
    ) -> Result<WorkerResult, RunError> {
        let mut presence = Presence { c, board: self.board, leaves_well: false };
        let (database, tables, measure) = (self.database, self.tables, self.plan.instrument);
        let (seed, owners, adapting, restless) = (self.plan.seed, None, None, None);
        let arguments = ExecutorArguments { c, database, tables, node, measure, owners, adapting, restless };
        let executor = self.executors.executor(self.plan.execution, seed ^ worker as u64, arguments);
        let links = seats.take(worker);
        let me = division.names[worker];
        P::join_instance(c, usize::from(me.instance));
        let began = self.board.wait_to_begin(c);
        P::allow_falls(c);
        let (mut executor, LinkSeat { bell, connections }) = (executor.map_err(RunError::of)?, links?);
        let stream = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(worker as u64 + 1);
        executor.session().seed(stream);
        let incarnation = division.openings[usize::from(me.instance)];
        if incarnation >= INCARNATIONS_MAX {
            return Err(RunError::Refused(format!("{me}: it was opened {incarnation} times: copy its rows")));
        }
        let (durability, faults) = (self.plan.durability, self.plan.faults);
        let is_durable = durability != Durability::None;
        let in_order = database.traits().locks_partitions;
        let setting = Setting {
            me,
            tables,
            map: &division.map,
            fingerprint: division.fingerprint,
            incarnation,
            durable: is_durable,
            in_order,
            own_first: self.plan.commit == CommitProtocol::Published,
            duplicate_one_in: self.plan.duplicate_one_in,
            faults,
        };
        let mut member = Member::new(setting, bell, connections).map_err(RunError::of)?;
        if let Some(gate) = &seats.gate {
            member.expect(&seats.down);
            let here = division.names.iter().copied().filter(|name| name.instance == me.instance);
            let adopted = Adopted::of(c, database, me, here);
            let back = member.come_back(c, executor.session(), gate.clone(), adopted);
            back.map_err(RunError::of)?;
        }
        let mut backoff = Backoff::new(stream);
        backoff.set_pauses(self.plan.retry.pauses());
        let mut result = self.nothing()?;
        result.warm = began.plus(self.schedule.warm_up_nanos);
        let mut worker_state = MemberWorker {
            job: self,
            c,
            worker,
            me,
            member,
            division,
            executor: &mut *executor,
            backoff,
            random: Random::new(seed, worker as u64 + 1),
            upcoming: Upcoming::new(self.plan.optimisations.look_ahead()),
            ends: result.warm.plus(self.schedule.nanos),
            left: self.schedule.transactions_max.unwrap_or(u64::MAX),
            result,
            warm: false,
            arrivals: seats.arrivals.as_deref(),
            current: None,
            aside: Vec::new(),
            aside_max: match (is_durable, in_order) {
                (false, _) => 0,
                (true, false) => ASIDE_MAX,
                (true, true) => division.partitions_of(me).clamp(1, ASIDE_MAX),
            },
            distributed: Distributed::new(Pace::new(self.plan.in_flight, is_durable, stream), in_order),
            commits: 0,
            counts_before: Counts::default(),
            messages_before: vec![0; division.openings.len()],
            actions: Vec::new(),
            ended: Vec::new(),
            avoids_snapshots: database.traits().snapshots,
            acknowledgements: Acknowledgements::new(match !faults.has(Fault::EarlyAnswer) {
                true => durability,
                false => Durability::None,
            }),
        };
        worker_state.work()?;
        presence.leaves_well = true;
        let MemberWorker { mut result, member, .. } = worker_state;
        let counts = member.counts();
        result.messages_missing = counts.expected as i64 - counts.messages as i64;
        (result.losses, result.echoes) = (counts.losses, counts.echoes);
        result.breakdown = executor.session().breakdown();
        Ok(result)
    }
}

/// The error of a member whose deployment is broken.
fn broken(error: MemberError) -> RunError {
    match error {
        MemberError::Receive { error: ref end, .. } if end.is_end() => RunError::PeerGone(error.to_string()),
        MemberError::Send { error: SendError::Closed, .. } => RunError::PeerGone(error.to_string()),
        error => RunError::of(error),
    }
}

/// State of one worker while it runs.
struct MemberWorker<'a, 'd, P: Host, W: Workload> {
    job: &'a Job<'d, P, W>,
    c: P::Core,
    worker: usize,
    me: WorkerName,
    member: Member<'d, P, Batch<W::Procedure>, Tickets>,
    division: &'a Division,
    executor: &'a mut (dyn Executor<'d, W::Procedure> + 'd),
    backoff: Backoff,
    random: Random,
    upcoming: Upcoming<W::Procedure>,
    ends: Nanos,
    /// Number of transactions still to begin.
    left: u64,
    result: WorkerResult,
    warm: bool,
    /// Later changes of its links.
    arrivals: Option<&'a Arrivals<P>>,
    /// The worker's next transaction, if it has to wait. In a box, because few transactions wait.
    current: Option<Box<Waiting<W::Procedure>>>,
    /// Local transactions that conflicted, and wait for their next attempt.
    #[allow(clippy::vec_box)]
    aside: Vec<Box<Waiting<W::Procedure>>>,
    aside_max: usize,
    distributed: Distributed<W::Procedure>,
    commits: u64,
    /// The member's counters at the end of the warm-up.
    counts_before: Counts,
    /// Number of messages that the worker had sent to each instance by then.
    messages_before: Vec<u64>,
    actions: Vec<<W::Procedure as Procedure>::Action>,
    ended: Vec<Done<Batch<W::Procedure>, Tickets>>,
    /// True if read-only transactions would see snapshots, which are not consistent with those of
    /// other instances.
    avoids_snapshots: bool,
    acknowledgements: Acknowledgements,
}

impl<P: Host, W: Workload> MemberWorker<'_, '_, P, W> {
    /// Runs transactions until the schedule or the board ends the run, and serves until no worker
    /// has one.
    fn work(&mut self) -> Result<(), RunError> {
        let (c, board) = (self.c, self.job.board);
        // As in a single instance, the end of a transaction is the beginning of the next.
        let mut now = P::now(c);
        self.begin_client(now)?;
        loop {
            self.end_warm_up(now);
            if self.process_messages()? {
                // The time of work for other workers is no part of the next transaction.
                now = P::now(c);
            }
            // Relaxed, twice: the flags order no other access.
            let is_stopped = P::load(c, board.stop(), Ordering::Relaxed) != 0;
            if is_stopped && P::load(c, board.broken(), Ordering::Relaxed) != 0 {
                return Ok(());
            }
            // The first worker to finish stops all: those of other instances receive its departure
            // from that worker itself.
            let is_first = self.job.schedule.commits_max.is_some() && self.member.has_departed_peer();
            let is_over = is_stopped || now >= self.ends || is_first;
            if is_over {
                self.current = None;
                self.aside.clear();
                self.distributed.clear();
                self.member.wait_for_turn(false);
            }
            if self.distributed.pace.is_held_back() {
                self.hurry();
            }
            self.executor.session().tend(now);
            if !self.acknowledgements.is_empty() {
                self.acknowledge(P::now(c))?;
            }
            if !self.member.is_open() && !is_over {
                now = self.wait(Category::Communication, now.plus(POLL_NANOS))?;
                continue;
            }
            if is_over || (self.left == 0 && self.has_none()) {
                if self.leave()? {
                    break;
                }
                now = self.wait(Category::Communication, now.plus(POLL_NANOS))?;
                continue;
            }
            now = self.try_again(now)?;
            now = if self.current.is_some() {
                self.continue_current(now)?
            } else if self.left > 0 {
                self.begin(now)?
            } else {
                self.wait_for(now, None)?
            };
        }
        self.acknowledgements.finish(self.executor.session())?;
        self.result.ended = P::now(c);
        self.acknowledge(self.result.ended)?;
        let counts = self.member.counts();
        self.result.messages = counts.messages - self.counts_before.messages;
        let before = &self.messages_before;
        let messages = self.member.messages_to(before.len());
        self.result.messages_to = messages.iter().zip(before).map(|(all, before)| all - before).collect();
        Ok(())
    }

    fn end_warm_up(&mut self, now: Nanos) {
        // As in a single instance.
        if self.warm || (now < self.result.warm && self.job.schedule.warm_up_nanos > 0) {
            return;
        }
        self.warm = true;
        if self.worker == 0 {
            P::reset_counters(self.c);
        }
        self.executor.session().reset_stats();
        self.counts_before = self.member.counts();
        self.messages_before = self.member.messages_to(self.messages_before.len());
        self.result.attempts_max = 0;
    }

    /// Begins the next transaction: runs it here, submits it, or keeps it until it can be
    /// submitted. Returns the time afterwards.
    fn begin(&mut self, now: Nanos) -> Result<Nanos, RunError> {
        let Some(mut transaction) = self.next(now) else { return self.idle(now) };
        self.job.workload.begin(self.worker, &mut transaction.procedure, now.0);
        let is_here = match self.member.home_instance(&transaction.procedure) {
            HomeInstance::Here => true,
            HomeInstance::Elsewhere => false,
            HomeInstance::Unknown => {
                let kind = W::kind(&transaction.procedure);
                let is_here = self.member.is_here(&mut transaction.procedure);
                is_here.map_err(|abort| self.failure(kind, abort))?
            }
        };
        if is_here {
            return self.run_here(transaction);
        }
        if self.can_submit() {
            return self.submit(transaction, false).map(|()| P::now(self.c));
        }
        let waiting = Waiting { transaction, ready: Nanos(0), is_here, alone: false, blocked_at: None };
        self.current = Some(Box::new(waiting));
        self.continue_current(now)
    }

    /// Continues with the waiting transaction, if it can be tried now. Returns the time afterwards.
    fn continue_current(&mut self, now: Nanos) -> Result<Nanos, RunError> {
        let can_run = self.current.as_ref().is_some_and(|waiting| match waiting.is_here {
            true => self.is_ready(waiting, now),
            false => self.can_submit(),
        });
        let ready = self.current.as_ref().filter(|waiting| waiting.is_here).map(|waiting| waiting.ready);
        match self.current.take_if(|_| can_run).map(|waiting| *waiting) {
            Some(Waiting { transaction, is_here: true, .. }) => self.run_here(transaction),
            Some(Waiting { transaction, .. }) => self.submit(transaction, false).map(|()| P::now(self.c)),
            None => self.wait_for(now, ready),
        }
    }

    fn failure(&self, kind: usize, abort: Abort) -> RunError {
        RunError::Transaction { kind: self.job.workload.kinds()[kind], abort }
    }

    /// Reports the departure of this worker. Returns true if all workers have departed, and no
    /// instance will come back.
    fn leave(&mut self) -> Result<bool, RunError> {
        let leaves = self.member.leave(self.c).map_err(broken)?;
        if self.arrivals.is_some_and(Arrivals::has_given_up) {
            return Ok(true);
        }
        Ok(leaves && self.arrivals.is_none_or(|arrivals| arrivals.close(self.c, self.worker)))
    }

    /// Processes the news of links.
    fn process_news(&mut self) -> Result<(), RunError> {
        let Some(arrivals) = self.arrivals else {
            let missing = self.member.missing().filter(|_| self.member.counts().losses > 0);
            let gone = |name: WorkerName| RunError::PeerGone(format!("{name} has closed the link"));
            return missing.map_or(Ok(()), |name| Err(gone(name)));
        };
        while let Some(news) = arrivals.take(self.worker, P::now(self.c)) {
            let session = self.executor.session();
            let processed = match news {
                News::Lost(name) => self.member.lose(self.c, session, name),
                News::Linked(connection) => self.member.reconnect(self.c, session, connection),
            };
            processed.map_err(broken)?;
        }
        Ok(())
    }

    /// Records a commit, and acknowledges it when the durability allows.
    fn committed(
        &mut self,
        kind: usize,
        began: Nanos,
        origin: Origin,
        now: Nanos,
        commit: Commit,
    ) -> Result<(), RunError> {
        let waited = self.job.plan.durability == Durability::Sync;
        if waited {
            // Waiting for a local commit does not end the epoch, for which branches wait.
            self.hurry();
        }
        self.acknowledgements.committed(self.executor.session(), kind, began, origin, commit)?;
        self.acknowledge(if waited { P::now(self.c) } else { now })
    }

    /// Acknowledges the commits that can be acknowledged.
    fn acknowledge(&mut self, now: Nanos) -> Result<(), RunError> {
        while let Some(done) = self.acknowledgements.next(self.executor.session()) {
            self.acknowledged(done.kind, done.began, now);
            self.answer(done.origin, now)?;
        }
        Ok(())
    }

    fn acknowledged(&mut self, kind: usize, began: Nanos, now: Nanos) {
        self.job.workload.acknowledged(self.worker, began.0);
        self.job.acknowledge(&mut self.result, self.warm, kind, began, now);
        self.commits += u64::from(self.warm);
        let (c, board) = (self.c, self.job.board);
        if self.warm && self.commits.is_multiple_of(ANNOUNCE_COMMITS) {
            let aborts = self.result.kinds.iter().map(|kind| kind.aborts).sum();
            board.announce(c, self.worker, self.commits, aborts);
        }
        if self.job.schedule.commits_max.is_some_and(|most| self.commits >= most) {
            P::store(c, board.stop(), 1, Ordering::Relaxed);
        }
    }

    fn rolled_back(&mut self, kind: usize, began: Nanos, origin: Origin, now: Nanos) -> Result<(), RunError> {
        if self.warm {
            let counts = &mut self.result.kinds[kind];
            counts.rollbacks += 1;
            counts.latency_nanos.saturating_record(now.since(began));
        }
        self.answer(origin, now)
    }

    /// True if all remaining transactions wait for answers only.
    fn has_none(&self) -> bool {
        self.current.is_none() && self.aside.is_empty() && self.distributed.is_empty()
    }

    /// Makes one attempt of a local transaction, which waits for the next attempt after a conflict.
    /// Returns the time afterwards.
    #[inline]
    fn run_here(&mut self, mut transaction: Deferred<W::Procedure>) -> Result<Nanos, RunError> {
        let began = transaction.began;
        P::code(self.c, Code::Driver);
        let (kind, lines) = (W::kind(&transaction.procedure), W::code_lines(&transaction.procedure));
        P::code(self.c, Code::Procedure { number: kind as u8, lines });
        let bounds = Bounds { deadline: self.job.plan.deadline(began), attempts_max: Some(1) };
        self.executor.session().turn_to_another(transaction.attempts > 0);
        let ending = if self.avoids_snapshots && transaction.procedure.read_only() {
            let (session, tables, actions) = (self.executor.session(), self.job.tables, &mut self.actions);
            run_as(session, Mode::Single, tables, &mut transaction.procedure, actions, &bounds)
        } else {
            self.executor.run(&mut transaction.procedure, &bounds)
        };
        let now = P::now(self.c);
        match ending {
            Ok(Ending::Committed((), commit)) => {
                self.committed(kind, began, transaction.origin, now, commit)?;
            }
            Ok(Ending::RolledBack(_)) => self.rolled_back(kind, began, transaction.origin, now)?,
            Err(abort) if abort.is_conflict() => {
                let waiting = Box::new(self.defer(transaction, true, now)?);
                // The conflict may last for a round trip, or until a commit is durable: the worker
                // runs other transactions meanwhile.
                match self.aside.len() < self.aside_max {
                    true => self.aside.push(waiting),
                    false => self.current = Some(waiting),
                }
            }
            Err(abort) => return Err(self.failure(kind, abort)),
        }
        Ok(now)
    }

    /// Waits for answers, or until a transaction can be tried again: the current one at `ready`.
    /// Returns the time afterwards.
    fn wait_for(&mut self, now: Nanos, ready: Option<Nanos>) -> Result<Nanos, RunError> {
        let aside = self.aside.iter().map(|waiting| waiting.ready);
        let moments = aside.chain(self.next_again()).chain(ready);
        let category = if ready.is_some() { Category::Backoff } else { Category::Communication };
        self.wait(category, moments.fold(now.plus(POLL_NANOS), Nanos::min))
    }

    fn wait(&mut self, category: Category, deadline: Nanos) -> Result<Nanos, RunError> {
        self.member.check_log(self.executor.session()).map_err(RunError::of)?;
        self.hurry();
        self.member.wait(self.c, self.executor.session(), category, deadline);
        Ok(P::now(self.c))
    }
}
