//! One worker: it coordinates its own transactions, and does for others' what belongs to its
//! partitions.
//!
//! A worker does one thing at a time. It serves others before each of its own transactions, while
//! it waits for answers, and while it pauses; never between the actions of a phase. So a
//! transaction that needs no other worker is never interrupted, and locks nothing: it only checks
//! that no other transaction has a conflicting lock. A transaction that needs others locks what it
//! has touched so far before it sends its first message.

use std::sync::Arc;

use boundary::{Attempts, Bounds, BranchName, Commit, Ending, OtherBranches, Stats};
use concurrency::Meter;
use platform::{Intent, Nanos, OutOfMemory, Platform};
use schema::{KeyBuffer, KeyRange, Route, Routes};
use terms::{Abort, Category, Epoch, Fault, Stamp};

use crate::central::Seat;
use crate::counting::Counting;
use crate::executor::ActionExecutor;
use crate::locks::Answer;
use crate::map::Map;
use crate::messages::{OwnerMessage, TransactionEnd};
use crate::owned::{Owned, Request};
use crate::post::{LOSS_CHECK_NANOS, Post, gone};
use crate::shared::{Shared, Site};

/// Bits of an age that name the worker: no two transactions have the same.
pub(crate) const WORKER_BITS: u32 = 16;
/// How long a worker that has no transactions any more waits for a message before it checks that
/// the others are there.
const LEAVING_POLL_NANOS: u64 = 50_000;

/// The refusal of a session without branches.
pub const NO_BRANCHES: Abort =
    Abort::Misuse("a database whose sessions have no branches has no owners of partitions");

/// Counters of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages to other workers.
    pub messages: u64,
    /// Commits of transactions that needed other workers.
    pub shared: u64,
    /// Transactions that needed other workers because of another transaction's locks, or would
    /// have.
    pub waits: u64,
}

/// A transaction of the worker's own, in one attempt.
pub(crate) struct Attempt {
    /// The phase under way.
    pub phase: usize,
    /// Routes of all actions so far.
    pub routes: Routes,
    /// Where the routes of this phase begin.
    pub from: usize,
    /// By action of this phase: where its routes end.
    pub ends: Vec<usize>,
    /// By action of this phase: who owns what it touches.
    pub owners: Vec<u16>,
    /// True if others are served within the transaction, which has locked what it touches.
    pub is_among: bool,
    /// Other workers that have a branch, or may have, each with the name of what it has changed.
    pub others: Vec<(u16, Option<BranchName>)>,
    /// Changes and stamps that others have reported; names are collected when it commits.
    pub reported: OtherBranches,
    /// Answers that are missing.
    pub pending: usize,
    /// Why it fails, when all answers are there.
    pub failed: Option<Abort>,
    /// True if it was refused by this worker's own table.
    pub is_refused_here: bool,
    /// True if the own actions of the phase may run that have waited.
    pub is_granted: bool,
}

impl Attempt {
    fn new() -> Self {
        Attempt {
            phase: 0,
            routes: Routes::new(),
            from: 0,
            ends: Vec::new(),
            owners: Vec::new(),
            is_among: false,
            others: Vec::new(),
            reported: OtherBranches::default(),
            pending: 0,
            failed: None,
            is_refused_here: false,
            is_granted: false,
        }
    }

    fn begin(&mut self) {
        self.routes.clear();
        (self.is_among, self.pending, self.failed, self.is_granted) = (false, 0, None, false);
        self.is_refused_here = false;
        self.others.clear();
        self.reported.clear();
    }
}

/// One worker that owns partitions.
pub struct OwnerWorker<'d, P: Platform> {
    pub(crate) c: P::Core,
    pub(crate) me: u16,
    pub(crate) shared: &'d Shared<P>,
    pub(crate) map: Arc<Map>,
    pub(crate) version: u64,
    pub(crate) seat: Seat<P>,
    pub(crate) post: Post<'d, P>,
    pub(crate) owned: Owned,
    pub(crate) attempt: Attempt,
    /// Transactions that have begun.
    begun: u64,
    /// Age of the current transaction, until it succeeds; 0: none.
    pub(crate) age: u64,
    pub(crate) last_age: u64,
    /// For the actions of others.
    pub(crate) routes: Routes,
    /// Body of the last received message.
    pub(crate) body: Vec<u8>,
    pub(crate) outputs: Vec<u8>,
    /// Changes of a branch of another worker's transaction.
    pub(crate) changes: Vec<u8>,
    /// The largest stamp of all workers when the map last changed.
    pub(crate) stamps_before: Stamp,
    pub(crate) rolled_back_at: Epoch,
    pub(crate) counts: Counts,
    /// Answers of others that are missing before the map changes.
    pub(crate) fences: usize,
    /// The largest stamp in these answers.
    pub(crate) stamps: Stamp,
    /// Present if the cost of partitions is measured.
    pub(crate) counting: Option<Box<Counting>>,
    pub(crate) has_left: bool,
}

impl<'d, P: Platform> OwnerWorker<'d, P> {
    /// The worker with this number, at this site.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(c: P::Core, shared: &'d Shared<P>, me: usize, site: Site) -> Result<Self, OutOfMemory> {
        let map = shared.map(c);
        Ok(OwnerWorker {
            c,
            me: me as u16,
            shared,
            map,
            counting: None,
            version: shared.version(c),
            seat: shared.central.seat(c, me, site.node)?,
            post: Post::new(c, me as u16, shared),
            owned: Owned::new(shared.workers()),
            attempt: Attempt::new(),
            begun: 0,
            age: 0,
            last_age: 0,
            routes: Routes::new(),
            body: Vec::new(),
            outputs: Vec::new(),
            changes: Vec::new(),
            stamps_before: Stamp(0),
            rolled_back_at: Epoch(0),
            counts: Counts::default(),
            fences: 0,
            stamps: Stamp(0),
            has_left: false,
        })
    }

    /// Its counters.
    pub fn counts(&self) -> Counts {
        Counts { messages: self.post.sent, ..self.counts }
    }

    /// Runs a transaction until it commits, rolls back, or fails for good, after the requests that
    /// others have sent meanwhile.
    ///
    /// # Errors
    /// See [`Abort`].
    pub fn run(&mut self, executor: &mut dyn ActionExecutor, bounds: &Bounds) -> Result<Ending<()>, Abort> {
        self.serve(executor)?;
        self.enter(executor)?;
        let attempts = &mut OwnerAttempts { worker: self, executor, deadline: bounds.deadline };
        let result = boundary::attempt_until_it_ends(attempts, bounds);
        let meter = executor.branches().meter();
        meter.enter::<P>(self.c, Category::Cc);
        self.shared.central.end(self.c, &mut self.seat);
        meter.end::<P>(self.c);
        if !matches!(&result, Err(abort) if abort.is_conflict()) {
            self.age = 0;
        }
        result
    }

    /// Serves others for a while, between two transactions.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    pub fn stand_by(&mut self, executor: &mut dyn ActionExecutor) -> Result<(), Abort> {
        self.shared.central.leave(self.c, &mut self.seat);
        self.serve(executor)?;
        self.rest(LEAVING_POLL_NANOS);
        self.check_others()
    }

    /// Serves other workers for up to `nanos` nanoseconds while this one has no transaction to run.
    /// The time without work counts as rest in the measured load of its partitions.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    pub fn idle(&mut self, executor: &mut dyn ActionExecutor, nanos: u64) -> Result<(), Abort> {
        // Requests may come only when the map has changed.
        self.shared.central.give_way(self.c, &mut self.seat);
        self.serve(executor)?;
        self.rest(nanos);
        self.check_others()
    }

    /// As [`Self::stand_by`], where no worker runs transactions of its own: the time that passes is
    /// none that others could use better, and is not counted.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    pub fn attend(&mut self, executor: &mut dyn ActionExecutor) -> Result<(), Abort> {
        self.shared.central.leave(self.c, &mut self.seat);
        self.serve(executor)?;
        self.post.wait(P::now(self.c).plus(LEAVING_POLL_NANOS));
        self.check_others()
    }

    fn check_others(&self) -> Result<(), Abort> {
        match self.shared.has_lost(self.c) {
            true => Err(gone()),
            false => Ok(()),
        }
    }

    /// Announces that it has no transactions any more, and serves others until no worker has.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    pub fn leave(&mut self, executor: &mut dyn ActionExecutor) -> Result<(), Abort> {
        let c = self.c;
        self.shared.central.leave(c, &mut self.seat);
        self.shared.leave(c);
        self.has_left = true;
        loop {
            let is_over = self.shared.have_all_left(c);
            self.serve(executor)?;
            if is_over {
                return Ok(());
            }
            if self.shared.has_lost(c) {
                return Err(gone());
            }
            self.post.wait(P::now(c).plus(LEAVING_POLL_NANOS));
        }
    }

    /// The transaction is active from here on, and sees one version of the map.
    fn enter(&mut self, executor: &mut dyn ActionExecutor) -> Result<(), Abort> {
        let c = self.c;
        let meter = executor.branches().meter();
        meter.begin::<P>(c);
        let before = meter.enter::<P>(c, Category::Cc);
        self.begun += 1;
        while !self.shared.central.begin(c, &mut self.seat, self.begun) {
            // A worker that changes the map waits for transactions that may need this worker.
            while self.receive(executor)? {}
            self.shared.central.wait(c, &self.seat, LEAVING_POLL_NANOS);
        }
        self.check_map();
        executor.branches().meter().leave::<P>(c, before);
        Ok(())
    }

    /// Loads the map, if it has changed. Pre: a transaction is active, so that it does not change
    /// now.
    #[inline]
    pub(crate) fn check_map(&mut self) {
        let version = self.shared.version(self.c);
        if version != self.version && !(self.shared.faults.has(Fault::StaleMap) && self.me % 2 == 1) {
            (self.map, self.version) = (self.shared.map(self.c), version);
            self.stamps_before = self.shared.stamps_before(self.c);
            self.recount();
        }
    }

    /// Gives the transaction an age, if it has none: one that locks nothing needs none.
    pub(crate) fn draw_age(&mut self) {
        if self.age == 0 {
            let drawn = P::timestamp(self.c) << WORKER_BITS | u64::from(self.me);
            self.age = drawn.max(self.last_age + (1 << WORKER_BITS));
            self.last_age = self.age;
        }
    }

    /// Serves others for a while, before the next attempt.
    fn pause(&mut self, executor: &mut dyn ActionExecutor, attempts: u32) -> Result<(), Abort> {
        let c = self.c;
        let branches = executor.branches();
        let before = branches.meter().enter::<P>(c, Category::Backoff);
        let until = P::now(c).plus(branches.pause_nanos(attempts));
        loop {
            // The pause ends even if requests never stop.
            let has_received = self.receive(executor)?;
            let now = P::now(c);
            // What has refused it is over.
            let is_free = has_received && self.attempt.is_refused_here && self.owned.is_unlocked();
            if now >= until || is_free {
                break;
            }
            if !has_received {
                self.rest(until.since(now));
            }
        }
        executor.branches().meter().leave::<P>(c, before);
        Ok(())
    }

    /// Runs one attempt; what has failed is undone everywhere.
    fn attempt(
        &mut self,
        executor: &mut dyn ActionExecutor,
        deadline: Option<Nanos>,
    ) -> Result<Commit, Abort> {
        self.attempt.begin();
        match self.run_phases(executor, deadline) {
            Ok(()) => self.commit(executor),
            Err(abort) => {
                self.roll_back(executor)?;
                Err(abort)
            }
        }
    }

    /// Commits the transaction everywhere: the record of the log that names all branches, or has
    /// their changes, is the commit.
    fn commit(&mut self, executor: &mut dyn ActionExecutor) -> Result<Commit, Abort> {
        let own = *self.owned.branch(self.me);
        let branches = executor.branches();
        let Attempt { others, reported, .. } = &mut self.attempt;
        reported.names.extend(others.iter().filter_map(|(_, name)| *name));
        let has_stamps = reported.after.is_some();
        if self.stamps_before > Stamp(0) {
            reported.after = reported.after.max(Some(self.stamps_before));
        }
        let commit = match branches.commit(own, reported) {
            Err(refusal) if !matches!(refusal, Abort::NotDurable(_) | Abort::Storage(_)) => {
                self.roll_back(executor)?;
                return Err(refusal);
            }
            commit => commit?,
        };
        self.count_synchronization();
        self.counts.shared += u64::from(!self.attempt.others.is_empty());
        let stamp = has_stamps.then_some(commit.stamp);
        self.send_end(stamp.map_or(TransactionEnd::Committed, |stamp| TransactionEnd::CommittedAt(stamp.0)))?;
        if let Some(branch) = own {
            *self.owned.branch(self.me) = None;
            executor.branches().end(branch, stamp);
        }
        self.release(executor, self.me)?;
        Ok(commit)
    }

    /// Undoes the transaction everywhere.
    fn roll_back(&mut self, executor: &mut dyn ActionExecutor) -> Result<(), Abort> {
        // An answer that is missing is not to be taken for one of the next transaction.
        while self.attempt.pending > 0 {
            if !self.receive(executor)? {
                if self.shared.has_lost(self.c) {
                    return Err(gone());
                }
                self.wait_for_answers(LOSS_CHECK_NANOS);
            }
            self.attempt.pending -= usize::from(std::mem::take(&mut self.attempt.is_granted));
        }
        self.send_end(TransactionEnd::RolledBack)?;
        let own = self.owned.branch(self.me).take();
        let branches = executor.branches();
        self.rolled_back_at = match own {
            Some(branch) => branches.roll_back(branch)?,
            None => branches.commit(None, &OtherBranches::default())?.durable_with,
        };
        self.release(executor, self.me)
    }

    /// Sends the end of the transaction to all others that have a branch of it.
    fn send_end(&mut self, end: TransactionEnd) -> Result<(), Abort> {
        for place in 0..self.attempt.others.len() {
            let to = self.attempt.others[place].0;
            let is_partial = self.shared.faults.has(Fault::PartialCommit) && place == 0;
            let end = if is_partial { TransactionEnd::RolledBack } else { end };
            self.post.send(to, &OwnerMessage::End(end))?;
        }
        Ok(())
    }

    /// Copies rows of its partitions for a checkpoint of a durable database in memory, if one is
    /// under way, between two transactions of its own. Rows that an open branch may have changed
    /// are locked, and are copied later.
    pub fn copy_rows(&mut self, executor: &mut dyn ActionExecutor) {
        let (me, map) = (self.me, &self.map);
        let is_unlocked = self.owned.is_unlocked();
        let locks = self.owned.locks();
        executor.branches().copy_rows(P::now(self.c), &|table, key| {
            let mut whole = KeyBuffer::new();
            key.iter().for_each(|word| whole.push(*word, u64::BITS));
            let route = Route { table, keys: KeyRange::normalized(whole, whole), intent: Intent::Read };
            let is_own = map.owner(&[route]).is_ok_and(|owner| owner.is_none_or(|owner| owner == me));
            is_own && (is_unlocked || locks.is_unlocked(&route))
        });
    }

    /// The map that this worker uses: that of its last transaction.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// The branch of a transaction here, which begins if there is none.
    pub(crate) fn branch(&mut self, executor: &mut dyn ActionExecutor, whose: u16) -> Result<usize, Abort> {
        if let Some(branch) = self.owned.branch(whose) {
            return Ok(*branch);
        }
        let branch = executor.branches().begin()?;
        *self.owned.branch(whose) = Some(branch);
        Ok(branch)
    }

    pub(crate) fn request_locks(
        &mut self,
        whose: u16,
        age: u64,
        routes: &[Route],
        request: Option<Request>,
    ) -> (Answer, Option<Request>) {
        match self.shared.faults.has(Fault::MissingOwnerLocks) {
            true => (Answer::Granted, request),
            false => self.owned.request(whose, age, routes, request),
        }
    }
}

/// The attempts of one transaction that a worker coordinates.
struct OwnerAttempts<'s, 'd, P: Platform> {
    worker: &'s mut OwnerWorker<'d, P>,
    executor: &'s mut dyn ActionExecutor,
    deadline: Option<Nanos>,
}

impl<P: Platform> Attempts<P> for OwnerAttempts<'_, '_, P> {
    fn core(&self) -> P::Core {
        self.worker.c
    }

    fn meter(&mut self) -> &mut Meter {
        self.executor.branches().meter()
    }

    fn stats(&mut self) -> &mut Stats {
        self.executor.branches().stats_mut()
    }

    fn attempt(&mut self) -> Result<Commit, (Abort, Epoch)> {
        let attempted = self.worker.attempt(self.executor, self.deadline);
        attempted.map_err(|abort| (abort, self.worker.rolled_back_at))
    }

    fn pause(&mut self, attempts: u32) -> Result<(), Abort> {
        self.worker.pause(self.executor, attempts)
    }
}

impl<P: Platform> Drop for OwnerWorker<'_, P> {
    fn drop(&mut self) {
        if !self.has_left && !P::is_gone(self.c) {
            self.shared.lose(self.c);
        }
    }
}
