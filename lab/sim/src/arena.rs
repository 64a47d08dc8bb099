//! Large zeroed arrays of which only the touched pages are committed, and prefetches on the host.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::SimError;

/// Alignment of every arena, and the unit in which the host commits memory in huge pages.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Types for which all bits zero is a value, and which need no drop.
///
/// # Safety
/// Memory filled with zeros is a valid value of the type.
pub(crate) unsafe trait Zeroed: Copy {}

// SAFETY: integers.
unsafe impl Zeroed for u64 {}
// SAFETY: integers.
unsafe impl Zeroed for u16 {}

/// Sizes of the pages in which the host commits memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// The smallest pages: much of the memory between touched places is never touched.
    Small,
    /// Huge pages if the host has them: nearly all of the memory will be touched.
    Huge,
}

/// Address space from the host, zeroed, committed by touching it, returned when dropped.
pub(crate) struct Reservation {
    base: NonNull<u8>,
    bytes: usize,
    /// The mapping's address and length. `base` lies inside it, aligned to a huge page.
    mapped: (NonNull<u8>, usize),
}

// SAFETY: the mapping belongs to no thread; dropping needs ownership.
unsafe impl Send for Reservation {}
// SAFETY: a shared reference gives out nothing but a raw pointer and a length.
unsafe impl Sync for Reservation {}

impl Reservation {
    pub(crate) fn new(bytes: usize, pages: Pages, purpose: &'static str) -> Result<Reservation, SimError> {
        let refused = |reason: String| SimError::Host { bytes, purpose, reason };
        let length = bytes
            .checked_add(HUGE_PAGE_BYTES)
            .ok_or_else(|| refused("larger than the address space".into()))?;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice replaces no
        // other mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(refused(std::io::Error::last_os_error().to_string()));
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| refused("mapped at address 0".into()))?;
        let skip = start.as_ptr().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `skip` is less than a huge page, and that many more bytes than needed were
        // mapped.
        let base = unsafe { start.add(skip) };
        let advice = if pages == Pages::Huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: the range lies inside our mapping; advice changes no contents. A refusal costs
        // speed or memory only.
        unsafe { libc::madvise(base.as_ptr().cast(), bytes, advice) };
        Ok(Reservation { base, bytes, mapped: (start, length) })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns these pages to the host. They read as zeros from now on.
    ///
    /// # Safety
    /// Whole 4 KiB pages inside the reservation, to which no reference is held.
    pub(crate) unsafe fn discard(&self, offset: usize, bytes: usize) {
        assert!(offset.is_multiple_of(4096) && bytes.is_multiple_of(4096) && offset + bytes <= self.bytes);
        // SAFETY: inside our private anonymous mapping by the assertion; unreferenced by the
        // caller's promise.
        let failed =
            unsafe { libc::madvise(self.base.as_ptr().add(offset).cast(), bytes, libc::MADV_DONTNEED) };
        assert_eq!(failed, 0, "the host does not take back memory: {}", std::io::Error::last_os_error());
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; owners keep no reference into it when they drop it.
        unsafe { libc::munmap(self.mapped.0.as_ptr().cast(), self.mapped.1) };
    }
}

/// A slice of `T` in a reservation of its own.
pub(crate) struct Arena<T: Zeroed> {
    reservation: Reservation,
    length: usize,
    _values: std::marker::PhantomData<T>,
}

impl<T: Zeroed> Arena<T> {
    pub(crate) fn new(length: usize, pages: Pages, purpose: &'static str) -> Result<Arena<T>, SimError> {
        const { assert!(align_of::<T>() <= HUGE_PAGE_BYTES) };
        let bytes = length.saturating_mul(size_of::<T>());
        let reservation = Reservation::new(bytes, pages, purpose)?;
        Ok(Arena { reservation, length, _values: std::marker::PhantomData })
    }
}

impl<T: Zeroed> Deref for Arena<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: mapped, aligned, of this length, zeroed at first and zero is a valid `T`; only
        // `self` refers to it.
        unsafe { std::slice::from_raw_parts(self.reservation.base().cast(), self.length) }
    }
}

impl<T: Zeroed> DerefMut for Arena<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.reservation.base().cast(), self.length) }
    }
}

/// Prefetches a line into the host's cache.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetch has no architectural effect; any address is allowed.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
