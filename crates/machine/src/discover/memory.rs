//! Memory nodes and the distances between them.

use super::error::DiscoverError;
use super::root::Root;
use crate::cpu_set::CpuSet;
use crate::raw::{RawMachine, RawNode};

const DIRECTORY: &str = "sys/devices/system/node";

/// Fills in nodes and distances. A machine that reports no nodes gets one, with all processors and
/// memory.
pub(super) fn read(files: &Root, raw: &mut RawMachine) -> Result<(), DiscoverError> {
    let listed = files.strict_list(&format!("{DIRECTORY}/online"))?;
    let mut numbers = files.numbered(DIRECTORY, "node");
    numbers.retain(|&number| listed.as_ref().is_none_or(|set| set.contains(number)));
    let distances = distances(files, &numbers);
    let mut nodes: Vec<RawNode> = Vec::new();
    let mut kept: Vec<usize> = Vec::new();
    let mut taken = CpuSet::default();
    for (position, &number) in numbers.iter().enumerate() {
        let claimed = processors(files, number).intersection(&raw.online);
        let memory_bytes = memory(files, &format!("{DIRECTORY}/node{number}/meminfo"));
        if let Some(twin) = nodes.iter_mut().find(|node| !claimed.is_empty() && node.processors == claimed) {
            // Emulated nodes: several memories next to the very same processors count as one.
            twin.memory_bytes += memory_bytes;
            continue;
        }
        let processors = claimed.difference(&taken);
        taken = taken.union(&processors);
        nodes.push(RawNode::plain(number, processors, memory_bytes));
        kept.push(position);
    }
    if nodes.iter().all(|node| node.processors.is_empty()) {
        let number = numbers.first().copied().unwrap_or(0);
        raw.nodes = vec![RawNode::plain(number, raw.online.clone(), memory(files, "proc/meminfo"))];
        return Ok(());
    }
    if let [only] = nodes.as_mut_slice() {
        only.memory_bytes = whole_machine(files).unwrap_or(only.memory_bytes);
    }
    raw.distances = distances.map(|matrix| {
        kept.iter().map(|&row| kept.iter().map(|&column| matrix[row][column]).collect()).collect()
    });
    raw.nodes = nodes;
    Ok(())
}

/// The kernel's figure for the whole machine. If there is one node, it is the better figure: memory
/// that a hypervisor added later may be missing from the node's, and the limit of a container is
/// visible only here.
fn whole_machine(files: &Root) -> Option<u64> {
    Some(memory(files, "proc/meminfo")).filter(|&bytes| bytes > 0)
}

fn processors(files: &Root, number: u32) -> CpuSet {
    let directory = format!("{DIRECTORY}/node{number}");
    let found = files.set(&format!("{directory}/cpumap"), &format!("{directory}/cpulist"));
    found.unwrap_or_else(|| files.numbered(&directory, "cpu").into_iter().collect())
}

/// `MemTotal` of a `meminfo` file in bytes; 0 if it has none.
fn memory(files: &Root, path: &str) -> u64 {
    let text = files.text(path).unwrap_or_default();
    let line = text.lines().find_map(|line| line.split_once("MemTotal:"));
    let kibibytes = line.and_then(|(_, amount)| amount.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.and_then(|amount| amount.checked_mul(1024)).unwrap_or(0)
}

/// The distance matrix of all online nodes; `None` if it is incomplete or inconsistent.
fn distances(files: &Root, numbers: &[u32]) -> Option<Vec<Vec<u32>>> {
    let mut matrix = Vec::with_capacity(numbers.len());
    for (position, number) in numbers.iter().enumerate() {
        let text = files.text(&format!("{DIRECTORY}/node{number}/distance"))?;
        let row: Vec<u32> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let own = *row.get(position)?;
        // A memory farther from itself than from others, or at distance zero, is a firmware error.
        if row.len() != numbers.len() || own == 0 || row.iter().any(|&distance| distance < own) {
            return None;
        }
        matrix.push(row);
    }
    (!matrix.is_empty()).then_some(matrix)
}
