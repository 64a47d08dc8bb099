//! The redo log of the memory engine: values, by epoch, in parallel streams.
//!
//! After SiloR (Zheng, Tu, Kohler, Liskov, "Fast databases with fast durability and recovery
//! through multicore parallelism", OSDI 2014). A worker leaves the [record](Record) of each commit
//! in a buffer of its own and continues with other transactions. An epoch is *complete* when no
//! transaction will commit in it any more: when the global epoch is two later, see
//! [`storage::last_complete`]. Then the next worker that drives the log takes the buffers of all
//! workers and writes those of each stream as blocks of its current segment. When all streams are
//! flushed, the epoch is *durable*, and every commit in it, or earlier, may be acknowledged.
//!
//! Each block carries the last complete epoch of its stream. Recovery takes the smallest over the
//! streams and ignores all later records. A transaction that depends on another one committed in
//! the same epoch or a later one, so the remaining records form a consistent state. The
//! [manifest](Manifest) has, of each opening of the database (a *generation*), its end, so
//! that records that were never acknowledged never count.
//!
//! A session that waits for its own commits alone would draw two epochs for each of them. So a
//! waiting session checks first whether no commit is under way: then the records that all workers
//! have left are *whole* together with everything written before, complete or not. Such a group is
//! marked, and counts as it is. It draws no epochs; where commits are always under way, epochs
//! advance.
//!
//! Concurrency: the core that flushes holds the driver's latch, and never for longer than
//! submitting takes, except when it waits for its own epoch. A transaction that is long under way
//! delays no other: only its commit is waited for. A failure stops the log for good: nothing is
//! acknowledged any more, and no flush is tried again. Memory for records is set aside while their
//! commit can be refused ([`Spares`]).
//!
//! Deviations from SiloR: there are no threads for logging, workers and waiters do it; buffers are
//! collected and not handed over, so that idle workers hold back nothing; a record holds the
//! changed bytes of a row and not the row.
//!
//! - `slot`, `filling`, `spares`: the records that workers leave, blocks that fill, memory set
//!   aside;
//! - `driving`, `driver`, `goal`: the flush protocol, its state, goals and outcomes;
//! - `stream`, `segments`, `segment`, `ahead`: one stream, its segments, and their space ahead;
//! - `format`, `names`: layout of segments, blocks and records; names of files;
//! - `manifest`: the root of a directory;
//! - `cut`, `checkpoint`: checkpoints of a running log, and their files;
//! - `change_cursor`, `readers`: commits in their order while the log is written, and their
//!   readers;
//! - `retention`, `manifest_writer`: superseded segments that readers still need;
//! - `recovery`, `image`, `found`: reading a directory, its segments, and which files may be
//!   removed;
//! - `survey`: surveys for tools; `error`: errors.

mod ahead;
mod change_cursor;
mod checkpoint;
mod cut;
mod driver;
mod driving;
mod error;
mod filling;
pub mod format;
mod found;
mod goal;
mod image;
mod manifest;
mod manifest_writer;
mod names;
mod readers;
mod recovery;
mod retention;
mod segment;
mod segments;
mod slot;
mod spares;
mod stream;
mod survey;

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;

use platform::files::{Access, Buffer, FileError, Files};
use platform::{LINE_BYTES, Nanos, Node, OutOfMemory, Platform};
use storage::Epochs;

pub use ahead::next_zeros;
pub use change_cursor::{ChangeCursor, ChangesError, ChangesFrom, LoggedCommit};
pub use checkpoint::{BlockReader, CheckpointFileWriter, CheckpointReader};
pub use cut::Cut;
pub use error::LogError;
pub use format::{Record, Records};
pub use goal::Target;
pub use manifest::{Checkpoint, Generation, Manifest, StreamStart};
pub use names::{MANIFEST, PAGES_CHECKPOINT, parse_checkpoint_file_name, parse_segment_name, segment_name};
pub use readers::ReaderPlace;
pub use recovery::{LogBlock, OpenedDirectory, RecoveredLog, open};
pub use retention::{LogPosition, READER_NAME_BYTES_MAX, READERS_MAX};
pub use spares::Spares;
pub use survey::{Examiner, SegmentSurvey, Survey, examine, survey};

use driver::LogDriver;
use format::SegmentHeader;
use goal::{DriveGoal, DriveOutcome};
use manifest_writer::ManifestWriter;
use slot::{BlockMemory, Slots};
use spares::buffer_bytes;
use stream::{IoExecutor, Stream, StreamPlan};

/// Shortest time between two polls of the disk, while no worker waits for it.
const POLL_NANOS: u64 = 50_000;
/// A worker that waits for another to flush checks again after this time.
const WAIT_NANOS: u64 = 1_000_000;
/// A worker that waits for another to end its commit checks again after this time.
const EPOCH_WAIT_NANOS: u64 = 20_000;
/// A worker that is refused the memory for a record retries for this long, while the disk empties
/// buffers.
const MEMORY_WAIT_NANOS: u64 = 1_000_000_000;
/// A commit that can be refused retries for this long to set memory aside.
const RESERVE_WAIT_NANOS: u64 = 10_000_000;
/// A core with less time than this performs no write and no flush itself: it could not leave them
/// at its deadline.
const PERFORM_NANOS_MIN: u64 = 1_000_000_000;

/// Parameters of the writing of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The memory node of each stream: as many streams as nodes here.
    pub streams: Vec<Option<Node>>,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of a worker's buffer.
    pub buffer_bytes: usize,
    /// Past the operating system's cache or not.
    pub access: Access,
    /// Bytes of superseded segments that stay for readers of changes, at most.
    pub retained_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            streams: vec![None],
            segment_bytes: 64 << 20,
            buffer_bytes: 256 << 10,
            access: Access::Direct,
            retained_bytes: 1 << 30,
        }
    }
}

/// Counters of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUse {
    /// Bytes written, headers and padding included.
    pub written_bytes: u64,
    /// Flushes of files.
    pub flushes: u64,
    /// Groups that went to the disk.
    pub groups: u64,
    /// Nanoseconds from the beginning of each group's writes to the end of its flush, summed up.
    pub group_nanos: u64,
    /// The global epoch.
    pub epoch: u64,
}

/// Returns true if a core that waits for the disk until this deadline makes the system calls
/// itself, which saves two switches between threads. A call cannot be left before it returns, so
/// the deadline has to be far.
pub fn performs_io<P: Platform>(c: P::Core, deadline: Option<Nanos>) -> bool {
    deadline.is_none_or(|deadline| deadline >= P::now(c).plus(PERFORM_NANOS_MIN))
}

/// A log that is being written.
pub struct Log<P: Files> {
    /// Words: the driver's latch; the durable epoch; whether the log has stopped; the time of the
    /// last poll; bytes written since the last checkpoint; the number of completions, on which
    /// workers sleep; and the numbers of the last whole group that was begun, and that is durable.
    words: P::Region,
    slots: Slots<P>,
    driver: UnsafeCell<LogDriver<P>>,
    nodes: Vec<Option<Node>>,
    /// Identity of the database.
    identity: u64,
    /// Locked while the log lives.
    directory: P::Directory,
}

// SAFETY: `driver` is reached with its latch held only, or through `&mut self`.
unsafe impl<P: Files> Sync for Log<P> {}

impl<P: Files> Log<P> {
    fn latch(&self) -> &P::Word {
        P::word_of(&self.words, 0)
    }

    fn durable_word(&self) -> &P::Word {
        P::word_of(&self.words, LINE_BYTES)
    }

    fn stopped_word(&self) -> &P::Word {
        P::word_of(&self.words, 2 * LINE_BYTES)
    }

    fn polled_word(&self) -> &P::Word {
        P::word_of(&self.words, 3 * LINE_BYTES)
    }

    fn growth_word(&self) -> &P::Word {
        P::word_of(&self.words, 4 * LINE_BYTES)
    }

    fn completions_word(&self) -> &P::Word {
        P::word_of(&self.words, 5 * LINE_BYTES)
    }

    fn begun_word(&self) -> &P::Word {
        P::word_of(&self.words, 6 * LINE_BYTES)
    }

    fn whole_word(&self) -> &P::Word {
        P::word_of(&self.words, 6 * LINE_BYTES + size_of::<u64>())
    }

    /// Begins a generation: its first segments are durable, and empty.
    fn begin(
        c: P::Core,
        directory: P::Directory,
        database: u64,
        generation: &Generation,
        options: &LogOptions,
        workers: usize,
    ) -> Result<Self, LogError> {
        let origin = SegmentHeader {
            database,
            identity: generation.identity,
            stream: 0,
            sequence: 0,
            generation: generation.number,
            first_epoch: generation.first_epoch,
        };
        let mut streams = Vec::new();
        for (number, node) in options.streams.iter().enumerate() {
            let plan = StreamPlan {
                number: number as u32,
                origin,
                node: *node,
                segment_bytes: options.segment_bytes,
                access: options.access,
                first_sequence: generation.starts[number].sequence,
            };
            streams.push(Stream::new(c, P::queue(c, &directory)?, plan)?);
        }
        let marked = generation.first_epoch - 1;
        let log = Log {
            words: P::region(c, None, 7 * LINE_BYTES, "log")?,
            slots: Slots::new(c, workers, options.buffer_bytes)?,
            driver: UnsafeCell::new(LogDriver::new(streams, marked)),
            nodes: options.streams.clone(),
            identity: database,
            directory,
        };
        P::store(c, log.durable_word(), marked, Ordering::Release);
        Ok(log)
    }

    /// The first block of each stream. No worker uses the log yet.
    fn starts(&mut self) -> Vec<StreamStart> {
        self.driver.get_mut().streams.iter().map(Stream::start).collect()
    }

    fn keep_manifest(&mut self, writer: ManifestWriter<P>, former_bytes: u64) {
        let driver = self.driver.get_mut();
        driver.former_bytes = former_bytes;
        let named = writer.manifest.checkpoint.map_or(0, |checkpoint| checkpoint.number);
        driver.last_checkpoint = named.max(writer.last_checkpoint);
        driver.manifest = Some(writer);
    }

    /// Ends the log: everything that was left in it is durable then, and the manifest has its
    /// end, so that every later damage is noticed. No transaction is under way, and no session in
    /// an epoch.
    ///
    /// # Errors
    /// The log has stopped before, or stops now.
    pub fn close(self, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError> {
        self.wait_for_all(c, epochs)?;
        // What was whole, and is not marked as complete, counts no longer once the manifest has
        // the end of the log.
        let marked = self.with_driver(c, |driver| {
            self.wait_for_disk(c, driver)?;
            let checkpoint = driver.manifest.as_ref().and_then(|writer| writer.manifest.checkpoint);
            let copied = checkpoint.map_or(0, |checkpoint| checkpoint.epoch);
            if driver.newest > driver.marked.max(copied) {
                driver.is_whole = false;
                self.write_and_wait(c, driver, driver.newest)?;
            }
            Ok::<_, LogError>(driver.marked)
        })?;
        let writer = self.with_driver(c, |driver| driver.manifest.take());
        let Some(mut writer) = writer else { return Ok(()) };
        let streams = self.with_driver(c, |driver| std::mem::take(&mut driver.streams));
        let manifest = &mut writer.manifest;
        let has_all = manifest.checkpoint.is_some_and(|checkpoint| checkpoint.end >= marked);
        let unused: Option<Vec<_>> = streams.iter().map(Stream::unused).collect();
        if let Some(generation) = manifest.generations.last_mut() {
            generation.last_epoch = Some(marked);
            // The checkpoint is the whole database: there is no log to keep.
            if let Some(unused) = unused.filter(|_| has_all) {
                let (names, starts): (Vec<_>, _) = unused.into_iter().unzip();
                generation.starts = starts;
                writer.leaving.extend(names);
            }
        }
        if writer.has_retention_file {
            writer.write_retention(c)?;
        }
        writer.manifest.write::<P>(c, &mut writer.queue)?;
        // A file that stays is removed at the next opening.
        writer.leaving.extend(streams.into_iter().flat_map(|stream| stream.end(c)));
        writer.remove_leaving(c);
        Ok(())
    }

    /// Waits until everything that was committed before is durable. Returns the largest epoch of
    /// a record so far, which is complete then.
    fn wait_for_all(&self, c: P::Core, epochs: &Epochs<P>) -> Result<u64, LogError> {
        self.wait(c, epochs, Target::durable(epochs.current(c).0))?;
        // Stamps may be ahead of the epochs; all buffers have been taken by now.
        let newest = self.with_driver(c, |driver| driver.newest);
        self.wait(c, epochs, Target::durable(newest))?;
        Ok(newest)
    }

    /// Writes records of former generations once more, all of them durable with `epoch`, and waits
    /// for that. No worker uses the log yet.
    fn write_again<'a>(
        &self,
        c: P::Core,
        records: impl Iterator<Item = Record<'a>>,
        epoch: u64,
    ) -> Result<(), LogError> {
        let mut any = false;
        for record in records {
            any = true;
            let record = Record { epoch, ..record };
            let spares = &mut Spares::default();
            let node = self.nodes[0];
            while !self.slots.append(c, 0, 0, &record, BlockMemory { node, spares, waits: false })? {
                self.with_driver(c, |driver| self.write_and_wait(c, driver, driver.marked))?;
            }
        }
        if any { self.with_driver(c, |driver| self.write_and_wait(c, driver, epoch)) } else { Ok(()) }
    }

    fn write_and_wait(&self, c: P::Core, driver: &mut LogDriver<P>, complete: u64) -> Result<(), LogError> {
        self.write(c, driver, complete, IoExecutor::Queue)?;
        self.wait_for_disk(c, driver)
    }

    /// Waits for all that is under way.
    fn wait_for_disk(&self, c: P::Core, driver: &mut LogDriver<P>) -> Result<(), LogError> {
        loop {
            self.take_completions(c, driver)?;
            let Some(stream) = driver.streams.iter_mut().find(|stream| !stream.is_idle()) else {
                return Ok(());
            };
            if !stream.wait(c, None) {
                return Err(FileError::stopped().into());
            }
        }
    }

    /// The stream for a worker on `node`.
    pub fn stream_for(&self, node: Option<Node>) -> usize {
        self.nodes.iter().position(|its_node| *its_node == node).unwrap_or(0)
    }

    /// Sets buffers aside for a commit's records, whose bodies have these lengths, while the commit
    /// can still be refused. The commit is logged without more memory afterwards.
    ///
    /// # Errors
    /// Memory was refused for a while.
    pub fn reserve(
        &self,
        c: P::Core,
        stream: usize,
        bodies: &mut dyn Iterator<Item = usize>,
        spares: &mut Spares<P>,
    ) -> Result<(), OutOfMemory> {
        let until = P::now(c).plus(RESERVE_WAIT_NANOS);
        for (number, body) in bodies.enumerate() {
            let least = buffer_bytes(body);
            while !spares.has(number, least) {
                let new = Buffer::new(c, self.nodes[stream], least, "log buffer");
                let empty = || self.with_driver(c, |driver| driver.streams[stream].empty_buffer(least));
                match new.or_else(|error| empty().ok_or(error)) {
                    Ok(buffer) => spares.put(number, buffer),
                    Err(error) if P::now(c) >= until => return Err(error),
                    Err(_) => P::rest(c, EPOCH_WAIT_NANOS),
                }
            }
        }
        Ok(())
    }

    /// Leaves the record of a commit, in one of `spares` if there is no memory for it. The worker
    /// waits only if the disk cannot keep up.
    ///
    /// The worker has announced its commit in an epoch not later than the record's
    /// ([`storage::Local::announce_commit`]), and retracts it after this has returned.
    ///
    /// # Errors
    /// The log has stopped, or memory was refused again and again and was not [set
    /// aside](Self::reserve): the commit will never be durable.
    pub fn append(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        worker: usize,
        stream: usize,
        record: &Record<'_>,
        spares: &mut Spares<P>,
    ) -> Result<(), LogError> {
        let mut refused_until: Option<Nanos> = None;
        loop {
            let waits = refused_until.is_none_or(|until| P::now(c) < until);
            let memory = BlockMemory { node: self.nodes[stream], spares: &mut *spares, waits };
            match self.slots.append(c, worker, stream, record, memory) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                // The commit cannot be taken back: others may see it. What the disk gives back may
                // do.
                Err(error) => {
                    let until = *refused_until.get_or_insert(P::now(c).plus(MEMORY_WAIT_NANOS));
                    if P::now(c) >= until {
                        // A record that is missing must not be followed by others.
                        self.with_driver(c, |driver| {
                            driver.error.get_or_insert(error.clone().into()).clone()
                        });
                        self.publish_stop(c);
                        return Err(error.into());
                    }
                    P::rest(c, EPOCH_WAIT_NANOS);
                }
            }
            if let Some(error) = self.stopped(c) {
                return Err(error);
            }
            // Full buffers go to disk whether or not their epochs are complete.
            let seen = self.completions(c);
            if self.try_drive(c, epochs, DriveGoal::EmptySlots) != DriveOutcome::Done {
                P::park(c, self.completions_word(), seen, Some(P::now(c).plus(EPOCH_WAIT_NANOS)));
            }
        }
    }

    /// The last durable epoch.
    #[inline]
    pub fn durable(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release of the core that flushed.
        P::load(c, self.durable_word(), Ordering::Acquire)
    }

    /// The number of the last whole group that was begun. A commit made before this call is on disk
    /// when [`Self::has_whole_since`] this number, even if its epoch is not durable.
    pub fn whole_groups(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release in `start_whole`.
        P::load(c, self.begun_word(), Ordering::Acquire)
    }

    /// Returns true if a whole group that was begun after the one with this number is durable.
    pub fn has_whole_since(&self, c: P::Core, begun: u64) -> bool {
        // Acquire: pairs with the release of the core that flushed.
        P::load(c, self.whole_word(), Ordering::Acquire) > begun
    }

    /// The error that has stopped the log, if the log has stopped.
    pub fn stopped(&self, c: P::Core) -> Option<LogError> {
        // Acquire: pairs with the release of the core that detected the failure.
        if P::load(c, self.stopped_word(), Ordering::Acquire) == 0 {
            return None;
        }
        self.with_driver(c, |driver| driver.error.clone())
    }

    /// Polls the disk and advances the log, if it is time; returns true if it was. Workers call
    /// this between transactions with the current time: a call costs a shared load or two when
    /// there is nothing to do.
    #[inline]
    pub fn tend(&self, c: P::Core, epochs: &Epochs<P>, now: Nanos) -> bool {
        // Relaxed: only a hint; the compare and swap decides which worker polls.
        let last = P::load(c, self.polled_word(), Ordering::Relaxed);
        let is_due = now.since(Nanos(last)) >= POLL_NANOS
            && P::cas(c, self.polled_word(), last, now.0, Ordering::Relaxed).is_ok();
        if is_due {
            self.try_drive(c, epochs, DriveGoal::Advance);
        }
        is_due
    }

    /// The number of times that a group became durable.
    fn completions(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release in `announce_completion`.
        P::load(c, self.completions_word(), Ordering::Acquire)
    }

    /// Wakes the workers that wait for durable commits, or for a log that has stopped.
    fn announce_completion(&self, c: P::Core) {
        // Release: pairs with the acquire in `completions`.
        P::fetch_add(c, self.completions_word(), 1, Ordering::Release);
        P::unpark(c, self.completions_word(), u32::MAX);
    }

    /// Waits for the target, and moves epochs on to get there where that has to be; or until the
    /// deadline, if there is one. Returns whether it is durable. The worker waits for commits that
    /// are under way, and for the disk, but for no other transaction.
    ///
    /// # Errors
    /// The log has stopped: whether the target is durable is not known, and it is not to be
    /// acknowledged.
    pub fn wait(&self, c: P::Core, epochs: &Epochs<P>, target: Target) -> Result<bool, LogError> {
        let Target { epoch, deadline, by_epoch } = target;
        let begun = self.whole_groups(c);
        loop {
            let seen = self.completions(c);
            if self.durable(c) >= epoch || !by_epoch && self.has_whole_since(c, begun) {
                return Ok(true);
            }
            if let Some(error) = self.stopped(c) {
                return Err(error);
            }
            if deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                // Others may have relied on this worker to go on with what is under way.
                P::unpark(c, self.completions_word(), 1);
                return Ok(false);
            }
            let patience = match self.try_drive(c, epochs, DriveGoal::Durable(target)) {
                DriveOutcome::Done => continue,
                DriveOutcome::WholeGroup => return Ok(true),
                // Some worker is at its commit.
                DriveOutcome::Blocked => EPOCH_WAIT_NANOS,
                // The core that flushes wakes all waiting workers when it is done.
                DriveOutcome::Busy => WAIT_NANOS,
            };
            let again = P::now(c).plus(patience);
            let again = deadline.map_or(again, |deadline| again.min(deadline));
            P::park(c, self.completions_word(), seen, Some(again));
        }
    }

    /// Bytes that the files of the log take, those of former generations included.
    pub fn file_bytes(&self, c: P::Core) -> u64 {
        self.with_driver(c, |driver| {
            driver.former_bytes + driver.streams.iter().map(Stream::file_bytes).sum::<u64>()
        })
    }

    /// Counters of the log so far.
    pub fn used(&self, c: P::Core, epochs: &Epochs<P>) -> LogUse {
        self.with_driver(c, |driver| LogUse {
            written_bytes: driver.written_bytes(),
            flushes: driver.streams.iter().map(|stream| stream.flushes).sum(),
            groups: driver.groups,
            group_nanos: driver.group_nanos,
            epoch: epochs.current(c).0,
        })
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &P::Directory {
        &self.directory
    }

    fn with_driver<T>(&self, c: P::Core, body: impl FnOnce(&mut LogDriver<P>) -> T) -> T {
        // Acquire: pairs with the release of the holder before.
        while P::cas(c, self.latch(), 0, 1, Ordering::Acquire).is_err() {
            P::pause(c, 1_000);
        }
        // SAFETY: the latch is held.
        let result = body(unsafe { &mut *self.driver.get() });
        // Release: pairs with the acquire of the next holder.
        P::store(c, self.latch(), 0, Ordering::Release);
        result
    }
}

impl LogError {
    /// The error of all later calls, if this error has stopped the log.
    fn stops(self) -> LogError {
        match self {
            LogError::File(error) => LogError::Stopped(error),
            other => other,
        }
    }

    /// The failure of a file that caused this error, if one did.
    pub fn file(&self) -> Option<&FileError> {
        match self {
            LogError::File(error) | LogError::Stopped(error) => Some(error),
            _ => None,
        }
    }
}
