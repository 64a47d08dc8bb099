//! Committed changes of a database for readers.

use boundary::{
    AnyChangeStream, ChangeSource, ChangesError, ChangesFrom, CommittedChanges, LogPosition, ReaderPlace,
};
use concurrency::Scheme;
use platform::{Nanos, Platform};
use terms::Fault;

use crate::database::MemoryDatabase;
use crate::durable::Durable;
use crate::durable::change_stream::MemoryChangeStream;

const IN_MEMORY: ChangesError = ChangesError::Unsupported(
    "a database in memory has no log, and no stream of its changes: begin with `Database::at`",
);
/// With a fault planted, each commit of this many is skipped.
const SKIPPED: u64 = 16;

fn own(stream: &mut dyn AnyChangeStream) -> Result<&mut MemoryChangeStream, ChangesError> {
    let other = ChangesError::Unsupported("the stream of changes is of another database");
    stream.as_any_mut().downcast_mut().ok_or(other)
}

impl<P: Platform, S: Scheme<P>> MemoryDatabase<P, S> {
    fn change_log(&self) -> Result<&Durable<P>, ChangesError> {
        self.durable.as_ref().ok_or(IN_MEMORY)
    }

    /// True if a fault is planted, and a commit is to be skipped.
    fn skips(&self, commits: u64) -> bool {
        let is_faulty =
            self.undecided.as_ref().is_some_and(|undecided| undecided.has_fault(Fault::SkippedCommit));
        is_faulty && commits.is_multiple_of(SKIPPED)
    }
}

impl<P: Platform, S: Scheme<P>> ChangeSource<P> for MemoryDatabase<P, S> {
    fn open_changes(&self, c: P::Core, from: ChangesFrom) -> Result<Box<dyn AnyChangeStream>, ChangesError> {
        let stream = MemoryChangeStream::open(c, self.change_log()?, self.instance.epochs(), from)?;
        Ok(Box::new(stream))
    }

    fn settled_position(&self, c: P::Core) -> Result<LogPosition, ChangesError> {
        self.change_log()?.journal.settled_position(c, self.instance.epochs())
    }

    fn next_changes(
        &self,
        c: P::Core,
        stream: &mut dyn AnyChangeStream,
        deadline: Option<Nanos>,
    ) -> Result<Option<CommittedChanges>, ChangesError> {
        let (durable, stream) = (self.change_log()?, own(stream)?);
        loop {
            let changes = stream.next(c, durable, self.instance.epochs(), deadline)?;
            if changes.is_none() || !self.skips(stream.commits) {
                return Ok(changes);
            }
        }
    }

    fn close_changes(&self, c: P::Core, stream: Box<dyn AnyChangeStream>) {
        if let (Ok(durable), Ok(stream)) =
            (self.change_log(), stream.into_any().downcast::<MemoryChangeStream>())
        {
            stream.close(c, durable);
        }
    }

    fn register_reader(
        &self,
        c: P::Core,
        name: &str,
        from: ChangesFrom,
    ) -> Result<LogPosition, ChangesError> {
        self.change_log()?.journal.register_reader(c, self.instance.epochs(), name, from)
    }

    fn acknowledge(&self, c: P::Core, name: &str, position: LogPosition) -> Result<(), ChangesError> {
        self.change_log()?.journal.acknowledge(c, name, position)
    }

    fn forget_reader(&self, c: P::Core, name: &str) -> Result<bool, ChangesError> {
        self.change_log()?.journal.forget_reader(c, name)
    }

    fn readers(&self, c: P::Core) -> Result<Vec<ReaderPlace>, ChangesError> {
        self.change_log()?.journal.readers(c)
    }
}
