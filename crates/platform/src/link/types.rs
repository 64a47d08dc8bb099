//! Parameters of links: mechanisms, bounds, errors, patience.

use std::fmt;
use std::sync::Arc;

use super::bell::Bell;
use super::frame::FrameError;
use crate::{Nanos, Node, OutOfMemory, Platform};

/// Most bytes of a message: one page with its header, up to which writes to pipes are atomic.
pub const MESSAGE_BYTES_MAX: usize = 4088;

/// How long a worker spins for a message before it sleeps: about what going to sleep and waking up
/// cost together, so that waiting costs at most twice what it has to.
pub const SPIN_NANOS: u64 = 20_000;

/// How messages travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// A ring in shared memory.
    SharedMemory,
    /// Through the operating system.
    Kernel(KernelMechanism),
}

/// A mechanism of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelMechanism {
    /// Anonymous pipes, one a direction.
    Pipe,
    /// Named pipes, one a direction.
    Fifo,
    /// POSIX message queues, one a direction.
    MessageQueue,
    /// A pair of Unix domain sockets (`SOCK_SEQPACKET`: the kernel keeps messages apart).
    Unix,
    /// A TCP connection without delays (`TCP_NODELAY`).
    Tcp,
}

impl Mechanism {
    /// All of them, with their names on the command line.
    pub const ALL: [(&'static str, Mechanism); 6] = [
        ("pipe", Mechanism::Kernel(KernelMechanism::Pipe)),
        ("fifo", Mechanism::Kernel(KernelMechanism::Fifo)),
        ("mq", Mechanism::Kernel(KernelMechanism::MessageQueue)),
        ("uds", Mechanism::Kernel(KernelMechanism::Unix)),
        ("tcp", Mechanism::Kernel(KernelMechanism::Tcp)),
        ("shm", Mechanism::SharedMemory),
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mechanism)| *mechanism == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

/// Bounds of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of a message, 1 to [`MESSAGE_BYTES_MAX`].
    pub message_bytes_max: usize,
    /// Messages that may be under way in one direction, at least 1. A mechanism of the kernel has
    /// its own bound, which may be lower (10 for message queues) or in bytes.
    pub messages_max: usize,
}

impl Limits {
    /// Checks that a link can have them.
    pub fn check(self) -> Result<(), LinkError> {
        let possible = (1..=MESSAGE_BYTES_MAX).contains(&self.message_bytes_max) && self.messages_max > 0;
        if possible { Ok(()) } else { Err(LinkError::Limits(self)) }
    }
}

/// The network between two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// From the end of sending to the arrival, in nanoseconds.
    pub one_way_nanos: u64,
    /// Bytes that pass in a second; `None` where nothing is known, and nothing charged.
    pub bytes_per_second: Option<f64>,
}

/// The peer at one end of a connection.
pub struct Side<P: Platform> {
    /// Where the peer waits.
    pub bell: Arc<Bell<P>>,
    /// The peer's memory node.
    pub node: Option<Node>,
}

impl<P: Platform> Clone for Side<P> {
    fn clone(&self) -> Self {
        Side { bell: Arc::clone(&self.bell), node: self.node }
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Bounds that no link can have.
    #[error("a link for {} messages of {} bytes: at least 1 of each, and at most {MESSAGE_BYTES_MAX} bytes", .0.messages_max, .0.message_bytes_max)]
    Limits(Limits),
    /// A real machine has the network that it has, and only TCP crosses one.
    #[error("{0} does not cross a described network here: use tcp in the virtual machine, or no network")]
    Wire(Mechanism),
    /// Two machines share no memory and no kernel.
    #[error("{0} does not connect two machines: tcp does")]
    Machines(Mechanism),
    /// Memory was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The operating system refused: its call and its words.
    #[error("{mechanism}: {call}: {error}")]
    System {
        /// The mechanism of the link that failed.
        mechanism: Mechanism,
        /// The system call.
        call: &'static str,
        /// The operating system's words.
        error: std::io::Error,
    },
}

/// Why a message was not sent. Nothing of it arrives.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// As many messages are under way as the link holds: let the receiver run, then try again.
    #[error("the link is full: its receiver has to take messages first")]
    Full,
    /// The message is empty or longer than the link allows.
    #[error("a message of {bytes} bytes on a link for 1 to {max}: split it")]
    Length {
        /// Its length.
        bytes: usize,
        /// The link's limit.
        max: usize,
    },
    /// The receiver is gone.
    #[error("the receiver has closed the link")]
    Closed,
    /// The operating system refused.
    #[error("{call}: {error}")]
    System {
        /// The system call.
        call: &'static str,
        /// The operating system's words.
        error: std::io::Error,
    },
}

/// Why no message was received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The buffer is shorter than the longest message of the link: a message might not fit.
    #[error("a buffer of {buffer} bytes for messages of up to {max}")]
    Buffer {
        /// Length of the buffer.
        buffer: usize,
        /// The link's limit.
        max: usize,
    },
    /// The sender is gone, and every message has been received.
    #[error("the sender has closed the link")]
    Closed,
    /// The peer, another process, did not send a message. The link is closed.
    #[error("{0}: the link is closed")]
    Damaged(#[from] FrameError),
    /// The operating system refused, or delivered what no sender sent.
    #[error("{call}: {error}")]
    System {
        /// The system call.
        call: &'static str,
        /// The operating system's words.
        error: std::io::Error,
    },
}

impl ReceiveError {
    /// True if the sender is gone, in whichever way.
    pub fn is_end(&self) -> bool {
        matches!(self, ReceiveError::Closed | ReceiveError::Damaged(FrameError::Cut))
    }
}

/// How long to wait for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// Until this moment.
    Until(Nanos),
    /// As long as it takes.
    Forever,
}

impl Patience {
    /// The moment at which it ends, if there is one.
    pub fn deadline(self) -> Option<Nanos> {
        if let Patience::Until(end) = self { Some(end) } else { None }
    }

    /// True if it has ended.
    pub fn is_over<P: Platform>(self, c: P::Core) -> bool {
        match self {
            Patience::None => true,
            Patience::Until(end) => P::now(c) >= end,
            Patience::Forever => false,
        }
    }
}
