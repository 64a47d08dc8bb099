//! Measuring primitives of a machine, written once over [`Platform`]: on hardware they measure the
//! machine, and in the virtual machine they show the times that the cost model derives from a
//! description.

// The lock passes results to the caller: no engine runs here, and no simulated time passes under
// the lock.
#![allow(clippy::disallowed_types)]

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use platform::{Intent, LINE_BYTES, Nanos, Node, OutOfMemory, Place, Platform, RegionBytes};

use crate::memory::Rows;
use terms::random::Random;

/// Bytes read at once when bandwidth is measured.
const CHUNK_BYTES: usize = 4096;
/// Chunks read between two reads of the clock.
const CHUNKS_PER_CLOCK_READ: u64 = 64;

/// The numbers of runs of a measured action.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// Measurements, of which the median counts.
    pub repetitions: u64,
    /// Runs of the action in one measurement.
    pub runs: u64,
}

/// The median of some values (the upper one of two in the middle); `None` if there are none.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Nanoseconds in which a modified line is transferred from one hardware thread to another: half of
/// a round trip, in which each of two threads changes the line by compare and swap as soon as the
/// other thread has done so. The median of `repetitions` of `round_trips` each.
///
/// Source: the method of the tool behind the published core-to-core matrices
/// (github.com/nviennot/core-to-core-latency).
pub fn line_transfer_nanos<P: Platform>(
    c: P::Core,
    places: [Place; 2],
    node: Option<Node>,
    repetitions: u64,
    round_trips: u64,
) -> Result<f64, OutOfMemory> {
    let region = P::region(c, node, 2 * LINE_BYTES, "ping")?;
    let line = || P::word_of(&region, 0);
    let turns = (1 + repetitions) * round_trips;
    let times = Mutex::new(Vec::new());
    // AcqRel: pairs with the other thread's. Fails until it is this thread's turn.
    let pass = |c, from: u64| while P::cas(c, line(), from, from + 1, Ordering::AcqRel).is_err() {};
    let worker = |c, side: usize| {
        if side == 1 {
            (0..turns).for_each(|turn| pass(c, 2 * turn + 1));
            return;
        }
        // The first repetition begins with waiting for the other thread.
        (0..round_trips).for_each(|turn| pass(c, 2 * turn));
        for repetition in 1..=repetitions {
            let start = P::now(c);
            (0..round_trips).for_each(|turn| pass(c, 2 * (repetition * round_trips + turn)));
            let nanos = P::now(c).since(start);
            if let Ok(mut times) = times.lock() {
                times.push(nanos as f64 / (2 * round_trips) as f64);
            }
        }
    };
    P::parallel(c, &places, &worker, &mut |_| ());
    Ok(median(times.into_inner().unwrap_or_default()).unwrap_or(f64::NAN))
}

/// Nanoseconds of a load from `bytes` bytes on `node` in random order, each load after the one
/// before it: the median of `repeats`, after every line was read once.
pub fn load_nanos<P: Platform>(
    c: P::Core,
    place: Place,
    node: Option<Node>,
    bytes: usize,
    repeats: Repeats,
) -> Result<f64, OutOfMemory> {
    let count = (bytes / LINE_BYTES).max(1) as u64;
    let rows = Rows::<P>::new(c, node, count, &mut Random::new(1, count))?;
    let times = Mutex::new(Vec::new());
    let worker = |c, _| {
        let mut at = rows.chase(c, 0, count.min(1 << 22));
        for _ in 0..repeats.repetitions {
            let start = P::now(c);
            at = rows.chase(c, at, repeats.runs);
            let nanos = P::now(c).since(start);
            if let Ok(mut times) = times.lock() {
                times.push(nanos as f64 / repeats.runs as f64);
            }
        }
        std::hint::black_box(at);
    };
    P::parallel(c, &[place], &worker, &mut |_| ());
    Ok(median(times.into_inner().unwrap_or_default()).unwrap_or(f64::NAN))
}

/// Bytes per nanosecond with which threads at `places` together read `node`, each `bytes` bytes of
/// its own over and over.
pub fn read_gbps<P: Platform>(
    c: P::Core,
    places: &[Place],
    node: Option<Node>,
    bytes: usize,
    nanos: u64,
) -> Result<f64, OutOfMemory> {
    let bytes = bytes.max(1).next_multiple_of(CHUNK_BYTES);
    let regions = places.iter().map(|_| P::region(c, node, bytes, "bandwidth"));
    let regions = regions.collect::<Result<Vec<_>, _>>()?;
    for region in &regions {
        P::populate(c, region.base(), bytes);
    }
    let rates = Mutex::new(Vec::new());
    let worker = |c, index: usize| {
        let start: Nanos = P::now(c);
        let (mut now, mut read, mut at, mut sum) = (start, 0u64, 0, 0u64);
        while now.since(start) < nanos {
            for _ in 0..CHUNKS_PER_CLOCK_READ {
                P::touch(c, P::word_of(&regions[index], at), CHUNK_BYTES, Intent::Read);
                // Reads one word of each line, because the processor fetches whole lines.
                let lines = (at..at + CHUNK_BYTES).step_by(LINE_BYTES);
                sum = lines.fold(sum, |sum, at| sum.wrapping_add(P::peek(P::word_of(&regions[index], at))));
                at = (at + CHUNK_BYTES) % bytes;
            }
            read += CHUNKS_PER_CLOCK_READ * CHUNK_BYTES as u64;
            now = P::now(c);
        }
        std::hint::black_box(sum);
        if let Ok(mut rates) = rates.lock() {
            rates.push(read as f64 / now.since(start).max(1) as f64);
        }
    };
    P::parallel(c, places, &worker, &mut |_| ());
    Ok(rates.into_inner().unwrap_or_default().into_iter().sum())
}

/// Nanoseconds of reading the platform's clock.
pub fn clock_nanos<P: Platform>(c: P::Core, place: Place, reads: u64) -> f64 {
    let result = Mutex::new(f64::NAN);
    let worker = |c, _| {
        let start = P::now(c);
        let mut last = start;
        (0..reads).for_each(|_| last = P::now(c));
        if let Ok(mut result) = result.lock() {
            *result = last.since(start) as f64 / reads as f64;
        }
    };
    P::parallel(c, &[place], &worker, &mut |_| ());
    result.into_inner().unwrap_or(f64::NAN)
}

/// Nanoseconds of an atomic addition to a word in the core's own L1, each after the one before it:
/// the median of `repeats`.
pub fn atomic_nanos<P: Platform>(c: P::Core, place: Place, repeats: Repeats) -> Result<f64, OutOfMemory> {
    let region = P::region(c, None, LINE_BYTES, "atomic")?;
    let word = || P::word_of(&region, 0);
    let once = |c| _ = P::fetch_add(c, word(), 1, Ordering::AcqRel);
    Ok(repeated_nanos::<P>(c, place, repeats, &once))
}

/// Nanoseconds of one call of an action: the median of `repeats`.
pub fn repeated_nanos<P: Platform>(
    c: P::Core,
    place: Place,
    repeats: Repeats,
    action: &(dyn Fn(P::Core) + Sync),
) -> f64 {
    let times = Mutex::new(Vec::new());
    let worker = |c, _| {
        for _ in 0..=repeats.repetitions {
            let start = P::now(c);
            (0..repeats.runs).for_each(|_| action(c));
            let nanos = P::now(c).since(start);
            if let Ok(mut times) = times.lock() {
                times.push(nanos as f64 / repeats.runs as f64);
            }
        }
    };
    P::parallel(c, &[place], &worker, &mut |_| ());
    median(times.into_inner().unwrap_or_default()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use machine::{Access, LineState};
    use platform::HardwareThread;
    use sim::{Config, Shape, VirtualMachine};

    use super::*;

    fn place(thread: u32) -> Place {
        Place { thread: Some(HardwareThread(thread)) }
    }

    /// Runs on a machine with two sockets of two cores.
    fn simulate<T: Send>(program: impl FnOnce(sim::VirtualCore) -> T) -> T {
        VirtualMachine::run(&Config::new(Shape::new(2, 2, 1)), program).expect("the run ends").value
    }

    #[test]
    fn a_simulated_machine_measures_as_described() {
        let model = Config::new(Shape::new(2, 2, 1)).model;
        let costs = model.costs();
        let nanos = |picos: u64| picos as f64 / 1000.0;
        let near = |measured: f64, described: f64| (measured / described - 1.0).abs() < 0.35;
        let transfer = |other: u32| {
            simulate(|c| {
                line_transfer_nanos::<VirtualMachine>(c, [place(0), place(other)], Some(Node(0)), 5, 50)
            })
            .expect("memory")
        };
        // A compare and swap that fails takes the line too, so transfers come out somewhat slower.
        let (same, other) = (transfer(1), transfer(2));
        let line = |holder: u32| {
            let (requester, holder) = (HardwareThread(0), HardwareThread(holder));
            let cost = model.transfer_ps(Access::Atomic, LineState::Modified, requester, holder);
            nanos(cost.expect("threads of the machine"))
        };
        assert!(near(same, line(1)), "{same}");
        assert!(near(other, line(2)) && other > 2.0 * same, "{same} {other}");
        let load = |node: u32, bytes: usize| {
            simulate(|c| {
                load_nanos::<VirtualMachine>(
                    c,
                    place(0),
                    Some(Node(node)),
                    bytes,
                    Repeats { repetitions: 3, runs: 2_000 },
                )
            })
            .expect("memory")
        };
        assert!(near(load(0, 16 << 10), nanos(costs.l1_ps)), "{}", load(0, 16 << 10));
        let atomic = simulate(|c| {
            atomic_nanos::<VirtualMachine>(c, place(0), Repeats { repetitions: 5, runs: 1_000 })
        })
        .expect("memory");
        assert!((atomic / nanos(costs.atomic_ps) - 1.0).abs() < 0.01, "{atomic}");
        let clock = simulate(|c| clock_nanos::<VirtualMachine>(c, place(0), 100));
        assert!(near(clock, nanos(costs.clock_ps)), "{clock}");
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(4.0));
    }
}
