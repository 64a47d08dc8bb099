//! What `hstore` locks, keeps and tells, so that tests can leave something out.

use crate::optimistic::{WithoutRenewing, WithoutStamps, WithoutUpdates};

/// What is locked and kept. The scheme is serializable with [`Partitioned`] only.
pub trait PartitionRules: Send + Sync + 'static {
    /// Whether a row that a secondary index names is protected by its own site too.
    const HOMES: bool = true;
    /// Whether writes are taken back when a transaction aborts.
    const UNDO: bool = true;
    /// Whether a prepared participant of a transaction over several databases that has only read keeps its sites.
    const PARTICIPANTS: bool = true;
    /// Whether logs hear of rows that change.
    const UPDATES: bool = true;
    /// Whether the stamps of commits are larger than those of the last holders of their sites.
    const STAMPS: bool = true;
    /// Whether a participant of a transaction over several databases commits with a stamp of the epoch in which it commits,
    /// not of the one in which it was prepared.
    const RENEWING: bool = true;
}

/// All rules.
pub struct Partitioned;

impl PartitionRules for Partitioned {}

/// A mutant: rows may be changed by others while they are read through a secondary index.
pub struct WithoutHomes;

impl PartitionRules for WithoutHomes {
    const HOMES: bool = false;
}

/// A mutant: what an aborted transaction wrote stays.
pub struct WithoutUndo;

impl PartitionRules for WithoutUndo {
    const UNDO: bool = false;
}

/// A mutant: participants that have only read give their sites back before the others are prepared.
pub struct WithoutParticipantLocks;

impl PartitionRules for WithoutParticipantLocks {
    const PARTICIPANTS: bool = false;
}

impl PartitionRules for WithoutUpdates {
    const UPDATES: bool = false;
}

impl PartitionRules for WithoutStamps {
    const STAMPS: bool = false;
}

impl PartitionRules for WithoutRenewing {
    const RENEWING: bool = false;
}
