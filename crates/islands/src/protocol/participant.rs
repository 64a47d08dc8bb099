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
    /// The coordinator's decision.
    Told {
        /// The decision.
        commit: bool,
    },
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
        /// Whether the part is prepared, or finished already.
        yes: bool,
    },
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
    /// Prepared: the part can do both, and the coordinator says which.
    Prepared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Asked,
    Prepared,
    Failed,
    Commit,
    Abort,
}

use State::{Prepared, Unknown, Working};

/// The transitions that there are. Requests and decisions that come twice are in it.
const LEGAL: &[Row<State, Kind>] = &[
    (Unknown, Kind::Asked, &[Working]),
    (Working, Kind::Prepared, &[Prepared, Unknown]),
    (Working, Kind::Failed, &[Unknown]),
    (Prepared, Kind::Asked, &[Prepared]),
    (Prepared, Kind::Commit, &[Unknown]),
    (Prepared, Kind::Abort, &[Unknown]),
    (Unknown, Kind::Commit, &[Unknown]),
    (Unknown, Kind::Abort, &[Unknown]),
];

/// The participant of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Participant {
    state: State,
    /// Whether its part is the last to lock, and lets go at its vote.
    is_last: bool,
    only_reads: bool,
    rules: Rules,
}

impl Participant {
    /// Of a part that nothing is known of so far.
    pub fn new(is_last: bool, only_reads: bool, rules: Rules) -> Self {
        Participant { state: Unknown, is_last, only_reads, rules }
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
            (Heard::Told { commit }, Prepared) => self.told(commit, act),
            // The part is over: the coordinator has not heard.
            (Heard::Told { commit: true }, Unknown) if !self.only_reads => act.push(Answer::Acknowledge),
            (Heard::Told { .. }, Unknown) | (Heard::Asked, Prepared) => {}
            _ => return Err(Illegal::new("participant", before, kind, "any")),
        }
        if self.rules.is_sound() {
            check("participant", LEGAL, (before, kind, self.state))?;
        }
        Ok(())
    }

    fn prepared(&mut self, act: &mut Vec<Answer>) {
        let lets_go = self.is_last || (self.only_reads && !self.rules.keeps_reads);
        if lets_go {
            act.push(Answer::Finish { commit: true });
        }
        act.push(Answer::Vote { yes: true });
        if lets_go {
            act.push(Answer::Forget);
        }
        self.state = if lets_go { Unknown } else { Prepared };
    }

    fn told(&mut self, commit: bool, act: &mut Vec<Answer>) {
        act.push(Answer::Finish { commit: commit || !self.rules.obeys_aborts });
        if commit && !self.only_reads {
            act.push(Answer::Acknowledge);
        }
        if self.rules.applies_once || !commit {
            self.state = Unknown;
            act.push(Answer::Forget);
        }
    }
}
