//! The buffer between workers and disk, which workers fill side by side.
//!
//! A worker reserves the place of a record by a compare and swap of the end that it has seen last,
//! and if that has moved, of the current end: the failure has brought it, and the line. It does not
//! load the end before, which would move the line twice. If the end has moved, other workers write
//! too, and the worker joins a group for its next record ([`ConsolidationArray`]). It joins groups
//! until one has no other member: an attempt on its own takes the line, which groups save.
//!
//! Each record of a change has a place of its own: its page has its LSN before its latch is
//! released, and the pages of a transaction are latched one after the other. The record that ends a
//! transaction comes later than all of them. So a transaction has as many reservations as records.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::Ordering;

use platform::files::{BLOCK_BYTES, Files};
use platform::{LINE_BYTES, Node, OutOfMemory};
use storage::Latched;

use super::consolidation::ConsolidationArray;
use super::record::{self, MARK_BYTES, RecordPlace};
use super::segments::SegmentPlan;
use crate::lsn::Lsn;

/// A worker that waits for a window checks again after this time.
const CHECK_NANOS: u64 = 50_000;

/// Lines of the buffer's own words.
const END: usize = 0;
const TAKEN: usize = 1;
const DURABLE: usize = 2;
const FLOOR: usize = 3;
const LINES: usize = 4;

/// Parameters of a log.
#[derive(Clone, Debug)]
pub(crate) struct LogPlan {
    pub segments: SegmentPlan,
    pub buffer_bytes: u64,
    /// Workers that write records: their numbers are smaller.
    pub workers: usize,
    /// Owners of transactions, which workers write for: their numbers are smaller.
    pub owners: usize,
    /// Memory nodes with workers.
    pub nodes: Vec<Node>,
    /// The first byte of this life.
    pub begins: Lsn,
    /// Workers fill the buffer side by side; without: one after the other.
    pub fills_apart: bool,
}

/// A worker's state for its reservations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogWriter {
    /// Number of its window.
    worker: usize,
    /// Its slot in the consolidation array.
    slot: usize,
    /// An end of the log that was seen: the worker's later records begin at it, or behind it.
    end: u64,
    /// True while the worker joins groups without an attempt of its own.
    joins: bool,
}

/// A window that a worker has opened.
#[must_use = "a window is closed"]
pub(crate) struct Window(usize);

/// How workers fill the buffer.
enum Filling<P: Files> {
    /// Side by side; they form groups if there is an array.
    Apart(Option<ConsolidationArray<P>>),
    /// One after the other.
    InTurn(Latched<P, ()>),
}

/// The buffer: reserved, filled and durable bytes.
pub(crate) struct LogBuffer<P: Files> {
    words: P::Region,
    /// A word for each worker: its window; 0: closed.
    windows: P::Region,
    workers: usize,
    /// A word for each owner: where its transaction may have begun; 0: none is under way.
    firsts: P::Region,
    owners: usize,
    ring: P::Region,
    ring_bytes: u64,
    plan: SegmentPlan,
    /// Memory nodes with workers.
    nodes: Vec<Node>,
    filling: Filling<P>,
}

impl<P: Files> LogBuffer<P> {
    /// The buffer of a log, which begins with the first record in the segment of the plan's
    /// beginning.
    pub(super) fn new(c: P::Core, plan: LogPlan) -> Result<Self, OutOfMemory> {
        let LogPlan { segments: plan, buffer_bytes, workers, owners, nodes, begins, fills_apart } = plan;
        let ring_bytes = buffer_bytes.next_multiple_of(BLOCK_BYTES as u64);
        let block = BLOCK_BYTES as u64;
        // A segment has a header and a mark. An empty buffer may begin with the rest of a segment
        // in which the space has no room.
        let room = (plan.bytes - block - MARK_BYTES).min((ring_bytes / 2).saturating_sub(block));
        let filling = match fills_apart {
            true => Filling::Apart(ConsolidationArray::new(c, workers, nodes.len(), room)?),
            false => Filling::InTurn(Latched::new(c, "buffer of the log, latched", ())?),
        };
        let buffer = LogBuffer {
            words: P::region(c, None, LINES * LINE_BYTES, "log of pages")?,
            windows: P::region(c, None, workers * LINE_BYTES, "windows of the log")?,
            workers,
            firsts: P::region(c, None, owners * LINE_BYTES, "transactions in the log")?,
            owners,
            ring: P::region(c, None, ring_bytes as usize, "buffer of the log")?,
            ring_bytes,
            plan,
            nodes,
            filling,
        };
        // What changes from here on was written by an earlier life, if at all: it brings images
        // along.
        for line in [END, TAKEN, DURABLE, FLOOR] {
            P::store(c, buffer.word(line), plan.first_in_segment(begins).0, Ordering::Relaxed);
        }
        Ok(buffer)
    }

    fn word(&self, line: usize) -> &P::Word {
        P::word_of(&self.words, line * LINE_BYTES)
    }

    /// The word at which a worker waits for more bytes to become durable.
    pub(super) fn durable_word(&self) -> &P::Word {
        self.word(DURABLE)
    }

    /// Everything below is on disk.
    pub(super) fn set_durable(&self, c: P::Core, until: Lsn) {
        // Release: pairs with the acquire of the thread that acknowledges.
        P::store(c, self.word(DURABLE), until.0, Ordering::Release);
    }

    /// Everything below has left the buffer.
    pub(super) fn taken(&self, c: P::Core) -> Lsn {
        // Relaxed: a thread that fills checks again.
        Lsn(P::load(c, self.word(TAKEN), Ordering::Relaxed))
    }

    /// Everything below has left the buffer, and the room may be filled again.
    pub(super) fn set_taken(&self, c: P::Core, until: Lsn) {
        // Release: pairs with the acquire in `fill`.
        P::store(c, self.word(TAKEN), until.0, Ordering::Release);
    }

    fn window(&self, worker: usize) -> &P::Word {
        P::word_of(&self.windows, worker * LINE_BYTES)
    }

    fn first(&self, owner: usize) -> &P::Word {
        P::word_of(&self.firsts, owner * LINE_BYTES)
    }

    /// Everything that was reserved so far ends here.
    pub(crate) fn end(&self, c: P::Core) -> Lsn {
        Lsn(P::load(c, self.word(END), Ordering::SeqCst))
    }

    /// Everything below is on disk.
    pub(crate) fn durable(&self, c: P::Core) -> Lsn {
        // Acquire: pairs with the release of the worker that wrote.
        Lsn(P::load(c, self.word(DURABLE), Ordering::Acquire))
    }

    /// The state of a worker on this node.
    pub(crate) fn writer(&self, worker: usize, node: Option<Node>) -> LogWriter {
        let slot = match &self.filling {
            Filling::Apart(Some(array)) => {
                let node = node.and_then(|node| self.nodes.iter().position(|other| *other == node));
                array.slot(worker, node)
            }
            Filling::Apart(None) | Filling::InTurn(_) => 0,
        };
        LogWriter { worker, slot, end: BLOCK_BYTES as u64, joins: false }
    }

    /// Opens the worker's window; the transaction of this owner begins, if one is given.
    ///
    /// The window begins at an end that the worker has seen, not at the current one, whose line
    /// moves with each reservation. A thread that waits for windows may wait for a record behind
    /// its end then, but for one of each worker only: that record's end is seen. Neither does a
    /// transaction begin at the current end, but behind the last checkpoint's beginning: no
    /// checkpoint that has not seen the transaction begins its log later.
    pub(crate) fn open(&self, c: P::Core, writer: &mut LogWriter, begins: Option<usize>) -> Window {
        // SeqCst: a thread that fixes an end after this worker's reservation sees the window.
        P::store(c, self.window(writer.worker), writer.end, Ordering::SeqCst);
        if let Some(owner) = begins {
            let first = match self.image_floor(c).0 {
                // A checkpoint begins, and waits for this window, or has waited already.
                u64::MAX => self.end(c).0,
                floor => floor.max(writer.end),
            };
            // Relaxed: others read it when the window is closed.
            P::store(c, self.first(owner), first, Ordering::Relaxed);
        }
        Window(writer.worker)
    }

    /// Closes a window.
    pub(crate) fn close(&self, c: P::Core, window: Window) {
        // Release: pairs with the acquire of the thread that waits for the window: record and
        // transaction are there.
        P::store(c, self.window(window.0), 0, Ordering::Release);
    }

    /// The transaction of an owner is over, or is known otherwise.
    pub(crate) fn rests(&self, c: P::Core, owner: usize) {
        // Release: pairs with the acquire in `oldest`, after which a checkpoint copies what is
        // known otherwise.
        P::store(c, self.first(owner), 0, Ordering::Release);
    }

    /// Pages whose last change is not later are logged with an image. Read within a window.
    pub(crate) fn image_floor(&self, c: P::Core) -> Lsn {
        Lsn(P::load(c, self.word(FLOOR), Ordering::SeqCst))
    }

    /// Appends a record; the LSN at which it ends. `None`: the buffer is full, and the worker has
    /// to close its window and [make room](super::Log::make_room).
    pub(crate) fn fill(
        &self,
        c: P::Core,
        writer: &mut LogWriter,
        _: &Window,
        record: &mut [u64],
    ) -> Option<Lsn> {
        let bytes = record.len() as u64 * 8;
        let end = match &self.filling {
            Filling::Apart(array) => {
                let start = self.reserve_apart(c, array.as_ref(), writer, bytes)?;
                self.put(c, start, record)
            }
            Filling::InTurn(latch) => latch.with(c, |()| {
                let start = self.reserve(c, writer.end, bytes)?;
                Some(self.put(c, start, record))
            })?,
        };
        writer.end = end.0;
        Some(end)
    }

    /// Reserves a place, alone or in a group.
    fn reserve_apart(
        &self,
        c: P::Core,
        array: Option<&ConsolidationArray<P>>,
        writer: &mut LogWriter,
        bytes: u64,
    ) -> Option<u64> {
        let end = writer.end;
        match array.filter(|array| writer.joins && bytes <= array.bytes_max()) {
            Some(array) => {
                let part = array.reserve(c, writer.slot, bytes, |all| self.reserve(c, end, all));
                writer.joins = part.is_shared;
                part.start
            }
            None => match self.try_reserve(c, end, bytes) {
                Ok(start) => start,
                Err(now) => {
                    writer.joins = true;
                    self.reserve(c, now, bytes)
                }
            },
        }
    }

    /// Reserves a place behind `end`, or behind the current end if that has moved; `None`: the
    /// buffer is full.
    fn reserve(&self, c: P::Core, mut end: u64, bytes: u64) -> Option<u64> {
        loop {
            match self.try_reserve(c, end, bytes) {
                Ok(start) => return start,
                Err(now) => end = now,
            }
        }
    }

    /// Reserves a place, if the log still ends here.
    ///
    /// # Errors
    /// Its end has moved.
    fn try_reserve(&self, c: P::Core, end: u64, bytes: u64) -> Result<Option<u64>, u64> {
        let start = self.plan.place(Lsn(end), bytes).0;
        // Acquire: pairs with the release of the worker that copied what was there.
        let taken = P::load(c, self.word(TAKEN), Ordering::Acquire);
        if start + bytes + MARK_BYTES > taken + self.ring_bytes {
            return Ok(None);
        }
        P::cas(c, self.word(END), end, start + bytes, Ordering::SeqCst)?;
        if start > end {
            // A thread that fixes the end of the group knows what its mark says.
            self.pad(c, end, self.plan.end_of_segment(Lsn(end)) - MARK_BYTES);
        }
        Ok(Some(start))
    }

    /// Fills a reserved place with its record; the LSN at which it ends.
    fn put(&self, c: P::Core, start: u64, record: &mut [u64]) -> Lsn {
        record::seal(record, self.record_place(start));
        self.copy_in(c, start, record);
        Lsn(start + record.len() as u64 * 8)
    }

    fn record_place(&self, start: u64) -> RecordPlace {
        RecordPlace { life: self.plan.names.life, lsn: Lsn(start) }
    }

    /// Fills up to `until` with nothing.
    fn pad(&self, c: P::Core, from: u64, until: u64) {
        if until > from {
            let mut word = [record::padding((until - from) / 8)];
            record::seal(&mut word, self.record_place(from));
            self.copy_in(c, from, &word);
        }
    }

    fn copy_in(&self, c: P::Core, start: u64, words: &[u64]) {
        let at = start % self.ring_bytes;
        let first = words.len().min(((self.ring_bytes - at) / 8) as usize);
        let (head, tail) = words.split_at(first);
        P::write_words(c, P::words_of(&self.ring, at as usize, head.len()), head);
        if !tail.is_empty() {
            P::write_words(c, P::words_of(&self.ring, 0, tail.len()), tail);
        }
    }

    /// Copies what the ring has from `from` on.
    pub(super) fn copy_out(&self, c: P::Core, from: u64, words: &mut [u64]) {
        let at = from % self.ring_bytes;
        let first = words.len().min(((self.ring_bytes - at) / 8) as usize);
        let (head, tail) = words.split_at_mut(first);
        P::read_words(c, P::words_of(&self.ring, at as usize, head.len()), head);
        if !tail.is_empty() {
            P::read_words(c, P::words_of(&self.ring, 0, tail.len()), tail);
        }
    }

    /// Fixes what goes to the disk next: all that is reserved from `begins` on, filled up to the
    /// end of a block. When this returns, all of it is in the buffer. It ends with a mark, and so
    /// does what of it fills a segment.
    ///
    /// Pre: everything below `begins` has left the buffer, and something is reserved behind it.
    pub(super) fn fix_end(&self, c: P::Core, begins: u64) -> u64 {
        let mut end = self.end(c).0;
        let fixed = loop {
            let fixed = (end + MARK_BYTES).next_multiple_of(BLOCK_BYTES as u64);
            match P::cas(c, self.word(END), end, fixed, Ordering::SeqCst) {
                Ok(_) => break fixed,
                Err(now) => end = now,
            }
        };
        for segment_end in self.plan.ends_between(Lsn(begins), fixed) {
            self.mark(c, segment_end - MARK_BYTES..segment_end, begins);
        }
        self.mark(c, end..fixed, begins);
        self.quiesce(c, fixed);
        fixed
    }

    /// Fills a place with the mark of a group.
    fn mark(&self, c: P::Core, place: Range<u64>, begins: u64) {
        let mut mark = record::group((place.end - place.start) / 8, Lsn(begins));
        record::seal(&mut mark, self.record_place(place.start));
        self.copy_in(c, place.start, &mark);
    }

    /// Waits until no window that may be for a record below `end` is open.
    fn quiesce(&self, c: P::Core, end: u64) {
        for worker in 0..self.workers {
            let word = self.window(worker);
            // SeqCst: after the end was fixed. Acquire: pairs with the release in `close`.
            let mut opened = P::load(c, word, Ordering::SeqCst);
            while opened != 0 && opened < end {
                P::spin_while(c, word, opened, Some(P::now(c).plus(CHECK_NANOS)));
                opened = P::load(c, word, Ordering::SeqCst);
            }
        }
    }

    /// Begins a checkpoint: from the result on, each page's first change is logged with an image.
    /// No change with a record below is under way.
    pub(crate) fn begin_checkpoint(&self, c: P::Core) -> Lsn {
        // While it is not known where the checkpoint begins, all changes bring images.
        P::store(c, self.word(FLOOR), u64::MAX, Ordering::SeqCst);
        self.quiesce(c, self.end(c).0 + 1);
        let begin = self.end(c);
        P::store(c, self.word(FLOOR), begin.0, Ordering::SeqCst);
        begin
    }

    /// A lower bound of the first record of the oldest transaction under way.
    pub(crate) fn oldest(&self, c: P::Core) -> Option<Lsn> {
        // Acquire: pairs with the release in `rests`.
        let first = |owner| P::load(c, self.first(owner), Ordering::Acquire);
        (0..self.owners).map(first).filter(|first| *first != 0).min().map(Lsn)
    }
}
