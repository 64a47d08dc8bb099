//! The write-ahead log: what happens to pages, in one order, before any of these pages is written.
//!
//! After ARIES (Mohan, Haderle, Lindsay, Pirahesh, Schwarz, "ARIES: a transaction recovery method", TODS 1992), with the buffer of Aether
//! (Johnson, Pandis, Stoica, Athanassoulis, Ailamaki, "Aether: a scalable approach to logging", PVLDB 2010): workers reserve places in
//! the buffer by one atomic step, and fill them side by side; nobody waits for the disk to go on with other transactions.
//!
//! An [`Lsn`] is a byte of the log, counted from its beginning. A record ends at its LSN; everything below the durable LSN is on disk.
//!
//! **Filling.** A worker opens its *window* (a word: no record of the worker's begins below this), reserves a place, copies its record
//! there, and closes the window. Whoever writes to the disk fixes an end, and waits until no window below it is open; windows
//! are short, as nobody waits for anything within one: a worker that finds the buffer full closes its window before it waits.
//!
//! **Writing** is done by workers: one at a time has the [`Driver`], copies what was filled, and hands it to the disk. Each group
//! ends at the end of a block, so no block is written twice, and a torn write never harms what was durable before.
//!
//! **Images.** The first change of a page after a checkpoint has begun brings the page along as it was before ([`Log::image_floor`]): a
//! page that is torn, or lost, when the machine stops is rebuilt from there.
//!
//! - `record`: records as words;
//! - `segments`: files of the log;
//! - `driver`: what goes to the disk;
//! - `reader`: what a restart finds.

mod driver;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod segments;

use std::sync::atomic::Ordering;

use platform::files::{BLOCK_BYTES, FileError, Files};
use platform::{LINE_BYTES, Nanos};
use storage::Latched;
use storage::log::{LogError, LogUse};

use crate::options::PagedError;
use driver::Driver;
use segments::SegmentPlan;

/// A byte of the log; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Lsn(pub u64);

/// Shortest time between two looks at what the disk has done, while no worker waits for it.
const LOOK_NANOS: u64 = 50_000;
/// A worker that waits for another one to write looks again after this time.
const WAIT_NANOS: u64 = 1_000_000;

/// Lines of the log's own words.
const END: usize = 0;
const TAKEN: usize = 1;
const DURABLE: usize = 2;
const STOPPED: usize = 3;
const FLOOR: usize = 4;
const LOOKED: usize = 5;
const LINES: usize = 6;

/// Words of a worker's line: its window, and where its transaction may have begun. 0: closed, none.
const WINDOW: usize = 0;
const FIRST: usize = 1;

/// How a log is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPlan {
    pub segments: SegmentPlan,
    pub buffer_bytes: u64,
    /// Workers that write records: their numbers are smaller.
    pub workers: usize,
    /// The first byte of this life.
    pub begins: Lsn,
    /// Workers fill the buffer side by side; without: one after the other.
    pub fills_apart: bool,
}

/// A log that is being written.
pub(crate) struct Log<P: Files> {
    words: P::Region,
    windows: P::Region,
    workers: usize,
    ring: P::Region,
    ring_bytes: u64,
    plan: SegmentPlan,
    driver: Latched<P, Driver<P>>,
    failure: Latched<P, Option<FileError>>,
    /// There if workers fill the buffer one after the other.
    filling: Option<Latched<P, ()>>,
}

/// A window that a worker has opened.
#[must_use = "a window is closed"]
pub(crate) struct Window(usize);

impl<P: Files> Log<P> {
    /// Begins a life of the log, whose first segment is made here.
    pub(crate) fn begin(c: P::Core, directory: &P::Directory, plan: LogPlan) -> Result<Self, PagedError> {
        let LogPlan { segments, buffer_bytes, workers, begins, fills_apart } = plan;
        let filling = match fills_apart {
            true => None,
            false => Some(Latched::new(c, "buffer of the log, latched", ())?),
        };
        let ring_bytes = buffer_bytes.next_multiple_of(BLOCK_BYTES as u64);
        let mut driver = Driver::new(P::queue(c, directory)?, segments, begins);
        driver.enter_segment(c, begins)?;
        let log = Log {
            words: P::region(c, None, LINES * LINE_BYTES, "log of pages")?,
            windows: P::region(c, None, workers * LINE_BYTES, "windows of the log")?,
            workers,
            ring: P::region(c, None, ring_bytes as usize, "buffer of the log")?,
            ring_bytes,
            plan: segments,
            driver: Latched::new(c, "driver of the log", driver)?,
            failure: Latched::new(c, "failure of the log", None)?,
            filling,
        };
        let first = segments.first_in_segment(begins);
        // What changes from here on was written by an earlier life, if at all: it brings images along.
        for line in [END, TAKEN, DURABLE, FLOOR] {
            P::store(c, log.word(line), first.0, Ordering::Relaxed);
        }
        Ok(log)
    }

    fn word(&self, line: usize) -> &P::Word {
        P::word_of(&self.words, line * LINE_BYTES)
    }

    fn line(&self, worker: usize) -> &[P::Word] {
        P::words_of(&self.windows, worker * LINE_BYTES, 2)
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

    /// Opens the worker's window; with `transaction`, its transaction has begun by now.
    pub(crate) fn open(&self, c: P::Core, worker: usize, transaction: bool) -> Window {
        let line = self.line(worker);
        let end = self.end(c).0;
        // SeqCst: whoever fixes an end after this worker's reservation sees the window.
        P::store(c, &line[WINDOW], end, Ordering::SeqCst);
        // Relaxed: the worker's own; others look when the window is closed.
        if transaction && P::load(c, &line[FIRST], Ordering::Relaxed) == 0 {
            P::store(c, &line[FIRST], end, Ordering::Relaxed);
        }
        Window(worker)
    }

    /// Closes a window; with `is_over`, the worker's transaction has written its last record.
    pub(crate) fn close(&self, c: P::Core, window: Window, is_over: bool) {
        let line = self.line(window.0);
        if is_over {
            P::store(c, &line[FIRST], 0, Ordering::Relaxed);
        }
        // Release: pairs with the acquire of whoever waits for the window: record and transaction are there.
        P::store(c, &line[WINDOW], 0, Ordering::Release);
    }

    /// Pages whose last change is not later bring an image along. Read within a window.
    pub(crate) fn image_floor(&self, c: P::Core) -> Lsn {
        Lsn(P::load(c, self.word(FLOOR), Ordering::SeqCst))
    }

    /// Appends a record; the LSN at which it ends. `None`: the buffer is full, and the worker has to close its window and [make
    /// room](Self::make_room).
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
            if start + bytes > taken + self.ring_bytes {
                return None;
            }
            match P::cas(c, self.word(END), end, start + bytes, Ordering::SeqCst) {
                Ok(_) => break start,
                Err(now) => end = now,
            }
        };
        self.pad(c, end, self.plan.end_of_segment(Lsn(end)).min(start));
        record::seal(record, (self.plan.generation, Lsn(start)));
        self.copy_in(c, start, record);
        Some(Lsn(start + bytes))
    }

    /// Fills up to `until` with nothing.
    fn pad(&self, c: P::Core, from: u64, until: u64) {
        if until > from {
            let mut word = [record::padding((until - from) / 8)];
            record::seal(&mut word, (self.plan.generation, Lsn(from)));
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
    fn copy_out(&self, c: P::Core, from: u64, words: &mut [u64]) {
        let at = from % self.ring_bytes;
        let first = words.len().min(((self.ring_bytes - at) / 8) as usize);
        let (head, tail) = words.split_at_mut(first);
        P::read_words(c, P::words_of(&self.ring, at as usize, head.len()), head);
        if !tail.is_empty() {
            P::read_words(c, P::words_of(&self.ring, 0, tail.len()), tail);
        }
    }

    /// Waits until there is room in the buffer again.
    ///
    /// # Errors
    /// The log has stopped.
    #[cold]
    pub(crate) fn make_room(&self, c: P::Core) -> Result<(), PagedError> {
        let durable = self.durable(c);
        self.wait(c, Lsn(durable.0 + 1), None).map(drop)
    }

    /// Waits until everything below `lsn` is durable, or until the deadline, if there is one; whether it is.
    ///
    /// # Errors
    /// The log has stopped: what is not durable yet is not to be acknowledged.
    pub(crate) fn wait(&self, c: P::Core, lsn: Lsn, deadline: Option<Nanos>) -> Result<bool, PagedError> {
        loop {
            let seen = self.durable(c);
            if seen >= lsn {
                return Ok(true);
            }
            if let Some(error) = self.stopped(c) {
                return Err(error);
            }
            if deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                // Others may have relied on this worker to go on with what is under way.
                P::unpark(c, self.word(DURABLE), 1);
                return Ok(false);
            }
            let turn = self.driver.try_with(c, |driver| driver.drive(c, self, Some(deadline)));
            match turn {
                Some(turn) => self.publish(c, turn),
                None => {
                    let again = P::now(c).plus(WAIT_NANOS);
                    let again = deadline.map_or(again, |deadline| again.min(deadline));
                    P::park(c, self.word(DURABLE), seen.0, Some(again));
                }
            }
        }
    }

    /// Gets on with what there is to write, if it is time; whether it was. To be called between transactions with the current time.
    pub(crate) fn tend(&self, c: P::Core, now: Nanos) -> bool {
        // Relaxed: only a hint; the compare and swap decides which worker looks.
        let last = P::load(c, self.word(LOOKED), Ordering::Relaxed);
        let looks = now.since(Nanos(last)) >= LOOK_NANOS
            && P::cas(c, self.word(LOOKED), last, now.0, Ordering::Relaxed).is_ok();
        if looks && let Some(turn) = self.driver.try_with(c, |driver| driver.drive(c, self, None)) {
            self.publish(c, turn);
        }
        looks
    }

    /// Wakes who waits, if something has become durable or the log has stopped.
    fn publish(&self, c: P::Core, turn: Result<bool, FileError>) {
        match turn {
            Ok(false) => {}
            Ok(true) => P::unpark(c, self.word(DURABLE), u32::MAX),
            Err(error) => {
                self.failure.with(c, |failure| {
                    failure.get_or_insert(error);
                });
                // Release: pairs with the acquire in `stopped`.
                P::store(c, self.word(STOPPED), 1, Ordering::Release);
                P::unpark(c, self.word(DURABLE), u32::MAX);
            }
        }
    }

    /// Why the log has stopped, if it has.
    pub(crate) fn stopped(&self, c: P::Core) -> Option<PagedError> {
        // Acquire: pairs with the release in `publish`.
        if P::load(c, self.word(STOPPED), Ordering::Acquire) == 0 {
            return None;
        }
        let failure = self.failure.with(c, |failure| failure.clone());
        failure.map(|failure| LogError::Stopped(failure).into())
    }

    /// Fixes what goes to the disk next: all that is reserved, filled up to the end of a block. When this returns, all of it is in the
    /// buffer.
    fn fix_end(&self, c: P::Core) -> u64 {
        let mut end = self.end(c).0;
        let fixed = loop {
            let fixed = end.next_multiple_of(BLOCK_BYTES as u64);
            match P::cas(c, self.word(END), end, fixed, Ordering::SeqCst) {
                Ok(_) => break fixed,
                Err(now) => end = now,
            }
        };
        self.pad(c, end, fixed);
        self.quiesce(c, fixed);
        fixed
    }

    /// Waits until no window that may be for a record below `end` is open.
    fn quiesce(&self, c: P::Core, end: u64) {
        for worker in 0..self.workers {
            let word = &self.line(worker)[WINDOW];
            // SeqCst: after the end was fixed. Acquire: pairs with the release in `close`.
            let mut opened = P::load(c, word, Ordering::SeqCst);
            while opened != 0 && opened < end {
                P::spin_while(c, word, opened, Some(P::now(c).plus(LOOK_NANOS)));
                opened = P::load(c, word, Ordering::SeqCst);
            }
        }
    }

    /// Begins a checkpoint: from the result on, each page's first change brings an image. No change with a record below is under way.
    pub(crate) fn begin_checkpoint(&self, c: P::Core) -> Lsn {
        // While it is not known where the checkpoint begins, all changes bring images.
        P::store(c, self.word(FLOOR), u64::MAX, Ordering::SeqCst);
        self.quiesce(c, self.end(c).0 + 1);
        let begin = self.end(c);
        P::store(c, self.word(FLOOR), begin.0, Ordering::SeqCst);
        begin
    }

    /// Where the oldest transaction that is under way has its first record, at the earliest.
    pub(crate) fn oldest(&self, c: P::Core) -> Option<Lsn> {
        let first = |worker| P::load(c, &self.line(worker)[FIRST], Ordering::Acquire);
        (0..self.workers).map(first).filter(|first| *first != 0).min().map(Lsn)
    }

    /// What the log has done.
    pub(crate) fn used(&self, c: P::Core) -> LogUse {
        self.driver.with(c, |driver| driver.used)
    }

    /// The files of the log whose records all lie below `lsn` go.
    pub(crate) fn cut(&self, c: P::Core, lsn: Lsn) -> Result<(), FileError> {
        self.driver.with(c, |driver| driver.cut(c, lsn))
    }

    /// The life of this log.
    pub(crate) fn generation(&self) -> u64 {
        self.plan.generation
    }
}
