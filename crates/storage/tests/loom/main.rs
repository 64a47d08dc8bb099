//! Models of latches, links, reclamation and the indexes, explored by loom with every reordering
//! that their orderings allow.
//!
//! Each model runs as written, and with one kind of operation weakened everywhere, which it must
//! catch. Bounds are small enough for every test run;
//! `LOOM_MAX_PREEMPTIONS=5 cargo test -p isles-storage --test loom` goes further.

// loom switches between stacks in ways that Miri does not know.
#![cfg(not(miri))]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod hash;
mod latches;
mod links;
mod platform;
mod reclamation;
mod tree;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::platform::{LINE_BYTES, Platform, RegionBytes};
use storage::{Epochs, Local, Memory};

use crate::platform::{LoomCore, LoomPlatform, LoomRegion, Weakening, declare};

/// Counts, over all executions of a model, how often a state was reached.
#[derive(Clone, Default)]
struct Mark(Arc<AtomicUsize>);

impl Mark {
    fn hit(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn assert_reached(&self, state: &str) {
        assert!(self.0.load(Ordering::Relaxed) > 0, "no execution reached this: {state}");
    }
}

/// Lines of words.
struct Shared {
    region: LoomRegion,
}

impl Shared {
    fn new<O: Weakening>(c: LoomCore, lines: usize) -> Arc<Self> {
        let region = LoomPlatform::<O>::region(c, None, lines * LINE_BYTES, "model").expect("memory");
        declare(lines * LINE_BYTES);
        Arc::new(Shared { region })
    }

    fn at<T>(&self, line: usize) -> &T {
        assert!(size_of::<T>() <= LINE_BYTES && (line + 1) * LINE_BYTES <= self.region.bytes());
        // SAFETY: models ask for types made of words only; the region was zeroed.
        unsafe { &*self.region.base().add(line * LINE_BYTES).cast::<T>() }
    }
}

/// Memory and epochs of one database.
struct World<O: Weakening> {
    memory: Memory<LoomPlatform<O>>,
    epochs: Epochs<LoomPlatform<O>>,
}

impl<O: Weakening> World<O> {
    fn new(c: LoomCore, workers: usize) -> Arc<Self> {
        let memory = Memory::new(c, 1 << 30).expect("memory");
        Arc::new(World { memory, epochs: Epochs::new(c, workers, 0).expect("memory") })
    }

    /// Worker `worker`, idle.
    fn local(&self, worker: usize) -> Local<LoomPlatform<O>> {
        // SAFETY: each thread of a model holds the world longer than its worker; each number is
        // used once.
        unsafe { Local::new(&self.memory, &self.epochs, worker, None) }
    }
}
