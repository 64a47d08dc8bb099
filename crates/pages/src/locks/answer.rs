//! Answers to lock requests.

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockAnswer {
    /// The lock is the transaction's.
    Granted,
    /// The transaction may not wait.
    Refused,
    /// The deadline has passed, or the database has stopped.
    Late,
}

/// The manager's immediate answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImmediateAnswer {
    Granted,
    Refused,
    Waits,
}
