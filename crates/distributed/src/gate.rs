//! Keeps an instance that comes back from working until all others know that it was gone.
//!
//! Instances that are down themselves are not waited for: reads of their workers here that were not
//! decided are gone with them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};

/// Opens when all workers of an instance that comes back have been greeted by all others that ran
/// when it came.
pub struct Gate<P: Platform> {
    greeted: Arc<P::Region>,
    workers: u64,
    /// True if the worker that has this clone has been greeted.
    is_greeted: bool,
}

impl<P: Platform> Clone for Gate<P> {
    fn clone(&self) -> Self {
        Gate { greeted: Arc::clone(&self.greeted), ..*self }
    }
}

impl<P: Platform> Gate<P> {
    /// The gate of this many workers, of which each gets a clone.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(c: P::Core, workers: usize) -> Result<Self, OutOfMemory> {
        let greeted = Arc::new(P::region(c, None, LINE_BYTES, "gate")?);
        Ok(Gate { greeted, workers: workers as u64, is_greeted: false })
    }

    fn word(&self) -> &P::Word {
        P::word_of(&self.greeted, 0)
    }

    /// Returns true if it is open.
    pub fn has_opened(&self, c: P::Core) -> bool {
        // Relaxed: what has to be known is known to others.
        P::load(c, self.word(), Ordering::Relaxed) >= self.workers
    }

    /// Returns true if all have been greeted; `is_greeted`: whether this worker has.
    pub(crate) fn is_open(&mut self, c: P::Core, is_greeted: impl FnOnce() -> bool) -> bool {
        if !self.is_greeted && is_greeted() {
            self.is_greeted = true;
            // Relaxed: as above.
            P::fetch_add(c, self.word(), 1, Ordering::Relaxed);
        }
        self.is_greeted && self.has_opened(c)
    }
}
