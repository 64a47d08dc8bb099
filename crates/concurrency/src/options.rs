//! The options of an instance.

use platform::Node;
use storage::{Optimisation, Optimisations};
use terms::Faults;

use crate::timestamps::TimestampSource;
use crate::ways::Ways;

/// Longest wait of a transaction for another one, where an instance has all of the data. No scheme
/// needs the end of it to be free of deadlocks among the transactions of one instance, but a lock
/// may be held by a participant of a transaction over several databases, whose end is not visible
/// here, or by another transaction of the same worker. An instance that does without bounded
/// spinning ([`storage::Optimisation::BoundedSpin`]) waits as long as it takes: its workers then
/// have one transaction at a time.
pub const WAIT_NANOS_MAX: u64 = 1_000_000;
/// Longest wait of a part of a transaction over several databases, whatever its instance was made
/// with: a deadlock across databases is visible in none, and the worker that waits may be the one
/// that has to finish the part it waits for.
pub const WAIT_NANOS_MAX_PARTICIPANT: u64 = 10_000;

/// How many sessions change the locks of an instance's rows at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockers {
    /// One at most: it changes them with plain loads and stores. Where locks are held between two
    /// transactions, for a part of a transaction over several databases, the next one finds them
    /// held as ever.
    One,
    /// Several.
    Several,
}

/// Limits of an instance.
#[derive(Clone, Debug)]
pub struct InstanceOptions {
    /// Most sessions at a time. The locks of an instance with one cost less
    /// ([`storage::Optimisation::PlainLocks`]).
    pub sessions_max: usize,
    /// Most bytes of rows and indexes.
    pub memory_bytes_max: u64,
    /// Shortest epoch: how long memory stays unused after a deletion, and how coarse commit epochs
    /// are.
    pub epoch_nanos: u64,
    /// Longest wait of a transaction for another one. Schemes may wait less.
    pub wait_nanos_max: u64,
    /// True if `dl-detect` has queues in which the transactions of a session sleep that says how
    /// long it waits for locks.
    pub lock_queues: bool,
    /// The source of timestamps, for schemes that need them.
    pub timestamps: TimestampSource,
    /// Memory nodes whose sessions have a catalog, and copies of tables that are never written, of
    /// their own. Sessions on other nodes, or on none that is known, use those of the first.
    pub nodes: Vec<Node>,
    /// How many tables can be added while the instance is in use. An instance that can has one
    /// catalog: no nodes are named.
    pub spare_tables: usize,
    /// The optimisations that the instance has: one that is left out shows its benefit.
    pub optimisations: Optimisations,
    /// The ways that differ from the default.
    pub ways: Ways,
    /// Faults that tests plant in the scheme and in the engine.
    pub faults: Faults,
}

impl InstanceOptions {
    /// How many sessions change the locks of rows at the same time.
    pub(crate) fn lockers(&self) -> Lockers {
        let is_one = self.sessions_max == 1 && self.optimisations.has(Optimisation::PlainLocks);
        if is_one { Lockers::One } else { Lockers::Several }
    }
}

impl Default for InstanceOptions {
    /// 64 sessions, 4 GiB, epochs of 1 ms, timestamps from the clock, no nodes known, no further
    /// tables, all optimisations, the default ways, no faults.
    fn default() -> Self {
        InstanceOptions {
            sessions_max: 64,
            memory_bytes_max: 4 << 30,
            epoch_nanos: 1_000_000,
            wait_nanos_max: WAIT_NANOS_MAX,
            lock_queues: false,
            timestamps: TimestampSource::Clock,
            nodes: Vec::new(),
            spare_tables: 0,
            optimisations: Optimisations::ALL,
            ways: Ways::default(),
            faults: Faults::NONE,
        }
    }
}
