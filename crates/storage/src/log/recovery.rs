//! What a log says after the process that wrote it is gone.
//!
//! What can be read is not always durable: after the end of a process alone, the operating system's cache still has what was
//! never flushed, or what could not be. Known to be durable is what a later block says was flushed before it. Records beyond
//! that, up to the last complete epoch, count too (they may have been acknowledged), and are written once more into the new
//! generation, before the manifest knows of it; the old one ends before them.

use std::path::Path;

use platform::files::{Access, Buffer, Entry, Existence, Files, Operation};

use super::archive::Archive;
use super::checkpoint::{self, PartWriter, parse_part_name, part_name};
use super::error::LogError;
use super::format::{ALIGNMENT, BLOCK_HEADER_BYTES, BlockHeader, Record, Records, SegmentHeader, block};
use super::manifest::{Checkpoint, Generation, MANIFEST, Manifest};
use super::stream::{parse_segment_name, segment_name};
use super::{Log, LogOptions};

/// From the first epoch of a generation, which has what is written once more, to the first one of its transactions: what is
/// complete when they begin is later than the former.
const EPOCHS_AHEAD: u64 = 3;

/// One segment in memory.
pub(super) struct Image<P: Files> {
    pub(super) stream: u32,
    pub(super) sequence: u64,
    pub(super) bytes: Buffer<P>,
    pub(super) header: Option<SegmentHeader>,
    /// The payloads of its blocks in the chain: where, and the last epoch that counts.
    pub(super) payloads: Vec<(usize, usize, u64)>,
}

/// A part of a checkpoint, and where its payloads are.
type Part<P> = (Buffer<P>, Vec<(usize, usize)>);

/// Records that count.
pub struct Contents<P: Files> {
    pub(super) images: Vec<Image<P>>,
    /// The checkpoint's parts, and where their payloads are.
    parts: Vec<Part<P>>,
    /// The epoch up to which the checkpoint has everything.
    copied_epoch: u64,
    /// The last epoch that counts, over all generations.
    pub last_epoch: u64,
    /// The same, of what is known to be durable: what is between the two is in the last generation.
    safe_epoch: u64,
}

/// A directory that was opened, and not written yet.
pub struct Opened<P: Files> {
    directory: P::Directory,
    queue: P::Queue,
    pub(super) manifest: Manifest,
    /// What is in the log.
    pub contents: Contents<P>,
    /// Whether the directory held a database.
    pub existed: bool,
    /// First epoch of transactions to come.
    pub first_epoch: u64,
    sequences: Vec<u64>,
    /// All files that there were.
    names: Vec<String>,
    /// A new checkpoint, once it is written.
    checkpoint: Option<Checkpoint>,
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

/// How far a generation was read, and what of it is known to be durable: the last epochs. And the largest that occurs.
#[derive(Clone, Copy)]
struct Reached {
    complete: u64,
    safe: u64,
    newest: u64,
}

/// Opens and locks the database in a directory, which is made if it is not there, and reads its log.
///
/// # Errors
/// The directory is something else, or what was durable is damaged, or a newer version wrote it.
pub fn open<P: Files>(c: P::Core, path: &Path) -> Result<Opened<P>, LogError> {
    find(c, P::open_directory(c, path, true)?, path)
}

/// Reads the log in an opened directory.
pub(super) fn find<P: Files>(
    c: P::Core,
    directory: P::Directory,
    path: &Path,
) -> Result<Opened<P>, LogError> {
    let mut queue = P::queue(c, &directory)?;
    let found = Manifest::read::<P>(c, &mut queue)?;
    let existed = found.is_some();
    let manifest = found.unwrap_or_default();
    let entries = P::perform(c, &mut queue, Operation::List).into_entries()?;
    let foreign = |name: &str| {
        parse_segment_name(name).is_none()
            && parse_part_name(name).is_none()
            && !name.starts_with("spare-")
            && !name.starts_with(MANIFEST)
    };
    if !existed && entries.iter().any(|entry| foreign(&entry.name)) {
        return Err(LogError::NotADatabase(path.to_path_buf()));
    }
    let mut images = Vec::new();
    let mut sequences = Vec::new();
    for entry in &entries {
        let Some((stream, sequence)) = parse_segment_name(&entry.name) else { continue };
        sequences.resize(sequences.len().max(stream as usize + 1), 0);
        sequences[stream as usize] = sequences[stream as usize].max(sequence + 1);
        let bytes = read(c, &mut queue, &entry.name, entry.bytes)?;
        let header = SegmentHeader::fetch(bytes.bytes())?;
        let header = header.filter(|header| (header.stream, header.sequence) == (stream, sequence));
        images.push(Image { stream, sequence, bytes, header, payloads: Vec::new() });
    }
    images.sort_by_key(|image| (image.stream, image.sequence));
    let reached = follow_all(&mut images, &manifest)?;
    let first = manifest.generations.last().map_or(0, |generation| generation.first_epoch + EPOCHS_AHEAD);
    let first_epoch = reached.newest.max(first) + 1 + EPOCHS_AHEAD;
    let parts = read_checkpoint(c, &mut queue, &manifest, &entries)?;
    let contents = Contents {
        images,
        parts,
        copied_epoch: manifest.checkpoint.map_or(0, |checkpoint| checkpoint.epoch),
        last_epoch: reached.complete,
        safe_epoch: reached.safe,
    };
    let names = entries.into_iter().map(|entry| entry.name).collect();
    Ok(Opened {
        directory,
        queue,
        manifest,
        contents,
        existed,
        first_epoch,
        sequences,
        names,
        checkpoint: None,
    })
}

fn read_checkpoint<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    manifest: &Manifest,
    entries: &[Entry],
) -> Result<Vec<Part<P>>, LogError> {
    let Some(Checkpoint { number, parts, .. }) = manifest.checkpoint else { return Ok(Vec::new()) };
    let part = |part: u32| {
        let name = part_name(number, part);
        let bytes = entries.iter().find(|entry| entry.name == name).map_or(0, |entry| entry.bytes);
        let buffer = read(c, queue, &name, bytes)?;
        let payloads = checkpoint::follow(buffer.bytes(), &name, (number, part))?;
        Ok((buffer, payloads))
    };
    (0..parts).map(part).collect()
}

fn read<P: Files>(c: P::Core, queue: &mut P::Queue, name: &str, bytes: u64) -> Result<Buffer<P>, LogError> {
    let open = Operation::Open { name: name.into(), existence: Existence::Old, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let buffer = Buffer::new(c, None, bytes as usize, "segment")?;
    let mut completion = P::perform(c, queue, Operation::Read { file, offset: 0, buffer });
    completion.bytes()?;
    match completion.buffers.pop() {
        Some(buffer) => Ok(buffer),
        None => Ok(Buffer::new(c, None, ALIGNMENT, "segment")?),
    }
}

/// Finds what counts of all generations.
fn follow_all<P: Files>(images: &mut [Image<P>], manifest: &Manifest) -> Result<Reached, LogError> {
    let durable = manifest.checkpoint.map_or(0, |checkpoint| checkpoint.end);
    let mut all = Reached { complete: durable, safe: durable, newest: durable };
    for generation in &manifest.generations {
        let reached = follow(images, generation, durable)?;
        let last = generation.last_epoch.unwrap_or(reached.complete);
        for payload in images
            .iter_mut()
            .filter(|image| image.is_of(generation))
            .flat_map(|image| image.payloads.iter_mut())
        {
            payload.2 = last;
        }
        all.complete = all.complete.max(last);
        all.safe = all.safe.max(generation.last_epoch.unwrap_or(reached.safe));
        all.newest = all.newest.max(reached.newest).max(last);
    }
    Ok(all)
}

impl<P: Files> Image<P> {
    /// Whether it belongs to a generation, and is still needed.
    fn is_of(&self, generation: &Generation) -> bool {
        let start = generation.starts.get(self.stream as usize);
        let needed = start.is_some_and(|start| self.sequence >= *start);
        needed && self.header.is_some_and(|header| header.generation == generation.number)
    }

    /// Follows the chain of blocks through this segment; the largest epoch that occurs.
    fn follow(&mut self, generation: u64, chain: &mut Chain) -> Result<u64, LogError> {
        let (mut at, mut newest) = (ALIGNMENT, 0);
        let all = self.bytes.bytes();
        while !chain.broken && at < all.len() {
            let found = block(&all[at..]);
            let expected = (self.stream, generation, chain.next);
            let Some((header, payload)) =
                found.filter(|(header, _)| (header.stream, header.generation, header.number) == expected)
            else {
                break;
            };
            newest = Records::new(payload).map(|record| record.epoch).fold(newest, u64::max);
            chain.complete.push(header.complete);
            chain.flushed_before = chain.flushed_before.max(header.flushed_before);
            chain.next += 1;
            let start = at + BLOCK_HEADER_BYTES;
            self.payloads.push((start, start + payload.len(), 0));
            at += header.block_bytes();
        }
        self.look_for_damage(at, generation, chain.next)?;
        Ok(chain.complete.iter().copied().fold(newest, u64::max))
    }

    /// Whether a block behind the end of the chain shows that what is missing was durable.
    fn look_for_damage(&self, from: usize, generation: u64, next: u64) -> Result<(), LogError> {
        let all = self.bytes.bytes();
        let mut at = from;
        while at < all.len() {
            if let Some(header) = BlockHeader::fetch(&all[at..])
                && header.generation == generation
                && header.stream == self.stream
                && header.flushed_before > next
            {
                return Err(self.damaged(from, "a block that was durable cannot be read"));
            }
            at += ALIGNMENT;
        }
        Ok(())
    }

    fn damaged(&self, at: usize, what: &'static str) -> LogError {
        let file = segment_name(self.stream, self.sequence);
        LogError::Damaged { file, offset: at as u64, what }
    }
}

/// Follows all streams of a generation. What is before or in epoch `durable` is known to be durable, from elsewhere.
fn follow<P: Files>(
    images: &mut [Image<P>],
    generation: &Generation,
    durable: u64,
) -> Result<Reached, LogError> {
    let nothing = durable.max(generation.first_epoch - 1);
    let mut all = Reached { complete: u64::MAX, safe: u64::MAX, newest: generation.first_epoch };
    for (stream, start) in (0..).zip(&generation.starts) {
        let mut own: Vec<&mut Image<P>> =
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
            all.newest = all.newest.max(image.follow(generation.number, &mut chain)?);
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

impl<P: Files> Contents<P> {
    /// Visits all records that count: those of one stream in the order in which their blocks were written, in which those of
    /// one worker are in the order of their commits.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        self.record_blocks().into_iter().flatten()
    }

    /// The same, divided into blocks.
    pub fn record_blocks(&self) -> Vec<impl Iterator<Item = Record<'_>> + Clone> {
        let copied = self.copied_epoch;
        let blocks = self.images.iter().flat_map(|image| {
            image.payloads.iter().map(move |(from, to, last)| {
                let last = *last;
                Records::new(&image.bytes.bytes()[*from..*to])
                    .filter(move |record| record.epoch > copied && record.epoch <= last)
            })
        });
        blocks.collect()
    }

    /// The rows of the checkpoint, divided into blocks: each a record whose stamp and epoch mean nothing.
    pub fn checkpoint_blocks(&self) -> Vec<impl Iterator<Item = Record<'_>> + Clone> {
        let blocks = self.parts.iter().flat_map(|(bytes, payloads)| {
            payloads.iter().map(|(from, to)| Records::new(&bytes.bytes()[*from..*to]))
        });
        blocks.collect()
    }

    /// How many rows the checkpoint has.
    pub fn checkpoint_rows(&self) -> u64 {
        self.checkpoint_blocks().into_iter().map(|block| block.count() as u64).sum()
    }

    /// The epoch up to which the checkpoint has everything, 0 without one: records that count are later.
    pub fn copied_epoch(&self) -> u64 {
        self.copied_epoch
    }

    /// Bytes of the checkpoint.
    pub fn checkpoint_bytes(&self) -> u64 {
        self.parts.iter().map(|(bytes, _)| bytes.len() as u64).sum()
    }

    /// Bytes of records in the log, those that do not count included.
    pub fn log_bytes(&self) -> u64 {
        let payloads = self.images.iter().flat_map(|image| &image.payloads);
        payloads.map(|(from, to, _)| (to - from) as u64).sum()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.images.clear();
        self.parts.clear();
    }
}

impl<P: Files> Opened<P> {
    /// Begins a checkpoint of one part; [`Self::checkpointed`] ends it. It stands for all that was found.
    pub fn begin_checkpoint(&self, c: P::Core) -> Result<PartWriter<P>, LogError> {
        PartWriter::new(c, &self.directory, (self.next_checkpoint(), 0), None)
    }

    fn next_checkpoint(&self) -> u64 {
        self.manifest.checkpoint.map_or(1, |checkpoint| checkpoint.number + 1)
    }

    /// The part that was begun is finished: it takes the place of the log with the new generation.
    pub fn checkpointed(&mut self) {
        let epoch = self.contents.last_epoch;
        self.checkpoint = Some(Checkpoint { number: self.next_checkpoint(), parts: 1, epoch, end: epoch });
    }

    /// What the owner of the log left in the manifest.
    pub fn extra(&self) -> &[u8] {
        &self.manifest.extra
    }

    /// Begins a new generation: from now on nothing changes about what the ones before say.
    pub fn begin(
        mut self,
        c: P::Core,
        extra: Vec<u8>,
        options: &LogOptions,
        workers: usize,
    ) -> Result<Log<P>, LogError> {
        for name in self.names.iter().filter(|name| name.starts_with("spare-")) {
            P::perform(c, &mut self.queue, Operation::Remove { name: name.clone() }).result?;
        }
        // Larger than all that were ever begun, the manifest knowing of them or not.
        let known = self.manifest.generations.iter().map(|generation| generation.number);
        let begun = self.contents.images.iter().filter_map(|image| image.header);
        let last = known.chain(begun.map(|header| header.generation)).max();
        let number = last.unwrap_or(0) + 1;
        let streams = 0..options.streams.len();
        let generation = Generation {
            number,
            starts: streams.map(|stream| self.sequences.get(stream).copied().unwrap_or(0)).collect(),
            first_epoch: self.first_epoch - EPOCHS_AHEAD,
            last_epoch: None,
        };
        let mut log = Log::begin(c, self.directory, &generation, options, workers)?;
        let safe = self.contents.safe_epoch;
        match self.checkpoint {
            Some(_) => {
                self.manifest.checkpoint = self.checkpoint;
                self.manifest.generations.clear();
            }
            None => {
                let again = self.contents.records().filter(|record| record.epoch > safe);
                log.write_again(c, again, generation.first_epoch)?;
            }
        }
        self.contents.clear();
        if let Some(last) = self.manifest.generations.last_mut() {
            last.last_epoch = Some(safe.max(last.first_epoch - 1));
        }
        self.manifest.generations.push(generation);
        self.manifest.extra = extra;
        self.manifest.write::<P>(c, &mut self.queue)?;
        remove_old::<P>(c, &mut self.queue, self.names, &self.manifest)?;
        log.keep_archive(Archive::new(self.manifest, self.queue));
        Ok(log)
    }
}

/// Removes those of the files found that the manifest does not need. A crash on the way leaves some of them for the next
/// opening.
fn remove_old<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    names: Vec<String>,
    manifest: &Manifest,
) -> Result<(), LogError> {
    for name in names.into_iter().filter(|name| !manifest.needs(name)) {
        P::perform(c, queue, Operation::Remove { name }).result?;
    }
    Ok(())
}
