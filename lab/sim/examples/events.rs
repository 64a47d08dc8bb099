//! Events that one host core simulates per second:
//! `cargo run --release -p isles-sim --example events [threads]`.
//!
//! A synthetic mix like a transaction: reads of random rows of a large table, a few writes, a
//! private counter, and from time to time a shared lock. One event is one atomic operation or one
//! line of a touch. The best of several rounds counts, because the host also runs other processes.

// A measurement of the host: it needs the host's clock.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Instant;

use platform::{Intent, Node, Place, Platform, RegionBytes, Work};
use sim::{Config, Counts, Shape, VirtualCore, VirtualMachine as Vm, VirtualRegion, VirtualWord};

const ROUNDS: usize = 5;
const ROWS: u64 = 1 << 20;
const ROW_WORDS: u64 = 16;
const ACCESSES: u64 = 16;
const LOCKS: u64 = 64;

fn words(region: &VirtualRegion) -> &[VirtualWord] {
    // SAFETY: zeroed memory of this length, which is a valid slice of words and lives as long as
    // the region.
    unsafe { std::slice::from_raw_parts(region.base().cast(), region.bytes() / 8) }
}

struct Data {
    rows: VirtualRegion,
    locks: VirtualRegion,
    counters: VirtualRegion,
}

fn transaction(c: VirtualCore, data: &Data, worker: usize, random: &mut u64) {
    let mut draw = |bound: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % bound
    };
    let rows = words(&data.rows);
    for access in 0..ACCESSES {
        let row = (draw(ROWS) * ROW_WORDS) as usize;
        Vm::work(c, Work::Hash, 1);
        let version = Vm::load(c, &rows[row], Acquire);
        let intent = if access % 4 == 0 { Intent::Write } else { Intent::Read };
        Vm::touch(c, &raw const rows[row + 8], 64, intent);
        Vm::work(c, Work::CopyWord, 8);
        if intent == Intent::Write {
            Vm::store(c, &rows[row], version + 1, Release);
        }
    }
    let lock = &words(&data.locks)[(draw(LOCKS) * 8) as usize];
    while Vm::swap(c, lock, 1, Acquire) != 0 {
        Vm::spin_while(c, lock, 1, None);
    }
    Vm::work(c, Work::Access, 4);
    Vm::store(c, lock, 0, Release);
    for _ in 0..8 {
        Vm::fetch_add(c, &words(&data.counters)[worker * 8], 1, AcqRel);
        Vm::load(c, &words(&data.counters)[worker * 8], Relaxed);
    }
    Vm::work(c, Work::Transaction, 1);
}

fn round(config: &Config, threads: usize, transactions: usize) -> (Counts, f64) {
    let mut seconds = 0.0;
    let outcome = Vm::run(config, |c| {
        let region =
            |words: u64, name| Vm::region(c, Some(Node(0)), words as usize * 8, name).expect("memory");
        let data = Data {
            rows: region(ROWS * ROW_WORDS, "rows"),
            locks: region(LOCKS * 8, "locks"),
            counters: region(threads as u64 * 8, "counters"),
        };
        let worker = |c, index: usize| {
            let mut random = index as u64 + 1;
            for _ in 0..transactions / threads {
                transaction(c, &data, index, &mut random);
            }
        };
        let places = vec![Place { thread: None }; threads];
        // The first run through the data commits the host's memory.
        Vm::parallel(c, &places, &worker, &mut |_| ());
        let before = Vm::statistics(c);
        let start = Instant::now();
        Vm::parallel(c, &places, &worker, &mut |_| ());
        seconds = start.elapsed().as_secs_f64();
        before.counts.events
    });
    let outcome = outcome.expect("a run");
    let mut counts = outcome.statistics.counts;
    counts.events -= outcome.value;
    (counts, seconds)
}

fn main() {
    let threads: usize =
        std::env::args().nth(1).map_or(80, |text| text.parse().expect("a number of threads"));
    let config = Config::new(Shape::new(8, threads.div_ceil(8), 1));
    let mut best = 0.0f64;
    for _ in 0..ROUNDS {
        let (counts, seconds) = round(&config, threads, 160_000);
        best = best.max(counts.events as f64 / seconds / 1e6);
        println!("{:.2} million events/s; {counts:?}", counts.events as f64 / seconds / 1e6);
    }
    println!("{threads} simulated cores: {best:.2} million events/s");
}

/// Simulates the same events every time, under a small load.
#[test]
fn events_small() {
    let config = Config::new(Shape::new(2, 4, 1));
    let (counts, _) = round(&config, 8, 400);
    assert!(counts.events > 400 * ACCESSES);
    assert_eq!(round(&config, 8, 400).0, counts);
}
