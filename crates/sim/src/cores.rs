//! What one core has under way: misses, stores, and lines that are about to leave it.

use crate::line::LineNumber;
use crate::model::{FILL_BUFFERS_MAX, STORE_BUFFER_MAX};

/// What has ended is remembered so long: lines of one touch are asked for ahead of the core's clock.
const REMEMBERED_PS: u64 = 1_000_000;

/// A line that another core has asked for: its holder has it from its arrival until the request reaches it.
#[derive(Clone, Copy)]
struct Lease {
    line: LineNumber,
    from_ps: u64,
    until_ps: u64,
}

/// A line under way to a core, asked for by a load, an atomic, a buffered store or a prefetch of any of its hardware threads.
#[derive(Clone, Copy)]
struct Miss {
    line: LineNumber,
    arrival_ps: u64,
    /// The core may write it then.
    owned: bool,
}

/// State of one physical core.
#[derive(Clone)]
pub(crate) struct CoreState {
    /// A line or a store is under way until this moment; afterwards every hit is plain.
    pub(crate) pending_until_ps: u64,
    /// Parts in 1024 by which computing takes longer, because siblings compute too.
    pub(crate) stretch: u32,
    /// Workers that compute on this core.
    pub(crate) computing: u32,
    /// Workers that spin or pause on it.
    pub(crate) pausing: u32,
    /// The latest end of a lease.
    leased_ps: u64,
    leases: Vec<Lease>,
    /// The latest arrival of a line.
    arriving_ps: u64,
    /// Of each fill buffer the arrival of its line, from which on it is free.
    arrivals_ps: [u64; FILL_BUFFERS_MAX],
    /// The line in each fill buffer.
    lines: [LineNumber; FILL_BUFFERS_MAX],
    /// A bit for each fill buffer whose line comes with the right to write it.
    owned: u32,
    /// Lines under way whose buffers are promised to later ones already.
    promised: Vec<Miss>,
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
            pausing: 0,
            leased_ps: 0,
            leases: Vec::new(),
            arriving_ps: 0,
            arrivals_ps: [0; FILL_BUFFERS_MAX],
            lines: [0; FILL_BUFFERS_MAX],
            owned: 0,
            promised: Vec::new(),
        }
    }

    /// The core has a line from its arrival until the next request for it arrives.
    #[inline]
    pub(crate) fn lease(&mut self, line: LineNumber, from_ps: u64, until_ps: u64, now_ps: u64) {
        if self.leases.len() == self.leases.capacity() {
            self.leases.retain(|lease| lease.until_ps + REMEMBERED_PS > now_ps);
        }
        self.leases.push(Lease { line, from_ps, until_ps });
        self.leased_ps = self.leased_ps.max(until_ps);
    }

    /// Whether the core still has a line that another core has asked for.
    #[inline]
    pub(crate) fn holds(&self, line: LineNumber, now_ps: u64) -> bool {
        let has = |lease: &Lease| lease.line == line && (lease.from_ps..lease.until_ps).contains(&now_ps);
        now_ps < self.leased_ps && self.leases.iter().any(has)
    }

    /// A line arrives at this moment.
    #[inline]
    pub(crate) fn expect(&mut self, arrival_ps: u64) {
        self.pending_until_ps = self.pending_until_ps.max(arrival_ps);
    }

    /// When a line arrives that is under way to this core, with the right to write it if it is needed; 0 if none is.
    #[inline]
    pub(crate) fn arrival_ps(&self, line: LineNumber, write: bool, now_ps: u64) -> u64 {
        if now_ps >= self.arriving_ps {
            return 0;
        }
        let mut latest_ps = 0;
        for (buffer, &arriving) in self.lines.iter().enumerate() {
            if arriving == line && (!write || self.owned & (1 << buffer) != 0) {
                latest_ps = latest_ps.max(self.arrivals_ps[buffer]);
            }
        }
        let brings = |miss: &&Miss| miss.line == line && (miss.owned || !write);
        let promised_ps = self.promised.iter().filter(brings).map(|miss| miss.arrival_ps);
        latest_ps = promised_ps.fold(latest_ps, u64::max);
        if latest_ps > now_ps { latest_ps } else { 0 }
    }

    /// The fill buffer that is free first of this many: its number, and the moment at which a miss may start.
    #[inline]
    pub(crate) fn fill_buffer(&self, limit: usize, now_ps: u64) -> (usize, u64) {
        let (mut first, mut free_ps) = (0, u64::MAX);
        for (buffer, &from_ps) in self.arrivals_ps[..limit].iter().enumerate() {
            if from_ps <= now_ps {
                return (buffer, now_ps);
            }
            if from_ps < free_ps {
                (first, free_ps) = (buffer, from_ps);
            }
        }
        (first, free_ps)
    }

    /// A miss occupies its fill buffer until its line arrives.
    pub(crate) fn fill(
        &mut self,
        buffer: usize,
        line: LineNumber,
        owned: bool,
        arrival_ps: u64,
        now_ps: u64,
    ) {
        if self.arrivals_ps[buffer] > now_ps {
            self.promise(buffer, now_ps);
        }
        (self.lines[buffer], self.arrivals_ps[buffer]) = (line, arrival_ps);
        self.owned = self.owned & !(1 << buffer) | u32::from(owned) << buffer;
        self.arriving_ps = self.arriving_ps.max(arrival_ps);
        self.expect(arrival_ps);
    }

    /// The buffer goes to a later line as soon as its own has arrived.
    #[cold]
    fn promise(&mut self, buffer: usize, now_ps: u64) {
        if self.promised.len() == self.promised.capacity() {
            self.promised.retain(|miss| miss.arrival_ps + REMEMBERED_PS > now_ps);
        }
        let (line, arrival_ps) = (self.lines[buffer], self.arrivals_ps[buffer]);
        self.promised.push(Miss { line, arrival_ps, owned: self.owned & (1 << buffer) != 0 });
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
    fn a_lease_begins_with_the_line_and_ends_with_the_next_request() {
        let mut core = CoreState::new();
        core.lease(5, 40, 100, 0);
        assert!(!core.holds(5, 39) && core.holds(5, 40) && core.holds(5, 99) && !core.holds(5, 100));
        // Any number of lines, and a line twice.
        core.lease(9, 50, 200, 0);
        core.lease(5, 150, 180, 0);
        assert!(core.holds(5, 60) && !core.holds(5, 120) && core.holds(5, 170) && core.holds(9, 60));
        for line in 100..10_000 {
            core.lease(line, u64::from(line) * 1000, u64::from(line) * 1000 + 500, u64::from(line) * 1000);
        }
        assert!(core.leases.capacity() < 8 * REMEMBERED_PS as usize / 1000, "what has ended is forgotten");
    }

    #[test]
    fn a_miss_is_known_until_its_line_arrives_and_keeps_its_buffer_so_long() {
        let mut core = CoreState::new();
        for (line, arrival_ps) in [(1, 100), (2, 50)] {
            let (buffer, start_ps) = core.fill_buffer(2, 0);
            assert_eq!(start_ps, 0);
            core.fill(buffer, line, line == 1, arrival_ps, 0);
        }
        assert_eq!([1, 2, 3].map(|line| core.arrival_ps(line, false, 49)), [100, 50, 0]);
        assert_eq!(
            [1, 2].map(|line| core.arrival_ps(line, true, 49)),
            [100, 0],
            "the second was asked for to read"
        );
        assert_eq!([1, 2].map(|line| core.arrival_ps(line, false, 50)), [100, 0]);
        assert_eq!(core.fill_buffer(2, 10), (1, 50), "the first that is free");
        assert_eq!(core.fill_buffer(2, 60), (1, 60));
        core.fill(1, 3, false, 150, 10);
        let arrivals = |core: &CoreState| [1, 2, 3].map(|line| core.arrival_ps(line, false, 20));
        assert_eq!(arrivals(&core), [100, 50, 150], "the second is under way though its buffer is promised");
        for line in 100..100_000 {
            core.fill(0, line, false, u64::from(line) * 1000 + 500, u64::from(line) * 1000 - 600);
        }
        assert!(
            core.promised.capacity() < 8 * REMEMBERED_PS as usize / 1000,
            "what has arrived is forgotten"
        );
    }
}
