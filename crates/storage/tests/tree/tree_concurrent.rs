//! Several cores at once.

use std::sync::atomic::Ordering;

use platform::{Hardware, LINE_BYTES, Platform, RegionBytes};
use storage::tree::{Direction, Insert, Next, Range};

use crate::support::{Handle, Random, TestStore, World, key_of, parallel, sized};

type Word = <Hardware as Platform>::Word;

/// Words on lines of their own.
struct Board {
    region: <Hardware as Platform>::Region,
}

impl Board {
    fn new() -> Self {
        Board { region: Hardware::region(Hardware::core(), None, 16 * LINE_BYTES, "test").expect("memory") }
    }

    fn word(&self, line: usize) -> &Word {
        assert!(line < 16);
        // SAFETY: the zeroed region has 16 lines, which makes valid words.
        unsafe { &*self.region.base().add(line * LINE_BYTES).cast::<Word>() }
    }
}

fn tree_readers_find_what_was_inserted<S: TestStore, const W: usize>() {
    const INSERTERS: usize = 2;
    let (world, board) = (World::new(5), Board::new());
    let mut local = world.local(4);
    let tree = world.tree::<S, W>(&mut local);
    local.leave(Hardware::core());
    let count = sized(4_000, 40);
    // A permutation of 0..count for each inserter, so that inserts hit the whole tree.
    let number = |inserter: usize, step: u64| {
        let step = if inserter == 0 { step } else { (step * 1_237 + 11) % count };
        step * INSERTERS as u64 + inserter as u64
    };
    parallel(&world, 4, &|c, index, local| {
        let mut random = Random::new(index as u64);
        match index {
            0 | 1 => {
                for step in 0..count {
                    let number = number(index, step);
                    let insert = Handle::new(c, &tree, local).insert(&key_of(number), number + 1);
                    assert!(matches!(insert, Insert::Inserted { .. }));
                    Hardware::store(c, board.word(index), step + 1, Ordering::Release);
                    world.refresh(c, local);
                }
            }
            2 => {
                while (0..INSERTERS).any(|it| Hardware::load(c, board.word(it), Ordering::Acquire) < count) {
                    let inserter = random.below(INSERTERS as u64) as usize;
                    let done = Hardware::load(c, board.word(inserter), Ordering::Acquire);
                    let step = random.below(count);
                    let number = number(inserter, step);
                    let value = Handle::new(c, &tree, local).get(&key_of(number));
                    assert!(value == Some(number + 1) || (value.is_none() && step >= done));
                    world.refresh(c, local);
                }
            }
            _ => {
                let mut shaken_at = u64::MAX;
                while (0..INSERTERS).any(|it| Hardware::load(c, board.word(it), Ordering::Acquire) < count) {
                    let done = (0..INSERTERS)
                        .map(|it| Hardware::load(c, board.word(it), Ordering::Acquire))
                        .sum::<u64>();
                    // Under Miri an operation takes so long, in rounds of this loop, that it would
                    // seldom succeed.
                    if !cfg!(miri) || done != shaken_at {
                        shaken_at = done;
                        tree.store().shake(c, local, &mut random);
                    }
                    world.refresh(c, local);
                }
            }
        }
    });
    local.enter(Hardware::core());
    assert_eq!(tree.inspect(Hardware::core()).entries as u64, 2 * count);
}

/// The root is split, and replaced by its only child, over and over while others search it.
fn tree_roots_change_under_everybody<S: TestStore, const W: usize>() {
    let (world, board) = (World::new(4), Board::new());
    let mut local = world.local(3);
    let tree = world.tree::<S, W>(&mut local);
    local.leave(Hardware::core());
    parallel(&world, 3, &|c, index, local| {
        let mut random = Random::new(index as u64);
        let own = |step: u64| key_of::<W>(step * 3 + index as u64);
        for round in 1..=sized(600, 2) {
            for step in 0..6 {
                let mut handle = Handle::new(c, &tree, local);
                assert!(matches!(handle.insert(&own(step), round), Insert::Inserted { .. }));
                assert!((0..=step).all(|step| handle.get(&own(step)) == Some(round)));
            }
            tree.store().shake(c, local, &mut random);
            for step in 0..6 {
                assert_eq!(Handle::new(c, &tree, local).remove(&own(step), round), Some(round));
            }
            world.refresh(c, local);
            // All begin the next round with an empty tree.
            Hardware::fetch_add(c, board.word(0), 1, Ordering::AcqRel);
            loop {
                let arrived = Hardware::load(c, board.word(0), Ordering::Acquire);
                if arrived >= round * 3 {
                    break;
                }
                Hardware::spin_while(c, board.word(0), arrived, None);
            }
        }
    });
    let c = Hardware::core();
    local.enter(c);
    assert_eq!((tree.inspect(c).entries, tree.inspect(c).height), (0, 1));
}

fn tree_scans_see_no_gaps_and_nothing_twice<S: TestStore, const W: usize>() {
    let (world, board) = (World::new(5), Board::new());
    let mut local = world.local(4);
    let tree = world.tree::<S, W>(&mut local);
    let count = sized(300, 24);
    for number in 0..count {
        // Every eighth key stays; the others come and go, so that leaves fill, split, and become
        // empty.
        if number % 8 == 0 {
            Handle::new(Hardware::core(), &tree, &mut local).insert(&key_of(number), number + 1);
        }
    }
    local.leave(Hardware::core());
    let scans = sized(400, 3);
    parallel(&world, 4, &|c, index, local| {
        let mut random = Random::new(index as u64);
        if index == 0 {
            for scan in 0..scans {
                let direction = if scan % 2 == 0 { Direction::Forward } else { Direction::Reverse };
                let from = random.below(count / 2);
                let to = from + random.below(count - from);
                let range = Range::new(key_of::<W>(from)..key_of::<W>(to));
                let scanned = Handle::new(c, &tree, local).scan(&range, direction, true);
                let mut numbers: Vec<u64> = scanned.entries.iter().map(|entry| entry.value - 1).collect();
                if direction == Direction::Reverse {
                    numbers.reverse();
                }
                assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
                let stable: Vec<u64> = numbers.iter().copied().filter(|number| number % 8 == 0).collect();
                assert_eq!(stable, (from..to).filter(|number| number % 8 == 0).collect::<Vec<_>>());
                assert!(scanned.entries.iter().all(|entry| entry.key == key_of(entry.value - 1)));
                world.refresh(c, local);
            }
            Hardware::store(c, board.word(0), 1, Ordering::Release);
            return;
        }
        while Hardware::load(c, board.word(0), Ordering::Acquire) == 0 {
            let number = random.below(count);
            if !number.is_multiple_of(8) {
                let mut handle = Handle::new(c, &tree, local);
                if random.below(2) == 0 {
                    handle.insert(&key_of(number), number + 1);
                } else {
                    handle.remove(&key_of(number), 1);
                }
            }
            tree.store().shake(c, local, &mut random);
            world.refresh(c, local);
        }
    });
    local.enter(Hardware::core());
    tree.inspect(Hardware::core());
}

/// All workers insert and remove all keys: each key's successes alternate, and the end is what they
/// add up to.
fn tree_insertions_and_removals_balance<S: TestStore, const W: usize>() {
    let world = World::new(4);
    let mut local = world.local(3);
    let tree = world.tree::<S, W>(&mut local);
    local.leave(Hardware::core());
    let board = Board::new();
    parallel(&world, 3, &|c, index, local| {
        let mut random = Random::new(index as u64);
        let mut balance = 0u64;
        for _ in 0..sized(20_000, 60) {
            // The keys wander, so that whole subtrees come and go.
            let number = random.below(30) + (random.below(4) * 40);
            let mut handle = Handle::new(c, &tree, local);
            if random.below(2) == 0 {
                // A guard that wants the neighbour takes the longer way.
                let key = key_of(number);
                let guard = |next| next != Next::Entry(number + 1);
                let insert = tree.insert(c, handle.local, &key, number + 1, guard, &mut handle.changes);
                match insert.expect("memory") {
                    Insert::Inserted { .. } => balance = balance.wrapping_add(1),
                    Insert::Exists { value, .. } => assert_eq!(value, number + 1),
                    Insert::Refused => panic!("the neighbour has another value"),
                }
            } else if let Some(value) = handle.remove(&key_of(number), 1) {
                assert_eq!(value, number + 1);
                balance = balance.wrapping_sub(1);
            }
            handle.changes.clear();
            if random.below(4) == 0 {
                tree.store().shake(c, local, &mut random);
            }
            world.refresh(c, local);
        }
        Hardware::fetch_add(c, board.word(0), balance, Ordering::Relaxed);
    });
    let c = Hardware::core();
    local.enter(c);
    assert_eq!(tree.inspect(c).entries as u64, Hardware::load(c, board.word(0), Ordering::Relaxed));
}

/// Two transactions each read the other's key, insert their own, and then validate: they cannot
/// both be first.
fn tree_validation_orders_transactions<S: TestStore, const W: usize>() {
    let world = World::new(3);
    let mut local = world.local(2);
    let tree = world.tree::<S, W>(&mut local);
    for number in 0..40 {
        Handle::new(Hardware::core(), &tree, &mut local).insert(&key_of(number * 100), 1);
    }
    local.leave(Hardware::core());
    let board = Board::new();
    parallel(&world, 2, &|c, index, local| {
        let mut random = Random::new(index as u64);
        for round in 1..=sized(5_000, 20) {
            world.refresh(c, local);
            let mut handle = Handle::new(c, &tree, local);
            let keys = [key_of::<W>(101 + round % 50), key_of::<W>(3_001 + round % 50)];
            let lookup = tree.get(c, &keys[1 - index]);
            assert_eq!(lookup.value, None);
            // Both have read before either inserts.
            Hardware::store(c, board.word(index), round * 2, Ordering::Release);
            while Hardware::load(c, board.word(1 - index), Ordering::Acquire) < round * 2 {
                std::hint::spin_loop();
            }
            tree.store().shake(c, handle.local, &mut random);
            assert!(matches!(handle.insert(&keys[index], 1), Insert::Inserted { .. }));
            let valid = tree.validate(c, &lookup.witness);
            Hardware::store(c, board.word(2 + index), u64::from(valid), Ordering::Relaxed);
            Hardware::store(c, board.word(index), round * 2 + 1, Ordering::Release);
            while Hardware::load(c, board.word(1 - index), Ordering::Acquire) < round * 2 + 1 {
                std::hint::spin_loop();
            }
            let other = Hardware::load(c, board.word(3 - index), Ordering::Relaxed);
            assert!(!valid || other == 0, "both saw a world without the other");
            assert_eq!(handle.remove(&keys[index], round), Some(1));
            // The next round begins when both have removed.
            Hardware::fetch_add(c, board.word(4), 1, Ordering::AcqRel);
            while Hardware::load(c, board.word(4), Ordering::Acquire) < round * 2 {
                std::hint::spin_loop();
            }
        }
    });
}

crate::for_all_stores!(
    tree_roots_change_under_everybody
    tree_readers_find_what_was_inserted
    tree_scans_see_no_gaps_and_nothing_twice
    tree_insertions_and_removals_balance
    tree_validation_orders_transactions
);
