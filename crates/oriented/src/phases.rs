//! How a worker coordinates the phases of its own transactions.
//!
//! As long as all actions are of its own partitions and nobody else has locked what they touch, they run in place. From the first phase on that needs
//! somebody else, all that the transaction touches here is locked, and the worker serves others while it waits for answers.

use cc::{Abort, Category, Conflict};
use engine::dynamic::{Branches, Transaction};
use engine::{Plan, Procedure};
use platform::{Nanos, Platform, Work};

use crate::counting::For;
use crate::locks::{Answer, look};
use crate::messages::Said;
use crate::owned::owned_routes;
use crate::post::{LOOK_NANOS, gone};
use crate::sampling::homes;
use crate::worker::{Attempt, WORKER_BITS, Worker};

impl<P: Platform, Q: Procedure> Worker<'_, P, Q> {
    pub(crate) fn run_phases(
        &mut self,
        branches: &mut dyn Branches,
        procedure: &mut Q,
        deadline: Option<Nanos>,
    ) -> Result<(), Abort> {
        let words = |bytes: usize| bytes.div_ceil(8) as u32;
        P::work(self.c, Work::CopyWord, words(size_of::<Q>()));
        for phase in 0.. {
            self.attempt.actions.clear();
            match procedure.plan(phase, &mut self.attempt.actions) {
                Plan::Commit => break,
                Plan::RollBack => return Err(Abort::RollBack),
                Plan::Run => {
                    let moved = words(size_of::<Q::Action>()) + words(size_of::<Q::Output>());
                    P::work(self.c, Work::CopyWord, moved * self.attempt.actions.len() as u32);
                    self.run_phase(branches, (procedure, phase), deadline)?;
                }
            }
        }
        Ok(())
    }

    fn run_phase(
        &mut self,
        branches: &mut dyn Branches,
        (procedure, phase): (&mut Q, usize),
        deadline: Option<Nanos>,
    ) -> Result<(), Abort> {
        let is_here = self.route()?;
        let from = self.attempt.from;
        if is_here && !self.attempt.is_among {
            let routes = &self.attempt.routes.entries()[from..];
            let is_free = self.owned.is_unlocked() || self.shared.broken.locks || {
                look::<P>(self.c, self.owned.locks().comparisons(routes.len()));
                self.owned.locks().is_free(self.me, routes)
            };
            if is_free {
                return self.run_here(branches, (procedure, phase), deadline);
            }
            self.counts.waits += 1;
        }
        self.lock_all(from);
        self.ask_others(deadline)?;
        self.ask_here(branches, (procedure, phase), (from, deadline));
        self.hear_all(branches, (procedure, phase), deadline)
    }

    /// Finds out who owns what the actions of the phase touch: whether this worker owns all of it.
    fn route(&mut self) -> Result<bool, Abort> {
        let Attempt { actions, routes, from: first, ends, owners, .. } = &mut self.attempt;
        ends.clear();
        owners.clear();
        let mut is_here = true;
        let mut from = routes.entries().len();
        *first = from;
        for action in &*actions {
            Q::route(self.tables, action, routes);
            let end = routes.entries().len();
            P::work(self.c, Work::Step, 2 * (end - from) as u32);
            let owner = self.map.owner(&routes.entries()[from..end])?.unwrap_or(self.me);
            let owner = match self.shared.broken.owners && self.last_age >> WORKER_BITS & 1 == 1 {
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
        branches: &mut dyn Branches,
        (procedure, phase): (&mut Q, usize),
        deadline: Option<Nanos>,
    ) -> Result<(), Abort> {
        let branch = self.branch(branches, self.me)?;
        let (me, tables) = (self.me, self.tables);
        let began = self.begin_sample();
        let Attempt { actions, owners, .. } = &self.attempt;
        branches.act(branch, deadline, &mut |verbs| {
            let mut transaction = Transaction::new(verbs);
            for (number, action) in actions.iter().enumerate().filter(|(number, _)| owners[*number] == me) {
                let output = Q::execute(tables, action, &mut transaction)?;
                procedure.absorb(phase, number, output);
            }
            Ok(())
        })?;
        self.count_own();
        if let Some(began) = began {
            let mut own = homes(&self.attempt, me);
            let of_run = (own.next().copied(), 1 + own.count());
            self.end_sample(began, of_run, For::Own);
        }
        Ok(())
    }

    /// Others may be served from here on: what the transaction has touched so far is locked.
    fn lock_all(&mut self, from: usize) {
        if !std::mem::replace(&mut self.attempt.is_among, true) {
            let routes = owned_routes(&self.map, &self.attempt.routes.entries()[..from]);
            look::<P>(self.c, routes.len());
            self.owned.locks().hold(self.me, self.age, &routes);
        }
    }

    /// Sends the actions of the phase that belong to others: one message each.
    fn ask_others(&mut self, deadline: Option<Nanos>) -> Result<(), Abort> {
        let Attempt { actions, owners, others, pending, .. } = &mut self.attempt;
        let deadline = deadline.map(|deadline| deadline.0);
        let mut asked: Vec<u16> = Vec::new();
        for to in owners.iter().copied().filter(|owner| *owner != self.me) {
            if asked.contains(&to) {
                continue;
            }
            asked.push(to);
            let theirs = actions.iter().zip(&*owners).filter(|(_, owner)| **owner == to);
            let theirs: Vec<&Q::Action> = theirs.map(|(action, _)| action).collect();
            let request: Said<'_, _, Q::Output> = Said::Request { age: self.age, deadline, actions: &theirs };
            self.post.send(to, &request)?;
            *pending += 1;
            if !others.iter().any(|(other, _)| *other == to) {
                others.push((to, None));
            }
        }
        Ok(())
    }

    /// Runs the actions of the phase that belong here, when their locks are granted.
    fn ask_here(
        &mut self,
        branches: &mut dyn Branches,
        (procedure, phase): (&mut Q, usize),
        (from, deadline): (usize, Option<Nanos>),
    ) {
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
        look::<P>(self.c, own.len() + self.owned.locks().comparisons(own.len()));
        let outcome = match self.ask((self.me, self.age), &own, None).0 {
            Answer::Granted => self.run_here(branches, (procedure, phase), deadline),
            Answer::Refused => Err(Abort::Conflict(Conflict::Locked)),
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
    fn hear_all(
        &mut self,
        branches: &mut dyn Branches,
        (procedure, phase): (&mut Q, usize),
        deadline: Option<Nanos>,
    ) -> Result<(), Abort> {
        let before = branches.meter().enter::<P>(self.c, Category::Communication);
        while self.attempt.pending > 0 {
            if !self.hear(branches)? {
                if self.shared.has_lost(self.c) {
                    return Err(gone());
                }
                self.rest(LOOK_NANOS);
            }
            if std::mem::take(&mut self.attempt.is_granted) {
                self.attempt.pending -= 1;
                branches.meter().enter::<P>(self.c, Category::Useful);
                let outcome = match &self.attempt.failed {
                    Some(_) => Ok(()),
                    None => self.run_here(branches, (procedure, phase), deadline),
                };
                branches.meter().enter::<P>(self.c, Category::Communication);
                if let Err(abort) = outcome {
                    self.attempt.failed.get_or_insert(abort);
                }
            }
        }
        branches.meter().leave::<P>(self.c, before);
        if let Some(failed) = self.attempt.failed.take() {
            return Err(failed);
        }
        let Attempt { owners, replies, .. } = &mut self.attempt;
        for (from, outputs) in replies.drain(..) {
            let numbers = (0..owners.len()).filter(|number| owners[*number] == from);
            numbers.zip(outputs).for_each(|(number, output)| procedure.absorb(phase, number, output));
        }
        Ok(())
    }
}
