//! A described machine as a virtual machine.

use machine::Description;
use sim::{Config as SimConfig, Disk, DiskModel, Faults, VirtualMachine};

use super::setting::Setting;
use super::transactions::reserve_bytes;
use super::{Companions, on_platform};
use crate::choices::{DiskKind, Optimisation, Switch, TpccSchema};
use crate::config::{Workload, row_bytes};
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

/// Bytes of a copy of TPC-C's items and their index at scale 1, measured.
const ITEM_BYTES: f64 = 20e6;

/// Bytes of the copies of TPC-C's items on all memory nodes but the first, roughly.
fn copied_bytes(with: &Companions<'_>, setting: &Setting) -> f64 {
    match &with.config.workload {
        Workload::Tpcc(tpcc) if !with.config.without.contains(&Optimisation::Replicate) => {
            // The small schema has a tenth of the items.
            let share = if tpcc.schema == TpccSchema::Small { 0.1 } else { 1.0 };
            setting.nodes_in_use().len().saturating_sub(1) as f64 * ITEM_BYTES * tpcc.scale * share
        }
        _ => 0.0,
    }
}

/// Bytes of rows and indexes at the end of the run, roughly: what is loaded, what is copied, and some two thirds of what the
/// workers of TPC-C take ahead for rows that they insert.
fn expected_bytes(with: &Companions<'_>, setting: &Setting) -> usize {
    let (_, _, loaded) = row_bytes(&with.config.workload, with.config.cores);
    let inserts = matches!(&with.config.workload, Workload::Tpcc(tpcc) if tpcc.inserts == Switch::On);
    let inserted = if inserts { setting.workers() * reserve_bytes(with.config, setting) * 2 / 3 } else { 0 };
    (loaded + copied_bytes(with, setting)) as usize + inserted
}

/// Runs the benchmark inside a virtual machine of this description.
pub(super) fn run(description: &Description, with: Companions<'_>) -> Result<Measurement, Failure> {
    let failed = |error| Failure::Failed(format!("--machine {}: {error}", description.name));
    let host_memory = crate::machines::native()?.memory_bytes();
    let setting = Setting::of_threads(with.config, &description.topology, &description.hops, host_memory)?;
    let sim = SimConfig {
        seed: with.config.seed,
        expected_bytes: expected_bytes(&with, &setting),
        disk: with.config.disk.map(disk),
        ..SimConfig::of(description).map_err(failed)?
    };
    let outcome = VirtualMachine::run(&sim, |c| on_platform::<VirtualMachine>(c, &setting, with));
    outcome.map_err(failed)?.value
}
