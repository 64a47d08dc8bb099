//! Models of described machines: every latency and bandwidth is the description's own.

use machine::{CoreCost, Description, FactMatrix, Topology};

use super::{
    ACCESSES, CacheSizes, Core, Costs, FILL_BUFFERS_MAX, GROUPS_MAX, Model, STATES, STORE_BUFFER_MAX,
    TlbLevel, Translation, estimated, index_threads, stretches,
};
use crate::SimError;
use crate::code::InstructionCache;

/// Builds the model of one machine of the description.
pub(crate) fn model(description: &Description) -> Result<Model, SimError> {
    let topology = &description.topology;
    if topology.threads().is_empty() || topology.nodes().is_empty() {
        return Err(refused(description, "no hardware thread with a memory node".into()));
    }
    let nodes = topology.nodes().len();
    for (name, matrix) in [("memory_ns", &description.memory_ns), ("memory_gbps", &description.memory_gbps)] {
        check(description, name, matrix, nodes)?;
    }
    let groups = Groups::of(topology);
    let line_bytes = description.line_bytes.value as usize;
    if !line_bytes.is_power_of_two() || !(64..=1024).contains(&line_bytes) {
        return Err(refused(description, format!("lines of {line_bytes} bytes: a power of two from 64")));
    }
    let pico = |value: f64, what: &str| picoseconds(description, value, what);
    let l1_ps = pico(description.l1.load_ns.value, "l1")?;
    let l2_ps = pico(description.l2.load_ns.value, "l2")?;
    let l3_ns =
        description.l3.as_ref().map_or(description.load.shared.same_domain_ns.value, |l3| l3.load_ns.value);
    let atomic_ps = pico(description.atomic.modified.own_core_ns.value, "atomic")?;
    let cycle_ps = 1000.0 / description.clock_ghz.value;
    if !(10.0..100_000.0).contains(&cycle_ps) {
        return Err(refused(description, format!("a clock of {} GHz", description.clock_ghz.value)));
    }
    let costs = estimated(cycle_ps, l1_ps.into(), l2_ps.into(), pico(l3_ns, "l3")?.into(), atomic_ps.into());
    let costs = of_core(description, costs)?;
    let threads: Vec<_> =
        topology.threads().iter().map(|info| (info.thread, info.core.min(u16::MAX.into()) as u16)).collect();
    let entries = |matrix: &FactMatrix| matrix.values.concat();
    let memory_ps = entries(&description.memory_ns).into_iter().map(|ns| pico(ns, "memory_ns"));
    let line = |gbps: f64| pico(line_bytes as f64 / gbps, "memory_gbps");
    let same_chassis = |from: usize, to: usize| match description.chassis_nodes {
        Some(size) => from / size == to / size,
        None => true,
    };
    Ok(Model {
        name: description.name.clone(),
        slot_of: index_threads(&threads),
        threads,
        transfer_ps: transfers(description, &groups)?,
        memory_ps: memory_ps.collect::<Result<_, _>>()?,
        line_ps: entries(&description.memory_gbps).into_iter().map(line).collect::<Result<_, _>>()?,
        node_machines: vec![0; nodes],
        wires: None,
        near_nodes: (0..nodes).flat_map(|from| (0..nodes).map(move |to| same_chassis(from, to))).collect(),
        lanes: description.node_links.value.max(1),
        caches: CacheSizes {
            l1_bytes: description.l1.bytes.value as usize,
            l2_bytes: description.l2.bytes.value as usize,
            l3_bytes: groups.l3_bytes(description),
        },
        instruction_cache: Some(instruction_cache(description)?),
        translation: translation(description, line_bytes)?,
        line_shift: line_bytes.trailing_zeros(),
        clock_khz: (description.clock_ghz.value * 1e6).round() as u64,
        smt_stretch: stretches(topology.smt(), &|siblings| description.smt_share(siblings)),
        nodes: topology.nodes().iter().map(|memory| memory.node).collect(),
        groups: groups.nodes.len(),
        group_nodes: groups.nodes,
        refusal: None,
        cores: groups.cores,
        costs,
    })
}

/// The instruction cache of a core.
fn instruction_cache(description: &Description) -> Result<InstructionCache, SimError> {
    let value = |cost: CoreCost| description.core.get(cost).value.round() as usize;
    let cache = InstructionCache {
        bytes: value(CoreCost::L1iKib) * 1024,
        ways: value(CoreCost::L1iWays),
        // Segments have lines of 64 bytes at least.
        line_bytes: (description.line_bytes.value as usize).max(64),
    };
    cache.check().map_err(|error| refused(description, error.to_string()))?;
    Ok(cache)
}

/// The costs, with the description's figures for a core in place of the estimates.
fn of_core(description: &Description, estimates: Costs) -> Result<Costs, SimError> {
    let value = |cost: CoreCost| description.core.get(cost).value;
    let pico = |cost: CoreCost| {
        let picos = (value(cost) * 1000.0).round();
        // False for NaN.
        let usable = (0.0..1e15).contains(&picos);
        let reason = || format!("`core.{}` is {}: expected a time below 1000 s", cost.key(), value(cost));
        if usable { Ok(picos as u64) } else { Err(refused(description, reason())) }
    };
    let count = |cost: CoreCost, most: usize| {
        let count = value(cost).round();
        let expected = || format!("`core.{}` is {}: expected 1 to {most}", cost.key(), value(cost));
        if (1.0..=most as f64).contains(&count) {
            Ok(count as usize)
        } else {
            Err(refused(description, expected()))
        }
    };
    let share = |cost: CoreCost| {
        let expected = || format!("`core.{}` is {}: expected a share of 1", cost.key(), value(cost));
        if (0.0..=1.0).contains(&value(cost)) {
            Ok(value(cost))
        } else {
            Err(refused(description, expected()))
        }
    };
    Ok(Costs {
        fill_buffers: count(CoreCost::FillBuffers, FILL_BUFFERS_MAX)?,
        store_buffer: count(CoreCost::StoreBuffer, STORE_BUFFER_MAX)?,
        store_ps: pico(CoreCost::StoreNs)?,
        issue_ps: pico(CoreCost::IssueNs)?,
        reader_ps: pico(CoreCost::ReaderNs)?,
        l3_reader_ps: pico(CoreCost::L3ReaderNs)?,
        clock_ps: pico(CoreCost::ClockNs)?,
        pause_ps: pico(CoreCost::PauseNs)?,
        pauser_parts: (share(CoreCost::PauserShare)? * 1024.0).round() as u32,
        yield_ps: pico(CoreCost::YieldNs)?,
        system_call_ps: pico(CoreCost::SystemCallNs)?,
        wake_ps: pico(CoreCost::WakeNs)?,
        wake_each_ps: pico(CoreCost::WakeEachNs)?,
        message_send_ps: pico(CoreCost::MessageSendNs)?,
        message_receive_ps: pico(CoreCost::MessageReceiveNs)?,
        // Fractions of a picosecond count, because there are many bytes.
        message_kib_ps: pico(CoreCost::MessageByteNs)
            .map(|_| (value(CoreCost::MessageByteNs) * 1024.0 * 1000.0).round() as u64)?,
        interrupt_ps: pico(CoreCost::InterruptNs)?,
        code_miss_ps: pico(CoreCost::CodeMissNs)?,
        balance_ps: pico(CoreCost::BalanceNs)?,
        move_rarity: (1.0 / share(CoreCost::MoveShare)?.max(1e-9)).round() as u64,
        ..estimates
    })
}

/// Reads the translation of a description, if it has any.
fn translation(description: &Description, line_bytes: usize) -> Result<Option<Translation>, SimError> {
    let Some(described) = &description.translation else { return Ok(None) };
    let pages = described.pages.value;
    if pages.entry as usize > line_bytes {
        let reason = format!("`core.tlb.entry_bytes` is {}: at most a line of {line_bytes}", pages.entry);
        return Err(refused(description, reason));
    }
    let level = |level: &machine::TlbLevel| {
        let hit_ps = level.hit_ns.as_ref().map_or(0.0, |hit| (hit.value * 1000.0).round());
        if !(0.0..1e9).contains(&hit_ps) {
            let reason = format!("`core.tlb.levels` has a hit of {} ns: below 1 ms", hit_ps / 1000.0);
            return Err(refused(description, reason));
        }
        Ok(TlbLevel { arrays: level.arrays.value, hit_ps: hit_ps as u64 })
    };
    Ok(Some(Translation {
        small_shift: pages.small.trailing_zeros(),
        huge_shift: pages.huge.trailing_zeros(),
        entry_shift: pages.entry.trailing_zeros(),
        levels: described.levels.iter().map(level).collect::<Result<_, _>>()?,
        huge_pages: true,
    }))
}

pub(super) fn refused(description: &Description, reason: String) -> SimError {
    SimError::Config(format!("{}: {reason}", description.name))
}

fn check(description: &Description, name: &str, matrix: &FactMatrix, size: usize) -> Result<(), SimError> {
    let values = &matrix.values;
    if values.len() != size || values.iter().any(|row| row.len() != size) {
        let rows = values.len();
        return Err(refused(
            description,
            format!("`{name}` has {rows} rows for {size} nodes, or uneven ones"),
        ));
    }
    match values.iter().flatten().find(|value| !value.is_finite() || **value <= 0.0) {
        Some(value) => {
            Err(refused(description, format!("`{name}` holds {value}: expected positive numbers")))
        }
        None => Ok(()),
    }
}

fn picoseconds(description: &Description, nanos: f64, what: &str) -> Result<u32, SimError> {
    let picos = (nanos * 1000.0).round();
    // `contains` is false for NaN.
    if (1.0..f64::from(u32::MAX)).contains(&picos) {
        return Ok(picos as u32);
    }
    Err(refused(description, format!("`{what}` is {nanos} ns: expected a positive time below 4 ms")))
}

/// Groups of cores that coherence treats alike.
struct Groups {
    cores: Vec<Core>,
    /// Node of each group.
    nodes: Vec<usize>,
    /// L3s in a group.
    l3s: usize,
    /// Cores of a group.
    size: usize,
}

impl Groups {
    fn of(topology: &Topology) -> Groups {
        // A thread without a core, or without an L3, gets one of its own: a machine may report
        // none, or not all.
        let core_count = topology.core_count();
        let domains = topology.threads().iter().map(|info| info.l3_domain as usize + 1).max().unwrap_or(0);
        let shared = topology.counts().l3_domains > 0 && domains < core_count.max(2);
        let by_l3 = shared && domains <= GROUPS_MAX || core_count == 1;
        let mut cores = vec![Core { group: 0, node: 0 }; core_count];
        let mut nodes = Vec::new();
        for info in topology.threads() {
            let node = topology.node_position(info.node).unwrap_or(0);
            let group = if by_l3 { info.l3_domain as usize } else { node };
            if group >= nodes.len() {
                nodes.resize(group + 1, node);
                nodes[group] = node;
            }
            cores[info.core as usize] = Core { group: group as u8, node: node as u16 };
        }
        let groups = nodes.len().max(1);
        let l3s = if by_l3 { 1 } else { topology.counts().l3_domains.div_ceil(groups).max(1) };
        Groups { nodes, l3s, size: core_count.div_ceil(groups), cores }
    }

    /// Capacity of a group's L3. Without an L3 that of its L2s, in which neighbours find lines.
    fn l3_bytes(&self, description: &Description) -> usize {
        match &description.l3 {
            Some(l3) => l3.bytes.value as usize * self.l3s,
            None => description.l2.bytes.value as usize * self.size,
        }
    }
}

/// Costs between groups by access and state.
fn transfers(description: &Description, groups: &Groups) -> Result<Vec<u32>, SimError> {
    let mut table = Vec::new();
    for access in ACCESSES {
        let costs = description.costs(access);
        for (state, reach) in STATES.into_iter().zip([&costs.modified, &costs.exclusive, &costs.shared]) {
            let name = format!("{access:?} of a {state:?} line");
            let between = &reach.between_nodes_ns;
            check(description, &name, between, description.topology.nodes().len())?;
            for (from, from_node) in groups.nodes.iter().enumerate() {
                for (to, to_node) in groups.nodes.iter().enumerate() {
                    let nanos = match (from == to, from_node == to_node) {
                        (true, _) => reach.same_domain_ns.value,
                        (_, true) => reach.same_node_ns.value,
                        _ => between.values[*from_node][*to_node],
                    };
                    table.push(picoseconds(description, nanos, &name)?);
                }
            }
        }
    }
    Ok(table)
}
