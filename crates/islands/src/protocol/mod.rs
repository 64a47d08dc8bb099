//! Two-phase commit as state machines: events go in, actions come out, and nothing else happens.
//!
//! Source: Mohan, Lindsay and Obermarck, "Transaction Management in the R* Distributed Database Management System", TODS 1986
//! (presumed abort); Gray, "Notes on Data Base Operating Systems", 1978 (the last agent of a transaction decides). Deviations:
//! - Transactions are one-shot: the request that brings a part is also the question whether it is prepared.
//! - The coordinator's own part runs after all votes, and commits at once: that is the decision.
//! - A part that only reads is not released at its vote, because the coordinator's own part has not locked its rows by then. It
//!   is released by the decision, which needs no acknowledgement. Only in a transaction that reads alone, and in one other
//!   instance, the coordinator's part locks first, and the participant, as the last to lock, lets go at its vote ([`Flow::Last`]).
//!
//! Links between two workers keep messages in order. A message that comes twice changes nothing.

mod coordinator;
mod legal;
mod participant;
#[cfg(test)]
mod tests;

pub use coordinator::{Action, Coordinator, Event, Flow};
pub use legal::Illegal;
pub use participant::{Answer, Heard, Participant};

/// The rules that the protocol keeps, which tests break on purpose, to see that the checks notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A participant that is told to abort aborts.
    pub obeys_aborts: bool,
    /// A coordinator decides when all votes are there.
    pub awaits_votes: bool,
    /// A participant keeps what it has read locked until the decision.
    pub keeps_reads: bool,
    /// A decision that comes twice is applied once.
    pub applies_once: bool,
    /// Decisions come once. No rule of the protocol, which holds without it.
    pub tells_once: bool,
}

impl Rules {
    /// All rules.
    pub const SOUND: Rules = Rules {
        obeys_aborts: true,
        awaits_votes: true,
        keeps_reads: true,
        applies_once: true,
        tells_once: true,
    };

    /// Whether the protocol itself is whole: transitions are checked then.
    fn is_sound(self) -> bool {
        Rules { tells_once: true, ..self } == Rules::SOUND
    }
}

/// How an attempt over other instances ended, for [`messages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Committed.
    Committed,
    /// Not committed, when so many participants had voted yes.
    Aborted {
        /// Votes for it.
        yes: u64,
    },
}

/// Messages of an attempt with `changing` participants whose parts change rows and `reading` ones whose parts only read.
pub fn messages(flow: Flow, (changing, reading): (u64, u64), attempt: Attempt) -> u64 {
    let questions = 2 * (changing + reading);
    match (flow, attempt) {
        (Flow::Last, _) => questions,
        // The decision for all, and acknowledgements of changes.
        (Flow::First, Attempt::Committed) => questions + (changing + reading) + changing,
        (Flow::First, Attempt::Aborted { yes }) => questions + yes,
    }
}
