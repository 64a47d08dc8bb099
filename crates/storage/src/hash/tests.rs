use std::collections::BTreeMap;

use platform::{Hardware, Place};
use proptest::prelude::*;

use super::*;
use crate::{Epochs, Memory};

type Index = HashIndex<Hardware>;

fn with_local<R>(body: impl FnOnce(&mut Local<Hardware>) -> R) -> R {
    let c = Hardware::core();
    let memory = Memory::new(c, 1 << 30).expect("memory");
    let epochs = Epochs::new(c, 1, 0).expect("memory");
    // SAFETY: memory and epochs are declared before, so dropped after.
    let mut local = unsafe { Local::new(&memory, &epochs, 0, None) };
    local.enter(c);
    body(&mut local)
}

fn spreads() -> [Spread; 3] {
    [Spread::Mixed(4), Spread::Dense(50, |key| key), Spread::Dense(1, |key| key)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 100 }))]
    #[test]
    fn behaves_like_a_map(steps in prop::collection::vec((0..3, 0..60u64, 1..1000u64), 0..200)) {
        let c = Hardware::core();
        for spread in spreads() {
            with_local(|local| {
                // SAFETY: the memory outlives the closure.
                let index = unsafe { Index::new(c, local, spread) }.expect("memory");
                let mut model = BTreeMap::new();
                for (step, key, value) in &steps {
                    match step {
                        0 => {
                            let (result, _) =
                                index.insert(c, local, *key, *value, || true).expect("memory");
                            match model.get(key) {
                                Some(old) => {
                                    let exists = matches!(result, Insert::Exists { value, .. } if value == *old);
                                    assert!(exists);
                                }
                                None => {
                                    let inserted = matches!(result, Insert::Inserted { .. });
                                    assert!(inserted);
                                    model.insert(*key, *value);
                                }
                            }
                        }
                        1 => assert_eq!(index.remove(c, *key, 5), model.remove(key)),
                        _ => {
                            let there = model.contains_key(key);
                            assert_eq!(index.replace(c, *key, *value), there);
                            if there {
                                model.insert(*key, *value);
                            }
                        }
                    }
                    assert_eq!(index.get(c, *key).value, model.get(key).copied());
                }
                let mut all = BTreeMap::new();
                index.for_each(c, &mut |key, value| assert!(all.insert(key, value).is_none()));
                assert_eq!(all, model);
            });
        }
    }
}

fn is_valid(witness: &Witness) -> bool {
    // SAFETY: of a bucket of the index of the test, whose memory is there and is not used again.
    unsafe { crate::index::witness_is_current::<Hardware>(Hardware::core(), witness) }
}

#[test]
fn misses_are_witnessed() {
    let c = Hardware::core();
    with_local(|local| {
        // SAFETY: the memory outlives the closure.
        let index = unsafe { Index::new(c, local, Spread::Mixed(1)) }.expect("memory");
        let miss = index.get(c, 7);
        assert!(miss.value.is_none() && is_valid(&miss.witness));
        let refused = index.insert(c, local, 7, 70, || false).expect("memory").0;
        assert_eq!(refused, Insert::Refused);
        assert!(is_valid(&miss.witness));
        let (_, change) = index.insert(c, local, 7, 70, || true).expect("memory");
        assert!(!is_valid(&miss.witness));
        let (before, after) = change.expect("inserted");
        assert!(before == miss.witness && is_valid(&after));
        assert!(!index.replace(c, 9, 71));
        assert!(is_valid(&after));
        assert!(index.replace(c, 7, 71));
        assert!(!is_valid(&after));
        let after = index.get(c, 7).witness;
        assert_eq!(index.remove(c, 7, 99), Some(71));
        assert!(!is_valid(&after));
        let (again, _) = index.insert(c, local, 7, 72, || true).expect("memory");
        assert_eq!(again, Insert::Inserted { stamp: 99 });
    });
}

#[test]
fn concurrent_insertions_are_all_found() {
    const KEYS: u64 = if cfg!(miri) { 20 } else { 20_000 };
    let c = Hardware::core();
    let memory = Memory::new(c, 1 << 30).expect("memory");
    let epochs = Epochs::new(c, 3, 0).expect("memory");
    // SAFETY: memory and epochs are declared before, so dropped after; numbers differ.
    let mut first = unsafe { Local::new(&memory, &epochs, 2, None) };
    // SAFETY: the memory is declared before.
    let index = unsafe { Index::new(c, &mut first, Spread::Mixed(KEYS / 4)) }.expect("memory");
    let worker = |c, number: usize| {
        // SAFETY: as above.
        let mut local = unsafe { Local::new(&memory, &epochs, number, None) };
        local.enter(c);
        for step in 0..KEYS {
            let key = step * 2 + number as u64;
            index.insert(c, &mut local, key, key + 1, || true).expect("memory");
            assert_eq!(index.get(c, key).value, Some(key + 1));
            if step % 3 == 0 {
                assert_eq!(index.remove(c, key, 0), Some(key + 1));
            }
        }
    };
    Hardware::parallel(c, &[Place { thread: None }; 2], &worker, &mut |_| ());
    for key in 0..2 * KEYS {
        let expected = ((key / 2) % 3 != 0).then_some(key + 1);
        assert_eq!(index.get(c, key).value, expected, "key {key}");
    }
}

/// The most keys of one bucket of the index, with those of its overflow buckets.
fn fullest(c: <Hardware as Platform>::Core, index: &Index) -> usize {
    let mut keys = Vec::new();
    let of_bucket = |number| {
        keys.clear();
        index.keys_of(c, number, &mut keys);
        keys.len()
    };
    (0..index.buckets()).map(of_bucket).max().unwrap_or(0)
}

/// Makes as many keys as fit an index of this size, all of which the factors that are printed in
/// this program send to its first bucket.
fn chosen_keys(count: usize) -> Vec<u64> {
    let buckets = (count as u64 / 2 + 1).next_power_of_two();
    let number = |key: u64| {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32 & (buckets - 1)
    };
    (0..).filter(|key| number(*key) == 0).take(count).collect()
}

#[test]
fn chosen_keys_are_spread_like_others() {
    const KEYS: usize = if cfg!(miri) { 64 } else { 4096 };
    // A fair spread puts 2 keys into a bucket, and 10 into the fullest.
    const MOST: usize = 40;
    let c = Hardware::core();
    let sets = [
        ("chosen", chosen_keys(KEYS)),
        ("in order", (0..KEYS as u64).collect()),
        ("two columns", (0..KEYS as u64).map(|key| ((key % 64) << 32) | (key / 64)).collect()),
    ];
    let mut bits = 1_u64;
    let fixed = (0..20).map(|_| {
        bits = bits.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15);
        Some(SpreadSecret::of(bits ^ bits >> 29))
    });
    // The last one has the secret that it draws.
    for secret in fixed.chain([None]) {
        for (name, keys) in &sets {
            with_local(|local| {
                let spread = Spread::Mixed(KEYS as u64);
                let index = match secret {
                    // SAFETY: the memory outlives the closure.
                    Some(secret) => unsafe { Index::with_secret(c, local, spread, secret) },
                    // SAFETY: as above.
                    None => unsafe { Index::new(c, local, spread) },
                };
                let index = index.expect("memory");
                for key in keys {
                    index.insert(c, local, *key, 1, || true).expect("memory");
                }
                let fullest = fullest(c, &index);
                assert!(fullest <= MOST, "{name}: {fullest} keys in one bucket, {secret:?}");
            });
        }
    }
}

#[test]
fn indexes_have_secrets_of_their_own() {
    let c = Hardware::core();
    with_local(|local| {
        // SAFETY: the memory outlives the closure.
        let mut index = || unsafe { Index::new(c, local, Spread::Mixed(4)) }.expect("memory");
        let (one, other) = (index(), index());
        assert_ne!(one.secret, other.secret);
        assert_eq!(one.secret, one.alias().secret);
    });
}
