//! All operations against `BTreeMap`, one core.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use platform::Hardware;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use storage::tree::{Beyond, Direction, Entry, Insert, Range};

use crate::support::{Handle, Random, TestStore, World, key_of, sized};

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64),
    InsertRun(u64, u64),
    Remove(u64),
    RemoveRun(u64, u64),
    Get(u64),
    Scan(Bound<u64>, Bound<u64>, Direction, bool),
    Shake(u64),
}

fn operations(keys: u64) -> impl Strategy<Value = Vec<Operation>> {
    let bound = move || {
        prop_oneof![
            4 => (0..keys).prop_map(Bound::Included),
            4 => (0..keys).prop_map(Bound::Excluded),
            1 => Just(Bound::Unbounded),
        ]
    };
    let direction = prop_oneof![Just(Direction::Forward), Just(Direction::Reverse)];
    let operation = prop_oneof![
        8 => (0..keys).prop_map(Operation::Insert),
        1 => (0..keys, 0..30u64).prop_map(|(from, count)| Operation::InsertRun(from, count)),
        6 => (0..keys).prop_map(Operation::Remove),
        1 => (0..keys, 0..30u64).prop_map(|(from, count)| Operation::RemoveRun(from, count)),
        3 => (0..keys).prop_map(Operation::Get),
        4 => (bound(), bound(), direction, any::<bool>())
            .prop_map(|(lower, upper, direction, beyond)| Operation::Scan(lower, upper, direction, beyond)),
        2 => any::<u64>().prop_map(Operation::Shake),
    ];
    vec(operation, 0..sized(300, 20) as usize)
}

/// The tree, what it should hold, and the stamps of removed keys.
struct Pair<'a, S: TestStore, const W: usize> {
    handle: Handle<'a, S, W>,
    model: BTreeMap<[u64; W], u64>,
    stamps: BTreeMap<[u64; W], u64>,
    clock: u64,
}

impl<S: TestStore, const W: usize> Pair<'_, S, W> {
    /// All leaves, by a scan of everything.
    fn leaves(&self) -> Vec<storage::tree::Witness> {
        self.handle.scan(&Range::new(..), Direction::Forward, false).witnesses
    }

    /// The reported changes turn the leaves before into the leaves now.
    fn check_changes(&mut self, mut before: Vec<storage::tree::Witness>, changed: bool) {
        let changes: Vec<_> = self.handle.changes.iter().copied().collect();
        assert_eq!(changes.len(), usize::from(changed));
        for change in changes {
            assert!(!self.handle.tree.validate(self.handle.c, &change.before));
        }
        self.handle.changes.apply(&mut before);
        assert!(self.handle.changes.is_empty());
        let order = |list: Vec<storage::tree::Witness>| list.into_iter().collect::<BTreeSet<_>>();
        before.retain(|witness| self.handle.tree.validate(self.handle.c, witness));
        assert_eq!(order(before), order(self.leaves()));
    }

    fn insert(&mut self, number: u64) {
        let key = key_of(number);
        let before = self.leaves();
        self.clock += 1;
        let value = self.clock;
        match self.handle.insert(&key, value) {
            Insert::Inserted { stamp } => {
                assert_eq!(self.model.insert(key, value), None);
                assert!(stamp >= self.stamps.get(&key).copied().unwrap_or(0));
                self.check_changes(before, true);
            }
            Insert::Exists { value, witness } => {
                assert_eq!(self.model.get(&key), Some(&value));
                assert!(self.handle.tree.validate(self.handle.c, &witness));
                self.check_changes(before, false);
            }
            Insert::Refused => panic!("there is no guard"),
        }
    }

    fn remove(&mut self, number: u64) {
        let key = key_of(number);
        let before = self.leaves();
        self.clock += 1;
        let removed = self.handle.remove(&key, self.clock);
        assert_eq!(removed, self.model.remove(&key));
        if removed.is_some() {
            self.stamps.insert(key, self.clock);
        }
        self.check_changes(before, removed.is_some());
    }

    fn get(&mut self, number: u64) {
        let key = key_of(number);
        self.handle.tree.prefetch(self.handle.c, &key);
        let lookup = self.handle.tree.get(self.handle.c, &key);
        assert_eq!(lookup.value, self.model.get(&key).copied());
        assert!(self.handle.tree.validate(self.handle.c, &lookup.witness));
        assert!(self.leaves().contains(&lookup.witness));
    }

    fn scan(&mut self, range: Range<W>, direction: Direction, beyond: bool) {
        let scanned = self.handle.scan(&range, direction, beyond);
        let mut expected: Vec<Entry<W>> = self
            .model
            .iter()
            .filter(|(key, _)| above(&range.lower, key) && below(&range.upper, key))
            .map(|(key, value)| Entry { key: *key, value: *value })
            .collect();
        if direction == Direction::Reverse {
            expected.reverse();
        }
        assert_eq!(scanned.entries, expected);
        assert!(!scanned.witnesses.is_empty());
        let is_within = |key: &[u64; W]| above(&range.lower, key) && below(&range.upper, key);
        let removed = self.stamps.iter().filter(|(key, _)| is_within(key)).map(|(_, stamp)| *stamp).max();
        assert!(Some(scanned.removed) >= removed, "the scan knows of each removal");
        let entry = |(key, value): (&[u64; W], &u64)| Beyond::Entry(Entry { key: *key, value: *value });
        // A range that is upside down ends where it begins.
        let past = match direction {
            _ if !beyond => Beyond::Unknown,
            Direction::Forward => {
                let mut after = self
                    .model
                    .iter()
                    .filter(|(key, _)| above(&range.lower, key) && !below(&range.upper, key));
                after.next().map_or(Beyond::Supremum, entry)
            }
            Direction::Reverse => {
                let mut before = self
                    .model
                    .iter()
                    .rev()
                    .filter(|(key, _)| !above(&range.lower, key) && below(&range.upper, key));
                before.next().map_or(Beyond::Infimum, entry)
            }
        };
        assert_eq!(scanned.beyond, past);
        for witness in &scanned.witnesses {
            assert!(self.handle.tree.validate(self.handle.c, witness));
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Insert(number) => self.insert(*number),
            Operation::InsertRun(from, count) => (*from..from + count).for_each(|number| self.insert(number)),
            Operation::Remove(number) => self.remove(*number),
            Operation::RemoveRun(from, count) => (*from..from + count).for_each(|number| self.remove(number)),
            Operation::Get(number) => self.get(*number),
            Operation::Scan(lower, upper, direction, beyond) => {
                let range = Range { lower: lower.map(key_of), upper: upper.map(key_of) };
                self.scan(range, *direction, *beyond);
            }
            Operation::Shake(seed) => {
                let handle = &mut self.handle;
                handle.tree.store().shake(handle.c, handle.local, &mut Random::new(*seed));
            }
        }
    }
}

fn above<const W: usize>(bound: &Bound<[u64; W]>, key: &[u64; W]) -> bool {
    match bound {
        Bound::Included(lower) => key >= lower,
        Bound::Excluded(lower) => key > lower,
        Bound::Unbounded => true,
    }
}

fn below<const W: usize>(bound: &Bound<[u64; W]>, key: &[u64; W]) -> bool {
    match bound {
        Bound::Included(upper) => key <= upper,
        Bound::Excluded(upper) => key < upper,
        Bound::Unbounded => true,
    }
}

fn tree_follows_the_model<S: TestStore, const W: usize>() {
    // Few keys make removals empty leaves and whole subtrees; many keys make deep trees.
    for (keys, cases) in [(40, sized(40, 1)), (5_000, sized(20, 1))] {
        let config = Config {
            cases: cases as u32,
            failure_persistence: None,
            max_shrink_iters: 2_000,
            ..Config::default()
        };
        let mut runner = TestRunner::new_with_rng(
            config,
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let outcome = runner.run(&operations(keys), |operations| {
            let world = World::new(1);
            let mut local = world.local(0);
            let tree = world.tree::<S, W>(&mut local);
            let c = Hardware::core();
            let handle = Handle::new(c, &tree, &mut local);
            let mut pair = Pair { handle, model: BTreeMap::new(), stamps: BTreeMap::new(), clock: 0 };
            for operation in &operations {
                pair.apply(operation);
                world.refresh(c, pair.handle.local);
            }
            assert_eq!(tree.inspect(c).entries, pair.model.len());
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("{error}");
        }
    }
}

crate::for_all_stores!(tree_follows_the_model);
