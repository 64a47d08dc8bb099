//! How a worker coordinates the phases of its own transactions.
//!
//! As long as all actions are of its own partitions and no other worker has locked what they touch,
//! they run in place. From the first phase on that needs another worker, all that the transaction
//! touches here is locked, and the worker serves others while it waits for answers.

use boundary::Plan;
use platform::{Nanos, Platform, Work};
use terms::{Abort, Category, Conflict, Fault};

use crate::counting::For;
use crate::executor::ActionExecutor;
use crate::locks::{Answer, count_comparisons};
use crate::messages::OwnerMessage;
use crate::owned::owned_routes;
use crate::post::{LOSS_CHECK_NANOS, gone};
use crate::sampling::homes;
use crate::worker::{Attempt, OwnerWorker, WORKER_BITS};

impl<P: Platform> OwnerWorker<'_, P> {
    pub(crate) fn run_phases(
        &mut self,
        executor: &mut dyn ActionExecutor,
        deadline: Option<Nanos>,
    ) -> Result<(), Abort> {
        let copied = executor.copied();
        P::work(self.c, Work::CopyWord, copied.procedure);
        for phase in 0.. {
            match executor.plan(phase) {
                Plan::Commit => break,
                Plan::RollBack => return Err(Abort::RollBack),
                Plan::Run => {
                    P::work(self.c, Work::CopyWord, copied.action * executor.actions() as u32);
                    self.attempt.phase = phase;
                    self.run_phase(executor, deadline)?;
                }
            }
        }
        Ok(())
    }

    fn run_phase(&mut self, executor: &mut dyn ActionExecutor, deadline: Option<Nanos>) -> Result<(), Abort> {
        let is_here = self.route(executor)?;
        let from = self.attempt.from;
        if is_here && !self.attempt.is_among {
            let routes = &self.attempt.routes.entries()[from..];
            let is_free = self.owned.is_unlocked() || self.shared.faults.has(Fault::MissingOwnerLocks) || {
                count_comparisons::<P>(self.c, self.owned.locks().comparisons(routes.len()));
                self.owned.locks().is_free(self.me, routes)
            };
            if is_free {
                return self.run_here(executor, deadline);
            }
            self.counts.waits += 1;
        }
        self.lock_all(from);
        self.send_requests(executor, deadline)?;
        self.count_requested();
        self.request_here(executor, from, deadline);
        self.receive_all(executor, deadline)
    }

    /// Finds out who owns what the actions of the phase touch: whether this worker owns all of it.
    fn route(&mut self, executor: &dyn ActionExecutor) -> Result<bool, Abort> {
        let Attempt { routes, from: first, ends, owners, .. } = &mut self.attempt;
        ends.clear();
        owners.clear();
        let mut is_here = true;
        let mut from = routes.entries().len();
        *first = from;
        for action in 0..executor.actions() {
            executor.route(action, routes);
            let end = routes.entries().len();
            P::work(self.c, Work::Step, 2 * (end - from) as u32);
            let owner = self.map.owner(&routes.entries()[from..end])?.unwrap_or(self.me);
            let owner = match self.shared.faults.has(Fault::MisroutedActions)
                && self.last_age >> WORKER_BITS & 1 == 1
            {
                true => (owner + 1) % self.shared.workers() as u16,
                false => owner,
            };
            is_here &= owner == self.me;
            owners.push(owner);
            ends.push(end);
            from = end;
        }
        Ok(is_here)
    }

    /// Runs the actions of the phase that belong here, in the transaction's branch.
    pub(crate) fn run_here(
        &mut self,
        executor: &mut dyn ActionExecutor,
        deadline: Option<Nanos>,
    ) -> Result<(), Abort> {
        let me = self.me;
        let branch = self.branch(executor, me)?;
        let began = self.begin_sample();
        let Attempt { phase, owners, .. } = &self.attempt;
        executor.act(branch, deadline, *phase, &|number| owners[number] == me)?;
        self.count_own();
        if let Some(began) = began {
            let mut own = homes(&self.attempt, me);
            let (home, actions) = (own.next().copied(), 1 + own.count());
            self.end_sample(began, home, actions, For::Own);
        }
        Ok(())
    }

    /// Others may be served from here on: what the transaction has touched so far is locked.
    fn lock_all(&mut self, from: usize) {
        if !std::mem::replace(&mut self.attempt.is_among, true) {
            self.draw_age();
            let routes = owned_routes(&self.map, &self.attempt.routes.entries()[..from]);
            count_comparisons::<P>(self.c, routes.len());
            self.owned.locks().hold(self.me, self.age, &routes);
        }
    }

    /// Sends the actions of the phase that belong to others: one message each.
    fn send_requests(&mut self, executor: &dyn ActionExecutor, deadline: Option<Nanos>) -> Result<(), Abort> {
        let Attempt { owners, others, pending, .. } = &mut self.attempt;
        let deadline = deadline.map(|deadline| deadline.0);
        let mut requested: Vec<u16> = Vec::new();
        for to in owners.iter().copied().filter(|owner| *owner != self.me) {
            if requested.contains(&to) {
                continue;
            }
            requested.push(to);
            let count = owners.iter().filter(|owner| **owner == to).count();
            let request = OwnerMessage::Request { age: self.age, deadline, actions: count };
            self.post.send_with_body(to, &request, &mut |body| {
                executor.write(&|number| owners[number] == to, body)
            })?;
            *pending += 1;
            if !others.iter().any(|(other, _)| *other == to) {
                others.push((to, None));
            }
        }
        Ok(())
    }

    /// Runs the actions of the phase that belong here, when their locks are granted.
    fn request_here(&mut self, executor: &mut dyn ActionExecutor, from: usize, deadline: Option<Nanos>) {
        let Attempt { routes, ends, owners, .. } = &self.attempt;
        let mut begin = from;
        let mut own = Vec::new();
        for (end, owner) in ends.iter().zip(owners) {
            if *owner == self.me {
                own.extend(owned_routes(&self.map, &routes.entries()[begin..*end]));
            }
            begin = *end;
        }
        if !owners.contains(&self.me) {
            return;
        }
        count_comparisons::<P>(self.c, own.len() + self.owned.locks().comparisons(own.len()));
        let outcome = match self.request_locks(self.me, self.age, &own, None).0 {
            Answer::Granted => self.run_here(executor, deadline),
            Answer::Refused => {
                self.attempt.is_refused_here = true;
                Err(Abort::Conflict(Conflict::Locked))
            }
            Answer::Waits => {
                self.attempt.pending += 1;
                Ok(())
            }
        };
        if let Err(abort) = outcome {
            self.attempt.failed.get_or_insert(abort);
        }
    }

    /// Serves others until all answers of the phase are there: its synchronization point.
    fn receive_all(
        &mut self,
        executor: &mut dyn ActionExecutor,
        deadline: Option<Nanos>,
    ) -> Result<(), Abort> {
        let before = executor.branches().meter().enter::<P>(self.c, Category::Communication);
        while self.attempt.pending > 0 {
            if !self.receive(executor)? {
                if self.shared.has_lost(self.c) {
                    return Err(gone());
                }
                self.wait_for_answers(LOSS_CHECK_NANOS);
            }
            if std::mem::take(&mut self.attempt.is_granted) {
                self.attempt.pending -= 1;
                executor.branches().meter().enter::<P>(self.c, Category::Useful);
                let outcome = match &self.attempt.failed {
                    Some(_) => Ok(()),
                    None => self.run_here(executor, deadline),
                };
                executor.branches().meter().enter::<P>(self.c, Category::Communication);
                if let Err(abort) = outcome {
                    self.attempt.failed.get_or_insert(abort);
                }
            }
        }
        executor.branches().meter().leave::<P>(self.c, before);
        self.attempt.failed.take().map_or(Ok(()), Err)
    }
}
