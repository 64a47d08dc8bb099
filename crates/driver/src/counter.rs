//! The counter experiment: no database, only latches.

use workloads::counter::{CounterSpec, CounterThread, run_counter};

use super::Companions;
use super::counted::Counted;
use super::setting::Setting;
use crate::choices::Counters;
use crate::config::CounterWorkload;
use crate::errors::Failure;
use crate::report::{Check, Kind, Latency, Measurement};

/// Runs it.
pub(super) fn run<P: Counted>(
    c: P::Core,
    options: &CounterWorkload,
    setting: &Setting,
    with: Companions<'_>,
) -> Result<Measurement, Failure> {
    let mut sockets = setting.sockets.clone();
    sockets.sort_unstable();
    sockets.dedup();
    let group = |thread: usize| match options.counters {
        Counters::Single => 0,
        Counters::Socket => sockets.iter().position(|socket| *socket == setting.sockets[thread]).unwrap_or(0),
        Counters::Core => thread,
    };
    let threads: Vec<CounterThread> = (0..setting.workers())
        .map(|thread| CounterThread {
            place: setting.places[thread],
            node: setting.nodes[thread],
            group: group(thread),
        })
        .collect();
    let groups = threads.iter().map(|thread| thread.group + 1).max().unwrap_or(1);
    // A counter lives where the first of its threads runs.
    let home =
        |group: usize| threads.iter().find(|thread| thread.group == group).and_then(|first| first.node);
    let counters = (0..groups).map(home).collect();
    let seconds = super::experiments::seconds(with.config.length);
    with.progress.running(seconds);
    let nanos = (seconds * 1e9) as u64;
    let result = run_counter::<P>(c, &CounterSpec { threads, counters, nanos }).map_err(Failure::of)?;
    let commits = result.operations.iter().sum();
    let exact = if result.is_exact() {
        Check::Ok
    } else {
        let sum: u64 = result.values.iter().sum();
        Check::Violated(format!("the counters add up to {sum} after {commits} increments"))
    };
    let kind = Kind { commits, aborts: 0, rollbacks: 0, latency_us: Latency::default() };
    let counts = P::counts(c);
    Ok(Measurement {
        machine_use: counts.machine_use(|_| Vec::new()),
        elapsed_seconds: result.elapsed_nanos as f64 / 1e9,
        kinds: vec![("increment", kind)],
        bin_seconds: result.elapsed_nanos as f64 / 1e9,
        bins: vec![commits],
        checks: vec![("counter_sum".to_owned(), exact)],
        interrupted: with.interrupt.requested(),
        counters: counts.counters,
        ..Measurement::default()
    })
}
