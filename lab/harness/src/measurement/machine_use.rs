//! The load of the parts of a machine, and the lines that moved between its cores.

use serde::Serialize;

/// Counters of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachineUse {
    /// Memory controllers and links, the busiest first.
    pub ports: Vec<PortUse>,
    /// Lines with the most misses, the hottest first.
    pub hot_lines: Vec<HotLine>,
}

/// The load of a memory controller or a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortUse {
    /// Its name: `memory of node 3`.
    pub name: String,
    /// Position of the node that it belongs to.
    pub node: usize,
    /// The kind of port.
    pub kind: PortKind,
    /// Bytes in both directions.
    pub bytes: u64,
    /// Share of the time in which it was occupied, 0 to 1.
    pub busy_share: f64,
}

/// The kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PortKind {
    /// The memory of its node.
    Memory,
    /// Other nodes.
    Link,
    /// Other machines.
    Network,
}

/// A line that moved between cores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotLine {
    /// Name of the structure that it belongs to.
    pub structure: String,
    /// Offset of the line in that structure, in bytes.
    pub offset: u64,
    /// Number of transfers from another core.
    pub misses: u64,
    /// Its share of all such misses, 0 to 1.
    pub share: f64,
}
