//! The report for people: 80 columns, colour only on a terminal.

use std::fmt::Write;

use harness::{
    Breakdown, Check, Clients, Durability, Kind, Latency, Length, LogFigures, MemoryFigures, MemoryPlacement,
    PartitionEventKind, Recovery, RequestFigures, RoundTrip, ThreadFigures,
};

use super::result::{Repetitions, Report};
use super::timeline::{self, Bin};
use crate::bad_input::one_line;
use crate::choices::Switch;
use crate::config::Config;
use crate::numbers::{bytes, microseconds, percent, seconds, si, thousands};
use harness::Choice;

/// Columns of the longest bar.
const BAR_COLUMNS: f64 = 40.0;
/// Columns of a label.
const LABEL_COLUMNS: usize = 15;

/// The style of a text: with colours or without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    colour: bool,
}

impl Style {
    /// No colours.
    pub fn plain() -> Self {
        Style { colour: false }
    }

    /// Colours if `terminal` says that a person reads, unless `NO_COLOR` is set or the terminal is
    /// dumb.
    pub fn for_terminal(terminal: bool) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Style { colour: terminal && !refused && !dumb }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    fn bar(self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// The whole report, ending with a line break.
pub fn render(report: &Report, style: Style) -> String {
    let mut text = String::new();
    header(&mut text, &report.config, style);
    if report.interrupted {
        let what = match report.measured_nothing() {
            true => "before the measured time began: nothing was measured",
            false => "ended early: all numbers are of what ran",
        };
        line(&mut text, "interrupted", &style.bad(what));
    }
    summary(&mut text, report, style);
    simulation(&mut text, report);
    rearrangements(&mut text, report);
    adaptation(&mut text, report);
    if !report.measured_nothing() {
        kinds(&mut text, &report.transactions, style);
    }
    if let Some(breakdown) = &report.breakdown {
        breakdown_bars(&mut text, breakdown, style);
    }
    checks(&mut text, &report.checks, style);
    text
}

fn line(text: &mut String, label: &str, value: &str) {
    push(text, format_args!("  {label:<LABEL_COLUMNS$}{value}\n"));
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a string cannot fail");
}

/// Appends the configuration, in one or two lines.
fn header(text: &mut String, config: &Config, style: Style) {
    let name = config.workload.name().name();
    push(text, format_args!("{}\n", style.heading(&format!("isles bench {name} on {}", config.machine))));
    let workers = if config.deployment.all_workers() == 1 { "worker" } else { "workers" };
    let length = match config.plan.length {
        Length::Seconds(length) => seconds(length),
        Length::Commits(count) | Length::Transactions(count) => format!("{} transactions", thousands(count)),
    };
    let engine = format!(
        "{} {workers}, {}, {} placement, {length}, seed {}",
        config.deployment.all_workers(),
        config.cc.name(),
        config.deployment.placement.name(),
        config.plan.seed
    );
    let engine = match config.deployment.memory {
        MemoryPlacement::Local => engine,
        elsewhere => format!("{engine}, memory {elsewhere}"),
    };
    line(text, "engine", &engine);
    for at in &config.at {
        line(text, "changes", &format!("after {} to {}", seconds(at.seconds), at.change));
    }
    if config.deployment.instances > 1 {
        let (instances, transport) = (config.deployment.instances, config.deployment.transport.name());
        line(
            text,
            "deployment",
            &format!("{instances} instances over {transport}, {} in flight", config.plan.in_flight),
        );
    }
    line(text, "workload", &config.workload.describe());
    match config.plan.clients {
        Clients::Worker => {}
        Clients::Instance => line(text, "clients", "request all data of their instance"),
        Clients::Global => line(text, "clients", "request all data"),
    }
}

/// The numbers of the whole run.
fn summary(text: &mut String, report: &Report, style: Style) {
    if !report.measured_nothing() {
        of_transactions(text, report, style);
    }
    of_data(text, report);
}

/// Mean and deviation of all runs.
fn of_repetitions(
    Repetitions { mean, deviation, throughput }: &Repetitions,
    seed: u64,
    unit: &str,
) -> String {
    let share = percent(if *mean > 0.0 { deviation / mean } else { 0.0 });
    let last = seed.wrapping_add(throughput.len() as u64 - 1);
    format!("mean {} {unit}/s, deviation {share}, seeds {seed} to {last}", si(*mean))
}

/// How fast transactions were, or operations.
fn of_transactions(text: &mut String, report: &Report, style: Style) {
    let unit = report.config.workload.counts();
    let throughput = style.heading(&format!("{} {unit}/s", si(report.throughput)));
    let last = si(report.throughput_last_quarter);
    line(
        text,
        "throughput",
        &format!("{throughput} over {}, last quarter {last}", seconds(report.elapsed_seconds)),
    );
    if let Some(repetitions) = &report.repetitions {
        line(text, "repetitions", &of_repetitions(repetitions, report.seed, unit));
    }
    line(text, "", &style.bar(&sparkline(&report.timeline)));
    line(text, unit, &thousands(report.commits));
    if unit == "commits" {
        let most = report.attempts_max.filter(|most| *most > 1);
        let most = most.map_or_else(String::new, |most| format!(", at most {most} attempts"));
        let aborts = format!("{} ({}){most}", thousands(report.aborts), percent(report.abort_ratio));
        line(text, "aborts", &aborts);
        if let Some(why) = why_many_aborts(report) {
            line(text, "", why);
        }
        line(text, "rollbacks", &thousands(report.rollbacks));
    }
    let Latency { p50, p99, p999 } = report.latency_us;
    let latency =
        format!("p50 {}, p99 {}, p99.9 {}", microseconds(p50), microseconds(p99), microseconds(p999));
    line(text, "latency", &latency);
    if let Some(ThreadFigures { operations_min, operations_max, refused, mean_ns }) = report.threads {
        let mean = microseconds(mean_ns.map(|nanos| nanos / 1e3));
        let range = format!("{} to {} {unit} each", thousands(operations_min), thousands(operations_max));
        line(text, "threads", &format!("{range}, {mean} in the mean"));
        if refused > 0 {
            line(text, "refused", &format!("{} attempts", thousands(refused)));
        }
    }
    if let Some(RoundTrip { message_ns, line_ns, line_swapped_ns, ratio }) = report.round_trip {
        let [message, read, swapped] =
            [message_ns, line_ns, line_swapped_ns].map(|nanos| microseconds(Some(nanos / 1e3)));
        line(text, "round trip", &format!("{message}, {ratio:.2} times that of a bare line"));
        line(text, "bare line", &format!("{read}, or {swapped} by compare and swap"));
    }
    if let Some(RequestFigures { clients, open_max, queued_us, idle }) = report.requests {
        let Latency { p50, p99, .. } = queued_us;
        let queued = format!("queued p50 {}, p99 {}", microseconds(p50), microseconds(p99));
        let what = format!("of {clients} clients, each {open_max} open at most");
        line(text, "requests", &format!("{what}; {queued}; workers idle {}", percent(idle)));
    }
    if report.distributed_ratio > 0.0 {
        let messages = report
            .messages_per_distributed
            .map_or_else(String::new, |messages| format!(" of commits, {messages:.1} messages each"));
        line(text, "distributed", &format!("{}{messages}", percent(report.distributed_ratio)));
    }
    if report.refused > 0 {
        let what =
            format!("{} transactions that needed an instance that was missing", thousands(report.refused));
        line(text, "refused", &what);
    }
}

/// Appends figures of loading, recovery, log and memory.
fn of_data(text: &mut String, report: &Report) {
    if report.rows_loaded > 0 {
        let load = seconds(report.load_seconds);
        line(text, "loaded", &format!("{} rows in {load}", thousands(report.rows_loaded)));
    }
    if let Some(Recovery {
        records,
        changes,
        rows,
        bytes: read,
        seconds: taken,
        in_doubt,
        in_doubt_committed,
    }) = report.recovered
    {
        let what = format!(
            "{} records, {} changes, {} rows",
            si(records as f64),
            si(changes as f64),
            si(rows as f64)
        );
        line(text, "recovered", &what);
        line(text, "", &format!("{} in {}", bytes(read), seconds(taken)));
        if in_doubt > 0 {
            let what = format!("{in_doubt} parts of transactions, {in_doubt_committed} of them committed");
            line(text, "in doubt", &what);
        }
    }
    if let Some(LogFigures { bytes_per_commit, groups, group_bytes, group_us, epoch_us }) = report.log {
        let durability = report.config.plan.durability.name();
        let epoch = microseconds(Some(epoch_us));
        line(text, "log", &format!("{durability}, {bytes_per_commit:.0} bytes a commit, epochs of {epoch}"));
        let (size, time) = (bytes(group_bytes as u64), microseconds(Some(group_us)));
        line(text, "", &format!("{} groups of {size}, each {time} on its way", thousands(groups)));
    }
    if let Some(memory) = report.memory {
        let MemoryFigures { used_bytes, reserved_bytes, fresh_per_commit, rows_per_commit } = memory;
        let what = format!("{} in use of {} taken", bytes(used_bytes), bytes(reserved_bytes));
        line(text, "memory", &what);
        if fresh_per_commit >= 1.0 {
            let ratio = fresh_per_commit / rows_per_commit.max(1.0);
            let what =
                format!("{fresh_per_commit:.0} fresh bytes a commit, {ratio:.2} times its rows and entries");
            line(text, "", &what);
        }
    }
}

/// Why attempts are aborted, where at least half of them are.
fn why_many_aborts(report: &Report) -> Option<&'static str> {
    const MANY: f64 = 0.5;
    let is_over_several = report.config.deployment.instances > 1 && report.distributed_ratio > 0.0;
    let why = match (is_over_several, report.config.plan.durability) {
        (true, Durability::None) => "many: what parts touch is locked for a round trip",
        (true, _) => "many: what parts touch is locked for two groups of the log",
        (false, _) => "many: transactions meet at the same data",
    };
    (report.abort_ratio >= MANY).then_some(why)
}

/// Appends the differences of the simulated machine from the described one, and the host's cost of
/// a simulated second.
fn simulation(text: &mut String, report: &Report) {
    if let (Some(caches), Switch::On) = (report.caches, report.config.scale_caches) {
        let [l1, l2, l3] = [caches.l1_bytes, caches.l2_bytes, caches.l3_bytes].map(|size| bytes(size as u64));
        line(text, "caches", &format!("shrunk with the data: L1 {l1}, L2 {l2}, L3 {l3}"));
    }
    if let Some(cost) = report.simulation {
        let memory =
            cost.peak_memory_bytes.map_or_else(String::new, |most| format!(", at most {}", bytes(most)));
        let (second, events) = (seconds(cost.host_seconds_per_second), si(cost.events_per_host_second));
        line(text, "simulation", &format!("{second} of the host a second, {events} events/s{memory}"));
    }
}

/// Appends the cost of changing partitions, if the run changed any by plan.
fn rearrangements(text: &mut String, report: &Report) {
    for one in &report.events {
        let what = match one.kind {
            PartitionEventKind::Split => "split",
            PartitionEventKind::Merge => "merged",
            _ => continue,
        };
        let (at, took) = (seconds(one.second), seconds(one.seconds));
        line(text, what, &format!("at {at}: {}, in {took}", one.actions));
    }
    for one in &report.rearrangements {
        let (at, took) = (seconds(one.at_seconds), seconds(one.took_seconds));
        let words = format!("at {at}: {}, {} changes of the map, in {took}", one.rearrangements, one.changes);
        line(text, "rearranged", &words);
    }
}

/// Appends the decisions of adaptation, a line for each repartitioning.
fn adaptation(text: &mut String, report: &Report) {
    let Some(story) = &report.adaptation else { return };
    line(text, "adaptation", &story.counts());
    for note in &story.notes {
        line(text, "", &format!("at {}: {}", seconds(note.at_seconds), note.words));
    }
    for one in &story.repartitionings {
        line(text, "", &format!("at {}: {}", seconds(one.at_seconds), one.reason));
    }
    if story.count() == 0 {
        line(text, "", &story.last);
    }
}

/// One character a bin, or some adjacent bins if there are many; its height is the throughput
/// relative to the best one.
fn sparkline(timeline: &[Bin]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let each = timeline.len().div_ceil(timeline::BINS).max(1);
    let mean = |bins: &[Bin]| bins.iter().map(|bin| bin.throughput).sum::<f64>() / bins.len() as f64;
    let means: Vec<f64> = timeline.chunks(each).map(mean).collect();
    let best = means.iter().copied().fold(0.0, f64::max);
    let height = |mean: &f64| {
        let share = if best > 0.0 { mean / best } else { 0.0 };
        HEIGHTS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
    };
    means.iter().map(height).collect()
}

/// A table of the kinds of transactions, where there are several.
fn kinds(text: &mut String, kinds: &[(&'static str, Kind)], style: Style) {
    if kinds.len() < 2 {
        return;
    }
    let longest = kinds.iter().map(|(name, _)| name.len()).max().unwrap_or(0).max(13) + 1;
    let row = |name: &str, cells: [&str; 6]| {
        let [commits, aborts, rollbacks, p50, p99, p999] = cells;
        format!("  {name:<longest$}{commits:>12}{aborts:>11}{rollbacks:>11}{p50:>10}{p99:>10}{p999:>10}")
    };
    let heading = row("transactions", ["commits", "aborts", "rollbacks", "p50", "p99", "p99.9"]);
    push(text, format_args!("\n{}\n", style.heading(&heading)));
    for (name, kind) in kinds {
        let Latency { p50, p99, p999 } = kind.latency_us;
        let counts = [kind.commits, kind.aborts, kind.rollbacks].map(thousands);
        let times = [p50, p99, p999].map(microseconds);
        let cells = [&counts[0], &counts[1], &counts[2], &times[0], &times[1], &times[2]];
        push(text, format_args!("{}\n", row(name, cells.map(String::as_str))));
    }
}

/// Where worker time went; categories without any are left out.
fn breakdown_bars(text: &mut String, breakdown: &Breakdown, style: Style) {
    push(text, format_args!("\n{}\n", style.heading("  worker time")));
    let shares = breakdown.shares();
    let largest = shares.iter().copied().fold(0.0, f64::max);
    for (name, share) in Breakdown::CATEGORIES.into_iter().zip(shares).filter(|(_, share)| *share > 0.0) {
        let columns = (share / largest * BAR_COLUMNS).round() as usize;
        let bar = style.bar(&"█".repeat(columns));
        let row = format!("{:>5.1} %  {bar}", share * 100.0);
        line(text, name, row.trim_end());
    }
}

/// Every check on its own line, the violated ones with what was found.
fn checks(text: &mut String, checks: &[(String, Check)], style: Style) {
    if checks.is_empty() {
        return;
    }
    push(text, format_args!("\n{}\n", style.heading("  checks")));
    for (name, check) in checks {
        let outcome = match check {
            Check::Ok => style.good("ok"),
            Check::NotApplicable(reason) => format!("n/a: {}", one_line(reason)),
            Check::Violated(violation) => style.bad(&format!("violated: {}", one_line(violation))),
        };
        push(text, format_args!("  {name:<16} {outcome}\n"));
    }
}
