//! Checkpoints of a log that is being written, and the removal of what they stand for.
//!
//! A checkpoint is a copy of every row, each as it was at a moment of its own while transactions went on.
//! [`Log::begin_checkpoint`] cuts all streams, and waits until every epoch of which a record lies before the cut is complete:
//! what is copied afterwards has all those changes. Recovery repeats all changes of later epochs, which are values: those that
//! the copy has already change nothing. A copy may have changes that are not durable yet; the checkpoint counts when the
//! manifest names it, which [`Log::end_checkpoint`] lets it do after they are.

use std::sync::atomic::Ordering;

use platform::Node;
use platform::files::{Files, Operation};

use super::checkpoint::PartWriter;
use super::error::LogError;
use super::manifest::{Checkpoint, Manifest};
use super::stream::parse_segment_name;
use super::{Driver, Log};
use crate::epoch::Epochs;

/// What says how a log begins and ends, and the way to write it.
pub(super) struct Archive<P: Files> {
    pub manifest: Manifest,
    pub queue: P::Queue,
    /// Number of the last checkpoint that was begun: the files of one that failed may be named by a manifest on the disk.
    pub last_checkpoint: u64,
}

impl<P: Files> Archive<P> {
    pub fn new(manifest: Manifest, queue: P::Queue) -> Self {
        let last_checkpoint = manifest.checkpoint.map_or(0, |checkpoint| checkpoint.number);
        Archive { manifest, queue, last_checkpoint }
    }
}

/// Where a checkpoint begins in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    number: u64,
    epoch: u64,
    /// The first segment of each stream after it.
    starts: Vec<u64>,
}

impl<P: Files> Log<P> {
    /// Begins a checkpoint: rows that are copied from now on have all changes of the records before the cut. One at a time.
    /// Waits for the disk, and for commits under way, but for no other transaction.
    ///
    /// # Errors
    /// The log has stopped.
    pub fn begin_checkpoint(&self, c: P::Core, epochs: &Epochs<P>) -> Result<Cut, LogError> {
        let cut = self.with_driver(c, |driver| {
            let cut = match driver.error.clone() {
                Some(error) => Err(error),
                None => self.cut(c, driver),
            };
            cut.map_err(|error| driver.error.insert(error.stops()).clone())
        });
        if cut.is_err() {
            self.publish_stop(c);
        }
        let cut = cut?;
        self.wait(c, epochs, cut.epoch, None)?;
        // Relaxed: a figure.
        P::store(c, self.growth_word(), 0, Ordering::Relaxed);
        Ok(cut)
    }

    fn cut(&self, c: P::Core, driver: &mut Driver<P>) -> Result<Cut, LogError> {
        self.wait_for_disk(c, driver)?;
        let starts = driver.streams.iter_mut().map(|stream| stream.cut(c)).collect::<Result<_, _>>()?;
        self.wait_for_disk(c, driver)?;
        let number = driver.archive.as_mut().map_or(1, |archive| {
            archive.last_checkpoint += 1;
            archive.last_checkpoint
        });
        Ok(Cut { number, epoch: driver.newest.max(driver.marked), starts })
    }

    /// A new part of a checkpoint.
    ///
    /// # Errors
    /// The files refuse. The log goes on.
    pub fn checkpoint_part(
        &self,
        c: P::Core,
        cut: &Cut,
        part: u32,
        node: Option<Node>,
    ) -> Result<PartWriter<P>, LogError> {
        PartWriter::new(c, &self.directory, (cut.number, part), node)
    }

    /// Ends a checkpoint of which all rows are in its first `parts` parts, which are finished. What it stands for goes. Waits as
    /// [`Self::begin_checkpoint`] does.
    ///
    /// # Errors
    /// The log has stopped, or the files refuse: then the checkpoint before counts, or there is none, and the log goes on.
    pub fn end_checkpoint(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        cut: &Cut,
        parts: u32,
    ) -> Result<(), LogError> {
        // With what was copied.
        self.wait_for_all(c, epochs)?;
        let end = self.durable(c);
        let Some(mut archive) = self.with_driver(c, |driver| driver.archive.take()) else { return Ok(()) };
        let before = archive.manifest.clone();
        archive.manifest.checkpoint = Some(Checkpoint { number: cut.number, parts, epoch: cut.epoch, end });
        let generations = &mut archive.manifest.generations;
        generations.drain(..generations.len().saturating_sub(1));
        generations.iter_mut().for_each(|generation| generation.starts.clone_from(&cut.starts));
        let mut result = archive.manifest.write::<P>(c, &mut archive.queue);
        match &result {
            // What it says may be durable or not: both count, and nothing is removed.
            Err(_) => archive.manifest = before,
            Ok(()) => result = self.remove_needless(c, &mut archive, &before),
        }
        self.with_driver(c, |driver| driver.archive = Some(archive));
        result
    }

    /// Removes the files that are needed no longer, or makes them segments again. Those that were not needed `before` either
    /// wait to be used again.
    fn remove_needless(
        &self,
        c: P::Core,
        archive: &mut Archive<P>,
        before: &Manifest,
    ) -> Result<(), LogError> {
        let Archive { manifest, queue, .. } = archive;
        let entries = P::perform(c, queue, Operation::List).into_entries()?;
        let needless = |name: &str| before.needs(name) && !manifest.needs(name);
        for entry in entries.into_iter().filter(|entry| needless(&entry.name)) {
            let reused = entry.bytes == self.segment_bytes
                && parse_segment_name(&entry.name).is_some_and(|(stream, _)| {
                    self.with_driver(c, |driver| {
                        driver
                            .streams
                            .get_mut(stream as usize)
                            .is_some_and(|stream| stream.reuse(&entry.name))
                    })
                });
            if !reused {
                P::perform(c, queue, Operation::Remove { name: entry.name }).result?;
            }
        }
        Ok(())
    }

    /// Removes what an abandoned checkpoint has left, as far as that succeeds.
    pub fn abandon_checkpoint(&self, c: P::Core, cut: &Cut, parts: u32) {
        let Some(mut archive) = self.with_driver(c, |driver| driver.archive.take()) else { return };
        for part in 0..parts {
            let name = super::checkpoint::part_name(cut.number, part);
            let _ = P::perform(c, &mut archive.queue, Operation::Remove { name });
        }
        self.with_driver(c, |driver| driver.archive = Some(archive));
    }

    /// Adds to the growth what is there from former generations; nobody else uses the log yet.
    pub(super) fn grow(&self, c: P::Core, bytes: u64) {
        // Relaxed: a figure.
        P::store(c, self.growth_word(), self.growth(c) + bytes, Ordering::Relaxed);
    }

    /// Bytes of log since the last checkpoint began, those of former generations included.
    #[inline]
    pub fn growth(&self, c: P::Core) -> u64 {
        // Relaxed: a figure.
        P::load(c, self.growth_word(), Ordering::Relaxed)
    }
}
