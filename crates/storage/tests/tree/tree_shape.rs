//! The form of the tree: fill, height, memory, and what witnesses notice.

use platform::Hardware;
use storage::tree::{Direction, Insert, MemoryNodes, Range, Tree};

use crate::support::{Handle, Random, TestStore, World, key_of, sized};

fn tree_empties_and_fills_again<S: TestStore, const W: usize>() {
    let world = World::new(1);
    let mut local = world.local(0);
    let tree = world.tree::<S, W>(&mut local);
    let c = Hardware::core();
    let mut handle = Handle::new(c, &tree, &mut local);
    let mut random = Random::new(7);
    let count = sized(2_000, 60);
    for round in 0..3u64 {
        let mut numbers: Vec<u64> = (0..count).collect();
        for index in (1..numbers.len()).rev() {
            numbers.swap(index, random.below(index as u64 + 1) as usize);
        }
        for number in &numbers {
            assert!(matches!(handle.insert(&key_of(*number), number + 1), Insert::Inserted { .. }));
            tree.store().shake(c, handle.local, &mut random);
        }
        let full = tree.inspect(c);
        assert_eq!(full.entries as u64, count);
        assert!(full.height as u64 > sized(3, 2));
        numbers.sort_unstable();
        match round {
            0 => numbers.reverse(),
            1 => {}
            _ => numbers.sort_by_key(|number| number % 7),
        }
        for number in &numbers {
            assert_eq!(handle.remove(&key_of(*number), round * 10), Some(number + 1));
            tree.store().shake(c, handle.local, &mut random);
            world.refresh(c, handle.local);
        }
        let empty = tree.inspect(c);
        assert_eq!((empty.height, empty.leaves, empty.inner_nodes, empty.entries), (1, 1, 0, 0));
        let Insert::Inserted { stamp } = handle.insert(&key_of(3), 1) else { panic!("it was removed") };
        assert!(stamp >= round * 10, "the last root remembers what was removed");
        handle.remove(&key_of(3), 0);
    }
}

fn tree_queue_neither_leaks_nor_degrades<S: TestStore, const W: usize>() {
    let world = World::new(1);
    let mut local = world.local(0);
    let tree = world.tree::<S, W>(&mut local);
    let c = Hardware::core();
    let length = 50;
    let mut bytes_max_early = 0;
    let total = sized(30_000, 150);
    for number in 0..total {
        let mut handle = Handle::new(c, &tree, &mut local);
        handle.insert(&key_of(number), 1);
        if number >= length {
            assert_eq!(handle.remove(&key_of(number - length), number), Some(1));
        }
        world.refresh(c, &mut local);
        if number < total / sized(10, 2) {
            bytes_max_early = local.bytes_live().max(bytes_max_early);
        }
    }
    let figures = tree.inspect(c);
    assert_eq!(figures.entries as u64, length);
    assert!(figures.leaves as u64 <= length, "{figures:?}");
    assert!(figures.height <= 12, "{figures:?}");
    assert!(local.bytes_live() <= bytes_max_early * 2, "{} after {bytes_max_early}", local.bytes_live());
}

fn tree_witness_notices_every_change<S: TestStore, const W: usize>() {
    let world = World::new(1);
    let mut local = world.local(0);
    let tree = world.tree::<S, W>(&mut local);
    let c = Hardware::core();
    let mut handle = Handle::new(c, &tree, &mut local);
    let mut random = Random::new(5);
    let count = sized(400, 40);
    for number in 0..count {
        handle.insert(&key_of(number * 2), number + 1);
    }
    for _ in 0..sized(1_000, 10) {
        let from = random.below(count * 2);
        let to = from + random.below(20);
        let scanned =
            handle.scan(&Range::new(key_of::<W>(from)..key_of::<W>(to + 1)), Direction::Forward, false);
        let number = from + random.below(to - from + 1);
        tree.store().shake(c, handle.local, &mut random);
        assert!(scanned.witnesses.iter().all(|witness| tree.validate(c, witness)), "moving changes nothing");
        let key = key_of(number);
        if handle.get(&key).is_some() {
            handle.remove(&key, 0);
        } else {
            handle.insert(&key, 1);
        }
        assert!(!scanned.witnesses.iter().all(|witness| tree.validate(c, witness)));
        world.refresh(c, handle.local);
    }
}

crate::for_all_stores!(
    tree_empties_and_fills_again
    tree_queue_neither_leaks_nor_degrades
    tree_witness_notices_every_change
);

/// Entries per leaf, as a share of its capacity, after these keys were inserted in this order.
fn fill(keys: impl Iterator<Item = [u64; 2]>) -> f64 {
    let world = World::new(1);
    let mut local = world.local(0);
    let tree: Tree<Hardware, MemoryNodes<1024>, 2> = world.tree(&mut local);
    let c = Hardware::core();
    let mut handle = Handle::new(c, &tree, &mut local);
    for key in keys {
        handle.insert(&key, 1);
    }
    let figures = tree.inspect(c);
    let capacity = Tree::<Hardware, MemoryNodes<1024>, 2>::leaf_capacity();
    figures.entries as f64 / (figures.leaves * capacity) as f64
}

/// Ten districts with this many orders of ten lines each, one after the other, then orders of any
/// district.
fn order_lines(loaded: u64, more: u64) -> impl Iterator<Item = [u64; 2]> {
    let mut next = [loaded; 10];
    let mut random = Random::new(3);
    let later = std::iter::repeat_with(move || {
        let district = random.below(10);
        next[district as usize] += 1;
        (district, next[district as usize])
    });
    let orders = (0..10).flat_map(move |district| (1..=loaded).map(move |order| (district, order)));
    let all = orders.chain(later.take(more as usize));
    all.flat_map(|(district, order)| (0..10).map(move |line| [district, order * 16 + line]))
}

#[test]
fn tree_fills_leaves_with_ascending_keys() {
    let count = sized(20_000, 400);
    let sorted = fill((0..count).map(|number| [0, number]));
    assert!(sorted > 0.9, "sorted: {sorted}");
    let interleaved = fill((0..count).map(|number| [number % 10, number / 10]));
    assert!(interleaved > sized(90, 50) as f64 / 100.0, "ten runs at once: {interleaved}");
    let orders = fill(order_lines(sized(300, 8), sized(2_000, 60)));
    assert!(orders > sized(90, 50) as f64 / 100.0, "order lines behind those of their district: {orders}");
    let swapped = fill((0..count).map(|number| [0, number ^ 1]));
    assert!(swapped > 0.8, "neighbours swapped: {swapped}");
    let mut random = Random::new(1);
    let scattered = fill((0..count).map(|_| [random.next(), random.next()]));
    assert!((0.6..0.8).contains(&scattered), "random: {scattered}");
}
