//! Two-phase commit as state machines: events go in, actions come out, and nothing else happens.
//!
//! Source: Mohan, Lindsay and Obermarck, "Transaction Management in the R* Distributed Database
//! Management System", TODS 1986 (presumed abort); Gray, "Notes on Data Base Operating Systems",
//! 1978 (the last agent of a transaction decides). Deviations:
//! - Transactions are one-shot: the request that brings a part is also the question whether it is
//!   prepared.
//! - The coordinator's own part runs after all votes, and commits at once: that is the decision.
//! - Participants get their requests at once, or in turn ([`Coordinator::in_turn`]), where they
//!   lock in an order that all coordinators keep.
//! - A part that only reads is not released at its vote, because the coordinator's own part has not
//!   locked its rows by then. It is released by the decision, which needs no acknowledgement. Only
//!   in a transaction that reads alone, and in one other instance, the coordinator's part locks
//!   first, and the participant, as the last to lock, lets go at its vote ([`Flow::Last`]).
//!
//! Links between two workers keep messages in order. A message that comes twice changes nothing.

mod coordinator;
mod costs;
#[cfg(test)]
mod interleavings;
mod legal;
mod participant;
#[cfg(test)]
mod tests;

pub use coordinator::{Action, Coordinator, Event, Flow};
pub use costs::{Attempt, messages};
pub use legal::Illegal;
pub use participant::{Participant, ParticipantAction, ParticipantEvent};
