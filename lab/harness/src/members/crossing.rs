//! A worker's transactions over several instances: it gathers, submits and repeats them.
//!
//! If branches lock whole partitions, a worker has one such transaction in flight at a time
//! ([`Member::can_submit`](distributed::Member::can_submit)). Transactions that are drawn meanwhile
//! gather, and those with the same other instance are submitted as one ([`crate::members::batch`]).

use std::collections::VecDeque;

use boundary::Bounds;
use distributed::{Done, End};
use platform::Nanos;
use terms::Abort;
use workloads::Workload;

use super::{MemberWorker, broken};
use crate::error::RunError;
use crate::host::Host;
use crate::members::batch::Batch;
use crate::members::waiting::{Distributed, Gathered, Ticket, Tickets, Waiting};
use crate::plan::{Durability, Missing};
use crate::retry::Deferred;

/// Most transactions that are submitted as one: their message stays far below the bound of a
/// message.
const BATCH_MAX: usize = 32;
/// Longest wait of a local transaction for a branch that locks its partition, before it tries again
/// in any case.
const PART_NANOS: u64 = 1_000_000;
/// Attempts of a local transaction that pause as after a conflict with another local one.
const LOCAL_ATTEMPTS: u32 = 3;

impl<P: Host, W: Workload> MemberWorker<'_, '_, P, W> {
    /// Processes messages as a member, and the transactions that have ended. Returns true if a
    /// message was received.
    pub(crate) fn process_messages(&mut self) -> Result<bool, RunError> {
        let mut ended = std::mem::take(&mut self.ended);
        let some = self.member.turn(self.c, self.executor.session(), &mut ended).map_err(broken)?;
        for Done { procedure, ticket, end } in ended.drain(..) {
            self.end(procedure, ticket, &end)?;
        }
        self.ended = ended;
        if self.arrivals.is_some() || self.member.counts().losses > 0 {
            self.process_news()?;
        }
        Ok(some)
    }

    /// Processes the end of an attempt, of one transaction or of several as one.
    fn end(&mut self, batch: Batch<W::Procedure>, tickets: Tickets, end: &End) -> Result<(), RunError> {
        let (count, rolls_back) = (batch.count(), batch.rolls_back());
        let now = P::now(self.c);
        match end {
            End::Committed(_) => self.distributed.pace.committed(now.since(tickets.submitted)),
            End::Conflict => self.distributed.pace.conflicted(),
            _ => {}
        }
        for (number, procedure) in batch.into_members().enumerate() {
            let Ticket { began, attempts, origin } = tickets.of(number);
            let kind = W::kind(&procedure);
            let transaction = Deferred { procedure, began, attempts, origin };
            match end {
                End::Committed(commit) => {
                    self.result.distributed += u64::from(self.warm);
                    self.committed(kind, began, origin, P::now(self.c), *commit)?;
                }
                End::RolledBack(_) if count == 1 => self.rolled_back(kind, began, origin, now)?,
                // The transaction has read changes of others in the batch, which are undone.
                End::RolledBack(_) => self.try_later(transaction, rolls_back == Some(number), now)?,
                End::Conflict => self.try_later(transaction, false, now)?,
                End::Missing(_) if self.job.plan.missing == Missing::Refuse => {
                    self.result.refused += 1;
                    self.answer(origin, now)?;
                }
                End::Missing(_) => self.try_later(transaction, false, now)?,
                End::Failed(failure) => {
                    let kind = self.job.workload.kinds()[kind];
                    return Err(RunError::Refused(format!("{kind}: {failure}")));
                }
            }
        }
        Ok(())
    }

    fn try_later(
        &mut self,
        transaction: Deferred<W::Procedure>,
        alone: bool,
        now: Nanos,
    ) -> Result<(), RunError> {
        let waiting = self.defer(transaction, false, now)?;
        self.distributed.later.push(Waiting { alone, ..waiting });
        Ok(())
    }

    /// Schedules the next attempt of a transaction that conflicted.
    pub(crate) fn defer(
        &mut self,
        transaction: Deferred<W::Procedure>,
        is_here: bool,
        now: Nanos,
    ) -> Result<Waiting<W::Procedure>, RunError> {
        let Deferred { procedure, began, attempts, origin } = transaction;
        let attempts = attempts + 1;
        let kind = W::kind(&procedure);
        if self.job.plan.deadline(began).is_some_and(|deadline| now >= deadline) {
            return Err(self.failure(kind, Abort::Deadline));
        }
        if self.warm {
            self.result.kinds[kind].aborts += 1;
            self.result.attempts_max = self.result.attempts_max.max(attempts + 1);
        }
        let holds = is_here && self.is_durable() && self.member.holds_part();
        let waits_for_part = holds && self.distributed.in_order;
        let blocked_at = waits_for_part.then(|| self.member.parts_released());
        let pause = if waits_for_part {
            PART_NANOS
        } else if !is_here || holds || attempts > LOCAL_ATTEMPTS {
            self.distributed.pace.pause(&mut self.backoff, attempts)
        } else {
            self.backoff.nanos(attempts, false)
        };
        let transaction = Deferred { procedure, began, attempts, origin };
        Ok(Waiting { transaction, ready: now.plus(pause), is_here, alone: false, blocked_at })
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.job.plan.durability != Durability::None
    }

    /// True if one more transaction over several instances may be in flight.
    pub(crate) fn can_submit(&self) -> bool {
        let Distributed { later, gathered, pace, .. } = &self.distributed;
        self.member.open() + later.len() + gathered.len() < pace.in_flight_max()
    }

    /// True if a transaction that waits for its next attempt may be in flight.
    fn can_submit_again(&self) -> bool {
        self.distributed.in_order || self.member.open() < self.distributed.pace.in_flight_max()
    }

    /// Begins an attempt, now or when the worker can send requests.
    pub(crate) fn submit(
        &mut self,
        mut transaction: Deferred<W::Procedure>,
        alone: bool,
    ) -> Result<(), RunError> {
        if !self.distributed.in_order {
            let Deferred { procedure, began, attempts, origin } = transaction;
            let tickets = Tickets::one(Ticket { began, attempts, origin }, P::now(self.c));
            return self.submit_all(Batch::one(procedure), tickets);
        }
        let kind = W::kind(&transaction.procedure);
        let to = if alone { Ok(None) } else { self.member.other_instance(&mut transaction.procedure) };
        let to = to.map_err(|abort| self.failure(kind, abort))?;
        self.distributed.gathered.push_back(Gathered { transaction, to });
        self.submit_gathered()
    }

    /// Submits the gathered transactions, if the worker can send requests.
    pub(crate) fn submit_gathered(&mut self) -> Result<(), RunError> {
        let gathered = &mut self.distributed.gathered;
        let can_submit = self.member.can_submit();
        self.member.wait_for_turn(!can_submit && !gathered.is_empty());
        if gathered.is_empty() || !can_submit {
            return Ok(());
        }
        let to = gathered[0].to;
        let (mut procedures, mut tickets, mut others) = (Vec::new(), Vec::new(), VecDeque::new());
        while let Some(one) = gathered.pop_front() {
            let joins = procedures.is_empty() || to.is_some() && one.to == to && procedures.len() < BATCH_MAX;
            if !joins {
                others.push_back(one);
                continue;
            }
            let Deferred { procedure, began, attempts, origin } = one.transaction;
            procedures.push(procedure);
            tickets.push(Ticket { began, attempts, origin });
        }
        self.distributed.gathered = others;
        let kind = W::kind(&procedures[0]);
        let me = self.me.instance;
        let member = &mut self.member;
        let batch = Batch::of(procedures, |action| member.instance_of(action).map(|instance| instance == me));
        let batch = batch.map_err(|abort| self.failure(kind, abort))?;
        self.submit_all(batch, Tickets::all(tickets, P::now(self.c)))
    }

    fn submit_all(&mut self, batch: Batch<W::Procedure>, tickets: Tickets) -> Result<(), RunError> {
        let bounds = Bounds { deadline: self.job.plan.deadline(tickets.of(0).began), attempts_max: Some(1) };
        let submitted = self.member.submit(self.c, self.executor.session(), batch, tickets, bounds);
        submitted.map_err(broken)
    }

    /// Tries the transactions again whose pauses are over. Returns the time afterwards.
    pub(crate) fn try_again(&mut self, now: Nanos) -> Result<Nanos, RunError> {
        while self.can_submit_again()
            && let Some(waiting) = self.distributed.take_ready(now)
        {
            self.submit(waiting.transaction, waiting.alone)?;
        }
        self.submit_gathered()?;
        let mut after = now;
        while let Some(ready) = self.aside.iter().position(|waiting| self.is_ready(waiting, now)) {
            let waiting = self.aside.swap_remove(ready);
            after = self.run_here(waiting.transaction)?;
        }
        Ok(after)
    }

    /// True if a local transaction can be tried again.
    pub(crate) fn is_ready(&self, waiting: &Waiting<W::Procedure>, now: Nanos) -> bool {
        waiting.ready <= now
            || waiting.blocked_at.is_some_and(|released| released != self.member.parts_released())
    }

    /// The time at which the next transaction over several instances can be tried again, if one may
    /// be in flight.
    pub(crate) fn next_again(&self) -> Option<Nanos> {
        let later = self.distributed.later.iter().map(|waiting| waiting.ready);
        later.min().filter(|_| self.can_submit_again())
    }

    /// Makes the log write the records for which branches wait while they hold locks.
    pub(crate) fn hurry(&mut self) {
        self.member.hurry(self.executor.session());
    }
}
