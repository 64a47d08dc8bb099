//! Guards of insertions see the neighbour above.

use std::collections::BTreeMap;
use std::ops::Bound;

use platform::Hardware;
use storage::tree::{Direction, Insert, Next, Range};

use crate::support::{Handle, Random, TestStore, World, key_of, sized};

fn tree_guard_sees_the_next_key<S: TestStore, const W: usize>() {
    let world = World::new(1);
    let mut local = world.local(0);
    let tree = world.tree::<S, W>(&mut local);
    let c = Hardware::core();
    let mut handle = Handle::new(c, &tree, &mut local);
    let mut model = BTreeMap::new();
    let mut random = Random::new(11);
    for round in 1..sized(4_000, 40) {
        let key = key_of::<W>(random.below(sized(1_000, 60)));
        tree.store().shake(c, handle.local, &mut random);
        if random.below(3) == 0 {
            assert_eq!(handle.remove(&key, 0), model.remove(&key));
            continue;
        }
        let above = model.range((Bound::Excluded(key), Bound::Unbounded)).next();
        let expected = above.map_or(Next::Supremum, |(_, value)| Next::Entry(*value));
        let allowed = random.below(4) > 0;
        let before = handle.scan(&Range::new(..), Direction::Forward, false).witnesses;
        let mut calls = 0;
        let guard = |next| {
            calls += 1;
            assert_eq!(next, expected);
            allowed
        };
        handle.changes.clear();
        let insert = tree.insert(c, handle.local, &key, round, guard, &mut handle.changes).expect("memory");
        match insert {
            Insert::Exists { value, .. } => assert_eq!((calls, Some(&value)), (0, model.get(&key))),
            Insert::Inserted { .. } => {
                assert!(allowed && calls == 1);
                assert_eq!(model.insert(key, round), None);
            }
            Insert::Refused => {
                assert!(!allowed && calls == 1 && handle.changes.is_empty());
                let after = handle.scan(&Range::new(..), Direction::Forward, false).witnesses;
                assert_eq!(before, after, "a refusal changes no leaf");
            }
        }
        world.refresh(c, handle.local);
    }
    assert_eq!(tree.inspect(c).entries, model.len());
}

crate::for_all_stores!(tree_guard_sees_the_next_key);
