//! The port through which the tree reaches its nodes, and nodes that stay in memory.

use std::ptr::NonNull;

use platform::{LINE_BYTES, OutOfMemory, Platform};

use super::types::{NodeId, Restart};
use crate::Local;

/// Gives nodes their names and memory.
///
/// A frame is [`Self::NODE_BYTES`] bytes, best aligned to a line, of words whose first is the
/// node's [`VersionLatch`](crate::latch::VersionLatch). The store may move a node from frame to
/// frame whenever it holds the node's latch: it copies all words but the first, gives the new frame
/// the version that the old one had before it was latched, redirects the name, and unlatches the
/// old frame as obsolete.
///
/// # Safety
/// Until the end of every epoch in which a caller may have got it, a frame returned by `resolve` or
/// `allocate` consists of valid words that only the tree writes, except that the store moves the
/// node as described. A name that was retired or freed names no other node until then either.
pub unsafe trait NodeStore<P: Platform>: Send + Sync {
    /// Bytes of a node, a multiple of the line.
    const NODE_BYTES: usize;

    /// The frame of a node. [`Restart`] if the caller must start again from the root, after the
    /// store has waited for the node or started to load it. The name may be out of date: the node
    /// is checked by its version afterwards.
    fn resolve(&self, c: P::Core, node: NodeId) -> Result<NonNull<P::Word>, Restart>;

    /// A new node, of words with arbitrary contents, that no other core can reach. The store does
    /// not move it until its latch is free: a store that might do so latches it before it gives it
    /// a name.
    fn allocate(&self, c: P::Core, local: &mut Local<P>) -> Result<(NodeId, NonNull<P::Word>), OutOfMemory>;

    /// Takes a node back that was unlinked and is marked obsolete, but may still be read.
    ///
    /// # Safety
    /// No other node names it, and it is retired once, inside an epoch.
    unsafe fn retire(&self, c: P::Core, local: &mut Local<P>, node: NodeId);

    /// Takes a node back that was never linked.
    ///
    /// # Safety
    /// The name came from `allocate`, and no other core knows it.
    unsafe fn free(&self, c: P::Core, local: &mut Local<P>, node: NodeId);
}

/// Nodes of `BYTES` bytes that stay where they are: the name of a node is its address.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryNodes<const BYTES: usize = 1024>;

// SAFETY: frames come from `Local`, whose blocks are words, and are reused when the epochs of their
// readers have ended.
unsafe impl<P: Platform, const BYTES: usize> NodeStore<P> for MemoryNodes<BYTES> {
    const NODE_BYTES: usize = {
        assert!(BYTES.is_multiple_of(LINE_BYTES));
        BYTES
    };

    #[inline(always)]
    fn resolve(&self, _: P::Core, node: NodeId) -> Result<NonNull<P::Word>, Restart> {
        NonNull::new(std::ptr::with_exposed_provenance_mut(node.0 as usize)).ok_or(Restart)
    }

    fn allocate(&self, c: P::Core, local: &mut Local<P>) -> Result<(NodeId, NonNull<P::Word>), OutOfMemory> {
        let frame = local.allocate(c, BYTES)?.cast::<P::Word>();
        Ok((NodeId(frame.as_ptr().expose_provenance() as u64), frame))
    }

    unsafe fn retire(&self, c: P::Core, local: &mut Local<P>, node: NodeId) {
        if let Some(frame) = NonNull::new(std::ptr::with_exposed_provenance_mut(node.0 as usize)) {
            // SAFETY: `allocate` made the name from a block of this size; the rest is the caller's
            // promise.
            unsafe { local.retire(c, frame, BYTES) };
        }
    }

    unsafe fn free(&self, c: P::Core, local: &mut Local<P>, node: NodeId) {
        if let Some(frame) = NonNull::new(std::ptr::with_exposed_provenance_mut(node.0 as usize)) {
            // SAFETY: as in `retire`.
            unsafe { local.free(c, frame, BYTES) };
        }
    }
}
