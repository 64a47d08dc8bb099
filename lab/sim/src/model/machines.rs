//! The machines of a cluster as one model: tables of one machine along the diagonal, and the
//! network between them.
//!
//! No memory is shared: entries of the tables between two machines are meaningless and never read.

use machine::Description;

use super::wires::Wires;
use super::{Core, GROUPS_MAX, Model, described, index_threads};
use crate::SimError;

/// Size of the small message for which a description has the one-way time between two idle
/// machines.
const SMALL_BYTES: usize = 64;

/// Builds the model of the first `machines` machines of a cluster.
fn model(description: &Description, machines: usize) -> Result<Model, SimError> {
    let one = described::model(description)?;
    if machines <= 1 {
        return Ok(one);
    }
    let refused = |reason: String| Err(described::refused(description, reason));
    if machines > description.machines {
        return refused(format!("{machines} machines of {}", description.machines));
    }
    if one.groups * machines > GROUPS_MAX {
        let most = GROUPS_MAX / one.groups;
        return refused(format!("{machines} machines of {} L3s: at most {most}", one.groups));
    }
    let wires = wires(description, &one)?;
    let topology = description.topology_of(machines);
    let threads: Vec<_> = topology.threads().iter().map(|info| (info.thread, info.core as u16)).collect();
    let (groups, nodes) = (one.groups, one.nodes.len());
    let core = |machine: usize, core: &Core| Core {
        group: core.group + (machine * groups) as u8,
        node: core.node + (machine * nodes) as u16,
    };
    let cores = (0..machines).flat_map(|machine| one.cores.iter().map(move |it| core(machine, it)));
    let group_nodes =
        (0..machines).flat_map(|machine| one.group_nodes.iter().map(move |node| node + machine * nodes));
    Ok(Model {
        slot_of: index_threads(&threads),
        threads,
        cores: cores.collect(),
        group_nodes: group_nodes.collect(),
        nodes: topology.nodes().iter().map(|memory| memory.node).collect(),
        groups: groups * machines,
        transfer_ps: beside(&one.transfer_ps, groups, machines),
        memory_ps: beside(&one.memory_ps, nodes, machines),
        line_ps: beside(&one.line_ps, nodes, machines),
        near_nodes: beside(&one.near_nodes, nodes, machines),
        node_machines: (0..machines * nodes).map(|node| (node / nodes) as u16).collect(),
        wires: Some(wires),
        ..one
    })
}

/// Square tables of one machine, one after the other, as tables of all machines.
fn beside<T: Copy + Default>(tables: &[T], size: usize, machines: usize) -> Vec<T> {
    let all = size * machines;
    let mut wide = vec![T::default(); tables.len() * machines * machines];
    for (row, values) in tables.chunks(size).enumerate() {
        let (table, row) = (row / size, row % size);
        for machine in 0..machines {
            let first = (table * all + machine * size + row) * all + machine * size;
            wide[first..first + size].copy_from_slice(values);
        }
    }
    wide
}

/// Splits the described one-way time of a small message between two idle machines, whose receiver
/// sleeps.
fn wires(description: &Description, one: &Model) -> Result<Wires, SimError> {
    let refused = |reason: String| Err(described::refused(description, reason));
    let Some(network) = &description.network else {
        return refused("several machines without a network: `network_one_way_us` is missing".to_owned());
    };
    let one_way_ps = network.one_way_us.value * 1e6;
    if !(0.0..1e15).contains(&one_way_ps) {
        return refused(format!("`network_one_way_us` is {}: expected a time", network.one_way_us.value));
    }
    let byte_ps = network.gbps.as_ref().map_or(0.0, |gbps| 1000.0 / gbps.value);
    let header_bytes = network.header_bytes.value.round() as usize;
    let packet_bytes = (network.packet_bytes.value.round() as usize).max(1);
    let wires = Wires { wire_ps: 0, byte_ps, header_bytes, packet_bytes };
    let costs = &one.costs;
    let cores_ps = costs.sending_ps(SMALL_BYTES)
        + costs.interrupt_ps
        + costs.wake_ps
        + costs.receiving_ps(SMALL_BYTES)
        + wires.passing_ps(wires.bytes(SMALL_BYTES));
    let one_way_ps = one_way_ps.round() as u64;
    match one_way_ps.checked_sub(cores_ps) {
        Some(wire_ps) => Ok(Wires { wire_ps, ..wires }),
        None => {
            let cores_us = cores_ps as f64 / 1e6;
            let given = network.one_way_us.value;
            refused(format!(
                "`network_one_way_us` is {given}: cores and ports alone take {cores_us} us of it"
            ))
        }
    }
}

impl super::Costs {
    /// Cost of sending a message for its core.
    pub(crate) fn sending_ps(&self, bytes: usize) -> u64 {
        self.message_send_ps + self.copying_ps(bytes)
    }

    /// Cost of receiving a message for its core.
    pub(crate) fn receiving_ps(&self, bytes: usize) -> u64 {
        self.message_receive_ps + self.copying_ps(bytes)
    }

    fn copying_ps(&self, bytes: usize) -> u64 {
        self.message_kib_ps * bytes as u64 / 1024
    }
}

impl Model {
    /// The first `machines` machines of a cluster.
    pub(crate) fn of_machines(description: &Description, machines: usize) -> Result<Model, SimError> {
        model(description, machines)
    }

    /// Number of machines.
    pub(crate) fn machines(&self) -> usize {
        self.node_machines.last().map_or(1, |last| usize::from(*last) + 1)
    }

    /// The machine of a core.
    pub(crate) fn machine_of_core(&self, core: usize) -> usize {
        usize::from(self.node_machines[usize::from(self.cores[core].node)])
    }

    /// Position of a machine's first node.
    pub(crate) fn first_node(&self, machine: usize) -> usize {
        self.node_machines.iter().position(|of| usize::from(*of) == machine).unwrap_or(0)
    }
}
