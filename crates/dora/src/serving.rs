//! A worker's service for others: it receives their messages, runs their actions in branches, and
//! ends the branches.

use boundary::{BranchName, BranchReport};
use platform::{Nanos, Platform, Work};
use schema::Route;
use terms::{Abort, Category, Fault, Stamp};

use crate::counting::{For, class};
use crate::executor::ActionExecutor;
use crate::locks::{Answer, count_comparisons};
use crate::messages::{CANNOT_BE_SENT, OwnerMessage, Refusal, TransactionEnd};
use crate::owned::{Request, owned_routes};
use crate::post::TOO_LONG;
use crate::worker::{Attempt, OwnerWorker, WORKER_BITS};

impl<P: Platform> OwnerWorker<'_, P> {
    /// Serves the requests of others; the time counts apart from the worker's own transactions. One
    /// call takes at most as many messages as there are workers: an overloaded owner would
    /// otherwise never run its own transactions.
    pub(crate) fn serve(&mut self, executor: &mut dyn ActionExecutor) -> Result<(), Abort> {
        let polled = self.begin_poll();
        let Some((from, message)) = self.post.take(&mut self.body)? else { return Ok(()) };
        executor.branches().meter().begin_aside::<P>(self.c, Category::Communication);
        let began = self.end_poll(polled);
        self.answer(executor, from, message, began)?;
        for _ in 1..self.shared.workers() {
            if !self.receive(executor)? {
                break;
            }
        }
        executor.branches().meter().end::<P>(self.c);
        Ok(())
    }

    /// Takes one message, if there is one, and processes it.
    pub(crate) fn receive(&mut self, executor: &mut dyn ActionExecutor) -> Result<bool, Abort> {
        let polled = self.begin_poll();
        let Some((from, message)) = self.post.take(&mut self.body)? else { return Ok(false) };
        let began = self.end_poll(polled);
        self.answer(executor, from, message, began)?;
        Ok(true)
    }

    fn answer(
        &mut self,
        executor: &mut dyn ActionExecutor,
        from: u16,
        message: OwnerMessage,
        began: Option<Nanos>,
    ) -> Result<(), Abort> {
        match message {
            OwnerMessage::Request { age, deadline, actions } => {
                executor.keep(from, actions, &self.body)?;
                self.accept(executor, from, age, Request { deadline, actions }, began)
            }
            OwnerMessage::Reply(result) => {
                let Attempt { phase, owners, others, pending, failed, .. } = &mut self.attempt;
                *pending -= 1;
                match result {
                    Ok(name) => {
                        if let Some((_, known)) = others.iter_mut().find(|(other, _)| *other == from) {
                            *known = name.map(BranchName);
                        }
                        executor.absorb(*phase, &|number| owners[number] == from, &self.body)?;
                    }
                    Err(refusal) => {
                        failed.get_or_insert(refusal.abort());
                    }
                }
                Ok(())
            }
            OwnerMessage::Changed { after, changes } => {
                let changes = self.body.split_off(self.body.len().saturating_sub(changes));
                let Attempt { phase, owners, pending, reported, .. } = &mut self.attempt;
                *pending -= 1;
                reported.changes.extend_from_slice(&changes);
                reported.after = reported.after.max(Some(Stamp(after)));
                executor.absorb(*phase, &|number| owners[number] == from, &self.body)
            }
            OwnerMessage::End(end) => {
                let branches = executor.branches();
                let class = self.owned.class(from).take();
                match (self.owned.branch(from).take(), end) {
                    (Some(branch), TransactionEnd::Committed) => branches.end(branch, None),
                    (Some(branch), TransactionEnd::CommittedAt(stamp)) => {
                        branches.end(branch, Some(Stamp(stamp)));
                    }
                    (Some(branch), TransactionEnd::RolledBack) => branches.roll_back(branch).map(drop)?,
                    (None, _) => {}
                }
                self.release(executor, from)?;
                self.end_their_end(began, class);
                Ok(())
            }
            OwnerMessage::Fence => {
                let last = executor.branches().last_stamp().0;
                self.post.send(from, &OwnerMessage::Fenced { last })
            }
            OwnerMessage::Fenced { last } => {
                self.fences -= 1;
                self.stamps = self.stamps.max(Stamp(last));
                Ok(())
            }
        }
    }

    /// Runs the actions of a request if what they touch can be locked. `began`: the moment from
    /// which the request costs this worker time, if that is measured.
    fn accept(
        &mut self,
        executor: &mut dyn ActionExecutor,
        whose: u16,
        age: u64,
        request: Request,
        began: Option<Nanos>,
    ) -> Result<(), Abort> {
        // The coordinator's transaction is active.
        self.check_map();
        let mut routes = std::mem::take(&mut self.routes);
        routes.clear();
        for action in 0..request.actions {
            let home = routes.entries().len();
            executor.route_kept(whose, action, &mut routes);
            self.count_other(routes.entries().get(home));
        }
        if self.counting.is_some() {
            *self.owned.class(whose) = routes.home().map(|home| class(home, For::Other));
        }
        let owned = owned_routes(&self.map, routes.entries());
        self.routes = routes;
        let is_mine = |route: &Route| self.map.owner(std::slice::from_ref(route)) == Ok(Some(self.me));
        if !self.shared.faults.has(Fault::MisroutedActions) && !owned.iter().all(is_mine) {
            let why = "an action came to a worker that does not own what it touches".to_owned();
            return self.refuse(whose, Refusal::Failed(why));
        }
        count_comparisons::<P>(self.c, owned.len() + self.owned.locks().comparisons(owned.len()));
        match self.request_locks(whose, age, &owned, Some(request)) {
            (Answer::Granted, Some(request)) => self.run_theirs(executor, whose, request, began),
            (Answer::Refused, _) => self.refuse(whose, Refusal::Conflict),
            _ => Ok(()),
        }
    }

    /// Returns the home of the first action of another worker's request.
    fn home(&mut self, executor: &dyn ActionExecutor, whose: u16) -> Option<Route> {
        let mut routes = std::mem::take(&mut self.routes);
        routes.clear();
        executor.route_kept(whose, 0, &mut routes);
        let home = routes.home().copied();
        self.routes = routes;
        home
    }

    pub(crate) fn refuse(&mut self, to: u16, refusal: Refusal) -> Result<(), Abort> {
        self.post.send(to, &OwnerMessage::Reply(Err(refusal)))
    }

    /// Runs the actions of another worker's transaction, and replies. `began`: the moment from
    /// which the request costs this worker time, if that is measured.
    fn run_theirs(
        &mut self,
        executor: &mut dyn ActionExecutor,
        whose: u16,
        Request { deadline, actions }: Request,
        began: Option<Nanos>,
    ) -> Result<(), Abort> {
        let before = executor.branches().meter().enter::<P>(self.c, Category::Useful);
        let mut outputs = std::mem::take(&mut self.outputs);
        let mut changes = std::mem::take(&mut self.changes);
        outputs.clear();
        changes.clear();
        let outcome = self.branch(executor, whose).and_then(|branch| {
            P::work(self.c, Work::CopyWord, executor.copied().action * actions as u32);
            executor.act_for(whose, branch, deadline.map(Nanos), &mut outputs)?;
            executor.branches().report(branch, &mut changes)
        });
        executor.branches().meter().enter::<P>(self.c, Category::Communication);
        let sent = match outcome {
            Ok(report) => {
                let reply = match report {
                    BranchReport::Nothing => OwnerMessage::Reply(Ok(None)),
                    BranchReport::Named(name) => OwnerMessage::Reply(Ok(Some(name.0))),
                    BranchReport::After(Stamp(after)) => {
                        let after = after.max(self.stamps_before.0);
                        OwnerMessage::Changed { after, changes: changes.len() }
                    }
                };
                self.post.send_with_body(whose, &reply, &mut |body| {
                    body.extend_from_slice(&outputs);
                    body.extend_from_slice(&changes);
                    Ok(())
                })
            }
            Err(abort) => self.refuse(whose, Refusal::of(&abort)),
        };
        let sent = match sent {
            // The transaction rolls back, and the worker serves others.
            Err(abort) if abort == TOO_LONG || abort == CANNOT_BE_SENT => {
                self.refuse(whose, Refusal::of(&abort))
            }
            sent => sent,
        };
        (self.outputs, self.changes) = (outputs, changes);
        if let Some(began) = began {
            let home = self.home(executor, whose);
            self.end_sample(began, home, actions, For::Other);
        }
        executor.branches().meter().leave::<P>(self.c, before);
        sent
    }

    /// Releases the locks of a transaction here, and runs the requests that waited for them.
    pub(crate) fn release(&mut self, executor: &mut dyn ActionExecutor, whose: u16) -> Result<(), Abort> {
        if self.owned.is_unlocked() {
            return Ok(());
        }
        let keeps = self.shared.faults.has(Fault::KeptOwnerLocks) && self.last_age >> WORKER_BITS & 7 == 7;
        if !keeps {
            count_comparisons::<P>(self.c, self.owned.locks().comparisons(1));
            self.owned.locks().release(whose);
        }
        while let Some((whose, request)) = self.owned.next_granted() {
            match request {
                None => self.attempt.is_granted = true,
                Some(request) => {
                    let began = self.begin_sample();
                    self.run_theirs(executor, whose, request, began)?;
                }
            }
        }
        Ok(())
    }
}
