//! A ring of messages between two processes: one sender, one receiver, no kernel while both run.
//!
//! Layout, in lines: one for the count of consumed messages, then the slots, of as many lines as
//! the longest message needs. Every line of a slot begins with the announcement of the message (the
//! number of times that the ring went round, the length, and a number that follows from length and
//! position in the stream) and has seven words of it. The sender writes the last line first, and
//! the announcement last in each.
//!
//! The receiver waits by polling the first line, which is the last one to be written: the sender
//! has the others for itself until then, and when the first one has come, all of them are read
//! at once, so that a message takes little longer than two lines (as with the slots of Giacomoni,
//! Moseley and Vachharajani, "FastForward for Efficient Pipeline Parallelism", PPoPP 2008: no line
//! is written by both sides, and the data is its own announcement).
//!
//! The other process may end within a message, and its words may be anything: a message is handed
//! on if all of its lines have the one announcement that it can have, and a count that cannot be
//! closes the ring. What is in a message has no checksum
//! (`docs/decisions/0024-no-checksum-in-shared-memory.md`). Memory lies on the receiver's node.
//!
//! Concurrency: the announcement in each line is stored with Release after the line's words, and
//! loaded with Acquire before them; the count of consumed messages is stored with Release after the
//! reads of the slot, and loaded with Acquire before it is written to again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::life::{Life, PEER_CHECK_NANOS};
use super::{Hardware, HardwareCore, HardwareRegion, SPINS_BEFORE_YIELD, clock, threads};
use crate::link::frame::{FrameError, check_length};
use crate::link::{Bell, Limits, MESSAGE_BYTES_MAX, Patience, ReceiveError, SPIN_NANOS, SendError};
use crate::{LINE_BYTES, RegionBytes};

const WORD_BYTES: usize = size_of::<u64>();
const LINE_WORDS: usize = LINE_BYTES / WORD_BYTES;
/// Bytes of a message in a line.
const CARRIED_BYTES: usize = LINE_BYTES - WORD_BYTES;
/// Spins between two reads of the clock.
const SPINS_PER_CLOCK_READ: u32 = 64;
const _: () = assert!(MESSAGE_BYTES_MAX <= u16::MAX as usize);

/// Lines of a message.
fn lines(bytes: usize) -> usize {
    bytes.div_ceil(CARRIED_BYTES)
}

/// Bytes of a ring's memory.
pub fn ring_bytes(limits: Limits) -> usize {
    LINE_BYTES * (1 + limits.messages_max * lines(limits.message_bytes_max))
}

/// The state that both sides share.
struct Ring {
    region: HardwareRegion,
    limits: Limits,
    life: Arc<Life>,
}

impl Ring {
    /// The words of a line, counted from the beginning of the memory.
    #[inline]
    fn line(&self, line: usize) -> &[AtomicU64; LINE_WORDS] {
        assert!((line + 1) * LINE_BYTES <= self.region.bytes());
        // SAFETY: inside the region by the assertion, and aligned, because regions are. Every value
        // is a valid word, this module uses its regions as atomic words only, and so has the other
        // process to. The region outlives the loan.
        unsafe { &*self.region.base().add(line * LINE_BYTES).cast() }
    }

    /// Messages that the receiver has taken. Written by the receiver only.
    fn consumed(&self) -> &AtomicU64 {
        &self.line(0)[0]
    }
}

/// Where a side is.
#[derive(Clone, Copy)]
struct Turn {
    slot: usize,
    /// How often the ring has gone round, counted from 1: slots begin with 0.
    round: u16,
    /// Messages so far.
    count: u64,
}

impl Turn {
    const FIRST: Turn = Turn { slot: 0, round: 1, count: 0 };

    #[inline]
    fn next(&mut self, slots: usize) {
        self.count += 1;
        self.slot += 1;
        if self.slot == slots {
            (self.slot, self.round) = (0, self.round.wrapping_add(1));
        }
    }
}

/// The announcement of the message at this turn: the lower half is different for other lengths, and
/// for other messages of the same round and slot.
#[inline]
fn announce(turn: Turn, bytes: usize) -> u64 {
    // Odd factors: both are bijections. From MurmurHash3 (Appleby).
    let number = (turn.count as u32).wrapping_mul(0xcc9e_2d51) ^ (bytes as u32).wrapping_mul(0x1b87_3593);
    u64::from(turn.round) << 48 | (bytes as u64) << 32 | u64::from(number)
}

/// Writes a line of a message.
#[inline(always)]
fn write_line([head, body @ ..]: &[AtomicU64; LINE_WORDS], bytes: &[u8; CARRIED_BYTES], announcement: u64) {
    for (word, value) in body.iter().zip(bytes.as_chunks::<WORD_BYTES>().0) {
        // Relaxed: published by the store of the announcement.
        word.store(u64::from_le_bytes(*value), Ordering::Relaxed);
    }
    head.store(announcement, Ordering::Release);
}

/// The part of a message in a line.
#[inline(always)]
fn read_line([_, body @ ..]: &[AtomicU64; LINE_WORDS]) -> [u8; CARRIED_BYTES] {
    let mut bytes = [0; CARRIED_BYTES];
    for (word, value) in body.iter().zip(bytes.as_chunks_mut::<WORD_BYTES>().0) {
        // Relaxed: after the load of the announcement.
        *value = word.load(Ordering::Relaxed).to_le_bytes();
    }
    bytes
}

/// The sending side.
pub struct SharedSender {
    ring: Ring,
    bell: Bell<Hardware>,
    turn: Turn,
    /// The count of consumed messages when it was last read.
    consumed: u64,
}

/// The receiving side.
pub struct SharedReceiver {
    ring: Ring,
    bell: Arc<Bell<Hardware>>,
    turn: Turn,
}

impl SharedSender {
    /// The side that writes to `region`, whose receiver waits at `bell`. The region is large enough
    /// for the limits.
    pub fn new(region: HardwareRegion, bell: Bell<Hardware>, limits: Limits, life: Arc<Life>) -> Self {
        SharedSender { ring: Ring { region, limits, life }, bell, turn: Turn::FIRST, consumed: 0 }
    }

    fn is_full(&mut self) -> Result<bool, SendError> {
        let slots = self.ring.limits.messages_max as u64;
        if self.turn.count - self.consumed == slots {
            let consumed = self.ring.consumed().load(Ordering::Acquire);
            if !(self.consumed..=self.turn.count).contains(&consumed) {
                self.ring.life.close();
                return Err(SendError::Closed);
            }
            self.consumed = consumed;
        }
        Ok(self.turn.count - self.consumed == slots)
    }

    /// Sends a message within the limits, unless the ring is full.
    ///
    /// # Errors
    /// The ring is full, or the other process is gone.
    pub fn send(&mut self, c: HardwareCore, message: &[u8]) -> Result<(), SendError> {
        let life = &self.ring.life;
        if life.is_closed() {
            return Err(SendError::Closed);
        }
        if self.is_full()? {
            return Err(if self.ring.life.is_gone() { SendError::Closed } else { SendError::Full });
        }
        let announcement = announce(self.turn, message.len());
        let first = 1 + self.turn.slot * lines(self.ring.limits.message_bytes_max);
        let (whole, rest) = message.as_chunks::<CARRIED_BYTES>();
        if !rest.is_empty() {
            let mut last = [0; CARRIED_BYTES];
            last[..rest.len()].copy_from_slice(rest);
            write_line(self.ring.line(first + whole.len()), &last, announcement);
        }
        for (number, bytes) in whole.iter().enumerate().rev() {
            write_line(self.ring.line(first + number), bytes, announcement);
        }
        self.turn.next(self.ring.limits.messages_max);
        self.bell.ring(c);
        // Behind the message's back: the next one is refused if there is no process any more.
        self.ring.life.is_gone();
        Ok(())
    }
}

impl SharedReceiver {
    /// The side that reads from `region`, and waits at `bell`. The region is large enough for the
    /// limits.
    pub fn new(region: HardwareRegion, bell: Arc<Bell<Hardware>>, limits: Limits, life: Arc<Life>) -> Self {
        SharedReceiver { ring: Ring { region, limits, life }, bell, turn: Turn::FIRST }
    }

    fn first_line(&self) -> usize {
        1 + self.turn.slot * lines(self.ring.limits.message_bytes_max)
    }

    /// The length of the next message, if it is there.
    #[inline]
    fn poll(&self) -> Result<Option<usize>, FrameError> {
        let first = self.first_line();
        let announcement = self.ring.line(first)[0].load(Ordering::Acquire);
        let (round, length) = ((announcement >> 48) as u16, (announcement >> 32) as u16);
        if round != self.turn.round {
            if round.wrapping_add(1) == self.turn.round {
                return Ok(None);
            }
            return Err(FrameError::Announcement(announcement));
        }
        let bytes = check_length(usize::from(length), self.ring.limits.message_bytes_max)?;
        if announcement != announce(self.turn, bytes) {
            return Err(FrameError::Announcement(announcement));
        }
        // All of them are read, also after one that is wrong: so their cache misses overlap.
        let wrong = (1..lines(bytes)).fold(None, |wrong, line| {
            let there = self.ring.line(first + line)[0].load(Ordering::Acquire);
            if there == announcement { wrong } else { Some(there) }
        });
        wrong.map_or(Ok(Some(bytes)), |wrong| Err(FrameError::Announcement(wrong)))
    }

    /// True if a receive would return a message or an error.
    pub(super) fn has_message(&self) -> bool {
        !matches!(self.poll(), Ok(None))
    }

    /// The same of the whole link.
    pub(super) fn has_news(&self) -> bool {
        self.has_message() || self.ring.life.is_gone()
    }

    /// The length of the next message, copied to the beginning of `buffer`; `None` if it is not
    /// there.
    #[inline]
    fn take(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, FrameError> {
        let Some(bytes) = self.poll()? else { return Ok(None) };
        let (first, message) = (self.first_line(), &mut buffer[..bytes]);
        let (whole, rest) = message.as_chunks_mut::<CARRIED_BYTES>();
        for (number, bytes) in whole.iter_mut().enumerate() {
            *bytes = read_line(self.ring.line(first + number));
        }
        if !rest.is_empty() {
            rest.copy_from_slice(&read_line(self.ring.line(first + whole.len()))[..rest.len()]);
        }
        self.turn.next(self.ring.limits.messages_max);
        self.ring.consumed().store(self.turn.count, Ordering::Release);
        Ok(Some(bytes))
    }

    /// As [`Self::take`]; what is no message closes the link.
    fn take_or_close(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        self.take(buffer).map_err(|damage| {
            self.ring.life.close();
            damage.into()
        })
    }

    /// The remaining messages when the other process is gone: all that it sent before are there.
    fn last(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, ReceiveError> {
        self.take_or_close(buffer)?.map_or(Err(ReceiveError::Closed), |bytes| Ok(Some(bytes)))
    }

    /// The length of the next message, copied to the beginning of `buffer`; `None` if none came in
    /// time.
    pub(super) fn receive(
        &mut self,
        c: HardwareCore,
        buffer: &mut [u8],
        patience: Patience,
    ) -> Result<Option<usize>, ReceiveError> {
        loop {
            if self.ring.life.is_closed() {
                return self.last(buffer);
            }
            if let Some(bytes) = self.take_or_close(buffer)? {
                return Ok(Some(bytes));
            }
            if self.ring.life.is_gone() {
                continue;
            }
            if patience.is_over::<Hardware>(c) {
                return Ok(None);
            }
            let now = clock::now();
            let sooner = |nanos: u64| {
                let end = now.plus(nanos);
                patience.deadline().map_or(end, |deadline| deadline.min(end))
            };
            if !self.spin(sooner(SPIN_NANOS)) {
                self.bell.wait(c, 0, &mut |_| self.has_message(), Some(sooner(PEER_CHECK_NANOS)));
            }
        }
    }

    /// Spins until there is a message, or until `end`; whether there is one.
    fn spin(&self, end: crate::Nanos) -> bool {
        let mut spins = 0;
        while !self.has_message() {
            spins += 1;
            if spins % SPINS_PER_CLOCK_READ == 0 && clock::now() >= end {
                return false;
            }
            if spins % SPINS_BEFORE_YIELD == 0 {
                threads::offer_processor();
            }
            std::hint::spin_loop();
        }
        true
    }
}
