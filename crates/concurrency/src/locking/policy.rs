//! The behaviour of a transaction when a lock is not free: schemes that lock differ in this alone.

use platform::{Nanos, OutOfMemory, Platform};
use storage::Local;
use terms::{Fault, Faults, Mode};

use super::state::LockingState;
use crate::lock_word::{LockState, LockWord, Tagging, Want};
use crate::meter::Meter;
use crate::options::{InstanceOptions, WAIT_NANOS_MAX_PARTICIPANT};
use crate::row_latch::LatchNode;

/// Why a transaction does not get a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Other transactions hold the lock.
    Held,
    /// The wait would have closed a circle of transactions that wait for each other.
    Deadlock,
    /// The transaction has waited for this many nanoseconds, as long as its session lets it.
    TimedOut(u64),
    /// The deadline of the transaction has passed meanwhile.
    Late,
}

/// A transaction that does not get a lock at once.
pub struct Seeker<'a, P: Platform> {
    pub(crate) c: P::Core,
    /// The state of the transaction, with its locks.
    pub(crate) state: &'a LockingState<P>,
    pub(crate) lock: &'a LockWord<P>,
    pub(crate) want: Want,
    /// The lock word when it was refused.
    pub(crate) seen: LockState,
    /// The deadline of the transaction, if its session says how long it waits for locks.
    pub(crate) transaction_ends: Option<Nanos>,
    /// True if other sessions change the locks too.
    pub(crate) has_others: bool,
}

impl<P: Platform> Seeker<'_, P> {
    /// When the transaction stops waiting.
    pub(crate) fn deadline(&self, now: Nanos, faults: Faults) -> Option<Nanos> {
        longest_wait(self.state, faults).map(|nanos| now.plus(nanos))
    }

    /// Returns true if the transaction may wait as long as its session says: it is no participant
    /// of a transaction over several databases, and another session can end the wait.
    pub(crate) fn may_sleep(&self) -> bool {
        self.has_others && self.state.mode != Mode::Participant
    }

    /// The tag that the transaction leaves in the locks that it takes.
    pub(crate) fn tag(&self) -> u64 {
        self.state.tag
    }
}

/// A lock of which a transaction has given something back.
pub struct GivenBack<'a, P: Platform> {
    pub(crate) lock: &'a LockWord<P>,
    /// The state of its word before.
    pub(crate) before: LockState,
}

/// How long a transaction waits for a lock at most.
pub(super) fn longest_wait<P: Platform>(state: &LockingState<P>, faults: Faults) -> Option<u64> {
    let nanos = match state.mode {
        Mode::Single | Mode::Snapshot | Mode::Branch => state.waits?,
        Mode::Participant => state.waits.unwrap_or(u64::MAX).min(WAIT_NANOS_MAX_PARTICIPANT),
    };
    (!faults.has(Fault::UnboundedWaits)).then_some(nanos)
}

/// A transaction in the queue of a row whose lock is a manager.
pub struct Queued<'a, P: Platform> {
    pub(crate) c: P::Core,
    /// The state of the transaction, with its locks.
    pub(crate) state: &'a LockingState<P>,
    /// The name of the row's lock.
    pub(crate) name: u64,
    /// 0 until the transaction has an answer.
    pub(crate) answer: &'a P::Word,
    /// How many rows the transaction holds.
    pub(crate) held: usize,
    /// The worker's node for latches, which is in no queue.
    pub(crate) node: LatchNode,
    /// When the wait began.
    pub(crate) now: Nanos,
    /// When the transaction stops waiting.
    pub(crate) deadline: Option<Nanos>,
}

/// The earlier of two moments; `None` never comes.
pub(crate) fn earlier(left: Nanos, right: Option<Nanos>) -> Nanos {
    right.map_or(left, |right| left.min(right))
}

/// The behaviour of a transaction when a lock is not free.
///
/// A policy may leave a tag in the words of the locks that a transaction takes ([`Tagging`]).
pub trait WaitPolicy: Tagging + Send + Sync + 'static {
    /// The scheme's name.
    const NAME: &'static str;
    /// State that all workers share.
    type SharedState<P: Platform>: Send + Sync;
    /// State that each worker keeps from transaction to transaction.
    type WorkerState<P: Platform>: Send;

    /// The shared state of a database for up to `workers` workers.
    fn shared<P: Platform>(
        c: P::Core,
        workers: usize,
        options: &InstanceOptions,
    ) -> Result<Self::SharedState<P>, OutOfMemory>;

    /// The state of one worker.
    fn worker<P: Platform>(number: usize) -> Self::WorkerState<P>;

    /// A transaction begins: its tag.
    fn begin<P: Platform>(
        c: P::Core,
        shared: &Self::SharedState<P>,
        worker: &mut Self::WorkerState<P>,
        meter: &mut Meter,
    ) -> u64;

    /// A transaction can no longer fail, or has ended; `again` if it conflicted, so that the next
    /// one is probably the same.
    fn ended<P: Platform>(worker: &mut Self::WorkerState<P>, again: bool);

    /// Takes a lock that was not free, when it becomes free, or refuses.
    fn contend<P: Platform>(
        shared: &Self::SharedState<P>,
        worker: &mut Self::WorkerState<P>,
        seeker: Seeker<'_, P>,
        faults: Faults,
    ) -> Result<(), Refusal>;

    /// From now on transactions of the worker wait for a lock as long as this, in nanoseconds;
    /// `None`: as long as the policy has it. Most policies keep their rule.
    fn wait_for_locks<P: Platform>(_worker: &mut Self::WorkerState<P>, _longest: Option<u64>) {}

    /// The transaction has given something of a lock back.
    ///
    /// Pre: the worker is inside the epoch in which it found the row of the lock.
    #[inline(always)]
    fn gave_lock_back<P: Platform>(
        _c: P::Core,
        _shared: &Self::SharedState<P>,
        _given_back: GivenBack<'_, P>,
    ) {
    }

    // The following methods are called where the locks of rows are managers.

    /// Returns true if a transaction with this tag may wait for an owner with the other tag.
    fn may_wait(_tag: u64, _owner: u64) -> bool {
        false
    }

    /// Returns true if a transaction that could have the row lets the first of those who wait pass.
    fn lets_pass(_tag: u64, _first: u64) -> bool {
        false
    }

    /// Returns true if a transaction is served after another one that waits already.
    fn goes_behind(_tag: u64, _other: u64) -> bool {
        true
    }

    /// Returns true if the policy records the waits of transactions, and their ends.
    fn notes_waits<P: Platform>(_shared: &Self::SharedState<P>) -> bool {
        false
    }

    /// The transaction has joined the queue of a row, whose manager is latched: these are the tags
    /// of those that it waits for.
    fn joined_queue<P: Platform>(
        _c: P::Core,
        _shared: &Self::SharedState<P>,
        _worker: &mut Self::WorkerState<P>,
        _for: impl Iterator<Item = u64>,
    ) {
    }

    /// Waits until the transaction has an answer; an error if it gives up before.
    fn wait_in_queue<P: Platform>(
        _shared: &Self::SharedState<P>,
        _worker: &mut Self::WorkerState<P>,
        queued: Queued<'_, P>,
        _local: &mut Local<P>,
        _faults: Faults,
    ) -> Result<(), Refusal> {
        let Queued { c, answer, deadline, .. } = queued;
        if P::spin_while(c, answer, 0, deadline) == 0 { Err(Refusal::Held) } else { Ok(()) }
    }

    /// A transaction of the worker has ended, and has given back all rows; `node` as in [`Queued`].
    fn gave_back<P: Platform>(
        _c: P::Core,
        _shared: &Self::SharedState<P>,
        _worker: &mut Self::WorkerState<P>,
        _node: LatchNode,
        _local: &mut Local<P>,
    ) {
    }
}
