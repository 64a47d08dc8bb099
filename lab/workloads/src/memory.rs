//! The memory experiment: threads read rows that lie on a chosen node, each row naming the next one
//! (after the studies of central and remote memory in Porobic et al., "ATraPos", ICDE 2014, section
//! III, without a database). No miss overlaps another, so the time of a read is the latency of the
//! cache level or memory that holds the rows.
//!
//! Every thread has rows of its own, one line each, in one random cycle.

// The lock passes results to the caller: no engine runs here, and no simulated time passes under
// the lock.
#![allow(clippy::disallowed_types)]

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use platform::{LINE_BYTES, Node, OutOfMemory, Place, Platform, RegionBytes};

use terms::random::Random;

/// Reads between two reads of the clock.
pub const READS_PER_CLOCK_READ: u64 = 64;

/// One thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryThread {
    /// The hardware thread on which it runs.
    pub place: Place,
    /// The memory node of its rows; `None`: the node on which the caller runs.
    pub node: Option<Node>,
}

/// Parameters of the experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// The threads.
    pub threads: Vec<MemoryThread>,
    /// Rows of each thread, at least one.
    pub rows: u64,
    /// Seed of the order of rows.
    pub seed: u64,
    /// Time before measuring.
    pub warm_up_nanos: u64,
    /// Duration of the measurement.
    pub nanos: u64,
}

/// Result of the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryResult {
    /// Rows read by each thread while measuring.
    pub reads: Vec<u64>,
    /// From the beginning of the measurement of the first thread to the end of the last.
    pub elapsed_nanos: u64,
}

impl MemoryResult {
    /// Rows read by all threads in a second.
    pub fn throughput(&self) -> f64 {
        self.reads.iter().sum::<u64>() as f64 * 1e9 / self.elapsed_nanos.max(1) as f64
    }
}

/// Rows of one line each, in one random cycle: each row contains the offset of the next one in
/// bytes, so that only the reads take time.
pub struct Rows<P: Platform> {
    region: P::Region,
}

impl<P: Platform> Rows<P> {
    /// `count` rows on `node`.
    pub fn new(c: P::Core, node: Option<Node>, count: u64, random: &mut Random) -> Result<Self, OutOfMemory> {
        let bytes = usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(LINE_BYTES);
        let region = P::region(c, node, bytes, "rows")?;
        P::populate(c, region.base(), bytes);
        let rows = Rows { region };
        (0..count).for_each(|row| P::poke(rows.word(row), row * LINE_BYTES as u64));
        // Sattolo's algorithm: exchanging each with an earlier one leaves a single cycle.
        for row in (1..count).rev() {
            let other = random.below(row);
            let (next, others) = (P::peek(rows.word(row)), P::peek(rows.word(other)));
            P::poke(rows.word(row), others);
            P::poke(rows.word(other), next);
        }
        Ok(rows)
    }

    fn word(&self, row: u64) -> &P::Word {
        P::word_of(&self.region, row as usize * LINE_BYTES)
    }

    /// Reads `reads` rows from the offset `at` on, which is 0 or the result of an earlier call;
    /// returns the offset after them.
    #[inline]
    pub fn chase(&self, c: P::Core, mut at: u64, reads: u64) -> u64 {
        for _ in 0..reads {
            // Relaxed: no thread writes.
            at = P::load(c, P::word_of(&self.region, at as usize), Ordering::Relaxed);
        }
        at
    }
}

/// Runs the experiment. `observe` receives a thread's number and the nanoseconds of
/// [`READS_PER_CLOCK_READ`] reads, on that thread; `stop` is called after each such batch, and ends
/// the run early if it returns true.
pub fn run_memory<P: Platform>(
    c: P::Core,
    spec: &MemorySpec,
    observe: &(dyn Fn(usize, u64) + Sync),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<MemoryResult, OutOfMemory> {
    let rows = spec.threads.iter().enumerate().map(|(index, thread)| {
        Rows::<P>::new(c, thread.node, spec.rows.max(1), &mut Random::new(spec.seed, index as u64))
    });
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let results = Mutex::new(vec![(0, 0, 0); spec.threads.len()]);
    let worker = |c, index: usize| {
        let mut at = 0;
        let warm_up_ends = P::now(c).plus(spec.warm_up_nanos);
        while P::now(c) < warm_up_ends && !stop() {
            at = rows[index].chase(c, at, READS_PER_CLOCK_READ);
        }
        let begin = P::now(c);
        let end = begin.plus(spec.nanos);
        let (mut now, mut reads) = (begin, 0);
        while now < end && !stop() {
            at = rows[index].chase(c, at, READS_PER_CLOCK_READ);
            reads += READS_PER_CLOCK_READ;
            let after = P::now(c);
            observe(index, after.since(now));
            now = after;
        }
        std::hint::black_box(at);
        if let Ok(mut results) = results.lock() {
            results[index] = (reads, begin.0, now.0);
        }
    };
    let places: Vec<Place> = spec.threads.iter().map(|thread| thread.place).collect();
    P::parallel(c, &places, &worker, &mut |_| ());
    let results = results.into_inner().unwrap_or_default();
    let begin = results.iter().map(|(_, begin, _)| *begin).min().unwrap_or(0);
    let end = results.iter().map(|(_, _, end)| *end).max().unwrap_or(0);
    let reads = results.into_iter().map(|(reads, _, _)| reads).collect();
    Ok(MemoryResult { reads, elapsed_nanos: end - begin })
}

#[cfg(test)]
mod tests {
    use platform::{Hardware, HardwareThread};
    use sim::{Config, Shape, VirtualMachine};

    use super::*;

    /// Nanoseconds of a read by core 0 of a machine with two sockets.
    fn read_nanos(node: u32, rows: u64) -> f64 {
        let thread =
            MemoryThread { place: Place { thread: Some(HardwareThread(0)) }, node: Some(Node(node)) };
        let spec =
            MemorySpec { threads: vec![thread], rows, seed: 1, warm_up_nanos: 3_000_000, nanos: 500_000 };
        let config = Config::new(Shape::new(2, 2, 1));
        let outcome =
            VirtualMachine::run(&config, |c| run_memory::<VirtualMachine>(c, &spec, &|_, _| (), &|| false));
        1e9 / outcome.expect("the run ends").value.expect("memory").throughput()
    }

    #[test]
    fn remote_memory_is_slower_and_caches_are_faster() {
        let (local, remote, cached) = (read_nanos(0, 1 << 20), read_nanos(1, 1 << 20), read_nanos(0, 1 << 8));
        assert!(remote > 1.3 * local && local > 10.0 * cached, "{local} {remote} {cached}");
    }

    #[test]
    fn rows_are_one_cycle() {
        let c = Hardware::core();
        for count in [1, 2, 3, 1000] {
            let rows = Rows::<Hardware>::new(c, None, count, &mut Random::new(7, count)).expect("memory");
            let mut seen = vec![false; count as usize];
            let mut at = 0;
            for _ in 0..count {
                let row = at as usize / LINE_BYTES;
                assert!(!std::mem::replace(&mut seen[row], true), "{count}: row {row} came twice");
                at = rows.chase(c, at, 1);
            }
            assert_eq!(at, 0, "{count}: the cycle closes");
        }
    }

    #[test]
    fn hardware_reads() {
        let thread = MemoryThread { place: Place { thread: None }, node: None };
        let spec = MemorySpec {
            threads: vec![thread; 2],
            rows: 100,
            seed: 1,
            warm_up_nanos: 100_000,
            nanos: 2_000_000,
        };
        let result = run_memory::<Hardware>(Hardware::core(), &spec, &|_, _| (), &|| false).expect("memory");
        assert!(result.reads.iter().all(|reads| *reads > 0), "{result:?}");
    }
}
