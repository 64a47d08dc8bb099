use harness::{
    Breakdown, Check, Kind, Latency, LogFigures, Measurement, MemoryFigures, Recovery, ThreadFigures,
};

use super::*;
use crate::config::tests::resolved;

fn latency(p50: f64) -> Latency {
    Latency { p50: Some(p50), p99: Some(p50 * 4.0), p999: Some(p50 * 400.0) }
}

pub(super) fn measurement() -> Measurement {
    Measurement {
        elapsed_seconds: 10.0,
        kinds: vec![
            (
                "new-order",
                Kind { commits: 450_000, aborts: 1_200, rollbacks: 4_500, latency_us: latency(9.0) },
            ),
            ("payment", Kind { commits: 430_000, aborts: 800, rollbacks: 0, latency_us: latency(3.2) }),
            ("delivery", Kind { commits: 40_000, ..Kind::default() }),
        ],
        attempts_max: Some(7),
        latency: latency(4.5),
        bin_seconds: 2.5,
        bins: vec![200_000, 240_000, 240_000, 240_000],
        breakdown: Breakdown::of_times([50, 25, 0, 10, 10, 0, 4, 1, 0, 0]),
        checks: vec![
            ("tpcc_3_3_2_1".to_owned(), Check::Ok),
            ("tpcc_3_3_2_2".to_owned(), Check::NotApplicable("no inserts".to_owned())),
        ],
        rows_loaded: 1_234_567,
        load_seconds: 0.9,
        recovered: Some(Recovery {
            records: 1_200,
            changes: 5_600,
            rows: 78_000,
            bytes: 3 << 20,
            seconds: 0.5,
            in_doubt: 3,
            in_doubt_committed: 1,
        }),
        requests: None,
        log: Some(LogFigures {
            bytes_per_commit: 512.4,
            groups: 3_100,
            group_bytes: 300_000.0,
            group_us: 210.0,
            epoch_us: 2_500.0,
        }),
        memory: Some(MemoryFigures {
            used_bytes: 215 << 20,
            reserved_bytes: 240 << 20,
            fresh_per_commit: 570.4,
            rows_per_commit: 490.0,
        }),
        ..Measurement::default()
    }
}

const TEXT: &str = "\
isles bench tpcc on native
  engine         2 workers, silo, island placement, 10.0 s, seed 1
  workload       2 warehouses, full mix
  throughput     92.0 k commits/s over 10.0 s, last quarter 96.0 k
                 ▇▇▇▇▇▇▇▇▇▇██████████████████████████████
  commits        920,000
  aborts         2,000 (0.22 %), at most 7 attempts
  rollbacks      4,500
  latency        p50 4.5 us, p99 18.0 us, p99.9 1.8 ms
  loaded         1,234,567 rows in 900.0 ms
  recovered      1.20 k records, 5.60 k changes, 78.0 k rows
                 3.0 MiB in 500.0 ms
  in doubt       3 parts of transactions, 1 of them committed
  log            group, 512 bytes a commit, epochs of 2.5 ms
                 3,100 groups of 293.0 KiB, each 210.0 us on its way
  memory         215.0 MiB in use of 240.0 MiB taken
                 570 fresh bytes a commit, 1.16 times its rows and entries

  transactions       commits     aborts  rollbacks       p50       p99     p99.9
  new-order          450,000      1,200      4,500    9.0 us   36.0 us    3.6 ms
  payment            430,000        800          0    3.2 us   12.8 us    1.3 ms
  delivery            40,000          0          0         -         -         -

  worker time
  useful          50.0 %  ████████████████████████████████████████
  index           25.0 %  ████████████████████
  cc              10.0 %  ████████
  commit          10.0 %  ████████
  abort            4.0 %  ███
  backoff          1.0 %  █

  checks
  tpcc_3_3_2_1     ok
  tpcc_3_3_2_2     n/a: no inserts
";

#[test]
fn text_is_what_a_person_expects() {
    let report = Report::new(&resolved("tpcc --cores 2"), measurement());
    let text = render(&report, Style::plain());
    assert_eq!(text, TEXT);
    assert!(text.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn colours_only_when_asked() {
    let report = Report::new(&resolved("tpcc"), measurement());
    assert!(!render(&report, Style::for_terminal(false)).contains('\u{1b}'));
}

#[test]
fn an_interrupted_run_says_so() {
    let interrupted = Measurement { interrupted: true, ..measurement() };
    let text = render(&Report::new(&resolved("tpcc"), interrupted), Style::plain());
    assert!(text.contains("\n  interrupted    ended early: all numbers are of what ran\n"), "{text}");
}

#[test]
fn many_aborts_are_explained_in_a_line() {
    let text = |line: &str, aborts: u64, distributed_ratio: f64| {
        let report = Report::new(&resolved(line), measurement());
        let commits = report.commits;
        let abort_ratio = aborts as f64 / (aborts + commits) as f64;
        render(&Report { aborts, abort_ratio, distributed_ratio, ..report }, Style::plain())
    };
    assert!(!text("ycsb --deploy core --cores 2", 400_000, 0.9).contains("many:"));
    for (line, distributed_ratio, why) in [
        ("ycsb --deploy core --cores 2", 0.9, "what parts touch is locked for two groups of the log"),
        (
            "ycsb --deploy core --cores 2 --durability none",
            0.9,
            "what parts touch is locked for a round trip",
        ),
        ("ycsb", 0.0, "transactions meet at the same data"),
    ] {
        let text = text(line, 4_000_000, distributed_ratio);
        assert!(text.contains(&format!("\n                 many: {why}\n")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn json_has_every_field_of_the_contract() {
    let report = Report::new(&resolved("tpcc --seed 7 --cores 2"), measurement());
    let report = Report { host_seconds: 13.5, ..report };
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["throughput"], 92_000.0);
    assert_eq!(json["commits"], 920_000);
    assert_eq!(json["aborts"], 2_000);
    assert_eq!(json["abort_ratio"], 2_000.0 / 922_000.0);
    assert_eq!(json["rollbacks"], 4_500);
    assert_eq!(json["attempts_max"], 7);
    assert_eq!(json["latency_us"], serde_json::json!({"p50": 4.5, "p99": 18.0, "p999": 1800.0}));
    let breakdown = json["breakdown"].as_object().unwrap();
    assert!(breakdown.keys().eq(Breakdown::CATEGORIES));
    let sum: f64 = breakdown.values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-12);
    assert_eq!(json["timeline"].as_array().unwrap().len(), 40);
    assert_eq!(json["timeline"][1]["second"], 0.25);
    assert_eq!(json["throughput_last_quarter"], 96_000.0);
    assert_eq!(json["memory_bytes"], 215 << 20);
    assert_eq!(json["memory"]["reserved_bytes"], 240 << 20);
    let counters = json["counters"].as_object().unwrap();
    let names = ["llc_misses", "interconnect_bytes", "memory_bytes", "messages", "log_bytes", "fsyncs"];
    let more = ["instructions", "cycles", "instructions_per_cycle", "stalled_cycles", "stalled_cycles_share"];
    let shared = ["shared_cycles", "shared_cycles_share", "shared_accesses_share"];
    let translation = ["tlb_misses", "page_walks", "translation_cycles", "translation_cycles_share"];
    let ratios = ["llc_references", "llc_misses_share", "interconnect_per_memory_byte"];
    let code = ["code_misses", "code_stalled_ps"];
    assert!(
        counters.keys().eq(names
            .iter()
            .chain(&more)
            .chain(&shared)
            .chain(&ratios)
            .chain(&code)
            .chain(&translation))
            && counters.values().all(serde_json::Value::is_null)
    );
    assert_eq!(json["distributed_ratio"], 0.0);
    let checks = serde_json::json!({"tpcc_3_3_2_1": "ok", "tpcc_3_3_2_2": "n/a: no inserts"});
    assert_eq!(json["checks"], checks);
    assert_eq!(json["config"]["workload"], "tpcc");
    assert_eq!(json["machine"], "native");
    assert_eq!(json["seed"], 7);
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["elapsed_seconds"], 10.0);
    assert_eq!(json["host_seconds"], 13.5);
    assert_eq!(json["transactions"]["payment"]["commits"], 430_000);
    assert_eq!(json["interrupted"], false);
}

#[test]
fn a_run_without_commits_has_no_impossible_numbers() {
    let report = Report::new(&resolved("counter"), Measurement::default());
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["throughput"], 0.0);
    assert_eq!(json["abort_ratio"], 0.0);
    assert!(json["latency_us"]["p50"].is_null() && json["breakdown"].is_null());
    assert_eq!(json["timeline"].as_array().unwrap().len(), 40);
    render(&report, Style::plain());
}

#[test]
fn threads_stand_beside_their_sum() {
    let report = Report::new(&resolved("lock --lock tas"), Measurement::default());
    assert!(serde_json::to_value(&report).unwrap().get("threads").is_none());
    let figures =
        ThreadFigures { operations_min: 1_200, operations_max: 3_400, refused: 7, mean_ns: Some(56.0) };
    let report = Report { threads: Some(figures), ..report };
    let text = render(&report, Style::plain());
    assert!(
        text.contains("\n  threads        1,200 to 3,400 operations each, 56 ns in the mean\n"),
        "{text}"
    );
    assert!(text.contains("\n  refused        7 attempts\n"), "{text}");
    assert!(
        text.contains("\n  workload       tas, critical 0, 1 word on a line of its own, delay 0\n"),
        "{text}"
    );
    let json = serde_json::to_value(&report).unwrap();
    let expected =
        serde_json::json!({"operations_min": 1200, "operations_max": 3400, "refused": 7, "mean_ns": 56.0});
    assert_eq!(json["threads"], expected);
}

#[test]
fn violated_checks_fail_the_run() {
    let mut measurement = measurement();
    assert!(Report::new(&resolved("tpcc"), measurement.clone()).verdict().is_ok());
    measurement.checks.push(("tpcc_3_3_2_3".to_owned(), Check::Violated("sum 3, not 4".to_owned())));
    let report = Report::new(&resolved("tpcc"), measurement.clone());
    let failure = report.verdict().unwrap_err();
    assert_eq!(failure.to_string(), "consistency check violated: tpcc_3_3_2_3");
    assert_eq!(failure.status(), 1);
    assert!(render(&report, Style::plain()).contains("\n  tpcc_3_3_2_3     violated: sum 3, not 4\n"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["checks"]["tpcc_3_3_2_3"], "sum 3, not 4");
    measurement.checks.push(("other".to_owned(), Check::Violated(String::new())));
    let failure = Report::new(&resolved("tpcc"), measurement).verdict().unwrap_err();
    assert_eq!(failure.to_string(), "2 consistency checks violated: tpcc_3_3_2_3, other");
}
