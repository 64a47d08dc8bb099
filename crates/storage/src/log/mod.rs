//! The redo log of the memory engine: values, by epoch, in parallel streams.
//!
//! After SiloR (Zheng, Tu, Kohler, Liskov, "Fast databases with fast durability and recovery through multicore
//! parallelism", OSDI 2014). A worker leaves the [record](Record) of each commit in a buffer of its own and goes on with
//! other transactions. An epoch is *complete* when no transaction will commit in it any more: when the global epoch is two
//! later, see [`complete`]. Then the next worker that tends to the log takes the buffers of all workers and writes those of
//! each stream as blocks of its current segment. When all streams are flushed, the epoch is *durable*, and everything that
//! committed in it, or earlier, may be acknowledged.
//!
//! Each block carries the last complete epoch of its stream. Recovery takes the smallest over the streams and ignores all
//! later records. A transaction that depends on another one committed in the same epoch or a later one, so what is left is
//! a consistent state. The [manifest](Manifest) says, of each opening of the database (a *generation*), where it ended, so
//! that records that were never acknowledged stay dead for ever.
//!
//! Concurrency: the core that flushes holds the driver's latch, and never for longer than submitting takes, except when it
//! waits for its own epoch. A transaction that is long under way holds up no other: only its commit is waited for. A
//! failure stops the log for good: nothing is acknowledged any more, and no flush is tried again.
//!
//! Deviations from SiloR: there are no threads for logging, workers and waiters do it; buffers are collected and not handed
//! over, so that idle workers hold back nothing; a record holds the changed bytes of a row and not the row.

mod ahead;
mod checkpoint;
mod cut;
mod driver;
mod error;
mod filling;
pub mod format;
mod image;
mod manifest;
mod names;
mod recovery;
mod slot;
mod stream;
mod survey;

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;

use platform::files::{Access, FileError, Files, Operation};
use platform::{LINE_BYTES, Nanos, Node, Platform};

use crate::epoch::Epochs;
use terms::Epoch;

pub use ahead::next_zeros;
pub use checkpoint::{BlockReader, CheckpointFileWriter, CheckpointReader};
pub use cut::Cut;
pub use error::LogError;
pub use format::{Record, Records};
pub use manifest::{Checkpoint, Generation, Manifest};
pub use names::{MANIFEST, PAGES_CHECKPOINT, parse_checkpoint_file_name, parse_segment_name, segment_name};
pub use recovery::{LogBlock, OpenedDirectory, RecoveredLog, open};
pub use survey::{Examiner, SegmentSurvey, Survey, examine, survey};

use driver::{Driver, Flight};
use manifest::ManifestWriter;
use slot::{Filled, Slots};
use stream::{By, Stream, StreamPlan};

/// Shortest time between two looks at what the disk has done, while no worker waits for it.
const LOOK_NANOS: u64 = 50_000;
/// A worker that waits for another to flush looks again after this time.
const WAIT_NANOS: u64 = 1_000_000;
/// A worker that waits for another to end its commit looks again after this time.
const EPOCH_WAIT_NANOS: u64 = 20_000;
/// A core with less time than this performs no write and no flush itself: it could not leave them at its deadline.
const PERFORM_NANOS_MIN: u64 = 1_000_000_000;

/// How a log is written.
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
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            streams: vec![None],
            segment_bytes: 64 << 20,
            buffer_bytes: 256 << 10,
            access: Access::Direct,
        }
    }
}

/// What a log has done.
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

/// The last epoch in which no transaction commits any more, while `current` is the global one: commits under way have
/// announced that or the one before ([`crate::Participant::announce_commit`]), and later ones announce none earlier.
pub fn complete(current: u64) -> u64 {
    current.saturating_sub(2)
}

/// Whether a core that waits for the disk until this deadline makes the calls of the operating system itself, which saves it two
/// switches between threads: none of them can be left before it is over.
pub fn performs<P: Platform>(c: P::Core, deadline: Option<Nanos>) -> bool {
    deadline.is_none_or(|deadline| deadline >= P::now(c).plus(PERFORM_NANOS_MIN))
}

/// A log that is being written.
pub struct Log<P: Files> {
    /// Words: the driver's latch, the durable epoch, whether the log has stopped, when it was last looked at, and bytes
    /// written since the last checkpoint.
    words: P::Region,
    slots: Slots<P>,
    driver: UnsafeCell<Driver<P>>,
    nodes: Vec<Option<Node>>,
    segment_bytes: u64,
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

    fn looked_word(&self) -> &P::Word {
        P::word_of(&self.words, 3 * LINE_BYTES)
    }

    fn growth_word(&self) -> &P::Word {
        P::word_of(&self.words, 4 * LINE_BYTES)
    }

    /// Begins a generation.
    fn begin(
        c: P::Core,
        directory: P::Directory,
        generation: &Generation,
        options: &LogOptions,
        workers: usize,
    ) -> Result<Self, LogError> {
        let mut streams = Vec::new();
        for (number, node) in options.streams.iter().enumerate() {
            let plan = StreamPlan {
                number: number as u32,
                generation: generation.number,
                node: *node,
                segment_bytes: options.segment_bytes,
                access: options.access,
                first_sequence: generation.starts[number],
            };
            let mut stream = Stream::new(P::queue(c, &directory)?, plan);
            stream.prepare_spare(c);
            streams.push(stream);
        }
        let marked = generation.first_epoch - 1;
        let log = Log {
            words: P::region(c, None, 5 * LINE_BYTES, "log")?,
            slots: Slots::new(c, workers, options.buffer_bytes)?,
            driver: UnsafeCell::new(Driver::new(streams, marked)),
            nodes: options.streams.clone(),
            segment_bytes: options.segment_bytes,
            directory,
        };
        P::store(c, log.durable_word(), marked, Ordering::Release);
        Ok(log)
    }

    fn keep_manifest(&mut self, manifest: ManifestWriter<P>) {
        let driver = self.driver.get_mut();
        driver.last_checkpoint = manifest.manifest.checkpoint.map_or(0, |checkpoint| checkpoint.number);
        driver.manifest = Some(manifest);
    }

    /// Ends the log: everything that was left in it is durable then, and the manifest says where it ends, so that every
    /// later damage is noticed. No transaction is under way, and no session in an epoch.
    ///
    /// # Errors
    /// The log has stopped before, or stops now.
    pub fn close(self, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError> {
        self.wait_for_all(c, epochs)?;
        let (marked, writer) = self.with_driver(c, |driver| (driver.marked, driver.manifest.take()));
        let Some(ManifestWriter { mut manifest, mut queue, .. }) = writer else { return Ok(()) };
        if let Some(generation) = manifest.generations.last_mut() {
            generation.last_epoch = Some(marked);
        }
        manifest.write::<P>(c, &mut queue)?;
        let streams = self.with_driver(c, |driver| std::mem::take(&mut driver.streams));
        for name in streams.into_iter().flat_map(|stream| stream.end(c)) {
            // A file that stays is removed at the next opening.
            let _ = P::perform(c, &mut queue, Operation::Remove { name });
        }
        Ok(())
    }

    /// Waits until everything that was committed before is durable.
    fn wait_for_all(&self, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError> {
        self.wait(c, epochs, epochs.current(c).0, None)?;
        // Stamps may be ahead of the epochs; all buffers have been taken by now.
        let newest = self.with_driver(c, |driver| driver.newest);
        self.wait(c, epochs, newest, None).map(drop)
    }

    /// Writes records of former generations once more, all of them durable with `epoch`, and waits for that. No worker uses
    /// the log yet.
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
            while !self.slots.append(c, 0, (0, self.nodes[0]), &record)? {
                self.with_driver(c, |driver| self.write_and_wait(c, driver, driver.marked))?;
            }
        }
        if any { self.with_driver(c, |driver| self.write_and_wait(c, driver, epoch)) } else { Ok(()) }
    }

    fn write_and_wait(&self, c: P::Core, driver: &mut Driver<P>, complete: u64) -> Result<(), LogError> {
        self.write(c, driver, complete, By::Queue)?;
        self.wait_for_disk(c, driver)
    }

    /// Waits for all that is under way.
    fn wait_for_disk(&self, c: P::Core, driver: &mut Driver<P>) -> Result<(), LogError> {
        loop {
            self.land(c, driver)?;
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

    /// Leaves the record of a commit. The worker waits only if the disk cannot keep up.
    ///
    /// The worker has announced its commit in an epoch not later than the record's
    /// ([`crate::Local::announce_commit`]), and retracts it after this has returned.
    ///
    /// # Errors
    /// The log has stopped, or memory was refused: the commit will never be durable.
    pub fn append(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        worker: usize,
        stream: usize,
        record: &Record<'_>,
    ) -> Result<(), LogError> {
        loop {
            let appended = self.slots.append(c, worker, (stream, self.nodes[stream]), record);
            match appended {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    // A record that is missing must not be followed by others.
                    self.with_driver(c, |driver| driver.error.get_or_insert(error.clone().into()).clone());
                    self.publish_stop(c);
                    return Err(error.into());
                }
            }
            if let Some(error) = self.stopped(c) {
                return Err(error);
            }
            // Full buffers go to disk whether or not their epochs are complete.
            let seen = self.durable(c);
            if self.try_drive(c, epochs, Goal::Empty) != Turn::Over {
                P::park(c, self.durable_word(), seen, Some(P::now(c).plus(EPOCH_WAIT_NANOS)));
            }
        }
    }

    /// The last durable epoch.
    #[inline]
    pub fn durable(&self, c: P::Core) -> u64 {
        // Acquire: pairs with the release of the core that flushed.
        P::load(c, self.durable_word(), Ordering::Acquire)
    }

    /// Why the log has stopped, if it has.
    pub fn stopped(&self, c: P::Core) -> Option<LogError> {
        // Acquire: pairs with the release of the core that met the failure.
        if P::load(c, self.stopped_word(), Ordering::Acquire) == 0 {
            return None;
        }
        self.with_driver(c, |driver| driver.error.clone())
    }

    /// Gets on with what there is to do, if it is time; whether it was. To be called between transactions with the current
    /// time: a call costs a shared load or two when there is nothing to do.
    #[inline]
    pub fn tend(&self, c: P::Core, epochs: &Epochs<P>, now: Nanos) -> bool {
        // Relaxed: only a hint; the compare and swap decides which worker looks.
        let last = P::load(c, self.looked_word(), Ordering::Relaxed);
        let looks = now.since(Nanos(last)) >= LOOK_NANOS
            && P::cas(c, self.looked_word(), last, now.0, Ordering::Relaxed).is_ok();
        if looks {
            self.try_drive(c, epochs, Goal::GetOn);
        }
        looks
    }

    /// Waits until `epoch` is durable, and moves epochs on to get there; or until the deadline, if there is one. Returns
    /// whether the epoch is durable. The worker waits for commits that are under way, and for the disk, but for no other
    /// transaction.
    ///
    /// # Errors
    /// The log has stopped: whether the epoch is durable is not known, and it is not to be acknowledged.
    pub fn wait(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        epoch: u64,
        deadline: Option<Nanos>,
    ) -> Result<bool, LogError> {
        loop {
            let seen = self.durable(c);
            if seen >= epoch {
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
            let patience = match self.try_drive(c, epochs, Goal::Durable(epoch, deadline)) {
                Turn::Over => continue,
                // Some worker is at its commit.
                Turn::Blocked => EPOCH_WAIT_NANOS,
                // The core that flushes wakes all waiting workers when it is done.
                Turn::Taken => WAIT_NANOS,
            };
            let again = P::now(c).plus(patience);
            let again = deadline.map_or(again, |deadline| again.min(deadline));
            P::park(c, self.durable_word(), seen, Some(again));
        }
    }

    /// What the log has done so far.
    pub fn used(&self, c: P::Core, epochs: &Epochs<P>) -> LogUse {
        self.with_driver(c, |driver| LogUse {
            written_bytes: driver.written_bytes(),
            flushes: driver.streams.iter().map(|stream| stream.flushes).sum(),
            groups: driver.groups,
            group_nanos: driver.group_nanos,
            epoch: epochs.current(c).0,
        })
    }

    fn with_driver<T>(&self, c: P::Core, body: impl FnOnce(&mut Driver<P>) -> T) -> T {
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

    /// Does what can be done now, if no other core is at it.
    fn try_drive(&self, c: P::Core, epochs: &Epochs<P>, goal: Goal) -> Turn {
        // Acquire: pairs with the release of the holder before.
        if P::cas(c, self.latch(), 0, 1, Ordering::Acquire).is_err() {
            return Turn::Taken;
        }
        // SAFETY: the latch is held.
        let driver = unsafe { &mut *self.driver.get() };
        let before = self.durable(c);
        let turn = match driver.error {
            None => self.drive(c, driver, epochs, goal),
            Some(_) => Ok(Turn::Over),
        };
        let stops = turn.is_err();
        let turn = turn.unwrap_or_else(|error| {
            driver.error = Some(error.stops());
            Turn::Over
        });
        // Release: pairs with the acquire of the next holder.
        P::store(c, self.latch(), 0, Ordering::Release);
        if stops {
            self.publish_stop(c);
        } else if self.durable(c) != before {
            P::unpark(c, self.durable_word(), u32::MAX);
        }
        turn
    }

    fn publish_stop(&self, c: P::Core) {
        // Release: pairs with the acquire in `stopped`.
        P::store(c, self.stopped_word(), 1, Ordering::Release);
        P::unpark(c, self.durable_word(), u32::MAX);
    }

    /// One holder's turn at the latch.
    fn drive(
        &self,
        c: P::Core,
        driver: &mut Driver<P>,
        epochs: &Epochs<P>,
        goal: Goal,
    ) -> Result<Turn, LogError> {
        loop {
            if let Some(landed) = self.land(c, driver)? {
                driver.tune(c, epochs, landed);
            }
            let mut started = false;
            if driver.flight.is_none() {
                if let Goal::Durable(target, _) = goal {
                    while complete(epochs.current(c).0) < target && epochs.try_advance(c) {}
                }
                if epochs.current(c) >= Epoch::LAST {
                    return Err(LogError::NoEpochs);
                }
                started = self.start(c, driver, epochs, goal)?;
                if driver.flight.is_some() && driver.streams.iter().all(Stream::is_idle) {
                    // The core has performed it.
                    continue;
                }
            }
            match goal {
                Goal::GetOn => return Ok(Turn::Over),
                Goal::Empty if started => return Ok(Turn::Over),
                Goal::Durable(target, _) if self.durable(c) >= target => return Ok(Turn::Over),
                _ => {}
            }
            let deadline = match goal {
                Goal::Durable(_, deadline) => deadline,
                Goal::GetOn | Goal::Empty => None,
            };
            let Some(stream) = driver.streams.iter_mut().find(|stream| !stream.is_idle()) else {
                return Ok(Turn::Blocked);
            };
            if !stream.wait(c, deadline) {
                if deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                    return Ok(Turn::Over);
                }
                return Err(FileError::stopped().into());
            }
        }
    }

    /// Takes what the disk has done. If the group under way is durable then: how many nanoseconds its way took, and its
    /// bytes.
    fn land(&self, c: P::Core, driver: &mut Driver<P>) -> Result<Option<(u64, u64)>, LogError> {
        for stream in &mut driver.streams {
            stream.reap(c)?;
        }
        let landed = driver.flight.take_if(|_| driver.streams.iter().all(Stream::is_idle));
        Ok(landed.map(|Flight { complete, bytes, began }| {
            driver.streams.iter_mut().for_each(Stream::flushed);
            driver.marked = complete;
            self.publish(c, complete);
            (P::now(c).since(began), bytes)
        }))
    }

    fn publish(&self, c: P::Core, durable: u64) {
        if durable > self.durable(c) {
            // Release: pairs with the acquire in `durable`, before a commit is acknowledged.
            P::store(c, self.durable_word(), durable, Ordering::Release);
        }
    }

    /// Begins a group if a new epoch is complete, or, to empty slots, in any case; whether it has taken the buffers.
    fn start(
        &self,
        c: P::Core,
        driver: &mut Driver<P>,
        epochs: &Epochs<P>,
        goal: Goal,
    ) -> Result<bool, LogError> {
        // Before the buffers are taken: what committed in these epochs is in them.
        let complete = complete(epochs.current(c).0).max(driver.marked);
        if complete <= self.durable(c) && !matches!(goal, Goal::Empty) {
            return Ok(false);
        }
        let by = match goal {
            Goal::Durable(_, deadline) if performs::<P>(c, deadline) => By::Core,
            _ => By::Queue,
        };
        self.write(c, driver, complete, by)?;
        Ok(true)
    }

    /// Takes the records that workers have left and begins to write them, if there are any that no flush covers.
    fn write(&self, c: P::Core, driver: &mut Driver<P>, complete: u64, by: By) -> Result<(), LogError> {
        let mut free: Vec<_> =
            driver.streams.iter_mut().map(|stream| std::mem::take(&mut stream.free)).collect();
        let collected = self.slots.collect(c, &mut free);
        for (stream, free) in driver.streams.iter_mut().zip(free) {
            stream.free = free;
        }
        driver.newest = driver.newest.max(collected.newest);
        if collected.filled.is_empty() && driver.newest <= driver.marked {
            // Nothing was written since: there is nothing to lose.
            self.publish(c, complete);
            return Ok(());
        }
        let mut blocks: Vec<Vec<_>> = driver.streams.iter().map(|_| Vec::new()).collect();
        for Filled { stream, block } in collected.filled {
            blocks[stream].push(block);
        }
        // Where several workers share a group its switches between threads are shared too, and its core has transactions to go on with.
        let by = if blocks.iter().map(Vec::len).sum::<usize>() > 1 { By::Queue } else { by };
        let (before, began) = (driver.written_bytes(), P::now(c));
        let last = driver.streams.len() - 1;
        for (number, (stream, blocks)) in driver.streams.iter_mut().zip(blocks).enumerate() {
            // The queues of the others are at work meanwhile.
            let by = if number == last { by } else { By::Queue };
            stream.write(c, blocks, (driver.marked, complete), by)?;
        }
        let bytes = driver.written_bytes() - before;
        let growth = P::load(c, self.growth_word(), Ordering::Relaxed);
        // Relaxed: a figure, which the latch's holder changes.
        P::store(c, self.growth_word(), growth + bytes, Ordering::Relaxed);
        driver.flight = Some(Flight { complete, bytes, began });
        Ok(())
    }
}

/// What a holder of the latch is after.
#[derive(Clone, Copy)]
enum Goal {
    /// What can be done without waiting.
    GetOn,
    /// Empty slots: full ones are handed to the disk, when it has done what is under way.
    Empty,
    /// A durable epoch, until a deadline; epochs move on as fast as commits let them.
    Durable(u64, Option<Nanos>),
}

/// How an attempt to hold the latch went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// What could be done is done.
    Over,
    /// Nothing can be done until workers end their commits.
    Blocked,
    /// Another core holds the latch.
    Taken,
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
