//! From the command line as typed to a configuration.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use concurrency::{Deadlocks, RowLock, SchemeName, TimestampSource};
use harness::{
    Adaptation, Choice, Clients, CommitProtocol, DeploymentRequest, Durability, Execution, Length,
    MemoryPlacement, Plan, Transport,
};
use machine::Placement;
use storage::{Optimisation, Optimisations};

use super::changes::{At, changes};
use super::effects;
use super::like::Ways;
use super::pages;
use super::resolved::Config;
use super::sharing::Sharing;
use super::workloads::{RowCount, Workload};
use crate::arguments::{AnyFlag, BenchArguments, CommonFlags, Flag, Given, TextFlag, WorkloadFlag, refuse};
use crate::bad_input::BadInput;
use crate::choices::{
    Adaptive, ConcurrencyControl, DiskKind, Engine, Like, LogDisk, PageSize, RemoteChoice, Switch,
    WorkloadName, choose_instances, named_value,
};
use crate::machine_facts::{MachineFacts, NATIVE};

/// How many it keeps open if nothing else is said and commits are durable.
const IN_FLIGHT_DURABLE: u64 = 64;
const ADAPT_INTERVAL_SECONDS_NATIVE: f64 = 1.0;
const ADAPT_INTERVAL_SECONDS_VIRTUAL: f64 = 0.01;
/// Parts of the timeline if nothing else is said.
const TIMELINE_BINS: u64 = 40;
const SECONDS_NATIVE: f64 = 10.0;
const SECONDS_VIRTUAL: f64 = 0.02;
const WARMUP_SECONDS_NATIVE: f64 = 1.0;
const WARMUP_SECONDS_VIRTUAL: f64 = 0.005;

/// Resolves every flag of a benchmark on `machine`, which is the one that `--machine` names.
///
/// # Errors
/// The first fault: an unknown workload, a flag of another workload or of a later version, a value
/// that is not one of the accepted ones, or values that contradict each other.
pub fn resolve(arguments: &BenchArguments, machine: &MachineFacts) -> Result<Config, BadInput> {
    let workload_name = workload_name(arguments)?;
    if let Some(flag) = arguments.misplaced(workload_name) {
        return Err(misplaced(arguments, &flag, workload_name));
    }
    let common = &arguments.common;
    let native = machine.name == NATIVE;
    // Names come before numbers: a number may be out of range only because a later version is asked
    // for.
    let placement = common.placement.value_or(Placement::Island)?;
    let memory = common.memory.value_or(MemoryPlacement::Local)?;
    let execution = common.execution.value_or(Execution::Inline)?;
    let engine = common.engine.value_or(Engine::Memory)?;
    let cc = ConcurrencyControl::choose(common.cc.text(), engine, execution)?;
    let adaptive = adaptive(execution, &common.adaptive)?;
    let adaptation = adaptation(common, adaptive, native)?;
    // A simulated machine shows what a disk costs when it is asked to.
    let has_database = Workload::has_database(workload_name);
    let uses_pages = engine == Engine::Paged;
    // A simulated machine logs what it is asked to.
    let owns_memory = execution != Execution::Inline && engine == Engine::Memory;
    let logs = has_database && native && !owns_memory;
    let like = common.like.value()?;
    let ways = Ways::of(like);
    if like == Some(Like::ShoreMt) && (native || !uses_pages) {
        let problem = "its path lengths are charged by simulated machines, for rows in pages";
        return Err(BadInput::value("--like", "shore-mt", problem, "with --machine NAME --engine paged"));
    }
    let smt = smt(common, machine)?;
    let evenly = common.machines.whole(1..=machine.machines as u64)?.map(|machines| machines as usize);
    let cores = cores(arguments, machine, smt, evenly)?;
    let sockets = machine.sockets(cores, smt, placement, evenly);
    let machines = evenly.unwrap_or_else(|| machine.machines_in_use(cores, smt));
    let instances = choose_instances(common.deploy.text(), cores, sockets, machines)?;
    let durability_default = if logs { ways.durability } else { Durability::None };
    let durability = common.durability.value_or(durability_default)?;
    if durability != Durability::None && !has_database {
        return Err(BadInput::value(
            "--durability",
            durability.name(),
            "this workload stores nothing",
            "none",
        ));
    }
    divides(common, instances, has_database)?;
    owns(execution, instances, has_database)?;
    if uses_pages {
        pages::refuse(workload_name, has_database)?;
    }
    let stores = uses_pages || durability != Durability::None;
    let disk = disk(common, stores, native)?;
    let log_disk = log_disk(common, durability, native)?;
    let slice_divisor = slice_divisor(common, native)?;
    let path = path(common, durability, native)?;
    let timestamps = common.timestamp.value_or(TimestampSource::Clock)?;
    let mut without = common.without.value_or(ways.without.to_vec())?;
    // The published system has lists and locks of sockets.
    if like == Some(Like::ShoreMt) && execution == Execution::Atrapos {
        without.push(Optimisation::Announcements);
    }
    let row_lock = common.row_lock.value_or(ways.row_lock)?;
    let retry = common.retry.value_or(ways.retry)?;
    let row_copies = common.row_copies.value_or(ways.row_copies)?;
    let commit_locks = common.commit_locks.value_or(ways.commit_locks)?;
    let deadlocks = deadlocks(common, row_lock, ways.deadlocks)?;
    let instrument = common.instrument.value_or(Switch::On)?;
    let Sharing { per_thread, partition_threads } = Sharing::of(arguments, workload_name, execution)?;
    let workers = cores * per_thread;
    let workload = Workload::resolve(workload_name, arguments, workers)?;
    divisible(common, instances, &workload)?;
    remote_rows(common, instances, workers, &workload)?;
    remote_choice(common, instances, &workload)?;
    let scale_caches = scale_caches(common, native, &workload)?;
    let pages = page_size(common, machine, native)?;
    let length = length(common, native)?;
    let warmup_default = if native { WARMUP_SECONDS_NATIVE } else { WARMUP_SECONDS_VIRTUAL };
    let warm_up_seconds = common.warmup.value_or(warmup_default)?;
    let pool_default = || pages::pool_default(&workload, workers, length, warm_up_seconds, machine);
    let pool = pages::pool(common, engine, pool_default, machine)?;
    let seconds_max = match length {
        Length::Seconds(seconds) => Some(seconds),
        Length::Commits(_) | Length::Transactions(_) => None,
    };
    let adapts = adaptive == Some(Adaptive::On);
    let at = changes(common, &workload, seconds_max, sockets, instances, execution, adapts)?;
    let engine = pool.map_or(harness::Engine::Memory, |pool_bytes| harness::Engine::Paged { pool_bytes });
    let deployment = DeploymentRequest {
        workers: cores,
        workers_per_thread: per_thread,
        smt,
        machines: evenly,
        instances,
        placement,
        memory,
        peers: workload.peers(),
        partitioning: workload.partitioning(),
        transport: transport(common, instances, machines)?,
    };
    let repeat = repeat(common, path.as_deref())?;
    let failure = |at: &At| Some(harness::Failure { seconds: at.seconds, socket: at.fails? });
    let plan = Plan {
        engine,
        execution,
        adaptation,
        failures: at.iter().filter_map(failure).collect(),
        shifts: at.iter().filter_map(|at| at.shifts).collect(),
        durability,
        path: path.map(PathBuf::from),
        warm_up_seconds,
        instrument: instrument == Switch::On,
        seed: common.seed.value_or(1)?,
        timestamps,
        optimisations: without.iter().fold(Optimisations::ALL, |all, one| all.without(*one)),
        ways: concurrency::Ways {
            row_lock,
            row_copies,
            commit_locks,
            deadlocks,
            timestamp_draws: ways.timestamp_draws,
        },
        retry,
        partition_threads,
        like_shore_mt: like == Some(Like::ShoreMt),
        clients: clients(common, instances, native)?,
        commit: commit(common, cc)?,
        in_flight: in_flight(common, instances, durability)? as usize,
        ..Plan::new(cc.scheme(), length)
    };
    let config = Config {
        workload,
        machine: machine.name.clone(),
        deployment,
        scale_caches,
        pages,
        cc,
        adaptive,
        disk,
        log_disk,
        slice_divisor,
        like,
        at,
        plan,
        repeat,
        bins: common.bins.value_or(TIMELINE_BINS)? as usize,
        json: common.json,
        report: common.report.clone(),
    };
    effects::check(common, &config, has_database)?;
    keeps_inserts(&config)?;
    if !uses_pages {
        fits_memory(&config.workload, config.deployment.all_workers(), machine)?;
    }
    Ok(config)
}

/// The number of runs: a database of a directory would not begin empty in the second one.
fn repeat(common: &CommonFlags, path: Option<&str>) -> Result<u64, BadInput> {
    match common.repeat.value_or(1)? {
        repeat if repeat > 1 && path.is_some() => {
            let problem = "the database of the first run would be there in the next";
            Err(BadInput::new(format!("--repeat {repeat} with --path"), problem, "one of the two"))
        }
        repeat => Ok(repeat),
    }
}

/// How deadlocks are found: only managers of rows know who waits for whom.
fn deadlocks(common: &CommonFlags, row_lock: RowLock, default: Deadlocks) -> Result<Deadlocks, BadInput> {
    let default = if row_lock == RowLock::Latch { default } else { Deadlocks::Graph };
    match common.deadlocks.value_or(default)? {
        Deadlocks::Lists if row_lock == RowLock::Word => Err(BadInput::value(
            "--deadlocks",
            Deadlocks::Lists.name(),
            "words do not say who waits for whom",
            "graph, or --row-lock latch",
        )),
        way => Ok(way),
    }
}

/// Resolves `--adaptive`.
fn adaptive(execution: Execution, flag: &Option<Given<Adaptive>>) -> Result<Option<Adaptive>, BadInput> {
    if execution == Execution::Atrapos {
        return flag.value_or(Adaptive::On).map(Some);
    }
    let problem = "only --execution atrapos has partitions that could follow the workload";
    refuse(&[flag], problem, "no --adaptive, or --execution atrapos").map(|()| None)
}

/// The adaptation of partitions, or their monitoring, with the shortest interval between two
/// measurements.
fn adaptation(
    common: &CommonFlags,
    adaptive: Option<Adaptive>,
    native: bool,
) -> Result<Option<Adaptation>, BadInput> {
    let flag = &common.adapt_interval;
    let default = if native { ADAPT_INTERVAL_SECONDS_NATIVE } else { ADAPT_INTERVAL_SECONDS_VIRTUAL };
    let seconds = flag.value_or(default)?;
    match adaptive {
        Some(Adaptive::On) => return Ok(Some(Adaptation::every(seconds))),
        Some(Adaptive::Monitor) => return Ok(Some(Adaptation::monitoring(seconds))),
        Some(Adaptive::Off) | None => {}
    }
    let accepted = "no --adapt-interval, or --execution atrapos --adaptive on or monitor";
    refuse(&[flag], "partitions do not follow the workload", accepted).map(|()| None)
}

/// Refuses workers that own partitions where there are none, or where they cannot.
fn owns(execution: Execution, instances: usize, has_database: bool) -> Result<(), BadInput> {
    let refused = |problem: &str, accepted: &str| {
        Err(BadInput::value("--execution", execution.name(), problem, accepted))
    };
    match execution {
        Execution::Inline => Ok(()),
        _ if !has_database => refused("this workload has no transactions", "inline"),
        _ if instances > 1 => refused("workers own partitions of one instance", "inline, or --deploy 1isl"),
        _ => Ok(()),
    }
}

/// Refuses several instances where there is nothing to divide, and what they cannot do.
fn divides(common: &CommonFlags, instances: usize, has_database: bool) -> Result<(), BadInput> {
    if instances == 1 {
        return Ok(());
    }
    let text = common.deploy.text().unwrap_or_default();
    if !has_database {
        let problem = "this workload stores nothing that could be divided";
        return Err(BadInput::value("--deploy", text, problem, "1isl, machine"));
    }
    let without = common.without.value()?.unwrap_or_default();
    if without.contains(&Optimisation::BoundedSpin) {
        let name = Optimisation::BoundedSpin.name();
        let problem = "several instances need bounded waits";
        return Err(BadInput::value("--without", name, problem, "other optimisations, or one instance"));
    }
    Ok(())
}

/// Refuses several instances where the transactions of the workload need all data.
fn divisible(common: &CommonFlags, instances: usize, workload: &Workload) -> Result<(), BadInput> {
    match (workload.undivided(), common.deploy.text()) {
        (Some((flag, why)), Some(text)) if instances > 1 => {
            Err(BadInput::value("--deploy", text, why, format!("1isl, or another {flag}")))
        }
        _ => Ok(()),
    }
}

/// Refuses remote rows in other instances where there is no other one, or where the instances of
/// rows do not follow from their numbers.
fn remote_rows(
    common: &CommonFlags,
    instances: usize,
    cores: usize,
    workload: &Workload,
) -> Result<(), BadInput> {
    let Some((flag, parts)) = workload.parts_of_other_instances(cores) else { return Ok(()) };
    let refused = |problem: &str, accepted: &str| {
        Err(BadInput::value("--remote-rows", "other-instance", problem, accepted))
    };
    if common.deploy.is_none() {
        return refused("there is one instance", "any, or --deploy");
    }
    if instances > 1 && !cores.is_multiple_of(instances) {
        return refused("instances have different sizes", "any, or --cores that --deploy divides");
    }
    if instances > 1 && !parts.is_multiple_of(cores) {
        return refused("workers have different shares", &format!("any, or {flag} a multiple of --cores"));
    }
    Ok(())
}

/// Refuses remote warehouses at a distance where instances or clients draw them.
fn remote_choice(common: &CommonFlags, instances: usize, workload: &Workload) -> Result<(), BadInput> {
    let Workload::Tpcc(tpcc) = workload else { return Ok(()) };
    let refused = |problem: &str, accepted: &str| {
        Err(BadInput::value("--remote-choice", tpcc.remote_choice.name(), problem, accepted))
    };
    match common.clients.value_or(Clients::Worker)? {
        _ if tpcc.remote_choice == RemoteChoice::Any => Ok(()),
        _ if instances > 1 => refused("there are several instances", "any, or --deploy 1isl"),
        Clients::Worker => Ok(()),
        _ => refused("requests are drawn before their worker is chosen", "any, or --clients worker"),
    }
}

/// Resolves `--scale-caches`: on if caches shrink with the data.
fn scale_caches(common: &CommonFlags, native: bool, workload: &Workload) -> Result<Switch, BadInput> {
    let switch = common.scale_caches.value_or(Switch::Off)?;
    let refused = |problem: &str, accepted: &str| BadInput::value("--scale-caches", "on", problem, accepted);
    match (switch, native, workload.scale()) {
        (Switch::On, true, _) => Err(refused("this machine has the caches it has", "off, or --machine")),
        (Switch::On, _, None) => Err(refused("the data of this workload have no --scale", "off")),
        _ => Ok(switch),
    }
}

/// Resolves `--pages`: the engine requests huge pages, and machines without TLBs do not show them.
fn page_size(common: &CommonFlags, machine: &MachineFacts, native: bool) -> Result<PageSize, BadInput> {
    let size = common.pages.value_or(PageSize::Huge)?;
    let refused = |problem: &str, accepted: &str| {
        Err(BadInput::value("--pages", PageSize::Small.name(), problem, accepted))
    };
    match (size, native) {
        (PageSize::Small, true) => {
            refused("regions request huge pages from this machine", "huge, or --machine")
        }
        (PageSize::Small, false) if !machine.has_tlbs => {
            refused("the machine's description has no TLBs", "huge, or a machine with core.tlb")
        }
        _ => Ok(size),
    }
}

/// How instances on one machine talk. Where each has a machine of its own, there is tcp only.
fn transport(common: &CommonFlags, instances: usize, machines: usize) -> Result<Transport, BadInput> {
    let apart = machines > 1 && instances == machines;
    let default = if apart { Transport::Tcp } else { Transport::Shm };
    match common.transport.value_or(default)? {
        Transport::Tcp => Ok(Transport::Tcp),
        within if apart => {
            let problem = "each instance has a machine of its own, and memory is not shared between machines";
            Err(BadInput::value("--transport", within.name(), problem, "tcp"))
        }
        within => Ok(within),
    }
}

/// The drawing of requests: instances of this machine are processes, which share no clients.
fn clients(common: &CommonFlags, instances: usize, native: bool) -> Result<Clients, BadInput> {
    match common.clients.value_or(Clients::Worker)? {
        Clients::Global if native && instances > 1 => Err(BadInput::value(
            "--clients",
            Clients::Global.name(),
            "instances on this machine are processes, and clients are in one",
            "worker, instance, or --machine",
        )),
        clients => Ok(clients),
    }
}

/// The order in which parts lock: partitions are locked in the order of the instances.
fn commit(common: &CommonFlags, cc: ConcurrencyControl) -> Result<CommitProtocol, BadInput> {
    match common.commit.value_or(CommitProtocol::Classic)? {
        CommitProtocol::Published if cc == ConcurrencyControl::Scheme(SchemeName::Hstore) => {
            Err(BadInput::value(
                "--commit",
                CommitProtocol::Published.name(),
                "parts lock partitions in the order of the instances under hstore",
                "classic, or another --cc",
            ))
        }
        commit => Ok(commit),
    }
}

/// The transactions over several instances that a worker keeps open: where they wait for a disk,
/// many.
fn in_flight(common: &CommonFlags, instances: usize, durability: Durability) -> Result<u64, BadInput> {
    let waits = instances > 1 && durability != Durability::None;
    common.in_flight.value_or(if waits { IN_FLIGHT_DURABLE } else { 1 })
}

/// The number by which time slices are divided.
fn slice_divisor(common: &CommonFlags, native: bool) -> Result<u64, BadInput> {
    if native {
        let problem = "this machine has the time slices it has";
        refuse(&[&common.slice_divisor], problem, "no --slice-divisor, or --machine")?;
    }
    common.slice_divisor.value_or(1)
}

/// The simulated device of the log, if it has one of its own.
fn log_disk(common: &CommonFlags, durability: Durability, native: bool) -> Result<Option<LogDisk>, BadInput> {
    let flags: [&dyn AnyFlag; 1] = [&common.log_disk];
    if native {
        refuse(&flags, "this machine has the disk it has", "no --log-disk, or --machine")?;
    }
    if durability == Durability::None {
        refuse(&flags, "nothing is logged", "no --log-disk, or --durability async, group, sync")?;
    }
    common.log_disk.value()
}

/// The simulated device; none on hardware, and where nothing is stored.
fn disk(common: &CommonFlags, stores: bool, native: bool) -> Result<Option<DiskKind>, BadInput> {
    let disk = common.disk.value_or(DiskKind::Ram)?;
    if native {
        refuse(&[&common.disk], "this machine has the disk it has", "no --disk, or --machine")?;
    }
    if !stores {
        let accepted = "no --disk, or --durability async, group, sync";
        refuse(&[&common.disk], "nothing is logged", accepted)?;
    }
    Ok((!native && stores).then_some(disk))
}

/// The directory of the database, if one is named.
fn path(common: &CommonFlags, durability: Durability, native: bool) -> Result<Option<String>, BadInput> {
    if !native {
        refuse(&[&common.path], "a simulated disk begins empty", "no --path")?;
    }
    if durability == Durability::None {
        let accepted = "no --path, or --durability async, group, sync";
        refuse(&[&common.path], "nothing is logged", accepted)?;
    }
    common.path.value()
}

fn workload_name(arguments: &BenchArguments) -> Result<WorkloadName, BadInput> {
    named_value("WORKLOAD", &arguments.workload)
}

/// The fault of a flag that belongs to other workloads.
fn misplaced(arguments: &BenchArguments, flag: &WorkloadFlag, workload: WorkloadName) -> BadInput {
    let all = arguments.workload_flags();
    let own = all.iter().filter(|other| other.owners.iter().any(|owner| owner == workload.name()));
    let accepted: Vec<&str> = own.map(|other| other.name.as_str()).collect();
    let owners = flag.owners.join(" and ");
    BadInput::new(
        flag.name.as_str(),
        format!("a flag of workload {owners}, not of {}", workload.name()),
        accepted.join(", "),
    )
}

fn smt(common: &CommonFlags, machine: &MachineFacts) -> Result<usize, BadInput> {
    let most = machine.threads_by_smt.len();
    let given = common.smt.whole(1..=most as u64)?;
    Ok(given.map_or(most, |smt| smt as usize))
}

/// The number of workers: `--cores`, or `--threads` of the counter workload.
fn cores(
    arguments: &BenchArguments,
    machine: &MachineFacts,
    smt: usize,
    machines: Option<usize>,
) -> Result<usize, BadInput> {
    let most = machines.map_or(machine.threads_by_smt[smt - 1], |some| some * machine.threads_of_one(smt));
    let range: RangeInclusive<u64> = 1..=most as u64;
    // An instance lies within one machine.
    let is_one = arguments.common.deploy.text().is_none_or(|deploy| deploy == "1isl");
    let all = if is_one { machine.threads_of_one(smt) } else { most };
    let cores = arguments.common.cores.whole(range.clone())?;
    if arguments.workload == WorkloadName::Ipc.name() {
        return peers(cores, most);
    }
    let threads = arguments.counter.threads.whole(range)?;
    let given = cores.or(threads);
    if let (Some(machines), Some(workers)) = (machines, given)
        && !workers.is_multiple_of(machines as u64)
    {
        let problem = format!("{machines} machines cannot have equally many of them");
        return Err(BadInput::value("--cores", &workers.to_string(), problem, "a multiple of --machines"));
    }
    match (cores, threads) {
        (Some(cores), Some(threads)) if cores != threads => Err(BadInput::new(
            format!("--threads {threads} with --cores {cores}"),
            "both give the number of workers",
            "one of the two",
        )),
        (Some(workers), _) | (None, Some(workers)) => Ok(workers as usize),
        (None, None) => Ok(all),
    }
}

/// The workers of the message experiment: always two.
fn peers(cores: Option<u64>, most: usize) -> Result<usize, BadInput> {
    if let Some(cores) = cores.filter(|cores| *cores != 2) {
        return Err(BadInput::value("--cores", &cores.to_string(), "messages go between two peers", "2"));
    }
    if most < 2 {
        let problem = "messages go between two peers, and the machine has one hardware thread";
        return Err(BadInput::new("WORKLOAD ipc", problem, "a machine with two"));
    }
    Ok(2)
}

fn length(common: &CommonFlags, native: bool) -> Result<Length, BadInput> {
    let seconds = common.seconds.value()?;
    let transactions = common.transactions.value()?;
    match (seconds, transactions) {
        (Some(_), Some(_)) => Err(BadInput::new(
            "--seconds with --transactions",
            "each gives the length of the run",
            "one of the two",
        )),
        (None, Some(transactions)) => Ok(Length::Commits(transactions)),
        (Some(seconds), None) => Ok(Length::Seconds(seconds)),
        (None, None) => Ok(Length::Seconds(if native { SECONDS_NATIVE } else { SECONDS_VIRTUAL })),
    }
}

/// Refuses to log rows that are in no index: they would be missing after a restart.
fn keeps_inserts(config: &Config) -> Result<(), BadInput> {
    match &config.workload {
        Workload::Tpcc(tpcc)
            if tpcc.index_inserts == Switch::Off && config.plan.engine != harness::Engine::Memory =>
        {
            let problem = "a row in no index has no place in a page";
            Err(BadInput::value("--index-inserts", "off", problem, "on, or --engine memory"))
        }
        Workload::Tpcc(tpcc)
            if tpcc.index_inserts == Switch::Off && config.plan.durability != Durability::None =>
        {
            let durability = config.plan.durability.name();
            Err(BadInput::new(
                format!("--index-inserts off with --durability {durability}"),
                "rows in no index are in no log",
                "--durability none",
            ))
        }
        _ => Ok(()),
    }
}

/// Refuses what cannot fit: the bare rows alone are larger than the memory.
fn fits_memory(workload: &Workload, cores: usize, machine: &MachineFacts) -> Result<(), BadInput> {
    let Some(available) = machine.host_memory_bytes else { return Ok(()) };
    let RowCount { flag, count, bytes: needed, .. } = workload.rows_loaded(cores);
    if needed <= available as f64 {
        return Ok(());
    }
    let gib = |bytes: f64| bytes / (1u64 << 30) as f64;
    let most = (count as f64 * (available as f64 / needed)).floor();
    let problem = format!("rows of {:.1} GiB in a memory of {:.1} GiB", gib(needed), gib(available as f64));
    Err(BadInput::value(flag, &count.to_string(), problem, format!("less than {most}")))
}
