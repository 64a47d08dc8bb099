//! What to run, and what came out.

use platform::{Node, OutOfMemory, Place};

use crate::Outcome;
use crate::threads::Times;

/// What the threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Test-and-set: each attempt exchanges the word.
    TestAndSet,
    /// Test-and-test-and-set: a waiter reads until the lock looks free.
    TestAndTestAndSet,
    /// Tickets, served in order.
    Ticket,
    /// The queue lock of Mellor-Crummey and Scott: the engine's own.
    Mcs,
    /// The queue lock of Craig, and of Landin and Hagersten.
    Clh,
    /// A ticket lock of each island below one for all.
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
    /// True if a thread holds something that others wait for.
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

    /// True if waiters pause between two looks when [`LockSpec::backoff_nanos`] is not 0.
    pub fn backs_off(self) -> bool {
        matches!(self, LockKind::TestAndTestAndSet | LockKind::Ticket)
    }
}

/// On which line the words lie that a holder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldLine {
    /// On one of their own.
    Own,
    /// On the line of their lock, which waiters may be reading.
    Lock,
}

/// One thread.
#[derive(Clone, Debug, PartialEq)]
pub struct LockThread {
    /// Where it runs.
    pub place: Place,
    /// The memory node of its place in queues; `None`: where the thread runs.
    pub node: Option<Node>,
    /// The island that it belongs to, from 0 without gaps.
    pub island: usize,
}

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct LockSpec {
    /// What the threads do.
    pub kind: LockKind,
    /// The threads, at least one.
    pub threads: Vec<LockThread>,
    /// Locks, or words for atomics, one of which each operation chooses at random; on the first
    /// thread's node.
    pub locks: usize,
    /// Units of computation of a holder.
    pub critical: u32,
    /// Units of computation between two operations of a thread.
    pub delay: u32,
    /// Words that a holder increments, at least one: the checks count them.
    pub held_words: usize,
    /// Where they lie.
    pub held_line: HeldLine,
    /// Unit of the pauses of a waiter that backs off; 0: none does.
    pub backoff_nanos: u64,
    /// Seed of all choices.
    pub seed: u64,
    /// Time before measuring, from the moment at which all threads are there.
    pub warm_up_nanos: u64,
    /// Duration of the measurement.
    pub nanos: u64,
}

impl LockSpec {
    /// One lock or word, one word held on a line of its own, neither computation nor backoff.
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

    /// Where the threads run.
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

/// What one thread counted while the run measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    /// Acquisitions; atomic operations that did what they were for; changes that a poller saw, or
    /// that the writer made.
    pub operations: u64,
    /// Attempts at them that were refused.
    pub refused: u64,
    /// Operations that were timed.
    pub timed: u64,
    /// How long these took: until the lock was held, the atomic was over, a poller saw what was
    /// written.
    pub timed_nanos: u64,
}

/// What came out.
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

/// Why the experiment says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Too few threads.
    #[error("{wanted} threads are needed and {threads} were given")]
    TooFewThreads {
        /// Least number.
        wanted: usize,
        /// How many there are.
        threads: usize,
    },
    /// A number of locks or words that there cannot be.
    #[error("{locks} locks with {words} words: at least one of each, and at most {words_max} words")]
    Shape {
        /// Locks asked for.
        locks: usize,
        /// Words asked for.
        words: usize,
        /// Most words.
        words_max: usize,
    },
    /// Memory was refused.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}
