//! Recovery: reads a log after the process that wrote it has ended.
//!
//! Readable records are not always durable: after the end of a process alone, the operating
//! system's cache still has writes that were never flushed, or whose flush failed. Durable are the
//! blocks that were flushed before a later block, as that block states. Records beyond these, up to
//! the last complete epoch, count too (they may have been acknowledged). Recovery writes them once
//! more into the new generation, before the manifest names that generation; the old generation ends
//! before them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use platform::Place;
use platform::files::{Entry, Files, Operation};
use storage::Listener;
use terms::Epoch;

use crate::checkpoint::CheckpointReader;
use crate::error::LogError;
use crate::format::{ALIGNMENT, Record, Records};
use crate::found::{is_named_like_own, superseded};
use crate::image::{BlockSummary, Claims, SegmentImage, SegmentReading, read_segments};
use crate::manifest::{Checkpoint, Generation, Manifest, StreamStart};
use crate::manifest_writer::ManifestWriter;
use crate::names::{
    NEW_MANIFEST, PAGES_CHECKPOINT, RETENTION, parse_checkpoint_file_name, parse_segment_name, segment_name,
};
use crate::retention::Retention;
use crate::{Log, LogOptions};

/// Epochs from the first one of a generation, which has the records that are written once more, to
/// the first one of its transactions. The epochs that are complete when transactions begin are
/// later than the former.
const EPOCHS_AHEAD: u64 = 3;

/// Epochs that an opening is to have: with fewer it would end before it has done anything.
const EPOCHS_LEFT: u64 = 16;

/// No segment of a database has a larger number.
const SEQUENCE_MAX: u64 = 1 << 62;

/// The log of a directory as recovery has read it: which of its records count.
pub struct RecoveredLog<P: Files> {
    pub(crate) images: Vec<SegmentImage<P>>,
    /// The epoch up to which the checkpoint has everything.
    copied_epoch: u64,
    /// The last epoch that counts, over all generations.
    pub last_epoch: u64,
    /// The last epoch that is known to be durable: records of epochs between this and `last_epoch`
    /// are in the last generation.
    safe_epoch: u64,
}

/// The directory of a database, opened, locked and read, and not written yet.
pub struct OpenedDirectory<P: Files> {
    directory: P::Directory,
    queue: P::Queue,
    pub(crate) manifest: Manifest,
    /// The log as recovery has read it.
    pub log: RecoveredLog<P>,
    /// True if the directory held a database.
    pub existed: bool,
    /// First epoch of transactions to come.
    pub first_epoch: u64,
    /// By stream, the first sequence that no file is named by, and the same of checkpoints.
    sequences: BTreeMap<u32, u64>,
    last_checkpoint: u64,
    /// All files that there were.
    files: Vec<Entry>,
    /// The unneeded files that may be removed.
    superseded: Vec<String>,
    retention: Retention,
}

/// The blocks of one stream of a generation that were read.
struct StreamChain {
    /// Number of the first block that is needed, and of the one that comes next.
    first: u64,
    next: u64,
    /// The complete epoch of each block, from the first one on.
    complete: Vec<u64>,
    /// Blocks before this number are known to be durable.
    flushed_before: u64,
    broken: bool,
    /// The last number of a whole group that was read of it.
    whole: u64,
}

/// The last epoch of a generation that is complete, the last one that is known to be durable, and
/// the largest one that occurs.
#[derive(Clone, Copy)]
struct Reached {
    complete: u64,
    safe: u64,
    newest: u64,
    /// The largest epoch up to where everything counts, complete or not.
    whole: u64,
}

/// Opens and locks the database in a directory, which is made if it is not there, and reads its
/// log, on all of these places. The listener receives the bytes read and the total.
///
/// # Errors
/// The directory is something else, or what was durable is damaged, or a newer version wrote it.
pub fn open<P: Files>(
    c: P::Core,
    path: &Path,
    places: &[Place],
    listener: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<OpenedDirectory<P>, LogError> {
    let opened = find(c, P::open_directory(c, path, true)?, path, places, true, listener)?;
    if opened.first_epoch + EPOCHS_LEFT > Epoch::LAST.0 {
        return Err(LogError::NoEpochs);
    }
    Ok(opened)
}

/// Reads the log in an opened directory on all of `places`, and `keeps` its blocks in memory or
/// not.
pub(crate) fn find<P: Files>(
    c: P::Core,
    directory: P::Directory,
    path: &Path,
    places: &[Place],
    keeps: bool,
    listener: Option<&mut dyn FnMut(u64, u64)>,
) -> Result<OpenedDirectory<P>, LogError> {
    let mut queue = P::queue(c, &directory)?;
    let found = Manifest::read::<P>(c, &mut queue)?;
    let entries = P::perform(c, &mut queue, Operation::List).into_entries()?;
    Manifest::check_new::<P>(c, &mut queue, found.as_ref())?;
    if found.is_none() {
        check_new_directory(path, &entries)?;
    }
    let manifest = found.unwrap_or_default();
    let existed = !manifest.generations.is_empty();
    let sequences = next_sequences(&entries)?;
    let checkpoints = entries.iter().filter_map(|entry| parse_checkpoint_file_name(&entry.name));
    let last_checkpoint = checkpoints.map(|(number, _)| number).max().unwrap_or(0);
    let segments: Vec<_> = entries
        .iter()
        .filter_map(|entry| Some((parse_segment_name(&entry.name)?, entry)))
        .filter(|(_, entry)| manifest.needs(&entry.name))
        .collect();
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
    let retention = Retention::read::<P>(c, &mut queue, &manifest, &entries)?;
    let mut superseded = superseded::<P>(c, &mut queue, &manifest, &images, &entries)?;
    superseded.retain(|name| !retention.needs(name));
    let reached = follow_all(&mut images, &manifest)?;
    let first = manifest.generations.last().map_or(0, |generation| generation.first_epoch + EPOCHS_AHEAD);
    let first_epoch = reached.newest.max(first) + 1 + EPOCHS_AHEAD;
    let recovered = RecoveredLog {
        images,
        copied_epoch: manifest.checkpoint.map_or(0, |checkpoint| checkpoint.epoch),
        last_epoch: reached.complete,
        safe_epoch: reached.safe,
    };
    Ok(OpenedDirectory {
        directory,
        queue,
        manifest,
        log: recovered,
        existed,
        first_epoch,
        sequences,
        last_checkpoint,
        files: entries,
        superseded,
        retention,
    })
}

/// Refuses to make a database in a directory that has one already, or parts of one, or something
/// else.
fn check_new_directory(path: &Path, entries: &[Entry]) -> Result<(), LogError> {
    if entries.iter().any(|entry| entry.name == PAGES_CHECKPOINT) {
        return Err(LogError::RowsInPages(path.to_path_buf()));
    }
    if let Some(entry) = entries.iter().find(|entry| is_named_like_own(&entry.name)) {
        return Err(LogError::NoManifest { path: path.to_path_buf(), file: entry.name.clone() });
    }
    match entries.iter().all(|entry| entry.name == NEW_MANIFEST) {
        true => Ok(()),
        false => Err(LogError::NotADatabase(path.to_path_buf())),
    }
}

/// By stream, the sequence after those that files are named by.
fn next_sequences(entries: &[Entry]) -> Result<BTreeMap<u32, u64>, LogError> {
    let mut sequences = BTreeMap::new();
    for entry in entries {
        let Some((stream, sequence)) = parse_segment_name(&entry.name) else { continue };
        let after = sequence.checked_add(1).filter(|after| *after <= SEQUENCE_MAX);
        let after = after.ok_or_else(|| LogError::Foreign(entry.name.clone()))?;
        let next: &mut u64 = sequences.entry(stream).or_default();
        *next = after.max(*next);
    }
    Ok(sequences)
}

/// Finds what counts of all generations.
fn follow_all<P: Files>(images: &mut [SegmentImage<P>], manifest: &Manifest) -> Result<Reached, LogError> {
    let (copied, durable) =
        manifest.checkpoint.map_or((0, 0), |checkpoint| (checkpoint.epoch, checkpoint.end));
    let mut all = Reached { complete: durable, safe: durable, newest: durable, whole: 0 };
    for generation in &manifest.generations {
        let reached = follow(images, generation, copied, durable)?;
        let last = generation.last_epoch.unwrap_or(reached.complete);
        images.iter_mut().filter(|image| image.is_of(generation)).for_each(|image| image.last = last);
        all.complete = all.complete.max(last).max(reached.whole);
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
    fn join(&mut self, chain: &mut StreamChain) -> Result<u64, LogError> {
        chain.broken |= !self.blocks.is_empty() && self.first_block != chain.next;
        if chain.broken {
            self.blocks.clear();
        }
        let mut newest = 0;
        for seen in &self.blocks {
            newest = newest.max(seen.epochs.1);
            chain.complete.push(seen.complete);
            chain.flushed_before = chain.flushed_before.max(seen.flushed_before);
            chain.whole = chain.whole.max(seen.whole);
            chain.next += 1;
        }
        // A block may show that what is missing was durable.
        if self.claims.flushed_before > chain.next {
            return Err(self.damaged(self.end(), "a block that was durable cannot be read"));
        }
        Ok(chain.complete.iter().copied().fold(newest, u64::max))
    }

    /// Records the end of the part in which everything counts: up to the last block that a whole
    /// group with one of these numbers ends, or all of it if a later segment has such a block.
    /// Returns true if there is one here.
    fn count_whole(&mut self, whole: u64, is_later: bool) -> bool {
        let ends = |seen: &BlockSummary| (1..=whole).contains(&seen.whole);
        let last = self.blocks.iter().rposition(ends);
        self.whole_blocks = if is_later { self.blocks.len() } else { last.map_or(0, |last| last + 1) };
        last.is_some()
    }
}

/// Records in all streams of a generation which blocks count because of whole groups with numbers
/// up to this one. Returns the largest epoch of a record there.
fn count_whole<P: Files>(images: &mut [SegmentImage<P>], generation: &Generation, whole: u64) -> u64 {
    let mut newest = 0;
    for stream in 0..generation.starts.len() as u32 {
        let own = images.iter_mut().filter(|image| image.stream == stream && image.is_of(generation));
        let mut is_later = false;
        for image in own.rev() {
            is_later |= image.count_whole(whole, is_later);
            let epochs = image.blocks[..image.whole_blocks].iter().map(|seen| seen.epochs.1);
            newest = epochs.fold(newest, u64::max);
        }
    }
    newest
}

/// Checks that no segment is missing, or shorter than it was. A generation whose end is known was
/// judged by its end already.
fn check_reach<P: Files>(
    own: &mut [&mut SegmentImage<P>],
    stream: u32,
    start: StreamStart,
    is_open: bool,
) -> Result<(), LogError> {
    let missing = |sequence| {
        let file = segment_name(stream, sequence);
        Err(LogError::Damaged { file, offset: 0, what: "it is missing, or its beginning is" })
    };
    if own.first().map_or(is_open, |image| image.sequence != start.sequence) {
        return missing(start.sequence);
    }
    if !is_open {
        return Ok(());
    }
    let there: BTreeSet<u64> = own.iter().map(|image| image.sequence).collect();
    let reaches = own.iter().map(|image| image.claims.reaches).max().unwrap_or(0);
    if let Some(sequence) = (start.sequence..=reaches).find(|sequence| !there.contains(sequence)) {
        return missing(sequence);
    }
    // By sequence, how long files were at least.
    let mut lengths = BTreeMap::from([(start.sequence, start.file_bytes)]);
    for Claims { reaches, reached_bytes, .. } in own.iter().map(|image| image.claims) {
        let length = lengths.entry(reaches).or_default();
        *length = reached_bytes.max(*length);
    }
    for image in own.iter_mut() {
        let least = lengths.get(&image.sequence).copied().unwrap_or(0);
        image.claims.file_bytes = image.claims.file_bytes.max(least);
        if image.file_bytes < image.claims.file_bytes {
            return Err(image.damaged(image.file_bytes as usize, "it has been cut short"));
        }
    }
    // The next segment is made when blocks of this one are durable.
    match own.iter().rev().skip(1).find(|image| image.blocks.is_empty()) {
        Some(image) => Err(image.damaged(ALIGNMENT, "blocks that were durable are missing")),
        None => Ok(()),
    }
}

/// Follows all streams of a generation. What is before or in epoch `durable` is known to be
/// durable, from the checkpoint, which has all changes up to epoch `copied`, and some of those
/// between the two: the log must have them all.
fn follow<P: Files>(
    images: &mut [SegmentImage<P>],
    generation: &Generation,
    copied: u64,
    durable: u64,
) -> Result<Reached, LogError> {
    let needed = generation.last_epoch.unwrap_or(durable);
    let nothing = durable.max(generation.first_epoch - 1);
    let mut all = Reached { complete: u64::MAX, safe: u64::MAX, newest: generation.first_epoch, whole: 0 };
    let mut whole = u64::MAX;
    for (stream, start) in (0..).zip(&generation.starts) {
        let mut own: Vec<&mut SegmentImage<P>> =
            images.iter_mut().filter(|image| image.stream == stream && image.is_of(generation)).collect();
        check_reach(&mut own, stream, *start, generation.last_epoch.is_none())?;
        let mut chain = StreamChain {
            first: start.block,
            next: start.block,
            complete: Vec::new(),
            flushed_before: 0,
            broken: false,
            whole: 0,
        };
        for image in &mut own {
            all.newest = all.newest.max(image.join(&mut chain)?);
        }
        let complete = chain.complete.iter().copied().fold(nothing, u64::max);
        let flushed = chain.flushed_before.min(chain.next).saturating_sub(chain.first);
        let safe = chain.complete[..flushed as usize].iter().copied().fold(nothing, u64::max);
        let has = chain.complete.iter().copied().fold(copied.max(generation.first_epoch - 1), u64::max);
        if has < needed {
            let file = segment_name(stream, own.last().map_or(start.sequence, |image| image.sequence));
            let what = "epochs that were durable are missing";
            return Err(LogError::Damaged { file, offset: 0, what });
        }
        all.complete = all.complete.min(complete);
        all.safe = all.safe.min(safe);
        whole = whole.min(chain.whole);
    }
    if generation.last_epoch.is_none() {
        all.whole = count_whole(images, generation, whole);
    }
    Ok(all)
}

/// One block of the log.
#[derive(Clone, Copy, Debug)]
pub struct LogBlock<'a> {
    /// Its records, those that do not count included.
    pub payload: &'a [u8],
    counting: CountingEpochs,
}

/// Epochs of records that count: after the first, up to the second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountingEpochs(u64, u64);

impl CountingEpochs {
    /// The same for a block in which all records count that the checkpoint does not have.
    fn whole(self) -> CountingEpochs {
        CountingEpochs(self.0, u64::MAX)
    }

    pub(crate) fn has(self, record: &Record<'_>) -> bool {
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
    /// The blocks of the log: those of one stream in the order in which they were written, in which
    /// the records of one worker are in the order of their commits.
    pub fn blocks(&self) -> Vec<LogBlock<'_>> {
        let blocks = self.images.iter().flat_map(|image| {
            let bytes = image.bytes.as_ref().map_or(&[][..], |buffer| buffer.bytes());
            image.blocks.iter().enumerate().map(move |(number, seen)| {
                let payload = bytes.get(seen.from..seen.to).unwrap_or(&[]);
                LogBlock { payload, counting: self.counting(image, number) }
            })
        });
        blocks.collect()
    }

    /// Which records of a segment's block count.
    pub(crate) fn counting(&self, image: &SegmentImage<P>, block: usize) -> CountingEpochs {
        let by_epoch = CountingEpochs(self.copied_epoch, image.last);
        if block < image.whole_blocks { by_epoch.whole() } else { by_epoch }
    }

    /// The epoch up to which the checkpoint has everything, 0 without one: records that count are
    /// later.
    pub fn copied_epoch(&self) -> u64 {
        self.copied_epoch
    }

    /// Bytes of the files that are read of the log, with all space that they take.
    pub fn file_bytes(&self) -> u64 {
        self.images.iter().map(|image| image.file_bytes).sum()
    }

    /// Bytes of the log's blocks, as [`LogUse`](crate::LogUse) counts them.
    pub fn log_bytes(&self) -> u64 {
        self.images.iter().map(|image| (image.end() - ALIGNMENT) as u64).sum()
    }
}

impl<P: Files> OpenedDirectory<P> {
    /// The directory.
    pub(crate) fn directory(&self) -> &P::Directory {
        &self.directory
    }

    /// The bytes that the owner of the log keeps in the manifest.
    pub fn extra(&self) -> &[u8] {
        &self.manifest.extra
    }

    /// A reader of the checkpoint; `None` if there is no checkpoint.
    pub fn checkpoint(&self, c: P::Core) -> Result<Option<CheckpointReader<'_, P>>, LogError> {
        let Some(checkpoint) = &self.manifest.checkpoint else { return Ok(None) };
        CheckpointReader::new(c, &self.directory, self.manifest.identity, checkpoint, &self.files).map(Some)
    }

    /// The number of this opening, larger than all that were ever begun, the manifest knowing of
    /// them or not.
    pub fn opening(&self) -> u64 {
        let known = self.manifest.generations.iter().map(|generation| generation.number);
        let begun = self.log.images.iter().filter_map(|image| image.header);
        known.chain(begun.map(|header| header.generation)).max().unwrap_or(0) + 1
    }

    /// Begins a new generation: from now on the earlier ones do not change. The bytes that were
    /// read of them count as growth of the log.
    ///
    /// The order of steps: a manifest, if there is none, so that no file of the database exists
    /// without one; the first segments; the records that are written once more; the manifest with
    /// this generation, from which on its segments count; the removal of superseded files. A crash
    /// between the steps leaves files that the next opening proves to be superseded.
    pub fn begin(
        mut self,
        c: P::Core,
        extra: Vec<u8>,
        options: &LogOptions,
        workers: usize,
    ) -> Result<Log<P>, LogError> {
        if self.manifest == Manifest::default() {
            self.manifest.identity = P::fresh_identity(c, &self.directory)?;
            self.manifest.write::<P>(c, &mut self.queue)?;
        }
        let own = self.own_files();
        let number = self.opening();
        let streams = 0..options.streams.len() as u32;
        let sequence = |stream| self.sequences.get(&stream).copied().unwrap_or(0);
        let mut generation = Generation {
            number,
            identity: P::fresh_identity(c, &self.directory)?,
            starts: streams
                .map(|stream| StreamStart { sequence: sequence(stream), ..StreamStart::default() })
                .collect(),
            first_epoch: self.first_epoch - EPOCHS_AHEAD,
            last_epoch: None,
        };
        let mut log = Log::begin(c, self.directory, self.manifest.identity, &generation, options, workers)?;
        generation.starts = log.starts();
        let safe = self.log.safe_epoch;
        let blocks = self.log.blocks();
        let again = blocks.iter().flat_map(|block| block.records()).filter(|record| record.epoch > safe);
        log.write_again(c, again, generation.first_epoch)?;
        log.grow(c, self.log.log_bytes());
        let former_bytes = self.log.file_bytes();
        self.log.images.clear();
        if let Some(last) = self.manifest.generations.last_mut() {
            last.last_epoch = Some(safe.max(last.first_epoch - 1));
        }
        self.manifest.generations.push(generation);
        self.manifest.extra = extra;
        self.manifest.write::<P>(c, &mut self.queue)?;
        self.retention.database = self.manifest.identity;
        let mut writer = ManifestWriter {
            manifest: self.manifest,
            queue: self.queue,
            own,
            leaving: self.superseded,
            last_checkpoint: self.last_checkpoint,
            retention: self.retention,
            has_retention_file: self.files.iter().any(|entry| entry.name == RETENTION),
            retained_bytes_max: options.retained_bytes,
            open_readers: Vec::new(),
            last_reader: 0,
        };
        writer.remove_leaving(c);
        log.keep_manifest(writer, former_bytes);
        Ok(log)
    }

    /// The files that the manifest needs, but for itself, and those that readers of changes need.
    fn own_files(&self) -> Vec<String> {
        let known = |image: &&SegmentImage<P>| {
            self.manifest.generations.iter().any(|generation| image.is_of(generation))
        };
        let segments = self.log.images.iter().filter(known).map(SegmentImage::name);
        let own: BTreeSet<_> =
            segments.chain(self.manifest.checkpoint.iter().flat_map(Checkpoint::names)).collect();
        let names = self.files.iter().map(|entry| &entry.name);
        let retained: Vec<_> =
            names.filter(|name| self.retention.needs(name) && !own.contains(*name)).cloned().collect();
        own.into_iter().chain(retained).collect()
    }
}
