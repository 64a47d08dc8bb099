//! One worker: it coordinates its own transactions, and does for others' what belongs to its partitions.
//!
//! A worker does one thing at a time. It serves others before each of its own transactions, while it waits for answers, and while it pauses; never
//! between the actions of a phase. So a transaction that needs nobody else is never interrupted, and locks nothing: it only looks
//! whether it may go on. One that needs others locks what it has touched so far before it sends its first message.

use std::sync::Arc;

use cc::{Abort, Category, Conflict};
use engine::dynamic::{AnySession, AnyVerbs, BranchName, Branches, Transaction};
use engine::{Bounds, Commit, Ending, Epoch, Plan, Procedure, Routes, Verbs};
use platform::{Nanos, OutOfMemory, Platform, Work};

use crate::central::Seat;
use crate::load::{Load, SAMPLE};
use crate::locks::Answer;
use crate::map::Map;
use crate::messages::{Heard, Refusal, Said};
use crate::owned::{Owned, Request};
use crate::post::{Post, gone};
use crate::rearranging::{Event, Rearrange, RearrangeError, Rearrangement, State};
use crate::shared::{Shared, Site};

/// Bits of an age that name the worker: no two transactions have the same.
const WORKER_BITS: u32 = 16;
/// How long a worker waits for a message before it looks whether the others are there.
const LOOK_NANOS: u64 = 1_000_000;
/// The same of one that waits until no transaction is active.
const DRAIN_LOOK_NANOS: u64 = 200;
/// The same of one that has no transactions any more.
const LEAVING_LOOK_NANOS: u64 = 50_000;

/// What a session says that has no branches.
const NO_BRANCHES: Abort =
    Abort::Misuse("a database whose sessions have no branches has no owners of partitions");

/// What a worker has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages to other workers.
    pub messages: u64,
    /// Commits of transactions that needed other workers.
    pub shared: u64,
    /// Transactions that needed other workers because of another transaction's locks, or would have.
    pub waits: u64,
}

/// A transaction of the worker's own, in one attempt.
struct Attempt<Q: Procedure> {
    actions: Vec<Q::Action>,
    /// Of all actions so far.
    routes: Routes,
    /// Where the routes of this phase begin.
    from: usize,
    /// By action of this phase: where its routes end.
    ends: Vec<usize>,
    /// By action of this phase: who owns what it touches.
    owners: Vec<u16>,
    /// Whether others are served within the transaction, which has locked what it touches.
    is_among: bool,
    /// Other workers that have a branch, or may have, each with the name of what it has changed.
    others: Vec<(u16, Option<BranchName>)>,
    /// Answers that are missing.
    pending: usize,
    /// Why it fails, when all answers are there.
    failed: Option<Abort>,
    /// Whether the own actions of the phase may run that have waited.
    is_granted: bool,
    replies: Vec<(u16, Vec<Q::Output>)>,
}

impl<Q: Procedure> Attempt<Q> {
    fn new() -> Self {
        Attempt {
            actions: Vec::new(),
            routes: Routes::new(),
            from: 0,
            ends: Vec::new(),
            owners: Vec::new(),
            is_among: false,
            others: Vec::new(),
            pending: 0,
            failed: None,
            is_granted: false,
            replies: Vec::new(),
        }
    }

    fn begin(&mut self) {
        self.routes.clear();
        (self.is_among, self.pending, self.failed, self.is_granted) = (false, 0, None, false);
        self.others.clear();
        self.replies.clear();
    }
}

/// One worker that owns partitions.
pub struct Worker<'d, P: Platform, Q: Procedure> {
    c: P::Core,
    me: u16,
    shared: &'d Shared<P>,
    tables: &'d Q::Tables,
    map: Arc<Map>,
    version: u64,
    seat: Seat<P>,
    post: Post<'d, P>,
    owned: Owned<Q::Action>,
    attempt: Attempt<Q>,
    /// Of the current transaction, until it succeeds; 0: none.
    age: u64,
    last_age: u64,
    /// For the actions of others.
    routes: Routes,
    outputs: Vec<Q::Output>,
    names: Vec<BranchName>,
    rolled_back_at: Epoch,
    counts: Counts,
    /// Answers of others that are missing before the map changes.
    fences: usize,
    load: Load,
    /// Runs of actions until one is measured.
    until_sample: u32,
    has_left: bool,
}

impl<'d, P: Platform, Q: Procedure> Worker<'d, P, Q> {
    /// The worker with this number, at this site.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(
        c: P::Core,
        shared: &'d Shared<P>,
        (me, site): (usize, Site),
        tables: &'d Q::Tables,
    ) -> Result<Self, OutOfMemory> {
        let map = shared.map(c);
        Ok(Worker {
            c,
            me: me as u16,
            shared,
            tables,
            load: Load::of(&map),
            map,
            until_sample: 0,
            version: shared.version(c),
            seat: shared.central.seat(c, me, site.node)?,
            post: Post::new(c, me as u16, shared),
            owned: Owned::new(shared.workers()),
            attempt: Attempt::new(),
            age: 0,
            last_age: 0,
            routes: Routes::new(),
            outputs: Vec::new(),
            names: Vec::new(),
            rolled_back_at: Epoch(0),
            counts: Counts::default(),
            fences: 0,
            has_left: false,
        })
    }

    /// What it has counted.
    pub fn counts(&self) -> Counts {
        Counts { messages: self.post.sent, ..self.counts }
    }

    /// Runs a transaction until it commits, rolls back, or fails for good, after what others have asked for meanwhile.
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn run(
        &mut self,
        session: &mut dyn AnySession<'_>,
        procedure: &mut Q,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort> {
        let branches = session.branches().ok_or(NO_BRANCHES)?;
        self.serve(branches)?;
        branches.meter().begin::<P>(self.c);
        self.enter(branches)?;
        let result = self.try_all(branches, procedure, bounds);
        let before = branches.meter().enter::<P>(self.c, Category::Cc);
        self.shared.central.end(self.c, &mut self.seat);
        branches.meter().leave::<P>(self.c, before);
        if !matches!(&result, Err(abort) if abort.is_conflict()) {
            self.age = 0;
        }
        branches.meter().end::<P>(self.c);
        result
    }

    /// Says that it has no transactions any more, and serves others until nobody has.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    pub fn leave(&mut self, session: &mut dyn AnySession<'_>) -> Result<(), Abort> {
        let branches = session.branches().ok_or(NO_BRANCHES)?;
        let c = self.c;
        self.shared.leave(c);
        self.has_left = true;
        loop {
            let is_over = self.shared.have_all_left(c);
            self.serve(branches)?;
            if is_over {
                return Ok(());
            }
            if self.shared.has_lost(c) {
                return Err(gone());
            }
            self.post.wait(P::now(c).plus(LEAVING_LOOK_NANOS));
        }
    }

    /// The transaction is active from here on, and sees one version of the map.
    fn enter(&mut self, branches: &mut dyn Branches) -> Result<(), Abort> {
        let c = self.c;
        let before = branches.meter().enter::<P>(c, Category::Cc);
        self.draw_age();
        while !self.shared.central.begin(c, &mut self.seat, self.age) {
            // Whoever changes the map waits for transactions that may need this worker.
            while self.hear(branches)? {}
            self.shared.central.wait(c, &self.seat, LEAVING_LOOK_NANOS);
        }
        self.look_at_map();
        branches.meter().leave::<P>(c, before);
        Ok(())
    }

    /// Gets the map, if it has changed. Pre: a transaction is active, so that it does not change now.
    #[inline]
    fn look_at_map(&mut self) {
        let version = self.shared.version(self.c);
        if version != self.version && !(self.shared.broken.keeps_map && self.me % 2 == 1) {
            (self.map, self.version) = (self.shared.map(self.c), version);
            self.load = Load::of(&self.map);
        }
    }

    /// What the partitions of the map have cost this worker since it was last asked, or since the map changed.
    pub fn take_load(&mut self) -> Load {
        std::mem::replace(&mut self.load, Load::of(&self.map))
    }

    /// Whether the next run of actions is measured, and when it begins.
    #[inline]
    fn begin_sample(&mut self) -> Option<Nanos> {
        match self.until_sample {
            0 => {
                self.until_sample = SAMPLE - 1;
                Some(P::now(self.c))
            }
            _ => {
                self.until_sample -= 1;
                None
            }
        }
    }

    /// A run of actions with these homes is over.
    fn end_sample(&mut self, began: Nanos, homes: &[engine::Route]) {
        let nanos = u64::from(SAMPLE) * P::now(self.c).since(began) / homes.len().max(1) as u64;
        homes.iter().for_each(|home| self.load.add_nanos(&self.map, home, nanos));
    }

    /// Changes the map, between two transactions of this worker: waits until no transaction is active, and serves others meanwhile.
    ///
    /// # Errors
    /// The map cannot be changed so, in words; the database has stopped, or a worker is gone.
    pub fn rearrange(
        &mut self,
        session: &mut dyn AnySession<'_>,
        steps: &[Rearrange],
    ) -> Result<Result<(), RearrangeError>, Abort> {
        let branches = session.branches().ok_or(NO_BRANCHES)?;
        let c = self.c;
        let mut rearrangement = Rearrangement::new();
        let mut changed = None;
        loop {
            match rearrangement.state() {
                State::Asked if self.shared.central.try_claim(c) => {
                    rearrangement.advance(Event::Claim);
                }
                State::Claimed if self.shared.central.is_drained(c) || self.shared.broken.drains => {
                    let active = self.shared.central.active(c, &mut self.seat);
                    assert!(active.is_empty() || self.shared.broken.drains, "active: {active:?}");
                    rearrangement.advance(Event::Drain);
                    self.ask_fences()?;
                }
                State::Drained if self.fences == 0 || self.shared.broken.drains => {
                    // What was said to this worker came before the answers, or before the last transaction was over.
                    while self.hear(branches)? {}
                    rearrangement.advance(Event::Fence);
                }
                State::Asked | State::Claimed | State::Drained => {
                    while self.hear(branches)? {}
                    if self.shared.has_lost(c) {
                        return Err(gone());
                    }
                    self.post.wait(P::now(c).plus(DRAIN_LOOK_NANOS));
                }
                State::Quiet => {
                    // What others have changed before the lock was claimed counts.
                    let map = self.shared.map(c).rearranged(steps);
                    // The map is copied, a word an owner and partition.
                    P::work(
                        c,
                        Work::CopyWord,
                        (0..self.map.tables()).map(|table| self.map.partitions(table).len() as u32).sum(),
                    );
                    changed = Some(map.map(|map| self.shared.set_map(c, map)));
                    rearrangement.advance(Event::Exchange);
                }
                State::Changed => {
                    self.shared.central.unclaim(c);
                    rearrangement.advance(Event::Release);
                }
                State::Over => return Ok(changed.unwrap_or(Ok(()))),
            }
        }
    }

    /// Asks all others to answer when they have done what was said before.
    fn ask_fences(&mut self) -> Result<(), Abort> {
        for to in (0..self.shared.workers() as u16).filter(|to| *to != self.me) {
            let fence: Said<'_, Q::Action, Q::Output> = Said::Fence;
            self.post.send(to, &fence)?;
            self.fences += 1;
        }
        Ok(())
    }

    /// The map as this worker knows it: that of its last transaction.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Gives the transaction an age, if it has none.
    fn draw_age(&mut self) {
        if self.age == 0 {
            let drawn = P::timestamp(self.c) << WORKER_BITS | u64::from(self.me);
            self.age = drawn.max(self.last_age + (1 << WORKER_BITS));
            self.last_age = self.age;
        }
    }

    fn try_all(
        &mut self,
        branches: &mut dyn Branches,
        procedure: &mut Q,
        bounds: &Bounds,
    ) -> Result<Ending<()>, Abort> {
        let c = self.c;
        let mut attempts = 0;
        let result = loop {
            attempts += 1;
            match self.attempt(branches, procedure, bounds.deadline) {
                Ok(commit) => {
                    branches.stats_mut().commits += 1;
                    break Ok(Ending::Committed((), commit));
                }
                Err(Abort::RollBack) => {
                    branches.stats_mut().rollbacks += 1;
                    break Ok(Ending::RolledBack(self.rolled_back_at));
                }
                Err(abort) if !abort.is_conflict() => break Err(abort),
                Err(abort) => {
                    branches.stats_mut().aborts += 1;
                    if bounds.attempts_max.is_some_and(|most| attempts >= most) {
                        branches.meter().attempt_failed::<P>(c);
                        break Err(abort);
                    }
                    if bounds.deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                        break Err(Abort::Deadline);
                    }
                    self.pause(branches, attempts)?;
                }
            }
        };
        let most = &mut branches.stats_mut().attempts_max;
        *most = (*most).max(attempts);
        result
    }

    /// Serves others for a while, before the next attempt.
    fn pause(&mut self, branches: &mut dyn Branches, attempts: u32) -> Result<(), Abort> {
        let c = self.c;
        branches.meter().attempt_failed::<P>(c);
        let before = branches.meter().enter::<P>(c, Category::Backoff);
        let until = P::now(c).plus(branches.pause_nanos(attempts));
        loop {
            while self.hear(branches)? {}
            if P::now(c) >= until {
                break;
            }
            self.post.wait(until);
        }
        branches.meter().leave::<P>(c, before);
        branches.meter().attempt_begins();
        Ok(())
    }

    /// Runs one attempt; what has failed is undone everywhere.
    fn attempt(
        &mut self,
        branches: &mut dyn Branches,
        procedure: &mut Q,
        deadline: Option<Nanos>,
    ) -> Result<Commit, Abort> {
        self.attempt.begin();
        match self.run_phases(branches, procedure, deadline) {
            Ok(()) => self.commit(branches),
            Err(abort) => {
                self.roll_back(branches)?;
                Err(abort)
            }
        }
    }

    fn run_phases(
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
    fn run_here(
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
        if let Some(began) = began {
            self.end_sample(began, &self.own_homes());
        }
        Ok(())
    }

    /// The homes of the actions of the phase that belong here.
    fn own_homes(&self) -> Vec<engine::Route> {
        let Attempt { routes, ends, owners, from, .. } = &self.attempt;
        let begins = std::iter::once(from).chain(ends);
        let homes =
            begins.zip(ends).zip(owners).filter(|((begin, end), owner)| **owner == self.me && begin < end);
        homes.map(|((begin, _), _)| routes.entries()[*begin]).collect()
    }

    /// The branch of a transaction here, which begins if there is none.
    fn branch(&mut self, branches: &mut dyn Branches, whose: u16) -> Result<usize, Abort> {
        if let Some(branch) = self.owned.branch(whose) {
            return Ok(*branch);
        }
        let branch = branches.begin()?;
        *self.owned.branch(whose) = Some(branch);
        Ok(branch)
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

    fn ask(
        &mut self,
        whose: (u16, u64),
        routes: &[engine::Route],
        request: Option<Request<Q::Action>>,
    ) -> (Answer, Option<Request<Q::Action>>) {
        match self.shared.broken.locks {
            true => (Answer::Granted, request),
            false => self.owned.ask(whose, routes, request),
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
                self.post.wait(P::now(self.c).plus(LOOK_NANOS));
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
        if !self.attempt.replies.is_empty() {
            for home in self.own_homes() {
                self.load.add_point(&self.map, &home);
            }
        }
        let Attempt { owners, replies, .. } = &mut self.attempt;
        for (from, outputs) in replies.drain(..) {
            let numbers = (0..owners.len()).filter(|number| owners[*number] == from);
            numbers.zip(outputs).for_each(|(number, output)| procedure.absorb(phase, number, output));
        }
        Ok(())
    }

    /// Commits the transaction everywhere: the record of the log that names all branches is the commit.
    fn commit(&mut self, branches: &mut dyn Branches) -> Result<Commit, Abort> {
        let own = *self.owned.branch(self.me);
        self.names.clear();
        self.names.extend(own.and_then(|branch| branches.name(branch)));
        self.names.extend(self.attempt.others.iter().filter_map(|(_, name)| *name));
        let commit = branches.commit(&self.names)?;
        self.counts.shared += u64::from(!self.attempt.others.is_empty());
        self.tell_end(true)?;
        if own.is_some() {
            *self.owned.branch(self.me) = None;
        }
        if let Some(branch) = own {
            branches.end(branch);
        }
        self.release(branches, self.me)?;
        Ok(commit)
    }

    /// Undoes the transaction everywhere.
    fn roll_back(&mut self, branches: &mut dyn Branches) -> Result<(), Abort> {
        // An answer that is missing is not to be taken for one of the next transaction.
        while self.attempt.pending > 0 {
            if !self.hear(branches)? {
                if self.shared.has_lost(self.c) {
                    return Err(gone());
                }
                self.post.wait(P::now(self.c).plus(LOOK_NANOS));
            }
            self.attempt.pending -= usize::from(std::mem::take(&mut self.attempt.is_granted));
        }
        self.tell_end(false)?;
        let own = self.owned.branch(self.me).take();
        self.rolled_back_at = match own {
            Some(branch) => branches.roll_back(branch)?,
            None => branches.commit(&[])?.durable_with,
        };
        self.release(branches, self.me)
    }

    /// Tells all others that have a part in the transaction how it ends.
    fn tell_end(&mut self, commit: bool) -> Result<(), Abort> {
        for place in 0..self.attempt.others.len() {
            let to = self.attempt.others[place].0;
            let commit = commit && !(self.shared.broken.commits_all && place == 0);
            let end: Said<'_, Q::Action, Q::Output> = Said::End { commit };
            self.post.send(to, &end)?;
        }
        Ok(())
    }

    /// Gives back what a transaction has locked here, and does what has waited for it.
    fn release(&mut self, branches: &mut dyn Branches, whose: u16) -> Result<(), Abort> {
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
                Some(request) => self.run_theirs(branches, whose, request)?,
            }
        }
        Ok(())
    }

    /// Does what others have asked for, and says that its time is no part of a transaction's.
    fn serve(&mut self, branches: &mut dyn Branches) -> Result<(), Abort> {
        let Some((from, heard)) = self.post.take()? else { return Ok(()) };
        branches.meter().begin_aside::<P>(self.c, Category::Communication);
        self.answer(branches, from, heard)?;
        while self.hear(branches)? {}
        branches.meter().end::<P>(self.c);
        Ok(())
    }

    /// Takes one message, if there is one, and does what follows from it.
    fn hear(&mut self, branches: &mut dyn Branches) -> Result<bool, Abort> {
        let Some((from, heard)) = self.post.take()? else { return Ok(false) };
        self.answer(branches, from, heard)?;
        Ok(true)
    }

    fn answer(
        &mut self,
        branches: &mut dyn Branches,
        from: u16,
        heard: Heard<Q::Action, Q::Output>,
    ) -> Result<(), Abort> {
        match heard {
            Heard::Request { age, deadline, actions } => {
                self.accept(branches, (from, age), Request { deadline, actions })
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
                match (self.owned.branch(from).take(), commit) {
                    (Some(branch), true) => branches.end(branch),
                    (Some(branch), false) => branches.roll_back(branch).map(drop)?,
                    (None, _) => {}
                }
                self.release(branches, from)
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

    /// A request has come: its actions run if what they touch can be locked.
    fn accept(
        &mut self,
        branches: &mut dyn Branches,
        whose: (u16, u64),
        request: Request<Q::Action>,
    ) -> Result<(), Abort> {
        // The coordinator's transaction is active.
        self.look_at_map();
        let mut routes = std::mem::take(&mut self.routes);
        routes.clear();
        request.actions.iter().for_each(|action| Q::route(self.tables, action, &mut routes));
        let owned = owned_routes(&self.map, routes.entries());
        self.routes = routes;
        let is_mine =
            |route: &engine::Route| self.map.owner(std::slice::from_ref(route)) == Ok(Some(self.me));
        if !self.shared.broken.owners && !owned.iter().all(is_mine) {
            let why = "an action came to a worker that does not own what it touches".to_owned();
            return self.refuse(whose.0, Refusal::Failed(why));
        }
        look::<P>(self.c, owned.len() + self.owned.locks().comparisons(owned.len()));
        match self.ask(whose, &owned, Some(request)) {
            (Answer::Granted, Some(request)) => self.run_theirs(branches, whose.0, request),
            (Answer::Refused, _) => self.refuse(whose.0, Refusal::Conflict),
            _ => Ok(()),
        }
    }

    /// Where these actions belong.
    fn homes_of(&mut self, actions: &[Q::Action]) -> Vec<engine::Route> {
        let mut routes = std::mem::take(&mut self.routes);
        let home = |action: &Q::Action| {
            routes.clear();
            Q::route(self.tables, action, &mut routes);
            routes.home().copied()
        };
        let homes = actions.iter().filter_map(home).collect();
        self.routes = routes;
        homes
    }

    fn refuse(&mut self, to: u16, refusal: Refusal) -> Result<(), Abort> {
        let said: Said<'_, Q::Action, Q::Output> = Said::Reply(Err(refusal));
        self.post.send(to, &said)
    }

    /// Runs the actions of another worker's transaction, and tells what came of them.
    fn run_theirs(
        &mut self,
        branches: &mut dyn Branches,
        whose: u16,
        request: Request<Q::Action>,
    ) -> Result<(), Abort> {
        let Request { deadline, actions } = request;
        let before = branches.meter().enter::<P>(self.c, Category::Useful);
        let began = self.begin_sample();
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
        if let Some(began) = began {
            let homes = self.homes_of(&actions);
            self.end_sample(began, &homes);
            // Each of them meets those of its coordinator, and perhaps of others.
            for home in &homes {
                (0..SAMPLE).for_each(|_| self.load.add_point(&self.map, home));
            }
        }
        branches.meter().enter::<P>(self.c, Category::Communication);
        let sent = match outcome {
            Ok(name) => {
                let said: Said<'_, Q::Action, Q::Output> = Said::Reply(Ok((&outputs, name)));
                self.post.send(whose, &said)
            }
            Err(abort) => self.refuse(whose, Refusal::of(&abort)),
        };
        self.outputs = outputs;
        branches.meter().leave::<P>(self.c, before);
        sent
    }
}

impl<P: Platform, Q: Procedure> Drop for Worker<'_, P, Q> {
    fn drop(&mut self) {
        if !self.has_left && !P::is_gone(self.c) {
            self.shared.lose(self.c);
        }
    }
}

/// Routes of tables that have owners: others need no locks.
fn owned_routes(map: &Map, routes: &[engine::Route]) -> Vec<engine::Route> {
    routes.iter().filter(|route| map.is_owned(route.table)).copied().collect()
}

/// Declares what a look at the lock table costs that compares so many pairs of routes.
fn look<P: Platform>(c: P::Core, comparisons: usize) {
    P::work(c, Work::KeyCompare, 2 * comparisons as u32);
}
