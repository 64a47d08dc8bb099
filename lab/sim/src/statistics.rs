//! Results and counters of a run.

use platform::{Address, Nanos, Node, Work};

pub use crate::bandwidth::PortKind;
use crate::code::LINE_PARTS;

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<R> {
    /// Result of the program.
    pub value: R,
    /// Counters of the machine.
    pub statistics: Statistics,
}

/// Counters of a run, and its end. Identical for identical configurations and programs.
///
/// They begin with the run, or where [`crate::VirtualMachine::count_from_here`] was called last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Counts of events.
    pub counts: Counts,
    /// Lines that the L3 of the core's group did not have, in bytes over links. Each line counts
    /// once, whatever its distance.
    pub interconnect_bytes: u64,
    /// Bytes over all memory controllers, write-backs included.
    pub memory_bytes: u64,
    /// Instructions of workers outside the operating system.
    pub instructions: u64,
    /// Cycles in which hardware threads execute workers, without those in the operating system.
    pub cycles: u64,
    /// Cycles of them in which the thread waits for a line or for its store buffer.
    pub stalled_cycles: u64,
    /// Cycles of them in accesses to lines that other cores have.
    pub shared_cycles: u64,
    /// Cycles for which accesses wait for the translation of their addresses.
    pub translation_cycles: u64,
    /// Memory controllers and links, the busiest first.
    pub ports: Vec<PortUse>,
    /// Lines with the most coherence misses, the hottest first.
    pub hot_lines: Vec<HotLine>,
    /// Injected faults since the run began.
    pub faults: FaultCounts,
    /// The moment at which counting ended.
    pub elapsed: Nanos,
    /// Duration of the counted part.
    pub counted: Nanos,
}

/// Injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Crews that have fallen.
    pub falls: u64,
    /// Cuts between machines.
    pub cuts: u64,
    /// Directions of links between machines with an additional delay.
    pub delays: u64,
    /// Messages between machines that were lost and sent again.
    pub losses: u64,
    /// Messages between machines that were duplicated and delivered once.
    pub duplicates: u64,
}

/// Counts of events of simulated cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Atomic operations and lines of data touched by simulated cores.
    pub events: u64,
    /// The same events of supervisors, which cost nothing.
    pub supervisor_events: u64,
    /// Events that found their line in the core's L1, or in private memory.
    pub l1_hits: u64,
    /// Events that found their line in the core's L2.
    pub l2_hits: u64,
    /// Accesses of a core to a line that another core had requested and that had not left yet.
    pub late_hits: u64,
    /// Accesses that waited for a line which was under way to their core already.
    pub merged_misses: u64,
    /// Lines from the L3 of the core's group.
    pub l3_hits: u64,
    /// Lines from another core of the group, or taken from readers in it.
    pub near_misses: u64,
    /// Lines from the caches of another group, or taken from readers in it.
    pub far_misses: u64,
    /// Lines from the memory of the core's own node.
    pub local_memory_misses: u64,
    /// Lines from the memory of another node.
    pub remote_memory_misses: u64,
    /// Changed lines that an L3 wrote back to memory.
    pub write_backs: u64,
    /// Stores that waited because the store buffer was full.
    pub full_store_buffers: u64,
    /// Prefetches among the events.
    pub prefetches: u64,
    /// Lines from caches that other cores have or had: the directory names another core as owner,
    /// or several as readers.
    pub shared_lines: u64,
    /// Accesses and prefetches whose page's translation the first TLB of their core lacked.
    pub tlb_misses: u64,
    /// Those of them for which no TLB had it: walks of page tables. The read of an entry is an
    /// event.
    pub page_walks: u64,
    /// Picoseconds for which accesses wait for the translation of their addresses.
    pub translation_ps: u64,
    /// Units of computation of each kind, in the order of [`Work::ALL`].
    pub work: [u64; Work::ALL.len()],
    /// Instructions of long code paths.
    pub path_instructions: u64,
    /// Reads of the clock.
    pub clock_reads: u64,
    /// Turns of loops that spin on a word.
    pub spin_turns: u64,
    /// Turns of loops that pause until a moment.
    pub pause_turns: u64,
    /// Picoseconds in which hardware threads execute workers.
    pub running_ps: u64,
    /// Picoseconds of them in the operating system.
    pub system_ps: u64,
    /// Picoseconds in which accesses wait, beyond the cost of hits in the L1.
    pub stalled_ps: u64,
    /// Picoseconds of accesses to lines that other cores have.
    pub shared_ps: u64,
    /// Lines of code that instruction caches lacked, in parts of 1024.
    pub code_miss_parts: u64,
    /// Picoseconds in which workers wait for lines of code.
    pub code_stalled_ps: u64,
    /// Switches of the host from one fiber to another.
    pub switches: u64,
    /// Waiting cores that were woken by a write of their line or by `unpark`.
    pub wakes: u64,
    /// Moves of workers to other hardware threads.
    pub migrations: u64,
    /// Switches of hardware threads from one worker to another.
    pub context_switches: u64,
}

impl Counts {
    /// Events that found their line in a cache of the core.
    pub fn hits(&self) -> u64 {
        self.l1_hits + self.l2_hits + self.late_hits
    }

    /// Lines of code that instruction caches lacked.
    pub fn code_misses(&self) -> u64 {
        self.code_miss_parts / LINE_PARTS
    }

    /// Lines that came from beyond the L3 of the core's group.
    pub fn llc_misses(&self) -> u64 {
        self.far_misses + self.local_memory_misses + self.remote_memory_misses
    }

    /// Requests for lines that the core's own caches did not have, or not with the right to write.
    pub fn llc_references(&self) -> u64 {
        self.l3_hits + self.near_misses + self.llc_misses()
    }
}

/// Traffic of a memory controller or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortUse {
    /// Node of the port.
    pub node: Node,
    /// Kind of the port.
    pub kind: PortKind,
    /// Bytes in both directions.
    pub bytes: u64,
    /// Time in which it was busy.
    pub busy: Nanos,
    /// Waiting time of all lines together.
    pub waited: Nanos,
}

/// A line that moved from core to core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotLine {
    /// Its address in the machine's memory.
    pub address: Address,
    /// Name of its region; `None` if the region was freed.
    pub region: Option<&'static str>,
    /// Offset of the line in the region, in bytes.
    pub offset: u64,
    /// Node of its memory.
    pub node: Node,
    /// Number of times that it came from another core's cache or was taken from readers.
    pub misses: u64,
}
