//! Islands of every granularity.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use terms::HardwareThread;

use crate::placement::{Placement, place};
use crate::topology::{ThreadInfo, Topology};

/// Size of an island, and so of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Granularity {
    /// One physical core.
    Core,
    /// Cores behind one L2.
    L2Group,
    /// Cores behind one L3.
    L3Domain,
    /// Cores next to one memory.
    Node,
    /// One socket.
    Socket,
    /// A whole machine.
    Machine,
    /// This many islands of equal size.
    Instances(usize),
}

impl Granularity {
    /// The granularities that follow from hardware, from fine to coarse.
    pub const HARDWARE: [Granularity; 6] = [
        Granularity::Core,
        Granularity::L2Group,
        Granularity::L3Domain,
        Granularity::Node,
        Granularity::Socket,
        Granularity::Machine,
    ];
}

impl fmt::Display for Granularity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Granularity::Core => formatter.write_str("core"),
            Granularity::L2Group => formatter.write_str("l2"),
            Granularity::L3Domain => formatter.write_str("l3"),
            Granularity::Node => formatter.write_str("node"),
            Granularity::Socket => formatter.write_str("socket"),
            Granularity::Machine => formatter.write_str("machine"),
            Granularity::Instances(count) => write!(formatter, "{count}isl"),
        }
    }
}

/// A text that names no granularity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no granularity: expected core, l2, l3, node, socket, machine, or Nisl such as 4isl")]
pub struct GranularityError(pub String);

impl FromStr for Granularity {
    type Err = GranularityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "core" => Granularity::Core,
            "l2" => Granularity::L2Group,
            "l3" => Granularity::L3Domain,
            "node" => Granularity::Node,
            "socket" => Granularity::Socket,
            "machine" => Granularity::Machine,
            _ => {
                let digits = text.strip_suffix("isl").filter(|digits| {
                    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
                });
                let count = digits.and_then(|digits| digits.parse().ok()).filter(|&count| count > 0);
                Granularity::Instances(count.ok_or_else(|| GranularityError(text.to_owned()))?)
            }
        })
    }
}

/// The islands of a machine at one granularity: every hardware thread in exactly one of them,
/// islands and their members in fill order.
///
/// For levels that the machine does not report see [`ThreadInfo`]. `Instances(n)` gives one island
/// for each hardware thread if `n` is larger than their number, and one island if it is 0. In a
/// cluster it gives as many more as are needed for each island to be within one machine.
pub fn islands(topology: &Topology, granularity: Granularity) -> Vec<Vec<HardwareThread>> {
    let key: fn(&ThreadInfo) -> u32 = match granularity {
        Granularity::Core => |info| info.core,
        Granularity::L2Group => |info| info.l2_group,
        Granularity::L3Domain => |info| info.l3_domain,
        Granularity::Node => |info| info.neighbourhood,
        Granularity::Socket => |info| info.package,
        Granularity::Machine => |info| info.machine,
        Granularity::Instances(count) => {
            let threads = topology.hardware_threads();
            let mut counts = count.clamp(1, threads.len())..=threads.len();
            return counts
                .find_map(|count| place(topology, &threads, count, Placement::Island).ok())
                .expect("all threads are the machine's own, and each can be an instance");
        }
    };
    let mut groups: BTreeMap<u32, Vec<HardwareThread>> = BTreeMap::new();
    for info in topology.threads() {
        groups.entry(key(info)).or_default().push(info.thread);
    }
    groups.into_values().collect()
}
