//! Walks over all keys of a partition, and lookups of many keys at once.

use std::collections::BTreeMap;

use platform::Hardware;
use storage::index::{Open, Partition, Shape, Walk, Witnesses};

use crate::support::{Random, World, sized};

fn key_of(number: u64) -> [u64; 2] {
    [number / 7, number % 7]
}

#[test]
fn keys_that_ascend_are_found_as_each_alone_is() {
    let (c, world) = (Hardware::core(), World::new(1));
    let mut local = world.local(0);
    // SAFETY: the world outlives the partition, and the test stays inside an epoch.
    let partition = unsafe { Partition::<Hardware>::new(c, &mut local, Shape::Tree(2)) }.expect("memory");
    let numbers = sized(20_000, 400);
    let (mut random, mut model) = (Random::new(1), BTreeMap::new());
    let witnesses = &mut Witnesses::default();
    for _ in 0..numbers / 2 {
        let number = random.below(numbers);
        model.entry(key_of(number)).or_insert_with(|| {
            let key = key_of(number);
            // SAFETY: no code follows the values.
            unsafe { partition.insert(c, &mut local, &key, 8 * number + 8, &mut Open, witnesses) }
                .expect("memory");
            8 * number + 8
        });
    }

    let (mut walk, mut walked) = (Walk::default(), Vec::new());
    while partition.walk(c, &mut walk, 50, &mut walked) {}
    assert_eq!(walked, model.keys().flatten().copied().collect::<Vec<_>>());

    for _ in 0..sized(400, 10) {
        // Runs of neighbours, and keys far from each other.
        let (mut number, spread) = (random.below(numbers), random.below(10));
        let step = 1 + random.below(1 << spread);
        let mut keys = Vec::new();
        for _ in 0..random.below(40) {
            keys.extend(key_of(number));
            number += 1 + random.below(step);
        }
        let mut lookups = Vec::new();
        partition.get_ascending(c, &keys, &mut lookups);
        let alone: Vec<_> = keys.chunks_exact(2).map(|key| partition.get(c, key)).collect();
        assert_eq!(lookups, alone);
        let values: Vec<_> = keys.chunks_exact(2).map(|key| model.get(key).copied()).collect();
        assert_eq!(lookups.iter().map(|lookup| lookup.value).collect::<Vec<_>>(), values);
    }
}
