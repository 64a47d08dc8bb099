//! Where a line is and when it arrives elsewhere: coherence, caches, distances and queues.
//!
//! States, in MESI's terms: an entry with an owner is M (dirty) or E, an entry without owner and
//! with sharers is S, an entry with neither is in memory only. The tags of the caches say which
//! caches have a line. A line that all caches have evicted is in memory.
//!
//! Requests for one line are served in the order in which they are made. The next transfer starts
//! when the transfer before has arrived. Half of its latency later the request reaches the holder,
//! which has the line from its own arrival until then (a *lease*), and after the whole latency the
//! line arrives. Readers of a clean line keep its home busy only for [`crate::Costs::reader_ps`]. A
//! reader whose own L3 has the line, or has requested it, sends no request beyond that L3. See
//! `docs/decisions/0008-arbitration-and-costs.md`.

use std::sync::Arc;

use machine::{Access as Kind, LineState};
use platform::{Address, LINE_BYTES};

use crate::arena::{Arena, Pages, prefetch};
use crate::arrivals::Arrivals;
use crate::bandwidth::Ports;
use crate::cores::CoreState;
use crate::directory::{Line, OldLeases};
use crate::line::{Access, Arrival, LineNumber};
use crate::memory::{Memory, PAGE_BYTES};
use crate::model::{Model, transfer_row};
use crate::statistics::Counts;
use crate::tags::{Tag, Tags, line_of, tag};
use crate::translation::Translator;
use crate::{Config, SimError};

/// A line with fewer coherence misses is never reported as hot.
const HOT_MISSES_MIN: u32 = 16;

/// Groups with a copy whose tags are prefetched on the host.
const HOLDERS_ANNOUNCED: usize = 2;

/// Row of the transfer costs for an access to lines in this state.
fn row(access: Access, state: LineState) -> usize {
    let kind = match access {
        Access::Read => Kind::Load,
        Access::Write => Kind::Store,
        Access::Atomic => Kind::Atomic,
    };
    transfer_row(kind, state)
}

/// Source of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The core has the line, and only the right to write is missing.
    Own,
    /// The L3 of the core's own group.
    Shared,
    /// A core or L3 of this group.
    Group(usize),
    Memory,
}

/// A transfer of a line: its source and its latency.
struct Transfer {
    cost_ps: u64,
    source: Source,
}

/// All lines, the caches in which they are, and the links between the caches.
pub(crate) struct Coherence {
    pub(crate) lines: Arena<Line>,
    pub(crate) l1: Tags<8>,
    l2: Tags<8>,
    l3: Tags<16>,
    pub(crate) cores: Vec<CoreState>,
    old_leases: OldLeases,
    /// Lines that an L3 cannot supply yet.
    arrivals: Arrivals,
    /// Position of the node of each page.
    nodes: Arena<u16>,
    pub(crate) model: Model,
    pub(crate) ports: Ports,
    /// For each group the tag that its L3 evicted last. It is processed at the next eviction, when
    /// the prefetched entry is in the host's cache.
    dropped: Vec<Tag>,
    /// Lines that had many coherence misses.
    hot: Vec<LineNumber>,
    pub(crate) counts: Counts,
    /// `None` if translation costs nothing.
    pub(crate) translator: Option<Translator>,
    /// The machine's memory, for the names of regions in messages.
    pub(crate) named: Option<Arc<Memory>>,
}

impl Coherence {
    pub(crate) fn new(config: &Config) -> Result<Coherence, SimError> {
        let model = config.model.clone();
        let (cores, caches, line) = (model.cores.len(), model.caches, model.line_bytes());
        let lines = |bytes: usize| bytes / line;
        let translator = model
            .translation
            .as_ref()
            .map(|translation| Translator::new(translation, cores, config.memory_bytes, model.line_shift));
        let all_lines = config.memory_bytes.div_ceil(line) + model.table_lines(config.memory_bytes);
        let mut core = CoreState::new();
        if translator.is_some() {
            core.forget_pages();
        }
        Ok(Coherence {
            lines: Arena::new(all_lines, Pages::Huge, "the directory of lines")?,
            l1: Tags::new(cores, lines(caches.l1_bytes), false, "the tags of the L1s")?,
            l2: Tags::new(cores, lines(caches.l2_bytes), false, "the tags of the L2s")?,
            l3: Tags::new(model.groups, lines(caches.l3_bytes), true, "the tags of the L3s")?,
            cores: vec![core; cores],
            old_leases: OldLeases::new(),
            arrivals: Arrivals::new(model.groups),
            nodes: Arena::new(config.memory_bytes.div_ceil(PAGE_BYTES), Pages::Huge, "the nodes of pages")?,
            ports: Ports::new(&model),
            dropped: vec![0; model.groups],
            hot: Vec::new(),
            model,
            counts: Counts::default(),
            translator,
            named: None,
        })
    }

    /// Records the node of new memory, by the node's position.
    pub(crate) fn place(&mut self, at: Address, bytes: usize, node: usize) {
        let first = at.0 as usize / PAGE_BYTES;
        self.nodes[first..first + bytes / PAGE_BYTES].fill(node as u16);
        if let Some(translator) = &mut self.translator {
            translator.place(at.0 as usize, bytes);
            // The pages may have had another size.
            self.cores.iter_mut().for_each(CoreState::forget_pages);
        }
    }

    /// Prefetches the host's data that an access of this core to this line needs.
    #[inline(always)]
    pub(crate) fn announce(&self, core: usize, line: LineNumber) {
        prefetch(self.lines.as_ptr().wrapping_add(line as usize));
        self.l1.announce(core, line);
        self.l2.announce(core, line);
        let group = usize::from(self.model.cores[core].group);
        self.l3.announce(group, line);
        self.arrivals.announce(group, line);
        if let Some(translator) = &self.translator {
            translator.announce(core, line);
        }
    }

    /// Prefetches the host's data about other holders of this line that an access of this core
    /// needs. Reads the line's entry, which should be in the host's cache.
    #[inline(always)]
    pub(crate) fn announce_holders(&self, core: usize, line: LineNumber) {
        let entry = &self.lines[line as usize];
        match entry.owner() {
            Some(owner) if owner != core => {
                self.l2.announce(owner, line);
                self.l1.announce(owner, line);
            }
            Some(_) => {}
            None => {
                let mut others = entry.sharers & !(1 << self.model.cores[core].group);
                for _ in 0..HOLDERS_ANNOUNCED {
                    if others == 0 {
                        break;
                    }
                    self.l3.announce(others.trailing_zeros() as usize, line);
                    others &= others - 1;
                }
            }
        }
    }

    /// Level of the core's caches that has this tag. The tag moves to the L1.
    pub(crate) fn find(&mut self, core: usize, tag: Tag) -> Option<u8> {
        if self.l1.find(core, tag) {
            return Some(1);
        }
        // The host loads the next levels during the lookup in this one.
        self.l2.announce(core, line_of(tag));
        self.l3.announce(usize::from(self.model.cores[core].group), line_of(tag));
        if self.l2.find(core, tag) {
            self.l1.insert(core, tag);
            return Some(2);
        }
        None
    }

    /// True if the core's caches have this tag.
    pub(crate) fn holds(&self, core: usize, tag: Tag) -> bool {
        self.l2.holds(core, tag) || self.l1.holds(core, tag)
    }

    /// True if the core has a copy to read that the next writer of the line has not invalidated
    /// yet.
    pub(crate) fn keeps_copy(&self, core: usize, line: LineNumber, now_ps: u64) -> bool {
        let entry = &self.lines[line as usize];
        let last = entry.is_leased_to_readers(now_ps).then(|| entry.version.wrapping_sub(1));
        let kept = last.or_else(|| self.old_leases.kept(line, now_ps));
        kept.is_some_and(|version| self.holds(core, tag(line, version)))
    }

    /// Appends a request to the line's queue. Returns the arrival of the line. With `lease` readers
    /// keep their copies until then.
    pub(crate) fn fetch(
        &mut self,
        core: usize,
        line: LineNumber,
        access: Access,
        present: bool,
        lease: bool,
        now_ps: u64,
    ) -> Arrival {
        let place = self.model.cores[core];
        let (group, node) = (usize::from(place.group), usize::from(place.node));
        let entry = self.lines[line as usize];
        let mut start_ps = now_ps.max(entry.busy_until_ps());
        let transfer = if present && entry.owner().is_none_or(|owner| owner == core) {
            Transfer { cost_ps: 0, source: Source::Own }
        } else {
            self.find_line(core, group, line, access, &entry, start_ps)
        };
        let home = self.home(line);
        if self.model.node_machines[node] != self.model.node_machines[home] {
            self.refuse(node, home, line);
        }
        let invalidation_ps = self.invalidation_ps(group, access, &entry);
        self.count(&transfer, invalidation_ps > 0, &entry, line, group, node == home);
        let shared = transfer.source != Source::Memory && entry.owner() != Some(core);
        self.counts.shared_lines += u64::from(shared);
        if transfer.source == Source::Shared {
            if access == Access::Read && entry.owner().is_none() {
                let at_ps = self.read_from_l3(core, group, node, tag(line, entry.version), now_ps);
                return Arrival { at_ps, shared };
            }
            start_ps = start_ps.max(self.arrivals.ready_ps(group, line, start_ps));
        }
        let moved_ps = start_ps + self.occupy_ports(&transfer, node, home, start_ps, &entry);
        let arrival_ps = moved_ps + transfer.cost_ps.max(invalidation_ps);
        let asked_ps = start_ps + (arrival_ps - start_ps) / 2;
        if let Some(owner) = entry.owner().filter(|owner| *owner != core) {
            self.cores[owner].lease(line, entry.owned_from_ps(), asked_ps, now_ps);
        }
        if access != Access::Read && entry.is_leased_to_readers(now_ps) {
            self.old_leases.keep(line, entry.version.wrapping_sub(1), entry.owned_from_ps(), now_ps);
        }
        self.grant(core, group, line, access, &transfer, lease, start_ps, arrival_ps);
        let version = self.lines[line as usize].version;
        self.fill(core, group, node, tag(line, version), start_ps);
        self.arrivals.set(group, line, arrival_ps, now_ps);
        self.cores[core].expect(arrival_ps);
        Arrival { at_ps: arrival_ps, shared }
    }

    /// Panics: machines share no memory, so an access to another machine's memory is an error of
    /// the program.
    #[cold]
    fn refuse(&self, node: usize, home: usize, line: LineNumber) -> ! {
        let place =
            self.named.as_ref().and_then(|memory| memory.locate((line as usize) << self.model.line_shift));
        let (name, offset) = place.unwrap_or(("memory that was returned", 0));
        let [here, there] = [node, home].map(|node| self.model.node_machines[node]);
        panic!("a core of machine {here} touches memory of machine {there}: {name}, byte {offset}")
    }

    /// Fetches a clean line from the L3 of the core's own group, without any request to other
    /// groups. The request arrives after half of the latency, the line after the other half. The L3
    /// serves readers of one line one after the other. A line that is on its way to the L3 is
    /// served when it has arrived.
    fn read_from_l3(&mut self, core: usize, group: usize, node: usize, tag: Tag, now_ps: u64) -> u64 {
        let costs = &self.model.costs;
        let (half_ps, reader_ps) = (costs.l3_ps / 2, costs.l3_reader_ps);
        let asked_ps = now_ps + costs.l3_ps - half_ps;
        let served_ps = asked_ps.max(self.arrivals.ready_ps(group, line_of(tag), asked_ps));
        self.arrivals.set(group, line_of(tag), served_ps + reader_ps, now_ps);
        self.fill(core, group, node, tag, now_ps);
        self.cores[core].expect(served_ps + half_ps);
        served_ps + half_ps
    }

    /// Finds a line that the core's own caches do not have. Returns its source and the cost of the
    /// transfer.
    fn find_line(
        &mut self,
        core: usize,
        group: usize,
        line: LineNumber,
        access: Access,
        entry: &Line,
        start_ps: u64,
    ) -> Transfer {
        let current = tag(line, entry.version);
        let in_group = |source: usize| if source == group { Source::Shared } else { Source::Group(source) };
        if let Some(owner) = entry.owner().filter(|owner| *owner != core) {
            let held_by = usize::from(self.model.cores[owner].group);
            if self.holds(owner, current) {
                let state = if entry.is_dirty() { LineState::Modified } else { LineState::Exclusive };
                let cost_ps = self.model.transfer(row(access, state), group, held_by);
                return Transfer { cost_ps, source: Source::Group(held_by) };
            }
        }
        if entry.sharers & (1 << group) != 0 && self.l3.find(group, current) {
            return Transfer { cost_ps: self.model.costs.l3_ps, source: Source::Shared };
        }
        let state = if entry.is_dirty() { LineState::Modified } else { LineState::Shared };
        let row = row(access, state);
        let cached = self.nearest(row, group, entry.sharers & !(1 << group), current, start_ps);
        let memory_ps = self.model.memory(usize::from(self.model.cores[core].node), self.home(line));
        match cached {
            // A copy in memory is as good as a clean copy in a cache.
            Some((cost_ps, source)) if entry.is_dirty() || cost_ps <= memory_ps => {
                Transfer { cost_ps, source: in_group(source) }
            }
            _ => Transfer { cost_ps: memory_ps, source: Source::Memory },
        }
    }

    /// The nearest of these groups whose L3 has the tag, with the cost of the transfer.
    fn nearest(
        &self,
        row: usize,
        group: usize,
        mut groups: u64,
        tag: Tag,
        start_ps: u64,
    ) -> Option<(u64, usize)> {
        let mut nearest: Option<(u64, usize)> = None;
        while groups != 0 {
            let other = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            let cost_ps = self.model.transfer(row, group, other);
            let nearer = nearest.is_none_or(|(least_ps, _)| cost_ps < least_ps);
            let arrived = || self.arrivals.ready_ps(other, line_of(tag), start_ps) <= start_ps;
            if nearer && self.l3.holds(other, tag) && arrived() {
                nearest = Some((cost_ps, other));
            }
        }
        nearest
    }

    /// Latency of the invalidation that a writer sends to the farthest reader and back; 0 without
    /// readers.
    fn invalidation_ps(&self, group: usize, access: Access, entry: &Line) -> u64 {
        if access == Access::Read || entry.owner().is_some() {
            return 0;
        }
        let row = row(access, LineState::Shared);
        let mut groups = entry.sharers;
        let mut farthest_ps = 0;
        while groups != 0 {
            let other = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            farthest_ps = farthest_ps.max(self.model.transfer(row, group, other));
        }
        farthest_ps
    }

    /// Occupies memory controllers and links. Returns how long the line waits for them.
    fn occupy_ports(
        &mut self,
        transfer: &Transfer,
        node: usize,
        home: usize,
        now_ps: u64,
        entry: &Line,
    ) -> u64 {
        match transfer.source {
            Source::Own | Source::Shared => 0,
            Source::Memory => {
                let memory_ps = self.ports.memory(home, now_ps);
                memory_ps.max(self.ports.cross(node, home, now_ps))
            }
            Source::Group(group) => {
                let from = entry.owner().map_or_else(
                    || self.model.node_of_group(group),
                    |owner| usize::from(self.model.cores[owner].node),
                );
                self.ports.cross(node, from, now_ps)
            }
        }
    }

    /// Changes the line's state after the transfer.
    #[expect(clippy::too_many_arguments, reason = "all of one request")]
    fn grant(
        &mut self,
        core: usize,
        group: usize,
        line: LineNumber,
        access: Access,
        transfer: &Transfer,
        lease: bool,
        start_ps: u64,
        arrival_ps: u64,
    ) {
        let served_ps = start_ps + self.model.costs.reader_ps;
        let alone = transfer.source == Source::Memory && !self.is_shared(line);
        let entry = &mut self.lines[line as usize];
        let owner = entry.owner();
        if access != Access::Read {
            let readers = owner.is_none() && entry.sharers != 0;
            entry.own(core, group, arrival_ps, true, lease && readers);
        } else if transfer.source == Source::Memory && (owner.is_some() || alone) {
            // No other cache has the line. The new version invalidates copies whose silent eviction
            // has no record here.
            entry.own(core, group, arrival_ps, false, false);
        } else if owner == Some(core) {
            entry.stay_busy(served_ps);
        } else if let Some(owner) = owner {
            let forwarded = entry.is_dirty();
            entry.share(group, arrival_ps);
            if forwarded {
                self.write_back(owner, line, start_ps);
            }
        } else {
            entry.share(group, served_ps);
        }
    }

    /// True if an L3 of its sharers still has a line. Sharers that do not are removed.
    fn is_shared(&mut self, line: LineNumber) -> bool {
        let entry = self.lines[line as usize];
        let current = tag(line, entry.version);
        let mut groups = entry.sharers;
        let mut remaining = 0;
        while groups != 0 {
            let group = groups.trailing_zeros() as usize;
            groups &= groups - 1;
            remaining |= u64::from(self.l3.holds(group, current)) << group;
        }
        self.lines[line as usize].sharers = remaining;
        remaining != 0
    }

    /// Writes a changed line back to its memory. Other lines may wait for that, but no core does.
    fn write_back(&mut self, core: usize, line: LineNumber, now_ps: u64) {
        let home = self.home(line);
        self.counts.write_backs += 1;
        self.ports.memory(home, now_ps);
        self.ports.cross(home, usize::from(self.model.cores[core].node), now_ps);
    }

    /// Inserts a line into the caches between its source and the core.
    fn fill(&mut self, core: usize, group: usize, node: usize, tag: Tag, now_ps: u64) {
        self.l1.insert(core, tag);
        self.l2.insert(core, tag);
        let Some(victim) = self.l3.insert(group, tag) else { return };
        prefetch(&raw const self.lines[line_of(victim) as usize]);
        let dropped = std::mem::replace(&mut self.dropped[group], victim);
        if dropped != 0 {
            self.drop_line(group, node, dropped, now_ps);
        }
    }

    /// Handles the eviction of a line by an L3: the last copy with changes is written back.
    fn drop_line(&mut self, group: usize, node: usize, dropped: Tag, now_ps: u64) {
        let line = line_of(dropped);
        let entry = self.lines[line as usize];
        if !entry.is_dirty() || tag(line, entry.version) != dropped {
            return;
        }
        let Some(owner) = entry.owner() else { return };
        if usize::from(self.model.cores[owner].group) != group
            || self.holds(owner, dropped)
            || self.l3.holds(group, dropped)
        {
            return;
        }
        self.lines[line as usize].mark_clean();
        self.counts.write_backs += 1;
        let home = self.home(line);
        self.ports.memory(home, now_ps);
        self.ports.cross(home, node, now_ps);
    }

    /// Position of the node whose memory holds a line.
    pub(crate) fn home(&self, line: LineNumber) -> usize {
        if let Some(node) = self.translator.as_ref().and_then(|translator| translator.node(line)) {
            return node;
        }
        usize::from(self.nodes[((line as usize) << self.model.line_shift) / PAGE_BYTES])
    }

    fn count(
        &mut self,
        transfer: &Transfer,
        invalidates: bool,
        entry: &Line,
        line: LineNumber,
        group: usize,
        local: bool,
    ) {
        let others = entry.sharers & !(1 << group) != 0;
        let counts = &mut self.counts;
        let counter = match transfer.source {
            Source::Group(source) if source != group => &mut counts.far_misses,
            _ if invalidates && others => &mut counts.far_misses,
            Source::Memory if local => &mut counts.local_memory_misses,
            Source::Memory => &mut counts.remote_memory_misses,
            Source::Shared if !invalidates => &mut counts.l3_hits,
            _ => &mut counts.near_misses,
        };
        *counter += 1;
        if invalidates || matches!(transfer.source, Source::Group(_)) && entry.owner().is_some() {
            self.count_coherence_miss(line);
        }
    }

    /// Counts a miss that another core's copy caused.
    fn count_coherence_miss(&mut self, line: LineNumber) {
        // Entries of page tables are in no region, by whose names hot lines are listed.
        if self.translator.as_ref().is_some_and(|translator| translator.node(line).is_some()) {
            return;
        }
        let misses = &mut self.lines[line as usize].misses;
        *misses = misses.saturating_add(1);
        if *misses == HOT_MISSES_MIN {
            self.hot.push(line);
        }
    }

    /// The hottest lines: number, misses and node of their memory.
    pub(crate) fn hot_lines(&self, most: usize) -> Vec<(LineNumber, u32, usize)> {
        let mut lines: Vec<_> = self
            .hot
            .iter()
            .map(|line| (*line, self.lines[*line as usize].misses, self.home(*line)))
            .collect();
        lines.sort_unstable_by_key(|(line, misses, _)| (std::cmp::Reverse(*misses), *line));
        lines.truncate(most);
        lines
    }

    /// Restarts the counters.
    pub(crate) fn reset_counts(&mut self) {
        self.counts = Default::default();
        self.ports.reset();
        for line in std::mem::take(&mut self.hot) {
            self.lines[line as usize].misses = 0;
        }
    }
}

const _: () = assert!(HOT_MISSES_MIN > 0 && PAGE_BYTES.is_multiple_of(LINE_BYTES));
