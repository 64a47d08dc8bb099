//! Many small messages that leave as one.
//!
//! A worker puts its messages to a peer during one of its turns into an [`Outbox`], and flushes it
//! at the turn's end: one message of the link carries all of them, so that the peer is woken, and
//! the kernel called, once. A message in an outbox is preceded by its length in two
//! bytes; [`Messages`] takes them apart on the other side.

use super::frame::{FrameError, check_length};
use super::{Links, MESSAGE_BYTES_MAX, SendError, Sender};

/// Bytes of the length that precedes each message.
const PREFIX_BYTES: usize = 2;
const _: () = assert!(MESSAGE_BYTES_MAX <= u16::MAX as usize);

/// The way to a peer, for messages that are collected.
pub struct Outbox<P: Links> {
    sender: Sender<P>,
    collected: Vec<u8>,
    messages: u64,
    sent: u64,
}

impl<P: Links> Outbox<P> {
    /// An empty one before this sender.
    pub fn new(sender: Sender<P>) -> Self {
        Outbox { collected: Vec::with_capacity(sender.message_bytes_max()), sender, messages: 0, sent: 0 }
    }

    /// Most bytes of a message.
    pub fn message_bytes_max(&self) -> usize {
        self.sender.message_bytes_max().saturating_sub(PREFIX_BYTES)
    }

    /// Collects a message, or nothing. What was collected before leaves first if there is no room
    /// beside it.
    ///
    /// # Errors
    /// As [`Sender::send`]; [`SendError::Full`]: there is no room, and the link is full.
    pub fn push(&mut self, c: P::Core, message: &[u8]) -> Result<(), SendError> {
        let max = self.message_bytes_max();
        if message.is_empty() || message.len() > max {
            return Err(SendError::Length { bytes: message.len(), max });
        }
        if self.collected.len() + PREFIX_BYTES + message.len() > self.sender.message_bytes_max() {
            self.flush(c)?;
        }
        self.collected.extend_from_slice(&(message.len() as u16).to_le_bytes());
        self.collected.extend_from_slice(message);
        self.messages += 1;
        Ok(())
    }

    /// Sends what was collected.
    ///
    /// # Errors
    /// As [`Sender::send`]: nothing was sent then, and all of it is still here.
    pub fn flush(&mut self, c: P::Core) -> Result<(), SendError> {
        if self.collected.is_empty() {
            return Ok(());
        }
        self.sender.send(c, &self.collected)?;
        self.collected.clear();
        self.sent += 1;
        Ok(())
    }

    /// True if nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.collected.is_empty()
    }

    /// Messages that were collected so far, and messages of the link that carried them.
    pub fn counts(&self) -> (u64, u64) {
        (self.messages, self.sent)
    }
}

/// The messages that an [`Outbox`] sent, one by one. After an error there are no more.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Those in one message of the link.
    pub fn of(received: &'a [u8]) -> Self {
        Messages { rest: received }
    }

    fn split(&mut self) -> Result<&'a [u8], FrameError> {
        let rest = std::mem::take(&mut self.rest);
        let Some((length, rest)) = rest.split_first_chunk::<PREFIX_BYTES>() else {
            return Err(FrameError::Truncated { bytes: rest.len(), of: PREFIX_BYTES });
        };
        let of = check_length(u16::from_le_bytes(*length) as usize, MESSAGE_BYTES_MAX)?;
        let Some((message, rest)) = rest.split_at_checked(of) else {
            return Err(FrameError::Truncated { bytes: rest.len(), of });
        };
        self.rest = rest;
        Ok(message)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<&'a [u8], FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() { None } else { Some(self.split()) }
    }
}
