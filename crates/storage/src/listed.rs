//! Lists of descriptors in the memory of an instance.
//!
//! A catalog is laid out once, list by list, in a [`Space`]; a [`Listed`] is a slice that lives as
//! long as that memory.

use std::ops::Deref;
use std::ptr::NonNull;

use platform::{LINE_BYTES, Node, OutOfMemory, Platform};

use crate::arena::Memory;

/// Values that lie in a [`Space`].
pub struct Listed<T> {
    at: NonNull<T>,
    count: usize,
}

impl<T> Listed<T> {
    /// The same list once more.
    ///
    /// # Safety
    /// The second list is not used after the memory has gone either.
    pub unsafe fn share(&self) -> Self {
        Listed { at: self.at, count: self.count }
    }
}

// SAFETY: a list only ever gives shared references to values.
unsafe impl<T: Sync> Send for Listed<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Listed<T> {}

impl<T> Deref for Listed<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `Space::list` wrote this many values, which no core changes; `Space::new` demands
        // that the list is not used after the memory has gone.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.count) }
    }
}

impl<'a, T> IntoIterator for &'a Listed<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Room for the lists of a catalog on one node.
pub struct Space {
    next: NonNull<u8>,
    left: usize,
}

impl Space {
    /// Room for lists of `bytes` bytes by [`Self::bytes_of`], on `node`.
    ///
    /// # Safety
    /// No list is used after the memory has gone.
    pub unsafe fn new<P: Platform>(
        c: P::Core,
        memory: &Memory<P>,
        node: Option<Node>,
        bytes: usize,
    ) -> Result<Self, OutOfMemory> {
        Ok(Space { next: memory.chunk(c, node, bytes, "catalog")?, left: bytes })
    }

    /// Bytes of a list with this many values: lists begin on a line.
    pub const fn bytes_of<T>(count: usize) -> usize {
        const { assert!(align_of::<T>() <= LINE_BYTES && !std::mem::needs_drop::<T>()) };
        (count * size_of::<T>()).next_multiple_of(LINE_BYTES)
    }

    /// Lays values out one after the other. Panics if there is no room left.
    pub fn list<T>(&mut self, values: Vec<T>) -> Listed<T> {
        let bytes = Self::bytes_of::<T>(values.len());
        assert!(bytes <= self.left, "a catalog is larger than its space");
        let (at, count) = (self.next.cast::<T>(), values.len());
        for (number, value) in values.into_iter().enumerate() {
            // SAFETY: inside the chunk, by the assertion; chunks begin on a line, and so do lists,
            // which is enough for `T`.
            unsafe { at.add(number).write(value) };
        }
        // SAFETY: inside the chunk or at its end, by the assertion.
        self.next = unsafe { self.next.add(bytes) };
        self.left -= bytes;
        Listed { at, count }
    }
}
