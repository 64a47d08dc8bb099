//! Runs a configuration: the driver does, on this machine or inside a virtual one.

mod faults;
mod remote_choice;
mod virtual_machine;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Instant;

use harness::{Control, Deployment, InstanceProgram, Instances, Measurement, Plan, Workload};

use crate::arguments::INSTANCE_COMMAND;
use crate::config::Config;
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::machines;
use crate::progress::Progress;
use crate::report::{Caches, Report, SimulationCost};

/// Loads, warms up, runs and checks what `config` says.
///
/// `flags` are those that `config` was made of, in case instances are processes of their own.
/// Called on the main thread, which alone calls `progress`. When `interrupt` is requested, loading
/// ends with [`Failure::Failed`] and a run ends early with a report of what ran.
///
/// # Errors
/// [`Failure::BadInput`] for what only the machine can know (memory nodes that are not there),
/// otherwise [`Failure::Failed`]. A violated check is no error here: it stands in the report.
pub fn run(
    config: &Config,
    flags: Vec<OsString>,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let started = Instant::now();
    let control = Control { progress, stop_requested: &|| interrupt.requested() };
    let (measured, caches) = if config.native() {
        (on_hardware(config, flags, control)?, None)
    } else {
        let description = machines::described(&config.machine)?;
        let (measured, caches) = virtual_machine::run(&description, config, control)?;
        (measured, Some(Caches::of(caches)))
    };
    let host_seconds = started.elapsed().as_secs_f64();
    progress.done();
    let peak_memory_bytes = peak_memory_bytes();
    let report = Report::new(config, measured);
    let simulation = report.simulation.map(|cost| SimulationCost { peak_memory_bytes, ..cost });
    Ok(Report { host_seconds, simulation, caches, ..report })
}

/// As [`run`], on the instances of a deployment that was given.
///
/// # Errors
/// As [`run`].
pub fn run_on(
    config: &Config,
    deployment: &Deployment,
    instances: &Instances,
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<Report, Failure> {
    let started = Instant::now();
    let control = Control { progress, stop_requested: &|| interrupt.requested() };
    let measured = on_instances(config, deployment, instances, control)?;
    let host_seconds = started.elapsed().as_secs_f64();
    progress.done();
    Ok(Report { host_seconds, ..Report::new(config, measured) })
}

/// The most memory that this process has had so far; `None` if the operating system does not say.
fn peak_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// The workload and plan of each instance of `config`.
///
/// # Errors
/// The flags do not fit the engine.
pub fn asked(config: &Config) -> Result<(Workload, Plan), Failure> {
    Ok((config.harness_workload()?, config.plan.clone()))
}

fn on_hardware(config: &Config, flags: Vec<OsString>, control: Control<'_>) -> Result<Measurement, Failure> {
    let topology = machines::native()?;
    let deployment = Deployment::on_topology(&config.deployment, &topology)
        .map_err(|error| faults::fault(config, error))?;
    let config = &remote_choice::chosen(config, &deployment, &topology, &|from, to| {
        topology.distance(topology.nodes()[from].node, topology.nodes()[to].node)
    })?;
    on_instances(config, &deployment, &started(flags, Vec::new())?, control)
}

/// Processes of this program, with these flags, whose databases are in these directories, if that
/// is said.
///
/// # Errors
/// The operating system does not say where the program is.
pub fn started(flags: Vec<OsString>, paths: Vec<PathBuf>) -> Result<Instances, Failure> {
    let program = std::env::current_exe().map_err(Failure::of)?;
    let arguments = std::iter::once(INSTANCE_COMMAND.into()).chain(flags).collect();
    Ok(Instances::Started(InstanceProgram { program, arguments, paths }))
}

/// A single instance that no other process has to find is in this process.
fn on_instances(
    config: &Config,
    deployment: &Deployment,
    instances: &Instances,
    control: Control<'_>,
) -> Result<Measurement, Failure> {
    let (workload, plan) = asked(config)?;
    let measured = match (deployment.instances.len(), instances) {
        (0 | 1, Instances::Started(_)) => harness::on_hardware(&workload, &plan, deployment, control),
        _ => harness::on_processes(&workload, &plan, deployment, instances, control),
    };
    measured.map_err(Failure::of_run)
}
