//! Copies of database directories, also while they are open.
//!
//! A database can be copied while this or another program has it open, because a log is only
//! appended to. A copy is the state that a crash at that moment would have left, and opening a copy
//! is recovery. The manifest is read first, so that the copied segments contain everything that the
//! manifest requires. All files that it requires are open before a byte is copied: a checkpoint
//! that ends in the meantime removes names, and open files stay readable. Only a segment that is
//! written again as another one is lost; its header changes before anything else in it, and the
//! copy is repeated. So a database that makes one checkpoint after the other is copied too.
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
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use platform::Hardware;
use redo_log::format::ALIGNMENT;
use redo_log::{LogError, MANIFEST, Manifest, Survey, parse_checkpoint_file_name, parse_segment_name};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::database::Database;
use crate::error::{Error, Result};

/// Attempts to copy a database that makes checkpoints all the time.
const ATTEMPTS: usize = 100;
/// Only the owner of a database may access its directory.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Bytes of a segment that are copied at a time.
const STEP_BYTES: usize = 1 << 20;

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
        let copied = copy_of(from, to, &known, &manifest);
        let now = fs::read(&manifest_path).map_err(of_file(&manifest_path))?;
        match copied {
            Ok(Some(backup)) if is_same_log(&known, &Manifest::decode(&now).map_err(of_log(from))?) => {
                return Ok(backup);
            }
            Err(error) if now == manifest => return Err(error),
            _ => clear(to)?,
        }
    }
    Err(words(from, "it makes one checkpoint after the other: try again when it is less busy"))
}

/// Returns true if all records that were written between the two manifests are of tables and
/// openings that the first one knows.
fn is_same_log(one: &Manifest, other: &Manifest) -> bool {
    let opening = |manifest: &Manifest| manifest.generations.last().map(|generation| generation.identity);
    one.extra == other.extra && opening(one) == opening(other)
}

/// Copies the files that this manifest requires, and verifies the copy. Returns `None` if the
/// manifest, or a segment, was replaced in the meantime.
fn copy_of(from: &Path, to: &Path, known: &Manifest, manifest: &[u8]) -> Copied<Option<Backup>> {
    let sources = open_sources(from, known)?;
    let manifest_path = from.join(MANIFEST);
    if fs::read(&manifest_path).map_err(of_file(&manifest_path))? != manifest {
        return Ok(None);
    }
    if !copy_segments(from, to, known, &sources)? {
        return Ok(None);
    }
    for Source { name, file, .. } in sources.iter().filter(|source| !source.is_segment) {
        let (mut bytes, mut file) = (Vec::new(), file);
        io::Read::read_to_end(&mut file, &mut bytes).map_err(of_file(&from.join(name)))?;
        write(&to.join(name), &bytes)?;
    }
    write(&to.join(MANIFEST), manifest)?;
    let survey = engine_native::survey(Hardware::core(), to).map_err(|error| match error {
        LogError::Damaged { .. } => of_log(from)(error),
        other => of_log(to)(other),
    })?;
    cut_to_blocks(to, &survey)?;
    flush_directory(to)?;
    Ok(Some(Backup::of(&survey, names(to)?.len())))
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

/// A file that a manifest requires.
struct Source {
    name: String,
    file: File,
    is_segment: bool,
    /// The header of a segment when the file was opened.
    header: Option<Vec<u8>>,
}

/// Opens the segments and checkpoint files that the manifest requires, sorted by their names.
fn open_sources(from: &Path, manifest: &Manifest) -> Copied<Vec<Source>> {
    let mut sources = Vec::new();
    for name in names(from)?.into_iter().filter(|name| manifest.needs(name)) {
        let is_segment = parse_segment_name(&name).is_some();
        if is_segment || parse_checkpoint_file_name(&name).is_some() {
            let path = from.join(&name);
            let file = File::open(&path).map_err(of_file(&path))?;
            let header = if is_segment { header_of(&file).map_err(of_file(&path))? } else { None };
            sources.push(Source { name, file, is_segment, header });
        }
    }
    Ok(sources)
}

/// The header of a segment; `None` if the segment is being created: no block names it before it has
/// a header.
fn header_of(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut header = vec![0; ALIGNMENT];
    match file.read_exact_at(&mut header, 0) {
        Ok(()) => Ok(Some(header)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Copies the segments, the last one of each stream first. Returns false if one of them was written
/// again as another segment in the meantime.
fn copy_segments(from: &Path, to: &Path, manifest: &Manifest, sources: &[Source]) -> Copied<bool> {
    let segments = || sources.iter().filter(|source| source.is_segment);
    // Made durable afterwards, so that no checkpoint overtakes the copy.
    for Source { name, file, .. } in segments().rev() {
        let copy = to.join(name);
        let new = File::options().write(true).create_new(true).mode(FILE_MODE).open(&copy);
        copy_backwards(file, &new.map_err(of_file(&copy))?).map_err(of_file(&from.join(name)))?;
    }
    // Copies the headers of segments that were created in the meantime: earlier segments may name
    // them. Blocks may also name the new length of a segment that has grown since it was read.
    for Source { name, file, header, .. } in segments() {
        let (path, copy) = (from.join(name), to.join(name));
        let Some(now) = header_of(file).map_err(of_file(&path))? else {
            fs::remove_file(&copy).map_err(of_file(&copy))?;
            continue;
        };
        if header.as_ref().is_some_and(|header| *header != now) {
            return Ok(false);
        }
        // The segment may have had no header yet when it was read.
        let copied = File::options().write(true).open(&copy);
        copied.and_then(|copied| copied.write_all_at(&now, 0)).map_err(of_file(&copy))?;
        extend(&copy, file.metadata().map_err(of_file(&path))?.len())?;
    }
    let is_new =
        |name: &&String| parse_segment_name(name).is_some() && segments().all(|source| source.name != **name);
    for name in names(from)?.iter().filter(|name| manifest.needs(name)).filter(is_new) {
        let (path, copy) = (from.join(name), to.join(name));
        let file = File::open(&path).map_err(of_file(&path))?;
        if let Some(header) = header_of(&file).map_err(of_file(&path))? {
            write(&copy, &header)?;
            extend(&copy, file.metadata().map_err(of_file(&path))?.len())?;
        }
    }
    Ok(true)
}

/// Copies a file that is only appended to, later bytes before earlier ones, without its holes:
/// most of a segment is space that was not written.
fn copy_backwards(from: &File, to: &File) -> io::Result<()> {
    let bytes = from.metadata()?.len();
    to.set_len(bytes)?;
    let mut steps = Vec::new();
    let mut end = 0;
    while end < bytes {
        let start = match seek(from, SeekFrom::Data(end)) {
            Ok(start) => start,
            // No data follows.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        end = seek(from, SeekFrom::Hole(start))?;
        steps.extend((start..end).step_by(STEP_BYTES).map(|at| (at, end.min(at + STEP_BYTES as u64))));
    }
    let mut step = vec![0; STEP_BYTES];
    for (start, end) in steps.into_iter().rev() {
        let step = &mut step[..(end - start) as usize];
        from.read_exact_at(step, start)?;
        to.write_all_at(step, start)?;
    }
    Ok(())
}

/// Makes a file at least as long.
fn extend(path: &Path, bytes: u64) -> Copied<()> {
    if fs::metadata(path).map_err(of_file(path))?.len() < bytes {
        set_length(path, bytes)?;
    }
    Ok(())
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
