//! The machine's memory: one reservation of address space from which regions are carved.
//!
//! A location is its offset in the reservation, so it is the same in every run. A bump pointer and
//! a list of returned ranges (first fit, neighbours joined) provide space. Returned pages go back
//! to the host and read as zeros again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use platform::{Node, OutOfMemory, RegionBytes};

use crate::SimError;
use crate::arena::{HUGE_PAGE_BYTES, Pages, Reservation};

/// Granularity of regions and of their nodes.
pub(crate) const PAGE_BYTES: usize = 4096;

/// Regions of at least this size request huge pages, as those of `platform::Hardware` do.
pub(crate) const HUGE_REGION_BYTES: usize = 2 << 20;

/// Offset of the first region. The first line's number stands for all private memory.
const FIRST_OFFSET: usize = PAGE_BYTES;

/// A live region.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    bytes: usize,
    node: Node,
    name: &'static str,
}

/// Ranges in use and free ranges.
#[derive(Debug)]
struct AddressSpace {
    /// All space from here on was never used, or was returned.
    bump: usize,
    /// Returned ranges below `bump` by offset, no two adjacent.
    free: BTreeMap<usize, usize>,
    live: BTreeMap<usize, Allocation>,
}

impl AddressSpace {
    /// Allocates the first returned range that fits, or new space.
    fn take(&mut self, bytes: usize, limit: usize) -> Option<usize> {
        let alignment = if bytes >= HUGE_PAGE_BYTES { HUGE_PAGE_BYTES } else { PAGE_BYTES };
        let fits = |(&start, &length): (&usize, &usize)| {
            let aligned = start.next_multiple_of(alignment);
            (aligned + bytes <= start + length).then_some((start, length, aligned))
        };
        if let Some((start, length, aligned)) = self.free.iter().find_map(fits) {
            self.free.remove(&start);
            if aligned > start {
                self.free.insert(start, aligned - start);
            }
            let (end, used) = (start + length, aligned + bytes);
            if used < end {
                self.free.insert(used, end - used);
            }
            return Some(aligned);
        }
        let aligned = self.bump.next_multiple_of(alignment);
        let end = aligned.checked_add(bytes).filter(|end| *end <= limit)?;
        if aligned > self.bump {
            self.release(self.bump, aligned - self.bump);
        }
        self.bump = end;
        Some(aligned)
    }

    /// Frees a range and joins it with its neighbours.
    fn release(&mut self, mut start: usize, mut bytes: usize) {
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            self.free.remove(&before);
            (start, bytes) = (before, length + bytes);
        }
        if let Some(length) = self.free.remove(&(start + bytes)) {
            bytes += length;
        }
        self.free.insert(start, bytes);
    }
}

/// The reservation and the map of its regions.
pub(crate) struct Memory {
    reservation: Reservation,
    /// A lock, because regions may be dropped on any host thread.
    map: Mutex<AddressSpace>,
}

impl Memory {
    pub(crate) fn new(bytes: usize) -> Result<Arc<Memory>, SimError> {
        let reservation = Reservation::new(bytes.next_multiple_of(PAGE_BYTES), Pages::Small, "regions")?;
        let map = AddressSpace { bump: FIRST_OFFSET, free: BTreeMap::new(), live: BTreeMap::new() };
        Ok(Arc::new(Memory { reservation, map: Mutex::new(map) }))
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.reservation.base()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.reservation.bytes()
    }

    fn map(&self) -> std::sync::MutexGuard<'_, AddressSpace> {
        // The map is consistent between its operations, none of which calls foreign code.
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn region(
        self: &Arc<Self>,
        node: Node,
        bytes: usize,
        name: &'static str,
    ) -> Result<VirtualRegion, OutOfMemory> {
        let refused = || OutOfMemory {
            requested: bytes,
            name,
            reason: format!("the virtual machine has {} bytes for regions", self.bytes()),
        };
        let rounded = bytes.max(1).checked_next_multiple_of(PAGE_BYTES).ok_or_else(refused)?;
        let mut map = self.map();
        if rounded > self.bytes() {
            return Err(refused());
        }
        let offset = map.take(rounded, self.bytes()).ok_or_else(refused)?;
        map.live.insert(offset, Allocation { bytes: rounded, node, name });
        drop(map);
        Ok(VirtualRegion { memory: Arc::clone(self), offset, bytes: rounded, node })
    }

    /// The live region around an offset: its name, and the offset within it.
    pub(crate) fn locate(&self, offset: usize) -> Option<(&'static str, u64)> {
        let map = self.map();
        let (start, live) = map.live.range(..=offset).next_back()?;
        (offset - start < live.bytes).then_some((live.name, (offset - start) as u64))
    }
}

/// Memory of a simulated node, returned when dropped. It may outlive its machine.
pub struct VirtualRegion {
    memory: Arc<Memory>,
    offset: usize,
    bytes: usize,
    node: Node,
}

// `VirtualRegion` is `Send` and `Sync` because `Memory` is: the reservation is a mapping without an
// owning thread, and the map of regions is behind a lock. The words behind `base` are reached
// through `SharedWord`, atomic on the host.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<VirtualRegion>();
};

impl VirtualRegion {
    /// The node of this memory.
    pub fn node(&self) -> Node {
        self.node
    }

    /// Begin of the region, in bytes from the beginning of the machine's memory.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }
}

impl std::fmt::Debug for VirtualRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualRegion")
            .field("offset", &self.offset)
            .field("bytes", &self.bytes)
            .field("node", &self.node)
            .finish()
    }
}

impl RegionBytes for VirtualRegion {
    fn base(&self) -> *mut u8 {
        self.memory.base().wrapping_add(self.offset)
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for VirtualRegion {
    fn drop(&mut self) {
        // SAFETY: whole pages that belong to this region alone; its owner keeps no reference into
        // it when it drops it.
        unsafe { self.memory.reservation.discard(self.offset, self.bytes) };
        let mut map = self.memory.map();
        let live = map.live.remove(&self.offset);
        assert!(live.is_some_and(|live| live.bytes == self.bytes && live.node == self.node));
        map.release(self.offset, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_regions_are_joined_zeroed_and_used_again() {
        let memory = Memory::new(64 << 20).expect("address space");
        let regions: Vec<_> = (0..3).map(|_| memory.region(Node(0), 5000, "test").expect("memory")).collect();
        let first = regions[0].offset();
        for region in &regions {
            // SAFETY: inside the region, to which no other code has a pointer.
            unsafe { region.base().add(4999).write(7) };
        }
        assert_eq!(memory.locate(regions[1].offset() as usize + 9), Some(("test", 9)));
        let mut regions = regions.into_iter();
        let (a, b, c) = (regions.next(), regions.next(), regions.next());
        drop((a, c));
        drop(b);
        let whole = memory.region(Node(1), 3 * 8192, "test").expect("memory");
        assert_eq!(whole.offset(), first);
        for at in 0..whole.bytes() {
            // SAFETY: as above.
            assert_eq!(unsafe { whole.base().add(at).read() }, 0);
        }
    }

    #[test]
    fn large_regions_are_aligned_and_gaps_are_used() {
        let memory = Memory::new(64 << 20).expect("address space");
        let large = memory.region(Node(0), 3 << 20, "large").expect("memory");
        let small = memory.region(Node(0), 1, "small").expect("memory");
        assert_eq!(large.offset() % HUGE_PAGE_BYTES as u64, 0);
        assert_eq!(large.base().align_offset(HUGE_PAGE_BYTES), 0);
        assert_eq!(small.offset(), FIRST_OFFSET as u64);
        let error = memory.region(Node(0), 64 << 20, "huge").expect_err("more than there is");
        assert_eq!((error.requested, error.name), (64 << 20, "huge"));
        assert!(memory.region(Node(0), usize::MAX, "absurd").is_err());
    }
}
