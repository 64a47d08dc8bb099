//! Times of the tree beside `std::collections::BTreeMap`, on the machine itself; then lookups in
//! the virtual machine.
//!
//! `cargo run --release -p isles-storage --example tree_lookup [-- KEYS ROUNDS]` prints medians
//! over rounds that alternate between the two, so that a slow moment of the machine hits both.

// A benchmark reports on the machine, and compares with what the engine does not use.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod both_platforms;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::Instant;

use platform::{Hardware, HardwareThread, Place, Platform};
use storage::tree::{Direction, LeafChanges, MemoryNodes, NoGuard, Range, Tree};
use storage::{Epochs, Local, Memory};
use terms::random::SplitMix;

const SEED: u64 = 42;
/// How often each core looks up all probes in one run.
const PASSES: usize = 10;

type Index<const BYTES: usize> = Tree<Hardware, MemoryNodes<BYTES>, 1>;

struct World {
    memory: Memory<Hardware>,
    epochs: Epochs<Hardware>,
}

impl World {
    fn new() -> Self {
        let c = Hardware::core();
        World {
            memory: Memory::new(c, 16 << 30).expect("memory"),
            epochs: Epochs::new(c, 3, 0).expect("memory"),
        }
    }

    fn local(&self, worker: usize) -> Local<Hardware> {
        // SAFETY: the world is declared before all workers; each number is used by one worker at a
        // time.
        let mut local = unsafe { Local::new(&self.memory, &self.epochs, worker, None) };
        local.enter(Hardware::core());
        local
    }
}

fn build<const BYTES: usize>(keys: &[u64], local: &mut Local<Hardware>) -> Index<BYTES> {
    let c = Hardware::core();
    // SAFETY: the world outlives the tree, and the worker stays inside its epoch.
    let tree = unsafe { Tree::new(c, MemoryNodes, local) }.expect("memory");
    let mut changes = LeafChanges::new();
    for key in keys {
        tree.insert(c, local, &[*key], key | 1, NoGuard, &mut changes).expect("memory");
        changes.clear();
    }
    tree
}

/// Nanoseconds per call of `each`, over all keys.
fn time(keys: &[u64], mut each: impl FnMut(u64)) -> f64 {
    let started = Instant::now();
    for key in keys {
        each(*key);
    }
    started.elapsed().as_nanos() as f64 / keys.len() as f64
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

fn row(name: &str, tree: f64, map: f64) {
    println!("{name:<28} tree {tree:>8.1} ns   BTreeMap {map:>8.1} ns   ratio {:.2}", tree / map);
}

fn compare(name: &str, rounds: usize, mut tree: impl FnMut() -> f64, mut map: impl FnMut() -> f64) {
    let (mut trees, mut maps) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        trees.push(tree());
        maps.push(map());
    }
    row(name, median(trees), median(maps));
}

fn lookups<const BYTES: usize>(count: usize, rounds: usize) {
    let world = World::new();
    let mut local = world.local(0);
    let c = Hardware::core();
    let mut random = SplitMix::new(SEED);
    let keys: Vec<u64> = (0..count).map(|_| random.next()).collect();
    let probes: Vec<u64> = (0..count).map(|_| keys[random.next() as usize % count]).collect();
    let tree = build::<BYTES>(&keys, &mut local);
    let map: BTreeMap<u64, u64> = keys.iter().map(|key| (*key, key | 1)).collect();
    println!("nodes of {BYTES} bytes: {:?}", tree.inspect(c));
    compare(
        &format!("lookup, {count} keys"),
        rounds,
        || time(&probes, |key| assert!(tree.get(c, &[key]).value == Some(key | 1))),
        || time(&probes, |key| assert!(map.get(&key) == Some(&(key | 1)))),
    );
    // Each lookup waits for the one before, as when a transaction needs the row to go on.
    compare(
        "lookup, one after another",
        rounds,
        || {
            let mut last = 0;
            time(&probes, |key| last = tree.get(c, &[key ^ (last & 2)]).value.unwrap_or(0) >> 62)
        },
        || {
            let mut last = 0;
            time(&probes, |key| last = map.get(&(key ^ (last & 2))).copied().unwrap_or(0) >> 62)
        },
    );
    compare(
        "scan of 100 entries",
        rounds,
        || {
            time(&probes[..count.min(2_000)], |key| {
                let mut left = 100usize;
                let mut sum = 0u64;
                tree.scan(c, &Range::new([key]..), Direction::Forward, false, &mut |leaf| {
                    for entry in leaf.entries.iter().take(left) {
                        sum = sum.wrapping_add(entry.value);
                    }
                    left = left.saturating_sub(leaf.entries.len());
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
                black_box(sum);
            })
        },
        || {
            time(&probes[..count.min(2_000)], |key| {
                black_box(map.range(key..).take(100).fold(0u64, |sum, (_, value)| sum.wrapping_add(*value)));
            })
        },
    );
    two_cores(&tree, &world, &probes, rounds);
}

/// Throughput of one and of two cores on the same tree.
fn two_cores<const BYTES: usize>(tree: &Index<BYTES>, world: &World, probes: &[u64], rounds: usize) {
    let run = |count: usize| {
        let places: Vec<Place> =
            (0..count).map(|index| Place { thread: Some(HardwareThread(index as u32)) }).collect();
        let started = Instant::now();
        parallel_lookups(tree, world, probes, &places);
        (count * probes.len() * PASSES) as f64 / started.elapsed().as_secs_f64() / 1e6
    };
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        one.push(run(1));
        two.push(run(2));
    }
    let (one, two) = (median(one), median(two));
    println!(
        "lookups a second             1 core {one:>6.1} M   2 cores {two:>6.1} M   ratio {:.2}",
        two / one
    );
}

fn parallel_lookups<const BYTES: usize>(
    tree: &Index<BYTES>,
    world: &World,
    probes: &[u64],
    places: &[Place],
) {
    let worker = |c, index: usize| {
        let mut local = world.local(1 + index);
        for _ in 0..PASSES {
            for key in probes {
                assert!(tree.get(c, &[*key]).value == Some(key | 1));
            }
        }
        local.leave(c);
    };
    Hardware::parallel(Hardware::core(), places, &worker, &mut |_| ());
}

fn insertions<const BYTES: usize>(name: &str, keys: &[u64], rounds: usize) {
    let insert_tree = || {
        let world = World::new();
        let mut local = world.local(0);
        let started = Instant::now();
        black_box(build::<BYTES>(keys, &mut local));
        started.elapsed().as_nanos() as f64 / keys.len() as f64
    };
    let insert_map = || {
        let started = Instant::now();
        let mut map = BTreeMap::new();
        for key in keys {
            map.insert(*key, key | 1);
        }
        let nanos = started.elapsed().as_nanos() as f64 / keys.len() as f64;
        black_box(map);
        nanos
    };
    compare(name, rounds, insert_tree, insert_map);
}

fn all<const BYTES: usize>(count: usize, rounds: usize) {
    lookups::<BYTES>(count, rounds);
    let mut random = SplitMix::new(SEED);
    let scattered: Vec<u64> = (0..count).map(|_| random.next()).collect();
    insertions::<BYTES>("insertion, random", &scattered, rounds.min(9));
    let ascending: Vec<u64> = (0..count as u64).collect();
    insertions::<BYTES>("insertion, ascending", &ascending, rounds.min(9));
}

fn main() {
    let arguments: Vec<usize> =
        std::env::args().skip(1).map(|word| word.parse().expect("KEYS ROUNDS as numbers")).collect();
    let count = arguments.first().copied().unwrap_or(100_000);
    let rounds = arguments.get(1).copied().unwrap_or(15);
    println!("seed {SEED}, {rounds} rounds, medians");
    all::<512>(count, rounds);
    all::<768>(count, rounds);
    all::<1024>(count, rounds);
    both_platforms::lookups(count);
}

#[test]
fn tree_lookup_small() {
    all::<256>(500, 2);
}

/// Readers write nothing, so that lookups scale; the virtual machine gives the same figures every
/// time.
#[test]
fn tree_lookup_scales_in_the_virtual_machine() {
    let scaling = both_platforms::lookups(2_000);
    assert!(scaling[1] > 1.8 && scaling[2] > 7.0, "{scaling:?}");
    assert_eq!(scaling, both_platforms::lookups(2_000));
}
