//! The way to one worker of another instance: a stream of messages each way, over a link.
//!
//! Messages that a worker sends in a turn are collected here and leave at the end of the turn, so
//! that many short messages are one message of the link. A link that is full keeps the rest here:
//! every message waits for, or is, the answer to another one, and a worker has a bounded number of
//! transactions under way, so what waits is bounded too.

use platform::link::{End, Limits, Links, Mechanism, Patience, ReceiveError, Receiver, SendError};

use crate::map::WorkerName;
use crate::messages::{Inbox, empty};

/// Messages of a link that are taken in one turn.
const TAKEN_A_TURN: usize = 4;
/// Longest message of any link between workers.
pub(crate) const LINK_BYTES_MAX: usize = 4088;

/// Bounds of the links between workers: rings in shared memory are short, because there is one for
/// each pair of workers.
pub fn limits(mechanism: Mechanism) -> Limits {
    match mechanism {
        Mechanism::SharedMemory => Limits { message_bytes_max: 1016, messages_max: 8 },
        Mechanism::Kernel(_) => Limits { message_bytes_max: LINK_BYTES_MAX, messages_max: 8 },
    }
}

/// One worker of another instance.
pub(crate) struct Peer<P: Links> {
    pub name: WorkerName,
    /// `None` while the peer is lost.
    end: Option<End<P>>,
    /// Bytes of this worker's messages; those from `sent` on are not sent yet.
    pub out: Vec<u8>,
    sent: usize,
    /// Where the last request to the peer begins, until all requests of its transaction are made.
    mark: usize,
    pub inbox: Inbox,
    /// True if the peer has sent its greeting.
    pub greeted: bool,
    /// True if the peer's instance was down when this worker began, so that it cannot have relied
    /// on what was read here before.
    pub is_new: bool,
    /// True if the peer has sent its goodbye.
    pub left: bool,
    /// True if the peer's end is closed.
    pub closed: bool,
    /// True if the peer takes nothing any more: what it has sent before is still received.
    mute: bool,
    /// Messages of the protocol that were sent to it.
    pub messages: u64,
    /// True if its link is to be polled in this turn.
    pub ready: bool,
    /// True if there may be more than was taken, which no bell announces again.
    pub more: bool,
    bytes_max: usize,
}

impl<P: Links> Peer<P> {
    pub(crate) fn new(name: WorkerName, end: End<P>, limits: Limits) -> Self {
        Peer { end: Some(end), bytes_max: limits.message_bytes_max, ..Peer::lost(name) }
    }

    /// A peer to whom there is no link.
    pub(crate) fn lost(name: WorkerName) -> Self {
        Peer {
            name,
            end: None,
            out: Vec::new(),
            sent: 0,
            mark: 0,
            inbox: Inbox::default(),
            greeted: false,
            is_new: false,
            left: false,
            closed: false,
            mute: false,
            messages: 0,
            ready: true,
            more: false,
            bytes_max: 0,
        }
    }

    /// The same with `is_new` so.
    pub(crate) fn newly(self, is_new: bool) -> Self {
        Peer { is_new, ..self }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.end.is_none()
    }

    /// Returns true if messages to it can arrive.
    pub(crate) fn is_reachable(&self) -> bool {
        self.end.is_some() && !self.mute
    }

    /// The way from the peer, unless that is closed.
    pub(crate) fn receiver(&self) -> Option<&Receiver<P>> {
        self.end.as_ref().filter(|_| !self.closed).map(|end| &end.receiver)
    }

    /// The way from the peer, if there is a link.
    pub(crate) fn linked(&self) -> Option<&Receiver<P>> {
        self.end.as_ref().map(|end| &end.receiver)
    }

    /// Returns true if something is not sent yet.
    pub(crate) fn has_more(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Marks the messages from now on: they may be taken back.
    pub(crate) fn mark(&mut self) {
        self.mark = self.out.len();
    }

    /// Takes back the messages since the mark, which have not left; true if there were any.
    pub(crate) fn take_back(&mut self) -> bool {
        let taken = self.out.len() > self.mark;
        self.out.truncate(self.mark);
        self.messages -= u64::from(taken);
        taken
    }

    /// Sends as much as the link takes; the number of its messages. `survives`: a closed link is no
    /// error here; receiving reports it after the last message.
    pub(crate) fn flush(&mut self, c: P::Core, survives: bool) -> Result<u64, SendError> {
        let mut messages = 0;
        while self.has_more() {
            let Some(link) = &mut self.end else { break };
            let end = (self.sent + self.bytes_max).min(self.out.len());
            match link.sender.send(c, &self.out[self.sent..end]) {
                Ok(()) => self.sent = end,
                Err(SendError::Full) => return Ok(messages),
                Err(SendError::Closed) if survives => {
                    self.mute = true;
                    break;
                }
                Err(error) => return Err(error),
            }
            messages += 1;
        }
        empty(&mut self.out);
        self.sent = 0;
        Ok(messages)
    }

    /// Receives messages; returns true if there were any.
    pub(crate) fn receive(&mut self, c: P::Core, buffer: &mut [u8]) -> Result<bool, ReceiveError> {
        let mut some = false;
        self.more = false;
        for _ in 0..TAKEN_A_TURN {
            let Some(link) = &mut self.end else { return Ok(some) };
            if self.closed {
                return if some { Ok(true) } else { Err(ReceiveError::Closed) };
            }
            // A link that does not ring is polled again in the next turn: one more poll would be a
            // system call.
            let polls = link.receiver.rings() || !link.receiver.calls();
            if some && !polls && !link.receiver.has_more() {
                return Ok(some);
            }
            match link.receiver.receive(c, buffer, Patience::None) {
                Ok(Some(bytes)) => self.inbox.push(&buffer[..bytes]),
                Ok(None) => return Ok(some),
                Err(error) => {
                    self.closed = error.is_end();
                    // What came before is processed first: it may announce this end.
                    self.more = some;
                    return if some { Ok(true) } else { Err(error) };
                }
            }
            some = true;
        }
        self.more = true;
        Ok(some)
    }
}
