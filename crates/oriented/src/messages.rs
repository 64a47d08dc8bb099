//! What workers tell each other, as bytes.

use cc::{Abort, Conflict};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Why the actions of a request did not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// They met another transaction.
    Conflict,
    /// The transaction is too late.
    Deadline,
    /// They fail for good, and why.
    Failed(String),
}

impl Refusal {
    /// What the end of some actions says to the coordinator.
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

/// What a worker hears, of actions `A` with outputs `O`.
#[derive(Debug, PartialEq, Deserialize)]
pub(crate) enum Heard<A, O> {
    /// Actions of a phase, for a coordinator that has asked nothing else that is not answered.
    Request {
        /// Of the transaction: smaller is older.
        age: u64,
        /// Nanoseconds; the moment at which the transaction must have succeeded.
        deadline: Option<u64>,
        actions: Vec<A>,
    },
    /// What came of them: their outputs in their order.
    Reply(Result<(Vec<O>, Option<u64>), Refusal>),
    /// The transaction has ended.
    End { commit: bool },
    /// The sender wants to know that all is done that was said before.
    Fence,
    /// It is.
    Fenced,
}

/// The same as it is said.
#[derive(Debug, Serialize)]
pub(crate) enum Said<'a, A, O> {
    Request { age: u64, deadline: Option<u64>, actions: &'a [&'a A] },
    Reply(Result<(&'a [O], Option<u64>), Refusal>),
    End { commit: bool },
    Fence,
    Fenced,
}

/// Appends a message of this worker, after what is there.
///
/// # Errors
/// A value cannot be written as bytes.
pub(crate) fn encode<A: Serialize, O: Serialize>(
    from: u16,
    message: &Said<'_, A, O>,
    to: &mut Vec<u8>,
) -> Result<(), Abort> {
    let bytes = std::mem::take(to);
    *to = postcard::to_extend(&(from, message), bytes)
        .map_err(|_| Abort::Misuse("an action or an output that cannot be sent"))?;
    Ok(())
}

/// Who speaks, and what.
///
/// # Errors
/// These bytes are no message.
pub(crate) fn decode<A: DeserializeOwned, O: DeserializeOwned>(
    bytes: &[u8],
) -> Result<(u16, Heard<A, O>), Abort> {
    postcard::from_bytes(bytes).map_err(|_| Abort::Misuse("an action or an output that cannot be received"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn travel(said: &Said<'_, u64, String>) -> (u16, Heard<u64, String>) {
        let mut bytes = Vec::new();
        encode(7, said, &mut bytes).expect("bytes");
        decode(&bytes).expect("a message")
    }

    #[test]
    fn what_is_heard_is_what_was_said() {
        let said = Said::Request { age: u64::MAX, deadline: Some(5), actions: &[&1, &2] };
        let heard = Heard::Request { age: u64::MAX, deadline: Some(5), actions: vec![1, 2] };
        assert_eq!(travel(&said), (7, heard));
        let outputs = ["a".to_owned()];
        let heard = Heard::Reply(Ok((outputs.to_vec(), Some(9))));
        assert_eq!(travel(&Said::Reply(Ok((&outputs, Some(9))))), (7, heard));
        for refusal in [Refusal::Conflict, Refusal::Deadline, Refusal::Failed("why".to_owned())] {
            assert_eq!(travel(&Said::Reply(Err(refusal.clone()))), (7, Heard::Reply(Err(refusal))));
        }
        assert_eq!(travel(&Said::End { commit: true }), (7, Heard::End { commit: true }));
        assert_eq!(travel(&Said::Fence), (7, Heard::Fence));
        assert_eq!(travel(&Said::Fenced), (7, Heard::Fenced));
        assert!(decode::<u64, String>(&[1]).is_err());
    }
}
