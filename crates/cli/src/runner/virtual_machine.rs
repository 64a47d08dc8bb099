//! A described machine as a virtual machine.
//!
//! The cost model is the thin one: one cost for a hit, for a miss within the socket, to another socket, and to memory.
//! Each comes from the description's own figures for loads.

use machine::{Access, Description, HardwareThread, LineState, Topology};
use platform::{LINE_BYTES, Platform};
use sim::{Config as SimConfig, Costs, Shape, VirtualMachine};

use super::setting::Setting;
use super::{Companions, on_platform};
use crate::errors::Failure;
use crate::report::Measurement;

/// Runs the benchmark inside a virtual machine of this description.
pub(super) fn run(description: &Description, with: Companions<'_>) -> Result<Measurement, Failure> {
    let numbering = Numbering::of(&description.topology);
    let sim = simulated(description).with_seed(with.config.seed);
    let host_memory = crate::machines::native()?.memory_bytes();
    let name = |thread| numbering.name(thread);
    let setting = Setting::of_threads(with.config, &description.topology, host_memory, &name)?;
    let outcome = VirtualMachine::run(&sim, |c| on_platform::<VirtualMachine>(c, &setting, with))
        .map_err(|error| Failure::Failed(format!("--machine {}: {error}", description.name)))?;
    outcome.value
}

/// The virtual machine of a description.
pub(crate) fn simulated(description: &Description) -> SimConfig {
    let shape = Numbering::of(&description.topology).shape(description);
    SimConfig { costs: costs(description), ..SimConfig::new(shape) }
}

/// How the virtual machine numbers the threads of a description.
struct Numbering {
    sockets: usize,
    cores_per_socket: usize,
    smt: usize,
    /// Description thread number, and the virtual machine's.
    names: Vec<(HardwareThread, HardwareThread)>,
}

impl Numbering {
    fn of(topology: &Topology) -> Self {
        let sockets = topology.nodes().len().max(1);
        let smt = topology.smt().max(1);
        let mut cores_of_socket: Vec<Vec<u32>> = vec![Vec::new(); sockets];
        let mut places = Vec::new();
        for info in topology.threads() {
            let socket = topology.node_position(info.node).unwrap_or(0);
            let cores = &mut cores_of_socket[socket];
            let core = cores.iter().position(|core| *core == info.core).unwrap_or_else(|| {
                cores.push(info.core);
                cores.len() - 1
            });
            places.push((info.thread, socket, core, info.sibling as usize));
        }
        let cores_per_socket = cores_of_socket.iter().map(Vec::len).max().unwrap_or(1).max(1);
        let cores = sockets * cores_per_socket;
        let name = |(thread, socket, core, sibling)| {
            let number = sibling * cores + socket * cores_per_socket + core;
            (thread, HardwareThread(number as u32))
        };
        let names = places.into_iter().map(name).collect();
        Numbering { sockets, cores_per_socket, smt, names }
    }

    fn shape(&self, description: &Description) -> Shape {
        let hops = description.hops.iter().flatten().copied().collect::<Vec<u32>>();
        let shape = Shape::new(self.sockets, self.cores_per_socket, self.smt);
        if hops.len() == self.sockets * self.sockets { shape.with_hops(hops) } else { shape }
    }

    fn name(&self, thread: HardwareThread) -> HardwareThread {
        let named = self.names.iter().find(|(ours, _)| *ours == thread);
        named.map_or(thread, |(_, theirs)| *theirs)
    }
}

/// Costs of the thin model, in picoseconds, from the description's latencies.
fn costs(description: &Description) -> Costs {
    let pico = |nanos: f64| (nanos * 1000.0) as u64;
    let threads = description.topology.threads();
    let first = threads.first().map_or(HardwareThread(0), |info| info.thread);
    let line = |holder: HardwareThread| {
        description.line_ns(Access::Load, LineState::Modified, first, holder).map(pico)
    };
    let node = threads.first().map(|info| info.node);
    let near = threads
        .iter()
        .find(|info| Some(info.node) == node && info.core != threads[0].core)
        .and_then(|info| line(info.thread));
    let by_hops = |hops: u32| {
        let position = description.hops.first()?.iter().position(|distance| *distance == hops)?;
        let holder = description.topology.nodes().get(position)?.threads.first().copied()?;
        let memory = description.memory_ns.values.first()?.get(position).copied()?;
        Some((line(holder)?, pico(memory)))
    };
    let mut costs = Costs {
        hit_ps: pico(description.l1.load_ns.value),
        cache_bytes: (description.l2.bytes.value as usize).next_multiple_of(LINE_BYTES),
        ..Costs::default()
    };
    costs.near_ps = near.unwrap_or(costs.near_ps);
    if let Some((far, memory)) = by_hops(1) {
        (costs.far_ps, costs.memory_remote_ps) = (far, memory);
        if let Some((farther, _)) = by_hops(2) {
            costs.hop_ps = farther.saturating_sub(far);
        }
    }
    if let Some(local) = description.memory_ns.values.first().and_then(|row| row.first()) {
        costs.memory_local_ps = pico(*local);
    }
    costs
}

const _: fn() = || {
    fn is_platform<P: Platform>() {}
    is_platform::<VirtualMachine>();
};
