//! A described machine as a virtual machine.

use machine::Description;
use sim::{Config as SimConfig, VirtualMachine};

use super::setting::Setting;
use super::{Companions, on_platform};
use crate::config::row_bytes;
use crate::errors::Failure;
use crate::report::Measurement;

/// Runs the benchmark inside a virtual machine of this description.
pub(super) fn run(description: &Description, with: Companions<'_>) -> Result<Measurement, Failure> {
    let failed = |error| Failure::Failed(format!("--machine {}: {error}", description.name));
    let (_, _, bytes) = row_bytes(&with.config.workload, with.config.cores);
    let sim = SimConfig {
        seed: with.config.seed,
        expected_bytes: bytes as usize,
        ..SimConfig::of(description).map_err(failed)?
    };
    let host_memory = crate::machines::native()?.memory_bytes();
    let setting = Setting::of_threads(with.config, &description.topology, host_memory)?;
    let outcome = VirtualMachine::run(&sim, |c| on_platform::<VirtualMachine>(c, &setting, with));
    outcome.map_err(failed)?.value
}
