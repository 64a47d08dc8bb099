//! An assignment under construction, and the cost differences of its changes.

use crate::cores::Core;
use crate::grid::Grid;
use crate::model::{Model, spread};

/// Cost of a boundary between two partitions in the searches, as a share of the mean load of a
/// core: a partition has a root, a lock table and arrays, and each change of a map takes time. The
/// cost is so small that it never outweighs balance.
const BOUNDARY: f64 = 0.001;

/// Values that are constant during a search.
pub(crate) struct SearchContext<'a> {
    pub(crate) model: Model<'a>,
    /// Cores that are present, ascending.
    pub(crate) present: Vec<Core>,
    /// The synchronization points of each sub-partition.
    pub(crate) meetings: Vec<Vec<u32>>,
    /// The sub-partitions of each table.
    pub(crate) tables: Vec<std::ops::Range<usize>>,
    /// For each sub-partition: true if the previous one, and the next one, belong to the same
    /// table.
    beside: Vec<(bool, bool)>,
    /// Mean load of a core.
    pub(crate) mean: f64,
    boundary: f64,
    /// Smaller cost differences count as 0.
    pub(crate) least: f64,
}

impl<'a> SearchContext<'a> {
    pub(crate) fn new(model: Model<'a>, grid: &Grid) -> Self {
        let present: Vec<Core> = model.cores.present().collect();
        let mut meetings = vec![Vec::new(); grid.count()];
        for (number, point) in model.load.meetings.iter().enumerate() {
            point.members.iter().for_each(|sub| meetings[sub.index()].push(number as u32));
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
        SearchContext { model, present, meetings, tables, beside, mean, boundary, least: 1e-9 * total }
    }

    pub(crate) fn cost(&self, sub: usize) -> f64 {
        self.model.load.costs[sub]
    }

    pub(crate) fn socket(&self, core: Core) -> usize {
        self.model.cores.socket(core)
    }
}

/// An assignment under construction.
#[derive(Clone)]
pub(crate) struct Draft<'a> {
    pub(crate) context: &'a SearchContext<'a>,
    /// Owner of each sub-partition.
    pub(crate) owners: Vec<Core>,
    /// Load of each core.
    pub(crate) loads: Vec<f64>,
    /// Number of cost differences computed, weighted by synchronization points.
    pub(crate) steps: u64,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(context: &'a SearchContext<'a>, owners: Vec<Core>) -> Self {
        let mut loads = vec![0.0; context.model.cores.count()];
        owners.iter().enumerate().for_each(|(sub, owner)| loads[owner.index()] += context.cost(sub));
        Draft { context, owners, loads, steps: 0 }
    }

    pub(crate) fn load(&self, core: Core) -> f64 {
        self.loads[core.index()]
    }

    /// Returns the objective of the searches: imbalance, synchronization, requests to owners, and
    /// boundaries.
    pub(crate) fn cost(&self) -> f64 {
        let figures = self.context.model.figures(&self.owners);
        let is_boundary =
            |sub: &usize| self.context.beside[*sub].0 && self.owners[*sub] != self.owners[sub - 1];
        let boundaries = (0..self.owners.len()).filter(is_boundary).count();
        figures.imbalance
            + figures.synchronization
            + figures.asking
            + self.context.boundary * boundaries as f64
    }

    /// Returns the difference of imbalance if `cost` moves from one core to another.
    pub(crate) fn balance_delta(&self, from: Core, to: Core, cost: f64) -> f64 {
        let mean = self.context.mean;
        let left = match self.context.model.cores.is_present(from) {
            true => (self.load(from) - cost - mean).abs() - (self.load(from) - mean).abs(),
            false => -cost,
        };
        left + (self.load(to) + cost - mean).abs() - (self.load(to) - mean).abs()
    }

    /// Returns the difference of the boundary cost if the sub-partition moves to `to`.
    pub(crate) fn boundary_delta(&self, sub: usize, to: Core) -> f64 {
        let from = self.owners[sub];
        let (before, behind) = self.context.beside[sub];
        let beside = [before.then(|| sub - 1), behind.then(|| sub + 1)];
        let change = beside.into_iter().flatten().map(|other| {
            let other = self.owners[other];
            i32::from(other != to) - i32::from(other != from)
        });
        self.context.boundary * f64::from(change.sum::<i32>())
    }

    /// Returns the difference of the waits for owners if the sub-partition moves to `to`.
    fn asking_delta(&self, sub: usize, to: Core) -> f64 {
        let draws = &self.context.model.load.draws;
        draws.asking(sub, to) - draws.asking(sub, self.owners[sub])
    }

    /// Returns the difference of the cost if the sub-partition moves to `to`.
    pub(crate) fn move_delta(&mut self, sub: usize, to: Core) -> f64 {
        let from = self.owners[sub];
        let mut delta = self.cheap_delta(sub, to);
        if self.context.socket(from) != self.context.socket(to) {
            let Model { cores, load } = self.context.model;
            for number in &self.context.meetings[sub] {
                let point = &load.meetings[*number as usize];
                let socket = |to: Core| {
                    let of = |one: &crate::grid::SubPartition| {
                        cores.socket(if one.index() == sub { to } else { self.owners[one.index()] })
                    };
                    spread(cores, point.members.iter().map(of))
                };
                delta += point.bytes * (socket(to) - socket(from));
            }
            self.steps += self.context.meetings[sub].len() as u64;
        }
        delta
    }

    /// Returns the current cost of the sub-partition's synchronization points, an upper bound of
    /// what a move saves.
    pub(crate) fn synchronization(&mut self, sub: usize) -> f64 {
        let Model { cores, load } = self.context.model;
        self.steps += self.context.meetings[sub].len() as u64;
        let cost = |number: &u32| {
            let point = &load.meetings[*number as usize];
            point.bytes
                * spread(cores, point.members.iter().map(|one| cores.socket(self.owners[one.index()])))
        };
        self.context.meetings[sub].iter().map(cost).sum()
    }

    /// Returns the difference of the cost without synchronization if the sub-partition moves to
    /// `to`.
    pub(crate) fn cheap_delta(&mut self, sub: usize, to: Core) -> f64 {
        self.steps += 1;
        self.balance_delta(self.owners[sub], to, self.context.cost(sub))
            + self.boundary_delta(sub, to)
            + self.asking_delta(sub, to)
    }

    /// Returns the difference of the cost if the two sub-partitions swap their owners.
    pub(crate) fn swap_delta(&mut self, one: usize, other: usize) -> f64 {
        let (from, to) = (self.owners[one], self.owners[other]);
        let there = self.move_delta(one, to);
        self.set(one, to);
        let back = self.move_delta(other, from);
        self.set(one, from);
        there + back
    }

    /// Moves the sub-partition to `to`.
    pub(crate) fn set(&mut self, sub: usize, to: Core) {
        let cost = self.context.cost(sub);
        self.loads[self.owners[sub].index()] -= cost;
        self.loads[to.index()] += cost;
        self.owners[sub] = to;
    }
}
