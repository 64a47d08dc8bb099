//! Changes of maps: no key is lost or owned twice, and lists of changes are as short as they can
//! be.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use repartitioning::{
    Change, Core, MapError, Partition, PartitionMap, Range, Table, TablePartitions, difference,
};

const T: Table = Table(1);

fn map(version: u64, tables: Vec<Vec<(u64, u64, u16)>>) -> PartitionMap {
    let of_table = |(number, pieces): (usize, Vec<(u64, u64, u16)>)| TablePartitions {
        table: Table(number as u16 + 1),
        name: format!("t{number}"),
        partitions: pieces
            .into_iter()
            .map(|(low, end, owner)| Partition { range: Range { low, end }, owner: Core(owner) })
            .collect(),
    };
    PartitionMap::new(version, tables.into_iter().enumerate().map(of_table).collect()).expect("a map")
}

/// Generates a table with positions 0 to 40, boundaries and owners.
fn table() -> impl Strategy<Value = Vec<(u64, u64, u16)>> {
    prop::collection::btree_map(1u64..40, 0u16..4, 0..12).prop_flat_map(|cuts| {
        (0u16..4).prop_map(move |first| {
            let lows: Vec<(u64, u16)> =
                [(0, first)].into_iter().chain(cuts.iter().map(|(low, owner)| (*low, *owner))).collect();
            let ends = lows.iter().skip(1).map(|(low, _)| *low).chain([40]);
            lows.iter().zip(ends).map(|((low, owner), end)| (*low, end, *owner)).collect()
        })
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0u64..44).prop_map(|at| Change::Split { table: T, at }),
        (0u64..44).prop_map(|at| Change::Merge { table: T, at }),
        (0u64..44, 0u16..4).prop_map(|(low, to)| Change::Move { table: T, low, to: Core(to) }),
    ]
}

proptest! {
    /// After any changes in any order, each position has one owner, and only a move changes it.
    #[test]
    fn each_key_has_one_owner(pieces in table(), changes in prop::collection::vec(change(), 1..30)) {
        let mut map = map(0, vec![pieces]);
        for change in changes {
            let before: Vec<Core> = (0..40).map(|at| map.owner(T, at).expect("an owner")).collect();
            let range = |at: u64| {
                let table = map.table(T).expect("the table");
                table.partitions[table.place(at)].range
            };
            let moved = match change {
                Change::Move { low, .. } => Some(range(low)),
                _ => None,
            };
            match map.changed(&[change]) {
                Ok(next) => {
                    let table = next.table(T).expect("the table");
                    for (at, before) in before.iter().enumerate() {
                        let at = at as u64;
                        let holders = table.partitions.iter().filter(|one| one.range.has(at)).count();
                        prop_assert_eq!(holders, 1);
                        let is_moved = moved.is_some_and(|range| range.has(at));
                        prop_assert_eq!(next.owner(T, at) != Some(*before), is_moved);
                    }
                    prop_assert_eq!(next.version(), map.version() + 1);
                    map = next;
                }
                Err(error) => prop_assert!(matches!(error, MapError::Misfit(..))),
            }
        }
    }

    /// The difference leads from one map to the other, splits no boundary twice and moves no key
    /// twice.
    #[test]
    fn differences_lead_to_the_new_map(old in prop::collection::vec(table(), 2), new in prop::collection::vec(table(), 2)) {
        let (old, new) = (map(3, old), map(9, new));
        let changes = difference(&old, &new).expect("the same tables");
        let there = old.changed(&changes).expect("they fit");
        prop_assert_eq!(there.tables(), new.tables());
        let mut moved: BTreeMap<(Table, u64), u32> = BTreeMap::new();
        let mut map = old.clone();
        for change in &changes {
            if let Change::Move { table, low, .. } = change {
                let partitions = map.table(*table).expect("the table");
                let range = partitions.partitions[partitions.place(*low)].range;
                (range.low..range.end).for_each(|at| *moved.entry((*table, at)).or_default() += 1);
            }
            map = map.changed(&[*change]).expect("it fits");
        }
        prop_assert!(moved.values().all(|times| *times == 1));
        for (table, at) in moved.keys() {
            prop_assert!(old.owner(*table, *at) != new.owner(*table, *at));
        }
        prop_assert_eq!(difference(&new, &new), Ok(Vec::new()));
    }
}

#[test]
fn maps_of_other_tables_have_no_difference() {
    let one = map(0, vec![vec![(0, 40, 0)]]);
    let two = map(0, vec![vec![(0, 40, 0)], vec![(0, 40, 0)]]);
    let longer = map(0, vec![vec![(0, 41, 0)]]);
    for (old, new) in [(&one, &two), (&two, &one), (&one, &longer)] {
        assert!(difference(old, new).is_err());
    }
}

/// A table of four positions: its boundaries, and the owner of each position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SmallMap {
    cuts: [bool; 3],
    owners: [u16; 4],
}

fn small_maps() -> Vec<SmallMap> {
    let mut all = Vec::new();
    for cuts in 0..8u32 {
        let cuts = [0, 1, 2].map(|bit| cuts >> bit & 1 == 1);
        for owners in 0..81u16 {
            let owners = [1, 3, 9, 27].map(|power| owners / power % 3);
            if (0..3).all(|at| cuts[at] || owners[at] == owners[at + 1]) {
                all.push(SmallMap { cuts, owners });
            }
        }
    }
    all
}

fn pieces(map: SmallMap) -> Vec<(u64, u64, u16)> {
    let SmallMap { cuts, owners } = map;
    let lows: Vec<usize> = [0].into_iter().chain((1..4).filter(|at| cuts[at - 1])).collect();
    let ends = lows.iter().skip(1).copied().chain([4]);
    lows.iter().zip(ends).map(|(low, end)| (*low as u64, end as u64, owners[*low])).collect()
}

/// The maps that one change away from `now` lead towards `new`, without moving a key to another
/// owner than its last.
fn steps(now: SmallMap, new: SmallMap) -> Vec<SmallMap> {
    let SmallMap { cuts, owners } = now;
    let mut all = Vec::new();
    for at in 0..3 {
        let mut other = cuts;
        other[at] = !cuts[at];
        // A split is always possible, a merge of neighbours with one owner.
        if !cuts[at] || owners[at] == owners[at + 1] {
            all.push(SmallMap { cuts: other, owners });
        }
    }
    for (low, end, owner) in pieces(now) {
        let range = low as usize..end as usize;
        let to = new.owners[range.start];
        if to != owner && range.clone().all(|at| new.owners[at] == to) {
            let mut other = owners;
            other[range].fill(to);
            all.push(SmallMap { cuts, owners: other });
        }
    }
    all
}

/// No shorter list of changes leads from any small map to any other, if no key moves twice.
#[test]
fn differences_are_the_smallest() {
    let all = small_maps();
    assert!(all.len() > 150, "{}", all.len());
    let mut compared = 0;
    for new in &all {
        // For each map, the maps from which one change leads to it.
        let mut before: BTreeMap<SmallMap, Vec<SmallMap>> = BTreeMap::new();
        for old in &all {
            steps(*old, *new).into_iter().for_each(|next| before.entry(next).or_default().push(*old));
        }
        let mut distance: BTreeMap<SmallMap, usize> = BTreeMap::from([(*new, 0)]);
        let mut queue = VecDeque::from([*new]);
        while let Some(now) = queue.pop_front() {
            let length = distance[&now] + 1;
            for old in before.get(&now).into_iter().flatten() {
                if !distance.contains_key(old) {
                    distance.insert(*old, length);
                    queue.push_back(*old);
                }
            }
        }
        for old in &all {
            let (from, to) = (map(0, vec![pieces(*old)]), map(0, vec![pieces(*new)]));
            let changes = difference(&from, &to).expect("the same table");
            assert_eq!(changes.len(), distance[old], "{old:?} to {new:?}: {changes:?}");
            compared += 1;
        }
    }
    assert_eq!(compared, all.len() * all.len());
}
