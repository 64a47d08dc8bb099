//! A toy executor under a controller: arithmetic, no threads, no clock.
//!
//! The busiest core limits throughput. A workload spreads the cost of requests over the positions
//! of tables, and measurements are noisy.

use repartitioning::{
    Action, Controller, ControllerState, Core, Cores, Event, Grid, Load, Model, PartitionMap, Range,
    Settings, Spent, SubPartition, SynchronizationPoint, Table,
};

use terms::random::SplitMix;
use terms::{Fault, Faults};

use crate::support::{Numbers, all, machine};

/// Positions of each table.
const POSITIONS: u64 = 800;
/// Nanoseconds of work of a request.
const REQUEST_NS: f64 = 1000.0;

/// Distribution of requests.
#[derive(Clone, Copy)]
enum Workload {
    /// Uniform.
    Uniform,
    /// A share of the requests accesses a share of the data, from a position on.
    Hot { requests: f64, data: f64, from: u64 },
    /// A power law with this exponent; the first position gets the most requests.
    Zipf(f64),
    /// Only to the tables with even numbers, and they cost three times as much.
    Half,
}

impl Workload {
    /// The weight of a position of a table.
    fn weight(self, table: usize, position: u64) -> f64 {
        match self {
            Workload::Uniform => 1.0,
            Workload::Hot { requests, data, from } => {
                let hot = (data * POSITIONS as f64) as u64;
                match (from..from + hot).contains(&position) {
                    true => requests / hot as f64,
                    false => (1.0 - requests) / (POSITIONS - hot) as f64,
                }
            }
            Workload::Zipf(exponent) => 1.0 / ((position + 1) as f64).powf(exponent),
            Workload::Half if table.is_multiple_of(2) => 3.0,
            Workload::Half => 0.0,
        }
    }
}

struct Toy {
    controller: Controller,
    numbers: Numbers,
    cores: Cores,
    workload: Workload,
    /// Seconds of a split, a merge or a move.
    change_seconds: f64,
    /// Standard deviation of measurements.
    noise: f64,
    at_seconds: f64,
    interval_seconds: f64,
    map: PartitionMap,
    /// Number of completed requests.
    done: f64,
    log: Vec<String>,
    /// True if the owners of each map are checked to be present.
    strict: bool,
}

impl Toy {
    fn new(seed: u64, faults: Faults, settings: Settings) -> Self {
        let cores = machine(4, 4);
        let domain = Range { low: 0, end: POSITIONS };
        let names = ["a", "b"].into_iter().enumerate();
        let tables: Vec<(Table, &str, Range)> =
            names.map(|(number, name)| (Table(number as u16), name, domain)).collect();
        let map = PartitionMap::even(&tables, &all(&cores)).expect("a map");
        let mut act = Vec::new();
        let controller = Controller::new(settings, cores.clone(), map.clone(), 0.0, &mut act);
        let mut toy = Toy {
            controller: controller.with_faults(faults),
            numbers: Numbers(SplitMix::new(seed)),
            cores,
            workload: Workload::Uniform,
            change_seconds: 0.001,
            noise: 0.0,
            at_seconds: 0.0,
            interval_seconds: 0.0,
            map,
            done: 0.0,
            log: Vec::new(),
            strict: true,
        };
        toy.act(act);
        toy
    }

    fn sound(seed: u64) -> Self {
        Toy::new(seed, Faults::NONE, Settings::new(1.0))
    }

    fn act(&mut self, act: Vec<Action>) {
        for action in act {
            match action {
                Action::Repartition { changes, map } => {
                    let there = self.map.changed(&changes).expect("the changes fit");
                    assert_eq!(there.tables(), map.tables());
                    let seconds = self.change_seconds * changes.len() as f64;
                    self.at_seconds += seconds;
                    self.map = map;
                    self.step(Event::Changed { seconds });
                }
                Action::Clear(map) => assert_eq!(map, self.map),
                Action::Measure { seconds } => self.interval_seconds = seconds,
                Action::Log(words) => self.log.push(words),
            }
        }
    }

    fn step(&mut self, event: Event) {
        let mut act = Vec::new();
        self.controller.step(self.at_seconds, event, &mut act).expect("a legal event");
        self.act(act);
    }

    /// Returns the load of `requests` requests, by the sub-partitions of the map.
    fn load(&self, requests: f64) -> Load {
        let grid = Grid::of(&self.map);
        let mut costs = vec![0.0; grid.count()];
        for (number, span) in grid.tables().enumerate() {
            for sub in span {
                let (_, range) = grid.place(SubPartition(sub as u32));
                costs[sub] = (range.low..range.end).map(|at| self.workload.weight(number, at)).sum();
            }
        }
        let total: f64 = costs.iter().sum();
        costs.iter_mut().for_each(|cost| *cost *= requests * REQUEST_NS / total);
        // A request to the first table also accesses the same position of the second one.
        let first = grid.tables().next().expect("a table");
        let meeting = |sub: usize| {
            let (_, range) = grid.place(SubPartition(sub as u32));
            let other = grid.at(Table(1), range.low + range.len() / 2).expect("the second table");
            let count = costs[sub] / REQUEST_NS;
            SynchronizationPoint { members: vec![SubPartition(sub as u32), other], count, bytes: 8.0 * count }
        };
        let meetings = first.map(meeting).filter(|point| point.count > 0.0).collect();
        Load::new(self.map.version(), costs, meetings)
    }

    /// Returns the load of the busiest core as a multiple of the mean, and the requests in a
    /// second.
    fn now(&self) -> (f64, f64) {
        let load = self.load(1.0);
        let figures = Model { cores: &self.cores, load: &load }.figures(Grid::of(&self.map).owners());
        // Requests to lost cores are never completed.
        let running = 1.0 - figures.stranded / load.total();
        (figures.hottest().1, running * 1e9 / figures.time())
    }

    /// Simulates one interval.
    fn interval(&mut self) {
        let (_, throughput) = self.now();
        let seconds = self.interval_seconds;
        self.at_seconds += seconds;
        self.done += throughput * seconds;
        let mut load = self.load(throughput * seconds);
        let noise = self.noise;
        load.costs.iter_mut().for_each(|cost| *cost *= (1.0 + self.numbers.noise(noise)).max(0.0));
        let throughput = throughput * (1.0 + self.numbers.noise(noise));
        self.step(Event::Measured { throughput, load, spent: Spent::default() });
        if self.strict {
            self.map.check_owners(|core| self.cores.is_present(core)).expect("owners that are there");
        }
    }

    fn intervals(&mut self, count: usize) {
        (0..count).for_each(|_| self.interval());
    }

    fn lose(&mut self, lost: impl Fn(Core) -> bool) {
        self.cores = self.cores.with(|core| !lost(core));
        self.step(Event::Cores(self.cores.clone()));
    }

    fn repartitionings(&self) -> u64 {
        self.controller.story().count()
    }
}

const HOT_CORE_MIN: Workload = Workload::Hot { requests: 0.5, data: 0.2, from: 0 };

/// Returns the repartitionings in 60 intervals of a constant workload, measured with 5 % noise, and
/// the number of intervals of maximum length.
fn stable(seed: u64, faults: Faults) -> (u64, usize) {
    let mut toy = Toy::new(seed, faults, Settings::new(1.0));
    toy.noise = 0.05;
    let mut longest = 0;
    for _ in 0..60 {
        longest += usize::from(toy.interval_seconds == 8.0);
        toy.interval();
    }
    (toy.repartitionings(), longest)
}

#[test]
fn a_stable_workload_causes_no_repartitioning() {
    for seed in 0..20 {
        let (repartitionings, longest) = stable(seed, Faults::NONE);
        assert_eq!(repartitionings, 0, "{seed}");
        assert!(longest >= 20, "{seed}: {longest}");
    }
    // Without weighing the map changes all the time; without backing off the intervals stay short.
    assert!(stable(0, Faults::of(&[Fault::UnweighedMoves])).0 > 5);
    assert_eq!(stable(0, Faults::of(&[Fault::ConstantInterval])).1, 0);
}

#[test]
fn skew_is_spread_within_five_intervals() {
    for seed in 0..10 {
        let mut toy = Toy::sound(seed);
        toy.noise = 0.02;
        toy.intervals(10);
        assert_eq!(toy.repartitionings(), 0);
        let before = toy.now();
        toy.workload = HOT_CORE_MIN;
        let skewed = toy.now();
        assert!(skewed.0 > 2.0 && skewed.1 < 0.5 * before.1, "{skewed:?}");
        toy.intervals(5);
        let (times, throughput) = toy.now();
        assert!(times < 1.2, "{seed}: {times}, {:#?}", toy.log);
        assert!(throughput > 0.9 * before.1, "{seed}: {throughput} beside {}", before.1);
        let done = toy.repartitionings();
        // No further repartitioning follows.
        toy.intervals(60);
        assert_eq!(toy.repartitionings(), done, "{seed}: {:#?}", toy.log);
        let story = toy.controller.story();
        let first = &story.repartitionings[0];
        assert!(first.seen.is_some() && first.took_seconds.is_some());
        assert!(
            first.reason.contains("times the mean load") && first.reason.contains("of a "),
            "{}",
            first.reason
        );
    }
}

#[test]
fn power_laws_are_spread() {
    // With an exponent of 1, the first position of each table alone has 1.1 times the mean load of
    // a core.
    for (exponent, most) in [(0.5, 1.2), (0.8, 1.2), (1.0, 1.3)] {
        let mut toy = Toy::sound(7);
        toy.noise = 0.01;
        toy.workload = Workload::Zipf(exponent);
        let before = toy.now();
        toy.intervals(12);
        let (times, throughput) = toy.now();
        assert!(times < most, "{exponent}: {times}");
        assert!(throughput > 1.5 * before.1, "{exponent}: {throughput} beside {}", before.1);
    }
}

/// Simulates the failure of four of sixteen cores.
fn failed(faults: Faults) -> Toy {
    let mut toy = Toy::new(3, faults, Settings::new(1.0));
    toy.strict = !faults.has(Fault::AbandonedPartitions);
    toy.intervals(5);
    let socket = toy.cores.clone();
    toy.lose(|core| socket.socket(core) == 2);
    toy
}

#[test]
fn a_failed_socket_loses_its_partitions_at_once() {
    let mut toy = failed(Faults::NONE);
    toy.map.check_owners(|core| toy.cores.is_present(core)).expect("owners that are there");
    assert_eq!(toy.repartitionings(), 1);
    toy.intervals(5);
    let (times, _) = toy.now();
    assert!(times < 1.2, "{times}");
    let reason = &toy.controller.story().repartitionings[0].reason;
    assert!(reason.starts_with("cores 8 to 11 are gone and owned 8 partitions"), "{reason}");
    // The socket comes back, and its cores are used again.
    toy.lose(|_| false);
    toy.intervals(5);
    let (times, _) = toy.now();
    assert!(times < 1.2, "{times}");
    // Without rescuing, keys remain without an owner.
    let lost = failed(Faults::of(&[Fault::AbandonedPartitions]));
    assert!(lost.map.check_owners(|core| lost.cores.is_present(core)).is_err());
}

/// Alternates two workloads for 200 seconds. Returns the repartitionings and the completed
/// requests.
fn alternating(seconds: f64, faults: Faults, adaptive: bool) -> (u64, f64) {
    let mut settings = Settings::new(1.0);
    if !adaptive {
        settings.gain_min = 1.0;
    }
    let mut toy = Toy::new(5, faults, settings);
    // A split, a merge or a move is not cheap: 40 ms of the whole machine.
    toy.change_seconds = 0.04;
    while toy.at_seconds < 200.0 {
        let turn = (toy.at_seconds / seconds) as u64 % 2;
        toy.workload =
            if turn == 0 { HOT_CORE_MIN } else { Workload::Hot { requests: 0.5, data: 0.2, from: 600 } };
        toy.interval();
    }
    (toy.repartitionings(), toy.done / toy.at_seconds)
}

#[test]
fn alternation_does_not_thrash() {
    let (quick, quick_done) = alternating(2.0, Faults::NONE, true);
    let (_, fixed_done) = alternating(2.0, Faults::NONE, false);
    assert!(quick <= 8, "{quick}");
    assert!(quick_done > 0.95 * fixed_done, "{quick_done} beside {fixed_done}");
    // If each workload stays long enough, the map follows every change.
    let (slow, slow_done) = alternating(40.0, Faults::NONE, true);
    assert!(slow >= 4, "{slow}");
    let (none, fixed_done) = alternating(40.0, Faults::NONE, false);
    assert_eq!(none, 0);
    assert!(slow_done > 1.3 * fixed_done, "{slow_done} beside {fixed_done}");
    // Without weighing the map follows every change, even a short one.
    let (hasty, hasty_done) = alternating(2.0, Faults::of(&[Fault::UnweighedMoves]), true);
    assert!(hasty > 3 * quick && hasty_done < quick_done, "{hasty}, {quick}, {hasty_done}, {quick_done}");
}

#[test]
fn tables_that_are_not_used_do_not_matter() {
    let mut toy = Toy::sound(1);
    toy.workload = Workload::Half;
    toy.intervals(6);
    let (times, _) = toy.now();
    assert!(times < 1.2, "{times}");
    assert_eq!(toy.controller.state(), ControllerState::Resting);
}

#[test]
fn the_same_seed_gives_the_same_story() {
    let run = |seed| {
        let mut toy = Toy::sound(seed);
        toy.noise = 0.03;
        toy.intervals(3);
        toy.workload = HOT_CORE_MIN;
        toy.intervals(8);
        toy.controller.story().clone()
    };
    let story = run(11);
    assert_eq!(story, run(11));
    // The story as text names cores, ranges and reasons; as a value it comes back from JSON.
    let text = story.text();
    for part in ["repartitioning 1 at", "before: core ", "after: ", "(socket 3)", "; b ", "it took"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let json = serde_json::to_string(&story).expect("a value");
    let back: repartitioning::Story = serde_json::from_str(&json).expect("a story");
    assert_eq!(back.text(), text);
}
