//! Optimisations that an instance can be made without, so that their effect can be shown.
//!
//! Most are those of Bang, May, Petrov, Binnig, "The full story of 1000 cores", VLDB Journal 2022.
//! All of them are on by default, and nothing but a benchmark has a reason to leave one out.

/// An optimisation that an instance can be made without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Optimisation {
    /// Memory of rows and index nodes comes from the worker's own arena, in blocks that share no
    /// line with those of other workers. Without it, memory comes from one heap for all workers,
    /// also that of each row that `occ` copies.
    ThreadAlloc,
    /// Indexes that are declared as hash indexes are hash indexes, not trees.
    HashIndex,
    /// A core that waits for a latch waits in a queue, or pauses longer each time.
    QueueLatch,
    /// Tables that are never written have a copy on every memory node.
    Replicate,
    /// Rows and nodes that a transaction will need are prefetched, for many rows at a time. Without
    /// it nothing is prefetched, and many keys are looked up one after the other.
    Prefetch,
    /// Columns are read and written by compiled code. Without: each by a walk over the catalog.
    CompiledRows,
    /// A transaction that needs a row which another one has locked polls the row for a bounded time
    /// before it aborts. Without it, schemes that wait do so without a bound, and optimistic ones
    /// abort at the first poll.
    BoundedSpin,
    /// Tables that are never written need no concurrency control.
    ReadOnlySkip,
    /// The addresses of all indexes and their partitions have a copy on every memory node.
    ReplicateIndex,
    /// An instance with one session at a time locks rows with plain loads and stores. Without: with
    /// atomic operations, as an instance with several.
    PlainLocks,
    /// While a worker runs one transaction, it prefetches index entries and rows of its next ones.
    LookAhead,
    /// For rows in pages: a session keeps its locks of the database and of tables from transaction
    /// to transaction, until another session requests an exclusive lock (speculative lock
    /// inheritance).
    InheritedLocks,
    /// For rows in pages: workers copy records into the log's buffer in parallel, a transaction
    /// releases its locks before its commit is durable, and its worker continues. Without it
    /// records are copied one after the other, and each commit waits with its locks.
    Aether,
    /// For owners of partitions under ATraPos: a worker announces on a line of its own that
    /// transactions may be active. Without it each transaction enters its socket's list of active
    /// transactions, and takes its socket's lock of the map in shared mode.
    Announcements,
}

/// The optimisations that an instance has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Optimisations(u16);

impl Optimisations {
    /// All of them.
    pub const ALL: Optimisations = Optimisations((2 << Optimisation::Announcements as u16) - 1);

    /// The same, but for this one.
    #[must_use]
    pub const fn without(self, optimisation: Optimisation) -> Self {
        Optimisations(self.0 & !(1 << optimisation as u16))
    }

    /// Returns true if workers prefetch for later transactions; without prefetching within a
    /// transaction they do not.
    pub const fn look_ahead(self) -> bool {
        self.has(Optimisation::Prefetch) && self.has(Optimisation::LookAhead)
    }

    /// Returns true if this optimisation is among them.
    #[inline(always)]
    pub const fn has(self, optimisation: Optimisation) -> bool {
        self.0 & 1 << optimisation as u16 != 0
    }
}

impl Default for Optimisations {
    fn default() -> Self {
        Optimisations::ALL
    }
}
