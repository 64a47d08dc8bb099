//! The manifest of a log that is being written, and the files that it needs no more.
//!
//! Segments that the manifest needs no more stay as long as a reader of changes needs them, within
//! a bound. [`Retention`] is written before the manifest that forgets them, and before they are
//! removed.

use platform::files::{FileErrorKind, Files, Operation};

use crate::error::LogError;
use crate::manifest::{Manifest, StreamStart};
use crate::names::RETENTION;
use crate::retention::Retention;

/// The manifest of a log that is being written, and the way to write it again.
pub(crate) struct ManifestWriter<P: Files> {
    pub manifest: Manifest,
    pub queue: P::Queue,
    /// Files of former generations, or superseded ones, that the manifest or readers of changes
    /// need, or needed at the last check.
    pub own: Vec<String>,
    /// Files that may go. One that could not be removed is tried again.
    pub leaving: Vec<String>,
    /// The largest number of a checkpoint of which a file was found.
    pub last_checkpoint: u64,
    pub retention: Retention,
    /// True if the directory has the file of [`Retention`].
    pub has_retention_file: bool,
    /// Bytes of superseded segments that stay for readers of changes, at most.
    pub retained_bytes_max: u64,
    /// Open streams of changes: a number, and the largest stamp that was delivered.
    pub open_readers: Vec<(u64, u64)>,
    pub last_reader: u64,
}

impl<P: Files> ManifestWriter<P> {
    /// Removes what may go, as far as that succeeds: what stays is tried again later, or goes at
    /// the next opening.
    pub(crate) fn remove_leaving(&mut self, c: P::Core) {
        let queue = &mut self.queue;
        self.leaving.retain(|name| {
            let removed = P::perform(c, queue, Operation::Remove { name: name.clone() }).result;
            removed.is_err_and(|error| error.kind != FileErrorKind::Missing)
        });
    }

    /// Moves files that nothing needs any more to those that may go.
    pub(crate) fn let_go(&mut self) {
        let (manifest, retention) = (&self.manifest, &self.retention);
        let needless = self.own.extract_if(.., |name| !manifest.needs(name) && !retention.needs(name));
        self.leaving.extend(needless);
    }

    /// The smallest stamp up to which a reader has got all commits, if there are readers.
    fn slowest(&self) -> Option<u64> {
        let open = self.open_readers.iter().map(|(_, stamp)| *stamp);
        open.chain(self.retention.readers.values().map(|(_, stamp)| *stamp)).min()
    }

    /// Gives up segments that all readers have passed; true if there were such segments.
    fn pass(&mut self) -> bool {
        let slowest = self.slowest();
        let mut any = false;
        while slowest.is_none_or(|stamp| self.retention.is_passed_by(stamp)) && self.retention.drop_oldest() {
            any = true;
        }
        any
    }

    /// Removes segments that all readers have passed.
    ///
    /// # Errors
    /// The files refuse; the segments stay.
    pub(crate) fn release(&mut self, c: P::Core) -> Result<(), LogError> {
        if self.pass() {
            self.write_retention(c)?;
            self.let_go();
            self.remove_leaving(c);
        }
        Ok(())
    }

    /// Takes over what the manifest forgets when the checkpoint of a cut has ended, as far as
    /// readers need that, and within the bound. The manifest is written afterwards.
    ///
    /// # Errors
    /// The files refuse.
    pub(crate) fn keep_for_readers(
        &mut self,
        c: P::Core,
        epoch: u64,
        starts: &[StreamStart],
        after: &Manifest,
    ) -> Result<(), LogError> {
        if self.slowest().is_none() && !self.has_retention_file {
            return Ok(());
        }
        self.retention.add_cut(&self.manifest, epoch, starts);
        self.pass();
        if !self.retention.cuts.is_empty() {
            let entries = P::perform(c, &mut self.queue, Operation::List).into_entries()?;
            let bytes = |retention: &Retention| -> u64 {
                let kept = entries.iter().filter(|entry| retention.needs(&entry.name));
                kept.filter(|entry| !after.needs(&entry.name)).map(|entry| entry.bytes).sum()
            };
            while bytes(&self.retention) > self.retained_bytes_max && self.retention.drop_oldest() {}
        }
        self.write_retention(c)
    }

    /// Writes the file of [`Retention`], or removes it if there is nothing to say.
    ///
    /// # Errors
    /// The files refuse.
    pub(crate) fn write_retention(&mut self, c: P::Core) -> Result<(), LogError> {
        let Retention { generations, readers, .. } = &self.retention;
        if !generations.is_empty() || !readers.is_empty() {
            self.has_retention_file = true;
            return self.retention.write::<P>(c, &mut self.queue);
        }
        if std::mem::take(&mut self.has_retention_file) {
            P::perform(c, &mut self.queue, Operation::Remove { name: RETENTION.into() }).result?;
            P::perform(c, &mut self.queue, Operation::FlushDirectory).result?;
        }
        Ok(())
    }
}
