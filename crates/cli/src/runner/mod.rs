//! Runs a configuration: the driver does, on this machine or inside a virtual one.

mod translation;
mod virtual_machine;

use std::time::Instant;

use driver::{Control, Deployment, Measurement};

use crate::config::Config;
use crate::errors::Failure;
use crate::interrupt::Interrupt;
use crate::machines;
use crate::progress::Progress;
use crate::report::Report;

/// Loads, warms up, runs and checks what `config` says.
///
/// Called on the main thread. `progress` is called from this thread only. When `interrupt` is requested, loading ends
/// with [`Failure::Failed`] and a run ends early with a report of what ran.
///
/// # Errors
/// [`Failure::BadInput`] for what only the machine can know (memory nodes that are not there), otherwise
/// [`Failure::Failed`]. A violated check is no error here: it stands in the report.
pub fn run(config: &Config, progress: &Progress, interrupt: &Interrupt) -> Result<Report, Failure> {
    let started = Instant::now();
    let control = Control { progress, stop_requested: &|| interrupt.requested() };
    let measured = if config.native() {
        on_hardware(config, control)?
    } else {
        let description = machines::described(&config.machine)?;
        virtual_machine::run(&description, config, control)?
    };
    let host_seconds = started.elapsed().as_secs_f64();
    progress.done();
    Ok(Report { host_seconds, ..Report::new(config, measured) })
}

fn on_hardware(config: &Config, control: Control<'_>) -> Result<Measurement, Failure> {
    let deployment = Deployment::on_topology(&translation::deployment_request(config), &machines::native()?)
        .map_err(|error| translation::fault(config, error))?;
    let (workload, plan) = (config.workload.for_driver(config.cores)?, translation::plan(config));
    driver::on_hardware(&workload, &plan, &deployment, control).map_err(Failure::of)
}
