//! Copies of directories with rows in pages, which a program may have open.
//!
//! The copy reads the checkpoint first, then the pages, and the log last. So a copied page has no
//! change that the copied log does not have, as no page is written before its log. The first change
//! of each page since the checkpoint is logged with an image of the page, so a page that is copied
//! while it is written is rebuilt when the copy is opened. Opening a copy is a restart after a
//! crash.
//!
//! Meanwhile the database makes checkpoints of its own, and removes files of the log that the copy
//! needs. The copy opens them before it copies pages, and opens later files between pages: an open
//! file can be read even if its name is removed. Files are read from their last byte to their first
//! (`read_backwards`), so that missing bytes in them prove damage, and not that the database was
//! writing meanwhile.
// A copy is made by the calling thread, from files that the database writes through its own port.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use platform::files::BLOCK_BYTES;

use crate::checkpoints::master;
use crate::files::head;
use crate::log::reader;
use crate::log::segments::{self, Header};
use crate::lsn::Lsn;

/// Copies that are begun before a database that makes one checkpoint after the other is given up.
const ATTEMPTS: usize = 20;
/// Bytes of pages that are copied before the log is checked again.
const CHUNK_BYTES: usize = 1 << 20;
/// Bytes of a file that are read at once from its end on.
const STEP_BYTES: usize = 1 << 20;
/// Only the owner of the database may read its copy.
const MODE: u32 = 0o600;

/// The reason why a directory cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The log is damaged.
    #[error("{}: a record at byte {offset} is damaged: the copy would lack what follows", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// First byte of the error in the file.
        offset: u64,
    },
    /// Checkpoints follow each other.
    #[error("{}: it makes one checkpoint after the other: try again when it is less busy", .0.display())]
    Busy(PathBuf),
}

type Copied<T> = Result<T, CopyError>;

fn of_file(path: &Path) -> impl FnOnce(io::Error) -> CopyError {
    move |source| CopyError::File { path: path.to_owned(), source }
}

/// Copies the files of a database to a directory that is empty, and makes them durable; how many
/// files there are.
///
/// # Errors
/// A file cannot be read or written, or the log is damaged. What was copied stays.
pub fn copy_pages(from: &Path, to: &Path) -> Result<usize, CopyError> {
    let path = from.join(master::NAME);
    for _ in 0..ATTEMPTS {
        let checkpoint = fs::read(&path).map_err(of_file(&path))?;
        let mut log = Segments::default();
        log.open_new(from)?;
        if fs::read(&path).map_err(of_file(&path))? != checkpoint {
            // The log that this checkpoint needs may be gone.
            continue;
        }
        copy_file(&from.join(head::NAME), &to.join(head::NAME), &mut || log.open_new(from))?;
        let segments = log.copy(from, to)?;
        write(&to.join(master::NAME), &checkpoint)?;
        File::open(to).and_then(|directory| directory.sync_all()).map_err(of_file(to))?;
        return Ok(segments + 2);
    }
    Err(CopyError::Busy(from.to_path_buf()))
}

/// The files of the log, by the first bytes of what they hold.
#[derive(Default)]
struct Segments(BTreeMap<u64, File>);

impl Segments {
    /// Opens those that are not open.
    fn open_new(&mut self, from: &Path) -> Copied<()> {
        for entry in fs::read_dir(from).map_err(of_file(from))? {
            let name = entry.map_err(of_file(from))?.file_name();
            let Some(Lsn(first)) = name.to_str().and_then(segments::parse) else { continue };
            if self.0.contains_key(&first) {
                continue;
            }
            let path = from.join(name);
            match File::open(&path) {
                Ok(file) => _ = self.0.insert(first, file),
                // A checkpoint has removed it: it is older than what is needed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(of_file(&path)(error)),
            }
        }
        Ok(())
    }

    /// Copies what they have, the last one first; how many were copied.
    fn copy(mut self, from: &Path, to: &Path) -> Copied<usize> {
        let (mut copied, mut last) = (0, 0);
        loop {
            self.open_new(from)?;
            // One that has become full meanwhile has another one behind it, which was made before
            // that.
            let behind: Vec<u64> = self.0.range(last..).map(|(first, _)| *first).collect();
            let Some(newest) = behind.last() else { return Ok(copied) };
            last = newest + 1;
            let mut is_full = false;
            for first in behind.iter().rev() {
                let is_last = first == newest;
                let fills = self.copy_one(from, to, *first, is_last)?;
                copied += usize::from(fills.is_some());
                is_full |= is_last && fills == Some(true);
            }
            if !is_full {
                return Ok(copied);
            }
        }
    }

    /// Copies one, unless it is the last one and is being made; whether it is full.
    fn copy_one(&self, from: &Path, to: &Path, first: u64, is_last: bool) -> Copied<Option<bool>> {
        let name = segments::name(Lsn(first));
        let path = from.join(&name);
        let mut bytes = read_backwards(&self.0[&first]).map_err(of_file(&path))?;
        let damaged = |offset: usize| CopyError::Damaged { path, offset: offset as u64 };
        match reader::whole(&bytes, Lsn(first)) {
            None if is_last && bytes.iter().skip(BLOCK_BYTES).all(|byte| *byte == 0) => Ok(None),
            None => Err(damaged(0)),
            Some(whole) if whole.is_damaged => Err(damaged(whole.bytes)),
            Some(whole) => {
                let header = Header { file_bytes: whole.bytes as u64, ..whole.header };
                bytes[..BLOCK_BYTES].copy_from_slice(&header.encode());
                write(&to.join(name), &bytes[..whole.bytes])?;
                Ok(Some(whole.is_full))
            }
        }
    }
}

/// All bytes of a file, of which later ones are read before earlier ones: in a file that is only
/// appended to, what is read of an earlier place has all that had to be there for what was read of
/// a later one.
fn read_backwards(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    for (number, step) in bytes.chunks_mut(STEP_BYTES).enumerate().rev() {
        file.read_exact_at(step, (number * STEP_BYTES) as u64)?;
    }
    Ok(bytes)
}

/// Copies a file, and has something done every now and then.
fn copy_file(from: &Path, to: &Path, now_and_then: &mut dyn FnMut() -> Copied<()>) -> Copied<()> {
    let mut source = File::open(from).map_err(of_file(from))?;
    let mut target = new_file(to).map_err(of_file(to))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = source.read(&mut chunk).map_err(of_file(from))?;
        if count == 0 {
            break;
        }
        target.write_all(&chunk[..count]).map_err(of_file(to))?;
        now_and_then()?;
    }
    target.sync_all().map_err(of_file(to))
}

/// Makes a file of these bytes, which only its owner can read, and makes it durable, its name
/// aside.
///
/// # Errors
/// There is such a file, or it cannot be written.
pub fn write_new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = new_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn new_file(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).mode(MODE).open(path)
}

fn write(path: &Path, bytes: &[u8]) -> Copied<()> {
    write_new_file(path, bytes).map_err(of_file(path))
}
