//! What a worker does for others: it takes what they have said, runs their actions in branches, and ends these.

use cc::{Abort, Category};
use engine::dynamic::{AnyVerbs, BranchName, Branches, Transaction};
use engine::{Procedure, Route, Verbs};
use platform::{Nanos, Platform, Work};

use crate::counting::{For, class};
use crate::locks::{Answer, look};
use crate::messages::{Heard, Refusal, Said};
use crate::owned::{Request, owned_routes};
use crate::worker::{WORKER_BITS, Worker};

impl<P: Platform, Q: Procedure> Worker<'_, P, Q> {
    /// Does what others have asked for, and says that its time is no part of a transaction's. Of an owner that is asked for more than it can do it is no more than each
    /// of the others may have asked for at the beginning: else its own transactions would never run, nor would it be heard of.
    pub(crate) fn serve(&mut self, branches: &mut dyn Branches) -> Result<(), Abort> {
        let looked = self.begin_look();
        let Some((from, heard)) = self.post.take()? else { return Ok(()) };
        branches.meter().begin_aside::<P>(self.c, Category::Communication);
        let began = self.end_look(looked);
        self.answer(branches, (from, heard), began)?;
        for _ in 1..self.shared.workers() {
            if !self.hear(branches)? {
                break;
            }
        }
        branches.meter().end::<P>(self.c);
        Ok(())
    }

    /// Takes one message, if there is one, and does what follows from it.
    pub(crate) fn hear(&mut self, branches: &mut dyn Branches) -> Result<bool, Abort> {
        let looked = self.begin_look();
        let Some((from, heard)) = self.post.take()? else { return Ok(false) };
        let began = self.end_look(looked);
        self.answer(branches, (from, heard), began)?;
        Ok(true)
    }

    fn answer(
        &mut self,
        branches: &mut dyn Branches,
        (from, heard): (u16, Heard<Q::Action, Q::Output>),
        began: Option<Nanos>,
    ) -> Result<(), Abort> {
        match heard {
            Heard::Request { age, deadline, actions } => {
                self.accept(branches, (from, age), Request { deadline, actions }, began)
            }
            Heard::Reply(result) => {
                self.attempt.pending -= 1;
                match result {
                    Ok((outputs, name)) => {
                        let other = self.attempt.others.iter_mut().find(|(other, _)| *other == from);
                        if let Some((_, known)) = other {
                            *known = name.map(BranchName);
                        }
                        self.attempt.replies.push((from, outputs));
                    }
                    Err(refusal) => {
                        self.attempt.failed.get_or_insert(refusal.abort());
                    }
                }
                Ok(())
            }
            Heard::End { commit } => {
                let class = self.owned.class(from).take();
                match (self.owned.branch(from).take(), commit) {
                    (Some(branch), true) => branches.end(branch),
                    (Some(branch), false) => branches.roll_back(branch).map(drop)?,
                    (None, _) => {}
                }
                self.release(branches, from)?;
                self.end_their_end(began, class);
                Ok(())
            }
            Heard::Fence => {
                let fenced: Said<'_, Q::Action, Q::Output> = Said::Fenced;
                self.post.send(from, &fenced)
            }
            Heard::Fenced => {
                self.fences -= 1;
                Ok(())
            }
        }
    }

    /// A request has come: its actions run if what they touch can be locked. `began`: when it began to cost this worker something, if that is measured.
    fn accept(
        &mut self,
        branches: &mut dyn Branches,
        whose: (u16, u64),
        request: Request<Q::Action>,
        began: Option<Nanos>,
    ) -> Result<(), Abort> {
        // The coordinator's transaction is active.
        self.look_at_map();
        let mut routes = std::mem::take(&mut self.routes);
        routes.clear();
        for action in &request.actions {
            let home = routes.entries().len();
            Q::route(self.tables, action, &mut routes);
            self.count_other(routes.entries().get(home));
        }
        if self.counting.is_some() {
            *self.owned.class(whose.0) = routes.home().map(|home| class(home, For::Other));
        }
        let owned = owned_routes(&self.map, routes.entries());
        self.routes = routes;
        let is_mine = |route: &Route| self.map.owner(std::slice::from_ref(route)) == Ok(Some(self.me));
        if !self.shared.broken.owners && !owned.iter().all(is_mine) {
            let why = "an action came to a worker that does not own what it touches".to_owned();
            return self.refuse(whose.0, Refusal::Failed(why));
        }
        look::<P>(self.c, owned.len() + self.owned.locks().comparisons(owned.len()));
        match self.ask(whose, &owned, Some(request)) {
            (Answer::Granted, Some(request)) => self.run_theirs(branches, whose.0, (request, began)),
            (Answer::Refused, _) => self.refuse(whose.0, Refusal::Conflict),
            _ => Ok(()),
        }
    }

    /// Where an action belongs.
    fn home(&mut self, action: Option<&Q::Action>) -> Option<Route> {
        let action = action?;
        let mut routes = std::mem::take(&mut self.routes);
        routes.clear();
        Q::route(self.tables, action, &mut routes);
        let home = routes.home().copied();
        self.routes = routes;
        home
    }

    pub(crate) fn refuse(&mut self, to: u16, refusal: Refusal) -> Result<(), Abort> {
        let said: Said<'_, Q::Action, Q::Output> = Said::Reply(Err(refusal));
        self.post.send(to, &said)
    }

    /// Runs the actions of another worker's transaction, and tells what came of them. `began`: when that began which it costs the owner, if it is measured.
    fn run_theirs(
        &mut self,
        branches: &mut dyn Branches,
        whose: u16,
        (request, began): (Request<Q::Action>, Option<Nanos>),
    ) -> Result<(), Abort> {
        let Request { deadline, actions } = request;
        let before = branches.meter().enter::<P>(self.c, Category::Useful);
        let tables = self.tables;
        let mut outputs = std::mem::take(&mut self.outputs);
        outputs.clear();
        let outcome = self.branch(branches, whose).and_then(|branch| {
            branches.act(branch, deadline.map(Nanos), &mut |verbs: &mut dyn AnyVerbs| {
                let mut transaction = Transaction::new(verbs);
                let words = |bytes: usize| bytes.div_ceil(8) as u32;
                let moved = words(size_of::<Q::Action>()) + words(size_of::<Q::Output>());
                transaction.work(Work::CopyWord, moved * actions.len() as u32);
                for action in &actions {
                    outputs.push(Q::execute(tables, action, &mut transaction)?);
                }
                Ok(())
            })?;
            Ok(branches.name(branch).map(|name| name.0))
        });
        branches.meter().enter::<P>(self.c, Category::Communication);
        let sent = match outcome {
            Ok(name) => {
                let said: Said<'_, Q::Action, Q::Output> = Said::Reply(Ok((&outputs, name)));
                self.post.send(whose, &said)
            }
            Err(abort) => self.refuse(whose, Refusal::of(&abort)),
        };
        self.outputs = outputs;
        if let Some(began) = began {
            let of_run = (self.home(actions.first()), actions.len());
            self.end_sample(began, of_run, For::Other);
        }
        branches.meter().leave::<P>(self.c, before);
        sent
    }

    /// Gives back what a transaction has locked here, and does what has waited for it.
    pub(crate) fn release(&mut self, branches: &mut dyn Branches, whose: u16) -> Result<(), Abort> {
        if self.owned.is_unlocked() {
            return Ok(());
        }
        let keeps = self.shared.broken.keeps_locks && self.last_age >> WORKER_BITS & 7 == 7;
        if !keeps {
            look::<P>(self.c, self.owned.locks().comparisons(1));
            self.owned.locks().release(whose);
        }
        while let Some((whose, request)) = self.owned.next_granted() {
            match request {
                None => self.attempt.is_granted = true,
                Some(request) => {
                    let began = self.begin_sample();
                    self.run_theirs(branches, whose, (request, began))?;
                }
            }
        }
        Ok(())
    }
}
