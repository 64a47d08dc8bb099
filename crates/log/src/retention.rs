//! Superseded segments that readers of changes still need, and the file that says so.
//!
//! A checkpoint supersedes all segments before its cut. Where readers of changes are behind the
//! cut, these segments stay, under their names, until the readers have passed the cut, or until
//! the segments take more space than the options allow. The file `isles.changes` has what the
//! manifest forgets: former generations with their ends, the cuts, the descriptions of tables at
//! these cuts, and the registered readers. It is written before the manifest that forgets, so
//! everything in it is true whether or not that manifest follows. A database without readers has
//! no such file.
//!
//! ```text
//! magic 8 | format 4 | length 4 | crc 4 of all that | database 8 | floor 8
//! generations 4 | generations as in the manifest
//! cuts 4 | each: generation 8 | epoch 8 | starts as in the manifest | length 4 | extra bytes
//! readers 4 | each: length 4 | name | generation 8 | stamp 8
//! ```

use std::collections::BTreeMap;

use platform::files::{Entry, Files};
use terms::Epoch;

use crate::error::LogError;
use crate::format::{u32_at, u64_at};
use crate::manifest::{
    Generation, Manifest, StreamStart, prepare_file, put_file_in_place, put_starts, read_small, take,
    take_starts,
};
use crate::names::{NEW_RETENTION, RETENTION, parse_segment_name, segment_name};

const MAGIC: [u8; 8] = *b"ISLESCHG";
const FORMAT: u32 = 1;
const HEADER_BYTES: usize = 20;
/// Registered readers of a directory, at most.
pub const READERS_MAX: usize = 64;
/// Bytes of a reader's name, at most.
pub const READER_NAME_BYTES_MAX: usize = 64;

/// The place of a commit in the changes of a database: all commits up to it were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// Identity of the database.
    pub database: u64,
    /// Identity of the generation whose log had the commit.
    pub generation: u64,
    /// The largest stamp that was delivered.
    pub stamp: u64,
}

/// The cut of a checkpoint: segments before the starts have no records of later epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RetainedCut {
    /// The number of the generation that made it.
    pub generation: u64,
    pub epoch: u64,
    pub starts: Vec<StreamStart>,
    /// The bytes of the log's owner at the end of the checkpoint; empty if they are those of the
    /// next cut.
    pub extra: Vec<u8>,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    pub database: u64,
    /// Records of epochs up to this one may be gone; later ones are in the kept segments.
    pub floor: u64,
    /// Generations that the manifest has forgotten, or that begin earlier here than there.
    pub generations: Vec<Generation>,
    /// From the oldest to the newest.
    pub cuts: Vec<RetainedCut>,
    /// By name: the generation's identity, and the stamp.
    pub readers: BTreeMap<String, (u64, u64)>,
}

impl Retention {
    /// Reads the file of a directory; the default if there is none.
    ///
    /// # Errors
    /// It is damaged, of another database, or of a later version.
    pub(crate) fn read<P: Files>(
        c: P::Core,
        queue: &mut P::Queue,
        manifest: &Manifest,
        entries: &[Entry],
    ) -> Result<Retention, LogError> {
        let none = Retention { database: manifest.identity, ..Retention::default() };
        if !entries.iter().any(|entry| entry.name == RETENTION) {
            return Ok(none);
        }
        let Some(bytes) = read_small::<P>(c, queue, RETENTION)? else { return Ok(none) };
        let mut found = Retention::decode(bytes.bytes())?;
        if found.database != manifest.identity {
            return Err(LogError::Foreign(RETENTION.into()));
        }
        found.check_files(manifest, entries);
        Ok(found)
    }

    /// Forgets segments that are not there: a version that does not know this file has removed
    /// them, or a bound. Readers that need them are told so.
    fn check_files(&mut self, manifest: &Manifest, entries: &[Entry]) {
        if self.generations.is_empty() {
            return;
        }
        // Of a generation that has nothing later than the floor nothing is needed.
        let is_needed = |generation: &Generation| generation.last_epoch.is_none_or(|last| last > self.floor);
        let Some(oldest) = self.known(manifest).into_iter().find(is_needed) else { return };
        let is_there = |(stream, start): (u32, &StreamStart)| {
            let name = segment_name(stream, start.sequence);
            manifest.needs(&name) || entries.iter().any(|entry| entry.name == name)
        };
        if !(0..).zip(&oldest.starts).all(is_there) {
            self.forget_segments(manifest);
        }
    }

    /// Forgets all superseded segments.
    pub(crate) fn forget_segments(&mut self, manifest: &Manifest) {
        self.floor = floor_of(manifest);
        self.generations.clear();
        self.cuts.clear();
    }

    /// Writes the file.
    pub(crate) fn write<P: Files>(&self, c: P::Core, queue: &mut P::Queue) -> Result<(), LogError> {
        prepare_file::<P>(c, queue, NEW_RETENTION, &self.encode())?;
        put_file_in_place::<P>(c, queue, NEW_RETENTION, RETENTION)
    }

    /// Returns true if a segment of this name may be needed by a reader.
    pub(crate) fn needs(&self, name: &str) -> bool {
        let Some((stream, sequence)) = parse_segment_name(name) else { return false };
        let starts = self.generations.iter().filter_map(|generation| generation.starts.get(stream as usize));
        starts.min().is_some_and(|start| sequence >= start.sequence)
    }

    /// The epoch up to which records may be gone.
    pub(crate) fn floor(&self, manifest: &Manifest) -> u64 {
        if self.generations.is_empty() { floor_of(manifest) } else { self.floor }
    }

    /// All generations of which segments are there, in order, each from its oldest segment on.
    pub(crate) fn known(&self, manifest: &Manifest) -> Vec<Generation> {
        let mut known: BTreeMap<u64, Generation> = BTreeMap::new();
        for generation in self.generations.iter().chain(&manifest.generations) {
            let entry = known.entry(generation.number).or_insert_with(|| generation.clone());
            entry.last_epoch = generation.last_epoch.or(entry.last_epoch);
        }
        known.into_values().collect()
    }

    /// Takes over everything that a manifest is about to forget, which names the cut's checkpoint.
    pub(crate) fn add_cut(&mut self, before: &Manifest, epoch: u64, starts: &[StreamStart]) {
        let Some(current) = before.generations.last().map(|generation| generation.number) else { return };
        (self.floor, self.generations) = (self.floor(before), self.known(before));
        // A manifest that could not be written has left its cut here.
        if let Some(last) = self.cuts.last_mut().filter(|last| last.extra == before.extra) {
            last.extra = Vec::new();
        }
        let (starts, extra) = (starts.to_vec(), before.extra.clone());
        self.cuts.push(RetainedCut { generation: current, epoch, starts, extra });
    }

    /// Gives up the segments before the oldest cut; false if there is no cut.
    pub(crate) fn drop_oldest(&mut self) -> bool {
        if self.cuts.is_empty() {
            return false;
        }
        let RetainedCut { generation, epoch, starts, .. } = self.cuts.remove(0);
        self.floor = self.floor.max(epoch);
        self.generations.retain(|its| its.number >= generation);
        if let Some(first) = self.generations.first_mut().filter(|first| first.number == generation) {
            first.starts = starts;
        }
        if self.cuts.is_empty() {
            self.generations.clear();
        }
        true
    }

    /// True if no commit before the oldest cut is later than this stamp.
    pub(crate) fn is_passed_by(&self, stamp: u64) -> bool {
        self.cuts.first().is_some_and(|cut| Epoch(cut.epoch).last_stamp() <= stamp)
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = self.database.to_le_bytes().to_vec();
        body.extend_from_slice(&self.floor.to_le_bytes());
        body.extend_from_slice(&(self.generations.len() as u32).to_le_bytes());
        self.generations.iter().for_each(|generation| generation.put(&mut body));
        body.extend_from_slice(&(self.cuts.len() as u32).to_le_bytes());
        for RetainedCut { generation, epoch, starts, extra } in &self.cuts {
            body.extend_from_slice(&generation.to_le_bytes());
            body.extend_from_slice(&epoch.to_le_bytes());
            put_starts(starts, &mut body);
            body.extend_from_slice(&(extra.len() as u32).to_le_bytes());
            body.extend_from_slice(extra);
        }
        body.extend_from_slice(&(self.readers.len() as u32).to_le_bytes());
        for (name, (generation, stamp)) in &self.readers {
            body.extend_from_slice(&(name.len() as u32).to_le_bytes());
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&generation.to_le_bytes());
            body.extend_from_slice(&stamp.to_le_bytes());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Retention, LogError> {
        let damaged = |offset: usize, what| {
            Err(LogError::Damaged { file: RETENTION.into(), offset: offset as u64, what })
        };
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return damaged(0, "it is no list of readers");
        }
        let (found, body) = (u32_at(bytes, 8), &bytes[HEADER_BYTES..]);
        if found != FORMAT {
            return Err(LogError::Format { found, known: FORMAT });
        }
        let whole = body.len() == u32_at(bytes, 12) as usize;
        if !whole || crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), body) != u32_at(bytes, 16) {
            return damaged(16, "its checksum does not fit");
        }
        Retention::decode_body(body).map_or_else(|| damaged(HEADER_BYTES, "it is too short"), Ok)
    }

    fn decode_body(mut rest: &[u8]) -> Option<Retention> {
        let rest = &mut rest;
        let fixed = take(rest, 20)?;
        let mut found =
            Retention { database: u64_at(fixed, 0), floor: u64_at(fixed, 8), ..Retention::default() };
        for _ in 0..u32_at(fixed, 16) {
            found.generations.push(Generation::take(rest)?);
        }
        for _ in 0..u32_at(take(rest, 4)?, 0) {
            let fixed = take(rest, 16)?;
            let starts = take_starts(rest)?;
            let bytes = u32_at(take(rest, 4)?, 0) as usize;
            let (generation, epoch) = (u64_at(fixed, 0), u64_at(fixed, 8));
            let extra = take(rest, bytes)?.to_vec();
            found.cuts.push(RetainedCut { generation, epoch, starts, extra });
        }
        for _ in 0..u32_at(take(rest, 4)?, 0) {
            let bytes = u32_at(take(rest, 4)?, 0) as usize;
            let name = std::str::from_utf8(take(rest, bytes)?).ok()?.to_owned();
            let place = take(rest, 16)?;
            found.readers.insert(name, (u64_at(place, 0), u64_at(place, 8)));
        }
        rest.is_empty().then_some(found)
    }
}

/// The epoch up to which the log of a manifest alone may lack records.
fn floor_of(manifest: &Manifest) -> u64 {
    manifest.checkpoint.map_or(0, |checkpoint| checkpoint.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Checkpoint;

    fn generation(number: u64, sequence: u64, last_epoch: Option<u64>) -> Generation {
        Generation {
            number,
            identity: 70 + number,
            starts: vec![StreamStart { sequence, block: 0, file_bytes: 0 }],
            first_epoch: 10 * number,
            last_epoch,
        }
    }

    fn manifest(generations: Vec<Generation>, checkpoint: Option<u64>) -> Manifest {
        let checkpoint =
            checkpoint.map(|epoch| Checkpoint { number: 1, identity: 1, files: 1, epoch, end: epoch });
        Manifest { identity: 9, generations, checkpoint, extra: vec![7] }
    }

    fn cut(sequence: u64) -> Vec<StreamStart> {
        vec![StreamStart { sequence, block: 5, file_bytes: 0 }]
    }

    #[test]
    fn a_file_is_read_as_written_and_every_flipped_bit_is_seen() {
        let mut kept = Retention { database: 9, ..Retention::default() };
        kept.add_cut(&manifest(vec![generation(1, 0, Some(18)), generation(2, 3, None)], None), 25, &cut(6));
        kept.readers.insert("search".into(), (71, 1 << 24));
        let mut bytes = kept.encode();
        assert_eq!(Retention::decode(&bytes), Ok(kept));
        for place in 0..bytes.len() * 8 {
            bytes[place / 8] ^= 1 << (place % 8);
            assert!(Retention::decode(&bytes).is_err(), "bit {place}");
            bytes[place / 8] ^= 1 << (place % 8);
        }
        for length in 0..bytes.len() {
            assert!(Retention::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn segments_stay_until_the_cuts_behind_them_are_passed() {
        let mut kept = Retention::default();
        let name = |sequence| segment_name(0, sequence);
        assert!(!kept.needs(&name(5)));
        kept.add_cut(
            &manifest(vec![generation(1, 2, Some(18)), generation(2, 3, None)], Some(7)),
            25,
            &cut(6),
        );
        let mut second = generation(2, 6, None);
        second.starts[0].block = 5;
        let after = manifest(vec![second], Some(25));
        kept.add_cut(&after, 40, &cut(8));
        assert_eq!((kept.floor(&after), kept.cuts[0].extra.len(), kept.cuts[1].extra.len()), (7, 0, 1));
        assert!(kept.needs(&name(2)) && !kept.needs(&name(1)));
        let known = kept.known(&after);
        assert_eq!(
            known.iter().map(|its| (its.number, its.starts[0].sequence)).collect::<Vec<_>>(),
            [(1, 2), (2, 3)]
        );
        assert!(!kept.is_passed_by(Epoch(25).last_stamp() - 1) && kept.is_passed_by(Epoch(25).last_stamp()));
        assert!(kept.drop_oldest());
        assert_eq!((kept.floor(&after), kept.generations.len()), (25, 1));
        assert!(kept.needs(&name(6)) && !kept.needs(&name(5)));
        assert!(kept.drop_oldest() && !kept.drop_oldest());
        assert!(!kept.needs(&name(8)));
        let last = manifest(vec![generation(2, 8, None)], Some(40));
        assert_eq!(kept.floor(&last), 40);
    }

    #[test]
    fn segments_that_are_missing_are_below_the_floor() {
        let before = manifest(vec![generation(1, 0, None)], None);
        let mut kept = Retention { database: 9, ..Retention::default() };
        kept.add_cut(&before, 15, &cut(4));
        let after = manifest(vec![generation(1, 4, None)], Some(15));
        let entry = |sequence| Entry { name: segment_name(0, sequence), bytes: 1 };
        kept.check_files(&after, &[entry(0), entry(4)]);
        assert_eq!(kept.floor(&after), 0);
        kept.check_files(&after, &[entry(4)]);
        assert_eq!((kept.floor(&after), kept.cuts.len()), (15, 0));
    }
}
