//! Files that outlive the process: what a redo log, checkpoints and recovery need, and no more.
//!
//! A database is one [directory](Files::Directory) that is locked against a second opener.
//! Everything in it is done through [queues](Files::Queue): a core submits an [`Operation`] and
//! continues; a queue performs its operations one after another, in the order of submission, and
//! the core polls for [`Completion`]s, or waits for them, in the same order. Several queues work at
//! the same time. The memory that is written or read belongs to the operation while it is under
//! way, and comes back with its completion.
//!
//! # What survives
//!
//! - A write survives a loss of power once a [`Operation::Flush`] of its file, performed after it,
//!   has succeeded. Until then any part of it may be lost, by sectors and in any order.
//! - A name (created, renamed, removed) survives once an [`Operation::FlushDirectory`] performed
//!   after it has succeeded.
//! - After a flush that failed the writes before it may be lost although a later flush succeeds:
//!   the operating system marks what it could not write as clean (Rebello et al., "Can Applications
//!   Recover from fsync Failures?", ATC 2020). A program that sees a flush fail acknowledges
//!   nothing any more and opens the files anew.
//!
//! Names are those of files directly in the directory: there are no directories below it.

mod buffer;
mod error;

use std::path::Path;

use crate::{Nanos, Platform};

pub use buffer::{BLOCK_BYTES, Buffer};
pub use error::{FileError, FileErrorKind, is_plain};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It is there.
    Old,
    /// It is not there, and is made, empty.
    New,
}

/// The way between buffers and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the operating system's cache.
    Cached,
    /// Past it, where the file system allows that. Offsets and lengths are multiples of
    /// [`BLOCK_BYTES`].
    Direct,
}

/// Something to do in a directory.
pub enum Operation<P: Files> {
    /// Names and sizes of all files, in the order of names: [`Done::Entries`].
    List,
    /// Opens a file: [`Done::File`].
    Open {
        /// Its name.
        name: String,
        /// Opens the file by this rule of existence. An existing file that may only be read is
        /// opened for reading: writes to it are refused.
        existence: Existence,
        /// How it is used.
        access: Access,
    },
    /// Gives a file another name; a file that has that name already is replaced, and no moment
    /// shows neither.
    Rename {
        /// The name it has.
        from: String,
        /// The name it gets.
        to: String,
    },
    /// Removes a name. The file lasts as long as a program has it open.
    Remove {
        /// The name.
        name: String,
    },
    /// Makes names durable.
    FlushDirectory,
    /// Writes buffers one behind the other.
    Write {
        /// Where to.
        file: P::File,
        /// First byte in the file.
        offset: u64,
        /// What: the filled part of each. With [`Access::Direct`], whole blocks.
        buffers: Vec<Buffer<P>>,
    },
    /// Fills a buffer from its beginning to its capacity, or to the end of the file:
    /// [`Done::Bytes`] says how far.
    Read {
        /// Where from.
        file: P::File,
        /// First byte in the file.
        offset: u64,
        /// Where to.
        buffer: Buffer<P>,
    },
    /// Makes the writes of a file durable that were performed before, and its size.
    Flush {
        /// The file.
        file: P::File,
    },
    /// Takes space on the device behind the end of a file, so that later writes up to this size
    /// find it; the file reads as zeros there.
    Preallocate {
        /// The file.
        file: P::File,
        /// The size it gets.
        bytes: u64,
    },
    /// Writes zeros where nothing was written since the space was taken: the file reads as before.
    /// A file system that takes space marks it as unwritten, and each flush of a first write there
    /// also has to make that mark's end durable; behind zeros a flush is one of data.
    Clear {
        /// The file.
        file: P::File,
        /// First byte in the file. With [`Access::Direct`], that of a block.
        offset: u64,
        /// How many. With [`Access::Direct`], those of whole blocks.
        bytes: u64,
    },
    /// Length of a file: [`Done::Bytes`].
    Size {
        /// The file.
        file: P::File,
    },
}

/// One file of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// The result of an operation that succeeded.
pub enum Done<P: Files> {
    /// Nothing but the effect.
    Nothing,
    /// The opened file.
    File(P::File),
    /// The files of the directory.
    Entries(Vec<Entry>),
    /// A number of bytes.
    Bytes(u64),
}

/// Which operation of a queue: they count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The end of an operation.
pub struct Completion<P: Files> {
    /// The operation.
    pub ticket: Ticket,
    /// The buffers it had, in the order they had.
    pub buffers: Vec<Buffer<P>>,
    /// How it ended.
    pub result: Result<Done<P>, FileError>,
}

impl<P: Files> Completion<P> {
    /// The opened file. Panics if the operation opened none.
    pub fn into_file(self) -> Result<P::File, FileError> {
        match self.result? {
            Done::File(file) => Ok(file),
            _ => unreachable!("not an operation that opens"),
        }
    }

    /// The files of the directory. Panics if the operation did not list them.
    pub fn into_entries(self) -> Result<Vec<Entry>, FileError> {
        match self.result? {
            Done::Entries(entries) => Ok(entries),
            _ => unreachable!("not an operation that lists"),
        }
    }

    /// The number of bytes. Panics if the operation gives none.
    pub fn bytes(&self) -> Result<u64, FileError> {
        match &self.result {
            Ok(Done::Bytes(bytes)) => Ok(*bytes),
            Ok(_) => unreachable!("not an operation that counts"),
            Err(error) => Err(error.clone()),
        }
    }
}

/// A platform's files. See the [module](self) for what survives.
pub trait Files: Platform {
    /// An opened directory that no other program has open. It stays locked until the directory, its
    /// queues and its files are dropped.
    type Directory: Send + Sync;
    /// An opened file.
    type File: Clone + Send + Sync;
    /// Performs operations one after another. It belongs to one core at a time.
    type Queue: Send;

    /// Opens and locks a directory; with `create`, one that is not there is made, and its name made
    /// durable.
    ///
    /// # Errors
    /// [`FileErrorKind::InUse`] if it is open already, in this process or another.
    fn open_directory(c: Self::Core, path: &Path, create: bool) -> Result<Self::Directory, FileError>;

    /// A number that no other call draws, on any machine: it distinguishes files of one database,
    /// or of one generation of it, from all others. The operating system's randomness on hardware;
    /// by the seed of the disk in a virtual machine.
    ///
    /// # Errors
    /// The operating system has no randomness to give.
    fn fresh_identity(c: Self::Core, directory: &Self::Directory) -> Result<u64, FileError>;

    /// A queue for operations in a directory.
    fn queue(c: Self::Core, directory: &Self::Directory) -> Result<Self::Queue, FileError>;

    /// Begins an operation, and does not wait for it.
    fn submit(c: Self::Core, queue: &mut Self::Queue, operation: Operation<Self>) -> Ticket;

    /// The next completion, in the order of submission; `None` if that operation is under way
    /// still, or there is none.
    fn take(c: Self::Core, queue: &mut Self::Queue) -> Option<Completion<Self>>;

    /// Sleeps until there is a completion to take, or the deadline; false if there is none, which
    /// without a deadline means that no operation is under way (or that the machine has crashed,
    /// and the caller is being unwound).
    fn wait(c: Self::Core, queue: &mut Self::Queue, deadline: Option<Nanos>) -> bool;

    /// Performs one operation and waits for it, on a queue without others under way.
    fn perform(c: Self::Core, queue: &mut Self::Queue, operation: Operation<Self>) -> Completion<Self> {
        let ticket = Self::submit(c, queue, operation);
        loop {
            if let Some(completion) = Self::take(c, queue) {
                assert_eq!(completion.ticket, ticket, "other operations are under way");
                return completion;
            }
            if !Self::wait(c, queue, None) {
                let result = Err(FileError::stopped());
                return Completion { ticket, buffers: Vec::new(), result };
            }
        }
    }
}
