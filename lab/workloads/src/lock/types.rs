//! Parameters and results of the lock experiment.

use platform::{Node, OutOfMemory, Place};

use crate::Outcome;
use crate::threads::Times;

/// The operation that the threads repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Test-and-set: each attempt exchanges the word.
    TestAndSet,
    /// Test-and-test-and-set: a waiter reads until the lock is free.
    TestAndTestAndSet,
    /// A ticket lock: waiters hold it in the order of their tickets.
    Ticket,
    /// The queue lock of Mellor-Crummey and Scott: the engine's own.
    Mcs,
    /// The queue lock of Craig, and of Landin and Hagersten.
    Clh,
    /// A ticket lock for each island, and one above them for all.
    Hierarchical,
    /// Compare-and-swap, until it succeeds.
    CompareAndSwap,
    /// Compare-and-swap that is always refused.
    RefusedCompareAndSwap,
    /// Fetch-and-add.
    FetchAndAdd,
    /// Exchange.
    Swap,
    /// The first thread writes a word, all others wait for it to change.
    Poll,
}

impl LockKind {
    /// True if a thread holds a lock for which others wait.
    pub fn is_lock(self) -> bool {
        match self {
            LockKind::TestAndSet
            | LockKind::TestAndTestAndSet
            | LockKind::Ticket
            | LockKind::Mcs
            | LockKind::Clh
            | LockKind::Hierarchical => true,
            LockKind::CompareAndSwap
            | LockKind::RefusedCompareAndSwap
            | LockKind::FetchAndAdd
            | LockKind::Swap
            | LockKind::Poll => false,
        }
    }

    /// True if waiters pause between two attempts when [`LockSpec::backoff_nanos`] is not 0.
    pub fn backs_off(self) -> bool {
        matches!(self, LockKind::TestAndTestAndSet | LockKind::Ticket)
    }
}

/// The line of the words that a holder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldLine {
    /// A line of their own.
    Own,
    /// The line of their lock, which waiters may be reading.
    Lock,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct LockThread {
    /// The hardware thread on which it runs.
    pub place: Place,
    /// The memory node of its entries in queues; `None`: the node on which the thread runs.
    pub node: Option<Node>,
    /// The island that it belongs to, from 0 without gaps.
    pub island: usize,
}

/// Parameters of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct LockSpec {
    /// The operation that the threads repeat.
    pub kind: LockKind,
    /// The threads, at least one.
    pub threads: Vec<LockThread>,
    /// Number of locks, or of words for atomics, of which each operation chooses one at random.
    /// They are on the first thread's node.
    pub locks: usize,
    /// Units of computation of a holder.
    pub critical: u32,
    /// Units of computation between two operations of a thread.
    pub delay: u32,
    /// Words that a holder increments, at least one; the checks add them up.
    pub held_words: usize,
    /// The line of these words.
    pub held_line: HeldLine,
    /// Unit of the pauses of a waiter that backs off; 0: no backoff.
    pub backoff_nanos: u64,
    /// Seed of all choices.
    pub seed: u64,
    /// Time before measuring, from the moment at which all threads have started.
    pub warm_up_nanos: u64,
    /// Duration of the measurement.
    pub nanos: u64,
}

impl LockSpec {
    /// Parameters with one lock or word, one held word on a line of its own, and neither
    /// computation nor backoff.
    pub fn new(kind: LockKind, threads: Vec<LockThread>, nanos: u64) -> Self {
        LockSpec {
            kind,
            threads,
            locks: 1,
            critical: 0,
            delay: 0,
            held_words: 1,
            held_line: HeldLine::Own,
            backoff_nanos: 0,
            seed: 1,
            warm_up_nanos: 0,
            nanos,
        }
    }

    /// The hardware threads on which the threads run.
    pub(super) fn places(&self) -> Vec<Place> {
        self.threads.iter().map(|thread| thread.place).collect()
    }

    /// Lengths of warm-up and measurement.
    pub(super) fn times(&self) -> Times {
        Times { warm_up_nanos: self.warm_up_nanos, nanos: self.nanos }
    }

    /// Islands that the threads name.
    pub(super) fn islands(&self) -> usize {
        self.threads.iter().map(|thread| thread.island + 1).max().unwrap_or(0)
    }

    /// The node of locks and data.
    pub(super) fn home(&self) -> Option<Node> {
        self.threads.first().and_then(|thread| thread.node)
    }
}

/// Counts of one thread while the run measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Acquisitions; atomic operations that had their effect; changes that a poller saw, or that
    /// the writer made.
    pub operations: u64,
    /// Refused attempts at operations.
    pub refused: u64,
    /// Operations that were timed.
    pub timed: u64,
    /// Sum of the times of these operations: until the lock was held, the atomic had returned, or a
    /// poller saw the change.
    pub timed_nanos: u64,
}

/// Result of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct LockResult {
    /// The counts of each thread.
    pub threads: Vec<LockCounts>,
    /// Length of the measurement.
    pub elapsed_nanos: u64,
    /// Name and outcome of the check.
    pub check: (&'static str, Outcome),
}

impl LockResult {
    /// Operations of all threads per second.
    pub fn throughput(&self) -> f64 {
        let operations: u64 = self.threads.iter().map(|thread| thread.operations).sum();
        operations as f64 * 1e9 / self.elapsed_nanos.max(1) as f64
    }
}

/// The reason why the experiment has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Too few threads.
    #[error("{wanted} threads are needed and {threads} were given")]
    TooFewThreads {
        /// Least number.
        wanted: usize,
        /// Number of threads in the parameters.
        threads: usize,
    },
    /// The number of locks or words is out of range.
    #[error("{locks} locks with {words} words: at least one of each, and at most {words_max} words")]
    Shape {
        /// Number of locks in the parameters.
        locks: usize,
        /// Number of words in the parameters.
        words: usize,
        /// Most words.
        words_max: usize,
    },
    /// Memory was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}
