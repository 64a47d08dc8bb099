//! What optimistic schemes check, so that tests can leave something out.

/// The checks of an optimistic scheme. A scheme is serializable with [`Validating`] only.
pub trait ValidationRules: Send + Sync + 'static {
    /// Whether rows that were read are checked.
    const READS: bool = true;
    /// Whether leaves and buckets are checked.
    const WITNESSES: bool = true;
    /// Whether a prepared participant of a transaction over several databases keeps keys absent that it saw to be absent.
    const FREEZING: bool = true;
    /// Where rows carry the time until which they were read: whether transactions that write the rows come later.
    const READ_TIMES: bool = true;
    /// Where commits are ordered by their data: whether transactions that saw that keys are absent leave a trace for
    /// transactions that insert later.
    const TRACES: bool = true;
    /// Where commits are ordered by their data: whether transactions that see that keys are absent come after those that
    /// deleted the keys.
    const REMOVALS: bool = true;
    /// Where rows have versions: whether old ones are kept.
    const KEEPING: bool = true;
    /// Where rows have versions: epochs by which a snapshot is older than the one in which its worker has entered.
    const LAG_EPOCHS: u64 = 2;
    /// Where rows have versions: whether deleted rows stay in the indexes until no snapshot needs them.
    const DEFERRED_UNLINKING: bool = true;
    /// Whether logs hear of rows that change.
    const UPDATES: bool = true;
    /// Whether the stamps of commits tell in which order those of one epoch are.
    const STAMPS: bool = true;
    /// Whether a participant of a transaction over several databases commits with a stamp of the epoch in which it commits,
    /// not of the one in which it was prepared.
    const RENEWING: bool = true;
    /// Whether a transaction that only reads depends on the transactions that wrote what it read.
    const READERS_WAIT: bool = true;
}

/// All checks.
pub struct Validating;

impl ValidationRules for Validating {}

/// A mutant: rows that were read may have changed.
pub struct WithoutReadValidation;

impl ValidationRules for WithoutReadValidation {
    const READS: bool = false;
}

/// A mutant: phantoms may appear.
pub struct WithoutWitnesses;

impl ValidationRules for WithoutWitnesses {
    const WITNESSES: bool = false;
}

/// A mutant: keys may appear between the validations of the participants of a transaction.
pub struct WithoutFreezing;

impl ValidationRules for WithoutFreezing {
    const FREEZING: bool = false;
}

/// A mutant: rows may be written at times at which others have read them.
pub struct WithoutReadTimes;

impl ValidationRules for WithoutReadTimes {
    const READ_TIMES: bool = false;
}

/// A mutant: keys may appear at times at which others have seen that they are absent.
pub struct WithoutTraces;

impl ValidationRules for WithoutTraces {
    const TRACES: bool = false;
}

/// A mutant: keys may be seen to be absent at times at which they were still there.
pub struct WithoutRemovals;

impl ValidationRules for WithoutRemovals {
    const REMOVALS: bool = false;
}

/// A mutant: what was overwritten is lost for snapshots.
pub struct WithoutOldVersions;

impl ValidationRules for WithoutOldVersions {
    const KEEPING: bool = false;
}

/// A mutant: snapshots are of epochs that are not over.
pub struct WithoutLag;

impl ValidationRules for WithoutLag {
    const LAG_EPOCHS: u64 = 0;
}

/// A mutant: deleted rows leave the indexes as soon as their transaction has committed.
pub struct WithoutDeferredUnlinking;

impl ValidationRules for WithoutDeferredUnlinking {
    const DEFERRED_UNLINKING: bool = false;
}

/// A mutant: logs hear of rows that appear and disappear only.
pub struct WithoutUpdates;

impl ValidationRules for WithoutUpdates {
    const UPDATES: bool = false;
}

/// A mutant: all commits of an epoch have the same stamp.
pub struct WithoutStamps;

impl ValidationRules for WithoutStamps {
    const STAMPS: bool = false;
}

/// A mutant: what was read is acknowledged before it is durable.
pub struct WithoutWaitingReaders;

impl ValidationRules for WithoutWaitingReaders {
    const READERS_WAIT: bool = false;
}

/// A mutant: the stamps of participants are as old as their preparation.
pub struct WithoutRenewing;

impl ValidationRules for WithoutRenewing {
    const RENEWING: bool = false;
}
