//! Values that belong to the process that created them.

use std::ops::{Deref, DerefMut};

use platform::Hardware;

/// A value that only the process that created it drops. A child of `fork` leaks the value: dropping
/// it would wait for threads that the child does not have, or for their locks.
pub(crate) struct ProcessOwned<T> {
    value: Option<T>,
    process: u64,
}

/// Reason why the value is present.
const PRESENT_UNTIL_CONSUMED: &str = "it is taken by what consumes it";

impl<T> ProcessOwned<T> {
    pub(crate) fn new(value: T) -> Self {
        ProcessOwned { value: Some(value), process: Hardware::process() }
    }

    /// Returns true if this process was forked from the one that created the value.
    #[inline]
    pub(crate) fn is_of_parent(&self) -> bool {
        self.process != Hardware::process()
    }

    pub(crate) fn into_inner(mut self) -> T {
        self.value.take().expect(PRESENT_UNTIL_CONSUMED)
    }
}

impl<T> Deref for ProcessOwned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect(PRESENT_UNTIL_CONSUMED)
    }
}

impl<T> DerefMut for ProcessOwned<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect(PRESENT_UNTIL_CONSUMED)
    }
}

impl<T> Drop for ProcessOwned<T> {
    fn drop(&mut self) {
        if self.is_of_parent() {
            std::mem::forget(self.value.take());
        }
    }
}
