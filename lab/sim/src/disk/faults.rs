//! Faults of a disk. The module above describes the fault model.

use platform::files::{FileErrorKind, Operation};

use crate::VirtualMachine;

/// Faults of a disk. The default has only the effects that any loss of power may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFaults {
    /// Decides everything that the faults leave open.
    pub seed: u64,
    /// Capacity for all files together.
    pub capacity_bytes: u64,
    /// Unit of the device's writes: 512 or 4096.
    pub sector_bytes: usize,
    /// One flush of a file in this many fails; 0: none.
    pub flush_failure_one_in: u64,
    /// At a loss of power, one unflushed sector in this many has garbage; 0: none.
    pub garbage_one_in: u64,
    /// The disk reports flushes of files as done without doing them: a test that a program flushes
    /// must notice.
    pub ignores_flushes: bool,
    /// The same for flushes of directories.
    pub ignores_directory_flushes: bool,
    /// Calls that the operating system refuses.
    pub refusal: Option<Refusal>,
}

impl Default for DiskFaults {
    fn default() -> Self {
        DiskFaults {
            seed: 0,
            capacity_bytes: u64::MAX,
            sector_bytes: 512,
            flush_failure_one_in: 0,
            garbage_one_in: 0,
            ignores_flushes: false,
            ignores_directory_flushes: false,
            refusal: None,
        }
    }
}

/// Calls of one kind that the operating system refuses, counted from the moment at which the faults
/// were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Kind of the calls.
    pub call: Call,
    /// Number of calls that succeed first.
    pub after: u64,
    /// Number of calls that are refused then.
    pub times: u64,
}

/// Kinds of calls that the operating system may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Open a directory.
    OpenDirectory,
    /// Start a thread for a queue of operations.
    Thread,
    /// Map memory for a region.
    Map,
    /// List a directory.
    List,
    /// Open or create a file.
    Open,
    /// Read a file.
    Read,
    /// Write a file.
    Write,
    /// Flush a file. A loss of power loses the changes that were to be flushed.
    Flush,
    /// Flush a directory.
    FlushDirectory,
    /// Allocate space.
    Preallocate,
    /// Rename a file.
    Rename,
    /// Remove a name.
    Remove,
}

impl Call {
    /// All kinds.
    pub const ALL: [Call; 12] = [
        Call::OpenDirectory,
        Call::Thread,
        Call::Map,
        Call::List,
        Call::Open,
        Call::Read,
        Call::Write,
        Call::Flush,
        Call::FlushDirectory,
        Call::Preallocate,
        Call::Rename,
        Call::Remove,
    ];

    /// The call that an operation makes, if the call may be refused.
    pub(super) fn of(operation: &Operation<VirtualMachine>) -> Option<Call> {
        Some(match operation {
            Operation::List => Call::List,
            Operation::Open { .. } => Call::Open,
            Operation::Rename { .. } => Call::Rename,
            Operation::Remove { .. } => Call::Remove,
            Operation::FlushDirectory => Call::FlushDirectory,
            Operation::Write { .. } => Call::Write,
            Operation::Read { .. } => Call::Read,
            Operation::Flush { .. } => Call::Flush,
            Operation::Preallocate { .. } => Call::Preallocate,
            Operation::Clear { .. } | Operation::Size { .. } => return None,
        })
    }

    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Call::OpenDirectory | Call::Open => "open",
            Call::Thread => "thread",
            Call::Map => "mmap",
            Call::List => "readdir",
            Call::Read => "read",
            Call::Write => "write",
            Call::Flush => "fdatasync",
            Call::FlushDirectory => "fsync",
            Call::Preallocate => "fallocate",
            Call::Rename => "rename",
            Call::Remove => "remove",
        }
    }

    /// The error with which the operating system refuses it.
    pub(crate) fn refusal(self) -> FileErrorKind {
        let device = |words: &str| FileErrorKind::Device(words.to_owned());
        match self {
            Call::OpenDirectory | Call::Open => device("too many open files"),
            Call::Thread => device("resource temporarily unavailable"),
            Call::Map => device("cannot allocate memory"),
            Call::Write | Call::Preallocate => FileErrorKind::Full,
            _ => device("input/output error"),
        }
    }
}
