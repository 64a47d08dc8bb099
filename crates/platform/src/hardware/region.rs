//! Anonymous memory from the operating system, on the requested node, and memory that is shared
//! with other processes.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use crate::{OutOfMemory, RegionBytes};
use terms::Node;

/// Regions of at least this size request huge pages: a random access then costs one cache miss
/// instead of two.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// An anonymous private mapping, or one of a file, unmapped when dropped.
#[derive(Debug)]
pub struct HardwareRegion {
    base: NonNull<u8>,
    bytes: usize,
    /// The mapping: `base` may lie inside it to be aligned to a huge page.
    mapped: (NonNull<u8>, usize),
}

// SAFETY: the mapping belongs to no thread; `HardwareRegion` gives out a raw pointer only, and
// dropping needs ownership.
unsafe impl Send for HardwareRegion {}
// SAFETY: as above; shared references allow nothing but reading base and length.
unsafe impl Sync for HardwareRegion {}

impl HardwareRegion {
    pub(super) fn map(node: Option<Node>, bytes: usize, name: &'static str) -> Result<Self, OutOfMemory> {
        let refused = |reason: String| OutOfMemory { requested: bytes, name, reason };
        let page = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { 4096 };
        let rounded = bytes
            .max(1)
            .checked_next_multiple_of(4096)
            .ok_or_else(|| refused("larger than the address space".into()))?;
        let length =
            rounded.checked_add(page).ok_or_else(|| refused("larger than the address space".into()))?;
        // Miri supports neither this flag nor advice.
        let lazily = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        // SAFETY: an anonymous private mapping at an address of the kernel's choice replaces no
        // other mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | lazily,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(refused(std::io::Error::last_os_error().to_string()));
        }
        let start = NonNull::new(start.cast::<u8>()).ok_or_else(|| refused("mapped at address 0".into()))?;
        let skip = start.as_ptr().align_offset(page);
        // SAFETY: `skip` is less than `page`, and `page` more bytes than needed were mapped.
        let base = unsafe { start.add(skip) };
        if page == HUGE_PAGE_BYTES && !cfg!(miri) {
            // SAFETY: the range lies inside our mapping; advice changes no contents. A refusal
            // costs speed only.
            unsafe { libc::madvise(base.as_ptr().cast(), rounded, libc::MADV_HUGEPAGE) };
        }
        if let Some(node) = node {
            prefer_node(base, rounded, node);
        }
        Ok(HardwareRegion { base, bytes: rounded, mapped: (start, length) })
    }

    /// Maps `bytes` bytes of a file, whole pages, such that other processes that map it see them
    /// too.
    pub(super) fn map_file(
        node: Option<Node>,
        file: BorrowedFd<'_>,
        bytes: usize,
        name: &'static str,
    ) -> Result<Self, OutOfMemory> {
        let refused = |reason: String| OutOfMemory { requested: bytes, name, reason };
        // SAFETY: a new mapping at an address of the kernel's choice replaces no other mapping.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(refused(std::io::Error::last_os_error().to_string()));
        }
        let base = NonNull::new(start.cast::<u8>()).ok_or_else(|| refused("mapped at address 0".into()))?;
        if let Some(node) = node {
            prefer_node(base, bytes, node);
        }
        Ok(HardwareRegion { base, bytes, mapped: (base, bytes) })
    }
}

/// Faults pages in. Kernels before 5.14 refuse, which costs speed only.
#[cfg_attr(miri, allow(unused_variables))]
pub(super) fn populate(at: *mut u8, bytes: usize) {
    #[cfg(not(miri))]
    {
        const PAGE: usize = 4096;
        let start = at.addr().next_multiple_of(PAGE);
        let end = (at.addr() + bytes) / PAGE * PAGE;
        if start < end {
            // SAFETY: populating for writing changes no contents, whatever the range is.
            unsafe { libc::madvise(at.with_addr(start).cast(), end - start, libc::MADV_POPULATE_WRITE) };
        }
    }
}

/// Asks for the pages of this range to come from `node` while it has any. A kernel without NUMA
/// refuses, which changes nothing on a machine with one node.
#[cfg_attr(miri, allow(unused_variables))]
fn prefer_node(base: NonNull<u8>, bytes: usize, node: Node) {
    #[cfg(not(miri))]
    {
        const MPOL_PREFERRED: libc::c_ulong = 1;
        const BITS: usize = 64;
        let mut mask = [0u64; 16];
        let Some(slot) = mask.get_mut(node.0 as usize / BITS) else { return };
        *slot = 1 << (node.0 as usize % BITS);
        // SAFETY: the range is our own mapping, the mask outlives the call and holds the stated
        // number of bits.
        unsafe {
            libc::syscall(
                libc::SYS_mbind,
                base.as_ptr(),
                bytes,
                MPOL_PREFERRED,
                mask.as_ptr(),
                mask.len() * BITS,
                0,
            );
        }
    }
}

impl RegionBytes for HardwareRegion {
    fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for HardwareRegion {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped; the owner of a region keeps no reference into it when
        // it drops it.
        unsafe { libc::munmap(self.mapped.0.as_ptr().cast(), self.mapped.1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_zeroed_and_aligned() {
        for bytes in [1, 4096, 3 << 20] {
            let region = HardwareRegion::map(Some(Node(0)), bytes, "test").expect("memory");
            assert!(region.bytes() >= bytes);
            assert_eq!(region.base().align_offset(4096), 0);
            for at in [0, bytes - 1] {
                // SAFETY: inside the region, which no other code knows.
                let value = unsafe { region.base().add(at).read() };
                assert_eq!(value, 0);
            }
        }
    }

    /// Pages of these bytes that are in memory.
    #[cfg(not(miri))]
    fn resident(at: *mut u8, bytes: usize) -> usize {
        let mut pages = vec![0u8; bytes / 4096];
        // SAFETY: the range consists of whole mapped pages, and there is a byte for each.
        let result = unsafe { libc::mincore(at.cast(), bytes, pages.as_mut_ptr()) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    #[cfg(not(miri))]
    fn what_is_populated_is_in_memory_and_the_rest_is_not() {
        const STEP: usize = 2 << 20;
        let region = HardwareRegion::map(None, 4 * STEP, "test").expect("memory");
        assert_eq!(resident(region.base(), 4 * STEP), 0);
        // SAFETY: inside the region.
        let second = unsafe { region.base().add(STEP) };
        populate(second, STEP);
        assert_eq!(resident(second, STEP), STEP / 4096, "a kernel before 5.14 cannot do this");
        assert_eq!(resident(region.base(), 4 * STEP), STEP / 4096);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let error = HardwareRegion::map(None, usize::MAX - 10, "test").expect_err("refused");
        assert_eq!(error.name, "test");
        assert!(HardwareRegion::map(None, 1 << 60, "test").is_err());
    }
}
