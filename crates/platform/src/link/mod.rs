//! Links: bounded channels of messages between two peers, and one place where a worker waits for
//! all of them.
//!
//! A connection has two [`End`]s, each with a [`Sender`] and a [`Receiver`]. Messages arrive whole
//! and in order. Sending never waits: a full link returns [`SendError::Full`]. Every receiver
//! belongs to a [`Bell`], and a worker has one bell: it waits there for its links and for whatever
//! else rings (a flushed log, a granted lock), with [`wait`].
//!
//! - `shm` is a [ring] of words in a region: engine code over [`Platform`] words, on both
//!   platforms the same.
//! - The [mechanisms of the kernel](KernelMechanism) belong to the platform, behind the port
//!   [`Links`].
//!
//! The mechanisms are those of Porobic et al., "OLTP on Hardware Islands", PVLDB 2012, section 3.2.
//!
//! [`connect`] makes both ends within one process, whose regions are private to it. Two processes
//! connect through crate `secure-links`; the ends that they get are used in the same way.
//!
//! A worker with many small messages for one peer collects them in an [`Outbox`].

mod bell;
pub mod frame;
mod outbox;
mod ring;
mod types;
mod watch;

use crate::{Nanos, Platform};

pub use bell::Bell;
pub use outbox::{Messages, Outbox};
pub use ring::{RingReceiver, RingSender, ring};
pub use types::{
    KernelMechanism, Limits, LinkError, MESSAGE_BYTES_MAX, Mechanism, Patience, ReceiveError, SPIN_NANOS,
    SendError, Side, Wire,
};
pub use watch::Watch;

/// The kernel's mechanisms, real or simulated, and what else only a platform can make.
///
/// Concurrency: an end has one owner at a time. Messages of at most the link's limit arrive whole,
/// once and in order.
pub trait Links: Platform {
    /// The way out of one end.
    type KernelSender: Send;
    /// The way into one end.
    type KernelReceiver: Send;
    /// A poll of several receivers together.
    type KernelWatch: Send;

    /// A connection between two peers of one machine, or over `wire` between two.
    fn kernel_connect(
        c: Self::Core,
        mechanism: KernelMechanism,
        sides: [Side<Self>; 2],
        limits: Limits,
        wire: Option<Wire>,
    ) -> Result<[KernelEnd<Self>; 2], LinkError>;

    /// Sends a message of at most the link's limit, or nothing. Does not wait, except that `tcp`
    /// finishes a message once it has begun with it.
    fn kernel_send(c: Self::Core, sender: &mut Self::KernelSender, message: &[u8]) -> Result<(), SendError>;

    /// The length of the next message, copied into `buffer`, which holds any message of the link;
    /// `None` if none came in time.
    fn kernel_receive(
        c: Self::Core,
        receiver: &mut Self::KernelReceiver,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError>;

    /// True if whatever comes rings the bell of the receiver's side, but for the end of another
    /// process.
    fn kernel_rings(_: &Self::KernelReceiver) -> bool {
        false
    }

    /// True if polling for a message calls the kernel.
    fn kernel_calls(_: &Self::KernelReceiver) -> bool {
        true
    }

    /// True if a message has been taken from the kernel already, and waits here.
    fn kernel_has_more(_: &Self::KernelReceiver) -> bool {
        false
    }

    /// The poll of these receivers, which call the kernel.
    fn kernel_watch(c: Self::Core, receivers: &[&Self::KernelReceiver]) -> Self::KernelWatch;

    /// Calls `ready` with the place of each receiver that may have a message or may have ended: one
    /// system call for all. `receivers` are those that the watch was made for, in the same order.
    fn kernel_poll(
        c: Self::Core,
        watch: &mut Self::KernelWatch,
        receivers: &mut dyn Iterator<Item = &Self::KernelReceiver>,
        ready: &mut dyn FnMut(usize),
    );

    /// Waits until one of `receivers` has a message or was closed, the bell is rung, or `ready`
    /// returns true. May return early. `receivers` is not empty.
    fn kernel_wait<'r>(
        c: Self::Core,
        bell: &Bell<Self>,
        receivers: impl Iterator<Item = &'r Self::KernelReceiver> + Clone,
        ready: &mut dyn FnMut(Self::Core) -> bool,
        deadline: Option<Nanos>,
    );
}

/// One end of a kernel's connection.
pub struct KernelEnd<P: Links> {
    /// To the other end.
    pub sender: P::KernelSender,
    /// From the other end.
    pub receiver: P::KernelReceiver,
}

/// One end of a connection.
pub struct End<P: Links> {
    /// To the other end.
    pub sender: Sender<P>,
    /// From the other end.
    pub receiver: Receiver<P>,
}

/// The way to a peer.
pub struct Sender<P: Links> {
    channel: Channel<RingSender<P>, P::KernelSender>,
    message_bytes_max: usize,
}

/// The way from a peer.
pub struct Receiver<P: Links> {
    channel: Channel<RingReceiver<P>, P::KernelReceiver>,
    message_bytes_max: usize,
}

/// The channel of a link.
enum Channel<R, K> {
    Ring(R),
    Kernel(K),
}

/// Connects two peers.
///
/// # Errors
/// Bounds that no link can have, a network that the mechanism does not cross, or a refusal of the
/// operating system.
pub fn connect<P: Links>(
    c: P::Core,
    mechanism: Mechanism,
    sides: [Side<P>; 2],
    limits: Limits,
    wire: Option<Wire>,
) -> Result<[End<P>; 2], LinkError> {
    limits.check()?;
    let max = limits.message_bytes_max;
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
                end(Channel::Ring(to_second), Channel::Ring(at_first)),
                end(Channel::Ring(to_first), Channel::Ring(at_second)),
            ])
        }
        Mechanism::Kernel(kernel) => {
            let ends = P::kernel_connect(c, kernel, sides, limits, wire)?;
            Ok(ends.map(|KernelEnd { sender, receiver }| {
                end(Channel::Kernel(sender), Channel::Kernel(receiver))
            }))
        }
    }
}

impl<P: Links> End<P> {
    /// An end that the platform made, which sends and receives messages of up to this many bytes.
    pub fn of_platform(end: KernelEnd<P>, sent_bytes_max: usize, received_bytes_max: usize) -> Self {
        End {
            sender: Sender { channel: Channel::Kernel(end.sender), message_bytes_max: sent_bytes_max },
            receiver: Receiver {
                channel: Channel::Kernel(end.receiver),
                message_bytes_max: received_bytes_max,
            },
        }
    }
}

impl<P: Links> Sender<P> {
    /// Most bytes of a message.
    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    /// Sends a message, or nothing.
    pub fn send(&mut self, c: P::Core, message: &[u8]) -> Result<(), SendError> {
        let (bytes, max) = (message.len(), self.message_bytes_max);
        if bytes == 0 || bytes > max {
            return Err(SendError::Length { bytes, max });
        }
        match &mut self.channel {
            Channel::Ring(ring) => ring.send(c, message),
            Channel::Kernel(kernel) => P::kernel_send(c, kernel, message),
        }
    }
}

impl<P: Links> Receiver<P> {
    /// Most bytes of a message.
    pub fn message_bytes_max(&self) -> usize {
        self.message_bytes_max
    }

    /// True if messages ring the bell of this side ([`Bell::take_news`]). The end of another
    /// process rings no bell.
    pub fn rings(&self) -> bool {
        match &self.channel {
            Channel::Ring(_) => true,
            Channel::Kernel(kernel) => P::kernel_rings(kernel),
        }
    }

    /// True if polling for a message is a system call, so that a [`Watch`] saves some.
    pub fn calls(&self) -> bool {
        matches!(&self.channel, Channel::Kernel(kernel) if P::kernel_calls(kernel))
    }

    /// True if the next message is here already, so that taking it is no system call.
    pub fn has_more(&self) -> bool {
        matches!(&self.channel, Channel::Kernel(kernel) if P::kernel_has_more(kernel))
    }

    /// The length of the next message, which is copied into `buffer`; `None` if none came in time.
    /// The buffer holds the longest message of the link.
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
            Channel::Ring(ring) => Ok(ring.receive(c, buffer, patience)),
            Channel::Kernel(kernel) => P::kernel_receive(c, kernel, buffer, patience),
        }
    }
}

/// Waits at the one place of a worker: until a message has come on one of `receivers`, all of which
/// ring `bell`, until `ready` returns true, or until the deadline. May return early.
///
/// The worker that makes `ready` true rings the bell afterwards. With mechanisms of the kernel on
/// hardware, such a ring is noticed within a tenth of a millisecond.
pub fn wait<'r, P: Links>(
    c: P::Core,
    bell: &Bell<P>,
    receivers: impl Iterator<Item = &'r Receiver<P>> + Clone,
    ready: &mut dyn FnMut(P::Core) -> bool,
    deadline: Option<Nanos>,
) {
    let has_message = |receiver: &Receiver<P>, c| match &receiver.channel {
        Channel::Ring(ring) => ring.has_message(c),
        Channel::Kernel(_) => false,
    };
    let mut any = |c| receivers.clone().any(|receiver| has_message(receiver, c)) || ready(c);
    let kernels = receivers.clone().filter_map(|receiver| match &receiver.channel {
        Channel::Ring(_) => None,
        Channel::Kernel(kernel) => Some(kernel),
    });
    if kernels.clone().next().is_none() {
        bell.wait(c, SPIN_NANOS, &mut any, deadline);
    } else {
        P::kernel_wait(c, bell, kernels, &mut any, deadline);
    }
}
