//! Copies of database directories, also while they are open.
//!
//! A database can be copied while this or another program has it open, because a log is only
//! appended to. A copy is the state that a crash at that moment would have left, and opening a copy
//! is recovery. The manifest is read first, so that the copied segments contain everything that the
//! manifest requires. If the manifest has changed at the end, a checkpoint has removed files in the
//! meantime, and the copy is repeated.
//!
//! The log is read from its last byte to its first. A block names the blocks that were durable
//! before it was written, and these are read after it. A copy that lacks one of them is therefore a
//! copy of damage, which the storage manager's own reader detects. After that check, the bytes
//! behind the last block of each segment are cut off: they are preallocated space or an older
//! generation of the file.
// A copy is made by the calling thread, from files that the engine writes through its own port.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use platform::Hardware;
use redo_log::format::ALIGNMENT;
use redo_log::{LogError, MANIFEST, Manifest, Survey, parse_checkpoint_file_name, parse_segment_name};

use crate::database::Database;
use crate::error::{Error, Result};

/// Attempts to copy a database that makes checkpoints all the time.
const ATTEMPTS: usize = 20;
/// Only the owner of a database may access its directory.
const DIRECTORY_MODE: u32 = 0o700;

/// Summary of a copy, returned by [`Database::backup`] and [`copy_directory`]. [`Database::backup`]
/// has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Number of files.
    pub files: usize,
    /// The last epoch in the copy.
    pub last_epoch: u64,
    /// Rows in the last checkpoint.
    pub rows: u64,
    /// Records in the log behind the checkpoint.
    pub records: u64,
    /// Pages in use, if rows lie in pages: `last_epoch` and `rows` are then 0, and opening the copy
    /// replays its log.
    pub pages: Option<u64>,
}

impl Backup {
    fn of(survey: &Survey, files: usize) -> Self {
        Backup {
            files,
            last_epoch: survey.last_epoch,
            rows: survey.rows(),
            records: survey.records(),
            pages: None,
        }
    }
}

/// Reason why a directory cannot be copied.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("{}: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{}", at(.path, .source))]
    Log { path: PathBuf, source: LogError },
    #[error("{}: {what}", .path.display())]
    Words { path: PathBuf, what: &'static str },
    #[error(transparent)]
    Pages(#[from] pages::CopyError),
    #[error("the copy {}: {what}", .path.display())]
    Copy { path: PathBuf, what: String },
}

/// Formats an error of a log so that it names its path once.
fn at(path: &Path, error: &LogError) -> String {
    let (path, text) = (path.display().to_string(), error.to_string());
    if text.contains(&path) { text } else { format!("{path}: {text}") }
}

impl From<CopyError> for Error {
    fn from(error: CopyError) -> Self {
        Error::backup(error)
    }
}

type Copied<T> = std::result::Result<T, CopyError>;

fn of_file(path: &Path) -> impl FnOnce(io::Error) -> CopyError {
    move |source| CopyError::File { path: path.to_owned(), source }
}

fn of_log(path: &Path) -> impl FnOnce(LogError) -> CopyError {
    move |source| CopyError::Log { path: path.to_owned(), source }
}

fn words(path: &Path, what: &'static str) -> CopyError {
    CopyError::Words { path: path.to_owned(), what }
}

impl Database {
    /// Copies the database to a new or empty directory while transactions continue. The copy
    /// contains all transactions that committed before the call, and possibly later ones. It is
    /// verified, and [`Database::at`] opens it like any database.
    ///
    /// The calling thread reads and writes all bytes of the directory once. A copy that fails is
    /// removed.
    ///
    /// Errors: [`Error::Backup`] names the file that cannot be read or written; [`Error::Misuse`]
    /// in memory; [`Error::NotDurable`] if the log has stopped; [`Error::Nested`] within a
    /// transaction.
    ///
    /// ```
    /// use isles::{Database, Row};
    ///
    /// #[derive(Row, Debug, PartialEq)]
    /// #[row(key(id))]
    /// struct Account { id: u64, balance: i64 }
    ///
    /// # let scratch = std::env::temp_dir().join(format!("isles-doc-backup-{}", std::process::id()));
    /// # let (path, copy) = (scratch.join("data"), scratch.join("copy"));
    /// # std::fs::create_dir_all(&scratch).expect("a directory");
    /// let open = |path| {
    ///     let mut builder = Database::at(path);
    ///     let accounts = builder.table::<Account>("accounts");
    ///     builder.open().map(|database| (database, accounts))
    /// };
    /// let (database, accounts) = open(&path)?;
    /// database.transaction(|t| t.insert(accounts, &Account { id: 1, balance: 5 }))?;
    /// database.backup(&copy)?;
    /// database.transaction(|t| t.delete(accounts, &1))?;
    ///
    /// let (copied, accounts) = open(&copy)?;
    /// assert_eq!(copied.transaction(|t| t.get(accounts, &1))?, Some(Account { id: 1, balance: 5 }));
    /// # drop((database, copied));
    /// # let _ = std::fs::remove_dir_all(&scratch);
    /// # Ok::<(), isles::Error>(())
    /// ```
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<Backup> {
        self.shared.check_process()?;
        let Some(from) = &self.shared.path else {
            return Err(Error::Misuse("a database in memory has no directory to copy"));
        };
        self.flush()?;
        copy_directory(from, to)
    }
}

/// Copies the directory of a database to a new or empty directory, and verifies the copy. This or
/// another program may have the database open.
///
/// Errors: [`Error::Backup`]; the incomplete copy is removed.
///
/// ```
/// # let scratch = std::env::temp_dir().join(format!("isles-doc-copy-{}", std::process::id()));
/// # let (data, copy) = (scratch.join("data"), scratch.join("copy"));
/// # std::fs::create_dir_all(&scratch).expect("a directory");
/// isles::Database::at(&data).open()?.close()?;
/// isles::copy_directory(&data, &copy)?;
/// isles::Database::at(&copy).open()?;
/// # let _ = std::fs::remove_dir_all(&scratch);
/// # Ok::<(), isles::Error>(())
/// ```
pub fn copy_directory(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let made = make_empty(from, to)?;
    let copied = copy(from, to);
    if copied.is_err() {
        // The first error counts.
        let _ = clear(to);
        if made {
            let _ = fs::remove_dir(to);
        }
    }
    Ok(copied?)
}

/// Copies a directory with rows in pages, and verifies the copy.
fn copy_pages(from: &Path, to: &Path) -> Copied<Backup> {
    let files = pages::copy_pages(from, to)?;
    let copy = |what| CopyError::Copy { path: to.to_owned(), what };
    let examined =
        engine_native::examine_paged(Hardware::core(), to).map_err(|error| copy(error.to_string()))?;
    match examined.wrong.first() {
        Some(wrong) => Err(copy(format!("{wrong}, as in {}, by all odds: check that", from.display()))),
        None => Ok(Backup {
            files,
            last_epoch: 0,
            rows: 0,
            records: examined.records,
            pages: Some(examined.pages_in_use),
        }),
    }
}

fn copy(from: &Path, to: &Path) -> Copied<Backup> {
    if pages::holds_pages(from) {
        return copy_pages(from, to);
    }
    let manifest_path = from.join(MANIFEST);
    for _ in 0..ATTEMPTS {
        let manifest = fs::read(&manifest_path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => words(from, "not a database"),
            _ => of_file(&manifest_path)(error),
        })?;
        let known = Manifest::decode(&manifest).map_err(of_log(from))?;
        let copied = copy_files(from, to, &known);
        let now = fs::read(&manifest_path).map_err(of_file(&manifest_path))?;
        if now != manifest {
            clear(to)?;
            continue;
        }
        copied?;
        write(&to.join(MANIFEST), &manifest)?;
        let survey = engine_native::survey(Hardware::core(), to).map_err(|error| match error {
            LogError::Damaged { .. } => of_log(from)(error),
            other => of_log(to)(other),
        })?;
        cut_to_blocks(to, &survey)?;
        flush_directory(to)?;
        return Ok(Backup::of(&survey, names(to)?.len()));
    }
    Err(words(from, "it makes one checkpoint after the other: try again when it is less busy"))
}

/// Creates the directory, or checks that it is empty. Returns true if it was created. Refuses a
/// target inside the source: a database directory contains no other directories.
pub(crate) fn make_empty(from: &Path, to: &Path) -> Copied<bool> {
    let source = from.canonicalize().map_err(of_file(from))?;
    let absolute = std::path::absolute(to).map_err(of_file(to))?;
    let there = absolute.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    if there.is_some_and(|there| there.starts_with(&source)) {
        return Err(words(to, "a copy cannot lie in the directory that is copied: name another one"));
    }
    let is_new = !to.exists();
    let made = absolute.ancestors().take_while(|ancestor| !ancestor.exists()).count();
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(to).map_err(of_file(to))?;
    for parent in absolute.ancestors().skip(1).take(made) {
        flush_directory(parent)?;
    }
    match names(to)?.is_empty() {
        true => Ok(is_new),
        false => Err(words(to, "there are files in it: name a new or an empty directory")),
    }
}

/// Returns the names of the files in a directory, sorted.
fn names(directory: &Path) -> Copied<Vec<String>> {
    let entries = fs::read_dir(directory).map_err(of_file(directory))?;
    let mut names: Vec<String> = entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()
        .map_err(of_file(directory))?;
    names.sort();
    Ok(names)
}

/// Removes the files that an attempt has copied.
fn clear(to: &Path) -> Copied<()> {
    for name in names(to)? {
        let path = to.join(name);
        fs::remove_file(&path).map_err(of_file(&path))?;
    }
    Ok(())
}

/// Makes the entries of a directory durable.
fn flush_directory(path: &Path) -> Copied<()> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(of_file(path))
}

/// Copies the files that the manifest requires, the last segment of each stream first.
fn copy_files(from: &Path, to: &Path, manifest: &Manifest) -> Copied<()> {
    let listed = names(from)?;
    for name in listed.iter().rev().filter(|name| manifest.needs(name)) {
        let (path, copy) = (from.join(name), to.join(name));
        if parse_segment_name(name).is_some() {
            let bytes = File::open(&path).and_then(|file| pages::read_backwards(&file));
            write_with_hole(&copy, &bytes.map_err(of_file(&path))?)?;
        } else if parse_checkpoint_file_name(name).is_some() {
            write(&copy, &fs::read(&path).map_err(of_file(&path))?)?;
        }
    }
    // Copies the headers of segments that were created in the meantime: earlier segments may name
    // them. Blocks may also name the new length of a segment that has grown since it was read.
    for name in names(from)?.iter().filter(|name| manifest.needs(name) && parse_segment_name(name).is_some())
    {
        let (path, copy) = (from.join(name), to.join(name));
        let file = File::open(&path).map_err(of_file(&path))?;
        let mut header = vec![0; ALIGNMENT];
        match file.read_exact_at(&mut header, 0) {
            Ok(()) => {}
            // The segment is being created: no block names it before it has a header.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                if listed.contains(name) {
                    fs::remove_file(&copy).map_err(of_file(&copy))?;
                }
                continue;
            }
            Err(error) => return Err(of_file(&path)(error)),
        }
        if listed.contains(name) {
            // The segment may have had no header yet when it was read.
            let copied = File::options().write(true).open(&copy);
            copied.and_then(|copied| copied.write_all_at(&header, 0)).map_err(of_file(&copy))?;
        } else {
            write(&copy, &header)?;
        }
        let bytes = file.metadata().map_err(of_file(&path))?.len();
        if bytes > fs::metadata(&copy).map_err(of_file(&copy))?.len() {
            set_length(&copy, bytes)?;
        }
    }
    Ok(())
}

/// Writes a file with a hole in place of the zeros at its end.
fn write_with_hole(path: &Path, bytes: &[u8]) -> Copied<()> {
    let whole = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    write(path, &bytes[..whole])?;
    set_length(path, bytes.len() as u64)
}

/// Truncates the segments of a copy to the ends of their last blocks, durably.
fn cut_to_blocks(to: &Path, survey: &Survey) -> Copied<()> {
    for segment in &survey.segments {
        let path = to.join(&segment.name);
        match segment.end {
            0 => fs::remove_file(&path).map_err(of_file(&path))?,
            end => set_length(&path, end.min(segment.bytes))?,
        }
    }
    Ok(())
}

fn set_length(path: &Path, bytes: u64) -> Copied<()> {
    let set = |file: File| file.set_len(bytes).and_then(|()| file.sync_all());
    File::options().write(true).open(path).and_then(set).map_err(of_file(path))
}

fn write(path: &Path, bytes: &[u8]) -> Copied<()> {
    pages::write_new_file(path, bytes).map_err(of_file(path))
}
