//! Trees of long keys, through partitions: against a model, and under several cores.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use platform::{Hardware, HardwareCore};
use storage::index::{Gap, GapGuard, Open, Shape, Visit, Witnesses};
use storage::tree::{Direction, Insert};
use storage::{Local, Partition, Walk};
use terms::rows::KeyBounds;

use crate::support::{Random, World, parallel, sized};

/// Words of a key: more than a place in a node has.
const WORDS: usize = 40;

/// A key for each number below 2^16: many agree in the words that lie in nodes, some begin with
/// others, and some fit into the nodes.
fn key_of(number: u64) -> Vec<u64> {
    let mut key = vec![0; WORDS];
    let (kind, own) = (number % 5, number / 5);
    key[0] = 7 + kind / 3;
    match kind {
        0 => key[5] = own,
        1 => (key[5], key[6 + (own % 30) as usize]) = (1, own + 1),
        2 => (key[5], key[39]) = (own % 3, own + 1),
        3 => (0..=own % 39).for_each(|word| key[1 + word as usize] = 1 + own / 39),
        _ => (key[6], key[20], key[21]) = (u64::MAX, own % 11, own),
    }
    key
}

fn partition(local: &mut Local<Hardware>) -> Partition<Hardware> {
    // SAFETY: every test declares the world before the partition, and uses it inside epochs.
    unsafe { Partition::new(Hardware::core(), local, Shape::Tree(WORDS)) }.expect("memory")
}

/// Knows the neighbour above the key that is about to be inserted.
struct Above(Option<u64>);

impl GapGuard<Hardware> for Above {
    const WANTS_GAP: bool = true;

    fn allow(&mut self, gap: Option<Gap<'_, Hardware>>) -> bool {
        match gap {
            Some(Gap::Row(bits)) => assert_eq!(Some(bits), self.0),
            Some(Gap::Word(_)) => assert_eq!(self.0, None),
            None => panic!("the guard needs the gap"),
        }
        true
    }
}

fn insert<G: GapGuard<Hardware>>(
    c: HardwareCore,
    partition: &Partition<Hardware>,
    local: &mut Local<Hardware>,
    number: u64,
    guard: &mut G,
) -> bool {
    let mut witnesses = Witnesses::default();
    // SAFETY: no one follows the values of this test's partitions.
    let inserted = unsafe { partition.insert(c, local, &key_of(number), number + 1, guard, &mut witnesses) };
    match inserted.expect("memory") {
        Insert::Inserted { .. } => true,
        Insert::Exists { value, .. } => {
            assert_eq!(value, number + 1);
            false
        }
        Insert::Refused => panic!("the guard allows it"),
    }
}

fn remove(
    c: HardwareCore,
    partition: &Partition<Hardware>,
    local: &mut Local<Hardware>,
    number: u64,
) -> bool {
    partition.remove(c, local, &key_of(number), number + 1, 1)
}

fn scan(
    c: HardwareCore,
    partition: &Partition<Hardware>,
    range: (&[u64], &[u64]),
    direction: Direction,
) -> Vec<u64> {
    let mut values = Vec::new();
    let range = KeyBounds { low: range.0, high: range.1 };
    partition.scan(c, range, direction, false, &mut |visit: Visit<'_, Hardware>| {
        values.extend_from_slice(visit.values);
        ControlFlow::Continue(())
    });
    values
}

/// Bytes that the worker has, once nothing is retired any more.
fn settled_bytes(world: &World, c: HardwareCore, local: &mut Local<Hardware>) -> u64 {
    while local.retired_blocks() > 0 {
        world.refresh(c, local);
        std::thread::yield_now();
    }
    local.bytes_live()
}

#[test]
fn long_keys_follow_the_model() {
    let (world, c) = (World::new(1), Hardware::core());
    let mut local = world.local(0);
    let partition = partition(&mut local);
    let empty = local.bytes_live();
    let mut model: BTreeMap<Vec<u64>, u64> = BTreeMap::new();
    let mut random = Random::new(11);
    for step in 0..sized(30_000, 300) {
        // Few keys make removals empty whole subtrees; many make deep trees.
        let keys = if step % 2_000 < 1_000 { sized(3_000, 60) } else { 40 };
        let number = random.below(keys);
        let key = key_of(number);
        match random.below(8) {
            0..4 => {
                let above = model.range(key.clone()..).next().map(|(_, value)| *value);
                let is_new = match random.below(2) {
                    0 => insert(c, &partition, &mut local, number, &mut Open),
                    _ => insert(c, &partition, &mut local, number, &mut Above(above)),
                };
                assert_eq!(is_new, model.insert(key, number + 1).is_none());
            }
            4..6 => {
                let is_gone = remove(c, &partition, &mut local, number);
                assert_eq!(is_gone, model.remove(&key).is_some());
            }
            6 => assert_eq!(partition.get(c, &key).value, model.get(&key).copied()),
            _ => {
                let other = key_of(random.below(keys));
                let (low, high) = if key <= other { (key, other) } else { (other, key) };
                let mut expected: Vec<u64> =
                    model.range(low.clone()..=high.clone()).map(|(_, value)| *value).collect();
                assert_eq!(scan(c, &partition, (&low, &high), Direction::Forward), expected);
                expected.reverse();
                assert_eq!(scan(c, &partition, (&low, &high), Direction::Reverse), expected);
            }
        }
        world.refresh(c, &mut local);
    }
    assert_eq!(partition.entries(c), Some(model.len() as u64));
    let (mut walked, mut walk) = (Vec::new(), Walk::default());
    while partition.walk(c, &mut walk, 10, &mut walked) {}
    assert_eq!(walked, model.keys().flatten().copied().collect::<Vec<_>>());
    let mut found = Vec::new();
    partition.get_ascending(c, &walked, &mut found);
    assert!(found.iter().map(|lookup| lookup.value).eq(model.values().map(|value| Some(*value))));
    for value in model.values() {
        assert!(remove(c, &partition, &mut local, value - 1));
    }
    assert_eq!(settled_bytes(&world, c, &mut local), empty, "all words of keys were given back");
}

#[test]
fn long_keys_are_found_and_given_back_under_several_cores() {
    const WRITERS: usize = 2;
    let (world, c) = (World::new(WRITERS + 2), Hardware::core());
    let mut local = world.local(WRITERS + 1);
    let partition = partition(&mut local);
    let before = local.bytes_live();
    let keys = sized(1_500, 40);
    let is_stable = |number: u64| number.is_multiple_of(7);
    for number in (0..keys).filter(|number| is_stable(*number)) {
        assert!(insert(c, &partition, &mut local, number, &mut Open));
    }
    local.leave(c);
    let (live, over, at_end) = (AtomicU64::new(0), AtomicBool::new(false), Barrier::new(WRITERS));
    parallel(&world, WRITERS + 1, &|c, index, local| {
        let mut random = Random::new(index as u64);
        if index == WRITERS {
            let (least, most) = (vec![0; WORDS], vec![u64::MAX; WORDS]);
            let mut ascending: Vec<u64> = (0..keys).collect();
            ascending.sort_by_key(|number| key_of(*number));
            let stable: Vec<u64> = ascending.iter().copied().filter(|number| is_stable(*number)).collect();
            let mut ranks = vec![0; keys as usize];
            ascending.iter().enumerate().for_each(|(rank, number)| ranks[*number as usize] = rank);
            let mut rounds = 0;
            while !over.load(Ordering::Acquire) || rounds == 0 {
                rounds += 1;
                let direction = if rounds % 2 == 0 { Direction::Forward } else { Direction::Reverse };
                let mut found: Vec<u64> = scan(c, &partition, (&least, &most), direction);
                found.iter_mut().for_each(|value| *value -= 1);
                if direction == Direction::Reverse {
                    found.reverse();
                }
                assert!(found.windows(2).all(|pair| ranks[pair[0] as usize] < ranks[pair[1] as usize]));
                found.retain(|number| is_stable(*number));
                assert_eq!(found, stable);
                let number = random.below(keys);
                let value = partition.get(c, &key_of(number)).value;
                assert!(value == Some(number + 1) || value.is_none() && !is_stable(number));
                world.refresh(c, local);
            }
            return;
        }
        for _ in 0..sized(60_000, 200) {
            // Both writers want the same keys, in parts of the tree that wander.
            let number = random.below(keys / 3) + random.below(3) * (keys / 3);
            if is_stable(number) {
                continue;
            }
            match random.below(2) {
                0 => _ = insert(c, &partition, local, number, &mut Open),
                _ => _ = remove(c, &partition, local, number),
            }
            world.refresh(c, local);
        }
        at_end.wait();
        for number in (0..keys).filter(|number| !is_stable(*number)) {
            remove(c, &partition, local, number);
            world.refresh(c, local);
        }
        over.store(true, Ordering::Release);
        live.fetch_add(settled_bytes(&world, c, local), Ordering::AcqRel);
    });
    local.enter(c);
    for number in (0..keys).filter(|number| is_stable(*number)) {
        assert!(remove(c, &partition, &mut local, number));
    }
    let own = settled_bytes(&world, c, &mut local);
    assert_eq!(own.wrapping_add(live.into_inner()), before, "all words of keys were given back");
}
