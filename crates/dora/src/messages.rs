//! Messages between workers, as bytes.

use serde::{Deserialize, Serialize};
use terms::{Abort, Conflict};

/// The reason for which the actions of a request did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// They conflicted with another transaction.
    Conflict,
    /// The transaction is too late.
    Deadline,
    /// They fail for good, and why.
    Failed(String),
}

impl Refusal {
    /// The refusal by which actions end, for the coordinator.
    pub(crate) fn of(abort: &Abort) -> Refusal {
        match abort {
            Abort::Deadline => Refusal::Deadline,
            abort if abort.is_conflict() => Refusal::Conflict,
            abort => Refusal::Failed(abort.to_string()),
        }
    }

    /// The end of the transaction.
    pub(crate) fn abort(self) -> Abort {
        match self {
            Refusal::Conflict => Abort::Conflict(Conflict::Locked),
            Refusal::Deadline => Abort::Deadline,
            Refusal::Failed(why) => Abort::Storage(why),
        }
    }
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TransactionEnd {
    /// Its branches are rolled back.
    RolledBack,
    /// It has committed.
    Committed,
    /// It has committed with this stamp, which is larger than those of all its branches' reports.
    CommittedAt(u64),
}

/// A message between workers. Some messages are followed by a body.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum OwnerMessage {
    /// Actions of a phase, of a coordinator without another unanswered request. This many of them
    /// follow.
    Request {
        /// Age of the transaction: smaller is older.
        age: u64,
        /// Nanoseconds; the moment at which the transaction must have succeeded.
        deadline: Option<u64>,
        actions: usize,
    },
    /// The result of actions: the name of the branch if it has changed a row. Their outputs follow,
    /// in their order.
    Reply(Result<Option<u64>, Refusal>),
    /// The transaction has ended.
    End(TransactionEnd),
    /// Requests an answer when all earlier messages are processed.
    Fence,
    /// All messages before the fence are processed; with the largest stamp of the worker's session.
    Fenced { last: u64 },
    /// As a [`Self::Reply`] without a refusal, of a branch whose changes the coordinator logs: the
    /// last bytes of the body are those changes. The stamp of the commit is larger than `after`.
    Changed { after: u64, changes: usize },
}

/// The refusal of a value that cannot be written as bytes.
pub(crate) const CANNOT_BE_SENT: Abort = Abort::Misuse("an action or an output that cannot be sent");
/// The refusal of bytes that are no such value.
pub(crate) const CANNOT_BE_RECEIVED: Abort = Abort::Misuse("an action or an output that cannot be received");

/// Appends a message of this worker; its body is to follow.
///
/// # Errors
/// It cannot be written as bytes.
pub(crate) fn encode(from: u16, message: &OwnerMessage, to: &mut Vec<u8>) -> Result<(), Abort> {
    let bytes = std::mem::take(to);
    *to = postcard::to_extend(&(from, message), bytes).map_err(|_| CANNOT_BE_SENT)?;
    Ok(())
}

/// The sender, the message, and the body.
///
/// # Errors
/// These bytes are no message.
pub(crate) fn decode(bytes: &[u8]) -> Result<((u16, OwnerMessage), &[u8]), Abort> {
    postcard::take_from_bytes(bytes).map_err(|_| CANNOT_BE_RECEIVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_reverts_encoding() {
        let all = [
            OwnerMessage::Request { age: u64::MAX, deadline: Some(5), actions: 2 },
            OwnerMessage::Request { age: 1, deadline: None, actions: 0 },
            OwnerMessage::Reply(Ok(Some(9))),
            OwnerMessage::Reply(Ok(None)),
            OwnerMessage::Reply(Err(Refusal::Conflict)),
            OwnerMessage::Reply(Err(Refusal::Deadline)),
            OwnerMessage::Reply(Err(Refusal::Failed("why".to_owned()))),
            OwnerMessage::End(TransactionEnd::Committed),
            OwnerMessage::End(TransactionEnd::CommittedAt(1 << 60)),
            OwnerMessage::Fence,
            OwnerMessage::Fenced { last: 3 },
            OwnerMessage::Changed { after: 7, changes: 100 },
        ];
        for message in all {
            let mut bytes = Vec::new();
            encode(7, &message, &mut bytes).expect("bytes");
            bytes.extend([1, 2, 3]);
            assert_eq!(decode(&bytes), Ok(((7, message), &[1, 2, 3][..])));
        }
        assert!(decode(&[1]).is_err());
    }
}
