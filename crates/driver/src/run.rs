//! Picks platform, scheme and workload once, and hands over to code that is generic over all three.

use cc::{Scheme, SchemeVisitor};
use engine::{Database, Procedure};
use platform::link::Links;
use platform::{Hardware, Platform};
use sim::{VirtualCore, VirtualMachine};

use crate::context::Context;
use crate::control::Control;
use crate::counters::PerformanceCounters;
use crate::deployment::Deployment;
use crate::error::RunError;
use crate::measurement::Measurement;
use crate::plan::Plan;
use crate::workload::Workload;
use crate::{counter, experiments, transactions};

/// Loads, warms up, runs and checks a workload on this machine. Called on a thread that is none of the workers.
///
/// # Errors
/// [`RunError`]. A violated check is no error: it stands in the measurement.
pub fn on_hardware(
    workload: &Workload,
    plan: &Plan,
    deployment: &Deployment,
    control: Control<'_>,
) -> Result<Measurement, RunError> {
    on_platform::<Hardware>(Hardware::core(), workload, Context { plan, deployment, control })
}

/// The same inside a virtual machine, on the core that runs its main fiber.
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

/// Runs a workload that need not be in the list, under a scheme that is known as a type and named by `plan`; `inspect` is
/// shown the database after the checks. For tests: each call compiles the engine once more.
///
/// # Errors
/// As [`on_hardware`].
pub fn run_and_inspect<P: PerformanceCounters, S: Scheme<P>, W: workloads::Workload>(
    c: P::Core,
    workload: &W,
    plan: &Plan,
    deployment: &Deployment,
    control: Control<'_>,
    inspect: impl FnOnce(&Database<P, S>, &<W::Procedure as Procedure>::Tables),
) -> Result<Measurement, RunError> {
    assert_eq!(plan.scheme.name(), S::NAME);
    deployment.check_single().map_err(RunError::of)?;
    transactions::run::<P, S, W>(c, workload, Context { plan, deployment, control }, inspect)
}

fn on_platform<P: PerformanceCounters + Links>(
    c: P::Core,
    workload: &Workload,
    cx: Context<'_>,
) -> Result<Measurement, RunError> {
    cx.deployment.check_single().map_err(RunError::of)?;
    match workload {
        Workload::Tpcc(tpcc) => under_scheme::<P, _>(c, tpcc, cx),
        Workload::Micro(micro) => under_scheme::<P, _>(c, micro, cx),
        Workload::Ycsb(ycsb) => under_scheme::<P, _>(c, ycsb, cx),
        Workload::Counter(groups) => counter::run::<P>(c, *groups, cx),
        Workload::Ipc(mechanism) => experiments::ipc::<P>(c, *mechanism, cx),
        Workload::Memory { rows } => experiments::memory::<P>(c, *rows, cx),
    }
}

fn under_scheme<P: PerformanceCounters, W: workloads::Workload>(
    c: P::Core,
    workload: &W,
    cx: Context<'_>,
) -> Result<Measurement, RunError> {
    cx.plan.scheme.visit::<P, _>(OfWorkload { c, workload, cx })
}

/// A run of transactions, whichever its scheme.
struct OfWorkload<'a, P: Platform, W> {
    c: P::Core,
    workload: &'a W,
    cx: Context<'a>,
}

impl<P: PerformanceCounters, W: workloads::Workload> SchemeVisitor<P> for OfWorkload<'_, P, W> {
    type Output = Result<Measurement, RunError>;

    fn visit<S: Scheme<P>>(self) -> Self::Output {
        transactions::run::<P, S, W>(self.c, self.workload, self.cx, |_, _| ())
    }
}
