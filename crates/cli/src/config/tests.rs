use std::ffi::OsString;

use cc::{CommitLocks, Deadlocks, RowCopies, RowLock, SchemeName};
use driver::{Durability, MemoryPlacement, Retry, Transport};
use machine::Placement;
use storage::Optimisation;
use workloads::lock::{HeldLine, LockKind};

use super::hot::Hot;
use super::resolve::resolve;
use super::types::*;
use super::workloads::*;
use crate::arguments::Command;
use crate::bad_input::BadInput;
use crate::choices::{DiskKind, Like, Switch, TpccHotRows, TpccLoad, TpccMix, TpccStocks};
use crate::machine_facts::MachineFacts;
use crate::usage;

/// Four cores of two hardware threads.
pub fn machine() -> MachineFacts {
    MachineFacts {
        name: "native".to_owned(),
        threads_by_smt: vec![4, 8],
        sockets_by_smt: vec![vec![0, 0, 1, 1], vec![0, 0, 0, 0, 1, 1, 1, 1]],
        machines: 1,
        host_memory_bytes: Some(16 << 30),
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

/// What is known of a machine.
pub fn facts_of(topology: &machine::Topology) -> MachineFacts {
    let (threads_by_smt, sockets_by_smt) = crate::machine_facts::threads_by_smt(topology);
    MachineFacts {
        name: "described".to_owned(),
        threads_by_smt,
        sockets_by_smt,
        machines: topology.machine_count(),
        host_memory_bytes: None,
    }
}

fn fault(line: &str) -> String {
    match resolve_on(line, &machine()) {
        Ok(config) => panic!("{line}: accepted as {config:?}"),
        Err(fault) => fault.to_string(),
    }
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = serde_json::to_value(resolved("tpcc")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(
        r#"{
        "workload": "tpcc", "warehouses": 8, "mix": "full", "remote_payment": 15.0, "remote_items": 1.0,
        "schema": "full", "scale": 1.0, "inserts": "on", "load": "home", "hot_rows": "late", "stocks": "sorted",
        "index_inserts": "on", "unvalidated_reads": "off",
        "machine": "native", "cores": 8, "smt": 2, "deploy": "1isl", "placement": "island", "memory": "local",
        "transport": "shm", "in_flight": 1, "commit": "classic",
        "scale_caches": "off",
        "engine": "memory", "pool": null, "cc": "silo", "execution": "inline", "adaptive": null, "adapt_interval": null, "durability": "group", "disk": null,
        "path": null, "timestamp": "clock", "without": [],
        "row_lock": "word", "retry": "exponential", "row_copies": "fields", "commit_locks": "ordered",
        "deadlocks": "graph", "like": null,
        "seconds": 10.0, "transactions": null, "at": [], "warmup": 1.0, "instrument": "on", "seed": 1
    }"#,
    )
    .expect("JSON");
    assert_eq!(config, expected);
    let workload = |line| serde_json::to_value(resolved(line).workload).unwrap();
    let micro = serde_json::json!({
        "workload": "micro", "op": "read", "rows": 10, "row_bytes": 250, "rows_per_site": 10_000,
        "multisite": 0.0, "zipf": null, "hot": null
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
        "workload": "ipc", "mechanism": "uds", "peers": "same-socket", "processes": 1
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
    assert_eq!((config.length, config.warmup_seconds), (Length::Seconds(0.02), 0.005));
    assert_eq!((config.cores, config.smt, config.native()), (80, 1, false));
    assert_eq!((config.durability, config.disk), (Durability::None, None));
    let disk = |line| resolve_on(line, &machine).unwrap().disk;
    assert_eq!(disk("tpcc --durability group"), Some(DiskKind::Ram));
    assert_eq!(disk("tpcc --durability group --disk hdd"), Some(DiskKind::Hdd));
    for wrong in ["tpcc --disk hdd", "tpcc --durability group --path data"] {
        assert!(resolve_on(wrong, &machine).is_err(), "{wrong}");
    }
}

#[test]
fn deployments_are_numbers_of_instances() {
    let instances = |line: &str| resolved(line).deploy.instances();
    let all =
        ["tpcc", "tpcc --deploy machine", "tpcc --deploy 4isl", "tpcc --deploy core", "tpcc --deploy socket"];
    assert_eq!(all.map(instances), [1, 1, 4, 8, 2]);
    assert_eq!(instances("tpcc --cores 4 --deploy socket"), 1);
    assert_eq!(instances("tpcc --cores 4 --deploy socket --placement spread"), 2);
    let config = resolved("micro --deploy 2isl --transport tcp --in-flight 7");
    assert_eq!(
        (config.transport, config.in_flight, config.durability),
        (Transport::Tcp, 7, Durability::Group)
    );
    let in_flight = |line: &str| resolved(line).in_flight;
    assert_eq!(in_flight("micro --deploy 2isl"), 64);
    assert_eq!(in_flight("micro --deploy 2isl --durability none"), 1);
    assert_eq!(serde_json::to_value(config).unwrap()["deploy"], "2isl");
}

#[test]
fn a_cluster_has_instances_on_its_machines() {
    let cluster = machine::Description::shipped("cluster").expect("shipped").whole();
    let instances = |line: &str| {
        let config = resolved_on(&cluster, line);
        (config.cores, config.deploy.instances())
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
    assert_eq!(config.transport, Transport::Tcp, "there is nothing else between machines");
    assert_eq!(resolved_on(&cluster, "micro --deploy socket").transport, Transport::Shm);
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
    assert_eq!((config.cores, config.smt), (3, 1));
    assert_eq!((config.placement, config.cc.scheme()), (Placement::Os, SchemeName::NoWait));
    assert_eq!(config.length, Length::Transactions(5));
    assert_eq!(resolved("micro --smt 1").cores, 4);
    assert_eq!(resolved("counter --threads 3").cores, 3);
    assert_eq!(resolved("counter --threads 3 --cores 3").cores, 3);
    assert_eq!(resolved("counter --cores 5").workload, resolved("counter --threads 5").workload);
    assert_eq!(resolved("lock --threads 3").cores, 3);
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
    assert_eq!((config.seed, config.json, config.instrument), (u64::MAX, true, Switch::Off));
    let tpcc = "--warehouses 2 --mix stock-level --remote-payment 0 --remote-items 100 --schema small \
                --scale 0.02 --inserts off --load block";
    let Workload::Tpcc(tpcc) = resolved(&format!("tpcc {tpcc}")).workload else { panic!("not tpcc") };
    assert_eq!((tpcc.warehouses, tpcc.mix, tpcc.scale), (2, TpccMix::StockLevel, 0.02));
    assert_eq!(tpcc.load, TpccLoad::Block);
    let memory = |value| resolved(&format!("micro --memory {value}")).memory;
    assert_eq!([memory("central"), memory("remote")], [MemoryPlacement::Central, MemoryPlacement::Remote]);
    assert_eq!(memory("hops=2"), MemoryPlacement::Hops(2));
    assert_eq!(serde_json::to_value(resolved("tpcc --memory hops=2")).unwrap()["memory"], "hops=2");
    let durable = resolved("micro --durability sync --path data");
    assert_eq!(
        (durable.durability, durable.path, durable.disk),
        (Durability::Sync, Some("data".into()), None)
    );
    assert_eq!((resolved("ipc").cores, resolved("ipc --cores 2 --mechanism mq").cores), (2, 2));
}

#[test]
fn a_program_s_ways_are_defaults() {
    let tpcc = |line: &str| match resolved(line).workload {
        Workload::Tpcc(tpcc) => {
            (tpcc.hot_rows, tpcc.stocks, tpcc.load, tpcc.index_inserts, tpcc.unvalidated_reads)
        }
        other => panic!("{line}: {other:?}"),
    };
    let own = (TpccHotRows::Late, TpccStocks::Sorted, TpccLoad::Home, Switch::On, Switch::Off);
    assert_eq!(tpcc("tpcc --mix narrow"), own);
    let like = (TpccHotRows::Early, TpccStocks::Drawn, TpccLoad::Block, Switch::Off, Switch::On);
    let narrow = "tpcc --mix narrow --like dbx1000";
    assert_eq!(resolved(narrow).durability, Durability::None);
    assert!(fault(&format!("{narrow} --durability group")).starts_with("--index-inserts off with"));
    assert_eq!(tpcc(narrow), like);
    let given = "--hot-rows late --stocks sorted --load home --index-inserts on --unvalidated-reads off";
    assert_eq!(tpcc(&format!("{narrow} {given}")), own);
    let engine = |line: &str| {
        let config = resolved(line);
        (config.row_lock, config.retry, config.row_copies, config.commit_locks, config.deadlocks)
    };
    let own = (RowLock::Word, Retry::Exponential, RowCopies::Fields, CommitLocks::Ordered, Deadlocks::Graph);
    let like = (RowLock::Latch, Retry::Buffer, RowCopies::Rows, CommitLocks::NoWait, Deadlocks::Lists);
    assert_eq!((engine("ycsb"), engine("ycsb --like dbx1000")), (own, like));
    let given = "--row-lock word --retry exponential --row-copies fields --commit-locks ordered";
    assert_eq!(engine(&format!("ycsb --like dbx1000 {given}")), own);
    let without = |line: &str| resolved(line).without;
    assert_eq!(
        (without("ycsb"), without("ycsb --like dbx1000")),
        (vec![], vec![Optimisation::PlainLocks, Optimisation::LookAhead])
    );
    assert_eq!(without("ycsb --like dbx1000 --without prefetch"), [Optimisation::Prefetch]);
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

/// Command lines and the one line that answers each.
const FAULTS: &[(&str, &str)] = &[
    (
        "tcpp",
        "WORKLOAD tcpp: unknown value (accepted: micro, ycsb, tpcb, tpcc, tatp, dependent, counter, lock, \
         ipc, memory)",
    ),
    (
        "tatp --seconds 1 --at hot=0.5:0.2",
        "--at hot=0.5:0.2: the moment is no number of seconds (accepted: SECONDS=CHANGE, a change being mix=NAME, hot=F:F, \
         multisite=F, fail-socket=N or rearrange=N)",
    ),
    (
        "tatp --seconds 1 --at 0.5=colour=red",
        "--at 0.5=colour=red: unknown change (accepted: SECONDS=CHANGE, a change being mix=NAME, hot=F:F, multisite=F, \
         fail-socket=N or rearrange=N)",
    ),
    (
        "tatp --seconds 1 --at 0.5=multisite=2",
        "--at 0.5=multisite=2: no share (accepted: multisite=F, 0 to 1)",
    ),
    (
        "tatp --seconds 1 --at 0.5=fail-socket=first",
        "--at 0.5=fail-socket=first: no number of a socket (accepted: fail-socket=N)",
    ),
    (
        "tatp --seconds 1 --at 0.5=fail-socket=2",
        "--at 0.5=fail-socket=2: no worker is on this socket (accepted: fail-socket=0 to 1)",
    ),
    (
        "tatp --seconds 1 --cores 2 --at 0.5=fail-socket=0",
        "--at 0.5=fail-socket=0: nobody would be left (accepted: workers on two sockets, or no fail-socket)",
    ),
    (
        "tatp --seconds 1 --at 0.5=fail-socket=0 --at 0.6=fail-socket=1",
        "--at 0.6=fail-socket=1: nobody would be left (accepted: workers on two sockets, or no fail-socket)",
    ),
    (
        "tatp --seconds 1 --deploy 2isl --at 0.5=fail-socket=0",
        "--at 0.5=fail-socket=0: other instances wait for those of the socket (accepted: --deploy 1isl)",
    ),
    (
        "tatp --seconds 1 --execution plp --at 0.5=rearrange=some",
        "--at 0.5=rearrange=some: no number of rearrangements (accepted: rearrange=N)",
    ),
    (
        "tatp --seconds 1 --at 0.5=rearrange=80",
        "--at 0.5=rearrange=80: workers own no partitions (accepted: --execution plp or atrapos)",
    ),
    (
        "tatp --seconds 1 --execution atrapos --at 0.5=rearrange=80",
        "--at 0.5=rearrange=80: partitions follow the workload (accepted: --adaptive off)",
    ),
    (
        "tatp --seconds 1 --at 1=mix=full",
        "--at 1=mix=full: the run is over by then (accepted: a moment below 1)",
    ),
    (
        "tatp --transactions 9 --at 1=mix=full",
        "--at 1=mix=full: nobody knows how many seconds a number of transactions takes (accepted: --seconds instead of \
         --transactions)",
    ),
    (
        "tpcc --at 1=mix=GetAccessData",
        "--at 1=mix=GetAccessData: unknown mix (accepted: full, narrow, payment, new-order, order-status, delivery, \
         stock-level)",
    ),
    (
        "micro --at 1=mix=full",
        "--at 1=mix=full: this workload does not change so (accepted: hot=F:F, multisite=F)",
    ),
    ("counter --at 1=mix=full", "--at 1=mix=full: this workload does not change so (accepted: no --at)"),
    ("tpcc --at 1=hot=0.5:0.2", "--at 1=hot=0.5:0.2: this workload does not change so (accepted: mix=NAME)"),
    (
        "tpcc --mix payment --index-inserts off --durability none --at 1=mix=full",
        "--at 1=mix=full: this workload does not change so (accepted: mix=narrow, payment or new-order, or \
         --index-inserts on)",
    ),
    (
        "dependent --at 1=hot=0.5:0.2",
        "--at 1=hot=0.5:0.2: this workload does not change so (accepted: multisite=F)",
    ),
    ("tatp --subscribers 7", "--subscribers 7: out of range (accepted: 8 to 4000000000)"),
    (
        "tatp --mix payment",
        "--mix payment: unknown value (accepted: full, GetSubscriberData, GetNewDestination, GetAccessData, \
         UpdateSubscriberData, UpdateLocation, InsertCallForwarding, DeleteCallForwarding)",
    ),
    ("tpcb --branches 0", "--branches 0: out of range (accepted: 1 to 65535)"),
    ("tpcb --remote 101", "--remote 101: out of range (accepted: 0 to 100)"),
    ("tpcb --scale 0", "--scale 0: out of range (accepted: 0.00001 to 1000)"),
    (
        "tpcb --warehouses 2",
        "--warehouses: a flag of workload tpcc, not of tpcb (accepted: --branches, --remote, --scale)",
    ),
    ("tpcc --cores 0", "--cores 0: out of range (accepted: 1 to 8)"),
    ("tpcc --cores 9", "--cores 9: out of range (accepted: 1 to 8)"),
    (
        "ycsb --like dbx1000 --row-lock word --deadlocks lists",
        "--deadlocks lists: words do not say who waits for whom (accepted: graph, or --row-lock latch)",
    ),
    ("tpcc --smt 1 --cores 5", "--cores 5: out of range (accepted: 1 to 4)"),
    ("tpcc --cores -1", "--cores -1: out of range (accepted: 1 to 8)"),
    ("tpcc --cores two", "--cores two: not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores 1.5", "--cores 1.5: not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores --json", "--cores --json: not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores=", "--cores \"\": not a whole number (accepted: 1 to 8)"),
    ("tpcc --cores 99999999999999999999", "--cores 99999999999999999999: out of range (accepted: 1 to 8)"),
    ("tpcc --smt 3", "--smt 3: out of range (accepted: 1 to 2)"),
    ("tpcc --smt 0", "--smt 0: out of range (accepted: 1 to 2)"),
    (
        "tpcc --deploy 9isl",
        "--deploy 9isl: more instances than workers (accepted: 1isl to 8isl, core, socket, machine)",
    ),
    (
        "tpcc --cores 1 --deploy 2isl",
        "--deploy 2isl: more instances than workers (accepted: 1isl to 1isl, core, socket, machine)",
    ),
    ("tpcc --deploy 0isl", "--deploy 0isl: unknown value (accepted: 1isl to 8isl, core, socket, machine)"),
    ("tpcc --deploy isl", "--deploy isl: unknown value (accepted: 1isl to 8isl, core, socket, machine)"),
    ("tpcc --deploy +2isl", "--deploy +2isl: unknown value (accepted: 1isl to 8isl, core, socket, machine)"),
    (
        "counter --deploy 2isl",
        "--deploy 2isl: this workload stores nothing that could be divided (accepted: 1isl, machine)",
    ),
    (
        "tpcc --deploy 2isl --without bounded-spin",
        "--without bounded-spin: several instances need bounded waits (accepted: other optimisations, or one instance)",
    ),
    ("tpcc --placement near", "--placement near: unknown value (accepted: island, spread, os)"),
    ("tpcc --memory far", "--memory far: unknown value (accepted: local, central, remote, hops=N)"),
    ("tpcc --memory hops=x", "--memory hops=x: unknown value (accepted: local, central, remote, hops=N)"),
    ("tpcc --memory hops=-1", "--memory hops=-1: unknown value (accepted: local, central, remote, hops=N)"),
    ("tpcc --engine paged --cc silo", "--cc silo: not with --engine paged (accepted: 2pl)"),
    ("lock --engine paged", "--engine paged: lock stores nothing (accepted: memory)"),
    (
        "tpcc --engine paged --pool 1g",
        "--pool 1g: not a number of bytes (accepted: 65536 to 64TiB, such as 256MiB)",
    ),
    (
        "tpcc --engine paged --pool 1KiB",
        "--pool 1KiB: out of range (accepted: 65536 to 64TiB, such as 256MiB)",
    ),
    (
        "tpcc --engine paged --pool 17GiB",
        "--pool 17GiB: more than the memory of this machine (accepted: up to 16384MiB)",
    ),
    (
        "tpcc --engine paged --index-inserts off --mix narrow",
        "--index-inserts off: a row in no index has no place in a page (accepted: on, or --engine memory)",
    ),
    (
        "tpcc --cc 2pl",
        "--cc 2pl: not with --engine memory (accepted: silo, tictoc, occ, mvcc, no-wait, wait-die, dl-detect, hstore)",
    ),
    (
        "tpcc --cc Silo",
        "--cc Silo: unknown value (accepted: silo, tictoc, occ, mvcc, no-wait, wait-die, dl-detect, hstore)",
    ),
    ("tpcc --execution dora", "--execution dora: unknown value (accepted: inline, plp, atrapos)"),
    ("tpcc --execution plp --cc silo", "--cc silo: not with --execution plp (accepted: hstore)"),
    (
        "tpcc --execution plp --durability group",
        "--durability group: workers that own partitions of rows in memory log nothing yet (accepted: none; others with --engine \
         paged, or --execution inline)",
    ),
    (
        "tpcc --execution atrapos --engine paged --deploy 2isl",
        "--execution atrapos: workers own partitions of one instance (accepted: inline, or --deploy 1isl)",
    ),
    (
        "counter --execution atrapos",
        "--execution atrapos: this workload has no transactions (accepted: inline)",
    ),
    ("tpcc --durability full", "--durability full: unknown value (accepted: none, async, group, sync)"),
    ("tpcc --timestamp wall", "--timestamp wall: unknown value (accepted: clock, counter)"),
    ("tpcc --instrument yes", "--instrument yes: unknown value (accepted: on, off)"),
    ("tpcc --seed -1", "--seed -1: out of range (accepted: 0 to 18446744073709551615)"),
    ("tpcc --seconds 0", "--seconds 0: out of range (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds -1", "--seconds -1: out of range (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds NaN", "--seconds NaN: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds inf", "--seconds inf: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds -inf", "--seconds -inf: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds 1e9", "--seconds 1e9: out of range (accepted: 0.00001 to 86400)"),
    ("tpcc --seconds 10s", "--seconds 10s: not a number (accepted: 0.00001 to 86400)"),
    ("tpcc --transactions 0", "--transactions 0: out of range (accepted: 1 to 1000000000000)"),
    (
        "tpcc --seconds 1 --transactions 1",
        "--seconds with --transactions: each gives the length of the run (accepted: one of the two)",
    ),
    ("tpcc --warmup -0.1", "--warmup -0.1: out of range (accepted: 0 to 3600)"),
    (
        "tpcc --adaptive on",
        "--adaptive on: only --execution atrapos has partitions that could follow the workload (accepted: no --adaptive, or \
         --execution atrapos)",
    ),
    ("tpcc --execution atrapos --adaptive maybe", "--adaptive maybe: unknown value (accepted: on, off)"),
    (
        "tpcc --adapt-interval 1",
        "--adapt-interval 1: partitions do not follow the workload (accepted: no --adapt-interval, or --execution atrapos \
         --adaptive on)",
    ),
    (
        "tpcc --execution atrapos --adapt-interval 0",
        "--adapt-interval 0: out of range (accepted: 0.0001 to 3600)",
    ),
    ("tpcc --transport pipe", "--transport pipe: unknown value (accepted: shm, uds, tcp)"),
    ("tpcc --disk ram", "--disk ram: this machine has the disk it has (accepted: no --disk, or --machine)"),
    (
        "tpcc --scale 0.1 --scale-caches on",
        "--scale-caches on: this machine has the caches it has (accepted: off, or --machine)",
    ),
    ("tpcc --scale-caches maybe", "--scale-caches maybe: unknown value (accepted: on, off)"),
    ("tpcc --disk tape", "--disk tape: unknown value (accepted: ram, nvme, hdd)"),
    ("tpcc --in-flight 0", "--in-flight 0: out of range (accepted: 1 to 1024)"),
    ("tpcc --commit lotus", "--commit lotus: unknown value (accepted: classic)"),
    (
        "tpcc --without",
        "--without \"\": unknown value (accepted: thread-alloc, hash-index, queue-latch, replicate, prefetch, compiled-rows, bounded-spin, read-only-skip, replicate-index, plain-locks, lookahead, sli, aether)",
    ),
    (
        "tpcc --without hash-index,read-only-skip,hash-index",
        "--without hash-index: named twice (accepted: each name once)",
    ),
    ("counter --durability group", "--durability group: this workload stores nothing (accepted: none)"),
    (
        "tpcc --durability none --path data",
        "--path data: nothing is logged (accepted: no --path, or --durability async, group, sync)",
    ),
    ("tpcc --pool 1GiB", "--pool 1GiB: rows in memory have no pool (accepted: no --pool, or --engine paged)"),
    ("tpcc --warehouses 0", "--warehouses 0: out of range (accepted: 1 to 65535)"),
    ("tpcc --warehouses 65536", "--warehouses 65536: out of range (accepted: 1 to 65535)"),
    (
        "tpcc --warehouses 10000",
        "--warehouses 10000: rows of 633.3 GiB in a memory of 16.0 GiB (accepted: less than 252)",
    ),
    (
        "tpcc --mix all",
        "--mix all: unknown value (accepted: full, narrow, payment, new-order, order-status, delivery, stock-level)",
    ),
    ("tpcc --remote-payment 101", "--remote-payment 101: out of range (accepted: 0 to 100)"),
    ("tpcc --remote-items -1", "--remote-items -1: out of range (accepted: 0 to 100)"),
    ("tpcc --schema tiny", "--schema tiny: unknown value (accepted: full, small)"),
    ("tpcc --scale 0", "--scale 0: out of range (accepted: 0.001 to 100)"),
    ("tpcc --scale -1", "--scale -1: out of range (accepted: 0.001 to 100)"),
    ("tpcc --inserts maybe", "--inserts maybe: unknown value (accepted: on, off)"),
    ("tpcc --load anywhere", "--load anywhere: unknown value (accepted: home, block)"),
    ("tpcc --hot-rows soon", "--hot-rows soon: unknown value (accepted: late, early)"),
    ("tpcc --stocks all", "--stocks all: unknown value (accepted: sorted, drawn)"),
    (
        "tpcc --index-inserts off --durability none",
        "--index-inserts off with --mix full: these transactions look for inserted rows (accepted: --mix narrow, payment or new-order)",
    ),
    (
        "tpcc --index-inserts off --mix narrow",
        "--index-inserts off with --durability group: rows in no index are in no log (accepted: --durability none)",
    ),
    ("tpcc --unvalidated-reads maybe", "--unvalidated-reads maybe: unknown value (accepted: on, off)"),
    ("tpcc --like silo", "--like silo: unknown value (accepted: dbx1000)"),
    ("ipc --cores 3", "--cores 3: messages go between two peers (accepted: 2)"),
    ("ipc --mechanism pigeon", "--mechanism pigeon: unknown value (accepted: pipe, fifo, mq, uds, tcp, shm)"),
    ("ipc --processes 3", "--processes 3: out of range (accepted: 1 to 2)"),
    (
        "ipc --processes 2 --mechanism mq",
        "--mechanism mq with --processes 2: it does not connect two processes here (accepted: shm, uds, tcp)",
    ),
    (
        "ipc --processes 2 --machine quad-socket",
        "--processes 2: a simulated machine has no processes (accepted: 1)",
    ),
    (
        "ipc --peers apart",
        "--peers apart: unknown value (accepted: same-socket, other-socket, other-machine)",
    ),
    ("memory --rows 0", "--rows 0: out of range (accepted: 1 to 10000000000)"),
    (
        "micro --warehouses 2",
        "--warehouses: a flag of workload tpcc, not of micro (accepted: --rows, --zipf, --op, --row-bytes, \
         --rows-per-site, --multisite, --hot)",
    ),
    (
        "counter --rows 1",
        "--rows: a flag of workload micro and ycsb and memory, not of counter (accepted: --threads, --counters)",
    ),
    (
        "counter --branches 1",
        "--branches: a flag of workload tpcb, not of counter (accepted: --threads, --counters)",
    ),
    ("micro --op write", "--op write: unknown value (accepted: read, update, mixed)"),
    ("micro --rows 0", "--rows 0: out of range (accepted: 1 to 1000)"),
    (
        "micro --rows 20 --rows-per-site 10",
        "--rows 20: more rows a transaction than --rows-per-site 10 (accepted: 1 to 10)",
    ),
    ("micro --row-bytes 4", "--row-bytes 4: out of range (accepted: 8 to 65536)"),
    ("micro --rows-per-site 0", "--rows-per-site 0: out of range (accepted: 1 to 10000000000)"),
    ("micro --multisite 1.01", "--multisite 1.01: out of range (accepted: 0 to 1)"),
    ("micro --zipf 2", "--zipf 2: out of range (accepted: 0 to 1)"),
    (
        "micro --hot 0.5",
        "--hot 0.5: not two shares (accepted: F:F as in 0.8:0.2, a share of requests from 0 to 1 and a share of \
         data above 0 up to 1)",
    ),
    (
        "micro --hot 0.5:0.2 --zipf 0.5",
        "--hot with --zipf: each gives the skew of the choice of rows (accepted: one of the two)",
    ),
    ("ycsb --workload g", "--workload g: unknown value (accepted: a, b, c, d, e, f)"),
    ("ycsb --records 0", "--records 0: out of range (accepted: 1 to 10000000000)"),
    (
        "ycsb --records 1000000000",
        "--records 1000000000: rows of 93.1 GiB in a memory of 16.0 GiB (accepted: less than 171798691)",
    ),
    (
        "ycsb --rows 11 --records 10",
        "--rows 11: more rows a transaction than --records 10 (accepted: 1 to 10)",
    ),
    ("counter --threads 9", "--threads 9: out of range (accepted: 1 to 8)"),
    (
        "counter --threads 2 --cores 3",
        "--threads 2 with --cores 3: both give the number of workers (accepted: one of the two)",
    ),
    (
        "lock --lock lock",
        "--lock lock: unknown value (accepted: tas, ttas, ticket, mcs, clh, hierarchical, cas, cas-refused, faa, swap, poll)",
    ),
    ("lock --locks 0", "--locks 0: out of range (accepted: 1 to 1000000)"),
    ("lock --critical -1", "--critical -1: out of range (accepted: 0 to 1000000)"),
    ("lock --delay long", "--delay long: not a whole number (accepted: 0 to 1000000)"),
    ("lock --held-words 7", "--held-words 7: out of range (accepted: 1 to 6)"),
    ("lock --held-line both", "--held-line both: unknown value (accepted: own, lock)"),
    (
        "lock --lock faa --critical 5",
        "--critical 5: nothing is held under --lock faa (accepted: with --lock tas, ttas, ticket, mcs, clh, hierarchical)",
    ),
    (
        "lock --lock poll --held-line own",
        "--held-line own: nothing is held under --lock poll (accepted: with --lock tas, ttas, ticket, mcs, clh, hierarchical)",
    ),
    (
        "lock --lock mcs --backoff 100",
        "--backoff 100: waiters of --lock mcs do not back off (accepted: with --lock ttas, ticket)",
    ),
    ("lock --lock poll --locks 2", "--locks 2: one word is polled (accepted: 1)"),
    ("lock --lock poll --threads 1", "--threads 1: one writes and others poll (accepted: 2 or more)"),
    ("lock --threads 9", "--threads 9: out of range (accepted: 1 to 8)"),
    (
        "counter --lock mcs",
        "--lock: a flag of workload lock, not of counter (accepted: --threads, --counters)",
    ),
    ("counter --counters many", "--counters many: unknown value (accepted: single, socket, core)"),
];

#[test]
fn every_fault_has_its_line() {
    for (line, expected) in FAULTS {
        assert_eq!(fault(line), *expected, "isles bench {line}");
    }
    for hot in ["a:b", "2:0.5", "0.5:0", "0.5:NaN", ":"] {
        assert!(fault(&format!("micro --hot {hot}")).starts_with(&format!("--hot {hot}: ")));
    }
}
