//! The participant of one attempt of a transaction.

use super::legal::{Illegal, Row, check};
use super::rules::Rules;

/// What happens to a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heard {
    /// The part has come.
    Asked,
    /// The part is prepared.
    Prepared,
    /// The part could not be prepared: nothing of it is left.
    Failed,
    /// What [`Answer::AwaitDurable`] waited for is durable.
    Durable,
    /// The coordinator's decision.
    Told {
        /// The decision.
        commit: bool,
    },
    /// The connection to the coordinator broke, and there is another one.
    Lost,
}

/// What a participant wants done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The part runs: [`Heard::Prepared`] or [`Heard::Failed`] says how it ended.
    Prepare,
    /// The prepared part is finished.
    Finish {
        /// Committed or rolled back.
        commit: bool,
    },
    /// The coordinator hears the vote.
    Vote {
        /// True if the part is prepared, or finished already.
        yes: bool,
    },
    /// The part's record, and what it has read, or the record of its commit: [`Heard::Durable`]
    /// says that it is durable.
    AwaitDurable,
    /// The coordinator is asked for its decision.
    Inquire,
    /// The coordinator hears that the decision is applied.
    Acknowledge,
    /// Nothing of the part needs to be known any more.
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum State {
    /// Nothing is known: no part has come, or it is over.
    Unknown,
    /// The part runs.
    Working,
    /// Prepared, and not durably so far. The coordinator has not heard.
    Unvoted,
    /// Prepared: the part can do both, and the coordinator says which.
    Prepared,
    /// Committed, and not durably so far: a crash would make it prepared again.
    Committed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Asked,
    Prepared,
    Failed,
    Durable,
    Commit,
    Abort,
    Lost,
}

use State::{Committed, Prepared, Unknown, Unvoted, Working};

/// The transitions that there are. Requests and decisions that come twice are in it.
const LEGAL: &[Row<State, Kind>] = &[
    (Unknown, Kind::Asked, &[Working]),
    (Unknown, Kind::Commit, &[Unknown]),
    (Unknown, Kind::Abort, &[Unknown]),
    (Unknown, Kind::Lost, &[Unknown]),
    (Working, Kind::Prepared, &[Unvoted]),
    (Working, Kind::Failed, &[Unknown]),
    (Unvoted, Kind::Asked, &[Unvoted]),
    (Unvoted, Kind::Durable, &[Prepared, Unknown]),
    (Unvoted, Kind::Abort, &[Unknown]),
    (Unvoted, Kind::Lost, &[Unknown]),
    (Prepared, Kind::Asked, &[Prepared]),
    (Prepared, Kind::Commit, &[Committed, Unknown]),
    (Prepared, Kind::Abort, &[Unknown]),
    (Prepared, Kind::Lost, &[Prepared]),
    (Committed, Kind::Asked, &[Committed]),
    (Committed, Kind::Commit, &[Committed]),
    (Committed, Kind::Durable, &[Unknown]),
    (Committed, Kind::Lost, &[Committed]),
];

/// The participant of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Participant {
    state: State,
    /// True if its part is the last to lock, and lets go at its vote.
    is_last: bool,
    only_reads: bool,
    rules: Rules,
}

impl Participant {
    /// Of a part that nothing is known of so far.
    pub fn new(is_last: bool, only_reads: bool, rules: Rules) -> Self {
        Participant { state: Unknown, is_last, only_reads, rules }
    }

    /// Of a part that was in doubt when its database was opened.
    pub fn in_doubt(rules: Rules, act: &mut Vec<Answer>) -> Self {
        if rules.inquires {
            act.push(Answer::Inquire);
        }
        Participant { state: Prepared, is_last: false, only_reads: false, rules }
    }

    /// Adds what is to be done after `event`.
    ///
    /// # Errors
    /// The event does not fit the state: a bug of the coordinator, or here.
    pub fn step(&mut self, event: Heard, act: &mut Vec<Answer>) -> Result<(), Illegal> {
        let before = self.state;
        let kind = match event {
            Heard::Asked => Kind::Asked,
            Heard::Prepared => Kind::Prepared,
            Heard::Failed => Kind::Failed,
            Heard::Durable => Kind::Durable,
            Heard::Lost => Kind::Lost,
            Heard::Told { commit: true } => Kind::Commit,
            Heard::Told { commit: false } => Kind::Abort,
        };
        match (event, self.state) {
            (Heard::Asked, Unknown) => {
                self.state = Working;
                act.push(Answer::Prepare);
            }
            (Heard::Prepared, Working) => self.prepared(act),
            (Heard::Failed, Working) => {
                self.state = Unknown;
                act.extend([Answer::Vote { yes: false }, Answer::Forget]);
            }
            (Heard::Durable, Unvoted) => self.vote(act),
            (Heard::Durable, Committed) => {
                act.push(Answer::Acknowledge);
                self.forget_applied(act);
            }
            (Heard::Told { commit: true }, Committed) if !self.rules.applies_once => self.told(true, act),
            (Heard::Told { commit }, Prepared) => self.told(commit, act),
            // Its coordinator has refused, and cannot wait for the vote.
            (Heard::Told { commit: false } | Heard::Lost, Unvoted) => self.told(false, act),
            (Heard::Lost, Prepared) if self.rules.inquires => act.push(Answer::Inquire),
            // The part is over: the coordinator has not heard.
            (Heard::Told { commit: true }, Unknown) if !self.only_reads => act.push(Answer::Acknowledge),
            (Heard::Told { .. } | Heard::Lost, Unknown)
            | (Heard::Asked, Unvoted | Prepared | Committed)
            | (Heard::Told { commit: true } | Heard::Lost, Committed)
            | (Heard::Lost, Prepared) => {}
            _ => return Err(Illegal::new("participant", before, kind, "any")),
        }
        if self.rules.is_sound() {
            check("participant", LEGAL, (before, kind, self.state))?;
        }
        Ok(())
    }

    fn prepared(&mut self, act: &mut Vec<Answer>) {
        if self.lets_go() {
            act.push(Answer::Finish { commit: true });
        }
        self.state = Unvoted;
        if self.rules.votes_durable {
            act.push(Answer::AwaitDurable);
        } else {
            self.vote(act);
        }
    }

    /// Returns true if its rows are free before the coordinator decides.
    fn lets_go(&self) -> bool {
        self.is_last || (self.only_reads && !self.rules.keeps_reads)
    }

    fn vote(&mut self, act: &mut Vec<Answer>) {
        act.push(Answer::Vote { yes: true });
        self.state = Prepared;
        if self.lets_go() {
            self.forget(act);
        }
    }

    fn told(&mut self, commit: bool, act: &mut Vec<Answer>) {
        if !self.lets_go() {
            act.push(Answer::Finish { commit: commit || !self.rules.obeys_aborts });
        }
        match (commit, self.only_reads, self.rules.acknowledges_durable) {
            (true, false, true) => {
                self.state = Committed;
                act.push(Answer::AwaitDurable);
            }
            (true, false, false) => {
                act.push(Answer::Acknowledge);
                self.forget_applied(act);
            }
            _ => self.forget(act),
        }
    }

    /// Forgets a part that is committed; a mutant remembers it, and so applies the decision again.
    fn forget_applied(&mut self, act: &mut Vec<Answer>) {
        if self.rules.applies_once {
            self.forget(act);
        } else {
            self.state = Committed;
        }
    }

    fn forget(&mut self, act: &mut Vec<Answer>) {
        self.state = Unknown;
        act.push(Answer::Forget);
    }
}
