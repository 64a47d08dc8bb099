//! Misses of code in the virtual machine against those that were measured natively.

use crate::support::isles;

/// Lines that a transaction misses in an instruction cache of 32 KiB and 8 ways, natively
/// (docs/calibration.md, "Footprint of code").
const NATIVE: [(&str, f64, f64); 8] = [
    ("tpcc --scale 0.02 --mix new-order", 892.0, 1.35),
    ("tpcc --scale 0.02 --mix payment", 678.0, 1.35),
    ("tpcc --scale 0.02 --mix narrow", 788.0, 1.35),
    ("ycsb --records 20000", 58.0, 3.2),
    ("tatp --subscribers 2000", 77.0, 2.6),
    ("tpcc --scale 0.02 --mix narrow --engine paged", 899.0, 1.35),
    ("ycsb --records 20000 --engine paged", 276.0, 1.6),
    ("tatp --subscribers 2000 --engine paged", 153.0, 2.2),
];

fn run(line: &str) -> serde_json::Value {
    let words = format!("bench {line} --machine superdome-flex --cores 1 --seed 1 --durability none --json");
    let ran = isles(&words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(ran.status, 0, "{line}: {}", ran.error);
    serde_json::from_str(&ran.output).expect("one object")
}

#[test]
fn simulated_misses_of_code_are_those_of_hardware_within_the_documented_factor() {
    for (line, native, factor) in NATIVE {
        let run = run(&format!("{line} --warmup 0.002 --seconds 0.01"));
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let misses = number(&run["counters"]["code_misses"]) / number(&run["commits"]);
        let ratio = misses / native;
        assert!((1.0 / 1.35..factor).contains(&ratio), "{line}: {misses} lines, natively {native}");
        assert_eq!(run["counters"]["code_stalled_ps"], 0, "{line}: no price is known");
    }
}

#[test]
fn declared_path_lengths_include_their_misses_of_code() {
    let line = "tpcb --engine paged --scale 0.01 --warmup 0.0005 --seconds 0.002 --like shore-mt";
    assert_eq!(run(line)["counters"]["code_misses"], 0);
}
