//! Checkpoints of a log that is being written, and the removal of what they stand for.
//!
//! A checkpoint is a copy of every row, each as it was at a moment of its own while transactions
//! continued. [`Log::begin_checkpoint`] cuts all streams, and waits until every epoch with a record
//! before the cut is complete: rows that are copied afterwards have all those changes. Recovery
//! repeats all changes of later epochs, which are values: repeating a change that the copy has
//! already has no effect. A copy may have changes that are not durable yet; [`Log::end_checkpoint`]
//! waits for them before the manifest names the checkpoint.

use std::sync::atomic::Ordering;

use platform::Node;
use platform::files::{FileError, Files, Operation};
use storage::Epochs;

use crate::Log;
use crate::checkpoint::CheckpointFileWriter;
use crate::driver::LogDriver;
use crate::error::LogError;
use crate::goal::Target;
use crate::manifest::{Checkpoint, Manifest, StreamStart};
use crate::manifest_writer::ManifestWriter;
use crate::names::{checkpoint_file_name, segment_name};

/// Interval between two checks of a manifest that another core writes.
const MANIFEST_WAIT_NANOS: u64 = 100_000;

/// The place in the log at which a checkpoint begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    number: u64,
    identity: u64,
    epoch: u64,
    /// The first block of each stream after the cut.
    starts: Vec<StreamStart>,
}

impl Cut {
    /// The last epoch whose records the checkpoint replaces: those of later epochs still count.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl<P: Files> Log<P> {
    /// Begins a checkpoint: rows that are copied from now on have all changes of the records before
    /// the cut. At most one checkpoint is under way. Waits for the disk, and for commits under way,
    /// but for no other transaction.
    ///
    /// # Errors
    /// The log has stopped; or the files refuse, and the log continues.
    pub fn begin_checkpoint(&self, c: P::Core, epochs: &Epochs<P>) -> Result<Cut, LogError> {
        let identity = P::fresh_identity(c, &self.directory)?;
        let cut = self.with_driver(c, |driver| {
            let cut = match driver.error.clone() {
                Some(error) => Err(error),
                None => self.cut(c, driver, identity),
            };
            cut.map_err(|error| driver.error.insert(error.stops()).clone())
        });
        if cut.is_err() {
            self.publish_stop(c);
        }
        let cut = cut??;
        self.wait(c, epochs, Target::durable(cut.epoch))?;
        // Relaxed: a figure.
        P::store(c, self.growth_word(), 0, Ordering::Relaxed);
        Ok(cut)
    }

    /// Cuts all streams; an error within is one that the log survives.
    fn cut(
        &self,
        c: P::Core,
        driver: &mut LogDriver<P>,
        identity: u64,
    ) -> Result<Result<Cut, FileError>, LogError> {
        self.wait_for_disk(c, driver)?;
        let mut starts = Vec::new();
        let mut refused = None;
        for stream in &mut driver.streams {
            match stream.cut(c, driver.marked)? {
                Ok(start) => starts.push(start),
                Err(error) => refused = Some(error),
            }
        }
        self.wait_for_disk(c, driver)?;
        if let Some(error) = refused {
            return Ok(Err(error));
        }
        driver.last_checkpoint += 1;
        let (number, epoch) = (driver.last_checkpoint, driver.newest.max(driver.marked));
        Ok(Ok(Cut { number, identity, epoch, starts }))
    }

    /// A new file of a checkpoint.
    ///
    /// # Errors
    /// The files refuse. The log continues.
    pub fn checkpoint_file(
        &self,
        c: P::Core,
        cut: &Cut,
        number: u32,
        node: Option<Node>,
    ) -> Result<CheckpointFileWriter<P>, LogError> {
        CheckpointFileWriter::new(c, &self.directory, self.identity, cut.identity, cut.number, number, node)
    }

    /// Ends a checkpoint whose rows are all in its first `files` files, which are finished. Removes
    /// the superseded files. Waits as [`Self::begin_checkpoint`] does.
    ///
    /// # Errors
    /// The log has stopped, or the files refuse: then the checkpoint before counts, or there is
    /// none, and the log continues.
    pub fn end_checkpoint(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        cut: &Cut,
        files: u32,
    ) -> Result<(), LogError> {
        // With what was copied.
        self.wait_for_all(c, epochs)?;
        let end = self.with_driver(c, |driver| {
            let end = match driver.error.clone() {
                Some(error) => Err(error),
                None => self.mark_durable(c, driver),
            };
            end.map_err(|error| driver.error.insert(error.stops()).clone())
        });
        if end.is_err() {
            self.publish_stop(c);
        }
        let end = end?;
        let Some(mut writer) = self.borrow_manifest(c) else { return Ok(()) };
        let before = writer.manifest.clone();
        writer.manifest.checkpoint =
            Some(Checkpoint { number: cut.number, identity: cut.identity, files, epoch: cut.epoch, end });
        let generations = &mut writer.manifest.generations;
        generations.drain(..generations.len().saturating_sub(1));
        generations.iter_mut().for_each(|generation| generation.starts.clone_from(&cut.starts));
        let after = std::mem::replace(&mut writer.manifest, before.clone());
        let mut result = writer.keep_for_readers(c, cut.epoch, &cut.starts, &after);
        if result.is_ok() {
            result = after.write::<P>(c, &mut writer.queue);
        }
        // After a failure the new manifest may be durable or not: both count, and nothing is
        // removed.
        if result.is_ok() {
            writer.manifest = after;
            self.remove_needless(c, &mut writer, &before, cut);
        }
        self.give_manifest_back(c, writer);
        result
    }

    /// Writes blocks that call the durable epochs complete, unless the streams have no later record
    /// than they call complete. Returns the epoch up to which they call all complete then. An
    /// opening sees by this epoch whether the log has all changes that the copy may have in part.
    fn mark_durable(&self, c: P::Core, driver: &mut LogDriver<P>) -> Result<u64, LogError> {
        self.wait_for_disk(c, driver)?;
        let durable = self.durable(c);
        if driver.marked < driver.newest.min(durable) {
            // What was written in whole groups counts as not written.
            driver.is_whole = false;
            self.write_and_wait(c, driver, durable)?;
        }
        Ok(driver.marked)
    }

    /// Replaces what the manifest keeps for the log's owner. One core at a time calls this.
    ///
    /// # Errors
    /// The files refuse. If they refuse to take the new manifest, the directory has what it had,
    /// and the log continues. If they refuse to put it in the place of the other, which of the two
    /// the directory has is not known, and the log stops: nothing is acknowledged that one of them
    /// contradicts.
    pub fn describe(&self, c: P::Core, extra: Vec<u8>) -> Result<(), LogError> {
        let Some(mut writer) = self.borrow_manifest(c) else { return Ok(()) };
        let before = std::mem::replace(&mut writer.manifest.extra, extra);
        let ManifestWriter { manifest, queue, .. } = &mut writer;
        let written = match manifest.prepare::<P>(c, queue) {
            Ok(()) => Manifest::put_in_place::<P>(c, queue).map_err(|error| self.stop(c, error)),
            Err(error) => {
                manifest.extra = before;
                Err(error)
            }
        };
        self.give_manifest_back(c, writer);
        written
    }

    /// Stops the log for good.
    fn stop(&self, c: P::Core, error: LogError) -> LogError {
        let error = self.with_driver(c, |driver| driver.error.get_or_insert(error.stops()).clone());
        self.publish_stop(c);
        error
    }

    /// Takes the manifest, to write it, when no other core does; `None` if the log has none.
    pub(crate) fn borrow_manifest(&self, c: P::Core) -> Option<ManifestWriter<P>> {
        loop {
            let (taken, is_lent) = self.with_driver(c, |driver| {
                let taken = driver.manifest.take();
                driver.manifest_is_lent |= taken.is_some();
                (taken, driver.manifest_is_lent)
            });
            if taken.is_some() || !is_lent {
                return taken;
            }
            P::rest(c, MANIFEST_WAIT_NANOS);
        }
    }

    pub(crate) fn give_manifest_back(&self, c: P::Core, writer: ManifestWriter<P>) {
        self.with_driver(c, |driver| {
            driver.manifest = Some(writer);
            driver.manifest_is_lent = false;
        });
    }

    /// Waits until all commits that were announced before this call are over, and durable. Returns
    /// an epoch that none of them is later than, that no later commit is of, and that the log on
    /// disk names, so that no later opening uses it.
    ///
    /// # Errors
    /// The log has stopped.
    pub fn settle(&self, c: P::Core, epochs: &Epochs<P>) -> Result<u64, LogError> {
        let newest = self.wait_for_all(c, epochs)?;
        Ok(newest.max(self.with_driver(c, |driver| driver.marked)))
    }

    /// Removes the files that are not needed since the cut, or makes them segments again. Only
    /// segments of this generation are reused: data that a flush of an earlier one failed to write
    /// is not durable, but can be read as if it were. A file that cannot be removed stays for
    /// later.
    fn remove_needless(&self, c: P::Core, writer: &mut ManifestWriter<P>, before: &Manifest, cut: &Cut) {
        writer.leaving.extend(before.checkpoint.iter().flat_map(Checkpoint::names));
        let ManifestWriter { retention, own, leaving, .. } = &mut *writer;
        self.with_driver(c, |driver| {
            driver.former_bytes = 0;
            for (stream, start) in driver.streams.iter_mut().zip(&cut.starts) {
                let done: Vec<_> =
                    stream.done.extract_if(.., |(sequence, _)| *sequence < start.sequence).collect();
                for (sequence, bytes) in done {
                    let name = segment_name(stream.number, sequence);
                    if retention.needs(&name) {
                        own.push(name);
                    } else if !stream.reuse(&name, bytes) {
                        leaving.push(name);
                    }
                }
            }
        });
        writer.let_go();
        writer.remove_leaving(c);
    }

    /// Removes what an abandoned checkpoint has left, as far as that succeeds.
    pub fn abandon_checkpoint(&self, c: P::Core, cut: &Cut, files: u32) {
        let Some(mut writer) = self.borrow_manifest(c) else { return };
        for number in 0..files {
            let name = checkpoint_file_name(cut.number, number);
            let _ = P::perform(c, &mut writer.queue, Operation::Remove { name });
        }
        self.give_manifest_back(c, writer);
    }

    /// Adds to the growth what is there from former generations; no worker uses the log yet.
    pub(crate) fn grow(&self, c: P::Core, bytes: u64) {
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
