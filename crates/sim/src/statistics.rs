//! What a run did.

use platform::Nanos;

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<R> {
    /// What the program returned.
    pub value: R,
    /// What the machine counted.
    pub statistics: Statistics,
}

/// Counters of a run, and its end. Identical for identical configuration and program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Atomic operations and lines of data touched by simulated cores.
    pub events: u64,
    /// The same by supervisors, which cost nothing.
    pub supervisor_events: u64,
    /// Events that found their line in the core's own cache, or in private memory.
    pub hits: u64,
    /// Lines brought from the same socket.
    pub near_misses: u64,
    /// Lines brought from, or invalidated in, another socket.
    pub far_misses: u64,
    /// Lines brought from the memory of the core's own node.
    pub local_memory_misses: u64,
    /// Lines brought from the memory of another node.
    pub remote_memory_misses: u64,
    /// Prefetches among the events.
    pub prefetches: u64,
    /// Times that the host went from one fiber to another.
    pub switches: u64,
    /// Waiting cores that were woken by a change of their word or by `unpark`.
    pub wakes: u64,
    /// The moment at which the run ended.
    pub elapsed: Nanos,
}
