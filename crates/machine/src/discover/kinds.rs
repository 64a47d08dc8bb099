//! Hybrid processors: faster and slower kinds of cores.

use std::collections::{BTreeMap, BTreeSet};

use super::root::Root;
use crate::cpu_set::CpuSet;
use crate::raw::RawMachine;

/// Performance-counter devices of Intel's hybrid processors, from slow to fast.
const COUNTERS: [&str; 3] = ["cpu_lowpower", "cpu_atom", "cpu_core"];
/// Directories of the short-lived interface of the first hybrid kernels, from slow to fast.
const TYPES: [&str; 3] = ["intel_atom_1", "intel_atom_0", "intel_core_0"];

/// Fills in efficiency classes; leaves them empty if all cores are alike or nothing is known.
pub(super) fn read(files: &Root, raw: &mut RawMachine) {
    let counters = COUNTERS.map(|name| files.strict_list(&format!("sys/devices/{name}/cpus")).ok().flatten());
    let types = TYPES.map(|name| {
        files.strict_list(&format!("sys/devices/system/cpu/types/{name}/cpulist")).ok().flatten()
    });
    for sets in [counters, types] {
        let speeds = by_set(&sets);
        if set_classes(raw, &speeds) {
            return;
        }
    }
    for file in ["cpu_capacity", "cpufreq/base_frequency"] {
        let speed = |processor: u32| {
            Some((processor, files.number(&format!("sys/devices/system/cpu/cpu{processor}/{file}"))?))
        };
        let speeds: BTreeMap<u32, u32> = raw.online.iter().filter_map(speed).collect();
        if set_classes(raw, &speeds) {
            return;
        }
    }
}

fn by_set(sets: &[Option<CpuSet>]) -> BTreeMap<u32, u32> {
    let ranked = sets.iter().enumerate().filter_map(|(rank, set)| Some((rank as u32, set.as_ref()?)));
    ranked.flat_map(|(rank, set)| set.iter().map(move |processor| (processor, rank))).collect()
}

/// Ranks processors by speed if every online one has a speed and they differ. Returns true if it
/// did.
fn set_classes(raw: &mut RawMachine, speeds: &BTreeMap<u32, u32>) -> bool {
    let known: Option<Vec<(u32, u32)>> =
        raw.online.iter().map(|processor| Some((processor, *speeds.get(&processor)?))).collect();
    let Some(known) = known else { return false };
    let distinct: BTreeSet<u32> = known.iter().map(|&(_, speed)| speed).collect();
    if distinct.len() < 2 {
        return false;
    }
    let class = |speed| distinct.range(..speed).count().min(usize::from(u8::MAX)) as u8;
    raw.efficiency = known.iter().map(|&(processor, speed)| (processor, class(speed))).collect();
    true
}
