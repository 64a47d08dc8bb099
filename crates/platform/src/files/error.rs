//! Errors of files, and their remedies.

use std::path::{Path, PathBuf};

/// An operation on a file or directory that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {call}: {kind}", path.display())]
pub struct FileError {
    /// The file or directory.
    pub path: PathBuf,
    /// The call that failed.
    pub call: &'static str,
    /// Why it failed.
    pub kind: FileErrorKind,
}

/// Why an operation on files failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileErrorKind {
    /// There is no such file.
    #[error("it is not there")]
    Missing,
    /// The directory that it is to be made in is not there.
    #[error("the directory that it is to be in is not there: make that first")]
    NoParent,
    /// There is such a file already.
    #[error("it is there already")]
    Exists,
    /// The directory is open already.
    #[error("another process, or another database of this one, has it open: end that first")]
    InUse,
    /// It is not a directory.
    #[error("it is not a directory: name one, or a new one")]
    NotADirectory,
    /// The device is full.
    #[error("the disk is full: make room on it")]
    Full,
    /// The file may not be as large: by the limit of the process, or of the file system.
    #[error(
        "no file may be as large: raise the limit of the process (`ulimit -f`), or take a file system that allows larger files"
    )]
    TooLarge,
    /// The device or mount allows no writing.
    #[error("it is mounted read-only: mount it for writing, or take another directory")]
    ReadOnly,
    /// The user may not.
    #[error("permission denied: change the owner or mode, or take another directory")]
    Denied,
    /// A name that the file system does not take, as it is too long.
    #[error("a name in this path is too long for the file system: take a shorter one")]
    LongName,
    /// A name that is no name of a file in the directory.
    #[error("not a name of a file in this directory")]
    Name,
    /// Offsets or lengths that a direct file does not take.
    #[error("direct access takes whole blocks of {} bytes", super::BLOCK_BYTES)]
    Misaligned,
    /// The device failed: its words.
    #[error("{0}: check the device; what it last acknowledged is not certain")]
    Device(String),
    /// The calling process was forked from the one that opened the directory.
    #[error("another process opened it, and this one was forked from that: open it in one process only")]
    OtherProcess,
    /// There is no device.
    #[error("the machine has no disk: give it one")]
    NoDisk,
    /// The machine has crashed meanwhile.
    #[error("the machine has stopped")]
    Stopped,
}

impl FileError {
    /// A failure of `call` on `path`.
    pub fn new(path: &Path, call: &'static str, kind: FileErrorKind) -> FileError {
        FileError { path: path.to_path_buf(), call, kind }
    }

    /// The machine has crashed: the calling code is being unwound.
    pub fn stopped() -> FileError {
        FileError { path: PathBuf::new(), call: "wait", kind: FileErrorKind::Stopped }
    }
}

/// True if a name is one of a file directly in a directory.
pub fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0']) && name.len() <= 255
}
