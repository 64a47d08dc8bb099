//! The controller: decides when to measure, when to search for a better map, and when to change to
//! it.
//!
//! Source: ATraPos, section V. The interval between measurements is doubled, up to eight times the
//! shortest one, while throughput stays within 10 % of the mean of the last five measurements. On a
//! larger change the model is evaluated. After a repartitioning the interval is the shortest again,
//! and earlier measurements are discarded. Deviations, with their reasons in docs/adaptation.md:
//! - A measurement made while the workload changed is not evaluated, because it mixes two
//!   workloads. The next one is.
//! - The first interval is evaluated, and so is each interval after a repartitioning until a search
//!   finds no map that pays: a run may begin with skew, and finer sub-partitions reveal more.
//! - A repartitioning must pay ([`Balance`]).
//! - Skew that does not change throughput is also detected, by an upper bound of the gain.
//! - Cores that are lost lose their partitions at once.
//!
//! The controller is a pure state machine: it receives events and returns actions. The executor
//! clears its arrays with each measurement that it passes.

mod legal;

use crate::balance::{Balance, CoreCosts, Decision, Spent, WorkloadHistory, gain};
use crate::cores::{Core, Cores};
use crate::grid::Grid;
use crate::load::Load;
use crate::load_conversion::{convert_load, even_load};
use crate::map::{Change, PartitionMap};
use crate::model::{Figures, Model};
use crate::search::{Proposal, SearchError, search};
use crate::settings::Settings;
use crate::story::{Repartitioning, Story, View};
use crate::words::{come_and_gone, reason, seconds, why_not};

use legal::{EventKind, check, check_event};
use terms::{Fault, Faults};

pub use legal::{ControllerState, Illegal};

/// A repartitioning counts as a disappointment if it gains less than this share of the expected
/// gain.
const DISAPPOINTING: f64 = 0.5;
/// A search begins if the upper bound of the gain has grown by this much since the last search.
const GROWN: f64 = 0.1;

/// Event of a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The interval is over.
    Measured {
        /// Transactions a second.
        throughput: f64,
        /// Counts of the workers, whose arrays are now empty.
        load: Load,
        /// The time in which they were counted.
        spent: Spent,
    },
    /// The presence of cores has changed. The number of cores is the same as before.
    Cores(Cores),
    /// The map has been changed.
    Changed {
        /// Seconds from the first worker that stopped to the last one that resumed.
        seconds: f64,
    },
    /// The map was not changed.
    Refused {
        /// The reason.
        why: String,
    },
}

/// Action requested by a controller. Actions are executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Change the map. [`Event::Changed`] or [`Event::Refused`] reports the result. There are no
    /// measurements until then.
    Repartition {
        /// The changes, in their order.
        changes: Vec<Change>,
        /// The resulting map.
        map: PartitionMap,
    },
    /// Clear the arrays, and use the sub-partitions of this map from now on.
    Clear(PartitionMap),
    /// Begin an interval, whose end [`Event::Measured`] reports. A current interval is abandoned.
    Measure {
        /// Its length.
        seconds: f64,
    },
    /// Write a text to the log.
    Log(String),
}

/// Expected gain of the latest repartitioning.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ExpectedGain {
    /// Throughput before it, if known.
    before: Option<f64>,
    /// Expected multiple of this throughput.
    times: f64,
}

/// The change that the executor is making.
#[derive(Clone, Debug, PartialEq)]
struct PendingChange {
    map: PartitionMap,
    changes: usize,
    expected: ExpectedGain,
}

/// The controller of one database.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    faults: Faults,
    state: ControllerState,
    cores: Cores,
    map: PartitionMap,
    /// The last measured load, by the sub-partitions of the current map.
    load: Load,
    /// The time in which it was counted.
    spent: Spent,
    pending: Option<PendingChange>,
    expected: Option<ExpectedGain>,
    interval_seconds: f64,
    /// The last throughputs of the current workload under the current map.
    remembered: Vec<f64>,
    /// Upper bound of the gain at the last search.
    open_gain: f64,
    /// Time of the last change of the workload.
    since_seconds: f64,
    stay_seconds: f64,
    change_seconds: f64,
    doubts: u32,
    story: Story,
}

impl Controller {
    /// Returns the controller of a database with this map on these cores, which begins to run at
    /// `at_seconds`. The first actions are added to `act`.
    pub fn new(
        settings: Settings,
        cores: Cores,
        map: PartitionMap,
        at_seconds: f64,
        act: &mut Vec<Action>,
    ) -> Self {
        let load = even_load(&Grid::of(&map));
        let controller = Controller {
            settings,
            faults: Faults::NONE,
            state: ControllerState::Looking,
            load,
            spent: Spent::default(),
            pending: None,
            expected: None,
            interval_seconds: settings.interval_seconds,
            remembered: Vec::new(),
            open_gain: 0.0,
            since_seconds: at_seconds,
            stay_seconds: settings.stay_seconds,
            change_seconds: settings.change_seconds,
            doubts: 0,
            story: Story::new(&cores),
            cores,
            map,
        };
        act.push(Action::Clear(controller.map.clone()));
        controller.measure(act);
        controller
    }

    /// Plants faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Controller { faults, ..self }
    }

    /// Adds a note to the story, for an occurrence that is no event.
    pub fn note(&mut self, at_seconds: f64, words: String) {
        self.story.note(at_seconds, words);
    }

    /// Returns the state.
    pub fn state(&self) -> ControllerState {
        self.state
    }

    /// Returns the current map; during a change, the old one.
    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    /// Returns the length of the current or last interval.
    pub fn interval_seconds(&self) -> f64 {
        self.interval_seconds
    }

    /// Returns the story so far.
    pub fn story(&self) -> &Story {
        &self.story
    }

    /// Handles an event at `at_seconds` of the run, and adds the resulting actions to `act`.
    ///
    /// # Errors
    /// [`Illegal`]: the event does not fit the state; nothing has changed.
    pub fn step(&mut self, at_seconds: f64, event: Event, act: &mut Vec<Action>) -> Result<(), Illegal> {
        let before = self.state;
        let kind = match event {
            Event::Measured { .. } => EventKind::Measured,
            Event::Cores(_) => EventKind::Cores,
            Event::Changed { .. } => EventKind::Changed,
            Event::Refused { .. } => EventKind::Refused,
        };
        check_event(before, kind)?;
        match event {
            Event::Measured { throughput, load, spent } => {
                self.measured(at_seconds, throughput, spent, load, act);
            }
            Event::Cores(cores) => self.cores_changed(at_seconds, cores, act),
            Event::Changed { seconds } => self.changed(at_seconds, seconds, act),
            Event::Refused { why } => {
                self.pending = None;
                self.story.remove_latest();
                self.log(format!("the map stays as it is: {why}"), act);
                self.state = ControllerState::Looking;
                self.lengthen();
                self.measure(act);
            }
        }
        check(before, kind, self.state)
    }

    fn measured(
        &mut self,
        at_seconds: f64,
        throughput: f64,
        spent: Spent,
        load: Load,
        act: &mut Vec<Action>,
    ) {
        self.story.measurements += 1;
        let grid = Grid::of(&self.map);
        if (load.version, load.costs.len()) != (grid.version(), grid.count()) {
            self.log("what was measured is of another map, and is not looked at".to_owned(), act);
            self.measure(act);
            return;
        }
        let is_empty = load.total() <= 0.0;
        if !is_empty {
            (self.load, self.spent) = (load, spent);
        }
        let figures = Model { cores: &self.cores, load: &self.load }.figures(grid.owners());
        self.compare_with_expected(throughput, &figures);
        let differs = self.differs(throughput);
        if differs {
            self.workload_changed(at_seconds, throughput, act);
        }
        let grown = self.gain_at_most(&figures) > self.open_gain + GROWN;
        match self.state {
            // A measurement that mixes two workloads describes neither.
            _ if differs && !self.faults.has(Fault::UnsettledMeasurement) => {
                self.state = ControllerState::Looking
            }
            _ if is_empty => self.lengthen(),
            state if state == ControllerState::Looking || differs => {
                self.search_map(at_seconds, Some(throughput), act)
            }
            ControllerState::Resting if grown => {
                self.state = ControllerState::Looking;
                self.interval_seconds = self.settings.interval_seconds;
            }
            _ => self.lengthen(),
        }
        if !differs || self.faults.has(Fault::UnsettledMeasurement) {
            self.remember(throughput);
        }
        if self.state != ControllerState::Changing {
            self.measure(act);
        }
    }

    fn differs(&self, throughput: f64) -> bool {
        let mean = self.remembered.iter().sum::<f64>() / self.remembered.len().max(1) as f64;
        !self.remembered.is_empty() && (throughput - mean).abs() > self.settings.alike * mean
    }

    fn remember(&mut self, throughput: f64) {
        self.remembered.push(throughput);
        let more = self.remembered.len().saturating_sub(self.settings.remembered);
        self.remembered.drain(..more);
    }

    fn workload_changed(&mut self, at_seconds: f64, throughput: f64, act: &mut Vec<Action>) {
        let mean = self.remembered.iter().sum::<f64>() / self.remembered.len().max(1) as f64;
        let stayed = (at_seconds - self.since_seconds).max(self.settings.interval_seconds);
        self.stay_seconds = (self.stay_seconds + stayed) / 2.0;
        self.since_seconds = at_seconds;
        self.doubts = 0;
        self.remembered.clear();
        self.interval_seconds = self.settings.interval_seconds;
        self.log(
            format!("throughput is {throughput:.0}/s where {mean:.0}/s was the mean: the workload changed"),
            act,
        );
    }

    fn compare_with_expected(&mut self, throughput: f64, figures: &Figures) {
        let Some(expected) = self.expected.take() else { return };
        let seen: Vec<f64> = figures.loads.iter().map(|load| load / figures.mean.max(1e-300)).collect();
        if let Some(latest) = self.story.latest() {
            latest.seen = Some(seen);
        }
        let Some(before) = expected.before.filter(|before| *before > 0.0) else { return };
        let gained = throughput / before - 1.0;
        if !self.faults.has(Fault::UnlearnedGain) && gained < DISAPPOINTING * (expected.times - 1.0) {
            self.doubts += 1;
        }
    }

    /// Searches for a better map, and changes to it if that pays.
    fn search_map(&mut self, at_seconds: f64, throughput: Option<f64>, act: &mut Vec<Action>) {
        self.story.searches += 1;
        let how = self.settings.search;
        let proposal = match search(&self.map, &self.cores, &self.load, how) {
            Ok(proposal) => proposal,
            Err(why) => return self.log_failed_search(&why, act),
        };
        self.story.steps += proposal.steps;
        let must = !self.faults.has(Fault::AbandonedPartitions)
            && self.map.check_owners(|core| self.cores.is_present(core)).is_err();
        // Estimate: the workload stays as long again as it has stayed already, or as long as
        // earlier ones.
        let stayed = at_seconds - self.since_seconds;
        let stays = (self.stay_seconds - stayed).max(stayed);
        let history = WorkloadHistory {
            spent: self.spent,
            change_seconds: self.change_seconds,
            stay_seconds: stays,
            doubts: self.doubts,
        };
        let balance = Balance::of(&proposal, &self.settings, history);
        self.open_gain = self.gain_at_most(&proposal.before);
        match balance.decide(&proposal, must, self.faults) {
            Decision::Change => self.repartition(at_seconds, throughput, proposal, balance, must, act),
            Decision::Later => {
                self.log(why_not(&proposal, &balance), act);
                self.state = ControllerState::Looking;
                self.lengthen();
            }
            Decision::Stay => {
                self.log(why_not(&proposal, &balance), act);
                self.state = ControllerState::Resting;
                self.lengthen();
            }
        }
    }

    fn log_failed_search(&mut self, why: &SearchError, act: &mut Vec<Action>) {
        self.log(format!("no map is proposed: {why}"), act);
        self.state = ControllerState::Looking;
        self.lengthen();
    }

    fn repartition(
        &mut self,
        at_seconds: f64,
        throughput: Option<f64>,
        proposal: Proposal,
        balance: Balance,
        must: bool,
        act: &mut Vec<Action>,
    ) {
        let why = reason(&self.map, &self.cores, &proposal, &balance, must);
        let absent = (0..self.cores.count() as u16).map(Core);
        self.story.add(Repartitioning {
            at_seconds,
            reason: why.clone(),
            changes: proposal.changes.clone(),
            balance,
            way: proposal.way,
            before: View::of(&self.map, &proposal.before, &proposal.pairs[0]),
            after: View::of(&proposal.map, &proposal.after, &proposal.pairs[1]),
            absent: absent.filter(|core| !self.cores.is_present(*core)).collect(),
            took_seconds: None,
            seen: None,
        });
        self.log(format!("repartitioning: {why}"), act);
        let times = 1.0 / (1.0 - balance.gain).max(1e-300);
        // After a loss of cores, throughput does not measure the gain of balance.
        let expected = ExpectedGain { before: throughput.filter(|_| !must), times };
        let changes = proposal.changes.len();
        act.push(Action::Repartition { changes: proposal.changes, map: proposal.map.clone() });
        self.pending = Some(PendingChange { map: proposal.map, changes, expected });
        self.state = ControllerState::Changing;
    }

    fn changed(&mut self, at_seconds: f64, took_seconds: f64, act: &mut Vec<Action>) {
        let Some(pending) = self.pending.take() else { return };
        if let Some(latest) = self.story.latest() {
            latest.took_seconds = Some(took_seconds);
        }
        self.change_seconds = (self.change_seconds + took_seconds / pending.changes.max(1) as f64) / 2.0;
        self.load = convert_load(&self.load, &Grid::of(&self.map), &Grid::of(&pending.map));
        self.map = pending.map;
        self.expected = Some(pending.expected);
        if !self.faults.has(Fault::KeptMeasurements) {
            self.remembered.clear();
        }
        self.interval_seconds = self.settings.interval_seconds;
        self.state = ControllerState::Looking;
        self.log(format!("the map was changed in {}", seconds(took_seconds)), act);
        act.push(Action::Clear(self.map.clone()));
        self.rescue(at_seconds, act);
        if self.state != ControllerState::Changing {
            self.measure(act);
        }
    }

    fn cores_changed(&mut self, at_seconds: f64, cores: Cores, act: &mut Vec<Action>) {
        let words = come_and_gone(&self.cores, &cores);
        self.story.note(at_seconds, words.clone());
        self.log(words, act);
        self.cores = cores;
        if self.state == ControllerState::Changing {
            return;
        }
        // Throughput will change without a change of the workload.
        self.remembered.clear();
        self.expected = None;
        self.interval_seconds = self.settings.interval_seconds;
        self.state = ControllerState::Looking;
        self.rescue(at_seconds, act);
        if self.state != ControllerState::Changing {
            self.measure(act);
        }
    }

    /// Reassigns the partitions of cores that are not present.
    fn rescue(&mut self, at_seconds: f64, act: &mut Vec<Action>) {
        if !self.faults.has(Fault::AbandonedPartitions)
            && self.map.check_owners(|core| self.cores.is_present(core)).is_err()
        {
            self.search_map(at_seconds, None, act);
        }
    }

    /// Returns an upper bound of the saved share of the time: perfect balance without
    /// synchronization, and the best owner of each sub-partition.
    fn gain_at_most(&self, figures: &Figures) -> f64 {
        let asking = self.load.draws.asking_least() / figures.present.max(1) as f64;
        gain(CoreCosts::of(figures), CoreCosts { time: figures.mean, asking }, self.spent)
    }

    fn lengthen(&mut self) {
        if !self.faults.has(Fault::ConstantInterval) {
            let longest = self.settings.longest * self.settings.interval_seconds;
            self.interval_seconds = (2.0 * self.interval_seconds).min(longest);
        }
    }

    fn measure(&self, act: &mut Vec<Action>) {
        act.push(Action::Measure { seconds: self.interval_seconds });
    }

    fn log(&mut self, words: String, act: &mut Vec<Action>) {
        self.story.last.clone_from(&words);
        act.push(Action::Log(words));
    }
}
