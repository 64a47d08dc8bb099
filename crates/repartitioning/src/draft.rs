//! An assignment in the making, with what a change of it would cost.

use crate::cores::Core;
use crate::grid::Grid;
use crate::model::{Model, spread};

/// The cost of a boundary between two partitions for the searches, as a share of the mean load of a
/// core: a partition has a root, a lock table and arrays, and each change of a map takes time. So
/// little that it never decides against balance.
const BOUNDARY: f64 = 0.001;

/// Values that do not change while a search runs.
pub(crate) struct Ground<'a> {
    pub(crate) model: Model<'a>,
    /// Cores that are present, ascending.
    pub(crate) present: Vec<Core>,
    /// By sub-partition: its meetings.
    pub(crate) meetings: Vec<Vec<u32>>,
    /// By table: its sub-partitions.
    pub(crate) tables: Vec<std::ops::Range<usize>>,
    /// By sub-partition: whether the one before it, or behind it, is of the same table.
    beside: Vec<(bool, bool)>,
    /// Mean load of a core.
    pub(crate) mean: f64,
    boundary: f64,
    /// Smaller differences are none.
    pub(crate) least: f64,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(model: Model<'a>, grid: &Grid) -> Self {
        let present: Vec<Core> = model.cores.present().collect();
        let mut meetings = vec![Vec::new(); grid.count()];
        for (number, met) in model.load.meetings.iter().enumerate() {
            met.members.iter().for_each(|sub| meetings[sub.index()].push(number as u32));
        }
        let tables: Vec<std::ops::Range<usize>> = grid.tables().collect();
        let mut beside = vec![(true, true); grid.count()];
        for table in &tables {
            beside[table.start].0 = false;
            beside[table.end - 1].1 = false;
        }
        let total = model.load.total();
        let mean = total / present.len().max(1) as f64;
        let boundary = BOUNDARY * mean;
        Ground { model, present, meetings, tables, beside, mean, boundary, least: 1e-9 * total }
    }

    pub(crate) fn cost(&self, sub: usize) -> f64 {
        self.model.load.costs[sub]
    }

    pub(crate) fn socket(&self, core: Core) -> usize {
        self.model.cores.socket(core)
    }
}

/// An assignment in the making.
#[derive(Clone)]
pub(crate) struct Draft<'a> {
    pub(crate) ground: &'a Ground<'a>,
    /// By sub-partition.
    pub(crate) owners: Vec<Core>,
    /// By core.
    pub(crate) loads: Vec<f64>,
    /// Differences that were worked out, each by so many meetings.
    pub(crate) steps: u64,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(ground: &'a Ground<'a>, owners: Vec<Core>) -> Self {
        let mut loads = vec![0.0; ground.model.cores.count()];
        owners.iter().enumerate().for_each(|(sub, owner)| loads[owner.index()] += ground.cost(sub));
        Draft { ground, owners, loads, steps: 0 }
    }

    pub(crate) fn load(&self, core: Core) -> f64 {
        self.loads[core.index()]
    }

    /// All that the searches make small: imbalance, synchronization, asking and boundaries.
    pub(crate) fn cost(&self) -> f64 {
        let figures = self.ground.model.figures(&self.owners);
        let is_boundary =
            |sub: &usize| self.ground.beside[*sub].0 && self.owners[*sub] != self.owners[sub - 1];
        let boundaries = (0..self.owners.len()).filter(is_boundary).count();
        figures.imbalance
            + figures.synchronization
            + figures.asking
            + self.ground.boundary * boundaries as f64
    }

    /// The change of imbalance if `cost` moves from `from` to `to`.
    pub(crate) fn balance_delta(&self, from: Core, to: Core, cost: f64) -> f64 {
        let mean = self.ground.mean;
        let left = match self.ground.model.cores.is_present(from) {
            true => (self.load(from) - cost - mean).abs() - (self.load(from) - mean).abs(),
            false => -cost,
        };
        left + (self.load(to) + cost - mean).abs() - (self.load(to) - mean).abs()
    }

    /// The change of the cost of boundaries if the sub-partition goes to `to`.
    pub(crate) fn boundary_delta(&self, sub: usize, to: Core) -> f64 {
        let from = self.owners[sub];
        let (before, behind) = self.ground.beside[sub];
        let beside = [before.then(|| sub - 1), behind.then(|| sub + 1)];
        let change = beside.into_iter().flatten().map(|other| {
            let other = self.owners[other];
            i32::from(other != to) - i32::from(other != from)
        });
        self.ground.boundary * f64::from(change.sum::<i32>())
    }

    /// The change of the waiting for owners if the sub-partition goes to `to`.
    fn asking_delta(&self, sub: usize, to: Core) -> f64 {
        let draws = &self.ground.model.load.draws;
        draws.asking(sub, to) - draws.asking(sub, self.owners[sub])
    }

    /// The change of the cost if the sub-partition goes to `to`.
    pub(crate) fn move_delta(&mut self, sub: usize, to: Core) -> f64 {
        let from = self.owners[sub];
        let mut delta = self.cheap_delta(sub, to);
        if self.ground.socket(from) != self.ground.socket(to) {
            let Model { cores, load } = self.ground.model;
            for number in &self.ground.meetings[sub] {
                let met = &load.meetings[*number as usize];
                let socket = |to: Core| {
                    let of = |one: &crate::grid::SubPartition| {
                        cores.socket(if one.index() == sub { to } else { self.owners[one.index()] })
                    };
                    spread(cores, met.members.iter().map(of))
                };
                delta += met.bytes * (socket(to) - socket(from));
            }
            self.steps += self.ground.meetings[sub].len() as u64;
        }
        delta
    }

    /// The cost of the sub-partition's synchronization points where it is: no move saves more.
    pub(crate) fn synchronization(&mut self, sub: usize) -> f64 {
        let Model { cores, load } = self.ground.model;
        self.steps += self.ground.meetings[sub].len() as u64;
        let cost = |number: &u32| {
            let met = &load.meetings[*number as usize];
            met.bytes * spread(cores, met.members.iter().map(|one| cores.socket(self.owners[one.index()])))
        };
        self.ground.meetings[sub].iter().map(cost).sum()
    }

    /// The change by a move of the sub-partition to `to`, without synchronization.
    pub(crate) fn cheap_delta(&mut self, sub: usize, to: Core) -> f64 {
        self.steps += 1;
        self.balance_delta(self.owners[sub], to, self.ground.cost(sub))
            + self.boundary_delta(sub, to)
            + self.asking_delta(sub, to)
    }

    /// The change of the cost if the two sub-partitions change places.
    pub(crate) fn swap_delta(&mut self, one: usize, other: usize) -> f64 {
        let (from, to) = (self.owners[one], self.owners[other]);
        let there = self.move_delta(one, to);
        self.set(one, to);
        let back = self.move_delta(other, from);
        self.set(one, from);
        there + back
    }

    /// The sub-partition goes to `to`.
    pub(crate) fn set(&mut self, sub: usize, to: Core) {
        let cost = self.ground.cost(sub);
        self.loads[self.owners[sub].index()] -= cost;
        self.loads[to.index()] += cost;
        self.owners[sub] = to;
    }
}
