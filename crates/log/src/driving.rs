//! The flush protocol: one core at a time submits records to the disk and takes completions.

use std::sync::atomic::Ordering;

use platform::files::{Access, FileError, Files};
use platform::{Nanos, Platform};
use storage::{Epochs, last_complete};
use terms::Epoch;

use crate::driver::{Flight, FlushedGroup, LogDriver};
use crate::error::LogError;
use crate::goal::{DriveGoal, DriveOutcome, Target};
use crate::slot::{Collected, Filled};
use crate::stream::{GroupMark, IoExecutor, Stream};
use crate::{Log, performs_io};

/// A core that waits checks for at most this long whether commits under way end, at this interval.
const IDLE_NANOS_MAX: u64 = 10_000;
const IDLE_PAUSE_NANOS: u64 = 100;

/// Outcome of an attempt to begin a whole group.
enum WholeGroup {
    /// Some commit is under way.
    CommitsUnderWay,
    /// There is nothing to write: everything that was committed is durable.
    AllDurable,
    Begun,
}

/// The executor of a group that a worker waits for until this deadline.
fn executor_for<P: Platform>(c: P::Core, deadline: Option<Nanos>) -> IoExecutor {
    if performs_io::<P>(c, deadline) { IoExecutor::Core } else { IoExecutor::Queue }
}

/// Returns true if a moment without a commit under way comes before `until`. Sessions that wait for
/// their commits end them and begin no others.
fn is_idle_soon<P: Platform>(c: P::Core, epochs: &Epochs<P>, until: Nanos) -> bool {
    while P::now(c) < until {
        if epochs.no_commit_is_under_way(c) {
            return true;
        }
        P::pause(c, IDLE_PAUSE_NANOS);
    }
    false
}

/// The part of the generation under way that is durable.
pub(crate) struct Reach {
    /// The last durable epoch: all its records are in the blocks.
    pub durable: u64,
    /// By stream, the number of durable blocks.
    pub blocks: Vec<u64>,
}

impl<P: Files> Log<P> {
    /// Does what can be done now, if no other core is at it.
    pub(crate) fn try_drive(&self, c: P::Core, epochs: &Epochs<P>, goal: DriveGoal) -> DriveOutcome {
        // Acquire: pairs with the release of the holder before.
        if P::cas(c, self.latch(), 0, 1, Ordering::Acquire).is_err() {
            return DriveOutcome::Busy;
        }
        // SAFETY: the latch is held.
        let driver = unsafe { &mut *self.driver.get() };
        let before = (self.durable(c), driver.groups);
        let turn = match driver.error {
            None => self.drive(c, driver, epochs, goal),
            Some(_) => Ok(DriveOutcome::Done),
        };
        let stops = turn.is_err();
        let turn = turn.unwrap_or_else(|error| {
            driver.error = Some(error.stops());
            DriveOutcome::Done
        });
        let has_completed = turn == DriveOutcome::WholeGroup || (self.durable(c), driver.groups) != before;
        // Release: pairs with the acquire of the next holder.
        P::store(c, self.latch(), 0, Ordering::Release);
        if stops {
            self.publish_stop(c);
        } else if has_completed {
            self.announce_completion(c);
        }
        turn
    }

    /// The part of the log that is durable.
    pub(crate) fn reach(&self, c: P::Core) -> Reach {
        self.with_driver(c, |driver| Reach {
            durable: self.durable(c),
            blocks: driver.streams.iter().map(Stream::durable_blocks).collect(),
        })
    }

    /// How the segments are written.
    pub(crate) fn access(&self, c: P::Core) -> Access {
        self.with_driver(c, |driver| driver.streams.first().map_or(Access::Cached, |stream| stream.access))
    }

    pub(crate) fn publish_stop(&self, c: P::Core) {
        // Release: pairs with the acquire in `stopped`.
        P::store(c, self.stopped_word(), 1, Ordering::Release);
        self.announce_completion(c);
    }

    /// Drives the log while this core holds the latch.
    fn drive(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
        epochs: &Epochs<P>,
        goal: DriveGoal,
    ) -> Result<DriveOutcome, LogError> {
        let mut waits_for_whole = false;
        loop {
            if let Some(landed) = self.take_completions(c, driver)? {
                driver.tune(c, epochs, landed.nanos, landed.bytes);
            }
            let mut started = false;
            if driver.flight.is_none() {
                if waits_for_whole {
                    return Ok(DriveOutcome::WholeGroup);
                }
                if epochs.current(c) >= Epoch::LAST {
                    return Err(LogError::NoEpochs);
                }
                if let DriveGoal::Durable(target) = goal {
                    match self.start_whole(c, driver, epochs, target)? {
                        WholeGroup::AllDurable => return Ok(DriveOutcome::WholeGroup),
                        WholeGroup::Begun => waits_for_whole = true,
                        WholeGroup::CommitsUnderWay => {
                            while last_complete(epochs.current(c)).0 < target.epoch && epochs.draw(c) {}
                        }
                    }
                }
                if !waits_for_whole {
                    started = self.start(c, driver, epochs, goal)?;
                }
                if driver.flight.is_some() && driver.streams.iter().all(Stream::is_idle) {
                    // The core has performed it.
                    continue;
                }
            }
            match goal {
                DriveGoal::Advance => return Ok(DriveOutcome::Done),
                DriveGoal::EmptySlots if started => return Ok(DriveOutcome::Done),
                DriveGoal::Durable(target) if self.durable(c) >= target.epoch => {
                    return Ok(DriveOutcome::Done);
                }
                _ => {}
            }
            let deadline = match goal {
                DriveGoal::Durable(target) => target.deadline,
                DriveGoal::Advance | DriveGoal::EmptySlots => None,
            };
            let Some(stream) = driver.streams.iter_mut().find(|stream| !stream.is_idle()) else {
                return Ok(DriveOutcome::Blocked);
            };
            if !stream.wait(c, deadline) {
                if deadline.is_some_and(|deadline| P::now(c) >= deadline) {
                    return Ok(DriveOutcome::Done);
                }
                return Err(FileError::stopped().into());
            }
        }
    }

    /// Begins a whole group of what all workers have left, if no commit is under way, and no group.
    fn start_whole(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
        epochs: &Epochs<P>,
        target: Target,
    ) -> Result<WholeGroup, LogError> {
        if target.by_epoch {
            return Ok(WholeGroup::CommitsUnderWay);
        }
        let until = P::now(c).plus(IDLE_NANOS_MAX);
        let (collected, complete) = loop {
            if !is_idle_soon(c, epochs, until) {
                return Ok(WholeGroup::CommitsUnderWay);
            }
            if let Some(collected) = self.collect_whole(c, driver, epochs) {
                break collected;
            }
        };
        if collected.filled.is_empty() && (driver.is_whole || driver.newest <= driver.marked) {
            self.publish_whole(c, driver.whole);
            return Ok(WholeGroup::AllDurable);
        }
        driver.is_whole = true;
        let mark = GroupMark { before: driver.marked, complete, whole: driver.whole };
        self.write_collected(c, driver, collected, mark, executor_for::<P>(c, target.deadline))?;
        Ok(WholeGroup::Begun)
    }

    /// Takes what all workers have left, and what is complete with it, if no commit is under way at
    /// that moment.
    fn collect_whole(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
        epochs: &Epochs<P>,
    ) -> Option<(Collected<P>, u64)> {
        // The number is published before the buffers are taken: a thread that has left a record and
        // finds an earlier number can rely on the group with this one. A number that no group gets
        // does no harm.
        driver.whole += 1;
        // Release: goes along with the slots' latches, which order it with what is left there.
        P::store(c, self.begun_word(), driver.whole, Ordering::Release);
        // Before the buffers are taken, as for any group.
        let complete = last_complete(epochs.current(c)).0.max(driver.marked);
        let collected =
            driver.with_free(|free| self.slots.collect_whole(c, free, || epochs.no_commit_is_under_way(c)));
        collected.map(|collected| (collected, complete))
    }

    /// Takes what the disk has done. If the group under way is durable then: how many nanoseconds
    /// its way took, and its bytes.
    pub(crate) fn take_completions(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
    ) -> Result<Option<FlushedGroup>, LogError> {
        for stream in &mut driver.streams {
            stream.reap(c)?;
        }
        let landed = driver.flight.take_if(|_| driver.streams.iter().all(Stream::is_idle));
        Ok(landed.map(|Flight { complete, whole, bytes, began }| {
            driver.streams.iter_mut().for_each(Stream::flushed);
            driver.marked = complete;
            self.publish(c, complete);
            if whole > 0 {
                self.publish_whole(c, whole);
            }
            FlushedGroup { nanos: P::now(c).since(began), bytes }
        }))
    }

    fn publish_whole(&self, c: P::Core, whole: u64) {
        // Release: pairs with the acquire in `has_whole_since`, before a commit is acknowledged.
        P::store(c, self.whole_word(), whole, Ordering::Release);
    }

    fn publish(&self, c: P::Core, durable: u64) {
        if durable > self.durable(c) {
            // Release: pairs with the acquire in `durable`, before a commit is acknowledged.
            P::store(c, self.durable_word(), durable, Ordering::Release);
        }
    }

    /// Begins a group if a new epoch is complete, or, to empty slots, in any case; whether it has
    /// taken the buffers.
    fn start(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
        epochs: &Epochs<P>,
        goal: DriveGoal,
    ) -> Result<bool, LogError> {
        // Before the buffers are taken: what committed in these epochs is in them.
        let complete = last_complete(epochs.current(c)).0.max(driver.marked);
        if complete <= self.durable(c) && !matches!(goal, DriveGoal::EmptySlots) {
            return Ok(false);
        }
        let executor = match goal {
            DriveGoal::Durable(target) => executor_for::<P>(c, target.deadline),
            _ => IoExecutor::Queue,
        };
        self.write(c, driver, complete, executor)?;
        Ok(true)
    }

    /// Takes the records that workers have left and begins to write them, if there are any that no
    /// flush covers.
    pub(crate) fn write(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
        complete: u64,
        executor: IoExecutor,
    ) -> Result<(), LogError> {
        let collected = driver.with_free(|free| self.slots.collect(c, free));
        let is_covered = driver.is_whole || driver.newest <= driver.marked;
        if collected.filled.is_empty() && is_covered {
            // Nothing was written since: there is nothing to lose.
            self.publish(c, complete);
            return Ok(());
        }
        driver.is_whole = false;
        self.write_collected(
            c,
            driver,
            collected,
            GroupMark { before: driver.marked, complete, whole: 0 },
            executor,
        )
    }

    /// Begins to write these records.
    fn write_collected(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
        collected: Collected<P>,
        mark: GroupMark,
        executor: IoExecutor,
    ) -> Result<(), LogError> {
        driver.newest = driver.newest.max(collected.newest);
        let mut blocks: Vec<Vec<_>> = driver.streams.iter().map(|_| Vec::new()).collect();
        for Filled { stream, block } in collected.filled {
            blocks[stream].push(block);
        }
        // Where several workers share a group its switches between threads are shared too, and its
        // core has transactions to go on with.
        let executor =
            if blocks.iter().map(Vec::len).sum::<usize>() > 1 { IoExecutor::Queue } else { executor };
        let (before, began) = (driver.written_bytes(), P::now(c));
        let last = driver.streams.len() - 1;
        for (number, (stream, blocks)) in driver.streams.iter_mut().zip(blocks).enumerate() {
            // The queues of the others are at work meanwhile.
            let executor = if number == last { executor } else { IoExecutor::Queue };
            stream.write(c, blocks, mark, executor)?;
        }
        let bytes = driver.written_bytes() - before;
        let growth = P::load(c, self.growth_word(), Ordering::Relaxed);
        // Relaxed: a figure, which the latch's holder changes.
        P::store(c, self.growth_word(), growth + bytes, Ordering::Relaxed);
        driver.flight = Some(Flight { complete: mark.complete, whole: mark.whole, bytes, began });
        Ok(())
    }
}
