//! Values that both platforms speak of.

/// Bytes that the engine assumes to share a line of coherence: what arenas align to.
pub const LINE_BYTES: usize = 64;

/// A place in shared memory: ordered like memory, and the same in every run with the same seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(pub u64);

/// A moment or a duration in nanoseconds of the platform's own time (virtual in the virtual
/// machine).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// This moment, `nanos` later; the last representable moment instead of an overflow.
    pub fn plus(self, nanos: u64) -> Nanos {
        Nanos(self.0.saturating_add(nanos))
    }

    /// Nanoseconds from `earlier` to this moment; 0 if it is not earlier.
    pub fn since(self, earlier: Nanos) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Code that a worker executes: parts of the engines, and the program around them. Each part has a
/// footprint in the first-level instruction cache of a simulated core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The loop of a worker: it draws transactions and counts their ends.
    Driver,
    /// A stored procedure.
    Procedure {
        /// Number of the procedure in its program.
        number: u8,
        /// Cache lines of 64 bytes that a run of the procedure executes.
        lines: u16,
    },
    /// Verbs over the typed rows of the table of this number.
    Table(usize),
    /// Beginning a transaction in memory.
    Begin,
    /// Validating and committing a transaction in memory.
    Commit,
    /// Appending a transaction's changes to the log.
    Log,
    /// Finding a row in memory, by a hash index or a tree.
    Find,
    /// Writing a row in memory.
    Write,
    /// Making a row in memory.
    Insert,
    /// Deleting a row in memory.
    Delete,
    /// Scanning a range in memory.
    Scan,
    /// Inserting a key into a hash index.
    InsertHash,
    /// Inserting a key into a tree.
    InsertTree,
    /// Removing a key from an index.
    Remove,
    /// Beginning a transaction over pages.
    PagesBegin,
    /// Committing a transaction over pages.
    PagesCommit,
    /// Finding a row over pages.
    PagesFind,
    /// Reading a row over pages.
    PagesRead,
    /// Writing a row over pages.
    PagesWrite,
    /// Inserting a row over pages.
    PagesInsert,
    /// Deleting a row over pages.
    PagesDelete,
    /// Scanning a range over pages.
    PagesScan,
    /// Searching a tree of pages.
    PagesSearch,
    /// Requesting a lock over pages.
    PagesLock,
}

/// Kinds of computation between touches, each with a cost calibrated on hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Work {
    /// Hash of one key word.
    Hash,
    /// Comparison of one key word, as one step of a search within a node.
    KeyCompare,
    /// Copy of one word that is already in the nearest cache.
    CopyWord,
    /// Bookkeeping of one access in a transaction's read or write set.
    Access,
    /// Fixed part of beginning and ending a transaction.
    Transaction,
    /// One random value drawn by a workload.
    Random,
    /// One simple step of a stored procedure (an addition, a comparison of values).
    Step,
}

impl Work {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Work; 7] = [
        Work::Hash,
        Work::KeyCompare,
        Work::CopyWord,
        Work::Access,
        Work::Transaction,
        Work::Random,
        Work::Step,
    ];
}
