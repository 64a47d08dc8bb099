//! Conversion of a load to the sub-partitions of another map.

use std::collections::BTreeMap;

use crate::grid::{Grid, SubPartition};
use crate::load::{Load, SynchronizationPoint};

/// Returns an unknown load: each position costs the same, and there is no synchronization.
pub(crate) fn even_load(grid: &Grid) -> Load {
    let cost = |sub: usize| grid.place(SubPartition(sub as u32)).1.len() as f64;
    let costs = (0..grid.count()).map(cost).collect();
    Load::new(grid.version(), costs, Vec::new())
}

/// Converts a load from the sub-partitions of `from` to those of `to`, which has the same tables.
/// Costs are divided by the positions that two sub-partitions have in common, as if all positions
/// of a sub-partition had equal costs. Synchronization points are converted by the middle of each
/// member.
pub(crate) fn convert_load(load: &Load, from: &Grid, to: &Grid) -> Load {
    let mut costs = vec![0.0; to.count()];
    for (old, new) in from.tables().zip(to.tables()) {
        let (mut one, mut other) = (old.start, new.start);
        while one < old.end && other < new.end {
            let (before, after) =
                (from.place(SubPartition(one as u32)).1, to.place(SubPartition(other as u32)).1);
            let common = before.end.min(after.end).saturating_sub(before.low.max(after.low));
            costs[other] += load.costs[one] * (common as f64 / before.len() as f64);
            match before.end <= after.end {
                true => one += 1,
                false => other += 1,
            }
        }
    }
    let mut point: BTreeMap<Vec<SubPartition>, (f64, f64)> = BTreeMap::new();
    for meeting in &load.meetings {
        let there = meeting.members.iter().filter_map(|sub| {
            let (_, range) = from.place(*sub);
            to.at(from.table(*sub), range.low + range.len() / 2)
        });
        let mut members: Vec<SubPartition> = there.collect();
        members.sort_unstable();
        members.dedup();
        if members.len() > 1 {
            let (count, bytes) = point.entry(members).or_default();
            (*count, *bytes) = (*count + meeting.count, *bytes + meeting.bytes);
        }
    }
    let meeting = |(members, (count, bytes))| SynchronizationPoint { members, count, bytes };
    let meetings = point.into_iter().map(meeting).collect();
    // The origins of transactions are known again after the next measurement; until then no core is
    // preferred.
    Load { unrecorded: load.unrecorded, ..Load::new(to.version(), costs, meetings) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Core;
    use crate::map::{PartitionMap, Range, Table};

    #[test]
    fn costs_are_converted_by_positions() {
        let tables = [(Table(0), "a", Range { low: 0, end: 40 }), (Table(1), "b", Range { low: 0, end: 2 })];
        let coarse = PartitionMap::even(&tables, &[Core(0)]).expect("a map");
        let fine = PartitionMap::even(&tables, &[Core(0), Core(1)]).expect("a map");
        let (coarse, fine) = (Grid::of(&coarse), Grid::of(&fine));
        let even = even_load(&coarse);
        assert_eq!(even.costs, [[4.0; 10].as_slice(), &[1.0; 2]].concat());
        assert_eq!(convert_load(&even, &coarse, &fine).costs, even_load(&fine).costs);
        let mut load = even;
        load.costs[0] = 100.0;
        let meeting = |one, other| SynchronizationPoint {
            members: vec![SubPartition(one), SubPartition(other)],
            count: 2.0,
            bytes: 9.0,
        };
        load.meetings = vec![meeting(0, 10), meeting(9, 11)];
        let there = convert_load(&load, &coarse, &fine);
        assert_eq!(there.costs[..3], [50.0, 50.0, 2.0]);
        assert_eq!(there.meetings, [meeting(1, 20), meeting(19, 21)]);
        // Converted back, all synchronization points are in the same places again.
        assert_eq!(convert_load(&there, &fine, &coarse).meetings, load.meetings);
    }
}
