//! When does a line arrive: coherence, private caches and distances.
//!
//! One [`Line`] of a dense array for each 64 bytes of memory knows who has it: the core that owns it alone (it may write
//! without asking), or the sockets that share it. A private cache holds pairs (line, version); taking a line to write
//! raises its version, which invalidates all copies at once without knowing them.
//!
//! States, in MESI's terms: owner and one socket is M or E, no owner and some sockets is S, neither is "in memory only".
//! A read of an owned line costs the distance to the owner and leaves it shared. A write of a shared line costs the way
//! to the farthest sharer or the fetch, whichever is longer. Requests for one line queue: it is busy until a transfer of
//! its ownership has arrived, and for [`Costs::share_ps`] with a reader of a clean copy. First come, first served.
//!
//! Evicted lines are found in their socket's shared cache, which is infinite here. Lines of a returned region keep their
//! state, as they would in a cache.

use platform::{Address, LINE_BYTES, Node};

use crate::arena::{Arena, Zeroed};
use crate::config::FILL_BUFFERS_MAX;
use crate::fiber::prefetch;
use crate::memory::PAGE_BYTES;
use crate::{Config, Costs, SimError, Statistics};

/// Number of a line; line 0 stands for all private memory.
pub(crate) type LineNumber = u32;
/// All private memory.
pub(crate) const PRIVATE_LINE: LineNumber = 0;

/// What an access does with its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Read-modify-write.
    Atomic,
}

/// Who has a line.
#[derive(Clone, Copy)]
#[repr(C)]
struct Line {
    /// Sockets with a copy.
    sharers: u64,
    /// The next request is served from this moment on.
    busy_until_ps: u64,
    /// Raised by every change of ownership to write: copies of older versions are invalid.
    version: u32,
    /// First of the fibers that wait for a change, plus 1; 0 if there is none.
    waiters: u32,
    /// Core that may write without asking, plus 1; 0 if there is none.
    owner: u16,
    _padding: [u16; 3],
}

const _: () = assert!(size_of::<Line>() == 32);

// SAFETY: integers only.
unsafe impl Zeroed for Line {}

/// Ways of a set of a private cache.
const WAYS: usize = 4;

/// Misses under way of one core: prefetched lines that have not arrived.
#[derive(Clone)]
struct Pending {
    /// No miss is under way after this moment.
    until_ps: u64,
    misses: [(LineNumber, u64); FILL_BUFFERS_MAX],
}

/// The cost model: its only door is [`CostModel::access`].
pub(crate) struct CostModel {
    lines: Arena<Line>,
    /// Private caches of all cores, one after the other: sets of [`WAYS`] tags, most recently used first.
    tags: Arena<u64>,
    tags_per_core: usize,
    set_mask: u32,
    pending: Vec<Pending>,
    /// Node of each page.
    nodes: Arena<u16>,
    cores_per_socket: usize,
    sockets: usize,
    /// Cache to cache, by socket and socket.
    transfer_ps: Vec<u64>,
    /// Memory to cache, by node and socket.
    memory_ps: Vec<u64>,
    costs: Costs,
    pub(crate) statistics: Statistics,
}

impl CostModel {
    pub(crate) fn new(config: &Config) -> Result<CostModel, SimError> {
        let Config { shape, costs, .. } = config;
        let tags_per_core = costs.cache_bytes / LINE_BYTES;
        let lines = config.memory_bytes.div_ceil(LINE_BYTES);
        let distances = |own: u64, other: u64| {
            let pairs = (0..shape.sockets).flat_map(|from| (0..shape.sockets).map(move |to| (from, to)));
            pairs
                .map(|(from, to)| match shape.hops_between(from, to) {
                    0 => own,
                    hops => other + u64::from(hops - 1) * costs.hop_ps,
                })
                .collect()
        };
        Ok(CostModel {
            lines: Arena::new(lines, "the directory of lines")?,
            tags: Arena::new(tags_per_core * shape.cores(), "the tags of private caches")?,
            tags_per_core,
            set_mask: (tags_per_core / WAYS - 1) as u32,
            pending: vec![Pending { until_ps: 0, misses: [(0, 0); FILL_BUFFERS_MAX] }; shape.cores()],
            nodes: Arena::new(config.memory_bytes.div_ceil(PAGE_BYTES), "the nodes of pages")?,
            cores_per_socket: shape.cores_per_socket,
            sockets: shape.sockets,
            transfer_ps: distances(costs.near_ps, costs.far_ps),
            memory_ps: distances(costs.memory_local_ps, costs.memory_remote_ps),
            costs: costs.clone(),
            statistics: Statistics::default(),
        })
    }

    /// Notes the node of new memory.
    pub(crate) fn place(&mut self, at: Address, bytes: usize, node: Node) {
        let first = at.0 as usize / PAGE_BYTES;
        self.nodes[first..first + bytes / PAGE_BYTES].fill(node.0 as u16);
    }

    /// The first of the fibers that wait for a change of a line, plus 1.
    #[inline(always)]
    pub(crate) fn waiters(&mut self, line: LineNumber) -> &mut u32 {
        &mut self.lines[line as usize].waiters
    }

    /// Has the host bring what [`Self::access`] will need.
    #[inline(always)]
    pub(crate) fn announce(&self, core: usize, line: LineNumber) {
        prefetch(&raw const self.lines[line as usize]);
        prefetch(&raw const self.tags[self.set(core, line)]);
    }

    /// Index of the first tag of a line's set.
    #[inline(always)]
    fn set(&self, core: usize, line: LineNumber) -> usize {
        core * self.tags_per_core + (line & self.set_mask) as usize * WAYS
    }

    /// The moment when a line has arrived at a core that asks for it now, and the new state of the line.
    #[inline(always)]
    pub(crate) fn access(&mut self, core: usize, line: LineNumber, access: Access, now_ps: u64) -> u64 {
        self.statistics.events += 1;
        let surcharge = if access == Access::Atomic { self.costs.atomic_ps } else { 0 };
        if line == PRIVATE_LINE {
            self.statistics.hits += 1;
            return now_ps + self.costs.hit_ps + surcharge;
        }
        let entry = &self.lines[line as usize];
        let tag = tag(line, entry.version);
        let may = access == Access::Read || usize::from(entry.owner) == core + 1;
        let set = self.set(core, line);
        let present = find(&mut self.tags[set..set + WAYS], tag);
        if !(present && may) {
            return self.miss(core, line, access, present, now_ps) + surcharge;
        }
        self.statistics.hits += 1;
        let ready = now_ps + self.costs.hit_ps;
        if now_ps < self.pending[core].until_ps {
            return ready.max(self.arrival(core, line)) + surcharge;
        }
        ready + surcharge
    }

    /// Starts a miss and returns the moment when the core goes on: at once, unless too many misses are under way.
    pub(crate) fn prefetch(&mut self, core: usize, line: LineNumber, access: Access, now_ps: u64) -> u64 {
        if self.arrival(core, line) > now_ps {
            return now_ps;
        }
        let limit = self.costs.fill_buffers;
        let (slot, first_arrival) = self.pending[core].misses[..limit]
            .iter()
            .enumerate()
            .map(|(slot, (_, arrival))| (slot, *arrival))
            .min_by_key(|(_, arrival)| *arrival)
            .unwrap_or((0, 0));
        let start = now_ps.max(first_arrival);
        self.statistics.prefetches += 1;
        let arrival = self.access(core, line, access, start);
        if arrival > start + self.costs.hit_ps {
            let pending = &mut self.pending[core];
            pending.misses[slot] = (line, arrival);
            pending.until_ps = pending.until_ps.max(arrival);
        }
        start
    }

    /// When a line that is under way arrives.
    #[cold]
    fn arrival(&self, core: usize, line: LineNumber) -> u64 {
        let misses = self.pending[core].misses.iter();
        misses.filter(|(pending, _)| *pending == line).map(|(_, arrival)| *arrival).max().unwrap_or(0)
    }

    /// The line is not in the core's cache, or only to be read.
    fn miss(&mut self, core: usize, line: LineNumber, access: Access, present: bool, now_ps: u64) -> u64 {
        let socket = core / self.cores_per_socket;
        let write = access != Access::Read;
        let entry = self.lines[line as usize];
        let others = entry.sharers & !(1 << socket);
        let (mut distance_ps, mut far) = if present {
            (self.transfer_ps[socket * self.sockets + socket], false)
        } else {
            self.fetch(line, &entry, core, socket)
        };
        if write && entry.owner == 0 && others != 0 {
            distance_ps = distance_ps.max(self.farthest(others, socket));
            far = true;
        }
        self.count(&entry, far, line, socket);
        let entry = &mut self.lines[line as usize];
        let start = now_ps.max(entry.busy_until_ps);
        let arrival = start + distance_ps;
        let was_owned = entry.owner != 0;
        entry.busy_until_ps = if write || was_owned { arrival } else { start + self.costs.share_ps };
        if write {
            entry.version = entry.version.wrapping_add(1);
            entry.owner = core as u16 + 1;
            entry.sharers = 1 << socket;
        } else {
            if entry.sharers == 0 {
                entry.owner = core as u16 + 1;
            } else if usize::from(entry.owner) != core + 1 {
                entry.owner = 0;
            }
            entry.sharers |= 1 << socket;
        }
        let tag = tag(line, entry.version);
        let set = self.set(core, line);
        insert(&mut self.tags[set..set + WAYS], tag);
        arrival
    }

    /// Cost of bringing a line from where it is, and whether that is another socket's cache.
    fn fetch(&self, line: LineNumber, entry: &Line, core: usize, socket: usize) -> (u64, bool) {
        let from = match usize::from(entry.owner) {
            0 if entry.sharers & (1 << socket) != 0 => socket,
            0 => return (self.memory_ps[self.node(line) * self.sockets + socket], false),
            owner if owner == core + 1 => socket,
            owner => (owner - 1) / self.cores_per_socket,
        };
        (self.transfer_ps[from * self.sockets + socket], from != socket)
    }

    /// Cost of the way to the farthest of these sockets and back.
    fn farthest(&self, mut sockets: u64, socket: usize) -> u64 {
        let mut farthest = 0;
        while sockets != 0 {
            let other = sockets.trailing_zeros() as usize;
            sockets &= sockets - 1;
            farthest = farthest.max(self.transfer_ps[other * self.sockets + socket]);
        }
        farthest
    }

    fn node(&self, line: LineNumber) -> usize {
        let page = line as usize * LINE_BYTES / PAGE_BYTES;
        usize::from(self.nodes[page]) % self.sockets
    }

    fn count(&mut self, entry: &Line, far: bool, line: LineNumber, socket: usize) {
        let near = entry.owner != 0 || entry.sharers & (1 << socket) != 0;
        let local = self.node(line) == socket;
        let statistics = &mut self.statistics;
        let counter = match (far, near, local) {
            (true, _, _) => &mut statistics.far_misses,
            (false, true, _) => &mut statistics.near_misses,
            (false, false, true) => &mut statistics.local_memory_misses,
            (false, false, false) => &mut statistics.remote_memory_misses,
        };
        *counter += 1;
    }
}

#[inline(always)]
fn tag(line: LineNumber, version: u32) -> u64 {
    (u64::from(line) << 32) | u64::from(version)
}

/// Whether a set holds the tag, which becomes its most recently used one.
#[inline(always)]
fn find(set: &mut [u64], tag: u64) -> bool {
    if set[0] == tag {
        return true;
    }
    match set.iter().position(|held| *held == tag) {
        Some(way) => {
            set[..=way].rotate_right(1);
            true
        }
        None => false,
    }
}

/// Puts a tag first; an older version of the same line makes room for it, or else the least recently used one.
fn insert(set: &mut [u64], tag: u64) {
    let same_line = set.iter().position(|held| (held ^ tag) >> 32 == 0);
    let way = same_line.unwrap_or(WAYS - 1);
    set[..=way].rotate_right(1);
    set[0] = tag;
}
