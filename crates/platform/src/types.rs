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
