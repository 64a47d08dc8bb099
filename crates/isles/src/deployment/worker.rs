//! A worker of a deployment: it runs the procedures of its queue, executes and prepares branches
//! for other instances, and sleeps when it has no work.
//!
//! Several procedures over instances are in progress at a time. A procedure of the worker's own
//! instance runs to its end at once. A caller receives its reply when the procedure is durable; the
//! worker continues in the meantime.
// Callers are threads of the program, outside the engine.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use boundary::{AnySession, Backoff, Bounds, Ending, run_as};
use distributed::flight::Failure;
use distributed::mesh::Seat;
use distributed::messages::{MESSAGE_BYTES_MAX, Unsendable};
use distributed::{Done, End, HomeInstance, Map, Member, MemberError, Setting, WorkerName};
use platform::{Hardware, HardwareCore, Nanos, Platform};
use terms::{Abort, Category, Conflict, Epoch, Faults, Mode};

use super::procedure::{Action, Procedure, RunningProcedure, StepTables};
use super::queue::{ProcedureJob, Queue, Reply};
use crate::error::{Error, Result};
use crate::options::{CancelToken, is_cancelled};
use crate::shared::DatabaseShared;

/// Most procedures over several instances that a worker has in progress.
const IN_FLIGHT_MAX: usize = 64;
/// Interval at which a worker polls the log while replies wait to be durable.
const POLL_NANOS: u64 = 50_000;
/// Longest sleep of a worker without work.
const IDLE_NANOS: u64 = 3_600_000_000_000;

/// State that all workers of a deployment share.
pub(super) struct DeploymentState<Q: Procedure> {
    pub map: Map,
    pub fingerprint: u32,
    pub parts: u16,
    pub tables: Q::Tables,
    pub durable: bool,
    /// Queue of each worker.
    pub queues: Vec<Queue<Q>>,
}

impl<Q: Procedure> DeploymentState<Q> {
    /// Stops all workers: if one worker is missing, the others would wait for it.
    pub(super) fn stop(&self, why: &Error) {
        self.queues.iter().for_each(|queue| queue.stop(why));
    }
}

/// Parameters of one worker.
pub(super) struct WorkerStart {
    pub me: WorkerName,
    pub seat: Seat<Hardware>,
    /// Database of its instance.
    pub shared: Arc<DatabaseShared>,
    /// Number of this opening of the instance.
    pub opening: u64,
}

/// Works until the queue is closed and no other worker needs this one any more.
pub(super) fn work<Q: Procedure>(deployment: &DeploymentState<Q>, start: WorkerStart) {
    let me = start.me;
    let queue = &deployment.queues[usize::from(me.worker)];
    let left = catch_unwind(AssertUnwindSafe(|| work_at(deployment, start, queue)));
    let left = left.unwrap_or_else(|_| {
        let what = format!("the deployment has stopped: worker {me} panicked outside of all steps");
        Err(Error::Deployment(what))
    });
    if let Err(why) = &left {
        deployment.stop(why);
    }
    queue.give_up(&queue.broken().unwrap_or_else(ended));
}

/// Error of a deployment that was closed.
pub(super) fn ended() -> Error {
    Error::Deployment("the deployment is closed".to_owned())
}

fn work_at<Q: Procedure>(
    deployment: &DeploymentState<Q>,
    start: WorkerStart,
    queue: &Queue<Q>,
) -> Result<()> {
    let (c, me) = (Hardware::core(), start.me);
    let tables = StepTables { own: deployment.tables, shared: &start.shared };
    let setting = Setting {
        me,
        tables: &tables,
        map: &deployment.map,
        fingerprint: deployment.fingerprint,
        incarnation: start.opening,
        durable: deployment.durable,
        in_order: false,
        own_first: false,
        duplicate_one_in: 0,
        faults: Faults::NONE,
    };
    let Seat { bell, connections } = start.seat;
    let member = Member::new(setting, bell, connections).map_err(broken)?;
    let mut session = start.shared.inner.session(c, None, false)?;
    let seed = u64::from(me.worker) + 1;
    session.seed(seed);
    let mut worker = DeploymentWorker {
        c,
        deployment,
        queue,
        tables: &tables,
        member,
        session: &mut *session,
        backoff: Backoff::new(seed),
        retries: Vec::new(),
        replies: VecDeque::new(),
        actions: Vec::new(),
    };
    let worked = worker.work();
    let DeploymentWorker { retries, replies, member, .. } = worker;
    drop(member);
    if let Err(why) = &worked {
        retries.into_iter().for_each(|retry| retry.request.reply.send(Err(why.clone())));
        replies.into_iter().for_each(|pending| match (why, pending.result) {
            // The log has stopped, so this error is reported whatever it depends on.
            (Error::NotDurable(_), _) => pending.reply.send(Err(why.clone())),
            (_, Ok(_)) => pending.reply.send(Err(Error::DurabilityUnknown)),
            (_, Err(_)) => pending.reply.send(Err(why.clone())),
        });
    }
    worked
}

fn broken(error: MemberError) -> Error {
    match error {
        MemberError::Log(Abort::NotDurable(why)) => Error::NotDurable(why),
        error => Error::Deployment(format!("the deployment has stopped: {error}")),
    }
}

/// State of a procedure's request.
struct RequestState<Q> {
    deadline: Option<Nanos>,
    attempts: u32,
    attempts_max: u32,
    cancel: Option<CancelToken>,
    reply: ReplySender<Q>,
}

/// Sends a reply exactly once: an error if it is dropped before `send`.
struct ReplySender<Q> {
    reply: Option<Arc<Reply<Q>>>,
    /// True if the procedure has committed.
    committed: bool,
}

impl<Q> ReplySender<Q> {
    fn send(mut self, result: Result<Q>) {
        if let Some(reply) = self.reply.take() {
            reply.send(result);
        }
    }
}

impl<Q> Drop for ReplySender<Q> {
    fn drop(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        reply.send(Err(match self.committed {
            true => Error::DurabilityUnknown,
            false => Error::Deployment("the deployment has stopped".to_owned()),
        }));
    }
}

/// A procedure that waits for its next attempt.
struct PendingRetry<'d, Q: Procedure> {
    running: RunningProcedure<'d, Q>,
    request: RequestState<Q>,
    ready: Nanos,
}

/// A reply that is sent when its epoch is durable.
struct PendingReply<Q> {
    epoch: Epoch,
    deadline: Option<Nanos>,
    result: Result<Q>,
    reply: ReplySender<Q>,
}

struct DeploymentWorker<'a, 'd, Q: Procedure> {
    c: HardwareCore,
    deployment: &'a DeploymentState<Q>,
    queue: &'a Queue<Q>,
    tables: &'d StepTables<'d, Q::Tables>,
    member: Member<'d, Hardware, RunningProcedure<'d, Q>, RequestState<Q>>,
    session: &'a mut (dyn AnySession<'d> + 'd),
    backoff: Backoff,
    retries: Vec<PendingRetry<'d, Q>>,
    replies: VecDeque<PendingReply<Q>>,
    actions: Vec<Action<Q::Step>>,
}

impl<'d, Q: Procedure> DeploymentWorker<'_, 'd, Q> {
    fn work(&mut self) -> Result<()> {
        let mut done = Vec::new();
        loop {
            if let Some(why) = self.queue.broken() {
                return Err(why);
            }
            self.member.turn(self.c, self.session, &mut done).map_err(broken)?;
            for Done { procedure, ticket: request, end } in done.drain(..) {
                self.finish(procedure, request, end);
            }
            let now = Hardware::now(self.c);
            self.session.tend(now);
            self.send_durable_replies(now);
            if let Some(ready) = self.retries.iter().position(|retry| retry.ready <= now) {
                let PendingRetry { running, request, .. } = self.retries.swap_remove(ready);
                self.attempt(running, request)?;
                continue;
            }
            if self.in_flight() < IN_FLIGHT_MAX
                && let Some(job) = self.queue.take()
            {
                let ProcedureJob { procedure, outline, deadline, attempts_max, cancel, reply } = job;
                let reply = ReplySender { reply: Some(reply), committed: false };
                let request = RequestState { deadline, attempts: 0, attempts_max, cancel, reply };
                self.attempt(RunningProcedure::new(procedure, outline, self.deployment.parts), request)?;
                continue;
            }
            let is_closed = self.queue.is_closed();
            let is_over = is_closed && self.in_flight() == 0 && self.replies.is_empty();
            if is_over && self.member.leave(self.c).map_err(broken)? {
                return Ok(());
            }
            self.wait(now, is_closed)?;
        }
    }

    fn in_flight(&self) -> usize {
        self.member.open() + self.retries.len()
    }

    /// Sleeps until there is work.
    fn wait(&mut self, now: Nanos, is_closed: bool) -> Result<()> {
        self.member.check_log(self.session).map_err(broken)?;
        if let Some(PendingReply { epoch, .. }) = self.replies.front() {
            let polled = self.session.wait_durable_until(*epoch, Some(Nanos(0)));
            polled.map_err(|abort| Error::NotDurable(abort.to_string()))?;
        }
        let is_idle = self.replies.is_empty() && self.member.is_idle() && !is_closed;
        let longest = now.plus(if is_idle { IDLE_NANOS } else { POLL_NANOS });
        let until = self.retries.iter().map(|retry| retry.ready).fold(longest, Nanos::min);
        let (queue, takes) = (self.queue, self.in_flight() < IN_FLIGHT_MAX);
        let ready = &mut |_| takes && !queue.is_empty() || queue.is_closed() != is_closed;
        self.member.wait_or(self.c, self.session, Category::Communication, until, ready);
        Ok(())
    }

    /// Sends the replies whose epochs are durable or whose deadlines have passed.
    fn send_durable_replies(&mut self, now: Nanos) {
        for _ in 0..self.replies.len() {
            let Some(pending) = self.replies.pop_front() else { return };
            if self.session.is_durable(pending.epoch) {
                pending.reply.send(pending.result);
            } else if pending.deadline.is_some_and(|deadline| now >= deadline) {
                let committed = pending.result.is_ok();
                let why = if committed { Error::DurabilityUnknown } else { Error::Deadline };
                pending.reply.send(Err(why));
            } else {
                self.replies.push_back(pending);
            }
        }
    }

    /// Begins an attempt of a procedure, which ends now or later.
    fn attempt(&mut self, mut running: RunningProcedure<'d, Q>, mut request: RequestState<Q>) -> Result<()> {
        if is_cancelled(request.cancel.as_ref()) {
            request.reply.send(Err(Error::Cancelled));
            return Ok(());
        }
        request.attempts += 1;
        let bounds = Bounds { deadline: request.deadline, attempts_max: Some(1) };
        if self.member.home_instance(&running) == HomeInstance::Elsewhere {
            let submitted = self.member.submit(self.c, self.session, running, request, bounds);
            return submitted.map_err(broken);
        }
        self.session.turn_to_another(request.attempts > 1);
        let (tables, actions) = (self.tables, &mut self.actions);
        let end = match run_as(self.session, Mode::Single, tables, &mut running, actions, &bounds) {
            Ok(Ending::Committed((), commit)) => End::Committed(commit),
            Ok(Ending::RolledBack(depends_on)) => End::RolledBack(depends_on),
            Err(abort) if abort.is_conflict() => End::Conflict,
            Err(abort) => End::Failed(Failure::Here(abort)),
        };
        self.finish(running, request, end);
        Ok(())
    }

    fn finish(&mut self, running: RunningProcedure<'d, Q>, request: RequestState<Q>, end: End) {
        let RequestState { attempts, attempts_max, deadline, .. } = request;
        match end {
            End::Committed(commit) => {
                let (epoch, result) = (commit.durable_with, Ok(running.procedure));
                let mut reply = request.reply;
                reply.committed = true;
                self.replies.push_back(PendingReply { epoch, deadline, result, reply });
            }
            End::RolledBack(depends_on) => self.rolled_back(running, request, depends_on),
            End::Conflict => {
                let now = Hardware::now(self.c);
                let late = deadline.is_some_and(|deadline| now >= deadline);
                if late || attempts >= attempts_max {
                    let reason = Conflict::Locked;
                    let why = if late { Error::Deadline } else { Error::Conflict { attempts, reason } };
                    return request.reply.send(Err(why));
                }
                let ready = now.plus(self.backoff.nanos(attempts, false));
                self.retries.push(PendingRetry { running, request, ready });
            }
            End::Missing(at) => {
                let what = "the instance is gone".to_owned();
                request.reply.send(Err(Error::Elsewhere { instance: usize::from(at.instance), what }));
            }
            End::Failed(failure) => {
                let why = match failure {
                    Failure::Here(abort) => Error::from_abort(&abort, self.tables.shared.tables(), attempts),
                    Failure::Elsewhere { at, what } => {
                        Error::Elsewhere { instance: usize::from(at.instance), what }
                    }
                    Failure::UnsendableRequest { why, .. } => {
                        unsendable(why, "a step that cannot be written as bytes")
                    }
                    Failure::UnsendableOutputs { why, .. } => {
                        unsendable(why, "an output that cannot be written as bytes")
                    }
                };
                request.reply.send(Err(why));
            }
        }
    }

    /// Queues the reply of a procedure that rolled back by its own decision, which depends on rows
    /// that are durable with this epoch.
    fn rolled_back(&mut self, running: RunningProcedure<'d, Q>, request: RequestState<Q>, epoch: Epoch) {
        let result = Err(running.reason.unwrap_or(Error::RollBack));
        self.replies.push_back(PendingReply {
            epoch,
            deadline: request.deadline,
            result,
            reply: request.reply,
        });
    }
}

/// Converts the reason why a step or an output cannot be sent.
fn unsendable(why: Unsendable, unwritable: &'static str) -> Error {
    match why {
        Unsendable::TooLong(bytes) => Error::MessageTooLong { bytes, limit: MESSAGE_BYTES_MAX as u64 },
        Unsendable::Unwritable => Error::Misuse(unwritable),
    }
}
