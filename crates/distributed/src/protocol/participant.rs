//! The participant of one attempt of a transaction.

use terms::{Fault, Faults};

use super::legal::{Illegal, Row, check};

/// An event of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParticipantEvent {
    /// The request of the part has come.
    Requested,
    /// The part is prepared.
    Prepared,
    /// The part could not be prepared: nothing of it is left.
    Failed,
    /// The epoch of [`ParticipantAction::AwaitDurable`] is durable.
    Durable,
    /// The coordinator's decision has come.
    Decided {
        /// The decision.
        commit: bool,
    },
    /// The connection to the coordinator broke, and there is another one.
    Lost,
}

/// An action of a participant; actions are performed in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParticipantAction {
    /// The part runs: [`ParticipantEvent::Prepared`] or [`ParticipantEvent::Failed`] reports how it
    /// ended.
    Prepare,
    /// The prepared part is finished.
    Finish {
        /// Committed or rolled back.
        commit: bool,
    },
    /// The coordinator receives the vote.
    Vote {
        /// True if the part is prepared, or finished already.
        yes: bool,
    },
    /// The part's record, and what it has read, or the record of its commit:
    /// [`ParticipantEvent::Durable`] reports that it is durable.
    AwaitDurable,
    /// The coordinator receives an inquiry for its decision.
    Inquire,
    /// The coordinator receives the acknowledgement: the decision is applied.
    Acknowledge,
    /// Nothing of the part needs to be known any more.
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ParticipantState {
    /// Nothing is known: no part has come, or it is over.
    Unknown,
    /// The part runs.
    Working,
    /// Prepared, and not durably so far. The coordinator has no vote yet.
    Unvoted,
    /// Prepared: the part can commit and roll back, and the coordinator decides.
    Prepared,
    /// Committed, and not durably so far: a crash would make it prepared again.
    Committed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventKind {
    Requested,
    Prepared,
    Failed,
    Durable,
    Commit,
    Abort,
    Lost,
}

use ParticipantState::{Committed, Prepared, Unknown, Unvoted, Working};

/// The transitions that there are. Requests and decisions that come twice are in it.
const LEGAL: &[Row<ParticipantState, EventKind>] = &[
    (Unknown, EventKind::Requested, &[Working]),
    (Unknown, EventKind::Commit, &[Unknown]),
    (Unknown, EventKind::Abort, &[Unknown]),
    (Unknown, EventKind::Lost, &[Unknown]),
    (Working, EventKind::Prepared, &[Unvoted]),
    (Working, EventKind::Failed, &[Unknown]),
    (Unvoted, EventKind::Requested, &[Unvoted]),
    (Unvoted, EventKind::Durable, &[Prepared, Unknown]),
    (Unvoted, EventKind::Abort, &[Unknown]),
    (Unvoted, EventKind::Lost, &[Unknown]),
    (Prepared, EventKind::Requested, &[Prepared]),
    (Prepared, EventKind::Commit, &[Committed, Unknown]),
    (Prepared, EventKind::Abort, &[Unknown]),
    (Prepared, EventKind::Lost, &[Prepared]),
    (Committed, EventKind::Requested, &[Committed]),
    (Committed, EventKind::Commit, &[Committed]),
    (Committed, EventKind::Durable, &[Unknown]),
    (Committed, EventKind::Lost, &[Committed]),
];

/// The participant of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Participant {
    state: ParticipantState,
    /// True if its part is the last to lock, and lets go at its vote.
    is_last: bool,
    only_reads: bool,
    faults: Faults,
}

impl Participant {
    /// The participant of a new part.
    pub fn new(is_last: bool, only_reads: bool, faults: Faults) -> Self {
        Participant { state: Unknown, is_last, only_reads, faults }
    }

    /// The participant of a part that was in doubt when its database was opened.
    pub fn in_doubt(faults: Faults, act: &mut Vec<ParticipantAction>) -> Self {
        if !faults.has(Fault::MissingInquiry) {
            act.push(ParticipantAction::Inquire);
        }
        Participant { state: Prepared, is_last: false, only_reads: false, faults }
    }

    /// Adds what is to be done after `event`.
    ///
    /// # Errors
    /// The event does not fit the state: a bug of the coordinator, or here.
    pub fn step(&mut self, event: ParticipantEvent, act: &mut Vec<ParticipantAction>) -> Result<(), Illegal> {
        let before = self.state;
        let kind = match event {
            ParticipantEvent::Requested => EventKind::Requested,
            ParticipantEvent::Prepared => EventKind::Prepared,
            ParticipantEvent::Failed => EventKind::Failed,
            ParticipantEvent::Durable => EventKind::Durable,
            ParticipantEvent::Lost => EventKind::Lost,
            ParticipantEvent::Decided { commit: true } => EventKind::Commit,
            ParticipantEvent::Decided { commit: false } => EventKind::Abort,
        };
        match (event, self.state) {
            (ParticipantEvent::Requested, Unknown) => {
                self.state = Working;
                act.push(ParticipantAction::Prepare);
            }
            (ParticipantEvent::Prepared, Working) => self.prepared(act),
            (ParticipantEvent::Failed, Working) => {
                self.state = Unknown;
                act.extend([ParticipantAction::Vote { yes: false }, ParticipantAction::Forget]);
            }
            (ParticipantEvent::Durable, Unvoted) => self.vote(act),
            (ParticipantEvent::Durable, Committed) => {
                act.push(ParticipantAction::Acknowledge);
                self.forget_applied(act);
            }
            (ParticipantEvent::Decided { commit: true }, Committed)
                if self.faults.has(Fault::RepeatedDecision) =>
            {
                self.decided(true, act)
            }
            (ParticipantEvent::Decided { commit }, Prepared) => self.decided(commit, act),
            // Its coordinator has refused, and cannot wait for the vote.
            (ParticipantEvent::Decided { commit: false } | ParticipantEvent::Lost, Unvoted) => {
                self.decided(false, act)
            }
            (ParticipantEvent::Lost, Prepared) if !self.faults.has(Fault::MissingInquiry) => {
                act.push(ParticipantAction::Inquire)
            }
            // The part is over: the coordinator has no acknowledgement.
            (ParticipantEvent::Decided { commit: true }, Unknown) if !self.only_reads => {
                act.push(ParticipantAction::Acknowledge)
            }
            (ParticipantEvent::Decided { .. } | ParticipantEvent::Lost, Unknown)
            | (ParticipantEvent::Requested, Unvoted | Prepared | Committed)
            | (ParticipantEvent::Decided { commit: true } | ParticipantEvent::Lost, Committed)
            | (ParticipantEvent::Lost, Prepared) => {}
            _ => return Err(Illegal::new("participant", before, kind, "any")),
        }
        if self.faults.is_none_but(Fault::DecisionSentTwice) {
            check("participant", LEGAL, before, kind, self.state)?;
        }
        Ok(())
    }

    fn prepared(&mut self, act: &mut Vec<ParticipantAction>) {
        if self.releases_early() {
            act.push(ParticipantAction::Finish { commit: true });
        }
        self.state = Unvoted;
        if !self.faults.has(Fault::EarlyVote) {
            act.push(ParticipantAction::AwaitDurable);
        } else {
            self.vote(act);
        }
    }

    /// Returns true if its rows are free before the coordinator decides.
    fn releases_early(&self) -> bool {
        self.is_last || (self.only_reads && self.faults.has(Fault::EarlyReadUnlock))
    }

    fn vote(&mut self, act: &mut Vec<ParticipantAction>) {
        act.push(ParticipantAction::Vote { yes: true });
        self.state = Prepared;
        if self.releases_early() {
            self.forget(act);
        }
    }

    fn decided(&mut self, commit: bool, act: &mut Vec<ParticipantAction>) {
        if !self.releases_early() {
            act.push(ParticipantAction::Finish { commit: commit || self.faults.has(Fault::IgnoredAborts) });
        }
        match (commit, self.only_reads, !self.faults.has(Fault::EarlyAcknowledgement)) {
            (true, false, true) => {
                self.state = Committed;
                act.push(ParticipantAction::AwaitDurable);
            }
            (true, false, false) => {
                act.push(ParticipantAction::Acknowledge);
                self.forget_applied(act);
            }
            _ => self.forget(act),
        }
    }

    /// Forgets a part that is committed; a mutant remembers it, and so applies the decision again.
    fn forget_applied(&mut self, act: &mut Vec<ParticipantAction>) {
        if !self.faults.has(Fault::RepeatedDecision) {
            self.forget(act);
        } else {
            self.state = Committed;
        }
    }

    fn forget(&mut self, act: &mut Vec<ParticipantAction>) {
        self.state = Unknown;
        act.push(ParticipantAction::Forget);
    }
}
