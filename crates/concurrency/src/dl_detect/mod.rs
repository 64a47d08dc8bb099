//! `dl-detect`: two-phase locking in which transactions wait, and search for deadlocks while
//! waiting.
//!
//! Source: Yu et al., "Staring into the abyss", PVLDB 2014, sections 2.2 and 4.2: the waits-for
//! graph is partitioned by worker and has no latch; a worker adds what it waits for to its own
//! slot, and searches the graph for a circle through itself, again and again while it waits.
//! Waiting is bounded as well.
//!
//! A transaction that finds itself the youngest of a circle aborts; every other one continues
//! waiting, since the youngest searches for circles too. Age is the timestamp of a transaction's
//! first wait, kept over its retries: the oldest of all is never chosen.
//!
//! Deviations: what a transaction holds becomes visible when it waits, and not when it takes a
//! lock, so that locks without waiters cost what they cost in `no-wait` (see [`waits_for`]). The
//! source chooses the transaction with the fewest locks. There is no list of waiters: they spin on
//! the lock word, and a transaction that comes later holds back for a moment from a lock that is
//! waited for. A circle through another transaction that the same worker has open, through more
//! locks than a slot has room for, or through another database, is ended by the bound on waiting.
//!
//! **Sleeping.** A session that says how long it waits for locks
//! ([`InstanceOptions::lock_queues`]) waits in a queue instead, in the order of arrival, and sleeps
//! there: see [`queues`]. Circles are searched for as above; the age of such a transaction is that
//! of its first attempt's beginning.
//!
//! With [`Deadlocks::Lists`], where the locks of rows are managers, all this is done in another
//! way: see [`lists`].

mod lists;
mod queues;
mod waits_for;

use platform::{Nanos, OutOfMemory, Platform};
use storage::Local;

use crate::lock_word::{LockState, Tagging, Want};
use crate::locking::{GivenBack, Queued, Refusal, Seeker, TwoPhase, WaitPolicy, earlier};
use crate::meter::Meter;
use crate::options::InstanceOptions;
use crate::row_latch::LatchNode;
use crate::timestamps::{Timestamp, TimestampWorker, Timestamps};
use crate::ways::{Deadlocks, RowLock};

use lists::{Lists, Waits};
use queues::{Queues, Sleeper, join};
use terms::{Fault, Faults};
use waits_for::{Search, ShownWait, WaitsFor};

/// Two-phase locking that detects deadlocks.
pub type DlDetect = TwoPhase<Detecting>;

/// Waits, and searches for circles.
pub struct Detecting;

/// How long a transaction waits before it searches for a deadlock; doubles from search to search.
const SEARCH_NANOS_FIRST: u64 = 2_000;
/// Longest time between two searches.
const SEARCH_NANOS_MAX: u64 = 64_000;
/// How long a newcomer holds back from a lock that another transaction waits for.
const COURTESY_NANOS: u64 = 500;
/// The same while others share the lock.
const COURTESY_NANOS_SHARED: u64 = 20_000;

/// State that all workers share.
pub struct DetectionState<P: Platform> {
    graph: WaitsFor<P>,
    ages: Timestamps<P>,
    /// Instead of the graph, if rows have managers and [`Deadlocks::Lists`] is the way.
    lists: Option<Lists<P>>,
    /// Where transactions sleep, if the instance has queues.
    queues: Option<Queues<P>>,
}

/// The ages of a worker's transactions.
pub struct WaitingWorker {
    number: usize,
    timestamps: TimestampWorker,
    /// When the transaction that is being tried waited first, if it has.
    age: Option<Timestamp>,
    /// Longest wait of the session's transactions for a lock, if the session has set it.
    longest: Option<u64>,
    search: Search,
    waits: Waits,
}

impl WaitingWorker {
    /// Dates the transaction, if it has not waited before.
    fn draw_age<P: Platform>(&mut self, c: P::Core, shared: &DetectionState<P>) {
        if self.age.is_none() {
            self.age = Some(shared.ages.next(c, &mut self.timestamps));
        }
    }
}

/// The times at which a waiting transaction searches for a deadlock: soon, and then more and more
/// seldom.
struct SearchTimes {
    next: Nanos,
    nanos: u64,
}

impl SearchTimes {
    fn from(began: Nanos) -> Self {
        SearchTimes { next: began.plus(SEARCH_NANOS_FIRST), nanos: SEARCH_NANOS_FIRST }
    }

    fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// The transaction has searched at this moment.
    fn searched(&mut self, now: Nanos) {
        self.nanos = (self.nanos * 2).min(SEARCH_NANOS_MAX);
        self.next = now.plus(self.nanos);
    }
}

impl Tagging for Detecting {
    const WAITS: bool = true;

    /// The tag of a lock that is held exclusively is its holder's number, plus 1.
    #[inline(always)]
    fn join(_: LockState, granted: LockState, want: Want, tag: u64) -> LockState {
        join(granted, want, tag)
    }
}

impl WaitPolicy for Detecting {
    const NAME: &'static str = "dl-detect";
    type SharedState<P: Platform> = DetectionState<P>;
    type WorkerState<P: Platform> = WaitingWorker;

    fn shared<P: Platform>(
        c: P::Core,
        workers: usize,
        options: &InstanceOptions,
    ) -> Result<DetectionState<P>, OutOfMemory> {
        let listed = options.ways.deadlocks == Deadlocks::Lists && options.ways.row_lock == RowLock::Latch;
        Ok(DetectionState {
            graph: WaitsFor::new(c, workers)?,
            ages: Timestamps::new(c, options.timestamps, workers)?,
            lists: listed.then(|| Lists::new(c, workers)).transpose()?,
            queues: options.lock_queues.then(|| Queues::new(c, workers, options.faults)).transpose()?,
        })
    }

    fn worker<P: Platform>(number: usize) -> WaitingWorker {
        WaitingWorker {
            number,
            timestamps: TimestampWorker::new(number),
            age: None,
            longest: None,
            search: Search::default(),
            waits: Waits::default(),
        }
    }

    #[inline(always)]
    fn begin<P: Platform>(
        c: P::Core,
        shared: &DetectionState<P>,
        worker: &mut WaitingWorker,
        _: &mut Meter,
    ) -> u64 {
        if let Some(lists) = &shared.lists {
            lists.begin(c, worker.number, &mut worker.waits);
        }
        if worker.longest.is_some() {
            worker.draw_age(c, shared);
        }
        worker.number as u64 + 1
    }

    #[inline(always)]
    fn ended<P: Platform>(worker: &mut WaitingWorker, again: bool) {
        if !again {
            worker.age = None;
        }
    }

    fn contend<P: Platform>(
        shared: &DetectionState<P>,
        worker: &mut WaitingWorker,
        seeker: Seeker<'_, P>,
        faults: Faults,
    ) -> Result<(), Refusal> {
        if shared.lists.is_some() {
            // No list has the holders of a word.
            return Err(Refusal::Held);
        }
        if let (Some(queues), Some(longest), true) = (&shared.queues, worker.longest, seeker.may_sleep()) {
            worker.draw_age(seeker.c, shared);
            let Timestamp(age) = worker.age.unwrap_or_default();
            let sleeper = Sleeper { number: worker.number, age, search: &mut worker.search, longest };
            return queues.wait(&shared.graph, sleeper, &seeker);
        }
        let (now, graph) = (P::now(seeker.c), &shared.graph);
        worker.draw_age(seeker.c, shared);
        let (seen, deadline) = (seeker.seen, seeker.deadline(now, faults));
        let polite = if seen.is_held() { COURTESY_NANOS_SHARED } else { COURTESY_NANOS };
        // Who can have the lock by the deadline takes it.
        let (polite_until, number) = (earlier(now.plus(polite), deadline), worker.number);
        let mut wait = Wait { seeker, graph, worker, seen, polite_until, deadline, shown: None };
        let result = wait.run(now, faults);
        if wait.shown.is_some() {
            graph.hide(wait.seeker.c, number);
        }
        result
    }

    fn wait_for_locks<P: Platform>(worker: &mut WaitingWorker, longest: Option<u64>) {
        worker.longest = longest;
    }

    #[inline(always)]
    fn gave_lock_back<P: Platform>(
        c: P::Core,
        shared: &DetectionState<P>,
        GivenBack { lock, before }: GivenBack<'_, P>,
    ) {
        if before.has_sleepers()
            && let Some(queues) = &shared.queues
        {
            queues.gave_back(c, lock);
        }
    }

    fn may_wait(_: u64, _: u64) -> bool {
        true
    }

    fn lets_pass(_: u64, _: u64) -> bool {
        true
    }

    fn notes_waits<P: Platform>(shared: &DetectionState<P>) -> bool {
        shared.lists.is_some()
    }

    fn joined_queue<P: Platform>(
        c: P::Core,
        shared: &DetectionState<P>,
        worker: &mut WaitingWorker,
        tags: impl Iterator<Item = u64>,
    ) {
        if let Some(lists) = &shared.lists {
            lists.note(c, &mut worker.waits, tags.map(|tag| tag as usize - 1));
        }
    }

    fn wait_in_queue<P: Platform>(
        shared: &DetectionState<P>,
        worker: &mut WaitingWorker,
        queued: Queued<'_, P>,
        local: &mut Local<P>,
        faults: Faults,
    ) -> Result<(), Refusal> {
        let (c, number) = (queued.c, worker.number);
        if let Some(lists) = &shared.lists {
            return lists.wait(number, &mut worker.waits, &queued, local, faults);
        }
        worker.draw_age(c, shared);
        let mut shown = false;
        let result = wait_in_queue(&shared.graph, worker, &queued, &mut shown, faults);
        if shown {
            shared.graph.hide(c, number);
        }
        result
    }

    fn gave_back<P: Platform>(
        c: P::Core,
        shared: &DetectionState<P>,
        worker: &mut WaitingWorker,
        node: LatchNode,
        local: &mut Local<P>,
    ) {
        if let Some(lists) = &shared.lists {
            lists.clear(c, worker.number, node, local);
        }
    }
}

/// Waits in the queue of a row, and searches for deadlocks meanwhile. A transaction that waits
/// there waits for the row's owners, or for a transaction that does: so the circles that go through
/// the row are those through its owners. `shown`: whether others see that the worker waits.
fn wait_in_queue<P: Platform>(
    graph: &WaitsFor<P>,
    worker: &mut WaitingWorker,
    queued: &Queued<'_, P>,
    shown: &mut bool,
    faults: Faults,
) -> Result<(), Refusal> {
    let Queued { c, state, name, answer, now, deadline, .. } = *queued;
    let searches = !faults.has(Fault::UnresolvedDeadlocks);
    let mut search_times = SearchTimes::from(now);
    loop {
        let until = if searches { Some(earlier(search_times.next, deadline)) } else { deadline };
        if P::spin_while(c, answer, 0, until) != 0 {
            return Ok(());
        }
        let now = P::now(c);
        if deadline.is_some_and(|end| now >= end) {
            return Err(Refusal::Held);
        }
        if searches && search_times.is_due(now) {
            if !*shown {
                let Timestamp(age) = worker.age.unwrap_or_default();
                // The owners change while the transaction waits: a search finds them by what they
                // hold.
                let wait = ShownWait { lock: name, owner: 0, age };
                graph.show(c, worker.number, wait, state.names(), &mut worker.search);
                *shown = true;
            }
            if graph.is_victim(c, worker.number, &mut worker.search, |_| true) {
                return Err(Refusal::Deadlock);
            }
            search_times.searched(now);
        }
    }
}

/// One wait for a lock.
struct Wait<'a, P: Platform> {
    seeker: Seeker<'a, P>,
    graph: &'a WaitsFor<P>,
    worker: &'a mut WaitingWorker,
    /// The lock word as it was read last.
    seen: LockState,
    /// Until when the transaction does not overtake others.
    polite_until: Nanos,
    deadline: Option<Nanos>,
    /// If others see that the worker waits: the holders of the lock as the others see them.
    shown: Option<u64>,
}

impl<P: Platform> Wait<'_, P> {
    fn run(&mut self, began: Nanos, faults: Faults) -> Result<(), Refusal> {
        let Seeker { c, lock, want, .. } = self.seeker;
        let mut search_times = SearchTimes::from(began);
        let mut came_to_wait = false;
        loop {
            let until = match want.grant(self.seen) {
                Some(_) if matches!(want, Want::Open { .. }) => return Ok(()),
                Some(_) if !came_to_wait && self.holds_back() => Some(self.polite_until),
                Some(granted) => {
                    let granted = Detecting::join(self.seen, granted, want, self.seeker.tag());
                    match lock.exchange(c, self.seen, granted.waited(came_to_wait || granted.has_sleepers()))
                    {
                        Ok(()) => return Ok(()),
                        Err(seen) => self.seen = seen,
                    }
                    continue;
                }
                None if self.seen.is_gone() => return Err(Refusal::Held),
                None if !self.seen.is_waited() => {
                    let waited = self.seen.waited(true);
                    self.seen = lock.exchange(c, self.seen, waited).err().unwrap_or(waited);
                    continue;
                }
                None => {
                    came_to_wait = true;
                    (!faults.has(Fault::UnresolvedDeadlocks)).then_some(search_times.next)
                }
            };
            self.show_owner();
            let until = until.map(|until| earlier(until, self.deadline));
            let seen = lock.wait_while(c, self.seen, until.or(self.deadline));
            if seen != self.seen {
                self.seen = seen;
                continue;
            }
            let now = P::now(c);
            if self.deadline.is_some_and(|end| now >= end) && want.grant(seen).is_none() {
                return Err(Refusal::Held);
            }
            if !faults.has(Fault::UnresolvedDeadlocks) && came_to_wait && search_times.is_due(now) {
                if self.is_victim() {
                    return Err(Refusal::Deadlock);
                }
                search_times.searched(now);
            }
        }
    }

    /// Returns true if another transaction waits for the lock, which this transaction would
    /// overtake.
    fn holds_back(&self) -> bool {
        let newcomer = matches!(
            self.seeker.want,
            Want::Shared { .. } | Want::Exclusive { shared: false, .. } | Want::Gap
        );
        newcomer && self.seen.is_waited() && P::now(self.seeker.c) < self.polite_until
    }

    /// The holder, plus 1, if it holds the row exclusively and that is in the way.
    fn owner(&self) -> u64 {
        let row = matches!(self.seeker.want, Want::Shared { .. } | Want::Exclusive { .. } | Want::Gap);
        if row && self.seen.is_exclusive() { self.seen.holder_tag() } else { 0 }
    }

    /// Keeps what others see true.
    fn show_owner(&mut self) {
        let owner = self.owner();
        if self.shown.is_some_and(|shown| shown != owner) {
            self.graph.set_owner(self.seeker.c, self.worker.number, owner);
            self.shown = Some(owner);
        }
    }

    /// Shows that the worker waits, and searches for a deadlock that is its turn to end.
    fn is_victim(&mut self) -> bool {
        let (c, number) = (self.seeker.c, self.worker.number);
        if self.shown.is_none() {
            let row = std::ptr::from_ref(self.seeker.lock).expose_provenance() as u64;
            let gap = matches!(self.seeker.want, Want::Pend { .. } | Want::Open { .. });
            let owner = self.owner();
            let Timestamp(age) = self.worker.age.unwrap_or_default();
            let wait = ShownWait { lock: row | u64::from(gap), owner, age };
            let names = self.seeker.state.names();
            self.graph.show(c, number, wait, names, &mut self.worker.search);
            self.shown = Some(owner);
        }
        self.graph.is_victim(c, number, &mut self.worker.search, |_| true)
    }
}
