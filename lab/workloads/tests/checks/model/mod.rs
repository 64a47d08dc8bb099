//! A simple model of a database: sorted maps in one thread. It implements the ports of the engine,
//! and is stricter than the engine has to be:
//!
//! - actions and outputs are sent as bytes, and the actions of a phase run in random order;
//! - an action may touch only the partition of its home and read-only tables, and its route names
//!   nothing else;
//! - hash indexes refuse scans, and their perfect hashes must be perfect; key columns must not be
//!   changed in place;
//! - a row that was found with the intent to read must not be written.
mod transaction;

use std::collections::BTreeMap;

use boundary::{Plan, Procedure};
use platform::Intent;
use schema::{
    HashPlan, Index, IndexInfo, IndexKind, Inspector, Key, KeyBuffer, Loader, Routes, Row, Schema, Table,
    TableOptions,
};
use terms::Abort;
use terms::random::Random;
use workloads::Workload;

use transaction::Transaction;

/// One row, with its keys in all indexes of its table.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    fixed: Vec<u8>,
    tail: Vec<u8>,
    keys: Vec<KeyBuffer>,
}

impl Stored {
    fn of<R: Row>(row: &R) -> Self {
        let mut fixed = vec![0; R::BYTES];
        row.store(&mut fixed);
        let keys = (0..R::INDEXES.len()).map(|index| {
            let mut key = KeyBuffer::new();
            row.index_key(index, &mut key);
            assert_eq!(key.bits(), R::INDEXES[index].key_bits);
            key
        });
        Stored { fixed, tail: row.tail().to_vec(), keys: keys.collect() }
    }

    fn row<R: Row>(&self) -> R {
        R::fetch(&self.fixed, &self.tail)
    }
}

struct Relation {
    name: String,
    options: TableOptions,
    /// By primary key.
    rows: BTreeMap<KeyBuffer, Stored>,
    /// For each index (the primary one included): primary key by key.
    indexes: Vec<BTreeMap<KeyBuffer, KeyBuffer>>,
    /// The number that each perfect hash has given a key.
    numbers: BTreeMap<(usize, u64, u64), KeyBuffer>,
}

/// The leading column of a key.
fn partition(key: &KeyBuffer) -> u64 {
    u64::from(terms::rows::partition_column(key.words(1)[0]))
}

impl Relation {
    fn kind(&self, index: usize) -> IndexKind {
        self.options.kinds.get(index).copied().unwrap_or(IndexKind::Ordered)
    }

    /// The number that a partition's perfect hash gives the key.
    fn number(&self, index: usize, key: &KeyBuffer) -> Option<(usize, u64, u64)> {
        let IndexKind::Hash(plan) = self.kind(index) else { return None };
        assert!(key.bits() <= 64, "{}: hash indexes have keys up to 8 bytes", self.name);
        let HashPlan::Dense(number) = plan else { return None };
        let (partition, count) = match self.options.partitioning {
            Some(partitioning) => (partition(key), u64::from(partitioning.count)),
            None => (0, 1),
        };
        let number = number(key.words(1)[0]);
        assert!(number < self.options.rows.div_ceil(count), "{}: {number} is not dense", self.name);
        Some((index, partition, number))
    }

    /// Replaces the row with this primary key by `row`. Returns the former row.
    fn set(&mut self, key: KeyBuffer, row: Option<Stored>) -> Option<Stored> {
        let before = self.rows.remove(&key);
        if let Some(before) = &before {
            for (index, key) in before.keys.iter().enumerate() {
                self.indexes[index].remove(key);
                if let Some(number) = self.number(index, key) {
                    self.numbers.remove(&number);
                }
            }
        }
        if let Some(row) = row {
            for (index, other) in row.keys.iter().enumerate() {
                assert!(self.indexes[index].insert(*other, key).is_none(), "{}: a key twice", self.name);
                if let Some(number) = self.number(index, other) {
                    let earlier = self.numbers.insert(number, *other);
                    assert!(earlier.is_none(), "{}: {number:?} of two keys", self.name);
                }
            }
            self.rows.insert(key, row);
        }
        before
    }

    /// The index that has one of the row's keys already.
    fn duplicate(&self, row: &Stored) -> Option<usize> {
        let taken = |index: &usize| self.indexes[*index].contains_key(&row.keys[*index]);
        (0..row.keys.len()).find(taken)
    }

    fn find(&self, index: usize, key: &KeyBuffer) -> Option<KeyBuffer> {
        self.indexes[index].get(key).copied()
    }

    fn range(&self, index: usize, low: &KeyBuffer, high: &KeyBuffer) -> Vec<KeyBuffer> {
        assert_eq!(self.kind(index), IndexKind::Ordered, "{}: scan of a hash index", self.name);
        if low > high {
            return Vec::new();
        }
        self.indexes[index].range(*low..=*high).map(|(_, primary)| *primary).collect()
    }
}

/// The database.
#[derive(Default)]
pub struct Model {
    relations: Vec<Relation>,
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Committed,
    RolledBack,
}

impl Model {
    /// A loaded database.
    pub fn load<W: Workload>(workload: &W, seed: u64) -> (Self, <W::Procedure as Procedure>::Tables) {
        let mut model = Model::default();
        let tables = workload.create(&mut model);
        for part in 0..workload.parts() {
            let mut random = Random::new(seed, part as u64);
            workload.load(&tables, part, &mut random, &mut model).expect("the part loads");
        }
        (model, tables)
    }

    /// Runs one transaction to its end, the actions of each phase in some order.
    pub fn run<P: Procedure>(&mut self, tables: &P::Tables, procedure: &mut P, random: &mut Random) -> End {
        let mut shuffle = |order: &mut Vec<usize>| {
            for end in (1..order.len()).rev() {
                order.swap(end, random.below(end as u64 + 1) as usize);
            }
        };
        self.run_ordered(tables, procedure, &mut shuffle).0
    }

    /// Runs one transaction to its end in the order of its plan; returns the tables and primary
    /// keys of the rows that it found to write.
    pub fn written_by<P: Procedure>(
        &mut self,
        tables: &P::Tables,
        procedure: &mut P,
    ) -> Vec<(usize, KeyBuffer)> {
        self.run_ordered(tables, procedure, &mut |_| ()).1
    }

    fn run_ordered<P: Procedure>(
        &mut self,
        tables: &P::Tables,
        procedure: &mut P,
        arrange: &mut dyn FnMut(&mut Vec<usize>),
    ) -> (End, Vec<(usize, KeyBuffer)>) {
        let mut transaction = Transaction::new(self, procedure.read_only());
        let mut actions = Vec::new();
        for phase in 0.. {
            actions.clear();
            match procedure.plan(phase, &mut actions) {
                Plan::Commit => return (End::Committed, transaction.found_to_write().collect()),
                Plan::RollBack => {
                    transaction.undo();
                    return (End::RolledBack, transaction.found_to_write().collect());
                }
                Plan::Run => {}
            }
            let mut order: Vec<usize> = (0..actions.len()).collect();
            arrange(&mut order);
            for number in order {
                let bytes = postcard::to_allocvec(&actions[number]).expect("actions travel");
                let action: P::Action = postcard::from_bytes(&bytes).expect("actions arrive");
                transaction.partition = transaction.model.home::<P>(tables, &action);
                let output = P::execute(tables, &action, &mut transaction).expect("nobody interferes");
                let bytes = postcard::to_allocvec(&output).expect("outputs travel");
                procedure.absorb(phase, number, postcard::from_bytes(&bytes).expect("outputs arrive"));
            }
        }
        unreachable!("a procedure ends")
    }

    /// The partition of an action, to which its accesses are restricted.
    fn home<P: Procedure>(&self, tables: &P::Tables, action: &P::Action) -> u64 {
        let mut route = Routes::new();
        P::route(tables, action, &mut route);
        let home = route.home().expect("an action belongs somewhere");
        assert!(!self.relations[home.table].options.read_only, "a home in all instances: {route:?}");
        let (partition, _) = home.keys.partition_columns();
        for entry in route.entries() {
            let options = &self.relations[entry.table].options;
            let stays = entry.keys.partition_columns() == (partition, partition);
            assert!(options.read_only && entry.intent == Intent::Read || stays, "{action:?}: {route:?}");
        }
        u64::from(partition)
    }

    /// All rows of the database, for comparison.
    pub fn image(&self) -> Vec<(KeyBuffer, Vec<u8>)> {
        let rows = self.relations.iter().flat_map(|relation| relation.rows.iter());
        rows.map(|(key, row)| (*key, row.fixed.clone())).collect()
    }

    /// Number of rows of a table.
    pub fn count<R: Row>(&self, table: Table<R>) -> usize {
        self.relations[table.number()].rows.len()
    }

    /// All rows of a table.
    pub fn rows<R: Row>(&self, table: Table<R>) -> impl Iterator<Item = R> {
        self.relations[table.number()].rows.values().map(Stored::row)
    }

    /// Changes a row outside of transactions.
    pub fn corrupt<R: Row>(&mut self, table: Table<R>, key: &R::Key, change: impl FnOnce(&mut R)) {
        let relation = &mut self.relations[table.number()];
        let key = KeyBuffer::of(key);
        let mut row: R = relation.rows.get(&key).expect("the row exists").row();
        change(&mut row);
        relation.set(key, None);
        self.add(table, &row);
    }

    /// Removes a row outside of transactions.
    pub fn remove<R: Row>(&mut self, table: Table<R>, key: &R::Key) {
        let before = self.relations[table.number()].set(KeyBuffer::of(key), None);
        assert!(before.is_some(), "the row exists");
    }

    /// Adds a row outside of transactions.
    pub fn add<R: Row>(&mut self, table: Table<R>, row: &R) {
        self.relations[table.number()].set(KeyBuffer::of(&row.key()), Some(Stored::of(row)));
    }
}

impl Schema for Model {
    fn table<R: Row>(&mut self, name: &str, options: TableOptions) -> Table<R> {
        assert!(self.relations.iter().all(|relation| relation.name != name), "{name} is taken");
        assert!(options.kinds.len() <= R::INDEXES.len(), "{name} has fewer indexes");
        let leading = |index: &IndexInfo| index.columns[0];
        let alike = R::INDEXES.iter().all(|index| leading(index) == leading(&R::INDEXES[0]));
        assert!(
            alike || options.partitioning.is_none(),
            "{name}: entries in other partitions than their rows"
        );
        self.relations.push(Relation {
            name: name.to_owned(),
            options,
            rows: BTreeMap::new(),
            indexes: vec![BTreeMap::new(); R::INDEXES.len()],
            numbers: BTreeMap::new(),
        });
        Table::new(self.relations.len() - 1)
    }
}

impl Loader for Model {
    fn insert<R: Row>(&mut self, table: Table<R>, row: &R) -> Result<(), Abort> {
        let stored = Stored::of(row);
        let relation = &mut self.relations[table.number()];
        if let Some(index) = relation.duplicate(&stored) {
            return Err(Abort::duplicate(table.number(), index));
        }
        relation.set(stored.keys[0], Some(stored));
        Ok(())
    }
}

impl Inspector for Model {
    fn scan<R: Row, K: Key>(&mut self, index: Index<R, K>, low: &K, high: &K, visit: &mut dyn FnMut(&R)) {
        let relation = &self.relations[index.table().number()];
        // Hash indexes, too: an inspector may read everything.
        for (_, key) in relation.indexes[index.number()].range(KeyBuffer::of(low)..=KeyBuffer::of(high)) {
            visit(&relation.rows[key].row());
        }
    }

    fn row<R: Row, K: Key>(&mut self, index: Index<R, K>, key: &K) -> Option<R> {
        let relation = &self.relations[index.table().number()];
        let primary = relation.find(index.number(), &KeyBuffer::of(key))?;
        Some(relation.rows[&primary].row())
    }
}
