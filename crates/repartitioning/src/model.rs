//! The cost model: the cost of an assignment of sub-partitions to cores under a load.
//!
//! Source: ATraPos, section V. With an assignment S, a load (trace) W and a core c:
//!
//! - `RU(c)`: the costs of the actions on the sub-partitions that c owns.
//! - `RU(S, W) = sum over c of |RU(c) - RU_avg|`: imbalance.
//! - `C(s) = (n_sockets(s) - 1) * Distance(s) * Size(s)`: a synchronization point s, by the number
//!   of distinct sockets that synchronize there, the average cost of a byte between two of them,
//!   and the bytes exchanged.
//! - `TS(S, W) = sum over transactions, sum over their synchronization points s, of C(s)`.
//!
//! All figures are nanoseconds: the costs of actions are measured in time, and [`Cores::distance`]
//! is the time for a byte. Imbalance and synchronization can therefore be added, which the paper
//! leaves open: the searches minimize [`Figures::cost`].
//!
//! Addition to the paper: [`Figures::asking`] is the cost of transactions whose core has to request
//! actions from other owners ([`Draws`](crate::Draws)).
//!
//! `RU_avg` is over the cores that are present. The load of a core that is not present counts as
//! imbalance.

use serde::{Deserialize, Serialize};

use crate::cores::{Core, Cores};
use crate::load::{Load, MEMBERS_MAX, SynchronizationPoint};

/// Costs of an assignment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// `RU(c)` by core, in nanoseconds.
    pub loads: Vec<f64>,
    /// `RU_avg`.
    pub mean: f64,
    /// `RU(S, W)`.
    pub imbalance: f64,
    /// `TS(S, W)`.
    pub synchronization: f64,
    /// Time that workers wait for actions requested from other owners.
    pub asking: f64,
    /// Load of cores that are not present.
    pub stranded: f64,
    /// Cores that are present.
    pub present: usize,
}

impl Figures {
    /// Returns the objective of the searches: `RU(S, W) + TS(S, W)` and the waits for owners, plus
    /// the work itself, which is the same for all assignments.
    pub fn cost(&self) -> f64 {
        self.mean * self.present as f64 + self.imbalance + self.synchronization + self.asking
    }

    /// Returns the load of the busiest core.
    pub fn busiest(&self) -> f64 {
        self.loads.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the core with the highest load, and its load as a multiple of the mean.
    pub fn hottest(&self) -> (Core, f64) {
        let hottest = (0..self.loads.len())
            .max_by(|one, other| self.loads[*one].total_cmp(&self.loads[*other]).then(other.cmp(one)));
        let core = Core(hottest.unwrap_or(0) as u16);
        (core, if self.mean > 0.0 { self.busiest() / self.mean } else { 1.0 })
    }

    /// Returns the time that the machine needs for the load: that of the busiest core, plus each
    /// core's part of the synchronization.
    pub fn time(&self) -> f64 {
        self.busiest() + self.synchronization / self.present.max(1) as f64
    }

    /// Returns each core's part of the waits for owners.
    pub fn asking_each(&self) -> f64 {
        self.asking / self.present.max(1) as f64
    }
}

/// The model of a machine under a load.
#[derive(Clone, Copy, Debug)]
pub struct Model<'a> {
    /// The machine.
    pub cores: &'a Cores,
    /// Its load.
    pub load: &'a Load,
}

impl Model<'_> {
    /// Returns the costs of an assignment, given as the owner of each sub-partition.
    pub fn figures(&self, owners: &[Core]) -> Figures {
        let mut loads = vec![0.0; self.cores.count()];
        for (owner, cost) in owners.iter().zip(&self.load.costs) {
            loads[owner.index()] += cost;
        }
        let present = self.cores.present().count();
        let mean = self.load.total() / present.max(1) as f64;
        let off = |core: Core| (loads[core.index()] - mean).abs();
        let stranded: f64 = (0..loads.len())
            .filter(|core| !self.cores.is_present(Core(*core as u16)))
            .map(|core| loads[core])
            .sum();
        let imbalance = self.cores.present().map(off).sum::<f64>() + stranded;
        let synchronization =
            self.load.meetings.iter().map(|point| self.synchronization_cost(point, owners)).sum();
        let asking = owners.iter().enumerate().map(|(sub, owner)| self.load.draws.asking(sub, *owner)).sum();
        Figures { loads, mean, imbalance, synchronization, asking, stranded, present }
    }

    /// Returns the cost of the synchronization points of one set of members: the sum of `C(s)`.
    pub fn synchronization_cost(&self, point: &SynchronizationPoint, owners: &[Core]) -> f64 {
        let sockets = point.members.iter().map(|sub| self.cores.socket(owners[sub.index()]));
        spread(self.cores, sockets) * point.bytes
    }

    /// Returns the synchronization between each two sockets. The cost of a synchronization point
    /// over several sockets is divided evenly among their pairs.
    pub fn socket_pairs(&self, owners: &[Core]) -> Vec<Vec<f64>> {
        let count = self.cores.socket_count();
        let mut pairs = vec![vec![0.0; count]; count];
        for point in &self.load.meetings {
            let mut sockets: Vec<usize> =
                point.members.iter().map(|sub| self.cores.socket(owners[sub.index()])).collect();
            sockets.sort_unstable();
            sockets.dedup();
            let each = self.synchronization_cost(point, owners) * 2.0
                / (sockets.len() * (sockets.len() - 1)).max(1) as f64;
            for (number, one) in sockets.iter().enumerate() {
                for other in &sockets[number + 1..] {
                    pairs[*one][*other] += each;
                    pairs[*other][*one] += each;
                }
            }
        }
        pairs
    }
}

/// Returns `(n_sockets(s) - 1) * Distance(s)` for a synchronization point whose members are in
/// these sockets, in nanoseconds for a byte.
pub(crate) fn spread(cores: &Cores, of: impl IntoIterator<Item = usize>) -> f64 {
    let mut sockets = [0; MEMBERS_MAX];
    let mut count = 0;
    for socket in of {
        if count < MEMBERS_MAX && !sockets[..count].contains(&socket) {
            sockets[count] = socket;
            count += 1;
        }
    }
    if count < 2 {
        return 0.0;
    }
    let mut sum = 0.0;
    for one in 0..count {
        for other in one + 1..count {
            sum += cores.distance(sockets[one], sockets[other]);
        }
    }
    // The mean over count * (count - 1) / 2 pairs, times count - 1.
    sum * 2.0 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::testing::square;
    use crate::grid::SubPartition;

    fn load(costs: &[f64], meetings: &[(&[u32], f64)]) -> Load {
        let meeting = |(members, bytes): &(&[u32], f64)| SynchronizationPoint {
            members: members.iter().copied().map(SubPartition).collect(),
            count: 1.0,
            bytes: *bytes,
        };
        let meetings = meetings.iter().map(meeting).collect();
        Load::new(0, costs.to_vec(), meetings)
    }

    /// Two sockets of two cores: loads 30, 10, 0, 0; mean 10; imbalance 20 + 0 + 10 + 10.
    #[test]
    fn imbalance_follows_the_definition() {
        let (cores, load) = (square(2, 2), load(&[10.0, 20.0, 10.0], &[]));
        let figures = Model { cores: &cores, load: &load }.figures(&[Core(0), Core(0), Core(1)]);
        assert_eq!(figures.loads, [30.0, 10.0, 0.0, 0.0]);
        assert_eq!((figures.mean, figures.imbalance, figures.synchronization), (10.0, 40.0, 0.0));
        assert_eq!((figures.cost(), figures.time(), figures.hottest()), (80.0, 30.0, (Core(0), 3.0)));
    }

    /// Three sockets, distances 1 between 0 and 1, 2 between 0 and 2, 6 between 1 and 2.
    #[test]
    fn synchronization_follows_the_definition() {
        let distances = vec![vec![0.0, 1.0, 2.0], vec![1.0, 0.0, 6.0], vec![2.0, 6.0, 0.0]];
        let cores = Cores::new(vec![0, 1, 2], distances).expect("a machine");
        let load = load(&[1.0; 3], &[(&[0, 1], 10.0), (&[0, 1, 2], 100.0)]);
        let model = Model { cores: &cores, load: &load };
        let of = |owners: [u16; 3]| model.figures(&owners.map(Core)).synchronization;
        // All in one socket: nothing. (2 - 1) * 1 * 10, and (3 - 1) * (1 + 2 + 6) / 3 * 100.
        assert_eq!(of([2, 2, 2]), 0.0);
        assert_eq!(of([0, 1, 2]), 10.0 + 600.0);
        // The first two together: (2 - 1) * 6 * 100.
        assert_eq!(of([1, 1, 2]), 600.0);
        let pairs = model.socket_pairs(&[0, 1, 2].map(Core));
        assert_eq!(pairs, [[0.0, 210.0, 200.0], [210.0, 0.0, 200.0], [200.0, 200.0, 0.0]]);
        assert_eq!(model.socket_pairs(&[1, 1, 1].map(Core)), vec![vec![0.0; 3]; 3]);
    }

    #[test]
    fn load_of_lost_cores_is_imbalance() {
        let (cores, load) = (square(2, 2), load(&[10.0, 20.0, 10.0], &[]));
        let left = cores.with(|core| core != Core(0));
        let figures = Model { cores: &left, load: &load }.figures(&[Core(0), Core(0), Core(1)]);
        let mean = 40.0 / 3.0;
        assert_eq!((figures.mean, figures.stranded, figures.present), (mean, 30.0, 3));
        assert!((figures.imbalance - (30.0 + (mean - 10.0) + 2.0 * mean)).abs() < 1e-9);
    }
}
