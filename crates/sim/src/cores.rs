//! What one core has under way: misses, stores, and lines that are about to leave it.

use crate::line::LineNumber;
use crate::model::{FILL_BUFFERS_MAX, STORE_BUFFER_MAX};

/// Lines of which a core remembers until when it has them.
const LEASES: usize = 4;

/// State of one physical core.
#[derive(Clone)]
pub(crate) struct CoreState {
    /// A line or a store is under way until this moment; afterwards every hit is plain.
    pub(crate) pending_until_ps: u64,
    /// Parts in 1024 by which computing takes longer, because siblings compute too.
    pub(crate) stretch: u32,
    /// Workers that compute on this core.
    pub(crate) computing: u32,
    /// The latest end of a lease.
    leased_ps: u64,
    leases: [(LineNumber, u64); LEASES],
    /// No prefetch is under way after this moment.
    prefetched_ps: u64,
    prefetches: [(LineNumber, u64); FILL_BUFFERS_MAX],
}

/// The store buffer of one hardware thread: arrivals of the stores that wait.
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
            stretch: 1024,
            computing: 0,
            leased_ps: 0,
            leases: [(0, 0); LEASES],
            prefetched_ps: 0,
            prefetches: [(0, 0); FILL_BUFFERS_MAX],
        }
    }

    /// The next request for a line that this core holds will reach it at this moment.
    #[inline]
    pub(crate) fn lease(&mut self, line: LineNumber, until_ps: u64) {
        self.leases[line as usize % LEASES] = (line, until_ps);
        self.leased_ps = self.leased_ps.max(until_ps);
    }

    /// Whether the core still has a line that another core has asked for.
    #[inline]
    pub(crate) fn holds(&self, line: LineNumber, now_ps: u64) -> bool {
        let (leased, until_ps) = self.leases[line as usize % LEASES];
        now_ps < self.leased_ps && leased == line && now_ps < until_ps
    }

    /// A line arrives at this moment.
    #[inline]
    pub(crate) fn expect(&mut self, arrival_ps: u64) {
        self.pending_until_ps = self.pending_until_ps.max(arrival_ps);
    }

    /// When a prefetched line arrives, if it is under way.
    #[inline]
    pub(crate) fn prefetched(&self, line: LineNumber, now_ps: u64) -> u64 {
        if now_ps >= self.prefetched_ps {
            return 0;
        }
        let under_way = self.prefetches.iter().filter(|(pending, _)| *pending == line);
        under_way.map(|(_, arrival)| *arrival).max().unwrap_or(0)
    }

    /// A place for one more prefetch: its number, and the moment from which it is free.
    pub(crate) fn fill_buffer(&self, limit: usize, now_ps: u64) -> (usize, u64) {
        let places = self.prefetches[..limit].iter().enumerate();
        let first = places.map(|(place, (_, arrival))| (place, *arrival)).min_by_key(|(_, arrival)| *arrival);
        let (place, arrival_ps) = first.unwrap_or((0, 0));
        (place, now_ps.max(arrival_ps))
    }

    /// A prefetch occupies its place until it arrives.
    pub(crate) fn fill(&mut self, place: usize, line: LineNumber, arrival_ps: u64) {
        self.prefetches[place] = (line, arrival_ps);
        self.prefetched_ps = self.prefetched_ps.max(arrival_ps);
        self.expect(arrival_ps);
    }
}

impl StoreBuffer {
    pub(crate) fn new() -> StoreBuffer {
        StoreBuffer { drained_ps: 0, arrivals: [0; STORE_BUFFER_MAX], oldest: 0, stored: 0 }
    }

    /// A store leaves for the buffer at `now_ps` and its line arrives at `arrival_ps`; stores become visible in order.
    /// Returns the moment at which the core goes on: now, or when the oldest store has left the full buffer.
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
    fn leases_end() {
        let mut core = CoreState::new();
        core.lease(5, 100);
        assert!(core.holds(5, 99) && !core.holds(5, 100) && !core.holds(9, 50));
        core.lease(9, 200);
        assert!(!core.holds(5, 50) && core.holds(9, 150));
    }
}
