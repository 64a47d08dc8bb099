//! The rules of schemes, which tests break on purpose, to see that the checks notice.
//!
//! Each scheme is a type with its rules as a parameter. With [`Sound`] every rule is a constant,
//! and costs nothing. With [`Broken`] the scheme is a mutant: it checks each rule when it comes
//! to it, and the options of an instance
//! ([`InstanceOptions::broken`](crate::InstanceOptions::broken)) say which rules the mutant breaks.
//! So all mutants of a scheme are one type, and the engine is compiled for them once.

/// A rule that a scheme keeps. Schemes of one family share theirs; a rule that a scheme does not
/// have is never asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// Logs have records of rows that change.
    Updates,
    /// The stamps of commits tell in which order those of one epoch are.
    Stamps,
    /// A participant of a transaction over several databases commits with a stamp of the epoch in
    /// which it commits, not of the one in which it was prepared.
    Renewing,
    /// Optimistic: rows that were read are checked.
    Reads,
    /// Optimistic: leaves and buckets are checked, so that no phantoms appear.
    Witnesses,
    /// Optimistic: a prepared participant of a transaction over several databases keeps keys absent
    /// that it saw to be absent.
    Freezing,
    /// Optimistic: a transaction that only reads depends on the transactions that wrote what it
    /// read.
    ReadersWait,
    /// With read times in rows: transactions that write the rows come
    /// later.
    ReadTimes,
    /// With commits ordered by their data: transactions that saw that keys are absent leave a
    /// trace for transactions that insert later.
    Traces,
    /// With commits ordered by their data: transactions that see that keys are absent come
    /// after those that deleted the keys.
    Removals,
    /// With versions of rows: old ones are kept.
    OldVersions,
    /// With versions of rows: a snapshot is of an epoch that is over.
    Lag,
    /// With versions of rows: deleted rows stay in the indexes until no snapshot needs them.
    DeferredUnlinking,
    /// Locking: gaps are locked, so that no phantoms appear.
    GapLocks,
    /// Locking: a row that is inserted into a gap of its own transaction has the gap's lock before
    /// others can find the row.
    Inheritance,
    /// Locking: rows that were only read stay locked until the end.
    SharedLocks,
    /// Locking: waiting ends after a while. Within one database the rule is not needed: without it
    /// the virtual machine reports whatever deadlock a policy overlooks.
    BoundedWaits,
    /// Locking, with managers of rows: an owner that writes has the row for itself.
    OwnersExclude,
    /// Locking: something is done about circles of transactions that wait for each other.
    DeadlocksEnd,
    /// With locks of partitions: a row that a secondary index names is protected by its own site
    /// too.
    Homes,
    /// With locks of partitions: writes are taken back when a transaction aborts.
    Undo,
    /// A prepared participant of a transaction over several databases keeps what it has read as it
    /// was: where partitions are locked, the sites in which it has only read; optimistic: the rows.
    ParticipantLocks,
    /// In the engine: a prepared part of a transaction over several databases leaves a record.
    PrepareRecords,
    /// In the engine: the end of a prepared part leaves a record.
    EndRecords,
    /// In the engine: the record of a prepared part is durable before that of its commit.
    PreparedFirst,
    /// In the engine: a database that is opened keeps the rows of parts in doubt for them.
    Adopting,
    /// In the engine: a checkpoint carries the records of parts that are not decided.
    Carrying,
    /// In the engine: while a table gets another form, transactions say what they change of both
    /// forms.
    BothForms,
    /// In the engine: rows get another form when transactions have ended that do not know of it.
    FormsWait,
    /// In the engine: another form of a table counts when its rows are durable.
    FormsSettle,
}

/// The rules that a scheme keeps.
pub trait Rules: Copy + Send + Sync + 'static {
    /// The rules of a scheme that is asked to break these.
    ///
    /// # Panics
    /// If the scheme cannot break any, and is asked to.
    fn without(broken: Broken) -> Self;

    /// Returns true if the scheme keeps the rule.
    fn keeps(self, rule: Rule) -> bool;
}

/// All rules.
#[derive(Clone, Copy, Debug)]
pub struct Sound;

impl Rules for Sound {
    fn without(broken: Broken) -> Self {
        assert_eq!(broken, Broken::default(), "only mutants break rules");
        Sound
    }

    #[inline(always)]
    fn keeps(self, _: Rule) -> bool {
        true
    }
}

/// All rules but these; none is broken by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Broken(u32);

impl Broken {
    /// All rules but these.
    pub const fn rules(rules: &[Rule]) -> Self {
        let (mut bits, mut place) = (0, 0);
        while place < rules.len() {
            bits |= 1 << rules[place] as u32;
            place += 1;
        }
        Broken(bits)
    }
}

impl Rules for Broken {
    fn without(broken: Broken) -> Self {
        broken
    }

    fn keeps(self, rule: Rule) -> bool {
        self.0 >> rule as u32 & 1 == 0
    }
}

/// State that all workers share: the rules, and the scheme's own state.
pub struct Ruled<R, T> {
    /// The rules.
    pub(crate) rules: R,
    /// The rest.
    pub(crate) own: T,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_break_what_they_are_asked_to() {
        let rules = Broken::without(Broken::rules(&[Rule::Updates, Rule::ParticipantLocks]));
        assert!(!rules.keeps(Rule::Updates) && !rules.keeps(Rule::ParticipantLocks));
        assert!(rules.keeps(Rule::Stamps) && rules.keeps(Rule::Undo));
        assert!(Sound::without(Broken::default()).keeps(Rule::Updates));
        assert_eq!(size_of::<Ruled<Sound, u64>>(), 8);
    }

    #[test]
    #[should_panic(expected = "only mutants")]
    fn schemes_refuse_to_break_rules() {
        Sound::without(Broken::rules(&[Rule::Undo]));
    }
}
