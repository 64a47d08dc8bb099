//! A described machine as a virtual machine.

use machine::Description;
use sim::{Config as SimConfig, Disk, DiskModel, Faults, VirtualMachine};

use super::setting::Setting;
use super::{Companions, on_platform};
use crate::choices::DiskKind;
use crate::config::row_bytes;
use crate::errors::Failure;
use crate::report::Measurement;

/// A new disk of this kind.
fn disk(kind: DiskKind) -> Disk {
    let model = match kind {
        DiskKind::Ram => DiskModel::RAM,
        DiskKind::Nvme => DiskModel::NVME,
        DiskKind::Hdd => DiskModel::HDD,
    };
    Disk::new(model, Faults::default())
}

/// Runs the benchmark inside a virtual machine of this description.
pub(super) fn run(description: &Description, with: Companions<'_>) -> Result<Measurement, Failure> {
    let failed = |error| Failure::Failed(format!("--machine {}: {error}", description.name));
    let (_, _, bytes) = row_bytes(&with.config.workload, with.config.cores);
    let sim = SimConfig {
        seed: with.config.seed,
        expected_bytes: bytes as usize,
        disk: with.config.disk.map(disk),
        ..SimConfig::of(description).map_err(failed)?
    };
    let host_memory = crate::machines::native()?.memory_bytes();
    let setting = Setting::of_threads(with.config, &description.topology, &description.hops, host_memory)?;
    let outcome = VirtualMachine::run(&sim, |c| on_platform::<VirtualMachine>(c, &setting, with));
    outcome.map_err(failed)?.value
}
