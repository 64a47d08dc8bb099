//! What an instance is made with.

use platform::Node;
use storage::Optimisations;

use crate::rules::Broken;
use crate::timestamps::TimestampSource;
use crate::ways::Ways;

/// Limits of an instance.
#[derive(Clone, Debug)]
pub struct InstanceOptions {
    /// Most sessions at a time.
    pub sessions_max: usize,
    /// Most bytes of rows and indexes.
    pub memory_bytes_max: u64,
    /// Shortest epoch: how long memory stays unused after a deletion, and how coarse commit epochs are.
    pub epoch_nanos: u64,
    /// Where timestamps come from, for schemes that need them.
    pub timestamps: TimestampSource,
    /// Memory nodes whose sessions have a catalog, and copies of tables that are never written, of their own. Sessions on
    /// other nodes, or on none that is known, use those of the first.
    pub nodes: Vec<Node>,
    /// The optimisations that the instance has: one that is left out shows what it brings.
    pub optimisations: Optimisations,
    /// What is done in another way than the default.
    pub ways: Ways,
    /// The rules that a scheme breaks which is a mutant ([`crate::mutants`]); other schemes break none.
    pub broken: Broken,
}

impl Default for InstanceOptions {
    /// 64 sessions, 4 GiB, epochs of 1 ms, timestamps from the clock, no nodes known, all optimisations, the default
    /// ways, no rule broken.
    fn default() -> Self {
        InstanceOptions {
            sessions_max: 64,
            memory_bytes_max: 4 << 30,
            epoch_nanos: 1_000_000,
            timestamps: TimestampSource::Clock,
            nodes: Vec::new(),
            optimisations: Optimisations::ALL,
            ways: Ways::default(),
            broken: Broken::default(),
        }
    }
}
