//! The platform costs nothing: hot functions of the engine on `Hardware` beside twins written by
//! hand on plain atomics.
//!
//! `cargo run --release -p isles-storage --example twins` prints paired times: rounds alternate
//! between the two, so that a slow moment of the machine hits both.
//! `twins NAME engine|twin ITERATIONS` runs one of them, for `.ci/twins`, which counts
//! instructions.
//!
//! | name | what |
//! | --- | --- |
//! | record | read four words under a `VersionLatch` |
//! | copy | `read_words` of eight words, and the check of the version, as a read of `silo` does |
//! | tree | `Tree::get` in a tree of one full leaf |
//! | hash | `HashIndex::get` of a key that is there |
//! | epoch | `Local::enter` while the epoch stands still |
//! | queue | `QueueLatch::acquire` and `release` without others |

// A benchmark reports on the machine, and compares with what the engine does not use.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod plain;

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::Instant;

use platform::{Hardware, HardwareCore, Platform, RegionBytes};
use storage::hash::{HashIndex, Spread, SpreadSecret};
use storage::latch::{QueueLatch, QueueNode, VersionLatch};
use storage::tree::{LeafChanges, MemoryNodes, NoGuard, Tree};
use storage::{Epochs, Local, Memory};

const NAMES: [&str; 6] = ["record", "copy", "tree", "hash", "epoch", "queue"];
const HASH_KEYS: u64 = 1024;

type Word = <Hardware as Platform>::Word;

/// Calls of each function in one round of the paired timing, and rounds.
const CALLS: u64 = 1_000_000;
const ROUNDS: usize = 41;

/// A version latch and what it protects, as the engine's side sees it.
#[repr(C, align(64))]
struct Record<const WORDS: usize> {
    latch: VersionLatch<Hardware>,
    words: [Word; WORDS],
}

impl<const WORDS: usize> Record<WORDS> {
    fn new(first: u64) -> Box<Self> {
        let words = std::array::from_fn(|index| Word::new(first + index as u64));
        Box::new(Record { latch: VersionLatch::new(VersionLatch::<Hardware>::INITIAL), words })
    }
}

/// One side of one function.
type Side<'a> = Box<dyn FnMut(u64) -> u64 + 'a>;

/// Memory and epochs, which outlive what lies in them.
struct World {
    c: HardwareCore,
    memory: Memory<Hardware>,
    epochs: Epochs<Hardware>,
    region: <Hardware as Platform>::Region,
    plain_epochs: plain::Epochs,
}

impl World {
    fn new() -> Self {
        let c = Hardware::core();
        World {
            c,
            memory: Memory::new(c, 1 << 30).expect("memory"),
            epochs: Epochs::new(c, 2, 0).expect("memory"),
            region: Hardware::region(c, None, 4096, "queue latch").expect("memory"),
            plain_epochs: plain::Epochs::new(2),
        }
    }

    fn local(&self) -> Local<Hardware> {
        // SAFETY: the world outlives the worker; there is one at a time.
        let mut local = unsafe { Local::new(&self.memory, &self.epochs, 0, None) };
        local.enter(self.c);
        local
    }

    /// The engine's side and the twin.
    fn sides(&self, name: &str) -> [Side<'_>; 2] {
        match name {
            "record" => self.record(),
            "copy" => self.copy(),
            "tree" => self.tree(),
            "hash" => self.hash(),
            "epoch" => self.epoch(),
            "queue" => self.queue(),
            other => panic!("no function {other:?}; one of {NAMES:?}"),
        }
    }

    fn record(&self) -> [Side<'_>; 2] {
        let c = self.c;
        let record = Record::<4>::new(10);
        let twin = Box::new(plain::Record::<4>::new(10));
        let engine = move |_| {
            let words = loop {
                let Ok(version) = record.latch.read_begin(c) else { continue };
                let words = [
                    Hardware::peek(&record.words[0]),
                    Hardware::peek(&record.words[1]),
                    Hardware::peek(&record.words[2]),
                    Hardware::peek(&record.words[3]),
                ];
                if record.latch.validate(c, version) {
                    break words;
                }
            };
            words.iter().sum()
        };
        [Box::new(engine), Box::new(move |_| twin.read().iter().sum())]
    }

    fn copy(&self) -> [Side<'_>; 2] {
        let c = self.c;
        let record = Record::<8>::new(20);
        let twin = Box::new(plain::Record::<8>::new(20));
        let (mut out, mut twin_out) = ([0; 8], [0; 8]);
        let engine = move |_| {
            let seen = VersionLatch::<Hardware>::INITIAL;
            let (out, version) = (black_box(&mut out[..]), record.latch.word());
            Hardware::read_words(c, black_box(&record.words[..]), out);
            Hardware::fence(c, Ordering::Acquire);
            assert!(Hardware::load(c, version, Ordering::Relaxed) == seen);
            out[7]
        };
        let twin = move |_| {
            let out = black_box(&mut twin_out[..]);
            assert!(plain::copy_if(&twin.version, black_box(&twin.words[..]), plain::INITIAL, out));
            out[7]
        };
        [Box::new(engine), Box::new(twin)]
    }

    fn tree(&self) -> [Side<'_>; 2] {
        let (c, mut local) = (self.c, self.local());
        let entries: Vec<(u64, u64)> = (0..plain::Leaf::CAPACITY as u64).map(|key| (key, key + 1)).collect();
        // SAFETY: the memory outlives the tree; its worker stays inside its epoch as long as the
        // tree lives.
        let tree: Tree<Hardware, MemoryNodes, 1> =
            unsafe { Tree::new(c, MemoryNodes, &mut local) }.expect("memory");
        assert_eq!(Tree::<Hardware, MemoryNodes, 1>::leaf_capacity(), entries.len());
        for (key, value) in &entries {
            tree.insert(c, &mut local, &[*key], *value, NoGuard, &mut LeafChanges::new()).expect("memory");
        }
        let leaf = plain::Leaf::new(&entries);
        let anchor = Box::new(plain::Anchor::new(&leaf));
        let engine = move |key| {
            let lookup = tree.get(c, &[key % 32]);
            let _ = &local;
            lookup.value.unwrap_or(0) ^ u64::from(black_box(&lookup.witness) as *const _ as usize == 0)
        };
        let twin = move |key| {
            let _ = &leaf;
            // SAFETY: the leaf was moved into this closure.
            let lookup = unsafe { anchor.get(key % 32) };
            lookup.value.unwrap_or(0) ^ u64::from(black_box(&lookup.witness) as *const _ as usize == 0)
        };
        [Box::new(engine), Box::new(twin)]
    }

    fn hash(&self) -> [Side<'_>; 2] {
        let (c, mut local) = (self.c, self.local());
        // The same each time, so that chains are as long each time.
        let factor = 0x9e37_79b9_7f4a_7c15;
        let (spread, secret) = (Spread::Mixed(HASH_KEYS), SpreadSecret::of(factor));
        // SAFETY: the memory outlives the sides.
        let index = unsafe { HashIndex::with_secret(c, &mut local, spread, secret) };
        let index = Box::new(index.expect("memory"));
        let entries: Vec<(u64, u64)> = (0..HASH_KEYS).map(|key| (key, key + 1)).collect();
        for (key, value) in &entries {
            index.insert(c, &mut local, *key, *value, || true).expect("memory");
        }
        let twin = Box::new(plain::Hash::new(HASH_KEYS, &entries, factor));
        let engine = move |key| {
            let lookup = index.get(c, key % HASH_KEYS);
            let _ = &local;
            lookup.value.unwrap_or(0) ^ u64::from(black_box(&lookup.witness) as *const _ as usize == 0)
        };
        let twin = move |key| {
            let lookup = twin.get(key % HASH_KEYS);
            lookup.value.unwrap_or(0) ^ u64::from(black_box(&lookup.witness) as *const _ as usize == 0)
        };
        [Box::new(engine), Box::new(twin)]
    }

    fn epoch(&self) -> [Side<'_>; 2] {
        let (c, mut local) = (self.c, self.local());
        let mut worker = Box::new(plain::Worker::new(&self.plain_epochs, 0));
        let engine = move |_| {
            local.enter(c);
            0
        };
        let twin = move |_| {
            worker.enter();
            0
        };
        [Box::new(engine), Box::new(twin)]
    }

    fn queue(&self) -> [Side<'_>; 2] {
        let c = self.c;
        // SAFETY: words only, on the first three lines of a zeroed region that the world keeps.
        let (latch, node) = unsafe {
            let base = self.region.base();
            (&*base.cast::<QueueLatch<Hardware>>(), &*base.add(64).cast::<QueueNode<Hardware>>())
        };
        let twin = Box::new((plain::Queue::default(), plain::Place::default()));
        let engine = move |_| {
            // SAFETY: the node stays in the region and is used for this latch only.
            unsafe {
                latch.acquire(c, node);
                latch.release(c, node);
            }
            0
        };
        let twin = move |_| {
            let (queue, place) = &*twin;
            // SAFETY: the place stays in its box.
            unsafe {
                queue.acquire(place);
                queue.release(place);
            }
            0
        };
        [Box::new(engine), Box::new(twin)]
    }
}

/// Calls one side over and over. `.ci/twins` counts instructions within this function, by its name.
#[inline(never)]
fn twins_run(side: &mut Side<'_>, calls: u64) -> u64 {
    (0..calls).fold(0u64, |sum, key| sum.wrapping_add(side(key)))
}

/// Nanoseconds a call.
fn time(side: &mut Side<'_>, calls: u64) -> f64 {
    let started = Instant::now();
    black_box(twins_run(side, calls));
    started.elapsed().as_nanos() as f64 / calls as f64
}

/// Prints, for each function, the median of the ratios of adjacent rounds, and their quartiles.
fn paired(calls: u64, rounds: usize) {
    println!("name     engine ns  twin ns  ratio  quartiles  ({rounds} pairs of {calls} calls)");
    for name in NAMES {
        let world = World::new();
        let [mut engine, mut twin] = world.sides(name);
        assert_eq!(twins_run(&mut engine, 100), twins_run(&mut twin, 100), "{name}: engine and twin differ");
        let mut samples = Vec::new();
        for round in 0..rounds {
            // Each goes first as often as the other.
            let pair = if round % 2 == 0 {
                let first = time(&mut engine, calls);
                (first, time(&mut twin, calls))
            } else {
                let first = time(&mut twin, calls);
                (time(&mut engine, calls), first)
            };
            samples.push(pair);
        }
        let quantile = |of: &dyn Fn(&(f64, f64)) -> f64, part: usize| {
            let mut values: Vec<f64> = samples.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[(values.len() - 1) * part / 4]
        };
        let ratio = |pair: &(f64, f64)| pair.0 / pair.1;
        println!(
            "{name:<8} {:>9.2} {:>8.2} {:>6.3}  {:.3} to {:.3}",
            quantile(&|pair| pair.0, 2),
            quantile(&|pair| pair.1, 2),
            quantile(&ratio, 2),
            quantile(&ratio, 1),
            quantile(&ratio, 3),
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => paired(CALLS, ROUNDS),
        ["names"] => println!("{}", NAMES.join(" ")),
        [name, side @ ("engine" | "twin"), calls] => {
            let world = World::new();
            let [mut engine, mut twin] = world.sides(name);
            let chosen = if *side == "engine" { &mut engine } else { &mut twin };
            black_box(twins_run(chosen, calls.parse().expect("ITERATIONS is a number")));
        }
        _ => panic!("usage: twins [names | NAME engine|twin ITERATIONS]"),
    }
}

#[test]
fn twins_small() {
    paired(1_000, 3);
}
