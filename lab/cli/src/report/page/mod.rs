//! The page of one run: numbers, time over the run and by what it was spent, the machine with its
//! busiest parts, adaptation, instances, checks, counters, configuration.

mod adaptation;
mod deployment;
mod machine;
#[cfg(test)]
mod tests;

use ::machine::Description;
use experiments::pages::html::{self, chip, command, escape, figure, section};
use experiments::pages::plot::{Lines, Series, Share, lines, stack};
use harness::{Breakdown, Check, Counters, Kind};
use serde_json::Value as Json;

use super::result::Report;
use crate::numbers::{bytes, microseconds, percent, seconds, si, thousands};
use harness::Choice;

/// Height of the timeline.
const TIMELINE_HEIGHT: f64 = 240.0;

/// The page of a run on the machine that `description` describes, made by the command line `line`.
pub fn page(report: &Report, description: &Description, line: &str) -> String {
    let title = format!("isles bench {} on {}", report.config.workload.name().name(), report.machine);
    let lead = format!("isles {} · seed {} · {}", report.version, report.seed, description.processor);
    let lead = lead.trim_end_matches(" · ");
    let mut body = format!(
        "<h1>{}</h1>\n<p class=\"lead\">{}</p>\n<p>{}</p>\n",
        escape(&title),
        escape(lead),
        command(line)
    );
    if report.interrupted {
        body += &format!("<p>{} all numbers are of what ran</p>\n", chip("warn", "ended early"));
    }
    body += &verdict(report);
    body += &tiles(report);
    body += &section("timeline", "Throughput over the run", &timeline(report));
    if let Some(breakdown) = &report.breakdown {
        body += &section("time", "Where worker time went", &breakdown_bar(breakdown));
    }
    body += &section("machine", "The machine", &machine::section(report, description));
    if let Some(story) = &report.adaptation {
        body += &section("adaptation", "Adaptation", &adaptation::section(story));
    }
    if let Some(deployed) = &report.deployment {
        body += &section("instances", "The instances", &deployment::section(deployed, description));
    }
    if report.transactions.len() > 1 {
        body += &section("transactions", "Transactions", &transactions(&report.transactions));
    }
    if !report.checks.is_empty() {
        body += &section("checks", "Consistency checks", &checks(&report.checks));
    }
    body += &section("counters", "Counters", &counters(&report.counters));
    body += &section("configuration", "Configuration", &configuration(report));
    html::page(&title, &body)
}

/// All checks in one line.
fn verdict(report: &Report) -> String {
    let violated = report.checks.iter().filter(|(_, check)| matches!(check, Check::Violated(_))).count();
    let holding = report.checks.iter().filter(|(_, check)| *check == Check::Ok).count();
    match (violated, holding) {
        (0, 0) => String::new(),
        (0, 1) => format!("<p>{} the consistency check holds</p>\n", chip("good", "ok")),
        (0, holding) => format!("<p>{} {holding} consistency checks hold</p>\n", chip("good", "ok")),
        (1, _) => format!("<p>{} a consistency check does not hold</p>\n", chip("bad", "violated")),
        (violated, _) => {
            format!("<p>{} {violated} consistency checks do not hold</p>\n", chip("bad", "violated"))
        }
    }
}

fn tiles(report: &Report) -> String {
    let latency = &report.latency_us;
    let length = format!("{} measured", seconds(report.elapsed_seconds));
    html::tiles(&[
        ("throughput", format!("{}/s", si(report.throughput)), length),
        ("commits", thousands(report.commits), format!("{} rollbacks", thousands(report.rollbacks))),
        ("aborts", percent(report.abort_ratio), format!("{} attempts", thousands(report.aborts))),
        ("latency p50", microseconds(latency.p50), "first attempt to reply".to_owned()),
        ("latency p99", microseconds(latency.p99), String::new()),
        ("latency p99.9", microseconds(latency.p999), String::new()),
    ])
}

fn timeline(report: &Report) -> String {
    let bins = &report.timeline;
    let width = report.elapsed_seconds / bins.len().max(1) as f64;
    let (unit, factor) = match report.elapsed_seconds {
        elapsed if elapsed < 2e-3 => ("microseconds", 1e6),
        elapsed if elapsed < 2.0 => ("milliseconds", 1e3),
        _ => ("seconds", 1.0),
    };
    let drawing = lines(&Lines {
        label: "throughput over the run".to_owned(),
        x_name: unit.to_owned(),
        y_name: "commits/s".to_owned(),
        positions: bins.iter().map(|bin| (bin.second + width / 2.0) * factor).collect(),
        names: None,
        logarithmic: false,
        dots: false,
        height: TIMELINE_HEIGHT,
        marks: marks(report).map(|(second, name)| (second * factor, name)).collect(),
        series: vec![Series {
            name: "throughput".to_owned(),
            values: bins.iter().map(|bin| bin.throughput).collect(),
            dashed: false,
            like: None,
        }],
    });
    let caption = format!(
        "{} bins of {}; last quarter {} commits/s",
        bins.len(),
        seconds(width),
        si(report.throughput_last_quarter)
    );
    figure(&drawing, &caption)
}

/// Marks of the time line: planned events, and decisions of adaptation.
fn marks(report: &Report) -> impl Iterator<Item = (f64, String)> + '_ {
    let asked = report.config.at.iter().map(|at| (at.seconds, at.change.clone()));
    let all = report.adaptation.iter().flat_map(|story| &story.repartitionings);
    // Not those of the warm-up.
    let done = all.filter(|one| one.at_seconds >= 0.0);
    asked.chain(done.map(|one| (one.at_seconds, "repartitioning".to_owned())))
}

fn breakdown_bar(breakdown: &Breakdown) -> String {
    let shares: Vec<Share> = Breakdown::CATEGORIES
        .into_iter()
        .zip(breakdown.shares())
        .enumerate()
        .map(|(colour, (name, share))| Share { name: name.to_owned(), share, colour })
        .collect();
    figure(&stack("shares of worker time", &shares), "Shares of the time of all workers")
}

fn transactions(kinds: &[(&'static str, Kind)]) -> String {
    let row = |(name, kind): &(&'static str, Kind)| {
        let counts = [kind.commits, kind.aborts, kind.rollbacks].map(thousands);
        let latency = [kind.latency_us.p50, kind.latency_us.p99, kind.latency_us.p999].map(microseconds);
        [escape(name)].into_iter().chain(counts).chain(latency).collect()
    };
    let rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    let headings = ["transaction", "commits", "aborts", "rollbacks", "p50", "p99", "p99.9"];
    html::table(&headings, &[1, 2, 3, 4, 5, 6], &rows)
}

fn checks(checks: &[(String, Check)]) -> String {
    let row = |(name, check): &(String, Check)| {
        let (tone, word, reason) = match check {
            Check::Ok => ("good", "ok", ""),
            Check::NotApplicable(reason) => ("plain", "n/a", reason.as_str()),
            Check::Violated(violation) => ("bad", "violated", violation.as_str()),
        };
        vec![escape(name), chip(tone, word), escape(reason)]
    };
    html::table(&["check", "outcome", ""], &[], &checks.iter().map(row).collect::<Vec<_>>())
}

fn counters(counters: &Counters) -> String {
    const UNKNOWN: &str = "not known on this platform";
    let count = |count: Option<u64>| count.map_or(UNKNOWN.to_owned(), thousands);
    let size = |size: Option<u64>| size.map_or(UNKNOWN.to_owned(), bytes);
    let share = |share: Option<f64>| share.map_or(UNKNOWN.to_owned(), percent);
    let ratio = |ratio: Option<f64>| ratio.map_or(UNKNOWN.to_owned(), |ratio| format!("{ratio:.2}"));
    let rows = [
        ("last-level cache misses", count(counters.llc_misses)),
        ("over interconnect links", size(counters.interconnect_bytes)),
        ("over memory controllers", size(counters.memory_bytes)),
        ("messages between instances", count(counters.messages)),
        ("written to logs", size(counters.log_bytes)),
        ("flushes of files", count(counters.fsyncs)),
        ("instructions", count(counters.instructions)),
        ("cycles", count(counters.cycles)),
        ("instructions a cycle", ratio(counters.instructions_per_cycle)),
        ("cycles that wait for lines", share(counters.stalled_cycles_share)),
        ("cycles on lines of other cores", share(counters.shared_cycles_share)),
        ("accesses to lines of other cores", share(counters.shared_accesses_share)),
        ("requests that miss the last-level cache", share(counters.llc_misses_share)),
        ("TLB misses", count(counters.tlb_misses)),
        ("walks of page tables", count(counters.page_walks)),
        ("cycles that wait for translation", share(counters.translation_cycles_share)),
        ("bytes over links for a byte of memory", ratio(counters.interconnect_per_memory_byte)),
        ("lines of code that L1 caches lack", count(counters.code_misses)),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    html::table(&["counter", "over the measured time"], &[], &rows)
}

/// Every flag resolved, and what else describes the run.
fn configuration(report: &Report) -> String {
    // A configuration is an object of plain values; anything else would not serialise at all.
    let config = serde_json::to_value(&report.config).unwrap_or_default();
    let plain = |value: &Json| match value {
        Json::String(text) => escape(text),
        Json::Null => "–".to_owned(),
        other => escape(&other.to_string()),
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (name, value) in config.as_object().into_iter().flatten() {
        rows.push(vec![escape(name), plain(value)]);
    }
    rows.push(vec!["rows loaded".to_owned(), thousands(report.rows_loaded)]);
    if let Some(memory) = report.memory {
        rows.push(vec!["memory of tables and indexes".to_owned(), bytes(memory.used_bytes)]);
        rows.push(vec!["memory taken from the machine".to_owned(), bytes(memory.reserved_bytes)]);
    }
    if report.instances.len() > 1 {
        rows.push(vec!["commits over several instances".to_owned(), percent(report.distributed_ratio)]);
        let messages =
            report.messages_per_distributed.map_or("–".to_owned(), |count| format!("{count:.1}"));
        rows.push(vec!["messages for each of them".to_owned(), messages]);
    }
    let half = rows.len().div_ceil(2);
    let columns: Vec<String> = rows.chunks(half).map(|part| html::table(&["", ""], &[], part)).collect();
    format!("<div class=\"columns\">\n{}</div>\n", columns.concat())
}
