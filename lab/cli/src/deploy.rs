//! `isles deploy`: runs what a deployment file says on the instances that it describes.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use harness::{DeploymentError, Durability, Instances, Machines, RunFile};
use secure_links::Day;

use crate::arguments::{BenchArguments, DeployArguments, TextFlag};
use crate::bad_input::BadInput;
use crate::choices::RemoteChoice;
use crate::commands::{Arguments, Command};
use crate::config::{self, Config, Workload};
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::machine_facts::{MachineFacts, NATIVE};
use crate::machines;
use crate::progress::Progress;
use crate::runner;
use crate::{bench, usage};

/// Whose certificate has fewer days left is told so.
const DAYS_OF_WARNING: u64 = 30;

/// Runs it.
pub fn run(arguments: &DeployArguments) -> Result<(), Failure> {
    let file = RunFile::from_file(Path::new(&arguments.file)).map_err(|error| match error {
        DeploymentError::File { problem, .. } => fault(arguments, problem),
        other => fault(arguments, other.to_string()),
    })?;
    let flags = flags(&file);
    let mut config = asked(&flags, &file).map_err(|problem| fault(arguments, problem))?;
    config.json = arguments.json;
    let instances = file.deployment.instances.len();
    let instance = arguments.instance.whole(0..=instances as u64 - 1)?;
    check_machine(&file, instance).map_err(|problem| fault(arguments, problem))?;
    let credentials = |machines: &Machines, instance| {
        let found = machines.credentials(Path::new(&arguments.file), instance);
        let found = found.map_err(|error| fault(arguments, format!("certificates: {error}")))?;
        if let Some(validity) = found.as_ref().and_then(|credentials| credentials.expires())
            && validity.last_day < Day::today().plus(DAYS_OF_WARNING)
        {
            let (path, last_day) = (validity.path.display(), validity.last_day);
            let line = format!("isles: warning: {path} expires soon, its last day is {last_day}");
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        Ok::<_, Failure>(found)
    };
    match (instance, file.machines.clone()) {
        (Some(number), Some(machines)) => {
            let asked = runner::asked(&config).map_err(|failure| failure.to_string());
            let credentials = credentials(&machines, Some(number as usize))?;
            harness::join_deployment(asked, &machines, credentials, number as usize, file.fingerprint())
                .map_err(Failure::of)
        }
        (Some(_), None) => {
            let problem = "its instances have no addresses";
            Err(BadInput::new("--instance", problem, "a deployment on several machines").into())
        }
        (None, machines) => {
            let interrupt = Interrupt::on_signals()?;
            let progress = Progress::on_standard_error();
            let fingerprint = file.fingerprint();
            let paths = file.paths.clone();
            let instances = match machines {
                Some(machines) => {
                    let credentials = credentials(&machines, None)?;
                    Instances::Come { machines, paths, fingerprint, credentials }
                }
                None => runner::started(flags, paths)?,
            };
            let report = runner::run_on(&config, &file.deployment, &instances, &progress, &interrupt)?;
            bench::print_report(&config, &report, None)
        }
    }
}

/// Refuses hardware threads and memory nodes that this machine has not, for the workers that are to
/// run on it: those of `instance`, or, where no instance is on another machine, all.
fn check_machine(file: &RunFile, instance: Option<u64>) -> Result<(), String> {
    let instances = file.deployment.instances.iter().enumerate();
    let here = instances.filter(|(number, _)| match instance {
        Some(instance) => *number as u64 == instance,
        None => file.machines.is_none(),
    });
    let workers =
        here.flat_map(|(number, instance)| instance.workers.iter().map(move |worker| (number, worker)));
    let mut asked = workers.filter(|(_, worker)| worker.thread.is_some() || worker.node.is_some()).peekable();
    if asked.peek().is_none() {
        return Ok(());
    }
    let topology = machines::native().map_err(|error| error.to_string())?;
    let numbers = |mut all: Vec<u32>| {
        all.sort_unstable();
        all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    };
    for (number, worker) in asked {
        if let Some(thread) = worker.thread.filter(|thread| topology.socket_of(*thread).is_none()) {
            let known = numbers(topology.hardware_threads().iter().map(|thread| thread.0).collect());
            return Err(format!(
                "instance {number}: hardware thread {}: this machine has, or allows, {known}",
                thread.0
            ));
        }
        let nodes = || topology.nodes().iter().chain(topology.memory_only_nodes()).map(|node| node.node);
        if let Some(node) = worker.node.filter(|node| !nodes().any(|known| known == *node)) {
            let known = numbers(nodes().map(|node| node.0).collect());
            return Err(format!(
                "instance {number}: memory node {}: this machine has, or allows, {known}",
                node.0
            ));
        }
    }
    Ok(())
}

fn fault(arguments: &DeployArguments, problem: String) -> BadInput {
    BadInput::see(&arguments.file, problem, "see docs/deployments.md")
}

/// The flags of `isles bench` for what the file says.
fn flags(file: &RunFile) -> Vec<OsString> {
    let deployment = &file.deployment;
    let workers = deployment.workers().to_string();
    let instances = deployment.instances.len();
    let instances = format!("{instances}isl");
    // `--deploy` stands there for one instance, too: the file says how instances talk in any case.
    let known = ["--cores", &workers, "--deploy", &instances, "--transport", deployment.transport.name()];
    file.run.split_whitespace().chain(known).map(OsString::from).collect()
}

/// The configuration that these flags give.
fn asked(flags: &[OsString], file: &RunFile) -> Result<Config, String> {
    if file.run.trim().is_empty() {
        return Err("it does not say what to run, as in run = \"tpcc --seconds 5\"".to_owned());
    }
    let words = ["isles", "bench"].into_iter().map(OsString::from).chain(flags.iter().cloned());
    let bench = match usage::parse(words) {
        Ok(Arguments { command: Command::Bench(bench) }) => bench,
        Err(usage::Stop::Fault(fault)) => return Err(format!("run: {fault}")),
        _ => return Err("run: not the words of a benchmark".to_owned()),
    };
    if let Some(flag) = of_the_file(&bench) {
        return Err(format!("run: {flag}: the file says that"));
    }
    let deployment = &file.deployment;
    let machine = MachineFacts {
        name: NATIVE.to_owned(),
        threads_by_smt: vec![deployment.workers()],
        sockets_by_smt: vec![deployment.sockets()],
        machines: 1,
        host_memory_bytes: None,
        has_tlbs: false,
    };
    let config = config::resolve(&bench, &machine).map_err(|fault| format!("run: {fault}"))?;
    if config.repeat > 1 {
        return Err("run: --repeat: the instances are started once".to_owned());
    }
    if matches!(&config.workload, Workload::Tpcc(tpcc) if tpcc.remote_choice != RemoteChoice::Any) {
        return Err("run: --remote-choice: the distances of its workers are not known".to_owned());
    }
    match (file.paths.is_empty(), config.plan.durability) {
        (false, _) if config.plan.path.is_some() => Err("run: --path: the instances have paths".to_owned()),
        (false, _) if deployment.instances.len() == 1 && file.machines.is_none() => {
            Err("the path of a single instance: run says it with --path".to_owned())
        }
        (false, Durability::None) => Err("its instances have paths, and nothing is logged".to_owned()),
        _ => Ok(config),
    }
}

/// A flag of what a deployment file says itself.
fn of_the_file(bench: &BenchArguments) -> Option<&'static str> {
    let common = &bench.common;
    let given = [
        ("--machine", common.machine.is_some()),
        ("--smt", common.smt.is_some()),
        ("--placement", common.placement.is_some()),
        ("--memory", common.memory.is_some()),
        ("--json", common.json),
        ("--report", common.report.is_some()),
    ];
    given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}
