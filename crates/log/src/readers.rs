//! Readers of changes: those that are registered by name, and open cursors.

use platform::files::Files;
use storage::Epochs;
use terms::Epoch;

use crate::Log;
use crate::change_cursor::{ChangeCursor, ChangesError, ChangesFrom, CursorStart};
use crate::error::LogError;
use crate::manifest::{Generation, Manifest};
use crate::manifest_writer::ManifestWriter;
use crate::retention::{LogPosition, READER_NAME_BYTES_MAX, READERS_MAX, RetainedCut};

/// Attempts to find the place behind all commits while checkpoints end.
const ATTEMPTS: usize = 20;

/// A registered reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReaderPlace {
    /// Its name.
    pub name: String,
    /// The position that it has acknowledged.
    pub position: LogPosition,
    /// True if changes behind the position are gone.
    pub is_lost: bool,
}

impl<P: Files> ManifestWriter<P> {
    /// The generations that a reader behind `position` has to read: from the last cut on that it
    /// has passed. Records that later ones refer to are behind the cut once more.
    fn generations_behind(&self, position: LogPosition) -> Result<Vec<Generation>, ChangesError> {
        let mut known = self.retention.known(&self.manifest);
        let is_own = known.iter().any(|generation| generation.identity == position.generation);
        if self.is_lost(position) || !is_own {
            return Err(ChangesError::Lost);
        }
        let passed = |cut: &&RetainedCut| Epoch(cut.epoch).last_stamp() <= position.stamp;
        if let Some(cut) = self.retention.cuts.iter().rfind(passed) {
            known.retain(|generation| generation.number >= cut.generation);
            let first = known.first_mut().filter(|first| first.number == cut.generation);
            first.into_iter().for_each(|first| first.starts.clone_from(&cut.starts));
        }
        Ok(known)
    }

    fn is_lost(&self, position: LogPosition) -> bool {
        Epoch(self.retention.floor(&self.manifest)).last_stamp() > position.stamp
    }

    /// The place that this says; `now` is the one behind all commits so far.
    fn resolve(&self, from: &ChangesFrom, now: Option<LogPosition>) -> Result<LogPosition, ChangesError> {
        let database = self.manifest.identity;
        let at = |generation, stamp| LogPosition { database, generation, stamp };
        match from {
            ChangesFrom::Position(position) if position.database == database => Ok(*position),
            ChangesFrom::Position(_) => Err(ChangesError::OtherDatabase),
            ChangesFrom::Reader(name) => match self.retention.readers.get(name) {
                Some((generation, stamp)) => Ok(at(*generation, *stamp)),
                None => Err(ChangesError::NoSuchReader(name.clone())),
            },
            ChangesFrom::Now | ChangesFrom::Oldest => Ok(now.unwrap_or_else(|| {
                let known = self.retention.known(&self.manifest);
                let floor = Epoch(self.retention.floor(&self.manifest)).last_stamp();
                at(known.first().map_or(0, |first| first.identity), floor)
            })),
        }
    }
}

impl<P: Files> Log<P> {
    /// Runs `body` with the manifest, which no other core uses meanwhile.
    fn with_manifest<T>(
        &self,
        c: P::Core,
        body: impl FnOnce(&mut ManifestWriter<P>) -> Result<T, ChangesError>,
    ) -> Result<T, ChangesError> {
        let Some(mut writer) = self.borrow_manifest(c) else {
            return Err(ChangesError::Unsupported("the log is closed"));
        };
        let result = body(&mut writer);
        self.give_manifest_back(c, writer);
        result
    }

    /// The position behind all commits so far, which are durable when this returns. No commit that
    /// is made later lies before it.
    ///
    /// # Errors
    /// [`ChangesError`].
    pub fn settled_position(&self, c: P::Core, epochs: &Epochs<P>) -> Result<LogPosition, ChangesError> {
        let stamp = Epoch(self.settle(c, epochs)?).last_stamp();
        self.with_manifest(c, |writer| {
            let Manifest { identity, generations, .. } = &writer.manifest;
            let generation = generations.last().map_or(0, |current| current.identity);
            Ok(LogPosition { database: *identity, generation, stamp })
        })
    }

    /// Runs `body` with the manifest, and with the place that `from` says.
    fn with_place<T>(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        from: &ChangesFrom,
        body: impl Fn(&mut ManifestWriter<P>, LogPosition) -> Result<T, ChangesError>,
    ) -> Result<T, ChangesError> {
        for _ in 1..ATTEMPTS {
            let now = match from {
                ChangesFrom::Now => Some(self.settled_position(c, epochs)?),
                _ => None,
            };
            let result = self.with_manifest(c, |writer| {
                let position = writer.resolve(from, now)?;
                body(writer, position)
            });
            match result {
                // A checkpoint has superseded what came behind the position in the meantime.
                Err(ChangesError::Lost) if now.is_some() => {}
                result => return result,
            }
        }
        Err(ChangesError::Lost)
    }

    /// Opens a stream of the commits behind `from`. While it is open, segments that it needs stay,
    /// within the bound.
    ///
    /// # Errors
    /// [`ChangesError`].
    pub fn open_changes(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        from: ChangesFrom,
    ) -> Result<ChangeCursor<P>, ChangesError> {
        let access = self.access(c);
        let queue = P::queue(c, self.directory()).map_err(LogError::from)?;
        let start = self.with_place(c, epochs, &from, |writer, position| {
            let generations = writer.generations_behind(position)?.into();
            writer.last_reader += 1;
            writer.open_readers.push((writer.last_reader, position.stamp));
            Ok(CursorStart { position, generations, reader: writer.last_reader, access })
        })?;
        let (reader, position) = (start.reader, start.position);
        ChangeCursor::new(c, queue, start).map_err(|error| {
            let lost = match error {
                ChangesError::Log(error) => self.lost_or(c, position, error),
                error => error,
            };
            self.end_reader(c, reader);
            lost
        })
    }

    /// Ends a stream: segments no longer stay for it.
    pub fn close_changes(&self, c: P::Core, cursor: ChangeCursor<P>) {
        self.end_reader(c, cursor.reader);
    }

    fn end_reader(&self, c: P::Core, reader: u64) {
        // Segments that cannot be removed now are removed later.
        let _ = self.with_manifest(c, |writer| {
            writer.open_readers.retain(|(number, _)| *number != reader);
            Ok(writer.release(c)?)
        });
    }

    /// Takes note that a cursor has handed out all commits up to this stamp.
    pub(crate) fn advance_reader(&self, c: P::Core, reader: u64, stamp: u64) -> Result<(), ChangesError> {
        self.with_manifest(c, |writer| {
            let own = writer.open_readers.iter_mut().find(|(number, _)| *number == reader);
            own.into_iter().for_each(|(_, its)| *its = stamp);
            Ok(writer.release(c)?)
        })
    }

    /// [`ChangesError::Lost`] if changes behind the position are gone, otherwise the error.
    pub(crate) fn lost_or(&self, c: P::Core, position: LogPosition, error: LogError) -> ChangesError {
        match self.with_manifest(c, |writer| Ok(writer.is_lost(position))) {
            Ok(true) => ChangesError::Lost,
            _ => error.into(),
        }
    }

    /// Registers a reader: from now on segments that it needs stay, within the bound, also while
    /// the database is closed. A reader of this name is given the new place. Returns the place.
    ///
    /// # Errors
    /// [`ChangesError`]; the files may have refused, and nothing has changed.
    pub fn register_reader(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        name: &str,
        from: ChangesFrom,
    ) -> Result<LogPosition, ChangesError> {
        self.with_place(c, epochs, &from, |writer, position| {
            writer.generations_behind(position)?;
            let readers = &mut writer.retention.readers;
            let is_full = !readers.contains_key(name) && readers.len() >= READERS_MAX;
            if is_full || name.is_empty() || name.len() > READER_NAME_BYTES_MAX {
                return Err(ChangesError::TooManyReaders);
            }
            let before = readers.insert(name.to_owned(), (position.generation, position.stamp));
            if let Err(error) = writer.write_retention(c) {
                match before {
                    Some(before) => _ = writer.retention.readers.insert(name.to_owned(), before),
                    None => _ = writer.retention.readers.remove(name),
                }
                return Err(error.into());
            }
            writer.release(c)?;
            Ok(position)
        })
    }

    /// Takes note that a registered reader needs nothing up to this position any more. That is on
    /// disk when a checkpoint has ended, or the log is closed: a crash before may take it back.
    ///
    /// # Errors
    /// [`ChangesError`].
    pub fn acknowledge(&self, c: P::Core, name: &str, position: LogPosition) -> Result<(), ChangesError> {
        self.with_manifest(c, |writer| {
            if position.database != writer.manifest.identity {
                return Err(ChangesError::OtherDatabase);
            }
            let place = writer.retention.readers.get_mut(name);
            let place = place.ok_or_else(|| ChangesError::NoSuchReader(name.to_owned()))?;
            if position.stamp > place.1 {
                *place = (position.generation, position.stamp);
            }
            Ok(writer.release(c)?)
        })
    }

    /// Forgets a registered reader; false if there was none.
    ///
    /// # Errors
    /// [`ChangesError`].
    pub fn forget_reader(&self, c: P::Core, name: &str) -> Result<bool, ChangesError> {
        self.with_manifest(c, |writer| {
            let was_there = writer.retention.readers.remove(name).is_some();
            if was_there {
                writer.write_retention(c)?;
                writer.release(c)?;
            }
            Ok(was_there)
        })
    }

    /// The registered readers, by name.
    ///
    /// # Errors
    /// The log is closed.
    pub fn readers(&self, c: P::Core) -> Result<Vec<ReaderPlace>, ChangesError> {
        self.with_manifest(c, |writer| {
            let database = writer.manifest.identity;
            let place = |(name, (generation, stamp)): (&String, &(u64, u64))| {
                let position = LogPosition { database, generation: *generation, stamp: *stamp };
                ReaderPlace { name: name.clone(), position, is_lost: writer.is_lost(position) }
            };
            Ok(writer.retention.readers.iter().map(place).collect())
        })
    }

    /// The bytes of the log's owner, as they are, and as they were at the ends of checkpoints that
    /// readers are behind; the newest first.
    ///
    /// # Errors
    /// The log is closed.
    pub fn descriptions(&self, c: P::Core) -> Result<Vec<Vec<u8>>, ChangesError> {
        self.with_manifest(c, |writer| {
            let former = writer.retention.cuts.iter().rev().map(|cut| cut.extra.clone());
            let former = former.filter(|extra| !extra.is_empty());
            Ok(std::iter::once(writer.manifest.extra.clone()).chain(former).collect())
        })
    }
}
