//! When to measure, when to look for a better map, and when to change to it.
//!
//! Source: ATraPos, section V: an interval, doubled up to eight times while throughput stays within
//! 10 % of the mean of the last five measurements; on a larger change the model is evaluated; after
//! a repartitioning the shortest interval again, and nothing is remembered. Deviations, with their
//! reasons in docs/adaptation.md:
//! - What was measured while the workload changed is not weighed: it is of two workloads. The next
//!   interval is.
//! - The first interval is weighed, and so is each after a repartitioning, until a search finds
//!   nothing that pays: a run may begin with skew, and finer sub-partitions show more.
//! - A repartitioning must pay ([`Balance`]).
//! - Skew that does not change throughput is noticed too: by what the map could gain at most.
//! - Cores that are lost lose their partitions at once.
//!
//! Events go in, actions come out. The executor clears its arrays with each measurement that it
//! hands over.

mod legal;

use crate::balance::{Balance, Decision, Each, Spent, gain};
use crate::carry::{carried, evenly};
use crate::cores::{Core, Cores};
use crate::grid::Grid;
use crate::load::Load;
use crate::map::{Change, PartitionMap};
use crate::model::{Figures, Model};
use crate::search::{Proposal, SearchError, search};
use crate::settings::{Rules, Settings};
use crate::story::{Repartitioning, Story, View};
use crate::words::{come_and_gone, reason, seconds, why_not};

use legal::{Kind, check, check_event};

pub use legal::{Illegal, State};

/// A throughput that is not the expected one by this share of the expected gain is a
/// disappointment.
const DISAPPOINTING: f64 = 0.5;
/// A search follows if the largest possible gain has grown by this much since the last search.
const GROWN: f64 = 0.1;

/// An event of a controller.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The interval is over.
    Measured {
        /// Transactions a second.
        throughput: f64,
        /// The counts of the workers, whose arrays are empty now.
        load: Load,
        /// The time in which they did.
        spent: Spent,
    },
    /// These cores are present now. There are as many as ever, present or not.
    Cores(Cores),
    /// The map has been changed, in so many seconds.
    Changed {
        /// From the first worker that stopped to the last one that went on.
        seconds: f64,
    },
    /// The map is as it was.
    Refused {
        /// Why.
        why: String,
    },
}

/// An action of a controller; actions are performed in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The map is changed: [`Event::Changed`] or [`Event::Refused`] says how that ended. Nothing is
    /// measured until then.
    Repartition {
        /// The changes, in their order.
        changes: Vec<Change>,
        /// What comes of them.
        map: PartitionMap,
    },
    /// Arrays are for the sub-partitions of this map from now on, and empty.
    Clear(PartitionMap),
    /// An interval begins now; when it is over, [`Event::Measured`] says what was in it. An
    /// interval under way ends here.
    Measure {
        /// Its length.
        seconds: f64,
    },
    /// Something for the log.
    Say(String),
}

/// What was expected of the latest repartitioning.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Expected {
    /// Throughput before it, if it was known.
    before: Option<f64>,
    /// Throughput as a multiple of that.
    times: f64,
}

/// What is changed to.
#[derive(Clone, Debug, PartialEq)]
struct Pending {
    map: PartitionMap,
    changes: usize,
    expected: Expected,
}

/// The controller of one database.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    rules: Rules,
    state: State,
    cores: Cores,
    map: PartitionMap,
    /// What the map was measured with last, or what was measured before, by the map's
    /// sub-partitions.
    load: Load,
    /// The time in which that was counted.
    spent: Spent,
    pending: Option<Pending>,
    expected: Option<Expected>,
    interval_seconds: f64,
    /// The last throughputs of the workload as it is now under the map as it is now.
    remembered: Vec<f64>,
    /// What the map could gain at most, when it was looked at last.
    open_gain: f64,
    /// When the workload became what it is.
    since_seconds: f64,
    stay_seconds: f64,
    change_seconds: f64,
    doubts: u32,
    story: Story,
}

impl Controller {
    /// For a database with this map on these cores, which begins to run at `at_seconds`. `act` is
    /// what to do first.
    pub fn new(
        settings: Settings,
        cores: Cores,
        map: PartitionMap,
        at_seconds: f64,
        act: &mut Vec<Action>,
    ) -> Self {
        let load = evenly(&Grid::of(&map));
        let controller = Controller {
            settings,
            rules: Rules::SOUND,
            state: State::Looking,
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

    /// The same with other rules.
    #[must_use]
    pub fn with_rules(self, rules: Rules) -> Self {
        Controller { rules, ..self }
    }

    /// Something has happened that is no event for it, and belongs to what it tells.
    pub fn note(&mut self, at_seconds: f64, words: String) {
        self.story.note(at_seconds, words);
    }

    /// What it is doing.
    pub fn state(&self) -> State {
        self.state
    }

    /// The map as it is; while it is changed, as it was.
    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    /// The length of the interval under way, or of the last one.
    pub fn interval_seconds(&self) -> f64 {
        self.interval_seconds
    }

    /// What has happened so far.
    pub fn story(&self) -> &Story {
        &self.story
    }

    /// Adds what is to be done after `event`, at `at_seconds` of the run.
    ///
    /// # Errors
    /// [`Illegal`]: the event does not fit the state; nothing has changed.
    pub fn step(&mut self, at_seconds: f64, event: Event, act: &mut Vec<Action>) -> Result<(), Illegal> {
        let before = self.state;
        let kind = match event {
            Event::Measured { .. } => Kind::Measured,
            Event::Cores(_) => Kind::Cores,
            Event::Changed { .. } => Kind::Changed,
            Event::Refused { .. } => Kind::Refused,
        };
        check_event(before, kind)?;
        match event {
            Event::Measured { throughput, load, spent } => {
                self.measured(at_seconds, (throughput, spent), load, act);
            }
            Event::Cores(cores) => self.cores_changed(at_seconds, cores, act),
            Event::Changed { seconds } => self.changed(at_seconds, seconds, act),
            Event::Refused { why } => {
                self.pending = None;
                self.story.take_back();
                self.say(format!("the map stays as it is: {why}"), act);
                self.state = State::Looking;
                self.lengthen();
                self.measure(act);
            }
        }
        check(before, kind, self.state)
    }

    fn measured(
        &mut self,
        at_seconds: f64,
        (throughput, spent): (f64, Spent),
        load: Load,
        act: &mut Vec<Action>,
    ) {
        self.story.measurements += 1;
        let grid = Grid::of(&self.map);
        if (load.version, load.costs.len()) != (grid.version(), grid.count()) {
            self.say("what was measured is of another map, and is not looked at".to_owned(), act);
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
            // What two workloads were measured together says nothing of the new one.
            _ if differs && self.rules.waits => self.state = State::Looking,
            _ if is_empty => self.lengthen(),
            state if state == State::Looking || differs => self.look(at_seconds, Some(throughput), act),
            State::Resting if grown => {
                self.state = State::Looking;
                self.interval_seconds = self.settings.interval_seconds;
            }
            _ => self.lengthen(),
        }
        if !(differs && self.rules.waits) {
            self.remember(throughput);
        }
        if self.state != State::Changing {
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
        self.say(
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
        if self.rules.doubts && gained < DISAPPOINTING * (expected.times - 1.0) {
            self.doubts += 1;
        }
    }

    /// Looks for a better map, and changes to it if that pays.
    fn look(&mut self, at_seconds: f64, throughput: Option<f64>, act: &mut Vec<Action>) {
        self.story.searches += 1;
        let how = self.settings.search;
        let proposal = match search(&self.map, &self.cores, &self.load, how) {
            Ok(proposal) => proposal,
            Err(why) => return self.no_map(&why, act),
        };
        self.story.steps += proposal.steps;
        let must = self.rules.rescues && self.map.check_owners(|core| self.cores.is_present(core)).is_err();
        // A workload stays as long again as it has stayed already, or as long as those before.
        let stayed = at_seconds - self.since_seconds;
        let stays = (self.stay_seconds - stayed).max(stayed);
        let cost = (self.change_seconds, self.spent);
        let balance = Balance::of(&proposal, &self.settings, cost, (stays, self.doubts));
        self.open_gain = self.gain_at_most(&proposal.before);
        match balance.decide(&proposal, must, self.rules) {
            Decision::Change => self.repartition(at_seconds, throughput, (proposal, balance, must), act),
            Decision::Later => {
                self.say(why_not(&proposal, &balance), act);
                self.state = State::Looking;
                self.lengthen();
            }
            Decision::Stay => {
                self.say(why_not(&proposal, &balance), act);
                self.state = State::Resting;
                self.lengthen();
            }
        }
    }

    fn no_map(&mut self, why: &SearchError, act: &mut Vec<Action>) {
        self.say(format!("no map is proposed: {why}"), act);
        self.state = State::Looking;
        self.lengthen();
    }

    fn repartition(
        &mut self,
        at_seconds: f64,
        throughput: Option<f64>,
        (proposal, balance, must): (Proposal, Balance, bool),
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
        self.say(format!("repartitioning: {why}"), act);
        let times = 1.0 / (1.0 - balance.gain).max(1e-300);
        // What lost cores did not do says nothing of what balance brings.
        let expected = Expected { before: throughput.filter(|_| !must), times };
        let changes = proposal.changes.len();
        act.push(Action::Repartition { changes: proposal.changes, map: proposal.map.clone() });
        self.pending = Some(Pending { map: proposal.map, changes, expected });
        self.state = State::Changing;
    }

    fn changed(&mut self, at_seconds: f64, took_seconds: f64, act: &mut Vec<Action>) {
        let Some(pending) = self.pending.take() else { return };
        if let Some(latest) = self.story.latest() {
            latest.took_seconds = Some(took_seconds);
        }
        self.change_seconds = (self.change_seconds + took_seconds / pending.changes.max(1) as f64) / 2.0;
        self.load = carried(&self.load, &Grid::of(&self.map), &Grid::of(&pending.map));
        self.map = pending.map;
        self.expected = Some(pending.expected);
        if self.rules.forgets {
            self.remembered.clear();
        }
        self.interval_seconds = self.settings.interval_seconds;
        self.state = State::Looking;
        self.say(format!("the map was changed in {}", seconds(took_seconds)), act);
        act.push(Action::Clear(self.map.clone()));
        self.rescue(at_seconds, act);
        if self.state != State::Changing {
            self.measure(act);
        }
    }

    fn cores_changed(&mut self, at_seconds: f64, cores: Cores, act: &mut Vec<Action>) {
        let words = come_and_gone(&self.cores, &cores);
        self.story.note(at_seconds, words.clone());
        self.say(words, act);
        self.cores = cores;
        if self.state == State::Changing {
            return;
        }
        // Throughput will be another one without any change of the workload.
        self.remembered.clear();
        self.expected = None;
        self.interval_seconds = self.settings.interval_seconds;
        self.state = State::Looking;
        self.rescue(at_seconds, act);
        if self.state != State::Changing {
            self.measure(act);
        }
    }

    /// Takes their partitions from cores that are not present.
    fn rescue(&mut self, at_seconds: f64, act: &mut Vec<Action>) {
        if self.rules.rescues && self.map.check_owners(|core| self.cores.is_present(core)).is_err() {
            self.look(at_seconds, None, act);
        }
    }

    /// The share of the time that would be saved at most, by perfect balance without
    /// synchronization, and by owners who are never asked by those that could own the same keys.
    fn gain_at_most(&self, figures: &Figures) -> f64 {
        let asking = self.load.draws.asking_least() / figures.present.max(1) as f64;
        gain(Each::of(figures), Each { time: figures.mean, asking }, self.spent)
    }

    fn lengthen(&mut self) {
        if self.rules.backs_off {
            let longest = self.settings.longest * self.settings.interval_seconds;
            self.interval_seconds = (2.0 * self.interval_seconds).min(longest);
        }
    }

    fn measure(&self, act: &mut Vec<Action>) {
        act.push(Action::Measure { seconds: self.interval_seconds });
    }

    fn say(&mut self, words: String, act: &mut Vec<Action>) {
        self.story.last.clone_from(&words);
        act.push(Action::Say(words));
    }
}
