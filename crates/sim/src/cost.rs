//! When does a line arrive: coherence, caches, distances and queues.
//!
//! States, in MESI's terms: an entry with an owner is M (dirty) or E, one without and with sharers is S, one with
//! neither is in memory only. Where a line is found is looked up in the tags of the caches: what has fallen out of all of
//! them is in memory.
//!
//! Requests for one line are served in the order in which they are made. The next transfer starts when the one before
//! has arrived; half of its latency later the request reaches the holder, which has the line until then (a *lease*), and
//! after the whole of it the line is there. Readers of a clean line keep its supplier busy only for
//! [`crate::Costs::share_ps`]. See `docs/decisions/0008-arbitration-and-costs.md`.

mod fetch;

use machine::{Access as Kind, LineState};
use platform::Address;

pub(crate) use crate::directory::{LineNumber, PRIVATE_LINE};

use crate::arena::Arena;
use crate::bandwidth::Ports;
use crate::cores::{CoreState, StoreBuffer};
use crate::directory::Line;
use crate::fiber::prefetch;
use crate::memory::PAGE_BYTES;
use crate::model::{Model, Seat, transfer_row};
use crate::statistics::Counts;
use crate::tags::{Tag, Tags, tag};
use crate::{Config, SimError};

/// Coherence misses from which on a line may be reported as hot.
const HOT_MISSES_MIN: u32 = 16;

/// What an access does with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Read-modify-write.
    Atomic,
}

impl Access {
    /// Row of the transfer costs of lines in this state.
    fn row(self, state: LineState) -> usize {
        let kind = match self {
            Access::Read => Kind::Load,
            Access::Write => Kind::Store,
            Access::Atomic => Kind::Atomic,
        };
        transfer_row(kind, state)
    }
}

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
    lines: Arena<Line>,
    l1: Tags<8>,
    l2: Tags<8>,
    l3: Tags<16>,
    cores: Vec<CoreState>,
    /// By hardware thread.
    stores: Vec<StoreBuffer>,
    /// Position of the node of each page.
    nodes: Arena<u16>,
    model: Model,
    /// Stores that one hardware thread may have waiting: siblings divide the buffer.
    store_buffer: usize,
    ports: Ports,
    /// Of each group the tag that its L3 dropped last: looked at when the next one is dropped, when the host has its entry.
    dropped: Vec<Tag>,
    /// Lines that had many coherence misses.
    hot: Vec<LineNumber>,
    pub(crate) counts: Counts,
}

impl CostModel {
    pub(crate) fn new(config: &Config) -> Result<CostModel, SimError> {
        let model = config.model.clone();
        let (cores, caches, line) = (model.cores.len(), model.caches, model.line_bytes());
        let lines = |bytes: usize| bytes / line;
        Ok(CostModel {
            lines: Arena::new(config.memory_bytes.div_ceil(line), "the directory of lines")?,
            l1: Tags::new(cores, lines(caches.l1_bytes), false, "the tags of the L1s")?,
            l2: Tags::new(cores, lines(caches.l2_bytes), false, "the tags of the L2s")?,
            l3: Tags::new(model.groups, lines(caches.l3_bytes), true, "the tags of the L3s")?,
            cores: vec![CoreState::new(); cores],
            stores: vec![StoreBuffer::new(); model.threads.len()],
            nodes: Arena::new(config.memory_bytes.div_ceil(PAGE_BYTES), "the nodes of pages")?,
            store_buffer: (model.costs.store_buffer / model.smt()).max(1),
            ports: Ports::new(&model),
            dropped: vec![0; model.groups],
            hot: Vec::new(),
            model,
            counts: Counts::default(),
        })
    }

    /// Notes the node of new memory, by its position.
    pub(crate) fn place(&mut self, at: Address, bytes: usize, node: usize) {
        let first = at.0 as usize / PAGE_BYTES;
        self.nodes[first..first + bytes / PAGE_BYTES].fill(node as u16);
    }

    /// The first of the fibers that wait for a change of a line, plus 1.
    #[inline(always)]
    pub(crate) fn waiters(&mut self, line: LineNumber) -> &mut u16 {
        &mut self.lines[line as usize].waiters
    }

    /// Has the host bring what [`Self::access`] will need.
    #[inline(always)]
    pub(crate) fn announce(&self, core: usize, line: LineNumber) {
        prefetch(&raw const self.lines[line as usize]);
        self.l1.announce(core, line);
        self.l2.announce(core, line);
    }

    /// When all stores of a hardware thread have arrived.
    pub(crate) fn drained_ps(&self, seat: Seat) -> u64 {
        self.stores[seat.slot as usize].drained_ps
    }

    /// Time for computation that takes this long on a core of its own.
    #[inline(always)]
    pub(crate) fn stretched(&self, core: usize, picoseconds: u64) -> u64 {
        (picoseconds * u64::from(self.cores[core].stretch)) >> 10
    }

    /// One worker more, or one less, computes on a core.
    pub(crate) fn compute(&mut self, core: usize, more: bool) {
        let state = &mut self.cores[core];
        state.computing = if more { state.computing + 1 } else { state.computing - 1 };
        let siblings = (state.computing as usize).min(self.model.smt_stretch.len() - 1);
        state.stretch = self.model.smt_stretch[siblings];
    }

    /// When an access that is made now takes effect and when the core goes on; the new state of the line.
    #[inline(always)]
    pub(crate) fn access(&mut self, seat: Seat, line: LineNumber, access: Access, now_ps: u64) -> Ready {
        let core = seat.core as usize;
        if line == PRIVATE_LINE {
            // Always in the L1, and its stores wait for nobody: nobody else sees them.
            self.counts.events += 1;
            self.counts.l1_hits += 1;
            return Ready::Now(now_ps + self.own_ps(core, access));
        }
        let entry = &mut self.lines[line as usize];
        let may = access == Access::Read || entry.is_owned_by(core);
        let quiet = now_ps >= self.cores[core].attention_ps;
        if may && quiet && self.l1.find(core, tag(line, entry.version)) {
            if access != Access::Read {
                entry.soil();
            }
            self.counts.events += 1;
            self.counts.l1_hits += 1;
            return Ready::Now(now_ps + self.own_ps(core, access));
        }
        self.access_slowly(seat, line, access, now_ps)
    }

    /// Cost of an access to a line in the core's L1.
    #[inline(always)]
    fn own_ps(&self, core: usize, access: Access) -> u64 {
        let costs = &self.model.costs;
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
        self.counts.events += 1;
        let entry = self.lines[line as usize];
        let current = tag(line, entry.version);
        let level = self.find(core, current);
        if level.is_some() && (access == Access::Read || entry.is_owned_by(core)) {
            return self.hit(seat, line, access, now_ps, level == Some(2));
        }
        let readable = || access == Access::Read && entry.readers_remain(now_ps);
        let late = self.cores[core].holds(line, now_ps)
            || readable() && self.holds(core, tag(line, entry.version.wrapping_sub(1)));
        if late {
            self.counts.late_hits += 1;
            return Ready::Now(now_ps + self.own_ps(core, access));
        }
        // A store to a line that rests elsewhere waits in the buffer. One to a line that goes from core to core must not
        // take effect before those who asked earlier: the core waits with it.
        let rests = entry.busy_until_ps() <= now_ps;
        let buffered = access == Access::Write && rests;
        let arrival_ps = self.fetch(core, line, access, level.is_some(), !buffered, now_ps);
        if buffered { self.buffer(seat, now_ps, arrival_ps) } else { Ready::Arrives(arrival_ps) }
    }

    /// Level of the core's caches that has this tag; it is in the L1 then.
    fn find(&mut self, core: usize, tag: Tag) -> Option<u8> {
        if self.l1.find(core, tag) {
            return Some(1);
        }
        if self.l2.find(core, tag) {
            self.l1.insert(core, tag);
            return Some(2);
        }
        None
    }

    /// Whether the core's caches have this tag.
    fn holds(&self, core: usize, tag: Tag) -> bool {
        self.l2.holds(core, tag) || self.l1.holds(core, tag)
    }

    /// The core has the line and may do what it wants, but the line, or stores before this one, may be under way.
    fn hit(&mut self, seat: Seat, line: LineNumber, access: Access, now_ps: u64, second: bool) -> Ready {
        let core = seat.core as usize;
        let entry = &mut self.lines[line as usize];
        let owned_ps = if entry.is_owned_by(core) { entry.owned_from_ps() } else { 0 };
        if access != Access::Read {
            entry.soil();
        }
        let arrival_ps = owned_ps.max(self.cores[core].prefetched(line, now_ps));
        let drained_ps = self.drained_ps(seat);
        let costs = &self.model.costs;
        let farther_ps = if second { costs.l2_ps.saturating_sub(costs.l1_ps) } else { 0 };
        *(if second { &mut self.counts.l2_hits } else { &mut self.counts.l1_hits }) += 1;
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
        self.cores[core].expect(buffer.drained_ps);
        self.counts.full_store_buffers += u64::from(free_ps > now_ps);
        Ready::Now(free_ps + self.own_ps(core, Access::Write))
    }

    /// Starts a miss and returns the moment when the core goes on: at once, unless too many misses are under way.
    pub(crate) fn prefetch(&mut self, core: usize, line: LineNumber, access: Access, now_ps: u64) -> u64 {
        let entry = &self.lines[line as usize];
        let may = access == Access::Read || entry.is_owned_by(core);
        let current = tag(line, entry.version);
        let present = self.find(core, current).is_some();
        if line == PRIVATE_LINE || present && may {
            return now_ps;
        }
        let (place, start_ps) = self.cores[core].fill_buffer(self.model.costs.fill_buffers, now_ps);
        self.counts.events += 1;
        self.counts.prefetches += 1;
        let arrival_ps = self.fetch(core, line, access, present, true, start_ps);
        self.cores[core].fill(place, line, arrival_ps);
        start_ps
    }

    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Counts a miss that another core's copy caused.
    fn heat(&mut self, line: LineNumber) {
        let misses = &mut self.lines[line as usize].misses;
        *misses = misses.saturating_add(1);
        if *misses == HOT_MISSES_MIN {
            self.hot.push(line);
        }
    }
}
