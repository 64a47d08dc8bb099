//! The file that says what a directory is: `isles.manifest`, written anew as a whole and renamed into place.
//!
//! ```text
//! magic 8 | format 4 | length 4 | crc 4 of all that | generations | checkpoint 8 | parts 4 | zeros 4 | extra
//! ```

use platform::files::{Access, Buffer, Existence, Files, Operation};

use super::error::LogError;
use super::format::{FORMAT, u32_at, u64_at};

/// The manifest's name, and the name it has while it is being written.
pub const MANIFEST: &str = "isles.manifest";
const NEW_MANIFEST: &str = "isles.manifest.new";

const MAGIC: [u8; 8] = *b"ISLESDB\n";
const HEADER_BYTES: usize = 20;
const GENERATION_BYTES: usize = 32;
const CHECKPOINT_BYTES: usize = 16;

/// One opening of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// Streams that it writes.
    pub streams: u32,
    /// Its first epoch: all of former generations are smaller.
    pub first_epoch: u64,
    /// Its last epoch that counts, once it is known: what is later was never acknowledged, and is never read.
    pub last_epoch: Option<u64>,
}

/// A copy of all rows, as they were between two generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number, from 1.
    pub number: u64,
    /// Files that it consists of.
    pub parts: u32,
}

/// What a directory is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// All openings that left something in the log, the last one being under way.
    pub generations: Vec<Generation>,
    /// What the generations build on.
    pub checkpoint: Option<Checkpoint>,
    /// What the log's owner wants to know at the next opening: tables, for example.
    pub extra: Vec<u8>,
}

impl Manifest {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&(self.generations.len() as u32).to_le_bytes());
        for generation in &self.generations {
            body.extend_from_slice(&generation.number.to_le_bytes());
            body.extend_from_slice(&generation.first_epoch.to_le_bytes());
            body.extend_from_slice(&generation.last_epoch.unwrap_or(u64::MAX).to_le_bytes());
            body.extend_from_slice(&generation.streams.to_le_bytes());
            body.extend_from_slice(&[0; 4]);
        }
        let Checkpoint { number, parts } = self.checkpoint.unwrap_or(Checkpoint { number: 0, parts: 0 });
        body.extend_from_slice(&number.to_le_bytes());
        body.extend_from_slice(&parts.to_le_bytes());
        body.extend_from_slice(&[0; 4]);
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
        // A newer version may have another checksum, or none here.
        if format > FORMAT {
            return Err(LogError::Format { found: format, known: FORMAT });
        }
        let whole = body.len() == u32_at(bytes, 12) as usize;
        if !whole || crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), body) != u32_at(bytes, 16) {
            return damaged(16, "its checksum does not fit");
        }
        let count = u32_at(body, 0) as usize;
        let list_end = count.saturating_mul(GENERATION_BYTES).saturating_add(4);
        let lists = body.get(4..list_end).zip(body.get(list_end..list_end.saturating_add(CHECKPOINT_BYTES)));
        let Some((list, checkpoint)) = lists else { return damaged(HEADER_BYTES, "it is too short") };
        let checkpoint = Checkpoint { number: u64_at(checkpoint, 0), parts: u32_at(checkpoint, 8) };
        let generation = |part: &[u8]| Generation {
            number: u64_at(part, 0),
            first_epoch: u64_at(part, 8),
            last_epoch: Some(u64_at(part, 16)).filter(|epoch| *epoch != u64::MAX),
            streams: u32_at(part, 24),
        };
        Ok(Manifest {
            generations: list.chunks_exact(GENERATION_BYTES).map(generation).collect(),
            checkpoint: Some(checkpoint).filter(|checkpoint| checkpoint.number > 0),
            extra: body[list_end + CHECKPOINT_BYTES..].to_vec(),
        })
    }

    /// Reads the manifest of a directory; `None` if there is none.
    pub fn read<P: Files>(c: P::Core, queue: &mut P::Queue) -> Result<Option<Manifest>, LogError> {
        let entries = P::perform(c, queue, Operation::List).into_entries()?;
        let Some(entry) = entries.iter().find(|entry| entry.name == MANIFEST) else { return Ok(None) };
        let open =
            Operation::Open { name: MANIFEST.into(), existence: Existence::Old, access: Access::Cached };
        let file = P::perform(c, queue, open).into_file()?;
        let buffer = Buffer::new(c, None, entry.bytes as usize, "manifest")?;
        let completion = P::perform(c, queue, Operation::Read { file, offset: 0, buffer });
        completion.bytes()?;
        Manifest::decode(completion.buffers.first().map_or(&[], Buffer::bytes)).map(Some)
    }

    /// Writes it in place of the one before: after a crash there is the one or the other.
    pub fn write<P: Files>(&self, c: P::Core, queue: &mut P::Queue) -> Result<(), LogError> {
        // What a crash left behind; mostly there is nothing.
        let _ = P::perform(c, queue, Operation::Remove { name: NEW_MANIFEST.into() });
        let open =
            Operation::Open { name: NEW_MANIFEST.into(), existence: Existence::New, access: Access::Cached };
        let file = P::perform(c, queue, open).into_file()?;
        let bytes = self.encode();
        let mut buffer = Buffer::new(c, None, bytes.len(), "manifest")?;
        buffer.append(c, &bytes);
        let rename = Operation::Rename { from: NEW_MANIFEST.into(), to: MANIFEST.into() };
        let write = Operation::Write { file: file.clone(), offset: 0, buffers: vec![buffer] };
        for operation in [write, Operation::Flush { file }, rename, Operation::FlushDirectory] {
            P::perform(c, queue, operation).result?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let generation = |number, last_epoch| Generation { number, streams: 2, first_epoch: 5, last_epoch };
        Manifest {
            generations: vec![generation(1, Some(8)), generation(2, None)],
            checkpoint: Some(Checkpoint { number: 7, parts: 3 }),
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
    fn a_newer_format_is_named() {
        let mut bytes = manifest().encode();
        bytes[8] = 9;
        assert_eq!(Manifest::decode(&bytes), Err(LogError::Format { found: 9, known: FORMAT }));
    }
}
