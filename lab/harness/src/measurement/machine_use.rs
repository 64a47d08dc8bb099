//! How busy the parts of a machine were, and which lines its cores took from each other.

use serde::Serialize;

/// What a machine counted of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MachineUse {
    /// Memory controllers and links, the busiest first.
    pub ports: Vec<PortUse>,
    /// Lines with the most misses, the hottest first.
    pub hot_lines: Vec<HotLine>,
}

/// What a memory controller or a link carried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortUse {
    /// What it is called: `memory of node 3`.
    pub name: String,
    /// Position of the node that it belongs to.
    pub node: usize,
    /// What it serves.
    pub kind: PortKind,
    /// Bytes in both directions.
    pub bytes: u64,
    /// Share of the time in which it was occupied, 0 to 1.
    pub busy_share: f64,
}

/// What a port serves.
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

/// A line that went from core to core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotLine {
    /// Name of the structure that it belongs to.
    pub structure: String,
    /// Offset of the line in that structure, in bytes.
    pub offset: u64,
    /// Times that it came from, or was taken from, another core.
    pub misses: u64,
    /// Its share of all such misses, 0 to 1.
    pub share: f64,
}
