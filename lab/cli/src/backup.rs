//! `isles backup` and `isles restore`: copies of a database's directory. The library makes them.

use std::path::Path;

use clap::Args;
use isles::Backup;
use platform::Hardware;
use redo_log::survey;

use crate::errors::Failure;
use crate::numbers::thousands;

const BACKUP_EXAMPLES: &str = "Example:
  isles backup data /backups/data-1     the database may be open, and changing

A deployment of several instances is copied as a whole, while nobody has it open.

TO is a directory that is new or empty. It holds what was committed when the copy began, or a little later, and is a database
itself. Exit status: 0 done and verified, 1 failed, 2 bad input.";

const RESTORE_EXAMPLES: &str = "Example:
  isles restore /backups/data-1 data

TO is a directory that is new or empty. Exit status: 0 done and verified, 1 failed, 2 bad input.";

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
    if !pages::holds_pages(from) && !from.join(harness::directory::FILE).exists() {
        survey::<Hardware>(Hardware::core(), from).map_err(|error| Failure::at(from, &error))?;
    }
    copy(from, Path::new(&arguments.to))
}

fn copy(from: &Path, to: &Path) -> Result<String, Failure> {
    if from.join(harness::directory::FILE).exists() {
        let copies = isles::copy_deployment(from, to).map_err(Failure::of)?;
        let (instances, files) = (copies.len(), copies.iter().map(|copy| copy.files).sum::<usize>());
        return Ok(format!("{}: ok, {instances} instances, {files} files\n", to.display()));
    }
    let Backup { files, last_epoch, rows, records, pages, .. } =
        isles::copy_directory(from, to).map_err(Failure::of)?;
    if let Some(pages) = pages {
        return Ok(format!(
            "{}: ok, {files} files: {} pages, {} records in the log\n",
            to.display(),
            thousands(pages),
            thousands(records),
        ));
    }
    Ok(format!(
        "{}: ok, {files} files, up to epoch {last_epoch}: {} rows in the checkpoint, {} records in the log\n",
        to.display(),
        thousands(rows),
        thousands(records),
    ))
}
