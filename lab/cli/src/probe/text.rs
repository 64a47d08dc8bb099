//! The measurements for people.

use std::fmt::Write;

use machine::Topology;

use super::types::{Channel, Probe};
use crate::bad_input::one_line;
use crate::numbers::si;

/// Most hardware threads whose matrix fits a terminal.
const MATRIX_THREADS_MAX: usize = 16;
/// Columns of a label.
const LABEL_COLUMNS: usize = 15;

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string cannot fail");
}

fn line(text: &mut String, label: &str, value: &str) {
    push(text, format_args!("  {label:<LABEL_COLUMNS$}{value}\n"));
}

/// A number with one decimal, or a dash.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

/// The whole report, ending with a line break.
pub(super) fn render(probe: &Probe, topology: &Topology, out: Option<&str>) -> String {
    let mut text = format!("isles probe: {}\n", one_line(&probe.processor));
    let ghz = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), |ghz| format!("{ghz:.2} GHz"));
    line(&mut text, "core clock", &ghz(probe.clock_ghz));
    let timer = format!("{}, read in {:.1} ns", ghz(probe.timer_ghz), probe.timer_ns);
    line(&mut text, "timer", &timer);
    let core = format!("atomic on an own line {:.1} ns, pause {:.1} ns", probe.atomic_ns, probe.pause_ns);
    line(&mut text, "core", &core);
    let (l1, l2, l3) = (number(probe.l1_ns), number(probe.l2_ns), number(probe.l3_ns));
    line(&mut text, "loads", &format!("L1 {l1} ns, L2 {l2} ns, L3 {l3} ns"));
    for (row, from) in probe.nodes.iter().enumerate() {
        let cells = |matrix: &[Vec<f64>], unit: &str| {
            let cells = probe.nodes.iter().zip(&matrix[row]);
            let cells: Vec<String> = cells.map(|(to, value)| format!("{to}: {value:.1} {unit}")).collect();
            cells.join(", ")
        };
        if row < probe.memory_ns.len() {
            line(&mut text, &format!("memory of {from}"), &cells(&probe.memory_ns, "ns"));
            line(&mut text, "", &cells(&probe.memory_gbps, "GB/s"));
        }
    }
    curve(&mut text, probe);
    matrix(&mut text, probe, topology);
    text.push_str("\n  messages of 256 bytes to and fro\n");
    probe.ipc.iter().for_each(|channel| message(&mut text, channel));
    let flush = match &probe.fsync.reason {
        Some(reason) => one_line(reason),
        None => format!("p50 {} us, p99 {} us", number(probe.fsync.p50_us), number(probe.fsync.p99_us)),
    };
    push(&mut text, format_args!("\n"));
    line(&mut text, "fsync", &format!("{flush} in {}", one_line(&probe.fsync.path.display().to_string())));
    let reads = match &probe.random_reads.reason {
        Some(reason) => one_line(reason),
        None => {
            let depths = probe.random_reads.depths.iter();
            let depths = depths.map(|at| format!("{} at a time: {}/s", at.depth, si(at.per_second).trim()));
            depths.collect::<Vec<_>>().join(", ")
        }
    };
    line(&mut text, "random reads", &format!("of {} KiB, {reads}", probe.random_reads.page_bytes >> 10));
    line(&mut text, "took", &format!("{:.1} s", probe.seconds));
    if let Some(out) = out {
        line(&mut text, "description", &one_line(out));
    }
    text
}

/// Latency by working set, each bar as long as its logarithm.
fn curve(text: &mut String, probe: &Probe) {
    text.push_str("\n  loads by working set\n");
    for point in &probe.load_curve {
        let kibibytes = point.bytes >> 10;
        let size = match kibibytes {
            0..1024 => format!("{kibibytes} KiB"),
            _ => format!("{} MiB", kibibytes as f64 / 1024.0),
        };
        let bar = "█".repeat((point.ns.max(1.0).log2() * 4.0).round() as usize);
        line(text, &size, &format!("{:>7.1} ns  {bar}", point.ns));
    }
}

/// The core-to-core matrix, where it is small.
fn matrix(text: &mut String, probe: &Probe, topology: &Topology) {
    let threads = &probe.hardware_threads;
    if threads.len() < 2 {
        return;
    }
    text.push_str("\n  a modified line between hardware threads, ns\n");
    if threads.len() > MATRIX_THREADS_MAX {
        let values: Vec<f64> = probe.core_to_core_ns.iter().flatten().flatten().copied().collect();
        let (least, most) =
            values.iter().fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(*value), high.max(*value)));
        let counts = topology.counts();
        line(
            text,
            "",
            &format!("{least:.1} to {most:.1} over {} threads; see --json", counts.hardware_threads),
        );
        return;
    }
    let heads: String = threads.iter().map(|thread| format!("{thread:>7}")).collect();
    line(text, "", &heads);
    for (thread, row) in threads.iter().zip(&probe.core_to_core_ns) {
        let cells: String = row.iter().map(|value| format!("{:>7}", number(*value))).collect();
        line(text, &thread.to_string(), &cells);
    }
}

fn message(text: &mut String, channel: &Channel) {
    let value = match (&channel.reason, channel.messages_per_second) {
        (None, Some(rate)) => {
            format!("{:>10} messages/s, round trip {} us", si(rate), number(channel.round_trip_us))
        }
        (reason, _) => one_line(reason.as_deref().unwrap_or("not measured")),
    };
    line(text, channel.mechanism, &value);
}
