//! A value behind a latch of its own, for what is used seldom and shortly.

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, OutOfMemory, Platform};

/// A value that one core at a time uses.
pub struct Latched<P: Platform, T> {
    region: P::Region,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached with the latch held only, or through `&mut self`.
unsafe impl<P: Platform, T: Send> Sync for Latched<P, T> {}

impl<P: Platform, T> Latched<P, T> {
    /// The value, free; `name` is that of the latch in reports.
    pub fn new(c: P::Core, name: &'static str, value: T) -> Result<Self, OutOfMemory> {
        Ok(Latched { region: P::region(c, None, LINE_BYTES, name)?, value: UnsafeCell::new(value) })
    }

    /// Runs `body` with the value, which no other core uses meanwhile. `body` does not use this
    /// latch again.
    pub fn with<R>(&self, c: P::Core, body: impl FnOnce(&mut T) -> R) -> R {
        let word = P::word_of(&self.region, 0);
        // Acquire: pairs with the release in `holding`.
        while P::cas(c, word, 0, 1, Ordering::Acquire).is_err() {
            P::spin_while(c, word, 1, None);
        }
        // SAFETY: the latch is held.
        unsafe { self.holding(c, body) }
    }

    /// The same, unless another core uses the value right now.
    pub fn try_with<R>(&self, c: P::Core, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        // Acquire: pairs with the release in `holding`.
        let is_free = P::cas(c, P::word_of(&self.region, 0), 0, 1, Ordering::Acquire).is_ok();
        // SAFETY: the latch is held.
        is_free.then(|| unsafe { self.holding(c, body) })
    }

    /// Runs `body`, and releases the latch.
    ///
    /// # Safety
    /// The caller has taken the latch.
    unsafe fn holding<R>(&self, c: P::Core, body: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the latch is held until `body` has returned; a `body` that came here again would
        // wait for ever in `with`.
        let result = body(unsafe { &mut *self.value.get() });
        // Release: pairs with the acquire of the next holder.
        P::store(c, P::word_of(&self.region, 0), 0, Ordering::Release);
        result
    }
}
