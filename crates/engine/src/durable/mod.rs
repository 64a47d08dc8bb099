//! Durability of a database: its commits go to a [log](storage::log), and are found there when it is opened again.
//!
//! A commit leaves a record: [the changes](cc::Scheme::redo) in the [encoding](codec) that the row types give, with its stamp.
//! When it may be acknowledged is up to whoever runs transactions: [`crate::Session::is_durable`] and
//! [`crate::Session::wait_durable`] take what it depends on. The same holds for the outcome of a transaction that did not
//! commit, if it follows from what it read.
//!
//! The directory also says what its [tables](description) are, so that those of a program may change from one opening to the
//! next, and that tools know what [rows](content) there are.

pub(crate) mod checkpoint;
pub(crate) mod codec;
pub mod content;
pub mod description;
mod layout;
mod opening;
mod replay;
mod tables;
mod wire;

use std::path::PathBuf;

use cc::{Abort, RedoSink, Stamp};
use platform::files::Files;
use platform::{Nanos, Node, OutOfMemory, Place, Platform};
use storage::Epochs;
use storage::log::{Cut, Log, LogError, LogOptions, LogUse, PartWriter, Record};

use checkpoint::{Checkpointed, Checkpoints, Part};
use codec::{Codecs, Encoder};

pub(crate) use tables::DeclaredTable;
pub use tables::SchemaError;

/// Bytes of changes after which a transaction's record is continued in another one.
const RECORD_BYTES: usize = 64 << 10;
/// Bytes of a log that are repeated in some seconds.
const CHECKPOINT_BYTES: u64 = 1 << 30;

/// Where and how a database is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableOptions {
    /// The directory, made if it is not there.
    pub path: PathBuf,
    /// How the log is written.
    pub log: LogOptions,
    /// A checkpoint takes the place of the log when that has at least so many bytes, and twice as many as the checkpoint before. It is
    /// made while transactions run, those of the log that the opening has read counting too, or by [`crate::Database::close`].
    pub checkpoint_bytes: u64,
    /// Where recovery runs, one worker a place; at least one.
    pub places: Vec<Place>,
}

impl DurableOptions {
    /// A database in this directory, with a log of usual measures.
    pub fn new(path: PathBuf) -> Self {
        let places = vec![Place { thread: None }];
        DurableOptions { path, log: LogOptions::default(), checkpoint_bytes: CHECKPOINT_BYTES, places }
    }
}

/// What opening a durable database found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Whether the directory held a database already.
    pub existed: bool,
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Bytes of the checkpoint.
    pub checkpoint_bytes: u64,
    /// Records that were repeated, each a transaction or a part of one.
    pub records: u64,
    /// Changes of rows in these records.
    pub changes: u64,
    /// Bytes of the log that were read.
    pub log_bytes: u64,
    /// Nanoseconds that all of it took: until the first transaction could begin.
    pub nanos: u64,
    /// The last epoch that counts.
    pub last_epoch: u64,
}

/// What the opening of a database does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The log is read and verified. Counted in bytes.
    Reading,
    /// The log is divided into changes of rows. Counted in bytes.
    Dividing,
    /// The rows that the log inserts are made. Counted in changes.
    Repeating,
    /// The checkpoint is read, and its rows are made. Counted in bytes.
    Loading,
}

/// How far the opening of a database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it is at. A stage with nothing to do is passed over.
    pub stage: Stage,
    /// How much of that is done.
    pub done: u64,
    /// How much it is.
    pub total: u64,
}

/// Why a durable database cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Its log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Memory was refused.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The tables of the directory and those declared do not go together.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The log contradicts itself.
    #[error("the log cannot be repeated: {0}; restore a backup")]
    Contradiction(String),
}

/// A log, whatever its platform's files: asked once a commit.
pub(crate) trait Journal<P: Platform>: Checkpointed<P> {
    fn append(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        worker: usize,
        stream: usize,
        record: &Record<'_>,
    ) -> Result<(), LogError>;
    fn stream_for(&self, node: Option<Node>) -> usize;
    fn durable(&self, c: P::Core) -> u64;
    fn stopped(&self, c: P::Core) -> Option<LogError>;
    fn tend(&self, c: P::Core, epochs: &Epochs<P>, now: Nanos) -> bool;
    fn wait(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        epoch: u64,
        deadline: Option<Nanos>,
    ) -> Result<bool, LogError>;
    fn used(&self, c: P::Core, epochs: &Epochs<P>) -> LogUse;
    fn close(self: Box<Self>, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError>;
}

impl<P: Files> Journal<P> for Log<P> {
    fn append(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        worker: usize,
        stream: usize,
        record: &Record<'_>,
    ) -> Result<(), LogError> {
        Log::append(self, c, epochs, worker, stream, record)
    }

    fn stream_for(&self, node: Option<Node>) -> usize {
        Log::stream_for(self, node)
    }

    fn durable(&self, c: P::Core) -> u64 {
        Log::durable(self, c)
    }

    fn stopped(&self, c: P::Core) -> Option<LogError> {
        Log::stopped(self, c)
    }

    fn tend(&self, c: P::Core, epochs: &Epochs<P>, now: Nanos) -> bool {
        Log::tend(self, c, epochs, now)
    }

    fn wait(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        epoch: u64,
        deadline: Option<Nanos>,
    ) -> Result<bool, LogError> {
        Log::wait(self, c, epochs, epoch, deadline)
    }

    fn used(&self, c: P::Core, epochs: &Epochs<P>) -> LogUse {
        Log::used(self, c, epochs)
    }

    fn close(self: Box<Self>, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError> {
        Log::close(*self, c, epochs)
    }
}

impl<P: Files> Checkpointed<P> for Log<P> {
    fn begin(&self, c: P::Core, epochs: &Epochs<P>) -> Result<Cut, LogError> {
        self.begin_checkpoint(c, epochs)
    }

    fn part(
        &self,
        c: P::Core,
        cut: &Cut,
        part: u32,
        node: Option<Node>,
    ) -> Result<Box<dyn Part<P>>, LogError> {
        Ok(Box::new(self.checkpoint_part(c, cut, part, node)?))
    }

    fn end(&self, c: P::Core, epochs: &Epochs<P>, cut: &Cut, parts: u32) -> Result<(), LogError> {
        self.end_checkpoint(c, epochs, cut, parts)
    }

    fn abandon(&self, c: P::Core, cut: &Cut, parts: u32) {
        self.abandon_checkpoint(c, cut, parts);
    }

    fn growth(&self, c: P::Core) -> u64 {
        Log::growth(self, c)
    }
}

impl<P: Files> Part<P> for PartWriter<P> {
    fn push(&mut self, c: P::Core, body: &[u8]) -> Result<(), LogError> {
        PartWriter::push(self, c, body)
    }

    fn finish(self: Box<Self>, c: P::Core) -> Result<u64, LogError> {
        let bytes = self.written_bytes();
        PartWriter::finish(*self, c).map(|_| bytes)
    }
}

/// What a durable database has.
pub(crate) struct Durable<P: Platform> {
    pub journal: Box<dyn Journal<P>>,
    pub checkpoints: Checkpoints<P>,
    pub codecs: Codecs,
}

/// One session's way into the log.
pub(crate) struct RedoWriter<'d, P: Platform> {
    pub(crate) durable: &'d Durable<P>,
    stream: usize,
    encoder: Encoder<'d>,
}

impl<'d, P: Platform> RedoWriter<'d, P> {
    pub(crate) fn new(durable: &'d Durable<P>, node: Option<Node>) -> Self {
        let stream = durable.journal.stream_for(node);
        RedoWriter { durable, stream, encoder: Encoder::new(&durable.codecs) }
    }

    pub(crate) fn journal(&self) -> &'d dyn Journal<P> {
        &*self.durable.journal
    }

    /// Forgets what a transaction before left.
    pub(crate) fn clear(&mut self) {
        self.encoder.clear();
    }

    /// Leaves what the transaction changed in the log. A failure shows when it is to be acknowledged.
    pub(crate) fn append(&mut self, c: P::Core, epochs: &Epochs<P>, worker: usize, stamp: Stamp) {
        let epoch = stamp.epoch().0;
        for body in self.encoder.parts() {
            let record = Record { stamp: stamp.0, epoch, body };
            if self.durable.journal.append(c, epochs, worker, self.stream, &record).is_err() {
                return;
            }
        }
    }
}

impl<P: Platform> RedoSink<P> for RedoWriter<'_, P> {
    #[inline]
    fn insert(&mut self, table: usize, row: &[P::Word], tail: &[u8]) {
        self.encoder.insert(table, row.iter().map(P::peek), tail);
    }

    #[inline]
    fn update(&mut self, table: usize, row: &[P::Word], changes: cc::RowChanges<'_>, tail: Option<&[u8]>) {
        self.encoder.update(table, &mut |word| P::peek(&row[word]), changes, tail);
    }

    fn delete(&mut self, table: usize, row: &[P::Word]) {
        self.encoder.delete(table, &mut |word| P::peek(&row[word]));
    }
}

/// The error of a transaction that cannot be durable.
pub(crate) fn not_durable(error: &LogError) -> Abort {
    Abort::NotDurable(error.to_string())
}
