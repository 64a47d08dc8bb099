//! Values of the process that made them.

use std::ops::{Deref, DerefMut};

use platform::Hardware;

/// A value that is dropped by the process that made it only. In a child of `fork` it is left as it
/// is: its end would wait for threads that the child does not have, or for what they hold.
pub(crate) struct Own<T> {
    value: Option<T>,
    process: u64,
}

/// Why there is a value.
const UNTIL_ITS_END: &str = "it is taken by what consumes it";

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Self {
        Own { value: Some(value), process: Hardware::process() }
    }

    /// True if another process made it, which this one was forked from.
    #[inline]
    pub(crate) fn is_of_parent(&self) -> bool {
        self.process != Hardware::process()
    }

    pub(crate) fn into_inner(mut self) -> T {
        self.value.take().expect(UNTIL_ITS_END)
    }
}

impl<T> Deref for Own<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.value.as_ref().expect(UNTIL_ITS_END)
    }
}

impl<T> DerefMut for Own<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect(UNTIL_ITS_END)
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.is_of_parent() {
            std::mem::forget(self.value.take());
        }
    }
}
