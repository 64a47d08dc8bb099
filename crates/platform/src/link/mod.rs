//! Links: bounded channels of messages between two peers, and one place where a worker waits for all of them.
//!
//! A connection has two [`End`]s, each with a [`Sender`] and a [`Receiver`]. Messages arrive whole and in order. Sending
//! never waits: a full link says [`SendError::Full`]. Every receiver belongs to a [`Bell`], and a worker has one bell: it
//! waits there for its links and for whatever else rings (a flushed log, a granted lock), with [`wait`].
//!
//! - `shm` is a [ring](ring) of words in a region: engine code over [`Platform`] words, on both platforms the same.
//! - The [mechanisms of the kernel](KernelMechanism) belong to the platform, behind the port [`Links`].
//!
//! The mechanisms are those of Porobic et al., "OLTP on Hardware Islands", PVLDB 2012, section 3.2.
//!
//! Limits: regions are private to a process so far, and with them rings, bells and both ends of a connection.

mod bell;
mod ring;

use std::fmt;
use std::sync::Arc;

use crate::{Nanos, Node, OutOfMemory, Platform};

pub use bell::Bell;
pub use ring::{RingReceiver, RingSender, ring};

/// Most bytes of a message: one page with its header, up to which writes to pipes are atomic.
pub const MESSAGE_BYTES_MAX: usize = 4088;

/// How long a worker spins for a message before it sleeps: about what going to sleep and waking up cost together, so that
/// waiting costs at most twice what it has to.
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
    /// Messages that may be under way in one direction, at least 1. A mechanism of the kernel has its own bound, which may
    /// be lower (10 for message queues) or in bytes.
    pub messages_max: usize,
}

/// The network between two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// From the end of sending to the arrival, in nanoseconds.
    pub one_way_nanos: u64,
    /// Bytes that pass in a second; `None` where nothing is known, and nothing charged.
    pub bytes_per_second: Option<f64>,
}

/// What a connection needs to know of the peer at one of its ends.
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
    /// Memory was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// The operating system refused: its call and its words.
    #[error("{mechanism}: {call}: {error}")]
    System {
        /// What was to be made.
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
    /// The operating system refused, or delivered what no sender sent.
    #[error("{call}: {error}")]
    System {
        /// The system call.
        call: &'static str,
        /// The operating system's words.
        error: std::io::Error,
    },
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

    /// Whether it has ended.
    pub fn is_over<P: Platform>(self, c: P::Core) -> bool {
        match self {
            Patience::None => true,
            Patience::Until(end) => P::now(c) >= end,
            Patience::Forever => false,
        }
    }
}

/// The kernel's mechanisms, real or simulated.
///
/// Concurrency: an end has one owner at a time. Messages of at most the link's limit arrive whole, once and in order.
pub trait Links: Platform {
    /// The way out of one end.
    type KernelSender: Send;
    /// The way into one end.
    type KernelReceiver: Send;

    /// A connection between two peers of one machine, or over `wire` between two.
    fn kernel_connect(
        c: Self::Core,
        mechanism: KernelMechanism,
        sides: [Side<Self>; 2],
        limits: Limits,
        wire: Option<Wire>,
    ) -> Result<[KernelEnd<Self>; 2], LinkError>;

    /// Sends a message of at most the link's limit, or nothing. Does not wait, except that `tcp` finishes a message once it
    /// has begun with it.
    fn kernel_send(c: Self::Core, sender: &mut Self::KernelSender, message: &[u8]) -> Result<(), SendError>;

    /// The length of the next message, copied into `buffer`, which holds any message of the link; `None` if none came in
    /// time.
    fn kernel_receive(
        c: Self::Core,
        receiver: &mut Self::KernelReceiver,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError>;

    /// Waits until one of `receivers` has a message or was closed, the bell is rung, or `ready` says so. May return early.
    fn kernel_wait(
        c: Self::Core,
        bell: &Bell<Self>,
        receivers: &[&Self::KernelReceiver],
        ready: &mut dyn FnMut(Self::Core) -> bool,
        deadline: Option<Nanos>,
    );
}

/// One end of a kernel's connection.
pub type KernelEnd<P> = (<P as Links>::KernelSender, <P as Links>::KernelReceiver);

/// One end of a connection.
pub struct End<P: Links> {
    /// To the other end.
    pub sender: Sender<P>,
    /// From the other end.
    pub receiver: Receiver<P>,
}

/// The way to a peer.
pub struct Sender<P: Links> {
    channel: Way<RingSender<P>, P::KernelSender>,
    message_bytes_max: usize,
}

/// The way from a peer.
pub struct Receiver<P: Links> {
    channel: Way<RingReceiver<P>, P::KernelReceiver>,
    message_bytes_max: usize,
}

enum Way<R, K> {
    Ring(R),
    Kernel(K),
}

/// Connects two peers.
///
/// # Errors
/// Bounds that no link can have, a network that the mechanism does not cross, or a refusal of the operating system.
pub fn connect<P: Links>(
    c: P::Core,
    mechanism: Mechanism,
    sides: [Side<P>; 2],
    limits: Limits,
    wire: Option<Wire>,
) -> Result<[End<P>; 2], LinkError> {
    let max = limits.message_bytes_max;
    if max == 0 || max > MESSAGE_BYTES_MAX || limits.messages_max == 0 {
        return Err(LinkError::Limits(limits));
    }
    if wire.is_some() && mechanism != Mechanism::Kernel(KernelMechanism::Tcp) {
        return Err(LinkError::Wire(mechanism));
    }
    let end = |sender, receiver| End {
        sender: Sender { channel: sender, message_bytes_max: max },
        receiver: Receiver { channel: receiver, message_bytes_max: max },
    };
    match mechanism {
        Mechanism::SharedMemory => {
            let [first, second] = sides;
            let (to_second, at_second) = ring(c, second, limits)?;
            let (to_first, at_first) = ring(c, first, limits)?;
            Ok([
                end(Way::Ring(to_second), Way::Ring(at_first)),
                end(Way::Ring(to_first), Way::Ring(at_second)),
            ])
        }
        Mechanism::Kernel(kernel) => {
            let ends = P::kernel_connect(c, kernel, sides, limits, wire)?;
            Ok(ends.map(|(sender, receiver)| end(Way::Kernel(sender), Way::Kernel(receiver))))
        }
    }
}

impl<P: Links> Sender<P> {
    /// Sends a message, or nothing.
    pub fn send(&mut self, c: P::Core, message: &[u8]) -> Result<(), SendError> {
        let (bytes, max) = (message.len(), self.message_bytes_max);
        if bytes == 0 || bytes > max {
            return Err(SendError::Length { bytes, max });
        }
        match &mut self.channel {
            Way::Ring(ring) => ring.send(c, message),
            Way::Kernel(kernel) => P::kernel_send(c, kernel, message),
        }
    }
}

impl<P: Links> Receiver<P> {
    /// The length of the next message, which is copied into `buffer`; `None` if none came in time. The buffer holds the
    /// longest message of the link.
    pub fn receive(
        &mut self,
        c: P::Core,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError> {
        let max = self.message_bytes_max;
        if buffer.len() < max {
            return Err(ReceiveError::Buffer { buffer: buffer.len(), max });
        }
        match &mut self.channel {
            Way::Ring(ring) => Ok(ring.receive(c, buffer, patience)),
            Way::Kernel(kernel) => P::kernel_receive(c, kernel, buffer, patience),
        }
    }
}

/// Waits at the one place of a worker: until a message has come on one of `receivers`, all of which ring `bell`, until
/// `ready` says that something else has come, or until the deadline. May return early.
///
/// Whoever makes `ready` true rings the bell afterwards. With mechanisms of the kernel on hardware, such a ring is noticed
/// within a tenth of a millisecond.
pub fn wait<P: Links>(
    c: P::Core,
    bell: &Bell<P>,
    receivers: &[&Receiver<P>],
    ready: &mut dyn FnMut(P::Core) -> bool,
    deadline: Option<Nanos>,
) {
    let mut rings = Vec::new();
    let mut kernels = Vec::new();
    for receiver in receivers {
        match &receiver.channel {
            Way::Ring(ring) => rings.push(ring),
            Way::Kernel(kernel) => kernels.push(kernel),
        }
    }
    let mut any = |c| rings.iter().any(|ring| ring.has_message(c)) || ready(c);
    if kernels.is_empty() {
        bell.wait(c, SPIN_NANOS, &mut any, deadline);
    } else {
        P::kernel_wait(c, bell, &kernels, &mut any, deadline);
    }
}
