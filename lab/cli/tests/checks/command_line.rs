//! The binary as a user meets it: help, faults, runs.

// Tests write scratch files of their own.
#![allow(clippy::disallowed_methods)]

use std::process::{Command, Stdio};

use crate::support::{PROGRAM, Scratch, assert_fault, isles, start};

#[test]
fn help_has_examples_and_lists_what_works() {
    let help = isles(&["--help"]);
    assert_eq!((help.status, help.error.as_str()), (0, ""));
    for word in ["topology", "probe", "bench", "verify", "Examples:\n", "isles bench tpcc"] {
        assert!(help.output.contains(word), "{word} in {}", help.output);
    }
    assert!(!help.output.contains("advise"), "{}", help.output);
}

#[test]
fn help_of_bench_has_every_flag_with_its_default() {
    let short = isles(&["bench", "--help"]).output;
    assert!(short.contains("--cores") && !short.contains("--hot-rows"), "{short}");
    let help = isles(&["bench", "--help-all"]).output;
    // Wrapping is the terminal's business.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let flags = [
        ("--machine", "native"),
        ("--cores", "all; with one instance, all of one machine"),
        ("--smt", "all the machine has"),
        ("--deploy", "1isl"),
        ("--placement", "island"),
        ("--transport", "shm"),
        ("--in-flight", "1; 64 if they wait for a disk, too"),
        ("--memory", "local"),
        ("--engine", "memory"),
        ("--cc", "silo"),
        ("--execution", "inline"),
        ("--durability", "group; none in a simulated machine, and with rows in memory that workers own"),
        ("--timestamp", "clock"),
        ("--seconds", "10 native, 0.02 simulated"),
        ("--warmup", "1 native, 0.005 simulated"),
        ("--instrument", "on"),
        ("--seed", "1"),
        ("--branches", "one per worker"),
        ("--remote", "15"),
        ("--warehouses", "one per worker"),
        ("--mix", "full"),
        ("--remote-payment", "15"),
        ("--remote-items", "1"),
        ("--schema", "full"),
        ("--scale", "1"),
        ("--inserts", "on"),
        ("--load", "home"),
        ("--hot-rows", "late"),
        ("--stocks", "sorted"),
        ("--index-inserts", "on"),
        ("--unvalidated-reads", "off"),
        ("--like", "none"),
        ("--row-lock", "word"),
        ("--retry", "exponential"),
        ("--row-copies", "fields"),
        ("--commit-locks", "ordered"),
        ("--rows", "10; memory: 1000000"),
        ("--zipf", "ycsb 0.99; micro: rows of the worker's own site"),
        ("--op", "read"),
        ("--row-bytes", "250"),
        ("--rows-per-site", "10000"),
        ("--multisite", "0"),
        ("--hot", "none"),
        ("--workload", "a"),
        ("--records", "1000000"),
        ("--threads", "all"),
        ("--counters", "single"),
        ("--lock", "mcs"),
        ("--locks", "1"),
        ("--critical", "0"),
        ("--delay", "0"),
        ("--held-words", "1"),
        ("--held-line", "own"),
        ("--backoff", "0: they spin"),
        ("--mechanism", "uds"),
        ("--peers", "same-socket"),
    ];
    for (flag, default) in flags {
        let start = help.find(&format!("{flag} <")).unwrap_or_else(|| panic!("{flag} in {help}"));
        let text = &help[start..];
        let end = text.find(']').unwrap_or_else(|| panic!("default of {flag}"));
        assert!(text[..end].ends_with(&format!("[default: {default}")), "{flag}: {}", &text[..=end]);
    }
    for word in ["--transactions", "--json", "Examples:", "isles bench tpcc", "Ctrl-C", "Exit status"] {
        assert!(help.contains(word), "{word} in {help}");
    }
}

#[test]
fn help_of_topology_has_examples() {
    let help = isles(&["topology", "--help"]);
    assert_eq!((help.status, help.error.as_str()), (0, ""));
    assert!(help.output.contains("Examples:\n") && help.output.contains("--sysroot"));
}

#[test]
fn version_is_one_line() {
    assert_eq!(isles(&["--version"]).output, format!("isles {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn commands_of_later_versions_say_so() {
    let later = "advise";
    let line = format!(
        "{later}: not available in this version (accepted: topology, probe, bench, deploy, certificates, verify, study, check, inspect, backup, restore, import, export, convert, upgrade, serve)"
    );
    assert_fault(&[later], &line);
    assert_fault(&[later, "somewhere", "--flag", "1"], &line);
}

/// Command lines and how the one line that answers each begins.
const FAULTS: &[(&str, &str)] = &[
    (
        "",
        "command: missing (accepted: topology, probe, bench, deploy, certificates, verify, study, check, inspect, backup, restore, import, export, convert, upgrade, serve; see isles --help)",
    ),
    (
        "frobnicate",
        "frobnicate: unknown command (accepted: topology, probe, bench, deploy, certificates, verify, study, check, inspect, backup, restore, import, export, convert, upgrade, serve)",
    ),
    ("--json", "--json: unknown flag (see isles --help)"),
    (
        "bench",
        "WORKLOAD: missing (accepted: micro, ycsb, tpcb, tpcc, tatp, dependent, counter, lock, ipc, memory; see isles bench --help)",
    ),
    (
        "bench nothing",
        "WORKLOAD nothing: unknown value (accepted: micro, ycsb, tpcb, tpcc, tatp, dependent, counter, lock, ipc, memory)",
    ),
    (
        "bench tatp --adapt-interval 1",
        "--adapt-interval 1: partitions do not follow the workload (accepted: no --adapt-interval, or --execution atrapos --adaptive on or monitor)",
    ),
    ("bench tpcc tpcc", "tpcc: not expected here (see isles bench --help)"),
    ("bench tpcc -c 2", "-c: unknown flag (see isles bench --help)"),
    ("bench tpcc --core 1", "--core: unknown flag (similar: --cores; see isles bench --help)"),
    ("bench tpcc --pol 1", "--pol: unknown flag (similar: --pool; see isles bench --help)"),
    ("bench tpcc --cores 1 --cores 2", "--cores: given more than once (see isles bench --help)"),
    ("bench tpcc --json=yes", "--json: takes no value (see isles bench --help)"),
    (
        "bench tpcc --cc",
        "--cc \"\": unknown value (accepted: silo, tictoc, occ, mvcc, no-wait, wait-die, dl-detect, hstore)",
    ),
    ("bench tpcc --transport", "--transport \"\": unknown value (accepted: shm, uds, tcp)"),
    ("bench tpcc --engine pages", "--engine pages: unknown value (accepted: memory, paged)"),
    ("bench tpcc --cores 0", "--cores 0: out of range (accepted: 1"),
    ("bench tpcc --cores 1000000", "--cores 1000000: out of range (accepted: 1"),
    ("bench tpcc --seconds -1", "--seconds -1: out of range"),
    ("bench tpcc --seconds nan", "--seconds nan: not a number"),
    ("bench tpcc --seconds 1 --transactions 5", "--seconds with --transactions: "),
    (
        "bench ycsb --workload e --cores 2 --deploy core",
        "--deploy core: workloads d and e touch records that follow from what they read (accepted: 1isl, or another --workload)",
    ),
    ("bench tpcc --transport tcp", "--transport tcp: there is one instance (accepted: with --deploy)"),
    ("bench tpcc --in-flight 4", "--in-flight 4: there is one instance (accepted: with --deploy)"),
    (
        "bench tpcc --row-lock latch",
        "--row-lock latch: silo locks no rows so (accepted: word, or --cc occ, no-wait, wait-die, dl-detect, hstore)",
    ),
    (
        "bench tpcc --engine paged --row-lock latch",
        "--row-lock latch: a way of rows in memory (accepted: with --engine memory)",
    ),
    (
        "bench tpcc --without sli",
        "--without sli: an optimisation of rows in pages (accepted: with --engine paged)",
    ),
    (
        "bench tpcc --engine paged --without prefetch,read-only-skip",
        "--without read-only-skip: an optimisation of rows in memory (accepted: with --engine memory)",
    ),
    (
        "bench tpcc --engine paged --durability none --without aether",
        "--without aether: nothing is logged (accepted: with --durability async, group, sync)",
    ),
    ("bench counter --transactions 5", "--transactions 5: counter runs for a time (accepted: --seconds)"),
    ("bench ipc --transactions 5", "--transactions 5: ipc runs for a time (accepted: --seconds)"),
    ("bench memory --cc silo", "--cc silo: memory has no database (accepted: with another workload)"),
    ("bench micro --warehouses 2", "--warehouses: a flag of workload tpcc, not of micro (accepted: --rows"),
    (
        "bench tpcc --machine quad-socket --cores 1 --memory hops=2",
        "--memory hops=2: no such node seen from node 0 (acc",
    ),
    ("bench tpcc --machine toaster", "--machine toaster: unknown machine (accepted: native, dual-socket"),
    (
        "bench tpcc --machine mine.xml",
        "--machine mine.xml: No such file or directory (os error 2) (accepted: native",
    ),
    ("bench tpcc --machine src", "--machine src: Is a directory"),
    (
        "bench tpcc --machine Cargo.toml",
        "--machine Cargo.toml: `package` is no key of a machine description: expected ",
    ),
    ("bench tpcc --machine src/main.rs", "--machine src/main.rs: line "),
    ("topology --machine ./nowhere", "--machine ./nowhere: No such file or directory"),
    ("bench tpcc --machine octo-socket --cores 81", "--cores 81: out of range (accepted: 1 to 80)"),
    ("bench tpcc --machine octo-socket --smt 2", "--smt 2: out of range (accepted: 1)"),
    ("bench tpcc --machine power9 --smt 9", "--smt 9: out of range (accepted: 1 to 8)"),
    ("probe --out /nonexistent/directory/m.toml", "--out /nonexistent/directory/m.toml: "),
    ("probe --out .", "--out .: not a file (accepted: a file in a directory that can be written to)"),
    ("probe --path Cargo.toml", "--path Cargo.toml: not a directory (accepted: "),
    ("probe --slowly", "--slowly: unknown flag (see isles probe --help)"),
    ("probe --quick=1", "--quick: takes no value (see isles probe --help)"),
    ("topology --format yaml", "--format yaml: unknown value (accepted: text, json, svg, toml)"),
    ("topology --format", "--format \"\": unknown value (accepted: text, json, svg, toml)"),
    ("topology --view cores", "--view: a flag of pictures (accepted: with --format svg)"),
    ("topology --format svg --view top", "--view top: unknown value (accepted: machine, cores, memory)"),
    ("topology --machine toaster", "--machine toaster: unknown machine (accepted: native, dual-socket"),
    ("topology --machine power8 --sysroot .", "--machine with --sysroot: each names the machine"),
    ("topology --sysroot /nonexistent/root", "--sysroot /nonexistent/root: "),
    ("topology --sysroot Cargo.toml", "--sysroot Cargo.toml: "),
    ("verify --cc 3pl", "--cc 3pl: unknown value (accepted: silo, tictoc"),
    (
        "verify --cc 2pl --workload tpcc",
        "--workload tpcc: not under --cc 2pl (accepted: histories, bank, islands, distributed, owners, crashes, files, refusals)",
    ),
    (
        "verify --workload nothing",
        "--workload nothing: unknown value (accepted: histories, bank, tpcc, micro, ycsb, islands, distributed, owners, crashes, files, refusals, all)",
    ),
    (
        "verify --workload refusals --machine native",
        "--workload refusals: on a simulated disk, not with --machine native (accepted: histories, bank, tpcc, micro",
    ),
    ("verify --seeds 0", "--seeds 0: out of range (accepted: 1 to 1000000000000)"),
    ("verify --first-seed -1", "--first-seed -1: out of range (accepted: 0 to"),
    ("verify --machine toaster", "--machine toaster: unknown machine (accepted: native, dual-socket"),
    ("verify --machine octo-socket --cores 81", "--cores 81: out of range (accepted: 1 to 80)"),
    ("verify --cores 1569", "--cores 1569: out of range (accepted: 1 to 1568)"),
    ("verify --jobs many", "--jobs many: not a whole number"),
    ("verify --seed 1", "--seed: unknown flag (similar: --seeds; see isles verify --help)"),
    ("verify histories", "histories: not expected here (see isles verify --help)"),
    ("deploy", "FILE: missing (accepted: a deployment file; see isles deploy --help)"),
    ("deploy nowhere.toml", "nowhere.toml: No such file or directory (os error 2) (see docs/deployments.md)"),
    ("deploy Cargo.toml", "Cargo.toml: line "),
    ("topology everything", "everything: not expected here (see isles topology --help)"),
];

#[test]
fn bad_input_gets_one_line_and_status_2() {
    for (line, expected) in FAULTS {
        assert_fault(&line.split_whitespace().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn odd_words_cannot_break_the_line() {
    assert_fault(&["bench", "a\nb"], "WORKLOAD a\\nb: unknown value");
    assert_fault(&["bench", ""], "WORKLOAD \"\": unknown value");
    assert_fault(&["topology", "--format", "\u{1b}[31m"], "--format \\u{1b}[31m: unknown value");
    assert_fault(&["a\r\nb"], "a\\r\\nb: unknown command");
    assert_fault(&["bench", "tpcc", "--c\nc", "silo"], "--c\\nc: unknown flag");
}

#[test]
fn a_reader_that_leaves_early_is_no_crash() {
    let line = ["topology", "--format", "json", "--machine", "superdome-flex"];
    let mut child = start(Command::new(PROGRAM).args(line));
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(1));
}

/// The result of a benchmark that succeeds.
fn bench(line: &str) -> serde_json::Value {
    let words: Vec<&str> = ["bench", "--json"].into_iter().chain(line.split_whitespace()).collect();
    let run = isles(&words);
    assert_eq!(run.status, 0, "{line}: {}", run.error);
    serde_json::from_str(&run.output).expect("one JSON object")
}

/// A benchmark on this machine, for longer and longer until its threads have run at all: on a busy
/// machine a thread may wait for a processor longer than a short run takes.
fn bench_here(line: &str) -> serde_json::Value {
    let mut result = serde_json::Value::Null;
    for seconds in ["0.01", "0.1", "1", "10"] {
        result = bench(&format!("{line} --seconds {seconds}"));
        if result["commits"].as_u64() > Some(0) {
            break;
        }
    }
    result
}

#[test]
fn where_memory_is_matters_on_a_simulated_machine() {
    let reads = |memory: &str| {
        let line =
            "memory --machine octo-socket --cores 1 --rows 100000 --seconds 0.0005 --warmup 0 --memory";
        let result = bench(&format!("{line} {memory}"));
        assert_eq!(result["config"]["memory"], memory);
        result["throughput"].as_f64().expect("reads a second")
    };
    let (local, near, far) = (reads("local"), reads("hops=1"), reads("hops=2"));
    assert!(local > 1.1 * near && near > 1.1 * far, "{local} {near} {far}");
    let commits = |memory: &str| {
        // More rows than the L3 of 12 MiB holds.
        let line = "micro --machine quad-socket --cores 1 --rows-per-site 100000 --seconds 0.0005 --warmup 0 --memory";
        bench(&format!("{line} {memory}"))["throughput"].as_f64().expect("commits a second")
    };
    assert!(commits("local") > commits("hops=1"), "rows of other workloads move too");
}

#[test]
fn warehouses_are_loaded_in_blocks_and_wherever_memory_is_asked_for() {
    for flags in ["--load block", "--memory central", "--memory remote --placement spread"] {
        let line =
            "tpcc --machine quad-socket --cores 8 --warehouses 10 --scale 0.01 --seconds 0.0005 --warmup 0";
        let result = bench(&format!("{line} {flags}"));
        let checks = result["checks"].as_object().expect("checks");
        assert!(checks.len() == 12 && checks.values().all(|check| check == "ok"), "{flags}: {checks:?}");
        assert!(result["commits"].as_u64().expect("a count") > 0, "{flags}");
    }
}

#[test]
fn a_run_is_like_another_program() {
    for scheme in concurrency::SchemeName::ALL {
        let line =
            "tpcc --machine quad-socket --cores 8 --warehouses 1 --scale 0.01 --seconds 0.0005 --warmup 0";
        let result = bench(&format!("{line} --mix narrow --like dbx1000 --cc {scheme}"));
        let config = serde_json::json!({
            "like": "dbx1000", "row_lock": "latch", "retry": "buffer", "row_copies": "rows", "commit_locks": "no-wait",
            "deadlocks": "lists",
            "hot_rows": "early", "stocks": "drawn", "index_inserts": "off", "unvalidated_reads": "on", "load": "block"
        });
        for (flag, value) in config.as_object().expect("flags") {
            assert_eq!(&result["config"][flag], value, "{scheme}: {flag}");
        }
        assert!(result["commits"].as_u64().expect("a count") > 0, "{scheme}");
        for (number, check) in
            (1..=12).map(|number| (number, &result["checks"][format!("tpcc_3_3_2_{number}")]))
        {
            let expected = match number {
                1 | 12 => "ok",
                _ => "n/a: inserted rows are in no index",
            };
            assert_eq!(check, expected, "{scheme}: {number}");
        }
    }
}

#[test]
fn messages_travel_on_both_platforms() {
    for mechanism in ["pipe", "fifo", "mq", "uds", "tcp", "shm"] {
        let rate = |peers: &str| {
            let line =
                format!("ipc --machine quad-socket --seconds 0.0005 --mechanism {mechanism} --peers {peers}");
            let result = bench(&line);
            assert_eq!(result["counters"]["messages"], result["commits"], "{mechanism}");
            result["throughput"].as_f64().expect("messages a second")
        };
        assert!(rate("same-socket") > rate("other-socket"), "{mechanism}");
    }
    if machine::discover(None).expect("this machine").threads().len() > 1 {
        let result = bench_here("ipc --mechanism shm --warmup 0");
        assert!(result["latency_us"]["p50"].as_f64().expect("measured") > 0.0);
        assert!(result.get("round_trip").is_none(), "{result}");
        for mechanism in ["uds", "tcp", "shm"] {
            let result = bench_here(&format!("ipc --mechanism {mechanism} --processes 2 --warmup 0"));
            assert!(result["commits"].as_u64() > Some(0), "{result}");
            for time in ["message_ns", "line_ns", "line_swapped_ns", "ratio"] {
                assert!(result["round_trip"][time].as_f64() > Some(0.0), "{result}");
            }
        }
    }
}

#[test]
fn counters_run_on_both_platforms() {
    for counters in ["single", "socket", "core"] {
        let line = format!("counter --counters {counters} --warmup 0.0001");
        let here = bench_here(&format!("{line} --threads 2"));
        let simulated = bench(&format!("{line} --machine quad-socket --threads 8 --seconds 0.0002"));
        for result in [here, simulated] {
            assert_eq!(result["checks"]["counter_sum"], "ok", "{counters}: {result}");
            assert!(result["commits"].as_u64() > Some(0), "{counters}: {result}");
        }
    }
}

#[test]
fn locks_run_on_both_platforms() {
    let kinds =
        ["tas", "ttas", "ticket", "mcs", "clh", "hierarchical", "cas", "cas-refused", "faa", "swap", "poll"];
    for kind in kinds {
        let line =
            format!("lock --lock {kind} --machine quad-socket --threads 8 --seconds 0.0002 --warmup 0.0001");
        let result = bench(&line);
        let checks = result["checks"].as_object().expect("checks");
        assert!(checks.len() == 1 && checks.values().all(|check| check == "ok"), "{kind}: {checks:?}");
        let (least, most) = (&result["threads"]["operations_min"], &result["threads"]["operations_max"]);
        assert!(least.as_u64() <= most.as_u64() && most.as_u64() > Some(0), "{kind}: {result}");
        assert!(result["threads"]["mean_ns"].as_f64() > Some(0.0), "{kind}: {result}");
        assert!(result["counters"]["llc_misses"].as_u64() > Some(0), "{kind}: {result}");
    }
    for kind in ["mcs", "faa"] {
        let result = bench_here(&format!("lock --lock {kind} --threads 1 --warmup 0.001"));
        assert!(
            result["checks"].as_object().expect("checks").values().all(|check| check == "ok"),
            "{result}"
        );
        assert!(result["throughput"].as_f64() > Some(0.0), "{result}");
    }
}

#[test]
fn probe_describes_this_machine() {
    let scratch = Scratch::new("probe");
    let path = scratch.0.to_str().expect("UTF-8");
    let probe = isles(&["probe", "--quick", "--json", "--out", &scratch.name("m.toml"), "--path", path]);
    assert_eq!(probe.status, 0, "{}", probe.error);
    let json: serde_json::Value = serde_json::from_str(&probe.output).expect("one JSON object");
    assert!(json["memory_ns"][0][0].as_f64().expect("measured") > 0.0, "{json}");
    assert!(json["load_curve"].as_array().expect("a curve").len() > 10, "{json}");
    assert_eq!(json["ipc"].as_array().expect("a list").len(), 6, "{json}");
    assert!(json["fsync"]["p50_us"].as_f64().is_some(), "{json}");
    let description = machine::Description::from_toml(&scratch.read("m.toml")).expect("a description");
    let native = machine::discover(None).expect("this machine");
    assert_eq!(description.topology.counts().cores, native.counts().cores);
    assert_eq!(description.memory_ns.values[0][0], json["memory_ns"][0][0].as_f64().expect("measured"));
    assert_eq!(std::fs::read_dir(&scratch.0).expect("there").count(), 1, "nothing else is left behind");
}

#[test]
fn help_of_probe_has_examples() {
    let help = isles(&["probe", "--help"]);
    assert_eq!((help.status, help.error.as_str()), (0, ""));
    assert!(help.output.contains("Examples:\n") && help.output.contains("--quick"));
}
#[test]
fn verify_runs_seeds_and_repeats() {
    let run = || {
        let arguments = ["verify", "--seeds", "6", "--first-seed", "40", "--cc", "silo", "--json"];
        let outcome = isles(&arguments);
        assert_eq!((outcome.status, outcome.error.as_str()), (0, ""));
        let mut json: serde_json::Value = serde_json::from_str(&outcome.output).expect("one JSON object");
        json.as_object_mut().and_then(|json| json.remove("host_seconds")).expect("a time");
        json
    };
    let json = run();
    assert_eq!((&json["seeds"], &json["histories"], &json["failures"]), (&6.into(), &6.into(), &0.into()));
    assert!(json["transactions"].as_u64().is_some_and(|count| count > 0));
    assert_eq!(json, run());
}

#[test]
fn help_of_verify_has_every_flag_and_examples() {
    let help = isles(&["verify", "--help"]).output;
    let flags = [
        "--cc",
        "--scheme",
        "--workload",
        "--seeds",
        "--first-seed",
        "--machine",
        "--cores",
        "--jobs",
        "--json",
    ];
    for word in flags.into_iter().chain(["Examples:", "isles verify --cc silo", "Exit status"]) {
        assert!(help.contains(word), "{word} in {help}");
    }
}

#[test]
fn a_database_that_is_being_changed_is_copied() {
    let scratch = Scratch::new("backup");
    let [data, copy, restored] = ["data", "copy", "restored"].map(|name| scratch.name(name));
    let bench = |path: &str, seconds: &str| {
        let words = "bench tpcc --warehouses 1 --scale 0.01 --cores 1 --durability group --warmup 0";
        let mut words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        words.extend(["--path", path, "--seconds", seconds].map(str::to_owned));
        words
    };
    // Loaded once, so that there is something to copy from the beginning.
    let loading = bench(&data, "0.1");
    let loaded = isles(&loading.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(loaded.status, 0, "{}", loaded.error);
    let mut changing = Command::new(PROGRAM)
        .args(bench(&data, "2"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary of this package runs");
    let backup = isles(&["backup", &data, &copy]);
    assert_eq!(backup.status, 0, "{}", backup.error);
    assert!(changing.wait().expect("it ends").success());
    assert_eq!(isles(&["backup", &data, &copy]).status, 1, "a copy is not overwritten");
    let restore = isles(&["restore", &copy, &restored]);
    assert!(restore.status == 0 && restore.output.contains("ok, "), "{}{}", restore.output, restore.error);
    let check = isles(&["check", &restored]);
    assert_eq!((check.status, &*check.error), (0, ""));
    assert!(check.output.contains("\n  warehouse: 1 rows\n"), "{}", check.output);
    let inspect = isles(&["inspect", &restored]);
    assert_eq!((inspect.status, &*inspect.error), (0, ""));
    for words in ["  warehouse: rows of ", "key (w_id, d_id, c_id); ", "  benchmark: rows of "] {
        assert!(inspect.output.contains(words), "{words} in {}", inspect.output);
    }
    // All twelve conditions hold in what was copied, and after some more transactions.
    let more = bench(&restored, "0.1");
    let reopened = isles(&more.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(reopened.status, 0, "{}{}", reopened.output, reopened.error);
    let manifest = std::path::Path::new(&restored).join("isles.manifest");
    let mut bytes = std::fs::read(&manifest).expect("a manifest");
    let known = bytes[8];
    // The format before is read.
    for found in [known - 2, known + 1] {
        bytes[8] = found;
        std::fs::write(&manifest, &bytes).expect("a manifest");
        let refused = isles(&["check", &restored]);
        let words =
            format!("format {found}, this version knows {known}: open it with the version that wrote it");
        assert!(refused.status == 1 && refused.error.contains(&words), "{}", refused.error);
    }
    for (backup, expected) in [("nowhere", "nowhere"), (scratch.0.to_str().unwrap_or(""), "not a database")] {
        let outcome = isles(&["restore", backup, &copy]);
        assert!(outcome.status == 1 && outcome.error.contains(expected), "{}", outcome.error);
    }
}
