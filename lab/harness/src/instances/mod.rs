//! Instances as processes of their own: on this machine's hardware the command starts one for each
//! instance of a deployment, watches it, and ends it.
//!
//! - `messages`: the messages between the command and an instance;
//! - `child`: the process of an instance;
//! - `links`: links between workers of different processes;
//! - `crew`: the processes as the command sees them; `arrivals`: processes of other machines, which
//!   connect to the command;
//! - `command`: a run, from the command's side; `outliving`: a run in which instances may end and
//!   come back.
//!
//! Durable instances are opened together: each reports the content of its directory and its
//! transactions in doubt, and the command, which has all reports, orders the instances to load, or
//! to finish these transactions.
//!
//! Both sides read the same flags, so workload and plan are not sent; a fingerprint of the plan
//! shows that they agree. An instance that ends, in whichever way, closes its standard output, and
//! the command reports which one it was and how it ended. A command that ends closes the standard
//! input of its instances, which end, too. Peers detect the end of an instance by their links.
//! Instances on other machines are not children of the command: they connect to it, and the
//! connection replaces standard input and output.

mod arrivals;
mod child;
mod command;
mod crew;
mod in_trouble;
mod links;
mod messages;
mod outliving;

use platform::Hardware;
use secure_links::{Credentials, Trust};

pub use crew::{InstanceProgram, Instances};

use crate::context::Context;
use crate::control::Control;
use crate::deployment::{Deployment, Machines};
use crate::error::RunError;
use crate::execution::executor::MakeInline;
use crate::measurement::values::Measurement;
use crate::plan::Plan;
use crate::workloads::any;
use crate::workloads::workload::Workload;

/// As [`crate::on_hardware`], with a process for each instance.
///
/// # Errors
/// As [`crate::on_hardware`], and an instance that ends too early.
pub fn on_processes(
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    instances: &Instances,
    control: Control<'_>,
) -> Result<Measurement, RunError> {
    let any = workload.transactions().ok_or_else(nothing_to_divide)?;
    run_on_processes(&any, plan, deployment, instances, control)
}

/// As [`on_processes`], with a workload that may be missing in the list, for tests. Its processes
/// call [`run_instance_of`].
///
/// # Errors
/// As [`on_processes`].
pub fn run_on_processes<W: workloads::Workload>(
    workload: &W,
    plan: &Plan,
    deployment: &Deployment,
    instances: &Instances,
    control: Control<'_>,
) -> Result<Measurement, RunError> {
    let checked = match instances {
        Instances::Started(_) => deployment.check(),
        Instances::Come { .. } => deployment.check_apart(),
    };
    checked.map_err(RunError::of)?;
    command::run(Hardware::core(), workload, Context { plan, deployment, control }, instances)
}

/// The main function of an instance's process: it executes the orders of the command that started
/// it, over standard input and output. `asked` is the plan of the flags, or an error in them, which
/// is sent to the command.
///
/// # Errors
/// The command is gone, or there was none.
pub fn run_instance(asked: Result<(Workload, Plan), String>) -> Result<(), RunError> {
    let commander = child::Commander::above()?;
    let task = commander.task()?;
    obey(asked, &task, &commander, None).or_else(|error| commander.fail(&error))
}

/// As [`run_instance`], with a workload that may be missing in the list: see
/// [`crate::run_and_inspect`].
///
/// # Errors
/// As [`run_instance`].
pub fn run_instance_of<W: workloads::Workload>(
    workload: &W,
    plan: &Plan,
    inline: MakeInline<Hardware, W::Procedure>,
) -> Result<(), RunError> {
    let commander = child::Commander::above()?;
    let task = commander.task()?;
    let served = child::serve(Hardware::core(), workload, plan, &task, &commander, inline, None);
    served.or_else(|error| commander.fail(&error))
}

/// As [`run_instance`], for instance `number` of a deployment over several machines. The process
/// connects to the command instead of being started by it. `credentials` are those of this
/// instance, if the deployment has certificates; `fingerprint` is that of the file.
///
/// # Errors
/// There is no command, it refuses this instance, or this instance fails.
pub fn join_deployment(
    asked: Result<(Workload, Plan), String>,
    machines: &Machines,
    credentials: Option<Credentials>,
    number: usize,
    fingerprint: u32,
) -> Result<(), RunError> {
    let trust = machines.trust(credentials.clone()).map_err(RunError::of)?;
    let version = distributed::messages::VERSION;
    let here = messages::Report::Introduction { version, instance: number, file: fingerprint };
    let commander = child::Commander::at(arrivals::reach(machines, credentials.as_ref(), &here)?)?;
    let task = commander.task()?;
    // The error is reported here as well, because the command is on another machine.
    obey(asked, &task, &commander, trust).inspect_err(|error| drop(commander.fail(error)))
}

fn obey(
    asked: Result<(Workload, Plan), String>,
    task: &messages::Task,
    commander: &child::Commander,
    trust: Option<Trust>,
) -> Result<(), RunError> {
    let (workload, plan) = asked.map_err(RunError::Refused)?;
    let any = workload.transactions().ok_or_else(nothing_to_divide)?;
    child::serve(Hardware::core(), &any, &plan, task, commander, any::inline, trust)
}

fn nothing_to_divide() -> RunError {
    RunError::Refused("this workload has no data to divide over instances".to_owned())
}
