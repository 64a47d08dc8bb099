//! The controller, event by event.

use repartitioning::{
    Action, Controller, ControllerState, Core, Cores, Drawn, Draws, Event, Grid, Load, PartitionMap, Range,
    Settings, Spent, Table,
};
use terms::{Fault, Faults};

use crate::support::{all, machine};

struct Played {
    controller: Controller,
    act: Vec<Action>,
    at_seconds: f64,
}

fn map(cores: &Cores) -> PartitionMap {
    let domain = Range { low: 0, end: 160 };
    PartitionMap::even(&[(Table(0), "t", domain)], &all(cores)).expect("a map")
}

impl Played {
    fn new(faults: Faults) -> Self {
        let cores = machine(2, 2);
        let mut act = Vec::new();
        let controller = Controller::new(Settings::new(1.0), cores.clone(), map(&cores), 0.0, &mut act);
        Played { controller: controller.with_faults(faults), act, at_seconds: 0.0 }
    }

    /// Passes a measurement in which each sub-partition of the first quarter has `times` the load
    /// of each other one.
    fn measure(&mut self, throughput: f64, times: f64) {
        let load = self.load(times, |sub, count, _| sub < count / 4);
        self.step(Event::Measured { throughput, load, spent: Spent::default() });
    }

    /// Returns a load with hot sub-partitions. `is_hot` receives the number, the count and the
    /// owner.
    fn load(&self, times: f64, is_hot: impl Fn(usize, usize, u16) -> bool) -> Load {
        let grid = Grid::of(self.controller.map());
        let hot = |sub: usize| is_hot(sub, grid.count(), grid.owners()[sub].0);
        let costs = (0..grid.count()).map(|sub| if hot(sub) { 1e7 * times } else { 1e7 }).collect();
        Load::new(grid.version(), costs, Vec::new())
    }

    fn step(&mut self, event: Event) {
        self.act.clear();
        self.at_seconds += self.controller.interval_seconds();
        self.controller.step(self.at_seconds, event, &mut self.act).expect("a legal event");
    }

    /// Returns the requested interval.
    fn interval(&self) -> Option<f64> {
        self.act.iter().find_map(|action| match action {
            Action::Measure { seconds } => Some(*seconds),
            _ => None,
        })
    }

    fn last_log(&self) -> String {
        let words = self.act.iter().filter_map(|action| match action {
            Action::Log(words) => Some(words.as_str()),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn intervals_become_longer_while_nothing_changes() {
    let mut played = Played::new(Faults::NONE);
    assert!(matches!(&played.act[..], [Action::Clear(_), Action::Measure { seconds: 1.0 }]));
    let mut intervals = Vec::new();
    for _ in 0..5 {
        played.measure(1000.0, 1.0);
        intervals.push(played.interval().expect("an interval"));
    }
    assert_eq!(intervals, [2.0, 4.0, 8.0, 8.0, 8.0]);
    assert_eq!(played.controller.state(), ControllerState::Resting);
    // 9 % more counts as unchanged; 12 % more is another workload, and the next interval is the
    // shortest again.
    played.measure(1090.0, 1.0);
    assert_eq!((played.controller.state(), played.interval()), (ControllerState::Resting, Some(8.0)));
    played.measure(1150.0, 1.0);
    assert_eq!((played.controller.state(), played.interval()), (ControllerState::Looking, Some(1.0)));
    assert!(
        played.last_log().contains("throughput is 1150/s where 1018/s was the mean"),
        "{}",
        played.last_log()
    );
}

#[test]
fn a_change_of_the_workload_leads_to_a_repartitioning() {
    let mut played = Played::new(Faults::NONE);
    (0..3).for_each(|_| played.measure(1000.0, 1.0));
    played.measure(500.0, 5.0);
    // The measurement during the change is not evaluated.
    assert_eq!((played.controller.state(), played.interval()), (ControllerState::Looking, Some(1.0)));
    played.measure(500.0, 5.0);
    assert_eq!((played.controller.state(), played.interval()), (ControllerState::Changing, None));
    let log = played.last_log();
    for part in [
        "repartitioning: core 0 (socket 0) has 2.50 times the mean load",
        "of t is split",
        "of the load changes its core",
        "expected: the busiest core at 1.0",
        "times the throughput",
        "the change costs about",
    ] {
        assert!(log.contains(part), "{part} in {log}");
    }
    let version = played.controller.map().version();
    played.step(Event::Changed { seconds: 0.05 });
    assert_eq!((played.controller.state(), played.interval()), (ControllerState::Looking, Some(1.0)));
    assert!(
        matches!(&played.act[..], [Action::Log(_), Action::Clear(map), ..] if map.version() == version + 1)
    );
    let story = played.controller.story();
    assert_eq!((story.count(), story.repartitionings[0].took_seconds), (1, Some(0.05)));
    // Arrays of the former map are ignored.
    let cores = machine(2, 2);
    let old = Load::new(version, vec![1.0; Grid::of(&map(&cores)).count()], Vec::new());
    played.step(Event::Measured { throughput: 1.0, load: old, spent: Spent::default() });
    assert!(played.last_log().contains("another map"), "{}", played.last_log());
}

/// A repartitioning without gain raises the threshold of the next one. Otherwise repartitioning
/// would not end if another core were hot after each.
#[test]
fn disappointments_end_repartitioning() {
    let repartitionings = |faults| {
        let mut played = Played::new(faults);
        for _ in 0..30 {
            match played.controller.state() {
                ControllerState::Changing => played.step(Event::Changed { seconds: 0.001 }),
                _ => {
                    let hot = (played.controller.map().version() % 4) as u16;
                    let load = played.load(5.0, |_, _, owner| owner == hot);
                    played.step(Event::Measured { throughput: 1000.0, load, spent: Spent::default() });
                }
            }
        }
        played.controller.story().count()
    };
    let (sound, credulous) =
        (repartitionings(Faults::NONE), repartitionings(Faults::of(&[Fault::UnlearnedGain])));
    assert!(sound <= 4 && credulous > 8, "{sound} and {credulous}");
}

/// Skew that costs no throughput, because the machine is not busy, is detected too.
#[test]
fn skew_without_a_loss_is_detected() {
    let mut played = Played::new(Faults::NONE);
    (0..4).for_each(|_| played.measure(1000.0, 1.0));
    played.measure(1000.0, 4.0);
    assert_eq!((played.controller.state(), played.interval()), (ControllerState::Looking, Some(1.0)));
    played.measure(1000.0, 4.0);
    assert_eq!(played.controller.state(), ControllerState::Changing);
}

/// A measurement made while the workload changed mixes two workloads: a controller that evaluates
/// it makes an illegal transition.
#[test]
fn a_controller_without_waiting_makes_an_illegal_transition() {
    let step = |faults| {
        let mut played = Played::new(faults);
        (0..3).for_each(|_| played.measure(1000.0, 1.0));
        let load = played.load(5.0, |sub, count, _| sub < count / 4);
        let measured = Event::Measured { throughput: 500.0, load, spent: Spent::default() };
        played.controller.step(10.0, measured, &mut Vec::new()).map_err(|error| error.to_string())
    };
    assert_eq!(step(Faults::NONE), Ok(()));
    let error = step(Faults::of(&[Fault::UnsettledMeasurement])).unwrap_err();
    assert_eq!(error, "a controller that is Resting cannot go to Changing by Measured");
}

/// A throughput from before a repartitioning cannot be compared with one after it.
#[test]
fn a_controller_without_forgetting_detects_a_false_change() {
    let log = |faults| {
        let mut played = Played::new(faults);
        (0..2).for_each(|_| played.measure(1000.0, 1.0));
        (0..2).for_each(|_| played.measure(500.0, 5.0));
        assert_eq!(played.controller.state(), ControllerState::Changing);
        played.step(Event::Changed { seconds: 0.001 });
        played.measure(1000.0, 1.0);
        played.last_log()
    };
    assert!(!log(Faults::NONE).contains("the workload changed"));
    let forgetful = log(Faults::of(&[Fault::KeptMeasurements]));
    assert!(forgetful.contains("the workload changed"), "{forgetful}");
}

#[test]
fn unexpected_events_are_illegal() {
    let mut played = Played::new(Faults::NONE);
    let mut act = Vec::new();
    let error = played.controller.step(1.0, Event::Changed { seconds: 1.0 }, &mut act).unwrap_err();
    assert_eq!(error.to_string(), "a controller that is Looking cannot go to Looking by Changed");
    assert!(act.is_empty());
    played.measure(1000.0, 5.0);
    assert_eq!(played.controller.state(), ControllerState::Changing);
    let load = Load::new(0, vec![1.0; 40], Vec::new());
    let measured = Event::Measured { throughput: 1.0, load, spent: Spent::default() };
    assert!(played.controller.step(2.0, measured, &mut act).is_err());
}

#[test]
fn a_refused_change_keeps_the_map() {
    let mut played = Played::new(Faults::NONE);
    played.measure(1000.0, 5.0);
    let before = played.controller.map().clone();
    played.step(Event::Refused { why: "a transaction does not end".to_owned() });
    assert_eq!(played.controller.map(), &before);
    assert_eq!((played.controller.state(), played.interval()), (ControllerState::Looking, Some(2.0)));
    assert!(played.last_log().contains("a transaction does not end"));
    // The controller tries again.
    played.measure(1000.0, 5.0);
    assert_eq!(played.controller.state(), ControllerState::Changing);
}

#[test]
fn cores_lost_during_a_change_are_handled_afterwards() {
    let mut played = Played::new(Faults::NONE);
    played.measure(1000.0, 5.0);
    assert_eq!(played.controller.state(), ControllerState::Changing);
    let cores = machine(2, 2);
    let left = cores.with(|core| cores.socket(core) == 1);
    played.step(Event::Cores(left.clone()));
    assert_eq!(played.controller.state(), ControllerState::Changing);
    played.step(Event::Changed { seconds: 0.01 });
    // The new map names lost owners: another change follows at once.
    assert_eq!(played.controller.state(), ControllerState::Changing);
    assert!(played.last_log().contains("cores 0 to 1 are gone and owned"), "{}", played.last_log());
    played.step(Event::Changed { seconds: 0.01 });
    played.controller.map().check_owners(|core| left.is_present(core)).expect("owners that are there");
    // No core is left, which the log reports.
    played.step(Event::Cores(cores.with(|_| false)));
    assert!(played.last_log().contains("no core is present"), "{}", played.last_log());
    assert_eq!(played.controller.state(), ControllerState::Looking);
}

/// The gain of removing skew is the delay of the busiest core, relative to all its work.
#[test]
fn cores_that_do_little_have_little_to_gain() {
    let cases =
        [(0.0, 0.0, true), (0.5, 0.0, true), (10.0, 0.0, false), (0.5, 0.2, true), (0.5, 0.45, false)];
    for (seconds, busy_seconds, changes) in cases {
        let mut played = Played::new(Faults::NONE);
        let load = played.load(4.0, |sub, count, _| sub < count / 4);
        let spent = Spent { nanos: seconds * 1e9, busy_nanos: busy_seconds * 1e9 };
        played.step(Event::Measured { throughput: 1000.0, load, spent });
        assert_eq!(
            played.controller.state() == ControllerState::Changing,
            changes,
            "{seconds}, {busy_seconds}: {}",
            played.last_log()
        );
    }
}

/// One core owns keys that four cores draw, each a quarter, and the others wait for it. No core is
/// too busy with actions, so balance gains nothing; still each core gets the keys that it draws.
#[test]
fn cores_get_the_keys_that_they_draw() {
    let owners_after = |knows_draws: bool| {
        let mut played = Played::new(Faults::NONE);
        let cores = machine(2, 2);
        played.step(Event::Cores(cores.with(|core| core == Core(1))));
        assert_eq!(played.controller.state(), ControllerState::Changing);
        played.step(Event::Changed { seconds: 0.01 });
        played.step(Event::Cores(cores));
        for _ in 0..2 {
            let mut load = played.load(1.0, |_, _, _| false);
            let quarter = |sub: usize| Core((4 * sub / load.costs.len()) as u16);
            let drawn = |sub| Drawn { all: 1e5, often: vec![(quarter(sub), 1e5)], others: 0.0 };
            let by_sub = (0..load.costs.len()).map(drawn).collect();
            if knows_draws {
                load.draws = Draws { ask_nanos: 1000.0, by_sub };
            }
            let spent = Spent { nanos: 1e9, busy_nanos: 0.5e9 };
            if played.controller.state() != ControllerState::Changing {
                played.step(Event::Measured { throughput: 1000.0, load, spent });
            }
        }
        let map = played.act.iter().find_map(|action| match action {
            Action::Repartition { map, .. } => Some(map.clone()),
            _ => None,
        });
        (map.map(|map| map.partitions().map(|(_, one)| one.owner.0).collect::<Vec<u16>>()), played.last_log())
    };
    let (owners, log) = owners_after(true);
    assert_eq!(owners, Some(vec![0, 1, 2, 3]), "{log}");
    assert!(log.contains("waiting for the owners of what cores draw takes "), "{log}");
    assert!(log.contains("and would take 0.0 %"), "{log}");
    let (owners, log) = owners_after(false);
    assert_eq!(owners, None, "{log}");
}
