//! The log as the engine sees it, whatever files its platform has: one side for commits, one for
//! checkpoints.

use std::any::Any;

use platform::files::Files;
use platform::{Nanos, Node, OutOfMemory, Platform};
use redo_log::{
    ChangeCursor, ChangesError, ChangesFrom, CheckpointFileWriter, Cut, Log, LogError, LogPosition, LogUse,
    LoggedCommit, ReaderPlace, Record, Spares, Target,
};
use storage::Epochs;

/// A file of a checkpoint that is being written.
pub(crate) trait CheckpointWriter<P: Platform>: Send {
    fn push(&mut self, c: P::Core, body: &[u8]) -> Result<(), LogError>;
    /// Makes the file durable; its bytes.
    fn finish(self: Box<Self>, c: P::Core) -> Result<u64, LogError>;
}

/// The port of checkpoints to the log.
pub(crate) trait CheckpointLog<P: Platform>: Send + Sync {
    fn begin(&self, c: P::Core, epochs: &Epochs<P>) -> Result<Cut, LogError>;
    fn writer(
        &self,
        c: P::Core,
        cut: &Cut,
        number: u32,
        node: Option<Node>,
    ) -> Result<Box<dyn CheckpointWriter<P>>, LogError>;
    fn end(&self, c: P::Core, epochs: &Epochs<P>, cut: &Cut, files: u32) -> Result<(), LogError>;
    fn abandon(&self, c: P::Core, cut: &Cut, files: u32);
    /// Bytes of log since the last checkpoint began.
    fn growth(&self, c: P::Core) -> u64;
    /// Bytes that the files of the log take.
    fn file_bytes(&self, c: P::Core) -> u64;
}

/// A cursor of a log, as the engine holds it: a [`ChangeCursor`].
pub(crate) type LogCursor = Box<dyn Any + Send>;

/// The port of readers of changes to the log. The cursors are those of this log.
pub(crate) trait ChangeLog<P: Platform>: Send + Sync {
    /// See [`Log::open_changes`]; the position of the cursor.
    fn open_changes(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        from: ChangesFrom,
    ) -> Result<(LogCursor, LogPosition), ChangesError>;
    /// See [`Log::settled_position`].
    fn settled_position(&self, c: P::Core, epochs: &Epochs<P>) -> Result<LogPosition, ChangesError>;
    /// See [`Log::next_commit`]; with the position of the cursor.
    fn next_commit(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        cursor: &mut LogCursor,
        deadline: Option<Nanos>,
    ) -> Result<(Option<LoggedCommit>, LogPosition), ChangesError>;
    /// See [`Log::close_changes`].
    fn close_changes(&self, c: P::Core, cursor: LogCursor);
    /// See [`Log::descriptions`].
    fn descriptions(&self, c: P::Core) -> Result<Vec<Vec<u8>>, ChangesError>;
    /// See [`Log::register_reader`].
    fn register_reader(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        name: &str,
        from: ChangesFrom,
    ) -> Result<LogPosition, ChangesError>;
    /// See [`Log::acknowledge`].
    fn acknowledge(&self, c: P::Core, name: &str, position: LogPosition) -> Result<(), ChangesError>;
    /// See [`Log::forget_reader`].
    fn forget_reader(&self, c: P::Core, name: &str) -> Result<bool, ChangesError>;
    /// See [`Log::readers`].
    fn readers(&self, c: P::Core) -> Result<Vec<ReaderPlace>, ChangesError>;
}

/// The port of commits to the log.
pub(crate) trait Journal<P: Platform>: CheckpointLog<P> + ChangeLog<P> {
    /// See [`Log::reserve`].
    fn reserve(
        &self,
        c: P::Core,
        stream: usize,
        bodies: &mut dyn Iterator<Item = usize>,
        spares: &mut Spares<P>,
    ) -> Result<(), OutOfMemory>;
    fn append(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        worker: usize,
        stream: usize,
        record: &Record<'_>,
        spares: &mut Spares<P>,
    ) -> Result<(), LogError>;
    fn stream_for(&self, node: Option<Node>) -> usize;
    fn durable(&self, c: P::Core) -> u64;
    fn stopped(&self, c: P::Core) -> Option<LogError>;
    fn tend(&self, c: P::Core, epochs: &Epochs<P>, now: Nanos) -> bool;
    fn wait(&self, c: P::Core, epochs: &Epochs<P>, target: Target) -> Result<bool, LogError>;
    /// See [`Log::whole_groups`] and [`Log::has_whole_since`].
    fn whole_groups(&self, c: P::Core) -> u64;
    fn has_whole_since(&self, c: P::Core, begun: u64) -> bool;
    fn used(&self, c: P::Core, epochs: &Epochs<P>) -> LogUse;
    /// See [`Log::describe`].
    fn describe(&self, c: P::Core, extra: Vec<u8>) -> Result<(), LogError>;
    /// See [`Log::settle`].
    fn settle(&self, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError>;
    fn close(self: Box<Self>, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError>;
}

impl<P: Files> Journal<P> for Log<P> {
    fn reserve(
        &self,
        c: P::Core,
        stream: usize,
        bodies: &mut dyn Iterator<Item = usize>,
        spares: &mut Spares<P>,
    ) -> Result<(), OutOfMemory> {
        Log::reserve(self, c, stream, bodies, spares)
    }

    fn append(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        worker: usize,
        stream: usize,
        record: &Record<'_>,
        spares: &mut Spares<P>,
    ) -> Result<(), LogError> {
        Log::append(self, c, epochs, worker, stream, record, spares)
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

    fn wait(&self, c: P::Core, epochs: &Epochs<P>, target: Target) -> Result<bool, LogError> {
        Log::wait(self, c, epochs, target)
    }

    fn whole_groups(&self, c: P::Core) -> u64 {
        Log::whole_groups(self, c)
    }

    fn has_whole_since(&self, c: P::Core, begun: u64) -> bool {
        Log::has_whole_since(self, c, begun)
    }

    fn used(&self, c: P::Core, epochs: &Epochs<P>) -> LogUse {
        Log::used(self, c, epochs)
    }

    fn describe(&self, c: P::Core, extra: Vec<u8>) -> Result<(), LogError> {
        Log::describe(self, c, extra)
    }

    fn settle(&self, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError> {
        Log::settle(self, c, epochs).map(drop)
    }

    fn close(self: Box<Self>, c: P::Core, epochs: &Epochs<P>) -> Result<(), LogError> {
        Log::close(*self, c, epochs)
    }
}

const OTHER_LOG: ChangesError = ChangesError::Unsupported("the stream of changes is of another database");

impl<P: Files> ChangeLog<P> for Log<P> {
    fn open_changes(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        from: ChangesFrom,
    ) -> Result<(LogCursor, LogPosition), ChangesError> {
        let cursor = Log::open_changes(self, c, epochs, from)?;
        let position = cursor.position();
        Ok((Box::new(cursor), position))
    }

    fn settled_position(&self, c: P::Core, epochs: &Epochs<P>) -> Result<LogPosition, ChangesError> {
        Log::settled_position(self, c, epochs)
    }

    fn next_commit(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        cursor: &mut LogCursor,
        deadline: Option<Nanos>,
    ) -> Result<(Option<LoggedCommit>, LogPosition), ChangesError> {
        let cursor = cursor.downcast_mut::<ChangeCursor<P>>().ok_or(OTHER_LOG)?;
        let commit = Log::next_commit(self, c, epochs, cursor, deadline)?;
        Ok((commit, cursor.position()))
    }

    fn close_changes(&self, c: P::Core, cursor: LogCursor) {
        if let Ok(cursor) = cursor.downcast::<ChangeCursor<P>>() {
            Log::close_changes(self, c, *cursor);
        }
    }

    fn descriptions(&self, c: P::Core) -> Result<Vec<Vec<u8>>, ChangesError> {
        Log::descriptions(self, c)
    }

    fn register_reader(
        &self,
        c: P::Core,
        epochs: &Epochs<P>,
        name: &str,
        from: ChangesFrom,
    ) -> Result<LogPosition, ChangesError> {
        Log::register_reader(self, c, epochs, name, from)
    }

    fn acknowledge(&self, c: P::Core, name: &str, position: LogPosition) -> Result<(), ChangesError> {
        Log::acknowledge(self, c, name, position)
    }

    fn forget_reader(&self, c: P::Core, name: &str) -> Result<bool, ChangesError> {
        Log::forget_reader(self, c, name)
    }

    fn readers(&self, c: P::Core) -> Result<Vec<ReaderPlace>, ChangesError> {
        Log::readers(self, c)
    }
}

impl<P: Files> CheckpointLog<P> for Log<P> {
    fn begin(&self, c: P::Core, epochs: &Epochs<P>) -> Result<Cut, LogError> {
        self.begin_checkpoint(c, epochs)
    }

    fn writer(
        &self,
        c: P::Core,
        cut: &Cut,
        number: u32,
        node: Option<Node>,
    ) -> Result<Box<dyn CheckpointWriter<P>>, LogError> {
        Ok(Box::new(self.checkpoint_file(c, cut, number, node)?))
    }

    fn end(&self, c: P::Core, epochs: &Epochs<P>, cut: &Cut, files: u32) -> Result<(), LogError> {
        self.end_checkpoint(c, epochs, cut, files)
    }

    fn abandon(&self, c: P::Core, cut: &Cut, files: u32) {
        self.abandon_checkpoint(c, cut, files);
    }

    fn growth(&self, c: P::Core) -> u64 {
        Log::growth(self, c)
    }

    fn file_bytes(&self, c: P::Core) -> u64 {
        Log::file_bytes(self, c)
    }
}

impl<P: Files> CheckpointWriter<P> for CheckpointFileWriter<P> {
    fn push(&mut self, c: P::Core, body: &[u8]) -> Result<(), LogError> {
        CheckpointFileWriter::push(self, c, body)
    }

    fn finish(self: Box<Self>, c: P::Core) -> Result<u64, LogError> {
        let bytes = self.written_bytes();
        CheckpointFileWriter::finish(*self, c).map(|_| bytes)
    }
}
