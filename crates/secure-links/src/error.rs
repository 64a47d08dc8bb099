//! Errors of connections.

use std::io;

use platform::OutOfMemory;
use platform::link::LinkError;
use platform::link::frame::FrameError;

use super::endpoint::Endpoint;
use super::peer::Peer;

/// Reason to refuse another process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It uses another version of the handshake.
    #[error("connections of version {theirs}, and not {ours}")]
    Protocol {
        /// Its version.
        theirs: u32,
        /// The version of this program.
        ours: u32,
    },
    /// It uses another version of the messages on the link.
    #[error("messages of version {theirs}, and not {ours}")]
    Version {
        /// Its version.
        theirs: u32,
        /// The version of this process.
        ours: u32,
    },
    /// It belongs to another deployment, or has other tables.
    #[error("a process of deployment {theirs:016x}, and not {ours:016x}")]
    Deployment {
        /// Its deployment.
        theirs: u64,
        /// The deployment of this process.
        ours: u64,
    },
    /// It asked for another peer than this one, or is another peer than the requested one.
    #[error("{found} in the place of {wanted}")]
    WrongPeer {
        /// The peer that was found.
        found: Peer,
        /// The requested peer.
        wanted: Peer,
    },
    /// The same two peers are already connected.
    #[error("{0} is connected already")]
    Duplicate(Peer),
    /// The transport is unknown, or does not fit the endpoint.
    #[error("messages over {0} at this endpoint")]
    Mechanism(&'static str),
    /// The limits of messages are invalid.
    #[error("bounds that no link can have")]
    Limits,
    /// The shared memory that it passed is missing or too small.
    #[error("no memory for messages: {0}")]
    Memory(String),
    /// It belongs to another user.
    #[error("a process of user {theirs}, and not {ours}")]
    User {
        /// Its user.
        theirs: u32,
        /// The user of this process.
        ours: u32,
    },
    /// It does not use TLS, which is required here.
    #[error("no TLS, without which nobody comes in here")]
    Plain,
    /// It uses TLS, which this process does not.
    #[error("TLS, for which there are no certificates here")]
    Secured,
    /// It does not authenticate.
    #[error("{0}")]
    Unproved(String),
    /// The message is not a hello.
    #[error("no hello: {0}")]
    Garbage(String),
    /// This process does not accept it.
    #[error("{0}")]
    Unwanted(String),
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Fault::Garbage(error.to_string())
    }
}

/// Error of a connection attempt.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The limits of messages are invalid.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Memory was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The operating system refused.
    #[error("{endpoint}: {call}: {error}")]
    System {
        /// The endpoint.
        endpoint: Endpoint,
        /// The system call.
        call: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// No answer in time.
    #[error("{0}: no answer in time")]
    Silent(Endpoint),
    /// The other process closed the connection without an answer.
    #[error("{0}: the other process closed the connection")]
    Gone(Endpoint),
    /// This process refuses the other one.
    #[error("{endpoint}: refused: {fault}")]
    Refused {
        /// The endpoint.
        endpoint: Endpoint,
        /// The reason.
        fault: Fault,
    },
    /// The other process refuses this one.
    #[error("{endpoint}: refused there: {reason}")]
    RefusedThere {
        /// The endpoint.
        endpoint: Endpoint,
        /// The reason given by the other process.
        reason: String,
    },
}
