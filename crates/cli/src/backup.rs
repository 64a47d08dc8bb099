//! `isles backup` and `isles restore`: copies of a database's directory.
//!
//! A database can be copied while another process has it open, since a log is only appended to: what a copy has of a segment up
//! to the first block that is not whole is what a crash at that moment would have left, and opening a copy is recovery. The
//! manifest is read first, so that the segments have all that it takes for durable; if it has changed by the end, a
//! checkpoint has taken files away meanwhile, and the copy is made anew.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use platform::Hardware;
use storage::log::format::{ALIGNMENT, SegmentHeader, block};
use storage::log::{MANIFEST, Manifest, Survey, parse_checkpoint_file_name, parse_segment_name, survey};

use crate::errors::Failure;
use crate::report::numbers::thousands;

const BACKUP_EXAMPLES: &str = "Example:
  isles backup data /backups/data-1     the database may be open, and changing

TO is a directory that is new or empty. It holds what was committed when the copy began, or a little later, and is a database
itself. Exit status: 0 done and verified, 1 failed, 2 bad input.";

const RESTORE_EXAMPLES: &str = "Example:
  isles restore /backups/data-1 data

TO is a directory that is new or empty. Exit status: 0 done and verified, 1 failed, 2 bad input.";

/// Copies that are begun before a database that makes one checkpoint after the other is given up.
const ATTEMPTS: usize = 20;

/// Flags of `isles backup`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub struct BackupArguments {
    /// Directory of the database
    #[arg(value_name = "PATH")]
    pub path: String,
    /// Directory of the copy
    #[arg(value_name = "TO")]
    pub to: String,
}

/// Flags of `isles restore`.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArguments {
    /// Directory of the copy
    #[arg(value_name = "BACKUP")]
    pub backup: String,
    /// Directory of the database
    #[arg(value_name = "TO")]
    pub to: String,
}

/// Copies a database, which may be open.
///
/// # Errors
/// [`Failure::Failed`] with the file that cannot be read or written, or the first damage.
pub fn backup(arguments: &BackupArguments) -> Result<String, Failure> {
    copy(Path::new(&arguments.path), Path::new(&arguments.to))
}

/// Makes a database of a backup, which is verified first.
///
/// # Errors
/// As [`backup`].
pub fn restore(arguments: &RestoreArguments) -> Result<String, Failure> {
    let from = Path::new(&arguments.backup);
    survey::<Hardware>(Hardware::core(), from).map_err(|error| Failure::at(from, &error))?;
    copy(from, Path::new(&arguments.to))
}

fn copy(from: &Path, to: &Path) -> Result<String, Failure> {
    make_empty(to)?;
    for _ in 0..ATTEMPTS {
        let manifest = fs::read(from.join(MANIFEST)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::at(from, &"not a database"),
            _ => Failure::at(&from.join(MANIFEST), &error),
        })?;
        let known = Manifest::decode(&manifest).map_err(|error| Failure::at(from, &error))?;
        let copied = copy_files(from, to, &known);
        let now = fs::read(from.join(MANIFEST)).map_err(|error| Failure::at(&from.join(MANIFEST), &error))?;
        if now != manifest {
            clear(to)?;
            continue;
        }
        copied?;
        write(&to.join(MANIFEST), &manifest)?;
        File::open(to).and_then(|directory| directory.sync_all()).map_err(|error| Failure::at(to, &error))?;
        let survey = survey::<Hardware>(Hardware::core(), to).map_err(|error| Failure::at(to, &error))?;
        return Ok(summary(to, &survey));
    }
    Err(Failure::at(from, &"it makes one checkpoint after the other: try again when it is less busy"))
}

fn summary(to: &Path, survey: &Survey) -> String {
    format!(
        "{}: ok, {} files, up to epoch {}: {} rows in the checkpoint, {} records in the log\n",
        to.display(),
        survey.files().len(),
        survey.last_epoch,
        thousands(survey.rows()),
        thousands(survey.records()),
    )
}

/// Makes the directory, or finds it empty.
fn make_empty(to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(|error| Failure::at(to, &error))?;
    match names(to)?.is_empty() {
        true => Ok(()),
        false => Err(Failure::at(to, &"there are files in it: name a new or an empty directory")),
    }
}

/// Names of the files in a directory, in order.
fn names(directory: &Path) -> Result<Vec<String>, Failure> {
    let entries = fs::read_dir(directory).map_err(|error| Failure::at(directory, &error))?;
    let mut names: Vec<String> = entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()
        .map_err(|error| Failure::at(directory, &error))?;
    names.sort();
    Ok(names)
}

/// Removes what an attempt has copied.
fn clear(to: &Path) -> Result<(), Failure> {
    for name in names(to)? {
        let path = to.join(name);
        fs::remove_file(&path).map_err(|error| Failure::at(&path, &error))?;
    }
    Ok(())
}

/// Copies the files that the manifest needs.
fn copy_files(from: &Path, to: &Path, manifest: &Manifest) -> Result<(), Failure> {
    for name in names(from)? {
        let is_checkpoint_file = parse_checkpoint_file_name(&name).is_some();
        if !manifest.needs(&name) || !is_checkpoint_file && parse_segment_name(&name).is_none() {
            continue;
        }
        let path = from.join(&name);
        let bytes = fs::read(&path).map_err(|error| Failure::at(&path, &error))?;
        let whole = if is_checkpoint_file { &bytes[..] } else { whole_blocks(&bytes) };
        if !whole.is_empty() {
            write(&to.join(&name), whole)?;
        }
    }
    Ok(())
}

/// The beginning of a segment that is written and will not change.
fn whole_blocks(segment: &[u8]) -> &[u8] {
    let Ok(Some(header)) = SegmentHeader::fetch(segment) else { return &[] };
    let (mut at, mut next) = (ALIGNMENT, header.first_block);
    while let Some((found, _)) = segment.get(at..).and_then(block)
        && (found.generation, found.number) == (header.generation, next)
    {
        at += found.block_bytes();
        next += 1;
    }
    &segment[..at]
}

fn write(path: &PathBuf, bytes: &[u8]) -> Result<(), Failure> {
    let write = || {
        let mut file = File::options().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error: io::Error| Failure::at(path, &error))
}
