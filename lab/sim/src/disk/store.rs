//! Contents of a disk: the state for readers, the durable state, and the changes between the two.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use platform::files::{Entry, FileErrorKind};

use super::faults::DiskFaults;
use crate::random::Random;

/// Number of a file, whatever its names.
pub(crate) type FileNumber = usize;

/// One change of a file that is not durable.
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Grow { bytes: u64 },
}

/// A flush that was begun: its end, and the number of changes since the file was made that it
/// covers.
struct FlushBegun {
    done_ps: u64,
    covers: u64,
}

/// Changes that are not durable, oldest first.
struct Unflushed<C> {
    changes: Vec<C>,
    /// Number of changes before those in `changes`.
    settled: u64,
    /// By their ends.
    flushes: Vec<FlushBegun>,
}

impl<C> Default for Unflushed<C> {
    fn default() -> Self {
        Unflushed { changes: Vec::new(), settled: 0, flushes: Vec::new() }
    }
}

impl<C> Unflushed<C> {
    /// Begins a flush of all changes so far, which will succeed at `done_ps`.
    fn flush(&mut self, done_ps: u64) {
        let covers = self.settled + self.changes.len() as u64;
        self.flushes.push(FlushBegun { done_ps, covers });
        self.flushes.sort_by_key(|flush| flush.done_ps);
    }

    /// Removes the changes that are durable, because a flush that covers them was over at this
    /// moment.
    fn take_durable(&mut self, now_ps: u64) -> std::vec::Drain<'_, C> {
        let over = self.flushes.iter().take_while(|flush| flush.done_ps <= now_ps).count();
        let covers = self.flushes.drain(..over).next_back().map_or(0, |last| last.covers);
        let count = (covers.saturating_sub(self.settled) as usize).min(self.changes.len());
        self.settled += count as u64;
        self.changes.drain(..count)
    }

    /// Removes all changes.
    fn take_all(&mut self) -> Vec<C> {
        self.settled += self.changes.len() as u64;
        std::mem::take(&mut self.changes)
    }
}

#[derive(Default)]
struct Stored {
    cached: Vec<u8>,
    durable: Vec<u8>,
    unflushed: Unflushed<Change>,
    /// Bytes in the cache that no flush has begun to write, and the position of the last of them.
    dirty: u64,
    dirty_from: u64,
    /// Begin of the file on the medium, for the distance between accesses.
    place: u64,
    /// First bytes other than zeros that were written since the last flush began, and between that
    /// flush and the one before.
    group: Option<u64>,
    former_group: Option<u64>,
}

/// A change of names that is not durable.
#[derive(Clone)]
enum NameChange {
    Link(String, FileNumber),
    Rename(String, String),
    Remove(String),
}

#[derive(Default)]
struct Directory {
    names: BTreeMap<String, FileNumber>,
    durable: BTreeMap<String, FileNumber>,
    unflushed: Unflushed<NameChange>,
    locked: bool,
}

/// Files and directories.
pub(crate) struct Store {
    files: Vec<Stored>,
    directories: BTreeMap<PathBuf, Directory>,
}

/// Part of the unflushed changes that survives a loss of power.
enum Surviving {
    Nothing,
    Everything,
    /// A prefix, in the order of writing.
    Beginning,
    /// Any changes.
    Mixture,
}

impl Surviving {
    fn draw(random: &Random) -> Surviving {
        match random.below(8) {
            0 => Surviving::Nothing,
            1 => Surviving::Everything,
            2..=4 => Surviving::Beginning,
            _ => Surviving::Mixture,
        }
    }
}

fn write_at(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (from, to) = (offset as usize, offset as usize + bytes.len());
    if content.len() < to {
        content.resize(to, 0);
    }
    content[from..to].copy_from_slice(bytes);
}

fn grow(content: &mut Vec<u8>, bytes: u64) {
    let bytes = bytes as usize;
    if content.is_empty() {
        // Zeroed memory of the host, of which only the touched pages are committed.
        *content = vec![0; bytes];
    } else if content.len() < bytes {
        content.resize(bytes, 0);
    }
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => write_at(content, *offset, bytes),
            Change::Grow { bytes } => grow(content, *bytes),
        }
    }

    /// Sectors of the change, each with the range of its bytes there.
    fn sectors(&self, sector_bytes: usize) -> Vec<(u64, std::ops::Range<usize>)> {
        let Change::Write { offset, bytes } = self else { return Vec::new() };
        let (mut parts, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let place = *offset as usize + at;
            let end = (at + sector_bytes - place % sector_bytes).min(bytes.len());
            parts.push(((place / sector_bytes) as u64, at..end));
            at = end;
        }
        parts
    }
}

impl Stored {
    /// Makes changes durable if a flush that covers them was over at this moment.
    fn settle(&mut self, now_ps: u64) {
        self.unflushed.take_durable(now_ps).for_each(|change| change.apply(&mut self.durable));
    }

    fn lose_power(&mut self, at_ps: u64, faults: &DiskFaults, random: &Random) {
        self.settle(at_ps);
        self.unflushed.flushes.clear();
        let changes = self.unflushed.take_all();
        match Surviving::draw(random) {
            _ if changes.is_empty() => {}
            Surviving::Nothing => {}
            Surviving::Everything => changes.iter().for_each(|change| change.apply(&mut self.durable)),
            Surviving::Beginning => {
                let whole = random.below(changes.len() as u64 + 1) as usize;
                changes[..whole].iter().for_each(|change| change.apply(&mut self.durable));
                if let Some(torn @ Change::Write { offset, bytes }) = changes.get(whole) {
                    let parts = torn.sectors(faults.sector_bytes);
                    let kept = random.below(parts.len() as u64 + 1) as usize;
                    let end = kept.checked_sub(1).map_or(0, |last| parts[last].1.end);
                    if end > 0 {
                        write_at(&mut self.durable, *offset, &bytes[..end]);
                    }
                }
            }
            Surviving::Mixture => self.mix(&changes, faults, random),
        }
        if faults.garbage_one_in > 0 {
            self.spoil(&changes, faults, random);
        }
        self.cached = self.durable.clone();
        self.dirty = 0;
    }

    /// Gives each changed sector one of the versions that it had.
    fn mix(&mut self, changes: &[Change], faults: &DiskFaults, random: &Random) {
        let mut versions: BTreeMap<u64, u64> = BTreeMap::new();
        for (sector, _) in changes.iter().flat_map(|change| change.sectors(faults.sector_bytes)) {
            *versions.entry(sector).or_default() += 1;
        }
        for left in versions.values_mut() {
            *left = random.below(*left + 1);
        }
        for change in changes {
            if let Change::Grow { .. } = change
                && random.below(2) == 0
            {
                change.apply(&mut self.durable);
            }
            let Change::Write { offset, bytes } = change else { continue };
            for (sector, part) in change.sectors(faults.sector_bytes) {
                let left = versions.entry(sector).or_default();
                if *left > 0 {
                    *left -= 1;
                    write_at(&mut self.durable, offset + part.start as u64, &bytes[part]);
                }
            }
        }
    }

    /// Puts garbage into sectors that were being written.
    fn spoil(&mut self, changes: &[Change], faults: &DiskFaults, random: &Random) {
        for (sector, _) in changes.iter().flat_map(|change| change.sectors(faults.sector_bytes)) {
            let from = sector as usize * faults.sector_bytes;
            if random.below(faults.garbage_one_in) == 0 && from < self.durable.len() {
                let to = (from + faults.sector_bytes).min(self.durable.len());
                self.durable[from..to].iter_mut().for_each(|byte| *byte = random.next() as u8);
            }
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, FileNumber>) {
        match self {
            NameChange::Link(name, file) => {
                names.insert(name.clone(), *file);
            }
            NameChange::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            NameChange::Remove(name) => {
                names.remove(name);
            }
        }
    }
}

impl Directory {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.unflushed.changes.push(change);
    }

    fn settle(&mut self, now_ps: u64) {
        self.unflushed.take_durable(now_ps).for_each(|change| change.apply(&mut self.durable));
    }

    fn lose_power(&mut self, at_ps: u64, random: &Random) {
        self.settle(at_ps);
        self.unflushed.flushes.clear();
        let changes = self.unflushed.take_all();
        let surviving = Surviving::draw(random);
        let beginning = random.below(changes.len() as u64 + 1) as usize;
        for (number, change) in changes.iter().enumerate() {
            let survives = match surviving {
                Surviving::Nothing => false,
                Surviving::Everything => true,
                Surviving::Beginning => number < beginning,
                Surviving::Mixture => random.below(2) == 0,
            };
            if survives {
                change.apply(&mut self.durable);
            }
        }
        self.names = self.durable.clone();
    }
}

impl Store {
    pub(crate) fn new() -> Store {
        Store { files: Vec::new(), directories: BTreeMap::new() }
    }

    /// Opens and locks a directory.
    pub(crate) fn lock(&mut self, path: &Path, create: bool) -> Result<(), FileErrorKind> {
        if !create && !self.directories.contains_key(path) {
            return Err(FileErrorKind::Missing);
        }
        let directory = self.directories.entry(path.to_path_buf()).or_default();
        if std::mem::replace(&mut directory.locked, true) {
            return Err(FileErrorKind::InUse);
        }
        Ok(())
    }

    pub(crate) fn unlock(&mut self, path: &Path) {
        if let Some(directory) = self.directories.get_mut(path) {
            directory.locked = false;
        }
    }

    pub(crate) fn unlock_all(&mut self) {
        self.directories.values_mut().for_each(|directory| directory.locked = false);
    }

    fn directory(&mut self, path: &Path) -> &mut Directory {
        self.directories.entry(path.to_path_buf()).or_default()
    }

    pub(crate) fn list(&mut self, path: &Path) -> Vec<Entry> {
        let Some(directory) = self.directories.get(path) else { return Vec::new() };
        let entry = |(name, file): (&String, &usize)| Entry { name: name.clone(), bytes: self.len(*file) };
        directory.names.iter().map(entry).collect()
    }

    pub(crate) fn find(&mut self, path: &Path, name: &str) -> Option<FileNumber> {
        self.directory(path).names.get(name).copied()
    }

    pub(crate) fn create(&mut self, path: &Path, name: &str) -> FileNumber {
        let number = self.files.len();
        // Files lie far from each other.
        self.files.push(Stored { place: (number as u64) << 40, ..Stored::default() });
        self.directory(path).change(NameChange::Link(name.to_owned(), number));
        number
    }

    pub(crate) fn rename(&mut self, path: &Path, from: &str, to: &str) -> Result<(), FileErrorKind> {
        self.find(path, from).ok_or(FileErrorKind::Missing)?;
        self.directory(path).change(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &Path, name: &str) -> Result<(), FileErrorKind> {
        self.find(path, name).ok_or(FileErrorKind::Missing)?;
        self.directory(path).change(NameChange::Remove(name.to_owned()));
        Ok(())
    }

    pub(crate) fn len(&self, file: FileNumber) -> u64 {
        self.files[file].cached.len() as u64
    }

    /// Position on the medium of a byte of a file.
    pub(crate) fn place(&self, file: FileNumber, offset: u64) -> u64 {
        self.files[file].place + offset
    }

    fn has_room(&self, more: u64, faults: &DiskFaults) -> bool {
        let named = self.directories.values().flat_map(|directory| directory.names.values());
        let used: u64 = named.map(|file| self.len(*file)).sum();
        used + more <= faults.capacity_bytes
    }

    /// Writes into the cache. `cached`: the device still has to write the bytes.
    pub(crate) fn write(
        &mut self,
        file: FileNumber,
        offset: u64,
        bytes: Vec<u8>,
        cached: bool,
        faults: &DiskFaults,
    ) -> Result<(), FileErrorKind> {
        let more = (offset + bytes.len() as u64).saturating_sub(self.len(file));
        if more > 0 && !self.has_room(more, faults) {
            return Err(FileErrorKind::Full);
        }
        let stored = &mut self.files[file];
        if cached {
            stored.dirty += bytes.len() as u64;
            stored.dirty_from = offset;
        }
        write_at(&mut stored.cached, offset, &bytes);
        if bytes.iter().any(|byte| *byte != 0) {
            stored.group = Some(stored.group.map_or(offset, |first| first.min(offset)));
        }
        stored.unflushed.changes.push(Change::Write { offset, bytes });
        Ok(())
    }

    pub(crate) fn grow(
        &mut self,
        file: FileNumber,
        bytes: u64,
        faults: &DiskFaults,
    ) -> Result<(), FileErrorKind> {
        let more = bytes.saturating_sub(self.len(file));
        if more > 0 && !self.has_room(more, faults) {
            return Err(FileErrorKind::Full);
        }
        let stored = &mut self.files[file];
        grow(&mut stored.cached, bytes);
        stored.unflushed.changes.push(Change::Grow { bytes });
        Ok(())
    }

    /// Fills `to` from `offset` on. Returns the number of bytes read.
    pub(crate) fn read(&self, file: FileNumber, offset: u64, to: &mut [u8]) -> usize {
        let content = &self.files[file].cached;
        let from = (offset as usize).min(content.len());
        let count = to.len().min(content.len() - from);
        to[..count].copy_from_slice(&content[from..from + count]);
        count
    }

    /// Offset of the last bytes that were written to a file together, before one flush.
    pub(crate) fn last_group(&self, path: &Path, name: &str) -> Option<u64> {
        let stored = &self.files[*self.directories.get(path)?.names.get(name)?];
        stored.group.or(stored.former_group)
    }

    /// Takes the number and the begin of a file's dirty bytes: a flush is about to write them.
    pub(crate) fn take_dirty(&mut self, file: FileNumber) -> (u64, u64) {
        let stored = &mut self.files[file];
        (stored.place + stored.dirty_from, std::mem::take(&mut stored.dirty))
    }

    /// Begins a flush of all changes so far, which will succeed at `done_ps`.
    pub(crate) fn flush(&mut self, file: FileNumber, done_ps: u64) {
        let stored = &mut self.files[file];
        stored.former_group = stored.group.take().or(stored.former_group);
        stored.unflushed.flush(done_ps);
    }

    /// Fails a flush: its changes are readable and never become durable.
    pub(crate) fn fail_flush(&mut self, file: FileNumber, now_ps: u64) {
        let stored = &mut self.files[file];
        stored.settle(now_ps);
        stored.unflushed.take_all();
    }

    pub(crate) fn flush_directory(&mut self, path: &Path, done_ps: u64) {
        self.directory(path).unflushed.flush(done_ps);
    }

    /// Makes changes durable if a flush that covers them was over at this moment.
    pub(crate) fn settle(&mut self, file: FileNumber, now_ps: u64) {
        self.files[file].settle(now_ps);
    }

    pub(crate) fn settle_all(&mut self, now_ps: u64) {
        self.files.iter_mut().for_each(|file| file.settle(now_ps));
        self.directories.values_mut().for_each(|directory| directory.settle(now_ps));
    }

    pub(crate) fn lose_power(&mut self, at_ps: u64, faults: &DiskFaults, random: &Random) {
        self.files.iter_mut().for_each(|file| file.lose_power(at_ps, faults, random));
        self.directories.values_mut().for_each(|directory| directory.lose_power(at_ps, random));
    }

    /// Like [`Self::lose_power`], for one directory.
    pub(crate) fn lose_power_in(&mut self, path: &Path, at_ps: u64, faults: &DiskFaults, random: &Random) {
        let Some(directory) = self.directories.get_mut(path) else { return };
        let changed = directory.unflushed.changes.iter().filter_map(|change| match change {
            NameChange::Link(_, file) => Some(*file),
            NameChange::Rename(..) | NameChange::Remove(_) => None,
        });
        let named = directory.names.values().chain(directory.durable.values()).copied();
        let files: BTreeSet<FileNumber> = named.chain(changed).collect();
        files.into_iter().for_each(|file| self.files[file].lose_power(at_ps, faults, random));
        directory.lose_power(at_ps, random);
    }

    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut contents = BTreeMap::new();
        for (path, directory) in &self.directories {
            for (name, file) in &directory.names {
                contents.insert(path.join(name), self.files[*file].cached.clone());
            }
        }
        contents
    }

    pub(crate) fn replace_directory(&mut self, path: &Path, files: &BTreeMap<String, Vec<u8>>) {
        let mut names = BTreeMap::new();
        for (name, bytes) in files {
            let number = self.files.len();
            let (cached, durable, place) = (bytes.clone(), bytes.clone(), (number as u64) << 40);
            self.files.push(Stored { cached, durable, place, ..Stored::default() });
            names.insert(name.clone(), number);
        }
        let directory = Directory { durable: names.clone(), names, ..Directory::default() };
        self.directories.insert(path.to_path_buf(), directory);
    }

    pub(crate) fn flip_bit(&mut self, path: &Path, byte: u64, bit: u8) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str()))
        else {
            return false;
        };
        let file = self.directories.get(parent).and_then(|directory| directory.names.get(name).copied());
        let Some(file) = file.filter(|file| byte < self.len(*file) && bit < 8) else { return false };
        let stored = &mut self.files[file];
        for content in [&mut stored.cached, &mut stored.durable] {
            if let Some(place) = content.get_mut(byte as usize) {
                *place ^= 1 << bit;
            }
        }
        true
    }
}
