//! The write-ahead log: what happens to pages, in one order, before any of these pages is written.
//!
//! After ARIES (Mohan, Haderle, Lindsay, Pirahesh, Schwarz, "ARIES: a transaction recovery method",
//! TODS 1992), with the buffer of Aether (Johnson, Pandis, Stoica, Athanassoulis, Ailamaki,
//! "Aether: a scalable approach to logging", PVLDB 2010): workers reserve places in the buffer by
//! one atomic step, alone or in groups, and fill them in parallel; no worker waits for the disk
//! before it continues with other transactions.
//!
//! An LSN is a byte of the log, counted from its beginning. A record ends at its LSN; everything
//! below the durable LSN is on disk.
//!
//! **Filling.** A worker opens its *window* (a word: no record of the worker's begins below this),
//! reserves a place, copies its record there, and closes the window. The worker that writes to the
//! disk fixes an end, and waits until no window below it is open; windows are short. A
//! worker waits within its window for a reservation only; it closes the window before it waits for
//! room in the buffer.
//!
//! **Writing** is done by workers: one at a time has the [`LogDriver`], copies what was filled, and
//! hands it to the disk. Each group ends at the end of a block, so no block is written twice, and a
//! torn write never harms what was durable before. It ends with a mark, as does each part of it
//! that fills a segment; what ends so is flushed, and nothing is written behind it before that is
//! done.
//!
//! **Images.** The first change of a page after a checkpoint has begun is logged with an image of
//! the page before the change ([`LogBuffer::image_floor`]): a page that is torn, or lost, when the
//! machine stops is rebuilt from the image.
//!
//! - `record`: records as words;
//! - `segments`: files of the log;
//! - `buffer`: what workers fill;
//! - `consolidation`: reservations of several workers in one step;
//! - `driver`: what goes to the disk;
//! - `reader`: what a restart finds;
//! - `window`: what it has of a file in memory.

mod buffer;
mod consolidation;
mod driver;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod segments;
mod window;

use std::sync::atomic::Ordering;

use platform::files::{FileError, Files};
use platform::{LINE_BYTES, Nanos};
use redo_log::{LogError, LogUse};
use storage::Latched;

use crate::error::PagedError;
use crate::lsn::Lsn;
use buffer::LogBuffer;
pub(crate) use buffer::{LogPlan, LogWriter};
use driver::{DiskWait, LogDriver};

/// Shortest time between two polls of the disk, while no worker waits for it.
const POLL_NANOS: u64 = 50_000;
/// A worker that waits for another one to write checks again after this time.
const WAIT_NANOS: u64 = 1_000_000;

/// Lines of the words that workers share.
const STOPPED: usize = 0;
const POLLED: usize = 1;
/// The word of the number of workers that wait for the disk.
const WAITING: usize = 2;
const LINES: usize = 3;

/// A log that is being written.
pub(crate) struct Log<P: Files> {
    pub buffer: LogBuffer<P>,
    words: P::Region,
    driver: Latched<P, LogDriver<P>>,
    failure: Latched<P, Option<FileError>>,
    generation: u64,
}

impl<P: Files> Log<P> {
    /// Begins a generation of the log, whose first segment is made here.
    pub(crate) fn begin(c: P::Core, directory: &P::Directory, plan: LogPlan) -> Result<Self, PagedError> {
        let (segments, begins) = (plan.segments, plan.begins);
        let buffer = LogBuffer::new(c, plan)?;
        let mut driver = LogDriver::new(P::queue(c, directory)?, segments, begins);
        driver.begin(c, begins)?;
        Ok(Log {
            buffer,
            words: P::region(c, None, LINES * LINE_BYTES, "driver of the log")?,
            driver: Latched::new(c, "driver of the log, latched", driver)?,
            failure: Latched::new(c, "failure of the log", None)?,
            generation: segments.generation,
        })
    }

    fn word(&self, line: usize) -> &P::Word {
        P::word_of(&self.words, line * LINE_BYTES)
    }

    /// The word at which a worker waits for more bytes to become durable.
    fn durable_word(&self) -> &P::Word {
        self.buffer.durable_word()
    }

    /// Waits until there is room in the buffer again.
    ///
    /// # Errors
    /// The log has stopped.
    #[cold]
    pub(crate) fn make_room(&self, c: P::Core) -> Result<(), PagedError> {
        let taken = self.buffer.taken(c);
        // Everything may have left since the buffer was found full: then there is nothing to wait
        // for.
        if taken >= self.buffer.end(c) {
            return Ok(());
        }
        self.wait_until(c, &|| self.buffer.taken(c) > taken, None).map(drop)
    }

    /// Waits until everything below `lsn` is durable, or until the deadline, if there is one;
    /// whether it is.
    ///
    /// # Errors
    /// The log has stopped: what is not durable yet is not to be acknowledged.
    pub(crate) fn wait(&self, c: P::Core, lsn: Lsn, deadline: Option<Nanos>) -> Result<bool, PagedError> {
        if self.buffer.durable(c) >= lsn {
            return Ok(true);
        }
        self.wait_until(c, &|| self.buffer.durable(c) >= lsn, deadline)
    }

    fn wait_until(
        &self,
        c: P::Core,
        is_over: &dyn Fn() -> bool,
        deadline: Option<Nanos>,
    ) -> Result<bool, PagedError> {
        // Relaxed: others only choose by it who performs what.
        P::fetch_add(c, self.word(WAITING), 1, Ordering::Relaxed);
        let waited = self.wait_in_turn(c, is_over, deadline);
        P::fetch_add(c, self.word(WAITING), u64::MAX, Ordering::Relaxed);
        waited
    }

    fn wait_in_turn(
        &self,
        c: P::Core,
        is_over: &dyn Fn() -> bool,
        deadline: Option<Nanos>,
    ) -> Result<bool, PagedError> {
        loop {
            let seen = self.buffer.durable(c);
            if is_over() {
                return Ok(true);
            }
            if let Some(error) = self.stopped(c) {
                return Err(error);
            }
            if deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                // Others may have relied on this worker to go on with what is under way.
                P::unpark(c, self.durable_word(), 1);
                return Ok(false);
            }
            let turn = self.driver.try_with(c, |driver| {
                let is_alone = P::load(c, self.word(WAITING), Ordering::Relaxed) == 1;
                let turn = driver.drive(c, &self.buffer, Some(DiskWait { deadline, is_alone }));
                (turn, driver.is_refused())
            });
            match turn {
                Some((turn, is_refused)) => {
                    self.publish(c, turn);
                    if is_refused {
                        P::park(c, self.durable_word(), seen.0, Some(P::now(c).plus(WAIT_NANOS)));
                    }
                }
                None => {
                    let again = P::now(c).plus(WAIT_NANOS);
                    let again = deadline.map_or(again, |deadline| again.min(deadline));
                    P::park(c, self.durable_word(), seen.0, Some(again));
                }
            }
        }
    }

    /// Polls the disk and writes, if it is time; returns true if it was. Workers call this between
    /// transactions with the current time.
    pub(crate) fn tend(&self, c: P::Core, now: Nanos) -> bool {
        // Relaxed: only a hint; the compare and swap decides which worker polls.
        let last = P::load(c, self.word(POLLED), Ordering::Relaxed);
        let polls = now.since(Nanos(last)) >= POLL_NANOS
            && P::cas(c, self.word(POLLED), last, now.0, Ordering::Relaxed).is_ok();
        if polls && let Some(turn) = self.driver.try_with(c, |driver| driver.drive(c, &self.buffer, None)) {
            self.publish(c, turn);
        }
        polls
    }

    /// Wakes waiting workers, if a write has completed or the log has stopped.
    fn publish(&self, c: P::Core, turn: Result<bool, FileError>) {
        match turn {
            Ok(false) => {}
            Ok(true) => P::unpark(c, self.durable_word(), u32::MAX),
            Err(error) => {
                self.failure.with(c, |failure| {
                    failure.get_or_insert(error);
                });
                // Release: pairs with the acquire in `stopped`.
                P::store(c, self.word(STOPPED), 1, Ordering::Release);
                P::unpark(c, self.durable_word(), u32::MAX);
            }
        }
    }

    /// The error that has stopped the log, if the log has stopped.
    pub(crate) fn stopped(&self, c: P::Core) -> Option<PagedError> {
        // Acquire: pairs with the release in `publish`.
        if P::load(c, self.word(STOPPED), Ordering::Acquire) == 0 {
            return None;
        }
        let failure = self.failure.with(c, |failure| failure.clone());
        failure.map(|failure| LogError::Stopped(failure).into())
    }

    /// Counters of the log so far.
    pub(crate) fn used(&self, c: P::Core) -> LogUse {
        self.driver.with(c, |driver| driver.used)
    }

    /// Removes the files of the log whose records all lie below `lsn`.
    pub(crate) fn cut(&self, c: P::Core, lsn: Lsn) -> Result<(), FileError> {
        self.driver.with(c, |driver| driver.cut(c, lsn))
    }

    /// Removes the file of a life that ends before anything was written in it; the file stays if
    /// something was, or if it cannot be removed, and is then a life without records.
    pub(crate) fn withdraw(&self, c: P::Core) {
        self.driver.with(c, |driver| driver.withdraw(c));
    }

    /// The life of this log.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

#[cfg(test)]
mod tests {
    use platform::Hardware;
    use platform::files::BLOCK_BYTES;

    use super::*;
    use segments::{SegmentNames, SegmentPlan};

    #[test]
    fn what_has_no_mark_is_not_durable() {
        let (c, mebibyte) = (Hardware::core(), 1 << 20);
        let path = std::env::temp_dir().join(format!("log-{}", std::process::id()));
        let directory = Hardware::open_directory(c, &path, true).expect("a directory");
        let names = SegmentNames { life: 1, ..SegmentNames::default() };
        let segments = SegmentPlan { bytes: 4 * mebibyte, names, generation: 1, continues: Lsn(0) };
        let plan = LogPlan {
            segments,
            buffer_bytes: 8 * mebibyte,
            workers: 1,
            owners: 1,
            nodes: Vec::new(),
            begins: Lsn(0),
            fills_apart: true,
        };
        let log = Log::<Hardware>::begin(c, &directory, plan).expect("a log");
        let mut durable = vec![Lsn(BLOCK_BYTES as u64)];
        let mut writer = log.buffer.writer(0, None);
        let window = log.buffer.open(c, &mut writer, None);
        let mut record = vec![(mebibyte / 2 / 8) << 8 | 0xff; mebibyte as usize / 2 / 8];
        let fill = |_| log.buffer.fill(c, &mut writer, &window, &mut record).expect("room");
        let end = (0..11).map(fill).last().expect("some");
        log.buffer.close(c, window);
        while log.buffer.durable(c) < end {
            assert_eq!(log.wait(c, Lsn(durable[durable.len() - 1].0 + 1), None), Ok(true));
            durable.push(log.buffer.durable(c));
        }
        // One group in five writes and more; its part in the first segment, and the rest.
        assert_eq!(durable[1..], [Lsn(4 * mebibyte), log.buffer.end(c)]);
        assert_eq!((log.used(c).groups, log.used(c).flushes), (2, 2));
        drop((log, directory));
        _ = std::fs::remove_dir_all(&path);
    }
}
