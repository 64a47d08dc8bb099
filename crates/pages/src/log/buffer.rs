//! The buffer between workers and disk, which workers fill side by side.

use std::ops::Range;
use std::sync::atomic::Ordering;

use platform::files::{BLOCK_BYTES, Files};
use platform::{LINE_BYTES, OutOfMemory};
use storage::Latched;

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

/// A window that a worker has opened.
#[must_use = "a window is closed"]
pub(crate) struct Window(usize);

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
    /// There if workers fill the buffer one after the other.
    filling: Option<Latched<P, ()>>,
}

impl<P: Files> LogBuffer<P> {
    /// A buffer of `bytes` bytes for these workers and owners; workers fill it in parallel or (not
    /// `apart`) one after the other. The log begins with the first record in the segment of
    /// `begins`.
    pub(super) fn new(
        c: P::Core,
        bytes: u64,
        apart: bool,
        workers: usize,
        owners: usize,
        plan: SegmentPlan,
        begins: Lsn,
    ) -> Result<Self, OutOfMemory> {
        let ring_bytes = bytes.next_multiple_of(BLOCK_BYTES as u64);
        let filling = match apart {
            true => None,
            false => Some(Latched::new(c, "buffer of the log, latched", ())?),
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

    /// Opens the worker's window; the transaction of this owner begins, if one is given.
    pub(crate) fn open(&self, c: P::Core, worker: usize, begins: Option<usize>) -> Window {
        let end = self.end(c).0;
        // SeqCst: a thread that fixes an end after this worker's reservation sees the window.
        P::store(c, self.window(worker), end, Ordering::SeqCst);
        if let Some(owner) = begins {
            // Relaxed: others read it when the window is closed.
            P::store(c, self.first(owner), end, Ordering::Relaxed);
        }
        Window(worker)
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
    pub(crate) fn fill(&self, c: P::Core, _: &Window, record: &mut [u64]) -> Option<Lsn> {
        match &self.filling {
            None => self.reserve_and_fill(c, record),
            Some(latch) => latch.with(c, |()| self.reserve_and_fill(c, record)),
        }
    }

    fn reserve_and_fill(&self, c: P::Core, record: &mut [u64]) -> Option<Lsn> {
        let bytes = record.len() as u64 * 8;
        let mut end = self.end(c).0;
        let start = loop {
            let start = self.plan.place(Lsn(end), bytes).0;
            // Acquire: pairs with the release of the worker that copied what was there.
            let taken = P::load(c, self.word(TAKEN), Ordering::Acquire);
            if start + bytes + MARK_BYTES > taken + self.ring_bytes {
                return None;
            }
            match P::cas(c, self.word(END), end, start + bytes, Ordering::SeqCst) {
                Ok(_) => break start,
                Err(now) => end = now,
            }
        };
        if start > end {
            // A thread that fixes the end of the group knows what its mark says.
            self.pad(c, end, self.plan.end_of_segment(Lsn(end)) - MARK_BYTES);
        }
        record::seal(record, self.record_place(start));
        self.copy_in(c, start, record);
        Some(Lsn(start + bytes))
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

#[cfg(test)]
mod tests {
    use platform::Hardware;

    use super::*;
    use crate::log::segments::SegmentNames;

    /// The content of a buffer of four blocks, in a segment of `segment_blocks`, after records of
    /// these numbers of words, each of which fits or not; the end of the group, and its words.
    fn filled(segment_blocks: u64, records: &[u64]) -> (Vec<bool>, u64, Vec<u64>) {
        let (c, block) = (Hardware::core(), BLOCK_BYTES as u64);
        let names = SegmentNames { life: 1, ..SegmentNames::default() };
        let plan = SegmentPlan { bytes: segment_blocks * block, names, generation: 1, continues: Lsn(0) };
        let begins = plan.first_in_segment(Lsn(0));
        let buffer = LogBuffer::<Hardware>::new(c, 4 * block, true, 1, 1, plan, begins).expect("memory");
        let window = buffer.open(c, 0, None);
        let fits = records.iter().map(|count| {
            let mut record = vec![count << 8 | 0xff; *count as usize];
            buffer.fill(c, &window, &mut record).is_some()
        });
        let fits = fits.collect();
        buffer.close(c, window);
        let fixed = buffer.fix_end(c, begins.0);
        let mut out = vec![0; (fixed - begins.0) as usize / 8];
        buffer.copy_out(c, begins.0, &mut out);
        (fits, fixed, out)
    }

    const BLOCK_WORDS: u64 = BLOCK_BYTES as u64 / 8;

    /// The place of a record at this word of a group, which begins behind the first block.
    fn place(at: usize) -> RecordPlace {
        RecordPlace { life: 1, lsn: Lsn((BLOCK_BYTES + at * 8) as u64) }
    }

    /// The places of marks in this group, which begins behind the first block.
    fn marks(words: &[u64]) -> Vec<u64> {
        let is_mark = |at: &usize| {
            let found = record::find(&words[*at..], words.len() - at, place(*at));
            found.is_some_and(|found| {
                record::may_be_group(found.words[0]) && found.words[1] == BLOCK_BYTES as u64
            })
        };
        (0..words.len()).filter(is_mark).map(|at| at as u64).collect()
    }

    #[test]
    fn a_full_buffer_has_room_for_a_mark() {
        for left in [3, 2, 1, 0] {
            let words = 4 * BLOCK_WORDS - 2 - left;
            let (fits, fixed, out) = filled(64, &[2, words]);
            assert_eq!(fits, [true, left >= 2], "{left} words are left");
            let (blocks, mark) = if left >= 2 { (4, 2 + words) } else { (1, 2) };
            assert_eq!(
                (fixed / BLOCK_BYTES as u64, marks(&out)),
                (1 + blocks, vec![mark]),
                "{left} words are left"
            );
            let found = record::find(&out, out.len(), place(0)).expect("the first record");
            assert_eq!(found.count, 2, "{left} words are left");
        }
    }

    #[test]
    fn what_fills_a_segment_ends_with_a_mark() {
        // A segment has a block of records. Its last words are left, or are just enough for a mark;
        // the group ends with it, or goes on.
        for (records, expected) in [
            (vec![BLOCK_WORDS - 10], vec![BLOCK_WORDS - 10]),
            (vec![BLOCK_WORDS - 2], vec![BLOCK_WORDS - 2]),
            (vec![BLOCK_WORDS - 10, 9], vec![BLOCK_WORDS - 2, 2 * BLOCK_WORDS + 9]),
            (vec![BLOCK_WORDS - 2, 9], vec![BLOCK_WORDS - 2, 2 * BLOCK_WORDS + 9]),
        ] {
            let (fits, _, out) = filled(2, &records);
            assert!(fits.iter().all(|fits| *fits));
            assert_eq!(marks(&out), expected, "{records:?}");
            // A reader finds its way from record to record.
            let (mut at, mut count) = (0, 0);
            while at < BLOCK_WORDS as usize {
                let found = record::find(&out[at..], BLOCK_WORDS as usize - at, place(at));
                at += found.expect("a record").count;
                count += 1;
            }
            assert!(at == BLOCK_WORDS as usize && count <= 3, "{records:?}");
        }
    }
}
