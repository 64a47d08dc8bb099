//! A described machine as a virtual machine.

use machine::Description;
use sim::{Config as SimConfig, VirtualMachine};

use super::setting::Setting;
use super::{Companions, on_platform};
use crate::errors::Failure;
use crate::report::Measurement;

/// Runs the benchmark inside a virtual machine of this description.
pub(super) fn run(description: &Description, with: Companions<'_>) -> Result<Measurement, Failure> {
    let failed = |error| Failure::Failed(format!("--machine {}: {error}", description.name));
    let sim = SimConfig::of(description).map_err(failed)?.with_seed(with.config.seed);
    let host_memory = crate::machines::native()?.memory_bytes();
    let setting = Setting::of_threads(with.config, &description.topology, host_memory)?;
    let outcome = VirtualMachine::run(&sim, |c| on_platform::<VirtualMachine>(c, &setting, with));
    outcome.map_err(failed)?.value
}
