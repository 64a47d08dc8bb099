use std::ffi::OsString;

use concurrency::{CommitLocks, Deadlocks, RowCopies, RowLock, SchemeName, TimestampDraws};
use harness::{Durability, Length, MemoryPlacement, Partitioning, Retry, Transport};
use machine::Placement;
use workloads::lock::{HeldLine, LockKind};
use workloads::tpcc::{HotRows, Stocks};

use super::resolve::resolve;
use super::resolved::*;
use super::workloads::*;
use crate::bad_input::BadInput;
use crate::choices::{DiskKind, Like, Switch};
use crate::commands::Command;
use crate::hot::Hot;
use crate::machine_facts::MachineFacts;
use crate::usage;
use faults::FAULTS;

mod faults;

/// Four cores of two hardware threads.
pub fn machine() -> MachineFacts {
    MachineFacts {
        name: "native".to_owned(),
        threads_by_smt: vec![4, 8],
        sockets_by_smt: vec![vec![0, 0, 1, 1], vec![0, 0, 0, 0, 1, 1, 1, 1]],
        machines: 1,
        host_memory_bytes: Some(16 << 30),
        has_tlbs: false,
    }
}

fn resolve_on(line: &str, machine: &MachineFacts) -> Result<Config, BadInput> {
    let words = ["isles", "bench"].into_iter().chain(line.split_whitespace()).map(OsString::from);
    match usage::parse(words).unwrap_or_else(|stop| panic!("{line}: {stop:?}")).command {
        Command::Bench(arguments) => resolve(&arguments, machine),
        other => panic!("{line}: {other:?}"),
    }
}

/// The configuration of a good command line on [`machine`].
pub fn resolved(line: &str) -> Config {
    resolve_on(line, &machine()).unwrap_or_else(|fault| panic!("{line}: {fault}"))
}

/// The configuration of a good command line on a simulated machine of this structure.
pub fn resolved_on(topology: &machine::Topology, line: &str) -> Config {
    resolved_with(&facts_of(topology), line)
}

/// The same on a machine of which this is known.
pub fn resolved_with(facts: &MachineFacts, line: &str) -> Config {
    resolve_on(line, facts).unwrap_or_else(|fault| panic!("{line}: {fault}"))
}

/// The facts of a machine.
pub fn facts_of(topology: &machine::Topology) -> MachineFacts {
    let (threads_by_smt, sockets_by_smt) = crate::machine_facts::threads_by_smt(topology);
    MachineFacts {
        name: "described".to_owned(),
        threads_by_smt,
        sockets_by_smt,
        machines: topology.machine_count(),
        host_memory_bytes: None,
        has_tlbs: false,
    }
}

fn fault(line: &str) -> String {
    match resolve_on(line, &machine()) {
        Ok(config) => panic!("{line}: accepted as {config:?}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn the_published_system_has_lists_of_sockets() {
    let simulated = crate::machine_facts::MachineFacts { name: "described".to_owned(), ..machine() };
    let without = |line: &str| {
        let config = resolved_with(&simulated, &format!("tatp --engine paged {line}"));
        serde_json::to_value(config.plan).expect("a plan")["without"].clone()
    };
    let like = "--like shore-mt --execution";
    assert_eq!(without("--execution atrapos"), serde_json::json!([]));
    assert_eq!(without("--execution atrapos --without announcements"), serde_json::json!(["announcements"]));
    assert_eq!(
        without(&format!("{like} atrapos")),
        serde_json::json!(["prefetch", "lookahead", "announcements"])
    );
    assert_eq!(without(&format!("{like} plp")), serde_json::json!(["prefetch", "lookahead"]));
}

#[test]
fn borders_change_by_either_separator() {
    let shifts = |text: &str| {
        let line = format!("tatp --execution atrapos --adaptive monitor --seconds 1 --at 0.5={text}");
        resolved(&line).plan.shifts
    };
    for name in ["split", "merge", "rearrange"] {
        let [one, other] = [":", "="].map(|separator| shifts(&format!("{name}{separator}40")));
        assert_eq!(one, other);
        assert_eq!((one[0].count, one[0].seconds), (40, 0.5));
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = serde_json::to_value(resolved("tpcc")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(
        r#"{
        "workload": "tpcc", "warehouses": 8, "mix": "full", "remote_payment": 15.0, "remote_items": 1.0, "remote_rows": "any", "remote_choice": "any",
        "schema": "full", "scale": 1.0, "inserts": "on", "load": "home", "hot_rows": "late", "stocks": "sorted",
        "index_inserts": "on", "unvalidated_reads": "off",
        "machine": "native", "cores": 8, "smt": 2, "machines": null, "deploy": "1isl", "placement": "island", "memory": "local",
        "transport": "shm", "in_flight": 1, "commit": "classic",
        "scale_caches": "off", "pages": "huge",
        "engine": "memory", "pool": null, "cc": "silo", "execution": "inline", "adaptive": null, "adapt_interval": null, "durability": "group", "disk": null, "log_disk": null, "slice_divisor": 1,
        "path": null, "timestamp": "clock", "without": [],
        "row_lock": "word", "retry": "exponential", "clients": "worker", "row_copies": "fields", "commit_locks": "ordered",
        "deadlocks": "graph", "like": null,
        "seconds": 10.0, "transactions": null, "at": [], "warmup": 1.0, "instrument": "on", "seed": 1, "repeat": 1, "bins": 40
    }"#,
    )
    .expect("JSON");
    assert_eq!(config, expected);
    let workload = |line| serde_json::to_value(resolved(line).workload).unwrap();
    let micro = serde_json::json!({
        "workload": "micro", "op": "read", "rows": 10, "row_bytes": 250, "rows_per_site": 10_000,
        "multisite": 0.0, "remote_rows": "any", "zipf": null, "hot": null
    });
    assert_eq!(workload("micro"), micro);
    let ycsb = serde_json::json!({
        "workload": "ycsb", "ycsb_workload": "a", "records": 1_000_000, "rows": 10, "zipf": 0.99
    });
    assert_eq!(workload("ycsb"), ycsb);
    let counter = serde_json::json!({"workload": "counter", "threads": 8, "counters": "single"});
    assert_eq!(workload("counter"), counter);
    let lock = serde_json::json!({
        "workload": "lock", "lock": "mcs", "threads": 8, "locks": 1, "critical": 0, "delay": 0,
        "held_words": 1, "held_line": "own", "backoff": 0
    });
    assert_eq!(workload("lock"), lock);
    let ipc = serde_json::json!({
        "workload": "ipc", "mechanism": "uds", "bytes": 256, "peers": "same-socket", "processes": 1
    });
    assert_eq!(workload("ipc"), ipc);
    assert_eq!(workload("memory"), serde_json::json!({"workload": "memory", "rows": 1_000_000}));
}

#[test]
fn a_simulated_machine_runs_shorter() {
    let machine = MachineFacts {
        name: "octo-socket".to_owned(),
        threads_by_smt: vec![80],
        sockets_by_smt: vec![vec![0; 80]],
        ..machine()
    };
    let config = resolve_on("micro", &machine).unwrap();
    assert_eq!((config.plan.length, config.plan.warm_up_seconds), (Length::Seconds(0.02), 0.005));
    assert_eq!((config.deployment.workers, config.deployment.smt, config.native()), (80, 1, false));
    assert_eq!((config.plan.durability, config.disk), (Durability::None, None));
    let dependent = "dependent --engine paged --like shore-mt --execution plp";
    for (more, per_thread, own) in
        [("", 2, true), (" --partitions 40", 1, true), (" --partition-threads off", 1, false)]
    {
        let config = resolve_on(&format!("{dependent}{more}"), &machine).unwrap();
        assert_eq!((config.deployment.workers_per_thread, config.plan.partition_threads), (per_thread, own));
    }
    for wrong in [
        "dependent --partition-threads on",
        "tatp --engine paged --execution plp --partition-threads on",
        "dependent --engine paged --execution plp --partition-threads on --workers-per-thread 3",
        "ipc --workers-per-thread 2",
    ] {
        assert!(resolve_on(wrong, &machine).is_err(), "{wrong}");
    }
    let disk = |line| resolve_on(line, &machine).unwrap().disk;
    assert_eq!(disk("tpcc --durability group"), Some(DiskKind::Ram));
    assert_eq!(disk("tpcc --durability group --disk hdd"), Some(DiskKind::Hdd));
    for wrong in ["tpcc --disk hdd", "tpcc --durability group --path data"] {
        assert!(resolve_on(wrong, &machine).is_err(), "{wrong}");
    }
}

#[test]
fn deployments_are_numbers_of_instances() {
    let instances = |line: &str| resolved(line).deployment.instances;
    let all =
        ["tpcc", "tpcc --deploy machine", "tpcc --deploy 4isl", "tpcc --deploy core", "tpcc --deploy socket"];
    assert_eq!(all.map(instances), [1, 1, 4, 8, 2]);
    assert_eq!(instances("tpcc --cores 4 --deploy socket"), 1);
    assert_eq!(instances("tpcc --cores 4 --deploy socket --placement spread"), 2);
    let config = resolved("micro --deploy 2isl --transport tcp --in-flight 7");
    assert_eq!(
        (config.deployment.transport, config.plan.in_flight, config.plan.durability),
        (Transport::Tcp, 7, Durability::Group)
    );
    let in_flight = |line: &str| resolved(line).plan.in_flight;
    assert_eq!(in_flight("micro --deploy 2isl"), 64);
    assert_eq!(in_flight("micro --deploy 2isl --durability none"), 1);
    assert_eq!(serde_json::to_value(config).unwrap()["deploy"], "2isl");
}

#[test]
fn a_cluster_has_instances_on_its_machines() {
    let cluster = machine::Description::shipped("cluster").expect("shipped").whole();
    let instances = |line: &str| {
        let config = resolved_on(&cluster, line);
        (config.deployment.workers, config.deployment.instances)
    };
    assert_eq!(instances("micro"), (12, 1), "one instance has one machine");
    assert_eq!(instances("counter"), (12, 1));
    assert_eq!(instances("micro --deploy machine"), (96, 8));
    assert_eq!(instances("micro --deploy machine --cores 48"), (48, 4));
    assert_eq!(instances("micro --deploy machine --cores 13"), (13, 2));
    assert_eq!(instances("micro --deploy socket --cores 30"), (30, 5));
    assert_eq!(instances("micro --deploy socket --cores 15 --placement spread"), (15, 4));
    assert_eq!(instances("micro --deploy core"), (96, 96));
    let config = resolved_on(&cluster, "micro --deploy machine --commit classic");
    assert_eq!(config.deployment.transport, Transport::Tcp, "there is nothing else between machines");
    assert_eq!(resolved_on(&cluster, "micro --deploy socket").deployment.transport, Transport::Shm);
    let (threads_by_smt, sockets_by_smt) = crate::machine_facts::threads_by_smt(&cluster);
    let facts =
        MachineFacts { name: "cluster".to_owned(), threads_by_smt, sockets_by_smt, machines: 8, ..machine() };
    let fault = |line| resolve_on(line, &facts).expect_err("refused").to_string();
    assert_eq!(
        fault("micro --deploy machine --transport shm"),
        "--transport shm: each instance has a machine of its own, and memory is not shared between machines (accepted: tcp)"
    );
    assert_eq!(
        fault("ipc --peers other-machine --mechanism uds"),
        "--mechanism uds with --peers other-machine: two machines share no memory and no kernel (accepted: tcp)"
    );
    let ipc = resolve_on("ipc --peers other-machine", &facts).expect("tcp is the default");
    assert_eq!(serde_json::to_value(ipc).unwrap()["mechanism"], "tcp");
}

#[test]
fn flags_are_taken() {
    let config =
        resolved("tpcc --cores 3 --smt 1 --deploy machine --placement os --cc no-wait --transactions 5");
    assert_eq!((config.deployment.workers, config.deployment.smt), (3, 1));
    assert_eq!((config.deployment.placement, config.cc.scheme()), (Placement::Os, SchemeName::NoWait));
    assert_eq!(config.plan.length, Length::Commits(5));
    assert_eq!(resolved("micro --smt 1").deployment.workers, 4);
    let shared = resolved("micro --smt 1 --workers-per-thread 3");
    assert_eq!((shared.deployment.workers, shared.deployment.all_workers()), (4, 12));
    assert_eq!(resolved("counter --threads 3").deployment.workers, 3);
    assert_eq!(resolved("counter --threads 3 --cores 3").deployment.workers, 3);
    assert_eq!(resolved("counter --cores 5").workload, resolved("counter --threads 5").workload);
    assert_eq!(resolved("lock --threads 3").deployment.workers, 3);
    let every = "--lock ticket --threads 2 --locks 9 --critical 1 --delay 2 --held-words 6 --held-line lock --backoff 3";
    let Workload::Lock(lock) = resolved(&format!("lock {every}")).workload else { panic!("not lock") };
    let expected = Lock {
        lock: LockKind::Ticket,
        threads: 2,
        locks: 9,
        critical: 1,
        delay: 2,
        held_words: 6,
        held_line: HeldLine::Lock,
        backoff: 3,
    };
    assert_eq!(lock, expected);
    let Workload::Micro(micro) = resolved("micro --hot 0.8:0.2 --rows 2 --op mixed --multisite 1").workload
    else {
        panic!("not micro")
    };
    assert_eq!(micro.hot, Some(Hot { requests: 0.8, data: 0.2 }));
    let every = "--machine native --memory local --engine memory --execution inline --durability none \
                 --timestamp clock --deploy 1isl --warmup 0 --instrument off --seed 18446744073709551615 --json";
    let config = resolved(&format!("ycsb --workload f --records 10 --zipf 0 --seconds 0.5 {every}"));
    assert_eq!((config.plan.seed, config.json, config.plan.instrument), (u64::MAX, true, false));
    let tpcc = "--warehouses 2 --mix stock-level --remote-payment 0 --remote-items 100 --schema small \
                --scale 0.02 --inserts off --load block";
    let Workload::Tpcc(tpcc) = resolved(&format!("tpcc {tpcc}")).workload else { panic!("not tpcc") };
    assert_eq!((tpcc.warehouses, tpcc.mix, tpcc.scale), (2, workloads::tpcc::Mix::StockLevel, 0.02));
    assert_eq!(tpcc.load, Partitioning::Blocks);
    let memory = |value| resolved(&format!("micro --memory {value}")).deployment.memory;
    assert_eq!([memory("central"), memory("remote")], [MemoryPlacement::Central, MemoryPlacement::Remote]);
    assert_eq!(memory("hops=2"), MemoryPlacement::Hops(2));
    assert_eq!(serde_json::to_value(resolved("tpcc --memory hops=2")).unwrap()["memory"], "hops=2");
    let durable = resolved("micro --durability sync --path data");
    assert_eq!(
        (durable.plan.durability, durable.plan.path, durable.disk),
        (Durability::Sync, Some("data".into()), None)
    );
    assert_eq!(
        (resolved("ipc").deployment.workers, resolved("ipc --cores 2 --mechanism mq").deployment.workers),
        (2, 2)
    );
}

#[test]
fn a_program_s_ways_are_defaults() {
    let tpcc = |line: &str| match resolved(line).workload {
        Workload::Tpcc(tpcc) => {
            (tpcc.hot_rows, tpcc.stocks, tpcc.load, tpcc.index_inserts, tpcc.unvalidated_reads)
        }
        other => panic!("{line}: {other:?}"),
    };
    let own = (HotRows::Late, Stocks::Sorted, Partitioning::RoundRobin, Switch::On, Switch::Off);
    assert_eq!(tpcc("tpcc --mix narrow"), own);
    let like = (HotRows::Early, Stocks::Drawn, Partitioning::Blocks, Switch::Off, Switch::On);
    let narrow = "tpcc --mix narrow --like dbx1000";
    assert_eq!(resolved(narrow).plan.durability, Durability::None);
    assert!(fault(&format!("{narrow} --durability group")).starts_with("--index-inserts off with"));
    assert_eq!(tpcc(narrow), like);
    let given = "--hot-rows late --stocks sorted --load home --index-inserts on --unvalidated-reads off";
    assert_eq!(tpcc(&format!("{narrow} {given}")), own);
    // Both are one optimisation there.
    let without = "--without read-only-skip";
    assert_eq!(tpcc(&format!("{narrow} {without}")).4, Switch::Off);
    assert_eq!(tpcc(&format!("{narrow} {without} --unvalidated-reads on")).4, Switch::On);
    let engine = |line: &str| {
        let config = resolved(line);
        (
            config.plan.ways.row_lock,
            config.plan.retry,
            config.plan.ways.row_copies,
            config.plan.ways.commit_locks,
            config.plan.ways.deadlocks,
            config.plan.ways.timestamp_draws,
        )
    };
    let (used, published) = (TimestampDraws::Used, TimestampDraws::Published);
    let own =
        (RowLock::Word, Retry::Exponential, RowCopies::Fields, CommitLocks::Ordered, Deadlocks::Graph, used);
    let like =
        (RowLock::Latch, Retry::Buffer, RowCopies::Rows, CommitLocks::NoWait, Deadlocks::Lists, published);
    assert_eq!((engine("ycsb"), engine("ycsb --like dbx1000")), (own, like));
    let own = (own.0, own.1, own.2, own.3, own.4, published);
    let given = "--row-lock word --retry exponential --row-copies fields --commit-locks ordered";
    assert_eq!(engine(&format!("ycsb --like dbx1000 {given}")), own);
    let without = |line: &str| serde_json::to_value(resolved(line)).unwrap()["without"].take();
    assert_eq!(
        (without("ycsb"), without("ycsb --like dbx1000")),
        (serde_json::json!([]), serde_json::json!(["plain-locks", "lookahead"]))
    );
    assert_eq!(without("ycsb --like dbx1000 --without prefetch"), serde_json::json!(["prefetch"]));
    // The full mix looks for what it inserts, there as here.
    assert_eq!(tpcc("tpcc --like dbx1000").3, Switch::On);
    assert_eq!(resolved("tpcc --like dbx1000").like, Some(Like::Dbx1000));
    assert_eq!(serde_json::to_value(resolved("micro --like dbx1000")).unwrap()["like"], "dbx1000");
}

#[test]
fn changes_follow_each_other_in_time() {
    let config =
        resolved("tatp --seconds 9 --at 2=mix=full --at 0.5=hot=0.5:0.2 --at 1e0=mix=UpdateLocation");
    let json = serde_json::to_value(&config).unwrap();
    assert_eq!(json["at"], serde_json::json!(["0.5=hot=0.5:0.2", "1=mix=UpdateLocation", "2=mix=full"]));
    let hot = Some(Hot { requests: 0.5, data: 0.2 });
    let stages: Vec<Workload> = config.at.iter().map(|at| at.workload.clone()).collect();
    let Workload::Tatp(first) = config.workload else { panic!("it is TATP") };
    let of = |mix, hot| Workload::Tatp(Tatp { mix, hot, ..first.clone() });
    let (full, moving) = (workloads::tatp::Mix::Full, workloads::tatp::Mix::UpdateLocation);
    assert_eq!(stages, [of(full, hot), of(moving, hot), of(full, hot)]);
    assert_eq!((first.subscribers, first.mix, first.hot), (100_000, full, None));
}

#[test]
fn every_fault_has_its_line() {
    for (line, expected) in FAULTS {
        assert_eq!(fault(line), *expected, "isles bench {line}");
    }
    for hot in ["a:b", "2:0.5", "0.5:0", "0.5:NaN", ":"] {
        assert!(fault(&format!("micro --hot {hot}")).starts_with(&format!("--hot {hot}: ")));
    }
}
