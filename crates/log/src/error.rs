//! Errors of a log.

use std::path::PathBuf;

use platform::OutOfMemory;
use platform::files::FileError;

/// The reason why a log cannot be opened, read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The files refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// Memory was refused.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// Another version wrote the directory, or something else.
    #[error(
        "the database has format {found}, this version knows {known}: open it with the version that wrote it"
    )]
    Format {
        /// The version in the file.
        found: u32,
        /// The version of this program.
        known: u32,
    },
    /// The directory holds files, and no database.
    #[error("{}: not a database: name one, or an empty or a new directory for one", .0.display())]
    NotADatabase(PathBuf),
    /// The directory has files of a database, and no manifest.
    #[error(
        "{}: isles.manifest is missing, and files of a database are there ({file}): put it back, or restore a backup",
        .path.display()
    )]
    NoManifest {
        /// The directory.
        path: PathBuf,
        /// A file of the database that was found.
        file: String,
    },
    /// A file has the name of one of the database's, and is not the database's.
    #[error(
        "{0}: it belongs to another database, or to a copy of this one that went on for itself: move it away, and put back what belongs there"
    )]
    Foreign(String),
    /// A file is newer than the manifest.
    #[error(
        "{0}: a later opening has written it than isles.manifest knows, which is an older one: put the right one back, or restore a backup"
    )]
    OlderManifest(String),
    /// The directory has a database of the other storage manager.
    #[error("{}: holds rows in pages: open it with a pool of pages, or name another directory", .0.display())]
    RowsInPages(PathBuf),
    /// Durable data cannot be read any more.
    #[error("{file}: damaged at byte {offset}: {what}; restore a backup")]
    Damaged {
        /// The file's name.
        file: String,
        /// First damaged byte of the file.
        offset: u64,
        /// A description of the damage.
        what: &'static str,
    },
    /// The last epoch has come.
    #[error(
        "the database has used up its epochs, and commits nothing any more: open it with the rows copied to a new directory"
    )]
    NoEpochs,
    /// A row cannot be copied for a checkpoint.
    #[error("a row cannot be copied: {0}; the checkpoint before still counts")]
    Copy(String),
    /// Writing has failed: nothing is acknowledged any more.
    #[error("the log has stopped, nothing committed since is durable: {0}; then open the database anew")]
    Stopped(FileError),
}
