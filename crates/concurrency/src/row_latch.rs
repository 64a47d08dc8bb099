//! The latch of a row's manager, or of a list of dependencies: a queue latch, or, without the
//! optimisation [`storage::Optimisation::QueueLatch`], a mutex with lock elision. All latches of an
//! instance are of one kind.

use platform::Platform;
use storage::elided::ElidedMutex;
use storage::latch::{QueueLatch, QueueNode};

/// The latch; zeroed memory is a free one.
#[repr(transparent)]
pub(crate) struct RowLatch<P: Platform> {
    word: P::Word,
}

/// A worker's node for latches, which it uses for one latch at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatchNode {
    /// The address of a node of queue latches, which is in no queue.
    Queue(u64),
    /// None: latches are mutexes.
    Mutex,
}

impl<P: Platform> RowLatch<P> {
    /// Runs `body` with the latch held.
    ///
    /// # Safety
    /// The node's address is that of a [`QueueNode`], which stays in place and is used for nothing
    /// else meanwhile. The latch is used with nodes of this kind only.
    pub(crate) unsafe fn with<R>(&self, c: P::Core, node: LatchNode, body: impl FnOnce() -> R) -> R {
        match node {
            LatchNode::Queue(address) => {
                let latch = QueueLatch::<P>::from_word(&self.word);
                // SAFETY: a node that stays, by the caller's promise.
                let node = unsafe { &*std::ptr::with_exposed_provenance::<QueueNode<P>>(address as usize) };
                // SAFETY: used for nothing else until the release.
                unsafe { latch.acquire(c, node) };
                let result = body();
                // SAFETY: acquired above with this node.
                unsafe { latch.release(c, node) };
                result
            }
            LatchNode::Mutex => {
                let mutex = ElidedMutex::<P>::from_word(&self.word);
                mutex.acquire(c);
                let result = body();
                mutex.release(c);
                result
            }
        }
    }
}
