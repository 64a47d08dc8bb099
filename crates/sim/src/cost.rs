//! What an access costs its core: hits, store buffers, prefetches, and lines on their way.
//!
//! When a line arrives that the core has not got is a question to [`Coherence`]; whether the core waits for it is decided
//! here.

use crate::coherence::Coherence;
use crate::cores::StoreBuffer;
use crate::line::{Access, LineNumber, PRIVATE_LINE};
use crate::model::Seat;
use crate::statistics::Counts;
use crate::tags::tag;
use crate::{Config, SimError};

/// Answer to an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// It takes effect now; the core goes on at this moment.
    Now(u64),
    /// The line is under way: the access takes effect at this moment, and then the core goes on.
    Arrives(u64),
    /// Not now: the core's stores must have arrived first. Ask again at this moment.
    Drained(u64),
}

/// The cost model: its main door is [`CostModel::access`].
pub(crate) struct CostModel {
    pub(crate) coherence: Coherence,
    /// By hardware thread.
    stores: Vec<StoreBuffer>,
    /// Stores that one hardware thread may have waiting: siblings divide the buffer.
    store_buffer: usize,
}

impl CostModel {
    pub(crate) fn new(config: &Config) -> Result<CostModel, SimError> {
        let model = &config.model;
        Ok(CostModel {
            coherence: Coherence::new(config)?,
            stores: vec![StoreBuffer::new(); model.threads.len()],
            store_buffer: (model.costs.store_buffer / model.smt()).max(1),
        })
    }

    #[inline(always)]
    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.coherence.counts
    }

    /// The first of the fibers that wait for a change of a line, plus 1.
    #[inline(always)]
    pub(crate) fn waiters(&mut self, line: LineNumber) -> &mut u16 {
        &mut self.coherence.lines[line as usize].waiters
    }

    /// When all stores of a hardware thread have arrived.
    pub(crate) fn drained_ps(&self, seat: Seat) -> u64 {
        self.stores[seat.slot as usize].drained_ps
    }

    /// Time for computation that takes this long on a core of its own.
    #[inline(always)]
    pub(crate) fn stretched(&self, core: usize, picoseconds: u64) -> u64 {
        (picoseconds * u64::from(self.coherence.cores[core].stretch)) >> 10
    }

    /// One worker more, or one less, computes on a core.
    pub(crate) fn compute(&mut self, core: usize, more: bool) {
        let state = &mut self.coherence.cores[core];
        state.computing = if more { state.computing + 1 } else { state.computing - 1 };
        let siblings = (state.computing as usize).min(self.coherence.model.smt_stretch.len() - 1);
        state.stretch = self.coherence.model.smt_stretch[siblings];
    }

    /// When an access that is made now takes effect and when the core goes on; the new state of the line.
    #[inline(always)]
    pub(crate) fn access(&mut self, seat: Seat, line: LineNumber, access: Access, now_ps: u64) -> Ready {
        let core = seat.core as usize;
        if line == PRIVATE_LINE {
            // Always in the L1, and its stores do not wait: no other core sees them.
            self.coherence.counts.events += 1;
            self.coherence.counts.l1_hits += 1;
            return Ready::Now(now_ps + self.own_ps(core, access));
        }
        let entry = &mut self.coherence.lines[line as usize];
        let may = access == Access::Read || entry.is_owned_by(core);
        let nothing_pending = now_ps >= self.coherence.cores[core].pending_until_ps;
        if may && nothing_pending && self.coherence.l1.find(core, tag(line, entry.version)) {
            if access != Access::Read {
                entry.mark_dirty();
            }
            self.coherence.counts.events += 1;
            self.coherence.counts.l1_hits += 1;
            return Ready::Now(now_ps + self.own_ps(core, access));
        }
        self.access_slowly(seat, line, access, now_ps)
    }

    /// Cost of an access to a line in the core's L1.
    #[inline(always)]
    fn own_ps(&self, core: usize, access: Access) -> u64 {
        let costs = &self.coherence.model.costs;
        let alone_ps = match access {
            Access::Read => costs.l1_ps,
            Access::Write => costs.store_ps,
            Access::Atomic => costs.atomic_ps,
        };
        self.stretched(core, alone_ps)
    }

    #[inline(never)]
    fn access_slowly(&mut self, seat: Seat, line: LineNumber, access: Access, now_ps: u64) -> Ready {
        let core = seat.core as usize;
        let drained_ps = self.drained_ps(seat);
        if access == Access::Atomic && drained_ps > now_ps {
            return Ready::Drained(drained_ps);
        }
        self.coherence.announce(core, line);
        self.coherence.counts.events += 1;
        let entry = self.coherence.lines[line as usize];
        let current = tag(line, entry.version);
        let level = self.coherence.find(core, current);
        if level.is_some() && (access == Access::Read || entry.is_owned_by(core)) {
            return self.hit(seat, line, access, now_ps, level == Some(2));
        }
        let readable = || access == Access::Read && entry.is_leased_to_readers(now_ps);
        let late = self.coherence.cores[core].holds(line, now_ps)
            || readable() && self.coherence.holds(core, tag(line, entry.version.wrapping_sub(1)));
        if late {
            self.coherence.counts.late_hits += 1;
            return Ready::Now(now_ps + self.own_ps(core, access));
        }
        // A store to a line that rests elsewhere waits in the buffer. One to a line that goes from core to core must not
        // take effect before those of cores that asked earlier: the core waits with it.
        let rests = entry.busy_until_ps() <= now_ps;
        let buffered = access == Access::Write && rests;
        let arrival_ps = self.coherence.fetch(core, line, access, level.is_some(), !buffered, now_ps);
        if buffered { self.buffer(seat, now_ps, arrival_ps) } else { Ready::Arrives(arrival_ps) }
    }

    /// The core has the line and may do what it wants, but the line, or stores before this one, may be under way.
    fn hit(&mut self, seat: Seat, line: LineNumber, access: Access, now_ps: u64, second: bool) -> Ready {
        let core = seat.core as usize;
        let entry = &mut self.coherence.lines[line as usize];
        let owned_ps = if entry.is_owned_by(core) { entry.owned_from_ps() } else { 0 };
        if access != Access::Read {
            entry.mark_dirty();
        }
        let arrival_ps = owned_ps.max(self.coherence.cores[core].prefetched(line, now_ps));
        let drained_ps = self.drained_ps(seat);
        let costs = &self.coherence.model.costs;
        let farther_ps = if second { costs.l2_ps.saturating_sub(costs.l1_ps) } else { 0 };
        *(if second { &mut self.coherence.counts.l2_hits } else { &mut self.coherence.counts.l1_hits }) += 1;
        let here_ps = now_ps + self.own_ps(core, access) + farther_ps;
        match access {
            Access::Write if arrival_ps.max(drained_ps) > now_ps => self.buffer(seat, now_ps, arrival_ps),
            Access::Write => Ready::Now(here_ps - farther_ps),
            _ if arrival_ps > now_ps => Ready::Arrives(arrival_ps.max(here_ps)),
            _ => Ready::Now(here_ps),
        }
    }

    /// A store leaves for the buffer.
    fn buffer(&mut self, seat: Seat, now_ps: u64, arrival_ps: u64) -> Ready {
        let core = seat.core as usize;
        let buffer = &mut self.stores[seat.slot as usize];
        let free_ps = buffer.push(self.store_buffer, now_ps, arrival_ps);
        self.coherence.cores[core].expect(buffer.drained_ps);
        self.coherence.counts.full_store_buffers += u64::from(free_ps > now_ps);
        Ready::Now(free_ps + self.own_ps(core, Access::Write))
    }

    /// Starts a miss and returns the moment when the core goes on: at once, unless too many misses are under way.
    pub(crate) fn prefetch(&mut self, core: usize, line: LineNumber, access: Access, now_ps: u64) -> u64 {
        let entry = &self.coherence.lines[line as usize];
        let may = access == Access::Read || entry.is_owned_by(core);
        let current = tag(line, entry.version);
        let present = self.coherence.find(core, current).is_some();
        if line == PRIVATE_LINE || present && may {
            return now_ps;
        }
        let (place, start_ps) =
            self.coherence.cores[core].fill_buffer(self.coherence.model.costs.fill_buffers, now_ps);
        self.coherence.counts.events += 1;
        self.coherence.counts.prefetches += 1;
        let arrival_ps = self.coherence.fetch(core, line, access, present, true, start_ps);
        self.coherence.cores[core].fill(place, line, arrival_ps);
        start_ps
    }
}
