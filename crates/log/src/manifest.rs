//! The file that identifies a directory: `isles.manifest`, written anew as a whole and renamed
//! into place.
//!
//! ```text
//! magic 8 | format 4 | length 4 | crc 4 of all that | identity 8 | count 4 | generations | checkpoint | extra
//! generation: number 8 | identity 8 | first epoch 8 | last epoch 8 | streams 4 | zeros 4 | starts
//! start:      segment 8 | block 8 | file bytes 8
//! checkpoint: number 8 | identity 8 | files 4 | zeros 4 | epoch 8 | end 8
//! ```
//!
//! It is the first file of a database to be durable, without a generation then: files of a database
//! without a manifest are what is left of one that has lost its manifest.

use platform::files::{Access, Buffer, Existence, Files, Operation};

use crate::error::LogError;
use crate::format::{FORMAT, check_format, u32_at, u64_at};
use crate::names::{
    MANIFEST, NEW_MANIFEST, checkpoint_file_name, parse_checkpoint_file_name, parse_segment_name,
};

const MAGIC: [u8; 8] = *b"ISLESDB\n";
const HEADER_BYTES: usize = 20;
const GENERATION_BYTES: usize = 40;
const STARTS_BYTES: usize = 8;
const START_BYTES: usize = 24;
const CHECKPOINT_BYTES: usize = 40;

/// The first block of a stream that recovery needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamStart {
    /// The sequence of the segment, which was durable before the manifest named it.
    pub sequence: u64,
    /// The number of its first block.
    pub block: u64,
    /// The length that its file had, durably.
    pub file_bytes: u64,
}

/// The log of one opening of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// The number that was drawn for it, which all its segments and blocks have.
    pub identity: u64,
    /// The first segment of each stream that it writes and that is still needed.
    pub starts: Vec<StreamStart>,
    /// Its first epoch: all of former generations are smaller.
    pub first_epoch: u64,
    /// Its last epoch that counts, once it is known: what is later was never acknowledged, and is
    /// never read.
    pub last_epoch: Option<u64>,
}

impl Generation {
    /// Appends its bytes.
    pub(crate) fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.number.to_le_bytes());
        to.extend_from_slice(&self.identity.to_le_bytes());
        to.extend_from_slice(&self.first_epoch.to_le_bytes());
        to.extend_from_slice(&self.last_epoch.unwrap_or(u64::MAX).to_le_bytes());
        put_starts(&self.starts, to);
    }

    /// Reads what [`Self::put`] wrote.
    pub(crate) fn take(rest: &mut &[u8]) -> Option<Generation> {
        let fixed = take(rest, GENERATION_BYTES - STARTS_BYTES)?;
        Some(Generation {
            number: u64_at(fixed, 0),
            identity: u64_at(fixed, 8),
            first_epoch: u64_at(fixed, 16),
            last_epoch: Some(u64_at(fixed, 24)).filter(|epoch| *epoch != u64::MAX),
            starts: take_starts(rest)?,
        })
    }
}

/// Appends the number of these starts, and the starts.
pub(crate) fn put_starts(starts: &[StreamStart], to: &mut Vec<u8>) {
    to.extend_from_slice(&(starts.len() as u32).to_le_bytes());
    to.extend_from_slice(&[0; 4]);
    for StreamStart { sequence, block, file_bytes } in starts {
        to.extend_from_slice(&sequence.to_le_bytes());
        to.extend_from_slice(&block.to_le_bytes());
        to.extend_from_slice(&file_bytes.to_le_bytes());
    }
}

/// Reads what [`put_starts`] wrote.
pub(crate) fn take_starts(rest: &mut &[u8]) -> Option<Vec<StreamStart>> {
    let count = u32_at(take(rest, STARTS_BYTES)?, 0) as usize;
    let starts = take(rest, count.checked_mul(START_BYTES)?)?;
    let start = |start| StreamStart {
        sequence: u64_at(start, 0),
        block: u64_at(start, 8),
        file_bytes: u64_at(start, 16),
    };
    Some(starts.chunks_exact(START_BYTES).map(start).collect())
}

/// Takes this many bytes.
pub(crate) fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, others) = rest.split_at_checked(bytes)?;
    *rest = others;
    Some(taken)
}

/// A copy of all rows, each as it was at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number, from 1.
    pub number: u64,
    /// The number that was drawn for it, which all its files and blocks have.
    pub identity: u64,
    /// Files that it consists of.
    pub files: u32,
    /// The copy has the changes of all records up to this epoch, which do not count any more.
    pub epoch: u64,
    /// The copy has changes of records up to this epoch at most, and the streams called it complete
    /// when the copy ended: they have all of these records that are later than [`Self::epoch`],
    /// some of which the copy has in part.
    pub end: u64,
}

impl Checkpoint {
    /// The names of its files.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> + use<> {
        let number = self.number;
        (0..self.files).map(move |file| checkpoint_file_name(number, file))
    }
}

/// The root of a directory: generations, checkpoint, and the owner's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// A number that was drawn when the database was made: its files have it.
    pub identity: u64,
    /// All openings that left something in the log, the last one being under way.
    pub generations: Vec<Generation>,
    /// The copy of all rows that the generations are applied to.
    pub checkpoint: Option<Checkpoint>,
    /// Bytes that the log's owner reads at the next opening: tables, for example.
    pub extra: Vec<u8>,
}

impl Manifest {
    /// Returns true if the database needs a file of this name. It needs the segments from the first
    /// one of the oldest generation on.
    pub fn needs(&self, name: &str) -> bool {
        if let Some((number, _)) = parse_checkpoint_file_name(name) {
            return self.checkpoint.is_some_and(|checkpoint| checkpoint.number == number);
        }
        let Some((stream, sequence)) = parse_segment_name(name) else { return true };
        let starts = self.generations.iter().filter_map(|generation| generation.starts.get(stream as usize));
        starts.min().is_some_and(|start| sequence >= start.sequence)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = self.identity.to_le_bytes().to_vec();
        body.extend_from_slice(&(self.generations.len() as u32).to_le_bytes());
        self.generations.iter().for_each(|generation| generation.put(&mut body));
        let none = Checkpoint { number: 0, identity: 0, files: 0, epoch: 0, end: 0 };
        let Checkpoint { number, identity, files, epoch, end } = self.checkpoint.unwrap_or(none);
        body.extend_from_slice(&number.to_le_bytes());
        body.extend_from_slice(&identity.to_le_bytes());
        body.extend_from_slice(&files.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&epoch.to_le_bytes());
        body.extend_from_slice(&end.to_le_bytes());
        body.extend_from_slice(&self.extra);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Reads what [`Self::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, LogError> {
        let damaged = |offset: usize, what| {
            Err(LogError::Damaged { file: MANIFEST.into(), offset: offset as u64, what })
        };
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return damaged(0, "it is no manifest");
        }
        let format = u32_at(bytes, 8);
        let body = &bytes[HEADER_BYTES..];
        // Another version may have another checksum, or none here.
        check_format(format)?;
        let whole = body.len() == u32_at(bytes, 12) as usize;
        if !whole || crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), body) != u32_at(bytes, 16) {
            return damaged(16, "its checksum does not fit");
        }
        Manifest::decode_body(body).map_or_else(|| damaged(HEADER_BYTES, "it is too short"), Ok)
    }

    fn decode_body(body: &[u8]) -> Option<Manifest> {
        let (first, mut rest) = body.split_at_checked(12)?;
        let mut generations = Vec::new();
        for _ in 0..u32_at(first, 8) {
            generations.push(Generation::take(&mut rest)?);
        }
        let fixed = take(&mut rest, CHECKPOINT_BYTES)?;
        let checkpoint = Checkpoint {
            number: u64_at(fixed, 0),
            identity: u64_at(fixed, 8),
            files: u32_at(fixed, 16),
            epoch: u64_at(fixed, 24),
            end: u64_at(fixed, 32),
        };
        let checkpoint = Some(checkpoint).filter(|checkpoint| checkpoint.number > 0);
        Some(Manifest { identity: u64_at(first, 0), generations, checkpoint, extra: rest.to_vec() })
    }

    /// Reads the manifest of a directory; `None` if there is none.
    pub fn read<P: Files>(c: P::Core, queue: &mut P::Queue) -> Result<Option<Manifest>, LogError> {
        let bytes = read_small::<P>(c, queue, MANIFEST)?;
        bytes.map(|buffer| Manifest::decode(buffer.bytes())).transpose()
    }

    /// Checks the file under the name of a new manifest before a manifest is written there. A crash
    /// leaves a partly written manifest under that name, which nothing relies on. A whole manifest
    /// of another database is never the result of a crash, so it is refused.
    ///
    /// # Errors
    /// It is a manifest of another database; or of one whose own manifest is not there, with rows.
    pub(crate) fn check_new<P: Files>(
        c: P::Core,
        queue: &mut P::Queue,
        current: Option<&Manifest>,
    ) -> Result<(), LogError> {
        let Some(buffer) = read_small::<P>(c, queue, NEW_MANIFEST)? else { return Ok(()) };
        let Ok(new) = Manifest::decode(buffer.bytes()) else { return Ok(()) };
        let is_own = match current {
            Some(current) => current.identity == new.identity,
            None => new.generations.is_empty(),
        };
        if is_own { Ok(()) } else { Err(LogError::Foreign(NEW_MANIFEST.into())) }
    }

    /// Writes the manifest in place of the one before: after a crash the directory has one of the
    /// two.
    pub fn write<P: Files>(&self, c: P::Core, queue: &mut P::Queue) -> Result<(), LogError> {
        self.prepare::<P>(c, queue)?;
        Manifest::put_in_place::<P>(c, queue)
    }

    /// Makes durable what [`Self::put_in_place`] takes. The directory has the manifest before,
    /// whether or not this fails.
    pub(crate) fn prepare<P: Files>(&self, c: P::Core, queue: &mut P::Queue) -> Result<(), LogError> {
        prepare_file::<P>(c, queue, NEW_MANIFEST, &self.encode())
    }

    /// Replaces the manifest by the one that was prepared. If this fails, which of the two the
    /// directory has is not known.
    pub(crate) fn put_in_place<P: Files>(c: P::Core, queue: &mut P::Queue) -> Result<(), LogError> {
        put_file_in_place::<P>(c, queue, NEW_MANIFEST, MANIFEST)
    }
}

/// Makes a new file of this name durable.
pub(crate) fn prepare_file<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    name: &str,
    bytes: &[u8],
) -> Result<(), LogError> {
    // A crash may have left a file; mostly there is none. If there is, its name goes for good: it
    // must not take the place of the other file.
    if P::perform(c, queue, Operation::Remove { name: name.into() }).result.is_ok() {
        P::perform(c, queue, Operation::FlushDirectory).result?;
    }
    let open = Operation::Open { name: name.into(), existence: Existence::New, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let mut buffer = Buffer::new(c, None, bytes.len(), "manifest")?;
    buffer.append(c, bytes);
    let write = Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] };
    P::perform(c, queue, write).result?;
    P::perform(c, queue, Operation::Flush { file }).result?;
    Ok(())
}

/// Renames a file that was prepared, durably.
pub(crate) fn put_file_in_place<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    from: &str,
    to: &str,
) -> Result<(), LogError> {
    P::perform(c, queue, Operation::Rename { from: from.into(), to: to.into() }).result?;
    P::perform(c, queue, Operation::FlushDirectory).result?;
    Ok(())
}

/// A whole file; `None` if it is not there.
pub(crate) fn read_small<P: Files>(
    c: P::Core,
    queue: &mut P::Queue,
    name: &str,
) -> Result<Option<Buffer<P>>, LogError> {
    let entries = P::perform(c, queue, Operation::List).into_entries()?;
    let Some(entry) = entries.iter().find(|entry| entry.name == name) else { return Ok(None) };
    let open = Operation::Open { name: name.into(), existence: Existence::Old, access: Access::Cached };
    let file = P::perform(c, queue, open).into_file()?;
    let buffer = Buffer::new(c, None, entry.bytes as usize, "manifest")?;
    let mut completion = P::perform(c, queue, Operation::Read { file, offset: 0, buffer });
    completion.bytes()?;
    Ok(completion.buffers.pop())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::FORMAT_OLDEST;

    fn manifest() -> Manifest {
        let starts = vec![
            StreamStart { sequence: 2, block: 7, file_bytes: 9 },
            StreamStart { sequence: 4, ..StreamStart::default() },
        ];
        let generation = |number, last_epoch| Generation {
            number,
            identity: 70 + number,
            starts: starts.clone(),
            first_epoch: 5,
            last_epoch,
        };
        Manifest {
            identity: 9,
            generations: vec![generation(1, Some(8)), generation(2, None)],
            checkpoint: Some(Checkpoint { number: 7, identity: 8, files: 3, epoch: 4, end: 6 }),
            extra: vec![1, 2, 3],
        }
    }

    #[test]
    fn a_manifest_is_read_as_written_and_every_flipped_bit_is_seen() {
        let mut bytes = manifest().encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
        for place in 0..bytes.len() * 8 {
            bytes[place / 8] ^= 1 << (place % 8);
            assert!(Manifest::decode(&bytes).is_err(), "bit {place}");
            bytes[place / 8] ^= 1 << (place % 8);
        }
        for length in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn the_oldest_format_is_read() {
        let mut bytes = manifest().encode();
        bytes[8] = FORMAT_OLDEST as u8;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[HEADER_BYTES..]);
        bytes[16..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
    }

    #[test]
    fn another_format_is_named() {
        let mut bytes = manifest().encode();
        // Older or newer.
        for found in [FORMAT_OLDEST - 1, FORMAT + 6] {
            bytes[8] = found as u8;
            assert_eq!(Manifest::decode(&bytes), Err(LogError::Format { found, known: FORMAT }));
        }
    }
}
