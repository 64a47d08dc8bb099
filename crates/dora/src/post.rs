//! The messages that a worker sends and receives.

use std::collections::VecDeque;

use platform::{Nanos, Platform, Work};
use terms::Abort;

use crate::inbox::{Inbox, MESSAGE_BYTES_MAX};
use crate::messages::{OwnerMessage, decode, encode};
use crate::shared::Shared;

/// How long a worker waits for a message before it checks that the others are there.
pub(crate) const LOSS_CHECK_NANOS: u64 = 1_000_000;
/// How long a worker waits whose peer's inbox is full.
const FULL_NANOS: u64 = 1_000;

/// Writes the body of a message behind what is there.
pub(crate) type Body<'b> = dyn FnMut(&mut Vec<u8>) -> Result<(), Abort> + 'b;

/// The messages that one worker sends and receives.
pub(crate) struct Post<'d, P: Platform> {
    c: P::Core,
    me: u16,
    shared: &'d Shared<P>,
    /// The next slot of the own inbox.
    next: u64,
    /// By worker: slots of its inbox that were emptied when the worker last checked.
    emptied: Vec<u64>,
    /// Messages taken from the own inbox while another inbox was full.
    taken: VecDeque<Vec<u8>>,
    words: Vec<u64>,
    bytes: Vec<u8>,
    received: Vec<u8>,
    /// Messages sent.
    pub sent: u64,
}

/// The refusal of a message with more bytes than [`MESSAGE_BYTES_MAX`], of which nothing is sent.
pub(crate) const TOO_LONG: Abort = Abort::Misuse(
    "actions, or outputs and changes, of more than 32 KiB in a message to another worker: divide them among phases",
);
const _: () = assert!(MESSAGE_BYTES_MAX == 32 << 10);

/// Bytes as words.
fn to_words(bytes: &[u8], words: &mut Vec<u64>) {
    let (whole, rest) = bytes.as_chunks::<8>();
    words.clear();
    words.extend(whole.iter().map(|bytes| u64::from_le_bytes(*bytes)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        words.push(u64::from_le_bytes(last));
    }
}

impl<'d, P: Platform> Post<'d, P> {
    /// The messages of the worker with this number.
    pub(crate) fn new(c: P::Core, me: u16, shared: &'d Shared<P>) -> Self {
        let emptied = vec![0; shared.workers()];
        let (taken, words) = (VecDeque::new(), Vec::new());
        let (bytes, received) = (Vec::new(), Vec::new());
        Post { c, me, shared, next: 0, emptied, taken, words, bytes, received, sent: 0 }
    }

    fn inbox(&self) -> &'d Inbox<P> {
        &self.shared.inboxes[usize::from(self.me)]
    }

    /// Sends another worker a message without a body.
    ///
    /// # Errors
    /// Another worker is gone.
    pub(crate) fn send(&mut self, to: u16, message: &OwnerMessage) -> Result<(), Abort> {
        self.send_with_body(to, message, &mut |_| Ok(()))
    }

    /// Sends another worker a message.
    ///
    /// # Errors
    /// The message cannot be written as bytes, or is too long; another worker is gone.
    pub(crate) fn send_with_body(
        &mut self,
        to: u16,
        message: &OwnerMessage,
        body: &mut Body<'_>,
    ) -> Result<(), Abort> {
        let c = self.c;
        self.bytes.clear();
        encode(self.me, message, &mut self.bytes)?;
        body(&mut self.bytes)?;
        if self.bytes.len() > MESSAGE_BYTES_MAX {
            return Err(TOO_LONG);
        }
        let mut words = std::mem::take(&mut self.words);
        to_words(&self.bytes, &mut words);
        // Written as bytes, and copied to the ring.
        P::work(c, Work::CopyWord, 2 * words.len() as u32);
        let (inbox, emptied) = (&self.shared.inboxes[usize::from(to)], &mut self.emptied[usize::from(to)]);
        let first = inbox.claim(c, words.len());
        let own = &self.shared.inboxes[usize::from(self.me)];
        while !inbox.has_room(c, emptied, first, words.len()) {
            // The other one may wait for room here.
            let mut kept = Vec::new();
            while let Some(bytes) = own.take(c, &mut self.next, &mut kept) {
                let mut all = Vec::new();
                to_bytes(&kept, bytes, &mut all);
                self.taken.push_back(all);
            }
            if self.shared.has_lost(c) {
                return Err(gone());
            }
            P::pause(c, FULL_NANOS);
        }
        inbox.fill(c, first, self.bytes.len(), &words);
        self.words = words;
        self.sent += 1;
        Ok(())
    }

    /// The first message and its sender; its body is in `body` then.
    ///
    /// # Errors
    /// The received bytes are no message.
    #[inline]
    pub(crate) fn take(&mut self, body: &mut Vec<u8>) -> Result<Option<(u16, OwnerMessage)>, Abort> {
        if let Some(bytes) = self.taken.pop_front() {
            self.received = bytes;
        } else {
            let Some(bytes) = self.inbox().take(self.c, &mut self.next, &mut self.words) else {
                return Ok(None);
            };
            P::work(self.c, Work::CopyWord, 2 * self.words.len() as u32);
            to_bytes(&self.words, bytes, &mut self.received);
        }
        let (message, rest) = decode(&self.received)?;
        rest.clone_into(body);
        Ok(Some(message))
    }

    /// Waits until something has come, or until the deadline; may return early.
    pub(crate) fn wait(&self, deadline: Nanos) {
        if self.taken.is_empty() {
            self.inbox().wait(self.c, self.next, self.shared.spin_nanos, deadline);
        }
    }
}

/// Words as this many bytes.
fn to_bytes(words: &[u64], bytes: usize, all: &mut Vec<u8>) {
    all.clear();
    words.iter().for_each(|word| all.extend_from_slice(&word.to_le_bytes()));
    all.truncate(bytes);
}

/// Another worker is gone.
pub(crate) fn gone() -> Abort {
    Abort::Storage("a worker that owns partitions is gone: its transactions cannot be ended".to_owned())
}
