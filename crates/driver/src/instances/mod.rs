//! Instances as processes of their own: on this machine's hardware the command starts one for each instance of a deployment,
//! watches it, and ends it.
//!
//! - `said`: what the command and an instance tell each other;
//! - `child`: the process of an instance;
//! - `links`: how workers of different processes get their links;
//! - `crew`: the processes as the command sees them;
//! - `command`: a run, from the command's side.
//!
//! Both sides read the same flags, so that workload and plan do not travel; a sum over the plan shows that they agree. An
//! instance that ends, in whichever way, closes its standard output, and the command says which it was and how it ended. A
//! command that ends closes the standard input of its instances, which end, too. Peers notice it by their links.

mod child;
mod command;
mod crew;
mod links;
mod said;

use platform::Hardware;

pub use crew::InstanceProgram;

use crate::context::Context;
use crate::control::Control;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::measurement::Measurement;
use crate::plan::Plan;
use crate::workload::Workload;

/// As [`crate::on_hardware`], with a process for each instance, which is started as `program`.
///
/// # Errors
/// As [`crate::on_hardware`], and an instance that ends too early.
pub fn on_processes(
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    program: &InstanceProgram,
    control: Control<'_>,
) -> Result<Measurement, RunError> {
    deployment.check().map_err(RunError::of)?;
    let (c, cx) = (Hardware::core(), Context { plan, deployment, control });
    match workload {
        Workload::Tpcc(tpcc) => command::run(c, tpcc, cx, program),
        Workload::Micro(micro) => command::run(c, micro, cx, program),
        Workload::Ycsb(ycsb) => command::run(c, ycsb, cx, program),
        _ => Err(nothing_to_divide()),
    }
}

/// What the process of an instance does: it obeys the command that has started it, over standard input and output. `asked` is
/// what the flags say, or what is wrong with them, which the command hears.
///
/// # Errors
/// The command is gone, or there was none.
pub fn run_instance(asked: Result<(Workload, Plan), String>) -> Result<(), RunError> {
    let (c, commander) = (Hardware::core(), child::Commander::new()?);
    let task = commander.task()?;
    let served = asked.map_err(RunError::Refused).and_then(|(workload, plan)| match &workload {
        Workload::Tpcc(tpcc) => child::serve(c, tpcc, &plan, &task, &commander),
        Workload::Micro(micro) => child::serve(c, micro, &plan, &task, &commander),
        Workload::Ycsb(ycsb) => child::serve(c, ycsb, &plan, &task, &commander),
        _ => Err(nothing_to_divide()),
    });
    served.or_else(|error| commander.fail(&error))
}

fn nothing_to_divide() -> RunError {
    RunError::Refused("this workload has no data to divide over instances".to_owned())
}
