//! The cores that may own partitions: their sockets, the cost of communication between sockets, and
//! the cores that are present.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use machine::{Access, Description, HardwareThread, LineState};
use serde::{Deserialize, Serialize};

/// A core that may own partitions, by its number among those that the executor has workers on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Core(pub u16);

impl Core {
    /// Returns its index in lists by core.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Core {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "core {}", self.0)
    }
}

/// Error of an invalid description of cores.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoresError {
    /// There are no cores, or more than can be numbered.
    #[error("{0} cores: there must be 1 to 65535")]
    Count(usize),
    /// The matrix of distances is too small for the sockets.
    #[error("the distances of {rows} sockets are given, and cores are in {sockets}")]
    Distances {
        /// Rows of the matrix, or columns of its shortest row.
        rows: usize,
        /// Returns the number of sockets.
        sockets: usize,
    },
    /// A distance is invalid.
    #[error("the distance between sockets {0} and {1} is negative, not finite, or not the same both ways")]
    Distance(usize, usize),
    /// The machine does not have this hardware thread.
    #[error("{0:?} is not one of the machine's hardware threads")]
    Thread(HardwareThread),
}

/// The cores of an executor, some of which may have failed or been removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cores {
    /// Value of each core.
    sockets: Vec<u16>,
    /// Value of each core.
    present: Vec<bool>,
    /// Nanoseconds for a byte sent from one socket to another.
    distances: Vec<Vec<f64>>,
}

/// Assumed nanoseconds of a byte between two sockets, if they are not known: a line of 64 bytes in
/// 128 ns.
const BYTE_NS: f64 = 2.0;

impl Cores {
    /// Returns cores in these sockets, which need not be dense; all sockets are equally far from
    /// each other.
    ///
    /// # Panics
    /// There are no sockets.
    pub fn equally_far(sockets: &[u32]) -> Self {
        let dense: BTreeSet<u32> = sockets.iter().copied().collect();
        let count = dense.len();
        let row = |one: usize| (0..count).map(|other| if one == other { 0.0 } else { BYTE_NS }).collect();
        let number = |socket: &u32| dense.range(..socket).count() as u16;
        let sockets = sockets.iter().map(number).collect();
        Cores::new(sockets, (0..count).map(row).collect()).expect("workers in dense sockets")
    }

    /// Describes cores by their sockets, which are numbered from 0; all cores are present.
    /// `distances` has the nanoseconds for a byte between each two sockets, equal in both
    /// directions. Communication within a socket is free, as in the cost model.
    ///
    /// # Errors
    /// [`CoresError`].
    pub fn new(sockets: Vec<u16>, distances: Vec<Vec<f64>>) -> Result<Self, CoresError> {
        if sockets.is_empty() || sockets.len() > usize::from(u16::MAX) {
            return Err(CoresError::Count(sockets.len()));
        }
        let count = sockets.iter().map(|socket| usize::from(*socket) + 1).max().unwrap_or(0);
        let rows = distances.iter().map(Vec::len).chain([distances.len()]).min().unwrap_or(0);
        if rows < count {
            return Err(CoresError::Distances { rows, sockets: count });
        }
        for (one, other) in (0..count).flat_map(|one| (0..count).map(move |other| (one, other))) {
            let distance = distances[one][other];
            if !(distance.is_finite() && distance >= 0.0 && distance == distances[other][one]) {
                return Err(CoresError::Distance(one, other));
            }
        }
        let present = vec![true; sockets.len()];
        Ok(Cores { sockets, present, distances })
    }

    /// Describes the cores of these hardware threads, in this order. The cost of a byte between two
    /// sockets is its share of the cost of loading a modified line from the other socket, according
    /// to the machine's description.
    ///
    /// # Errors
    /// [`CoresError`]: a hardware thread is not the machine's, or there are none.
    pub fn of(description: &Description, threads: &[HardwareThread]) -> Result<Self, CoresError> {
        // The first of these threads in each socket, by the machine's number of the socket.
        let mut first: BTreeMap<u32, HardwareThread> = BTreeMap::new();
        for thread in threads {
            let socket = description.topology.socket_of(*thread).ok_or(CoresError::Thread(*thread))?;
            first.entry(socket).or_insert(*thread);
        }
        let number = |thread: &HardwareThread| {
            let socket = description.topology.socket_of(*thread);
            first.keys().position(|other| Some(*other) == socket).unwrap_or(0) as u16
        };
        let line_ns = |from, to| description.line_ns(Access::Load, LineState::Modified, from, to);
        let byte_ns = |one: HardwareThread, other: HardwareThread| match one == other {
            true => 0.0,
            false => {
                let there_and_back = line_ns(one, other).unwrap_or(0.0) + line_ns(other, one).unwrap_or(0.0);
                there_and_back / 2.0 / f64::from(description.line_bytes.value)
            }
        };
        let distances =
            first.values().map(|one| first.values().map(|other| byte_ns(*one, *other)).collect()).collect();
        Cores::new(threads.iter().map(number).collect(), distances)
    }

    /// Returns the number of cores, present or not.
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Returns the number of sockets.
    pub fn socket_count(&self) -> usize {
        self.sockets.iter().map(|socket| usize::from(*socket) + 1).max().unwrap_or(0)
    }

    /// Returns the socket of a core.
    pub fn socket(&self, core: Core) -> usize {
        usize::from(self.sockets[core.index()])
    }

    /// Returns the nanoseconds for a byte between two sockets.
    pub fn distance(&self, from: usize, to: usize) -> f64 {
        if from == to { 0.0 } else { self.distances[from][to] }
    }

    /// Returns true if the core exists and is present.
    pub fn is_present(&self, core: Core) -> bool {
        self.present.get(core.index()).copied().unwrap_or(false)
    }

    /// Returns the cores that are present, ascending.
    pub fn present(&self) -> impl Iterator<Item = Core> + '_ {
        (0..self.count() as u16).map(Core).filter(|core| self.is_present(*core))
    }

    /// Returns the same cores with other presences.
    #[must_use]
    pub fn with(&self, is_present: impl Fn(Core) -> bool) -> Self {
        let present = (0..self.count() as u16).map(|core| is_present(Core(core))).collect();
        Cores { present, ..self.clone() }
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// Describes `sockets` sockets of `each` cores, one nanosecond for a byte apart.
    pub fn square(sockets: u16, each: u16) -> Cores {
        let count = usize::from(sockets);
        Cores::new((0..sockets * each).map(|core| core / each).collect(), vec![vec![1.0; count]; count])
            .expect("a machine")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_counted_and_may_be_absent() {
        let cores = testing::square(2, 3);
        assert_eq!((cores.count(), cores.socket_count(), cores.socket(Core(3))), (6, 2, 1));
        assert_eq!((cores.distance(0, 1), cores.distance(1, 1)), (1.0, 0.0));
        let left = cores.with(|core| cores.socket(core) == 0);
        assert_eq!(left.present().collect::<Vec<_>>(), [Core(0), Core(1), Core(2)]);
        assert!(!left.is_present(Core(5)) && !left.is_present(Core(6)));
    }

    #[test]
    fn invalid_cores_are_refused() {
        assert_eq!(Cores::new(vec![], vec![]), Err(CoresError::Count(0)));
        let short = Cores::new(vec![0, 1], vec![vec![0.0, 1.0]]);
        assert_eq!(short, Err(CoresError::Distances { rows: 1, sockets: 2 }));
        for bad in [f64::NAN, -1.0, 2.0] {
            let one_way = Cores::new(vec![0, 1], vec![vec![0.0, bad], vec![1.0, 0.0]]);
            assert_eq!(one_way, Err(CoresError::Distance(0, 1)));
        }
    }

    #[test]
    fn described_machines_have_cores() {
        let description = Description::shipped("octo-socket").expect("a shipped machine");
        let cores = Cores::of(&description, &description.topology.hardware_threads());
        let cores = cores.expect("the machine's own threads");
        assert_eq!((cores.count(), cores.socket_count()), (80, 8));
        // 289 cycles of 2.13 GHz for a line one hop away, 400 for one two hops away.
        assert!((cores.distance(0, 1) - 289.0 / 2.13 / 64.0).abs() < 1e-9, "{}", cores.distance(0, 1));
        assert!((cores.distance(0, 3) - 400.0 / 2.13 / 64.0).abs() < 1e-9 && cores.distance(3, 3) == 0.0);
        let other = Cores::of(&description, &[HardwareThread(4711)]);
        assert_eq!(other, Err(CoresError::Thread(HardwareThread(4711))));
    }
}
