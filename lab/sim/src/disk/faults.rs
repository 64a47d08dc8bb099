//! What goes wrong with a disk. The fault model stands in the module above.

use platform::files::{FileErrorKind, Operation};

use crate::VirtualMachine;

/// What goes wrong with a disk. The default: nothing but what a loss of power may always do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Decides everything that is left open.
    pub seed: u64,
    /// Bytes that files may have together.
    pub capacity_bytes: u64,
    /// What the device writes as a whole: 512 or 4096.
    pub sector_bytes: usize,
    /// One flush of a file in this many fails; 0: none.
    pub flush_failure_one_in: u64,
    /// At a loss of power, one unflushed sector in this many holds garbage; 0: none.
    pub garbage_one_in: u64,
    /// The disk says that it has flushed files, and has not: a test that a program flushes must
    /// notice.
    pub ignores_flushes: bool,
    /// The same for directories.
    pub ignores_directory_flushes: bool,
    /// Calls that the system refuses.
    pub refusal: Option<Refusal>,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
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

/// Calls of one kind that the operating system refuses, counted from when the faults were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Their kind.
    pub call: Call,
    /// So many succeed first.
    pub after: u64,
    /// So many are refused then.
    pub times: u64,
}

/// Kinds of calls that the operating system may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A directory is opened.
    OpenDirectory,
    /// A thread for a queue of operations begins.
    Thread,
    /// Memory is taken for a region.
    Map,
    /// A directory is listed.
    List,
    /// A file is opened or made.
    Open,
    /// A file is read.
    Read,
    /// A file is written.
    Write,
    /// A file is flushed. What was to be flushed is lost with the power.
    Flush,
    /// A directory is flushed.
    FlushDirectory,
    /// Space is taken.
    Preallocate,
    /// A file gets another name.
    Rename,
    /// A name is removed.
    Remove,
}

impl Call {
    /// All.
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

    /// The call that an operation makes, if it is one that may be refused.
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

    /// Why the system says that it refuses.
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
