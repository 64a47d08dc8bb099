//! The latch of a row's or a partition's manager, or of a list of dependencies: a queue latch, or,
//! without the optimisation [`storage::Optimisation::QueueLatch`], a mutex with lock elision. All
//! latches of an instance are of one kind.

use platform::{Intent, LINE_BYTES, OutOfMemory, Platform};
use storage::Local;
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
        // SAFETY: passed on to the caller.
        unsafe { self.acquire(c, node) };
        let result = body();
        // SAFETY: acquired above with this node.
        unsafe { self.release(c, node) };
        result
    }

    /// Runs `body`, which reads only and may run twice, so that no other worker holds the latch
    /// meanwhile.
    ///
    /// # Safety
    /// As [`Self::with`].
    pub(crate) unsafe fn read<R>(&self, c: P::Core, node: LatchNode, body: impl FnMut() -> R) -> R {
        match node {
            // SAFETY: passed on to the caller.
            LatchNode::Queue(_) => unsafe { self.with(c, node, body) },
            LatchNode::Mutex => ElidedMutex::<P>::from_word(&self.word).read(c, body),
        }
    }

    /// Waits for the latch.
    ///
    /// # Safety
    /// As [`Self::with`], until [`Self::release`] with this node.
    pub(crate) unsafe fn acquire(&self, c: P::Core, node: LatchNode) {
        match node {
            // SAFETY: a node that stays and is used for nothing else, by the caller's promise.
            LatchNode::Queue(at) => unsafe {
                QueueLatch::from_word(&self.word).acquire(c, queue_node::<P>(at))
            },
            LatchNode::Mutex => ElidedMutex::<P>::from_word(&self.word).acquire(c),
        }
    }

    /// Takes the latch if it is free, for a worker that may hold others; whether it was.
    ///
    /// # Safety
    /// As [`Self::acquire`], if it returns true.
    pub(crate) unsafe fn try_acquire(&self, c: P::Core, node: LatchNode) -> bool {
        match node {
            // SAFETY: as in `acquire`.
            LatchNode::Queue(at) => unsafe {
                QueueLatch::from_word(&self.word).try_acquire(c, queue_node::<P>(at))
            },
            LatchNode::Mutex => ElidedMutex::<P>::from_word(&self.word).try_acquire(c),
        }
    }

    /// Releases the latch.
    ///
    /// # Safety
    /// The caller holds the latch with this node.
    pub(crate) unsafe fn release(&self, c: P::Core, node: LatchNode) {
        match node {
            // SAFETY: by the caller's promise.
            LatchNode::Queue(at) => unsafe {
                QueueLatch::from_word(&self.word).release(c, queue_node::<P>(at))
            },
            LatchNode::Mutex => ElidedMutex::<P>::from_word(&self.word).release(c),
        }
    }
}

/// The node at an address.
///
/// # Safety
/// It was made by [`new_node`], or is a line of zeros that stays.
unsafe fn queue_node<'n, P: Platform>(address: u64) -> &'n QueueNode<P> {
    // SAFETY: by the caller's promise.
    unsafe { &*std::ptr::with_exposed_provenance::<QueueNode<P>>(address as usize) }
}

/// A free node, which stays as long as the memory of the instance.
pub(crate) fn new_node<P: Platform>(c: P::Core, local: &mut Local<P>) -> Result<u64, OutOfMemory> {
    const { assert!(size_of::<QueueNode<P>>() == LINE_BYTES) };
    new_line(c, local)
}

/// A zeroed line, which no other core can reach.
pub(crate) fn new_line<P: Platform>(c: P::Core, local: &mut Local<P>) -> Result<u64, OutOfMemory> {
    let at = local.allocate_lines(c, LINE_BYTES)?;
    P::touch(c, at.as_ptr(), LINE_BYTES, Intent::Write);
    // SAFETY: a fresh block of a line, aligned to 8, which no other core can reach.
    unsafe { storage::arena::zero_words::<P>(at, LINE_BYTES / 8) };
    Ok(at.as_ptr().expose_provenance() as u64)
}

/// Gives a line back that no core can reach any more.
///
/// # Safety
/// The line came from [`new_line`] with memory of the same instance, and is not used again.
pub(crate) unsafe fn free_line<P: Platform>(c: P::Core, local: &mut Local<P>, line: u64) {
    if let Some(at) = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(line as usize)) {
        // SAFETY: allocated by `new_line` with this size; the rest is the caller's promise.
        unsafe { local.free(c, at, LINE_BYTES) };
    }
}

/// Gives a line back when no worker can have found it any more.
///
/// # Safety
/// As [`free_line`], but that workers that have found the line in their epochs may use it; the
/// caller is inside an epoch, and no worker that enters a later one finds the line.
pub(crate) unsafe fn retire_line<P: Platform>(c: P::Core, local: &mut Local<P>, line: u64) {
    if let Some(at) = std::ptr::NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(line as usize)) {
        // SAFETY: allocated by `new_line` with this size; the rest is the caller's promise.
        unsafe { local.retire(c, at, LINE_BYTES) };
    }
}
