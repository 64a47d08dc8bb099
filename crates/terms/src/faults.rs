//! Faults that tests plant in an engine, to see that the checks notice them.
//!
//! Every layer is given one value, [`Faults`], and asks it where a rule matters. With the feature
//! `faults`, which only tests enable, the value is a set. Without the feature it has no bytes, and
//! [`Faults::has`] is false when the program is compiled: no product can be given a fault, and none
//! pays for one.

/// A fault: the engine breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// The log has no records of rows that change.
    UnloggedUpdates,
    /// The log forgets what of primary keys lies in the tails of rows that change.
    CutKeys,
    /// The stamps of commits do not order those of one epoch.
    UnorderedStamps,
    /// A participant of a transaction over several databases commits with a stamp of the epoch in
    /// which it was prepared, not of the one in which it commits.
    StampOfPreparation,
    /// Optimistic: rows that were read are not checked.
    UncheckedReads,
    /// Optimistic: leaves and buckets are not checked, so that phantoms appear.
    UncheckedLeaves,
    /// Optimistic: a prepared participant lets keys appear that it saw to be absent.
    UnfrozenAbsences,
    /// Optimistic: a transaction that only reads does not depend on the transactions that wrote
    /// what it read.
    EarlyReaders,
    /// With read times in rows: transactions that write the rows do not come later.
    UnusedReadTimes,
    /// With commits ordered by their data: transactions that saw that keys are absent leave no
    /// trace for transactions that insert later.
    MissingTraces,
    /// With commits ordered by their data: transactions that see that keys are absent may come
    /// before those that deleted the keys.
    IgnoredRemovals,
    /// With versions of rows: old ones are not kept.
    LostVersions,
    /// With versions of rows: a snapshot is of an epoch that is not over.
    SnapshotOfOpenEpoch,
    /// With versions of rows: deleted rows leave the indexes while snapshots need them.
    EarlyUnlinking,
    /// Locking, in memory and over pages: gaps are not locked, so that phantoms appear.
    UnlockedGaps,
    /// Locking: other transactions can find a row that is inserted into a gap of its own
    /// transaction before the row has the lock of the gap.
    LateGapLock,
    /// Locking: rows that were only read do not stay locked until the end.
    EarlySharedUnlock,
    /// Locking: waiting has no bound. Within one database the bound is not needed: without it the
    /// virtual machine reports whatever deadlock a policy overlooks.
    UnboundedWaits,
    /// Locking, with managers of rows: an owner that writes does not have the row for itself.
    SharedOwnership,
    /// Locking: circles of transactions that wait for each other are not resolved.
    UnresolvedDeadlocks,
    /// Locking, with queues of locks: some of those who sleep in a queue are never served.
    SkippedWaiter,
    /// Locking, with queues of locks: the first of a queue is overtaken without end.
    EndlessOvertaking,
    /// In memory: no transaction waits for one that goes before all others.
    IgnoredElders,
    /// `lock_or_skip` returns rows that another transaction has locked.
    UnskippedRows,
    /// With locks of partitions: a row that a secondary index names is not protected by its own
    /// site.
    UnlockedHomes,
    /// With locks of partitions: writes are not taken back when a transaction aborts.
    MissingUndo,
    /// A roll-back to a savepoint keeps changes of rows, in memory and over pages.
    KeptSavepointWrites,
    /// A prepared participant of a transaction over several databases does not keep what it has
    /// read as it was: where partitions are locked, the sites in which it has only read;
    /// optimistic: the rows.
    EarlyParticipantUnlock,
    /// A prepared part of a transaction over several databases leaves no record, in memory and over
    /// pages.
    UnloggedPreparation,
    /// The end of a prepared part leaves no record.
    UnloggedEnd,
    /// The record of a prepared part may become durable after that of its commit.
    CommitBeforePreparation,
    /// A database that is opened does not keep the rows of parts in doubt for them.
    ForgottenParts,
    /// A checkpoint leaves out the records of parts that are not decided, in memory and over pages.
    CheckpointWithoutParts,
    /// Constraints: the row to which another one refers is looked up without concurrency control,
    /// before the other one is there.
    UnprotectedReferences,
    /// A stream of changes skips a commit now and then.
    SkippedCommit,
    /// While a table gets another form, transactions change one form only.
    SingleForm,
    /// Rows get another form before the transactions have ended that do not use it.
    EarlyConversion,
    /// Another form of a table counts before its rows are durable.
    EarlySwitch,
    /// The directory says what a transaction does to tables before the transaction has committed.
    EarlyTables,
    /// A transaction that is rolled back leaves the tables that it has made.
    KeptTables,
    /// Over pages: rows that are only read are not locked.
    UnlockedReads,
    /// Over pages: rows and gaps are locked without their tables.
    MissingIntents,
    /// Over pages: inherited locks of tables stay with sessions, also if another session requests
    /// an exclusive lock.
    KeptInheritedLocks,
    /// Over pages: pages are written before the log has their changes.
    PagesBeforeLog,
    /// Over pages: changes are logged without images of pages.
    MissingImages,
    /// Over pages: a restart does not take back the changes of transactions that have not ended.
    MissingRestartUndo,
    /// Over pages: the log has no record of a transaction's rollback.
    MissingCompensation,
    /// Over pages: commits count as durable when they are in the log's buffer.
    MissingFlush,
    /// Over pages: a part gives its locks back when it is prepared.
    EarlyPartUnlock,
    /// Over pages: a part that is to commit is not finished.
    UnfinishedParts,
    /// Over pages: changes of parts in doubt are not locked again.
    UnlockedDoubt,
    /// Over pages: pages that were read ahead count even if they were written meanwhile.
    StaleReadAhead,
    /// Over pages: pieces of long rows stay in overflow pages when the row does not have them any
    /// more.
    KeptPieces,
    /// Over pages: checkpoints leave out decisions.
    CheckpointWithoutDecisions,
    /// Over pages: the record of a commit names one branch of the transaction only.
    SingleBranchCommit,
    /// Over pages: leaves are merged even if a transaction relies on the gap between them.
    MergedBusyLeaves,
    /// Over pages: a restart does not repeat what has come to a page from one that was merged with
    /// it.
    MissingMergeRedo,
    /// Owners: every other transaction sends actions to another worker than the owner.
    MisroutedActions,
    /// Owners: an owner keeps what a transaction has locked whose number of actions is odd.
    KeptOwnerLocks,
    /// Owners: a transaction that commits is rolled back by one of several owners.
    PartialCommit,
    /// Owners: nothing is locked.
    MissingOwnerLocks,
    /// Owners: a worker keeps the map that it began with.
    StaleMap,
    /// Owners: the map changes while transactions are active.
    UndrainedMap,
    /// Owners of rows in memory: when keys move to another owner, stamps are not exchanged.
    UnexchangedStamps,
    /// Instances: a participant that receives an abort commits.
    IgnoredAborts,
    /// Instances: a coordinator decides while a vote is missing.
    MissingVote,
    /// Instances: a participant does not keep what it has read locked until the decision.
    EarlyReadUnlock,
    /// Instances: a decision that comes twice is applied twice.
    RepeatedDecision,
    /// Instances: a part is voted for before anything of it is durable.
    EarlyVote,
    /// Instances: a prepared part leaves no record.
    UnloggedPart,
    /// Instances: a decision is sent before it is durable.
    EarlyDecision,
    /// Instances: a decision leaves no record.
    UnloggedDecision,
    /// Instances: a decision is acknowledged before it is applied durably.
    EarlyAcknowledgement,
    /// Instances: a commit is reported before it is durable.
    EarlyAnswer,
    /// Instances: parts that were in doubt when an instance came back are not prepared again.
    LostDoubt,
    /// Instances: a participant whose part is in doubt does not ask for the decision.
    MissingInquiry,
    /// Instances: a transaction that is not decided when a connection breaks is not aborted.
    UnabortedLosses,
    /// Instances: decisions are sent twice. The protocol holds nevertheless.
    DecisionSentTwice,
    /// Sequences: numbers are given before their reservation is durable.
    EarlyNumbers,
    /// Repartitioning: a repartitioning is made even if it does not pay.
    UnweighedMoves,
    /// Repartitioning: measurements made before a repartitioning are used after it.
    KeptMeasurements,
    /// Repartitioning: intervals do not become longer while nothing changes.
    ConstantInterval,
    /// Repartitioning: a measurement made while the workload changed is evaluated, which is an
    /// illegal transition of the controller.
    UnsettledMeasurement,
    /// Repartitioning: lost cores keep their partitions.
    AbandonedPartitions,
    /// Repartitioning: a gain below the expected one does not raise the required gain of the next
    /// repartitioning.
    UnlearnedGain,
}

/// The faults of an engine; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    #[cfg(feature = "faults")]
    bits: u128,
}

impl Faults {
    /// No fault.
    #[cfg(not(feature = "faults"))]
    pub const NONE: Faults = Faults {};
    /// No fault.
    #[cfg(feature = "faults")]
    pub const NONE: Faults = Faults { bits: 0 };

    /// These faults.
    #[cfg(feature = "faults")]
    pub const fn of(faults: &[Fault]) -> Self {
        let (mut bits, mut place) = (0, 0);
        while place < faults.len() {
            bits |= 1 << faults[place] as u32;
            place += 1;
        }
        Faults { bits }
    }

    /// These faults, which can be none only without the feature `faults`.
    ///
    /// # Panics
    /// There is a fault, and the feature is off.
    #[cfg(not(feature = "faults"))]
    pub const fn of(faults: &[Fault]) -> Self {
        assert!(faults.is_empty(), "only programs with the feature `faults` can have faults");
        Faults::NONE
    }

    /// These faults and another one.
    #[cfg(feature = "faults")]
    #[must_use]
    pub const fn and(self, fault: Fault) -> Self {
        Faults { bits: self.bits | 1 << fault as u32 }
    }

    /// True if the engine has the fault.
    #[cfg(feature = "faults")]
    #[inline(always)]
    pub const fn has(self, fault: Fault) -> bool {
        self.bits >> fault as u32 & 1 == 1
    }

    /// True if the engine has no fault, or this one alone.
    #[cfg(feature = "faults")]
    pub const fn is_none_but(self, fault: Fault) -> bool {
        self.bits & !(1 << fault as u32) == 0
    }

    /// True if the engine has no fault, or this one alone: always, without the feature `faults`.
    #[cfg(not(feature = "faults"))]
    pub const fn is_none_but(self, _: Fault) -> bool {
        true
    }

    /// True if the engine has the fault: never, without the feature `faults`.
    #[cfg(not(feature = "faults"))]
    #[inline(always)]
    pub const fn has(self, _: Fault) -> bool {
        false
    }
}

#[cfg(all(test, feature = "faults"))]
mod tests {
    use super::*;

    #[test]
    fn an_engine_has_the_faults_that_it_is_given() {
        let faults = Faults::of(&[Fault::UnloggedUpdates, Fault::DecisionSentTwice]).and(Fault::StaleMap);
        assert!(faults.has(Fault::UnloggedUpdates) && faults.has(Fault::DecisionSentTwice));
        assert!(faults.has(Fault::StaleMap) && !faults.has(Fault::UncheckedReads));
        assert!(!Faults::NONE.has(Fault::UnloggedUpdates));
    }
}

#[cfg(all(test, not(feature = "faults")))]
mod tests {
    use super::*;

    #[test]
    fn a_product_has_no_faults() {
        assert_eq!(size_of::<Faults>(), 0);
        assert!(!Faults::NONE.has(Fault::UnloggedUpdates));
    }
}
