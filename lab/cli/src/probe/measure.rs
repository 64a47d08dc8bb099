//! The measurements, and their threads.

use std::io::{Seek, SeekFrom, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

use machine::{HardwareThread, Level, Topology};
use platform::link::Mechanism;
use platform::{Hardware, HardwareCore, Place, Platform};
use workloads::ipc::{IpcSpec, MESSAGE_BYTES, run_ipc};
use workloads::measure::{
    Repeats, atomic_nanos, clock_nanos, line_transfer_nanos, load_nanos, median, read_gbps, repeated_nanos,
};

use super::reads;
use super::types::{Channel, Effort, Flush, Point, Probe};
use crate::errors::Failure;

/// Smallest working set of the latency curve.
const SMALLEST_BYTES: usize = 16 << 10;
/// Reads of one repetition: about a millisecond from memory.
const READS: u64 = 10_000;
/// Round trips of one repetition between two threads.
const ROUND_TRIPS: u64 = 1_000;
/// About how long a round trip takes, to share out the time.
const ROUND_TRIP_NANOS: u64 = 400;
/// Bytes that each thread reads over and over when bandwidth is measured.
const BANDWIDTH_BYTES: usize = 64 << 20;
/// Chains of 100 additions in one repetition.
const CHAINS: u64 = 10_000;

fn place(thread: HardwareThread) -> Place {
    Place { thread: Some(thread) }
}

/// Measures everything.
pub(super) fn all(topology: &Topology, effort: Effort, directory: &Path) -> Result<Probe, Failure> {
    let c = Hardware::core();
    let threads = topology.hardware_threads();
    let first = *threads.first().ok_or_else(|| Failure::Failed("no hardware thread may be used".into()))?;
    say("clock and timer");
    let clock_ghz = clock_ghz(c, first, effort);
    let timer_ghz = Hardware::clock_is_invariant().then(|| timer_ghz(c));
    let timer_ns = clock_nanos::<Hardware>(c, place(first), 100_000);
    let repeats = Repeats { repetitions: 20 * effort.repetitions, runs: CHAINS };
    let atomic_ns = atomic_nanos::<Hardware>(c, place(first), repeats).map_err(Failure::of)?;
    let pause_ns = repeated_nanos::<Hardware>(c, place(first), repeats, &|_| std::hint::spin_loop());
    let core_to_core_ns = core_to_core(c, topology, effort)?;
    let load_curve = load_curve(c, topology, first, effort)?;
    let [l1, l2, l3] = [Level::L1Data, Level::L2, Level::L3].map(|level| cache_bytes(topology, level));
    let cache = |inner: usize, bytes: usize| plateau(&load_curve, 2 * inner..=bytes);
    let l1_ns = l1.and_then(|bytes| cache(0, bytes / 4 * 3));
    let l2_ns = l2.and_then(|bytes| cache(l1.unwrap_or(0), bytes / 2));
    // The L3 is shared with all other programs of the machine.
    let l3_ns = l3.and_then(|bytes| cache(l2.unwrap_or(0), bytes / 4));
    let (memory_ns, memory_gbps) = memories(c, topology, largest_bytes(topology, effort), effort)?;
    let ipc = ipc(c, topology, effort);
    say(&format!("flushes of a file in {}", directory.display()));
    let fsync = fsync(directory, effort);
    say(&format!("random reads of a file of {} MiB in {}", effort.file_bytes >> 20, directory.display()));
    let random_reads = reads::reads(directory, effort);
    Ok(Probe {
        version: env!("CARGO_PKG_VERSION"),
        processor: processor(topology),
        hardware_threads: threads.iter().map(|thread| thread.0).collect(),
        clock_ghz,
        timer_ghz,
        timer_ns,
        atomic_ns,
        pause_ns,
        core_to_core_ns,
        load_curve,
        l1_ns,
        l2_ns,
        l3_ns,
        nodes: topology.nodes().iter().map(|node| node.node.0).collect(),
        memory_ns,
        memory_gbps,
        ipc,
        fsync,
        random_reads,
        seconds: 0.0,
    })
}

/// The core's clock while it works, from additions of one cycle each.
fn clock_ghz(c: HardwareCore, thread: HardwareThread, effort: Effort) -> Option<f64> {
    let rates = Mutex::new(Vec::new());
    let worker = |c, _| {
        for _ in 0..20 * effort.repetitions {
            let start = Hardware::now(c);
            let counted = Hardware::dependent_additions(CHAINS);
            let nanos = Hardware::now(c).since(start).max(1);
            if let (true, Ok(mut rates)) = (counted, rates.lock()) {
                rates.push((100 * CHAINS) as f64 / nanos as f64);
            }
        }
    };
    Hardware::parallel(c, &[place(thread)], &worker, &mut |_| ());
    median(rates.into_inner().unwrap_or_default())
}

/// Ticks of the time stamp counter in a nanosecond.
fn timer_ghz(c: HardwareCore) -> f64 {
    let (start, ticks) = (Instant::now(), Hardware::timestamp(c));
    while start.elapsed().as_millis() < 20 {
        std::hint::spin_loop();
    }
    (Hardware::timestamp(c) - ticks) as f64 / start.elapsed().as_nanos() as f64
}

/// Every pair of threads, as often as the time allows.
fn core_to_core(
    c: HardwareCore,
    topology: &Topology,
    effort: Effort,
) -> Result<Vec<Vec<Option<f64>>>, Failure> {
    let threads = topology.hardware_threads();
    let mut matrix = vec![vec![None; threads.len()]; threads.len()];
    let pairs = (threads.len() * threads.len().saturating_sub(1) / 2).max(1) as u64;
    let repetitions = (effort.pairs_nanos / pairs / (ROUND_TRIPS * ROUND_TRIP_NANOS)).clamp(3, 301);
    say(&format!("lines between hardware threads, {pairs} pairs"));
    for (row, thread) in threads.iter().enumerate() {
        for (column, other) in threads.iter().enumerate().take(row) {
            let places = [place(*thread), place(*other)];
            let node = topology.node_of(*thread);
            let nanos = line_transfer_nanos::<Hardware>(c, places, node, repetitions, ROUND_TRIPS)
                .map_err(Failure::of)?;
            (matrix[row][column], matrix[column][row]) = (Some(nanos), Some(nanos));
        }
    }
    Ok(matrix)
}

/// Capacity of the first cache of a level, if known.
fn cache_bytes(topology: &Topology, level: Level) -> Option<usize> {
    let cache = topology.caches().iter().find(|cache| cache.level == level)?;
    usize::try_from(cache.bytes).ok().filter(|bytes| *bytes > 0)
}

/// A working set that no cache holds, and that the machine has memory for.
fn largest_bytes(topology: &Topology, effort: Effort) -> usize {
    let l3 = cache_bytes(topology, Level::L3).unwrap_or(0);
    let wanted = (effort.l3_multiple * l3).next_power_of_two().max(effort.largest_bytes);
    let memory = usize::try_from(topology.memory_bytes()).unwrap_or(usize::MAX);
    if memory == 0 { wanted } else { wanted.min(memory / 8).max(SMALLEST_BYTES) }
}

/// Loads from working sets of doubling size, with a size between.
fn load_curve(
    c: HardwareCore,
    topology: &Topology,
    thread: HardwareThread,
    effort: Effort,
) -> Result<Vec<Point>, Failure> {
    let largest = largest_bytes(topology, effort);
    say(&format!("loads from {} KiB to {} MiB", SMALLEST_BYTES >> 10, largest >> 20));
    let doubling = std::iter::successors(Some(SMALLEST_BYTES), |bytes| Some(bytes * 2));
    let sizes = doubling.flat_map(|bytes| [bytes, bytes / 2 * 3]).take_while(|bytes| *bytes <= largest);
    let node = topology.node_of(thread);
    sizes
        .map(|bytes| {
            let repeats = Repeats { repetitions: effort.repetitions, runs: READS };
            let nanos =
                load_nanos::<Hardware>(c, place(thread), node, bytes, repeats).map_err(Failure::of)?;
            Ok(Point { bytes, ns: nanos })
        })
        .collect()
}

/// The median latency of working sets of these sizes: too large for the cache below, and well
/// within their own.
fn plateau(curve: &[Point], sizes: RangeInclusive<usize>) -> Option<f64> {
    median(curve.iter().filter(|point| sizes.contains(&point.bytes)).map(|point| point.ns).collect())
}

type Matrix = Vec<Vec<f64>>;

/// Latency and bandwidth between all pairs of nodes.
fn memories(
    c: HardwareCore,
    topology: &Topology,
    bytes: usize,
    effort: Effort,
) -> Result<(Matrix, Matrix), Failure> {
    let nodes = topology.nodes();
    let (mut latency, mut bandwidth) = (Matrix::new(), Matrix::new());
    say(&format!("memory of {} nodes", nodes.len()));
    for from in nodes {
        let Some(first) = from.threads.first() else { continue };
        // One thread a core: siblings add nothing.
        let alone =
            |thread: &&HardwareThread| topology.thread(**thread).is_some_and(|info| info.sibling == 0);
        let places: Vec<Place> = from.threads.iter().filter(alone).map(|thread| place(*thread)).collect();
        let (mut latencies, mut bandwidths) = (Vec::new(), Vec::new());
        for to in nodes {
            let repeats = Repeats { repetitions: effort.repetitions, runs: READS };
            let nanos = load_nanos::<Hardware>(c, place(*first), Some(to.node), bytes, repeats);
            latencies.push(nanos.map_err(Failure::of)?);
            let each = BANDWIDTH_BYTES.min(bytes / places.len().max(1)).max(1 << 20);
            let rate = read_gbps::<Hardware>(c, &places, Some(to.node), each, effort.each_nanos);
            bandwidths.push(rate.map_err(Failure::of)?);
        }
        latency.push(latencies);
        bandwidth.push(bandwidths);
    }
    Ok((latency, bandwidth))
}

/// Messages between the first two cores.
fn ipc(c: HardwareCore, topology: &Topology, effort: Effort) -> Vec<Channel> {
    let threads = topology.threads();
    let first = &threads[0];
    let second = threads.iter().find(|info| info.core != first.core).or(threads.get(1));
    let measured = |(name, mechanism): (&'static str, Mechanism)| {
        let Some(second) = second else { return Err("the machine has one hardware thread".to_owned()) };
        say(&format!("messages, {name}"));
        let spec = IpcSpec {
            mechanism,
            message_bytes: MESSAGE_BYTES,
            places: [place(first.thread), place(second.thread)],
            nodes: [Some(first.node), Some(second.node)],
            wire: None,
            warm_up_nanos: effort.each_nanos / 10,
            nanos: effort.each_nanos,
        };
        let times = Mutex::new(Vec::new());
        let observe = |nanos: u64| {
            if let Ok(mut times) = times.lock() {
                times.push(nanos as f64 / 1e3);
            }
        };
        let result = run_ipc::<Hardware>(c, &spec, &observe, &|| false).map_err(|error| error.to_string())?;
        Ok((result.throughput(), median(times.into_inner().unwrap_or_default())))
    };
    let channel = |named: (&'static str, Mechanism)| match measured(named) {
        Ok((rate, round_trip_us)) => {
            Channel { mechanism: named.0, messages_per_second: Some(rate), round_trip_us, reason: None }
        }
        Err(reason) => Channel {
            mechanism: named.0,
            messages_per_second: None,
            round_trip_us: None,
            reason: Some(reason),
        },
    };
    Mechanism::ALL.into_iter().map(channel).collect()
}

/// Writes a page to a file and flushes it, over and over.
fn fsync(directory: &Path, effort: Effort) -> Flush {
    let path = directory.join(format!("isles-probe-{}", std::process::id()));
    let times = || -> std::io::Result<Vec<f64>> {
        let mut file = std::fs::File::create_new(&path)?;
        (0..effort.fsyncs)
            .map(|_| {
                file.seek(SeekFrom::Start(0))?;
                file.write_all(&[7; 4096])?;
                let start = Instant::now();
                file.sync_data()?;
                Ok(start.elapsed().as_nanos() as f64 / 1e3)
            })
            .collect()
    };
    let result = times();
    let _ = std::fs::remove_file(&path);
    let path = directory.to_owned();
    match result {
        Ok(mut times) => {
            times.sort_by(f64::total_cmp);
            let at = |percent: usize| times.get(times.len() * percent / 100).copied();
            Flush { path, p50_us: at(50), p99_us: at(99), reason: None }
        }
        Err(error) => Flush { path, p50_us: None, p99_us: None, reason: Some(error.to_string()) },
    }
}

/// Prints the current step on standard error.
fn say(what: &str) {
    // A closed standard error must not end the measurement.
    let _ = writeln!(std::io::stderr(), "isles: {what}");
}

/// The name of the machine's processors.
fn processor(topology: &Topology) -> String {
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let Some((_, model)) = model else { return String::new() };
    let sockets = topology.socket_count();
    if sockets > 1 { format!("{sockets} x {}", model.trim()) } else { model.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plateau_is_the_median_of_the_sizes_within_a_cache() {
        let curve = [(16, 1.0), (32, 2.0), (48, 9.0), (64, 2.5), (128, 7.0)];
        let curve = curve.map(|(bytes, ns)| Point { bytes, ns });
        assert_eq!(plateau(&curve, 0..=15), None);
        assert_eq!(plateau(&curve, 0..=16), Some(1.0));
        assert_eq!(plateau(&curve, 32..=64), Some(2.5), "one size that something disturbed does not count");
    }

    #[test]
    fn flushes_are_measured_and_leave_nothing_behind() {
        let directory = std::env::temp_dir().join(format!("isles-flush-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a scratch directory");
        let flush = fsync(&directory, crate::probe::types::QUICK);
        assert!(flush.p50_us.is_some() && flush.p50_us <= flush.p99_us, "{flush:?}");
        assert_eq!(std::fs::read_dir(&directory).expect("still there").count(), 0);
        std::fs::remove_dir(&directory).expect("empty");
        assert!(fsync(&directory, crate::probe::types::QUICK).reason.is_some(), "a directory that is gone");
    }
}
