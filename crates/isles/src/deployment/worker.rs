//! One worker of a deployment: it runs the procedures that the program hands to it, prepares parts
//! for other instances, and sleeps when there is nothing to do.
//!
//! Several procedures over instances are under way at a time. A procedure that stays in the
//! worker's own instance runs in one go. A caller hears of its procedure when that is durable;
//! meanwhile the worker goes on.
// Callers are threads of the program, which the engine does not know.
#![allow(clippy::disallowed_types)]

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use boundary::{AnySession, run_as};
use boundary::{Backoff, Bounds, Ending};
use distributed::flight::Failure;
use distributed::mesh::Seat;
use distributed::messages::{MESSAGE_BYTES_MAX, Unsaid};
use distributed::{Done, End, HomeInstance, Map, Member, MemberError, Rules, Setting, WorkerName};
use platform::{Hardware, HardwareCore, Nanos, Platform};
use terms::Epoch;
use terms::{Abort, Category, Conflict, Mode};

use super::procedure::{Action, Procedure, Running, StepTables};
use super::queue::{Job, Queue, Reply};
use crate::error::{Error, Result};
use crate::options::{CancelToken, is_cancelled};
use crate::shared::Shared;

/// Procedures over several instances that a worker has under way, at most.
const IN_FLIGHT_MAX: usize = 64;
/// How often a worker looks at the log while something waits to be durable.
const LOOK_NANOS: u64 = 50_000;
/// How often a worker without work wakes up all the same.
const IDLE_NANOS: u64 = 3_600_000_000_000;

/// State that all workers of a deployment share.
pub(super) struct Common<Q: Procedure> {
    pub map: Map,
    pub fingerprint: u32,
    pub parts: u16,
    pub tables: Q::Tables,
    pub durable: bool,
    /// By worker.
    pub queues: Vec<Queue<Q>>,
}

impl<Q: Procedure> Common<Q> {
    /// No worker goes on: without one of them, the others would wait for it.
    pub(super) fn stop(&self, why: &Error) {
        self.queues.iter().for_each(|queue| queue.stop(why));
    }
}

/// The state of one worker.
pub(super) struct Post {
    pub me: WorkerName,
    pub seat: Seat<Hardware>,
    /// The state of its instance.
    pub shared: Arc<Shared>,
    /// The number of this opening of its instance.
    pub opening: u64,
}

/// Works until the queue is closed and nobody needs this worker any more.
pub(super) fn work<Q: Procedure>(common: &Common<Q>, post: Post) {
    let me = post.me;
    let queue = &common.queues[usize::from(me.worker)];
    let left = catch_unwind(AssertUnwindSafe(|| work_at(common, post, queue)));
    let left = left.unwrap_or_else(|_| {
        let what = format!("the deployment has stopped: worker {me} panicked outside of all steps");
        Err(Error::Deployment(what))
    });
    if let Err(why) = &left {
        common.stop(why);
    }
    queue.give_up(&queue.broken().unwrap_or_else(ended));
}

/// Why a deployment that has ended takes no procedure.
pub(super) fn ended() -> Error {
    Error::Deployment("the deployment is closed".to_owned())
}

fn work_at<Q: Procedure>(common: &Common<Q>, post: Post, queue: &Queue<Q>) -> Result<()> {
    let (c, me) = (Hardware::core(), post.me);
    let tables = StepTables { own: common.tables, shared: &post.shared };
    let setting = Setting {
        me,
        tables: &tables,
        map: &common.map,
        fingerprint: common.fingerprint,
        incarnation: post.opening,
        durable: common.durable,
        in_order: false,
        rules: Rules::SOUND,
    };
    let Seat { bell, connections } = post.seat;
    let member = Member::new(setting, bell, connections).map_err(broken)?;
    let session = post.shared.inner.session(c, None, false);
    let mut session = session.map_err(|full| Error::TooManySessions { limit: full.0 })?;
    let seed = u64::from(me.worker) + 1;
    session.seed(seed);
    let mut crew = Crew {
        c,
        common,
        queue,
        tables: &tables,
        member,
        session: &mut *session,
        backoff: Backoff::new(seed),
        waiting: Vec::new(),
        answers: VecDeque::new(),
        actions: Vec::new(),
    };
    let worked = crew.work();
    let Crew { waiting, answers, member, .. } = crew;
    drop(member);
    if let Err(why) = &worked {
        waiting.into_iter().for_each(|waiting| waiting.ticket.reply.give(Err(why.clone())));
        answers.into_iter().for_each(|answer| match (why, answer.result) {
            // It is told whatever it follows from: the log is no more.
            (Error::NotDurable(_), _) => answer.reply.give(Err(why.clone())),
            (_, Ok(_)) => answer.reply.give(Err(Error::DurabilityUnknown)),
            (_, Err(_)) => answer.reply.give(Err(why.clone())),
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

/// The worker's name for a procedure.
struct Ticket<Q> {
    deadline: Option<Nanos>,
    attempts: u32,
    attempts_max: u32,
    cancel: Option<CancelToken>,
    reply: Giver<Q>,
}

/// Gives a reply, whatever happens.
struct Giver<Q> {
    reply: Option<Arc<Reply<Q>>>,
    /// True if the procedure has committed.
    committed: bool,
}

impl<Q> Giver<Q> {
    fn give(mut self, result: Result<Q>) {
        if let Some(reply) = self.reply.take() {
            reply.give(result);
        }
    }
}

impl<Q> Drop for Giver<Q> {
    fn drop(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        reply.give(Err(match self.committed {
            true => Error::DurabilityUnknown,
            false => Error::Deployment("the deployment has stopped".to_owned()),
        }));
    }
}

/// A procedure that waits for its next attempt.
struct Waiting<'d, Q: Procedure> {
    running: Running<'d, Q>,
    ticket: Ticket<Q>,
    ready: Nanos,
}

/// A caller that hears of its procedure when that is durable.
struct Answer<Q> {
    epoch: Epoch,
    deadline: Option<Nanos>,
    result: Result<Q>,
    reply: Giver<Q>,
}

struct Crew<'a, 'd, Q: Procedure> {
    c: HardwareCore,
    common: &'a Common<Q>,
    queue: &'a Queue<Q>,
    tables: &'d StepTables<'d, Q::Tables>,
    member: Member<'d, Hardware, Running<'d, Q>, Ticket<Q>>,
    session: &'a mut (dyn AnySession<'d> + 'd),
    backoff: Backoff,
    waiting: Vec<Waiting<'d, Q>>,
    answers: VecDeque<Answer<Q>>,
    actions: Vec<Action<Q::Step>>,
}

impl<'d, Q: Procedure> Crew<'_, 'd, Q> {
    fn work(&mut self) -> Result<()> {
        let mut done = Vec::new();
        loop {
            if let Some(why) = self.queue.broken() {
                return Err(why);
            }
            self.member.turn(self.c, self.session, &mut done).map_err(broken)?;
            for Done { procedure, ticket, end } in done.drain(..) {
                self.ended(procedure, ticket, end);
            }
            let now = Hardware::now(self.c);
            self.session.tend(now);
            self.answer(now);
            if let Some(ready) = self.waiting.iter().position(|waiting| waiting.ready <= now) {
                let Waiting { running, ticket, .. } = self.waiting.swap_remove(ready);
                self.attempt(running, ticket)?;
                continue;
            }
            if self.under_way() < IN_FLIGHT_MAX
                && let Some(job) = self.queue.take()
            {
                let Job { procedure, outline, deadline, attempts_max, cancel, reply } = job;
                let reply = Giver { reply: Some(reply), committed: false };
                let ticket = Ticket { deadline, attempts: 0, attempts_max, cancel, reply };
                self.attempt(Running::new(procedure, outline, self.common.parts), ticket)?;
                continue;
            }
            let is_closed = self.queue.is_closed();
            let is_over = is_closed && self.under_way() == 0 && self.answers.is_empty();
            if is_over && self.member.leave(self.c).map_err(broken)? {
                return Ok(());
            }
            self.wait(now, is_closed)?;
        }
    }

    fn under_way(&self) -> usize {
        self.member.open() + self.waiting.len()
    }

    /// Sleeps until something comes.
    fn wait(&mut self, now: Nanos, is_closed: bool) -> Result<()> {
        self.member.check_log(self.session).map_err(broken)?;
        if let Some(Answer { epoch, .. }) = self.answers.front() {
            let looked = self.session.wait_durable_until(*epoch, Some(Nanos(0)));
            looked.map_err(|abort| Error::NotDurable(abort.to_string()))?;
        }
        let is_idle = self.answers.is_empty() && self.member.is_idle() && !is_closed;
        let longest = now.plus(if is_idle { IDLE_NANOS } else { LOOK_NANOS });
        let until = self.waiting.iter().map(|waiting| waiting.ready).fold(longest, Nanos::min);
        let (queue, takes) = (self.queue, self.under_way() < IN_FLIGHT_MAX);
        let ready = &mut |_| takes && !queue.is_empty() || queue.is_closed() != is_closed;
        self.member.wait_or(self.c, self.session, (Category::Communication, until), ready);
        Ok(())
    }

    /// Answers those whose procedures are durable, and those whose deadlines have passed before
    /// that.
    fn answer(&mut self, now: Nanos) {
        for _ in 0..self.answers.len() {
            let Some(answer) = self.answers.pop_front() else { return };
            if self.session.is_durable(answer.epoch) {
                answer.reply.give(answer.result);
            } else if answer.deadline.is_some_and(|deadline| now >= deadline) {
                let committed = answer.result.is_ok();
                let why = if committed { Error::DurabilityUnknown } else { Error::Deadline };
                answer.reply.give(Err(why));
            } else {
                self.answers.push_back(answer);
            }
        }
    }

    /// One attempt of a procedure, whose end comes now or later.
    fn attempt(&mut self, mut running: Running<'d, Q>, mut ticket: Ticket<Q>) -> Result<()> {
        if is_cancelled(ticket.cancel.as_ref()) {
            ticket.reply.give(Err(Error::Cancelled));
            return Ok(());
        }
        ticket.attempts += 1;
        let bounds = Bounds { deadline: ticket.deadline, attempts_max: Some(1) };
        if self.member.home_instance(&running) == HomeInstance::Elsewhere {
            let submitted = self.member.submit(self.c, self.session, (running, ticket), bounds);
            return submitted.map_err(broken);
        }
        self.session.turn_to_another(ticket.attempts > 1);
        let run = (self.tables, &mut running, &mut self.actions);
        let end = match run_as(self.session, Mode::Single, run, &bounds) {
            Ok(Ending::Committed((), commit)) => End::Committed(commit),
            Ok(Ending::RolledBack(depends_on)) => End::RolledBack(depends_on),
            Err(abort) if abort.is_conflict() => End::Conflict,
            Err(abort) => End::Failed(Failure::Here(abort)),
        };
        self.ended(running, ticket, end);
        Ok(())
    }

    fn ended(&mut self, running: Running<'d, Q>, ticket: Ticket<Q>, end: End) {
        let Ticket { attempts, attempts_max, deadline, .. } = ticket;
        match end {
            End::Committed(commit) => {
                let (epoch, result) = (commit.durable_with, Ok(running.procedure));
                let mut reply = ticket.reply;
                reply.committed = true;
                self.answers.push_back(Answer { epoch, deadline, result, reply });
            }
            End::RolledBack(depends_on) => self.rolled_back(running, ticket, depends_on),
            End::Conflict => {
                let now = Hardware::now(self.c);
                let late = deadline.is_some_and(|deadline| now >= deadline);
                if late || attempts >= attempts_max {
                    let reason = Conflict::Locked;
                    let why = if late { Error::Deadline } else { Error::Conflict { attempts, reason } };
                    return ticket.reply.give(Err(why));
                }
                let ready = now.plus(self.backoff.nanos(attempts, false));
                self.waiting.push(Waiting { running, ticket, ready });
            }
            End::Missing(at) => {
                let what = "the instance is gone".to_owned();
                ticket.reply.give(Err(Error::Elsewhere { instance: usize::from(at.instance), what }));
            }
            End::Failed(failure) => {
                let why = match failure {
                    Failure::Here(abort) => Error::from_abort(&abort, self.tables.shared.tables(), attempts),
                    Failure::Elsewhere { at, what } => {
                        Error::Elsewhere { instance: usize::from(at.instance), what }
                    }
                    Failure::Unasked { why, .. } => unsaid(why, "a step that cannot be written as bytes"),
                    Failure::Unanswered { why, .. } => {
                        unsaid(why, "an output that cannot be written as bytes")
                    }
                };
                ticket.reply.give(Err(why));
            }
        }
    }

    /// A procedure has rolled back by its own decision, which follows from what is durable with
    /// this epoch.
    fn rolled_back(&mut self, running: Running<'d, Q>, ticket: Ticket<Q>, epoch: Epoch) {
        let result = Err(running.reason.unwrap_or(Error::RollBack));
        self.answers.push_back(Answer { epoch, deadline: ticket.deadline, result, reply: ticket.reply });
    }
}

/// The error of a value that cannot travel.
fn unsaid(why: Unsaid, unwritable: &'static str) -> Error {
    match why {
        Unsaid::TooLong(bytes) => Error::MessageTooLong { bytes, limit: MESSAGE_BYTES_MAX as u64 },
        Unsaid::Unwritable => Error::Misuse(unwritable),
    }
}
