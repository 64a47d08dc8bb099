//! The primitives: operations that transactions perform often on one core, each dominated by one
//! kind of work.
//!
//! None of them is a benchmark: micro, YCSB and TPC-C test the calibrated model.

use std::hint::black_box;
use std::sync::atomic::Ordering;

use boundary::{Bounds, RowLoader, SchemaBuilder, Verbs};
use concurrency::{InstanceOptions, Silo};
use engine::MemoryDatabase;
use platform::{Intent, Place, Platform, Work};
use schema::{HashPlan, IndexKind, Row, Schema, Table, TableOptions};
use storage::hash::{HashIndex, Spread};
use storage::latch::VersionLatch;
use storage::tree::{LeafChanges, MemoryNodes, NoGuard, Tree};
use storage::{Epochs, Local, Memory};
use terms::random::Random;

pub const ROW_COPY: &str = "copy of a row of 256 bytes";
pub const RANDOM: &str = "random number";
pub const STEP: &str = "step";
pub const TREE_SMALL: &str = "tree lookup, 1,000 keys";
pub const TREE_LARGE: &str = "tree lookup, 100,000 keys";
pub const HASH: &str = "hash-index lookup, 1,000 keys";
pub const LATCH: &str = "latch";
pub const CLOCK: &str = "read of the clock";
pub const ATOMIC: &str = "addition to a word";
pub const EMPTY: &str = "empty transaction";
pub const ONE_ROW: &str = "transaction that reads one row";

const MEMORY_BYTES: u64 = 1 << 28;

/// Measures a primitive: receives its name and a function that runs it a given number of times.
pub type Measure<'a, P> = &'a mut dyn FnMut(<P as Platform>::Core, &'static str, &mut dyn FnMut(u32));

/// As [`Measure`], shared with the thread that runs the primitives.
pub type MeasureShared<'a, P> = &'a (dyn Fn(<P as Platform>::Core, &'static str, &mut dyn FnMut(u32)) + Sync);

/// Runs all primitives on the core of `place`.
pub fn run<P: Platform>(c: P::Core, place: Place, measure: MeasureShared<'_, P>) {
    P::parallel(
        c,
        &[place],
        &|c, _| {
            let mut each = |c, name, run: &mut dyn FnMut(u32)| measure(c, name, run);
            plain::<P>(c, &mut each);
            indexes::<P>(c, &mut each);
            transactions::<P>(c, &mut each);
        },
        &mut |_| (),
    );
}

/// Runs the primitives that need no engine.
fn plain<P: Platform>(c: P::Core, measure: Measure<'_, P>) {
    let region = P::region(c, None, 4096, "rows").expect("memory");
    let words: Vec<&P::Word> = (0..32).map(|word| P::word_of(&region, word * 8)).collect();
    let mut row = [0u64; 32];
    measure(c, ROW_COPY, &mut |times| {
        for _ in 0..times {
            P::touch(c, words[0], 256, Intent::Read);
            for (slot, word) in row.iter_mut().zip(&words) {
                *slot = P::peek(word);
            }
            P::work(c, Work::CopyWord, 32);
            black_box(&mut row);
        }
    });
    let mut random = Random::new(1, 1);
    let mut sum = 0;
    measure(c, RANDOM, &mut |times| {
        for _ in 0..times {
            sum += random.between(1, 3000);
            P::work(c, Work::Random, 1);
        }
    });
    let mut value = black_box(1u64);
    let limit = black_box(1_000_000u64);
    measure(c, STEP, &mut |times| {
        for _ in 0..times {
            // Depends on the value before, as an account's balance does.
            value = if value > limit { value - limit } else { value.wrapping_mul(3) + 1 };
            P::work(c, Work::Step, 1);
        }
    });
    black_box((sum, value));
    measure(c, ATOMIC, &mut |times| {
        for _ in 0..times {
            P::fetch_add(c, words[0], 1, Ordering::AcqRel);
        }
    });
    let mut last = 0;
    measure(c, CLOCK, &mut |times| {
        for _ in 0..times {
            last = black_box(P::now(c)).0;
        }
    });
    black_box(last);
    let latch = VersionLatch::<P>::from_word(P::word_of(&region, 512));
    measure(c, LATCH, &mut |times| {
        for _ in 0..times {
            let version = latch.acquire(c).expect("not obsolete");
            latch.unlock_changed(c, version);
        }
    });
}

/// Random keys: neighbours in time are not neighbours in the tree.
fn random_keys(count: u64) -> Vec<u64> {
    let mut random = Random::new(7, count);
    (0..count).map(|_| random.next()).collect()
}

/// Runs lookups, each of which depends on the one before, as in a transaction that needs the row to
/// continue.
fn indexes<P: Platform>(c: P::Core, measure: Measure<'_, P>) {
    let memory = Memory::<P>::new(c, MEMORY_BYTES).expect("memory");
    let epochs = Epochs::<P>::new(c, 2, 0).expect("memory");
    // SAFETY: memory and epochs are declared first and so outlive the worker, whose number is used
    // once.
    let mut local = unsafe { Local::new(&memory, &epochs, 0, None) };
    local.enter(c);
    // Unknown to the compiler, so that a lookup needs the result of the one before.
    let zero = black_box(0u64);
    for (name, count) in [(TREE_SMALL, 1_000), (TREE_LARGE, 100_000)] {
        let keys = random_keys(count);
        // SAFETY: the memory outlives the tree, and the worker stays inside its epoch.
        let tree = unsafe { Tree::<P, MemoryNodes, 1>::new(c, MemoryNodes, &mut local) }.expect("memory");
        let mut changes = LeafChanges::new();
        for key in &keys {
            tree.insert(c, &mut local, &[*key], key | 1, NoGuard, &mut changes).expect("memory");
            changes.clear();
        }
        let (mut at, mut last) = (0, 0);
        measure(c, name, &mut |times| {
            for _ in 0..times {
                last = tree.get(c, &[keys[at] ^ last]).value.map_or(0, |value| value & zero);
                at = (at + 1) % keys.len();
            }
        });
        black_box(last);
    }
    let keys = random_keys(1_000);
    // SAFETY: the memory outlives the index.
    let index = unsafe { HashIndex::new(c, &mut local, Spread::Mixed(keys.len() as u64)) }.expect("memory");
    for key in &keys {
        index.insert(c, &mut local, *key, key | 1, || true).expect("memory");
    }
    let (mut at, mut last) = (0, 0);
    measure(c, HASH, &mut |times| {
        for _ in 0..times {
            last = index.get(c, keys[at] ^ last).value.map_or(0, |value| value & zero);
            at = (at + 1) % keys.len();
        }
    });
    black_box(last);
    local.leave(c);
}

/// A row of the size that the studies use.
#[derive(Row, Clone, Debug, PartialEq)]
#[row(key(id))]
struct Item {
    id: u64,
    amount: u64,
    body: [u64; 29],
}

const ITEMS: u64 = 1_000;

/// Runs transactions on the engine: empty ones, and ones that read one row.
fn transactions<P: Platform>(c: P::Core, measure: Measure<'_, P>) {
    let mut schema = SchemaBuilder::new();
    let kinds = vec![IndexKind::Hash(HashPlan::Mixed)];
    let items: Table<Item> =
        schema.table("item", TableOptions { rows: ITEMS, kinds, ..TableOptions::default() });
    let options =
        InstanceOptions { sessions_max: 4, memory_bytes_max: MEMORY_BYTES, ..InstanceOptions::default() };
    let database = MemoryDatabase::<P, Silo>::create(c, &options, schema, &|_| None).expect("memory");
    let mut session = database.session(c, None, false).expect("a session");
    let mut progress = |_| ();
    let mut loader = RowLoader::new(&mut session, &mut progress);
    for id in 0..ITEMS {
        let row = Item { id, amount: id, body: [id; 29] };
        schema::Loader::insert(&mut loader, items, &row).expect("a new key");
    }
    loader.finish();
    let bounds = Bounds::default();
    measure(c, EMPTY, &mut |times| {
        for _ in 0..times {
            session.transact(&bounds, |_| Ok(())).expect("it commits");
        }
    });
    let (mut id, mut sum) = (0, 0u64);
    measure(c, ONE_ROW, &mut |times| {
        for _ in 0..times {
            let mut amount = 0;
            let ending = session.transact(&bounds, |transaction| {
                if let Some(row) = transaction.find(items.primary(), &id, Intent::Read)? {
                    amount = transaction.get(row, Item::AMOUNT)?;
                }
                Ok(())
            });
            ending.expect("it commits");
            sum = sum.wrapping_add(amount);
            id = (id + 389) % ITEMS;
        }
    });
    black_box(sum);
}
