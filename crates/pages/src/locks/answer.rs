//! What a request is answered.

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The lock is the transaction's.
    Granted,
    /// The transaction may not wait, or does not want to.
    Refused,
    /// The deadline has passed, or the database has stopped.
    Late,
}

/// What the manager says at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Granted,
    Refused,
    Waits,
}
