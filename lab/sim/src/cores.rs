//! Operations of one core that are under way: misses, stores, and lines that will soon leave the
//! core.

use crate::line::{Arrival, LineNumber};
use crate::model::{FILL_BUFFERS_MAX, STORE_BUFFER_MAX};
use crate::recent::{LineEvent, Recent};

/// A line that another core has requested. Its holder has it from its arrival until the request
/// reaches the holder.
#[derive(Clone, Copy)]
struct Lease {
    line: LineNumber,
    from_ps: u64,
    until_ps: u64,
}

/// A line under way to a core, requested by a load, an atomic, a buffered store or a prefetch of
/// any of its hardware threads.
#[derive(Clone, Copy)]
struct Miss {
    line: LineNumber,
    arrival: Arrival,
    /// The core may write the line after its arrival.
    owned: bool,
}

impl LineEvent for Lease {
    #[inline(always)]
    fn line(&self) -> LineNumber {
        self.line
    }

    #[inline(always)]
    fn end_ps(&self) -> u64 {
        self.until_ps
    }
}

impl LineEvent for Miss {
    #[inline(always)]
    fn line(&self) -> LineNumber {
        self.line
    }

    #[inline(always)]
    fn end_ps(&self) -> u64 {
        self.arrival.at_ps
    }
}

/// State of one physical core. What every access reads comes first, in one line of the host.
#[derive(Clone)]
#[repr(C, align(64))]
pub(crate) struct CoreState {
    /// Lines or stores are under way until this moment; afterwards every hit is plain.
    pub(crate) pending_until_ps: u64,
    /// The pages that were translated last, and log2 of their lines. Accesses to them need no look
    /// into the TLBs: since the older one became the first of its set the set got one page at most.
    /// Without TLBs all lines are one page.
    pages: [u64; 2],
    page_shifts: [u32; 2],
    /// Parts in 1024 by which computing takes longer, because siblings compute too.
    pub(crate) stretch: u32,
    /// Workers that compute on this core.
    pub(crate) computing: u32,
    /// Workers that spin or pause on it.
    pub(crate) pausing: u32,
    leases: Recent<Lease>,
    misses: Recent<Miss>,
    /// Moment from which each fill buffer is free.
    fill_buffers: [u64; FILL_BUFFERS_MAX],
}

/// The store buffer of one hardware thread: arrivals of the stores in it.
#[derive(Clone)]
pub(crate) struct StoreBuffer {
    /// Arrival of the last store's line.
    pub(crate) drained_ps: u64,
    /// Oldest first, from `oldest`.
    arrivals: [u64; STORE_BUFFER_MAX],
    oldest: usize,
    stored: usize,
}

impl CoreState {
    pub(crate) fn new() -> CoreState {
        CoreState {
            pending_until_ps: 0,
            pages: [0; 2],
            page_shifts: [63; 2],
            stretch: 1024,
            computing: 0,
            pausing: 0,
            leases: Recent::new(),
            misses: Recent::new(),
            fill_buffers: [0; FILL_BUFFERS_MAX],
        }
    }

    /// Records that the core has a line from its arrival until the next request for it arrives.
    #[inline]
    pub(crate) fn lease(&mut self, line: LineNumber, from_ps: u64, until_ps: u64, now_ps: u64) {
        self.leases.push(Lease { line, from_ps, until_ps }, now_ps);
    }

    /// True if the core still has a line that another core has requested.
    #[inline]
    pub(crate) fn holds(&self, line: LineNumber, now_ps: u64) -> bool {
        let has = |lease: &Lease| (lease.from_ps..lease.until_ps).contains(&now_ps);
        self.leases.newest(line, now_ps, has).is_some()
    }

    /// True if a line is on one of the pages that were translated last.
    #[inline(always)]
    pub(crate) fn has_page(&self, line: LineNumber) -> bool {
        let line = u64::from(line);
        line >> self.page_shifts[0] == self.pages[0] || line >> self.page_shifts[1] == self.pages[1]
    }

    /// Records that the page of a line, of this size, was translated last.
    #[inline(always)]
    pub(crate) fn set_page(&mut self, line: LineNumber, page_shift: u32) {
        self.pages = [u64::from(line) >> page_shift, self.pages[0]];
        self.page_shifts = [page_shift, self.page_shifts[0]];
    }

    /// Forgets the pages that were translated last.
    pub(crate) fn forget_pages(&mut self) {
        self.pages = [u64::MAX; 2];
    }

    /// Records that a line arrives at this moment.
    #[inline]
    pub(crate) fn expect(&mut self, arrival_ps: u64) {
        self.pending_until_ps = self.pending_until_ps.max(arrival_ps);
    }

    /// Arrival of a line that is under way to this core (for `write`, with the right to write).
    #[inline]
    pub(crate) fn arrival(&self, line: LineNumber, write: bool, now_ps: u64) -> Option<Arrival> {
        let brings = |miss: &Miss| miss.arrival.at_ps > now_ps && (miss.owned || !write);
        self.misses.newest(line, now_ps, brings).map(|miss| miss.arrival)
    }

    /// The fill buffer that is free first, of the first `limit`: its number, and the moment at
    /// which a miss may start.
    #[inline]
    pub(crate) fn fill_buffer(&self, limit: usize, now_ps: u64) -> (usize, u64) {
        let (mut first, mut free_ps) = (0, u64::MAX);
        for (buffer, &from_ps) in self.fill_buffers[..limit].iter().enumerate() {
            if from_ps <= now_ps {
                return (buffer, now_ps);
            }
            if from_ps < free_ps {
                (first, free_ps) = (buffer, from_ps);
            }
        }
        (first, free_ps)
    }

    /// Occupies a fill buffer with a miss until the line arrives.
    pub(crate) fn fill(
        &mut self,
        buffer: usize,
        line: LineNumber,
        owned: bool,
        arrival: Arrival,
        now_ps: u64,
    ) {
        self.misses.push(Miss { line, arrival, owned }, now_ps);
        self.fill_buffers[buffer] = arrival.at_ps;
        self.expect(arrival.at_ps);
    }
}

impl StoreBuffer {
    pub(crate) fn new() -> StoreBuffer {
        StoreBuffer { drained_ps: 0, arrivals: [0; STORE_BUFFER_MAX], oldest: 0, stored: 0 }
    }

    /// Moves a store into the buffer at `now_ps`; its line arrives at `arrival_ps`. Stores become
    /// visible in order. Returns the moment at which the core continues: now, or when the oldest
    /// store has left the full buffer.
    pub(crate) fn push(&mut self, capacity: usize, now_ps: u64, arrival_ps: u64) -> u64 {
        while self.stored > 0 && self.arrivals[self.oldest] <= now_ps {
            self.pop();
        }
        let mut free_ps = now_ps;
        if self.stored == capacity {
            free_ps = self.arrivals[self.oldest];
            self.pop();
        }
        self.drained_ps = self.drained_ps.max(arrival_ps);
        self.arrivals[(self.oldest + self.stored) % STORE_BUFFER_MAX] = self.drained_ps;
        self.stored += 1;
        free_ps
    }

    fn pop(&mut self) {
        self.oldest = (self.oldest + 1) % STORE_BUFFER_MAX;
        self.stored -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_leave_in_order_and_a_full_buffer_waits_for_the_oldest() {
        let mut core = StoreBuffer::new();
        assert_eq!(core.push(2, 0, 100), 0);
        assert_eq!(core.push(2, 1, 50), 1);
        assert_eq!(core.drained_ps, 100, "the second is not visible before the first");
        assert_eq!(core.push(2, 2, 300), 100);
        assert_eq!(core.push(2, 301, 400), 301, "all have left");
        assert_eq!(core.drained_ps, 400);
    }

    #[test]
    fn a_lease_begins_with_the_line_and_ends_with_the_next_request() {
        let mut core = CoreState::new();
        core.lease(5, 40, 100, 0);
        assert!(!core.holds(5, 39) && core.holds(5, 40) && core.holds(5, 99) && !core.holds(5, 100));
        // Any number of lines, and one line twice.
        core.lease(9, 50, 200, 0);
        core.lease(5, 150, 180, 0);
        assert!(core.holds(5, 60) && !core.holds(5, 120) && core.holds(5, 170) && core.holds(9, 60));
    }

    #[test]
    fn a_miss_is_known_until_its_line_arrives_and_keeps_its_buffer_so_long() {
        let mut core = CoreState::new();
        for (line, at_ps) in [(1, 100), (2, 50)] {
            let (buffer, start_ps) = core.fill_buffer(2, 0);
            assert_eq!(start_ps, 0);
            core.fill(buffer, line, line == 1, Arrival { at_ps, shared: false }, 0);
        }
        let arrival_ps = |line: LineNumber, write: bool, now_ps: u64| {
            core.arrival(line, write, now_ps).map_or(0, |arrival| arrival.at_ps)
        };
        assert_eq!([1, 2, 3].map(|line| arrival_ps(line, false, 49)), [100, 50, 0]);
        assert_eq!(
            [1, 2].map(|line| arrival_ps(line, true, 49)),
            [100, 0],
            "the second was asked for to read"
        );
        assert_eq!([1, 2].map(|line| arrival_ps(line, false, 50)), [100, 0]);
        assert_eq!(core.fill_buffer(2, 10), (1, 50), "the first that is free");
        assert_eq!(core.fill_buffer(2, 60), (1, 60));
    }
}
