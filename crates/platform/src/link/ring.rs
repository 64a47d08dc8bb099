//! A ring of messages in shared memory: one sender, one receiver, no kernel.
//!
//! Layout, in lines: one for the count of consumed messages, then the slots, each beginning on a
//! line: a header word and the message. The header is (number of the message, counted from 1) and
//! (its length), so a slot announces its message itself: announcement and first bytes come with one
//! transfer of a line, and no side clears anything. The sender reads the count of consumed
//! messages only when the ring seems full, and the receiver never writes to a slot.
//!
//! Memory lies on the receiver's node. Source: the usual single-producer single-consumer ring
//! (Lamport, "Specifying Concurrent Program Modules", TOPLAS 1983), with the sequence in the slot
//! and the consumer's count cached as in Lee, Bu and Chandranmenon, "A Lock-Free, Cache-Efficient
//! Shared Ring Buffer", ANCS 2009.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::bell::Bell;
use super::types::{Limits, MESSAGE_BYTES_MAX, Patience, SPIN_NANOS, SendError, Side};
use crate::{LINE_BYTES, Nanos, OutOfMemory, Platform, RegionBytes};

/// Bits of a header that hold the length.
const LENGTH_BITS: u32 = 16;
const _: () = assert!(MESSAGE_BYTES_MAX < 1 << LENGTH_BITS);

/// The state that both sides share.
struct Ring<P: Platform> {
    region: P::Region,
    bell: Arc<Bell<P>>,
    slots: u64,
    slot_bytes: usize,
}

impl<P: Platform> Ring<P> {
    /// Messages that the receiver has taken. Written by the receiver only.
    fn consumed(&self) -> &P::Word {
        P::word_of(&self.region, 0)
    }

    /// Header and message of the slot of message `number`, counted from 0.
    fn slot(&self, number: u64) -> (&P::Word, &[P::Word]) {
        let offset = LINE_BYTES + (number % self.slots) as usize * self.slot_bytes;
        assert!(offset + self.slot_bytes <= self.region.bytes());
        // SAFETY: inside the region by the assertion, and aligned, because slots begin on lines.
        // Regions start zeroed, which makes valid words, and this module uses its region as words
        // only. The region outlives the loan.
        let words = unsafe {
            std::slice::from_raw_parts(self.region.base().add(offset).cast::<P::Word>(), self.slot_bytes / 8)
        };
        (&words[0], &words[1..])
    }
}

/// The header of message `number`, counted from 0.
fn header(number: u64, bytes: usize) -> u64 {
    ((number + 1) << LENGTH_BITS) | bytes as u64
}

/// The sending side of a ring.
pub struct RingSender<P: Platform> {
    ring: Arc<Ring<P>>,
    sent: u64,
    /// The count of consumed messages when it was last read.
    consumed: u64,
    words: Vec<u64>,
}

/// The receiving side of a ring.
pub struct RingReceiver<P: Platform> {
    ring: Arc<Ring<P>>,
    received: u64,
    words: Vec<u64>,
}

/// A ring whose receiver is on `receiver`'s side. The limits were checked.
pub fn ring<P: Platform>(
    c: P::Core,
    receiver: Side<P>,
    limits: Limits,
) -> Result<(RingSender<P>, RingReceiver<P>), OutOfMemory> {
    let words = limits.message_bytes_max.div_ceil(8);
    let slot_bytes = (8 + words * 8).next_multiple_of(LINE_BYTES);
    let bytes = LINE_BYTES + limits.messages_max * slot_bytes;
    let region = P::region(c, receiver.node, bytes, "link")?;
    let ring = Ring { region, bell: receiver.bell, slots: limits.messages_max as u64, slot_bytes };
    let ring = Arc::new(ring);
    let sender = RingSender { ring: Arc::clone(&ring), sent: 0, consumed: 0, words: vec![0; words] };
    Ok((sender, RingReceiver { ring, received: 0, words: vec![0; words] }))
}

impl<P: Platform> RingSender<P> {
    /// True if there is no room for a message.
    pub fn is_full(&mut self, c: P::Core) -> bool {
        if self.sent - self.consumed == self.ring.slots {
            // Acquire: pairs with the release of the receiver, whose reads of the slot are over.
            self.consumed = P::load(c, self.ring.consumed(), Ordering::Acquire);
        }
        self.sent - self.consumed == self.ring.slots
    }

    /// Sends a message within the limits of the ring, unless it is full.
    ///
    /// Concurrency: one sender.
    pub fn send(&mut self, c: P::Core, message: &[u8]) -> Result<(), SendError> {
        if self.is_full(c) {
            return Err(SendError::Full);
        }
        let used = message.len().div_ceil(8);
        let (whole, rest) = message.as_chunks::<8>();
        for (word, bytes) in self.words.iter_mut().zip(whole) {
            *word = u64::from_le_bytes(*bytes);
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.words[whole.len()] = u64::from_le_bytes(last);
        }
        let (head, body) = self.ring.slot(self.sent);
        P::write_words(c, &body[..used], &self.words[..used]);
        // Release: pairs with the acquire of the receiver, which then reads the message.
        P::store(c, head, header(self.sent, message.len()), Ordering::Release);
        self.sent += 1;
        self.ring.bell.ring(c);
        Ok(())
    }
}

impl<P: Platform> RingReceiver<P> {
    /// True if a message is there.
    pub fn has_message(&self, c: P::Core) -> bool {
        self.head(c).1.is_some()
    }

    /// The header of the next slot, and the length of the message if it is there.
    fn head(&self, c: P::Core) -> (u64, Option<usize>) {
        let (head, _) = self.ring.slot(self.received);
        // Acquire: pairs with the release of the sender.
        let value = P::load(c, head, Ordering::Acquire);
        let bytes = value & ((1 << LENGTH_BITS) - 1);
        (value, (value >> LENGTH_BITS == self.received + 1).then_some(bytes as usize))
    }

    /// The length of the next message, copied to the beginning of `buffer`, which is long enough;
    /// `None` if there is none.
    ///
    /// Concurrency: one receiver.
    pub fn take(&mut self, c: P::Core, buffer: &mut [u8]) -> Option<usize> {
        let bytes = self.head(c).1?;
        let used = bytes.div_ceil(8);
        let (_, body) = self.ring.slot(self.received);
        P::read_words(c, &body[..used], &mut self.words[..used]);
        let (whole, rest) = buffer[..bytes].as_chunks_mut::<8>();
        for (chunk, word) in whole.iter_mut().zip(&self.words) {
            *chunk = word.to_le_bytes();
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&self.words[whole.len()].to_le_bytes()[..rest.len()]);
        }
        self.received += 1;
        // Release: pairs with the acquire of the sender, which then writes to the slot.
        P::store(c, self.ring.consumed(), self.received, Ordering::Release);
        Some(bytes)
    }

    /// As [`Self::take`], waiting: spins on the slot, which brings the message with its
    /// announcement, and then sleeps at the bell.
    pub fn receive(&mut self, c: P::Core, buffer: &mut [u8], patience: Patience) -> Option<usize> {
        loop {
            let (seen, there) = self.head(c);
            if there.is_some() {
                return self.take(c, buffer);
            }
            if patience.is_over::<P>(c) {
                return None;
            }
            let end = P::now(c).plus(SPIN_NANOS);
            let deadline = patience.deadline();
            let end = deadline.map_or(end, |deadline| end.min(deadline));
            if P::spin_while(c, self.ring.slot(self.received).0, seen, Some(end)) == seen {
                self.sleep(c, true, deadline);
            }
        }
    }

    /// Sleeps at the bell until something rings or the deadline has passed; not at all if a message
    /// is there, unless that is not what is waited `for_message`.
    pub fn sleep(&self, c: P::Core, for_message: bool, deadline: Option<Nanos>) {
        self.ring.bell.wait(c, 0, &mut |c| for_message && self.has_message(c), deadline);
    }
}
