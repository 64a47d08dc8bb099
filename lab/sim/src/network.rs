//! The network between machines: arrivals of messages, and the interrupts that deliver them.
//!
//! Each machine has one port, which sends and receives at the same time, in each direction one
//! message after another at the port's rate. A message from one port is at the receiver's port
//! after the latency of the wire, and occupies that port as long. A message that finds no queue
//! passes through both ports at once. The switch between them is never the bottleneck.
//!
//! A network card interrupts the core of the worker that a message is for (receive flow steering).
//! One interrupt delivers all messages that have arrived for that core by then, as Linux's NAPI
//! does, so a core under load is interrupted less often.
//!
//! Fault model (`faults.rs`): links that are slower than others, so that messages of different
//! pairs overtake each other; pairs of machines that are cut off from each other for a time; and
//! messages that are lost or duplicated. TCP repairs the latter: within a connection nothing is
//! lost, repeated or reordered; a lost message is late, and so are all messages behind it.

use std::collections::VecDeque;

use platform::Nanos;

use crate::Config;
use crate::FaultCounts;
use crate::bandwidth::{PortKind, PortTraffic};
use crate::faults::{Cut, NetworkFaults};
use crate::model::{Model, Wires};
use crate::random::Random;
use crate::ready::picoseconds;
use terms::random::mix;

/// Times in which one direction of a port is busy: disjoint, ascending.
#[derive(Default)]
struct Schedule {
    busy: VecDeque<(u64, u64)>,
    bytes: u64,
    busy_ps: u64,
    waited_ps: u64,
}

impl Schedule {
    /// Reserves the first gap of this length from `from_ps` on and returns its begin. No later call
    /// asks for a time before `now_ps`.
    fn reserve(&mut self, from_ps: u64, length_ps: u64, bytes: usize, now_ps: u64) -> u64 {
        while self.busy.front().is_some_and(|(_, end)| *end <= now_ps) {
            self.busy.pop_front();
        }
        let mut start = from_ps;
        let mut place = self.busy.partition_point(|(_, end)| *end <= from_ps);
        while let Some((begin, end)) = self.busy.get(place) {
            if start + length_ps <= *begin {
                break;
            }
            start = start.max(*end);
            place += 1;
        }
        self.bytes += bytes as u64;
        self.busy_ps += length_ps;
        self.waited_ps += start - from_ps;
        if length_ps > 0 {
            self.insert(place, start, start + length_ps);
        }
        start
    }

    /// Adds a busy time, joined with its neighbours.
    fn insert(&mut self, place: usize, begin: u64, end: u64) {
        let joins_next = self.busy.get(place).is_some_and(|next| next.0 == end);
        let before = place.checked_sub(1).filter(|before| self.busy[*before].1 == begin);
        match (before, joins_next) {
            (Some(before), true) => {
                self.busy[before].1 = self.busy[place].1;
                self.busy.remove(place);
            }
            (Some(before), false) => self.busy[before].1 = end,
            (None, true) => self.busy[place].0 = begin,
            (None, false) => self.busy.insert(place, (begin, end)),
        }
    }
}

/// A message on a link between two machines.
pub(crate) struct Transmission {
    /// The sender's and the receiver's machine.
    pub(crate) machines: [usize; 2],
    /// Bytes of the message.
    pub(crate) bytes: usize,
    /// Delay of the link beyond that of others.
    pub(crate) delay_ps: u64,
    /// Moment at which the link's last message began to arrive.
    pub(crate) after_ps: u64,
}

/// State of the network during one run.
pub(crate) struct Network {
    wires: Option<Wires>,
    /// By machine: its sending and its receiving port.
    ports: Vec<[Schedule; 2]>,
    /// By core: an interrupt has delivered all messages that arrived up to this moment.
    interrupted_ps: Vec<u64>,
    faults: NetworkFaults,
    /// Ordered by their moments.
    cuts: Vec<PlannedCut>,
    counts: FaultCounts,
    /// Draws the faults.
    random: Random,
}

/// A cut of all links between two machines.
struct PlannedCut {
    cut: Cut,
    /// True if a worker has noticed it.
    seen: bool,
}

impl PlannedCut {
    /// True if it hits links between these machines that were made at `made_ps`.
    fn hits(&self, machines: [usize; 2], made_ps: u64) -> bool {
        let pair = self.cut.machines.map(usize::from);
        let is_theirs = pair == machines || pair == [machines[1], machines[0]];
        is_theirs && made_ps < picoseconds(self.cut.until)
    }
}

impl Network {
    pub(crate) fn new(config: &Config) -> Network {
        let model = &config.model;
        let mut cuts: Vec<PlannedCut> =
            config.network.cuts.iter().map(|cut| PlannedCut { cut: *cut, seen: false }).collect();
        cuts.sort_by_key(|planned| planned.cut.at);
        Network {
            wires: model.wires,
            ports: model.wires.iter().flat_map(|_| 0..model.machines()).map(|_| Default::default()).collect(),
            interrupted_ps: vec![0; model.cores.len()],
            faults: config.network.clone(),
            cuts,
            counts: FaultCounts::default(),
            random: Random::new(mix(config.seed ^ 0x4e7)),
        }
    }

    /// Draws the additional delay of a new direction of a link.
    pub(crate) fn draw_delay(&mut self) -> u64 {
        match picoseconds(self.faults.delay_max) {
            0 => 0,
            most => {
                self.counts.delays += 1;
                self.random.below(most)
            }
        }
    }

    /// The planned cut of the links between two machines that were made at `made_ps`.
    pub(crate) fn cut_ps(&self, machines: [usize; 2], made_ps: u64) -> u64 {
        let hit = self.cuts.iter().find(|planned| planned.hits(machines, made_ps));
        hit.map_or(u64::MAX, |planned| picoseconds(planned.cut.at))
    }

    /// True if links that are used now are cut. A cut that was noticed stays in effect.
    pub(crate) fn is_cut(&mut self, machines: [usize; 2], made_ps: u64, now_ps: u64) -> bool {
        let hit = self.cuts.iter_mut().find(|planned| planned.hits(machines, made_ps));
        let hit = hit.filter(|planned| picoseconds(planned.cut.at) <= now_ps);
        hit.map(|planned| planned.seen = true).is_some()
    }

    /// The cut of this number, if it has happened.
    pub(crate) fn cut(&mut self, number: usize, now_ps: u64) -> Option<Cut> {
        let planned = self.cuts.get_mut(number)?;
        planned.seen |= picoseconds(planned.cut.at) <= now_ps;
        planned.seen.then_some(planned.cut)
    }

    /// Cancels all cuts that have not happened by now.
    pub(crate) fn end_cuts(&mut self, now_ps: u64) {
        self.cuts.retain(|planned| planned.seen || picoseconds(planned.cut.at) <= now_ps);
    }

    /// Counts of the faults so far.
    pub(crate) fn faults(&self, now: Nanos) -> FaultCounts {
        let cuts = self.cuts.iter().filter(|planned| planned.cut.at <= now).count() as u64;
        FaultCounts { cuts, ..self.counts }
    }

    fn happens(&self, one_in: u64) -> bool {
        one_in > 0 && self.random.below(one_in) == 0
    }

    /// Sends a message now. Returns the begin and the end of its arrival.
    pub(crate) fn transmit(&mut self, transmission: Transmission, now_ps: u64) -> (u64, u64) {
        let Transmission { machines: [from, to], bytes, delay_ps, after_ps } = transmission;
        let Some(wires) = self.wires else { return (now_ps, now_ps) };
        let bytes = wires.bytes(bytes);
        let passing_ps = wires.passing_ps(bytes);
        let mut left_ps = self.ports[from][0].reserve(now_ps, passing_ps, bytes, now_ps);
        if self.happens(self.faults.loss_one_in) {
            self.counts.losses += 1;
            let again_ps = left_ps + picoseconds(self.faults.again_after);
            left_ps = self.ports[from][0].reserve(again_ps, passing_ps, bytes, now_ps);
        }
        let there_ps = (left_ps + wires.wire_ps + delay_ps).max(after_ps);
        let begins_ps = self.ports[to][1].reserve(there_ps, passing_ps, bytes, now_ps);
        if self.happens(self.faults.duplicate_one_in) {
            self.counts.duplicates += 1;
            let second_ps = self.ports[from][0].reserve(left_ps, passing_ps, bytes, now_ps);
            self.ports[to][1].reserve(second_ps + wires.wire_ps + delay_ps, passing_ps, bytes, now_ps);
        }
        (begins_ps, begins_ps + passing_ps)
    }

    /// True if the core must be interrupted for a message that arrived at `arrival_ps` and is
    /// received now.
    pub(crate) fn interrupts(&mut self, core: usize, arrival_ps: u64, now_ps: u64) -> bool {
        let delivered_ps = &mut self.interrupted_ps[core];
        let interrupts = arrival_ps > *delivered_ps;
        if interrupts {
            *delivered_ps = now_ps;
        }
        interrupts
    }

    /// Traffic of each port.
    pub(crate) fn traffic<'a>(&'a self, model: &'a Model) -> impl Iterator<Item = PortTraffic> + 'a {
        let directions = [PortKind::NetworkOut, PortKind::NetworkIn];
        self.ports.iter().enumerate().flat_map(move |(machine, port)| {
            port.iter().zip(directions).map(move |(schedule, kind)| PortTraffic {
                node: model.first_node(machine),
                kind,
                bytes: schedule.bytes,
                busy_ps: schedule.busy_ps,
                waited_ps: schedule.waited_ps,
            })
        })
    }

    /// Restarts the counters; messages under way stay.
    pub(crate) fn reset(&mut self) {
        for schedule in self.ports.iter_mut().flatten() {
            (schedule.bytes, schedule.busy_ps, schedule.waited_ps) = (0, 0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_serves_one_after_the_other_and_fills_gaps() {
        let mut port = Schedule::default();
        assert_eq!(port.reserve(100, 10, 1, 0), 100);
        assert_eq!(port.reserve(100, 10, 1, 0), 110);
        assert_eq!(port.reserve(105, 10, 1, 0), 120);
        assert_eq!(port.reserve(50, 20, 1, 0), 50, "before what is reserved");
        assert_eq!(port.reserve(60, 40, 1, 0), 130, "too long for the gap from 70 to 100");
        assert_eq!(port.reserve(60, 30, 1, 0), 70, "it fits exactly");
        assert_eq!(port.busy, [(50, 170)]);
        assert_eq!((port.bytes, port.busy_ps, port.waited_ps), (6, 120, 10 + 15 + 70 + 10));
        assert_eq!(port.reserve(200, 5, 1, 180), 200);
        assert_eq!(port.busy, [(200, 205)], "the past is forgotten");
    }

    #[test]
    fn random_requests_never_overlap() {
        let random = Random::new(7);
        let (mut port, mut all) = (Schedule::default(), Vec::new());
        for now in 0..3_000 {
            let length = random.below(5) + 1;
            let start = port.reserve(now + random.below(40), length, 1, now);
            all.push((start, start + length));
        }
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}
