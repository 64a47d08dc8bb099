//! Why processes are not connected.

use std::io;

use platform::OutOfMemory;
use platform::link::LinkError;
use platform::link::frame::FrameError;

use super::endpoint::Endpoint;
use super::peer::Peer;

/// What is wrong with the hello of another process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It speaks of connections in another way.
    #[error("connections of version {theirs}, and not {ours}")]
    Protocol {
        /// Its version.
        theirs: u32,
        /// The version of this program.
        ours: u32,
    },
    /// Its messages are others.
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
    /// It looks for somebody else, or is somebody else.
    #[error("{found} in the place of {wanted}")]
    WrongPeer {
        /// Who is there.
        found: Peer,
        /// Who was looked for.
        wanted: Peer,
    },
    /// There is such a connection.
    #[error("{0} is connected already")]
    Duplicate(Peer),
    /// Messages travel in ways that the two do not have in common.
    #[error("messages over {0} at this endpoint")]
    Mechanism(&'static str),
    /// Bounds that no link can have.
    #[error("bounds that no link can have")]
    Limits,
    /// The memory that it handed over is none, or too small.
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
    /// It does not encrypt, which has to be here.
    #[error("no TLS, without which nobody comes in here")]
    Plain,
    /// It encrypts, which nobody does here.
    #[error("TLS, for which there are no certificates here")]
    Secured,
    /// It does not prove who it is.
    #[error("{0}")]
    Unproved(String),
    /// What came is no hello.
    #[error("no hello: {0}")]
    Garbage(String),
    /// This process does not want it.
    #[error("{0}")]
    Unwanted(String),
}

impl From<FrameError> for Fault {
    fn from(error: FrameError) -> Self {
        Fault::Garbage(error.to_string())
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Bounds that no link can have.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Memory was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The operating system refused.
    #[error("{endpoint}: {call}: {error}")]
    System {
        /// Where.
        endpoint: Endpoint,
        /// The system call.
        call: &'static str,
        /// The operating system's words.
        error: io::Error,
    },
    /// Nobody answered in time.
    #[error("{0}: no answer in time")]
    Silent(Endpoint),
    /// The other process went away instead of answering.
    #[error("{0}: the other process closed the connection")]
    Gone(Endpoint),
    /// This process refuses the other one.
    #[error("{endpoint}: refused: {fault}")]
    Refused {
        /// Where.
        endpoint: Endpoint,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The other process refuses this one.
    #[error("{endpoint}: refused there: {reason}")]
    RefusedThere {
        /// Where.
        endpoint: Endpoint,
        /// Its words.
        reason: String,
    },
}
