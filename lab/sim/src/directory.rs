//! State of each line: a dense array with one entry for each line of the machine's memory.

use crate::arena::Zeroed;
use crate::line::LineNumber;

const DIRTY: u16 = 1 << 15;
const LEASED_TO_READERS: u16 = 1 << 14;
const CORE: u16 = LEASED_TO_READERS - 1;

/// Caches that have a line, at the end of all transfers that were requested so far.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Line {
    /// Groups with a copy.
    pub(crate) sharers: u64,
    /// The next request is served from this moment on: the last transfer has arrived.
    busy_until_ps: u64,
    /// Raised by every change of ownership to write: copies of older versions are invalid.
    pub(crate) version: u32,
    /// Time from the arrival of the last writer's line to `busy_until_ps`.
    owned_before_ps: u32,
    /// Coherence misses since counting began.
    pub(crate) misses: u32,
    /// Core that may write without a request, plus 1, or 0; [`DIRTY`]; [`LEASED_TO_READERS`].
    owner: u16,
    /// First of the fibers that wait for a change, plus 1; 0 without waiters.
    pub(crate) waiters: u16,
}

const _: () = assert!(size_of::<Line>() == 32);

// SAFETY: integers only.
unsafe impl Zeroed for Line {}

impl Line {
    /// The core that may write without a request.
    #[inline(always)]
    pub(crate) fn owner(&self) -> Option<usize> {
        usize::from(self.owner & CORE).checked_sub(1)
    }

    #[inline(always)]
    pub(crate) fn is_owned_by(&self, core: usize) -> bool {
        usize::from(self.owner & CORE) == core + 1
    }

    /// True if memory has an older value.
    pub(crate) fn is_dirty(&self) -> bool {
        self.owner & DIRTY != 0
    }

    /// Records that the owner has written.
    #[inline(always)]
    pub(crate) fn mark_dirty(&mut self) {
        self.owner |= DIRTY;
    }

    /// Records that memory has the value.
    pub(crate) fn mark_clean(&mut self) {
        self.owner &= !DIRTY;
    }

    /// True if copies of the version before are readable until the owner's line arrives.
    #[inline]
    pub(crate) fn is_leased_to_readers(&self, now_ps: u64) -> bool {
        self.owner & LEASED_TO_READERS != 0 && now_ps < self.owned_from_ps()
    }

    #[inline(always)]
    pub(crate) fn busy_until_ps(&self) -> u64 {
        self.busy_until_ps
    }

    /// Arrival of the last writer's line.
    #[inline(always)]
    pub(crate) fn owned_from_ps(&self) -> u64 {
        self.busy_until_ps.saturating_sub(u64::from(self.owned_before_ps))
    }

    /// Gives a core the line exclusively, in a new version, at this moment. With `lease` readers
    /// keep their copies until then.
    pub(crate) fn own(&mut self, core: usize, group: usize, arrival_ps: u64, dirty: bool, lease: bool) {
        let flags = if dirty { DIRTY } else { 0 } | if lease { LEASED_TO_READERS } else { 0 };
        self.version = self.version.wrapping_add(1);
        self.owner = (core as u16 + 1) | flags;
        self.sharers = 1 << group;
        self.busy_until_ps = arrival_ps;
        self.owned_before_ps = 0;
    }

    /// Gives a group a copy to read. No core may write without a request any more.
    pub(crate) fn share(&mut self, group: usize, busy_until_ps: u64) {
        self.owner = 0;
        self.sharers |= 1 << group;
        self.stay_busy(busy_until_ps);
    }

    /// Keeps the supplier of a copy busy until this moment.
    pub(crate) fn stay_busy(&mut self, until_ps: u64) {
        let owned_from_ps = self.owned_from_ps();
        self.busy_until_ps = self.busy_until_ps.max(until_ps);
        self.owned_before_ps = (self.busy_until_ps - owned_from_ps).min(u64::from(u32::MAX)) as u32;
    }
}

/// Copies that readers keep although several writers have requested their line: until the first of
/// these writers has it.
///
/// A line's entry has room for the lease of its last version only. All of them are rare, and
/// dropped after their end.
pub(crate) struct OldLeases {
    buckets: Vec<Vec<OldLease>>,
    /// End of the longest lease.
    until_ps: u64,
}

struct OldLease {
    line: LineNumber,
    version: u32,
    until_ps: u64,
}

impl OldLeases {
    const BUCKETS: usize = 64;

    pub(crate) fn new() -> OldLeases {
        OldLeases { buckets: (0..Self::BUCKETS).map(|_| Vec::new()).collect(), until_ps: 0 }
    }

    /// Lets readers keep this version until this moment.
    pub(crate) fn keep(&mut self, line: LineNumber, version: u32, until_ps: u64, now_ps: u64) {
        let bucket = &mut self.buckets[line as usize % Self::BUCKETS];
        bucket.retain(|lease| lease.until_ps > now_ps);
        bucket.push(OldLease { line, version, until_ps });
        self.until_ps = self.until_ps.max(until_ps);
    }

    /// Version that readers still keep.
    #[inline]
    pub(crate) fn kept(&self, line: LineNumber, now_ps: u64) -> Option<u32> {
        if now_ps >= self.until_ps {
            return None;
        }
        let bucket = &self.buckets[line as usize % Self::BUCKETS];
        bucket.iter().find(|lease| lease.line == line && now_ps < lease.until_ps).map(|lease| lease.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_the_arrival_of_its_owner() {
        // SAFETY: zero is a line that no cache has.
        let mut line: Line = unsafe { std::mem::zeroed() };
        assert_eq!((line.owner(), line.is_dirty()), (None, false));
        line.own(16_000, 3, 1_000, true, true);
        assert!(line.is_owned_by(16_000) && line.is_dirty() && line.is_leased_to_readers(999));
        assert!(!line.is_leased_to_readers(1_000));
        line.stay_busy(5_000);
        assert_eq!((line.busy_until_ps(), line.owned_from_ps()), (5_000, 1_000));
        line.share(5, 6_000);
        assert_eq!((line.owner(), line.sharers, line.owned_from_ps()), (None, 0b10_1000, 1_000));
        assert!(!line.is_leased_to_readers(0) && line.version == 1);
        line.stay_busy(1 << 60);
        assert!(line.owned_from_ps() > 1_000, "very old arrivals are forgotten");
    }

    #[test]
    fn readers_keep_their_version_until_the_first_writer_has_the_line() {
        let mut leases = OldLeases::new();
        leases.keep(7, 3, 1_000, 0);
        leases.keep(7 + 64, 9, 2_000, 0);
        assert_eq!((leases.kept(7, 999), leases.kept(7, 1_000), leases.kept(8, 500)), (Some(3), None, None));
        leases.keep(7, 5, 3_000, 1_500);
        assert_eq!((leases.kept(7, 2_000), leases.kept(71, 1_999)), (Some(5), Some(9)));
    }
}
