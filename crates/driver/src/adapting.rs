//! Partitions that follow the workload of a run: what workers that own them count goes to a controller, and what it decides to the map.
//!
//! The first worker is the one that monitors (ATraPos, section V, has a thread for that). When an interval is over it asks all workers for what they
//! have counted; each answers after its next transaction, and the first worker tells the controller when all have. It changes the map between two of its own
//! transactions, while all others serve each other ([`oriented::Worker::rearrange`]). A worker that has ended answers no more, and nothing is decided from then on.
//!
//! Who met whom at synchronization points is guessed by positions ([`adapt::PartitionCounts`]), because workers count points and not meetings. All sockets
//! are taken to be equally far from each other.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use adapt::{
    Action, Change, Controller, Core, Cores, Event, Grid, PartitionCounts, PartitionMap, Range, Settings,
    Story, Table, TablePartitions,
};
use cc::Abort;
use engine::Procedure;
use engine::dynamic::AnySession;
use oriented::{Load, Map, Rearrange};
use platform::{LINE_BYTES, Nanos, OutOfMemory, Platform};
use storage::Latched;

/// Nanoseconds that a byte takes between two sockets: a line of 64 bytes in 128 ns.
const BYTE_NS: f64 = 2.0;

/// What a worker hands over.
struct Handed {
    map: Map,
    load: Load,
    transactions: u64,
}

/// What the workers of a run share that follows its workload.
pub(crate) struct Adapting<P: Platform> {
    settings: Settings,
    /// Seconds from the first transaction to the beginning of the measured time.
    warm_up_seconds: f64,
    /// By number of the table.
    names: Vec<String>,
    /// The socket of each worker.
    sockets: Vec<u32>,
    /// Line 0: how often workers have been asked. Line 1: answers to the last question.
    words: P::Region,
    handed: Latched<P, Vec<Handed>>,
    story: Latched<P, Option<Story>>,
}

impl<P: Platform> Adapting<P> {
    /// Of workers in these sockets, who own parts of these tables.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn new(
        c: P::Core,
        settings: Settings,
        warm_up_seconds: f64,
        (names, sockets): (Vec<String>, Vec<u32>),
    ) -> Result<Self, OutOfMemory> {
        Ok(Adapting {
            settings,
            warm_up_seconds,
            names,
            sockets,
            words: P::control_region(c, 2 * LINE_BYTES, "what partitions cost")?,
            handed: Latched::new(c, "what partitions cost", Vec::new())?,
            story: Latched::new(c, "how partitions changed", None)?,
        })
    }

    fn asked(&self) -> &P::Word {
        P::word_of(&self.words, 0)
    }

    fn answered(&self) -> &P::Word {
        P::word_of(&self.words, LINE_BYTES)
    }

    /// What was decided in the run; none if nothing was.
    pub(crate) fn story(&self, c: P::Core) -> Option<Story> {
        self.story.with(c, |story| story.clone())
    }

    fn cores(&self) -> Cores {
        let dense: std::collections::BTreeSet<u32> = self.sockets.iter().copied().collect();
        let number = |socket: &u32| dense.iter().take_while(|other| *other < socket).count();
        let count = dense.len();
        let distance = |one: usize, other: usize| if one == other { 0.0 } else { BYTE_NS };
        let row = |one: usize| (0..count).map(|other| distance(one, other)).collect();
        let sockets = self.sockets.iter().map(|socket| number(socket) as u16).collect();
        Cores::new(sockets, (0..count).map(row).collect()).expect("a run has workers, in dense sockets")
    }

    /// The map as the controller has it.
    fn partitions(&self, map: &Map) -> PartitionMap {
        let of_table = |table: usize| {
            let partition = |one: &oriented::Partition| adapt::Partition {
                range: Range {
                    low: u64::from(one.first),
                    end: u64::from(one.first) + u64::from(one.columns),
                },
                owner: Core(one.owner),
            };
            TablePartitions {
                table: Table(table as u16),
                name: self.names.get(table).cloned().unwrap_or_default(),
                partitions: map.partitions(table).iter().map(partition).collect(),
            }
        };
        let owned = (0..map.tables()).filter(|table| map.is_owned(*table));
        PartitionMap::new(0, owned.map(of_table).collect()).expect("partitions cover their tables")
    }
}

/// What one worker has to do with it.
pub(crate) struct Part<'d, P: Platform> {
    shared: &'d Adapting<P>,
    /// How often it has been asked.
    asked: u64,
    /// Transactions since.
    transactions: u64,
    /// The first worker's.
    monitor: Option<Monitor>,
}

/// What the first worker knows.
struct Monitor {
    controller: Controller,
    map: Map,
    began: Nanos,
    /// When the interval began, and when it is over.
    interval: (Nanos, Nanos),
    /// Whether answers are awaited.
    is_asking: bool,
}

impl<'d, P: Platform> Part<'d, P> {
    /// Of the worker with this number, which begins with this map.
    pub(crate) fn new(c: P::Core, shared: &'d Adapting<P>, worker: usize, map: &Map) -> Self {
        let monitor = (worker == 0).then(|| {
            let now = P::now(c);
            let mut act = Vec::new();
            let at_seconds = -shared.warm_up_seconds;
            let partitions = shared.partitions(map);
            let controller =
                Controller::new(shared.settings, shared.cores(), partitions, at_seconds, &mut act);
            let until = now.plus(nanos(shared.settings.interval_seconds));
            Monitor { controller, map: map.clone(), began: now, interval: (now, until), is_asking: false }
        });
        Part { shared, asked: 0, transactions: 0, monitor }
    }

    /// After a transaction of the worker: answers, asks, decides, and changes the map.
    ///
    /// # Errors
    /// The database has stopped, or a worker is gone.
    pub(crate) fn turn<Q: Procedure>(
        &mut self,
        c: P::Core,
        worker: &mut oriented::Worker<'d, P, Q>,
        session: &mut dyn AnySession<'_>,
    ) -> Result<(), Abort> {
        self.transactions += 1;
        // Acquire: the list is empty for whoever sees that it is asked for.
        let asked = P::load(c, self.shared.asked(), Ordering::Acquire);
        if asked != self.asked {
            self.asked = asked;
            self.hand_over(c, worker);
        }
        let Some(monitor) = &mut self.monitor else { return Ok(()) };
        let now = P::now(c);
        if !monitor.is_asking {
            if now >= monitor.interval.1 {
                monitor.is_asking = true;
                self.shared.handed.with(c, Vec::clear);
                P::store(c, self.shared.answered(), 0, Ordering::Relaxed);
                // Release: see above.
                P::store(c, self.shared.asked(), asked + 1, Ordering::Release);
            }
            return Ok(());
        }
        // Acquire: with the last answer, all are in the list.
        if P::load(c, self.shared.answered(), Ordering::Acquire) < self.shared.sockets.len() as u64 {
            return Ok(());
        }
        monitor.is_asking = false;
        let handed = self.shared.handed.with(c, std::mem::take);
        let event = monitor.measured(handed, now);
        monitor.follow::<P, Q>(c, self.shared, event, (worker, session))
    }

    fn hand_over<Q: Procedure>(&mut self, c: P::Core, worker: &mut oriented::Worker<'d, P, Q>) {
        let handed = Handed {
            map: worker.map().clone(),
            load: worker.take_load(),
            transactions: std::mem::take(&mut self.transactions),
        };
        self.shared.handed.with(c, |all| all.push(handed));
        // Release: whoever counts the answer sees it in the list.
        P::fetch_add(c, self.shared.answered(), 1, Ordering::Release);
    }
}

impl Monitor {
    /// What the workers have counted, as an event.
    fn measured(&self, handed: Vec<Handed>, now: Nanos) -> Event {
        let grid = Grid::of(self.controller.map());
        let mut counts: BTreeMap<(Table, usize), PartitionCounts> = BTreeMap::new();
        let mut transactions = 0;
        for one in handed {
            transactions += one.transactions;
            // A worker that has begun no transaction since the map changed counts by the former one.
            if one.map != self.map {
                continue;
            }
            for (table, partitions) in one.load.tables.iter().enumerate() {
                for (place, load) in partitions.iter().enumerate() {
                    let counts = counts.entry((Table(table as u16), place)).or_default();
                    add(&mut counts.nanos, &load.nanos);
                    add(&mut counts.points, &load.points);
                }
            }
        }
        let load = adapt::Load::counted(&grid, |table, place| counts.get(&(table, place)), LINE_BYTES as f64);
        let seconds = now.since(self.interval.0) as f64 / 1e9;
        Event::Measured { throughput: transactions as f64 / seconds.max(1e-9), load }
    }

    /// Tells the controller, and does what it says.
    fn follow<P: Platform, Q: Procedure>(
        &mut self,
        c: P::Core,
        shared: &Adapting<P>,
        event: Event,
        (worker, session): (&mut oriented::Worker<'_, P, Q>, &mut dyn AnySession<'_>),
    ) -> Result<(), Abort> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let now = P::now(c);
            let at_seconds = now.since(self.began) as f64 / 1e9 - shared.warm_up_seconds;
            let mut act = Vec::new();
            self.controller
                .step(at_seconds, event, &mut act)
                .expect("events come in the order that it asks for");
            for action in act {
                match action {
                    Action::Repartition { changes, .. } => {
                        let steps: Vec<Rearrange> = changes.iter().map(rearrange).collect();
                        let changed = worker.rearrange(session, &steps)?;
                        let seconds = P::now(c).since(now) as f64 / 1e9;
                        let next = changed.and_then(|()| self.map.rearranged(&steps));
                        events.push(match next {
                            Ok(map) => {
                                self.map = map;
                                Event::Changed { seconds }
                            }
                            Err(why) => Event::Refused { why: why.to_string() },
                        });
                    }
                    Action::Measure { seconds } => {
                        let now = P::now(c);
                        self.interval = (now, now.plus(nanos(seconds)));
                    }
                    // Workers begin anew with each map that they see, and with each answer. What they say is in the story.
                    Action::Clear(_) | Action::Say(_) => {}
                }
            }
        }
        let story = self.controller.story().clone();
        shared.story.with(c, |last| *last = Some(story));
        Ok(())
    }
}

fn add(sums: &mut Vec<u64>, counts: &[u64]) {
    sums.resize(counts.len().max(sums.len()), 0);
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// The same change in the words of those who make it.
fn rearrange(change: &Change) -> Rearrange {
    let table = usize::from(change.table().0);
    match *change {
        Change::Split { at, .. } => Rearrange::Split { table, column: at as u16 },
        // They name the first of the two.
        Change::Merge { at, .. } => Rearrange::Merge { table, column: (at - 1) as u16 },
        Change::Move { low, to, .. } => Rearrange::Move { table, column: low as u16, owner: to.0 },
    }
}
