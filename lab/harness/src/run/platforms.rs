//! Selects platform and workload, and calls code that is generic over both.

use boundary::{Database, Procedure};
use platform::Hardware;
use sim::{VirtualCore, VirtualMachine};

use crate::context::Context;
use crate::control::Control;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::execution::executor::MakeInline;
use crate::execution::executors::Executors;
use crate::host::Host;
use crate::measurement::values::Measurement;
use crate::plan::Plan;
use crate::run::transactions;
use crate::workloads::workload::Workload;
use crate::workloads::{any, counter, experiments, lock, processes};

/// Loads, warms up, runs and checks a workload on this machine. Called on a thread that is not one
/// of the workers.
///
/// # Errors
/// [`RunError`]. A violated check is no error: it is part of the measurement.
pub fn on_hardware(
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    control: Control<'_>,
) -> Result<Measurement, RunError> {
    let (c, cx) = (Hardware::core(), Context { plan, deployment, control });
    match workload {
        Workload::IpcBetweenProcesses(other) => processes::ipc(c, other, cx),
        _ => on_platform::<Hardware>(c, workload, cx),
    }
}

/// As [`on_hardware`], in a virtual machine, on the core that runs its main fiber.
///
/// # Errors
/// As [`on_hardware`].
pub fn in_virtual_machine(
    c: VirtualCore,
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    control: Control<'_>,
) -> Result<Measurement, RunError> {
    on_platform::<VirtualMachine>(c, workload, Context { plan, deployment, control })
}

/// Runs a workload that may be missing in the list, for tests: `inline` creates inline executors,
/// such as those of [`crate::dynamic`], for which the engine is not compiled with the procedures.
/// `inspect` receives the database after the checks.
///
/// # Errors
/// As [`on_hardware`].
pub fn run_and_inspect<P: Host, W: workloads::Workload>(
    c: P::Core,
    workload: &W,
    plan: &Plan,
    deployment: &Deployment,
    control: Control<'_>,
    inline: MakeInline<P, W::Procedure>,
    mut inspect: impl FnMut(&Database<P>, &<W::Procedure as Procedure>::Tables),
) -> Result<Measurement, RunError> {
    deployment.check().map_err(RunError::of)?;
    let executors = Executors { inline };
    transactions::run(c, workload, Context { plan, deployment, control }, &executors, &mut inspect)
}

fn on_platform<P: Host>(c: P::Core, workload: &Workload, cx: Context<'_>) -> Result<Measurement, RunError> {
    if let Some(any) = workload.transactions() {
        cx.deployment.check().map_err(RunError::of)?;
        return transactions::run(c, &any, cx, &Executors { inline: any::inline::<P> }, &mut |_, _| ());
    }
    cx.deployment.check_single().map_err(RunError::of)?;
    match workload {
        Workload::Counter(groups) => counter::run::<P>(c, *groups, cx),
        Workload::Lock(wanted) => lock::run::<P>(c, wanted, cx),
        Workload::Ipc { mechanism, message_bytes } => {
            experiments::ipc::<P>(c, *mechanism, *message_bytes, cx)
        }
        Workload::Memory { rows } => experiments::memory::<P>(c, *rows, cx),
        _ => Err(RunError::Refused("a simulated machine has no processes".to_owned())),
    }
}
