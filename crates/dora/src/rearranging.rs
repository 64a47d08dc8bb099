//! How a map changes while transactions run: what is asked for, and in which order it happens.
//!
//! A rearrangement goes through [`State`]s, one after the other, as [`Rearrangement::advance`] is
//! told what has happened. The worker that makes it does what the state asks for, and serves others
//! meanwhile, because transactions that are active may need it:
//!
//! ```text
//! Asked ─► Claimed ─► Drained ─► Quiet ─► Changed ─► Over
//! ```
//!
//! - `Asked`: the worker claims the lock of the map; if another worker has it, the worker tries
//!   again.
//! - `Claimed`: no transaction begins any more. Those that are active end.
//! - `Drained`: no transaction is active, so no worker waits for an answer. But owners may not have
//!   heard yet how the last transactions have ended, and have branches and locks of them. The
//!   worker asks all others, and each answers when it has done all that was said before: inboxes
//!   are emptied in the order in which they are filled, by whomever, and what a transaction says
//!   was said before it was over.
//! - `Quiet`: no worker has a branch or a lock. The map is exchanged, unless it cannot be changed
//!   as
//!   asked.
//! - `Changed`: transactions may begin again; each sees the new version.

/// Where a rearrangement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The lock of the map is to be claimed.
    Asked,
    /// Active transactions are to end.
    Claimed,
    /// All others are to do what was said before.
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
    (State::Asked, Event::Claim, State::Claimed),
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
    /// One that is asked for.
    pub(crate) fn new() -> Self {
        Rearrangement { state: State::Asked }
    }

    /// Where it is.
    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Something has happened.
    ///
    /// # Panics
    /// If it may not happen now.
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
