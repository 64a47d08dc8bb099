//! Settings, counters and errors of a member.

use boundary::Procedure;
use platform::link::{End as LinkEnd, Limits, Links, ReceiveError, SendError};
use terms::Faults;

use crate::flight::End;
use crate::map::{Map, WorkerName};
use crate::messages::{MessageError, Unsendable};
use crate::protocol::Illegal;

/// Longest wait for a lock in one of several instances with this many workers, also of transactions
/// that are no parts: the holder of the lock may wait for other instances.
pub fn wait_nanos_max(workers: usize) -> u64 {
    // Only the worker itself could release the lock, when it receives a decision.
    if workers == 1 { 0 } else { concurrency::WAIT_NANOS_MAX_PARTICIPANT }
}

/// The settings that a member is made from.
pub struct Setting<'d, Q: Procedure> {
    /// Its name.
    pub me: WorkerName,
    /// The tables of its instance.
    pub tables: &'d Q::Tables,
    /// The owners of all data.
    pub map: &'d Map,
    /// [`crate::messages::fingerprint`] of the tables.
    pub fingerprint: u32,
    /// A number that this instance had at no earlier start, below
    /// [`crate::messages::INCARNATIONS_MAX`].
    pub incarnation: u64,
    /// True if the instance is durable: then a peer whose link closes is lost, and may come back.
    pub durable: bool,
    /// True if a part locks all that its worker has, or partitions as wholes: then parts are
    /// prepared one after the other, and transactions take what they need in the order of the
    /// instances.
    pub in_order: bool,
    /// True if the own part of a transaction of one phase locks first, before the parts of other
    /// instances, and keeps its locks until all have voted; else it locks last. Without effect if
    /// parts lock in order (`in_order`).
    pub own_first: bool,
    /// Duplicate one in this many received messages (0: never), which the protocol tolerates.
    pub duplicate_one_in: u32,
    /// Faults that tests plant in the protocol.
    pub faults: Faults,
}

impl<Q: Procedure> Clone for Setting<'_, Q> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q: Procedure> Copy for Setting<'_, Q> {}

/// The way to a worker of another instance.
pub struct Connection<P: Links> {
    /// The peer's name.
    pub to: WorkerName,
    /// This worker's end.
    pub end: LinkEnd<P>,
    /// The link's bounds.
    pub limits: Limits,
}

/// The reason for which a member cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The bytes of a peer are no message.
    #[error("{from}: {error}")]
    Message {
        /// The peer.
        from: WorkerName,
        /// The fault.
        error: MessageError,
    },
    /// A message that every transaction needs cannot be sent.
    #[error("to {to}: {why}")]
    Unsendable {
        /// The peer.
        to: WorkerName,
        /// Why.
        why: Unsendable,
    },
    /// A message of a peer does not follow from the messages before.
    #[error("{from}: {error}")]
    Illegal {
        /// The peer.
        from: WorkerName,
        /// The fault.
        error: Illegal,
    },
    /// A vote of a worker without a request, or with another number of outputs than actions.
    #[error("{0}: a vote that answers no request")]
    Vote(WorkerName),
    /// A request or a decision of a worker that does not coordinate the transaction.
    #[error("{from}: a transaction of {coordinator} is not for it to coordinate")]
    Stranger {
        /// The peer.
        from: WorkerName,
        /// The coordinator.
        coordinator: WorkerName,
    },
    /// A question about a transaction of another coordinator that may be under way.
    #[error("{from}: a question about a transaction of {coordinator}")]
    Inquiry {
        /// The peer.
        from: WorkerName,
        /// The worker that has the decision.
        coordinator: WorkerName,
    },
    /// A link refuses to send.
    #[error("to {to}: {error}")]
    Send {
        /// The peer.
        to: WorkerName,
        /// Why.
        error: SendError,
    },
    /// A link refuses to receive.
    #[error("from {from}: {error}")]
    Receive {
        /// The peer.
        from: WorkerName,
        /// Why.
        error: ReceiveError,
    },
    /// The instance can make nothing durable any more.
    #[error(transparent)]
    Log(terms::Abort),
    /// Data belong to a worker to whom there is no link.
    #[error("no link to {0}")]
    NoLink(WorkerName),
}

/// Counters of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages of the protocol that were sent, greetings left out.
    pub messages: u64,
    /// Messages that attempts of its own transactions take by the protocol: over all members the
    /// same number.
    pub expected: u64,
    /// Messages of links.
    pub packets: u64,
    /// Parts prepared for others.
    pub served: u64,
    /// Parts of others that conflicted with another transaction.
    pub refused: u64,
    /// Messages that were received twice.
    pub echoes: u64,
    /// Links that were lost: then messages are not as many as expected.
    pub losses: u64,
}

/// A transaction whose attempt is over.
pub struct Done<Q, T> {
    /// The transaction.
    pub procedure: Q,
    /// The caller's name for it.
    pub ticket: T,
    /// How it ended.
    pub end: End,
}
