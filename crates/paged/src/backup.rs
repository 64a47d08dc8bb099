//! Copies of directories with rows in pages, which a program may have open.
//!
//! What the checkpoint says is read first, then the pages, and the log last. So a page that is copied has no change that the copied log does not
//! have, as no page is written before its log; and the first change of each page since the checkpoint brings an image along, so a page that is
//! copied while it is written is made anew when the copy is opened. Opening a copy is a restart after a crash.
//!
//! Meanwhile the database makes checkpoints of its own, and removes files of the log that the copy needs. They are opened before pages are
//! copied, and those that are made later between pages: what is open can be read, whatever becomes of its name.
// A copy is made by the calling thread, from files that the database writes through its own port.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::channel;
use crate::log::reader;
use crate::log::segments;
use crate::lsn::Lsn;
use crate::master;

/// Copies that are begun before a database that makes one checkpoint after the other is given up.
const ATTEMPTS: usize = 20;
/// Bytes of pages that are copied before the log is looked at again.
const CHUNK_BYTES: usize = 1 << 20;
/// Looks at a segment that seems damaged, as it may be written meanwhile.
const LOOKS: usize = 3;

/// Why a directory cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The log is damaged.
    #[error("{}: a record at byte {offset} is damaged: the copy would lack what follows", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
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

/// Copies the files of a database to a directory that is empty, and makes them durable; how many files there are.
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
        copy_file(&from.join(channel::NAME), &to.join(channel::NAME), &mut || log.open_new(from))?;
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

    /// Copies what they have, in order; how many were copied.
    fn copy(mut self, from: &Path, to: &Path) -> Copied<usize> {
        self.open_new(from)?;
        let mut copied = 0;
        for (first, file) in self.0 {
            let name = segments::name(Lsn(first));
            let Some(bytes) = whole(&from.join(&name), &file, Lsn(first))? else { break };
            write(&to.join(name), &bytes)?;
            copied += 1;
        }
        Ok(copied)
    }
}

/// What a file of the log has, up to the end of what was written as a whole; `None` if it is being made.
fn whole(path: &Path, file: &File, first: Lsn) -> Copied<Option<Vec<u8>>> {
    let mut looks = 0;
    loop {
        let bytes = read_from_start(file).map_err(of_file(path))?;
        match reader::whole_bytes(&bytes, first) {
            None => return Ok(None),
            Some((end, is_damaged)) => {
                looks += 1;
                if !is_damaged {
                    return Ok(Some(bytes[..end].to_vec()));
                }
                if looks == LOOKS {
                    return Err(CopyError::Damaged { path: path.to_owned(), offset: end as u64 });
                }
            }
        }
    }
}

fn read_from_start(mut file: &File) -> io::Result<Vec<u8>> {
    io::Seek::rewind(&mut file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Copies a file, and has something done every now and then.
fn copy_file(from: &Path, to: &Path, now_and_then: &mut dyn FnMut() -> Copied<()>) -> Copied<()> {
    let mut source = File::open(from).map_err(of_file(from))?;
    let mut target = File::options().write(true).create_new(true).open(to).map_err(of_file(to))?;
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

/// Makes a file of these bytes, and makes it durable, its name aside.
///
/// # Errors
/// There is such a file, or it cannot be written.
pub fn write_new_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn write(path: &Path, bytes: &[u8]) -> Copied<()> {
    write_new_file(path, bytes).map_err(of_file(path))
}
