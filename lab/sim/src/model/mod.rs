//! The simulated machine as dense tables in picoseconds.
//!
//! A model is built from a [`Description`](machine::Description), whose figures it takes as they
//! are, or from a [`Shape`] with round figures.
//!
//! A *group* is the unit of coherence: the cores behind one L3, or those of a node if the machine
//! has more than [`GROUPS_MAX`] L3s, none, or one in each core (POWER: its L3 regions serve the
//! other cores of the chip too).

mod described;
mod machines;
mod scaled;
mod translation;
mod uniform;
mod wires;

use machine::{Access, HardwareThread, LineState, Node};
use platform::Work;

use crate::SimError;
use crate::code::InstructionCache;
use crate::spin::SpinLoop;

pub(crate) use translation::{TlbLevel, Translation};
pub use uniform::Shape;
pub(crate) use wires::Wires;

/// Largest number of groups: a line's sharers are a bit mask of groups.
pub(crate) const GROUPS_MAX: usize = 64;
/// Largest number of physical cores: a line's owner has 14 bits.
pub(crate) const CORES_MAX: usize = (1 << 14) - 2;
/// Largest number of outstanding misses of one core.
pub(crate) const FILL_BUFFERS_MAX: usize = 16;
/// Largest number of stores that wait in one core.
pub(crate) const STORE_BUFFER_MAX: usize = 64;

/// Costs of operations that do not depend on the location of a line, in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Load of a line that is in the core's L1.
    pub l1_ps: u64,
    /// Load of a line that is in the core's L2.
    pub l2_ps: u64,
    /// Load of a line that is in the L3 of the core's group.
    pub l3_ps: u64,
    /// Store to an own line: it moves to the store buffer.
    pub store_ps: u64,
    /// Atomic read-modify-write of an own line; a sequentially consistent fence.
    pub atomic_ps: u64,
    /// Time between the starts of two overlapped accesses of one core.
    pub issue_ps: u64,
    /// Time for which a reader from another L3 keeps the home of a clean line busy.
    pub reader_ps: u64,
    /// Time for which one reader of a line keeps an L3 busy.
    pub l3_reader_ps: u64,
    /// Reading the clock.
    pub clock_ps: u64,
    /// Pause between two reads of a spin loop.
    pub pause_ps: u64,
    /// Parts in 1024 of a core's issue slots that a hardware thread takes from its siblings while
    /// it spins or pauses.
    pub pauser_parts: u32,
    /// Reads of a spin loop before it yields the processor to the operating system.
    pub spins: u64,
    /// Yielding the processor if no other thread is ready.
    pub yield_ps: u64,
    /// A system call that does not wait.
    pub system_call_ps: u64,
    /// Time from the wake-up of a parked core to its next instruction.
    pub wake_ps: u64,
    /// Time that a core spends on each parked core that it wakes.
    pub wake_each_ps: u64,
    /// Sending a message to another machine, without its bytes.
    pub message_send_ps: u64,
    /// Receiving a message of another machine, without its bytes.
    pub message_receive_ps: u64,
    /// Copying 1024 bytes of a message, on either side.
    pub message_kib_ps: u64,
    /// An interrupt of the network card.
    pub interrupt_ps: u64,
    /// Interval at which the operating system balances workers without a place.
    pub balance_ps: u64,
    /// One balancing in this many moves the worker.
    pub move_rarity: u64,
    /// Wait for a line of code that the instruction cache lacks.
    pub code_miss_ps: u64,
    /// Outstanding misses of a core, 1 to 16. A further miss waits for the first to arrive.
    pub fill_buffers: usize,
    /// Stores of a hardware thread that wait for their lines, 1 to 64. A further store waits for
    /// the oldest.
    pub store_buffer: usize,
    /// One unit of each kind of [`Work`], in the order of [`Work::ALL`].
    pub work_ps: [u64; Work::ALL.len()],
    /// An instruction of a long code path of another program.
    pub instruction_ps: u64,
}

/// Capacities in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSizes {
    /// L1 of a core.
    pub l1_bytes: usize,
    /// L2 of a core.
    pub l2_bytes: usize,
    /// L3 of a group.
    pub l3_bytes: usize,
}

/// A physical core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Core {
    pub(crate) group: u8,
    /// Position of its node.
    pub(crate) node: u16,
}

/// Hardware thread and core of a worker's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerSeat {
    /// Physical core.
    pub(crate) core: u32,
    /// The hardware thread's position in fill order.
    pub(crate) slot: u32,
}

/// A machine in the form that the cost model needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub(crate) name: String,
    /// Hardware threads in fill order with their cores.
    pub(crate) threads: Vec<(HardwareThread, u16)>,
    /// Position in `threads` of each thread by the thread's number.
    slot_of: Vec<Option<u16>>,
    pub(crate) cores: Vec<Core>,
    /// Node of each group's first core.
    group_nodes: Vec<usize>,
    /// Numbers of the nodes.
    pub(crate) nodes: Vec<Node>,
    pub(crate) groups: usize,
    /// Reason for which this is no valid machine.
    refusal: Option<String>,
    /// Cache to cache: by access and state, then requester's and holder's group.
    transfer_ps: Vec<u32>,
    /// Memory to cache: by the requester's and the memory's node.
    memory_ps: Vec<u32>,
    /// For the same pairs the inverse bandwidth: picoseconds for a line.
    line_ps: Vec<u32>,
    /// For each pair of nodes, true if they are in one chassis.
    pub(crate) near_nodes: Vec<bool>,
    /// The machine of each node: more than one in a cluster.
    pub(crate) node_machines: Vec<u16>,
    /// The network between machines.
    pub(crate) wires: Option<Wires>,
    /// Parallel links of a node inside its chassis.
    pub(crate) lanes: u32,
    pub(crate) caches: CacheSizes,
    /// Instruction cache of each core; without one, fetching code is not counted.
    pub(crate) instruction_cache: Option<InstructionCache>,
    /// Address translation of each core; without it translation costs nothing.
    pub(crate) translation: Option<Translation>,
    /// log2 of the line size.
    pub(crate) line_shift: u32,
    /// Cycles in a millisecond.
    pub(crate) clock_khz: u64,
    /// Parts in 1024 by which computing takes longer with this many busy siblings. Entry 0 is for
    /// none.
    pub(crate) smt_stretch: Vec<u32>,
    pub(crate) costs: Costs,
}

impl Costs {
    /// A spin loop on a line of its L1: a load, a cycle to compare and branch, and a pause.
    pub(crate) fn spin_loop(&self) -> SpinLoop {
        let turn_ps = self.l1_ps + self.store_ps + self.pause_ps;
        SpinLoop { turn_ps: turn_ps.max(1), turns: self.spins.max(1), yield_ps: self.yield_ps }
    }
}

impl Model {
    /// The costs that do not depend on distance.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// Capacities of the caches.
    pub fn caches(&self) -> CacheSizes {
        self.caches
    }

    /// The same machine with other costs.
    pub fn with_costs(self, costs: Costs) -> Model {
        Model { costs, ..self }
    }

    /// The same machine with other caches.
    pub fn with_caches(self, caches: CacheSizes) -> Model {
        Model { caches, ..self }
    }

    /// The same machine whose cores have instruction caches of this size.
    pub fn with_instruction_cache(self, cache: InstructionCache) -> Model {
        Model { instruction_cache: Some(cache), ..self }
    }

    /// Hardware threads in fill order.
    pub fn threads(&self) -> impl Iterator<Item = HardwareThread> + '_ {
        self.threads.iter().map(|(thread, _)| *thread)
    }

    /// Cost of an access by one core to a line that another core has; `None` for unknown threads.
    pub fn transfer_ps(
        &self,
        access: Access,
        state: LineState,
        requester: HardwareThread,
        holder: HardwareThread,
    ) -> Option<u64> {
        let group = |thread| Some(usize::from(self.cores[self.core_of(thread)?].group));
        let row = transfer_row(access, state) * self.groups;
        Some(u64::from(self.transfer_ps[(row + group(requester)?) * self.groups + group(holder)?]))
    }

    /// Latency of the memory of a node for a hardware thread; `None` for unknown ones.
    pub fn memory_ps(&self, requester: HardwareThread, node: Node) -> Option<u64> {
        let from = usize::from(self.cores[self.core_of(requester)?].node);
        Some(u64::from(self.memory_ps[from * self.nodes.len() + self.node_position(node)?]))
    }

    /// The seat of a hardware thread.
    pub(crate) fn seat(&self, thread: HardwareThread) -> Option<WorkerSeat> {
        let slot = self.slot_of.get(thread.0 as usize).copied().flatten()?;
        Some(WorkerSeat { core: self.threads[usize::from(slot)].1.into(), slot: slot.into() })
    }

    fn core_of(&self, thread: HardwareThread) -> Option<usize> {
        self.seat(thread).map(|seat| seat.core as usize)
    }

    /// Largest number of hardware threads of a core.
    pub(crate) fn smt(&self) -> usize {
        self.smt_stretch.len() - 1
    }

    /// The node of a group's first core.
    pub(crate) fn node_of_group(&self, group: usize) -> usize {
        self.group_nodes[group]
    }

    /// Cycles in this many picoseconds.
    pub(crate) fn cycles(&self, picoseconds: u64) -> u64 {
        (u128::from(picoseconds) * u128::from(self.clock_khz) / 1_000_000_000) as u64
    }

    /// Position of a node among [`Self::nodes`].
    pub(crate) fn node_position(&self, node: Node) -> Option<usize> {
        self.nodes.iter().position(|known| *known == node)
    }

    pub(crate) fn line_bytes(&self) -> usize {
        1 << self.line_shift
    }

    #[inline(always)]
    pub(crate) fn transfer(&self, row: usize, requester: usize, holder: usize) -> u64 {
        u64::from(self.transfer_ps[(row * self.groups + requester) * self.groups + holder])
    }

    #[inline(always)]
    pub(crate) fn memory(&self, requester: usize, home: usize) -> u64 {
        u64::from(self.memory_ps[requester * self.nodes.len() + home])
    }

    /// Picoseconds for which a line on its way between the nodes occupies the narrowest part of its
    /// path.
    #[inline(always)]
    pub(crate) fn occupancy(&self, requester: usize, home: usize) -> u64 {
        u64::from(self.line_ps[requester * self.nodes.len() + home])
    }

    /// Checks the model. The error is one line.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        let refuse = |reason: String| Err(SimError::Config(reason));
        if let Some(reason) = &self.refusal {
            return refuse(reason.clone());
        }
        if self.cores.is_empty() || self.cores.len() > CORES_MAX {
            return refuse(format!("{} cores; a machine has 1 to {CORES_MAX}", self.cores.len()));
        }
        if self.groups > GROUPS_MAX {
            return refuse(format!("{} nodes; a machine has 1 to {GROUPS_MAX}", self.groups));
        }
        if self.threads.len() >= usize::from(u16::MAX) {
            return refuse(format!("{} hardware threads; at most {}", self.threads.len(), u16::MAX - 1));
        }
        let caches = &self.caches;
        for (level, bytes) in [("L1", caches.l1_bytes), ("L2", caches.l2_bytes), ("L3", caches.l3_bytes)] {
            if bytes < 16 * self.line_bytes() {
                return refuse(format!("an {level} of {bytes} bytes; at least 16 lines"));
            }
        }
        self.instruction_cache.map_or(Ok(()), |cache| cache.check())?;
        if !(1..=FILL_BUFFERS_MAX).contains(&self.costs.fill_buffers) {
            return refuse(format!("{} fill buffers; 1 to {FILL_BUFFERS_MAX}", self.costs.fill_buffers));
        }
        if !(1..=STORE_BUFFER_MAX).contains(&self.costs.store_buffer) {
            return refuse(format!("{} store buffers; 1 to {STORE_BUFFER_MAX}", self.costs.store_buffer));
        }
        Ok(())
    }
}

/// Row of the transfer table.
pub(crate) const fn transfer_row(access: Access, state: LineState) -> usize {
    access as usize * 3 + state as usize
}

/// All accesses and states in the order of [`transfer_row`].
const ACCESSES: [Access; 3] = [Access::Load, Access::Store, Access::Atomic];
const STATES: [LineState; 3] = [LineState::Modified, LineState::Exclusive, LineState::Shared];

/// Position of each thread by the thread's number.
fn index_threads(threads: &[(HardwareThread, u16)]) -> Vec<Option<u16>> {
    let most = threads.iter().map(|(thread, _)| thread.0 as usize + 1).max().unwrap_or(0);
    let mut slot_of = vec![None; most];
    threads.iter().enumerate().for_each(|(slot, (thread, _))| slot_of[thread.0 as usize] = Some(slot as u16));
    slot_of
}

/// Costs of a machine without a description, at this many picoseconds a cycle: the rules of
/// `machine::CoreCost` for a recent server. Descriptions lack two of them: the costs of
/// computation, and the reads of the platform's spin loop before it yields the processor (as on
/// hardware).
fn estimated(cycle_ps: f64, l1_ps: u64, l2_ps: u64, l3_ps: u64, atomic_ps: u64) -> Costs {
    Costs {
        l1_ps,
        l2_ps,
        l3_ps,
        store_ps: cycle_ps.round() as u64,
        atomic_ps,
        issue_ps: (2.0 * cycle_ps).round() as u64,
        reader_ps: 5_000,
        l3_reader_ps: (2.0 * cycle_ps).round() as u64,
        clock_ps: (30.0 * cycle_ps).round() as u64,
        pause_ps: (140.0 * cycle_ps).round() as u64,
        pauser_parts: 14,
        spins: 2_000,
        yield_ps: 500_000,
        system_call_ps: 500_000,
        wake_ps: 4_000_000,
        wake_each_ps: 1_000_000,
        message_send_ps: 3_400_000,
        message_receive_ps: 3_340_000,
        message_kib_ps: (128.0 * cycle_ps).round() as u64,
        interrupt_ps: 1_000_000,
        balance_ps: 20_000_000_000,
        move_rarity: 4,
        code_miss_ps: 0,
        fill_buffers: 12,
        store_buffer: 42,
        work_ps: crate::work::work_ps(cycle_ps),
        instruction_ps: crate::work::instruction_ps(cycle_ps, l2_ps),
    }
}

/// Parts in 1024 by which computing takes longer with 0, 1, 2, ... busy siblings.
pub(super) fn stretches(smt: usize, share: &dyn Fn(usize) -> f64) -> Vec<u32> {
    (0..=smt).map(|siblings| (1024.0 / share(siblings.max(1)).clamp(0.01, 1.0)).round() as u32).collect()
}
