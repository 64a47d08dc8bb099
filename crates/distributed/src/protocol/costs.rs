//! Messages of an attempt.

use super::coordinator::Flow;

/// How an attempt over other instances ended, for [`messages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Committed.
    Committed,
    /// Not committed, when this many participants had voted yes.
    Aborted {
        /// Votes for it.
        yes: u64,
    },
}

/// Messages of an attempt with `changing` participants whose parts change rows and `reading` ones
/// whose parts only read.
pub fn messages(flow: Flow, changing: u64, reading: u64, attempt: Attempt) -> u64 {
    let questions = 2 * (changing + reading);
    match (flow, attempt) {
        (Flow::Last, _) => questions,
        // The decision for all, and acknowledgements of changes.
        (Flow::First, Attempt::Committed) => questions + (changing + reading) + changing,
        (Flow::First, Attempt::Aborted { yes }) => questions + yes,
    }
}
