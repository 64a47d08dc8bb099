//! Partitions that follow the workload of a run: the counts of the workers that own them are sent
//! to a controller, whose decisions change the map.
//!
//! The main thread monitors, like the separate thread of ATraPos (section V): a search takes
//! milliseconds, in which a worker would serve no requests. At the end of an interval it requests
//! the counts of all workers; each answers after its next transaction. When the controller decides
//! on another map, the first present worker makes the changes between two of its transactions,
//! while all others serve each other ([`dora::OwnerWorker::rearrange`]). An interval, which may be
//! eight times as long as the shortest one, ends early when throughput changes in it, by the
//! commits that workers announce ([`crate::owners::pulse`]). Workers read one word after each
//! transaction, which changes with each request. A worker whose run is over answers no more, and
//! there are no decisions from then on.
//!
//! Sockets that fail ([`crate::faults::failing`]), and processors that come and go
//! ([`crate::owners::processors`]), are reported to the controller immediately: it assigns the
//! partitions of failed cores to the remaining ones. A worker whose processor is gone learns this
//! with the next request, which is sent immediately. From then on it runs no transactions of its
//! own, and others draw on behalf of its clients; it continues to serve its partitions until other
//! workers own them, and participates again when its processor is back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dora::{ActionExecutor, Borders};
use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};
use repartitioning::{
    Action, Arrays, Change, Controller, Core, Cores, Event, Load, PartitionMap, Search, Spent, Story,
};
use storage::Latched;
use terms::Abort;

use crate::deployment::Deployment;
use crate::faults::failing::Failing;
use crate::measurement::partition_events::PartitionEvent;
use crate::owners::adaptation::Adaptation;
use crate::owners::monitor_events::MonitorEvents;
use crate::owners::processors::ProcessorState;
use crate::owners::pulse::{Beat, CommitCount, Pulse};

/// Number of polls by the main thread in the shortest interval.
const POLLS: u64 = 16;

/// Bits of a request that name a worker.
const WORKER_BITS: u32 = 16;
/// Set in requests to one worker to change the map; other requests are for the counts of all
/// workers.
const CHANGES: u64 = 1 << WORKER_BITS;
/// Difference between the numbers of two requests.
const REQUEST_STEP: u64 = CHANGES << 1;

/// Offsets of the words that workers read: the current request, and the number of changes of
/// processors. They are not in the first line of their region, because the first lines of regions
/// and pages, which all transactions read, compete for one set of the nearest cache.
const REQUEST: usize = 21 * LINE_BYTES;
const PROCESSOR_CHANGES: usize = REQUEST + 8;
const WORDS_BYTES: usize = REQUEST + LINE_BYTES;

/// Counts that a worker has sent.
struct WorkerCounts {
    worker: usize,
    arrays: Arrays,
    transactions: u64,
}

/// The result of a change of the map.
struct MapChange {
    refused: Option<String>,
    nanos: u64,
}

/// Requests and answers between the main thread and the workers.
#[derive(Default)]
struct Exchange {
    /// The current request.
    request: u64,
    handed: Vec<WorkerCounts>,
    /// The changes of the map, for the worker that the request names.
    changes: Option<Vec<Change>>,
    map_change: Option<MapChange>,
}

/// State that the workers of a run share while its map follows the workload.
pub(crate) struct Adapting<P: Platform> {
    adaptation: Adaptation,
    cores: Cores,
    borders: Borders,
    words: P::Region,
    exchange: Latched<P, Exchange>,
    /// The workers that have a processor.
    processors: Latched<P, Arc<ProcessorState>>,
}

impl<P: Platform> Adapting<P> {
    /// Creates the state for the workers of this deployment.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(
        c: P::Core,
        adaptation: &Adaptation,
        deployment: &Deployment,
        borders: Borders,
    ) -> Result<Self, OutOfMemory> {
        let cores = adaptation.cores.clone().filter(|cores| cores.count() == deployment.workers());
        Ok(Adapting {
            adaptation: adaptation.clone(),
            borders,
            cores: cores.unwrap_or_else(|| Cores::equally_far(&deployment.sockets())),
            words: P::region(c, None, WORDS_BYTES, "questions of the monitor")?,
            exchange: Latched::new(c, "answers to the monitor", Exchange::default())?,
            processors: Latched::new(c, "processors of workers", Arc::new(ProcessorState::of(deployment)))?,
        })
    }

    fn request(&self) -> &P::Word {
        P::word_of(&self.words, REQUEST)
    }

    /// Number of changes of processors.
    fn processor_changes(&self) -> &P::Word {
        P::word_of(&self.words, PROCESSOR_CHANGES)
    }

    fn processors(&self, c: P::Core) -> Arc<ProcessorState> {
        self.processors.with(c, |processors| Arc::clone(processors))
    }

    /// Publishes a change of processors, which workers read with the next request.
    fn publish_processors(&self, c: P::Core, processors: ProcessorState) {
        self.processors.with(c, |old| *old = Arc::new(processors));
        // Relaxed: the next request orders it.
        P::fetch_add(c, self.processor_changes(), 1, Ordering::Relaxed);
    }
}

/// The side of one worker.
pub(crate) struct AdaptingWorker<'d, P: Platform> {
    shared: &'d Adapting<P>,
    worker: usize,
    /// The last request that the worker has read.
    request: u64,
    /// The version of the map in its last transaction.
    version: u64,
    /// Number of changes of processors that the worker has read, and the latest state.
    processor_changes: u64,
    processors: Option<Arc<ProcessorState>>,
    /// Transactions since the last request, or since the map changed.
    transactions: u64,
}

impl<'d, P: Platform> AdaptingWorker<'d, P> {
    /// The side of the worker with this number.
    pub(crate) fn new(shared: &'d Adapting<P>, worker: usize) -> Self {
        AdaptingWorker {
            shared,
            worker,
            request: 0,
            version: 0,
            processor_changes: 0,
            processors: None,
            transactions: 0,
        }
    }

    /// Workers whose processors are known to be gone; true if the worker's own is gone.
    #[inline]
    pub(crate) fn absent(&self) -> (&[usize], bool) {
        self.processors
            .as_ref()
            .map_or((&[], false), |processors| (processors.absent(), processors.is_absent(self.worker)))
    }

    /// Executes a pending request, after a transaction of the worker.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    #[inline]
    pub(crate) fn turn(
        &mut self,
        c: P::Core,
        worker: &mut dora::OwnerWorker<'d, P>,
        executor: &mut dyn ActionExecutor,
    ) -> Result<(), Abort> {
        let version = worker.map().version();
        if version != self.version {
            (self.version, self.transactions) = (version, 0);
        }
        self.transactions += 1;
        self.answer(c, worker, executor)
    }

    /// Executes a pending request.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    #[inline]
    pub(crate) fn answer(
        &mut self,
        c: P::Core,
        worker: &mut dora::OwnerWorker<'d, P>,
        executor: &mut dyn ActionExecutor,
    ) -> Result<(), Abort> {
        // Acquire: pairs with the release of the main thread, whose request is in the exchange.
        let request = P::load(c, self.shared.request(), Ordering::Acquire);
        if request == self.request {
            return Ok(());
        }
        self.request = request;
        // Relaxed: ordered by the request.
        let processor_changes = P::load(c, self.shared.processor_changes(), Ordering::Relaxed);
        if processor_changes != self.processor_changes {
            let processors = self.shared.processors(c);
            // If binding is refused, the kernel chooses the thread's processor.
            let _stays = P::bind(c, &processors.binding(self.worker));
            (self.processor_changes, self.processors) = (processor_changes, Some(processors));
        }
        match request & CHANGES {
            0 => self.hand_over(c, worker),
            _ if request as u16 == self.worker as u16 => return self.change(c, worker, executor),
            _ => {}
        }
        Ok(())
    }

    fn hand_over(&mut self, c: P::Core, worker: &mut dora::OwnerWorker<'d, P>) {
        let Some(arrays) = worker.take_arrays() else { return };
        let transactions = std::mem::take(&mut self.transactions);
        let handed = WorkerCounts { worker: self.worker, arrays, transactions };
        self.shared.exchange.with(c, |exchange| {
            // There may be another request meanwhile.
            if exchange.request == self.request {
                exchange.handed.push(handed);
            }
        });
    }

    fn change(
        &mut self,
        c: P::Core,
        worker: &mut dora::OwnerWorker<'d, P>,
        executor: &mut dyn ActionExecutor,
    ) -> Result<(), Abort> {
        let Some(changes) = self.shared.exchange.with(c, |exchange| exchange.changes.take()) else {
            return Ok(());
        };
        let began = P::now(c);
        let borders = self.shared.borders;
        let refused = worker.rearrange(executor, &changes, borders)?.err().map(|why| why.to_string());
        let map_change = MapChange { refused, nanos: P::now(c).since(began) };
        self.shared.exchange.with(c, |exchange| exchange.map_change = Some(map_change));
        Ok(())
    }
}

/// The event that the main thread waits for.
enum Waiting {
    /// The end of an interval.
    Until(Nanos),
    /// Counts of the workers.
    Counts,
    /// The change of the map.
    Change,
}

/// The task of the main thread during a run.
pub(crate) struct Monitoring<'a, P: Platform> {
    shared: &'a Adapting<P>,
    failing: Option<&'a Failing>,
    map: &'a PartitionMap,
    /// A note for the report.
    note: Option<&'a str>,
    monitor: Option<Monitor<'a, P>>,
}

impl<'a, P: Platform> Monitoring<'a, P> {
    /// Monitors workers that own the partitions of this map, with a note for the report.
    pub(crate) fn new(
        shared: &'a Adapting<P>,
        failing: Option<&'a Failing>,
        map: &'a PartitionMap,
        note: Option<&'a str>,
    ) -> Self {
        Monitoring { shared, failing, map, note, monitor: None }
    }

    /// Interval at which the main thread polls.
    pub(crate) fn poll_nanos(&self) -> u64 {
        (nanos(self.shared.adaptation.settings.interval_seconds) / POLLS).max(1)
    }

    /// Polls workers that began at `began`, measure from `warm` on (as far as is known now), and
    /// have announced this number of commits; `report` receives messages about decisions. Returns
    /// the map of partitions, if it has changed.
    pub(crate) fn poll(
        &mut self,
        c: P::Core,
        began: Nanos,
        warm: Nanos,
        commits: u64,
        report: &mut dyn FnMut(&str),
    ) -> Option<&PartitionMap> {
        let (shared, failing, map) = (self.shared, self.failing, self.map);
        let new = || {
            let processors = shared.processors(c).as_ref().clone();
            Monitor::new(shared, failing, map, began, warm, processors)
        };
        let monitor = self.monitor.get_or_insert_with(new);
        if warm > monitor.warm {
            monitor.begin_later(warm);
        }
        if let Some(note) = self.note.take() {
            report(note);
            let at_seconds = monitor.seconds(P::now(c));
            monitor.controller.note(at_seconds, note.to_owned());
        }
        let version = monitor.controller.map().version();
        monitor.poll(c, commits, report);
        Some(monitor.controller.map()).filter(|map| map.version() != version)
    }

    /// The decisions of the run, which is over, and its events; `None` if it has not begun, or if
    /// nothing is decided.
    pub(crate) fn story(self, c: P::Core) -> Option<(Story, Vec<PartitionEvent>)> {
        let is_deciding = self.shared.adaptation.decides;
        self.monitor.filter(|_| is_deciding).map(|monitor| monitor.story(c))
    }
}

/// The controller of a run.
struct Monitor<'a, P: Platform> {
    shared: &'a Adapting<P>,
    failing: Option<&'a Failing>,
    controller: Controller,
    cores: Cores,
    processors: ProcessorState,
    /// True if a change of processors has not been sent to the workers yet.
    is_unsent: bool,
    /// The time at which the measured time begins.
    warm: Nanos,
    waiting: Waiting,
    /// The time from which transactions are counted: that of the last answers, or of the last
    /// change of the map.
    since: Nanos,
    /// Detects a change of throughput, which ends an interval early.
    pulse: Pulse,
    beat: Beat,
    /// Throughput at the end of the interval, as a multiple of the mean over the interval.
    times: f64,
    request: u64,
    events: MonitorEvents,
}

impl<'a, P: Platform> Monitor<'a, P> {
    /// Monitors workers that began at `began`, measure from `warm` on, and own the partitions of
    /// this map.
    fn new(
        shared: &'a Adapting<P>,
        failing: Option<&'a Failing>,
        map: &PartitionMap,
        began: Nanos,
        warm: Nanos,
        processors: ProcessorState,
    ) -> Self {
        let mut act = Vec::new();
        let settings = shared.adaptation.settings;
        let at_seconds = -(warm.since(began) as f64 / 1e9);
        let controller = Controller::new(settings, shared.cores.clone(), map.clone(), at_seconds, &mut act);
        let until = began.plus(nanos(controller.interval_seconds()));
        Monitor {
            shared,
            failing,
            controller,
            cores: shared.cores.clone(),
            processors,
            is_unsent: false,
            warm,
            waiting: Waiting::Until(until),
            since: began,
            pulse: Pulse::default(),
            beat: Beat { nanos: nanos(settings.interval_seconds), alike: settings.alike },
            times: 1.0,
            request: 0,
            events: MonitorEvents::new(settings.interval_seconds),
        }
    }

    /// Moves the beginning of the measured time to a later time, because workers have prepared for
    /// the run: nothing was counted in that time, and it is part of no interval.
    fn begin_later(&mut self, warm: Nanos) {
        let pause = warm.since(std::mem::replace(&mut self.warm, warm));
        self.since = self.since.plus(pause);
        if let Waiting::Until(until) = &mut self.waiting {
            *until = until.plus(pause);
        }
    }

    /// Polls the workers, after this number of commits; `report` receives messages about decisions.
    fn poll(&mut self, c: P::Core, commits: u64, report: &mut dyn FnMut(&str)) {
        let now = P::now(c);
        self.poll_cores(c, now, report);
        match self.waiting {
            Waiting::Until(until) => {
                // Workers announce no commits before.
                let changed = (now >= self.warm && self.shared.adaptation.decides)
                    .then(|| self.pulse.measure(CommitCount { at: now, commits }, self.beat))
                    .flatten();
                if now >= until || changed.is_some() {
                    self.times = changed.unwrap_or(1.0);
                    self.send_request(c, None);
                    self.waiting = Waiting::Counts;
                }
            }
            Waiting::Counts => {
                if let Some(event) = self.counted(c, now) {
                    match self.shared.adaptation.decides {
                        true => self.handle(c, event, report),
                        false => {
                            let seconds = self.controller.interval_seconds();
                            self.waiting = Waiting::Until(now.plus(nanos(seconds)));
                        }
                    }
                }
            }
            Waiting::Change => match self.map_change(c) {
                Some(event) => {
                    self.since = now;
                    self.handle(c, event, report);
                    self.pulse.forget();
                }
                None => self.request_change_again(c),
            },
        }
    }

    /// Reports changes of cores to the controller, and changes of processors to the workers.
    fn poll_cores(&mut self, c: P::Core, now: Nanos, report: &mut dyn FnMut(&str)) {
        let decides = self.shared.adaptation.decides;
        if decides && self.processors.poll::<P>(c) {
            self.shared.publish_processors(c, self.processors.clone());
            self.is_unsent = true;
        }
        let failing = self.failing.filter(|_| now >= self.warm);
        let gone = failing.map_or_else(Vec::new, |failing| failing.gone(now.since(self.warm)));
        let is_gone = |core: Core| gone.contains(&core.index()) || self.processors.is_absent(core.index());
        let cores = self.cores.with(|core| !is_gone(core));
        // At least one worker has to run.
        if cores != self.cores && cores.present().next().is_some() {
            self.cores = cores.clone();
            if decides {
                self.handle(c, Event::Cores(cores), report);
            }
        }
        // A pending change of the map must not be overwritten.
        if self.is_unsent && !matches!(self.waiting, Waiting::Change) {
            self.send_request(c, None);
            self.since = now;
        }
    }

    /// The result of the change of the map, if it has ended.
    fn map_change(&self, c: P::Core) -> Option<Event> {
        let map_change = self.shared.exchange.with(c, |exchange| exchange.map_change.take())?;
        Some(match map_change.refused {
            Some(why) => Event::Refused { why },
            None => Event::Changed { seconds: map_change.nanos as f64 / 1e9 },
        })
    }

    /// The decisions of the run, which is over.
    fn story(mut self, c: P::Core) -> (Story, Vec<PartitionEvent>) {
        if matches!(self.waiting, Waiting::Change) {
            let over = || Event::Refused { why: "the run is over".to_owned() };
            let event = self.map_change(c).unwrap_or_else(over);
            self.handle(c, event, &mut |_| ());
        }
        (self.controller.story().clone(), self.events.all)
    }

    fn first_present(&self) -> u16 {
        self.cores.present().next().unwrap_or(Core(0)).0
    }

    /// Requests the counts of all workers, or changes of the map from one worker.
    fn send_request(&mut self, c: P::Core, changes: Option<Vec<Change>>) {
        let number = (self.request / REQUEST_STEP + 1) * REQUEST_STEP;
        self.request = match &changes {
            None => number,
            Some(_) => number | CHANGES | u64::from(self.first_present()),
        };
        let request = self.request;
        self.is_unsent = false;
        self.shared
            .exchange
            .with(c, |exchange| *exchange = Exchange { request, changes, ..Exchange::default() });
        // Release: pairs with the acquire of the workers.
        P::store(c, self.shared.request(), request, Ordering::Release);
    }

    /// Requests the change from another worker, if the requested one is gone and has not taken it.
    fn request_change_again(&mut self, c: P::Core) {
        if self.cores.is_present(Core(self.request as u16)) {
            return;
        }
        if let Some(changes) = self.shared.exchange.with(c, |exchange| exchange.changes.take()) {
            self.send_request(c, Some(changes));
        }
    }

    /// The counts of the workers, when all present workers have answered.
    fn counted(&mut self, c: P::Core, now: Nanos) -> Option<Event> {
        let present = self.cores.present().count();
        let cores = &self.cores;
        let is_there = |handed: &WorkerCounts| cores.is_present(Core(handed.worker as u16));
        let handed = self.shared.exchange.with(c, |exchange| {
            let all = exchange.handed.iter().filter(|handed| is_there(handed)).count() == present;
            all.then(|| std::mem::take(&mut exchange.handed))
        })?;
        let transactions: u64 = handed.iter().map(|one| one.transactions).sum();
        let nanos = now.since(std::mem::replace(&mut self.since, now)).max(1) as f64;
        let map = self.controller.map();
        // A worker that has begun no transaction since the map changed still counts by the former
        // map.
        let arrays = handed.iter().map(|one| (Core(one.worker as u16), &one.arrays));
        let arrays = arrays.filter(|(_, one)| one.version() == map.version());
        let grid = repartitioning::Grid::of(map);
        let idle: f64 = arrays.clone().map(|(_, one)| one.idle_nanos() as f64).sum();
        let load = Load::gathered(map.version(), grid.count(), arrays);
        let mut load = load.expect("the arrays of a version are of its sub-partitions");
        load.fit_in(nanos, grid.owners());
        let spent = Spent { nanos, busy_nanos: (nanos - idle / present.max(1) as f64).max(0.0) };
        let throughput = self.times * transactions as f64 / (nanos / 1e9);
        Some(Event::Measured { throughput, load, spent })
    }

    /// A time in seconds of the measured time.
    fn seconds(&self, at: Nanos) -> f64 {
        (at.0 as f64 - self.warm.0 as f64) / 1e9
    }

    /// Passes an event to the controller, and executes its actions.
    fn handle(&mut self, c: P::Core, event: Event, report: &mut dyn FnMut(&str)) {
        let now = P::now(c);
        let at_seconds = self.seconds(now);
        let before = self.controller.story().steps;
        match event {
            Event::Changed { seconds } => self.events.changed(seconds),
            Event::Refused { .. } => self.events.refused(),
            _ => {}
        }
        let mut act = Vec::new();
        self.controller
            .step(at_seconds, event, &mut act)
            .expect("events come in the order in which the controller asks for them");
        if P::VIRTUAL {
            // The host has searched, so the time is added to virtual time.
            P::pause(c, (self.controller.story().steps - before) * Search::STEP_NANOS);
        }
        for action in act {
            match action {
                Action::Repartition { changes, .. } => {
                    self.events.decided(self.seconds(P::now(c)), changes.len());
                    self.send_request(c, Some(changes));
                    self.waiting = Waiting::Change;
                }
                Action::Measure { seconds } => {
                    self.events.measure(self.seconds(P::now(c)), seconds);
                    self.waiting = Waiting::Until(P::now(c).plus(nanos(seconds)));
                    self.pulse.begin();
                }
                // Workers reset their counts with each new map, and with each answer.
                Action::Clear(_) => {}
                Action::Log(words) => report(&words),
            }
        }
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
