//! The shared word of the virtual machine.

use std::sync::atomic::{AtomicU64, Ordering};

use platform::SharedWord;

/// An 8-byte word that several simulated cores may touch.
///
/// All cores of a machine run on one host thread, so the order of operations is the order of
/// execution. The word is atomic on the host only because [`SharedWord`] is `Sync`: a program may
/// hand it to another machine's host thread.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct VirtualWord(AtomicU64);

const _: () = assert!(size_of::<VirtualWord>() == 8 && align_of::<VirtualWord>() == 8);

impl SharedWord for VirtualWord {
    #[inline(always)]
    fn new(value: u64) -> Self {
        VirtualWord(AtomicU64::new(value))
    }
}

impl VirtualWord {
    /// Relaxed: simulated cores are ordered by running one after another on one host thread.
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Relaxed: as in `get`.
    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}
