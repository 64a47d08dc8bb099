//! Costs of an access for its core: hits, store buffers, prefetches, and lines on their way.
//!
//! [`Coherence`] computes when a line arrives that the core does not have. This module decides how
//! long the core waits for it.

use platform::Code;

use crate::code::{CodeCaches, LINE_PARTS};
use crate::coherence::Coherence;
use crate::cores::StoreBuffer;
use crate::line::{Access, Arrival, LineNumber, PRIVATE_LINE};
use crate::model::WorkerSeat;
use crate::statistics::Counts;
use crate::tags::tag;
use crate::translation::WALK;
use crate::{Config, SimError};

/// Time at which an access takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The access takes effect now; the core continues at this moment.
    Now(u64),
    /// The line is under way: the access takes effect at this moment, and then the core continues.
    Arrives(u64),
    /// Not now: the core's stores must have arrived first, or a fill buffer must be free. The core
    /// repeats the access at this moment.
    Later(u64),
}

/// The cost model. Its main entry is [`CostModel::access`].
pub(crate) struct CostModel {
    pub(crate) coherence: Coherence,
    /// By hardware thread.
    stores: Vec<StoreBuffer>,
    /// Arrival of the last store of each store buffer. A separate array, because it is read more
    /// often than the rest of the buffer.
    drained_ps: Vec<u64>,
    /// Capacity of a hardware thread's share of the store buffer: siblings divide it.
    store_buffer: usize,
    /// By hardware thread.
    waits: Vec<Waits>,
    /// None if fetching code is not counted.
    pub(crate) code: Option<CodeCaches>,
}

/// Moment at which the translation of an address is there.
struct Translated {
    at_ps: u64,
    /// The entry of the page table is under way until then: the core repeats the access.
    arrives: bool,
}

/// Waits of a hardware thread that are counted: overlapping ones once.
#[derive(Clone, Copy, Default)]
struct Waits {
    /// End of the last wait.
    stalled_until_ps: u64,
    /// End of the last access to a line that other cores have.
    shared_until_ps: u64,
}

impl CostModel {
    pub(crate) fn new(config: &Config) -> Result<CostModel, SimError> {
        let model = &config.model;
        Ok(CostModel {
            coherence: Coherence::new(config)?,
            stores: vec![StoreBuffer::new(); model.threads.len()],
            drained_ps: vec![0; model.threads.len()],
            store_buffer: (model.costs.store_buffer / model.smt()).max(1),
            waits: vec![Waits::default(); model.threads.len()],
            code: model
                .instruction_cache
                .map(|cache| CodeCaches::new(cache, model.cores.len(), model.costs.code_miss_ps)),
        })
    }

    #[inline(always)]
    pub(crate) fn counts(&mut self) -> &mut Counts {
        &mut self.coherence.counts
    }

    /// First of the fibers that wait for a change of a line, plus 1.
    #[inline(always)]
    pub(crate) fn waiters(&mut self, line: LineNumber) -> &mut u16 {
        &mut self.coherence.lines[line as usize].waiters
    }

    /// Moment at which all stores of a hardware thread have arrived.
    fn drained_ps(&self, seat: WorkerSeat) -> u64 {
        self.drained_ps[seat.slot as usize]
    }

    /// Waits until all stores of a hardware thread have arrived. Returns when the core continues.
    pub(crate) fn drain(&mut self, seat: WorkerSeat, now_ps: u64) -> u64 {
        self.stalled_until(seat, now_ps, now_ps.max(self.drained_ps(seat)))
    }

    /// Counts a wait of a hardware thread, and returns its end.
    #[inline]
    fn stalled_until(&mut self, seat: WorkerSeat, from_ps: u64, until_ps: u64) -> u64 {
        let counted_ps = &mut self.waits[seat.slot as usize].stalled_until_ps;
        self.coherence.counts.stalled_ps += until_ps.saturating_sub(from_ps.max(*counted_ps));
        *counted_ps = until_ps.max(*counted_ps);
        until_ps
    }

    /// Counts the time of an access to a line that other cores have.
    #[inline]
    fn count_shared(&mut self, seat: WorkerSeat, from_ps: u64, until_ps: u64) {
        let counted_ps = &mut self.waits[seat.slot as usize].shared_until_ps;
        self.coherence.counts.shared_ps += until_ps.saturating_sub(from_ps.max(*counted_ps));
        *counted_ps = until_ps.max(*counted_ps);
    }

    /// Counts an access that waits for the arrival of a line and would take until `own_ps` if the
    /// core had the line.
    #[inline]
    fn wait_for(&mut self, seat: WorkerSeat, arrival: Arrival, now_ps: u64, own_ps: u64) -> Ready {
        let until_ps = arrival.at_ps.max(own_ps);
        if arrival.shared {
            self.count_shared(seat, now_ps, until_ps);
        }
        Ready::Arrives(self.stalled_until(seat, own_ps, until_ps))
    }

    /// Executes code on a core, and returns the time for which it waits for missing lines.
    #[inline]
    pub(crate) fn fetch(&mut self, core: usize, code: Code) -> u64 {
        let counts = &mut self.coherence.counts;
        let Some(caches) = self.code.as_mut().filter(|_| counts.path_instructions == 0) else { return 0 };
        let parts = caches.enter(core, code);
        let waits_ps = parts * caches.wait_ps / LINE_PARTS;
        counts.code_miss_parts += parts;
        counts.code_stalled_ps += waits_ps;
        waits_ps
    }

    /// Duration of a computation that takes `picoseconds` on a core without busy siblings.
    #[inline(always)]
    pub(crate) fn stretched(&self, core: usize, picoseconds: u64) -> u64 {
        (picoseconds * u64::from(self.coherence.cores[core].stretch)) >> 10
    }

    /// Adds or removes one worker that computes on a core.
    pub(crate) fn compute(&mut self, core: usize, more: bool) {
        let state = &mut self.coherence.cores[core];
        state.computing = if more { state.computing + 1 } else { state.computing - 1 };
        self.divide_slots(core);
    }

    /// Adds or removes one worker that spins or pauses on a core.
    pub(crate) fn pause(&mut self, core: usize, more: bool) {
        let state = &mut self.coherence.cores[core];
        state.pausing = if more { state.pausing + 1 } else { state.pausing - 1 };
        self.divide_slots(core);
    }

    /// Divides a core's issue slots: workers that spin or pause take their parts, the workers that
    /// compute share the rest.
    fn divide_slots(&mut self, core: usize) {
        let model = &self.coherence.model;
        let state = &mut self.coherence.cores[core];
        let most = model.smt_stretch.len() - 1;
        let siblings = (state.computing as usize).min(most);
        let pausing = state.pausing.min(most.saturating_sub(siblings) as u32);
        let left = 1024 - (pausing * model.costs.pauser_parts).min(512);
        state.stretch = model.smt_stretch[siblings] * 1024 / left;
    }

    /// Charges an access that is made now and changes the line's state. Returns when the access
    /// takes effect and when the core continues.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        seat: WorkerSeat,
        line: LineNumber,
        access: Access,
        now_ps: u64,
    ) -> Ready {
        let core = seat.core as usize;
        if line == PRIVATE_LINE {
            // Private memory is always in the L1, and its stores do not wait: no other core sees
            // them.
            self.coherence.counts.events += 1;
            self.coherence.counts.l1_hits += 1;
            return Ready::Now(now_ps + self.own_ps(core, access));
        }
        let mut now_ps = now_ps;
        if !self.coherence.cores[core].has_page(line) {
            let Translated { at_ps, arrives } = self.translate(seat, line, now_ps);
            if arrives {
                return Ready::Later(at_ps);
            }
            now_ps = at_ps;
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

    /// Translates the address of a line, which is not on the core's last page.
    #[inline(never)]
    fn translate(&mut self, seat: WorkerSeat, line: LineNumber, now_ps: u64) -> Translated {
        let core = seat.core as usize;
        let Some(translator) = &mut self.coherence.translator else {
            return Translated { at_ps: now_ps, arrives: false };
        };
        let found = translator.translate(core, line);
        self.coherence.cores[core].set_page(line, found.shift);
        if found.level == 0 {
            return Translated { at_ps: now_ps, arrives: false };
        }
        self.coherence.counts.tlb_misses += 1;
        let asked_ps = self.stalled_until(seat, now_ps, now_ps + found.lookup_ps);
        let translated = match found.level {
            WALK => self.walk(seat, line, found.shift, asked_ps),
            _ => Translated { at_ps: asked_ps, arrives: false },
        };
        self.coherence.counts.translation_ps += translated.at_ps - now_ps;
        translated
    }

    /// Reads a page's entry of the page table.
    fn walk(&mut self, seat: WorkerSeat, line: LineNumber, shift: u32, now_ps: u64) -> Translated {
        let model = &self.coherence.model;
        let home = self.coherence.home(line);
        let node = usize::from(model.cores[seat.core as usize].node);
        let Some(translator) = self.coherence.translator.as_ref() else {
            return Translated { at_ps: now_ps, arrives: false };
        };
        // Memory of another machine is in none of this machine's tables: the access is refused.
        if model.node_machines[home] != model.node_machines[node] {
            return Translated { at_ps: now_ps, arrives: false };
        }
        let entry = translator.entry(line, shift, home);
        self.coherence.counts.page_walks += 1;
        let mut now_ps = now_ps;
        loop {
            match self.access_slowly(seat, entry, Access::Read, now_ps) {
                Ready::Now(at_ps) => return Translated { at_ps, arrives: false },
                Ready::Arrives(at_ps) => return Translated { at_ps, arrives: true },
                Ready::Later(later_ps) => now_ps = later_ps,
            }
        }
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
    fn access_slowly(&mut self, seat: WorkerSeat, line: LineNumber, access: Access, now_ps: u64) -> Ready {
        let core = seat.core as usize;
        let drained_ps = self.drained_ps(seat);
        if access == Access::Atomic && drained_ps > now_ps {
            return Ready::Later(self.stalled_until(seat, now_ps, drained_ps));
        }
        let entry = self.coherence.lines[line as usize];
        let current = tag(line, entry.version);
        let level = self.coherence.find(core, current);
        let write = access != Access::Read;
        if level.is_some() && (!write || entry.is_owned_by(core)) {
            return self.hit(seat, line, access, now_ps, level == Some(2));
        }
        let state = &self.coherence.cores[core];
        let own_ps = now_ps + self.own_ps(core, access);
        let leased = state.holds(line, now_ps);
        // A miss of a sibling, or of an earlier operation of this thread, delivers the line to this
        // access too.
        let arrival = if leased { None } else { state.arrival(line, write, now_ps) };
        if let Some(arrival) = arrival {
            self.coherence.counts.events += 1;
            self.coherence.counts.merged_misses += 1;
            return self.wait_for(seat, arrival, now_ps, own_ps);
        }
        if leased || !write && self.coherence.keeps_copy(core, line, now_ps) {
            self.coherence.counts.events += 1;
            self.coherence.counts.late_hits += 1;
            return Ready::Now(own_ps);
        }
        // The right to write cannot be requested before a copy that is under way has arrived.
        let arrival = self.coherence.cores[core].arrival(line, false, now_ps);
        let asked_ps = arrival.map_or(now_ps, |arrival| arrival.at_ps);
        // A store to a line at rest elsewhere waits in the buffer. A store to a line that moves
        // from core to core must not take effect before the stores of cores that requested it
        // earlier: the core waits with it.
        let rests = entry.busy_until_ps() <= now_ps;
        let buffered = access == Access::Write && rests;
        let fill_buffers = self.coherence.model.costs.fill_buffers;
        let (fill_buffer, start_ps) = self.coherence.cores[core].fill_buffer(fill_buffers, asked_ps);
        if start_ps > now_ps && !buffered {
            return Ready::Later(self.stalled_until(seat, now_ps, start_ps));
        }
        self.coherence.counts.events += 1;
        let arrival = self.coherence.fetch(core, line, access, level.is_some(), !buffered, start_ps);
        self.coherence.cores[core].fill(fill_buffer, line, write, arrival, now_ps);
        if buffered {
            self.buffer(seat, now_ps, arrival.at_ps)
        } else {
            self.wait_for(seat, arrival, now_ps, own_ps.min(arrival.at_ps))
        }
    }

    /// The core has the line and the rights that it needs, but the line, or earlier stores, may be
    /// under way.
    fn hit(
        &mut self,
        seat: WorkerSeat,
        line: LineNumber,
        access: Access,
        now_ps: u64,
        second: bool,
    ) -> Ready {
        let core = seat.core as usize;
        let entry = &mut self.coherence.lines[line as usize];
        let owned_ps = if entry.is_owned_by(core) { entry.owned_from_ps() } else { 0 };
        if access != Access::Read {
            entry.mark_dirty();
        }
        let under_way = self.coherence.cores[core].arrival(line, false, now_ps);
        let Arrival { at_ps, shared } = under_way.unwrap_or_default();
        let arrival_ps = owned_ps.max(at_ps);
        let drained_ps = self.drained_ps(seat);
        let costs = &self.coherence.model.costs;
        let farther_ps = if second { costs.l2_ps.saturating_sub(costs.l1_ps) } else { 0 };
        let counts = &mut self.coherence.counts;
        counts.events += 1;
        *(match second {
            _ if arrival_ps > now_ps => &mut counts.merged_misses,
            true => &mut counts.l2_hits,
            false => &mut counts.l1_hits,
        }) += 1;
        let own_ps = now_ps + self.own_ps(core, access);
        let here_ps = own_ps + farther_ps;
        match access {
            Access::Write if arrival_ps.max(drained_ps) > now_ps => self.buffer(seat, now_ps, arrival_ps),
            Access::Write => Ready::Now(own_ps),
            _ if arrival_ps > now_ps => {
                let arrival = Arrival { at_ps: arrival_ps.max(here_ps), shared };
                self.wait_for(seat, arrival, now_ps, own_ps)
            }
            _ => Ready::Now(self.stalled_until(seat, own_ps, here_ps)),
        }
    }

    /// Moves a store into the buffer.
    fn buffer(&mut self, seat: WorkerSeat, now_ps: u64, arrival_ps: u64) -> Ready {
        let core = seat.core as usize;
        let buffer = &mut self.stores[seat.slot as usize];
        let free_ps = buffer.push(self.store_buffer, now_ps, arrival_ps);
        self.drained_ps[seat.slot as usize] = buffer.drained_ps;
        self.coherence.cores[core].expect(buffer.drained_ps);
        if free_ps > now_ps {
            self.coherence.counts.full_store_buffers += 1;
            self.stalled_until(seat, now_ps, free_ps);
        }
        Ready::Now(free_ps + self.own_ps(core, Access::Write))
    }

    /// Starts a miss. Returns the moment when the core continues: at once, unless too many misses
    /// are under way.
    pub(crate) fn prefetch(
        &mut self,
        seat: WorkerSeat,
        line: LineNumber,
        access: Access,
        now_ps: u64,
    ) -> u64 {
        let core = seat.core as usize;
        if line == PRIVATE_LINE {
            return now_ps;
        }
        let translated_ps = self.translate_ahead(seat, line, now_ps);
        let entry = &self.coherence.lines[line as usize];
        let may = access == Access::Read || entry.is_owned_by(core);
        let current = tag(line, entry.version);
        let present = self.coherence.find(core, current).is_some();
        let write = access != Access::Read;
        let under_way = || self.coherence.cores[core].arrival(line, write, now_ps).is_some();
        if present && may || under_way() {
            return now_ps;
        }
        let fill_buffers = self.coherence.model.costs.fill_buffers;
        let (fill_buffer, start_ps) = self.coherence.cores[core].fill_buffer(fill_buffers, now_ps);
        self.coherence.counts.events += 1;
        self.coherence.counts.prefetches += 1;
        let fetched_ps = start_ps.max(translated_ps);
        let arrival = self.coherence.fetch(core, line, access, present, true, fetched_ps);
        self.coherence.cores[core].fill(fill_buffer, line, write, arrival, now_ps);
        self.stalled_until(seat, now_ps, start_ps)
    }

    /// Translates an address for a prefetch, for which the core does not wait. Returns the moment
    /// at which the translation is there.
    fn translate_ahead(&mut self, seat: WorkerSeat, line: LineNumber, now_ps: u64) -> u64 {
        if self.coherence.cores[seat.core as usize].has_page(line) {
            return now_ps;
        }
        let counts = &self.coherence.counts;
        let before =
            (self.waits[seat.slot as usize], counts.stalled_ps, counts.shared_ps, counts.translation_ps);
        let at_ps = self.translate(seat, line, now_ps).at_ps;
        let counts = &mut self.coherence.counts;
        (self.waits[seat.slot as usize], counts.stalled_ps, counts.shared_ps, counts.translation_ps) = before;
        at_ps
    }
}
