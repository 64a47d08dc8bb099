//! What a log says after the process that wrote it is gone.
//!
//! What can be read is not always durable: after the end of a process alone, the operating system's cache still has what was
//! never flushed, or what could not be. Known to be durable is what a later block says was flushed before it. Records beyond
//! that, up to the last complete epoch, count too (they may have been acknowledged), and are written once more into the new
//! generation, before the manifest knows of it; the old one ends before them.

use std::path::Path;

use platform::Place;
use platform::files::{Files, Operation};

use super::checkpoint::CheckpointReader;
use super::error::LogError;
use super::format::{ALIGNMENT, Record, Records};
use super::image::{SegmentImage, SegmentReading, read_segments};
use super::manifest::{Generation, Manifest, ManifestWriter};
use super::names::{
    MANIFEST, PAGES_CHECKPOINT, is_spare_name, parse_checkpoint_file_name, parse_segment_name, segment_name,
};
use super::{Log, LogOptions};
use crate::parallel_job::Listener;
use terms::Epoch;

/// From the first epoch of a generation, which has what is written once more, to the first one of its transactions: what is
/// complete when they begin is later than the former.
const EPOCHS_AHEAD: u64 = 3;

/// Epochs that an opening is to have: with fewer it would end before it has done anything.
const EPOCHS_LEFT: u64 = 16;

/// The log of a directory as recovery has read it: which of its records count.
pub struct RecoveredLog<P: Files> {
    pub(super) images: Vec<SegmentImage<P>>,
    /// The epoch up to which the checkpoint has everything.
    copied_epoch: u64,
    /// The last epoch that counts, over all generations.
    pub last_epoch: u64,
    /// The last epoch that is known to be durable: records of epochs between this and `last_epoch` are in the last
    /// generation.
    safe_epoch: u64,
}

/// The directory of a database, opened, locked and read, and not written yet.
pub struct OpenedDirectory<P: Files> {
    directory: P::Directory,
    queue: P::Queue,
    pub(super) manifest: Manifest,
    /// What is in the log.
    pub log: RecoveredLog<P>,
    /// Whether the directory held a database.
    pub existed: bool,
    /// First epoch of transactions to come.
    pub first_epoch: u64,
    sequences: Vec<u64>,
    /// All files that there were, and their bytes.
    files: Vec<(String, u64)>,
}

/// How far one stream of a generation was read.
struct Chain {
    /// Number of the first block that is needed, and of the one that comes next.
    first: u64,
    next: u64,
    /// What each block from the first one on calls complete.
    complete: Vec<u64>,
    /// Blocks before this number are known to be durable.
    flushed_before: u64,
    broken: bool,
}

/// The last epoch of a generation that is complete, the last one that is known to be durable, and the largest one that
/// occurs.
#[derive(Clone, Copy)]
struct Reached {
    complete: u64,
    safe: u64,
    newest: u64,
}

/// Opens and locks the database in a directory, which is made if it is not there, and reads its log, on all of these places. The
/// listener hears how many bytes of how many are read.
///
/// # Errors
/// The directory is something else, or what was durable is damaged, or a newer version wrote it.
pub fn open<P: Files>(
    c: P::Core,
    path: &Path,
    places: &[Place],
    listener: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<OpenedDirectory<P>, LogError> {
    let opened = find(c, P::open_directory(c, path, true)?, path, (places, true), listener)?;
    if opened.first_epoch + EPOCHS_LEFT > Epoch::LAST.0 {
        return Err(LogError::NoEpochs);
    }
    Ok(opened)
}

/// Reads the log in an opened directory; whether its bytes are kept is said with the places.
pub(super) fn find<P: Files>(
    c: P::Core,
    directory: P::Directory,
    path: &Path,
    (places, keeps): (&[Place], bool),
    listener: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<OpenedDirectory<P>, LogError> {
    let mut queue = P::queue(c, &directory)?;
    let found = Manifest::read::<P>(c, &mut queue)?;
    let existed = found.is_some();
    let manifest = found.unwrap_or_default();
    let entries = P::perform(c, &mut queue, Operation::List).into_entries()?;
    let foreign = |name: &str| {
        parse_segment_name(name).is_none()
            && parse_checkpoint_file_name(name).is_none()
            && !is_spare_name(name)
            && !name.starts_with(MANIFEST)
    };
    if !existed && entries.iter().any(|entry| entry.name == PAGES_CHECKPOINT) {
        return Err(LogError::RowsInPages(path.to_path_buf()));
    }
    if !existed && entries.iter().any(|entry| foreign(&entry.name)) {
        return Err(LogError::NotADatabase(path.to_path_buf()));
    }
    let segments: Vec<_> =
        entries.iter().filter_map(|entry| Some((parse_segment_name(&entry.name)?, entry))).collect();
    let mut sequences = Vec::new();
    for ((stream, sequence), _) in &segments {
        sequences.resize(sequences.len().max(*stream as usize + 1), 0);
        sequences[*stream as usize] = sequences[*stream as usize].max(sequence + 1);
    }
    let total = segments.iter().map(|(_, entry)| entry.bytes).sum();
    let mut listener = listener.map(|listener| move |done| listener(done, total));
    let listener: Listener<'_> = match &mut listener {
        Some(listener) => Some(listener),
        None => None,
    };
    let mut images = match segments.is_empty() {
        true => Vec::new(),
        false => read_segments(c, &directory, &segments, SegmentReading { places, keeps, listener })?,
    };
    let reached = follow_all(&mut images, &manifest)?;
    let first = manifest.generations.last().map_or(0, |generation| generation.first_epoch + EPOCHS_AHEAD);
    let first_epoch = reached.newest.max(first) + 1 + EPOCHS_AHEAD;
    let recovered = RecoveredLog {
        images,
        copied_epoch: manifest.checkpoint.map_or(0, |checkpoint| checkpoint.epoch),
        last_epoch: reached.complete,
        safe_epoch: reached.safe,
    };
    let files = entries.into_iter().map(|entry| (entry.name, entry.bytes)).collect();
    Ok(OpenedDirectory { directory, queue, manifest, log: recovered, existed, first_epoch, sequences, files })
}

/// Finds what counts of all generations.
fn follow_all<P: Files>(images: &mut [SegmentImage<P>], manifest: &Manifest) -> Result<Reached, LogError> {
    let durable = manifest.checkpoint.map_or(0, |checkpoint| checkpoint.end);
    let mut all = Reached { complete: durable, safe: durable, newest: durable };
    for generation in &manifest.generations {
        let reached = follow(images, generation, durable)?;
        let last = generation.last_epoch.unwrap_or(reached.complete);
        images.iter_mut().filter(|image| image.is_of(generation)).for_each(|image| image.last = last);
        all.complete = all.complete.max(last);
        all.safe = all.safe.max(generation.last_epoch.unwrap_or(reached.safe));
        all.newest = all.newest.max(reached.newest).max(last);
    }
    // What belongs to no generation does not count.
    for image in images.iter_mut() {
        if !manifest.generations.iter().any(|generation| image.is_of(generation)) {
            image.blocks.clear();
            image.bytes = None;
        }
    }
    Ok(all)
}

impl<P: Files> SegmentImage<P> {
    /// Joins the blocks of this segment to the chain; the largest epoch that occurs.
    fn join(&mut self, chain: &mut Chain) -> Result<u64, LogError> {
        if chain.broken {
            self.blocks.clear();
        }
        let mut newest = 0;
        for seen in &self.blocks {
            newest = newest.max(seen.epochs.1);
            chain.complete.push(seen.complete);
            chain.flushed_before = chain.flushed_before.max(seen.flushed_before);
            chain.next += 1;
        }
        // A block may show that what is missing was durable.
        if self.flushed_before > chain.next {
            return Err(self.damaged(self.end(), "a block that was durable cannot be read"));
        }
        Ok(chain.complete.iter().copied().fold(newest, u64::max))
    }
}

/// Follows all streams of a generation. What is before or in epoch `durable` is known to be durable, from elsewhere.
fn follow<P: Files>(
    images: &mut [SegmentImage<P>],
    generation: &Generation,
    durable: u64,
) -> Result<Reached, LogError> {
    let nothing = durable.max(generation.first_epoch - 1);
    let mut all = Reached { complete: u64::MAX, safe: u64::MAX, newest: generation.first_epoch };
    for (stream, start) in (0..).zip(&generation.starts) {
        let mut own: Vec<&mut SegmentImage<P>> =
            images.iter_mut().filter(|image| image.stream == stream && image.is_of(generation)).collect();
        let first = own.first().and_then(|image| image.header).map_or(0, |header| header.first_block);
        if own.first().is_some_and(|image| image.sequence != *start) {
            let file = segment_name(stream, *start);
            return Err(LogError::Damaged { file, offset: 0, what: "it is missing, or its beginning is" });
        }
        let mut chain = Chain { first, next: first, complete: Vec::new(), flushed_before: 0, broken: false };
        for image in &mut own {
            let first = image.header.map_or(0, |header| header.first_block);
            chain.broken |= first != chain.next;
            all.newest = all.newest.max(image.join(&mut chain)?);
        }
        let complete = chain.complete.iter().copied().fold(nothing, u64::max);
        let flushed = chain.flushed_before.min(chain.next).saturating_sub(chain.first);
        let safe = chain.complete[..flushed as usize].iter().copied().fold(nothing, u64::max);
        if generation.last_epoch.is_some_and(|last| complete < last) {
            let file = segment_name(stream, own.last().map_or(*start, |image| image.sequence));
            let what = "epochs that were durable are missing";
            return Err(LogError::Damaged { file, offset: 0, what });
        }
        all.complete = all.complete.min(complete);
        all.safe = all.safe.min(safe);
    }
    Ok(all)
}

/// One block of the log.
#[derive(Clone, Copy, Debug)]
pub struct LogBlock<'a> {
    /// Its records, those that do not count included.
    pub payload: &'a [u8],
    counting: Counting,
}

/// Epochs of records that count: after the first, up to the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting(u64, u64);

impl Counting {
    pub(super) fn has(self, record: &Record<'_>) -> bool {
        record.epoch > self.0 && record.epoch <= self.1
    }
}

impl<'a> LogBlock<'a> {
    /// The records that count.
    pub fn records(self) -> impl Iterator<Item = Record<'a>> {
        Records::new(self.payload).filter(move |record| self.counting.has(record))
    }
}

impl<P: Files> RecoveredLog<P> {
    /// The blocks of the log: those of one stream in the order in which they were written, in which the records of one worker are
    /// in the order of their commits.
    pub fn blocks(&self) -> Vec<LogBlock<'_>> {
        let blocks = self.images.iter().flat_map(|image| {
            let counting = self.counting(image);
            let bytes = image.bytes.as_ref().map_or(&[][..], |buffer| buffer.bytes());
            image.blocks.iter().map(move |seen| {
                let payload = bytes.get(seen.from..seen.to).unwrap_or(&[]);
                LogBlock { payload, counting }
            })
        });
        blocks.collect()
    }

    /// Which records of a segment count.
    pub(super) fn counting(&self, image: &SegmentImage<P>) -> Counting {
        Counting(self.copied_epoch, image.last)
    }

    /// The epoch up to which the checkpoint has everything, 0 without one: records that count are later.
    pub fn copied_epoch(&self) -> u64 {
        self.copied_epoch
    }

    /// Bytes of the log's blocks, as [`LogUse`](super::LogUse) counts them.
    pub fn log_bytes(&self) -> u64 {
        self.images.iter().map(|image| (image.end() - ALIGNMENT) as u64).sum()
    }
}

impl<P: Files> OpenedDirectory<P> {
    /// The directory.
    pub(super) fn directory(&self) -> &P::Directory {
        &self.directory
    }

    /// What the owner of the log left in the manifest.
    pub fn extra(&self) -> &[u8] {
        &self.manifest.extra
    }

    /// What reads the checkpoint; `None` if there is none.
    pub fn checkpoint(&self, c: P::Core) -> Result<Option<CheckpointReader<'_, P>>, LogError> {
        let Some(checkpoint) = &self.manifest.checkpoint else { return Ok(None) };
        CheckpointReader::new(c, &self.directory, checkpoint, &self.files).map(Some)
    }

    /// The number of this opening, larger than all that were ever begun, the manifest knowing of them or not.
    pub fn opening(&self) -> u64 {
        let known = self.manifest.generations.iter().map(|generation| generation.number);
        let begun = self.log.images.iter().filter_map(|image| image.header);
        known.chain(begun.map(|header| header.generation)).max().unwrap_or(0) + 1
    }

    /// Begins a new generation: from now on nothing changes about what the ones before say. What was read of them counts as
    /// growth of the log.
    pub fn begin(
        mut self,
        c: P::Core,
        extra: Vec<u8>,
        options: &LogOptions,
        workers: usize,
    ) -> Result<Log<P>, LogError> {
        for name in self.files.iter().map(|(name, _)| name).filter(|name| is_spare_name(name)) {
            P::perform(c, &mut self.queue, Operation::Remove { name: name.clone() }).result?;
        }
        let number = self.opening();
        let streams = 0..options.streams.len();
        let generation = Generation {
            number,
            starts: streams.map(|stream| self.sequences.get(stream).copied().unwrap_or(0)).collect(),
            first_epoch: self.first_epoch - EPOCHS_AHEAD,
            last_epoch: None,
        };
        let mut log = Log::begin(c, self.directory, &generation, options, workers)?;
        let safe = self.log.safe_epoch;
        let blocks = self.log.blocks();
        let again = blocks.iter().flat_map(|block| block.records()).filter(|record| record.epoch > safe);
        log.write_again(c, again, generation.first_epoch)?;
        // A segment that is mostly empty has to be read all the same.
        log.grow(c, self.log.images.iter().map(|image| image.file_bytes).sum());
        self.log.images.clear();
        if let Some(last) = self.manifest.generations.last_mut() {
            last.last_epoch = Some(safe.max(last.first_epoch - 1));
        }
        self.manifest.generations.push(generation);
        self.manifest.extra = extra;
        self.manifest.write::<P>(c, &mut self.queue)?;
        remove_old::<P>(c, &mut self.queue, self.files, &self.manifest)?;
        log.keep_manifest(ManifestWriter { manifest: self.manifest, queue: self.queue });
        Ok(log)
    }
}

/// Removes those of the files found that the manifest does not need. A crash on the way leaves some of them for the next
/// opening.
fn remove_old<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    files: Vec<(String, u64)>,
    manifest: &Manifest,
) -> Result<(), LogError> {
    for (name, _) in files.into_iter().filter(|(name, _)| !manifest.needs(name)) {
        P::perform(c, queue, Operation::Remove { name }).result?;
    }
    Ok(())
}
