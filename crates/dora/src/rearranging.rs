//! How a map changes while transactions run: the states of a change, and their order.
//!
//! A rearrangement goes through [`State`]s, one after the other, as [`Rearrangement::advance`]
//! receives events. The worker that makes it does what the state requires, and serves others
//! meanwhile, because transactions that are active may need it:
//!
//! ```text
//! Requested ─► Claimed ─► Drained ─► Quiet ─► Changed ─► Over
//! ```
//!
//! - `Requested`: the worker claims the lock of the map; if another worker has it, the worker tries
//!   again.
//! - `Claimed`: no transaction begins any more. Those that are active end.
//! - `Drained`: no transaction is active, so no worker waits for an answer. But owners may not have
//!   received the ends of the last transactions yet, and have branches and locks of them. The
//!   worker sends all others a fence, and each answers when it has processed all earlier messages:
//!   inboxes are emptied in the order in which they are filled, by all senders, and a transaction
//!   sends its messages before it is over.
//! - `Quiet`: no worker has a branch or a lock. The map is exchanged, unless the changes are not
//!   possible.
//! - `Changed`: transactions may begin again; each sees the new version.

/// The state of a rearrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The lock of the map is to be claimed.
    Requested,
    /// Active transactions are to end.
    Claimed,
    /// All others are to process all earlier messages.
    Drained,
    /// The map is to be exchanged.
    Quiet,
    /// The lock is to be given back.
    Changed,
    /// There is nothing to do.
    Over,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The lock is claimed.
    Claim,
    /// No transaction is active.
    Drain,
    /// All others have answered.
    Fence,
    /// The map is exchanged.
    Exchange,
    /// The lock is given back.
    Release,
}

/// All transitions that there are.
const LEGAL: [(State, Event, State); 5] = [
    (State::Requested, Event::Claim, State::Claimed),
    (State::Claimed, Event::Drain, State::Drained),
    (State::Drained, Event::Fence, State::Quiet),
    (State::Quiet, Event::Exchange, State::Changed),
    (State::Changed, Event::Release, State::Over),
];

/// A rearrangement under way.
pub(crate) struct Rearrangement {
    state: State,
}

impl Rearrangement {
    /// A rearrangement that begins.
    pub(crate) fn new() -> Self {
        Rearrangement { state: State::Requested }
    }

    /// Its state.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Makes the transition of an event.
    ///
    /// # Panics
    /// The state has no transition for the event.
    pub(crate) fn advance(&mut self, event: Event) {
        let legal = LEGAL.iter().find(|(from, what, _)| (*from, *what) == (self.state, event));
        self.state = legal.unwrap_or_else(|| panic!("{event:?} while {:?}", self.state)).2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "Exchange while Claimed")]
    fn nothing_changes_while_transactions_are_active() {
        let mut rearrangement = Rearrangement::new();
        rearrangement.advance(Event::Claim);
        rearrangement.advance(Event::Exchange);
    }
}
